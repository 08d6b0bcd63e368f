// aura4, aura3 and aura2 to the packed kernels: codes are looked up in the table of their bits and dim.
//
// Encoding searches a row's scale: for each of the table's candidates the levels nearest to the values, and from
// them the squared error that remains. Whether one scale beats another shows in magnitudes of a byte, so a search
// takes a handful of instructions a candidate for 64 values. The winner's least-squares scale is stored as
// an f16, and the codes are the nearest levels at the stored scale, in floats.
// Included by kernel files only.
#pragma once

#include "codec/aura_table.h"
#include "codec/kernels/aura_scale.h"

namespace holdfast::HOLDFAST_ISA_NS {

template <int kBits>
struct AuraTableFormat {
  static constexpr PackedShape kShape = AuraShape(kBits);
  static constexpr int kPlanes = AuraPlanes(kBits);
  static constexpr bool kTable = true;
  static constexpr int kZero = kAuraKeyBias;
  static constexpr bool kValueBias = false;

  // A look-up takes four bits, so that two codes of 2 bits are looked up from the half byte that they share, each
  // in a table of its own, and a code of 3 bits beside a bit that its table takes for either.
  struct Levels {
    B8x64 key[2];
    B8x64 value[2];
    HF_MEMBER explicit Levels(RowFormat format) {
      const AuraTable& table = AuraTableOf(kBits, format.dim);
#pragma GCC unroll 2
      for (int i = 0; i < 2; ++i) {
        key[i] = BBroadcast16(table.key[i]);
        value[i] = BBroadcast16(table.value[i]);
      }
    }
    static constexpr int kUpperBits = UpperPlaneBits(kBits);
    template <int quad>
    HF_INLINE B8x64 HalfByte(B8x64 upper) {
      return quad * kUpperBits % 8 < 4 ? BLow4(upper) : BHigh4(upper);
    }
    // 3 bits: the lower bit at bit 2 beside upper ones at bits 0 and 1, at bit 1 beside upper ones at bits 2 and 3.
    // lower: row or dim quads 0 to 3 at bits 0 to 3.
    template <int quad>
    HF_INLINE B8x64 Beside(B8x64 half, B8x64 lower) {
      if constexpr (quad == 0) return BSelect(BSet(0xf3), half, BLooseShiftLeft<2>(lower));
      if constexpr (quad == 1) return BSelect(BSet(0xfc), half, lower);
      if constexpr (quad == 2) return BSelect(BSet(0xf3), half, lower);
      if constexpr (quad == 3) return BSelect(BSet(0xfc), half, BLooseShiftRight<2>(lower));
    }
    // The table of a quad.
    template <int quad>
    static constexpr int kWhich = kBits == 4 ? 0 : quad % 2;

    template <int quad>
    HF_MEMBER B8x64 Key(B8x64 upper, B8x64 lower) const {
      B8x64 index = HalfByte<quad>(upper);
      if constexpr (kBits == 3) {
        index = Beside<quad % 4>(index, quad < 4 ? lower : BLooseShiftRight<4>(lower));
      }
      return BLookup16(key[kWhich<quad>], index);
    }
    template <int quad>
    HF_MEMBER B8x64 Value(B8x64 upper, B8x64 lower, bool odd) const {
      B8x64 index = HalfByte<quad>(upper);
      if constexpr (kBits == 3) index = Beside<quad>(index, odd ? BLooseShiftRight<4>(lower) : lower);
      return BLookup16(value[kWhich<quad>], index);
    }
  };

  HF_INLINE PackedTerms Terms(F32x16 scale, F32x16 /*bias*/) {
    return {scale, Zero()};
  }

  // At 2 bits the projection would cost an eighth more error, and below 4 a row that is decoded and encoded again, as
  // a context shift does, would grow each time.
  static constexpr Keeps kKeeps = kBits <= 3 ? Keeps::kNorm : Keeps::kProjection;

  struct Encoder {
    static constexpr int kLevels = 1 << (kBits - 1);  // positive ones
    const AuraTable& table;
    uint16_t scale = 0;
    float inverse = 0.0f;

    HF_MEMBER explicit Encoder(RowFormat format) : table(AuraTableOf(kBits, format.dim)) {}

    HF_MEMBER void Measure(const float* values, int n) {
      AuraRow row;
      const float absmax = LargestMagnitude(values, n);
      if (absmax >= kAuraTiny) {
        row =
            FitScale<kKeeps>(values, n, Search(values, n, absmax), [this](F32x16 x) { return LevelsOf(x); });
      }
      scale = row.scale;
      inverse = row.inverse;
    }

    // What values are multiplied with to become levels.
    HF_MEMBER float Search(const float* values, int n, float absmax) {
      alignas(64) std::byte magnitude[kMaxDim];
      const int vectors = (n + 63) / 64;
      const F32x16 to_bytes = Set(static_cast<float>(kAuraByteRange) / absmax);
      for (int v = 0; v < vectors; ++v) {
        I32x16 level[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const int d = v * 64 + j * 16;
          level[j] = d < n ? RoundToI32(Mul(Abs(LoadRowDims(values + d, n - d)), to_bytes)) : IZero();
        }
        BStore(magnitude + v * 64, PackLevels(level[0], level[1], level[2], level[3]));
      }
      const B8x64 levels = BBroadcast16(table.magnitude);
      // Lanes past the end are of magnitude 0, and took the least level.
      const auto least = static_cast<float>(table.magnitude[0]);
      const float padding = static_cast<float>(vectors * 64 - n) * least * least;
      float xy[kAuraCandidates];
      float yy[kAuraCandidates];
      for (int c = 0; c < kAuraCandidates; ++c) {
        I32x16 xy_sum = IZero();
        I32x16 yy_sum = IZero();
        for (int v = 0; v < vectors; ++v) {
          const B8x64 x = BLoad(magnitude + v * 64);
          B8x64 index = BSet(0);
#pragma GCC unroll 8
          for (int i = 0; i + 1 < kLevels; ++i)
            index = BCountGreater(index, x, BBroadcast4(table.value_byte_end[c][i]));
          const B8x64 y = BLookup16(levels, index);
          xy_sum = DotU8I8(xy_sum, x, y);
          yy_sum = DotU7I8(yy_sum, y, y);
        }
        xy[c] = HSum(ToF32(xy_sum));
        yy[c] = HSum(ToF32(yy_sum)) - padding;
      }
      const int best = BestCandidate(xy, yy, kAuraCandidates);
      return static_cast<float>(kAuraByteRange) / absmax * (yy[best] / xy[best]);
    }

    // Levels of values in levels, by the ends of their cells.
    HF_MEMBER F32x16 LevelsOf(F32x16 x) const {
      const F32x16 magnitude = Abs(x);
      F32x16 level = Set(static_cast<float>(table.magnitude[0]));
#pragma GCC unroll 8
      for (int i = 0; i + 1 < kLevels; ++i) {
        level = SelectLess(Set(table.value_end[i]), magnitude,
                           Set(static_cast<float>(table.magnitude[i + 1])), level);
      }
      return SelectLess(x, Zero(), Neg(level), level);
    }

    // Codes ascend with their levels, which are symmetric.
    HF_MEMBER I32x16 Codes(F32x16 values) const {
      const F32x16 magnitude = Abs(Mul(values, Set(inverse)));
      F32x16 index = Zero();
#pragma GCC unroll 8
      for (int i = 0; i + 1 < kLevels; ++i) {
        index = SelectLess(Set(table.value_end[i]), magnitude, Set(static_cast<float>(i + 1)), index);
      }
      constexpr auto kMiddle = static_cast<float>(kLevels);
      return RoundToI32(
          SelectLess(values, Zero(), Sub(Set(kMiddle - 1.0f), index), Add(Set(kMiddle), index)));
    }
    HF_MEMBER I32x16 ValueCodes(I32x16 codes) const {
      return codes;
    }
  };

  // K rows are turned so that their largest magnitude is positive: their scale has the sign.
  struct KeyEncoder {
    static constexpr int kLevels = 1 << kBits;
    const AuraTable& table;
    uint16_t scale = 0;
    float inverse = 0.0f;

    HF_MEMBER explicit KeyEncoder(RowFormat format) : table(AuraTableOf(kBits, format.dim)) {}

    HF_MEMBER void Measure(const float* values, int n) {
      F32x16 most = Zero();
      F32x16 least = Zero();
      for (int d = 0; d < n; d += 16) {
        const F32x16 x = LoadRowDims(values + d, n - d);
        most = Max(most, x);
        least = Max(least, Neg(x));
      }
      const float above = HMax(most);
      const float below = HMax(least);
      const float largest = above >= below ? above : -below;
      AuraRow row;
      if (__builtin_fabsf(largest) >= kAuraTiny) {
        row =
            FitScale<kKeeps>(values, n, Search(values, n, largest), [this](F32x16 x) { return LevelsOf(x); });
      }
      scale = row.scale;
      inverse = row.inverse;
    }

    // What values are multiplied with to become levels. largest: the value of the largest magnitude.
    HF_MEMBER float Search(const float* values, int n, float largest) {
      alignas(64) std::byte turned[kMaxDim];
      const int vectors = (n + 63) / 64;
      const F32x16 to_bytes = Set(static_cast<float>(kAuraKeyByteRange) / largest);
      for (int v = 0; v < vectors; ++v) {
        I32x16 level[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const int d = v * 64 + j * 16;
          level[j] = ISet(kAuraKeyBias);
          if (d < n) {
            level[j] = IAdd(level[j], RoundToI32(Mul(LoadRowDims(values + d, n - d), to_bytes)));
          }
        }
        BStore(turned + v * 64, PackLevels(level[0], level[1], level[2], level[3]));
      }
      const B8x64 levels = BBroadcast16(table.key_level);
      const B8x64 bias = BSet(kAuraKeyBias);
      // Lanes past the end are 0, and took its level.
      const float zero = HMax(Abs(LevelsOf(Zero())));
      const float padding = static_cast<float>(vectors * 64 - n) * zero * zero;
      float xy[kAuraCandidates];
      float yy[kAuraCandidates];
      for (int c = 0; c < kAuraCandidates; ++c) {
        // Sums of (x + 128) y, (y + 128) y and 128 y.
        I32x16 xy_sum = IZero();
        I32x16 yy_sum = IZero();
        I32x16 bias_sum = IZero();
        for (int v = 0; v < vectors; ++v) {
          const B8x64 x = BLoad(turned + v * 64);
          B8x64 index = BSet(0);
#pragma GCC unroll 16
          for (int i = 0; i + 1 < kLevels; ++i) {
            index = BCountGreater(index, x, BBroadcast4(table.key_byte_end[c][i]));
          }
          const B8x64 y = BLookup16(levels, index);
          xy_sum = DotU8I8(xy_sum, x, y);
          yy_sum = DotU8I8(yy_sum, BXor(y, bias), y);
          bias_sum = DotU8I8(bias_sum, bias, y);
        }
        xy[c] = HSum(ToF32(ISub(xy_sum, bias_sum)));
        yy[c] = HSum(ToF32(ISub(yy_sum, bias_sum))) - padding;
      }
      const int best = BestCandidate(xy, yy, kAuraCandidates);
      // Where no candidate points along the row, the first one's scale.
      if (xy[best] <= 0.0f) return 1.0f / (largest * table.key_scale[0]);
      return static_cast<float>(kAuraKeyByteRange) / largest * (yy[best] / xy[best]);
    }

    HF_MEMBER F32x16 LevelsOf(F32x16 x) const {
      F32x16 level = Set(table.key_unit[0]);
#pragma GCC unroll 16
      for (int i = 0; i + 1 < kLevels; ++i) {
        level = SelectLess(Set(table.key_end[i]), x, Set(table.key_unit[i + 1]), level);
      }
      return level;
    }

    HF_MEMBER I32x16 Codes(F32x16 values) const {
      const F32x16 x = Mul(values, Set(inverse));
      F32x16 code = Zero();
#pragma GCC unroll 16
      for (int i = 0; i + 1 < kLevels; ++i) {
        code = SelectLess(Set(table.key_end[i]), x, Set(static_cast<float>(i + 1)), code);
      }
      return RoundToI32(code);
    }
  };
};

}  // namespace holdfast::HOLDFAST_ISA_NS
