// Tests' own caches: sequences of random encoded rows, their spans, queries and what each may see.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "attention/attend.h"

namespace holdfast {

struct TestGeometry {
  RowShape shape;
  int q_heads = 1;
  int kv_heads = 1;
  CodecSpec k_codec = CodecId::kF32;
  CodecSpec v_codec = CodecId::kF32;
  RowFormat k_format() const { return {shape.k_dim, k_codec.group}; }
  RowFormat v_format() const { return {shape.v_dim, v_codec.group}; }
  float scale = 1.0f;
  float softcap = 0.0f;
  bool sink_logits = false;
  float sparse_v = 0.0f;
  bool centers = false;  // rows lack a centre
  int64_t sparse_pages = 0;

  std::string Describe() const;
};

// The last `tokens` of `length` positions are queries. window 0: they see everything up to themselves.
struct TestSequence {
  int64_t length = 0;
  int64_t tokens = 0;
  int64_t window = 0;
  int64_t sinks = 0;
};

class TestCall {
 public:
  TestCall(const TestGeometry& geometry, const std::vector<TestSequence>& sequences, uint64_t seed);

  // Copies every sequence's tiles to places of their own and cuts the spans at odd positions; tiles that no
  // query sees get no span, and their memory is gone. Rows of seen tiles that are outside every span are
  // overwritten.
  void Scatter(uint64_t seed);

  // From now on the first `rows` positions of a sequence, a multiple of 16, lie where those of another do; all of
  // both then in spans of a block each, as a paged storage has them.
  void ShareRows(size_t sequence, size_t with, int64_t rows);

  // Output [tokens, q_heads, v_dim], `step` tokens of a sequence a call (0: all sequences in one call).
  std::vector<float> Run(Isa isa, int threads, int64_t step = 0);
  std::vector<float> Reference();

  std::vector<float>& q() { return q_; }
  std::vector<float>& sink_logits() { return sink_logits_; }
  std::vector<VisibleRange>& visible(size_t sequence) { return rows_[sequence].visible; }
  int64_t cascade_bytes = 1;  // of the calls that are made
  AttentionCall Call(float* out);
  int64_t tokens() const { return tokens_; }

 private:
  struct Rows {
    TestSequence spec;
    int64_t first_token = 0;
    std::vector<std::unique_ptr<std::byte[]>> memory;
    std::vector<Span> spans;
    std::vector<VisibleRange> visible;
  };
  void Encode(Rows& rows);
  // The part of a span within [begin, end), both multiples of 16.
  Span Part(const Span& span, int64_t begin, int64_t end) const;
  std::vector<Span> InBlocks(const std::vector<Span>& spans) const;
  // A copy of `count` tiles of a run of tiles, all heads, in memory of its own.
  Span CopyTiles(Rows& rows, const Span& whole, int64_t tile, int64_t count);
  void Spoil(const Rows& rows, const Span& span, int64_t tile, int64_t count);

  TestGeometry geometry_;
  std::mt19937_64 random_;
  int64_t k_tile_bytes_;
  int64_t v_tile_bytes_;
  int64_t bounds_bytes_;  // of a page; 0 without sparse pages
  int64_t tokens_ = 0;
  std::vector<Rows> rows_;
  std::vector<float> q_;
  std::vector<float> sink_logits_;
  std::vector<float> k_centers_, v_centers_;
  std::vector<AttentionSequence> sequences_;
};

// Uniform in [-1, 1), the same on every machine.
float RandomValue(std::mt19937_64& random);

// Largest difference of two outputs; infinity if their sizes or NaNs differ.
float LargestDifference(const std::vector<float>& a, const std::vector<float>& b);

// True if all values have the same bits.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace holdfast
