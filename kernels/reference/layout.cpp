// Sizes, strides and the order of axes.
#include "kernels/reference/layout.hpp"

namespace gradus::inline v1::reference {

Layout::Layout(const gd_view& v)
    : dtype(DType(v.dtype)),
      data(v.data),
      offset(v.offset),
      sizes(v.sizes, v.sizes + v.rank),
      strides(v.strides, v.strides + v.rank) {}

Layout::operator gd_view() const {
  return {0, data, int32_t(dtype), rank(), offset, sizes.data(), strides.data()};
}

int64_t Layout::count() const { return count_of(*this); }

Layout Layout::permuted(const std::vector<int>& axes) const {
  Layout v = *this;
  for (size_t d = 0; d < axes.size(); ++d) {
    v.sizes[d] = sizes[size_t(axes[d])];
    v.strides[d] = strides[size_t(axes[d])];
  }
  return v;
}

Layout Layout::with_axis_last(int axis) const {
  std::vector<int> axes;
  for (int d = 0; d < rank(); ++d)
    if (d != axis) axes.push_back(d);
  axes.push_back(axis);
  return permuted(axes);
}

}  // namespace gradus::reference
