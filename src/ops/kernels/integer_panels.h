// Products of packed integer weights with int8 activations, for 1 to 16 rows at a time. The activations come
// in one int8 part or in two (coarse + fine / 254). Included by per-ISA kernels only.
#pragma once

#include "ops/kernels/integer_formats.h"
#include "ops/kernels/matmul_kernels.h"
#include "ops/kernels/panel_output.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// Only AVX-512 has registers for sixteen rows' sums; elsewhere unrolling the rows costs minutes of compiling
// and code.
#if defined(HOLDFAST_ISA_AVX512)
constexpr int kRowUnroll = 16;
#else
constexpr int kRowUnroll = 1;
#endif

// Rows whose dots take turns. A row's dots wait for each other, five cycles each; of one row after the other a
// processor sees too few ahead to fill them.
constexpr int SideBySide([[maybe_unused]] int slots, [[maybe_unused]] int parts) {
#if defined(HOLDFAST_ISA_AVX512)
  const int most = parts == 1 ? 8 : 4;
  return slots < most ? slots : most;
#else
  return 1;
#endif
}

// Adds the dots of vectors [first, first + count) of w to those of R rows.
template <int first, int count, int R>
HF_INLINE void AddDots(I32x16 (&dots)[R], const B8x64* w, const int8_t* x) {
#pragma GCC unroll 8
  for (int q = first; q < first + count; ++q) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) dots[r] = DotU8I8(dots[r], w[q], BBroadcast4(x + kBlockInputs * r + 4 * q));
  }
}

// One K block of a group's activations: [S][32] codes and what belongs to them; fine: of the second part.
struct BlockInput {
  const int8_t* codes;
  const float* scales;
  const int32_t* aux;  // see AuxKind
  const int8_t* fine_codes;
  const int32_t* fine_aux;
};

// Inputs 4 * first onwards of R rows, from the starts that the aux numbers from `aux` on give: exact integers, and
// for input in two parts coarse + fine / 254.
template <int first, int count, int parts, int R>
HF_INLINE void Dots(F32x16 (&out)[R], const B8x64* w, const BlockInput& x, int row, int aux, bool has_start) {
  const int64_t at = kBlockInputs * row;
  I32x16 dots[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) dots[r] = has_start ? ISet(x.aux[aux + r]) : IZero();
  AddDots<first, count>(dots, w, x.codes + at);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = ToF32(dots[r]);
  if constexpr (parts == 2) {
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) dots[r] = has_start ? ISet(x.fine_aux[aux + r]) : IZero();
    AddDots<first, count>(dots, w, x.fine_codes + at);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) out[r] = Fma(ToF32(dots[r]), Set(kFineStep), out[r]);
  }
}

// dot * s.scale of R rows, rounded once. For AVX-512 the sum starts from kDotShift, and the multiplication takes
// it away again: the same number, as a scale of at most 17 bits times 1.5 * 2^23 is exact, for one instruction a
// row less. Tiles (tile_matmul_kernels.cc) do the same, so that infinite scales and zeros' signs agree too.
template <int parts, int R>
HF_INLINE void ScaledDots(F32x16 (&out)[R], const B8x64* w, const BlockScales& s, const BlockInput& x,
                          int row, bool has_start) {
#if defined(HOLDFAST_ISA_AVX512)
  if constexpr (parts == 1) {
    I32x16 dots[R];
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      dots[r] = ISet(kDotShiftBits);
      if (has_start) dots[r] = IAdd(dots[r], ISet(x.aux[row + r]));
    }
    AddDots<0, 8>(dots, w, x.codes + kBlockInputs * row);
    const F32x16 minus_start = Mul(s.scale, Set(-kDotShift));
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r)
      out[r] = Fma(F32x16{_mm512_castsi512_ps(Bits(dots[r]))}, s.scale, minus_start);
    return;
  }
#endif
  Dots<0, 8, parts>(out, w, x, row, row, has_start);
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = Mul(out[r], s.scale);
}

// The one formula: what a K block adds to the sums of rows [row, row + R). Every kernel below goes through it,
// whatever its rows, so that a row's bits do not depend on its company. S: slots of the group.
template <int format, int S, int parts, int R>
HF_INLINE void AddBlock(F32x16* acc, const B8x64* w, const BlockScales& s, const BlockInput& x, int row) {
  F32x16 dots[R];
  if constexpr (format == kPackedQ6_K) {
    Dots<0, 4, parts>(dots, w, x, row, row, true);
    F32x16 upper[R];
    Dots<4, 4, parts>(upper, w, x, row, S + row, true);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x16 both = Fma(upper[r], s.second, Mul(dots[r], s.scale));
      acc[row + r] = Fma(both, Set(x.scales[row + r]), acc[row + r]);
    }
  } else {
    constexpr bool kHasMin = kPackedTraits[format].has_min;
    ScaledDots<parts>(dots, w, s, x, row, !kHasMin);
    const auto* sums = reinterpret_cast<const float*>(parts == 1 ? x.aux : x.fine_aux);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      acc[row + r] = Fma(dots[r], Set(x.scales[row + r]), acc[row + r]);
      if constexpr (kHasMin) acc[row + r] = Fma(s.minimum, Set(sums[row + r]), acc[row + r]);
    }
  }
}

template <int format, int S, int parts>
void RunPanels(const PanelCall& call) {
  constexpr int kRows = SideBySide(S, parts);
  constexpr int kAuxStep = AuxPerBlock(AuxOf(format)) * S;
  constexpr int kBlockBytes = CodeBytes(format) + kPackedTraits[format].record_bytes * kBlockInputs /
                                                      kPackedTraits[format].record_inputs;
  const int64_t blocks = call.cols / kBlockInputs;
  for (int64_t panel = 0; panel < call.panels; ++panel) {
    const uint8_t* records = call.weights + panel * call.panel_bytes;
    const uint8_t* codes = records + call.codes_offset;
    BlockInput x{call.codes, call.scales, static_cast<const int32_t*>(call.aux), call.fine_codes,
                 static_cast<const int32_t*>(call.fine_aux)};
    F32x16 acc[S];
#pragma GCC unroll kRowUnroll
    for (int r = 0; r < S; ++r) acc[r] = Zero();
    const uint8_t* ahead = records + kAhead;
    for (int64_t b = 0; b < blocks; ++b) {
      B8x64 w[8];
      if (S == 1 || call.ask_ahead) {
#pragma GCC unroll 16
        for (int i = 0; i < kBlockBytes; i += 64) Prefetch(ahead + i);
        ahead += kBlockBytes;
      }
      UnpackCodes<kPackedTraits[format].code_bits>(codes, w);
      const BlockScales s = LoadScales<format>(records, b);
#pragma GCC unroll kRowUnroll
      for (int r = 0; r < S; r += kRows) AddBlock<format, S, parts, kRows>(acc, w, s, x, r);
      codes += CodeBytes(format);
      x.codes += kBlockInputs * S;
      x.scales += S;
      x.aux += kAuxStep;
      if constexpr (parts == 2) {
        x.fine_codes += kBlockInputs * S;
        x.fine_aux += kAuxStep;
      }
    }
    const int n = panel + 1 == call.panels ? call.last_outputs : kPanelOutputs;
#pragma GCC unroll kRowUnroll
    for (int r = 0; r < S; ++r) {
      if (r < call.rows) StoreOutputs(call, acc[r], r, panel * kPanelOutputs, n);
    }
  }
}

}  // namespace

// The kernels of one format for 1 to 16 slots, and of all formats.
#define HF_SLOTS(format, parts)                                                               \
  {                                                                                           \
    &RunPanels<format, 1, parts>, &RunPanels<format, 2, parts>, &RunPanels<format, 4, parts>, \
        &RunPanels<format, 8, parts>, &RunPanels<format, 16, parts>                           \
  }
#define HF_INTEGER_KERNELS(parts)                                                                           \
  {                                                                                                         \
    {                                                                                                       \
      {}, {}, {}, HF_SLOTS(kPackedQ8_0, parts), HF_SLOTS(kPackedQ4_0, parts), HF_SLOTS(kPackedQ4_1, parts), \
          HF_SLOTS(kPackedQ5_0, parts), HF_SLOTS(kPackedQ5_1, parts), HF_SLOTS(kPackedQ4_K, parts),         \
          HF_SLOTS(kPackedQ5_K, parts), HF_SLOTS(kPackedQ6_K, parts)                                        \
    }                                                                                                       \
  }

}  // namespace holdfast::HOLDFAST_ISA_NS
