// Products of packed integer weights with int8 activations by AMX: sixteen rows by sixteen outputs of exact
// integer dots an instruction; of input in two parts, two of them. What is added to a row's sum in floats, and in which order, is what
// integer_panels.h adds, so the bits are those of one row alone.
//
// What limits it is the float work between blocks: a block's dots leave the tile through memory and are scaled
// there, and neither overlaps with the tiles' own loads, products and stores. So dots and floats take turns: the tiles of
// a few blocks are all computed, then read back by eight rows and two panels at a time, whose sixteen sums fill
// half of the registers and share each row's scale. q6_K, with a scale for every 16 inputs, is slower so than
// by vectors: it has no kernel here.
#include "ops/kernels/integer_formats.h"
#include "ops/kernels/matmul_kernels.h"
#include "ops/kernels/panel_output.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

constexpr int kPair = kTilePanels;
constexpr int kHalfRows = 8;                       // rows whose sums are in registers together
constexpr int kDots = kGroupRows * kPanelOutputs;  // of a tile
// Blocks whose dots wait in memory, 8 KiB of them. Measured: with 2, 3, 6 and 8 tiles and floats lose more to each other
// where they meet.
constexpr int kBlocksAhead = 4;

// palette 1: tiles 0 to 3 take dots, 4 and 5 activations, 6 and 7 weights.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  constexpr TileConfig() {
    for (int i = 0; i < 8; ++i) {
      row_bytes[i] = i == 4 || i == 5 ? kBlockInputs : 64;
      rows[i] = i < 6 ? kGroupRows : kBlockInputs / 4;
    }
  }
};
static_assert(sizeof(TileConfig) == 64);

// One panel, unpacked: [blocks][32 / 4][16][4] signed codes, then of each block the scales and the minima, if
// any, of sixteen outputs.
struct OpenPanel {
  int8_t* codes;
  float* scales;

  OpenPanel(std::byte* memory, int64_t blocks)
      : codes(reinterpret_cast<int8_t*>(memory)),
        scales(reinterpret_cast<float*>(memory + blocks * kBlockInputs * kPanelOutputs)) {}
};

template <int format>
void Open(const uint8_t* records, const uint8_t* codes, int64_t blocks, OpenPanel to) {
  const B8x64 offset = BSet(static_cast<uint8_t>(kPackedTraits[format].code_offset));
  for (int64_t b = 0; b < blocks; ++b) {
    for (int i = 0; i < CodeBytes(format); i += 64) Prefetch(codes + kAhead + i);
    B8x64 w[8];
    UnpackCodes<kPackedTraits[format].code_bits>(codes, w);
#pragma GCC unroll 8
    for (int q = 0; q < 8; ++q) BStore(to.codes + 64 * q, BSub(w[q], offset));
    const BlockScales s = LoadScales<format>(records, b);
    Store(to.scales, s.scale);
    if constexpr (kPackedTraits[format].has_min) Store(to.scales + kPanelOutputs, s.minimum);
    codes += CodeBytes(format);
    to.codes += kBlockInputs * kPanelOutputs;
    to.scales += 2 * kPanelOutputs;
  }
}

// Sums of eight rows of both panels: [panel][row][16].
struct alignas(64) Sums {
  float at[kPair * kHalfRows * kPanelOutputs];
};

// Where the sums of a group and a pair of panels go: 16 rows by 32 outputs that lie side by side.
struct OutputTile {
  OutputTile(const PanelCall& c, int64_t first_row, int64_t first_panel)
      : call(c),
        row(first_row),
        panel(first_panel),
        rows(c.rows - first_row < kGroupRows ? c.rows - first_row : kGroupRows),
        panels(c.panels - first_panel < kPair ? c.panels - first_panel : kPair),
        last_outputs(first_panel + panels == c.panels ? c.last_outputs : kPanelOutputs) {}

  bool whole() const { return rows == kGroupRows && panels == kPair && last_outputs == kPanelOutputs; }
  float* at(int64_t r) const { return call.out + (row + r) * call.out_stride + panel * kPanelOutputs; }

  // Far apart and, of a wide product, in no near cache: asked for while the dots are computed.
  void Ask() const {
    const int64_t second = panels == kPair ? kPanelOutputs : 0;
    for (int64_t r = 0; r < rows; ++r) {
      __builtin_prefetch(at(r), 1);
      __builtin_prefetch(at(r) + second, 1);
    }
  }

  // Rows [kHalfRows * half, kHalfRows * (half + 1)) of a whole tile: as StoreOutputs, with nothing left to decide for each.
  __attribute__((always_inline)) void WriteHalf(int half, F32x16 (&sums)[kPair * kHalfRows]) const {
    if (call.bias != nullptr) {
#pragma GCC unroll 2
      for (int p = 0; p < kPair; ++p) {
        const F32x16 bias = Load(call.bias + (panel + p) * kPanelOutputs);
#pragma GCC unroll 8
        for (int r = 0; r < kHalfRows; ++r) sums[p * kHalfRows + r] = Add(sums[p * kHalfRows + r], bias);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kHalfRows; ++r) {
      float* out = at(half * kHalfRows + r);
#pragma GCC unroll 2
      for (int p = 0; p < kPair; ++p) {
        F32x16 sum = sums[p * kHalfRows + r];
        if (call.accumulate) sum = Add(Load(out + p * kPanelOutputs), sum);
        Store(out + p * kPanelOutputs, sum);
      }
    }
  }

  // What there is of a tile that is not whole.
  void Write(const Sums (&sums)[2]) const {
    for (int64_t p = 0; p < panels; ++p) {
      const int n = p + 1 == panels ? last_outputs : kPanelOutputs;
      for (int64_t r = 0; r < rows; ++r) {
        const float* sum = sums[r / kHalfRows].at + (p * kHalfRows + r % kHalfRows) * kPanelOutputs;
        StoreOutputs(call, Load(sum), row + r, (panel + p) * kPanelOutputs, n);
      }
    }
  }

  const PanelCall& call;
  int64_t row, panel, rows, panels;
  int last_outputs;
};

// What a chunk of blocks adds to the sums of eight rows, the formula of AddBlock in integer_panels.h.
// dots: of the first block, [panel][row][16], the panels kDots apart and the blocks kPair * kDots.
struct HalfCall {
  const int32_t* dots;
  const int32_t* fine_dots;    // likewise, of the second part; with input in two parts only
  const float* scales[kPair];  // of the first block
  const float* row_scales;     // [blocks][16], of the first row
  const float* row_sums;       // likewise; with a minimum only
  int64_t blocks;
};

// half: of the group's rows. The sums stay in memory for the next chunk, or, after the last one of a whole tile, go `to` the
// output. known: call.blocks where the compiler is to know it, else 0. A loop that short costs more to leave than to write
// out.
template <int format, int parts, int known>
HF_INLINE void AddHalf(const HalfCall& call, bool first, int half, const OutputTile* to, Sums& sums) {
  constexpr bool kHasMin = kPackedTraits[format].has_min;
  F32x16 acc[kPair * kHalfRows];
#pragma GCC unroll 16
  for (int i = 0; i < kPair * kHalfRows; ++i) acc[i] = first ? Zero() : Load(sums.at + kPanelOutputs * i);
  const int32_t *dots = call.dots, *fine_dots = call.fine_dots;
  const int64_t blocks = known > 0 ? known : call.blocks;
#pragma GCC unroll kBlocksAhead
  for (int64_t b = 0; b < blocks; ++b) {
    F32x16 scale[kPair], minimum[kPair], minus_shift[kPair];
#pragma GCC unroll 2
    for (int p = 0; p < kPair; ++p) {
      const float* s = call.scales[p] + 2 * kPanelOutputs * b;
      scale[p] = Load(s);
      minimum[p] = kHasMin ? Load(s + kPanelOutputs) : Zero();
      minus_shift[p] = Mul(scale[p], Set(-kDotShift));
    }
#pragma GCC unroll 8
    for (int r = 0; r < kHalfRows; ++r) {
      const F32x16 row_scale = Set(call.row_scales[kGroupRows * b + r]);
      const F32x16 row_sum = kHasMin ? Set(call.row_sums[kGroupRows * b + r]) : Zero();
#pragma GCC unroll 2
      for (int p = 0; p < kPair; ++p) {
        F32x16& sum = acc[p * kHalfRows + r];
        const int at = p * kDots + kPanelOutputs * r;
        const I32x16 dot = ILoad(dots + at);
        F32x16 scaled;
        if constexpr (parts == 1) {
          // Tiles could start from it, but loading it costs more than adding it.
          const F32x16 shifted{_mm512_castsi512_ps(Bits(IAdd(dot, ISet(kDotShiftBits))))};
          scaled = Fma(shifted, scale[p], minus_shift[p]);
        } else {
          scaled = Mul(Fma(ToF32(ILoad(fine_dots + at)), Set(kFineStep), ToF32(dot)), scale[p]);
        }
        sum = Fma(scaled, row_scale, sum);
        if constexpr (kHasMin) sum = Fma(minimum[p], row_sum, sum);
      }
    }
    dots += kPair * kDots;
    if constexpr (parts == 2) fine_dots += kPair * kDots;
  }
  if (to != nullptr) return to->WriteHalf(half, acc);
#pragma GCC unroll 16
  for (int i = 0; i < kPair * kHalfRows; ++i) Store(sums.at + kPanelOutputs * i, acc[i]);
}

// The dots of `blocks` blocks of a group with both panels, into dots [block][panel][16][16]. Four tiles take
// turns, and a product is stored three products later: a store right behind its product waits for it, and what
// follows waits for the store (140 cycles for four products, 85 so). Float additions between them would not help:
// the two do not overlap.
void Multiply(const int8_t* rows, const int8_t* first_panel, const int8_t* second_panel, int64_t blocks,
              int32_t* dots) {
  asm volatile("" ::: "memory");  // gcc's tile loads do not say that they read what was stored before
#define HF_STORE(tile, product) _tile_stored(tile, dots + (product)*kDots, 64)
// before, between: the tiles of the products 2b - 3 and 2b - 2.
#define HF_BLOCK(b, dots0, dots1, inputs, before, between)                   \
  {                                                                          \
    _tile_zero(dots0);                                                       \
    _tile_loadd(inputs, rows + (b)*kGroupRows * kBlockInputs, kBlockInputs); \
    _tile_loadd(6, first_panel + (b)*kBlockInputs * kPanelOutputs, 64);      \
    _tile_dpbssd(dots0, inputs, 6);                                          \
    if ((b) > 1) HF_STORE(before, kPair*(b)-3);                              \
    _tile_zero(dots1);                                                       \
    _tile_loadd(7, second_panel + (b)*kBlockInputs * kPanelOutputs, 64);     \
    _tile_dpbssd(dots1, inputs, 7);                                          \
    if ((b) > 0) HF_STORE(between, kPair*(b)-2);                             \
  }
  int64_t b = 0;
  for (; b + 2 <= blocks; b += 2) {
    HF_BLOCK(b, 0, 1, 4, 1, 2)
    HF_BLOCK(b + 1, 2, 3, 5, 3, 0)
  }
  if (b < blocks) {
    HF_BLOCK(b, 0, 1, 4, 1, 2)
    if (b > 0) HF_STORE(3, kPair * b - 1);
    HF_STORE(0, kPair * b);
    HF_STORE(1, kPair * b + 1);
  } else {
    HF_STORE(1, kPair * b - 3);
    HF_STORE(2, kPair * b - 2);
    HF_STORE(3, kPair * b - 1);
  }
#undef HF_BLOCK
#undef HF_STORE
}

// One group of sixteen rows with a pair of panels.
template <int format, int parts>
void RunGroup(const PanelCall& call, int64_t group, const OpenPanel (&panel)[kPair], const OutputTile& out) {
  constexpr bool kHasMin = kPackedTraits[format].has_min;
  const int64_t blocks = call.cols / kBlockInputs;
  const int64_t first = group * kGroupRows * call.cols;
  const int64_t cells = group * kGroupRows * blocks;
  const auto* row_sums = static_cast<const float*>(parts == 1 ? call.aux : call.fine_aux);
  alignas(64) int32_t dots[parts][kBlocksAhead * kPair * kDots];
  Sums sums[2];
  for (int64_t b = 0; b < blocks; b += kBlocksAhead) {
    const int64_t n = blocks - b < kBlocksAhead ? blocks - b : kBlocksAhead;
    const int64_t at = b * kBlockInputs * kPanelOutputs;
    const int64_t from = first + b * kGroupRows * kBlockInputs;
    Multiply(call.codes + from, panel[0].codes + at, panel[1].codes + at, n, dots[0]);
    if constexpr (parts == 2) {
      Multiply(call.fine_codes + from, panel[0].codes + at, panel[1].codes + at, n, dots[1]);
    }
    const OutputTile* to = b + n == blocks && out.whole() ? &out : nullptr;
    for (int half = 0; half < 2; ++half) {
      const int64_t row = cells + b * kGroupRows + half * kHalfRows;
      constexpr int64_t kHalf = kHalfRows * kPanelOutputs;
      HalfCall part{
          .dots = dots[0] + half * kHalf,
          .fine_dots = parts == 2 ? dots[parts - 1] + half * kHalf : nullptr,
          .scales = {panel[0].scales + 2 * kPanelOutputs * b, panel[1].scales + 2 * kPanelOutputs * b},
          .row_scales = call.scales + row,
          .row_sums = kHasMin ? row_sums + row : nullptr,
          .blocks = n};
      n == kBlocksAhead ? AddHalf<format, parts, kBlocksAhead>(part, b == 0, half, to, sums[half])
                        : AddHalf<format, parts, 0>(part, b == 0, half, to, sums[half]);
    }
  }
  if (!out.whole()) out.Write(sums);
}

template <int format, int parts>
void RunTiles(const PanelCall& call, std::byte* scratch) {
  const int64_t blocks = call.cols / kBlockInputs;
  constexpr static TileConfig kConfig;
  _tile_loadconfig(&kConfig);
  const OpenPanel open[kPair] = {OpenPanel(scratch, blocks),
                                 OpenPanel(scratch + OpenPanelBytes(call.cols), blocks)};
  for (int64_t panel = 0; panel < call.panels; panel += kPair) {
    // An odd last one has itself for company.
    for (int p = 0; p < kPair; ++p) {
      const int64_t own = panel + p < call.panels ? panel + p : panel;
      const uint8_t* records = call.weights + own * call.panel_bytes;
      Open<format>(records, records + call.codes_offset, blocks, open[p]);
    }
    for (int64_t group = 0; group * kGroupRows < call.rows; ++group) {
      const OutputTile out(call, group * kGroupRows, panel);
      out.Ask();
      RunGroup<format, parts>(call, group, open, out);
    }
  }
  _tile_release();
}

}  // namespace

#define HF_TILE_KERNELS(parts)                                                                       \
  {                                                                                                  \
    nullptr, nullptr, nullptr, &RunTiles<kPackedQ8_0, parts>, &RunTiles<kPackedQ4_0, parts>,         \
        &RunTiles<kPackedQ4_1, parts>, &RunTiles<kPackedQ5_0, parts>, &RunTiles<kPackedQ5_1, parts>, \
        &RunTiles<kPackedQ4_K, parts>, &RunTiles<kPackedQ5_K, parts>, nullptr                        \
  }
extern const TileKernels kTileKernels;
const TileKernels kTileKernels = {{HF_TILE_KERNELS(1), HF_TILE_KERNELS(2)}};
#undef HF_TILE_KERNELS

}  // namespace holdfast::HOLDFAST_ISA_NS
