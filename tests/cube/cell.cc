#include "cell.h"

namespace holdfast::cube {

std::vector<Cell> AllCells() {
  std::vector<Cell> cells;
  for (const LayoutId layout : AllLayouts()) {
    for (const StorageId storage : AllStorages()) {
      for (const CodecId k : AllCodecs()) {
        for (const CodecId v : AllCodecs()) cells.push_back({layout, k, v, storage, Shape::kSplit});
        cells.push_back({layout, k, k, storage, Shape::kLatent});
      }
    }
  }
  return cells;
}

std::string CellName(const Cell& cell) {
  std::string name(LayoutName(cell.layout));
  name += "_" + std::string(CodecName(cell.k_codec)) + "_" + std::string(CodecName(cell.v_codec));
  name += "_" + std::string(StorageName(cell.storage));
  return name + (cell.shape == Shape::kLatent ? "_latent" : "_split");
}

}  // namespace holdfast::cube
