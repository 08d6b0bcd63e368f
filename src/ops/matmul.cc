#include "ops/matmul.h"

#include <algorithm>
#include <cassert>

#include "base/checked.h"
#include "ops/kernels/elementwise_kernels.h"
#include "ops/matmul_state.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(IntegerKernels, kIntegerKernels)
HOLDFAST_DECLARE_KERNELS(IntegerKernels, kTwoPartKernels)
HOLDFAST_DECLARE_KERNELS(FloatKernels, kFloatKernels)
HOLDFAST_DECLARE_KERNELS(QuantizeKernels, kQuantizeKernels)
HOLDFAST_DECLARE_KERNELS(ElementwiseKernels, kElementwiseKernels)
HOLDFAST_DECLARE_TILE_KERNELS(TileKernels, kTileKernels)

namespace {

// Activations of one task stay in the second-level cache while weights stream past them.
constexpr int64_t kRowBlockBytes = int64_t{512} << 10;
// Weights of one task of a small call: long enough to pay for handing it out, short enough to share out
// evenly.
constexpr int64_t kLeastTaskBytes = int64_t{16} << 10;
constexpr int64_t kTasksPerThread = 8;
// Full groups from which on a matrix unit earns what unpacking the weights for it costs.
constexpr int64_t kLeastTiledGroups = 2;
// Groups of a task at least where there are tiles: wide rows leave the second-level cache rather than have weights
// unpacked for a few.
constexpr int64_t kTiledGroups = 4;

struct Kernels {
  const IntegerKernels& integer;
  const IntegerKernels& two_part;
  const FloatKernels& floating;
  const TileKernels* tiles;  // or null

  PanelKernel For(int format, bool two_parts, int slots) const {
    const int i = __builtin_ctz(static_cast<unsigned>(slots));
    if (!IsInteger(format)) return floating.run[format][i];
    return two_parts ? two_part.run[format][i] : integer.run[format][i];
  }
  // Null where tiles do not apply.
  TileKernel TilesFor(int format, bool two_parts) const {
    return tiles == nullptr ? nullptr : tiles->run[two_parts ? 1 : 0][format];
  }
};

// How one product is cut: tasks are (row block, run of panels).
struct Cut {
  int64_t first_task = 0;
  int64_t panels_per_task = 1;
  int64_t panel_runs = 1;
};

struct Plan {
  const Activations::State& x;
  Kernels kernels;
  int64_t groups_per_block = 1;
  std::byte* open_panels = nullptr;  // where tiles are used

  // The call for outputs from first_panel on; which rows and how many panels are left to be said.
  PanelCall CallFor(const Product& product, int64_t first_panel) const {
    const PackedMatrix::State& w = product.weight->state();
    PanelCall call;
    call.weights = w.panel(first_panel);
    call.panel_bytes = w.panel_bytes;
    call.codes_offset = CodesOffset(w.format, w.cols);
    call.cols = w.cols;
    call.out_stride = product.out_stride;
    call.accumulate = product.accumulate;
    call.bias = product.bias == nullptr ? nullptr : product.bias + first_panel * kPanelOutputs;
    return call;
  }

  static int LastOutputs(const PackedMatrix::State& w, int64_t last_panel) {
    return static_cast<int>(std::min<int64_t>(kPanelOutputs, w.rows - (last_panel - 1) * kPanelOutputs));
  }

  // Outputs [first_panel, last_panel) for the groups of one row block. out: the first of them, of the block's first row.
  void Run(const Product& product, int64_t first_panel, int64_t last_panel, int64_t row_block, float* out,
           int thread) const {
    const PackedMatrix::State& w = product.weight->state();
    const int64_t first_group = row_block * groups_per_block;
    int64_t from = first_group;  // that tiles leave to the vectors
    const int64_t last_group = std::min(x.groups(), first_group + groups_per_block);
    const TileKernel tiles = kernels.TilesFor(w.format, product.two_parts);
    const bool last_is_full = SlotsOf(x.rows, (last_group - 1) * kGroupRows) == kGroupRows;
    const int64_t full = last_is_full ? last_group : last_group - 1;
    if (tiles != nullptr && full - first_group >= kLeastTiledGroups) {
      PanelCall call = CallFor(product, first_panel);
      x.DescribeGroup(first_group, w.format, call);
      call.rows = std::min(x.rows, full * kGroupRows) - first_group * kGroupRows;
      call.panels = last_panel - first_panel;
      call.last_outputs = LastOutputs(w, last_panel);
      call.out = out;
      tiles(call, open_panels + thread * TileScratchBytes(w.cols));
      from = full;
    }
    if (from == last_group) return;
    out += (from - first_group) * kGroupRows * product.out_stride;
    RunGroups(product, first_panel, last_panel, from, last_group, out);
  }

  // A panel stays in the first-level cache while the groups pass.
  void RunGroups(const Product& product, int64_t first_panel, int64_t last_panel, int64_t first_group,
                 int64_t last_group, float* out) const {
    const PackedMatrix::State& w = product.weight->state();
    const int64_t step = last_group - first_group == 1 ? last_panel - first_panel : int64_t{1};
    for (int64_t panel = first_panel; panel < last_panel; panel += step) {
      PanelCall call = CallFor(product, panel);
      call.panels = step;
      call.last_outputs = LastOutputs(w, panel + step);
      for (int64_t g = first_group; g < last_group; ++g) {
        x.DescribeGroup(g, w.format, call);
        call.ask_ahead = g == first_group;
        call.out =
            out + (g - first_group) * kGroupRows * product.out_stride + (panel - first_panel) * kPanelOutputs;
        kernels.For(w.format, product.two_parts, SlotsOf(x.rows, g * kGroupRows))(call);
      }
    }
  }
};

Plan PlanFor(Activations::State& x, bool integer, bool floating, Isa isa, ThreadPool& pool) {
  const Kernels kernels{
      HOLDFAST_SELECT_KERNELS(isa, kIntegerKernels), HOLDFAST_SELECT_KERNELS(isa, kTwoPartKernels),
      HOLDFAST_SELECT_KERNELS(isa, kFloatKernels), HOLDFAST_SELECT_TILE_KERNELS(isa, kTileKernels)};
  const int64_t group_bytes = kGroupRows * x.cols * (floating ? int64_t{sizeof(float)} : int64_t{1});
  const int64_t groups_per_block =
      std::max<int64_t>(kernels.tiles == nullptr ? 1 : kTiledGroups, kRowBlockBytes / group_bytes);
  const bool tiled = kernels.tiles != nullptr && integer && x.groups() >= kLeastTiledGroups;
  return Plan{x, kernels, groups_per_block, tiled ? x.OpenPanels(pool.threads()) : nullptr};
}

constexpr size_t kMaxProducts = 16;

void RunProducts(const Plan& plan, std::span<const Product> products, ThreadPool& pool) {
  const int64_t row_blocks = CeilDiv(plan.x.groups(), plan.groups_per_block);
  int64_t bytes = 0;
  for (const Product& p : products) bytes += p.weight->bytes();
  const int64_t wanted = std::max<int64_t>(1, CeilDiv(pool.threads() * kTasksPerThread, row_blocks));
  const int64_t least = kLeastTaskBytes / std::min<int64_t>(kGroupRows, plan.x.rows);
  const int64_t task_bytes = std::max(least, bytes / wanted);
  Cut cuts[kMaxProducts];
  int64_t tasks = 0;
  for (size_t i = 0; i < products.size(); ++i) {
    const PackedMatrix::State& w = products[i].weight->state();
    cuts[i].first_task = tasks;
    cuts[i].panels_per_task = std::clamp<int64_t>(task_bytes / w.panel_bytes, 1, w.panels);
    if (plan.open_panels != nullptr)
      cuts[i].panels_per_task = RoundUp(cuts[i].panels_per_task, int64_t{kTilePanels});
    cuts[i].panel_runs = CeilDiv(w.panels, cuts[i].panels_per_task);
    tasks += cuts[i].panel_runs * row_blocks;
  }
  const auto run = [&](int64_t task, int thread) {
    size_t i = products.size() - 1;
    while (task < cuts[i].first_task) --i;
    const Cut& cut = cuts[i];
    const int64_t t = task - cut.first_task;
    const int64_t first = t % cut.panel_runs * cut.panels_per_task;
    const int64_t last = std::min(products[i].weight->state().panels, first + cut.panels_per_task);
    const Product& product = products[i];
    const int64_t row_block = t / cut.panel_runs;
    float* out = product.out + row_block * plan.groups_per_block * kGroupRows * product.out_stride +
                 first * kPanelOutputs;
    plan.Run(product, first, last, row_block, out, thread);
  };
  if (tasks == 1) return run(0, 0);
  pool.ParallelFor(tasks, run);
}

}  // namespace

void MatMul(Activations& activations, std::span<const Product> products, Isa isa, ThreadPool& pool) {
  Activations::State& x = activations.state();
  if (x.rows == 0 || products.empty()) return;
  int parts = 0;
  unsigned aux_kinds = 0;
  bool floating = false;
  for (const Product& p : products) {
    assert(p.weight->cols() == x.cols);
    if (p.weight->integer_activations()) {
      parts = std::max(parts, p.two_parts ? 2 : 1);
      aux_kinds |= 1U << AuxOf(p.weight->state().format);
    } else {
      floating = true;
    }
  }
  if (parts > 0) x.Quantize(parts, aux_kinds, isa, pool);
  if (floating) x.GroupFloats(pool);
  const Plan plan = PlanFor(x, parts > 0, floating, isa, pool);
  for (size_t at = 0; at < products.size(); at += kMaxProducts) {
    const size_t n = std::min(kMaxProducts, products.size() - at);
    RunProducts(plan, products.subspan(at, n), pool);
  }
}

namespace {

// Fewer rows wait for the weights alone, which come faster in longer runs.
constexpr int64_t kLeastGatedRows = 5;

// K blocks of the hidden rows, one after the other: the floats of a row block pass through a thread's scratch.
struct GatedTask {
  const Plan& plan;
  const Product& gate;
  const Product& up;
  void (*activate)(float* gate, const float* up, int64_t dim);
  void (*quantize)(const QuantizeCall&);
  const Activations::State& hidden;
  float* scratch;  // [threads][2][rows of a row block][32]
  int64_t block_rows;

  void Run(int64_t block, int64_t row_block, int thread) const {
    float* gated = scratch + thread * 2 * block_rows * kBlockInputs;
    float* other = gated + block_rows * kBlockInputs;
    constexpr int64_t kPanels = kBlockInputs / kPanelOutputs;
    plan.Run(gate, block * kPanels, (block + 1) * kPanels, row_block, gated, thread);
    plan.Run(up, block * kPanels, (block + 1) * kPanels, row_block, other, thread);
    const int64_t first = row_block * plan.groups_per_block;
    const int64_t last = std::min(hidden.groups(), first + plan.groups_per_block);
    activate(gated, other, (std::min(hidden.rows, last * kGroupRows) - first * kGroupRows) * kBlockInputs);
    for (int64_t g = first; g < last; ++g) {
      QuantizeCall call = hidden.GroupCall(g);
      call.x = gated + (g - first) * kGroupRows * kBlockInputs;
      call.stride = kBlockInputs;
      call.NarrowTo(block);
      quantize(call);
    }
  }
};

}  // namespace

void GatedMatMul(Activations& activations, const Product& gate, const Product& up, Activation f,
                 const PackedMatrix& next, Activations& hidden, Isa isa, ThreadPool& pool) {
  Activations::State& x = activations.state();
  Activations::State& to = hidden.state();
  const int64_t width = gate.weight->rows();
  assert(up.weight->rows() == width && next.cols() == width && gate.out_stride == up.out_stride);
  assert(gate.weight->cols() == x.cols && up.weight->cols() == x.cols && &activations != &hidden);
  assert(!gate.two_parts && !up.two_parts && !gate.accumulate && !up.accumulate);
  const bool fused = x.rows >= kLeastGatedRows && gate.weight->integer_activations() &&
                     up.weight->integer_activations() && next.integer_activations();
  if (!fused) {
    const Product both[] = {gate, up};
    MatMul(activations, both, isa, pool);
    GatedActivation(f, gate.out, up.out, x.rows, width, gate.out_stride, isa, pool);
    hidden.Set(gate.out, x.rows, width, gate.out_stride);
    return;
  }
  x.Quantize(1, 1U << AuxOf(gate.weight->state().format) | 1U << AuxOf(up.weight->state().format), isa, pool);
  hidden.Set(nullptr, x.rows, width, 0);
  to.ReserveCodes(1, 1U << AuxOf(next.state().format));
  const Plan plan = PlanFor(x, true, false, isa, pool);
  const int64_t block_rows = std::min(plan.groups_per_block, x.groups()) * kGroupRows;
  Product gated = gate, other = up;
  gated.out_stride = other.out_stride = kBlockInputs;
  const ElementwiseKernels& elementwise = HOLDFAST_SELECT_KERNELS(isa, kElementwiseKernels);
  const GatedTask task{plan,
                       gated,
                       other,
                       f == Activation::kSilu ? elementwise.gated_silu : elementwise.gated_gelu_tanh,
                       HOLDFAST_SELECT_KERNELS(isa, kQuantizeKernels).quantize_group,
                       to,
                       to.FloatScratch(pool.threads() * 2 * block_rows * kBlockInputs),
                       block_rows};
  // Blocks that follow each other are one task, so that the weights which a thread asks for ahead are its own.
  const int64_t blocks = width / kBlockInputs, row_blocks = CeilDiv(x.groups(), plan.groups_per_block);
  const int64_t run = std::max<int64_t>(1, blocks * row_blocks / (pool.threads() * kTasksPerThread));
  const int64_t runs = CeilDiv(blocks, run);
  pool.ParallelFor(runs * row_blocks, [&](int64_t t, int thread) {
    const int64_t first = t % runs * run;
    for (int64_t b = first; b < std::min(blocks, first + run); ++b) task.Run(b, t / runs, thread);
  });
}

}  // namespace holdfast
