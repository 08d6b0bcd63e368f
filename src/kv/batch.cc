#include "kv/batch.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"
#include "kv/batch_checks.h"
#include "kv/layer_transform.h"

namespace holdfast {
namespace {

// Tokens of one encoding task: whole tiles, so that no two tasks write the same tile.
constexpr int64_t kEncodeTaskTokens = 2 * kTileRows;

// Some of a slice's tokens, as many as its layer takes at once.
struct Piece {
  SpanCache* cache = nullptr;
  int64_t first_token = 0;  // in the flat batch
  int64_t tokens = 0;
  int64_t first_span = 0;
  int64_t spans = 0;
  int64_t protected_spans = 0;  // they follow
};

struct EncodeTask {
  SpanCache* cache = nullptr;
  int64_t position = 0;
  int64_t first_token = 0;
  int64_t tokens = 0;
};

}  // namespace

// Vectors are kept between layers: after the first one a step allocates nothing.
struct KvBatch::State {
  std::vector<BatchSlice> slices;
  std::vector<int64_t> steps;        // [slices] the sequences' open_step() as Begin left them
  std::vector<int64_t> first_token;  // [slices] in the flat batch
  std::vector<int64_t> positions;    // [tokens]
  std::vector<bool> attended;        // [layers]
  bool open = true;
  AttentionWorkspace* workspace = nullptr;
  ThreadPool* pool = nullptr;
  Isa isa = Isa::kScalar;
  LayerTransform transform;  // of the layer at hand
  const KvRowSink* row_sink = nullptr;
  bool cascade = true;

  // Of one round of one layer.
  std::vector<int64_t> done;  // [slices]
  std::vector<Piece> pieces;
  std::vector<EncodeTask> encode_tasks;
  std::vector<Span> spans;
  std::vector<VisibleRange> visible;            // [tokens]
  std::vector<VisibleRange> protected_visible;  // [tokens]
  std::vector<AttentionSequence> sequences;

  int64_t Tokens() const { return static_cast<int64_t>(positions.size()); }
  bool Owns(size_t slice) const { return slices[slice].sequence->open_step() == steps[slice]; }
  Status CheckStepsOpen(const char* operation);
  bool NextPieces(LayerId layer);
  void AppendPieces(const float* k, const float* v);
  void ListSequences();
  Status AttendLayer(LayerId layer, int q_heads, const float* q, const float* k, const float* v,
                     const AttentionRule& rule, float* out);
  Status AttendPieces(LayerId layer, int q_heads, const LayerTransform::Rows& rows, const AttentionRule& rule,
                      float* out);
  Status Abort();
};

KvBatch::KvBatch(std::unique_ptr<State> state) : state_(std::move(state)) {}
KvBatch::KvBatch(KvBatch&&) noexcept = default;

KvBatch::~KvBatch() {
  // What an abort may say, the sequences say again when they are used.
  if (state_ != nullptr && state_->open) static_cast<void>(state_->Abort());
}

Result<KvBatch> KvBatch::Begin(std::span<const BatchSlice> slices, AttentionWorkspace& workspace,
                               ThreadPool& pool) {
  HF_RETURN_IF_ERROR(CheckBatch(slices));
  auto state = std::make_unique<State>();
  state->workspace = &workspace;
  state->pool = &pool;
  state->isa = ActiveIsa();
  for (size_t i = 0; i < slices.size(); ++i) {
    const Status begun = slices[i].sequence->BeginStep(slices[i].tokens);
    if (!begun.ok()) {
      static_cast<void>(state->Abort());
      return Status(begun.code(), "batch: slice " + std::to_string(i) + ": " + begun.message());
    }
    state->slices.push_back(slices[i]);
    state->steps.push_back(slices[i].sequence->open_step());
    state->first_token.push_back(static_cast<int64_t>(state->positions.size()));
    const int64_t length = slices[i].sequence->length();
    for (int64_t t = 0; t < slices[i].tokens; ++t) state->positions.push_back(length + t);
  }
  state->attended.resize(static_cast<size_t>(slices[0].sequence->layers()), false);
  state->done.resize(slices.size());
  state->visible.resize(state->positions.size());
  state->protected_visible.resize(state->positions.size());
  return KvBatch(std::move(state));
}

int64_t KvBatch::tokens() const {
  return static_cast<int64_t>(state_->positions.size());
}

std::span<const int64_t> KvBatch::positions() const {
  return state_->positions;
}

Status KvBatch::Attend(LayerId layer, int q_heads, const float* q, const float* k, const float* v,
                       const AttentionRule& rule, float* out) {
  HF_RETURN_IF_ERROR(state_->CheckStepsOpen("attend"));
  HF_RETURN_IF_ERROR(CheckAttend(state_->slices, state_->attended, {layer, q_heads, q, k, v, rule, out}));
  const Status attended = state_->AttendLayer(layer, q_heads, q, k, v, rule, out);
  if (!attended.ok()) static_cast<void>(state_->Abort());
  return attended;
}

void KvBatch::SetRowSink(const KvRowSink* sink) {
  state_->row_sink = sink;
}

void KvBatch::SetCascade(bool cascade) {
  state_->cascade = cascade;
}

Status KvBatch::Commit() {
  HF_RETURN_IF_ERROR(state_->CheckStepsOpen("commit"));
  const auto missing = std::find(state_->attended.begin(), state_->attended.end(), false);
  if (missing != state_->attended.end()) {
    return FailedPrecondition("commit: layer " + std::to_string(missing - state_->attended.begin()) + " of " +
                              std::to_string(state_->attended.size()) + " was not attended");
  }
  state_->open = false;
  for (const BatchSlice& slice : state_->slices) HF_RETURN_IF_ERROR(slice.sequence->CommitStep());
  return OkStatus();
}

// The room that Begin made is gone from a sequence that was cleared since: nothing can be appended to it.
Status KvBatch::State::CheckStepsOpen(const char* operation) {
  if (!open) return FailedPrecondition(std::string(operation) + ": the batch is closed");
  for (size_t i = 0; i < slices.size(); ++i) {
    if (Owns(i)) continue;
    static_cast<void>(Abort());
    return FailedPrecondition(std::string(operation) + ": the sequence of slice " + std::to_string(i) +
                              " was cleared while the step was open; the batch is closed");
  }
  return OkStatus();
}

// As many tokens of every slice as its layer takes at once; false when all are done.
bool KvBatch::State::NextPieces(LayerId layer) {
  pieces.clear();
  for (size_t i = 0; i < slices.size(); ++i) {
    const int64_t left = slices[i].tokens - done[i];
    if (left == 0) continue;
    SpanCache& cache = slices[i].sequence->layer(layer);
    const int64_t most = cache.max_append();
    const int64_t tokens = most == 0 ? left : std::min(left, most);
    pieces.push_back({.cache = &cache, .first_token = first_token[i] + done[i], .tokens = tokens});
    done[i] += tokens;
  }
  return !pieces.empty();
}

void KvBatch::State::AppendPieces(const float* k, const float* v) {
  encode_tasks.clear();
  for (const Piece& piece : pieces) {
    const int64_t length = piece.cache->length();
    for (int64_t at = 0; at < piece.tokens;) {
      const int64_t task_end = RoundUp(length + at + 1, kEncodeTaskTokens) - length;
      const int64_t tokens = std::min(task_end, piece.tokens) - at;
      encode_tasks.push_back({piece.cache, length + at, piece.first_token + at, tokens});
      at += tokens;
    }
  }
  const auto encode = [&](int64_t i, int) {
    const EncodeTask& task = encode_tasks[static_cast<size_t>(i)];
    const LayerConfig& config = task.cache->config();
    const float* task_k = k + task.first_token * config.kv_heads * config.shape.k_dim;
    const float* task_v =
        v == nullptr ? nullptr : v + task.first_token * config.kv_heads * config.shape.v_dim;
    task.cache->EncodeRows(task.position, task.tokens, 0, config.kv_heads, task_k, task_v);
  };
  int64_t tokens = 0;
  for (const Piece& piece : pieces) tokens += piece.tokens;
  const auto tasks = static_cast<int64_t>(encode_tasks.size());
  if (tokens < kEncodeTaskTokens) {  // waking a thread would cost more
    for (int64_t i = 0; i < tasks; ++i) encode(i, 0);
  } else {
    pool->ParallelFor(tasks, encode);
  }
  for (const Piece& piece : pieces) piece.cache->Advance(piece.tokens);
}

void KvBatch::State::ListSequences() {
  spans.clear();
  for (Piece& piece : pieces) {
    const int64_t first_query = positions[static_cast<size_t>(piece.first_token)];
    const SpanCache* kept = piece.cache->protected_rows();
    piece.first_span = static_cast<int64_t>(spans.size());
    piece.cache->AppendSpans(first_query, spans);
    piece.spans = static_cast<int64_t>(spans.size()) - piece.first_span;
    if (kept != nullptr) kept->AppendSpans(first_query, spans);
    piece.protected_spans = static_cast<int64_t>(spans.size()) - piece.first_span - piece.spans;
    for (int64_t t = 0; t < piece.tokens; ++t) {
      const auto token = static_cast<size_t>(piece.first_token + t);
      visible[token] = piece.cache->visible(first_query + t);
      if (kept != nullptr) protected_visible[token] = kept->visible(first_query + t);
    }
  }
  sequences.clear();
  for (const Piece& piece : pieces) {
    const auto tokens = static_cast<size_t>(piece.tokens);
    AttentionSequence sequence = {
        .first_token = piece.first_token,
        .tokens = piece.tokens,
        .spans = {spans.data() + piece.first_span, static_cast<size_t>(piece.spans)},
        .visible = {visible.data() + piece.first_token, tokens}};
    if (piece.cache->protected_rows() != nullptr) {
      sequence.protected_spans = {sequence.spans.data() + piece.spans,
                                  static_cast<size_t>(piece.protected_spans)};
      sequence.protected_visible = {protected_visible.data() + piece.first_token, tokens};
    }
    sequences.push_back(sequence);
  }
}

Status KvBatch::State::AttendLayer(LayerId layer, int q_heads, const float* q, const float* k, const float* v,
                                   const AttentionRule& rule, float* out) {
  const LayerConfig& config = slices[0].sequence->layer(layer).config();
  try {
    const LayerTransform::Rows rows = transform.Apply(config, Tokens(), q_heads, q, k, v, isa, *pool);
    HF_RETURN_IF_ERROR(CheckRows(slices, first_token, layer, k, v, rows));
    HF_RETURN_IF_ERROR(AttendPieces(layer, q_heads, rows, rule, out));
  } catch (const std::bad_alloc&) {
    return ResourceExhausted("attend: no memory for the rows of " + std::to_string(Tokens()) + " tokens");
  }
  transform.Restore(Tokens(), q_heads, out, isa, *pool);
  if (row_sink != nullptr) (*row_sink)(layer, Tokens(), k, v);
  attended[static_cast<size_t>(layer)] = true;
  return OkStatus();
}

Status KvBatch::State::AttendPieces(LayerId layer, int q_heads, const LayerTransform::Rows& rows,
                                    const AttentionRule& rule, float* out) {
  const LayerConfig& config = slices[0].sequence->layer(layer).config();
  std::fill(done.begin(), done.end(), 0);
  while (NextPieces(layer)) {
    AppendPieces(rows.k, rows.v);
    ListSequences();
    AttentionCall call = {.shape = config.shape,
                          .q_heads = q_heads,
                          .kv_heads = config.kv_heads,
                          .k_codec = config.k_codec,
                          .v_codec = config.shape.v_is_prefix_of_k ? config.k_codec : config.v_codec,
                          .rule = rule,
                          .k_center = rows.k_center,
                          .v_center = rows.v_center,
                          .sequences = sequences,
                          .q = rows.q,
                          .out = out};
    call.sparse_v = config.sparse_v;
    call.sparse_pages = config.sparse_pages;
    call.cascade_bytes = cascade ? kCascadeBytes : 0;
    if (!config.protection.none()) call.protected_codecs = config.protection.codecs;
    HF_RETURN_IF_ERROR(holdfast::Attend(call, isa, *workspace, *pool));
  }
  return OkStatus();
}

Status KvBatch::State::Abort() {
  open = false;
  Status first;
  for (size_t i = 0; i < slices.size(); ++i) {
    if (!Owns(i)) continue;  // cleared since, and perhaps in another batch by now
    const Status aborted = slices[i].sequence->AbortStep();
    if (first.ok() && !aborted.ok()) first = aborted;
  }
  return first;
}

}  // namespace holdfast
