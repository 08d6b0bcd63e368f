// Every operation of vec.h behind a function pointer, so that vec_test can run each instruction set's. Tests
// only.
#pragma once

#include <cstdint>

#include "simd/isa.h"

namespace holdfast {

// Operands and results are arrays of 16 floats, 16 int32 or 64 bytes.
struct VecTestKernels {
  using Unary = void(const float* a, float* out);
  using Binary = void(const float* a, const float* b, float* out);
  using IntBinary = void(const int32_t* a, const int32_t* b, int32_t* out);
  using ByteUnary = void(const uint8_t* a, uint8_t* out);
  using ByteBinary = void(const uint8_t* a, const uint8_t* b, uint8_t* out);
  using ByteTernary = void(const uint8_t* a, const uint8_t* b, const uint8_t* c, uint8_t* out);
  using Dot = void(const int32_t* acc, const uint8_t* u, const uint8_t* s, int32_t* out);

  Unary* copy;
  void (*zero)(float* out);
  void (*set)(float x, float* out);
  void (*load_f16)(const uint16_t* p, float* out);
  void (*load_bf16)(const uint16_t* p, float* out);
  void (*store_f16)(const float* a, uint16_t* out);
  void (*store_bf16)(const float* a, uint16_t* out);
  Binary *add, *sub, *mul, *div, *max, *min;
  Unary *sqrt, *abs, *neg;
  void (*fma)(const float* a, const float* b, const float* c, float* out);
  void (*load_first)(const float* p, int n, float* out);
  void (*store_first)(const float* a, int n, float* p);
  void (*select_less)(const float* a, const float* b, const float* x, const float* y, float* out);
  float (*hsum)(const float* a);
  float (*hmax)(const float* a);
  void (*hmax_each)(const float* v, float* out);  // v: 8 vectors
  void (*hsum_each)(const float* v, float* out);
  Unary* butterfly[4];  // by log2 of the distance

  void (*izero)(int32_t* out);
  void (*iset)(int32_t x, int32_t* out);
  IntBinary *iadd, *isub, *imul;
  void (*store_bytes)(const int32_t* a, uint8_t* out);
  IntBinary *iand, *ior;
  void (*shift_right5)(const int32_t* a, int32_t* out);
  void (*pack_levels)(const int32_t* abcd, uint8_t* out);
  void (*pack_levels16)(const int32_t* abcd, uint8_t* upper, uint8_t* lower);
  void (*to_f32)(const int32_t* a, float* out);
  void (*round_to_i32)(const float* a, int32_t* out);
  Unary* fraction;
  void (*exponent2)(const int32_t* a, float* out);
  void (*scaled_from)(float low, const float* x, const float* a, const float* n, float* out);
  void (*load_u8)(const uint8_t* p, float* out);
  void (*load_i8)(const uint8_t* p, float* out);

  ByteUnary* bcopy;
  ByteUnary* broadcast4;
  ByteUnary* broadcast16;
  ByteBinary* lookup16;
  void (*bset)(uint8_t x, uint8_t* out);
  ByteBinary *band, *bor, *bxor, *badd, *bsub, *bmin, *bsub_sat;
  ByteTernary *bselect, *count_greater;
  ByteUnary *low4, *high4;
  ByteUnary* shift_right[8];  // by index; none by 0
  ByteUnary* shift_left[8];
  ByteUnary* loose_shift_right[8];
  ByteUnary* loose_shift_left[8];
  Dot *dot_u8i8, *dot_u7i8;

  Unary *exp2, *exp, *sigmoid, *silu, *tanh, *gelu_tanh;
};

HOLDFAST_DECLARE_KERNELS(VecTestKernels, kVecTestKernels)

}  // namespace holdfast
