// Products of float weights with float activations: each output one chain of fused multiply-adds over
// ascending K.
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

template <int format>
HF_INLINE F32x16 LoadWeights(const uint8_t* p) {
  if constexpr (format == kPackedF32) return Load(reinterpret_cast<const float*>(p));
  if constexpr (format == kPackedF16) return LoadF16(p);
  if constexpr (format == kPackedBf16) return LoadBf16(p);
}

// P panels side by side, so that few rows still give enough independent chains to hide the latency of an Fma.
template <int format, int S, int P>
HF_INLINE void RunSideBySide(const PanelCall& call, int64_t panel) {
  constexpr int64_t kStep = kPanelOutputs * kPackedTraits[format].code_bits / 8;
  const uint8_t* weights = call.weights + panel * call.panel_bytes;
  F32x16 acc[P * S];
#pragma GCC unroll kRowUnroll
  for (int i = 0; i < P * S; ++i) acc[i] = Zero();
  for (int64_t k = 0; k < call.cols; ++k) {
#pragma GCC unroll 8
    for (int p = 0; p < P; ++p) {
      const F32x16 w = LoadWeights<format>(weights + p * call.panel_bytes + k * kStep);
#pragma GCC unroll kRowUnroll
      for (int r = 0; r < S; ++r) acc[p * S + r] = Fma(w, Set(call.floats[k * S + r]), acc[p * S + r]);
    }
  }
#pragma GCC unroll 8
  for (int p = 0; p < P; ++p) {
    const int n = panel + p + 1 == call.panels ? call.last_outputs : kPanelOutputs;
#pragma GCC unroll kRowUnroll
    for (int r = 0; r < S; ++r) {
      if (r < call.rows) StoreOutputs(call, acc[p * S + r], r, (panel + p) * kPanelOutputs, n);
    }
  }
}

template <int format, int S>
void RunPanels(const PanelCall& call) {
  constexpr int kTogether = S >= 8 ? 1 : 8 / S;
  int64_t panel = 0;
  for (; panel + kTogether <= call.panels; panel += kTogether)
    RunSideBySide<format, S, kTogether>(call, panel);
  for (; panel < call.panels; ++panel) RunSideBySide<format, S, 1>(call, panel);
}

#define HF_SLOTS(format)                                                                        \
  {                                                                                             \
    &RunPanels<format, 1>, &RunPanels<format, 2>, &RunPanels<format, 4>, &RunPanels<format, 8>, \
        &RunPanels<format, 16>                                                                  \
  }

}  // namespace

extern const FloatKernels kFloatKernels;
const FloatKernels kFloatKernels = {{HF_SLOTS(kPackedF32), HF_SLOTS(kPackedF16), HF_SLOTS(kPackedBf16)}};

}  // namespace holdfast::HOLDFAST_ISA_NS
