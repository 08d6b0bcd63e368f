// The real models' logits, bit for bit the same however their tokens are fed.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "model_runner.h"
#include "real_models.h"

namespace holdfast {
namespace {

// Past a chunk of attention (256 positions), not a multiple of any chunk below.
constexpr int64_t kTokens = 300;
constexpr int64_t kLogits = 130;  // of the last positions; a whole row of a large vocabulary is a megabyte

std::vector<int32_t> Text(const ModelRunner& runner) {
  std::string text;
  for (int i = 0; text.size() < 6000; ++i) {
    text += "In the year " + std::to_string(1700 + 7 * i) + " the ship took " + std::to_string(i * i) +
            " barrels of salt north; nobody wrote down why. ";
  }
  auto tokens = runner.loaded().tokenizer->Encode(text, {}).value();
  tokens.resize(kTokens);
  return tokens;
}

class ReproducibleRealTest : public RealModelTest {
 protected:
  void SetUp() override {
    RealModelTest::SetUp();
    if (IsSkipped()) return;
    auto two_threads = ModelRunner::Load(path_, 2);
    ASSERT_TRUE(two_threads.ok()) << two_threads.status().message();
    auto one_thread = ModelRunner::Load(path_, 1);
    ASSERT_TRUE(one_thread.ok()) << one_thread.status().message();
    two_threads_ = std::move(*two_threads);
    one_thread_ = std::move(*one_thread);
    tokens_ = Text(*two_threads_);
  }

  std::vector<float> Logits(ModelRunner& runner, const RunOptions& options) {
    auto logits = runner.LastLogits(tokens_, kLogits, options);
    EXPECT_TRUE(logits.ok()) << logits.status().message();
    return logits.ok() ? std::move(*logits) : std::vector<float>();
  }

  // The logits of the cache fed in one shot, which must be those of every other way.
  std::vector<float> ExpectTheSameBitsHoweverFed(const RunOptions& cache) {
    const std::vector<float> expected = Logits(*two_threads_, cache);
    const auto expect_same = [&](ModelRunner& runner, const char* threads, StorageId storage, int64_t chunk,
                                 bool with_others) {
      RunOptions options = cache;
      options.storage = storage;
      options.chunk_tokens = chunk;
      options.with_others = with_others;
      EXPECT_TRUE(SameBits(Logits(runner, options), expected)) << RunName(options) << ", " << threads;
    };
    expect_same(*two_threads_, "two threads", StorageId::kPaged, 0, false);
    expect_same(*two_threads_, "two threads", StorageId::kContiguous, 1, false);
    expect_same(*two_threads_, "two threads", StorageId::kPaged, 7, false);
    expect_same(*two_threads_, "two threads", StorageId::kContiguous, 64, false);
    expect_same(*two_threads_, "two threads", StorageId::kPaged, 64, true);
    expect_same(*two_threads_, "two threads", StorageId::kContiguous, 7, true);
    expect_same(*one_thread_, "one thread", StorageId::kContiguous, 0, false);
    expect_same(*one_thread_, "one thread", StorageId::kPaged, 64, true);
    return expected;
  }

  static bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  }

  std::unique_ptr<ModelRunner> two_threads_, one_thread_;
  std::vector<int32_t> tokens_;
};

TEST_P(ReproducibleRealTest, LogitsHaveTheSameBitsHoweverTheTokensAreFed) {
  for (const CodecId codec : AllCodecs()) ExpectTheSameBitsHoweverFed({.codec = codec});
}

TEST_P(ReproducibleRealTest, ProtectedRowsAreSeenByPositionAloneHoweverTheTokensAreFed) {
  const RunOptions plain = {.codec = CodecId::kAffine4};
  RunOptions cache = plain;
  cache.protection = {.sink_tokens = 4, .recent_tokens = 50, .codecs = {CodecId::kF16, CodecId::kF16}};
  EXPECT_FALSE(SameBits(ExpectTheSameBitsHoweverFed(cache), Logits(*two_threads_, plain)));
}

TEST_P(ReproducibleRealTest, SparseValuesAreLeftOutTheSameHoweverTheTokensAreFed) {
  const RunOptions plain = {.codec = CodecId::kInt8};
  RunOptions cache = plain;
  cache.sparse_v = 1e-3f;
  EXPECT_FALSE(SameBits(ExpectTheSameBitsHoweverFed(cache), Logits(*two_threads_, plain)));
}

TEST_P(ReproducibleRealTest, PagesAreChosenTheSameHoweverTheTokensAreFed) {
  for (const CodecId codec : {CodecId::kF16, CodecId::kAffine4}) {
    const RunOptions plain = {.codec = codec};
    RunOptions cache = plain;
    cache.sparse_pages = kMinSparsePages;  // of 19
    EXPECT_FALSE(SameBits(ExpectTheSameBitsHoweverFed(cache), Logits(*two_threads_, plain)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, ReproducibleRealTest, testing::ValuesIn(kRealModels), RealModelName);

}  // namespace
}  // namespace holdfast
