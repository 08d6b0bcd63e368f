#include "simd/isa.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace holdfast {
namespace {

class IsaTest : public testing::Test {
 protected:
  void SetUp() override {
    const char* before = std::getenv(kVariable);
    had_ = before != nullptr;
    if (had_) before_ = before;
    unsetenv(kVariable);
  }
  void TearDown() override {
    if (had_) {
      setenv(kVariable, before_.c_str(), 1);
    } else {
      unsetenv(kVariable);
    }
  }
  static constexpr const char* kVariable = "HOLDFAST_FORCE_ISA";

 private:
  bool had_ = false;
  std::string before_;
};

TEST_F(IsaTest, EveryProcessorHasTheScalarTierAndUsesItsStrongest) {
  const std::vector<Isa> supported = SupportedIsas();
  ASSERT_FALSE(supported.empty());
  EXPECT_EQ(supported.front(), Isa::kScalar);
  EXPECT_EQ(ActiveIsa(), supported.back());
  EXPECT_TRUE(CheckForcedIsa().ok());
}

TEST_F(IsaTest, AnySupportedTierCanBeForced) {
  for (const Isa isa : SupportedIsas()) {
    setenv(kVariable, std::string(IsaName(isa)).c_str(), 1);
    EXPECT_EQ(ActiveIsa(), isa);
    EXPECT_TRUE(CheckForcedIsa().ok());
  }
}

TEST_F(IsaTest, ANameThatThisProcessorLacksIsReportedAndOtherwiseIgnored) {
  for (const char* name : {
         "sse9", "", "AVX2",
#if defined(__x86_64__)
             "neon"
#else
                           "avx2"
#endif
       }) {
    setenv(kVariable, name, 1);
    EXPECT_EQ(ActiveIsa(), SupportedIsas().back());
    const Status status = CheckForcedIsa();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_NE(status.message().find("\"" + std::string(name) + "\""), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("scalar"), std::string::npos) << status.message();
  }
}

}  // namespace
}  // namespace holdfast
