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
  float At(int candidate) const {
    return low + (high - low) * static_cast<float>(candidate) / static_cast<float>(kAuraCandidates - 1);
  }
};
constexpr Range kValueRange[kBitWidths] = {{0.36f, 0.80f}, {0.55f, 0.99f}, {0.78f, 1.08f}};
constexpr Range kKeyRange[kBitWidths] = {{0.51f, 0.84f}, {0.64f, 1.07f}, {0.81f, 1.09f}};

// The code that a half byte means in look-up table `which` (AuraTable::key).
int CodeOf(int bits, int which, int half_byte) {
  if (bits == 4) return half_byte;
  const int upper = half_byte >> (which == 0 ? 0 : 2) & 3;
  if (bits == 2) return upper;
  return upper << 1 | (half_byte >> (which == 0 ? 2 : 1) & 1);
}

void FillBytes(float end, uint8_t* four) {
  std::fill_n(four, 4, static_cast<uint8_t>(std::clamp(end, 0.0f, 255.0f)));
}

void SetValueLevels(int bits, int dim, AuraTable* table) {
  const IntegerCodebook book = RoundToLevels(LloydMax(bits, dim), dim);
  const int levels = std::min(book.levels, kMostAuraLevels);
  for (int i = 0; i < levels; ++i) {
    const int level = book.level[i];
    table->magnitude[i] = static_cast<uint8_t>(level);
    table->value_level[levels + i] = static_cast<int8_t>(level);
    table->value_level[levels - 1 - i] = static_cast<int8_t>(-level);
    if (i + 1 < levels) table->value_end[i] = 0.5f * static_cast<float>(level + book.level[i + 1]);
  }
  for (int c = 0; c < kAuraCandidates; ++c) {
    table->value_scale[c] =
        kValueRange[bits - kFewestBits].At(c) / static_cast<float>(book.level[levels - 1]);
    for (int i = 0; i + 1 < levels; ++i) {
      FillBytes(table->value_end[i] * table->value_scale[c] * static_cast<float>(kAuraByteRange),
                table->value_byte_end[c][i]);
    }
  }
}

void SetKeyLevels(int bits, int dim, AuraTable* table) {
  const TurnedCodebook book = TurnedLloydMax(bits, dim);
  const int levels = std::min(book.levels, 2 * kMostAuraLevels);
  for (int i = 0; i < levels; ++i) {
    table->key_level[i] = static_cast<int8_t>(book.level[i]);
    table->key_unit[i] = static_cast<float>(book.level[i]);
    if (i + 1 < levels) table->key_end[i] = 0.5f * static_cast<float>(book.level[i] + book.level[i + 1]);
  }
  for (int c = 0; c < kAuraCandidates; ++c) {
    table->key_scale[c] = kKeyRange[bits - kFewestBits].At(c) / static_cast<float>(book.level[levels - 1]);
    for (int i = 0; i + 1 < levels; ++i) {
      const float end = table->key_end[i] * table->key_scale[c] * static_cast<float>(kAuraKeyByteRange);
      FillBytes(end + static_cast<float>(kAuraKeyBias), table->key_byte_end[c][i]);
    }
  }
}

std::unique_ptr<AuraTable> MakeTable(int bits, int dim) {
  auto table = std::make_unique<AuraTable>();
  *table = {};
  SetValueLevels(bits, dim, table.get());
  SetKeyLevels(bits, dim, table.get());
  for (int which = 0; which < 2; ++which) {
    for (int half_byte = 0; half_byte < 16; ++half_byte) {
      const int code = CodeOf(bits, which, half_byte);
      table->key[which][half_byte] = static_cast<uint8_t>(kAuraKeyBias + table->key_level[code]);
      table->value[which][half_byte] = table->value_level[code];
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
