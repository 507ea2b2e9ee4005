// One source, three compilers. GPU(Name) is a name of the vendor's run-time library: cudaName with
// nvcc, hipName with hipcc, emuName with the emulator (emulator/emulator.hpp), which runs the same
// kernels on the host. What differs by more than the prefix stands here, and nowhere else.
#pragma once
#if defined(GRADUS_EMULATE)
#include "engine/abi/half.hpp"
#include "kernels/gpu/emulator/emulator.hpp"
#define GPU(name) emu##name
#elif defined(__HIP__) || defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime.h>
#define GPU(name) hip##name
#else
#include <cuda_runtime.h>
#define GPU(name) cuda##name
#endif

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <tuple>
#include <utility>

namespace gradus::inline v1::gpu {

using Error = GPU(Error_t);
using Stream = GPU(Stream_t);
using Event = GPU(Event_t);
using Graph = GPU(GraphExec_t);

// ---- words of kernels. A wave is the group of threads that runs together: 32 or 64 lanes.
#if defined(GRADUS_EMULATE)
#define GPU_UNROLL
#define GPU_NOINLINE __attribute__((noinline))
#define GPU_MAY_RACE __attribute__((no_sanitize("thread")))
#define GPU_ROLLED
// T name[count], shared by the threads of a block, not initialised.
#define GPU_SHARED(T, name, count)   \
  static const char name##_site = 0; \
  T* const name =                    \
      static_cast<T*>(::gradus::emu::shared(&name##_site, sizeof(T) * (count), alignof(T)))
inline int wave_width() { return emu::wave_width(); }
inline void barrier() { emu::barrier(); }
template <class T>
inline T shuffle(T value, int lane) {
  return emu::shuffle(value, lane);
}
#else
#define GPU_UNROLL _Pragma("unroll")  // loops over arrays that are to stay in registers
#define GPU_NOINLINE __noinline__
#define GPU_MAY_RACE
#define GPU_ROLLED _Pragma("unroll 1")  // before a loop that is short as a rule
#define GPU_SHARED(T, name, count)                                                  \
  __shared__ __align__(alignof(T)) unsigned char name##_bytes[sizeof(T) * (count)]; \
  T* const name = reinterpret_cast<T*>(name##_bytes)
#if defined(__HIP_PLATFORM_AMD__)
__device__ inline int wave_width() { return warpSize; }
#else
__device__ inline int wave_width() { return 32; }  // warpSize is no constant to nvcc
#endif
__device__ inline void barrier() { __syncthreads(); }
// The value of another lane of the same wave; all lanes of the wave call it together.
template <class T>
__device__ inline T shuffle(T value, int lane) {
  static_assert(sizeof(T) % 4 == 0);
  int words[sizeof(T) / 4];
  memcpy(words, &value, sizeof(T));
  for (int& word : words)
#if defined(__HIP_PLATFORM_AMD__)
    word = __shfl(word, lane);
#else
    word = __shfl_sync(~0u, word, lane);
#endif
  memcpy(&value, words, sizeof(T));
  return value;
}
#endif

// The 16-bit types as a float, and back, to nearest even: each an instruction.
__device__ inline float half_to_float(uint16_t bits) {
#if defined(GRADUS_EMULATE)
  Half x;
  x.bits = bits;
  return float(x);
#elif defined(__HIP_PLATFORM_AMD__)
  _Float16 x;
  memcpy(&x, &bits, 2);
  return float(x);
#else
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
#endif
}
__device__ inline uint16_t float_to_half(float x) {
#if defined(GRADUS_EMULATE)
  return Half(x).bits;
#elif defined(__HIP_PLATFORM_AMD__)
  const _Float16 y = _Float16(x);
  uint16_t bits;
  memcpy(&bits, &y, 2);
  return bits;
#else
  uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#endif
}
__device__ inline uint16_t float_to_bfloat16(float x) {
#if defined(GRADUS_EMULATE) || defined(__HIP_PLATFORM_AMD__)
  return BFloat16(x).bits;
#else
  uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
#endif
}

// Begins a kernel. No block has more threads than this, so each may use that many more registers.
inline constexpr int kBlockThreads = 256;
#define GPU_KERNEL __global__ void __launch_bounds__(::gradus::gpu::kBlockThreads)

// This thread's number in its block, its lane, and its number in the whole grid.
__device__ inline int thread() { return int(threadIdx.x); }
__device__ inline int block_threads() { return int(blockDim.x); }
__device__ inline int lane() { return int(threadIdx.x) % wave_width(); }
__device__ inline int64_t block() { return int64_t(blockIdx.x); }
__device__ inline int64_t blocks() { return int64_t(gridDim.x); }
__device__ inline int64_t first_index() { return block() * block_threads() + thread(); }
__device__ inline int64_t index_step() { return blocks() * block_threads(); }

// ---- launches. Arguments are converted to the kernel's parameter types.

enum class Threads { apart, together };  // together: with barriers or shuffles

template <class... P, class... A>
Error launch(Threads threads, void (*kernel)(P...), int64_t grid, int block, Stream stream,
             A&&... args) {
  std::tuple<P...> values(static_cast<P>(std::forward<A>(args))...);
#if defined(GRADUS_EMULATE)
  return emu::launch(threads == Threads::together, unsigned(grid), unsigned(block), stream,
                     [kernel, values] { std::apply(kernel, values); });
#else
  (void)threads;
  return std::apply(
      [&](P&... p) {
        void* pointers[sizeof...(P) + 1] = {static_cast<void*>(&p)...};
        return GPU(LaunchKernel)(reinterpret_cast<const void*>(kernel), dim3(unsigned(grid)),
                                 dim3(unsigned(block)), pointers, 0, stream);
      },
      values);
#endif
}

// What a library of the vendor's does on a stream. The emulator must see it as a launch, so that a
// captured graph has it too; hence f keeps what it needs by value.
template <class F>
void on_stream(Stream stream, F&& f) {
#if defined(GRADUS_EMULATE)
  (void)emu::launch(false, 1, 1, stream, std::forward<F>(f));
#else
  (void)stream;
  f();
#endif
}

// ---- calls of the run-time library that differ

inline Error pinned_alloc(void** p, size_t bytes) {
#if defined(__HIP_PLATFORM_AMD__)
  return hipHostMalloc(p, bytes, hipHostMallocDefault);
#else
  return GPU(MallocHost)(p, bytes);
#endif
}
inline Error pinned_free(void* p) {
#if defined(__HIP_PLATFORM_AMD__)
  return hipHostFree(p);
#else
  return GPU(FreeHost)(p);
#endif
}
// That of the vendor's, which others use who name none.
inline Stream default_stream() {
#if defined(GRADUS_EMULATE) || defined(__HIP_PLATFORM_AMD__)
  return nullptr;
#else
  return cudaStreamLegacy;
#endif
}
// Which device's memory p points into.
inline Error owner_of(const void* p, int* index) {
#if defined(GRADUS_EMULATE)
  return emuOwnerOf(p, index);
#else
#if defined(__HIP_PLATFORM_AMD__)
  hipPointerAttribute_t attributes;
#else
  cudaPointerAttributes attributes;
#endif
  const Error e = GPU(PointerGetAttributes)(&attributes, p);
  *index = attributes.device;
  return e;
#endif
}
inline Error instantiate(Graph* exec, GPU(Graph_t) graph) {
#if defined(__HIP_PLATFORM_AMD__)
  return hipGraphInstantiate(exec, graph, nullptr, nullptr, 0);
#else
  return GPU(GraphInstantiate)(exec, graph, 0);
#endif
}

// What a device is called and can do.
struct Properties {
  char name[128];
  char arch[64];
  char pci[32];
  int wave, units, shared_bytes;
};
Error properties(int index, Properties* out);

}  // namespace gradus::gpu
