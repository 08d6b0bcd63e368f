#include "cli/size.h"

#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string_view>

#include "cli/options.h"

namespace holdfast::cli {
namespace {

constexpr std::string_view kLetters = "kmgt";

// Bytes of a unit in lower case; 0: there is no such unit.
double UnitBytes(const std::string& unit) {
  if (unit.empty() || unit == "b") return 1;
  const size_t power = kLetters.find(unit[0]);
  if (power == std::string_view::npos) return 0;
  const std::string rest = unit.substr(1);
  if (rest.empty() || rest == "ib") return std::pow(1024.0, static_cast<double>(power + 1));
  return rest == "b" ? std::pow(1000.0, static_cast<double>(power + 1)) : 0;
}

}  // namespace

Result<int64_t> ParseSize(const std::string& option, const std::string& text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  std::string unit;
  for (const char* c = rest; c != end; ++c)
    unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  const double bytes = number * UnitBytes(unit);
  constexpr double kLimit = 0x1p62;
  if (error != std::errc() || UnitBytes(unit) <= 0 || !(bytes >= 0 && bytes <= kLimit)) {
    return WrongCommandLine(option + " " + text +
                            ": wanted bytes, or a number with K, M, G or T, in [0, 4194304T]");
  }
  return static_cast<int64_t>(bytes);
}

std::string SizeText(int64_t bytes) {
  auto value = static_cast<double>(bytes);
  size_t power = 0;
  for (; value >= 1024 && power < kLetters.size(); ++power) value /= 1024;
  char text[64];
  if (power == 0) {
    std::snprintf(text, sizeof text, "%lld bytes", static_cast<long long>(bytes));
  } else {
    std::snprintf(text, sizeof text, "%.1f %ciB", value,
                  std::toupper(static_cast<unsigned char>(kLetters[power - 1])));
  }
  return text;
}

}  // namespace holdfast::cli
