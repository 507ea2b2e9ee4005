// The choice of an instruction set. Baseline flags: nothing here may run an instruction that the
// processor could lack. libgcc's check also asks whether the system saves the registers.
#include "kernels/cpu/isa.hpp"

#if defined(__x86_64__)
extern "C" const gradus::cpu::Kernels* gradus_cpu_kernels_sse2();
#ifndef GRADUS_NO_AVX2
extern "C" const gradus::cpu::Kernels* gradus_cpu_kernels_avx2();
#endif
extern "C" const gradus::cpu::Kernels* gradus_cpu_kernels_avx512();
#else
extern "C" const gradus::cpu::Kernels* gradus_cpu_kernels_neon64();
#endif

namespace gradus::inline v1::cpu {

const Isa* isas() {
#if defined(__x86_64__)
  static const Isa list[] = {
      {"sse2", true, gradus_cpu_kernels_sse2},
#ifndef GRADUS_NO_AVX2
      {"avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"),
       gradus_cpu_kernels_avx2},
#endif
      {"avx512",
       __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("fma"),
       gradus_cpu_kernels_avx512},
      {nullptr, false, nullptr}};
#else
  static const Isa list[] = {{"neon64", true, gradus_cpu_kernels_neon64},
                             {nullptr, false, nullptr}};
#endif
  return list;
}

}  // namespace gradus::cpu
