// holdfast: the command line. Exit code 0 on success, 2 on a wrong command line, 1 on any other error, with
// one line `holdfast: OPERATION: what, the value, the limit` on standard error.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "cli/commands.h"

namespace {

constexpr int kWrongCommandLine = 2;
constexpr int kFailure = 1;

std::string OneLine(std::string text) {
  for (char& c : text) {
    const bool control =
        (c >= 0 && c < ' ') || c == '\x7f';  // a NUL would end the message, an escape act on a terminal
    if (control) c = c == '\n' || c == '\r' || c == '\t' ? ' ' : '?';
  }
  return text;
}

// An option whose value is empty is a script's unset variable more often than a wish: it is not taken for an
// option that was left out. A text may be empty.
void RefuseEmptyValues(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_min() == 0 || option->check_lname("prompt") ||
        option->check_lname("system"))
      continue;
    option->check([](const std::string& value) {
      return std::string(value.empty() ? "the value is empty, at least one character is required" : "");
    });
  }
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) RefuseEmptyValues(*command);
}

// Output that was lost (a full disk, a closed descriptor) is an error, even where everything before it went
// well.
holdfast::Status FlushOutput() {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return holdfast::OkStatus();
  const std::string reason = errno != 0 ? std::strerror(errno) : "an earlier write failed";
  return holdfast::IoError("write: standard output: " + reason);
}

// The library does not throw; what the standard library throws where memory ends is an error like any other.
holdfast::Status Perform(const holdfast::cli::Action& action) {
  try {
    return action();
  } catch (const std::bad_alloc&) {
    return holdfast::ResourceExhausted("run: the system has no memory left");
  } catch (const std::exception& e) {
    return holdfast::Internal(std::string("run: ") + e.what());
  }
}

}  // namespace

int main(int argc, char** argv) {
  using namespace holdfast::cli;
  CLI::App program("A KV-cache engine for LLM inference on CPUs", "holdfast");
  program.set_version_flag("--version", HOLDFAST_VERSION);
  program.require_subcommand(1);
  Action action;
  AddGenerate(program, action);
  AddChat(program, action);
  AddTokenize(program, action);
  AddInspect(program, action);
  AddEval(program, action);
  AddCalibrate(program, action);
  AddBench(program, action);
  AddPlan(program, action);
  AddMatrix(program, action);
  AddReplay(program, action);
  AddModels(program, action);
  AddServe(program, action);
  RefuseEmptyValues(program);
  try {
    program.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return program.exit(e);  // --help, --version
    std::string what = e.what();
    if (program.get_subcommands().empty() && argc > 1 && argv[1][0] != '-') {
      what = "unknown command '" + std::string(argv[1]) + "'";
    }
    std::fprintf(stderr, "holdfast: command line: %s (see holdfast --help)\n", OneLine(what).c_str());
    return kWrongCommandLine;
  }
  holdfast::Status status = Perform(action);
  if (status.ok()) status = FlushOutput();
  if (status.ok()) return 0;
  std::fprintf(stderr, "holdfast: %s\n", OneLine(status.message()).c_str());
  return IsWrongCommandLine(status) ? kWrongCommandLine : kFailure;
}
