#include "tensor/dtype.h"

#include <cassert>
#include <iterator>

namespace holdfast {
namespace {

// By DType value. Block sizes: ggml-common.h of llama.cpp, where every one has a static_assert of its own.
constexpr DTypeTraits kTraits[] = {
    {"f32", 1, 4},
    {"f16", 1, 2},
    {"bf16", 1, 2},
    {"q8_0", 32, 2 + 32},                  // f16 scale, 32 int8
    {"q4_0", 32, 2 + 16},                  // f16 scale, 32 nibbles
    {"q4_1", 32, 2 + 2 + 16},              // f16 scale and minimum, 32 nibbles
    {"q5_0", 32, 2 + 4 + 16},              // f16 scale, 32 fifth bits, 32 nibbles
    {"q5_1", 32, 2 + 2 + 4 + 16},          // f16 scale and minimum, 32 fifth bits, 32 nibbles
    {"q4_K", 256, 2 + 2 + 12 + 128},       // two f16, 8 six-bit scales and minima, nibbles
    {"q5_K", 256, 2 + 2 + 12 + 32 + 128},  // as q4_K, with fifth bits
    {"q6_K", 256, 128 + 64 + 16 + 2},      // low nibbles, high pairs of bits, 16 int8 scales, f16
};
static_assert(std::size(kTraits) == static_cast<size_t>(DType::kQ6_K) + 1);

}  // namespace

const DTypeTraits& GetDTypeTraits(DType type) {
  return kTraits[static_cast<size_t>(type)];
}

int64_t RowBytesOf(DType type, int64_t elements) {
  const DTypeTraits& traits = GetDTypeTraits(type);
  assert(elements % traits.block_elements == 0);
  return elements / traits.block_elements * traits.block_bytes;
}

}  // namespace holdfast
