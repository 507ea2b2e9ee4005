// A view whose axes are permuted so that one comes last: lines along it are then consecutive.
#pragma once
#include "kernels/gpu/runtime.hpp"

namespace gradus::inline v1::gpu {

class AxisLast {
 public:
  AxisLast(const gd_view& v, int axis) : view_(v) {
    int n = 0;
    for (int d = 0; d <= v.rank; ++d) {
      const int from = d < v.rank ? d : axis;
      if (v.rank == 0 || (d < v.rank && d == axis)) continue;
      sizes_[n] = v.sizes[from];
      strides_[n++] = v.strides[from];
    }
    view_.sizes = sizes_;
    view_.strides = strides_;
  }
  AxisLast(const AxisLast&) = delete;

  const gd_view* view() const { return &view_; }
  // Stays at place 0 of the axis, seen with `size` places.
  void stand_still(int64_t size) {
    sizes_[view_.rank - 1] = size;
    strides_[view_.rank - 1] = 0;
  }
  int64_t stride() const { return strides_[view_.rank - 1]; }

 private:
  gd_view view_;
  int64_t sizes_[kMaxViewRank], strides_[kMaxViewRank];
};

}  // namespace gradus::gpu
