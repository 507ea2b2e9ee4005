// The slot sort: each line along the axis, by the library's stable sort of its places.
#include "kernels/reference/slots.hpp"
#include "kernels/reference/walk.hpp"

#include <algorithm>
#include <numeric>

namespace gradus::inline v1::reference {
namespace {

// Does x stand before y? NaN is the largest number of all.
template <class T>
bool smaller(T x, T y) {
  return x < y || (x == x && y != y);
}

template <class T>
void sort_lines(const Call& call, const Layout& in, const Layout& places, int axis,
                bool descending) {
  const int64_t length = in.sizes[size_t(axis)];
  Walk from(in.with_axis_last(axis)), to_places(places.with_axis_last(axis));
  std::unique_ptr<Walk> to_values;
  if (call.has_out(0)) to_values = std::make_unique<Walk>(call.out(0).with_axis_last(axis));
  const auto x = make_line<T>(length), sorted = make_line<T>(length);
  const auto order = make_line<int64_t>(length);
  for (int64_t done = 0; done < in.count(); done += length) {
    from.read(x.get(), length);
    std::iota(order.get(), order.get() + length, int64_t(0));
    std::stable_sort(order.get(), order.get() + length, [&](int64_t i, int64_t j) {
      return descending ? smaller(x[j], x[i]) : smaller(x[i], x[j]);
    });
    to_places.write(order.get(), length);
    if (!to_values) continue;
    for (int64_t k = 0; k < length; ++k) sorted[k] = x[order[k]];
    to_values->write(sorted.get(), length);
  }
}

}  // namespace

void sort(Call& call) {
  call.expect(1, 2, 0, 2);
  const Layout in = call.in(0), places = call.out(1);
  const int axis = call.axis(0, in);
  call.expect_sizes("index output", places, in.sizes);
  call.expect_dtype("index output", places, DType::i64);
  if (call.has_out(0)) {
    const Layout values = call.out(0);
    call.expect_sizes("value output", values, in.sizes);
    call.expect_dtype("value output", values, in.dtype);
  }
  if (is_complex(in.dtype)) call.refuse(GD_UNSUPPORTED, "complex numbers have no order");
  const bool descending = call.integer(1) != 0;
  // A wider type orders 16-bit floats and bool as they are, and gives back the same bits.
  visit_dtype(int32_t(in.dtype), [&](auto t) {
    using T = decltype(t);
    if constexpr (sizeof(T) == 2)
      sort_lines<float>(call, in, places, axis, descending);
    else if constexpr (!is_complex_v<T>)
      sort_lines<T>(call, in, places, axis, descending);
  });
}

}  // namespace gradus::reference
