// A Layout as a strided xtensor view, without a copy: the one place where this folder meets
// xtensor. Expanded, flipped, permuted, windowed, 0-d and empty views are all right, for reading
// and writing.
#pragma once
#include "kernels/reference/layout.hpp"

#include <array>
#include <xtensor/xadapt.hpp>
#include <xtensor/xstrided_view.hpp>

namespace gradus::inline v1::reference {

// xtensor cannot adapt strides that repeat or leave out elements, and does not check how far they
// reach. So the memory between the lowest and the highest element that the view touches is adapted
// as one flat array, and a strided view is laid over that.
template <class T>
auto strided(const Layout& v) {
  int64_t low = 0, high = -1;  // reach, relative to data; nothing if the view is empty
  if (v.count() > 0) {
    low = high = v.offset;
    for (int d = 0; d < v.rank(); ++d) {
      const int64_t span = (v.sizes[size_t(d)] - 1) * v.strides[size_t(d)];
      (span < 0 ? low : high) += span;
    }
  }
  const std::array<size_t, 1> length{size_t(high - low + 1)};
  T* const first = v.data ? static_cast<T*>(v.data) + low : nullptr;
  auto flat = xt::adapt(first, length[0], xt::no_ownership(), length);

  xt::dynamic_shape<size_t> shape(v.sizes.begin(), v.sizes.end());
  xt::dynamic_shape<ptrdiff_t> strides(v.strides.begin(), v.strides.end());
  const size_t offset = length[0] ? size_t(v.offset - low) : 0;
  using View = xt::xstrided_view<decltype(flat), xt::dynamic_shape<size_t>>;
  return View(std::move(flat), std::move(shape), std::move(strides), offset,
              xt::layout_type::dynamic);
}

}  // namespace gradus::reference
