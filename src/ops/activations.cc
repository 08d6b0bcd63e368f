#include <algorithm>
#include <cassert>
#include <cstring>
#include <memory>

#include "base/checked.h"
#include "ops/matmul_state.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(QuantizeKernels, kQuantizeKernels)

namespace {

constexpr int64_t kAlignment = 64;

// A 64-byte aligned start in `memory`, grown to hold `bytes`.
std::byte* Grow(std::vector<std::byte>& memory, int64_t bytes) {
  const auto needed = static_cast<size_t>(bytes + kAlignment);
  if (memory.size() < needed) memory.resize(needed);
  void* start = memory.data();
  size_t space = memory.size();
  return static_cast<std::byte*>(std::align(kAlignment, static_cast<size_t>(bytes), start, space));
}

}  // namespace

int SlotsOf(int64_t rows, int64_t first) {
  int slots = 1;
  while (slots < kGroupRows && slots < rows - first) slots *= 2;
  return slots;
}

Activations::Activations() : state_(std::make_unique<State>()) {}
Activations::~Activations() = default;
Activations::Activations(Activations&&) noexcept = default;
Activations& Activations::operator=(Activations&&) noexcept = default;

void Activations::Set(const float* x, int64_t rows, int64_t cols, int64_t stride) {
  State& s = *state_;
  s.x = x;
  s.rows = rows;
  s.cols = cols;
  s.stride = stride;
  s.parts = 0;
  s.aux_kinds = 0;
  s.grouped = false;
  s.slots = rows == 0 ? 0 : (s.groups() - 1) * kGroupRows + SlotsOf(rows, (s.groups() - 1) * kGroupRows);
  s.blocks = cols / kBlockInputs;
}

int64_t Activations::rows() const {
  return state_->rows;
}
int64_t Activations::cols() const {
  return state_->cols;
}
int64_t Activations::bytes() const {
  return static_cast<int64_t>(state_->memory.capacity() + state_->float_memory.capacity() +
                              state_->tile_memory.capacity());
}

void Activations::State::ReserveCodes(int in_parts, unsigned kinds) {
  assert(cols % kBlockInputs == 0);
  parts = in_parts;
  aux_kinds = kinds;
  const int64_t cells = slots * blocks;
  int64_t part_bytes = RoundUp(cells * kBlockInputs, kAlignment);
  for (int kind = 0; kind < kAuxKinds; ++kind)
    part_bytes += RoundUp(cells * 4 * AuxPerBlock(kind), kAlignment);
  std::byte* p = Grow(memory, RoundUp(cells * 4, kAlignment) + parts * part_bytes);
  scales = reinterpret_cast<float*>(p);
  p += RoundUp(cells * 4, kAlignment);
  for (int i = 0; i < parts; ++i) {
    part[i].codes = reinterpret_cast<int8_t*>(p);
    p += RoundUp(cells * kBlockInputs, kAlignment);
    for (int kind = 0; kind < kAuxKinds; ++kind) {
      part[i].aux[kind] = p;
      p += RoundUp(cells * 4 * AuxPerBlock(kind), kAlignment);
    }
  }
}

QuantizeCall Activations::State::GroupCall(int64_t g) const {
  QuantizeCall call;
  call.blocks = blocks;
  call.slots = SlotsOf(rows, g * kGroupRows);
  call.rows = std::min<int64_t>(rows - g * kGroupRows, call.slots);
  const int64_t at = g * kGroupRows * blocks;
  call.codes = part[0].codes + at * kBlockInputs;
  call.scales = scales + at;
  if (parts == 2) call.fine_codes = part[1].codes + at * kBlockInputs;
  for (int kind = 0; kind < kAuxKinds; ++kind) {
    if ((aux_kinds >> kind & 1) == 0) continue;
    const int64_t offset = at * 4 * AuxPerBlock(kind);
    call.aux[kind] = static_cast<std::byte*>(part[0].aux[kind]) + offset;
    if (parts == 2) call.fine_aux[kind] = static_cast<std::byte*>(part[1].aux[kind]) + offset;
  }
  return call;
}

void Activations::State::Quantize(int wanted_parts, unsigned wanted_aux, Isa isa, ThreadPool& pool) {
  if (rows == 0 || (parts >= wanted_parts && (aux_kinds & wanted_aux) == wanted_aux)) return;
  assert(x != nullptr);
  ReserveCodes(std::max(parts, wanted_parts), aux_kinds | wanted_aux);
  const QuantizeKernels& kernels = HOLDFAST_SELECT_KERNELS(isa, kQuantizeKernels);
  const auto quantize = parts == 2 ? kernels.quantize_group_in_two_parts : kernels.quantize_group;
  const auto quantize_group = [&](int64_t g, int) {
    QuantizeCall call = GroupCall(g);
    call.x = x + g * kGroupRows * stride;
    call.stride = stride;
    quantize(call);
  };
  if (groups() == 1) {  // less work than waking anyone
    quantize_group(0, 0);
  } else {
    pool.ParallelFor(groups(), quantize_group);
  }
}

void Activations::State::GroupFloats(ThreadPool& pool) {
  if (grouped || rows == 0) return;
  assert(x != nullptr);
  grouped = true;
  if (rows == 1) {  // [cols][1] is the row itself
    floats = x;
    return;
  }
  auto* out = reinterpret_cast<float*>(Grow(float_memory, slots * cols * int64_t{sizeof(float)}));
  floats = out;
  const auto regroup = [&](int64_t g, int) {
    const int64_t S = SlotsOf(rows, g * kGroupRows);
    float* group = out + g * kGroupRows * cols;
    for (int64_t slot = 0; slot < S; ++slot) {
      const int64_t row = std::min(rows - 1, g * kGroupRows + slot);
      const float* from = x + row * stride;
      for (int64_t k = 0; k < cols; ++k) group[k * S + slot] = from[k];
    }
  };
  pool.ParallelFor(groups(), regroup);
}

std::byte* Activations::State::OpenPanels(int threads) {
  return Grow(tile_memory, TileScratchBytes(cols) * threads);
}

float* Activations::State::FloatScratch(int64_t n) {
  return reinterpret_cast<float*>(Grow(float_memory, n * int64_t{sizeof(float)}));
}

void Activations::State::DescribeGroup(int64_t g, int format, PanelCall& call) const {
  call.rows = std::min<int64_t>(rows - g * kGroupRows, kGroupRows);
  if (!IsInteger(format)) {
    call.floats = floats + g * kGroupRows * cols;
    return;
  }
  const int64_t at = g * kGroupRows * blocks;
  const int kind = AuxOf(format);
  const int64_t offset = at * 4 * AuxPerBlock(kind);
  call.codes = part[0].codes + at * kBlockInputs;
  call.scales = scales + at;
  call.aux = static_cast<const std::byte*>(part[0].aux[kind]) + offset;
  if (parts < 2) return;
  call.fine_codes = part[1].codes + at * kBlockInputs;
  call.fine_aux = static_cast<const std::byte*>(part[1].aux[kind]) + offset;
}

}  // namespace holdfast
