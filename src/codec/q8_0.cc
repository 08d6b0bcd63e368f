// q8_0: GGML's block of 32 values with one f16 scale, d = absmax / 127, and codes of -127..127.
//
// The codes are those of the scale before it was rounded to f16, as GGML's are. Where it rounds to 0, they
// mean nothing and are those of 0.
#include "codec/ggml_block_shape.h"
#include "codec/packed_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kQ8_0Kernels)

namespace {

struct Format {
  static constexpr PackedShape kShape = kQ8_0Shape;
  static constexpr int kPlanes = 2;
  static constexpr bool kTakesGroup = false;
  static constexpr bool kAlwaysRotated = false;
  static constexpr float kMaxMagnitude = kQ8_0Largest;

  // K tiles hold code + 128.
  static float Decode(int code, float scale, float /*bias*/, int /*dim*/) {
    return static_cast<float>(code - 128) * scale;
  }
  static int CodeOfValue(int stored, float scale) { return CodeOfTwosComplement<8>(stored, scale); }

  static float GroupError(const float* values, int n, int /*dim*/) {
    const float absmax = AbsMax(values, n);
    const float d = absmax / 127.0f;
    const float stored = F16ToF32(F32ToF16(d));
    if (stored == 0.0f) return absmax;
    return 0.5001f * d + 127.0f * std::fabs(d - stored) + absmax * 0x1p-22f;
  }
};

}  // namespace

extern const Codec kQ8_0Codec;
constinit const Codec kQ8_0Codec = PackedCodec<Format>::Describe(
    CodecId::kQ8_0, "q8_0",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kQ8_0Kernels); });

}  // namespace holdfast
