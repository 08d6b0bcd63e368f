// One block of a GGML quantised type, taken apart into codes and scales without losing a bit.
//
// The byte layouts are those of ggml-common.h of llama.cpp; docs/formats/weights.md describes them.
#pragma once

#include <cstdint>

#include "tensor/dtype.h"

namespace holdfast {

inline constexpr int kMaxBlockInputs = 256;

// value[i] = d * sub_scale * (code[i] - offset)            types without a minimum (offset: kPackedTraits)
// value[i] = d * sub_scale * code[i] + m                   q4_1, q5_1
// value[i] = d * sub_scale * code[i] - m * sub_min         q4_K, q5_K
// where sub_scale and sub_min are those of the 32 (q6_K: 16) inputs around i, and 1 for the types that have
// none.
struct DecodedBlock {
  uint8_t codes[kMaxBlockInputs];  // q8_0: stored plus 128
  uint16_t d, m;                   // f16 patterns
  uint8_t sub_scales[16];          // q6_K: int8 patterns
  uint8_t sub_mins[8];
};

// block: GetDTypeTraits(type).block_bytes bytes, any alignment. REQUIRES type is one of the block types.
void DecodeGgmlBlock(DType type, const uint8_t* block, DecodedBlock& out);

// The block's values as floats, in the same operations as ggml's own dequantisation. out [block_elements].
void DequantizeDecoded(DType type, const DecodedBlock& block, float* out);

}  // namespace holdfast
