// The kernels of aura8, per instruction set: a code is its level + 128.
#include "codec/kernels/aura_scale.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

struct Aura8Format {
  static constexpr PackedShape kShape = AuraShape(8);
  static constexpr int kPlanes = AuraPlanes(8);
  static constexpr bool kTable = false;
  static constexpr int kZero = kAuraKeyBias;
  static constexpr bool kValueBias = false;
  using Levels = PlainLevels<kShape.bits>;

  HF_INLINE PackedTerms Terms(F32x16 scale, F32x16 /*bias*/) { return {scale, Zero()}; }

  struct Encoder {
    uint16_t scale = 0;
    float inverse = 0.0f;

    HF_MEMBER explicit Encoder(RowFormat /*format*/) {}

    HF_INLINE I32x16 LevelOf(F32x16 level) {
      return RoundToI32(Max(Min(level, Set(kAura8Top)), Set(-kAura8Top)));
    }

    HF_MEMBER void Measure(const float* values, int n) {
      AuraRow row;
      const float absmax = LargestMagnitude(values, n);
      if (absmax >= kAuraTiny) {
        row = FitScale<Keeps::kProjection>(values, n, kAura8Top / absmax,
                                           [](F32x16 x) { return ToF32(LevelOf(x)); });
      }
      scale = row.scale;
      inverse = row.inverse;
    }
    HF_MEMBER I32x16 Codes(F32x16 values) const {
      return IAdd(LevelOf(Mul(values, Set(inverse))), ISet(kAuraKeyBias));
    }
    // Two's complement.
    HF_MEMBER I32x16 ValueCodes(I32x16 codes) const { return IAnd(IAdd(codes, ISet(128)), ISet(255)); }
  };
};

}  // namespace

extern const CodecKernels kAura8Kernels;
const CodecKernels kAura8Kernels = PackedKernels<Aura8Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
