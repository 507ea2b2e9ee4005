// The one symbol of an instruction set's objects: its functions, in a C struct. Compiled with
// -DGRADUS_CPU_ISA=<name>.
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/words/simd.hpp"

#define GRADUS_JOIN_(a, b) a##b
#define GRADUS_JOIN(a, b) GRADUS_JOIN_(a, b)
#define GRADUS_TEXT_(a) #a
#define GRADUS_TEXT(a) GRADUS_TEXT_(a)

extern "C" const gradus::cpu::Kernels* GRADUS_JOIN(gradus_cpu_kernels_, GRADUS_CPU_ISA)() {
  using namespace gradus::cpu;
  static constexpr Kernels kernels = {GRADUS_TEXT(GRADUS_CPU_ISA),
                                      int32_t(Batch<float>::size),
                                      block_f32,
                                      block_f64,
                                      slot_reduce,
                                      slot_scan,
                                      slot_softmax,
                                      slot_normalize,
                                      slot_contract,
                                      slot_optimizer_step,
                                      prepare_contract,
                                      block_products,
                                      linalg_lanes,
                                      linalg_groups,
                                      formula_lanes,
                                      formula_groups,
                                      find_transpose,
                                      find_turn};
  return &kernels;
}
