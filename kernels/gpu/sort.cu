// sort: elements become integers of the same order, lines are merged, values follow their places.
#include "kernels/gpu/axis_last.hpp"
#include "kernels/gpu/order.hpp"

namespace gradus::inline v1::gpu {
namespace {

constexpr int64_t kLargest = 0x7fffffffffffffff;

// An integer that orders like the number: NaN is the largest, -0 equals 0.
__device__ inline int64_t key_of(double x) {
  if (x != x) return kLargest;
  if (x == 0) return 0;
  int64_t bits;
  memcpy(&bits, &x, 8);
  return bits < 0 ? bits ^ kLargest : bits;
}

// Element i of the walk is element i % length of line i / length.
GPU_KERNEL take_keys(Walk<1> w, Divisor length, bool descending, bool whole, Keyed* to) {
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[1];
    w.places(i, at);
    const int64_t key = whole ? load<int64_t>(w.data[0], at[0], w.dtype[0])
                              : key_of(load<double>(w.data[0], at[0], w.dtype[0]));
    const int64_t line = length.quotient(uint32_t(i));
    to[i] = {descending ? ~key : key, i - line * int64_t(length.divisor)};
  }
}

GPU_KERNEL merge_runs(const Keyed* from, Keyed* to, int64_t count, Divisor length, int64_t width) {
  for (int64_t i = first_index(); i < count; i += index_step()) {
    const int64_t n = length.divisor, line = length.quotient(uint32_t(i)) * n, p = i - line;
    const int64_t pair = p / (2 * width) * (2 * width);  // width is a power of two
    const bool left = p - pair < width;
    const Keyed own = from[i];
    // How many of the run beside go before it? On equal keys the left run does.
    const int64_t begin = left ? pair + width : pair;
    int64_t low = begin < n ? begin : n, high = begin + width < n ? begin + width : n;
    const int64_t first = low;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      const int64_t key = from[line + middle].key;
      if (left ? key < own.key : key <= own.key)
        low = middle + 1;
      else
        high = middle;
    }
    to[line + pair + (left ? p - pair : p - pair - width) + (low - first)] = own;
  }
}

// The places, and the values that stood there.
template <class E>
GPU_KERNEL give_sorted(Walk<3> w, const Keyed* sorted, int64_t stride) {
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[3];
    w.places(i, at);
    const int64_t place = sorted[i].place;
    reinterpret_cast<int64_t*>(w.data[2])[at[2]] = place;
    if (w.data[1])
      reinterpret_cast<E*>(w.data[1])[at[1]] =
          reinterpret_cast<const E*>(w.data[0])[at[0] + place * stride];
  }
}

}  // namespace

Keyed* sort_lines(const Run& run, Keyed* a, Keyed* b, int64_t count, int64_t length) {
  for (int64_t width = 1; width < length; width *= 2) {
    run.grid(Threads::apart, run.blocks_for(count, 256), 256, kernel<merge_runs>(), a, b, count,
             Divisor(uint32_t(length)), width);
    Keyed* const next = a;
    a = b;
    b = next;
  }
  return a;
}

void sort(Run& run) {
  Call& call = run.call;
  const auto [in, values, places, axis] = expect_sort(call);
  const int64_t count = count_of(in), length = in.sizes[axis];
  if (count == 0) return;
  if (count > kMostElements)
    call.refuse(GD_UNSUPPORTED, "more than %lld elements", static_cast<long long>(kMostElements));

  AxisLast from(in, axis), to_places(places, axis), to_values(values ? *values : gd_view{}, axis);
  const auto keys = make_walk<1>(call, {from.view()});
  Run::Scratch scratch(run, 2 * Run::Scratch::whole(sizeof(Keyed) * size_t(count)));
  Keyed *a = scratch.take<Keyed>(count), *b = scratch.take<Keyed>(count);
  run.grid(Threads::apart, run.blocks_for(count, 256), 256, kernel<take_keys>(), keys,
           Divisor(uint32_t(length)), call.integer(1) != 0, is_integer(DType(in.dtype)), a);
  const Keyed* sorted = sort_lines(run, a, b, count, length);

  const int64_t stride = from.stride();
  from.stand_still(length);
  const auto w =
      make_walk<3>(call, {from.view(), values ? to_values.view() : nullptr, to_places.view()});
  switch (itemsize(DType(in.dtype))) {
    case 1:
      return each(run, w, kernel<give_sorted<uint8_t>>(), sorted, stride);
    case 2:
      return each(run, w, kernel<give_sorted<uint16_t>>(), sorted, stride);
    case 4:
      return each(run, w, kernel<give_sorted<uint32_t>>(), sorted, stride);
    default:
      return each(run, w, kernel<give_sorted<uint64_t>>(), sorted, stride);
  }
}

}  // namespace gradus::gpu
