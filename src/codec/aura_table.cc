#include "codec/aura_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>

#include "codec/aura_shape.h"
#include "codec/codebook.h"
#include "codec/codec_kernels.h"

namespace holdfast {
namespace {

constexpr int kFewestBits = 2;
constexpr int kBitWidths = 3;

// Where the best scale of a Gaussian row lies, by bits: nearly all of them, for 64 to 256 dims.
struct Range {
  float low;
  float high;
};
constexpr Range kScaleRange[kBitWidths] = {{0.36f, 0.80f}, {0.55f, 0.99f}, {0.78f, 1.08f}};

// The code that a half byte means in look-up table `which` (AuraTable::key).
int CodeOf(int bits, int which, int half_byte) {
  if (bits == 4) return half_byte;
  const int upper = half_byte >> (which == 0 ? 0 : 2) & 3;
  if (bits == 2) return upper;
  return upper << 1 | (half_byte >> (which == 0 ? 2 : 1) & 1);
}

std::unique_ptr<AuraTable> MakeTable(int bits, int dim) {
  auto table = std::make_unique<AuraTable>();
  *table = {};
  const IntegerCodebook book = RoundToLevels(LloydMax(bits, dim), dim);
  const int levels = std::min(book.levels, kMostAuraLevels);
  table->levels = levels;
  for (int i = 0; i < levels; ++i) {
    const int level = book.level[i];
    table->magnitude[i] = static_cast<uint8_t>(level);
    table->level[levels + i] = static_cast<int8_t>(level);
    table->level[levels - 1 - i] = static_cast<int8_t>(-level);
    if (i + 1 < levels) table->end[i] = 0.5f * static_cast<float>(level + book.level[i + 1]);
  }
  for (int which = 0; which < 2; ++which) {
    for (int half_byte = 0; half_byte < 16; ++half_byte) {
      const int8_t level = table->level[CodeOf(bits, which, half_byte)];
      table->key[which][half_byte] = static_cast<uint8_t>(kAuraKeyBias + level);
      table->value[which][half_byte] = level;
    }
  }
  const Range range = kScaleRange[bits - kFewestBits];
  const auto top = static_cast<float>(table->magnitude[levels - 1]);
  for (int j = 0; j < kAuraCandidates; ++j) {
    const float part = static_cast<float>(j) / static_cast<float>(kAuraCandidates - 1);
    table->scale[j] = (range.low + (range.high - range.low) * part) / top;
    for (int i = 0; i + 1 < levels; ++i) {
      const float end = table->end[i] * table->scale[j] * static_cast<float>(kAuraByteRange);
      std::ranges::fill(table->byte_end[j][i],
                        static_cast<uint8_t>(std::min(end, static_cast<float>(kAuraByteRange))));
    }
  }
  return table;
}

}  // namespace

const AuraTable& AuraTableOf(int bits, int dim) {
  using Tables = std::array<std::array<std::atomic<const AuraTable*>, kMaxDim + 1>, kBitWidths>;
  constinit static Tables tables = {};
  std::atomic<const AuraTable*>& place =
      tables[static_cast<size_t>(bits - kFewestBits)][static_cast<size_t>(dim)];
  const AuraTable* table = place.load(std::memory_order_acquire);
  if (table != nullptr) return *table;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  table = place.load(std::memory_order_relaxed);
  if (table == nullptr) {
    table = MakeTable(bits, dim).release();  // kept for good
    place.store(table, std::memory_order_release);
  }
  return *table;
}

}  // namespace holdfast
