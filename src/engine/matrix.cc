#include "holdfast/matrix.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "base/status_macros.h"
#include "holdfast/kv_cache.h"

namespace holdfast {
namespace {

constexpr int kQueryHeads = 2, kKvHeads = 1;
constexpr int64_t kTokens = 120;
constexpr LayoutConfig kWindow = {LayoutId::kWindow, 40, 5};  // laps its ring within kTokens
constexpr RowShape kRows = {64, 64, false}, kLatentRows = {80, 64, true};

CacheConfig ConfigOf(LayoutId layout, const KvSpec& codecs, StorageId storage, bool latent) {
  LayerConfig layer;
  layer.layout = layout == LayoutId::kWindow ? kWindow : LayoutConfig{.id = layout};
  layer.k_codec = codecs.k;
  layer.v_codec = codecs.v;
  layer.shape = latent ? kLatentRows : kRows;
  layer.kv_heads = kKvHeads;
  CacheConfig config;
  config.layers = {layer};
  config.storage = storage;
  config.block_tokens = 16;
  config.max_context = kTokens;
  return config;
}

// The same numbers for a position whenever it is fed.
float Value(int64_t position, int64_t index, int kind) {
  uint64_t z = static_cast<uint64_t>((position * 1024 + index) * 8 + kind) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return static_cast<float>(static_cast<int32_t>(z >> 32)) * 0x1p-30f;
}

std::vector<float> Values(int64_t begin, int64_t count, int64_t width, int kind) {
  std::vector<float> values(static_cast<size_t>(count * width));
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t i = 0; i < width; ++i)
      values[static_cast<size_t>(t * width + i)] = Value(begin + t, i, kind);
  }
  return values;
}

// One cell's runs. An operation compares what it gets with `expected_`.
class CellProgram {
 public:
  CellProgram(KvRuntime& runtime, const CacheConfig& config) : runtime_(runtime), config_(config) {}

  Status Prepare() {
    HF_ASSIGN_OR_RETURN(auto sequence, runtime_.NewSequence(config_));
    return Feed(*sequence, kTokens, expected_);
  }

  Status Append() {
    HF_ASSIGN_OR_RETURN(auto sequence, runtime_.NewSequence(config_));
    std::vector<float> out;
    for (int64_t length = 0; length < kTokens; ++length) {
      HF_ASSIGN_OR_RETURN(const CacheBytes plan, PlanCache(config_, length));
      if (!(sequence->allocated() == plan)) {
        return Internal("at length " + std::to_string(length) + " " +
                        std::to_string(sequence->allocated().total_bytes()) + " bytes are allocated, " +
                        std::to_string(plan.total_bytes()) + " planned");
      }
      HF_RETURN_IF_ERROR(Feed(*sequence, 1, out));
    }
    return OkStatus();
  }

  Status Attend() {
    for (const int64_t chunk : {1, 7, 50}) {
      HF_ASSIGN_OR_RETURN(auto sequence, runtime_.NewSequence(config_));
      std::vector<float> out;
      HF_RETURN_IF_ERROR(FeedChunks(*sequence, kTokens, chunk, out));
      HF_RETURN_IF_ERROR(Compare(out, 0, "chunks of " + std::to_string(chunk)));
    }
    return OkStatus();
  }

  Status Batch() {
    HF_ASSIGN_OR_RETURN(auto sequence, runtime_.NewSequence(config_));
    HF_ASSIGN_OR_RETURN(auto other, runtime_.NewSequence(config_));
    std::vector<float> out, ignored;
    HF_RETURN_IF_ERROR(Feed(*other, 30, ignored));
    const KvSlice slices[] = {{other.get(), 20}, {sequence.get(), kTokens}};
    HF_RETURN_IF_ERROR(Step(slices, out));
    out.erase(out.begin(), out.begin() + 20 * OutWidth());
    return Compare(out, 0, "a batch of two sequences");
  }

  Status Rewind() {
    HF_ASSIGN_OR_RETURN(auto sequence, runtime_.NewSequence(config_));
    std::vector<float> out;
    for (const int64_t length : {30, 90, 120}) {
      HF_RETURN_IF_ERROR(FeedChunks(*sequence, length - sequence->length_tokens(), 7, out));
      const int64_t back = config_.rewind_tokens;
      HF_RETURN_IF_ERROR(sequence->Rewind(back));
      out.clear();
      HF_RETURN_IF_ERROR(Feed(*sequence, back, out));
      HF_RETURN_IF_ERROR(Compare(
          out, length - back, "after a rewind of " + std::to_string(back) + " at " + std::to_string(length)));
    }
    return OkStatus();
  }

  Status Fork() {
    HF_ASSIGN_OR_RETURN(auto sequence, runtime_.NewSequence(config_));
    std::vector<float> ignored, own, copied;
    constexpr int64_t kFork = 75;  // within a block
    HF_RETURN_IF_ERROR(Feed(*sequence, kFork, ignored));
    HF_ASSIGN_OR_RETURN(auto copy, sequence->Fork());
    // What the copy writes must not reach the original.
    HF_RETURN_IF_ERROR(FeedChunks(*copy, kTokens - kFork, 7, copied));
    HF_RETURN_IF_ERROR(FeedChunks(*sequence, kTokens - kFork, 11, own));
    HF_RETURN_IF_ERROR(Compare(copied, kFork, "the copy"));
    return Compare(own, kFork, "the original of a copy");
  }

  // A second copy of some rows: planned, the same bits, and back again.
  Status Protect() {
    HF_RETURN_IF_ERROR(Append());
    HF_RETURN_IF_ERROR(Attend());
    return Rewind();
  }

 private:
  int64_t OutWidth() const { return int64_t{kQueryHeads} * config_.layers[0].shape.v_dim; }

  // One step over all slices; appends the outputs to `out`.
  Status Step(std::span<const KvSlice> slices, std::vector<float>& out) {
    const RowShape& shape = config_.layers[0].shape;
    std::vector<float> q, k, v;
    for (const KvSlice& slice : slices) {
      const int64_t begin = slice.sequence->length_tokens();
      const auto add = [&](std::vector<float>& to, int64_t width, int kind) {
        const std::vector<float> values = Values(begin, slice.tokens, width, kind);
        to.insert(to.end(), values.begin(), values.end());
      };
      add(q, int64_t{kQueryHeads} * shape.k_dim, 0);
      add(k, int64_t{kKvHeads} * shape.k_dim, 1);
      if (!shape.v_is_prefix_of_k) add(v, int64_t{kKvHeads} * shape.v_dim, 2);
    }
    HF_ASSIGN_OR_RETURN(auto step, runtime_.Begin(slices));
    const size_t before = out.size();
    out.resize(before + static_cast<size_t>(step->tokens() * OutWidth()));
    HF_RETURN_IF_ERROR(step->Attend(0, kQueryHeads, q.data(), k.data(), v.empty() ? nullptr : v.data(),
                                    {.scale = 0.125f}, out.data() + before));
    return step->Commit();
  }

  Status Feed(KvSequence& sequence, int64_t tokens, std::vector<float>& out) {
    const KvSlice slice{&sequence, tokens};
    return Step({&slice, 1}, out);
  }

  Status FeedChunks(KvSequence& sequence, int64_t tokens, int64_t chunk, std::vector<float>& out) {
    for (int64_t done = 0; done < tokens; done += chunk)
      HF_RETURN_IF_ERROR(Feed(sequence, std::min(chunk, tokens - done), out));
    return OkStatus();
  }

  // `out` are the outputs from `position` on.
  Status Compare(const std::vector<float>& out, int64_t position, const std::string& what) const {
    for (size_t i = 0; i < out.size(); ++i) {
      const float expected = expected_[static_cast<size_t>(position * OutWidth()) + i];
      if (std::memcmp(&out[i], &expected, sizeof expected) == 0 && std::isfinite(expected)) continue;
      return Internal(what + ": output of position " +
                      std::to_string(position + static_cast<int64_t>(i) / OutWidth()) + " is " +
                      std::to_string(out[i]) + ", in one call " + std::to_string(expected));
    }
    return OkStatus();
  }

  KvRuntime& runtime_;
  const CacheConfig& config_;
  std::vector<float> expected_;  // [kTokens, kQueryHeads, v_dim] of a cache that was filled in one call
};

// Rows of every side in another basis.
void Rotate(CacheConfig& config) {
  LayerConfig& layer = config.layers[0];
  layer.k_transform.rotate = true;
  layer.v_transform.rotate = !layer.shape.v_is_prefix_of_k;
}

// Rows of every side less a vector of each head.
void Center(CacheConfig& config) {
  LayerConfig& layer = config.layers[0];
  const auto center = [](int64_t dim, int kind) {
    return std::make_shared<const std::vector<float>>(Values(0, kKvHeads, dim, kind));
  };
  layer.k_transform.center = center(layer.shape.k_dim, 3);
  if (!layer.shape.v_is_prefix_of_k) layer.v_transform.center = center(layer.shape.v_dim, 4);
}

// Sinks and recent rows kept in f16 too.
void KeepTwice(CacheConfig& config) {
  config.layers[0].protection = {
      .sink_tokens = 3, .recent_tokens = 20, .codecs = {CodecId::kF16, CodecId::kF16}};
}

struct Operation {
  const char* name;
  Status (CellProgram::*run)();
  void (*configure)(CacheConfig& config);  // null: the cell's configuration as it is
};
constexpr Operation kOperations[] = {
    {"append", &CellProgram::Append, nullptr}, {"attend", &CellProgram::Attend, nullptr},
    {"batch", &CellProgram::Batch, nullptr},   {"rewind", &CellProgram::Rewind, nullptr},
    {"fork", &CellProgram::Fork, nullptr},     {"rotate", &CellProgram::Attend, Rotate},
    {"center", &CellProgram::Attend, Center},  {"protect", &CellProgram::Protect, KeepTwice}};

Status RunOperation(KvRuntime& runtime, const CacheConfig& config, const Operation& operation) {
  CellProgram program(runtime, config);
  HF_RETURN_IF_ERROR(program.Prepare());
  return (program.*operation.run)();
}

// Adds a cell for each operation.
Status CheckCell(KvRuntime& runtime, const CacheConfig& base, MatrixCell cell,
                 std::vector<MatrixCell>& cells) {
  for (const Operation& operation : kOperations) {
    CacheConfig config = base;
    if (operation.configure != nullptr) operation.configure(config);
    const Status valid = ValidateCacheConfig(config);
    cell.operation = operation.name;
    cell.refused = valid.message();
    cells.push_back(cell);
    if (!valid.ok()) continue;
    const Status exact = RunOperation(runtime, config, operation);
    if (exact.ok()) continue;
    return Internal("matrix: layout " + std::string(LayoutName(cell.layout)) + ", codec " +
                    std::string(CodecName(cell.codec)) + ", storage " +
                    std::string(StorageName(cell.storage)) + (cell.latent ? ", latent rows, " : ", ") +
                    operation.name + ": " + exact.message());
  }
  return OkStatus();
}

}  // namespace

Result<Matrix> CheckMatrix() {
  HF_ASSIGN_OR_RETURN(const std::unique_ptr<KvRuntime> runtime, KvRuntime::Create({.threads = 1}));
  Matrix matrix;
  for (const LayoutId layout : AllLayouts()) {
    for (const StorageId storage : AllStorages()) {
      for (const bool latent : {false, true}) {
        for (const CodecId codec : AllCodecs()) {
          const CacheConfig config = ConfigOf(layout, {codec, codec}, storage, latent);
          HF_RETURN_IF_ERROR(
              CheckCell(*runtime, config, {layout, storage, codec, latent, "", ""}, matrix.cells));
        }
      }
    }
  }
  for (const CodecId k : AllCodecs()) {
    for (const CodecId v : AllCodecs()) {
      if (k == v) continue;
      ++matrix.pairs;
      const KvSpec codecs{k, v};
      const Status valid =
          ValidateCacheConfig(ConfigOf(LayoutId::kFull, codecs, StorageId::kContiguous, false));
      if (!valid.ok()) matrix.refused_pairs.push_back({codecs, valid.message()});
    }
  }
  return matrix;
}

}  // namespace holdfast
