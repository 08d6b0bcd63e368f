// Sampling options of generate and chat, with llama.cpp's names and defaults.
#pragma once

#include <random>

#include "cli/options.h"
#include "cli/parsing.h"

namespace holdfast::cli {

struct GenerationOptions {
  int64_t max_tokens = -1;
  SamplingOptions sampling;
  int64_t seed = -1;
  std::vector<std::string> stop;
  bool ignore_eos = false;

  void Add(CLI::App& app) {
    app.add_option("-n,--max-tokens", max_tokens, "tokens to generate; -1: until an end")
        ->check(CLI::Range(int64_t{-1}, int64_t{1} << 40));
    app.add_option("--temp", sampling.temperature, "temperature; 0: greedy")
        ->check(CLI::Range(0.0f, 1e6f))
        ->capture_default_str();
    app.add_option("--top-k", sampling.top_k, "keep the K likeliest tokens; 0: all")
        ->check(CLI::Range(0, 1 << 30))
        ->capture_default_str();
    app.add_option("--top-p", sampling.top_p, "keep the fewest tokens that reach this probability; 1: all")
        ->check(RangeOf(1e-9f, 1.0f))
        ->capture_default_str();
    app.add_option("--min-p", sampling.min_p, "drop tokens this much less likely than the likeliest; 0: none")
        ->check(CLI::Range(0.0f, 1.0f))
        ->capture_default_str();
    app.add_option("--repeat-penalty", sampling.repeat_penalty, "penalty of repeated tokens; 1: none")
        ->check(RangeOf(1e-6f, 1e6f))
        ->capture_default_str();
    app.add_option("--repeat-last-n", sampling.repeat_last_n, "tokens that the penalty looks at; -1: all")
        ->check(CLI::Range(-1, 1 << 30))
        ->capture_default_str();
    app.add_option("-s,--seed", seed, "random seed; -1: another one each time")
        ->check(CLI::Range(int64_t{-1}, INT64_MAX));
    app.add_option("--stop", stop, "end before this text; may be given several times")
        ->allow_extra_args(false);  // one value each: what follows is not another
    app.add_flag("--ignore-eos", ignore_eos, "go on after an end token");
  }

  GenerateOptions Resolve(int prefill_chunk_tokens) const {
    GenerateOptions options;
    options.sampling = sampling;
    options.sampling.seed = seed >= 0 ? static_cast<uint64_t>(seed) : uint64_t{std::random_device{}()};
    options.max_tokens = max_tokens;
    options.stop = stop;
    options.ignore_eos = ignore_eos;
    options.prefill_chunk_tokens = prefill_chunk_tokens;
    return options;
  }
};

}  // namespace holdfast::cli
