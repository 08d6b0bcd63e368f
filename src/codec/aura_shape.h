// What the two halves of the aura codecs share: shapes, and the levels of 6 bits.
//
// A row of aura is one group with one f16 scale: value = scale * level. Levels of 4, 3 and 2 bits are
// aura_table.h's; of 8 bits, code - 128.
//
// Levels of 6 bits are computed, for lack of an instruction that looks 64 bytes up on every processor: code - 32 in
// the middle and 2 apart beyond 20 and below -21: -43, -41 .. -21, -20 .. 20, 22 .. 42. Closer where a rotated
// row's values are, wider where they are few; no codebook of 64 values does better by more than a few percent
// once each row searches its scale (docs/adr/0005-aura-levels.md).
#pragma once

#include "codec/packed_layout.h"

namespace holdfast {

static inline constexpr PackedShape AuraShape(int bits) {
  return {bits, false, 0};
}
static inline constexpr int AuraPlanes(int bits) {
  return bits >= 6 ? 2 : 1;
}

inline constexpr int kAuraKeyBias = 128;  // K levels are level + 128; of 6 bits, level + 43
// The largest magnitude that is taken. A row's scale is at most 0.035 of its largest magnitude, an f16 at most
// 65504.
inline constexpr float kAuraLargest = 1048576.0f;
// Below this a row counts as zeros: its scale would be below the least f16 anyway.
inline constexpr float kAuraTiny = 1e-30f;

inline constexpr float kAura8Top = 127.0f;

// 6 bits: the last codes, counted from the middle one, before levels are twice as far apart.
inline constexpr int kAura6Middle = 32;
inline constexpr int kAura6Upper = 20;
inline constexpr int kAura6Lower = -21;
inline constexpr int kAura6KeyBias = 43;
inline constexpr float kAura6Top = 42.5f;  // the mean of both ends

static inline constexpr int Aura6Level(int code) {
  const int k = code - kAura6Middle;
  return k + (k > kAura6Upper ? k - kAura6Upper : k < kAura6Lower ? k - kAura6Lower : 0);
}

static_assert(Aura6Level(0) == -kAura6KeyBias && Aura6Level(63) == 42 && Aura6Level(32) == 0);
static_assert(Aura6Level(52) == 20 && Aura6Level(53) == 22 && Aura6Level(11) == -21 && Aura6Level(10) == -23);
static_assert(KPackedTileBytes(AuraShape(4), 64) == 544 && VPackedTileBytes(AuraShape(4), 64) == 544);
static_assert(KPackedTileBytes(AuraShape(3), 64) == 416 && VPackedTileBytes(AuraShape(3), 64) == 416);
static_assert(KPackedTileBytes(AuraShape(2), 64) == 288 && VPackedTileBytes(AuraShape(2), 64) == 288);

}  // namespace holdfast
