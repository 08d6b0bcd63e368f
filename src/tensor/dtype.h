// Element types of weights as files store them, and their block geometry.
#pragma once

#include <cstdint>
#include <string_view>

namespace holdfast {

// The GGML block formats keep GGML's names; their bytes are described in docs/formats/weights.md.
enum class DType : uint8_t { kF32, kF16, kBf16, kQ8_0, kQ4_0, kQ4_1, kQ5_0, kQ5_1, kQ4_K, kQ5_K, kQ6_K };

struct DTypeTraits {
  std::string_view name;
  int block_elements;  // consecutive elements of a row that share one block; a row is whole blocks
  int block_bytes;
};
const DTypeTraits& GetDTypeTraits(DType type);

// Bytes of one row of `elements` values. REQUIRES elements a multiple of block_elements.
int64_t RowBytesOf(DType type, int64_t elements);

}  // namespace holdfast
