// The kernels of aura6, per instruction set: levels are computed from their codes (aura_shape.h).
#include "codec/kernels/aura_scale.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// Scales that are tried, as the top level's multiple of the row's largest magnitude: where the best ones of
// Gaussian rows of 64 to 256 dims lie. Within these no value passes the outermost levels by half a step.
constexpr int kCandidates = 6;
constexpr float kLeastRange = 0.989f;
constexpr float kRangeStep = 0.021f;

struct Aura6Format {
  static constexpr PackedShape kShape = AuraShape(6);
  static constexpr int kPlanes = AuraPlanes(6);
  static constexpr bool kTable = true;
  static constexpr int kZero = kAura6KeyBias;
  static constexpr bool kValueBias = false;

  // From the lowest level: the code, and one more for each code below 11 and above 52.
  struct Levels {
    static constexpr uint8_t kLow = kAura6Middle + kAura6Lower;
    static constexpr uint8_t kHigh = kAura6Middle + kAura6Upper;
    HF_MEMBER explicit Levels(RowFormat /*format*/) {}
    HF_INLINE B8x64 FromLowest(B8x64 codes) {
      return BAdd(BAdd(codes, BMin(codes, BSet(kLow))), BSubSat(codes, BSet(kHigh)));
    }
    template <int quad>
    HF_MEMBER B8x64 Key(B8x64 upper, B8x64 lower) const {
      return FromLowest(KeyCodes<6, quad>(upper, lower));
    }
    template <int quad>
    HF_MEMBER B8x64 Value(B8x64 upper, B8x64 lower, bool odd) const {
      return BSub(FromLowest(ValueCodes<6, true, quad>(upper, lower, odd)), BSet(kAura6KeyBias));
    }
  };

  HF_INLINE PackedTerms Terms(F32x16 scale, F32x16 /*bias*/) { return {scale, Zero()}; }

  struct Encoder {
    uint16_t scale = 0;
    float inverse = 0.0f;

    HF_MEMBER explicit Encoder(RowFormat /*format*/) {}

    // Where a value lies among the codes, less the middle one: levels outside count half.
    HF_INLINE F32x16 Place(F32x16 level) {
      const F32x16 half = Mul(level, Set(0.5f));
      return Max(Min(level, Add(half, Set(0.5f * kAura6Upper))), Add(half, Set(0.5f * kAura6Lower)));
    }
    HF_INLINE I32x16 CodeOf(F32x16 level) {
      return RoundToI32(Min(Max(Place(level), Set(-32.0f)), Set(31.0f)));
    }
    HF_INLINE F32x16 LevelOf(F32x16 place) {
      const F32x16 twice = Add(place, place);
      return Max(Min(place, Sub(twice, Set(kAura6Lower))), Sub(twice, Set(kAura6Upper)));
    }

    HF_MEMBER void Measure(const float* values, int n) {
      AuraRow row;
      const float absmax = LargestMagnitude(values, n);
      if (absmax >= kAuraTiny) {
        row = FitScale<Keeps::kProjection>(values, n, Search(values, n, absmax),
                                           [](F32x16 x) { return LevelOf(ToF32(CodeOf(x))); });
      }
      scale = row.scale;
      inverse = row.inverse;
    }

    // What values are multiplied with to become levels.
    HF_MEMBER float Search(const float* values, int n, float absmax) {
      // In units of the largest magnitude, so that no product leaves float's range.
      alignas(64) float units[kMaxDim];
      const F32x16 unit = Set(1.0f / absmax);
      for (int d = 0; d < n; d += 16) Store(units + d, Mul(LoadRowDims(values + d, n - d), unit));
      float xy[kCandidates];
      float yy[kCandidates];
      for (int c = 0; c < kCandidates; ++c) {
        const F32x16 to_levels = Set(kAura6Top / (kLeastRange + kRangeStep * static_cast<float>(c)));
        F32x16 xy_sum = Zero();
        F32x16 yy_sum = Zero();
        for (int d = 0; d < n; d += 16) {  // lanes past the end are 0, which is a level
          const F32x16 x = Load(units + d);
          const F32x16 y = LevelOf(ToF32(RoundToI32(Place(Mul(x, to_levels)))));
          xy_sum = Add(xy_sum, Mul(x, y));
          yy_sum = Add(yy_sum, Mul(y, y));
        }
        xy[c] = HSum(xy_sum);
        yy[c] = HSum(yy_sum);
      }
      const int best = BestCandidate(xy, yy, kCandidates);
      return yy[best] / xy[best] / absmax;
    }

    HF_MEMBER I32x16 Codes(F32x16 values) const {
      return IAdd(CodeOf(Mul(values, Set(inverse))), ISet(kAura6Middle));
    }
    HF_MEMBER I32x16 ValueCodes(I32x16 codes) const { return codes; }
  };
};

}  // namespace

extern const CodecKernels kAura6Kernels;
const CodecKernels kAura6Kernels = PackedKernels<Aura6Format>();

}  // namespace holdfast::HOLDFAST_ISA_NS
