// f32: a row as it is; the codec against which the others are judged.
#include "codec/float_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kF32Kernels)

namespace {

struct F32 {
  using Element = float;
  static float Decode(Element e) { return e; }
  static constexpr float kMaxMagnitude = 0x1.fffffep127f;
  static constexpr float kRelativeError = 0.0f;
  static constexpr float kAbsoluteError = 0.0f;
};

}  // namespace

extern const Codec kF32Codec;
constinit const Codec kF32Codec = FloatCodec<F32>::Describe(
    CodecId::kF32, "f32",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kF32Kernels); });

}  // namespace holdfast
