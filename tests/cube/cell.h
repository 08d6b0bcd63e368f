// A cell of the cube, made from the lists: a new list line makes its cells.
#pragma once

#include <string>
#include <vector>

#include "holdfast/cache_config.h"

namespace holdfast::cube {

enum class Shape { kSplit, kLatent };  // K and V apart; one row whose prefix is V

enum class Transform { kNone, kRotated, kCentred, kRotatedAndCentred };
inline bool Rotates(Transform t) {
  return t == Transform::kRotated || t == Transform::kRotatedAndCentred;
}
inline bool Centres(Transform t) {
  return t == Transform::kCentred || t == Transform::kRotatedAndCentred;
}

struct Cell {
  LayoutId layout;
  CodecId k_codec;
  CodecId v_codec;  // = k_codec for a latent row
  StorageId storage;
  Shape shape;
  Transform transform = Transform::kNone;  // of K and V; of integer codecs only
  bool protects = false;                   // sinks and recent rows in f32 and f16 beside an integer codec
};

std::vector<Cell> AllCells();

// "window_int8_f16_paged_split", "full_int8_int8_paged_latent_rotated_centred"
std::string CellName(const Cell& cell);

}  // namespace holdfast::cube
