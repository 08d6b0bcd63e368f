// Rotations are orthonormal, give the same bits on every instruction set, and are the ones the format names.
#include "codec/transform.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

namespace holdfast {
namespace {

using Row = std::vector<float>;

Row RandomRow(std::mt19937& rng, int64_t count) {
  std::normal_distribution<float> normal;
  Row row(static_cast<size_t>(count));
  for (float& x : row) x = normal(rng);
  return row;
}

double Dot(const Row& a, const Row& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * double{b[i]};
  return sum;
}

// dims of models, every small one, and what lies around powers of two.
std::vector<int> Dims() {
  std::vector<int> dims = {63,  64,  65,  80,  96,  100, 112, 127,  128,
                           192, 255, 256, 257, 512, 576, 640, 1000, 1024};
  for (int dim = 1; dim <= 40; ++dim) dims.push_back(dim);
  return dims;
}

// R from the words of docs/formats/transform.md, in double and by the definition: entry (i, j) of the
// Walsh-Hadamard matrix is -1 to the number of bits that i and j share.
class PlainRotation {
 public:
  explicit PlainRotation(RowSide side) {
    uint64_t state = side == RowSide::kKey ? 0x686f6c6466617374 : 0x74736166646c6f68;
    for (uint64_t& word : words_) {
      uint64_t z = state += 0x9e3779b97f4a7c15u;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }
  void Rotate(std::vector<double>& x, int first, int dim) const {
    int size = 1;
    while (2 * size <= dim) size *= 2;
    Block(x, first, size, 0);
    if (size < dim) Block(x, first + dim - size, size, 1);
  }

 private:
  void Block(std::vector<double>& x, int first, int size, int stage) const {
    std::vector<double> y(static_cast<size_t>(size));
    for (int i = 0; i < size; ++i) {
      for (int j = 0; j < size; ++j) {
        const bool sign = (words_[stage * 16 + j / 64] >> (j % 64) & 1) != 0;
        const bool odd = std::popcount(static_cast<unsigned>(i & j)) % 2 != 0;
        y[static_cast<size_t>(i)] += (sign != odd ? -1 : 1) * x[static_cast<size_t>(first + j)];
      }
    }
    for (int i = 0; i < size; ++i) {
      x[static_cast<size_t>(first + i)] = y[static_cast<size_t>(i)] / std::sqrt(size);
    }
  }
  uint64_t words_[32];
};

class Rotations : public testing::TestWithParam<int> {
 protected:
  int dim() const { return GetParam(); }
  static Row Forward(const RowTransform& transform, Isa isa, const Row& rows, int64_t tokens = 1) {
    Row out(rows.size());
    transform.ForwardRows(isa, rows.data(), tokens, out.data());
    return out;
  }
  std::mt19937 rng_{5};
};

TEST_P(Rotations, KeepNormsAndDots) {
  for (const RowSide side : {RowSide::kKey, RowSide::kValue}) {
    const RowTransform transform({.side = side, .dim = dim(), .rotate = true});
    for (int round = 0; round < 5; ++round) {
      const Row q = RandomRow(rng_, dim()), k = RandomRow(rng_, dim());
      Row rq(q.size());
      transform.RotateQueries(ActiveIsa(), q.data(), 1, rq.data());
      const Row rk = Forward(transform, ActiveIsa(), k);
      const double limit = 1e-6 * std::sqrt(Dot(q, q) * Dot(k, k));
      EXPECT_NEAR(Dot(rq, rk), Dot(q, k), limit);
      EXPECT_NEAR(std::sqrt(Dot(rk, rk)), std::sqrt(Dot(k, k)), 1e-6 * std::sqrt(Dot(k, k)));
    }
  }
}

TEST_P(Rotations, AreTakenBackByTheirTranspose) {
  const RowTransform transform({.side = RowSide::kValue, .dim = dim(), .rotate = true});
  for (int axis = 0; axis < dim(); axis += 1 + dim() / 50) {
    Row unit(static_cast<size_t>(dim()));
    unit[static_cast<size_t>(axis)] = 1;
    Row out = Forward(transform, ActiveIsa(), unit);
    transform.RotateOutputsBack(ActiveIsa(), 1, out.data());
    for (size_t d = 0; d < out.size(); ++d)
      ASSERT_NEAR(out[d], unit[d], 1e-6) << "axis " << axis << ", dim " << d;
  }
}

TEST_P(Rotations, AreTheOnesThatTheFormatNames) {
  for (const RowSide side : {RowSide::kKey, RowSide::kValue}) {
    const Row x = RandomRow(rng_, dim());
    std::vector<double> expected(x.begin(), x.end());
    PlainRotation(side).Rotate(expected, 0, dim());
    const Row out = Forward(RowTransform({.side = side, .dim = dim(), .rotate = true}), ActiveIsa(), x);
    for (size_t d = 0; d < out.size(); ++d) ASSERT_NEAR(out[d], expected[d], 4e-6) << d;
  }
}

TEST_P(Rotations, GiveTheSameBitsOnEveryInstructionSet) {
  const int heads = 3;
  const Row rows = RandomRow(rng_, 4 * heads * dim()), centers = RandomRow(rng_, heads * dim());
  const RowTransform transform(
      {.side = RowSide::kKey, .dim = dim(), .heads = heads, .rotate = true, .center = centers.data()});
  const Row expected = Forward(transform, Isa::kScalar, rows, 4);
  Row back = expected, expected_centers(centers.size());
  transform.RotateOutputsBack(Isa::kScalar, 4 * heads, back.data());
  transform.RotatedCenters(Isa::kScalar, expected_centers.data());
  const auto same = [](const Row& a, const Row& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  for (const Isa isa : VectorIsas()) {
    Row out(rows.size()), got_centers(centers.size());
    transform.ForwardRows(isa, rows.data(), 4, out.data());
    EXPECT_TRUE(same(out, expected)) << IsaName(isa);
    Row in_place = rows;
    transform.ForwardRows(isa, in_place.data(), 4, in_place.data());
    EXPECT_TRUE(same(in_place, expected)) << IsaName(isa);
    transform.RotateOutputsBack(isa, 4 * heads, out.data());
    EXPECT_TRUE(same(out, back)) << IsaName(isa);
    transform.RotatedCenters(isa, got_centers.data());
    EXPECT_TRUE(same(got_centers, expected_centers)) << IsaName(isa);
  }
}

TEST_P(Rotations, TouchNoMemoryPastTheirRows) {
  const RowTransform transform({.side = RowSide::kKey, .dim = dim(), .rotate = true});
  for (const Isa isa : VectorIsas()) {
    Row guarded(static_cast<size_t>(dim()) + 32, 7.0f);
    transform.ForwardRows(isa, guarded.data() + 16, 1, guarded.data() + 16);
    transform.RotateOutputsBack(isa, 1, guarded.data() + 16);
    for (size_t i = 0; i < 16; ++i) {
      ASSERT_EQ(guarded[i], 7.0f);
      ASSERT_EQ(guarded[guarded.size() - 1 - i], 7.0f);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Rotations, testing::ValuesIn(Dims()),
                         [](const auto& p) { return "dim" + std::to_string(p.param); });

TEST(RowTransform, SpreadsASpikeOverItsBlock) {
  for (const int dim : {64, 80, 96, 112, 128, 192, 256, 576}) {
    const RowTransform transform({.side = RowSide::kKey, .dim = dim, .rotate = true});
    for (int axis = 0; axis < dim; ++axis) {
      Row x(static_cast<size_t>(dim));
      x[static_cast<size_t>(axis)] = 600;
      transform.ForwardRows(ActiveIsa(), x.data(), 1, x.data());
      float largest = 0;
      for (const float value : x) largest = std::max(largest, std::fabs(value));
      ASSERT_LE(largest, 600 * 0.51) << "dim " << dim << ", axis " << axis;
    }
  }
}

TEST(RowTransform, RotatesKeysAndValuesDifferently) {
  std::mt19937 rng(1);
  const Row x = RandomRow(rng, 64);
  Row k(64), v(64);
  RowTransform({.side = RowSide::kKey, .dim = 64, .rotate = true})
      .ForwardRows(ActiveIsa(), x.data(), 1, k.data());
  RowTransform({.side = RowSide::kValue, .dim = 64, .rotate = true})
      .ForwardRows(ActiveIsa(), x.data(), 1, v.data());
  EXPECT_NE(k, v);
}

TEST(RowTransform, WithoutRotationTakesOffTheCentreAndNothingElse) {
  std::mt19937 rng(2);
  const Row rows = RandomRow(rng, 2 * 3 * 20), centers = RandomRow(rng, 3 * 20);
  const RowTransform transform({.dim = 20, .heads = 3, .center = centers.data()});
  EXPECT_FALSE(transform.identity());
  EXPECT_FALSE(transform.rotates());
  for (const Isa isa : VectorIsas()) {
    Row out(rows.size());
    transform.ForwardRows(isa, rows.data(), 2, out.data());
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(out[i], rows[i] - centers[i % 60]) << i;
    Row rotated(60);
    transform.RotatedCenters(isa, rotated.data());
    EXPECT_EQ(rotated, centers);
  }
  EXPECT_TRUE(RowTransform().identity());
}

TEST(RowTransform, OfALatentRowRotatesPrefixAndRestApart) {
  std::mt19937 rng(3);
  for (const auto& [dim, prefix] : {std::pair{576, 512}, {80, 64}, {33, 20}, {20, 3}, {16, 16}, {3, 1}}) {
    const Row x = RandomRow(rng, dim), center = RandomRow(rng, dim);
    const RowTransform transform(
        {.side = RowSide::kKey, .dim = dim, .prefix = prefix, .rotate = true, .center = center.data()});
    std::vector<double> expected(x.begin(), x.end());
    for (size_t d = 0; d < expected.size(); ++d) expected[d] -= double{center[d]};
    PlainRotation(RowSide::kKey).Rotate(expected, 0, prefix);
    if (prefix < dim) PlainRotation(RowSide::kKey).Rotate(expected, prefix, dim - prefix);
    Row out(x.size());
    transform.ForwardRows(ActiveIsa(), x.data(), 1, out.data());
    for (size_t d = 0; d < out.size(); ++d) ASSERT_NEAR(out[d], expected[d], 8e-6) << dim << " at " << d;

    // The value half of the row, back: what was there less its centre.
    ASSERT_EQ(transform.output_dim(), prefix);
    Row value(out.begin(), out.begin() + prefix);
    transform.RotateOutputsBack(ActiveIsa(), 1, value.data());
    for (size_t d = 0; d < value.size(); ++d)
      ASSERT_NEAR(value[d], x[d] - center[d], 1e-5) << dim << " at " << d;
    Row rotated(static_cast<size_t>(prefix));
    transform.RotatedCenters(ActiveIsa(), rotated.data());
    transform.RotateOutputsBack(ActiveIsa(), 1, rotated.data());
    for (size_t d = 0; d < rotated.size(); ++d)
      ASSERT_NEAR(rotated[d], center[d], 1e-5) << dim << " at " << d;
  }
}

// Softmax does not see the shift of the scores, and weights that sum to one give the centre back.
TEST(RowTransform, LeavesAttentionAsItWas) {
  std::mt19937 rng(4);
  const int dim = 80, rows = 50;
  const Row q = RandomRow(rng, dim), k = RandomRow(rng, rows * dim), v = RandomRow(rng, rows * dim);
  Row k_center = RandomRow(rng, dim), v_center = RandomRow(rng, dim);
  for (float& c : k_center) c *= 5;
  const auto attend = [&](const Row& query, const Row& keys, const Row& values) {
    std::vector<double> weights, out(static_cast<size_t>(dim));
    double sum = 0;
    for (int r = 0; r < rows; ++r) {
      const Row key(keys.begin() + r * dim, keys.begin() + (r + 1) * dim);
      weights.push_back(std::exp(Dot(query, key) / 9));
      sum += weights.back();
    }
    for (int r = 0; r < rows; ++r) {
      for (int d = 0; d < dim; ++d) {
        out[static_cast<size_t>(d)] +=
            weights[static_cast<size_t>(r)] / sum * double{values[static_cast<size_t>(r * dim + d)]};
      }
    }
    return Row(out.begin(), out.end());
  };
  const Row expected = attend(q, k, v);

  const RowTransform of_k({.side = RowSide::kKey, .dim = dim, .rotate = true, .center = k_center.data()});
  const RowTransform of_v({.side = RowSide::kValue, .dim = dim, .rotate = true, .center = v_center.data()});
  Row rq(q.size()), rk(k.size()), rv(v.size()), center(v_center.size());
  of_k.RotateQueries(ActiveIsa(), q.data(), 1, rq.data());
  of_k.ForwardRows(ActiveIsa(), k.data(), rows, rk.data());
  of_v.ForwardRows(ActiveIsa(), v.data(), rows, rv.data());
  of_v.RotatedCenters(ActiveIsa(), center.data());
  Row out = attend(rq, rk, rv);
  for (size_t d = 0; d < out.size(); ++d) out[d] += center[d];
  of_v.RotateOutputsBack(ActiveIsa(), 1, out.data());
  for (size_t d = 0; d < out.size(); ++d) EXPECT_NEAR(out[d], expected[d], 2e-5) << d;
}

}  // namespace
}  // namespace holdfast
