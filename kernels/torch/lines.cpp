// reduce and softmax of floating numbers, along axes.
#include "kernels/torch/slots.hpp"
#include "kernels/torch/tensor.hpp"

namespace gradus::inline v1::torch {

bool reduce(Call& call_) {
  const calls::ReduceCall c = calls::expect_reduce(call_);
  const DType t = DType(c.in.dtype);
  const bool sum = call_.op() == GD_SUM, best = call_.op() == GD_MAX || call_.op() == GD_MIN;
  if (!(sum && is_floating(t)) && !(best && is_real_float(t))) return false;
  std::vector<int64_t> dims;
  for (int i = 0; i < c.in.rank; ++i)
    if (c.out.sizes[i] == 1) dims.push_back(i);
  // aten takes no axes for all of them; and it has no largest of nothing, which is refused.
  if (dims.empty() || (best && calls::count_of(c.in) == 0)) return false;
  // Row-major: sums of another order differ by more than their tolerance where they cancel.
  const Value x = value(call("contiguous", "", {value(read(c.in)), Value(library().row_major())}));
  if (sum)
    write(c.out, call("sum", "dim_IntList", {x, some(value(dims)), value(true), kNone}));
  else
    write(c.out, call(call_.op() == GD_MAX ? "amax" : "amin", "", {x, value(dims), value(true)}));
  return true;
}

bool softmax(Call& call_) {
  const calls::LineCall c = calls::expect_softmax(call_);
  if (c.axis < 0) return false;
  write(c.out, call(call_.integer(1) ? "log_softmax" : "softmax", "int",
                    {value(read(c.in)), value(int64_t(c.axis)), kNone}));
  return true;
}

}  // namespace gradus::torch
