// Which instruction set the kernels use: the strongest this processor has, or a weaker one by request.
#pragma once

#include <string_view>
#include <vector>

#include "holdfast/status.h"

namespace holdfast {

// Tiers, weakest first within an architecture. kAvx512 includes VNNI. kAmx is kAvx512 with int8 tiles for products
// of many rows; it has no other kernels of its own.
enum class Isa { kScalar, kAvx2, kAvx512, kAmx, kNeon };

std::string_view IsaName(Isa isa);

// Tiers that were compiled in and that this processor (and its operating system) can run, weakest first.
std::vector<Isa> SupportedIsas();

// Those of them whose vector kernels are their own: without kAmx.
std::vector<Isa> VectorIsas();

// The tier kernels run on: the strongest supported, unless HOLDFAST_FORCE_ISA (scalar, avx2, avx512, amx,
// neon) names another. A name that is unknown or that this processor lacks is an error of CheckForcedIsa, which
// whatever a user starts with calls (Engine::Load, KvRuntime::Create, the benchmarks); ActiveIsa ignores it.
Isa ActiveIsa();
Status CheckForcedIsa();

}  // namespace holdfast

// A per-ISA TU defines `extern const Table kName;` inside namespace holdfast::HOLDFAST_ISA_NS. These
// lists are the only places that name every tier: HOLDFAST_DECLARE_KERNELS declares the tables,
// HOLDFAST_SELECT_KERNELS picks the one for `isa`.
#if defined(__x86_64__)
#define HOLDFAST_DECLARE_KERNELS(Table, name) \
  namespace scalar {                          \
  extern const Table name;                    \
  }                                           \
  namespace avx2 {                            \
  extern const Table name;                    \
  }                                           \
  namespace avx512 {                          \
  extern const Table name;                    \
  }
#define HOLDFAST_SELECT_KERNELS(isa, name)                                                        \
  ((isa) == ::holdfast::Isa::kAvx512 || (isa) == ::holdfast::Isa::kAmx ? ::holdfast::avx512::name \
   : (isa) == ::holdfast::Isa::kAvx2                                   ? ::holdfast::avx2::name   \
                                                                       : ::holdfast::scalar::name)
// A table of tile kernels, and a pointer to it or null where `isa` has no tiles.
#define HOLDFAST_DECLARE_TILE_KERNELS(Table, name) \
  namespace amx {                                  \
  extern const Table name;                         \
  }
#define HOLDFAST_SELECT_TILE_KERNELS(isa, name) \
  ((isa) == ::holdfast::Isa::kAmx ? &::holdfast::amx::name : nullptr)
#elif defined(__aarch64__)
#define HOLDFAST_DECLARE_KERNELS(Table, name) \
  namespace scalar {                          \
  extern const Table name;                    \
  }                                           \
  namespace neon {                            \
  extern const Table name;                    \
  }
#define HOLDFAST_SELECT_KERNELS(isa, name) \
  ((isa) == ::holdfast::Isa::kNeon ? ::holdfast::neon::name : ::holdfast::scalar::name)
#else
#define HOLDFAST_DECLARE_KERNELS(Table, name) \
  namespace scalar {                          \
  extern const Table name;                    \
  }
#define HOLDFAST_SELECT_KERNELS(isa, name) (::holdfast::scalar::name)
#endif
#if !defined(__x86_64__)
#define HOLDFAST_DECLARE_TILE_KERNELS(Table, name)
#define HOLDFAST_SELECT_TILE_KERNELS(isa, name) (nullptr)
#endif
