// The live page: one HTML document that needs nothing from elsewhere.
#pragma once

#include <string_view>

namespace holdfast::server {

extern const std::string_view kPageHtml;

}  // namespace holdfast::server
