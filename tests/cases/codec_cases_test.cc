// Failures that users of other engines reported, as small inputs with their right answers: those that a codec
// alone decides.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "codec/codec.h"
#include "codec/transform.h"

namespace holdfast {
namespace {

using Row = std::vector<float>;

constexpr int kDim = 128;

Row NormalRow(std::mt19937& rng, int dim) {
  std::normal_distribution<float> normal;
  Row row(static_cast<size_t>(dim));
  for (float& x : row) x = normal(rng);
  return row;
}

// A chunk of keys as a codec holds them.
class Keys {
 public:
  Keys(CodecId id, const std::vector<Row>& rows)
      : codec_(GetCodec(id)), dim_(static_cast<int>(rows[0].size())) {
    const auto bytes = static_cast<size_t>(codec_.k_tile_bytes(dim_));
    tiles_.assign(kChunkTiles, std::vector<std::byte>(bytes + 64));
    for (size_t r = 0; r < rows.size(); ++r) {
      EXPECT_EQ(codec_.first_unencodable(rows[r].data(), dim_), -1);
      Encode(static_cast<int>(r), rows[r]);
    }
  }
  void Encode(int row, const Row& values) {
    codec_.kernels(ActiveIsa()).encode_k(values.data(), dim_, row % kTileRows, Tile(row / kTileRows));
  }
  Row Decode(int row) {
    Row values(static_cast<size_t>(dim_));
    codec_.decode_k(Tile(row / kTileRows), dim_, row % kTileRows, values.data());
    return values;
  }
  int Top1(const Row& query) {
    const KeyKernels& key = codec_.kernels(ActiveIsa()).key;
    std::vector<std::byte> memory(static_cast<size_t>(key.prepared_bytes(dim_)) + 64);
    key.prepare(query.data(), dim_, Aligned(memory));
    ChunkTiles tiles = {};
    for (int i = 0; i < kChunkTiles; ++i) tiles.tile[i] = Tile(i);
    tiles.end = kChunkTiles;
    std::vector<float> scores(kChunkRows);
    key.score(Aligned(memory), 1, dim_, tiles, scores.data());
    return static_cast<int>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  }

 private:
  static std::byte* Aligned(std::vector<std::byte>& memory) {
    const auto at = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (64 - at % 64) % 64;
  }
  std::byte* Tile(int i) { return Aligned(tiles_[static_cast<size_t>(i)]); }

  const Codec& codec_;
  int dim_;
  std::vector<std::vector<std::byte>> tiles_;
};

// Keys of a model with biases: noise, and 600 on one channel of every row. Row `match` answers the query.
struct SpikedKeys {
  std::vector<Row> rows;
  Row query;
  Row center;

  SpikedKeys(uint32_t seed, int match) {
    std::mt19937 rng(seed);
    query = NormalRow(rng, kDim);
    for (int r = 0; r < kChunkRows; ++r) {
      rows.push_back(NormalRow(rng, kDim));
      if (r == match) {
        for (size_t d = 0; d < kDim; ++d) rows.back()[d] += query[d];
      }
      rows.back()[37] += 600.0f;
    }
    center.assign(kDim, 0.0f);
    center[37] = 600.0f;
  }
};

// Case 30 (llama.cpp#21385: K biases of 600 on one channel).
TEST(CodecCases, ASpikeOf600OnOneChannelLeavesTheBestRowBestWhereScalesAreOfGroups) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const int match = static_cast<int>(seed * 53 % kChunkRows);
    const SpikedKeys keys(seed, match);
    ASSERT_EQ(Keys(CodecId::kF16, keys.rows).Top1(keys.query), match);
    for (const CodecId id : AllCodecs()) {
      const Codec& codec = GetCodec(id);
      // A scale a row is coarse for all of a row with a spike: such codecs want it centred, as below.
      const int64_t scales = codec.k_tile_bytes(kDim) - kDim * kTileRows * codec.bits / 8;
      if (!codec.integer_dots || scales <= 2 * kTileRows) continue;
      EXPECT_EQ(Keys(id, keys.rows).Top1(keys.query), match) << codec.name << " seed " << seed;
    }
  }
}

TEST(CodecCases, ASpikeOf600OnOneChannelLeavesTheBestRowBestWhereItIsCentred) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const int match = static_cast<int>(seed * 53 % kChunkRows);
    const SpikedKeys keys(seed, match);
    RowTransformSpec spec;
    spec.dim = kDim;
    spec.center = keys.center.data();
    for (const CodecId id : AllCodecs()) {
      if (!GetCodec(id).integer_dots) continue;
      spec.rotate = GetCodec(id).bits < 8 || GetCodec(id).always_rotated;
      const RowTransform transform(spec);
      std::vector<Row> rows = keys.rows;
      for (Row& row : rows) transform.ForwardRows(ActiveIsa(), row.data(), 1, row.data());
      Row query = keys.query;
      transform.RotateQueries(ActiveIsa(), query.data(), 1, query.data());
      EXPECT_EQ(Keys(id, rows).Top1(query), match) << GetCodec(id).name << " seed " << seed;
    }
  }
}

// A row turned by `positions`, as rotary embeddings turn keys.
Row Turned(const Row& row, int positions) {
  const size_t half = row.size() / 2;
  Row turned(row.size());
  for (size_t i = 0; i < half; ++i) {
    const double angle = positions * std::pow(10000.0, -static_cast<double>(i) / static_cast<double>(half));
    const double a = static_cast<double>(row[i]);
    const double b = static_cast<double>(row[i + half]);
    turned[i] = static_cast<float>(a * std::cos(angle) - b * std::sin(angle));
    turned[i + half] = static_cast<float>(a * std::sin(angle) + b * std::cos(angle));
  }
  return turned;
}

double Distance(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

// Case 27, the keys' half (llama.cpp#9743: a context shift over quantised keys aborted). A shift decodes the
// keys, turns them and encodes them again; a turn keeps lengths, so that each adds its own rounding and no more.
TEST(CodecCases, AHundredContextShiftsOf16AddUpTheirRoundingsAndNoMore) {
  for (const CodecId id : AllCodecs()) {
    const Codec& codec = GetCodec(id);
    std::mt19937 rng(9);
    std::vector<Row> exact;
    for (int r = 0; r < kTileRows; ++r) exact.push_back(NormalRow(rng, kDim));
    Keys keys(id, exact);
    std::vector<double> bound(kTileRows);
    double one_rounding = 0;
    for (int r = 0; r < kTileRows; ++r) {
      const Row& row = exact[static_cast<size_t>(r)];
      one_rounding = std::max(one_rounding, Distance(keys.Decode(r), row));
      bound[static_cast<size_t>(r)] =
          static_cast<double>(codec.max_error(row.data(), kDim)) * std::sqrt(kDim);
    }
    for (int shift = 1; shift <= 100; ++shift) {
      for (int r = 0; r < kTileRows; ++r) {
        const auto at = static_cast<size_t>(r);
        const Row moved = Turned(keys.Decode(r), -16);
        ASSERT_EQ(codec.first_unencodable(moved.data(), kDim), -1);
        keys.Encode(r, moved);
        exact[at] = Turned(exact[at], -16);
        bound[at] += static_cast<double>(codec.max_error(moved.data(), kDim)) * std::sqrt(kDim) + 1e-4;
        const double error = Distance(keys.Decode(r), exact[at]);
        ASSERT_LE(error, bound[at]) << codec.name << " shift " << shift;
        // Turns smaller than a step are rounded away again and again, so that roundings may add up in full; but
        // what they add to a row does not make it run away.
        ASSERT_LE(error, 1.5 * one_rounding * (1 + shift)) << codec.name << " shift " << shift;
        const Row none(kDim, 0.0f);
        ASSERT_LE(Distance(keys.Decode(r), none), 2 * Distance(exact[at], none))
            << codec.name << " shift " << shift;
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
