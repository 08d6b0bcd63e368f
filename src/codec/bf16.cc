// bf16: the upper half of a float32, rounded to nearest even.
#include "codec/float_codec.h"

#include "base/float16.h"
namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kBf16Kernels)

namespace {

struct Bf16 {
  using Element = uint16_t;
  static float Decode(Element e) { return Bf16ToF32(e); }
  static constexpr float kMaxMagnitude = 0x1.fep127f;
  static constexpr float kRelativeError = 0x1p-8f;
  static constexpr float kAbsoluteError = 0x1p-134f;
};

}  // namespace

extern const Codec kBf16Codec;
constinit const Codec kBf16Codec = FloatCodec<Bf16>::Describe(
    CodecId::kBf16, "bf16",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kBf16Kernels); });

}  // namespace holdfast
