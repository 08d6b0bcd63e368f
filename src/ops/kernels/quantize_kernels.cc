// Rows of activations as int8 blocks of 32: code = round(x * 127 / absmax), scale = absmax / 127.
#include "ops/kernels/matmul_kernels.h"
#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

// Below this 127 / absmax overflows; such a block is zero to any product with 8-bit activations.
constexpr float kSmallestAbsMax = 1e-36f;

// |x|, and infinity for what is no number, which a maximum would lose.
HF_INLINE F32x16 Magnitude(F32x16 x) {
  const F32x16 infinity = Set(__builtin_inff()), magnitude = Abs(x);
  return SelectLess(magnitude, infinity, magnitude, infinity);
}

void QuantizeRow(const QuantizeCall& call) {
  const int64_t S = call.slots;
  auto* const sums = static_cast<float*>(call.aux[kAuxSum]);
  auto* const minus8 = static_cast<int32_t*>(call.aux[kAuxMinus8]);
  auto* const minus16 = static_cast<int32_t*>(call.aux[kAuxMinus16]);
  auto* const minus128 = static_cast<int32_t*>(call.aux[kAuxMinus128]);
  auto* const halves = static_cast<int32_t*>(call.aux[kAuxMinus32Halves]);
  for (int64_t b = 0; b < call.blocks; ++b) {
    const int64_t at = b * S + call.slot;
    const F32x16 lower = Load(call.x + b * kBlockInputs), upper = Load(call.x + b * kBlockInputs + 16);
    float absmax = HMax(Max(Magnitude(lower), Magnitude(upper)));
    const bool usable = absmax >= kSmallestAbsMax && absmax < __builtin_inff();
    // Infinity minus itself: a block that is not finite makes every product NaN, never silently 0.
    if (!usable) absmax = absmax < kSmallestAbsMax ? 0.0f : absmax - absmax;
    I32x16 low = IZero(), high = IZero();
    if (usable) {
      const F32x16 inverse = Set(127.0f / absmax);
      low = RoundToI32(Mul(lower, inverse));
      high = RoundToI32(Mul(upper, inverse));
    }
    StoreBytes(call.codes + at * kBlockInputs, low);
    StoreBytes(call.codes + at * kBlockInputs + 16, high);
    const float scale = absmax / 127.0f;
    const auto low_sum = static_cast<int32_t>(HSum(ToF32(low)));  // exact: at most 16 * 127
    const auto high_sum = static_cast<int32_t>(HSum(ToF32(high)));
    const int32_t sum = low_sum + high_sum;
    call.scales[at] = scale;
    sums[at] = scale * static_cast<float>(sum);
    minus8[at] = -8 * sum;
    minus16[at] = -16 * sum;
    minus128[at] = -128 * sum;
    halves[2 * b * S + call.slot] = -32 * low_sum;
    halves[(2 * b + 1) * S + call.slot] = -32 * high_sum;
  }
}

}  // namespace

extern const QuantizeKernels kQuantizeKernels;
const QuantizeKernels kQuantizeKernels = {&QuantizeRow};

}  // namespace holdfast::HOLDFAST_ISA_NS
