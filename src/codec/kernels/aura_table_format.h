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

  // V rows: levels are symmetric, so that magnitudes are searched.
  struct ValueSide {
    static constexpr int kLevels = 1 << (kBits - 1);  // positive ones
    static constexpr int kByteRange = kAuraByteRange;
    static constexpr int kByteBias = 0;
    HF_INLINE const float* Ends(const AuraTable& table) { return table.value_end; }
    HF_INLINE const auto& ByteEnds(const AuraTable& table) { return table.value_byte_end; }
    HF_INLINE const uint8_t* ByteLevels(const AuraTable& table) { return table.magnitude; }
    HF_INLINE float Level(const AuraTable& table, int i) { return static_cast<float>(table.magnitude[i]); }
    HF_INLINE F32x16 Searched(F32x16 x) { return Abs(x); }
    HF_INLINE F32x16 SignedLevel(F32x16 x, F32x16 level) { return SelectLess(x, Zero(), Neg(level), level); }
    // Codes ascend with their levels.
    HF_INLINE F32x16 Code(F32x16 x, F32x16 index) {
      constexpr auto kMiddle = static_cast<float>(kLevels);
      return SelectLess(x, Zero(), Sub(Set(kMiddle - 1.0f), index), Add(Set(kMiddle), index));
    }
    HF_INLINE float Largest(const float* values, int n) { return LargestMagnitude(values, n); }
  };

  // K rows are turned so that their largest magnitude is positive: their scale has the sign.
  struct KeySide {
    static constexpr int kLevels = 1 << kBits;
    static constexpr int kByteRange = kAuraKeyByteRange;
    static constexpr int kByteBias = kAuraKeyBias;
    HF_INLINE const float* Ends(const AuraTable& table) { return table.key_end; }
    HF_INLINE const auto& ByteEnds(const AuraTable& table) { return table.key_byte_end; }
    HF_INLINE const int8_t* ByteLevels(const AuraTable& table) { return table.key_level; }
    HF_INLINE float Level(const AuraTable& table, int i) { return table.key_unit[i]; }
    HF_INLINE F32x16 Searched(F32x16 x) { return x; }
    HF_INLINE F32x16 SignedLevel(F32x16 /*x*/, F32x16 level) { return level; }
    HF_INLINE F32x16 Code(F32x16 /*x*/, F32x16 index) { return index; }
    // The value of the largest magnitude.
    HF_INLINE float Largest(const float* values, int n) {
      F32x16 most = Zero();
      F32x16 least = Zero();
      for (int d = 0; d < n; d += 16) {
        const F32x16 x = LoadRowDims(values + d, n - d);
        most = Max(most, x);
        least = Max(least, Neg(x));
      }
      const float above = HMax(most);
      const float below = HMax(least);
      return above >= below ? above : -below;
    }
  };

  template <typename Side>
  struct SideEncoder {
    static constexpr int kLevels = Side::kLevels;
    const AuraTable& table;
    uint16_t scale = 0;
    float inverse = 0.0f;

    HF_MEMBER explicit SideEncoder(RowFormat format) : table(AuraTableOf(kBits, format.dim)) {}

    HF_MEMBER void Measure(const float* values, int n) {
      AuraRow row;
      const float largest = Side::Largest(values, n);
      if (__builtin_fabsf(largest) >= kAuraTiny) {
        row =
            FitScale<kKeeps>(values, n, Search(values, n, largest), [this](F32x16 x) { return LevelsOf(x); });
      }
      scale = row.scale;
      inverse = row.inverse;
    }

    // What values are multiplied with to become levels. largest: the value of the largest magnitude.
    HF_MEMBER float Search(const float* values, int n, float largest) {
      alignas(64) std::byte bytes[kMaxDim];
      const int vectors = (n + 63) / 64;
      const F32x16 to_bytes = Set(static_cast<float>(Side::kByteRange) / largest);
      for (int v = 0; v < vectors; ++v) {
        I32x16 byte[4];
#pragma GCC unroll 4
        for (int j = 0; j < 4; ++j) {
          const int d = v * 64 + j * 16;
          byte[j] = ISet(Side::kByteBias);
          if (d >= n) continue;
          const F32x16 x = Side::Searched(LoadRowDims(values + d, n - d));
          byte[j] = IAdd(byte[j], RoundToI32(Mul(x, to_bytes)));
        }
        BStore(bytes + v * 64, PackLevels(byte[0], byte[1], byte[2], byte[3]));
      }
      float xy[kAuraCandidates];
      float yy[kAuraCandidates];
      Correlate(bytes, vectors, xy, yy);
      // Lanes past the end are 0, and took its level.
      const float zero = HMax(Abs(LevelsOf(Zero())));
      const float padding = static_cast<float>(vectors * 64 - n) * zero * zero;
      for (int c = 0; c < kAuraCandidates; ++c) yy[c] -= padding;
      const int best = BestCandidate(xy, yy, kAuraCandidates);
      // Where no candidate of a K row points along it, the first one's scale.
      if (xy[best] <= 0.0f) return 1.0f / (largest * table.key_scale[0]);
      return static_cast<float>(Side::kByteRange) / largest * (yy[best] / xy[best]);
    }

    // For each candidate the sums of x y and of y y, of values x and the levels y nearest to them.
    HF_MEMBER void Correlate(const std::byte* bytes, int vectors, float* xy, float* yy) const {
      const B8x64 levels = BBroadcast16(Side::ByteLevels(table));
      const B8x64 bias = BSet(Side::kByteBias);
      for (int c = 0; c < kAuraCandidates; ++c) {
        I32x16 xy_sum = IZero();
        I32x16 yy_sum = IZero();
        I32x16 bias_sum = IZero();
        for (int v = 0; v < vectors; ++v) {
          const B8x64 x = BLoad(bytes + v * 64);
          B8x64 index = BSet(0);
#pragma GCC unroll 16
          for (int i = 0; i + 1 < kLevels; ++i) {
            index = BCountGreater(index, x, BBroadcast4(Side::ByteEnds(table)[c][i]));
          }
          const B8x64 y = BLookup16(levels, index);
          xy_sum = DotU8I8(xy_sum, x, y);
          if constexpr (Side::kByteBias == 0) {
            yy_sum = DotU7I8(yy_sum, y, y);
          } else {  // sums of (x + bias) y, (y + bias) y and bias y
            yy_sum = DotU8I8(yy_sum, BXor(y, bias), y);
            bias_sum = DotU8I8(bias_sum, bias, y);
          }
        }
        xy[c] = HSum(ToF32(ISub(xy_sum, bias_sum)));
        yy[c] = HSum(ToF32(ISub(yy_sum, bias_sum)));
      }
    }

    // Levels of values in levels, by the ends of their cells.
    HF_MEMBER F32x16 LevelsOf(F32x16 x) const {
      const F32x16 searched = Side::Searched(x);
      F32x16 level = Set(Side::Level(table, 0));
#pragma GCC unroll 16
      for (int i = 0; i + 1 < kLevels; ++i) {
        level = SelectLess(Set(Side::Ends(table)[i]), searched, Set(Side::Level(table, i + 1)), level);
      }
      return Side::SignedLevel(x, level);
    }

    HF_MEMBER I32x16 Codes(F32x16 values) const {
      const F32x16 searched = Side::Searched(Mul(values, Set(inverse)));
      F32x16 index = Zero();
#pragma GCC unroll 16
      for (int i = 0; i + 1 < kLevels; ++i) {
        index = SelectLess(Set(Side::Ends(table)[i]), searched, Set(static_cast<float>(i + 1)), index);
      }
      return RoundToI32(Side::Code(values, index));
    }
    HF_MEMBER I32x16 ValueCodes(I32x16 codes) const {
      return codes;
    }
  };
  using Encoder = SideEncoder<ValueSide>;
  using KeyEncoder = SideEncoder<KeySide>;
};

}  // namespace holdfast::HOLDFAST_ISA_NS
