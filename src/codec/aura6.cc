// aura6: 64 levels, closer in the middle (aura_shape.h), one f16 scale a row.
#include <algorithm>

#include "codec/aura_codec.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(CodecKernels, kAura6Kernels)

namespace {

struct Levels {
  static int CodeOfValue(int stored) { return stored; }
  static int Level(int code, int /*dim*/) { return Aura6Level(code); }

  static double PlainError(const float* values, int n, float absmax) {
    if (absmax < kAuraTiny) return 0.0;
    const float scale = absmax / kAura6Top;
    double error = 0.0;
    for (int d = 0; d < n; ++d) {
      const float level = values[d] / scale;
      float least = INFINITY;
      for (int code = 0; code < 64; ++code) {
        least = std::min(least, std::fabs(level - static_cast<float>(Aura6Level(code))));
      }
      error += static_cast<double>(scale * least) * static_cast<double>(scale * least);
    }
    return error;
  }
};

}  // namespace

extern const Codec kAura6Codec;
constinit const Codec kAura6Codec = PackedCodec<AuraFormat<6, Levels>>::Describe(
    CodecId::kAura6, "aura6",
    [](Isa isa) -> const CodecKernels& { return HOLDFAST_SELECT_KERNELS(isa, kAura6Kernels); });

}  // namespace holdfast
