#include "cli/figures.h"

#include <cstdio>

namespace holdfast::cli {
namespace {

double Rate(int64_t tokens, int64_t ns) {
  return ns > 0 ? static_cast<double>(tokens) * 1e9 / static_cast<double>(ns) : 0.0;
}
double PrefillRate(const GenerationStats& s) {
  return Rate(s.prompt_tokens - s.reused_tokens, s.prefill_ns);
}
// The first token comes with the prefill; the others are steps of their own.
double DecodeRate(const GenerationStats& s) {
  return s.completion_tokens > 1 ? Rate(s.completion_tokens - 1, s.decode_ns) : 0.0;
}
double Ms(int64_t ns) {
  return static_cast<double>(ns) * 1e-6;
}
double Mib(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

}  // namespace

Json UsageJson(const GenerationStats& s) {
  return {{"prompt_tokens", s.prompt_tokens},
          {"reused_tokens", s.reused_tokens},
          {"completion_tokens", s.completion_tokens}};
}

Json TimingsJson(const Figures& f) {
  return {{"load_ms", f.load_ms},
          {"prefill_ms", Ms(f.stats.prefill_ns)},
          {"decode_ms", Ms(f.stats.decode_ns)},
          {"prefill_tokens_per_s", PrefillRate(f.stats)},
          {"decode_tokens_per_s", DecodeRate(f.stats)}};
}

Json CacheJson(const GenerationStats& s) {
  return {{"live_bytes", s.live_bytes},
          {"allocated_bytes", s.allocated_bytes},
          {"planned_bytes", s.planned_bytes},
          {"bytes_per_token", s.bytes_per_token}};
}

void PrintFigures(const Figures& f) {
  const GenerationStats& s = f.stats;
  std::fprintf(stderr,
               "prompt %lld tokens (%lld reused), %.1f tokens/s; %lld tokens generated, %.1f tokens/s; "
               "ended by %s; loaded in %.0f ms\n",
               static_cast<long long>(s.prompt_tokens), static_cast<long long>(s.reused_tokens),
               PrefillRate(s), static_cast<long long>(s.completion_tokens), DecodeRate(s),
               std::string(FinishReasonName(f.finish)).c_str(), f.load_ms);
  std::fprintf(stderr, "cache: %lld bytes a token, %.2f MiB live, %.2f MiB allocated, %.2f MiB planned\n",
               static_cast<long long>(s.bytes_per_token), Mib(s.live_bytes), Mib(s.allocated_bytes),
               Mib(s.planned_bytes));
}

}  // namespace holdfast::cli
