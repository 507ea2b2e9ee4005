// Runs of elements in the type that a kernel works in: contiguous ones of that type are used where
// they lie, all others are gathered and widened into buffers.
#pragma once
#include "kernels/cpu/walk.hpp"

#include <initializer_list>

namespace gradus::inline v1::cpu {

// Elements of a view of dtype `from` as T, whose dtype code is `to`. Buffers hold kMost elements.
template <class T, int64_t kMost>
class Reader {
 public:
  Reader(const gd_device* d, int32_t from, int32_t to)
      : item_(int64_t(itemsize(DType(from)))),
        convert_(from == to ? nullptr : d->convert(from, to)) {}
  // n <= kMost elements, `step` bytes apart. Valid until the next call.
  const T* read(const char* p, int64_t n, int64_t step) {
    const char* from = p;
    if (step != item_) {
      char* const raw = convert_ ? raw_ : reinterpret_cast<char*>(wide_);
      copy_row(raw, item_, p, step, n, item_);
      from = raw;
    }
    if (!convert_) return reinterpret_cast<const T*>(from);
    convert_(from, wide_, n);
    return wide_;
  }

 private:
  int64_t item_;
  ConvertFn convert_;
  alignas(64) T wide_[kMost];
  alignas(64) char raw_[kMost * 16];
};

// The way back: n elements of T into a view of dtype `to`.
template <class T, int64_t kMost>
class Writer {
 public:
  Writer(const gd_device* d, int32_t from, int32_t to)
      : item_(int64_t(itemsize(DType(to)))),
        convert_(from == to ? nullptr : d->convert(from, to)) {}
  void write(const T* x, char* p, int64_t n, int64_t step) {
    const char* from = reinterpret_cast<const char*>(x);
    if (convert_) {
      convert_(x, raw_, n);
      from = raw_;
    }
    copy_row(p, step, from, item_, n, item_);
  }

 private:
  int64_t item_;
  ConvertFn convert_;
  alignas(64) char raw_[kMost * 16];
};

inline int64_t shorter(int64_t a, int64_t b) { return a < b ? a : b; }

// The address of element i of view v.
inline char* address(const Walk& w, int v, int64_t i) {
  char* p = w.base[v];
  for (int d = w.rank - 1; d >= 0; --d) {
    p += i % w.size[d] * w.stride[v][d];
    i /= w.size[d];
  }
  return p;
}

}  // namespace gradus::cpu
