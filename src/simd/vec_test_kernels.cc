#include "simd/vec_test_kernels.h"

#include "simd/vec.h"

namespace holdfast::HOLDFAST_ISA_NS {
namespace {

template <F32x16 (*kOp)(F32x16)>
void Unary(const float* a, float* out) {
  Store(out, kOp(Load(a)));
}
template <F32x16 (*kOp)(F32x16, F32x16)>
void Binary(const float* a, const float* b, float* out) {
  Store(out, kOp(Load(a), Load(b)));
}
template <I32x16 (*kOp)(I32x16, I32x16)>
void IntBinary(const int32_t* a, const int32_t* b, int32_t* out) {
  IStore(out, kOp(ILoad(a), ILoad(b)));
}
template <B8x64 (*kOp)(B8x64)>
void ByteUnary(const uint8_t* a, uint8_t* out) {
  BStore(out, kOp(BLoad(a)));
}
template <B8x64 (*kOp)(B8x64, B8x64)>
void ByteBinary(const uint8_t* a, const uint8_t* b, uint8_t* out) {
  BStore(out, kOp(BLoad(a), BLoad(b)));
}
template <B8x64 (*kOp)(B8x64, B8x64, B8x64)>
void ByteTernary(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* out) {
  BStore(out, kOp(BLoad(a), BLoad(b), BLoad(c)));
}
template <I32x16 (*kOp)(I32x16, B8x64, B8x64)>
void Dot(const int32_t* acc, const uint8_t* u, const uint8_t* s, int32_t* out) {
  IStore(out, kOp(ILoad(acc), BLoad(u), BLoad(s)));
}

void Copy(const float* a, float* out) {
  Prefetch(a);
  Store(out, Load(a));
}
void ZeroTo(float* out) {
  Store(out, Zero());
}
void SetTo(float x, float* out) {
  Store(out, Set(x));
}
void FromF16(const uint16_t* p, float* out) {
  Store(out, LoadF16(p));
}
void FromBf16(const uint16_t* p, float* out) {
  Store(out, LoadBf16(p));
}
void ToF16(const float* a, uint16_t* out) {
  StoreF16(out, Load(a));
}
void ToBf16(const float* a, uint16_t* out) {
  StoreBf16(out, Load(a));
}
void FmaTo(const float* a, const float* b, const float* c, float* out) {
  Store(out, Fma(Load(a), Load(b), Load(c)));
}
void FromFirst(const float* p, int n, float* out) {
  Store(out, LoadFirst(p, n));
}
void ToFirst(const float* a, int n, float* p) {
  StoreFirst(p, Load(a), n);
}
void Select(const float* a, const float* b, const float* x, const float* y, float* out) {
  Store(out, SelectLess(Load(a), Load(b), Load(x), Load(y)));
}
float Sum(const float* a) {
  return HSum(Load(a));
}
float Largest(const float* a) {
  return HMax(Load(a));
}
void LargestOfEach(const float* v, float* out) {
  const F32x16 vectors[8] = {Load(v),      Load(v + 16), Load(v + 32), Load(v + 48),
                             Load(v + 64), Load(v + 80), Load(v + 96), Load(v + 112)};
  Store(out, HMaxEach(vectors));
}
void SumOfEach(const float* v, float* out) {
  const F32x16 vectors[8] = {Load(v),      Load(v + 16), Load(v + 32), Load(v + 48),
                             Load(v + 64), Load(v + 80), Load(v + 96), Load(v + 112)};
  Store(out, HSumEach(vectors));
}
void Scaled(float low, const float* x, const float* a, const float* n, float* out) {
  Store(out, ScaledFrom(Set(low), Load(x), Load(a), Load(n)));
}
void IZeroTo(int32_t* out) {
  IStore(out, IZero());
}
void ISetTo(int32_t x, int32_t* out) {
  IStore(out, ISet(x));
}
void LowBytes(const int32_t* a, uint8_t* out) {
  StoreBytes(out, ILoad(a));
}
void ShiftRight5(const int32_t* a, int32_t* out) {
  IStore(out, IShiftRight<5>(ILoad(a)));
}
void Levels(const int32_t* v, uint8_t* out) {
  BStore(out, PackLevels(ILoad(v), ILoad(v + 16), ILoad(v + 32), ILoad(v + 48)));
}
void Levels16(const int32_t* v, uint8_t* upper, uint8_t* lower) {
  B8x64 u, l;
  PackLevels16(ILoad(v), ILoad(v + 16), ILoad(v + 32), ILoad(v + 48), &u, &l);
  BStore(upper, u);
  BStore(lower, l);
}
void IntToFloat(const int32_t* a, float* out) {
  Store(out, ToF32(ILoad(a)));
}
void FloatToInt(const float* a, int32_t* out) {
  IStore(out, RoundToI32(Load(a)));
}
void PowerOfTwo(const int32_t* a, float* out) {
  Store(out, Exponent2(ILoad(a)));
}
void FromU8(const uint8_t* p, float* out) {
  Store(out, LoadU8AsF32(p));
}
void FromI8(const uint8_t* p, float* out) {
  Store(out, LoadI8AsF32(p));
}
void ByteCopy(const uint8_t* a, uint8_t* out) {
  BStore(out, BLoad(a));
}
void Broadcast4(const uint8_t* a, uint8_t* out) {
  BStore(out, BBroadcast4(a));
}
void Broadcast16(const uint8_t* a, uint8_t* out) {
  BStore(out, BBroadcast16(a));
}
void BSetTo(uint8_t x, uint8_t* out) {
  BStore(out, BSet(x));
}

}  // namespace

extern const VecTestKernels kVecTestKernels;
const VecTestKernels kVecTestKernels = {
    .copy = Copy,
    .zero = ZeroTo,
    .set = SetTo,
    .load_f16 = FromF16,
    .load_bf16 = FromBf16,
    .store_f16 = ToF16,
    .store_bf16 = ToBf16,
    .add = Binary<Add>,
    .sub = Binary<Sub>,
    .mul = Binary<Mul>,
    .div = Binary<Div>,
    .max = Binary<Max>,
    .min = Binary<Min>,
    .sqrt = Unary<Sqrt>,
    .abs = Unary<Abs>,
    .neg = Unary<Neg>,
    .fma = FmaTo,
    .load_first = FromFirst,
    .store_first = ToFirst,
    .select_less = Select,
    .hsum = Sum,
    .hmax = Largest,
    .hmax_each = LargestOfEach,
    .hsum_each = SumOfEach,
    .butterfly = {Unary<Butterfly<1>>, Unary<Butterfly<2>>, Unary<Butterfly<4>>, Unary<Butterfly<8>>},
    .izero = IZeroTo,
    .iset = ISetTo,
    .iadd = IntBinary<IAdd>,
    .isub = IntBinary<ISub>,
    .imul = IntBinary<IMul>,
    .store_bytes = LowBytes,
    .iand = IntBinary<IAnd>,
    .ior = IntBinary<IOr>,
    .shift_right5 = ShiftRight5,
    .pack_levels = Levels,
    .pack_levels16 = Levels16,
    .to_f32 = IntToFloat,
    .round_to_i32 = FloatToInt,
    .fraction = Unary<Fraction>,
    .exponent2 = PowerOfTwo,
    .scaled_from = Scaled,
    .load_u8 = FromU8,
    .load_i8 = FromI8,
    .bcopy = ByteCopy,
    .broadcast4 = Broadcast4,
    .broadcast16 = Broadcast16,
    .lookup16 = ByteBinary<BLookup16>,
    .bset = BSetTo,
    .band = ByteBinary<BAnd>,
    .bor = ByteBinary<BOr>,
    .bxor = ByteBinary<BXor>,
    .badd = ByteBinary<BAdd>,
    .bsub = ByteBinary<BSub>,
    .bmin = ByteBinary<BMin>,
    .bsub_sat = ByteBinary<BSubSat>,
    .bselect = ByteTernary<BSelect>,
    .count_greater = ByteTernary<BCountGreater>,
    .low4 = ByteUnary<BLow4>,
    .high4 = ByteUnary<BHigh4>,
    .shift_right = {nullptr, ByteUnary<BShiftRight<1>>, ByteUnary<BShiftRight<2>>, ByteUnary<BShiftRight<3>>,
                    ByteUnary<BShiftRight<4>>, ByteUnary<BShiftRight<5>>, ByteUnary<BShiftRight<6>>,
                    ByteUnary<BShiftRight<7>>},
    .shift_left = {nullptr, ByteUnary<BShiftLeft<1>>, ByteUnary<BShiftLeft<2>>, ByteUnary<BShiftLeft<3>>,
                   ByteUnary<BShiftLeft<4>>, ByteUnary<BShiftLeft<5>>, ByteUnary<BShiftLeft<6>>,
                   ByteUnary<BShiftLeft<7>>},
    .loose_shift_right = {nullptr, ByteUnary<BLooseShiftRight<1>>, ByteUnary<BLooseShiftRight<2>>,
                          ByteUnary<BLooseShiftRight<3>>, ByteUnary<BLooseShiftRight<4>>,
                          ByteUnary<BLooseShiftRight<5>>, ByteUnary<BLooseShiftRight<6>>,
                          ByteUnary<BLooseShiftRight<7>>},
    .loose_shift_left = {nullptr, ByteUnary<BLooseShiftLeft<1>>, ByteUnary<BLooseShiftLeft<2>>,
                         ByteUnary<BLooseShiftLeft<3>>, ByteUnary<BLooseShiftLeft<4>>,
                         ByteUnary<BLooseShiftLeft<5>>, ByteUnary<BLooseShiftLeft<6>>,
                         ByteUnary<BLooseShiftLeft<7>>},
    .dot_u8i8 = Dot<DotU8I8>,
    .dot_u7i8 = Dot<DotU7I8>,
    .exp2 = Unary<Exp2>,
    .exp = Unary<Exp>,
    .sigmoid = Unary<Sigmoid>,
    .silu = Unary<Silu>,
    .tanh = Unary<Tanh>,
    .gelu_tanh = Unary<GeluTanh>,
};

}  // namespace holdfast::HOLDFAST_ISA_NS
