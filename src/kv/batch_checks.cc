#include "kv/batch_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "base/status_macros.h"

namespace holdfast {
namespace {

Status CheckSameLayers(const SequenceCache& first, const SequenceCache& other, size_t slice) {
  const auto& a = first.config().layers;
  const auto& b = other.config().layers;
  const std::string where = "batch: sequence of slice " + std::to_string(slice);
  if (a.size() != b.size()) {
    return InvalidArgument(where + " has " + std::to_string(b.size()) + " layers, slice 0 has " +
                           std::to_string(a.size()));
  }
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].shape == b[i].shape && a[i].kv_heads == b[i].kv_heads && a[i].k_codec == b[i].k_codec &&
        a[i].v_codec == b[i].v_codec && a[i].protection == b[i].protection &&
        a[i].sparse_v == b[i].sparse_v && a[i].sparse_pages == b[i].sparse_pages &&
        a[i].k_transform == b[i].k_transform && a[i].v_transform == b[i].v_transform) {
      continue;
    }
    return InvalidArgument(where +
                           " differs from slice 0 in the row shape, heads, codecs or transforms of layer " +
                           std::to_string(i));
  }
  return OkStatus();
}

// The first value of rows [tokens, heads, dim] that is not finite.
Status CheckFinite(const char* half, int64_t position, int64_t tokens, int heads, int dim,
                   const float* rows) {
  const int64_t row = int64_t{heads} * dim;
  for (int64_t i = 0; i < tokens * row; ++i) {
    if (std::isfinite(rows[i])) continue;
    return InvalidArgument(std::string("append: ") + half + " value " + std::to_string(rows[i]) +
                           " at position " + std::to_string(position + i / row) + ", head " +
                           std::to_string(i % row / dim) + ", dim " + std::to_string(i % dim) +
                           ": must be finite");
  }
  return OkStatus();
}

Status CheckLayer(std::span<const BatchSlice> slices, const std::vector<bool>& attended, LayerId layer,
                  int q_heads) {
  const auto index = static_cast<int64_t>(layer);
  const auto layers = static_cast<int64_t>(attended.size());
  if (index < 0 || index >= layers) {
    return InvalidArgument("attend: layer " + std::to_string(index) + ", must be in [0, " +
                           std::to_string(layers) + ")");
  }
  if (attended[static_cast<size_t>(index)]) {
    return FailedPrecondition("attend: layer " + std::to_string(index) + " was attended already");
  }
  const int kv_heads = slices[0].sequence->layer(layer).config().kv_heads;
  if (q_heads < 1 || q_heads % kv_heads != 0) {
    return InvalidArgument("attend: " + std::to_string(q_heads) + " query heads, must be a multiple of " +
                           std::to_string(kv_heads) + " KV heads");
  }
  return OkStatus();
}

Status CheckPointers(const AttendArguments& call, bool needs_v) {
  const char* null = call.q == nullptr              ? "q"
                     : call.k == nullptr            ? "k"
                     : call.out == nullptr          ? "out"
                     : needs_v && call.v == nullptr ? "v"
                                                    : nullptr;
  if (null == nullptr) return OkStatus();
  return InvalidArgument("attend: " + std::string(null) + " of layer " +
                         std::to_string(static_cast<int>(call.layer)) + " is null");
}

// What is not a number in the rule would make every output one too.
Status CheckRule(LayerId layer, int q_heads, const AttentionRule& rule) {
  const auto refuse = [layer](const std::string& what, float value, const char* limit) {
    return InvalidArgument("attend: " + what + " of layer " + std::to_string(static_cast<int>(layer)) +
                           " is " + std::to_string(value) + ", must be " + limit);
  };
  if (!std::isfinite(rule.scale)) return refuse("scale", rule.scale, "finite");
  if (!std::isfinite(rule.softcap) || rule.softcap < 0.0f) {
    return refuse("softcap", rule.softcap, "finite and >= 0");
  }
  if (rule.sink_logits == nullptr) return OkStatus();
  for (int head = 0; head < q_heads; ++head) {
    const float logit = rule.sink_logits[head];
    if (std::isfinite(logit) || logit == -std::numeric_limits<float>::infinity()) continue;
    return refuse("sink logit of head " + std::to_string(head), logit, "finite, or -inf for none");
  }
  return OkStatus();
}

}  // namespace

Status CheckBatch(std::span<const BatchSlice> slices) {
  if (slices.empty()) return InvalidArgument("batch: no sequences");
  std::vector<const SequenceCache*> seen;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (slices[i].sequence == nullptr) {
      return InvalidArgument("batch: slice " + std::to_string(i) + " has no sequence");
    }
    seen.push_back(slices[i].sequence);
    HF_RETURN_IF_ERROR(CheckSameLayers(*slices[0].sequence, *slices[i].sequence, i));
  }
  std::sort(seen.begin(), seen.end());
  if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) {
    return InvalidArgument("batch: the same sequence is in two of its " + std::to_string(slices.size()) +
                           " slices");
  }
  return OkStatus();
}

Status CheckAttend(std::span<const BatchSlice> slices, const std::vector<bool>& attended,
                   const AttendArguments& call) {
  HF_RETURN_IF_ERROR(CheckLayer(slices, attended, call.layer, call.q_heads));
  const RowShape& shape = slices[0].sequence->layer(call.layer).config().shape;
  HF_RETURN_IF_ERROR(CheckPointers(call, !shape.v_is_prefix_of_k));
  return CheckRule(call.layer, call.q_heads, call.rule);
}

Status CheckRows(std::span<const BatchSlice> slices, std::span<const int64_t> first_token, LayerId layer,
                 const float* k, const float* v, const LayerTransform::Rows& rows) {
  for (size_t i = 0; i < slices.size(); ++i) {
    const SpanCache& cache = slices[i].sequence->layer(layer);
    const LayerConfig& config = cache.config();
    const int64_t tokens = slices[i].tokens;
    const int64_t k_at = first_token[i] * config.kv_heads * config.shape.k_dim;
    const int64_t v_at = first_token[i] * config.kv_heads * config.shape.v_dim;
    const bool has_v = !config.shape.v_is_prefix_of_k;
    Status checked = cache.CheckRows(tokens, rows.k + k_at, has_v ? rows.v + v_at : nullptr);
    if (checked.ok()) continue;
    if (rows.k != k || rows.v != v) {
      checked = Status(checked.code(), checked.message() + " (of rows as stored, transformed)");
      Status cause = CheckFinite("K", cache.length(), tokens, config.kv_heads, config.shape.k_dim, k + k_at);
      if (cause.ok() && has_v) {
        cause = CheckFinite("V", cache.length(), tokens, config.kv_heads, config.shape.v_dim, v + v_at);
      }
      if (!cause.ok()) checked = cause;
    }
    return Status(checked.code(), "layer " + std::to_string(static_cast<int>(layer)) + ", slice " +
                                      std::to_string(i) + ": " + checked.message());
  }
  return OkStatus();
}

}  // namespace holdfast
