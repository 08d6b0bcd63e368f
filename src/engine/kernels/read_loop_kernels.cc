#include "engine/read_loop.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

uint32_t Read(const std::byte* p, int64_t bytes) {
  B8x64 sum[4] = {BSet(0), BSet(0), BSet(0), BSet(0)};
  int64_t i = 0;
  for (; i + 256 <= bytes; i += 256) {
    for (int j = 0; j < 4; ++j) sum[j] = BXor(sum[j], BLoad(p + i + 64 * j));
  }
  uint8_t folded[64];
  BStore(folded, BXor(BXor(sum[0], sum[1]), BXor(sum[2], sum[3])));
  uint32_t result = 0;
  for (const uint8_t byte : folded) result ^= byte;
  for (; i < bytes; ++i) result ^= static_cast<uint32_t>(p[i]);
  return result;
}

}  // namespace

extern const ReadLoopKernels kReadLoopKernels;
const ReadLoopKernels kReadLoopKernels = {Read};

}  // namespace holdfast::HOLDFAST_ISA_NS
