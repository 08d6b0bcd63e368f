// Runs a generation to its end: text as it comes, a progress bar for long prefills, Ctrl-C.
#pragma once

#include <functional>
#include <string>

#include "holdfast/engine.h"

namespace holdfast::cli {

struct SessionOutcome {
  std::string text;
  FinishReason finish = FinishReason::kNone;
};

// stream gets text as it becomes complete; it may be empty. REQUIRES session.Start succeeded.
Result<SessionOutcome> RunSession(Session& session, const std::function<void(const std::string&)>& stream);

}  // namespace holdfast::cli
