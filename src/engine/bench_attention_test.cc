// What the attention benchmark refuses to start.
#include <gtest/gtest.h>

#include "holdfast/bench.h"
#include "simd/testing_forced_isa.h"

namespace holdfast {
namespace {

TEST(BenchAttention, CachesThatDoNotFitTheMemoryAreRefusedBeforeAnyIsBuilt) {
  AttentionBenchOptions options;
  options.codecs = {KvSpec{CodecId::kF32, CodecId::kF32}};
  options.storages = {StorageId::kContiguous};
  options.rows = {int64_t{1} << 24};
  options.q_heads = options.kv_heads = 64;  // 8 TiB in four layers
  options.head_dim = 256;
  const Status refused = BenchAttention(options).status();
  EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(refused.message().find("the caches of 16777216 rows are "), std::string::npos)
      << refused.message();
  EXPECT_NE(refused.message().find("half of the memory is "), std::string::npos) << refused.message();
}

TEST(Benchmarks, DoNotMeasureAnotherInstructionSetThanTheOneThatWasForced) {
  const ForcedIsa forced("avx9");
  EXPECT_EQ(BenchAttention({}).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(BenchAppend({16}).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace holdfast
