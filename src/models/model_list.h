// Every model family, once. Adding one: its line here, src/models/<name>.cc, and what the formats say of it
// (CONTRIBUTING.md lists the places).
//
// HOLDFAST_MODELS(X): X(name as config.architecture has it, function of registry.h that loads it)
#pragma once

#define HOLDFAST_MODELS(X) \
  X("llama", LoadLlama)    \
  X("gemma3", LoadGemma3)
