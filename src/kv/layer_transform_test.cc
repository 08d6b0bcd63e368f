// Rotated and centred layers: the same attention, less lost to the codec, the same bits however it is fed.
#include "kv/layer_transform.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kv/batch.h"

namespace holdfast {
namespace {

constexpr int kKvHeads = 2;
constexpr int kGroup = 3;
constexpr int kQHeads = kKvHeads * kGroup;

using Values = std::vector<float>;

struct Inputs {
  int64_t tokens = 0;
  Values q, k, v;  // v empty for a latent row
};

// Rows around a mean far from zero, as keys of models with a bias are, and now and then one large channel.
Inputs RandomInputs(const RowShape& shape, int64_t tokens, uint32_t seed) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal;
  const auto rows = [&](int heads, int dim, float offset, float spike) {
    Values mean(static_cast<size_t>(heads * dim)), out;
    for (float& m : mean) m = offset * normal(rng);
    for (int64_t t = 0; t < tokens; ++t) {
      for (size_t i = 0; i < mean.size(); ++i) out.push_back(mean[i] + normal(rng));
      out[out.size() - mean.size() + static_cast<size_t>(dim / 3)] += spike;
    }
    return out;
  };
  Inputs in;
  in.tokens = tokens;
  in.q = rows(kQHeads, shape.k_dim, 0, 0);
  in.k = rows(kKvHeads, shape.k_dim, 6, 20);
  if (!shape.v_is_prefix_of_k) in.v = rows(kKvHeads, shape.v_dim, 6, 20);
  return in;
}

// The mean of each head's rows, as a calibration gives it.
std::shared_ptr<const Values> MeanOf(const Values& rows, int dim) {
  const size_t row = static_cast<size_t>(kKvHeads * dim);
  auto mean = std::make_shared<Values>(row);
  for (size_t i = 0; i < rows.size(); ++i) (*mean)[i % row] += rows[i];
  for (float& m : *mean) m /= static_cast<float>(rows.size() / row);
  return mean;
}

// Attention of every token to itself and those before, over the rows as given, in double.
std::vector<double> Expected(const RowShape& shape, const Inputs& in, const AttentionRule& rule) {
  std::vector<double> out;
  for (int64_t t = 0; t < in.tokens; ++t) {
    for (int head = 0; head < kQHeads; ++head) {
      const int64_t kv = head / kGroup;
      const float* q = in.q.data() + (t * kQHeads + head) * shape.k_dim;
      double sum = rule.sink_logits == nullptr ? 0.0 : std::exp(double{rule.sink_logits[head]});
      std::vector<double> o(static_cast<size_t>(shape.v_dim));
      for (int64_t p = 0; p <= t; ++p) {
        const float* k = in.k.data() + (p * kKvHeads + kv) * shape.k_dim;
        const float* v = shape.v_is_prefix_of_k ? k : in.v.data() + (p * kKvHeads + kv) * shape.v_dim;
        double score = 0;
        for (int d = 0; d < shape.k_dim; ++d) score += double{q[d]} * double{k[d]};
        score *= double{rule.scale};
        if (rule.softcap > 0) score = double{rule.softcap} * std::tanh(score / double{rule.softcap});
        const double weight = std::exp(score);
        sum += weight;
        for (int d = 0; d < shape.v_dim; ++d) o[static_cast<size_t>(d)] += weight * double{v[d]};
      }
      for (const double x : o) out.push_back(x / sum);
    }
  }
  return out;
}

LayerConfig Layer(const RowShape& shape, CodecSpec k, CodecSpec v) {
  LayerConfig layer;
  layer.k_codec = k;
  layer.v_codec = v;
  layer.shape = shape;
  layer.kv_heads = kKvHeads;
  return layer;
}

class Machine {
 public:
  // A step of `tokens` tokens from `first` on; the output.
  Values Step(SequenceCache& cache, const RowShape& shape, const Inputs& in, int64_t first, int64_t tokens,
              const AttentionRule& rule, ThreadPool& pool) {
    const BatchSlice slice{&cache, tokens};
    Result<KvBatch> batch = KvBatch::Begin({&slice, 1}, workspace_, pool);
    EXPECT_TRUE(batch.ok()) << batch.status().message();
    Values out(static_cast<size_t>(tokens * kQHeads * shape.v_dim), -7.0f);
    const Status status = batch->Attend(LayerId{0}, kQHeads, in.q.data() + first * kQHeads * shape.k_dim,
                                        in.k.data() + first * kKvHeads * shape.k_dim,
                                        in.v.empty() ? nullptr : in.v.data() + first * kKvHeads * shape.v_dim,
                                        rule, out.data());
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(batch->Commit().ok());
    return out;
  }
  Values Run(const LayerConfig& layer, const Inputs& in, const AttentionRule& rule, int threads = 2,
             int64_t chunk = 1000) {
    const CacheConfig config = {.layers = {layer}, .max_context = 1000};
    EXPECT_TRUE(ValidateCacheConfig(config).ok()) << ValidateCacheConfig(config).message();
    auto cache = std::move(SequenceCache::Create(config, std::make_shared<CacheMemory>())).value();
    auto pool = std::move(ThreadPool::Create(threads)).value();
    Values out;
    for (int64_t at = 0; at < in.tokens; at += chunk) {
      const Values part = Step(*cache, layer.shape, in, at, std::min(chunk, in.tokens - at), rule, *pool);
      out.insert(out.end(), part.begin(), part.end());
    }
    return out;
  }

 private:
  AttentionWorkspace workspace_;
};

double RootMeanSquare(const Values& got, const std::vector<double>& expected) {
  double sum = 0;
  for (size_t i = 0; i < got.size(); ++i) sum += std::pow(double{got[i]} - expected[i], 2);
  return std::sqrt(sum / static_cast<double>(got.size()));
}

std::vector<CodecId> IntegerCodecs(int least_bits = 1) {
  std::vector<CodecId> codecs;
  for (const CodecId codec : AllCodecs()) {
    if (GetCodec(codec).integer_dots && GetCodec(codec).bits >= least_bits) codecs.push_back(codec);
  }
  return codecs;
}

class TransformedLayer : public testing::TestWithParam<CodecId> {
 protected:
  LayerConfig Plain(const RowShape& shape) const { return Layer(shape, GetParam(), GetParam()); }
  static LayerConfig Transformed(LayerConfig layer, const Inputs& in, bool rotate, bool center) {
    layer.k_transform.rotate = rotate;
    if (center) layer.k_transform.center = MeanOf(in.k, layer.shape.k_dim);
    if (layer.shape.v_is_prefix_of_k) return layer;
    layer.v_transform.rotate = rotate;
    if (center) layer.v_transform.center = MeanOf(in.v, layer.shape.v_dim);
    return layer;
  }
  Machine machine_;
};

INSTANTIATE_TEST_SUITE_P(IntegerCodecs, TransformedLayer, testing::ValuesIn(IntegerCodecs()),
                         [](const auto& param) { return std::string(CodecName(param.param)); });

// Both take away what these rows are hard to quantise for: the mean, and the large channel of one head.
TEST_P(TransformedLayer, AttendsMoreExactlyThanAPlainOne) {
  for (const RowShape& shape : {RowShape{64, 64, false}, RowShape{80, 96, false}, RowShape{112, 64, true}}) {
    const Inputs in = RandomInputs(shape, 90, 1);
    const AttentionRule rule = {.scale = 1.0f / static_cast<float>(shape.k_dim)};
    const std::vector<double> expected = Expected(shape, in, rule);
    const double plain = RootMeanSquare(machine_.Run(Plain(shape), in, rule), expected);
    const double centred =
        RootMeanSquare(machine_.Run(Transformed(Plain(shape), in, false, true), in, rule), expected);
    const double both =
        RootMeanSquare(machine_.Run(Transformed(Plain(shape), in, true, true), in, rule), expected);
    EXPECT_LT(centred, 0.6 * plain) << shape.k_dim;
    EXPECT_LT(both, 0.6 * plain) << shape.k_dim;
  }
}

// What fewer bits lose would hide a score or an output that did not get back what was taken.
class PreciseTransformedLayer : public TransformedLayer {};

INSTANTIATE_TEST_SUITE_P(CodecsOfEightBits, PreciseTransformedLayer, testing::ValuesIn(IntegerCodecs(8)),
                         [](const auto& param) { return std::string(CodecName(param.param)); });

TEST_P(PreciseTransformedLayer, MeansTheSameUnderSoftCapsAndSinkLogits) {
  const Values sinks = {-1, 0, 2, 4, 1, 3};
  for (const RowShape& shape : {RowShape{64, 32, false}, RowShape{48, 48, true}, RowShape{20, 8, true}}) {
    const Inputs in = RandomInputs(shape, 40, 2);
    for (const float softcap : {0.0f, 2.0f}) {
      for (const float* sink_logits : {static_cast<const float*>(nullptr), sinks.data()}) {
        const AttentionRule rule = {
            .scale = 0.5f / static_cast<float>(shape.k_dim), .softcap = softcap, .sink_logits = sink_logits};
        const std::vector<double> expected = Expected(shape, in, rule);
        for (const bool rotate : {false, true}) {
          const Values out = machine_.Run(Transformed(Plain(shape), in, rotate, true), in, rule);
          for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(double{out[i]}, expected[i], 0.15) << i;
          EXPECT_LT(RootMeanSquare(out, expected), 0.03) << softcap << ' ' << rotate;
        }
      }
    }
  }
}

TEST_P(TransformedLayer, GivesTheSameBitsForAnyChunksAndThreads) {
  for (const RowShape& shape : {RowShape{80, 64, false}, RowShape{96, 80, true}}) {
    const Inputs in = RandomInputs(shape, 130, 3);
    const AttentionRule rule = {.scale = 0.1f};
    const LayerConfig layer = Transformed(Plain(shape), in, true, true);
    const Values whole = machine_.Run(layer, in, rule, 1);
    EXPECT_EQ(machine_.Run(layer, in, rule, 2), whole);
    for (const int64_t chunk : {1, 33, 64})
      EXPECT_EQ(machine_.Run(layer, in, rule, 2, chunk), whole) << chunk;
  }
}

TEST_P(TransformedLayer, NamesTheValueThatIsNotFiniteWhereTheCallerPutIt) {
  const RowShape shape{64, 64, false};
  const Inputs clean = RandomInputs(shape, 40, 4);
  const LayerConfig layer = Transformed(Plain(shape), clean, true, true);
  const CacheConfig config = {.layers = {layer}, .max_context = 1000};
  auto pool = std::move(ThreadPool::Create(2)).value();
  AttentionWorkspace workspace;
  const auto refusal = [&](const Inputs& in) {
    auto cache = std::move(SequenceCache::Create(config, std::make_shared<CacheMemory>())).value();
    const BatchSlice slice{cache.get(), in.tokens};
    auto batch = std::move(KvBatch::Begin({&slice, 1}, workspace, *pool)).value();
    Values out(static_cast<size_t>(in.tokens * kQHeads * shape.v_dim));
    const Status status =
        batch.Attend(LayerId{0}, kQHeads, in.q.data(), in.k.data(), in.v.data(), {}, out.data());
    EXPECT_EQ(cache->length(), 0);
    return status.message();
  };
  Inputs in = clean;
  in.k[static_cast<size_t>((37 * kKvHeads + 1) * 64 + 5)] = std::numeric_limits<float>::infinity();
  EXPECT_EQ(refusal(in),
            "layer 0, slice 0: append: K value inf at position 37, head 1, dim 5: must be finite");
  in = clean;
  in.v[static_cast<size_t>((2 * kKvHeads + 0) * 64 + 63)] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(refusal(in),
            "layer 0, slice 0: append: V value nan at position 2, head 0, dim 63: must be finite");
  in = clean;
  in.k[100] = 3e38f;
  EXPECT_NE(refusal(in).find("(of rows as stored, transformed)"), std::string::npos) << refusal(in);
}

TEST(LayerTransforms, OfTheSequencesOfABatchAreTheSame) {
  const RowShape shape{64, 64, false};
  LayerConfig layer = Layer(shape, CodecId::kInt8, CodecId::kInt8);
  const auto cache = [&](const LayerConfig& of) {
    return std::move(
               SequenceCache::Create({.layers = {of}, .max_context = 100}, std::make_shared<CacheMemory>()))
        .value();
  };
  const auto plain = cache(layer);
  layer.v_transform.rotate = true;
  const auto rotated = cache(layer);
  layer.k_transform.center = std::make_shared<Values>(static_cast<size_t>(kKvHeads * 64), 1.0f);
  const auto centred = cache(layer);
  layer.k_transform.center = std::make_shared<Values>(*layer.k_transform.center);
  const auto centred_by_a_copy = cache(layer);
  auto pool = std::move(ThreadPool::Create(1)).value();
  AttentionWorkspace workspace;
  const auto begins = [&](const auto& a, const auto& b) {
    const BatchSlice slices[] = {{a.get(), 1}, {b.get(), 1}};
    return KvBatch::Begin(slices, workspace, *pool).ok();
  };
  EXPECT_FALSE(begins(plain, rotated));
  EXPECT_FALSE(begins(rotated, centred));
  EXPECT_TRUE(begins(centred, centred_by_a_copy));
}

TEST(LayerTransforms, CodecsThatAreAlwaysRotatedNeedNoAsking) {
  for (const CodecId codec : AllCodecs()) {
    const LayerConfig layer = Layer({64, 64, false}, codec, codec);
    EXPECT_EQ(RotatesKeys(layer), GetCodec(codec).always_rotated) << CodecName(codec);
    EXPECT_EQ(RotatesValues(layer), GetCodec(codec).always_rotated) << CodecName(codec);
  }
}

}  // namespace
}  // namespace holdfast
