// holdfast: the command line. Exit code 0 on success, 2 on a wrong command line, 1 on any other error, with
// one line `holdfast: OPERATION: what, the value, the limit` on standard error.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "cli/commands.h"
#include "cli/parsing.h"

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
  AddRulesOfValues(program);
  try {
    program.parse(ArgumentsOf(program, argc, argv));
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return program.exit(e);  // --help, --version
    std::string what = e.what();
    if (argc > 1 && argv[1][0] != '-' && !IsCommand(program, argv[1])) {
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
