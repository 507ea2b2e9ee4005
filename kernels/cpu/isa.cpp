// The choice of an instruction set. Baseline flags: nothing here may run an instruction that the
// processor could lack. libgcc's check also asks whether the system saves the registers.
#include "kernels/cpu/isa.hpp"

// GRADUS_CPU_SET(name): of each set that was built, from the plainest to the best.
#define GRADUS_CPU_SET(name) extern "C" const gradus::cpu::Kernels* gradus_cpu_kernels_##name();
#include "kernels/cpu/cpu_sets.inc"
#undef GRADUS_CPU_SET

namespace gradus::inline v1::cpu {

namespace {

#if defined(__x86_64__)
[[maybe_unused]] bool has_sse2() { return true; }
[[maybe_unused]] bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
[[maybe_unused]] bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("fma");
}
#else
bool has_neon64() { return true; }
#endif

}  // namespace

const Isa* isas() {
#define GRADUS_CPU_SET(name) {#name, has_##name(), gradus_cpu_kernels_##name},
  static const Isa list[] = {
#include "kernels/cpu/cpu_sets.inc"
      {nullptr, false, nullptr}};
#undef GRADUS_CPU_SET
  return list;
}

}  // namespace gradus::cpu
