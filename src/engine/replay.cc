#include "holdfast/replay.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/checked.h"
#include "base/status_macros.h"
#include "holdfast/request_trace.h"
#include "paging/prefix_index.h"

namespace holdfast {
namespace {

constexpr int kLeastBlock = 16, kLargestBlock = 256;

struct Prompt {
  int64_t tokens = 0;
  std::vector<int32_t> blocks;  // small numbers in the place of the trace's ids
};

std::vector<Prompt> PromptsOf(const std::vector<TraceRequest>& requests) {
  std::unordered_map<int64_t, int32_t> numbers;
  std::vector<Prompt> prompts;
  prompts.reserve(requests.size());
  for (const TraceRequest& request : requests) {
    Prompt& prompt = prompts.emplace_back(Prompt{.tokens = request.input_tokens, .blocks = {}});
    prompt.blocks.reserve(request.hash_ids.size());
    for (const int64_t id : request.hash_ids) {
      prompt.blocks.push_back(numbers.try_emplace(id, static_cast<int32_t>(numbers.size())).first->second);
    }
  }
  return prompts;
}

// One budget. The index sees a block of the trace as one token: the trace says no more of it.
class Store {
 public:
  Store(int64_t budget_tokens, int64_t pool_block_tokens)
      : index_({.block_tokens = 1, .remembered_evictions = 0}), pool_block_tokens_(pool_block_tokens) {
    cell_.budget_tokens = budget_tokens;
  }

  void Serve(const Prompt& prompt) {
    ++now_;
    const std::span<const int32_t> blocks(prompt.blocks);
    std::vector<NodeId> path = index_.Find(kRoot, blocks).nodes;
    ++cell_.requests;
    cell_.total_tokens += prompt.tokens;
    cell_.hit_tokens += std::min(Stored(path), prompt.tokens - 1);
    for (const NodeId id : path) index_.AddUser(id);
    bool room = FillLast(path, prompt.tokens);
    while (room && path.size() < blocks.size()) {
      const int64_t size = SizeOf(path.size(), prompt.tokens);
      room = MakeRoom(size);
      if (!room) break;
      const NodeId parent = path.empty() ? NodeId::kNone : path.back();
      path.push_back(index_.Add(kRoot, parent, blocks.subspan(path.size(), 1), now_).id);
      index_.AddUser(path.back());
      Count(path.back(), size);
    }
    for (const NodeId id : path) {
      index_.RemoveUser(id);
      index_.Touch(id, now_);
    }
    NoteWaste();
  }

  ReplayCell Finish() {
    cell_.hit_rate = static_cast<double>(cell_.hit_tokens) / static_cast<double>(cell_.total_tokens);
    cell_.waste = waste_sum_ / static_cast<double>(cell_.requests);
    return cell_;
  }

 private:
  static constexpr BlockKey kRoot = {};

  // Tokens of the block at this index of a prompt.
  static int64_t SizeOf(size_t block, int64_t prompt_tokens) {
    return std::min(kTraceBlockTokens, prompt_tokens - static_cast<int64_t>(block) * kTraceBlockTokens);
  }

  int64_t Stored(const std::vector<NodeId>& path) const {
    int64_t tokens = 0;
    for (const NodeId id : path) tokens += sizes_[static_cast<size_t>(id)];
    return tokens;
  }

  // A prompt that went on where another one ended within a block stores the rest of it. Only the end of a path is ever
  // short: whatever follows a block was stored with all of it.
  bool FillLast(const std::vector<NodeId>& path, int64_t prompt_tokens) {
    if (path.empty()) return true;
    const int64_t have = sizes_[static_cast<size_t>(path.back())];
    const int64_t size = SizeOf(path.size() - 1, prompt_tokens);
    if (size <= have) return true;
    if (!MakeRoom(size - have)) return false;
    Count(path.back(), size);
    return true;
  }

  int64_t Rows(int64_t tokens) const { return RoundUp(tokens, pool_block_tokens_); }

  bool MakeRoom(int64_t size) {
    if (cell_.budget_tokens == 0) return true;
    while (tokens_ + size > cell_.budget_tokens) {
      const NodeId oldest = index_.Candidate(now_);
      if (oldest == NodeId::kNone) return false;
      index_.Remove(oldest);
      int64_t& gone = sizes_[static_cast<size_t>(oldest)];
      tokens_ -= gone;
      rows_ -= Rows(gone);
      gone = 0;
      ++cell_.evictions;
    }
    return true;
  }

  void Count(NodeId id, int64_t size) {
    if (static_cast<size_t>(id) >= sizes_.size()) sizes_.resize(static_cast<size_t>(id) + 1);
    const int64_t before = std::exchange(sizes_[static_cast<size_t>(id)], size);
    tokens_ += size - before;
    rows_ += Rows(size) - Rows(before);
    cell_.peak_tokens = std::max(cell_.peak_tokens, tokens_);
  }

  void NoteWaste() {
    if (rows_ == 0) return;
    const double waste = 1.0 - static_cast<double>(tokens_) / static_cast<double>(rows_);
    waste_sum_ += waste;
    cell_.peak_waste = std::max(cell_.peak_waste, waste);
  }

  PrefixIndex index_;
  int64_t pool_block_tokens_;
  ReplayCell cell_;
  int64_t now_ = 0;
  std::vector<int64_t> sizes_;  // tokens of a node, by id
  int64_t tokens_ = 0, rows_ = 0;
  double waste_sum_ = 0.0;
};

Status Check(const ReplayOptions& options) {
  const auto block = options.block_tokens;
  if (block < kLeastBlock || block > kLargestBlock || !std::has_single_bit(static_cast<unsigned>(block))) {
    return InvalidArgument("replay: block_tokens is " + std::to_string(block) +
                           ", must be a power of two in [16, 256]");
  }
  if (options.bytes_per_token < 0) {
    return InvalidArgument("replay: bytes_per_token is " + std::to_string(options.bytes_per_token) +
                           ", must be at least 0");
  }
  if (options.budgets_tokens.empty()) return InvalidArgument("replay: 0 budgets, at least 1 is needed");
  for (const int64_t budget : options.budgets_tokens) {
    if (budget < 0)
      return InvalidArgument("replay: a budget is " + std::to_string(budget) + " tokens, must be at least 0");
  }
  return OkStatus();
}

}  // namespace

Result<std::vector<ReplayCell>> ReplayTrace(const ReplayOptions& options) {
  HF_RETURN_IF_ERROR(Check(options));
  HF_ASSIGN_OR_RETURN(const std::vector<TraceRequest> requests, ReadRequestTrace(options.trace_path));
  const std::vector<Prompt> prompts = PromptsOf(requests);
  std::vector<ReplayCell> cells;
  for (const int64_t budget : options.budgets_tokens) {
    Store store(budget, options.block_tokens);
    for (const Prompt& prompt : prompts) store.Serve(prompt);
    cells.push_back(store.Finish());
    const std::optional<int64_t> bytes = CheckedMul(cells.back().peak_tokens, options.bytes_per_token);
    if (!bytes) {
      return OutOfRange("replay: " + std::to_string(cells.back().peak_tokens) + " tokens of " +
                        std::to_string(options.bytes_per_token) + " bytes do not fit 63 bits");
    }
    cells.back().peak_bytes = *bytes;
  }
  return cells;
}

}  // namespace holdfast
