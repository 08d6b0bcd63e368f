// What a query gets depends on its q and the rows it sees alone: not one bit on threads, on its company, on
// where rows lie or how spans are cut.
#include <gtest/gtest.h>

#include "attention/testing_rows.h"
#include "simd/testing_effort.h"

namespace holdfast {
namespace {

class AttendBitsTest : public testing::TestWithParam<CodecId> {
 protected:
  // Long enough that decode is split over chunks and prefill is cut into blocks.
  std::vector<std::pair<TestGeometry, std::vector<TestSequence>>> Calls() const {
    TestGeometry wide;
    wide.shape = {64, 64, false};
    wide.q_heads = 6;
    wide.kv_heads = 2;
    wide.k_codec = wide.v_codec = GetParam();
    wide.scale = 0.15f;
    TestGeometry latent;
    latent.shape = {80, 20, true};
    latent.q_heads = 7;
    latent.kv_heads = 1;
    latent.k_codec = latent.v_codec = GetParam();
    latent.scale = 0.15f;
    latent.softcap = 3.0f;
    latent.sink_logits = true;
    TestGeometry odd = wide;
    odd.shape = {20, 8, false};
    odd.q_heads = odd.kv_heads = 2;
    odd.scale = -0.3f;
    odd.sink_logits = true;
    TestGeometry sparse = wide;
    sparse.scale = 0.8f;
    sparse.sparse_v = 0.01f;
    TestGeometry pages = wide;
    pages.sparse_pages = 16;
    TestGeometry more_pages = latent;
    more_pages.sparse_pages = 33;
    TestGeometry both = sparse;
    both.sparse_pages = 20;
    return {{pages, {{2100, 1}, {300, 60}, {900, 20}}},
            {more_pages, {{1800, 3}, {3000, 1}, {550, 40}}},
            {both, {{2100, 2}, {700, 20}}},
            {sparse, {{2100, 1}, {360, 40}, {900, 20, 290, 5}}},
            {wide, {{2100, 1}}},
            {wide, {{360, 40}, {1500, 2}, {300, 1}}},
            {wide, {{900, 40, 290, 5}}},
            {latent, {{1800, 3}, {530, 35, 100, 20}}},
            {odd, {{900, 33}, {5, 5}, {3000, 1, 700, 300}}}};
  }
};

INSTANTIATE_TEST_SUITE_P(EveryCodec, AttendBitsTest, testing::ValuesIn(AllCodecs()),
                         [](const auto& instance) { return std::string(CodecName(instance.param)); });

TEST_P(AttendBitsTest, OneTwoAndThreeThreadsAgree) {
  for (const Isa isa : IsasToVisit()) {
    for (const auto& [geometry, sequences] : Calls()) {
      TestCall call(geometry, sequences, 11);
      const std::vector<float> one = call.Run(isa, 1);
      EXPECT_TRUE(SameBits(one, call.Run(isa, 2))) << IsaName(isa) << ": " << geometry.Describe();
      EXPECT_TRUE(SameBits(one, call.Run(isa, 3))) << IsaName(isa) << ": " << geometry.Describe();
    }
  }
}

TEST_P(AttendBitsTest, AQueryAloneAgreesWithTheSameQueryInABatch) {
  for (const Isa isa : IsasToVisit()) {
    for (const auto& [geometry, sequences] : Calls()) {
      TestCall call(geometry, sequences, 12);
      const std::vector<float> together = call.Run(isa, 1);
      for (const int threads : {1, 2}) {
        for (const int64_t step : {1, 7}) {
          EXPECT_TRUE(SameBits(together, call.Run(isa, threads, step)))
              << IsaName(isa) << ", " << step << " tokens a call, " << threads
              << " threads: " << geometry.Describe();
        }
      }
    }
  }
}

TEST_P(AttendBitsTest, WhereRowsLieAndHowSpansAreCutDoesNotMatter) {
  for (const Isa isa : IsasToVisit()) {
    for (const auto& [geometry, sequences] : Calls()) {
      TestCall call(geometry, sequences, 13);
      const std::vector<float> whole = call.Run(isa, 2);
      call.Scatter(99);
      EXPECT_TRUE(SameBits(whole, call.Run(isa, 2))) << IsaName(isa) << ": " << geometry.Describe();
      EXPECT_TRUE(SameBits(whole, call.Run(isa, 1, 5))) << IsaName(isa) << ": " << geometry.Describe();
    }
  }
}

TEST_P(AttendBitsTest, RowsThatAQueryDoesNotSeeDoNotMatter) {
  // A later query of the same block sees more rows; the earlier ones' bits are those they had before.
  for (const Isa isa : IsasToVisit()) {
    for (const auto& [geometry, sequences] : Calls()) {
      TestCall call(geometry, sequences, 14);
      const std::vector<float> before = call.Run(isa, 2);
      const int64_t seen_by_last = call.visible(0).back().end;
      call.visible(0).back() = {seen_by_last - 1, seen_by_last, 0};
      const std::vector<float> after = call.Run(isa, 2);
      const size_t row = static_cast<size_t>(geometry.q_heads * geometry.shape.v_dim);
      const size_t same = (call.visible(0).size() - 1) * row;
      EXPECT_TRUE(std::equal(before.begin(), before.begin() + static_cast<int64_t>(same), after.begin()));
      EXPECT_FALSE(SameBits(before, after));
    }
  }
}

}  // namespace
}  // namespace holdfast
