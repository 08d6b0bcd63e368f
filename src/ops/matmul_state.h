// What PackedMatrix and Activations hold, for the files that implement products. Not for other modules.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/arena.h"
#include "ops/kernels/matmul_kernels.h"
#include "ops/matmul.h"
#include "ops/packed_layout.h"

namespace holdfast {

struct PackedMatrix::State {
  State() = default;
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  DType type = DType::kF32;  // the file's
  int format = kPackedF32;   // of the packed bytes; kPackedF32 where dequantised
  int64_t rows = 0, cols = 0;
  int64_t panels = 0, panel_bytes = 0;
  std::shared_ptr<Arena> arena;
  std::byte* data = nullptr;
  int64_t bytes = 0;

  const uint8_t* panel(int64_t p) const { return reinterpret_cast<const uint8_t*>(data) + p * panel_bytes; }
};

// Slots of the group that starts at row `first` of `rows`: the smallest kernel that takes the rows that are
// left.
int SlotsOf(int64_t rows, int64_t first);

struct Activations::State {
  const float* x = nullptr;  // null where the rows came quantised
  int64_t rows = 0, cols = 0, stride = 0;
  int parts = 0;           // in which x is quantised: 0 = not yet
  unsigned aux_kinds = 0;  // of which the numbers are there, a bit each
  bool grouped = false;
  std::vector<std::byte> memory;        // scales, then each part's codes and aux
  std::vector<std::byte> float_memory;  // floats regrouped, or scratch of FloatScratch
  std::vector<std::byte> tile_memory;   // two unpacked panels a thread

  int64_t slots = 0;  // over all groups
  int64_t blocks = 0;
  float* scales = nullptr;
  struct Part {
    int8_t* codes = nullptr;
    void* aux[kAuxKinds] = {};
  };
  Part part[2];  // coarse, fine
  const float* floats = nullptr;

  int64_t groups() const { return (rows + kGroupRows - 1) / kGroupRows; }
  // Prepare what integer products with input in `wanted_parts` (1 or 2) and with the aux numbers of the kinds in
  // `wanted_aux` (a bit each) read, and what float products read. Once per Set unless more is wanted; the first part
  // is the same bits whatever is wanted.
  void Quantize(int wanted_parts, unsigned wanted_aux, Isa isa, ThreadPool& pool);
  // Room for rows that are quantised in `in_parts` elsewhere, block by block, with the numbers of `kinds`.
  void ReserveCodes(int in_parts, unsigned kinds);
  // Where the codes of group g go; its x is the caller's to say. REQUIRES room.
  QuantizeCall GroupCall(int64_t g) const;
  void GroupFloats(ThreadPool& pool);
  // Scratch of a matrix unit for each of `threads`, thread t's at t * TileScratchBytes(cols). Valid until the
  // next call.
  std::byte* OpenPanels(int threads);
  // `floats` of them, uninitialised. Valid until the next call and the next GroupFloats.
  float* FloatScratch(int64_t floats);
  // Fills the part of a call that names group g.
  void DescribeGroup(int64_t g, int format, PanelCall& call) const;
};

}  // namespace holdfast
