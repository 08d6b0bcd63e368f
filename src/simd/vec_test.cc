// Every operation of every instruction set that this processor has, against plain code on single values.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/float16.h"
#include "simd/vec_test_kernels.h"

namespace holdfast {
namespace {

using Floats = std::array<float, 16>;
using Ints = std::array<int32_t, 16>;
using Bytes = std::array<uint8_t, 64>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

uint32_t Bits(float x) {
  return std::bit_cast<uint32_t>(x);
}

// Distance in units of the last place of the exact value.
double UlpError(float got, double exact) {
  const auto nearest = static_cast<float>(exact);
  const double ulp = std::nextafter(std::fabs(nearest), kInfinity) - std::fabs(nearest);
  return std::fabs(got - exact) / ulp;
}

class VecTest : public testing::TestWithParam<Isa> {
 protected:
  const VecTestKernels& kernels() const { return HOLDFAST_SELECT_KERNELS(GetParam(), kVecTestKernels); }
  bool fuses() const { return GetParam() != Isa::kScalar; }

  Floats RandomFloats() {
    std::uniform_real_distribution<float> mantissa(-1.0f, 1.0f);
    std::uniform_int_distribution<int> exponent(-20, 20);
    Floats a;
    for (float& x : a) x = std::ldexp(mantissa(rng_), exponent(rng_));
    return a;
  }
  Ints RandomInts() {
    Ints a;
    for (int32_t& x : a) x = static_cast<int32_t>(rng_());
    return a;
  }
  Bytes RandomBytes() {
    Bytes a;
    for (uint8_t& x : a) x = static_cast<uint8_t>(rng_());
    return a;
  }

  void ExpectUnary(VecTestKernels::Unary* op, float (*plain)(float)) {
    for (int round = 0; round < 200; ++round) {
      const Floats a = RandomFloats();
      Floats out;
      op(a.data(), out.data());
      for (size_t i = 0; i < 16; ++i) ASSERT_EQ(Bits(out[i]), Bits(plain(a[i]))) << a[i];
    }
  }
  void ExpectBinary(VecTestKernels::Binary* op, float (*plain)(float, float)) {
    for (int round = 0; round < 200; ++round) {
      const Floats a = RandomFloats(), b = RandomFloats();
      Floats out;
      op(a.data(), b.data(), out.data());
      for (size_t i = 0; i < 16; ++i) ASSERT_EQ(Bits(out[i]), Bits(plain(a[i], b[i]))) << a[i] << ' ' << b[i];
    }
  }
  void ExpectIntBinary(VecTestKernels::IntBinary* op, uint32_t (*plain)(uint32_t, uint32_t)) {
    for (int round = 0; round < 200; ++round) {
      const Ints a = RandomInts(), b = RandomInts();
      Ints out;
      op(a.data(), b.data(), out.data());
      for (size_t i = 0; i < 16; ++i) {
        const auto expected = plain(static_cast<uint32_t>(a[i]), static_cast<uint32_t>(b[i]));
        ASSERT_EQ(static_cast<uint32_t>(out[i]), expected);
      }
    }
  }
  void ExpectByteUnary(VecTestKernels::ByteUnary* op, int (*plain)(int, int), int argument) {
    for (int first = 0; first < 256; first += 64) {
      Bytes a, out;
      for (size_t i = 0; i < 64; ++i) a[i] = static_cast<uint8_t>(first + static_cast<int>(i));
      op(a.data(), out.data());
      for (size_t i = 0; i < 64; ++i)
        ASSERT_EQ(out[i], static_cast<uint8_t>(plain(a[i], argument))) << int{a[i]};
    }
  }
  void ExpectByteBinary(VecTestKernels::ByteBinary* op, int (*plain)(int, int)) {
    const Bytes a = RandomBytes(), b = RandomBytes();
    Bytes out;
    op(a.data(), b.data(), out.data());
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], plain(a[i], b[i]));
  }
  void ExpectDot(VecTestKernels::Dot* op, const Ints& acc, const Bytes& u, const Bytes& s) {
    Ints out;
    op(acc.data(), u.data(), s.data(), out.data());
    for (size_t lane = 0; lane < 16; ++lane) {
      int64_t expected = acc[lane];
      for (size_t i = 4 * lane; i < 4 * lane + 4; ++i) expected += int64_t{u[i]} * static_cast<int8_t>(s[i]);
      ASSERT_EQ(out[lane], expected) << "lane " << lane;
    }
  }

  // The largest error of op over [first, last] in ulps, over a dense sweep.
  double LargestError(VecTestKernels::Unary* op, double (*exact)(double), double first, double last) {
    constexpr int kSteps = 20000;
    double worst = 0;
    for (int step = 0; step < kSteps; ++step) {
      Floats a, out;
      for (size_t i = 0; i < 16; ++i) {
        const double t = (step * 16.0 + static_cast<double>(i)) / (kSteps * 16.0);
        a[i] = static_cast<float>(first + (last - first) * t);
      }
      op(a.data(), out.data());
      for (size_t i = 0; i < 16; ++i) worst = std::max(worst, UlpError(out[i], exact(a[i])));
    }
    return worst;
  }
  float Apply(VecTestKernels::Unary* op, float x) {
    Floats a, out;
    a.fill(x);
    op(a.data(), out.data());
    return out[0];
  }

  std::mt19937 rng_{7};
};

TEST_P(VecTest, LoadsAndStoresAnyAlignment) {
  std::array<float, 20> in, out;
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i);
  for (size_t offset = 0; offset < 4; ++offset) {
    kernels().copy(in.data() + offset, out.data() + offset);
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(out[offset + i], in[offset + i]);
  }
}

TEST_P(VecTest, FillsEveryLane) {
  Floats f;
  kernels().zero(f.data());
  for (const float x : f) EXPECT_EQ(Bits(x), 0u);
  kernels().set(-1.5f, f.data());
  for (const float x : f) EXPECT_EQ(x, -1.5f);
  Ints i;
  kernels().izero(i.data());
  for (const int32_t x : i) EXPECT_EQ(x, 0);
  kernels().iset(-7, i.data());
  for (const int32_t x : i) EXPECT_EQ(x, -7);
  Bytes b;
  kernels().bset(0xa5, b.data());
  for (const uint8_t x : b) EXPECT_EQ(x, 0xa5);
}

TEST_P(VecTest, FloatArithmeticRoundsAsOneValueDoes) {
  ExpectBinary(kernels().add, [](float a, float b) { return a + b; });
  ExpectBinary(kernels().sub, [](float a, float b) { return a - b; });
  ExpectBinary(kernels().mul, [](float a, float b) { return a * b; });
  ExpectBinary(kernels().div, [](float a, float b) { return a / b; });
  ExpectBinary(kernels().max, [](float a, float b) { return std::max(a, b); });
  ExpectBinary(kernels().min, [](float a, float b) { return std::min(a, b); });
  ExpectUnary(kernels().abs, [](float a) { return std::fabs(a); });
  ExpectUnary(kernels().neg, [](float a) { return -a; });
  for (int round = 0; round < 200; ++round) {
    Floats a = RandomFloats(), out;
    for (float& x : a) x = std::fabs(x);
    kernels().sqrt(a.data(), out.data());
    for (size_t i = 0; i < 16; ++i) ASSERT_EQ(Bits(out[i]), Bits(std::sqrt(a[i]))) << a[i];
  }
}

TEST_P(VecTest, FmaRoundsOnceExceptInTheScalarTier) {
  for (int round = 0; round < 200; ++round) {
    const Floats a = RandomFloats(), b = RandomFloats(), c = RandomFloats();
    Floats out;
    kernels().fma(a.data(), b.data(), c.data(), out.data());
    for (size_t i = 0; i < 16; ++i) {
      const volatile float product = a[i] * b[i];
      ASSERT_EQ(Bits(out[i]), Bits(fuses() ? std::fma(a[i], b[i], c[i]) : product + c[i]));
    }
  }
}

TEST_P(VecTest, SelectLessTreatsEqualAndNanAsNotLess) {
  Floats a = RandomFloats(), b = RandomFloats(), x = RandomFloats(), y = RandomFloats(), out;
  a[0] = b[0];
  a[1] = kNan;
  b[2] = kNan;
  a[3] = -kInfinity;
  a[4] = -0.0f;
  b[4] = 0.0f;
  kernels().select_less(a.data(), b.data(), x.data(), y.data(), out.data());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], a[i] < b[i] ? x[i] : y[i]) << i;
}

TEST_P(VecTest, LargestAndSumsOfEightVectorsAtOnceAreThoseOfEach) {
  std::array<float, 8 * 16> v;
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 0; i < 8; ++i) {
      const Floats a = RandomFloats();
      std::copy(a.begin(), a.end(), v.begin() + static_cast<std::ptrdiff_t>(16 * i));
    }
    Floats out;
    kernels().hmax_each(v.data(), out.data());
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ(out[i], kernels().hmax(v.data() + 16 * i)) << i;
    kernels().hsum_each(v.data(), out.data());
    for (size_t i = 0; i < 8; ++i) ASSERT_EQ(out[i], kernels().hsum(v.data() + 16 * i)) << i;
  }
}

TEST_P(VecTest, PartialLoadsAndStoresTouchNothingElse) {
  for (int n = 0; n <= 16; ++n) {
    const auto count = static_cast<size_t>(n);
    const std::vector<float> in(count, 3.0f);  // exactly n floats: a sanitizer sees a read past the end
    Floats out;
    kernels().load_first(in.data(), n, out.data());
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], i < count ? 3.0f : 0.0f);
    std::vector<float> target(count, 0.0f);
    const Floats source = RandomFloats();
    kernels().store_first(source.data(), n, target.data());
    EXPECT_TRUE(std::equal(target.begin(), target.end(), source.begin()));
    Floats guarded;
    guarded.fill(9.0f);
    kernels().store_first(source.data(), n, guarded.data());
    for (size_t i = count; i < 16; ++i) EXPECT_EQ(guarded[i], 9.0f);
  }
}

TEST_P(VecTest, HorizontalSumIsTheDocumentedTree) {
  for (int round = 0; round < 200; ++round) {
    const Floats a = RandomFloats();
    Floats tree = a;
    for (size_t half = 8; half > 0; half /= 2) {
      for (size_t i = 0; i < half; ++i) tree[i] += tree[i + half];
    }
    ASSERT_EQ(Bits(kernels().hsum(a.data())), Bits(tree[0]));
    ASSERT_EQ(kernels().hmax(a.data()), *std::max_element(a.begin(), a.end()));
  }
}

TEST_P(VecTest, ButterfliesAreSumsBelowAndDifferencesAbove) {
  for (size_t log = 0; log < 4; ++log) {
    const size_t n = size_t{1} << log;
    for (int round = 0; round < 200; ++round) {
      const Floats a = RandomFloats();
      Floats out;
      kernels().butterfly[log](a.data(), out.data());
      for (size_t i = 0; i < 16; ++i) {
        const float expected = (i & n) != 0 ? a[i ^ n] - a[i] : a[i] + a[i ^ n];
        ASSERT_EQ(Bits(out[i]), Bits(expected)) << "distance " << n << ", lane " << i;
      }
    }
  }
}

TEST_P(VecTest, HalfPrecisionAgreesWithTheScalarConversionForEveryPattern) {
  for (uint32_t first = 0; first < 65536; first += 16) {
    std::array<uint16_t, 16> in, out;
    for (size_t i = 0; i < 16; ++i) in[i] = static_cast<uint16_t>(first + i);
    Floats wide;
    kernels().load_f16(in.data(), wide.data());
    kernels().store_f16(wide.data(), out.data());
    for (size_t i = 0; i < 16; ++i) {
      const float expected = F16ToF32(in[i]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(wide[i])) << in[i];
        ASSERT_TRUE(std::isnan(F16ToF32(out[i]))) << in[i];
        continue;
      }
      ASSERT_EQ(Bits(wide[i]), Bits(expected)) << in[i];
      ASSERT_EQ(out[i], in[i]);
    }
    kernels().load_bf16(in.data(), wide.data());
    kernels().store_bf16(wide.data(), out.data());
    for (size_t i = 0; i < 16; ++i) {
      ASSERT_EQ(Bits(wide[i]), Bits(Bf16ToF32(in[i])));
      ASSERT_EQ(out[i], F32ToBf16(wide[i]));
    }
  }
}

TEST_P(VecTest, NarrowingRoundsAsTheScalarConversionDoes) {
  for (uint32_t round = 0; round < 20000; ++round) {
    Floats a;
    for (float& x : a) x = std::bit_cast<float>(static_cast<uint32_t>(rng_()));
    a[0] = F16ToF32(static_cast<uint16_t>(round)) * (1 + 0x1p-11f);  // ties and near ties
    a[1] = 65520.0f;
    std::array<uint16_t, 16> half, brain;
    kernels().store_f16(a.data(), half.data());
    kernels().store_bf16(a.data(), brain.data());
    for (size_t i = 0; i < 16; ++i) {
      if (std::isnan(a[i])) {
        ASSERT_TRUE(std::isnan(F16ToF32(half[i])) && std::isnan(Bf16ToF32(brain[i])));
        continue;
      }
      ASSERT_EQ(half[i], F32ToF16(a[i])) << a[i];
      ASSERT_EQ(brain[i], F32ToBf16(a[i])) << a[i];
    }
  }
}

TEST_P(VecTest, IntegerArithmeticWraps) {
  ExpectIntBinary(kernels().iadd, [](uint32_t a, uint32_t b) { return a + b; });
  ExpectIntBinary(kernels().isub, [](uint32_t a, uint32_t b) { return a - b; });
  ExpectIntBinary(kernels().imul, [](uint32_t a, uint32_t b) { return a * b; });
}

TEST_P(VecTest, ConvertsBetweenFloatAndInteger) {
  const Ints values = RandomInts();
  Floats converted;
  kernels().to_f32(values.data(), converted.data());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(converted[i], static_cast<float>(values[i]));

  const Floats halves = {0.5f,           1.5f, 2.5f,  -0.5f,      -1.5f,       -2.5f,
                         0.49999997f,    1e9f, -1e9f, 8388609.0f, -8388607.5f, 2147483520.0f,
                         -2147483648.0f, 3.7f, -3.7f, 0.0f};
  Ints rounded;
  kernels().round_to_i32(halves.data(), rounded.data());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(rounded[i], std::lrint(halves[i])) << halves[i];

  for (int32_t e = -126; e <= 127; ++e) {
    Ints exponent;
    exponent.fill(e);
    Floats power;
    kernels().exponent2(exponent.data(), power.data());
    for (const float x : power) EXPECT_EQ(x, std::ldexp(1.0f, e));
  }
}

TEST_P(VecTest, ScaledByAPowerOfTwoButZeroBelowALimit) {
  const Floats a = {1.0f,  1.5f, 0.7f, 1.4f, -1.25f, 1.0f, 1.0f, 0.75f,
                    0.71f, 1.0f, 1.0f, 1.0f, 1.3f,   1.0f, 1.0f, 1.0f};
  const Floats n = {0.0f, -1.0f, -3.0f, -20.0f, 5.0f,    127.0f,  -126.0f, -126.0f,
                    0.0f, 0.0f,  0.0f,  -1.0f,  -126.0f, -126.0f, 2.0f,    -126.0f};
  Floats x = n;
  // Below the limit, the nearest number below it included.
  x[8] = -std::numeric_limits<float>::infinity();
  x[9] = -1e30f;
  x[10] = -127.0f;
  x[13] = std::nextafter(-126.0f, -200.0f);
  Floats out;
  kernels().scaled_from(-126.0f, x.data(), a.data(), n.data(), out.data());
  for (size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(out[i], x[i] < -126.0f ? 0.0f : std::ldexp(a[i], static_cast<int>(n[i]))) << i;
  }
}

TEST_P(VecTest, IntegerBitsCombine) {
  ExpectIntBinary(kernels().iand, [](uint32_t a, uint32_t b) { return a & b; });
  ExpectIntBinary(kernels().ior, [](uint32_t a, uint32_t b) { return a | b; });
}

TEST_P(VecTest, IntegersShiftRightWithTheirSign) {
  const Ints a = RandomInts();
  Ints out;
  kernels().shift_right5(a.data(), out.data());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], a[i] >> 5) << a[i];
}

TEST_P(VecTest, PacksFourVectorsOfLevelsSoThatFourLanesStayTogether) {
  std::array<int32_t, 64> levels;
  Bytes packed, upper, lower;
  const auto at = [](size_t lane, size_t vector) { return lane / 4 * 16 + vector * 4 + lane % 4; };
  for (int round = 0; round < 50; ++round) {
    for (int32_t& x : levels) x = static_cast<int32_t>(rng_() & 0xffff);
    levels[5] = 65535;
    kernels().pack_levels16(levels.data(), upper.data(), lower.data());
    for (size_t i = 0; i < 64; ++i) {
      ASSERT_EQ(upper[at(i % 16, i / 16)], levels[i] >> 8) << i;
      ASSERT_EQ(lower[at(i % 16, i / 16)], levels[i] & 255) << i;
    }
    for (int32_t& x : levels) x &= 255;
    kernels().pack_levels(levels.data(), packed.data());
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(packed[at(i % 16, i / 16)], levels[i]) << i;
  }
}

TEST_P(VecTest, FractionIsWhatRoundingLeaves) {
  const Floats values = {0.5f,   1.5f, 2.5f,  -0.5f, -1.5f,       -2.5f,  0.49999997f, 254.5f,
                         253.5f, 3.7f, -3.7f, 0.0f,  4194303.25f, 1e-40f, -1e-40f,     100.25f};
  Floats fraction;
  kernels().fraction(values.data(), fraction.data());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(fraction[i], values[i] - std::nearbyint(values[i])) << values[i];
}

TEST_P(VecTest, LooksBytesUpInATableOfSixteen) {
  const Bytes table = RandomBytes();
  Bytes repeated, index = RandomBytes(), out;
  kernels().broadcast16(table.data(), repeated.data());
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(repeated[i], table[i % 16]);
  for (uint8_t& i : index) i &= 15;
  kernels().lookup16(table.data(), index.data(), out.data());
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], table[i / 16 * 16 + index[i]]);
}

TEST_P(VecTest, StoresTheLowByteOfEachLane) {
  const Ints values = RandomInts();
  std::array<uint8_t, 17> bytes = {};
  kernels().store_bytes(values.data(), bytes.data());
  for (size_t i = 0; i < 16; ++i) EXPECT_EQ(bytes[i], static_cast<uint8_t>(values[i])) << i;
  EXPECT_EQ(bytes[16], 0);
}

TEST_P(VecTest, WidensBytesToFloats) {
  for (int first = 0; first < 256; first += 16) {
    std::array<uint8_t, 16> bytes;
    for (size_t i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(first + static_cast<int>(i));
    Floats out;
    kernels().load_u8(bytes.data(), out.data());
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], static_cast<float>(bytes[i]));
    kernels().load_i8(bytes.data(), out.data());
    for (size_t i = 0; i < 16; ++i) EXPECT_EQ(out[i], static_cast<float>(static_cast<int8_t>(bytes[i])));
  }
}

TEST_P(VecTest, ByteOperationsStayWithinTheirByte) {
  ExpectByteUnary(
      kernels().bcopy, [](int b, int) { return b; }, 0);
  ExpectByteUnary(
      kernels().low4, [](int b, int) { return b & 15; }, 0);
  ExpectByteUnary(
      kernels().high4, [](int b, int) { return b >> 4; }, 0);
  for (int n = 1; n < 8; ++n) {
    ExpectByteUnary(
        kernels().shift_right[n], [](int b, int by) { return b >> by; }, n);
    ExpectByteUnary(
        kernels().shift_left[n], [](int b, int by) { return b << by; }, n);
  }
  ExpectByteBinary(kernels().band, [](int a, int b) { return a & b; });
  ExpectByteBinary(kernels().bor, [](int a, int b) { return a | b; });
  ExpectByteBinary(kernels().bxor, [](int a, int b) { return a ^ b; });
  ExpectByteBinary(kernels().badd, [](int a, int b) { return (a + b) & 255; });
  ExpectByteBinary(kernels().bsub, [](int a, int b) { return (a - b) & 255; });
  ExpectByteBinary(kernels().bmin, [](int a, int b) { return a < b ? a : b; });
  ExpectByteBinary(kernels().bsub_sat, [](int a, int b) { return a > b ? a - b : 0; });
  const std::vector<uint8_t> four = {1, 200, 3, 255};
  Bytes out;
  kernels().broadcast4(four.data(), out.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(out[i], four[i % 4]);
}

TEST_P(VecTest, LooseShiftsMoveTheBitsThatStay) {
  const Bytes b = RandomBytes();
  Bytes out;
  for (size_t n = 1; n < 8; ++n) {
    const int kept = 0xff >> n;
    kernels().loose_shift_right[n](b.data(), out.data());
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i] & kept, b[i] >> n);
    kernels().loose_shift_left[n](b.data(), out.data());
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i] >> n, b[i] & kept);
  }
}

TEST_P(VecTest, SelectsBits) {
  const Bytes mask = RandomBytes(), a = RandomBytes(), b = RandomBytes();
  Bytes out;
  kernels().bselect(mask.data(), a.data(), b.data(), out.data());
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], (a[i] & mask[i]) | (b[i] & ~mask[i] & 255));
}

TEST_P(VecTest, CountsTheBytesThatAreGreater) {
  for (int round = 0; round < 100; ++round) {
    const Bytes n = RandomBytes(), a = RandomBytes();
    Bytes b = RandomBytes(), out;
    b[7] = a[7];
    kernels().count_greater(n.data(), a.data(), b.data(), out.data());
    for (size_t i = 0; i < 64; ++i) ASSERT_EQ(out[i], static_cast<uint8_t>(n[i] + (a[i] > b[i] ? 1 : 0)));
  }
}

TEST_P(VecTest, DotIsExactForEveryPairOfBytes) {
  const Ints acc = RandomInts();
  Ints small;
  for (size_t i = 0; i < 16; ++i) small[i] = acc[i] / 2;
  for (int u = 0; u < 256; ++u) {
    for (int s = -128; s < 128; ++s) {  // all four products alike: where pair sums of 16 bits would saturate
      Bytes us, ss;
      us.fill(static_cast<uint8_t>(u));
      ss.fill(static_cast<uint8_t>(s));
      ExpectDot(kernels().dot_u8i8, small, us, ss);
      if (u < 128) ExpectDot(kernels().dot_u7i8, small, us, ss);
    }
  }
  for (int round = 0; round < 1000; ++round) {
    Bytes u = RandomBytes();
    const Bytes s = RandomBytes();
    ExpectDot(kernels().dot_u8i8, small, u, s);
    for (uint8_t& x : u) x &= 0x7f;
    ExpectDot(kernels().dot_u7i8, small, u, s);
  }
}

TEST_P(VecTest, Exp2IsAccurateAndExactWhereSoftmaxNeedsIt) {
  EXPECT_LT(LargestError(kernels().exp2, std::exp2, -126, 127.49), fuses() ? 1.0 : 1.5);
  EXPECT_LT(LargestError(kernels().exp2, std::exp2, -1, 0), fuses() ? 1.0 : 1.5);
  for (int n = -126; n <= 127; ++n) {
    ASSERT_EQ(Apply(kernels().exp2, static_cast<float>(n)), std::ldexp(1.0f, n));
  }
  for (const float x : {-126.1f, -150.0f, -1e30f, -kInfinity})
    EXPECT_EQ(Bits(Apply(kernels().exp2, x)), 0u) << x;
  for (const float x : {127.5f, 128.0f, 1e30f, kInfinity})
    EXPECT_EQ(Apply(kernels().exp2, x), kInfinity) << x;
  EXPECT_TRUE(std::isnan(Apply(kernels().exp2, kNan)));
}

TEST_P(VecTest, ExpIsAccurateAndSaturates) {
  EXPECT_LT(LargestError(kernels().exp, std::exp, -87.2, 88.2), fuses() ? 1.5 : 2.0);
  EXPECT_EQ(Apply(kernels().exp, 0.0f), 1.0f);
  for (const float x : {-87.4f, -1e30f, -kInfinity}) EXPECT_EQ(Bits(Apply(kernels().exp, x)), 0u) << x;
  for (const float x : {88.4f, 1e30f, kInfinity}) EXPECT_EQ(Apply(kernels().exp, x), kInfinity) << x;
  EXPECT_TRUE(std::isnan(Apply(kernels().exp, kNan)));
}

TEST_P(VecTest, ActivationsAreAccurate) {
  constexpr auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  constexpr auto silu = [](double x) { return x / (1 + std::exp(-x)); };
  constexpr auto gelu = [](double x) {
    return x / (1 + std::exp(-2 * std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  };
  EXPECT_LT(LargestError(kernels().sigmoid, sigmoid, -80, 80), 3.0);
  EXPECT_LT(LargestError(kernels().silu, silu, -80, 80), 3.0);
  EXPECT_LT(LargestError(kernels().tanh, std::tanh, -10, 10), 3.0);
  EXPECT_LT(LargestError(kernels().tanh, std::tanh, -0.63, 0.63), 3.0);
  EXPECT_LT(LargestError(kernels().gelu_tanh, gelu, -1, 10), 4.0);
  EXPECT_EQ(Apply(kernels().tanh, kInfinity), 1.0f);
  EXPECT_EQ(Apply(kernels().tanh, -100.0f), -1.0f);
  EXPECT_EQ(Apply(kernels().sigmoid, -kInfinity), 0.0f);
  EXPECT_EQ(Apply(kernels().sigmoid, kInfinity), 1.0f);
  EXPECT_EQ(Apply(kernels().silu, -200.0f), 0.0f);
  EXPECT_EQ(Apply(kernels().gelu_tanh, -30.0f), 0.0f);
  // Far down the negative side the rounding of the exponent grows with it; in absolute terms it is nothing.
  for (float x = -6; x < -1; x += 0.01f) EXPECT_NEAR(Apply(kernels().gelu_tanh, x), gelu(x), 1e-7);
}

TEST_P(VecTest, AValueGivesTheSameBitsInEveryLane) {
  for (VecTestKernels::Unary* op : {kernels().exp2, kernels().exp, kernels().sigmoid, kernels().silu,
                                    kernels().tanh, kernels().gelu_tanh}) {
    const Floats a = RandomFloats();
    Floats straight;
    op(a.data(), straight.data());
    for (size_t shift = 1; shift < 16; ++shift) {
      Floats rotated, out;
      std::rotate_copy(a.begin(), a.begin() + static_cast<int64_t>(shift), a.end(), rotated.begin());
      op(rotated.data(), out.data());
      for (size_t i = 0; i < 16; ++i) ASSERT_EQ(Bits(out[i]), Bits(straight[(i + shift) % 16]));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, VecTest, testing::ValuesIn(VectorIsas()),
                         [](const auto& tier) { return std::string(IsaName(tier.param)); });

}  // namespace
}  // namespace holdfast
