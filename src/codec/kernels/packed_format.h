// What the packed kernels ask of a grouped codec. The kernels are written once over a Format:
//
//   struct Format {
//     static constexpr PackedShape kShape;   // of packed_layout.h
//     static constexpr int kPlanes;          // 2: 16-bit queries and weights; 1: 8-bit ones
//     static constexpr bool kTable;          // codes are looked up (Levels), not used as they are
//     static constexpr int kZero;            // of K levels: value = scale * (level - kZero) + bias
//     static constexpr bool kValueBias;      // V rows add a bias (PackedTerms::bias)
//
//     // Built once a call; holds what the lookups need in registers. The levels of a quad of a K unit, unsigned
//     // bytes, or of a row quad of a V column, signed ones, from the vectors that hold its bits. Formats that
//     // need no more than the codes have them from KeyCodes and ValueCodes.
//     struct Levels {
//       explicit Levels(RowFormat format);
//       template <int quad> B8x64 Key(B8x64 upper, B8x64 lower);
//       template <int quad> B8x64 Value(B8x64 upper, B8x64 lower, bool odd);
//     };
//     // From a group's stored scales and biases of 16 rows to those that fit kZero. Only asked where
//     // kShape.bias; elsewhere the stored scale is it.
//     static PackedTerms KeyTerms(F32x16 scale, F32x16 bias);
//     // To those of V levels: value = scale * level + bias, and scale >= 0 always, for any bias 0.
//     static PackedTerms Terms(F32x16 scale, F32x16 bias);
//
//     // Built once a row; the same bytes on every instruction set.
//     struct Encoder {
//       explicit Encoder(RowFormat format);
//       void Measure(const float* values, int n);  // a group's n values: sets what follows
//       uint16_t scale;                            // f16
//       uint16_t bias;                             // f16, where kShape.bias
//       I32x16 Codes(F32x16 values);               // 0 .. 2^bits - 1, to be stored in K tiles
//       I32x16 ValueCodes(I32x16 codes);           // what V tiles store instead
//     };
//     // struct KeyEncoder: the same for K tiles, where they differ
//   };
//
// V codes without a table are two's complement: of `bits` bits, code ^ 2^(bits - 1) for unsigned ones. The
// kernels read them from the top of a byte, as level * 2^(8 - bits), which takes no more instructions than
// unsigned ones and centres them, so that a weight's rounding hits a small number; Terms gives the scale of
// the level itself, before that shift.
//
// Included by kernel files only.
#pragma once

#include "codec/kernels/query_blocks.h"
#include "codec/packed_layout.h"

namespace holdfast::HOLDFAST_ISA_NS {

// How many tiles ahead the kernels ask for memory. Those of 8 and 6 bits are too large to wait in the first-level cache
// beside what is worked on.
inline constexpr int kPackedTilesAhead = 8;
static constexpr bool AskFar(int bits) {
  return bits >= 6;
}

struct PackedTerms {
  F32x16 scale;
  F32x16 bias;
};

// What is left of a row, up to 16 of its values; lanes past its end are 0.
HF_INLINE F32x16 LoadRowDims(const float* from, int left) {
  return LoadFirst(from, left < 16 ? left : 16);
}

HF_INLINE float LargestMagnitude(const float* values, int n) {
  F32x16 largest = Zero();
  for (int d = 0; d < n; d += 16) largest = Max(largest, Abs(LoadRowDims(values + d, n - d)));
  return HMax(largest);
}

// How codes of `kBits` bits lie in vectors.
template <int kBits>
struct PackedVectors {
  static constexpr int kUpperBits = UpperPlaneBits(kBits);
  static constexpr int kLowerBits = LowerPlaneBits(kBits);
  static constexpr bool kHasLower = kLowerBits != 0;
  static constexpr int kUpperQuads = 8 / kUpperBits;                     // quads of an upper vector
  static constexpr int kUnitQuads = KUnitDims(kBits) / kQuadDims;        // quads of a K unit
  static constexpr int kUnitVectors = kUnitQuads / kUpperQuads;          // upper vectors of a K unit
  static constexpr int kUnitLines = kUnitVectors + (kHasLower ? 1 : 0);  // both planes'
  static constexpr int kColumnVectors = kUpperBits / 2;                  // upper vectors of a V column
};

// Bits [kFrom, kFrom + n) of each byte, moved to [kTo, kTo + n) and alone there.
template <int n, int kFrom, int kTo>
HF_INLINE B8x64 MoveBits(B8x64 v) {
  constexpr auto kMask = static_cast<uint8_t>(((1 << n) - 1) << kTo);
  if constexpr (n == 8) {
    return v;
  } else if constexpr (kFrom == kTo) {
    return BAnd(v, BSet(kMask));
  } else if constexpr (kFrom < kTo) {
    return BAnd(BShiftLeft<kTo - kFrom>(v), BSet(kMask));
  } else {
    return BAnd(BShiftRight<kFrom - kTo>(v), BSet(kMask));
  }
}

// Codes of quad `quad` of a K unit. upper: the unit's vector that holds it; lower: the unit's lower vector.
template <int kBits, int quad>
HF_INLINE B8x64 KeyCodes(B8x64 upper, B8x64 lower) {
  using P = PackedVectors<kBits>;
  const B8x64 high = MoveBits<P::kUpperBits, quad % P::kUpperQuads * P::kUpperBits, P::kLowerBits>(upper);
  if constexpr (P::kHasLower) {
    return BOr(high, MoveBits<P::kLowerBits, quad * P::kLowerBits, 0>(lower));
  } else {
    return high;
  }
}

// Codes of row quad `quad` of a V column; at the bottom of each byte where they are looked up, else at the
// top. upper: the column's vector that holds them; lower: the column's vector of the lower plane, of which an
// odd column has the upper half where a vector is two columns.
template <int kBits, bool kAtBottom, int quad>
HF_INLINE B8x64 ValueCodes(B8x64 upper, B8x64 lower, bool odd) {
  using P = PackedVectors<kBits>;
  constexpr int kTo = kAtBottom ? 0 : 8 - kBits;
  const B8x64 high =
      MoveBits<P::kUpperBits, quad % P::kUpperQuads * P::kUpperBits, kTo + P::kLowerBits>(upper);
  if constexpr (P::kLowerBits == 2) {
    return BOr(high, MoveBits<2, quad * 2, kTo>(lower));
  } else if constexpr (P::kLowerBits == 1) {
    return BOr(high, odd ? MoveBits<1, 4 + quad, kTo>(lower) : MoveBits<1, quad, kTo>(lower));
  } else {
    return high;
  }
}

// Levels of codecs whose codes are the levels.
template <int kBits>
struct PlainLevels {
  HF_MEMBER explicit PlainLevels(RowFormat /*format*/) {}
  template <int quad>
  HF_MEMBER B8x64 Key(B8x64 upper, B8x64 lower) const {
    return KeyCodes<kBits, quad>(upper, lower);
  }
  template <int quad>
  HF_MEMBER B8x64 Value(B8x64 upper, B8x64 lower, bool odd) const {
    return ValueCodes<kBits, false, quad>(upper, lower, odd);
  }
};

}  // namespace holdfast::HOLDFAST_ISA_NS
