// The kernels of q8_0, per instruction set.
#include "codec/ggml_block_shape.h"
#include "codec/kernels/packed_encode.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

struct Format {
  static constexpr PackedShape kShape = kQ8_0Shape;
  static constexpr int kPlanes = 2;
  static constexpr bool kTable = false;
  static constexpr int kZero = 128;
  static constexpr bool kValueBias = false;
  using Levels = PlainLevels<kShape.bits>;

  HF_INLINE PackedTerms Terms(F32x16 scale, F32x16 bias) { return {scale, bias}; }

  struct Encoder {
    uint16_t scale = 0;
    uint16_t bias = 0;
    float inverse = 0.0f;

    HF_MEMBER explicit Encoder(RowFormat /*format*/) {}

    HF_MEMBER void Measure(const float* values, int n) {
      const float d = LargestMagnitude(values, n) / 127.0f;
      scale = NearestF16(d);
      inverse = scale == 0 ? 0.0f : 1.0f / d;
    }

    // GGML rounds ties away from 0.
    HF_MEMBER I32x16 Codes(F32x16 values) const {
      const F32x16 level = Mul(values, Set(inverse));
      const F32x16 magnitude = Abs(level);
      const F32x16 even = ToF32(RoundToI32(magnitude));
      const F32x16 nearest = SelectLess(Set(0.49999f), Sub(magnitude, even), Add(even, Set(1.0f)), even);
      const F32x16 code = SelectLess(level, Zero(), Neg(nearest), nearest);
      return RoundToI32(Add(code, Set(128.0f)));
    }
    HF_MEMBER I32x16 ValueCodes(I32x16 codes) const { return IAnd(IAdd(codes, ISet(128)), ISet(255)); }
  };
};

}  // namespace

extern const CodecKernels kQ8_0Kernels;
const CodecKernels kQ8_0Kernels = PackedKernels<Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
