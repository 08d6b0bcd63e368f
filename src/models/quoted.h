// Names from hostile files in messages: one printable line, whatever bytes the name holds.
#pragma once

#include <string>
#include <string_view>

namespace holdfast {

// `text` in double quotes: control bytes, quotes, backslashes and bytes above ASCII as \xNN, cut after 80
// bytes with "...".
std::string Quoted(std::string_view text);

}  // namespace holdfast
