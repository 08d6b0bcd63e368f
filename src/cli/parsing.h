// Where command lines are to be read otherwise than CLI11 reads them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace holdfast::cli {

// For every option of the program and its commands: an empty value is refused but where it is a text, a number is
// decimal whatever zeros it begins with, fits its type, and is one (NaN compares as in any range).
void AddRulesOfValues(CLI::App& program);

// The arguments, last one first, as App::parse takes them. `--name=` becomes `--name` and an empty value: CLI11 would take
// the next argument for its value, whatever that is. Throws CLI::ValidationError where `--name` takes none.
std::vector<std::string> ArgumentsOf(const CLI::App& program, int argc, const char* const* argv);

bool IsCommand(const CLI::App& program, const std::string& name);

// CLI::Range whose message says limits that six decimals do not: 1e-9 is not 0.000000.
CLI::Validator RangeOf(float least, float most);

}  // namespace holdfast::cli
