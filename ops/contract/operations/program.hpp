// What an element of D is of elements of operands and of factors: a few statements, the result of
// each read once. Where the device has chains, one call does them block by block; else call by call
// with results in scratch memory. The bits are the same.
#pragma once
#include "engine/kernel_call.hpp"
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

constexpr size_t kMostOperands = 3;

struct Statement {
  int id = -1;  // -1: the identity
  SmallVector<double, 4> parameters = {};
};

// Elements that a call reads or writes: t's, with strides of their own.
struct View {
  const Tensor* tensor = nullptr;
  Shape strides = {};
  int64_t offset = 0;  // behind the tensor's own
  int64_t at() const { return tensor->offset() + offset; }
};

// Memory for what lies between calls: of the caller's workspace while it lasts, then of the pool.
class Scratch {
 public:
  Scratch(const Tensor& workspace, DType dtype, Device& device)
      : workspace_(workspace), dtype_(dtype), device_(device) {}
  View take(const Shape& sizes);  // row-major
  // Pieces begin where a vector may.
  static int64_t rounded(int64_t elements, DType dtype) {
    const auto line = int64_t(64 / itemsize(dtype));
    return (elements + line - 1) / line * line;
  }

 private:
  const Tensor& workspace_;
  DType dtype_;
  Device& device_;
  int64_t used_ = 0;
  Tensor own_[8];
  int count_ = 0;
};

class Program {
 public:
  // Values: the operands, then their factors, then the result of each step.
  static constexpr int kFactors = int(kMostOperands), kResults = 2 * int(kMostOperands);

  // The value of a statement; of the identity the operand itself. The statement must outlive it.
  int apply(const Statement& s, int a, int b = -1);
  void give(int value) { value_ = value; }  // what is written

  int steps() const { return count_; }
  // How many results wait for their reader at once, where calls are made one by one.
  int waiting() const { return waiting_; }
  bool reads(int value) const;

  // views: of operands and factors over `sizes`, those that are read.
  void run(const View (&views)[kResults], const Shape& sizes, const View& out, Scratch& scratch,
           bool chain) const;

 private:
  static constexpr int kMost = 9;  // an op and a factor for each operand, x, y, after
  struct Step {
    const Statement* statement;
    int operands[2];
    int level;  // of the waiting result that it makes
  };
  int level_of(int value) const { return value < kResults ? -1 : steps_[value - kResults].level; }
  void run_chain(const View (&views)[kResults], const Shape& sizes, const View& out) const;
  void run_steps(const View (&views)[kResults], const Shape& sizes, const View& out,
                 Scratch& scratch) const;

  Step steps_[kMost];
  int count_ = 0, value_ = 0, level_ = 0, waiting_ = 0;
};

}  // namespace gradus
