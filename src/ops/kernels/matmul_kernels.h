// The tables that the product kernels of each instruction set export.
#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/packed_layout.h"

namespace holdfast {

// out[r][o] for all rows of one activation group (of a TileKernel: of several) and `panels` consecutive panels of outputs.
struct PanelCall {
  const uint8_t* weights = nullptr;  // first panel
  int64_t panel_bytes = 0;
  int64_t codes_offset = 0;
  int64_t cols = 0;
  int64_t panels = 0;
  int last_outputs = kPanelOutputs;  // outputs of the last panel, 1..16
  const int8_t* codes = nullptr;     // the group's, integer formats
  const float* scales = nullptr;
  const void* aux = nullptr;
  const int8_t* fine_codes = nullptr;  // products in two parts; laid out as codes and aux are
  const void* fine_aux = nullptr;
  const float* floats = nullptr;  // [cols][S], float formats
  int64_t rows = 0;               // that exist; of one group at most S
  float* out = nullptr;           // row 0, output 0 of the first panel
  int64_t out_stride = 0;
  const float* bias = nullptr;  // output 0 of the first panel, or null
  bool accumulate = false;
  bool ask_ahead = false;  // the weights are not in a near cache: ask for those further on
};
using PanelKernel = void (*)(const PanelCall&);

// For input in one part, and, as a table of its own, in two.
struct IntegerKernels {
  PanelKernel run[kPackedFormats][kSlotCounts];  // null for float formats
};
// Of a matrix unit: any number of groups of sixteen slots that follow each other, call.rows rows of them in all.
// scratch: TileScratchBytes(cols), 64-byte aligned.
using TileKernel = void (*)(const PanelCall&, std::byte* scratch);
struct TileKernels {
  TileKernel run
      [2]
      [kPackedFormats];  // for input in one part and in two; null where vectors are as fast or the format is a float one
};
struct FloatKernels {
  PanelKernel run[kPackedQ8_0][kSlotCounts];  // f32, f16, bf16
};

// One group of activations: x[rows][blocks * 32], `stride` floats apart, of which slots from `rows` on repeat the last
// row: their results are never stored, only finite work.
struct QuantizeCall {
  const float* x = nullptr;
  int64_t rows = 0, stride = 0;
  int64_t blocks = 0;
  int slots = 0;
  int8_t* codes = nullptr;
  float* scales = nullptr;
  void* aux[kAuxKinds] = {};     // null where not wanted
  int8_t* fine_codes = nullptr;  // written by quantize_group_in_two_parts only
  void* fine_aux[kAuxKinds] = {};

  // Leaves block b alone; x is the caller's to move.
  void NarrowTo(int64_t b) {
    const int64_t cells = b * slots;
    blocks = 1;
    codes += cells * kBlockInputs;
    scales += cells;
    if (fine_codes != nullptr) fine_codes += cells * kBlockInputs;
    for (int kind = 0; kind < kAuxKinds; ++kind) {
      const int64_t offset = cells * 4 * AuxPerBlock(kind);
      if (aux[kind] != nullptr) aux[kind] = static_cast<std::byte*>(aux[kind]) + offset;
      if (fine_aux[kind] != nullptr) fine_aux[kind] = static_cast<std::byte*>(fine_aux[kind]) + offset;
    }
  }
};
struct QuantizeKernels {
  void (*quantize_group)(const QuantizeCall&);
  void (*quantize_group_in_two_parts)(const QuantizeCall&);
};

}  // namespace holdfast
