// What the attention benchmark refuses to start.
#include <gtest/gtest.h>

#include "holdfast/bench.h"

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

}  // namespace
}  // namespace holdfast
