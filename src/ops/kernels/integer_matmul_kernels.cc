// Products of packed integer weights with int8 activations, for 1 to 16 rows at a time.
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

template <int first, int count>
HF_INLINE I32x16 Dots(I32x16 start, const B8x64* w, const int8_t* x) {
#pragma GCC unroll 8
  for (int q = first; q < first + count; ++q) start = DotU8I8(start, w[q], BBroadcast4(x + 4 * q));
  return start;
}

// The one formula: what a K block adds to an output's sum. Every kernel below goes through it, whatever its
// rows, so that a row's bits do not depend on its company. x: 32 codes; aux: see AuxKind; S: slots of the
// group.
template <int format, int S>
HF_INLINE F32x16 AddBlock(F32x16 acc, const B8x64* w, const BlockScales& s, const int8_t* x,
                          const float* x_scale, const void* aux, int row) {
  const F32x16 scale = Set(x_scale[row]);
  if constexpr (format == kPackedQ6_K) {
    const int32_t* start = static_cast<const int32_t*>(aux);
    const F32x16 lower = ToF32(Dots<0, 4>(ISet(start[row]), w, x));
    const F32x16 upper = ToF32(Dots<4, 4>(ISet(start[S + row]), w, x));
    return Fma(Fma(upper, s.second, Mul(lower, s.scale)), scale, acc);
  } else if constexpr (kPackedTraits[format].has_min) {
    const F32x16 dot = ToF32(Dots<0, 8>(IZero(), w, x));
    acc = Fma(Mul(dot, s.scale), scale, acc);
    return Fma(s.minimum, Set(static_cast<const float*>(aux)[row]), acc);
  } else {
    const F32x16 dot = ToF32(Dots<0, 8>(ISet(static_cast<const int32_t*>(aux)[row]), w, x));
    return Fma(Mul(dot, s.scale), scale, acc);
  }
}

template <int format, int S>
void RunPanels(const PanelCall& call) {
  constexpr int kAuxStep = AuxPerBlock(AuxOf(format)) * S;
  const int64_t blocks = call.cols / kBlockInputs;
  for (int64_t panel = 0; panel < call.panels; ++panel) {
    const uint8_t* records = call.weights + panel * call.panel_bytes;
    const uint8_t* codes = records + call.codes_offset;
    const int8_t* x = call.codes;
    const float* x_scale = call.scales;
    const int32_t* aux = static_cast<const int32_t*>(call.aux);
    F32x16 acc[S];
#pragma GCC unroll kRowUnroll
    for (int r = 0; r < S; ++r) acc[r] = Zero();
    for (int64_t b = 0; b < blocks; ++b) {
      B8x64 w[8];
      UnpackCodes<kPackedTraits[format].code_bits>(codes, w);
      const BlockScales s = LoadScales<format>(records, b);
#pragma GCC unroll kRowUnroll
      for (int r = 0; r < S; ++r)
        acc[r] = AddBlock<format, S>(acc[r], w, s, x + kBlockInputs * r, x_scale, aux, r);
      codes += CodeBytes(format);
      x += kBlockInputs * S;
      x_scale += S;
      aux += kAuxStep;
    }
    const int n = panel + 1 == call.panels ? call.last_outputs : kPanelOutputs;
#pragma GCC unroll kRowUnroll
    for (int r = 0; r < S; ++r) {
      if (r < call.rows) StoreOutputs(call, acc[r], r, panel * kPanelOutputs, n);
    }
  }
}

#define HF_SLOTS(format)                                                                        \
  {                                                                                             \
    &RunPanels<format, 1>, &RunPanels<format, 2>, &RunPanels<format, 4>, &RunPanels<format, 8>, \
        &RunPanels<format, 16>                                                                  \
  }

}  // namespace

extern const IntegerKernels kIntegerKernels;
const IntegerKernels kIntegerKernels = {{{},
                                         {},
                                         {},
                                         HF_SLOTS(kPackedQ8_0),
                                         HF_SLOTS(kPackedQ4_0),
                                         HF_SLOTS(kPackedQ4_1),
                                         HF_SLOTS(kPackedQ5_0),
                                         HF_SLOTS(kPackedQ5_1),
                                         HF_SLOTS(kPackedQ4_K),
                                         HF_SLOTS(kPackedQ5_K),
                                         HF_SLOTS(kPackedQ6_K)}};

}  // namespace holdfast::HOLDFAST_ISA_NS
