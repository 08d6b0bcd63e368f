// Every codec, once. Adding one: its line here, src/codec/<name>.cc and src/codec/kernels/<name>_kernels.cc.
// The enumerators and names are public (include/holdfast/cache_config.h takes them from here by value).
//
// HOLDFAST_CODECS(X): X(enumerator, name as written on a command line, symbol)
#pragma once

#define HOLDFAST_CODECS(X)        \
  X(kF32, "f32", F32)             \
  X(kF16, "f16", F16)             \
  X(kBf16, "bf16", Bf16)          \
  X(kInt8, "int8", Int8)          \
  X(kAffine8, "affine8", Affine8) \
  X(kAffine6, "affine6", Affine6) \
  X(kAffine4, "affine4", Affine4) \
  X(kQ8_0, "q8_0", Q8_0)          \
  X(kQ4_0, "q4_0", Q4_0)          \
  X(kAura8, "aura8", Aura8)       \
  X(kAura6, "aura6", Aura6)       \
  X(kAura4, "aura4", Aura4)       \
  X(kAura3, "aura3", Aura3)       \
  X(kAura2, "aura2", Aura2)
