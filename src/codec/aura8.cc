// aura8: 256 levels, one f16 scale a row. At this many a uniform quantiser of each row's own range is within a few
// percent of any other.
#include <algorithm>

#include "codec/aura_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kAura8Kernels)

namespace {

struct Levels {
  static int CodeOfValue(int stored) { return stored ^ kAuraKeyBias; }  // two's complement
  static int Level(int code, int /*dim*/) { return code - kAuraKeyBias; }

  static double PlainError(const float* values, int n, float absmax) {
    if (absmax < kAuraTiny) return 0.0;
    const float scale = absmax / kAura8Top;
    double error = 0.0;
    for (int d = 0; d < n; ++d) {
      const float level = values[d] / scale;
      const float off = scale * (level - std::min(std::nearbyint(level), kAura8Top));
      error += static_cast<double>(off) * static_cast<double>(off);
    }
    return error;
  }
};

}  // namespace

extern const Codec kAura8Codec;
constinit const Codec kAura8Codec = PackedCodec<AuraFormat<8, Levels>>::Describe(
    CodecId::kAura8, "aura8",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kAura8Kernels); });

}  // namespace holdfast
