#include "runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <sstream>
#include <utility>

#include "cache/sequence_cache.h"
#include "codec/codec.h"
#include "kv/batch.h"
#include "oracle.h"

namespace holdfast::cube {
namespace {

// One way of doing what the program says: in another storage and with another thread, or in small chunks.
struct Variant {
  std::string name;
  StorageId storage;
  int64_t chunk = 0;  // most tokens of a slice a batch; 0: all
  ThreadPool* pool = nullptr;
  CacheConfig config;
  std::shared_ptr<CacheMemory> memory = std::make_shared<CacheMemory>();
  std::vector<std::unique_ptr<SequenceCache>> sequences;
};

// A flat batch's inputs and outputs.
struct Flat {
  std::vector<BatchSlice> slices;
  std::vector<float> q, k, v, out;
};

void AppendTo(std::vector<float>& to, const std::vector<float>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

class Runner {
 public:
  Runner(const Program& program, Machine& machine);
  std::optional<std::string> Run();

 private:
  // Each returns what went wrong, empty where nothing did.
  std::string RunOp(const Op& op, size_t index);
  std::string Step(const std::vector<Slice>& slices, size_t op_index);
  std::string RefusedStep(const std::vector<Slice>& slices, bool bad_value);
  std::string Rewind(int sequence, int64_t n);
  std::string Fork(int sequence);
  std::string CheckOutputs(const std::vector<Slice>& slices, const std::vector<int64_t>& lengths,
                           const std::vector<float>& out, size_t op_index) const;
  std::string CheckCold(const Slice& slice, int64_t length, const float* out, int64_t first_row) const;
  std::string CheckBytes(const Variant& variant) const;
  Status StepVariant(Variant& variant, const std::vector<Slice>& slices,
                     const std::vector<std::vector<Token>>& tokens, std::vector<float>& out) const;
  Status RunBatch(Flat& flat, ThreadPool& pool) const;
  std::vector<Slice> Existing(const std::vector<Slice>& slices) const;
  bool Exists(int sequence) const {
    return sequence >= 0 && sequence < static_cast<int>(oracles_.size()) &&
           oracles_[static_cast<size_t>(sequence)] != nullptr;
  }
  Oracle& oracle(int sequence) const { return *oracles_[static_cast<size_t>(sequence)]; }
  double scale() const { return 3.0 / std::sqrt(static_cast<double>(setup_.k_dim)); }
  // The oracle attends every page; which ones a query chooses has its own reference (attention/sparse_pages_test.cc).
  // Here the choice must be the same in every storage and chunking, and in a cold cache.
  bool MayChoosePages(int64_t position) const {
    return setup_.sparse_pages > 0 && position / kTileRows + 1 > setup_.sparse_pages;
  }
  int64_t row() const { return int64_t{setup_.kv_heads} * setup_.group * setup_.v_dim; }

  const Program& program_;
  const Setup& setup_;
  Machine& machine_;
  std::vector<Variant> variants_;
  std::vector<std::unique_ptr<Oracle>> oracles_;
  uint64_t serial_ = 0;
  bool forked_ = false;
};

Runner::Runner(const Program& program, Machine& machine)
    : program_(program), setup_(program.setup), machine_(machine) {
  const auto add = [&](StorageId storage, int64_t chunk, ThreadPool& pool) {
    Variant variant;
    variant.name =
        std::string(StorageName(storage)) + (chunk == 0 ? " whole" : " by " + std::to_string(chunk));
    variant.storage = storage;
    variant.chunk = chunk;
    variant.pool = &pool;
    variant.config = MakeConfig(setup_, storage);
    variants_.push_back(std::move(variant));
  };
  add(setup_.cell.storage, 0, *machine.one_thread);
  for (const StorageId storage : AllStorages()) {
    if (storage != setup_.cell.storage) add(storage, 0, *machine.two_threads);
  }
  add(setup_.cell.storage, setup_.seed % 3 == 0 ? 1 : 1 + static_cast<int64_t>(setup_.seed % 61),
      *machine.one_thread);
}

std::optional<std::string> Runner::Run() {
  for (size_t i = 0; i < program_.ops.size(); ++i) {
    std::string wrong = RunOp(program_.ops[i], i);
    for (size_t v = 0; v < variants_.size() && wrong.empty(); ++v) wrong = CheckBytes(variants_[v]);
    if (!wrong.empty()) return "operation " + std::to_string(i) + ": " + wrong;
  }
  for (Variant& variant : variants_) {
    variant.sequences.clear();
    if (variant.memory->allocated_bytes() != 0) {
      return variant.name + ": " + std::to_string(variant.memory->allocated_bytes()) + " bytes leaked";
    }
  }
  return std::nullopt;
}

std::string Runner::RunOp(const Op& op, size_t index) {
  if (op.kind == Op::Kind::kNew) {
    oracles_.push_back(std::make_unique<Oracle>(setup_));
    for (Variant& variant : variants_) {
      auto created = SequenceCache::Create(variant.config, variant.memory);
      if (!created.ok()) return created.status().message();
      variant.sequences.push_back(std::move(created).value());
    }
    return "";
  }
  const std::vector<Slice> slices = Existing(op.slices);
  if (slices.empty()) return "";
  const int sequence = slices[0].sequence;
  switch (op.kind) {
    case Op::Kind::kNew:
      break;
    case Op::Kind::kStep: {
      const bool fits = std::all_of(slices.begin(), slices.end(), [&](const Slice& slice) {
        return oracle(slice.sequence).length() + slice.tokens <= setup_.context;
      });
      return fits ? Step(slices, index) : RefusedStep(slices, false);
    }
    case Op::Kind::kBad:
      if (oracle(sequence).length() + slices[0].tokens > setup_.context) return "";
      return RefusedStep(slices, true);
    case Op::Kind::kRewind:
      return Rewind(sequence, slices[0].tokens);
    case Op::Kind::kFork:
      return Fork(sequence);
    case Op::Kind::kDrop:
      oracles_[static_cast<size_t>(sequence)].reset();
      for (Variant& variant : variants_) variant.sequences[static_cast<size_t>(sequence)].reset();
      return "";
  }
  return "";
}

std::vector<Slice> Runner::Existing(const std::vector<Slice>& slices) const {
  std::vector<Slice> existing;
  std::copy_if(slices.begin(), slices.end(), std::back_inserter(existing),
               [&](const Slice& slice) { return Exists(slice.sequence); });
  return existing;
}

Status Runner::RunBatch(Flat& flat, ThreadPool& pool) const {
  Result<KvBatch> batch = KvBatch::Begin(flat.slices, machine_.workspace, pool);
  if (!batch.ok()) return batch.status();
  flat.out.assign(static_cast<size_t>(batch->tokens() * row()), -7.0f);
  const Status attended = batch->Attend(LayerId{0}, setup_.kv_heads * setup_.group, flat.q.data(),
                                        flat.k.data(), flat.v.empty() ? nullptr : flat.v.data(),
                                        {.scale = static_cast<float>(scale())}, flat.out.data());
  return attended.ok() ? batch->Commit() : attended;
}

// In batches of at most variant.chunk tokens a slice; `out` as of one batch.
Status Runner::StepVariant(Variant& variant, const std::vector<Slice>& slices,
                           const std::vector<std::vector<Token>>& tokens, std::vector<float>& out) const {
  std::vector<int64_t> first_row, done(slices.size(), 0);
  int64_t rows = 0;
  for (const Slice& slice : slices) {
    first_row.push_back(rows);
    rows += slice.tokens;
  }
  out.assign(static_cast<size_t>(rows * row()), -8.0f);
  for (int64_t left = rows; left > 0;) {
    Flat flat;
    std::vector<int64_t> to_row;
    for (size_t i = 0; i < slices.size(); ++i) {
      int64_t n = slices[i].tokens - done[i];
      if (variant.chunk > 0) n = std::min(n, variant.chunk);
      if (n == 0) continue;
      flat.slices.push_back({variant.sequences[static_cast<size_t>(slices[i].sequence)].get(), n});
      for (int64_t t = done[i]; t < done[i] + n; ++t) {
        const Token& token = tokens[i][static_cast<size_t>(t)];
        AppendTo(flat.q, token.q);
        AppendTo(flat.k, token.k);
        AppendTo(flat.v, token.v);
        to_row.push_back(first_row[i] + t);
      }
      done[i] += n;
      left -= n;
    }
    const Status status = RunBatch(flat, *variant.pool);
    if (!status.ok()) return status;
    for (size_t i = 0; i < to_row.size(); ++i) {
      std::copy_n(flat.out.data() + static_cast<int64_t>(i) * row(), row(), out.data() + to_row[i] * row());
    }
  }
  return OkStatus();
}

std::string Runner::Step(const std::vector<Slice>& slices, size_t op_index) {
  std::vector<std::vector<Token>> tokens;
  std::vector<int64_t> lengths;
  for (const Slice& slice : slices) {
    lengths.push_back(oracle(slice.sequence).length());
    auto& of_slice = tokens.emplace_back();
    for (int64_t t = 0; t < slice.tokens; ++t) of_slice.push_back(MakeToken(setup_, serial_++));
    for (const Token& token : of_slice) oracle(slice.sequence).Append(token);
  }
  std::vector<float> first;
  for (Variant& variant : variants_) {
    std::vector<float> out;
    const Status status = StepVariant(variant, slices, tokens, out);
    if (!status.ok()) return variant.name + ": " + status.message();
    if (first.empty()) {
      first = out;
    } else if (std::memcmp(first.data(), out.data(), out.size() * sizeof(float)) != 0) {
      return variant.name + " differs in its bits from " + variants_[0].name;
    }
  }
  return CheckOutputs(slices, lengths, first, op_index);
}

// What an output may be off by, of the largest value: float sums; six standard deviations of sixteen lanes of weights,
// each off by up to half a level, which come to about one level together; a few levels of what queries are rounded to,
// as a score's error is in the exponent of a weight.
double Rounding(const Cell& cell) {
  const Codec& k = GetCodec(cell.k_codec);
  const Codec& v = GetCodec(cell.v_codec);
  double rounding = k.integer_dots || v.integer_dots ? 1e-3 : 3e-5;
  if (k.query_levels > 0) rounding = std::max(rounding, 4.0 / k.query_levels);
  if (v.weight_levels > 0) rounding = std::max(rounding, 6.0 / v.weight_levels);
  return rounding;
}

std::string Runner::CheckOutputs(const std::vector<Slice>& slices, const std::vector<int64_t>& lengths,
                                 const std::vector<float>& out, size_t op_index) const {
  const double rounding = Rounding(setup_.cell);
  int64_t first_row = 0;
  std::mt19937_64 random(setup_.seed + op_index);
  for (size_t i = 0; i < slices.size(); ++i) {
    const Oracle& expected = oracle(slices[i].sequence);
    // A rotation mixes the rounding of many values into one.
    const double tolerance = rounding * (expected.rotates_v() ? 3 : 1) * expected.largest_v() + 1e-6;
    for (int sample = 0; sample < 6; ++sample) {
      // The first, the last, and some between.
      const int64_t t = sample == 0 ? 0
                        : sample == 1
                            ? slices[i].tokens - 1
                            : static_cast<int64_t>(random() % static_cast<uint64_t>(slices[i].tokens));
      if (MayChoosePages(lengths[i] + t)) continue;
      const std::vector<double> o = expected.Attend(lengths[i] + t, scale());
      for (size_t d = 0; d < o.size(); ++d) {
        const double got = static_cast<double>(out[static_cast<size_t>((first_row + t) * row()) + d]);
        if (std::abs(got - o[d]) <= tolerance) continue;  // false for a NaN
        std::ostringstream text;
        text << "sequence " << slices[i].sequence << ", position " << lengths[i] + t << ", output " << d
             << " is " << got << ", the oracle has " << o[d] << ", tolerance " << tolerance;
        return text.str();
      }
    }
    if (random() % 3 == 0) {
      std::string wrong = CheckCold(slices[i], lengths[i], out.data(), first_row);
      if (!wrong.empty()) return wrong;
    }
    first_row += slices[i].tokens;
  }
  return "";
}

// A cache that never saw what was rewound, forked or interleaved gives the same bits.
std::string Runner::CheckCold(const Slice& slice, int64_t length, const float* out, int64_t first_row) const {
  const CacheConfig& config = variants_[0].config;
  auto cold = std::move(SequenceCache::Create(config, std::make_shared<CacheMemory>())).value();
  const Oracle& rows = oracle(slice.sequence);
  SpanCache& layer = cold->layer(LayerId{0});
  Status status = length == 0 ? OkStatus() : cold->BeginStep(length);
  for (int64_t p = 0; p < length && status.ok(); ++p) {
    status = layer.Append(1, rows.stored(p).k.data(),
                          rows.stored(p).v.empty() ? nullptr : rows.stored(p).v.data());
  }
  if (status.ok() && length > 0) status = cold->CommitStep();
  Flat flat;
  flat.slices = {{cold.get(), slice.tokens}};
  for (int64_t p = length; p < length + slice.tokens; ++p) {
    AppendTo(flat.q, rows.token(p).q);
    AppendTo(flat.k, rows.token(p).k);
    AppendTo(flat.v, rows.token(p).v);
  }
  if (status.ok()) status = RunBatch(flat, *machine_.one_thread);
  if (!status.ok()) return "cold cache: " + status.message();
  if (std::memcmp(flat.out.data(), out + first_row * row(), flat.out.size() * sizeof(float)) == 0) return "";
  return "sequence " + std::to_string(slice.sequence) + " differs in its bits from a cold cache";
}

std::string Runner::RefusedStep(const std::vector<Slice>& slices, bool bad_value) {
  for (Variant& variant : variants_) {
    Flat flat;
    for (const Slice& slice : slices) {
      flat.slices.push_back({variant.sequences[static_cast<size_t>(slice.sequence)].get(), slice.tokens});
      for (int64_t t = 0; t < slice.tokens; ++t) {
        const Token token = MakeToken(setup_, serial_ + static_cast<uint64_t>(t));
        AppendTo(flat.q, token.q);
        AppendTo(flat.k, token.k);
        AppendTo(flat.v, token.v);
      }
    }
    if (bad_value) flat.k.back() = std::numeric_limits<float>::infinity();
    const Status status = RunBatch(flat, *variant.pool);
    const StatusCode expected = bad_value ? StatusCode::kInvalidArgument : StatusCode::kOutOfRange;
    if (status.code() != expected) {
      return variant.name + ": a step to be refused said " + std::string(StatusCodeName(status.code())) +
             " " + status.message();
    }
  }
  return "";
}

std::string Runner::Rewind(int sequence, int64_t n) {
  const bool possible = n <= oracle(sequence).rewindable();
  for (Variant& variant : variants_) {
    SequenceCache& cache = *variant.sequences[static_cast<size_t>(sequence)];
    if (cache.rewindable() != oracle(sequence).rewindable()) {
      return variant.name + ": rewindable is " + std::to_string(cache.rewindable()) + ", the oracle has " +
             std::to_string(oracle(sequence).rewindable());
    }
    if (cache.Rewind(n).ok() != possible)
      return variant.name + (possible ? ": a rewind was refused" : ": a rewind was accepted");
  }
  if (possible) oracle(sequence).Rewind(n);
  return "";
}

std::string Runner::Fork(int sequence) {
  forked_ = true;
  for (Variant& variant : variants_) {
    auto fork = variant.sequences[static_cast<size_t>(sequence)]->Fork();
    if (!fork.ok()) return variant.name + ": " + fork.status().message();
    variant.sequences.push_back(std::move(fork).value());
  }
  oracles_.push_back(std::make_unique<Oracle>(oracle(sequence)));
  return "";
}

std::string Runner::CheckBytes(const Variant& variant) const {
  int64_t sum = 0;
  for (size_t i = 0; i < variant.sequences.size(); ++i) {
    if (variant.sequences[i] == nullptr) continue;
    const SequenceCache& cache = *variant.sequences[i];
    const std::string where = variant.name + ", sequence " + std::to_string(i) + ": ";
    if (cache.length() != oracles_[i]->length()) return where + "length is " + std::to_string(cache.length());
    if (!(cache.bytes() == PlanCache(variant.config, cache.length()).value()))
      return where + "bytes differ from the plan";
    LayerConfig kept = variant.config.layers[0];
    kept.k_codec = kProtectedCodecs.k;
    kept.v_codec = kProtectedCodecs.v;
    kept.sparse_pages = 0;
    const int64_t live = oracles_[i]->live_rows() * RowBytes(variant.config.layers[0]).value() +
                         oracles_[i]->protected_live_rows() * RowBytes(kept).value();
    if (cache.live_bytes() != live) {
      return where + "live bytes differ from the formula";
    }
    sum += cache.bytes().total_bytes();
  }
  // Forks may share, nothing else does.
  const int64_t allocated = variant.memory->allocated_bytes();
  if (allocated > sum || (!forked_ && allocated != sum)) {
    return variant.name + ": the arena holds " + std::to_string(allocated) + " bytes, the caches report " +
           std::to_string(sum);
  }
  return "";
}

}  // namespace

std::optional<std::string> RunProgram(const Program& program, Machine& machine) {
  return Runner(program, machine).Run();
}

Program Shrink(Program program, Machine& machine) {
  constexpr int kMaxRuns = 2000;
  int runs = 0;
  for (bool progress = true; progress && runs < kMaxRuns;) {
    progress = false;
    for (Program& smaller : Smaller(program)) {
      if (++runs > kMaxRuns || !RunProgram(smaller, machine)) continue;
      program = std::move(smaller);
      progress = true;
      break;
    }
  }
  return program;
}

}  // namespace holdfast::cube
