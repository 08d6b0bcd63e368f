// f16: IEEE half, rounded to nearest even; values beyond 65504 are refused.
#include "codec/float_codec.h"

#include "base/float16.h"
namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kF16Kernels)

namespace {

struct F16 {
  using Element = uint16_t;
  static float Decode(Element e) { return F16ToF32(e); }
  static constexpr float kMaxMagnitude = 65504.0f;
  static constexpr float kRelativeError = 0x1p-11f;
  static constexpr float kAbsoluteError = 0x1p-25f;
};

}  // namespace

extern const Codec kF16Codec;
constinit const Codec kF16Codec = FloatCodec<F16>::Describe(
    CodecId::kF16, "f16",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kF16Kernels); });

}  // namespace holdfast
