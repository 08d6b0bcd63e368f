#include "ops/matmul.h"

#include <algorithm>
#include <cassert>

#include "base/checked.h"
#include "ops/matmul_state.h"

namespace holdfast {

HOLDFAST_DECLARE_KERNELS(IntegerKernels, kIntegerKernels)
HOLDFAST_DECLARE_KERNELS(IntegerKernels, kTwoPartKernels)
HOLDFAST_DECLARE_KERNELS(FloatKernels, kFloatKernels)

namespace {

// Activations of one task stay in the second-level cache while weights stream past them.
constexpr int64_t kRowBlockBytes = int64_t{512} << 10;
// Weights of one task of a small call: long enough to pay for handing it out, short enough to share out
// evenly.
constexpr int64_t kLeastTaskBytes = int64_t{16} << 10;
constexpr int64_t kTasksPerThread = 8;

struct Kernels {
  const IntegerKernels& integer;
  const IntegerKernels& two_part;
  const FloatKernels& floating;

  PanelKernel For(int format, bool two_parts, int slots) const {
    const int i = __builtin_ctz(static_cast<unsigned>(slots));
    if (!IsInteger(format)) return floating.run[format][i];
    return two_parts ? two_part.run[format][i] : integer.run[format][i];
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
  std::span<const Product> products;
  Kernels kernels;
  int64_t groups_per_block = 1;

  // Outputs [first_panel, last_panel) for the groups of one row block. A panel stays in the first-level cache
  // while the groups pass.
  void Run(const Product& product, int64_t first_panel, int64_t last_panel, int64_t row_block) const {
    const PackedMatrix::State& w = product.weight->state();
    const int64_t first_group = row_block * groups_per_block;
    const int64_t last_group = std::min(x.groups(), first_group + groups_per_block);
    PanelCall call;
    call.panel_bytes = w.panel_bytes;
    call.codes_offset = CodesOffset(w.format, w.cols);
    call.cols = w.cols;
    call.out_stride = product.out_stride;
    call.accumulate = product.accumulate;
    const int64_t step = last_group - first_group == 1 ? last_panel - first_panel : int64_t{1};
    for (int64_t panel = first_panel; panel < last_panel; panel += step) {
      const int64_t output = panel * kPanelOutputs;
      call.weights = w.panel(panel);
      call.panels = step;
      call.last_outputs =
          static_cast<int>(std::min<int64_t>(kPanelOutputs, w.rows - (panel + step - 1) * kPanelOutputs));
      call.bias = product.bias == nullptr ? nullptr : product.bias + output;
      for (int64_t g = first_group; g < last_group; ++g) {
        x.DescribeGroup(g, w.format, call);
        call.ask_ahead = g == first_group;
        call.out = product.out + g * kGroupRows * product.out_stride + output;
        kernels.For(w.format, product.two_parts, SlotsOf(x.rows, g * kGroupRows))(call);
      }
    }
  }
};

constexpr size_t kMaxProducts = 16;

void RunProducts(const Plan& plan, ThreadPool& pool) {
  const int64_t row_blocks = CeilDiv(plan.x.groups(), plan.groups_per_block);
  int64_t bytes = 0;
  for (const Product& p : plan.products) bytes += p.weight->bytes();
  const int64_t wanted = std::max<int64_t>(1, CeilDiv(pool.threads() * kTasksPerThread, row_blocks));
  const int64_t least = kLeastTaskBytes / std::min<int64_t>(kGroupRows, plan.x.rows);
  const int64_t task_bytes = std::max(least, bytes / wanted);
  Cut cuts[kMaxProducts];
  int64_t tasks = 0;
  for (size_t i = 0; i < plan.products.size(); ++i) {
    const PackedMatrix::State& w = plan.products[i].weight->state();
    cuts[i].first_task = tasks;
    cuts[i].panels_per_task = std::clamp<int64_t>(task_bytes / w.panel_bytes, 1, w.panels);
    cuts[i].panel_runs = CeilDiv(w.panels, cuts[i].panels_per_task);
    tasks += cuts[i].panel_runs * row_blocks;
  }
  const auto run = [&](int64_t task, int) {
    size_t i = plan.products.size() - 1;
    while (task < cuts[i].first_task) --i;
    const Cut& cut = cuts[i];
    const int64_t t = task - cut.first_task;
    const int64_t first = t % cut.panel_runs * cut.panels_per_task;
    const int64_t last = std::min(plan.products[i].weight->state().panels, first + cut.panels_per_task);
    plan.Run(plan.products[i], first, last, t / cut.panel_runs);
  };
  if (tasks == 1) return run(0, 0);
  pool.ParallelFor(tasks, run);
}

}  // namespace

void MatMul(Activations& activations, std::span<const Product> products, Isa isa, ThreadPool& pool) {
  Activations::State& x = activations.state();
  if (x.rows == 0 || products.empty()) return;
  int parts = 0;
  bool floating = false;
  for (const Product& p : products) {
    assert(p.weight->cols() == x.cols);
    if (p.weight->integer_activations()) {
      parts = std::max(parts, p.two_parts ? 2 : 1);
    } else {
      floating = true;
    }
  }
  if (parts > 0) x.Quantize(parts, isa, pool);
  if (floating) x.GroupFloats(pool);
  const Kernels kernels{HOLDFAST_SELECT_KERNELS(isa, kIntegerKernels),
                        HOLDFAST_SELECT_KERNELS(isa, kTwoPartKernels),
                        HOLDFAST_SELECT_KERNELS(isa, kFloatKernels)};
  const int64_t group_bytes = kGroupRows * x.cols * (floating ? int64_t{sizeof(float)} : int64_t{1});
  const int64_t groups_per_block = std::max<int64_t>(1, kRowBlockBytes / group_bytes);
  for (size_t at = 0; at < products.size(); at += kMaxProducts) {
    const size_t n = std::min(kMaxProducts, products.size() - at);
    RunProducts(Plan{x, products.subspan(at, n), kernels, groups_per_block}, pool);
  }
}

}  // namespace holdfast
