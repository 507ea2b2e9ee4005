// One recorded call, run again: with its own dtypes or in f64 and c128, at its own operands or
// beside them, on its own device or another. Used by audit.cpp.
#pragma once
#include "ops/audit/watch/differences.hpp"
#include "ops/audit/watch/watch.hpp"

namespace gradus::inline v1::audit {

Parts parts_of(const Tensor& t);  // row-major; real part, imaginary part, ... of a complex one
Tensor of_parts(const Parts& parts, const Shape& sizes, DType dtype, Device& device);
DType wide(DType t);  // f64 for reals, c128 for complex numbers, t for the rest
bool same_bits(const Tensor& a, const Tensor& b);
// The first part that is a NaN (or not finite); -1 if there is none.
enum class Bad { nan, not_finite };
int64_t first_bad(const Tensor& t, Bad bad);
// Element of a part, as an index.
Shape index_of(const Tensor& t, size_t part);

struct Run {
  Tensors outputs;
  Ref<GradFn> node;  // null if it was not recorded
  Device* device;
};

class Rerun {
 public:
  explicit Rerun(const Call& call);
  const Call& call() const { return call_; }
  // Does the graph ask for a derivative by operand k?
  bool asked(size_t k) const { return asked_[k]; }
  size_t operands() const { return call_.inputs.size(); }
  Device& device() const { return *device_; }

  // The operands' numbers; empty for those that are not real or complex.
  std::vector<Parts> point() const;
  // In f64 at this point.
  Run run_wide(const std::vector<Parts>& point, bool recorded) const;
  // As it ran.
  Run run_own(Device& device) const;

 private:
  Run run(Tensors in, const Attrs& attrs, bool recorded, Device& device) const;
  const Call& call_;
  Device* device_;
  std::vector<bool> asked_;
  Attrs wide_attrs_;
};

// A cotangent for each output that has one, from numbers per part of all such outputs.
Tensors cotangents(const Run& run, const Parts& w);
// The parts of all outputs that have derivatives, one after another.
Parts outputs_of(const Run& run);
// The cotangent of operand k, summed to its shape; undefined stands for zero. Error(autograd) if it
// does not fit.
Tensor pull(GradFn& node, size_t k, const Tensors& g);

// What has other bits the second time, in words; empty if nothing has: outputs of the call and of
// its run as it was, cotangents that the run's vjp gives twice for the same w (see cotangents()).
std::string other_outputs(const Call& call, const Run& again);
std::string other_cotangents(const Rerun& rerun, const Run& run, const Parts& w);

}  // namespace gradus::audit
