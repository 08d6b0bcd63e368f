#include "engine/scheduler_testing.h"

#include <algorithm>
#include <cstring>

#include "base/status_macros.h"
#include "span/decode_row.h"

namespace holdfast::testing {
namespace {

constexpr int kDim = 4;

uint64_t HashOf(std::span<const std::byte> bytes) {
  uint64_t hash = bytes.size();
  for (const std::byte b : bytes) hash = Mix(hash, static_cast<uint64_t>(b));
  return hash;
}

// A row as the layer's codec stores and returns it, in whichever slot of a tile.
void ThroughCodec(const LayerConfig& layer, bool keys, float* row) {
  const CodecSpec spec = keys ? layer.k_codec : layer.v_codec;
  if (spec.id == CodecId::kF32) return;
  const Codec& codec = GetCodec(spec);
  const RowFormat format(kDim, spec.group);
  const CodecKernels& kernels = codec.kernels(ActiveIsa());
  std::vector<std::byte> tile(
      static_cast<size_t>(keys ? codec.k_tile_bytes(format) : codec.v_tile_bytes(format)));
  if (keys) {
    kernels.encode_k(row, format, 3, tile.data());
    codec.decode_k(tile.data(), format, 3, row);
  } else {
    kernels.encode_v(row, format, 3, tile.data());
    codec.decode_v(tile.data(), format, 3, row);
  }
}

// Of one SpanCache: expected(position, keys, row) writes the model's row.
template <typename Expected>
std::optional<std::string> WrongRowOf(const SpanCache& cache, const Expected& expected) {
  const LayerConfig& layer = cache.config();
  std::vector<Span> spans;
  cache.AppendLiveSpans(spans);
  int64_t rows = 0;
  for (const Span& span : spans) {
    rows += span.rows;
    for (int64_t p = span.begin; p < span.end(); ++p) {
      for (const bool keys : {true, false}) {
        float found[kDim], wanted[kDim];
        if (keys) {
          DecodeKey(span, layer.k_codec, kDim, p, 0, found);
        } else {
          DecodeValue(span, layer.v_codec, kDim, p, 0, found);
        }
        expected(p, keys, wanted);
        ThroughCodec(layer, keys, wanted);
        if (std::memcmp(found, wanted, sizeof found) == 0) continue;
        return std::string(keys ? "K" : "V") + " row of position " + std::to_string(p) + " of " +
               std::to_string(cache.length()) + ": " + std::to_string(found[0]) + ", not " +
               std::to_string(wanted[0]);
      }
    }
  }
  if (rows == cache.live().rows()) return std::nullopt;
  return std::to_string(rows) + " rows are there, not " + std::to_string(cache.live().rows());
}

}  // namespace

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = a + 0x9e3779b97f4a7c15u * (b + 1);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

PretendText::PretendText(const PrefixIdentity& identity, std::span<const int32_t> tokens)
    : root_(Mix(Mix(HashOf(identity.model), HashOf(identity.adapter)),
                HashOf(std::as_bytes(std::span(identity.name_space))))) {
  for (const int32_t token : tokens) Append(token);
}

void PretendText::Append(int32_t token) {
  states_.push_back(Mix(states_.empty() ? root_ : states_.back(), static_cast<uint64_t>(token)));
  tokens_.push_back(token);
}

int32_t PretendText::Next() const {
  return static_cast<int32_t>(Mix(states_.back(), 7) % 50);
}

// [tokens, row], each value one of 256 that every codec with floats carries exactly.
std::vector<float> PretendText::Rows(int layer, bool keys, int64_t position, int64_t tokens,
                                     int64_t row) const {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(tokens * row));
  for (int64_t t = 0; t < tokens; ++t) {
    uint64_t bits = Mix(states_[static_cast<size_t>(position + t)], static_cast<uint64_t>(layer * 2 + keys));
    for (int64_t d = 0; d < row; ++d, bits >>= 8) {
      values.push_back((static_cast<float>(bits & 255u) - 128.0f) / 128.0f);
    }
  }
  return values;
}

Status PretendText::ComputeRows(SequenceCache& cache, int64_t tokens) const {
  HF_RETURN_IF_ERROR(cache.BeginStep(tokens));
  for (int layer = 0; layer < cache.layers(); ++layer) {
    SpanCache& rows = cache.layer(LayerId{layer});
    for (int64_t left = tokens; left > 0;) {
      const int64_t most = rows.max_append();
      const int64_t n = most == 0 ? left : std::min(left, most);
      const std::vector<float> k = Rows(layer, true, rows.length(), n, kDim);
      const std::vector<float> v = Rows(layer, false, rows.length(), n, kDim);
      rows.EncodeRows(rows.length(), n, 0, 1, k.data(), v.data());
      rows.Advance(n);
      left -= n;
    }
  }
  return cache.CommitStep();
}

std::optional<std::string> PretendText::WrongRow(const SequenceCache& cache) const {
  for (int layer = 0; layer < cache.layers(); ++layer) {
    const auto expected = [&](int64_t position, bool keys, float* row) {
      const std::vector<float> values = Rows(layer, keys, position, 1, kDim);
      std::copy(values.begin(), values.end(), row);
    };
    const SpanCache& rows = cache.layer(LayerId{layer});
    const std::string where = "layer " + std::to_string(layer);
    if (const auto wrong = WrongRowOf(rows, expected)) return where + ": " + *wrong;
    if (rows.protected_rows() == nullptr) continue;
    if (const auto wrong = WrongRowOf(*rows.protected_rows(), expected))
      return where + ", protected: " + *wrong;
  }
  return std::nullopt;
}

PretendAnswer AnswerAlone(const PrefixIdentity& identity, std::span<const int32_t> prompt, int64_t max_tokens,
                          int64_t longest) {
  PretendAnswer answer;
  if (max_tokens == 0) return {{}, FinishReason::kLength};
  PretendText text(identity, prompt);
  while (answer.finish == FinishReason::kNone) {
    answer.tokens.push_back(text.Next());
    text.Append(answer.tokens.back());
    if (PretendText::IsEnd(answer.tokens.back())) {
      answer.finish = FinishReason::kStop;
    } else if (static_cast<int64_t>(answer.tokens.size()) == max_tokens) {
      answer.finish = FinishReason::kLength;
    } else if (text.size() == longest) {
      answer.finish = FinishReason::kContext;
    }
  }
  return answer;
}

CacheConfig PretendConfig(const std::vector<LayoutConfig>& layouts, bool protected_rows, int block_tokens,
                          int64_t max_context, int rewind_tokens) {
  CacheConfig config = {.layers = {},
                        .storage = StorageId::kPaged,
                        .block_tokens = block_tokens,
                        .max_context = max_context,
                        .rewind_tokens = rewind_tokens};
  for (const LayoutConfig& layout : layouts) {
    LayerConfig& layer = config.layers.emplace_back();
    layer.layout = layout;
    layer.k_codec = layer.v_codec = protected_rows ? CodecId::kInt8 : CodecId::kF32;
    layer.shape = {.k_dim = kDim, .v_dim = kDim, .v_is_prefix_of_k = false};
    layer.kv_heads = 1;
    if (protected_rows) {
      const bool window = layout.id == LayoutId::kWindow;
      layer.protection = {.sink_tokens = 2,
                          .recent_tokens = window ? std::min<int64_t>(5, layout.window_tokens - 1) : 5,
                          .codecs = {CodecId::kF32, CodecId::kF32}};
    }
  }
  return config;
}

}  // namespace holdfast::testing
