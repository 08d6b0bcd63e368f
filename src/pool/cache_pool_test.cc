#include "pool/cache_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "cache/testing_cache.h"

namespace holdfast {
namespace {

using testing::Full;
using testing::Window;

using Tokens = std::vector<int32_t>;

Tokens Count(int64_t n, int32_t first = 0) {
  Tokens tokens(static_cast<size_t>(n));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// A row says all that it depends on: the tokens up to its own.
float RowOf(std::span<const int32_t> tokens, int64_t position, int layer) {
  uint64_t hash = 1469598103934665603ull + static_cast<uint64_t>(layer);
  for (int64_t i = 0; i <= position; ++i)
    hash = (hash ^ static_cast<uint64_t>(tokens[static_cast<size_t>(i)])) * 1099511628211ull;
  return static_cast<float>(hash >> 44);
}

// Rows of tokens [length, end), one step.
void Append(SequenceCache& cache, const Tokens& tokens, int64_t end) {
  const int64_t begin = cache.length();
  ASSERT_TRUE(cache.BeginStep(end - begin).ok());
  for (int l = 0; l < cache.layers(); ++l) {
    SpanCache& layer = cache.layer(static_cast<LayerId>(l));
    const LayerConfig& config = layer.config();
    for (int64_t at = begin; at < end; ++at) {
      const float value = RowOf(tokens, at, l);
      const std::vector<float> k(static_cast<size_t>(config.kv_heads * config.shape.k_dim), value);
      const std::vector<float> v(static_cast<size_t>(config.kv_heads * config.shape.v_dim), value);
      layer.EncodeRows(at, 1, 0, config.kv_heads, k.data(), v.data());
      layer.Advance(1);
    }
  }
  ASSERT_TRUE(cache.CommitStep().ok());
}

// What the query at the end sees of every layer.
std::vector<testing::LiveRows> Seen(const SequenceCache& cache) {
  std::vector<testing::LiveRows> seen;
  for (int l = 0; l < cache.layers(); ++l) {
    const SpanCache& layer = cache.layer(static_cast<LayerId>(l));
    seen.push_back(testing::ReadRows(layer, layer.length() - 1, 0));
  }
  return seen;
}

CacheConfig Config(std::vector<LayoutConfig> layouts) {
  CacheConfig config = testing::SmallConfig(layouts[0], StorageId::kPaged, 4);
  config.max_context = 4096;
  const LayerConfig layer = config.layers[0];
  config.layers.clear();
  for (const LayoutConfig& layout : layouts) {
    config.layers.push_back(layer);
    config.layers.back().layout = layout;
  }
  return config;
}

class Pool {
 public:
  explicit Pool(PoolOptions options) : pool(CachePool::Create(options).value()) {}
  static PoolOptions Sharing(std::vector<LayoutConfig> layouts) {
    PoolOptions options;
    options.cache = Config(std::move(layouts));
    options.max_sequences = 8;
    options.share_prefixes = true;
    return options;
  }

  Result<Opened> TryOpen(const Tokens& tokens, int64_t reserve = 0, const PrefixIdentity& identity = {}) {
    auto opened = pool->Open({.tokens = tokens, .reserve_tokens = reserve, .identity = identity}, ++now);
    EXPECT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants().message();
    return opened;
  }
  Opened Open(const Tokens& tokens, int64_t reserve = 0, const PrefixIdentity& identity = {}) {
    auto opened = TryOpen(tokens, reserve, identity);
    EXPECT_TRUE(opened.ok()) << opened.status().message();
    return *opened;
  }
  SequenceCache& cache(SequenceHandle handle) { return **pool->cache(handle); }
  // Computes what the sequence lacks of `tokens`, in steps of `piece`, and lets others have it.
  void Run(SequenceHandle handle, const Tokens& tokens, int64_t piece = 64) {
    const auto count = static_cast<int64_t>(tokens.size());
    while (cache(handle).length() < count) {
      const int64_t n = std::min(piece, count - cache(handle).length());
      const CachePool::StepSlice slice{handle, n};
      ASSERT_TRUE(pool->BeginStep({&slice, 1}, ++now).ok());
      Append(cache(handle), tokens, cache(handle).length() + n);
      pool->EndStep();
      ASSERT_TRUE(pool->Publish(handle, tokens, cache(handle).length() == count, now).ok());
      ASSERT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants().message();
    }
  }
  void Close(SequenceHandle handle) {
    ASSERT_TRUE(pool->Close(handle).ok());
    ASSERT_TRUE(pool->CheckInvariants().ok()) << pool->CheckInvariants().message();
  }
  // What a sequence of these tokens alone would hold.
  std::vector<testing::LiveRows> Cold(const Tokens& tokens) const {
    CacheConfig config = pool->config();
    config.storage = StorageId::kContiguous;
    auto cold = SequenceCache::Create(config, std::make_shared<CacheMemory>()).value();
    Append(*cold, tokens, static_cast<int64_t>(tokens.size()));
    return Seen(*cold);
  }

  std::unique_ptr<CachePool> pool;
  int64_t now = 0;
};

TEST(CachePool, TheSamePromptTwiceEvaluatesOneToken) {
  for (const auto& layouts : {std::vector{Full()}, {Window(32)}, {Full(), Window(32, 3), Window(5)}}) {
    Pool p(Pool::Sharing(layouts));
    const Tokens prompt = Count(203);
    const Opened first = p.Open(prompt);
    EXPECT_EQ(first.receipt.reused_tokens, 0);
    EXPECT_EQ(first.receipt.miss, MissCause::kNew);
    p.Run(first.handle, prompt);
    const Opened again = p.Open(prompt);
    EXPECT_EQ(again.receipt.reused_tokens, 202);
    EXPECT_EQ(again.receipt.miss, MissCause::kNone);
    p.Run(again.handle, prompt);
    EXPECT_EQ(Seen(p.cache(again.handle)), p.Cold(prompt));
    p.Close(first.handle);
    const Opened third = p.Open(prompt);
    EXPECT_EQ(third.receipt.reused_tokens, 202);
  }
}

TEST(CachePool, ARequestThatReusesNothingComputesAllAndOthersReuseIt) {
  for (const auto& layouts : {std::vector{Full()}, {Window(32)}, {Full(), Window(32, 3), Window(5)}}) {
    Pool p(Pool::Sharing(layouts));
    const Tokens prompt = Count(75);
    for (int round = 0; round < 3; ++round) {
      const Opened opened = p.pool->Open({.tokens = prompt, .reuses = false}, ++p.now).value();
      EXPECT_EQ(opened.receipt.reused_tokens, 0);
      EXPECT_EQ(opened.receipt.miss, MissCause::kDisabled);
      p.Run(opened.handle, prompt);
      EXPECT_EQ(Seen(p.cache(opened.handle)), p.Cold(prompt));
      p.Close(opened.handle);
      const Opened again = p.Open(prompt);
      EXPECT_EQ(again.receipt.reused_tokens, 74);
      p.Run(again.handle, prompt);
      EXPECT_EQ(Seen(p.cache(again.handle)), p.Cold(prompt));
      p.Close(again.handle);
    }
  }
}

// The answer has been stored behind the prompt meanwhile, and a window has moved on.
TEST(CachePool, APromptThatWasAnsweredEvaluatesOneTokenAgain) {
  for (const int64_t window : {5, 20, 40}) {
    for (const int64_t length : {24, 40, 100, 203}) {
      for (const int64_t answer : {1, 6, 20, 90}) {
        PoolOptions options = Pool::Sharing({Full(), Window(window, 3), Window(window)});
        Pool p(options);
        const Tokens prompt = Count(length), all = prompt + Count(answer, 500);
        const Opened first = p.Open(prompt, length + answer);
        p.Run(first.handle, prompt);
        p.Run(first.handle, all, 1);
        p.Close(first.handle);
        const Opened again = p.Open(prompt);
        EXPECT_EQ(again.receipt.reused_tokens, length - 1)
            << "window " << window << ", prompt " << length << ", answer " << answer << ": "
            << again.receipt.message;
        p.Run(again.handle, prompt);
        EXPECT_EQ(Seen(p.cache(again.handle)), p.Cold(prompt));
      }
    }
  }
}

// What was computed in one step has no window rows in its middle: the first that ends there stores them for the next.
TEST(CachePool, APromptThatALongerOneBeginsWithIsReusedFromItsSecondTimeOn) {
  for (const int64_t length : {24, 32, 100}) {
    Pool p(Pool::Sharing({Full(), Window(5)}));
    const Tokens longer = Count(300), prompt = Count(length);
    const Opened first = p.Open(longer);
    p.Run(first.handle, longer, 300);
    const Opened second = p.Open(prompt);
    EXPECT_EQ(second.receipt.miss, MissCause::kWindowGone);
    p.Run(second.handle, prompt);
    p.Close(second.handle);
    const Opened third = p.Open(prompt);
    EXPECT_EQ(third.receipt.reused_tokens, length - 1) << third.receipt.message;
    p.Run(third.handle, prompt);
    EXPECT_EQ(Seen(p.cache(third.handle)), p.Cold(prompt));
  }
}

TEST(CachePool, APrefixMatchesToTheToken) {
  Pool p(Pool::Sharing({Full()}));
  const Tokens a = Count(100), b = Count(71) + Count(29, 1000);
  const Opened first = p.Open(a);
  p.Run(first.handle, a);
  const Opened second = p.Open(b);
  EXPECT_EQ(second.receipt.reused_tokens, 71);
  EXPECT_EQ(second.receipt.miss, MissCause::kTokenDiffers);
  EXPECT_EQ(second.receipt.position, 71);
  p.Run(second.handle, b);
  EXPECT_EQ(Seen(p.cache(second.handle)), p.Cold(b));
  EXPECT_EQ(Seen(p.cache(first.handle)), p.Cold(a));
}

// A window has given up what a prompt that parts early would need.
TEST(CachePool, AWindowThatMovedOnIsNoPrefix) {
  PoolOptions options = Pool::Sharing({Full(), Window(32)});
  Pool p(options);
  const Tokens a = Count(400);
  const Opened first = p.Open(a);
  p.Run(first.handle, a, 400);  // one step: what lies before the window is never stored for others
  const Tokens b = Count(150) + Count(9, 1000);
  const Opened second = p.Open(b);
  EXPECT_EQ(second.receipt.reused_tokens, 0);
  EXPECT_EQ(second.receipt.miss, MissCause::kWindowGone);
  p.Run(second.handle, b);
  EXPECT_EQ(Seen(p.cache(second.handle)), p.Cold(b));
  // The second has stored them: now the common point is that of all layers.
  const Opened third = p.Open(Count(150) + Count(9, 2000));
  EXPECT_EQ(third.receipt.reused_tokens, 150);
}

TEST(CachePool, TenantsModelsAndAdaptersShareNothing) {
  Pool p(Pool::Sharing({Full()}));
  const Tokens prompt = Count(64);
  PrefixIdentity a;
  a.name_space = "a";
  p.Run(p.Open(prompt, 0, a).handle, prompt);
  PrefixIdentity b = a;
  b.name_space = "b";
  Opened other = p.Open(prompt, 0, b);
  EXPECT_EQ(other.receipt.reused_tokens, 0);
  EXPECT_EQ(other.receipt.miss, MissCause::kNew);
  EXPECT_TRUE(other.receipt.in_other_namespace);
  b = a;
  b.adapter[31] = std::byte{1};
  other = p.Open(prompt, 0, b);
  EXPECT_EQ(other.receipt.reused_tokens, 0);
  EXPECT_EQ(other.receipt.miss, MissCause::kOtherConfig);
  b = a;
  b.model[0] = std::byte{1};
  EXPECT_EQ(p.Open(prompt, 0, b).receipt.reused_tokens, 0);
  EXPECT_EQ(p.Open(prompt, 0, a).receipt.reused_tokens, 63);
}

// Every cause that a receipt may have, with and without what another namespace has stored.
TEST(CachePool, AReceiptIsTheSameWhateverOtherNamespacesHold) {
  PrefixIdentity own, other, own_model;
  own.name_space = own_model.name_space = "own";
  other.name_space = "other";
  own_model.model[0] = std::byte{1};
  const Tokens stored = Count(96), evicted = Count(96, 2000), configured = Count(96, 3000);
  const auto receipts = [&](bool with_others) {
    PoolOptions options = Pool::Sharing({Full()});
    options.prefix_ttl = 1000;
    Pool p(options);
    const auto store = [&](const Tokens& tokens, const PrefixIdentity& identity) {
      const SequenceHandle handle = p.Open(tokens, 0, identity).handle;
      p.Run(handle, tokens);
      p.Close(handle);
    };
    store(evicted, own);
    p.now += 2000;
    p.pool->DropExpired(p.now);
    store(stored, own);
    store(configured, own_model);
    const Tokens asked[] = {stored + Count(40, 500), Count(50) + Count(40, 500), evicted, configured,
                            Count(90, 7000)};
    PrefixIdentity other_model = other;
    other_model.model[0] = std::byte{2};
    for (const Tokens& tokens : asked) {
      if (!with_others) continue;
      store(tokens, other);
      store(tokens, other_model);
    }
    std::vector<Receipt> given;
    for (const Tokens& tokens : asked) {
      const Opened opened = p.Open(tokens, 0, own);
      EXPECT_EQ(opened.receipt.in_other_namespace, with_others);
      given.push_back(opened.receipt);
      p.Close(opened.handle);
    }
    return given;
  };
  const std::vector<Receipt> alone = receipts(false), beside = receipts(true);
  const MissCause causes[] = {MissCause::kNew, MissCause::kTokenDiffers, MissCause::kEvicted,
                              MissCause::kOtherConfig, MissCause::kTokenDiffers};
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(alone[i].miss, causes[i]) << i;
    EXPECT_EQ(beside[i].miss, alone[i].miss) << i;
    EXPECT_EQ(beside[i].position, alone[i].position) << i;
    EXPECT_EQ(beside[i].message, alone[i].message) << i;
    EXPECT_EQ(beside[i].reused_tokens, alone[i].reused_tokens) << i;
  }
}

TEST(CachePool, TheRootKeyCoversWhateverRowsDependOn) {
  const CacheConfig base = Config({Full(), Window(32)});
  std::vector<CacheConfig> others(10, base);
  others[0].layers[0].k_codec = CodecId::kInt8;
  others[1].layers[1].v_codec = CodecId::kF16;
  others[2].layers[1].layout.window_tokens = 33;
  others[3].layers[1].layout.sink_tokens = 1;
  others[4].layers[0].k_codec = {CodecId::kAffine4, 64};
  others[5].layers[0].k_transform.rotate = true;
  others[6].layers[0].k_transform.center = std::make_shared<const std::vector<float>>(16, 0.5f);
  others[7].layers[0].protection.recent_tokens = 8;
  others[8].layers[0].sparse_v = 0.01f;
  others[9].layers[0].sparse_pages = 64;
  std::vector<BlockKey> keys = {RootKey({}, CacheDigest(base))};
  for (const CacheConfig& config : others) keys.push_back(RootKey({}, CacheDigest(config)));
  std::sort(keys.begin(), keys.end());
  EXPECT_EQ(std::adjacent_find(keys.begin(), keys.end()), keys.end());
}

TEST(CachePool, AStaleHandleIsAnErrorEvenWhereItsSlotIsTakenAgain) {
  PoolOptions options = Pool::Sharing({Full()});
  options.max_sequences = 1;
  Pool p(options);
  const SequenceHandle first = p.Open(Count(10)).handle;
  EXPECT_EQ(p.TryOpen(Count(10)).status().code(), StatusCode::kResourceExhausted);
  p.Close(first);
  const SequenceHandle second = p.Open(Count(10)).handle;
  EXPECT_EQ(second.slot, first.slot);
  EXPECT_GT(second.id, first.id);
  EXPECT_EQ(p.pool->cache(first).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(p.pool->Close(first).code(), StatusCode::kNotFound);
  EXPECT_EQ(p.pool->Grow(first, 20).code(), StatusCode::kNotFound);
  EXPECT_EQ(p.pool->Fork(first, 20, 0).status().code(), StatusCode::kNotFound);
}

TEST(CachePool, BlocksOfARunningStepAreReleasedAfterIt) {
  PoolOptions options = Pool::Sharing({Full()});
  options.share_prefixes = false;
  Pool p(options);
  const SequenceHandle handle = p.Open(Count(40)).handle;
  p.Run(handle, Count(32));
  const CachePool::StepSlice slice{handle, 8};
  ASSERT_TRUE(p.pool->BeginStep({&slice, 1}, 1).ok());
  ASSERT_TRUE(p.pool->Close(handle).ok());
  EXPECT_EQ(p.pool->blocks().live, 2);
  EXPECT_FALSE(p.pool->cache(handle).ok());
  p.pool->EndStep();
  EXPECT_EQ(p.pool->blocks().live, 0);
  EXPECT_EQ(p.pool->open_sequences(), 0);
}

// 565 + 1485 > 2048: one waits; 2049 can never fit.
TEST(CachePool, TwoSequencesPastTheBudgetWaitForEachOther) {
  PoolOptions options = Pool::Sharing({Full()});
  options.budget_tokens = 2048;
  Pool p(options);
  const SequenceHandle a = p.Open(Count(565)).handle;
  EXPECT_EQ(p.TryOpen(Count(1485, 5000)).status().code(), StatusCode::kResourceExhausted);
  p.Close(a);
  p.Open(Count(1485, 5000));
  const auto never = p.TryOpen(Count(2049));
  EXPECT_EQ(never.status().code(), StatusCode::kOutOfRange);
  EXPECT_NE(never.status().message().find("2048"), std::string::npos);
}

// Three entries of 5 MiB under 8 MiB never take more; one of 12 MiB is refused.
TEST(CachePool, TheBudgetIsKeptToTheByte) {
  PoolOptions options = Pool::Sharing({Full()});
  options.budget_bytes = int64_t{8} << 20;
  options.cache.max_context = 1 << 20;
  options.scratch_bytes = 1000;
  Pool p(options);
  const int64_t row = RowBytes(options.cache.layers[0]).value();
  const int64_t five = (int64_t{5} << 20) / row;
  for (int32_t i = 0; i < 3; ++i) {
    const Tokens prompt = Count(five, i * 1'000'000);
    const Opened opened = p.Open(prompt);
    ASSERT_TRUE(p.pool->BeginStep(std::vector<CachePool::StepSlice>{{opened.handle, five}}, ++p.now).ok());
    EXPECT_LE(p.pool->memory_usage_bytes(), options.budget_bytes);
    ASSERT_TRUE(p.cache(opened.handle).BeginStep(five).ok());
    EXPECT_GE(p.pool->memory_usage_bytes(), int64_t{5} << 20);
    EXPECT_LE(p.pool->memory_usage_bytes(), options.budget_bytes);
    ASSERT_TRUE(p.cache(opened.handle).AbortStep().ok());
    p.pool->EndStep();
    EXPECT_EQ(p.TryOpen(Count(five, 9'000'000)).status().code(), StatusCode::kResourceExhausted);
    p.Close(opened.handle);
  }
  EXPECT_EQ(p.TryOpen(Count((int64_t{12} << 20) / row)).status().code(), StatusCode::kOutOfRange);
}

TEST(CachePool, IdlePrefixesGiveWayTheOldestFirstAndSayEvicted) {
  PoolOptions options = Pool::Sharing({Full()});
  options.cache.max_context = 1 << 16;
  const int64_t row = RowBytes(options.cache.layers[0]).value();
  options.budget_bytes = row * 900 + (1 << 16);
  Pool p(options);
  const Tokens a = Count(256), b = Count(256, 1000), c = Count(256, 2000), d = Count(400, 3000);
  for (const Tokens* prompt : {&a, &b, &c}) {
    const Opened opened = p.Open(*prompt);
    p.Run(opened.handle, *prompt);
    p.Close(opened.handle);
  }
  p.Close(p.Open(a).handle);  // used again: b is the oldest now
  const Opened large = p.Open(d);
  p.Run(large.handle, d);
  EXPECT_GT(p.pool->evictions(), 0);
  EXPECT_EQ(p.pool->Reusable({.tokens = a}), 255);
  const Opened lost = p.Open(b);
  EXPECT_LT(lost.receipt.reused_tokens, 255);
  EXPECT_EQ(lost.receipt.miss, MissCause::kEvicted);
}

TEST(CachePool, PinnedPrefixesStayAndExpiredOnesGo) {
  PoolOptions options = Pool::Sharing({Full(), Window(32)});
  options.prefix_ttl = 100;
  Pool p(options);
  const Tokens a = Count(96), b = Count(96, 1000);
  for (const Tokens* prompt : {&a, &b}) {
    const Opened opened = p.Open(*prompt);
    p.Run(opened.handle, *prompt);
    p.Close(opened.handle);
  }
  EXPECT_EQ(p.pool->Pin({}, a).value(), 96);
  p.pool->DropExpired(p.now + 1000);
  EXPECT_EQ(p.pool->Reusable({.tokens = a}), 95);
  EXPECT_EQ(p.pool->Reusable({.tokens = b}), 0);
  p.pool->DropIdle();
  EXPECT_EQ(p.pool->Reusable({.tokens = a}), 95);
  EXPECT_TRUE(p.pool->Unpin({}, a).ok());
  EXPECT_EQ(p.pool->Unpin({}, a).code(), StatusCode::kNotFound);
  p.pool->DropIdle();
  EXPECT_EQ(p.pool->blocks().idle, 0);
  EXPECT_TRUE(p.pool->CheckInvariants().ok());
}

TEST(CachePool, ForksShareWhatTheyHaveInCommon) {
  Pool p(Pool::Sharing({Full(), Window(32)}));
  const Tokens prompt = Count(100);
  const SequenceHandle a = p.Open(prompt, 150).handle;
  p.Run(a, prompt);
  const int64_t before = p.pool->blocks().live;
  const SequenceHandle b = p.pool->Fork(a, 200, ++p.now).value();
  EXPECT_EQ(p.pool->blocks().live, before);
  const Tokens longer = prompt + Count(50, 7000), other = prompt + Count(50, 8000);
  p.Run(a, longer);
  p.Run(b, other);
  EXPECT_EQ(Seen(p.cache(a)), p.Cold(longer));
  EXPECT_EQ(Seen(p.cache(b)), p.Cold(other));
}

TEST(CachePool, ABudgetThatHoldsNothingIsRefused) {
  PoolOptions options = Pool::Sharing({Full()});
  options.budget_bytes = 100;
  EXPECT_EQ(CachePool::Create(options).status().code(), StatusCode::kResourceExhausted);
  options.budget_bytes = 1 << 20;
  options.scratch_bytes = 1 << 20;
  EXPECT_EQ(CachePool::Create(options).status().code(), StatusCode::kResourceExhausted);
  options.scratch_bytes = 0;
  options.cache.storage = StorageId::kContiguous;
  EXPECT_EQ(CachePool::Create(options).status().code(), StatusCode::kInvalidArgument);
}

// Random sequences over a small alphabet of prompts, under a budget that is always short.
TEST(CachePool, RandomUseKeepsEveryRowAndEveryCount) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    std::mt19937 random(seed);
    PoolOptions options = Pool::Sharing({Full(), Window(20, 2), Window(40)});
    const int64_t row = RowBytes(options.cache.layers[0]).value() * 3;
    options.budget_bytes = row * (600 + random() % 600) + (1 << 15);
    options.max_sequences = 4;
    Pool p(options);
    struct Live {
      SequenceHandle handle;
      Tokens tokens;
    };
    std::vector<Live> live;
    for (int step = 0; step < 60; ++step) {
      if (live.size() < 4 && random() % 2 == 0) {
        Tokens tokens;
        const size_t parts = 1 + random() % 4;
        for (size_t i = 0; i < parts; ++i)
          tokens = tokens +
                   Count(static_cast<int64_t>(10 + random() % 50), static_cast<int32_t>(random() % 2 * 1000));
        const auto opened = p.TryOpen(tokens);
        if (!opened.ok()) continue;
        live.push_back({opened->handle, tokens});
        continue;
      }
      if (live.empty()) continue;
      const size_t i = random() % live.size();
      p.Run(live[i].handle, live[i].tokens, 1 + random() % 70);
      ASSERT_EQ(Seen(p.cache(live[i].handle)), p.Cold(live[i].tokens)) << "seed " << seed << " step " << step;
      if (random() % 2 == 0) {
        p.Close(live[i].handle);
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }
}

}  // namespace
}  // namespace holdfast
