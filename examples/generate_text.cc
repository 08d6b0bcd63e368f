// Generates from a model file: one session alone, then two sessions stepped together in one batch.
#include <cstdio>
#include <vector>

#include "holdfast/engine.h"

namespace {

using namespace holdfast;

int Fail(const Status& status) {
  std::fprintf(stderr, "generate_text: %s\n", status.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: generate_text MODEL [PROMPT]\n");
    return 2;
  }
  auto engine = Engine::Load(argv[1], {});
  if (!engine.ok()) return Fail(engine.status());
  std::vector<int32_t> prompt = {1, 2, 3};
  if (argc > 2) {
    auto tokens = (*engine)->Tokenize(argv[2], {});
    if (!tokens.ok()) return Fail(tokens.status());
    prompt = *tokens;
  }
  GenerateOptions options;
  options.sampling.temperature = 0.0f;
  options.max_tokens = 32;
  options.ignore_eos = true;

  auto alone = (*engine)->NewSession({});
  if (!alone.ok()) return Fail(alone.status());
  if (Status s = (*alone)->Start(prompt, options); !s.ok()) return Fail(s);
  while (!(*alone)->finished()) {
    auto event = (*alone)->Step();
    if (!event.ok()) return Fail(event.status());
    std::printf("%s", event->text.c_str());
  }
  std::printf("\n");

  // Another codec or storage is an option of the session; the second one here pages its cache.
  CacheOptions paged;
  paged.storage = StorageId::kPaged;
  auto a = (*engine)->NewSession({});
  auto b = (*engine)->NewSession(paged);
  if (!a.ok()) return Fail(a.status());
  if (!b.ok()) return Fail(b.status());
  for (Session* s : {a->get(), b->get()}) {
    if (Status status = s->Start(prompt, options); !status.ok()) return Fail(status);
  }
  while (!(*a)->finished()) {
    Session* const both[] = {a->get(), b->get()};
    auto events = (*engine)->StepTogether(both);
    if (!events.ok()) return Fail(events.status());
  }
  if ((*a)->tokens() != (*alone)->tokens() || (*b)->tokens() != (*alone)->tokens()) {
    return Fail(Internal("a batch changed the tokens"));
  }
  std::printf("two sessions in one batch, the same tokens\n");
  return 0;
}
