// The kernels of q4_0, per instruction set.
#include "codec/ggml_block_shape.h"
#include "codec/kernels/range_search.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// Steps of 0.8 to 1.1 times the whole range's about the level of 0, which is 8. On Gaussian blocks the best leaves
// 0.89 of the squared error.
constexpr SearchRanges MakeRanges() {
  SearchRanges ranges = {};
  for (int i = 0; i < 16; ++i) {
    const float step = i == 0 ? 1.0f : 0.78f + 0.02f * static_cast<float>(i);
    ranges.Put(i, 8.0f - 8.0f * step, step);
  }
  return ranges;
}

struct Format {
  static constexpr PackedShape kShape = kQ4_0Shape;
  static constexpr int kPlanes = 1;
  static constexpr bool kTable = false;
  static constexpr int kZero = 8;
  static constexpr bool kValueBias = true;
  using Levels = PlainLevels<kShape.bits>;

  // V tiles of a block with a negative scale hold 15 - code (q4_0.cc).
  HF_INLINE PackedTerms Terms(F32x16 scale, F32x16 /*bias*/) { return {Abs(scale), Max(Neg(scale), Zero())}; }

  struct Encoder {
    static constexpr SearchRanges kRanges = MakeRanges();
    uint16_t scale = 0;
    uint16_t bias = 0;
    float inverse = 0.0f;
    bool reversed = false;

    HF_MEMBER explicit Encoder(RowFormat /*format*/) {}

    // The value of the largest magnitude decides; the first one, where both signs have it.
    HF_MEMBER void Measure(const float* values, int n) {
      F32x16 above = Zero();
      F32x16 below = Zero();
      for (int i = 0; i < n; i += 16) {
        const F32x16 x = LoadFirst(values + i, n - i < 16 ? n - i : 16);
        above = Max(above, x);
        below = Max(below, Neg(x));
      }
      const float most = HMax(above);
      const float least = HMax(below);
      float largest = most > least ? most : -least;
      if (most == 0.0f && least == 0.0f) {
        largest = 0.0f;
      } else if (most == least) {
        int i = 0;
        while (i + 1 < n && __builtin_fabsf(values[i]) != most) ++i;
        largest = values[i];
      }
      const float d = largest / -8.0f;
      scale = NearestF16(d);
      reversed = F16Value(scale) < 0.0f;
      inverse = (scale & 0x7fff) == 0 ? 0.0f : 1.0f / d;
      // A scale without all of an f16's bits is not worth a search.
      if (n % 16 == 0 && (scale & 0x7fff) >= 0x0400) Fit(values, n, d);
    }

    // Takes another scale than d where that is better.
    HF_MEMBER void Fit(const float* values, int n, float d) {
      RangeSearch<kShape.bits, kRanges> search;
      search.n = n;
      for (int i = 0; i < n; i += 16) {
        Store(search.x + i, Fma(Load(values + i), Set(inverse), Set(8.0f)));
      }
      const auto sums = search.Search();
      // Of values and codes that count from 8: sum x^2 / sum xy, at which a decoded block is as long as the block in
      // the block's own direction, as aura_scale.h explains.
      const float count = 64.0f * static_cast<float>(n);
      const float products = sums.products - 8.0f * (sums.codes + sums.values) + count;
      if (products <= 0.0f) return;
      const float step = (sums.value_squares - 16.0f * sums.values + count) / products;
      Encoder fit = *this;
      fit.scale = NearestF16(step * d);
      if ((fit.scale & 0x7fff) == 0 || (fit.scale & 0x7fff) >= 0x7c00) return;
      const float stored = F16Value(fit.scale) * inverse;
      fit.reversed = F16Value(fit.scale) < 0.0f;
      fit.inverse = 1.0f / F16Value(fit.scale);
      const auto codes_at = [&](int i) { return fit.Codes(Load(values + i)); };
      if (search.Beats(stored, 8.0f - 8.0f * stored, codes_at)) *this = fit;
    }

    // min(15, trunc(value / d + 8.5)); below 0 only where a search made d smaller.
    HF_MEMBER I32x16 Codes(F32x16 values) const {
      const F32x16 level = Max(Add(Mul(values, Set(inverse)), Set(8.5f)), Zero());
      const I32x16 nearest = RoundToI32(level);
      // Truncated: 1 less where rounding went up.
      const F32x16 up = SelectLess(level, ToF32(nearest), Set(1.0f), Zero());
      return RoundToI32(Min(Sub(ToF32(nearest), up), Set(15.0f)));
    }
    HF_MEMBER I32x16 ValueCodes(I32x16 codes) const {
      const I32x16 kept = reversed ? ISub(ISet(15), codes) : codes;
      return IAnd(IAdd(kept, ISet(8)), ISet(15));
    }
  };
};

}  // namespace

extern const CodecKernels kQ4_0Kernels;
const CodecKernels kQ4_0Kernels = PackedKernels<Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
