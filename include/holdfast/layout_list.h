// Every layout, once. Adding one: its line here and src/cache/layouts/<name>.cc.
//
// HOLDFAST_LAYOUTS(X): X(enumerator, name as written on a command line, symbol)
#pragma once

// full: every position up to the query's own.
// window: the last window_tokens positions and the first sink_tokens ones.
#define HOLDFAST_LAYOUTS(X) \
  X(kFull, "full", Full)    \
  X(kWindow, "window", Window)
