#include "attention/testing_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "span/page_bounds.h"

namespace holdfast {
namespace {

int64_t Tiles(int64_t rows) {
  return (rows + kTileRows - 1) / kTileRows;
}

// Tile-aligned memory: new[] aligns to 16 bytes, which is what tiles ask for.
std::unique_ptr<std::byte[]> Zeroed(int64_t bytes) {
  return std::make_unique<std::byte[]>(static_cast<size_t>(std::max<int64_t>(bytes, 1)));
}

}  // namespace

float RandomValue(std::mt19937_64& random) {
  return static_cast<float>(static_cast<int64_t>(random() >> 40) - (int64_t{1} << 23)) * 0x1p-23f;
}

std::string TestGeometry::Describe() const {
  return std::to_string(q_heads) + "/" + std::to_string(kv_heads) + " heads, dims " +
         std::to_string(shape.k_dim) + "/" + std::to_string(shape.v_dim) +
         (shape.v_is_prefix_of_k ? " latent" : "") + ", " + CodecSpecName(k_codec) + "/" +
         CodecSpecName(v_codec) + ", scale " + std::to_string(scale) + ", softcap " +
         std::to_string(softcap) + (sink_logits ? ", sink logits" : "") + (centers ? ", centres" : "") +
         (sparse_pages > 0 ? ", " + std::to_string(sparse_pages) + " pages" : "");
}

TestCall::TestCall(const TestGeometry& geometry, const std::vector<TestSequence>& sequences, uint64_t seed)
    : geometry_(geometry),
      random_(seed),
      k_tile_bytes_(GetCodec(geometry.k_codec).k_tile_bytes(geometry.k_format())),
      v_tile_bytes_(
          geometry.shape.v_is_prefix_of_k ? 0 : GetCodec(geometry.v_codec).v_tile_bytes(geometry.v_format())),
      bounds_bytes_(geometry.sparse_pages > 0 ? PageBoundsBytes(geometry.shape.k_dim) : 0) {
  for (const TestSequence& spec : sequences) {
    Rows& rows = rows_.emplace_back();
    rows.spec = spec;
    rows.first_token = tokens_;
    tokens_ += spec.tokens;
    Encode(rows);
    for (int64_t p = spec.length - spec.tokens; p < spec.length; ++p) {
      const int64_t begin = spec.window == 0 ? 0 : std::max<int64_t>(p + 1 - spec.window, 0);
      rows.visible.push_back({begin, p + 1, spec.sinks});
    }
  }
  q_.resize(static_cast<size_t>(tokens_ * geometry.q_heads * geometry.shape.k_dim));
  for (float& x : q_) x = 3.0f * RandomValue(random_);
  sink_logits_.resize(static_cast<size_t>(geometry.q_heads));
  for (float& x : sink_logits_) x = 3.0f * RandomValue(random_);
  k_centers_.resize(static_cast<size_t>(geometry.kv_heads) * static_cast<size_t>(geometry.shape.k_dim));
  v_centers_.resize(static_cast<size_t>(geometry.kv_heads) * static_cast<size_t>(geometry.shape.v_dim));
  for (float& x : k_centers_) x = RandomValue(random_);
  for (float& x : v_centers_) x = RandomValue(random_);
}

void TestCall::Encode(Rows& rows) {
  const int64_t tiles = Tiles(rows.spec.length);
  const RowShape& shape = geometry_.shape;
  const CodecKernels& k = GetCodec(geometry_.k_codec).kernels(Isa::kScalar);
  const CodecKernels& v = GetCodec(geometry_.v_codec).kernels(Isa::kScalar);
  Span span;
  span.rows = rows.spec.length;
  span.k_head_stride_bytes = tiles * k_tile_bytes_;
  span.v_head_stride_bytes = tiles * v_tile_bytes_;
  auto k_memory = Zeroed(tiles * geometry_.kv_heads * k_tile_bytes_);
  auto v_memory = Zeroed(tiles * geometry_.kv_heads * v_tile_bytes_);
  std::vector<float> row(static_cast<size_t>(std::max(shape.k_dim, shape.v_dim)));
  for (int head = 0; head < geometry_.kv_heads; ++head) {
    for (int64_t p = 0; p < rows.spec.length; ++p) {
      const int slot = static_cast<int>(p % kTileRows);
      for (float& x : row) x = RandomValue(random_);
      k.encode_k(row.data(), geometry_.k_format(), slot,
                 k_memory.get() + head * span.k_head_stride_bytes + p / kTileRows * k_tile_bytes_);
      if (shape.v_is_prefix_of_k) continue;
      for (float& x : row) x = RandomValue(random_);
      v.encode_v(row.data(), geometry_.v_format(), slot,
                 v_memory.get() + head * span.v_head_stride_bytes + p / kTileRows * v_tile_bytes_);
    }
  }
  if (bounds_bytes_ > 0) {
    span.bounds_head_stride_bytes = tiles * bounds_bytes_;
    auto bounds = Zeroed(tiles * geometry_.kv_heads * bounds_bytes_);
    for (int64_t head = 0; head < geometry_.kv_heads; ++head) {
      for (int64_t tile = 0; tile < rows.spec.length / kTileRows; ++tile) {
        WritePageBounds(geometry_.k_codec, shape.k_dim,
                        k_memory.get() + head * span.k_head_stride_bytes + tile * k_tile_bytes_,
                        bounds.get() + head * span.bounds_head_stride_bytes + tile * bounds_bytes_);
      }
    }
    span.bounds = bounds.get();
    rows.memory.push_back(std::move(bounds));
  }
  span.k = k_memory.get();
  span.v = shape.v_is_prefix_of_k ? nullptr : v_memory.get();
  rows.memory.push_back(std::move(k_memory));
  rows.memory.push_back(std::move(v_memory));
  if (span.rows > 0) rows.spans.push_back(span);
}

Span TestCall::CopyTiles(Rows& rows, const Span& whole, int64_t tile, int64_t count) {
  // A gap of a varying number of bytes between heads, so that no stride is the tiles' own.
  const int64_t gap = 16 * static_cast<int64_t>(random_() % 5);
  Span part;
  part.begin = tile * kTileRows;
  part.rows = count * kTileRows;
  const auto copy = [&](const std::byte* from, int64_t from_stride, int64_t tile_bytes, int64_t* stride) {
    *stride = count * tile_bytes + gap;
    auto memory = Zeroed(geometry_.kv_heads * *stride);
    for (int head = 0; head < geometry_.kv_heads; ++head) {
      std::memcpy(memory.get() + head * *stride, from + head * from_stride + tile * tile_bytes,
                  static_cast<size_t>(count * tile_bytes));
    }
    rows.memory.push_back(std::move(memory));
    return rows.memory.back().get();
  };
  part.k = copy(whole.k, whole.k_head_stride_bytes, k_tile_bytes_, &part.k_head_stride_bytes);
  if (whole.v != nullptr)
    part.v = copy(whole.v, whole.v_head_stride_bytes, v_tile_bytes_, &part.v_head_stride_bytes);
  if (whole.bounds != nullptr)
    part.bounds =
        copy(whole.bounds, whole.bounds_head_stride_bytes, bounds_bytes_, &part.bounds_head_stride_bytes);
  return part;
}

// Overwrites the rows of the tiles that nobody sees with large finite values, as a ring's stale rows would
// be.
void TestCall::Spoil(const Rows& rows, const Span& span, int64_t tile, int64_t count) {
  const RowShape& shape = geometry_.shape;
  const CodecKernels& k = GetCodec(geometry_.k_codec).kernels(Isa::kScalar);
  const CodecKernels& v = GetCodec(geometry_.v_codec).kernels(Isa::kScalar);
  const std::vector<float> row(static_cast<size_t>(std::max(shape.k_dim, shape.v_dim)), 1000.0f);
  for (int64_t p = tile * kTileRows; p < (tile + count) * kTileRows; ++p) {
    const auto sees = [&](const VisibleRange& range) { return range.Sees(p); };
    if (std::any_of(rows.visible.begin(), rows.visible.end(), sees)) continue;
    const int slot = static_cast<int>(p % kTileRows);
    const int64_t at = p / kTileRows - tile;
    for (int head = 0; head < geometry_.kv_heads; ++head) {
      k.encode_k(row.data(), geometry_.k_format(), slot,
                 const_cast<std::byte*>(span.k) + head * span.k_head_stride_bytes + at * k_tile_bytes_);
      if (span.v == nullptr) continue;
      v.encode_v(row.data(), geometry_.v_format(), slot,
                 const_cast<std::byte*>(span.v) + head * span.v_head_stride_bytes + at * v_tile_bytes_);
    }
  }
}

void TestCall::Scatter(uint64_t seed) {
  random_.seed(seed);
  for (Rows& rows : rows_) {
    if (rows.spans.size() != 1) continue;
    const Span whole = rows.spans[0];
    auto old_memory = std::move(rows.memory);
    rows.memory.clear();
    rows.spans.clear();
    const int64_t tiles = Tiles(rows.spec.length);
    for (int64_t tile = 0; tile < tiles;) {
      const int64_t count = std::min<int64_t>(1 + static_cast<int64_t>(random_() % 20), tiles - tile);
      const Span part = CopyTiles(rows, whole, tile, count);
      Spoil(rows, part, tile, count);
      // Runs of seen rows, each cut once more somewhere.
      const int64_t part_end = std::min(part.end(), rows.spec.length);
      for (int64_t p = part.begin; p < part_end;) {
        const auto seen = [&](int64_t at) {
          return std::any_of(rows.visible.begin(), rows.visible.end(),
                             [&](const VisibleRange& r) { return r.Sees(at); });
        };
        if (!seen(p)) {
          ++p;
          continue;
        }
        const int64_t most = 1 + static_cast<int64_t>(random_() % 100);
        int64_t end = p + 1;
        while (end < part_end && end < p + most && seen(end)) ++end;
        Span run = part;
        run.begin = p;
        run.rows = end - p;
        run.k += (p / kTileRows - tile) * k_tile_bytes_;
        if (run.v != nullptr) run.v += (p / kTileRows - tile) * v_tile_bytes_;
        if (run.bounds != nullptr) run.bounds += (p / kTileRows - tile) * bounds_bytes_;
        rows.spans.push_back(run);
        p = end;
      }
      tile += count;
    }
  }
}

Span TestCall::Part(const Span& span, int64_t begin, int64_t end) const {
  Span part = span;
  part.begin = std::max(span.begin, begin);
  part.rows = std::min(span.end(), end) - part.begin;
  const int64_t tiles = part.begin / kTileRows - span.begin / kTileRows;
  part.k += tiles * k_tile_bytes_;
  if (part.v != nullptr) part.v += tiles * v_tile_bytes_;
  if (part.bounds != nullptr) part.bounds += tiles * bounds_bytes_;
  return part;
}

std::vector<Span> TestCall::InBlocks(const std::vector<Span>& spans) const {
  constexpr int64_t kBlock = 32;
  std::vector<Span> blocks;
  for (const Span& span : spans) {
    for (int64_t begin = span.begin / kBlock * kBlock; begin < span.end(); begin += kBlock)
      blocks.push_back(Part(span, begin, begin + kBlock));
  }
  return blocks;
}

void TestCall::ShareRows(size_t sequence, size_t with, int64_t rows) {
  rows_[with].spans = InBlocks(rows_[with].spans);
  std::vector<Span> spans;
  for (const Span& span : rows_[with].spans)
    if (span.begin < rows) spans.push_back(Part(span, 0, rows));
  for (const Span& span : InBlocks(rows_[sequence].spans))
    if (span.end() > rows) spans.push_back(Part(span, rows, span.end()));
  rows_[sequence].spans = std::move(spans);
}

AttentionCall TestCall::Call(float* out) {
  sequences_.clear();
  for (const Rows& rows : rows_) {
    sequences_.push_back({rows.first_token, rows.spec.tokens, rows.spans, rows.visible});
  }
  AttentionCall call;
  call.shape = geometry_.shape;
  call.q_heads = geometry_.q_heads;
  call.kv_heads = geometry_.kv_heads;
  call.k_codec = geometry_.k_codec;
  call.v_codec = geometry_.v_codec;
  call.sparse_v = geometry_.sparse_v;
  call.sparse_pages = geometry_.sparse_pages;
  call.rule = {geometry_.scale, geometry_.softcap, geometry_.sink_logits ? sink_logits_.data() : nullptr};
  if (geometry_.centers) {
    call.k_center = k_centers_.data();
    call.v_center = v_centers_.data();
  }
  call.cascade_bytes = cascade_bytes;
  call.sequences = sequences_;
  call.q = q_.data();
  call.out = out;
  return call;
}

std::vector<float> TestCall::Run(Isa isa, int threads, int64_t step) {
  std::vector<float> out(static_cast<size_t>(tokens_ * geometry_.q_heads * geometry_.shape.v_dim), -7.0f);
  AttentionCall call = Call(out.data());
  AttentionWorkspace workspace;
  auto pool = ThreadPool::Create(threads);
  EXPECT_TRUE(pool.ok());
  if (step == 0) {
    EXPECT_TRUE(Attend(call, isa, workspace, **pool).ok());
    return out;
  }
  const std::vector<AttentionSequence> all = sequences_;
  for (const AttentionSequence& s : all) {
    for (int64_t t = 0; t < s.tokens; t += step) {
      const int64_t count = std::min(step, s.tokens - t);
      const AttentionSequence part = {s.first_token + t, count, s.spans,
                                      s.visible.subspan(static_cast<size_t>(t), static_cast<size_t>(count))};
      call.sequences = {&part, 1};
      EXPECT_TRUE(Attend(call, isa, workspace, **pool).ok());
    }
  }
  return out;
}

std::vector<float> TestCall::Reference() {
  std::vector<float> out(static_cast<size_t>(tokens_ * geometry_.q_heads * geometry_.shape.v_dim), -7.0f);
  ReferenceAttend(Call(out.data()));
  return out;
}

float LargestDifference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<float>::infinity();
  float largest = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return std::numeric_limits<float>::infinity();
    if (!std::isnan(a[i])) largest = std::max(largest, std::fabs(a[i] - b[i]));
  }
  return largest;
}

bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

}  // namespace holdfast
