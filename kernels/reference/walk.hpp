// Walk: goes through the elements of one view in row-major order, some at a time, in whatever type
// the arithmetic wants. With it a slot knows neither strides nor storage types: f16 and bf16 are
// loaded as float (or wider) and rounded once, at the write.
#pragma once
#include "kernels/reference/layout.hpp"

#include <cstddef>
#include <memory>

namespace gradus::inline v1::reference {

// Elements of a block; slots that need no whole line work block by block.
inline constexpr int64_t kBlock = 256;

// Elements of a block of this dtype; less than kBlock for users' large ones.
inline int64_t block_of(DType t) {
  const int64_t room = kBlock * int64_t(sizeof(c128)) / int64_t(itemsize(t));
  return room < kBlock ? room : kBlock;
}

// Room for one block of any dtype.
struct Block {
  alignas(16) std::byte bytes[size_t(kBlock) * sizeof(c128)];
  template <class T>
  T* as() {
    return reinterpret_cast<T*>(bytes);
  }
  void* raw() { return bytes; }
};

// Room for one line of n elements.
template <class T>
std::unique_ptr<T[]> make_line(int64_t n) {
  return std::make_unique<T[]>(size_t(n));
}

class Walk {
 public:
  explicit Walk(const Layout& v);
  Walk(Walk&&) noexcept;
  ~Walk();

  // The next n elements, cast. Reading and writing both advance. Going past the end throws.
  void read_as(DType as, void* to, int64_t n);
  void write_as(DType as, const void* from, int64_t n);

  template <class A>
  void read(A* to, int64_t n) {
    read_as(dtype_of<A>, to, n);
  }
  template <class A>
  void write(const A* from, int64_t n) {
    write_as(dtype_of<A>, from, n);
  }

 private:
  struct Elements;
  template <class T>
  struct Typed;
  struct Bytes;

  DType dtype_;
  int64_t left_;
  std::unique_ptr<Elements> elements_;
};

// Calls f(n) for pieces of at most `block` that make up count.
template <class F>
void for_blocks(int64_t count, F&& f, int64_t block = kBlock) {
  for (int64_t done = 0; done < count; done += block)
    f(count - done < block ? count - done : block);
}

}  // namespace gradus::reference
