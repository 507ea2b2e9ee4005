// Tensor operations of five kinds as plans. Modes name axes, as labels do in einsum; x is any
// two-operand statement, each op the identity, conj or a unary statement, and `after` one more that
// every element of D is put through:
//
//   contraction   D = alpha op(A) op(B) + beta op(C)     modes that D lacks are summed
//   reduction     D = alpha reduce(op(A)) + beta op(C)   over the modes of A that D lacks
//   permutation   D = alpha op(A)                        modes in another order
//   binary        D = alpha op(A) x gamma op(C)
//   trinary       D = (alpha op(A) x beta op(B)) y gamma op(C)
//
// A mode of D that an operand lacks broadcasts it; a mode twice in an operand walks its diagonal;
// extents are equal, 1 is no exception. A plan checks modes, extents, dtypes and names once, and is
// then carried out on tensors of these shapes with any strides. Values alone: nothing is recorded.
#pragma once
#include "ops/contract/operations/program.hpp"

#include <complex>
#include <memory>

namespace gradus::inline v1 {

enum class OperationKind { contraction, reduction, permutation, binary, trinary };
struct OperationKindInfo {
  const char* name;
  size_t least, most;  // operands
  const char* letters[kMostOperands];
};
const OperationKindInfo& kind_info(OperationKind kind);

struct Operator {
  std::string name = {};  // "": the identity; "conj"; else a statement: "relu", "exp", "add", ...
  SmallVector<double, 4> parameters = {};  // none: its defaults
};
struct OperandModes {
  Ints modes;  // one for each axis
  Shape sizes;
  DType dtype = DType::f32;
  Operator op = {};
};
struct OperationDesc {
  OperationKind kind;
  std::vector<OperandModes> operands;  // those of the formula; C of a sum may be left out
  Ints modes;                          // of D
  Operator combine = {};               // x; of a reduction "sum", "prod", "max" or "min"
  Operator combine_second = {};        // y
  Operator after = {};
};

// An operand whose factor is 0 is not read and counts as zeros; it may be an undefined tensor.
struct Factors {
  std::complex<double> alpha = 1, beta = 1, gamma = 1;
};

// Threads: any, at once.
class Operation {
 public:
  // Error(value | shape | dtype) names the kind, the operand and the mode.
  Operation(const OperationDesc& desc, Device& device);

  OperationKind kind() const { return kind_; }
  size_t operand_count() const { return operands_.size(); }
  const Shape& sizes() const { return sizes_; }  // of D
  DType dtype() const { return dtype_; }
  Device& device() const { return *device_; }
  // What execute() needs beside its tensors, whatever the factors.
  size_t workspace_bytes() const { return size_t(workspace_) * itemsize(dtype_); }
  Tensor workspace() const { return Tensor::empty({workspace_}, dtype_, *device_); }

  // Into `into`, of D's sizes and dtype and any strides, or into a new tensor; gives D. `workspace`
  // is one of workspace()'s, used by one call at a time; without it memory comes from the pool. D
  // may be the very view of an operand; one that overlaps it otherwise is copied first. Error
  // (autograd) for an operand whose derivative would be asked for: einsum and ops have it.
  Tensor execute(Operands operands, const Factors& factors = {}, const Tensor& into = {},
                 const Tensor& workspace = {}) const;

 private:
  friend class Execution;
  struct Operand {
    Shape sizes;
    Ints places;  // of each axis among the joint modes; -1: summed before it meets the others
    bool sums_alone = false;  // some places are -1
    Statement staged;         // before all else, into memory of its own
    bool conj = false;        // a flag of the contraction
    Statement op;             // as a term of D
    Shape summed_sizes() const;
  };
  void check_modes(const OperationDesc& desc);
  void read_statements(const OperationDesc& desc);
  void read_reduction(const std::string& reduction);
  void place_modes(const OperationDesc& desc);
  int64_t planned_workspace() const;
  bool chains() const;  // can one call do all statements?
  // The element-wise part: what D's elements are of operands and factors.
  enum class Scale { zero, one, other };
  int term(Program& p, size_t k, Scale scale) const;
  Program program(const Scale (&scales)[kMostOperands]) const;

  OperationKind kind_;
  DType dtype_;
  Device* device_;
  Shape sizes_, joint_;  // D's extents; those, then the summed ones
  SmallVector<Operand, kMostOperands> operands_;
  Statement combine_, combine_second_, after_;
  int reduction_ = 0;
  int64_t workspace_ = 0;  // elements
};

// The plan from this thread's cache, else a new one.
std::shared_ptr<const Operation> operation(const OperationDesc& desc,
                                           Device& device = default_device());

}  // namespace gradus
