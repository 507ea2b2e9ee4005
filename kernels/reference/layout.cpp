// Sizes, strides and the order of axes.
#include "kernels/reference/layout.hpp"

namespace gradus::inline v1::reference {

int64_t product(const Sizes& sizes, size_t from) {
  int64_t n = 1;
  for (size_t d = from; d < sizes.size(); ++d) n *= sizes[d];
  return n;
}

std::string text(const Sizes& sizes) {
  std::string s = "(";
  for (size_t d = 0; d < sizes.size(); ++d) s += (d ? ", " : "") + std::to_string(sizes[d]);
  return s + (sizes.size() == 1 ? ",)" : ")");
}

int64_t Layout::count() const { return product(sizes); }

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
