// gather and scatter_add: an index chooses along one axis. What is added to the same element must
// be added in one order: the indices of each line are sorted, and the first of equal ones adds for
// all.
#include "kernels/gpu/axis_last.hpp"
#include "kernels/gpu/order.hpp"

namespace gradus::inline v1::gpu {
namespace {

// Index i of the walk's view v, or -1 after a complaint.
template <int N>
__device__ inline int64_t index_at(const Walk<N>& w, int v, int64_t at, int64_t size, int slot,
                                   Complaint* complaint) {
  const int64_t k = w.dtype[v] == GD_I32 ? reinterpret_cast<const int32_t*>(w.data[v])[at]
                                         : reinterpret_cast<const int64_t*>(w.data[v])[at];
  if (k >= 0 && k < size) return k;
  complain(complaint, kIndexOutside, slot, k, size);
  return -1;
}

struct Chosen {
  int64_t size, stride;  // of the axis
};

template <class E>
GPU_KERNEL gather_elements(Walk<3> w, Chosen axis, Complaint* complaint) {
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[3];
    w.places(i, at);
    const int64_t k = index_at(w, 1, at[1], axis.size, GD_GATHER, complaint);
    if (k >= 0)
      reinterpret_cast<E*>(w.data[2])[at[2]] =
          reinterpret_cast<const E*>(w.data[0])[at[0] + k * axis.stride];
  }
}

// Indices as keys; those outside get -1, which nobody adds for.
GPU_KERNEL take_indices(Walk<1> w, Divisor length, int64_t size, Keyed* to, Complaint* complaint) {
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[1];
    w.places(i, at);
    const int64_t line = length.quotient(uint32_t(i));
    to[i] = {index_at(w, 0, at[0], size, GD_SCATTER_ADD, complaint),
             i - line * int64_t(length.divisor)};
  }
}

// Views: source and out, both standing at place 0 of the axis. T computes.
template <class T>
GPU_KERNEL add_runs(Walk<2> w, const Keyed* sorted, Divisor length, int64_t source_stride,
                    int64_t out_stride) {
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    const int64_t n = length.divisor, line = length.quotient(uint32_t(i)) * n;
    const int64_t key = sorted[i].key;
    if (key < 0 || (i > line && sorted[i - 1].key == key)) continue;
    int64_t at[2];
    w.places(i, at);
    const int64_t to = at[1] + key * out_stride;
    T sum = load<T>(w.data[1], to, w.dtype[1]);
    for (int64_t k = i; k < line + n && sorted[k].key == key; ++k)
      sum = sum + load<T>(w.data[0], at[0] + sorted[k].place * source_stride, w.dtype[0]);
    store(w.data[1], to, w.dtype[1], sum);
  }
}

// v has other's sizes, except along axis.
void expect_beside(const Call& call, const char* whose, const gd_view& v, const gd_view& other,
                   int axis) {
  bool fits = v.rank == other.rank;
  for (int d = 0; fits && d < v.rank; ++d) fits = d == axis || v.sizes[d] == other.sizes[d];
  if (!fits)
    call.refuse(GD_INVALID, "%s should have sizes %s but along axis %d, got %s", whose,
                SizesText(other).text, axis, SizesText(v).text);
}

}  // namespace

void gather(Run& run) {
  Call& call = run.call;
  call.expect(2, 1, 0, 1);
  const gd_view &in = call.in(0), &index = call.in(1), &out = call.out(0);
  expect_index(call, index);
  call.expect_sizes("index", index, out);
  const int axis = call.axis(0, out);
  expect_beside(call, "input", in, out, axis);
  call.expect_dtype("output", out, DType(in.dtype));
  if (count_of(out) == 0) return;
  AxisLast from(in, axis), at(index, axis), to(out, axis);
  const Chosen chosen{in.sizes[axis], from.stride()};
  from.stand_still(out.sizes[axis]);
  const auto w = make_walk<3>(call, {from.view(), at.view(), to.view()});
  Complaint* const c = run.device.complaints.at(run.stream);
  switch (itemsize(DType(in.dtype))) {
    case 1:
      return each(run, w, kernel<gather_elements<Element<1>>>(), chosen, c);
    case 2:
      return each(run, w, kernel<gather_elements<Element<2>>>(), chosen, c);
    case 4:
      return each(run, w, kernel<gather_elements<Element<4>>>(), chosen, c);
    case 8:
      return each(run, w, kernel<gather_elements<Element<8>>>(), chosen, c);
    default:
      return each(run, w, kernel<gather_elements<Element<16>>>(), chosen, c);
  }
}

void scatter_add(Run& run) {
  Call& call = run.call;
  call.expect(2, 1, 0, 1);
  const gd_view &index = call.in(0), &source = call.in(1), &out = call.out(0);
  expect_index(call, index);
  call.expect_sizes("source", source, index);
  const int axis = call.axis(0, source);
  expect_beside(call, "output", out, source, axis);
  call.expect_dtype("source", source, DType(out.dtype));
  const int64_t count = count_of(source), length = source.sizes[axis];
  if (count == 0) return;
  if (count > kMostElements)
    call.refuse(GD_UNSUPPORTED, "more than %lld elements", static_cast<long long>(kMostElements));

  AxisLast at(index, axis), from(source, axis), to(out, axis);
  const Divisor lines{uint32_t(length)};
  Run::Scratch scratch(run, 2 * Run::Scratch::whole(sizeof(Keyed) * size_t(count)));
  Keyed *a = scratch.take<Keyed>(count), *b = scratch.take<Keyed>(count);
  run.grid(Threads::apart, run.blocks_for(count, 256), 256, kernel<take_indices>(),
           make_walk<1>(call, {at.view()}), lines, out.sizes[axis], a,
           run.device.complaints.at(run.stream));
  const Keyed* sorted = sort_lines(run, a, b, count, length);
  if (count_of(out) == 0) return;

  const int64_t source_stride = from.stride(), out_stride = to.stride();
  from.stand_still(length);
  to.stand_still(length);
  const auto w = make_walk<2>(call, {from.view(), to.view()});
  switch (DType(out.dtype)) {
    case DType::f64:
      return each(run, w, kernel<add_runs<double>>(), sorted, lines, source_stride, out_stride);
    case DType::c64:
      return each(run, w, kernel<add_runs<c64>>(), sorted, lines, source_stride, out_stride);
    case DType::c128:
      return each(run, w, kernel<add_runs<c128>>(), sorted, lines, source_stride, out_stride);
    case DType::i32:
    case DType::i64:
    case DType::u8:
    case DType::bool_:
      return each(run, w, kernel<add_runs<int64_t>>(), sorted, lines, source_stride, out_stride);
    default:
      return each(run, w, kernel<add_runs<float>>(), sorted, lines, source_stride, out_stride);
  }
}

}  // namespace gradus::gpu
