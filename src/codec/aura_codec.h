// The baseline half of the aura codecs.
#pragma once

#include <algorithm>
#include <cmath>

#include "codec/aura_shape.h"
#include "codec/aura_table.h"
#include "codec/packed_codec.h"

namespace holdfast {

// What all of them share; Levels gives a code's level and the error that its plain quantiser leaves:
//   static int Level(int code, int dim);
//   // Sum of squared errors of a row quantised at the scale that is tried first, with the nearest levels.
//   static double PlainError(const float* values, int n, float absmax);
template <int kBits, typename Levels>
struct AuraFormat {
  static constexpr PackedShape kShape = AuraShape(kBits);
  static constexpr int kPlanes = AuraPlanes(kBits);
  static constexpr bool kTakesGroup = false;
  static constexpr bool kAlwaysRotated = true;
  static constexpr float kMaxMagnitude = kAuraLargest;

  static float Decode(int code, float scale, float /*bias*/, int dim) {
    return scale * static_cast<float>(Levels::Level(code, dim));
  }
  // V tiles hold 8-bit levels as two's complement.
  static int CodeOfValue(int stored, float /*scale*/) { return kBits == 8 ? stored ^ kAuraKeyBias : stored; }

  // The encoder minimises a row's squared error at the best scale of its levels, and then stores a scale that
  // keeps the row's projection or norm. It promises nothing of a single value but this: with D the relative
  // squared error that the plain quantiser leaves, no value is off by more than the root of the squares' sum times
  // D / (1 - D). To the root of D come what bytes cannot tell apart while scales are compared (half a byte
  // a value, twice); to the result the rounding of the scale, to an f16 of 11 bits or the spacing of the subnormal ones.
  // Where D nears 1 the largest possible level is the bound.
  static float GroupError(const float* values, int n, int /*dim*/) {
    const auto absmax = static_cast<double>(AbsMax(values, n));
    double squares = 0.0;
    for (int i = 0; i < n; ++i) squares += static_cast<double>(values[i]) * static_cast<double>(values[i]);
    const double root = std::sqrt(static_cast<double>(n));
    const double plain = std::sqrt(Levels::PlainError(values, n, static_cast<float>(absmax)));
    const double left = std::pow(plain + root * absmax / kAuraByteRange, 2);
    double bound = kLargestError * absmax;
    if (left < squares) bound = std::min(bound, std::sqrt(left / (1.0 - left / squares)));
    return static_cast<float>(1.0001 * (bound + root * 128 * 0x1p-25 + std::sqrt(squares) * 0x1p-10));
  }

 private:
  // A scale is at most 0.035 of the largest magnitude, a level at most 128.
  static constexpr double kLargestError = 1.0 + 0.035 * 128;
};

template <int kBits>
struct AuraTableLevels {
  static int Level(int code, int dim) { return AuraTableOf(kBits, dim).level[code]; }

  static double PlainError(const float* values, int n, float absmax) {
    if (absmax < kAuraTiny) return 0.0;
    const AuraTable& table = AuraTableOf(kBits, n);
    const float scale = absmax * table.scale[kAuraCandidates / 2];
    double error = 0.0;
    for (int d = 0; d < n; ++d) {
      const float magnitude = std::fabs(values[d]) / scale;
      int i = 0;
      while (i + 1 < table.levels && magnitude > table.end[i]) ++i;
      const double off = static_cast<double>(scale) * static_cast<double>(magnitude - table.magnitude[i]);
      error += off * off;
    }
    return error;
  }
};

}  // namespace holdfast
