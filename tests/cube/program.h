// A random program over a few sequences of one cell: its parameters and its operations, as data and as a line
// of text.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "cell.h"

namespace holdfast::cube {

// Everything but the operations. Rows and queries follow from `seed`.
struct Setup {
  Cell cell;
  uint64_t seed = 0;
  int64_t window = 0;
  int64_t sinks = 0;
  int64_t protected_sinks = 0;
  int64_t recent = 0;
  int64_t sparse_pages = 0;  // layout full only
  int rewind = 0;
  int block = 0;
  int64_t context = 0;
  int kv_heads = 0;
  int group = 0;  // query heads a KV head
  int k_dim = 0;
  int v_dim = 0;
};

// Of protected rows.
inline constexpr KvSpec kProtectedCodecs = {CodecId::kF32, CodecId::kF16};

CacheConfig MakeConfig(const Setup& setup, StorageId storage);

// splitmix64 (Steele, Lea, Flood 2014).
uint64_t NextRandom(uint64_t& state);
// `count` values in [-scale, scale).
std::vector<float> RandomValues(uint64_t& state, int64_t count, float scale);

struct Slice {
  int sequence = 0;
  int64_t tokens = 0;
};

// An operation on a sequence that does not exist does nothing, so that any operation can be left out of a
// program.
struct Op {
  enum class Kind : char {
    kNew = 'n',     // an empty sequence
    kStep = 's',    // append and attend slices in one batch
    kBad = 'x',     // a step with a value that no codec carries
    kRewind = 'r',  // slices[0].tokens tokens
    kFork = 'f',    // a new sequence from slices[0].sequence
    kDrop = 'd',
  };
  Kind kind = Kind::kNew;
  std::vector<Slice> slices;
};

struct Program {
  Setup setup;
  std::vector<Op> ops;
};

Program RandomProgram(const Cell& cell, uint64_t seed);

// "cell=window_f16_int8_paged_split seed=7 W=20 ... | n s0.17+1.3 r0.5 f0 d1", and back. Empty where it is
// not one.
std::string ToText(const Program& program);
std::vector<Program> ParseProgram(std::string_view text);

// Programs a step smaller than this one: an operation left out, or a count made less.
std::vector<Program> Smaller(const Program& program);

}  // namespace holdfast::cube
