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
//   static int CodeOfValue(int stored);  // what Level takes for what a V tile stores
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
  static int CodeOfValue(int stored, float /*scale*/) { return Levels::CodeOfValue(stored); }

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
    const double left = std::pow(plain + root * absmax / kAuraKeyByteRange, 2);
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
  // V codes come after K's.
  static constexpr int kCodes = 1 << kBits;
  static int CodeOfValue(int stored) { return kCodes + stored; }
  static int Level(int code, int dim) {
    const AuraTable& table = AuraTableOf(kBits, dim);
    return code < kCodes ? table.key_level[code] : table.value_level[code - kCodes];
  }

  // Of values in levels, each to the nearest one.
  static double ErrorOf(const float* values, int n, float scale, const int8_t* levels) {
    double error = 0.0;
    for (int d = 0; d < n; ++d) {
      const float place = values[d] / scale;
      float least = INFINITY;
      for (int i = 0; i < kCodes; ++i)
        least = std::min(least, std::fabs(place - static_cast<float>(levels[i])));
      const double off = static_cast<double>(least) * static_cast<double>(scale);
      error += off * off;
    }
    return error;
  }

  // Of the half that leaves more, at its middle scale.
  static double PlainError(const float* values, int n, float absmax) {
    if (absmax < kAuraTiny) return 0.0;
    const AuraTable& table = AuraTableOf(kBits, n);
    const float turn = *std::max_element(values, values + n) == absmax ? absmax : -absmax;
    constexpr int kMiddle = kAuraCandidates / 2;
    return std::max(ErrorOf(values, n, absmax * table.value_scale[kMiddle], table.value_level),
                    ErrorOf(values, n, turn * table.key_scale[kMiddle], table.key_level));
  }
};

}  // namespace holdfast
