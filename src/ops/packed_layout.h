// How packed weights and quantised activations lie in memory. Plain constants: host code and every kernel
// share them.
//
// Weights. Sixteen outputs make a panel; lane l of every vector belongs to output 16 * panel + l. A panel is
// [scale records][codes], both 64-byte aligned; panels follow each other. A K block is 32 consecutive inputs.
//
//   float types: no records; codes [cols][16] in the file's own type.
//   4-bit codes of a block: four 64-byte vectors. Byte 4*l + i of vector v holds the code of input 4v + i in
//   its low
//     nibble and that of input 16 + 4v + i in its high nibble, so that one AND or shift gives a vector whose
//     32-bit lanes hold four consecutive inputs of one output, as the four-way dot product wants them.
//   5-bit: the same, then one vector of fifth bits: bit q of byte 4*l + i belongs to input 4q + i.
//   6-bit: the same, then two vectors of upper pairs: bits 2t..2t+1 of byte 4*l + i of vector j belong to
//   input 4*(4j + t) + i. 8-bit: eight vectors, vector q holding inputs 4q..4q+3, stored plus 128. Scale
//   record of a 32-block: f16 d[16], then f16 m[16] for the types with a minimum. Scale record of a
//   256-block: q4_K, q5_K: f16 d[16], f16 dmin[16], then for each 32 inputs u8 scale[16], u8 min[16];
//     q6_K: f16 d[16], then for each 16 inputs i8 scale[16].
//
// Activations lie in groups of sixteen rows; the last group has 1, 2, 4, 8 or 16 slots, of which unused ones
// repeat the last row.
// With S slots a group is [blocks][S][32] codes, [blocks][S] scales and so on: a kernel for S rows finds
// everything at constant offsets.
#pragma once

#include <cstdint>

namespace holdfast {

inline constexpr int kPanelOutputs = 16;
inline constexpr int kBlockInputs = 32;
inline constexpr int kGroupRows = 16;
inline constexpr int kSlotCounts = 5;  // kernels exist for 1 << i slots, i below this

// In the order of DType.
enum PackedFormat : int {
  kPackedF32,
  kPackedF16,
  kPackedBf16,
  kPackedQ8_0,
  kPackedQ4_0,
  kPackedQ4_1,
  kPackedQ5_0,
  kPackedQ5_1,
  kPackedQ4_K,
  kPackedQ5_K,
  kPackedQ6_K,
  kPackedFormats
};

struct PackedTraits {
  int code_bits;    // of a code; the width of an element for the float types
  int code_offset;  // value = scale * (code - code_offset); 0 where a minimum does this
  bool has_min;
  int record_inputs;  // inputs that share a scale record; 0 = no records
  int record_bytes;   // for sixteen outputs
};

inline constexpr PackedTraits kPackedTraits[kPackedFormats] = {
    {32, 0, false, 0, 0},               // f32
    {16, 0, false, 0, 0},               // f16
    {16, 0, false, 0, 0},               // bf16
    {8, 128, false, 32, 32},            // q8_0
    {4, 8, false, 32, 32},              // q4_0
    {4, 0, true, 32, 64},               // q4_1
    {5, 16, false, 32, 32},             // q5_0
    {5, 0, true, 32, 64},               // q5_1
    {4, 0, true, 256, 64 + 8 * 32},     // q4_K
    {5, 0, true, 256, 64 + 8 * 32},     // q5_K
    {6, 32, false, 256, 32 + 16 * 16},  // q6_K
};

constexpr bool IsInteger(int format) {
  return kPackedTraits[format].record_inputs != 0;
}
// Bytes of the codes of one K block of a panel (integer formats).
constexpr int CodeBytes(int format) {
  return kPackedTraits[format].code_bits * kBlockInputs * kPanelOutputs / 8;
}
// Where a panel's codes begin.
constexpr int64_t CodesOffset(int format, int64_t cols) {
  if (!IsInteger(format)) return 0;
  return (cols / kPackedTraits[format].record_inputs * kPackedTraits[format].record_bytes + 63) / 64 * 64;
}
constexpr int64_t PanelBytes(int format, int64_t cols) {
  return CodesOffset(format, cols) +
         (kPackedTraits[format].code_bits * cols * kPanelOutputs / 8 + 63) / 64 * 64;
}

inline constexpr int kTilePanels = 2;  // that a matrix unit multiplies side by side

// Bytes of one panel unpacked for a matrix unit: a byte a code, and of each block two floats an output.
constexpr int64_t OpenPanelBytes(int64_t cols) {
  return cols * kPanelOutputs + cols / kBlockInputs * 2 * kPanelOutputs * int64_t{sizeof(float)};
}

// Of the panels side by side: a tile kernel's scratch.
constexpr int64_t TileScratchBytes(int64_t cols) {
  return kTilePanels * OpenPanelBytes(cols);
}

// Activations in two parts: x = scale * (code + fine_code * kFineStep), fine_code within -127 to 127, some
// fifteen bits. The second part's codes and numbers lie as the first's do; its kAuxSum is that of both.
inline constexpr float kFineStep = 1.0f / 254.0f;

// One 32-bit number a block and row that the formula needs besides code and scale (q6_K: two, one per 16
// inputs).
enum AuxKind : int {
  kAuxSum,     // float: scale * sum of codes, multiplies the minimum
  kAuxMinus8,  // int: -8 * sum, what a dot product with codes stored plus 8 starts from
  kAuxMinus16,
  kAuxMinus128,
  kAuxMinus32Halves,  // int [2][S]: -32 * sum of each half
  kAuxKinds
};
constexpr int AuxPerBlock(int kind) {
  return kind == kAuxMinus32Halves ? 2 : 1;
}
constexpr AuxKind AuxOf(int format) {
  switch (kPackedTraits[format].code_offset) {
    case 8:
      return kAuxMinus8;
    case 16:
      return kAuxMinus16;
    case 128:
      return kAuxMinus128;
    case 32:
      return kAuxMinus32Halves;
    default:
      return kAuxSum;
  }
}

}  // namespace holdfast
