// What attention alone reaches: decode against a plain read of the same bytes, prefill against the float FMA
// peak.
//
//   attention_bench [decode|prefill] [threads] [length]
//
// Decode cycles through the buffers of a whole model's layers, so that no cache holds them. All times are the
// best of several rounds; read loop and attention take turns within a round, so that both meet the same
// neighbours.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "attention/attend.h"
#include "base/arena.h"

namespace holdfast {
namespace {

struct Heads {
  const char* name;
  int q_heads;
  int kv_heads;
  int dim;
};
constexpr Heads kSmolLm2 = {"SmolLM2 9/3 x 64", 9, 3, 64};
constexpr Heads kGemma3 = {"Gemma3 4/1 x 256", 4, 1, 256};
constexpr Heads kWide = {"8/2 x 128", 8, 2, 128};

template <typename F>
double Seconds(const F& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Processor time of all threads: what prefill costs whoever else is on the machine.
template <typename F>
double CpuSeconds(const F& f) {
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
  };
  const double start = now();
  f();
  return now() - start;
}

// One layer's rows as the caches keep them: chunks of 256 rows, K of all heads and then V of all heads.
class Layer {
 public:
  Layer(const Heads& heads, CodecId codec, int64_t rows) {
    const Codec& c = GetCodec(codec);
    const CodecKernels& kernels = c.kernels(ActiveIsa());
    const int64_t k_tile = c.k_tile_bytes(heads.dim);
    const int64_t v_tile = c.v_tile_bytes(heads.dim);
    const int64_t chunks = (rows + kChunkRows - 1) / kChunkRows;
    const int64_t chunk_bytes = kChunkTiles * heads.kv_heads * (k_tile + v_tile);
    auto buffer = HugeBuffer::Allocate(chunks * chunk_bytes);
    if (!buffer.ok()) std::exit(1);
    buffer_ = std::move(buffer).value();
    std::vector<float> row(static_cast<size_t>(heads.dim));
    uint32_t state = 1;
    for (int64_t t = 0; t < kChunkTiles * heads.kv_heads; ++t) {
      for (int slot = 0; slot < kTileRows; ++slot) {
        for (float& x : row)
          x = static_cast<float>((state = state * 1664525u + 1013904223u) >> 8) * 0x1p-23f - 1.0f;
        kernels.encode_k(row.data(), heads.dim, slot, buffer_.data() + t * k_tile);
        kernels.encode_v(row.data(), heads.dim, slot,
                         buffer_.data() + kChunkTiles * heads.kv_heads * k_tile + t * v_tile);
      }
    }
    for (int64_t i = 0; i < chunks; ++i) {
      std::byte* base = buffer_.data() + i * chunk_bytes;
      if (i > 0) std::memcpy(base, buffer_.data(), static_cast<size_t>(chunk_bytes));
      spans_.push_back({i * kChunkRows, std::min<int64_t>(kChunkRows, rows - i * kChunkRows), base,
                        base + kChunkTiles * heads.kv_heads * k_tile, kChunkTiles * k_tile,
                        kChunkTiles * v_tile});
    }
  }
  std::span<const Span> spans() const { return spans_; }
  const std::byte* data() const { return buffer_.data(); }
  int64_t bytes() const { return buffer_.size_bytes(); }

 private:
  HugeBuffer buffer_;
  std::vector<Span> spans_;
};

// Reads every byte once.
void ReadAll(const Layer& layer, ThreadPool& pool) {
  constexpr int64_t kPiece = 64 << 10;
  const auto read = [&](int64_t piece, int) {
    using Line = uint64_t __attribute__((vector_size(64)));
    const int64_t end = std::min((piece + 1) * kPiece, layer.bytes()) / 64;
    const auto* line = reinterpret_cast<const Line*>(layer.data());
    Line sum[4] = {};
    for (int64_t i = piece * kPiece / 64; i + 4 <= end; i += 4) {
      // Asked for ahead, as the kernels do: the processor's own prefetcher stops at every page.
      for (int j = 0; j < 4; ++j) __builtin_prefetch(line + i + j + 32);
      for (int j = 0; j < 4; ++j) sum[j] ^= line[i + j];
    }
    const uint64_t all = (sum[0] ^ sum[1] ^ sum[2] ^ sum[3])[0];
    asm volatile("" : : "r"(all));  // the compiler must believe that somebody wants it
  };
  pool.ParallelFor((layer.bytes() + kPiece - 1) / kPiece, read);
}

struct Batch {
  std::vector<float> q;
  std::vector<float> out;
  std::vector<VisibleRange> visible;
  AttentionSequence sequence;
  AttentionCall call;

  Batch(const Heads& heads, CodecId codec, int64_t length, int64_t tokens)
      : q(static_cast<size_t>(tokens * heads.q_heads * heads.dim), 0.25f), out(q.size()) {
    for (size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<float>(i));
    for (int64_t p = length - tokens; p < length; ++p) visible.push_back({0, p + 1, 0});
    sequence.tokens = tokens;
    sequence.visible = visible;
    call.shape = {heads.dim, heads.dim, false};
    call.q_heads = heads.q_heads;
    call.kv_heads = heads.kv_heads;
    call.k_codec = call.v_codec = codec;
    call.rule.scale = 1.0f / std::sqrt(static_cast<float>(heads.dim));
    call.sequences = {&sequence, 1};
    call.q = q.data();
    call.out = out.data();
  }
  void Run(const Layer& layer, AttentionWorkspace& workspace, ThreadPool& pool) {
    sequence.spans = layer.spans();
    if (!Attend(call, ActiveIsa(), workspace, pool).ok()) std::exit(1);
  }
};

void Decode(const Heads& heads, int64_t rows, ThreadPool& pool) {
  for (const CodecId codec : AllCodecs()) {
    const int64_t layer_bytes = rows * heads.kv_heads * heads.dim * 4;  // of f16
    const int64_t layers = std::clamp<int64_t>((int64_t{400} << 20) / layer_bytes, 1, 30);
    std::vector<Layer> model;
    for (int64_t i = 0; i < layers; ++i) model.emplace_back(heads, codec, rows);
    Batch batch(heads, codec, rows, 1);
    AttentionWorkspace workspace;
    double read = 1e9;
    double attend = 1e9;
    for (int round = 0; round < 7; ++round) {
      read = std::min(read, Seconds([&] {
                        for (const Layer& l : model) ReadAll(l, pool);
                      }));
      attend = std::min(attend, Seconds([&] {
                          for (const Layer& l : model) batch.Run(l, workspace, pool);
                        }));
    }
    const double bytes = static_cast<double>(layers * model[0].bytes());
    std::printf("decode  %-17s %6lld rows %-5s %8.1f us/layer  %5.1f GB/s, read loop %5.1f GB/s: %3.0f %%\n",
                heads.name, static_cast<long long>(rows), std::string(CodecName(codec)).c_str(),
                attend * 1e6 / static_cast<double>(layers), bytes / attend * 1e-9, bytes / read * 1e-9,
                100.0 * read / attend);
  }
}

// Multiply-adds a second of one thread with sixteen lanes, two a cycle: what no float kernel exceeds.
#if defined(__x86_64__)
__attribute__((target("avx512f"), noinline)) void MultiplyAdds(int64_t steps) {
  using F = float __attribute__((vector_size(64)));
  F sum[12] = {};
  const F x = F{} + 1.0001f;
  for (int64_t i = 0; i < steps; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("vfmadd231ps %1, %1, %0" : "+v"(sum[j]) : "v"(x));
  }
}
double PeakMacs() {
  constexpr int64_t kSteps = 1 << 18;
  double best = 1e9;
  for (int round = 0; round < 30; ++round) best = std::min(best, CpuSeconds([] { MultiplyAdds(kSteps); }));
  return static_cast<double>(kSteps) * 12 * 16 / best;
}
#else
double PeakMacs() {
  return 0.0;
}
#endif

void Prefill(const Heads& heads, int64_t tokens, ThreadPool& pool) {
  const Isa isa = ActiveIsa();
  const double peak = isa == Isa::kAvx512 || isa == Isa::kAmx ? PeakMacs() : 0.0;
  for (const CodecId codec : AllCodecs()) {
    const Layer layer(heads, codec, tokens);
    Batch batch(heads, codec, tokens, tokens);
    AttentionWorkspace workspace;
    double best = 1e9;
    double cpu = 1e9;
    for (int round = 0; round < (tokens > 4000 ? 3 : 20); ++round) {
      cpu = std::min(cpu, CpuSeconds([&] {
                       best = std::min(best, Seconds([&] { batch.Run(layer, workspace, pool); }));
                     }));
    }
    const double n = static_cast<double>(tokens);
    const double macs = n * (n + 1) / 2 * heads.q_heads * heads.dim * 2;
    std::printf("prefill %-17s %6.0f tokens %-5s %9.2f ms/layer  %6.1f GMAC/s", heads.name, n,
                std::string(CodecName(codec)).c_str(), best * 1e3, macs / best * 1e-9);
    if (peak > 0.0) {
      std::printf(", by processor time %3.0f %% of the float peak %.1f", 100.0 * macs / cpu / peak,
                  peak * 1e-9);
    }
    std::printf("\n");
  }
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  using namespace holdfast;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  const std::string what = argc > 1 ? argv[1] : "";
  auto pool = ThreadPool::Create(argc > 2 ? std::atoi(argv[2]) : 0);
  if (!pool.ok()) return 1;
  const int64_t only = argc > 3 ? std::atoll(argv[3]) : 0;  // this length alone
  const auto wanted = [&](const char* part, int64_t length) {
    return (what.empty() || what == part) && (only == 0 || only == length);
  };
  for (const int64_t rows : {128, 2048, 8000, 32768, 65536}) {
    if (wanted("decode", rows)) Decode(kSmolLm2, rows, **pool);
  }
  for (const int64_t rows : {8000, 32768}) {
    if (wanted("decode", rows)) Decode(kGemma3, rows, **pool);
  }
  if (wanted("decode", 32768)) Decode(kWide, 32768, **pool);
  for (const int64_t tokens : {128, 512, 2048, 8000}) {
    if (wanted("prefill", tokens)) Prefill(kSmolLm2, tokens, **pool);
  }
  if (wanted("prefill", 2048)) Prefill(kGemma3, 2048, **pool);
  return 0;
}
