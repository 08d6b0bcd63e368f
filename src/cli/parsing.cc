#include "cli/parsing.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <type_traits>

namespace holdfast::cli {
namespace {

constexpr const char* kEmpty = "the value is empty, at least one character is required";

bool TakesValue(const CLI::Option& option) {
  return option.get_items_expected_min() > 0;
}

// Runs before whatever else looks at the value.
void AddFirst(CLI::Option& option, std::string (*rule)(std::string&)) {
  option.transform(CLI::Validator(rule, ""));
}

// An option whose value is empty is a script's unset variable more often than a wish: it is not taken for an
// option that was left out.
std::string RefuseEmpty(std::string& value) {
  return value.empty() ? kEmpty : "";
}

// A leading zero would make the number octal.
std::string MakeDecimal(std::string& value) {
  const size_t sign = value.starts_with('-') || value.starts_with('+') ? 1 : 0;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (!std::all_of(value.begin() + static_cast<std::ptrdiff_t>(sign), value.end(), digit)) return "";
  while (value.size() > sign + 1 && value[sign] == '0') value.erase(sign, 1);
  return "";
}

// The conversion would cut it to the nearest integer that fits.
template <typename T>
std::string RefuseTooLarge(std::string& value) {
  errno = 0;
  if constexpr (std::is_signed_v<T>) {
    static_cast<void>(std::strtoll(value.c_str(), nullptr, 0));
  } else {
    static_cast<void>(std::strtoull(value.c_str(), nullptr, 0));
  }
  if (errno != ERANGE) return "";
  using Limits = std::numeric_limits<T>;
  return "Value " + value + " must be at " +
         (value.starts_with('-') ? "least " + std::to_string(Limits::min())
                                 : "most " + std::to_string(Limits::max()));
}

std::string RefuseNan(std::string& value) {
  return std::isnan(std::strtod(value.c_str(), nullptr)) ? "Value " + value + " is not a number" : "";
}

void AddRules(CLI::Option& option) {
  if (!TakesValue(option)) return;
  const std::string type = option.get_type_name();
  if (type.starts_with("FLOAT")) AddFirst(option, RefuseNan);
  if (type.starts_with("INT")) AddFirst(option, RefuseTooLarge<int64_t>);
  if (type.starts_with("UINT")) AddFirst(option, RefuseTooLarge<uint64_t>);
  if (type.starts_with("INT") || type.starts_with("UINT")) AddFirst(option, MakeDecimal);
  const bool text = option.check_lname("prompt") || option.check_lname("system");
  if (!text) AddFirst(option, RefuseEmpty);
}

const CLI::App* CommandOf(const CLI::App& app, const std::string& name) {
  const auto found = app.get_subcommands([&](const CLI::App* command) { return command->check_name(name); });
  return found.empty() ? nullptr : found.front();
}

// Whether the next argument belongs to this one whatever it looks like.
bool TakesNext(const CLI::App& app, const std::string& argument) {
  const bool alone = argument.starts_with("--") ? argument.find('=') == std::string::npos
                                                : argument.size() == 2 && argument[0] == '-';
  const CLI::Option* option = alone ? app.get_option_no_throw(argument) : nullptr;
  return option != nullptr && TakesValue(*option);
}

}  // namespace

bool IsCommand(const CLI::App& program, const std::string& name) {
  return CommandOf(program, name) != nullptr;
}

CLI::Validator RangeOf(float least, float most) {
  std::ostringstream limits;
  limits << "[" << least << ", " << most << "]";
  const std::string text = limits.str();
  return CLI::Validator(
      [least, most, text](std::string& value) {
        float number = 0.0f;
        if (CLI::detail::lexical_cast(value, number) && number >= least && number <= most)
          return std::string();
        return "Value " + value + " must be in " + text;
      },
      "FLOAT in " + text);
}

void AddRulesOfValues(CLI::App& program) {
  for (CLI::Option* option : program.get_options()) AddRules(*option);
  for (CLI::App* command : program.get_subcommands([](CLI::App*) { return true; }))
    AddRulesOfValues(*command);
}

std::vector<std::string> ArgumentsOf(const CLI::App& program, int argc, const char* const* argv) {
  std::vector<std::string> arguments;
  const CLI::App* app = &program;
  bool is_value = false, positional = false;  // the argument before takes this one; `--` has been seen
  for (int i = 1; i < argc; ++i) {
    const std::string& argument = arguments.emplace_back(argv[i]);
    if (is_value || positional) {
      is_value = false;
      continue;
    }
    positional = argument == "--";
    if (const CLI::App* command = CommandOf(*app, argument); command != nullptr) app = command;
    is_value = TakesNext(*app, argument);
    if (!argument.starts_with("--") || argument.find('=') != argument.size() - 1) continue;
    const std::string name = argument.substr(0, argument.size() - 1);
    const CLI::Option* option = app->get_option_no_throw(name);
    if (option == nullptr) continue;
    if (!TakesValue(*option)) throw CLI::ValidationError(name, kEmpty);
    arguments.back() = name;
    arguments.emplace_back();
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

}  // namespace holdfast::cli
