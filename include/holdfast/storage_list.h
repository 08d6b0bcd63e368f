// Every storage, once. Adding one: its line here and src/cache/storages/<name>.cc.
//
// HOLDFAST_STORAGES(X): X(enumerator, name as written on a command line, symbol)
#pragma once

// contiguous: grows in chunks of 256 rows, owned by one sequence; fork copies.
// paged: blocks of block_tokens from one allocator, reference-counted; fork shares, append copies on write.
#define HOLDFAST_STORAGES(X)               \
  X(kContiguous, "contiguous", Contiguous) \
  X(kPaged, "paged", Paged)
