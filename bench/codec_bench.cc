// How near the codecs' kernels come to the speed at which memory can be read at all.
//
//   codec_bench --benchmark_filter=decode      score + accumulate for the few queries of a decode step
//   codec_bench --benchmark_filter=cached      one chunk from the cache: arithmetic, not memory, is the limit
//   codec_bench --benchmark_filter=encode      ns a row
//
// A decode case walks through a buffer far larger than the second-level caches, a chunk of K tiles and a
// chunk of V tiles at a time, and alternates with a plain read loop over the same buffer, so that both see
// the same noise. Counters: GB/s of the kernels, GB/s of the read loop, and their ratio; rows/s compares
// codecs.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/arena.h"
#include "codec/codec.h"

namespace holdfast {
namespace {

constexpr int64_t kBufferBytes = int64_t{768} << 20;
constexpr int64_t kStretchBytes = int64_t{4} << 20;  // between two looks at the clock

std::byte* Buffer() {
  static HugeBuffer buffer = [] {
    Result<HugeBuffer> made = HugeBuffer::Allocate(kBufferBytes + 4096);
    return made.ok() ? std::move(made).value() : HugeBuffer();
  }();
  return buffer.data();
}

double Seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The fast quartile: the machine has other work, which only ever adds time.
double Quartile(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 4);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

uint64_t ReadAll(const std::byte* data, int64_t bytes) {
  uint64_t sum[16] = {};
  const auto* words = reinterpret_cast<const uint64_t*>(data);
  for (int64_t i = 0; i + 16 <= bytes / 8; i += 16) {
    for (int j = 0; j < 16; ++j) sum[j] += words[i + j];
  }
  uint64_t all = 0;
  for (const uint64_t s : sum) all += s;
  return all;
}

// Chunks of one KV head, K tiles then V tiles, one after the other through (a thread's part of) the buffer.
class Chunks {
 public:
  Chunks(const Codec& codec, int dim, std::byte* data, int64_t bytes)
      : data_(data), k_tile_(codec.k_tile_bytes(dim)), v_tile_(codec.v_tile_bytes(dim)) {
    count_ = bytes / chunk_bytes();
    Fill(codec, dim);
  }
  int64_t chunk_bytes() const { return kChunkTiles * (k_tile_ + v_tile_); }
  int64_t count() const { return count_; }

  ChunkTiles keys(int64_t chunk) const { return Tiles(At(chunk), k_tile_); }
  ChunkTiles values(int64_t chunk) const { return Tiles(At(chunk) + kChunkTiles * k_tile_, v_tile_); }

 private:
  const std::byte* At(int64_t chunk) const { return data_ + chunk * chunk_bytes(); }

  static ChunkTiles Tiles(const std::byte* first, int64_t tile_bytes) {
    ChunkTiles tiles = {};
    for (int i = 0; i < kChunkTiles; ++i) tiles.tile[i] = first + i * tile_bytes;
    tiles.begin = 0;
    tiles.end = kChunkTiles;
    return tiles;
  }

  // Encodes one chunk and copies it to all the others.
  void Fill(const Codec& codec, int dim) {
    std::memset(data_, 0, static_cast<size_t>(chunk_bytes()));
    std::mt19937 rng(7);
    std::normal_distribution<float> normal;
    std::vector<float> row(static_cast<size_t>(dim));
    const CodecKernels& kernels = codec.kernels(ActiveIsa());
    for (int r = 0; r < kChunkRows; ++r) {
      for (float& x : row) x = normal(rng);
      const int tile = r / kTileRows;
      kernels.encode_k(row.data(), dim, r % kTileRows, data_ + tile * k_tile_);
      kernels.encode_v(row.data(), dim, r % kTileRows, data_ + kChunkTiles * k_tile_ + tile * v_tile_);
    }
    for (int64_t c = 1; c < count_; ++c) {
      std::memcpy(data_ + c * chunk_bytes(), data_, static_cast<size_t>(chunk_bytes()));
    }
  }

  std::byte* data_;
  int64_t k_tile_;
  int64_t v_tile_;
  int64_t count_ = 0;
};

// What a step of attention asks of the kernels, with softmax left out.
class Step {
 public:
  Step(const Codec& codec, int dim, int queries)
      : kernels_(codec.kernels(ActiveIsa())), dim_(dim), queries_(queries), stride_((dim + 15) / 16 * 16) {
    const int64_t bytes = kernels_.key.prepared_bytes(dim);
    prepared_ = HugeBuffer::Allocate(bytes * queries).value();
    std::mt19937 rng(8);
    std::normal_distribution<float> normal;
    std::exponential_distribution<float> exponential;
    std::vector<float> query(static_cast<size_t>(dim));
    for (int q = 0; q < queries; ++q) {
      for (float& x : query) x = normal(rng);
      kernels_.key.prepare(query.data(), dim, prepared_.data() + q * bytes);
    }
    scores_.resize(static_cast<size_t>(queries) * kChunkRows);
    weights_.resize(scores_.size());
    for (float& w : weights_) w = exponential(rng);
    out_.resize(static_cast<size_t>(queries * stride_));
  }
  void Score(const ChunkTiles& keys) {
    kernels_.key.score(prepared_.data(), queries_, dim_, keys, scores_.data());
    benchmark::DoNotOptimize(scores_.data());
  }
  void Accumulate(const ChunkTiles& values) {
    kernels_.value.accumulate(weights_.data(), queries_, dim_, dim_, values, out_.data(), stride_);
    benchmark::DoNotOptimize(out_.data());
  }

 private:
  const CodecKernels& kernels_;
  int dim_;
  int queries_;
  int64_t stride_;
  HugeBuffer prepared_;
  std::vector<float> scores_;
  std::vector<float> weights_;
  std::vector<float> out_;
};

void Decode(benchmark::State& state, CodecId id, int dim, int queries) {
  const int64_t part = kBufferBytes / state.threads() / 4096 * 4096;
  std::byte* data = Buffer();
  if (data == nullptr) {
    state.SkipWithError("no memory");
    return;
  }
  data += part * state.thread_index();
  const Chunks chunks(GetCodec(id), dim, data, part);
  Step step(GetCodec(id), dim, queries);
  const int64_t batch = std::max<int64_t>(1, kStretchBytes / chunks.chunk_bytes());
  int64_t next = 0;
  int64_t read_at = part / 2 / 4096 * 4096;
  std::vector<double> kernel_s;
  std::vector<double> read_s;
  for (auto _ : state) {
    const double start = Seconds();
    for (int64_t i = 0; i < batch; ++i, next = (next + 1) % chunks.count()) {
      ChunkTiles keys = chunks.keys(next);
      ChunkTiles values = chunks.values(next);
      const ChunkTiles after = chunks.keys((next + 1) % chunks.count());
      keys.next = &values;
      values.next = &after;
      step.Score(keys);
      step.Accumulate(values);
    }
    const double middle = Seconds();
    benchmark::DoNotOptimize(ReadAll(data + read_at, kStretchBytes));
    const double end = Seconds();
    read_at = read_at + 2 * kStretchBytes > part ? 0 : read_at + kStretchBytes;
    state.SetIterationTime(middle - start);
    kernel_s.push_back(middle - start);
    read_s.push_back(end - middle);
  }
  const auto bytes = static_cast<double>(batch * chunks.chunk_bytes());
  const double kernel_rate = bytes / Quartile(kernel_s);
  const double read_rate = static_cast<double>(kStretchBytes) / Quartile(read_s);
  using benchmark::Counter;
  state.counters["GB/s"] = kernel_rate * 1e-9;
  state.counters["read_GB/s"] = read_rate * 1e-9;
  state.counters["of_read"] = Counter(kernel_rate / read_rate, Counter::kAvgThreads);
  state.counters["ns/row"] =
      Counter(Quartile(kernel_s) * 1e9 / static_cast<double>(batch * kChunkRows), Counter::kAvgThreads);
}

// One half over one chunk that is in the second-level cache.
void Cached(benchmark::State& state, CodecId id, int dim, int queries, bool values) {
  std::byte* data = Buffer();
  if (data == nullptr) {
    state.SkipWithError("no memory");
    return;
  }
  Chunks chunks(GetCodec(id), dim, data,
                4 * 16 * (GetCodec(id).k_tile_bytes(dim) + GetCodec(id).v_tile_bytes(dim)));
  Step step(GetCodec(id), dim, queries);
  for (auto _ : state) {
    if (values) {
      step.Accumulate(chunks.values(0));
    } else {
      step.Score(chunks.keys(0));
    }
  }
  state.counters["MAC/s"] = benchmark::Counter(static_cast<double>(queries) * dim * kChunkRows,
                                               benchmark::Counter::kIsIterationInvariantRate);
}

void Encode(benchmark::State& state, CodecId id, int dim) {
  const Codec& codec = GetCodec(id);
  const CodecKernels& kernels = codec.kernels(ActiveIsa());
  std::vector<float> row(static_cast<size_t>(dim), 0.37f);
  std::vector<std::byte> k(static_cast<size_t>(codec.k_tile_bytes(dim)));
  std::vector<std::byte> v(static_cast<size_t>(codec.v_tile_bytes(dim)));
  int slot = 0;
  for (auto _ : state) {
    if (codec.first_unencodable(row.data(), dim) >= 0) break;
    kernels.encode_k(row.data(), dim, slot, k.data());
    kernels.encode_v(row.data(), dim, slot, v.data());
    slot = (slot + 1) % kTileRows;
    benchmark::ClobberMemory();
  }
}

void RegisterAll() {
  for (const CodecId id : AllCodecs()) {
    const std::string codec(CodecName(id));
    for (const int dim : {64, 128, 256}) {
      const std::string at = "/" + codec + "/dim" + std::to_string(dim);
      for (const int queries : {1, 3, 4, 8}) {
        benchmark::RegisterBenchmark(("decode" + at + "/q" + std::to_string(queries)).c_str(), Decode, id,
                                     dim, queries)
            ->UseManualTime()
            ->Iterations(128)
            ->Threads(1)
            ->Threads(2);
      }
      for (const int queries : {1, 3, 4, 8, 64}) {
        for (const bool values : {false, true}) {
          const std::string name =
              "cached" + at + "/q" + std::to_string(queries) + (values ? "/accumulate" : "/score");
          benchmark::RegisterBenchmark(name.c_str(), Cached, id, dim, queries, values);
        }
      }
      benchmark::RegisterBenchmark(("encode" + at).c_str(), Encode, id, dim);
    }
  }
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  holdfast::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
