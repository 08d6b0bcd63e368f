// Rows of activations as int8 blocks of 32: code = round(x * 127 / absmax), scale = absmax / 127. In two
// parts: what that rounding left, in steps of 1 / 254, as a second code.
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

// One part of a block's codes: where they and the numbers that go with them are written.
struct Part {
  explicit Part(int8_t* to, void* const* aux)
      : codes(to),
        sums(static_cast<float*>(aux[kAuxSum])),
        minus8(static_cast<int32_t*>(aux[kAuxMinus8])),
        minus16(static_cast<int32_t*>(aux[kAuxMinus16])),
        minus128(static_cast<int32_t*>(aux[kAuxMinus128])),
        halves(static_cast<int32_t*>(aux[kAuxMinus32Halves])) {}

  // Block b of `slot`, of S; returns the sum of the codes.
  int32_t Write(int64_t b, int64_t S, int64_t slot, I32x16 low, I32x16 high) const {
    const int64_t at = b * S + slot;
    StoreBytes(codes + at * kBlockInputs, low);
    StoreBytes(codes + at * kBlockInputs + 16, high);
    const auto low_sum = static_cast<int32_t>(HSum(ToF32(low)));  // exact: at most 16 * 127
    const auto high_sum = static_cast<int32_t>(HSum(ToF32(high)));
    const int32_t sum = low_sum + high_sum;
    minus8[at] = -8 * sum;
    minus16[at] = -16 * sum;
    minus128[at] = -128 * sum;
    halves[2 * b * S + slot] = -32 * low_sum;
    halves[(2 * b + 1) * S + slot] = -32 * high_sum;
    return sum;
  }

  int8_t* codes;
  float* sums;
  int32_t *minus8, *minus16, *minus128, *halves;
};

template <int parts>
void QuantizeRow(const QuantizeCall& call) {
  const int64_t S = call.slots;
  const Part coarse(call.codes, call.aux), fine(call.fine_codes, call.fine_aux);
  for (int64_t b = 0; b < call.blocks; ++b) {
    const int64_t at = b * S + call.slot;
    const F32x16 lower = Load(call.x + b * kBlockInputs), upper = Load(call.x + b * kBlockInputs + 16);
    float absmax = HMax(Max(Magnitude(lower), Magnitude(upper)));
    const bool usable = absmax >= kSmallestAbsMax && absmax < __builtin_inff();
    // Infinity minus itself: a block that is not finite makes every product NaN, never silently 0.
    if (!usable) absmax = absmax < kSmallestAbsMax ? 0.0f : absmax - absmax;
    const F32x16 inverse = Set(usable ? 127.0f / absmax : 0.0f);
    const F32x16 scaled_low = usable ? Mul(lower, inverse) : Zero();
    const F32x16 scaled_high = usable ? Mul(upper, inverse) : Zero();
    const I32x16 low = RoundToI32(scaled_low), high = RoundToI32(scaled_high);
    const float scale = absmax / 127.0f;
    call.scales[at] = scale;
    const auto sum = static_cast<float>(coarse.Write(b, S, call.slot, low, high));
    coarse.sums[at] = scale * sum;
    if constexpr (parts == 2) {
      // What rounding left, exact and at most a half.
      const F32x16 steps = Set(254.0f);
      const I32x16 fine_low = RoundToI32(Mul(Sub(scaled_low, ToF32(low)), steps));
      const I32x16 fine_high = RoundToI32(Mul(Sub(scaled_high, ToF32(high)), steps));
      const auto rest = static_cast<float>(fine.Write(b, S, call.slot, fine_low, fine_high));
      fine.sums[at] = scale * (sum + rest * kFineStep);
    }
  }
}

}  // namespace

extern const QuantizeKernels kQuantizeKernels;
const QuantizeKernels kQuantizeKernels = {&QuantizeRow<1>, &QuantizeRow<2>};

}  // namespace holdfast::HOLDFAST_ISA_NS
