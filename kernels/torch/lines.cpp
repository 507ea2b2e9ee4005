// reduce and softmax of floating numbers, along axes.
#include "kernels/torch/slots.hpp"
#include "kernels/torch/tensor.hpp"

namespace gradus::inline v1::torch {

bool reduce(Call& call) {
  const calls::ReduceCall c = calls::expect_reduce(call);
  const DType t = DType(c.in.dtype);
  const bool sum = call.op() == GD_SUM, best = call.op() == GD_MAX || call.op() == GD_MIN;
  if (!(sum && is_floating(t)) && !(best && is_real_float(t))) return false;
  std::vector<int64_t> dims;
  for (int i = 0; i < c.in.rank; ++i)
    if (c.out.sizes[i] == 1) dims.push_back(i);
  // aten takes no axes for all of them; and it has no largest of nothing, which is refused.
  if (dims.empty() || (best && calls::count_of(c.in) == 0)) return false;
  // Row-major: sums of another order differ by more than their tolerance where they cancel.
  const Value x = value(aten("contiguous", "", {value(read(c.in)), Value(library().row_major())}));
  if (sum)
    write(c.out, aten("sum", "dim_IntList", {x, some(value(dims)), value(true), kNone}));
  else
    write(c.out, aten(call.op() == GD_MAX ? "amax" : "amin", "", {x, value(dims), value(true)}));
  return true;
}

bool softmax(Call& call) {
  const calls::LineCall c = calls::expect_softmax(call);
  if (c.axis < 0) return false;
  write(c.out, aten(call.integer(1) ? "log_softmax" : "softmax", "int",
                    {value(read(c.in)), value(int64_t(c.axis)), kNone}));
  return true;
}

}  // namespace gradus::torch
