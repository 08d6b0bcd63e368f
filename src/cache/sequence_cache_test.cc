#include "cache/sequence_cache.h"

#include <gtest/gtest.h>

#include "cache/testing_cache.h"

namespace holdfast {
namespace {

using testing::Full;
using testing::LiveRows;
using testing::ReadRows;
using testing::SmallConfig;
using testing::Window;

// A full and a window layer, as models mix them.
CacheConfig MixedConfig(StorageId storage, int rewind_tokens) {
  CacheConfig config = SmallConfig(Full(), storage, rewind_tokens);
  config.layers.push_back(SmallConfig(Window(20, 2), storage).layers[0]);
  return config;
}

// One step: both layers append, in pieces where they must.
Status Step(SequenceCache& sequence, int64_t tokens, float tweak = 0.0f) {
  const Status begun = sequence.BeginStep(tokens);
  if (!begun.ok()) return begun;
  for (int layer = 0; layer < sequence.layers(); ++layer) {
    const Status appended = testing::AppendTokens(sequence.layer(LayerId{layer}), tokens, 1 << 30, tweak);
    if (!appended.ok()) {
      const Status aborted = sequence.AbortStep();
      EXPECT_TRUE(aborted.ok()) << aborted.message();
      return appended;
    }
  }
  return sequence.CommitStep();
}

// All that a caller can tell about a sequence.
struct Seen {
  int64_t length, rewindable, live_bytes;
  CacheBytes bytes;
  std::vector<LiveRows> rows;

  friend bool operator==(const Seen&, const Seen&) = default;
};

Seen See(const SequenceCache& sequence) {
  Seen seen = {sequence.length(), sequence.rewindable(), sequence.live_bytes(), sequence.bytes(), {}};
  for (int layer = 0; layer < sequence.layers() && sequence.length() > 0; ++layer) {
    seen.rows.push_back(ReadRows(sequence.layer(LayerId{layer}), sequence.length() - 1, 1));
  }
  return seen;
}

class SequenceInEveryStorage : public ::testing::TestWithParam<StorageId> {};

TEST_P(SequenceInEveryStorage, StepsRewindsAndForksKeepAllLayersAtOneLengthAndThePlan) {
  const CacheConfig config = MixedConfig(GetParam(), 4);
  const auto memory = std::make_shared<CacheMemory>();
  const auto sequence = std::move(SequenceCache::Create(config, memory)).value();
  for (const int64_t tokens : {1, 40, 3, 300, 5}) {
    ASSERT_TRUE(Step(*sequence, tokens).ok());
    EXPECT_EQ(sequence->bytes(), PlanCache(config, sequence->length()).value());
    EXPECT_EQ(memory->allocated_bytes(), sequence->bytes().total_bytes());
    ASSERT_TRUE(sequence->Rewind(1).ok());
    EXPECT_EQ(sequence->bytes(), PlanCache(config, sequence->length()).value());
  }
  const auto fork = std::move(sequence->Fork()).value();
  EXPECT_EQ(See(*fork), See(*sequence));
  sequence->Clear();
  EXPECT_EQ(sequence->bytes().total_bytes(), 0);
  EXPECT_EQ(fork->layer(LayerId{1}).length(), fork->length());
}

TEST_P(SequenceInEveryStorage, ARewindThatOneLayerRefusesChangesNone) {
  const auto sequence =
      std::move(SequenceCache::Create(MixedConfig(GetParam(), 4), std::make_shared<CacheMemory>())).value();
  ASSERT_TRUE(Step(*sequence, 100).ok());
  EXPECT_EQ(sequence->rewindable(), 4);
  const Seen before = See(*sequence);
  EXPECT_EQ(sequence->Rewind(5).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(sequence->Rewind(101).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(sequence->Rewind(-1).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(See(*sequence), before);
}

TEST_P(SequenceInEveryStorage, AnAbortedStepLeavesNoTrace) {
  const auto sequence =
      std::move(SequenceCache::Create(MixedConfig(GetParam(), 4), std::make_shared<CacheMemory>())).value();
  ASSERT_TRUE(Step(*sequence, 10).ok());
  const Seen before = See(*sequence);
  ASSERT_TRUE(sequence->BeginStep(300).ok());
  EXPECT_EQ(sequence->Rewind(1).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(sequence->Fork().status().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(sequence->BeginStep(1).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(testing::AppendTokens(sequence->layer(LayerId{0}), 300).ok());
  EXPECT_EQ(sequence->CommitStep().message(), "commit: layer 1 holds 10 tokens, must hold 310");
  ASSERT_TRUE(sequence->AbortStep().ok());
  EXPECT_EQ(See(*sequence), before);
}

TEST_P(SequenceInEveryStorage, AStepThatARingCannotTakeBackDamagesTheSequenceUntilItIsCleared) {
  const auto sequence =
      std::move(SequenceCache::Create(MixedConfig(GetParam(), 4), std::make_shared<CacheMemory>())).value();
  ASSERT_TRUE(Step(*sequence, 10).ok());
  ASSERT_TRUE(sequence->BeginStep(300).ok());
  ASSERT_TRUE(testing::AppendTokens(sequence->layer(LayerId{1}), 300).ok());
  EXPECT_EQ(sequence->AbortStep().code(), StatusCode::kDataLoss);
  EXPECT_EQ(sequence->BeginStep(1).code(), StatusCode::kDataLoss);
  EXPECT_EQ(sequence->Rewind(1).code(), StatusCode::kDataLoss);
  EXPECT_EQ(sequence->Fork().status().code(), StatusCode::kDataLoss);
  sequence->Clear();
  EXPECT_TRUE(Step(*sequence, 10).ok());
}

// Every allocation in turn fails: under every memory limit, each operation either succeeds or says
// kResourceExhausted and leaves all sequences as they were.
TEST_P(SequenceInEveryStorage, WhicheverAllocationFailsTheSequencesAreAsBefore) {
  const CacheConfig config = MixedConfig(GetParam(), 4);
  int refusals = 0;
  bool all_succeeded = false;
  for (int64_t limit = 64; !all_succeeded; limit += 256) {
    const auto memory = std::make_shared<CacheMemory>(limit);
    auto a = std::move(SequenceCache::Create(config, memory)).value();
    std::unique_ptr<SequenceCache> b;
    all_succeeded = true;
    const auto expect_unchanged = [&](auto operation) {
      const Seen before = See(*a);
      const Seen fork_before = b == nullptr ? Seen{} : See(*b);
      const Status status = operation();
      if (status.ok()) return;
      ASSERT_EQ(status.code(), StatusCode::kResourceExhausted) << status.message();
      ASSERT_EQ(See(*a), before) << "limit " << limit;
      if (b != nullptr) {
        ASSERT_EQ(See(*b), fork_before) << "limit " << limit;
      }
      ASSERT_EQ(a->bytes(), PlanCache(config, a->length()).value()) << "limit " << limit;
      ++refusals;
      all_succeeded = false;
    };
    expect_unchanged([&] { return Step(*a, 3); });
    expect_unchanged([&] { return Step(*a, 30); });
    expect_unchanged([&] {
      Result<std::unique_ptr<SequenceCache>> fork = a->Fork();
      if (!fork.ok()) return fork.status();
      b = std::move(fork).value();
      return OkStatus();
    });
    expect_unchanged([&] { return Step(*a, 1, 1.0f); });
    if (b != nullptr) expect_unchanged([&] { return Step(*b, 70, 2.0f); });
    if (a->length() > 1) {
      ASSERT_TRUE(a->Rewind(1).ok());
    }
    expect_unchanged([&] { return Step(*a, 300, 3.0f); });
    b.reset();
    a.reset();
    ASSERT_EQ(memory->allocated_bytes(), 0) << "limit " << limit;
  }
  EXPECT_GT(refusals, 100);
}

INSTANTIATE_TEST_SUITE_P(All, SequenceInEveryStorage, ::testing::ValuesIn(AllStorages()),
                         [](const auto& param) { return std::string(StorageName(param.param)); });

}  // namespace
}  // namespace holdfast
