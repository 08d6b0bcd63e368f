// The public cache API: which sequences and calls a step takes, and what it leaves behind.
#include "holdfast/kv_cache.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "simd/testing_forced_isa.h"

namespace holdfast {
namespace {

constexpr int kQHeads = 4, kKvHeads = 2, kDim = 16, kLayers = 2;

CacheConfig Config() {
  LayerConfig layer;
  layer.shape = {kDim, kDim, false};
  layer.kv_heads = kKvHeads;
  CacheConfig config;
  config.layers.assign(kLayers, layer);
  config.max_context = 64;
  return config;
}

class KvRuntimeCalls : public testing::Test {
 protected:
  static std::unique_ptr<KvRuntime> NewRuntime() { return KvRuntime::Create({.threads = 1}).value(); }

  Result<std::unique_ptr<KvStep>> Begin(KvSequence* sequence, int64_t tokens = 1) {
    const KvSlice slice{sequence, tokens};
    return runtime_->Begin({&slice, 1});
  }
  Status Attend(KvStep& step, int layer, int q_heads = kQHeads) {
    return step.Attend(layer, q_heads, rows_.data(), rows_.data(), rows_.data(), {}, out_.data());
  }
  // A step of one token, begun.
  std::unique_ptr<KvStep> Step() {
    auto step = Begin(sequence_.get());
    EXPECT_TRUE(step.ok()) << step.status().message();
    return std::move(step).value();
  }

  std::unique_ptr<KvRuntime> runtime_ = NewRuntime();
  std::unique_ptr<KvSequence> sequence_ = runtime_->NewSequence(Config()).value();
  std::vector<float> rows_ = std::vector<float>(kQHeads * kDim, 0.5f);
  std::vector<float> out_ = std::vector<float>(kQHeads * kDim);
};

TEST_F(KvRuntimeCalls, ASequenceOfAnotherRuntimeIsRefused) {
  const auto other = NewRuntime();
  const auto stranger = other->NewSequence(Config()).value();
  const std::vector<KvSlice> slices = {{sequence_.get(), 1}, {stranger.get(), 1}};
  const Status refused = runtime_->Begin(slices).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.message(), "begin step: the sequence of slice 1 is not of this runtime");
  const auto fork = sequence_->Fork().value();
  EXPECT_TRUE(Begin(fork.get()).ok()) << "a fork is of its parent's runtime";
  EXPECT_TRUE(Begin(sequence_.get()).ok()) << "the refusal left no step open";
}

TEST_F(KvRuntimeCalls, ASliceWithoutSequenceOrTokensIsNamed) {
  EXPECT_EQ(Begin(nullptr).status().message(), "begin step: the sequence of slice 0 is null");
  EXPECT_EQ(Begin(sequence_.get(), 0).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Begin(sequence_.get(), 65).status().code(), StatusCode::kOutOfRange);
  EXPECT_EQ(runtime_->Begin({}).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(KvRuntimeCalls, WrongCallsAreNamedAndTheStepGoesOn) {
  const auto step = Step();
  EXPECT_EQ(Attend(*step, kLayers).message(), "attend: layer is 2, must be in [0, 2)");
  EXPECT_EQ(Attend(*step, -1).message(), "attend: layer is -1, must be in [0, 2)");
  EXPECT_EQ(Attend(*step, 0, 3).message(), "attend: 3 query heads, must be a multiple of 2 KV heads");
  EXPECT_TRUE(Attend(*step, 0).ok());
  const Status missing = step->Commit();
  EXPECT_EQ(missing.code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(missing.message(), "commit: layer 1 of 2 was not attended");
  EXPECT_TRUE(Attend(*step, 1).ok());
  EXPECT_TRUE(step->Commit().ok());
  EXPECT_EQ(step->Commit().code(), StatusCode::kFailedPrecondition) << "a step is committed once";
  EXPECT_EQ(sequence_->length_tokens(), 1);
}

TEST_F(KvRuntimeCalls, ADroppedStepTakesItsTokensBack) {
  {
    const auto step = Step();
    EXPECT_TRUE(Attend(*step, 0).ok());
    EXPECT_EQ(Begin(sequence_.get()).status().code(), StatusCode::kFailedPrecondition);
  }
  EXPECT_EQ(sequence_->length_tokens(), 0);
  EXPECT_EQ(sequence_->allocated(), PlanCache(Config(), 0).value());
  EXPECT_TRUE(Begin(sequence_.get()).ok());
}

TEST_F(KvRuntimeCalls, ASequenceClearedOrRewoundInAStepCannotBeWrittenBy) {
  const auto step = Step();
  EXPECT_EQ(sequence_->Rewind(0).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(Attend(*step, 0).ok());
  sequence_->Clear();
  EXPECT_EQ(Attend(*step, 1).code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(step->Commit().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(sequence_->length_tokens(), 0);
}

TEST(KvRuntimeCreate, AnInstructionSetThatThisProcessorLacksIsNotPassedOverInSilence) {
  const ForcedIsa forced("avx9");
  const Status refused = KvRuntime::Create({.threads = 1}).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(refused.message().starts_with("HOLDFAST_FORCE_ISA: \"avx9\" is not one of this processor's: "))
      << refused.message();
}

}  // namespace
}  // namespace holdfast
