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
  static M load_mask(const void* p, int64_t i) {
    return M::load_unaligned(static_cast<const bool*>(p) + i);
  }
  static void store(void* p, int64_t i, Reader x) { x.store_unaligned(static_cast<T*>(p) + i); }
  static void store_mask(void* p, int64_t i, M m) { m.store_unaligned(static_cast<bool*>(p) + i); }
};

}  // namespace gradus::cpu
