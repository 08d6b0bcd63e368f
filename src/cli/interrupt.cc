#include "cli/interrupt.h"

#include <signal.h>

#include <atomic>

namespace holdfast::cli {
namespace {

std::atomic<Session*> running{nullptr};

// Session::Cancel only stores to an atomic, so it may be called here. SA_RESETHAND gives the second signal
// its default.
void Cancel(int) {
  if (Session* session = running.load(); session != nullptr) session->Cancel();
}

}  // namespace

CancelOnInterrupt::CancelOnInterrupt(Session& session) {
  running.store(&session);
  struct sigaction action = {};
  action.sa_handler = Cancel;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

CancelOnInterrupt::~CancelOnInterrupt() {
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  running.store(nullptr);
}

}  // namespace holdfast::cli
