// What attention relies on, for every codec x dim x instruction set: scores and weighted sums are those of
// the decoded rows, and one query's bits depend on nothing but the query and the rows it sees.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "codec/codec.h"
#include "codec/codec_testing.h"

namespace holdfast {
namespace {

using testing_codec::AlignedBytes;
using testing_codec::AllCases;
using testing_codec::Case;
using testing_codec::CaseName;
using testing_codec::Chunk;
using testing_codec::ChunkRowsOf;
using testing_codec::NormalRow;

constexpr int kDims[] = {1, 3, 8, 20, 40, 64, 80, 96, 112, 128, 192, 256, 576};
constexpr int kQueries = 19;  // more than any block of queries, and not a multiple of one

int Stride(int dim) {
  return (dim + 15) / 16 * 16 + 16;
}

class EveryKernel : public ::testing::TestWithParam<Case> {
 protected:
  const Codec& codec() const { return GetParam().codec(); }
  CodecSpec spec() const { return GetParam().spec; }
  int dim() const { return GetParam().dim; }
  RowFormat format() const { return GetParam().format(); }
  Isa isa() const { return GetParam().isa; }
  const CodecKernels& kernels() const { return GetParam().kernels(); }

  // [queries * kChunkRows]; 7 where nothing was written.
  std::vector<float> Score(const std::vector<std::vector<float>>& queries, const ChunkTiles& tiles) const {
    const int64_t bytes = kernels().key.prepared_bytes(format());
    EXPECT_EQ(bytes % 64, 0);
    AlignedBytes prepared(bytes * static_cast<int64_t>(queries.size()));
    for (size_t i = 0; i < queries.size(); ++i) {
      kernels().key.prepare(queries[i].data(), format(), prepared.data() + static_cast<int64_t>(i) * bytes);
    }
    std::vector<float> scores(queries.size() * kChunkRows, 7.0f);
    kernels().key.score(prepared.data(), static_cast<int>(queries.size()), format(), tiles, scores.data());
    return scores;
  }

  // [queries * Stride(out_dim)]; NaN where nothing was written.
  static std::vector<float> Sum(const ValueKernels& value, const std::vector<float>& weights, int out_dim,
                                RowFormat row, const ChunkTiles& tiles) {
    const auto queries = static_cast<int>(weights.size() / kChunkRows);
    std::vector<float> out(static_cast<size_t>(queries * Stride(out_dim)), std::nanf(""));
    value.accumulate(weights.data(), queries, out_dim, row, tiles, out.data(), Stride(out_dim));
    return out;
  }

  std::vector<std::vector<float>> Queries(std::mt19937& rng) const {
    std::vector<std::vector<float>> queries;
    for (int i = 0; i < kQueries; ++i) queries.push_back(NormalRow(rng, dim(), i == 3 ? 30.0f : 1.0f));
    return queries;
  }

  // Half of what lies between a row's extremes: levels count from the middle of a group of dims, so what a
  // rounded query or weight meets is never more than this, or the value itself.
  static double LevelReach(const std::vector<float>& row) {
    const auto [least, most] = std::minmax_element(row.begin(), row.end());
    return 0.55 * (static_cast<double>(*most) - static_cast<double>(*least));
  }

  // Softmax-like: a sink, many small weights, some exactly 0. Tiles outside [begin, end) get 0.
  static std::vector<float> Weights(std::mt19937& rng, int queries, int begin, int end) {
    std::exponential_distribution<float> small(50.0f);
    std::vector<float> weights(static_cast<size_t>(queries) * kChunkRows, 0.0f);
    for (int q = 0; q < queries; ++q) {
      for (int r = begin * kTileRows; r < end * kTileRows; ++r) {
        weights[static_cast<size_t>(q * kChunkRows + r)] = r % 11 == 4 ? 0.0f : small(rng);
      }
      weights[static_cast<size_t>(q * kChunkRows + begin * kTileRows + 1)] = 1.0f;
    }
    return weights;
  }
};

INSTANTIATE_TEST_SUITE_P(All, EveryKernel, ::testing::ValuesIn(AllCases(kDims)), CaseName);

std::vector<float> Slice(const std::vector<float>& from, int64_t first, int64_t count) {
  return {from.begin() + first, from.begin() + first + count};
}

void ExpectSameBits(const std::vector<float>& a, const std::vector<float>& b, const char* what) {
  ASSERT_EQ(a.size(), b.size());
  ASSERT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0) << what;
}

TEST_P(EveryKernel, ScoresAreDotsWithTheDecodedRows) {
  std::mt19937 rng(11);
  const Chunk chunk(spec(), isa(), Chunk::Half::kKey, ChunkRowsOf(rng, dim()));
  const auto queries = Queries(rng);
  const auto scores = Score(queries, chunk.tiles(2, 13));
  for (int q = 0; q < kQueries; ++q) {
    const auto& query = queries[static_cast<size_t>(q)];
    double query_largest = 0;
    for (const float x : query) query_largest = std::fmax(query_largest, std::fabs(static_cast<double>(x)));
    for (int r = 0; r < kChunkRows; ++r) {
      const float got = scores[static_cast<size_t>(q * kChunkRows + r)];
      if (r < 2 * kTileRows || r >= 13 * kTileRows) {
        ASSERT_EQ(got, 7.0f) << "row " << r << " is outside the tiles";
        continue;
      }
      const auto row = chunk.Decode(r);
      const double reach = LevelReach(row);
      double dot = 0;
      double magnitude = 0;
      double row_sum = 0;
      for (size_t d = 0; d < row.size(); ++d) {
        const double x = std::fmax(reach, std::fabs(static_cast<double>(row[d])));
        dot += static_cast<double>(query[d]) * static_cast<double>(row[d]);
        magnitude += std::fabs(static_cast<double>(query[d])) *
                     (codec().integer_dots ? x : std::fabs(static_cast<double>(row[d])));
        row_sum += x;
      }
      // An integer codec also rounds the query, to half a step of its largest value.
      const double query_step = codec().integer_dots ? 0.5001 * query_largest / codec().query_levels : 0.0;
      ASSERT_NEAR(got, dot, magnitude * 0x1p-23 * (4 + 0.25 * dim()) + row_sum * query_step)
          << "query " << q << " row " << r;
    }
  }
}

TEST_P(EveryKernel, WeightedSumsAreThoseOfTheDecodedRows) {
  std::mt19937 rng(12);
  const auto rows = ChunkRowsOf(rng, dim());
  const int begin = 3;
  const int end = 14;
  const auto weights = Weights(rng, kQueries, begin, end);
  for (const Chunk::Half half : {Chunk::Half::kValue, Chunk::Half::kKey}) {
    const Chunk chunk(spec(), isa(), half, rows);
    const bool latent = half == Chunk::Half::kKey;
    const int out_dim = latent ? (dim() * 8 + 8) / 9 : dim();  // 576 -> 512
    const ValueKernels& value = latent ? kernels().latent_value : kernels().value;
    const auto out = Sum(value, weights, out_dim, format(), chunk.tiles(begin, end));
    std::vector<std::vector<float>> decoded;
    for (int r = 0; r < kChunkRows; ++r) decoded.push_back(chunk.Decode(r));
    for (int q = 0; q < kQueries; ++q) {
      // An integer codec rounds scale * weight to steps of the largest of 64 rows. The roundings of a chunk's
      // rows are independent: eight standard deviations, and where they are fed back, two of them a row.
      double largest = 0;
      for (int r = begin * kTileRows; r < end * kTileRows; ++r) {
        const auto& row = decoded[static_cast<size_t>(r)];
        double row_max = LevelReach(row);
        for (const float x : row) row_max = std::fmax(row_max, std::fabs(static_cast<double>(x)));
        largest = std::fmax(largest,
                            row_max * static_cast<double>(weights[static_cast<size_t>(q * kChunkRows + r)]));
      }
      const double step = codec().integer_dots && !latent ? largest / codec().weight_levels : 0.0;
      const double rounding = step * 8 * std::sqrt(kChunkRows * 2 / 12.0);
      for (int d = 0; d < out_dim; ++d) {
        double sum = 0;
        double magnitude = 0;
        for (int r = begin * kTileRows; r < end * kTileRows; ++r) {
          const double term = static_cast<double>(weights[static_cast<size_t>(q * kChunkRows + r)]) *
                              static_cast<double>(decoded[static_cast<size_t>(r)][static_cast<size_t>(d)]);
          sum += term;
          magnitude += std::fabs(term);
        }
        const float got = out[static_cast<size_t>(q * Stride(out_dim) + d)];
        ASSERT_NEAR(got, sum, magnitude * 0x1p-23 * 64 + rounding)
            << "query " << q << " dim " << d << " " << latent;
      }
      for (int d = out_dim; d < (out_dim + 15) / 16 * 16; ++d) {
        ASSERT_TRUE(std::isfinite(out[static_cast<size_t>(q * Stride(out_dim) + d)])) << "padding lane " << d;
      }
      for (int d = (out_dim + 15) / 16 * 16; d < Stride(out_dim); ++d) {
        ASSERT_TRUE(std::isnan(out[static_cast<size_t>(q * Stride(out_dim) + d)]))
            << "wrote past the padding " << d;
      }
    }
  }
}

TEST_P(EveryKernel, OneQuerysBitsDoNotDependOnTheOtherQueries) {
  std::mt19937 rng(13);
  const auto rows = ChunkRowsOf(rng, dim());
  const Chunk keys(spec(), isa(), Chunk::Half::kKey, rows);
  const Chunk values(spec(), isa(), Chunk::Half::kValue, rows);
  const auto queries = Queries(rng);
  const auto weights = Weights(rng, kQueries, 0, kChunkTiles);
  const int latent_dim = (dim() + 1) / 2;
  const auto scores = Score(queries, keys.tiles());
  const auto out = Sum(kernels().value, weights, dim(), format(), values.tiles());
  const auto latent = Sum(kernels().latent_value, weights, latent_dim, format(), keys.tiles());
  for (int count : {1, 2, 3, 4, 5, 6, 7, 8}) {
    for (int q = 0; q + count <= kQueries; q += 5) {
      const std::vector<std::vector<float>> some(queries.begin() + q, queries.begin() + q + count);
      ExpectSameBits(Score(some, keys.tiles()), Slice(scores, q * kChunkRows, count * kChunkRows), "scores");
      const auto w = Slice(weights, q * kChunkRows, count * kChunkRows);
      const int stride = Stride(dim());
      const auto alone = Sum(kernels().value, w, dim(), format(), values.tiles());
      const auto alone_latent = Sum(kernels().latent_value, w, latent_dim, format(), keys.tiles());
      for (int i = 0; i < count; ++i) {
        ExpectSameBits(Slice(alone, i * stride, dim()), Slice(out, (q + i) * stride, dim()), "weighted sums");
        ExpectSameBits(Slice(alone_latent, i * Stride(latent_dim), latent_dim),
                       Slice(latent, (q + i) * Stride(latent_dim), latent_dim), "latent sums");
      }
    }
  }
}

TEST_P(EveryKernel, BitsDoNotDependOnWhereTilesLieOrWhichEmptyOnesAreGiven) {
  std::mt19937 rng(14);
  const auto rows = ChunkRowsOf(rng, dim());
  const Chunk keys(spec(), isa(), Chunk::Half::kKey, rows);
  const Chunk values(spec(), isa(), Chunk::Half::kValue, rows);
  const Chunk keys_apart(spec(), isa(), Chunk::Half::kKey, rows, /*scatter=*/true);
  const Chunk values_apart(spec(), isa(), Chunk::Half::kValue, rows, /*scatter=*/true);
  const auto queries = Queries(rng);
  const auto scores = Score(queries, keys.tiles());
  for (const auto& [begin, end] : {std::pair{0, 1}, {0, 4}, {5, 7}, {6, 16}, {3, 12}, {15, 16}}) {
    const auto some = Score(queries, keys_apart.tiles(begin, end));
    for (int q = 0; q < kQueries; ++q) {
      const int64_t first = q * kChunkRows + begin * kTileRows;
      ExpectSameBits(Slice(some, first, (end - begin) * kTileRows),
                     Slice(scores, first, (end - begin) * kTileRows), "scores");
    }
    auto weights = Weights(rng, 7, begin, end);
    for (int r = 0; r < kChunkRows; ++r) {  // one query whose sums underflow: signs of zero must agree too
      weights[static_cast<size_t>(2 * kChunkRows + r)] = r / kTileRows == begin ? 1e-44f : 0.0f;
    }
    ExpectSameBits(Sum(kernels().value, weights, dim(), format(), values_apart.tiles(begin, end)),
                   Sum(kernels().value, weights, dim(), format(), values.tiles()), "weighted sums");
    ExpectSameBits(Sum(kernels().latent_value, weights, dim(), format(), keys_apart.tiles(begin, end)),
                   Sum(kernels().latent_value, weights, dim(), format(), keys.tiles()), "latent sums");
  }
}

TEST_P(EveryKernel, AgreesWithTheScalarTier) {
  std::mt19937 rng(15);
  const auto rows = ChunkRowsOf(rng, dim());
  const Chunk keys(spec(), isa(), Chunk::Half::kKey, rows);
  const Chunk values(spec(), isa(), Chunk::Half::kValue, rows);
  const auto queries = Queries(rng);
  const auto scores = Score(queries, keys.tiles());
  const CodecKernels& scalar = codec().kernels(Isa::kScalar);
  const int64_t bytes = scalar.key.prepared_bytes(format());
  ASSERT_EQ(bytes, kernels().key.prepared_bytes(format()));
  AlignedBytes prepared(bytes * kQueries);
  AlignedBytes ours(bytes);
  for (int q = 0; q < kQueries; ++q) {
    scalar.key.prepare(queries[static_cast<size_t>(q)].data(), format(), prepared.data() + q * bytes);
    kernels().key.prepare(queries[static_cast<size_t>(q)].data(), format(), ours.data());
    ASSERT_EQ(std::memcmp(ours.data(), prepared.data() + q * bytes, static_cast<size_t>(bytes)), 0)
        << "prepared";
  }
  std::vector<float> expected(scores.size(), 7.0f);
  scalar.key.score(prepared.data(), kQueries, format(), keys.tiles(), expected.data());
  for (size_t i = 0; i < scores.size(); ++i) {
    ASSERT_NEAR(scores[i], expected[i], 1e-4 * std::sqrt(dim()) * 40 * (i / kChunkRows == 3 ? 30 : 1));
  }
  const auto weights = Weights(rng, 5, 0, kChunkTiles);
  const auto out = Sum(kernels().value, weights, dim(), format(), values.tiles());
  const auto expected_out = Sum(scalar.value, weights, dim(), format(), values.tiles());
  // A weight may round the other way: by a step of the largest row's.
  const double step = codec().integer_dots ? 2 * 160.0 / codec().weight_levels : 0.0;
  for (int q = 0; q < 5; ++q) {
    for (int d = 0; d < dim(); ++d) {
      const auto at = static_cast<size_t>(q * Stride(dim()) + d);
      ASSERT_NEAR(out[at], expected_out[at], 1e-4 * (1 + std::fabs(expected_out[at])) + step);
    }
  }
}

TEST_P(EveryKernel, ManySmallWeightsBesideALargeOneKeepTheirSum) {
  std::mt19937 rng(18);
  const Chunk values(
      spec(), isa(), Chunk::Half::kValue,
      std::vector<std::vector<float>>(kChunkRows, std::vector<float>(static_cast<size_t>(dim()), 1.0f)));
  const double one = static_cast<double>(values.Decode(0)[0]);
  std::uniform_real_distribution<float> small(0.0005f, 0.0015f);  // below half of a step of 8 bits
  std::vector<float> weights(kChunkRows, 0.0f);
  double expected = 0;
  for (int r = 0; r < kChunkRows; ++r) {
    weights[static_cast<size_t>(r)] = r % 64 == 17 ? 1.0f : small(rng);
    expected += static_cast<double>(weights[static_cast<size_t>(r)]);
  }
  const auto out = Sum(kernels().value, weights, dim(), format(), values.tiles());
  for (int d = 0; d < dim(); ++d) {
    ASSERT_NEAR(out[static_cast<size_t>(d)], expected * one, 0.1 * (expected - 4));
  }
}

TEST_P(EveryKernel, UnwrittenTilesScoreFiniteAndAddNothing) {
  const AlignedBytes empty(std::max(codec().k_tile_bytes(format()), codec().v_tile_bytes(format())));
  ChunkTiles tiles = {};
  for (auto& tile : tiles.tile) tile = empty.data();
  tiles.begin = 0;
  tiles.end = kChunkTiles;
  std::mt19937 rng(16);
  for (const float s : Score({NormalRow(rng, dim())}, tiles)) ASSERT_TRUE(std::isfinite(s));
  const std::vector<float> weights(kChunkRows, 0.0f);
  const auto out = Sum(kernels().value, weights, dim(), format(), tiles);
  const auto latent = Sum(kernels().latent_value, weights, dim(), format(), tiles);
  for (int d = 0; d < dim(); ++d) {
    ASSERT_EQ(out[static_cast<size_t>(d)], 0.0f);
    ASSERT_EQ(latent[static_cast<size_t>(d)], 0.0f);
  }
}

TEST_P(EveryKernel, ZeroAndTinyQueriesScoreFinite) {
  std::mt19937 rng(17);
  const Chunk keys(spec(), isa(), Chunk::Half::kKey, ChunkRowsOf(rng, dim()));
  const auto n = static_cast<size_t>(dim());
  for (const float x : {0.0f, 1e-40f, 1e-30f, 1e10f}) {
    for (const float s : Score({std::vector<float>(n, x)}, keys.tiles())) {
      ASSERT_TRUE(std::isfinite(s)) << x;
      if (x == 0.0f) {
        ASSERT_EQ(s, 0.0f);
      }
    }
  }
}

TEST(Int8, ScoresTheSameBitsOnEveryInstructionSet) {
  std::mt19937 rng(19);
  const auto rows = ChunkRowsOf(rng, 80);
  const auto query = NormalRow(rng, 80);
  std::vector<float> first;
  for (const Isa isa : VectorIsas()) {
    const Chunk keys(CodecId::kInt8, isa, Chunk::Half::kKey, rows);
    const KeyKernels& key = GetCodec(CodecId::kInt8).kernels(isa).key;
    AlignedBytes prepared(key.prepared_bytes(80));
    key.prepare(query.data(), 80, prepared.data());
    std::vector<float> scores(kChunkRows);
    key.score(prepared.data(), 1, 80, keys.tiles(), scores.data());
    if (first.empty()) first = scores;
    ExpectSameBits(scores, first, "integer scores");
  }
}

}  // namespace
}  // namespace holdfast
