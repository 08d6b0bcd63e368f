// The integer levels of the aura codecs of 2, 3 and 4 bits: what a code is worth, in steps of the row's scale.
//
// Dots are integer, so a codebook is stored as signed bytes: level[i] = round(value[i] / step), with the step of
// which that costs least. value = scale * level. V rows use the symmetric Lloyd-Max codebook. K scales may be negative,
// so K rows use that of rows turned so that their largest magnitude is positive (codebook.h). The tables are part of the
// format (docs/formats/aura.md).
//
// Plain declarations only, because per-ISA kernel files include this header.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr int kMostAuraLevels = 8;  // positive ones
// Scales that the encoder tries, as the top level's multiple of the row's largest magnitude.
inline constexpr int kAuraCandidates = 9;
inline constexpr int kAuraByteRange = 255;
inline constexpr int kAuraKeyByteRange = 127;

struct AuraTable {
  // By code; codes ascend with their levels.
  int8_t key_level[16];
  int8_t value_level[16];
  // What kernels look up by half a byte, for K level + 128 and for V the level. 4 bits: the code, both alike. 3 bits:
  // its upper two bits at bits 0 and 1 with its lower bit at bit 2, or at bits 2 and 3 with it at bit 1. 2 bits: the
  // code at bits 0 and 1, or at bits 2 and 3. The other bits do not matter.
  uint8_t key[2][16];
  int8_t value[2][16];

  // For encoders. Of V the positive levels, ascending; above value_end[i], in levels, a magnitude is nearer to positive
  // level i + 1 than to i. Above key_end[i] a value is nearer to K level i + 1.
  uint8_t magnitude[16];
  float value_end[kMostAuraLevels];
  float key_end[2 * kMostAuraLevels];
  float key_unit[2 * kMostAuraLevels];  // K levels
  // For each candidate scale: that scale, of a row with largest magnitude 1, and the ends in bytes, each four times:
  // words are what vectors are filled from for nothing. V bytes are magnitudes, of which kAuraByteRange is the row's largest;
  // K bytes are values, turned, 128 + kAuraKeyByteRange being the largest.
  float value_scale[kAuraCandidates];
  float key_scale[kAuraCandidates];
  uint8_t value_byte_end[kAuraCandidates][kMostAuraLevels][4];
  uint8_t key_byte_end[kAuraCandidates][2 * kMostAuraLevels][4];
};

// The table of 2^bits levels for rows of `dim`. Made on first use, kept for good; thread-safe, and cheap enough
// to be asked for every row. REQUIRES 2 <= bits <= 4, 1 <= dim <= kMaxDim.
const AuraTable& AuraTableOf(int bits, int dim);

}  // namespace holdfast
