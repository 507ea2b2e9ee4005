// mma: the product of two small matrices by the 32 lanes of a wave together, which keep them in
// their registers: d += a * b with d 16 x 8, summed in f32 over 16 terms (f16, bf16) or 8 (tf32, an
// f32 of which 10 bits of mantissa count). On CUDA that is one instruction of the tensor cores, in
// the emulator a function of the same effect; HIP has none. A lane is row g = lane / 4 and place t
// = lane % 4 of four; its registers hold (PTX ISA, "Matrix Fragments for mma.m16n8k16")
//   a[r]  row g + 8 (r % 2),  terms from p t + d / 2 (r / 2) on      p: terms in a register, 2 or 1
//   b[r]  column g,           terms from p t + d / 2 r on            d: terms in all, 16 or 8
//   d[r]  row g + 8 (r / 2),  column 2 t + r % 2
//
// load_matrices: four squares of 8 rows of 16 bytes each out of shared memory, where lane 8 i + j
// says where row j of square i begins. r[i] receives word t of row g; Turned, with 16-bit elements,
// element g of the rows 2 t and 2 t + 1.
//
// copy_async: 16 bytes from global to shared memory, which are there after the thread's next
// wait_copies() and, for others, the barrier behind it.
#pragma once
#include "engine/abi/half.hpp"
#include "kernels/gpu/vendor.hpp"

#if !defined(__HIP_PLATFORM_AMD__)
namespace gradus::inline v1::gpu {

enum class Mma { f16, bf16, tf32 };
template <Mma M>
constexpr int mma_packed = M == Mma::tf32 ? 1 : 2;
template <Mma M>
constexpr int mma_terms = 8 * mma_packed<M>;

#if defined(GRADUS_EMULATE)

// What the lanes of the wave bring; all of them call it together.
template <class T>
GPU_MAY_RACE const T* of_all_lanes(const T& mine) {
  static T brought[2][1024];  // two in turn: a fast lane's next does not replace one still read
  static bool turn[1024];
  const int i = thread();
  turn[i] = !turn[i];
  brought[turn[i]][i] = mine;
  shuffle(0, 0);
  return brought[turn[i]] + i - lane();
}

template <Mma M>
float mma_number(uint32_t word, int i) {
  if constexpr (M == Mma::f16) {
    Half h;
    h.bits = uint16_t(word >> 16 * i);
    return h;
  } else if constexpr (M == Mma::bf16) {
    return detail::bits_float(i == 0 ? word << 16 : word & 0xffff0000u);
  } else {
    return detail::bits_float(word & ~0x1fffu);
  }
}
template <Mma M>
void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  constexpr int packed = mma_packed<M>, terms = mma_terms<M>;
  struct Lane {
    uint32_t a[4], b[2];
  };
  const Lane* const lanes = of_all_lanes(Lane{{a[0], a[1], a[2], a[3]}, {b[0], b[1]}});
  const int g = lane() / 4, t = lane() % 4;
  float rows[2][terms], columns[2][terms];
  for (int k = 0; k < terms; ++k) {
    const int half = k / (terms / 2), from = k % (terms / 2) / packed, i = k % packed;
    for (int r = 0; r < 2; ++r) {
      rows[r][k] = mma_number<M>(lanes[4 * g + from].a[r + 2 * half], i);
      columns[r][k] = mma_number<M>(lanes[4 * (2 * t + r) + from].b[half], i);
    }
  }
  for (int r = 0; r < 4; ++r)
    for (int k = 0; k < terms; ++k) d[r] += rows[r / 2][k] * columns[r % 2][k];
}

template <bool Turned>
void load_matrices(uint32_t (&r)[4], const void* row) {
  const void* const* const rows = of_all_lanes(row);
  const int g = lane() / 4, t = lane() % 4;
  for (int i = 0; i < 4; ++i)
    if constexpr (Turned)
      r[i] = uint32_t(static_cast<const uint16_t*>(rows[8 * i + 2 * t])[g]) |
             uint32_t(static_cast<const uint16_t*>(rows[8 * i + 2 * t + 1])[g]) << 16;
    else
      r[i] = static_cast<const uint32_t*>(rows[8 * i + g])[t];
}

inline void copy_async(void* shared, const void* global) { emu::copy_async(shared, global); }
inline void wait_copies() { emu::wait_copies(); }

// An f32 rounded to what tf32 keeps of it, ties away from zero.
inline uint32_t to_tf32(uint32_t bits) {
  const bool finite = (bits & 0x7f800000u) != 0x7f800000u;
  return finite ? (bits + 0x1000u) & ~0x1fffu : bits;
}

#else

template <Mma M>
__device__ inline void mma(float (&d)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#define GPU_MMA(shape)                                                            \
  asm volatile("mma.sync.aligned." shape                                          \
               " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                   \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (M == Mma::f16)
    GPU_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  else if constexpr (M == Mma::bf16)
    GPU_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
  else
    GPU_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
#undef GPU_MMA
}

template <bool Turned>
__device__ inline void load_matrices(uint32_t (&r)[4], const void* row) {
  const uint32_t at = uint32_t(__cvta_generic_to_shared(row));
  if constexpr (Turned)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(at));
}

__device__ inline void copy_async(void* shared, const void* global) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(uint32_t(__cvta_generic_to_shared(shared))),
      "l"(__cvta_generic_to_global(global))
      : "memory");
}
__device__ inline void wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ inline uint32_t to_tf32(uint32_t bits) {
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(__uint_as_float(bits)));
  return bits;
}

#endif

}  // namespace gradus::gpu
#endif
