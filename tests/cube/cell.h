// A cell of the cube, made from the lists: a new list line makes its cells.
#pragma once

#include <string>
#include <vector>

#include "holdfast/cache_config.h"

namespace holdfast::cube {

enum class Shape { kSplit, kLatent };  // K and V apart; one row whose prefix is V

struct Cell {
  LayoutId layout;
  CodecId k_codec;
  CodecId v_codec;  // = k_codec for a latent row
  StorageId storage;
  Shape shape;
};

std::vector<Cell> AllCells();

// "window_int8_f16_paged_split"
std::string CellName(const Cell& cell);

}  // namespace holdfast::cube
