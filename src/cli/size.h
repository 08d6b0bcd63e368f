// Amounts of memory as people write them.
#pragma once

#include <cstdint>
#include <string>

#include "holdfast/status.h"

namespace holdfast::cli {

// `1048576`, `512MiB` or `512M` (powers of 1024: K M G T), `512MB` (powers of 1000); a fraction as in `1.5G`;
// any case. Errors: a wrong command line that names the option and the value.
Result<int64_t> ParseSize(const std::string& option, const std::string& text);

// `352.0 MiB`, for people.
std::string SizeText(int64_t bytes);

}  // namespace holdfast::cli
