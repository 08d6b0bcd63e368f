#include "cell.h"

#include "codec/codec.h"

namespace holdfast::cube {

namespace {

// What an integer codec is combined with.
void AddTransformed(LayoutId layout, StorageId storage, CodecId codec, std::vector<Cell>& cells) {
  if (!GetCodec(codec).integer_dots) return;
  for (const Transform transform :
       {Transform::kRotated, Transform::kCentred, Transform::kRotatedAndCentred}) {
    for (const Shape shape : {Shape::kSplit, Shape::kLatent}) {
      cells.push_back({layout, codec, codec, storage, shape, transform});
    }
  }
  for (const Shape shape : {Shape::kSplit, Shape::kLatent}) {
    cells.push_back({layout, codec, codec, storage, shape, Transform::kNone, true});
    cells.push_back({layout, codec, codec, storage, shape, Transform::kRotatedAndCentred, true});
  }
}

}  // namespace

std::vector<Cell> AllCells() {
  std::vector<Cell> cells;
  for (const LayoutId layout : AllLayouts()) {
    for (const StorageId storage : AllStorages()) {
      for (const CodecId k : AllCodecs()) {
        for (const CodecId v : AllCodecs()) cells.push_back({layout, k, v, storage, Shape::kSplit});
        cells.push_back({layout, k, k, storage, Shape::kLatent});
        AddTransformed(layout, storage, k, cells);
      }
    }
  }
  return cells;
}

std::string CellName(const Cell& cell) {
  std::string name(LayoutName(cell.layout));
  name += "_" + std::string(CodecName(cell.k_codec)) + "_" + std::string(CodecName(cell.v_codec));
  name += "_" + std::string(StorageName(cell.storage));
  name += cell.shape == Shape::kLatent ? "_latent" : "_split";
  name += cell.protects ? "_protected" : "";
  return name + (Rotates(cell.transform) ? "_rotated" : "") + (Centres(cell.transform) ? "_centred" : "");
}

}  // namespace holdfast::cube
