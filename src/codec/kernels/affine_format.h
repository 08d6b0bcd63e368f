// affine8, affine6 and affine4 to the packed kernels. How a group is measured is stated in affine_codec.h.
// On Gaussian groups the search of affine4 leaves 0.80 of the whole range's squared error at 32 dims, 0.82 at 64.
// Included by kernel files only.
#pragma once

#include "codec/affine_shape.h"
#include "codec/kernels/range_search.h"

namespace holdfast::HOLDFAST_ISA_NS {

// Both ends drawn in by 0, 0.3, 0.6 or 0.9 of a step.
constexpr SearchRanges MakeAffineRanges(float most_level) {
  SearchRanges ranges = {};
  for (int i = 0; i < 16; ++i) {
    const float low = 0.3f * static_cast<float>(i / 4);
    const float high = 0.3f * static_cast<float>(i % 4);
    ranges.Put(i, low, (most_level - low - high) / most_level);
  }
  return ranges;
}
namespace {
// Of this file's own: a table that the linker may share could come from a stronger instruction set's object.
template <int kBits>
constexpr SearchRanges kAffineRanges = MakeAffineRanges(static_cast<float>((1 << kBits) - 1));
}  // namespace

template <int kBits, int kGroup>
struct AffineFormat {
  static constexpr PackedShape kShape = {kBits, true, kGroup};
  static constexpr int kPlanes = kBits >= 6 ? 2 : 1;
  static constexpr bool kTable = false;
  static constexpr int kZero = 1 << (kBits - 1);
  static constexpr bool kValueBias = true;
  using Levels = PlainLevels<kBits>;

  // Levels count from the middle code in both halves.
  HF_INLINE PackedTerms KeyTerms(F32x16 scale, F32x16 bias) { return Terms(scale, bias); }
  HF_INLINE PackedTerms Terms(F32x16 scale, F32x16 bias) {
    return {scale, Fma(scale, Set(static_cast<float>(1 << (kBits - 1))), bias)};
  }

  struct Encoder {
    static constexpr float kSteps = static_cast<float>((1 << kBits) - 1);
    uint16_t scale = 0;
    uint16_t bias = 0;
    float offset = 0.0f;
    float inverse = 0.0f;

    HF_MEMBER explicit Encoder(RowFormat /*format*/) {}

    // The next f16 below; of +0 the least negative one.
    HF_INLINE uint16_t Below(uint16_t bits) {
      if (bits == 0) return 0x8001;
      return static_cast<uint16_t>((bits & 0x8000) != 0 ? bits + 1 : bits - 1);
    }

    HF_MEMBER void Measure(const float* values, int n) {
      F32x16 least = Set(values[0]);
      F32x16 most = least;
      for (int d = 0; d < n; d += 16) {
        const int left = n - d < 16 ? n - d : 16;
        const F32x16 x = LoadFirst(values + d, left);
        // Lanes past the end: the first value again.
        const F32x16 v = left == 16 ? x : Padded(x, left, values[0]);
        least = Min(least, v);
        most = Max(most, v);
      }
      const float top = HMax(most);
      const float bottom = 0.0f - HMax(Neg(least));  // 0 - : never -0
      scale = 0;
      inverse = 0.0f;
      bias = NearestF16(bottom);
      offset = F16Value(bias);
      if (top == bottom) return;
      if (offset > bottom) {
        bias = Below(bias);
        offset = F16Value(bias);
      }
      const float exact = (top - offset) / kSteps;
      scale = NearestF16(exact);
      if (F16Value(scale) < exact) ++scale;
      inverse = 1.0f / F16Value(scale);
      if constexpr (kBits <= kMostSearchedBits) {
        // A scale without all of an f16's bits is not worth a search.
        if (n % 16 == 0 && scale >= 0x0400) Narrow(values, n);
      }
    }

    // Takes the scale and the bias of a narrower range where that is better.
    HF_MEMBER void Narrow(const float* values, int n) {
      RangeSearch<kBits, kAffineRanges<kBits>> search;
      search.n = n;
      for (int d = 0; d < n; d += 16) {
        Store(search.x + d, Mul(Sub(Load(values + d), Set(offset)), Set(inverse)));
      }
      const auto sums = search.Search();
      const auto count = static_cast<float>(n);
      const float slope = (sums.products - sums.codes * sums.values / count) /
                          (sums.squares - sums.codes * sums.codes / count);
      Encoder narrow = *this;
      narrow.bias = NearestF16(offset + (sums.values - slope * sums.codes) / count * F16Value(scale));
      if ((narrow.bias & 0x7fff) >= 0x7c00) return;
      narrow.offset = F16Value(narrow.bias);
      // The best scale for the bias as it is stored.
      const float from = (narrow.offset - offset) * inverse;
      narrow.scale = NearestF16((sums.products - from * sums.codes) / sums.squares * F16Value(scale));
      if (narrow.scale == 0 || narrow.scale >= 0x7c00) return;
      const float step = F16Value(narrow.scale);
      narrow.inverse = 1.0f / step;
      const auto codes_at = [&](int d) { return narrow.Codes(Load(values + d)); };
      if (search.Beats(step * inverse, from, codes_at)) *this = narrow;
    }

    HF_INLINE F32x16 Padded(F32x16 x, int n, float other) {
      alignas(64) float lanes[16];
      Store(lanes, x);
      for (int i = n; i < 16; ++i) lanes[i] = other;
      return Load(lanes);
    }

    HF_MEMBER I32x16 Codes(F32x16 values) const {
      const F32x16 level = Mul(Sub(values, Set(offset)), Set(inverse));
      return RoundToI32(Max(Min(level, Set(kSteps)), Zero()));
    }
    HF_MEMBER I32x16 ValueCodes(I32x16 codes) const {
      // code ^ 2^(bits - 1), as a sum that drops its carry.
      return IAnd(IAdd(codes, ISet(1 << (kBits - 1))), ISet((1 << kBits) - 1));
    }
  };
};

}  // namespace holdfast::HOLDFAST_ISA_NS
