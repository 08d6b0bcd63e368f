#include "simd/isa.h"

#include <cstdlib>
#include <optional>
#include <string>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace holdfast {
namespace {

constexpr Isa kAllIsas[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx, Isa::kNeon};

#if defined(__x86_64__)
// Int8 tiles, which Linux saves only for a process that has asked to use them. It refuses where a thread's signal
// stack is too small for them.
bool MayUseTiles() {
#if defined(__linux__)
  constexpr unsigned kTileBits = 1u << 24 | 1u << 25;  // AMX-TILE and AMX-INT8 in edx of leaf 7
  constexpr long kRequestPermission = 0x1023;          // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;                       // XFEATURE_XTILEDATA
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kTileBits) == kTileBits &&
         syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}
#endif

// What each tier's compiler flags (cmake/HoldfastModule.cmake) let the compiler use. The x86 built-ins ask
// the operating system too, whether it saves the wide registers.
bool ProcessorHas(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return true;
#if defined(__x86_64__)
    case Isa::kAvx2: {
      // Asked once: under a hypervisor each cpuid leaves the guest, for microseconds.
      static const bool f16c = [] {
        unsigned a = 0, b = 0, c = 0, d = 0;
        return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
      }();
      return f16c && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    }
    case Isa::kAvx512:
      return ProcessorHas(Isa::kAvx2) && __builtin_cpu_supports("avx512f") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd") &&
             __builtin_cpu_supports("avx512vnni");
    case Isa::kAmx: {
      static const bool tiles = MayUseTiles();
      return ProcessorHas(Isa::kAvx512) && tiles;
    }
    case Isa::kNeon:
      return false;
#elif defined(__aarch64__)
    case Isa::kAvx2:
    case Isa::kAvx512:
    case Isa::kAmx:
      return false;
    case Isa::kNeon: {
      constexpr unsigned long wanted =
          HWCAP_ASIMD | HWCAP_ASIMDDP | HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ATOMICS;
      return (getauxval(AT_HWCAP) & wanted) == wanted;
    }
#else
    case Isa::kAvx2:
    case Isa::kAvx512:
    case Isa::kAmx:
    case Isa::kNeon:
      return false;
#endif
  }
  return false;
}

std::string SupportedNames() {
  std::string names;
  for (const Isa isa : SupportedIsas()) {
    if (!names.empty()) names += ", ";
    names += IsaName(isa);
  }
  return names;
}

std::optional<Isa> ForcedIsa() {
  const char* name = std::getenv("HOLDFAST_FORCE_ISA");
  if (name == nullptr) return std::nullopt;
  for (const Isa isa : kAllIsas) {
    if (IsaName(isa) == name && ProcessorHas(isa)) return isa;
  }
  return std::nullopt;
}

}  // namespace

std::string_view IsaName(Isa isa) {
  switch (isa) {
    case Isa::kScalar:
      return "scalar";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAmx:
      return "amx";
    case Isa::kNeon:
      return "neon";
  }
  return "unknown";
}

std::vector<Isa> SupportedIsas() {
  std::vector<Isa> supported;
  for (const Isa isa : kAllIsas) {
    if (ProcessorHas(isa)) supported.push_back(isa);
  }
  return supported;
}

std::vector<Isa> VectorIsas() {
  std::vector<Isa> isas = SupportedIsas();
  std::erase(isas, Isa::kAmx);
  return isas;
}

Isa ActiveIsa() {
  // Not value_or: who forces a weaker tier has not asked for the permission that tiles need.
  const std::optional<Isa> forced = ForcedIsa();
  return forced ? *forced : SupportedIsas().back();
}

Status CheckForcedIsa() {
  const char* name = std::getenv("HOLDFAST_FORCE_ISA");
  if (name == nullptr || ForcedIsa().has_value()) return OkStatus();
  return InvalidArgument("HOLDFAST_FORCE_ISA: \"" + std::string(name) +
                         "\" is not one of this processor's: " + SupportedNames());
}

}  // namespace holdfast
