#include "base/float16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace holdfast {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a half pattern is worth, from the definition: sign, exponent - 15, ten bits of fraction.
double HalfValue(uint16_t h) {
  const double sign = (h & 0x8000) != 0 ? -1 : 1;
  const int exponent = (h >> 10) & 31;
  const double fraction = (h & 1023) / 1024.0;
  if (exponent == 0) return sign * std::ldexp(fraction, -14);
  return sign * std::ldexp(1 + fraction, exponent - 15);
}

bool IsHalfNan(uint16_t h) {
  return (h & 0x7fff) > 0x7c00;
}

TEST(Float16Test, EveryHalfPatternRoundTrips) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto h = static_cast<uint16_t>(pattern);
    const float wide = F16ToF32(h);
    if (IsHalfNan(h)) {
      ASSERT_TRUE(std::isnan(wide)) << pattern;
      ASSERT_EQ(F32ToF16(wide), h | 0x200) << pattern;  // quiet, with its payload
    } else if ((h & 0x7fff) == 0x7c00) {
      ASSERT_EQ(wide, (h & 0x8000) != 0 ? -kInfinity : kInfinity);
      ASSERT_EQ(F32ToF16(wide), h);
    } else {
      ASSERT_EQ(wide, HalfValue(h)) << pattern;
      ASSERT_EQ(std::signbit(wide), (h & 0x8000) != 0);
      ASSERT_EQ(F32ToF16(wide), h) << pattern;
    }
  }
}

TEST(Float16Test, HalfRoundsToNearestAndTiesToEven) {
  for (uint16_t h = 0; h < 0x7bff; ++h) {  // every neighbouring pair of finite halves, subnormals included
    const auto next = static_cast<uint16_t>(h + 1);
    const auto middle = static_cast<float>((HalfValue(h) + HalfValue(next)) / 2);  // exact in float
    ASSERT_EQ(F32ToF16(middle), h % 2 == 0 ? h : next) << h;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, 0.0f)), h) << h;
    ASSERT_EQ(F32ToF16(std::nextafter(middle, kInfinity)), next) << h;
    ASSERT_EQ(F32ToF16(-middle), 0x8000 | (h % 2 == 0 ? h : next)) << h;
  }
}

TEST(Float16Test, HalfOverflowsToInfinityFromHalfwayPastTheLargest) {
  EXPECT_EQ(F32ToF16(65504.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(std::nextafter(65520.0f, 0.0f)), 0x7bff);
  EXPECT_EQ(F32ToF16(65520.0f), 0x7c00);
  EXPECT_EQ(F32ToF16(-65520.0f), 0xfc00);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::max()), 0x7c00);
  EXPECT_EQ(F32ToF16(kInfinity), 0x7c00);
  EXPECT_TRUE(IsHalfNan(F32ToF16(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Float16Test, WhatIsTooSmallForAHalfBecomesASignedZero) {
  EXPECT_EQ(F32ToF16(0x1p-25f), 0);  // tie between 0 and the smallest subnormal
  EXPECT_EQ(F32ToF16(std::nextafter(0x1p-25f, 1.0f)), 1);
  EXPECT_EQ(F32ToF16(-0x1p-26f), 0x8000);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::denorm_min()), 0);
  EXPECT_EQ(F32ToF16(-0.0f), 0x8000);
}

TEST(Float16Test, EveryBfloatPatternRoundTrips) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto b = static_cast<uint16_t>(pattern);
    const float wide = Bf16ToF32(b);
    if (std::isnan(wide)) {
      ASSERT_EQ(F32ToBf16(wide), b | 0x40) << pattern;
    } else {
      ASSERT_EQ(F32ToBf16(wide), b) << pattern;
    }
  }
}

TEST(Float16Test, BfloatRoundsToNearestAndTiesToEven) {
  for (uint16_t b = 0; b < 0x7f7f; ++b) {
    const float middle = std::bit_cast<float>((static_cast<uint32_t>(b) << 16) | 0x8000u);
    ASSERT_EQ(F32ToBf16(middle), b + b % 2) << b;
    ASSERT_EQ(F32ToBf16(std::nextafter(middle, 0.0f)), b) << b;
    ASSERT_EQ(F32ToBf16(std::nextafter(middle, kInfinity)), b + 1) << b;
  }
  EXPECT_EQ(F32ToBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(F32ToBf16(kInfinity), 0x7f80);
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace holdfast
