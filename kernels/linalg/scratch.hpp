// Scratch: memory of one thread for the matrices of one call. What is taken is valid until the
// reset; blocks are kept, and after the first matrix of a batch nothing is allocated any more.
#pragma once
#include "kernels/linalg/order.hpp"

#include <memory>
#include <new>
#include <vector>

namespace gradus::inline v1::linalg {

class Scratch {
 public:
  // n numbers, not set. Throws bad_alloc.
  template <class T>
  T* take(int64_t n) {
    const uint64_t items = n > 0 ? uint64_t(n) : 1;
    if (items > (uint64_t(1) << 60) / sizeof(T)) throw std::bad_alloc();
    return static_cast<T*>(bytes((items * sizeof(T) + kLine - 1) / kLine * kLine));
  }
  // Rows begin at a line, and not a multiple of a page apart: columns would share few cache sets.
  template <class T>
  Matrix<T> matrix(int64_t rows, int64_t cols) {
    constexpr int64_t line = int64_t(kLine / sizeof(T)), page = int64_t(4096 / sizeof(T));
    int64_t stride = cols < line ? std::max<int64_t>(cols, 1) : (cols + line - 1) / line * line;
    if (stride % page == 0) stride += line;
    if (rows > (int64_t(1) << 60) / stride) throw std::bad_alloc();
    return {take<T>(rows * stride), rows, cols, stride};
  }
  template <class T>
  Matrix<T> zeros(int64_t rows, int64_t cols) {
    const Matrix<T> a = matrix<T>(rows, cols);
    fill(a, T(0));
    return a;
  }
  // Forgets what was taken. Several blocks become one that holds as much.
  void reset() {
    if (blocks_.size() > 1) {
      const uint64_t all = size();
      blocks_.clear();
      add(all);
    }
    used_ = 0;
  }

  // Forgets what was taken, and gives the memory back if it is more than that.
  void shrink(uint64_t most) {
    if (size() > most) blocks_.clear();
    reset();
  }

 private:
  static constexpr uint64_t kLine = 64, kFirst = 1 << 14;
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t(kLine)); }
  };
  struct Block {
    std::unique_ptr<std::byte[], Free> data;
    uint64_t size;
  };

  uint64_t size() const {
    uint64_t all = 0;
    for (const Block& b : blocks_) all += b.size;
    return all;
  }
  void* bytes(uint64_t n) {
    if (blocks_.empty() || n > blocks_.back().size - used_) {
      add(std::max(n, blocks_.empty()                   ? kFirst
                      : 2 * blocks_.back().size < kMost ? 2 * blocks_.back().size
                                                        : n));
      used_ = 0;
    }
    void* const p = blocks_.back().data.get() + used_;
    used_ += n;
    return p;
  }
  void add(uint64_t size) {
    blocks_.reserve(blocks_.size() + 1);
    blocks_.push_back({std::unique_ptr<std::byte[], Free>(static_cast<std::byte*>(
                           ::operator new[](size_t(size), std::align_val_t(kLine)))),
                       size});
  }

  static constexpr uint64_t kMost = 1 << 22;  // blocks are not doubled beyond it
  std::vector<Block> blocks_;
  uint64_t used_ = 0;  // of the last block
};

}  // namespace gradus::linalg
