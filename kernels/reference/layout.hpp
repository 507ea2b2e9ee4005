// Layout: a gd_view that owns its sizes and strides, so that axes can be put into another order; it
// stands wherever a gd_view does.
// Most slots here are one idea: move the axes that an operation runs along to the end, then walk
// every view in row-major order; each consecutive run of elements is one line of work.
// It must not know xtensor, which costs seconds of compile time: that is views.hpp.
#pragma once
#include "kernels/call/call.hpp"

#include <vector>

namespace gradus::inline v1::reference {

using namespace calls;

using Sizes = std::vector<int64_t>;

struct Layout {
  DType dtype = DType::f32;
  void* data = nullptr;
  int64_t offset = 0;
  Sizes sizes, strides;  // in elements; strides may be 0 or negative

  Layout() = default;
  Layout(const gd_view& v);
  operator gd_view() const;

  int rank() const { return int(sizes.size()); }
  int64_t count() const;

  // The same elements with axis axes[d] in place d.
  Layout permuted(const std::vector<int>& axes) const;
  Layout with_axis_last(int axis) const;
};

}  // namespace gradus::reference
