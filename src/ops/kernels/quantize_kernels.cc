// Rows of activations as int8 blocks of 32: code = round(x * 127 / absmax), scale = absmax / 127. In two
// parts: what that rounding left, in steps of 1 / 254, as a second code.
//
// A cell is one block of one row. Cells lie in memory block by block and in a block row by row, so that eight that
// follow each other have their numbers side by side, whichever rows and blocks they are: their maxima and sums are
// found together, and one row's blocks fill a vector as well as eight rows' do.
#include <cstring>

#include "ops/kernels/matmul_kernels.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

constexpr int kCells = 8;        // that are computed together
constexpr int kAheadBlocks = 4;  // of a row, that memory is asked for

// Below this 127 / absmax overflows; such a block is zero to any product with 8-bit activations.
constexpr float kSmallestAbsMax = 1e-36f;

// |x|, and infinity for what is no number, which a maximum would lose.
HF_INLINE F32x16 Magnitude(F32x16 x) {
  const F32x16 infinity = Set(__builtin_inff()), magnitude = Abs(x);
  return SelectLess(magnitude, infinity, magnitude, infinity);
}

// The first `n` lanes.
HF_INLINE void StoreCells(void* to, const void* lanes, int64_t n) {
  if (n == kCells) {
    std::memcpy(to, lanes, kCells * 4);
  } else {
    std::memcpy(to, lanes, static_cast<size_t>(n) * 4);
  }
}
HF_INLINE void StoreCells(float* to, F32x16 v, int64_t n) {
  alignas(64) float lanes[16];
  Store(lanes, v);
  StoreCells(to, lanes, n);
}

// One part of the codes: where they and the numbers that go with them are written.
struct Part {
  int8_t* codes;
  void* const* aux;

  void WriteCodes(int64_t cell, I32x16 low, I32x16 high) const {
    StoreBytes(codes + cell * kBlockInputs, low);
    StoreBytes(codes + cell * kBlockInputs + 16, high);
  }

  // What is wanted of the numbers that are `factor` times a cell's sum of codes.
  void WriteSums(AuxKind kind, int factor, int64_t cell, I32x16 sums, int64_t n) const {
    if (aux[kind] == nullptr) return;
    alignas(64) int32_t lanes[16];
    IStore(lanes, IMul(sums, ISet(factor)));
    StoreCells(static_cast<int32_t*>(aux[kind]) + cell, lanes, n);
  }

  // The halves of a block lie apart, all rows' first ones and then all rows' second ones.
  void WriteHalves(int64_t cell, int S, I32x16 low, I32x16 high, int64_t n) const {
    auto* to = static_cast<int32_t*>(aux[kAuxMinus32Halves]);
    alignas(64) int32_t lanes[2][16];
    IStore(lanes[0], IMul(low, ISet(-32)));
    IStore(lanes[1], IMul(high, ISet(-32)));
    for (int64_t i = 0; i < n; ++i) {
      const int64_t block = (cell + i) / S, slot = (cell + i) % S;
      to[2 * block * S + slot] = lanes[0][i];
      to[(2 * block + 1) * S + slot] = lanes[1][i];
    }
  }

  // low, high: the codes of each cell's halves, as floats. Returns each cell's sum, exact: at most 32 * 127.
  F32x16 WriteAux(int64_t cell, int S, const F32x16 (&low)[kCells], const F32x16 (&high)[kCells],
                  int64_t n) const {
    F32x16 sums;
    if (aux[kAuxMinus32Halves] == nullptr) {
      F32x16 both[kCells];
#pragma GCC unroll 8
      for (int i = 0; i < kCells; ++i) both[i] = Add(low[i], high[i]);
      sums = HSumEach(both);
    } else {
      const F32x16 low_sums = HSumEach(low), high_sums = HSumEach(high);
      WriteHalves(cell, S, RoundToI32(low_sums), RoundToI32(high_sums), n);
      sums = Add(low_sums, high_sums);
    }
    const I32x16 whole = RoundToI32(sums);
    WriteSums(kAuxMinus8, -8, cell, whole, n);
    WriteSums(kAuxMinus16, -16, cell, whole, n);
    WriteSums(kAuxMinus128, -128, cell, whole, n);
    return sums;
  }
};

// absmax / 127 and its inverse for the maxima of cells. Infinity minus itself: a block that is not finite makes
// every product NaN, never silently 0. Its inverse and that of a block too small to have one are 0.
struct Scales {
  explicit Scales(F32x16 absmax) {
    const F32x16 infinity = Set(__builtin_inff()), smallest = Set(kSmallestAbsMax);
    const F32x16 finite = SelectLess(absmax, infinity, absmax, Sub(infinity, infinity));
    scale = Div(SelectLess(absmax, smallest, Zero(), finite), Set(127.0f));
    const F32x16 usable = SelectLess(absmax, smallest, infinity, absmax);
    Store(inverse, SelectLess(usable, infinity, Div(Set(127.0f), usable), Zero()));
  }
  F32x16 scale;
  alignas(64) float inverse[16];
};

// Cells [cell, cell + n) of a group; the rest of eight repeat the last.
template <int parts>
HF_INLINE void QuantizeCells(const QuantizeCall& call, int64_t cell, int64_t n) {
  const int S = call.slots;
  F32x16 lower[kCells], upper[kCells], most[kCells];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kCells; ++i) {
    const int64_t own = cell + (i < n ? i : n - 1);
    const int64_t slot = own & (S - 1);
    const int64_t block = own >> __builtin_ctz(static_cast<unsigned>(S));
    const float* x = call.x + (slot < call.rows ? slot : call.rows - 1) * call.stride + block * kBlockInputs;
    // Rows lie far apart, and too many of them at once for the processor to see each one's course.
    if (block + kAheadBlocks < call.blocks) {
      Prefetch(x + kAheadBlocks * kBlockInputs);
      Prefetch(x + kAheadBlocks * kBlockInputs + 16);
    }
    lower[i] = Load(x);
    upper[i] = Load(x + 16);
    most[i] = Max(Magnitude(lower[i]), Magnitude(upper[i]));
  }
  const Scales scales(HMaxEach(most));
  StoreCells(call.scales + cell, scales.scale, n);
  const Part coarse{call.codes, call.aux};
#pragma GCC unroll 8
  for (int64_t i = 0; i < kCells; ++i) {
    const bool usable = scales.inverse[i] > 0;
    const F32x16 inverse = Set(scales.inverse[i]);
    lower[i] = usable ? Mul(lower[i], inverse) : Zero();
    upper[i] = usable ? Mul(upper[i], inverse) : Zero();
  }
  F32x16 low[kCells], high[kCells];
#pragma GCC unroll 8
  for (int64_t i = 0; i < kCells; ++i) {
    const I32x16 low_codes = RoundToI32(lower[i]), high_codes = RoundToI32(upper[i]);
    if (i < n) coarse.WriteCodes(cell + i, low_codes, high_codes);
    low[i] = ToF32(low_codes);
    high[i] = ToF32(high_codes);
  }
  const F32x16 sums = coarse.WriteAux(cell, S, low, high, n);
  auto* coarse_sums = static_cast<float*>(call.aux[kAuxSum]);
  if (coarse_sums != nullptr) StoreCells(coarse_sums + cell, Mul(scales.scale, sums), n);
  if constexpr (parts == 2) {
    const Part fine{call.fine_codes, call.fine_aux};
    const F32x16 steps = Set(254.0f);
#pragma GCC unroll 8
    for (int64_t i = 0; i < kCells; ++i) {
      // What rounding left, exact and at most a half.
      const I32x16 low_codes = RoundToI32(Mul(Sub(lower[i], low[i]), steps));
      const I32x16 high_codes = RoundToI32(Mul(Sub(upper[i], high[i]), steps));
      if (i < n) fine.WriteCodes(cell + i, low_codes, high_codes);
      low[i] = ToF32(low_codes);
      high[i] = ToF32(high_codes);
    }
    const F32x16 rest = fine.WriteAux(cell, S, low, high, n);
    auto* both_sums = static_cast<float*>(call.fine_aux[kAuxSum]);
    const F32x16 both = Add(sums, Mul(rest, Set(kFineStep)));
    if (both_sums != nullptr) StoreCells(both_sums + cell, Mul(scales.scale, both), n);
  }
}

template <int parts>
void QuantizeGroup(const QuantizeCall& call) {
  const int64_t cells = call.blocks * call.slots;
  int64_t cell = 0;
  for (; cell + kCells <= cells; cell += kCells) QuantizeCells<parts>(call, cell, kCells);
  if (cell < cells) QuantizeCells<parts>(call, cell, cells - cell);
}

}  // namespace

extern const QuantizeKernels kQuantizeKernels;
const QuantizeKernels kQuantizeKernels = {&QuantizeGroup<1>, &QuantizeGroup<2>};

}  // namespace holdfast::HOLDFAST_ISA_NS
