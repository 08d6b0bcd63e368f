#include "cli/run_session.h"

#include "cli/interrupt.h"
#include "cli/progress.h"

namespace holdfast::cli {

Result<SessionOutcome> RunSession(Session& session, const std::function<void(const std::string&)>& stream) {
  const CancelOnInterrupt guard(session);
  ProgressBar bar("prefill");
  SessionOutcome outcome;
  while (!session.finished()) {
    auto event = session.Step();
    if (!event.ok()) return event.status();
    if (event->token < 0) bar.Show(event->prefilled_tokens, event->prompt_tokens);
    if (event->token >= 0 || !event->text.empty()) bar.Clear();
    outcome.text += event->text;
    outcome.finish = event->finish;
    if (stream && !event->text.empty()) stream(event->text);
  }
  return outcome;
}

}  // namespace holdfast::cli
