// Rows, tiles and reference sums that the codec tests share.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "base/float16.h"
#include "codec/codec.h"

namespace holdfast::testing_codec {

// A buffer at 64-byte alignment plus `shift` bytes, zeroed.
class AlignedBytes {
 public:
  explicit AlignedBytes(int64_t size, int64_t shift = 0) : storage_(static_cast<size_t>(size + shift + 64)) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    data_ = storage_.data() + ((64 - address % 64) % 64 + static_cast<uintptr_t>(shift));
  }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  AlignedBytes(AlignedBytes&&) = default;
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  float* floats() { return reinterpret_cast<float*>(data_); }
  const float* floats() const { return reinterpret_cast<const float*>(data_); }

 private:
  std::vector<std::byte> storage_;
  std::byte* data_;
};

inline std::vector<float> NormalRow(std::mt19937& rng, int dim, float sigma = 1.0f) {
  std::normal_distribution<float> normal(0.0f, sigma);
  std::vector<float> row(static_cast<size_t>(dim));
  for (float& x : row) x = normal(rng);
  return row;
}

// Rows that quantisers get wrong; every one is finite and within every codec's range.
inline std::vector<std::vector<float>> AdversarialRows(std::mt19937& rng, int dim) {
  const auto n = static_cast<size_t>(dim);
  std::vector<std::vector<float>> rows;
  rows.emplace_back(n, 0.0f);
  rows.emplace_back(n, -0.0f);
  rows.emplace_back(n, 1.0f);
  rows.emplace_back(n, -3.7f);
  rows.emplace_back(n, 65504.0f);
  rows.emplace_back(n, 1e-40f);
  rows.emplace_back(n, 0x1p-149f);
  rows.emplace_back(n, 0x1.8p-25f);
  rows.push_back(NormalRow(rng, dim));
  rows.push_back(NormalRow(rng, dim));
  rows.back()[n / 2] = 600.0f;  // one channel of a model with K biases
  rows.push_back(NormalRow(rng, dim, 1e-6f));
  rows.push_back(NormalRow(rng, dim, 1e-4f));
  rows.push_back(NormalRow(rng, dim, 1e3f));
  std::vector<float> spread(n);
  for (size_t d = 0; d < n; ++d) {
    spread[d] = std::ldexp(d % 2 == 0 ? 1.3f : -1.7f, static_cast<int>(d % 30) - 15);
  }
  rows.push_back(spread);
  return rows;
}

// All the tiles of a chunk, each in its own place (gaps and shifts of a multiple of 16 bytes).
class Chunk {
 public:
  enum class Half { kKey, kValue };

  // rows: [kChunkRows] of dim each. `scatter` moves the tiles apart and off 64-byte alignment.
  Chunk(CodecSpec spec, Isa isa, Half half, const std::vector<std::vector<float>>& rows, bool scatter = false)
      : codec_(GetCodec(spec)), half_(half), format_(static_cast<int>(rows[0].size()), spec.group) {
    const Codec& codec = codec_;
    const int64_t bytes = half == Half::kKey ? codec.k_tile_bytes(format_) : codec.v_tile_bytes(format_);
    const CodecKernels& kernels = codec.kernels(isa);
    for (int i = 0; i < kChunkTiles; ++i) {
      const int64_t shift = scatter ? 16 * ((i * 7 + 3) % 4) : 0;
      memory_.emplace_back(bytes, shift);
      for (int slot = 0; slot < kTileRows; ++slot) {
        const auto& row = rows[static_cast<size_t>(i * kTileRows + slot)];
        (half == Half::kKey ? kernels.encode_k : kernels.encode_v)(row.data(), format_, slot,
                                                                   memory_.back().data());
      }
    }
    for (int i = 0; i < kChunkTiles; ++i) tiles_.tile[i] = memory_[static_cast<size_t>(i)].data();
    tiles_.begin = 0;
    tiles_.end = kChunkTiles;
  }

  ChunkTiles tiles(int begin = 0, int end = kChunkTiles) const {
    ChunkTiles t = tiles_;
    for (int i = 0; i < kChunkTiles; ++i) {
      if (i < begin || i >= end) t.tile[i] = nullptr;  // must not be touched
    }
    t.begin = begin;
    t.end = end;
    return t;
  }

  std::vector<float> Decode(int row) const {
    std::vector<float> out(static_cast<size_t>(format_.dim));
    (half_ == Half::kKey ? codec_.decode_k : codec_.decode_v)(tiles_.tile[row / kTileRows], format_,
                                                              row % kTileRows, out.data());
    return out;
  }

 private:
  const Codec& codec_;
  Half half_;
  RowFormat format_;
  std::vector<AlignedBytes> memory_;
  ChunkTiles tiles_ = {};
};

inline std::vector<std::vector<float>> ChunkRowsOf(std::mt19937& rng, int dim) {
  std::vector<std::vector<float>> rows;
  for (int r = 0; r < kChunkRows; ++r) rows.push_back(NormalRow(rng, dim, r % 37 == 5 ? 40.0f : 1.0f));
  return rows;
}

// A codec, with its group where it is not the default, of rows of `dim`, on an instruction set.
struct Case {
  CodecSpec spec;
  int dim;
  Isa isa;

  const Codec& codec() const { return GetCodec(spec); }
  const CodecKernels& kernels() const { return codec().kernels(isa); }
  RowFormat format() const { return {dim, spec.group}; }
};

// Every codec, and every group of a few that a codec takes, over these dims, on this machine's instruction sets.
template <size_t n>
std::vector<Case> AllCases(const int (&dims)[n]) {
  std::vector<Case> cases;
  for (const CodecId id : AllCodecs()) {
    for (const int group : {0, 16, 32, 48, 64, 128}) {
      const CodecSpec spec(id, group);
      for (const int dim : dims) {
        if (!CheckGroup(spec, dim).ok()) continue;
        for (const Isa isa : VectorIsas()) cases.push_back({spec, dim, isa});
      }
    }
  }
  return cases;
}

inline std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  return CodecSpecName(c.spec) + "_dim" + std::to_string(c.dim) + "_" + std::string(IsaName(c.isa));
}
inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << CodecSpecName(c.spec) << " dim " << c.dim << " " << IsaName(c.isa);
}

}  // namespace holdfast::testing_codec
