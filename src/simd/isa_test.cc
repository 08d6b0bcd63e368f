#include "simd/isa.h"

#include <gtest/gtest.h>

#include "simd/testing_forced_isa.h"

namespace holdfast {
namespace {

TEST(Isa, EveryProcessorHasTheScalarTierAndUsesItsStrongest) {
  const ForcedIsa none(nullptr);
  const std::vector<Isa> supported = SupportedIsas();
  ASSERT_FALSE(supported.empty());
  EXPECT_EQ(supported.front(), Isa::kScalar);
  EXPECT_EQ(ActiveIsa(), supported.back());
  EXPECT_TRUE(CheckForcedIsa().ok());
}

TEST(Isa, AnySupportedTierCanBeForced) {
  for (const Isa isa : SupportedIsas()) {
    const ForcedIsa forced(std::string(IsaName(isa)).c_str());
    EXPECT_EQ(ActiveIsa(), isa);
    EXPECT_TRUE(CheckForcedIsa().ok());
  }
}

TEST(Isa, VectorTiersAreTheSupportedOnesButForTiles) {
  std::vector<Isa> expected = SupportedIsas();
  std::erase(expected, Isa::kAmx);
  EXPECT_EQ(VectorIsas(), expected);
  // Tiles come on top of AVX-512, never without it.
  const std::vector<Isa> all = SupportedIsas();
  if (expected.size() < all.size()) {
    EXPECT_EQ(expected.back(), Isa::kAvx512);
    EXPECT_EQ(all.back(), Isa::kAmx);
  }
}

TEST(Isa, ANameThatThisProcessorLacksIsReportedWithThoseItHas) {
#if defined(__x86_64__)
  constexpr const char* kOfAnotherProcessor = "neon";
#else
  constexpr const char* kOfAnotherProcessor = "avx2";
#endif
  for (const char* name : {"sse9", "", "AVX2", kOfAnotherProcessor}) {
    const ForcedIsa forced(name);
    EXPECT_EQ(ActiveIsa(), SupportedIsas().back());
    const Status status = CheckForcedIsa();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("\"" + std::string(name) + "\""), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("scalar"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace holdfast
