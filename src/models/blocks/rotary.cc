#include "models/blocks/rotary.h"

#include "base/status_macros.h"

namespace holdfast {
namespace {

bool SameRotation(const AttentionLayerConfig& a, const AttentionLayerConfig& b) {
  const RopeScaling& s = a.rope_scaling;
  const RopeScaling& t = b.rope_scaling;
  return a.rope_base == b.rope_base && s.kind == t.kind && s.factor == t.factor &&
         s.low_freq_factor == t.low_freq_factor && s.high_freq_factor == t.high_freq_factor &&
         s.original_max_position == t.original_max_position;
}

}  // namespace

Result<RotaryEmbeddings> RotaryEmbeddings::Create(const ModelConfig& config,
                                                  std::span<const float> freq_factors) {
  RotaryEmbeddings rotary;
  rotary.head_dim_ = config.head_dim;
  std::vector<const AttentionLayerConfig*> distinct;
  for (const AttentionLayerConfig& layer : config.attention) {
    size_t i = 0;
    while (i < distinct.size() && !SameRotation(*distinct[i], layer)) ++i;
    if (i == distinct.size()) {
      HF_ASSIGN_OR_RETURN(Rope rope, Rope::Create(config.head_dim, config.rotary_dim, layer.rope_base,
                                                  config.rope_pairing, layer.rope_scaling, freq_factors));
      rotary.ropes_.push_back(std::move(rope));
      distinct.push_back(&layer);
    }
    rotary.rope_of_.push_back(static_cast<int>(i));
  }
  rotary.tables_.resize(rotary.ropes_.size());
  return rotary;
}

void RotaryEmbeddings::Prepare(std::span<const int64_t> positions, ThreadPool& pool) {
  for (size_t i = 0; i < ropes_.size(); ++i) ropes_[i].Fill(positions, tables_[i], pool);
}

void RotaryEmbeddings::Rotate(int layer, float* x, int64_t heads, Isa isa, ThreadPool& pool) const {
  const auto i = static_cast<size_t>(rope_of_[static_cast<size_t>(layer)]);
  ropes_[i].Apply(x, tables_[i].tokens(), heads, heads * head_dim_, tables_[i], isa, pool);
}

int64_t RotaryEmbeddings::bytes() const {
  int64_t total = 0;
  for (const RopeTable& table : tables_) total += table.bytes();
  return total;
}

}  // namespace holdfast
