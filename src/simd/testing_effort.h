// How much a test does where every instruction costs tens of times as much: under an emulator.
#pragma once

#include <vector>

#include "simd/isa.h"

namespace holdfast {

#ifdef HOLDFAST_EMULATED
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

// Rounds of a test that repeats itself with other random numbers.
constexpr int Rounds(int natively) {
  return kEmulated ? (natively + 5) / 6 : natively;
}

// Tiers that a long test visits: all that have vector kernels of their own here. Under an emulator the strongest alone: it is
// what no other run of the tests has.
inline std::vector<Isa> IsasToVisit() {
  std::vector<Isa> isas = VectorIsas();
  if (kEmulated) isas.erase(isas.begin(), isas.end() - 1);
  return isas;
}

}  // namespace holdfast
