#include "tokenizer/piece_table.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace holdfast {
namespace {

uint32_t HashOf(std::string_view text) {
  const uint64_t h = std::hash<std::string_view>{}(text);
  return static_cast<uint32_t>(h ^ (h >> 32));
}

}  // namespace

size_t PieceTable::Locate(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id < 0) return i;
    if (slot.hash == hash && pieces_[static_cast<size_t>(slot.id)] == text) return i;
  }
}

Result<PieceTable> PieceTable::Build(std::span<const std::string> pieces) {
  PieceTable table;
  table.pieces_ = pieces;
  table.slots_.resize(std::bit_ceil(pieces.size() * 2 + 1));
  for (size_t id = 0; id < pieces.size(); ++id) {
    const uint32_t hash = HashOf(pieces[id]);
    Slot& slot = table.slots_[table.Locate(pieces[id], hash)];
    if (slot.id >= 0) {
      return DataLoss("tokenizer: piece " + std::to_string(id) + " repeats the text of piece " +
                      std::to_string(slot.id));
    }
    slot = {hash, static_cast<int32_t>(id)};
    table.longest_bytes_ = std::max(table.longest_bytes_, pieces[id].size());
  }
  return table;
}

int32_t PieceTable::Find(std::string_view text) const {
  if (text.size() > longest_bytes_) return -1;
  return slots_[Locate(text, HashOf(text))].id;
}

}  // namespace holdfast
