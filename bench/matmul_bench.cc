// Weight products at the shapes of SmolLM2-135M: multiply-accumulates and weight bytes per second, beside a
// plain read loop. Several copies of a matrix are cycled so that, as in a model, none is in a near cache when
// its turn comes. Threads: HOLDFAST_BENCH_THREADS, or one a core.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/arena.h"
#include "ops/matmul.h"

namespace holdfast {
namespace {

// What the copies of a matrix add up to: about the size of the model's weights.
constexpr int64_t kCycledBytes = int64_t{96} << 20;

ThreadPool& Pool() {
  static const std::unique_ptr<ThreadPool> pool = [] {
    const char* threads = std::getenv("HOLDFAST_BENCH_THREADS");
    return std::move(ThreadPool::Create(threads == nullptr ? 0 : std::atoi(threads))).value();
  }();
  return *pool;
}

// Any bytes are valid codes. Each 16-bit half keeps exponents of 0x1800..0x1bff, so that as f16, bf16 or f32
// it is a small normal number: neither infinite nor subnormal, which some processors multiply far slower.
std::vector<std::byte> Weights(DType type, int64_t rows, int64_t cols) {
  std::mt19937 rng(1);
  std::vector<std::byte> data(static_cast<size_t>(rows * RowBytesOf(type, cols)));
  for (size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>(i % 2 == 0 ? rng() & 0xff : 0x18 | (rng() & 3));
  return data;
}

void BM_MatMul(benchmark::State& state, DType type, int64_t outputs, int64_t cols) {
  const int64_t rows = state.range(0);
  const auto data = Weights(type, outputs, cols);
  const auto packed_bytes = static_cast<int64_t>(data.size());
  const int64_t copies = rows > 16 ? 2 : std::max<int64_t>(1, kCycledBytes / packed_bytes);
  std::vector<PackedMatrix> matrices;
  for (int64_t i = 0; i < copies; ++i) {
    auto packed = PackedMatrix::Pack(type, data, outputs, cols, false, Pool());
    if (!packed.ok()) return state.SkipWithError(packed.status().message().c_str());
    matrices.push_back(std::move(packed).value());
  }
  std::vector<float> x(static_cast<size_t>(rows * cols)), out(static_cast<size_t>(rows * outputs));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 17) - 8.0f;
  Activations activations;
  const Isa isa = ActiveIsa();
  size_t next = 0;
  for (auto _ : state) {
    const Product product{.weight = &matrices[next], .out = out.data(), .out_stride = outputs};
    activations.Set(x.data(), rows, cols, cols);
    MatMul(activations, {&product, 1}, isa, Pool());
    next = next + 1 == matrices.size() ? 0 : next + 1;
  }
  const auto n = static_cast<double>(state.iterations());
  state.counters["GMAC/s"] =
      benchmark::Counter(n * static_cast<double>(rows * cols * outputs) * 1e-9, benchmark::Counter::kIsRate);
  state.counters["GB/s"] =
      benchmark::Counter(n * static_cast<double>(matrices[0].bytes()) * 1e-9, benchmark::Counter::kIsRate);
}

// The bound of one-row products: all threads add up the words of regions of the given size, cycled over
// kCycledBytes.
void BM_Read(benchmark::State& state) {
  const int64_t bytes = state.range(0);
  const int64_t copies = std::max<int64_t>(1, kCycledBytes / bytes);
  auto buffer = HugeBuffer::Allocate(copies * bytes);
  if (!buffer.ok()) return state.SkipWithError(buffer.status().message().c_str());
  std::memset(buffer->data(), 1, static_cast<size_t>(copies * bytes));
  constexpr int64_t kTaskBytes = int64_t{64} << 10;
  int64_t next = 0;
  for (auto _ : state) {
    const std::byte* region = buffer->data() + next * bytes;
    Pool().ParallelFor((bytes + kTaskBytes - 1) / kTaskBytes, [&](int64_t task, int) {
      const std::byte* p = region + task * kTaskBytes;
      const int64_t n = std::min(kTaskBytes, bytes - task * kTaskBytes) / 64;
      typedef int64_t V __attribute__((vector_size(64), may_alias));
      V a{}, b{}, c{}, d{};
      for (int64_t i = 0; i + 4 <= n; i += 4) {
        const V* v = reinterpret_cast<const V*>(p) + i;
        a += v[0];
        b += v[1];
        c += v[2];
        d += v[3];
      }
      a += b + c + d;
      benchmark::DoNotOptimize(a);
    });
    next = next + 1 == copies ? 0 : next + 1;
  }
  state.counters["GB/s"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(bytes) * 1e-9,
                         benchmark::Counter::kIsRate);
}
BENCHMARK(BM_Read)->Arg(184320)->Arg(552960)->Arg(30081024)->UseRealTime();

void Register() {
  struct Shape {
    DType type;
    int64_t outputs, cols;
  };
  std::vector<Shape> shapes;
  for (auto [outputs, cols] : {std::pair<int64_t, int64_t>{576, 576}, {192, 576}, {1536, 576}, {576, 1536}}) {
    shapes.push_back({DType::kQ4_1, outputs, cols});
  }
  shapes.push_back({DType::kQ8_0, 49152, 576});
  for (DType type : {DType::kQ5_0, DType::kQ8_0, DType::kQ4_0, DType::kQ5_1, DType::kF16, DType::kF32}) {
    shapes.push_back({type, 1536, 576});
  }
  for (DType type : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) shapes.push_back({type, 1536, 512});
  for (const Shape& s : shapes) {
    const std::string name = "MatMul/" + std::string(GetDTypeTraits(s.type).name) + "/" +
                             std::to_string(s.outputs) + "x" + std::to_string(s.cols);
    auto* bench = benchmark::RegisterBenchmark(
        name.c_str(), [s](benchmark::State& state) { BM_MatMul(state, s.type, s.outputs, s.cols); });
    bench->Arg(1)->Arg(8)->Arg(64)->UseRealTime();
    if (s.outputs < 10000) bench->Arg(512);
  }
}

}  // namespace
}  // namespace holdfast

int main(int argc, char** argv) {
  holdfast::Register();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
