// The kernels of q4_0, per instruction set.
#include "codec/ggml_block_shape.h"
#include "codec/kernels/packed_encode.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

struct Format {
  static constexpr PackedShape kShape = kQ4_0Shape;
  static constexpr int kPlanes = 1;
  static constexpr bool kTable = false;
  static constexpr int kZero = 8;
  static constexpr bool kValueBias = true;
  using Levels = PlainLevels<kShape.bits>;

  // V tiles of a block with a negative scale hold 15 - code (q4_0.cc).
  HF_INLINE PackedTerms Terms(F32x16 scale, F32x16 /*bias*/) { return {Abs(scale), Max(Neg(scale), Zero())}; }

  struct Encoder {
    uint16_t scale = 0;
    uint16_t bias = 0;
    float inverse = 0.0f;
    bool reversed = false;

    HF_MEMBER explicit Encoder(RowFormat /*format*/) {}

    // The value of the largest magnitude decides; the first one, where both signs have it.
    HF_MEMBER void Measure(const float* values, int n) {
      F32x16 above = Zero();
      F32x16 below = Zero();
      for (int i = 0; i < n; i += 16) {
        const F32x16 x = LoadFirst(values + i, n - i < 16 ? n - i : 16);
        above = Max(above, x);
        below = Max(below, Neg(x));
      }
      const float most = HMax(above);
      const float least = HMax(below);
      float largest = most > least ? most : -least;
      if (most == 0.0f && least == 0.0f) {
        largest = 0.0f;
      } else if (most == least) {
        int i = 0;
        while (i + 1 < n && __builtin_fabsf(values[i]) != most) ++i;
        largest = values[i];
      }
      const float d = largest / -8.0f;
      scale = NearestF16(d);
      reversed = F16Value(scale) < 0.0f;
      inverse = (scale & 0x7fff) == 0 ? 0.0f : 1.0f / d;
    }

    // min(15, trunc(value / d + 8.5)): nothing is below 0.
    HF_MEMBER I32x16 Codes(F32x16 values) const {
      const F32x16 level = Add(Mul(values, Set(inverse)), Set(8.5f));
      const I32x16 nearest = RoundToI32(level);
      // Truncated: 1 less where rounding went up.
      const F32x16 up = SelectLess(level, ToF32(nearest), Set(1.0f), Zero());
      return RoundToI32(Min(Sub(ToF32(nearest), up), Set(15.0f)));
    }
    HF_MEMBER I32x16 ValueCodes(I32x16 codes) const {
      const I32x16 kept = reversed ? ISub(ISet(15), codes) : codes;
      return IAnd(IAdd(kept, ISet(8)), ISet(15));
    }
  };
};

}  // namespace

extern const CodecKernels kQ4_0Kernels;
const CodecKernels kQ4_0Kernels = PackedKernels<Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
