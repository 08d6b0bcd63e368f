// `--kv-cache auto:kld=X`: a choice that is made once a model and target, printed, kept and used again.
#pragma once

#include <string>

#include "holdfast/auto_scheme.h"

namespace holdfast::cli {

// Whether a value of --kv-cache begins as such a choice does.
bool IsAutoCache(const std::string& spec);
// X of `auto:kld=X`. Error: a wrong command line.
Result<double> ParseAutoCache(const std::string& spec);

// The choice for base (everything but codecs): the one kept beside the model or in the model store's folder if it is
// there, otherwise calibrated on text_file (empty: what the model itself samples) and kept. It is printed on standard
// error. Errors: a text that cannot be read, a damaged file of choices, those of ChooseScheme; not one where the choice
// cannot be kept, which is said on standard error.
Result<AutoScheme> ChooseAutoCache(Engine& engine, const CacheOptions& base, double kld,
                                   const std::string& text_file, int batch_tokens);

}  // namespace holdfast::cli
