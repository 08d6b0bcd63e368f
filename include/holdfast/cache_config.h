// What a cache is made of: layout x codec x storage, and the shape of its rows.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "holdfast/codec_list.h"
#include "holdfast/layout_list.h"
#include "holdfast/status.h"
#include "holdfast/storage_list.h"

namespace holdfast {

// How a K or V row becomes bytes. K and V choose independently.
enum class CodecId : uint8_t {
#define HOLDFAST_CODEC_ENUMERATOR(id, name, symbol) id,
  HOLDFAST_CODECS(HOLDFAST_CODEC_ENUMERATOR)
#undef HOLDFAST_CODEC_ENUMERATOR
};
std::string_view CodecName(CodecId id);
Result<CodecId> ParseCodec(std::string_view name);
std::vector<CodecId> AllCodecs();

// A codec and its parameter. Written `affine4`, or `affine4g64` with a group of 64.
struct CodecSpec {
  CodecId id = CodecId::kF16;
  // Dims that share a scale, for the codecs that take a group: a multiple of 16 that divides the row's dims.
  // 0: the codec's own default, whose last group in a row may be shorter.
  int group = 0;

  constexpr CodecSpec() = default;
  constexpr CodecSpec(CodecId codec, int group_dims = 0)
      : id(codec), group(group_dims) {}  // a codec is a spec
  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};
std::string CodecSpecName(CodecSpec spec);
Result<CodecSpec> ParseCodecSpec(std::string_view text);

// The codecs of K and V, as `--kv-cache` takes them: `f16`, `f16:int8` (K:V), `aura4v2` (K aura4, V aura2).
struct KvSpec {
  CodecSpec k;
  CodecSpec v;
  friend bool operator==(const KvSpec&, const KvSpec&) = default;
};
std::string KvSpecName(const KvSpec& spec);
Result<KvSpec> ParseKvSpec(std::string_view text);

// Which positions a query may see.
enum class LayoutId : uint8_t {
#define HOLDFAST_LAYOUT_ENUMERATOR(id, name, symbol) id,
  HOLDFAST_LAYOUTS(HOLDFAST_LAYOUT_ENUMERATOR)
#undef HOLDFAST_LAYOUT_ENUMERATOR
};
std::string_view LayoutName(LayoutId id);
Result<LayoutId> ParseLayout(std::string_view name);
std::vector<LayoutId> AllLayouts();

// Where rows live.
enum class StorageId : uint8_t {
#define HOLDFAST_STORAGE_ENUMERATOR(id, name, symbol) id,
  HOLDFAST_STORAGES(HOLDFAST_STORAGE_ENUMERATOR)
#undef HOLDFAST_STORAGE_ENUMERATOR
};
std::string_view StorageName(StorageId id);
Result<StorageId> ParseStorage(std::string_view name);
std::vector<StorageId> AllStorages();

// The shape of one token's row for one KV head.
struct RowShape {
  int k_dim = 0;
  int v_dim = 0;
  // True: V is the first v_dim values of the K row (an MLA latent), stored once. REQUIRES v_dim <= k_dim.
  bool v_is_prefix_of_k = false;

  friend bool operator==(const RowShape&, const RowShape&) = default;
};

struct LayoutConfig {
  LayoutId id = LayoutId::kFull;
  int64_t window_tokens = 0;  // kWindow: W >= 1; the query at p sees p-W+1..p
  int64_t sink_tokens = 0;    // kWindow: positions [0, sink_tokens) stay visible for ever

  friend bool operator==(const LayoutConfig&, const LayoutConfig&) = default;
};

// What is done to K or V rows before an integer codec sees them, and taken back from the output: exact but for
// rounding, and it makes rows easier to quantise (docs/formats/transform.md). Float codecs take none.
struct RowTransformConfig {
  bool rotate = false;  // by a signed Hadamard transform; codecs that need it (aura) do it whatever this says
  // [kv_heads, dim], finite: what is taken off each head's rows first; null: nothing.
  std::shared_ptr<const std::vector<float>> center;

  bool none() const { return !rotate && center == nullptr; }
  friend bool operator==(const RowTransformConfig& a, const RowTransformConfig& b) {
    const bool same_center =
        a.center == b.center || (a.center != nullptr && b.center != nullptr && *a.center == *b.center);
    return a.rotate == b.rotate && same_center;
  }
};

// Rows that a layer keeps a second time at higher precision, and that a query sees so: which ones depends on
// positions alone. With either of them a layer's rewind ends at CacheConfig::rewind_tokens.
struct ProtectionConfig {
  // The first positions, where the layout sees them for ever: a window protects the sinks that it keeps instead.
  int64_t sink_tokens = 0;
  int64_t recent_tokens =
      0;  // the query at p sees p-R+1..p so; at least its own row where sinks are protected
  KvSpec codecs;

  bool none() const { return sink_tokens == 0 && recent_tokens == 0; }
  friend bool operator==(const ProtectionConfig&, const ProtectionConfig&) = default;
};

struct LayerConfig {
  LayoutConfig layout;
  CodecSpec k_codec;
  CodecSpec v_codec;  // ignored where v_is_prefix_of_k
  RowShape shape;
  int kv_heads = 0;
  RowTransformConfig k_transform = {};
  RowTransformConfig v_transform = {};  // none where v_is_prefix_of_k: a latent row's V is its K's prefix
  ProtectionConfig protection = {};
  // V rows of a weight below this are left out of a query's output (attention/attend.h says weight of what);
  // in [0, 1). 0: none, exact.
  float sparse_v = 0.0f;
  // Layout full only: a query sees at most so many pages of 16 rows, and the least of them is kMinSparsePages. It takes
  // the first page, the last ones, and of the others those whose bounds promise most (docs/adr on sparse pages). Rows
  // kept twice (protection) come on top. 0: every page, exact.
  int64_t sparse_pages = 0;

  friend bool operator==(const LayerConfig&, const LayerConfig&) = default;
};

inline constexpr int kDefaultRewindTokens = 16;
inline constexpr int kDefaultBlockTokens = 32;

// Ceilings of a configuration: far past any use, low enough that no size computed below them can overflow.
inline constexpr int64_t kMaxContextTokens = int64_t{1} << 36;
inline constexpr int kMaxLayers = 4096;
inline constexpr int kMaxKvHeads = 4096;
inline constexpr int kMaxRewindTokens = 1 << 20;
inline constexpr int64_t kMinSparsePages = 8;
inline constexpr int64_t kMaxSparsePages = 1 << 16;

struct CacheConfig {
  std::vector<LayerConfig> layers;
  StorageId storage = StorageId::kContiguous;
  int block_tokens = kDefaultBlockTokens;    // a power of two, 16 to 256; only kPaged uses it
  int64_t max_context = 0;                   // positions a sequence may hold; append past it is an error
  int rewind_tokens = kDefaultRewindTokens;  // Rewind(n) is guaranteed for n up to this

  friend bool operator==(const CacheConfig&, const CacheConfig&) = default;
};

// Checks every value and every combination; the message names layer, field, value and limit. A combination
// that passes works for every operation: nothing is refused later or silently degraded.
Status ValidateCacheConfig(const CacheConfig& config);

// Bytes of one sequence's cache. Planning, allocating and reporting use the same formulas.
struct CacheBytes {
  int64_t row_bytes = 0;  // rows, in whole chunks or blocks; a shared block counts for each that shares it
  int64_t metadata_bytes = 0;  // the tables that find them
  int64_t total_bytes() const { return row_bytes + metadata_bytes; }

  CacheBytes& operator+=(const CacheBytes& other) {
    row_bytes += other.row_bytes;
    metadata_bytes += other.metadata_bytes;
    return *this;
  }
  friend bool operator==(const CacheBytes&, const CacheBytes&) = default;
};

// Bytes of one row of every KV head of the layer, K and V, metadata of the codec included. In closed form:
// kv_heads * (K bytes + V bytes), a tile's bytes / 16, and 1/16 of a page's bounds where a layer keeps them. Protected rows, a number that does not grow, come on top.
Result<int64_t> RowBytes(const LayerConfig& layer);

// What a cache that holds `length_tokens` tokens has allocated, to the byte. Errors: an invalid
// configuration, a length that is negative or past max_context, a layer that does not exist, a sum that does
// not fit 63 bits.
Result<CacheBytes> PlanCache(const CacheConfig& config, int64_t length_tokens);
Result<CacheBytes> PlanLayer(const CacheConfig& config, int layer, int64_t length_tokens);

}  // namespace holdfast
