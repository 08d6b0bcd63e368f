// q4_0: GGML's block of 32 values with one f16 scale and codes of 0..15: value = (code - 8) * d. GGML's own
// reference takes the value of largest magnitude over -8 as d, so that this one has code 0 and needs no ninth step.
// Steps near that d are searched for one of less squared error: kept where no value is further than a whole d of
// GGML's from its level, or seven of them from 0 (kernels/range_search.h).
//
// d may be negative. Weighted sums need scales that are not, so V tiles of a block with a negative d hold
// 15 - code: (code - 8) * d = (15 - code - 8) * |d| + |d|.
#include "codec/ggml_block_shape.h"
#include "codec/packed_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kQ4_0Kernels)

namespace {

struct Format {
  static constexpr PackedShape kShape = kQ4_0Shape;
  static constexpr int kPlanes = 1;
  static constexpr bool kTakesGroup = false;
  static constexpr bool kAlwaysRotated = false;
  static constexpr float kMaxMagnitude = kQ4_0Largest;

  static float Decode(int code, float scale, float /*bias*/, int /*dim*/) {
    return static_cast<float>(code - 8) * scale;
  }
  static int CodeOfValue(int stored, float scale) {
    const int code = CodeOfTwosComplement<4>(stored, scale);
    return scale < 0.0f ? 15 - code : code;
  }

  // A step, because of the search; a value of the other sign than the largest may end at seven steps.
  static float GroupError(const float* values, int n, int /*dim*/) {
    float largest = 0.0f;
    for (int i = 0; i < n; ++i) {
      if (std::fabs(values[i]) > std::fabs(largest)) largest = values[i];
    }
    const float d = std::fabs(largest) / 8.0f;
    const float stored = F16ToF32(F32ToF16(d));
    if (stored == 0.0f) return std::fabs(largest);
    float opposite = 0.0f;
    for (int i = 0; i < n; ++i) opposite = std::fmax(opposite, largest < 0.0f ? values[i] : -values[i]);
    const float step = std::fmax(1.0001f * d, opposite - 7.0f * d);
    return step + 8.0f * std::fabs(d - stored) + std::fabs(largest) * 0x1p-20f;
  }
};

}  // namespace

extern const Codec kQ4_0Codec;
constinit const Codec kQ4_0Codec = PackedCodec<Format>::Describe(
    CodecId::kQ4_0, "q4_0",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kQ4_0Kernels); });

}  // namespace holdfast
