#include "ops/base/shape.hpp"

#include <algorithm>

namespace gradus::inline v1 {

int64_t normal_axis(const char* op, int64_t dim, int64_t rank) {
  if (dim < -rank || dim >= rank)
    fail(ErrorKind::index, op, "axis ", dim, " of a tensor with ", rank,
         rank == 1 ? " axis" : " axes",
         rank ? join("; expected -", rank, " to ", rank - 1) : std::string());
  return dim < 0 ? dim + rank : dim;
}

Ints normal_axes(const char* op, const Ints& dims, int64_t rank) {
  Ints axes;
  if (dims.empty()) {
    for (int64_t i = 0; i < rank; ++i) axes.push_back(i);
    return axes;
  }
  for (int64_t d : dims) axes.push_back(normal_axis(op, d, std::max<int64_t>(1, rank)));
  std::sort(axes.begin(), axes.end());
  for (size_t i = 1; i < axes.size(); ++i)
    if (axes[i] == axes[i - 1]) fail(ErrorKind::index, op, "axis ", axes[i], " is given twice");
  if (rank == 0) axes.clear();
  return axes;
}

Shape broadcast_shapes(const char* op, const Shape& a, const Shape& b) {
  const Shape &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  const size_t lead = longer.size() - shorter.size();
  Shape out = longer;
  for (size_t i = 0; i < shorter.size(); ++i) {
    const int64_t l = longer[lead + i], s = shorter[i];
    if (l == s || s == 1) continue;
    if (l != 1)
      fail(ErrorKind::shape, op, "shapes ", a, " and ", b, " do not broadcast: ", l, " against ", s,
           " on axis -", int64_t(shorter.size() - i));
    out[lead + i] = s;
  }
  return out;
}

bool broadcasts_to(const Shape& sizes, const Shape& target) {
  if (sizes.size() > target.size()) return false;
  const size_t lead = target.size() - sizes.size();
  for (size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] != target[lead + i] && sizes[i] != 1) return false;
  return true;
}

Shape reduced_shape(const Shape& sizes, const Ints& axes, bool keepdim) {
  Shape out;
  size_t next = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool reduced = next < axes.size() && axes[next] == int64_t(i);
    next += reduced;
    if (!reduced)
      out.push_back(sizes[i]);
    else if (keepdim)
      out.push_back(1);
  }
  return out;
}

}  // namespace gradus
