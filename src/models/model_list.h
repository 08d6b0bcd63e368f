// Every model family, once. Adding one: its line here and src/models/<name>.cc, which defines what the line
// names and is the only place that knows the family (CONTRIBUTING.md).
//
// HOLDFAST_MODELS(X): X(a ModelFamily, see registry.h)
#pragma once

#define HOLDFAST_MODELS(X) \
  X(kLlamaFamily)          \
  X(kGemma3Family)
