// A layer's transforms (codec/transform.h) as a batch applies them: rows and queries on their way in, outputs
// on their way out. Cache and attention below see rows of the transformed basis only.
#pragma once

#include <cstdint>
#include <vector>

#include "attention/attend.h"
#include "base/thread_pool.h"
#include "codec/transform.h"
#include "holdfast/cache_config.h"

namespace holdfast {

// Whether a side's rows are rotated: by configuration, or because its codec knows nothing else.
bool RotatesKeys(const LayerConfig& layer);
bool RotatesValues(const LayerConfig& layer);

// Buffers are kept between layers; the pointers are those of the last Apply. Not thread-safe.
class LayerTransform {
 public:
  // What to store and attend instead of what Apply was given: the caller's own where nothing changes.
  struct Rows {
    const float* q;
    const float* k;
    const float* v;
    const float* k_center;  // what AttentionCall wants; null: none
    const float* v_center;
  };

  // For a flat batch of `tokens` tokens; arrays as KvBatch::Attend takes them. May throw std::bad_alloc.
  // `layer` must outlive the calls below.
  Rows Apply(const LayerConfig& layer, int64_t tokens, int q_heads, const float* q, const float* k,
             const float* v, Isa isa, ThreadPool& pool);
  // Brings the output of attention over those rows back, in place: out [tokens, q_heads, v_dim].
  void Restore(int64_t tokens, int q_heads, float* out, Isa isa, ThreadPool& pool) const;

 private:
  const RowTransform& output() const { return latent_ ? k_ : v_; }
  void MakeCenters(const LayerConfig& layer, Isa isa);

  RowTransform k_;
  RowTransform v_;
  bool latent_ = false;
  std::vector<float> q_rows_, k_rows_, v_rows_;
  std::vector<float> k_centers_, v_centers_;  // rotated
};

}  // namespace holdfast
