// Ctrl-C: the running generation ends at its next step, and its figures are printed.
#pragma once

#include "holdfast/engine.h"

namespace holdfast::cli {

// While it lives, SIGINT and SIGTERM cancel `session`; a second signal ends the program at once.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(Session& session);
  ~CancelOnInterrupt();
  CancelOnInterrupt(const CancelOnInterrupt&) = delete;
  CancelOnInterrupt& operator=(const CancelOnInterrupt&) = delete;
};

}  // namespace holdfast::cli
