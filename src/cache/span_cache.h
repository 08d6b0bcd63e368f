// The cache of one layer of one sequence: rows by position, in any layout x codec x storage.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cache/layer_plan.h"
#include "cache/layout.h"
#include "cache/storage.h"
#include "codec/codec.h"
#include "span/span.h"

namespace holdfast {

// Not thread-safe, but for what EncodeRows says.
class SpanCache {
 public:
  // REQUIRES ValidateCacheConfig(config).ok() and 0 <= layer < config.layers.size().
  static Result<std::unique_ptr<SpanCache>> Create(const CacheConfig& config, int layer,
                                                   std::shared_ptr<CacheMemory> memory);

  const LayerConfig& config() const { return config_; }
  int64_t length() const { return length_; }  // positions stored so far; the next append is at this position
  // Most tokens that one Append takes now, so that each of them still finds the rows it sees. A longer append
  // must come in pieces, each attended before the next (KvBatch does). 0 = any number.
  int64_t max_append() const;

  // Appends `tokens` rows at positions length().. : k [tokens, kv_heads, k_dim], v [tokens, kv_heads, v_dim]
  // (ignored for a latent row). In place: no row already stored is moved. Equal to appending them one by one.
  // On error the cache is unchanged. Errors: kInvalidArgument (tokens < 1; a value the codec cannot carry:
  // names position, head, dim, value and limit), kOutOfRange (max_context, max_append), kResourceExhausted.
  Status Append(int64_t tokens, const float* k, const float* v);

  // Append's parts, for kv/, which reserves for all layers before anything is computed and encodes in
  // parallel.
  //
  // Checks max_context and makes room for `tokens` more, on error for none. Rows and length stay as they are.
  Status Reserve(int64_t tokens);
  // Gives back what Reserve took and no append used.
  void TrimToLength();
  // Checks that the codecs can carry every value. Pure.
  Status CheckRows(int64_t tokens, const float* k, const float* v) const;
  // Encodes the rows of `tokens` reserved positions from `position` on; k and v point at the first of them.
  // Threads may encode different positions or heads at once as long as none of their positions share a tile
  // of the same head. REQUIRES Reserve and CheckRows of them, heads [head_begin, head_end) of the layer.
  void EncodeRows(int64_t position, int64_t tokens, int head_begin, int head_end, const float* k,
                  const float* v);
  // Advances the length over encoded rows. REQUIRES tokens <= max_append() where that is not 0.
  void Advance(int64_t tokens);

  // Forgets the last n tokens: afterwards the cache equals one that never saw them. Guaranteed for n up to
  // rewind_tokens, and for any n while no row has been given up (see docs/adr on the rewind floor).
  // Errors: kInvalidArgument (n < 0 or n > length), kFailedPrecondition (names n and the limit); unchanged
  // then.
  Status Rewind(int64_t n);
  int64_t rewindable() const;  // largest n that Rewind accepts now
  // Forgets everything, its history too.
  void Clear();

  // An independent cache with the same rows. Error: kResourceExhausted.
  Result<std::unique_ptr<SpanCache>> Fork() const;
  CacheBytes bytes() const;    // allocated; equals PlanLayer(config, layer, length())
  int64_t live_bytes() const;  // encoded bytes of the rows that are live now, protected ones both times
  LiveRange live() const { return layout_->live(config_.layout, length_, rewind_tokens_); }

  // Appends to `spans`, in ascending position, every stored row that some query at a position in
  // [first_query, length()) sees. REQUIRES first_query >= length() - the last append's tokens. Valid until
  // the next change of this cache.
  void AppendSpans(int64_t first_query, std::vector<Span>& spans) const;
  // Every row that is live, as spans: what a query sees now and what Rewind may bring back.
  void AppendLiveSpans(std::vector<Span>& spans) const;
  // What the query at `position` sees of these rows; of the protected ones it sees protected_rows()'s visible().
  VisibleRange visible(int64_t position) const;
  // The rows kept a second time at higher precision, or null. Changed by this cache alone.
  const SpanCache* protected_rows() const { return protected_.get(); }
  SpanCache* protected_rows() { return protected_.get(); }

  // Sharing of blocks, for SequenceCache; all of it without the protected rows, which are a cache of their own.
  // Block n holds the positions [n * block_tokens, (n + 1) * block_tokens). REQUIRES storage paged.
  //
  // The block, or kNone where some of its rows up to the length were given up.
  BlockId block(int64_t n) const;
  // The blocks that a cache of this length needs: [0, pinned) and [begin, end); they may overlap.
  struct BlockNeed {
    int64_t pinned = 0, begin = 0, end = 0;
  };
  BlockNeed NeededBlocks(int64_t length) const;
  // Takes over `length` positions: ids(n) for every block that is needed, empty ones for slots between. REQUIRES an
  // empty cache. On error it is empty again. Error: kResourceExhausted.
  Status Adopt(int64_t length, const std::function<BlockId(int64_t n)>& ids);
  // Takes `id`, a block with the same rows that others own or keep, in place of its own. REQUIRES block(n) != kNone.
  void ShareBlock(int64_t n, BlockId id);
  int64_t AdoptBytes(int64_t length) const;  // that Adopt allocates: tables, and the empty blocks
  // What the storage shares, or null.
  const SharedBlocks* shared_blocks() const { return storage_->shared_blocks(); }

  // Most bytes by which appends up to `length` positions can make the rows and tables grow that only this sequence
  // owns, beyond what it owns alone now; protected rows included. kSequences: a block that only an index keeps besides
  // counts as its own, since the index gives it up. kAnyone: it does not; then this is what the next append allocates.
  enum class SharedWith { kSequences, kAnyone };
  int64_t MostGrowthBytes(int64_t length, SharedWith who) const;

 private:
  SpanCache(const CacheConfig& config, const LayerConfig& layer, std::unique_ptr<Storage> storage,
            std::unique_ptr<SpanCache> kept);
  SpanCache(const SpanCache& other, std::unique_ptr<Storage> storage, std::unique_ptr<SpanCache> kept);
  static Result<std::unique_ptr<SpanCache>> CreateRows(const CacheConfig& config, const LayerConfig& layer,
                                                       std::shared_ptr<CacheMemory> memory);
  void AppendRunsOf(int64_t begin, int64_t end, std::vector<Span>& spans) const;
  Status CheckLimits(int64_t tokens) const;
  RowFormat k_format() const { return {config_.shape.k_dim, config_.k_codec.group}; }
  RowFormat v_format() const { return {config_.shape.v_dim, config_.v_codec.group}; }
  Status MakeRoom(int64_t tokens);

  LayerConfig config_;
  const LayoutTraits* layout_;
  const Codec* k_codec_;
  const Codec* v_codec_;  // null for a latent row
  const CodecKernels* k_kernels_;
  const CodecKernels* v_kernels_;
  LayerPlan plan_;
  int64_t max_context_;
  int64_t rewind_tokens_;
  std::unique_ptr<Storage> storage_;
  std::unique_ptr<SpanCache> protected_;  // at the same length; null where nothing is protected
  int64_t length_ = 0;
  int64_t max_length_ = 0;  // largest length so far: what has been given up stays so after a rewind
};

}  // namespace holdfast
