// Layout: a gd_view that owns its sizes and strides, so that axes can be put into another order.
// Most slots here are one idea: move the axes that an operation runs along to the end, then walk
// every view in row-major order; each consecutive run of elements is one line of work.
// It must not know xtensor, which costs seconds of compile time: that is views.hpp.
#pragma once
#include "engine/abi/dtype.hpp"

#include <string>
#include <vector>

namespace gradus::inline v1::reference {

using Sizes = std::vector<int64_t>;

struct Layout {
  DType dtype = DType::f32;
  void* data = nullptr;
  int64_t offset = 0;
  Sizes sizes, strides;  // in elements; strides may be 0 or negative

  int rank() const { return int(sizes.size()); }
  int64_t count() const;

  // The same elements with axis axes[d] in place d.
  Layout permuted(const std::vector<int>& axes) const;
  Layout with_axis_last(int axis) const;
};

int64_t product(const Sizes& sizes, size_t from = 0);
std::string text(const Sizes& sizes);  // "(3, 4)"

}  // namespace gradus::reference
