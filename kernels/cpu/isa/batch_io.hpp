// Statements read over whole batches: the Io of blocks.hpp for f32 and f64.
#pragma once
#include "kernels/cpu/blocks.hpp"
#include "kernels/cpu/isa/words/simd.hpp"

namespace gradus::inline v1::cpu {

template <class T>
struct BatchIo {
  using Element = T;
  using Reader = Batch<T>;
  using M = typename Reader::batch_bool_type;
  static constexpr int64_t step = int64_t(Reader::size);
  static_assert(kPad % step == 0);
  static Reader load(const void* p, int64_t i) {
    return Reader::load_unaligned(static_cast<const T*>(p) + i);
  }
  // A mask in memory is a byte for each element, 0 or 1. Those of a batch are widened and compared
  // at once: xsimd goes from lane to lane.
  static M load_mask(const void* p, int64_t i) {
    Bytes bytes;
    __builtin_memcpy(&bytes, static_cast<const char*>(p) + i, sizeof bytes);
    const Numbers numbers = __builtin_convertvector(bytes, Numbers);
    Reader x;
    __builtin_memcpy(&x, &numbers, sizeof x);
    return x > Reader(T(0));
  }
  static void store(void* p, int64_t i, Reader x) { x.store_unaligned(static_cast<T*>(p) + i); }
  static void store_mask(void* p, int64_t i, M m) {
    const Reader x = xsimd::select(m, Reader(T(1)), Reader(T(0)));
    Words words;
    __builtin_memcpy(&words, &x, sizeof x);
    const Bytes bytes = __builtin_convertvector(words >> kOneBit & 1, Bytes);
    __builtin_memcpy(static_cast<char*>(p) + i, &bytes, sizeof bytes);
  }

 private:
  using Word = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  using Bytes [[gnu::vector_size(size_t(step))]] = uint8_t;
  using Words [[gnu::vector_size(sizeof(Reader))]] = Word;
  using Numbers [[gnu::vector_size(sizeof(Reader))]] = T;
  static constexpr int kOneBit = sizeof(T) == 4 ? 23 : 52;  // set in 1, not in 0
};

}  // namespace gradus::cpu
