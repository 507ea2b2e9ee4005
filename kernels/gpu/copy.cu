// copy and fill.
#include "kernels/gpu/runtime.hpp"
#include "kernels/gpu/walk.hpp"

namespace gradus::inline v1::gpu {
namespace {

// Every cast goes through one of two wide types that hold all numbers of the source exactly.
template <class Wide>
GPU_KERNEL cast_elements(Walk<2> w) {
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[2];
    w.places(i, at);
    store(w.data[1], at[1], w.dtype[1], load<Wide>(w.data[0], at[0], w.dtype[0]));
  }
}

template <class E>
GPU_KERNEL move_elements(Walk<2> w) {
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[2];
    w.places(i, at);
    reinterpret_cast<E*>(w.data[1])[at[1]] = reinterpret_cast<const E*>(w.data[0])[at[0]];
  }
}

// A plane of two axes, one contiguous in the source and the other in the destination: squares go
// through shared memory, so that both sides are touched in runs.
constexpr int kSquare = 32, kRows = 8;
struct Plane {
  int64_t rows, columns;        // columns lie together in `from`, rows in `to`
  int64_t from_row, to_column;  // strides
  int64_t squares_down, squares_across;
};
template <class E>
GPU_KERNEL turn_planes(Walk<2> outer, Plane p) {
  GPU_SHARED(E, square, kSquare * (kSquare + 1));
  const int64_t per_plane = p.squares_down * p.squares_across;
  const int x = thread() % kSquare, y = thread() / kSquare;
  for (int64_t task = block(); task < outer.count * per_plane; task += blocks()) {
    int64_t at[2];
    outer.places(task / per_plane, at);
    const int64_t row = task % per_plane / p.squares_across * kSquare,
                  column = task % per_plane % p.squares_across * kSquare;
    const E* from = reinterpret_cast<const E*>(outer.data[0]) + at[0];
    E* to = reinterpret_cast<E*>(outer.data[1]) + at[1];
    for (int k = y; k < kSquare; k += kRows)
      if (row + k < p.rows && column + x < p.columns)
        square[k * (kSquare + 1) + x] = from[(row + k) * p.from_row + column + x];
    barrier();
    for (int k = y; k < kSquare; k += kRows)
      if (row + x < p.rows && column + k < p.columns)
        to[(column + k) * p.to_column + row + x] = square[x * (kSquare + 1) + k];
    barrier();
  }
}

template <class E>
void move_as(const Run& run, const Walk<2>& w) {
  // Which axes lie together on either side?
  int source = -1, target = -1;
  for (int d = 0; d < w.rank; ++d) {
    if (w.strides[0][d] == 1) source = d;
    if (w.strides[1][d] == 1) target = d;
  }
  const bool turned = source >= 0 && target >= 0 && source != target && w.sizes[source] >= 8 &&
                      w.sizes[target] >= 8;
  if (!turned) return each(run, w, kernel<move_elements<E>>());
  Plane p{w.sizes[target],
          w.sizes[source],
          w.strides[0][target],
          w.strides[1][source],
          (w.sizes[target] + kSquare - 1) / kSquare,
          (w.sizes[source] + kSquare - 1) / kSquare};
  Walk<2> outer = w;
  outer.rank = 0;
  outer.dense = false;
  outer.count = 1;
  for (int d = 0; d < w.rank; ++d) {
    if (d == source || d == target) continue;
    outer.sizes[outer.rank] = w.sizes[d];
    outer.divisors[outer.rank] = w.divisors[d];
    for (int v = 0; v < 2; ++v) outer.strides[v][outer.rank] = w.strides[v][d];
    outer.count *= w.sizes[d];
    ++outer.rank;
  }
  const int64_t squares = outer.count * p.squares_down * p.squares_across;
  run.grid(Threads::together, run.blocks_for(squares, 1), kSquare * kRows, kernel<turn_planes<E>>(),
           outer, p);
}

GPU_KERNEL fill_elements(Walk<1> w, c128 value, int64_t integer, bool whole) {
  for (int64_t i = first_index(); i < w.count; i += index_step()) {
    int64_t at[1];
    w.places(i, at);
    if (whole)
      store(w.data[0], at[0], w.dtype[0], integer);
    else
      store(w.data[0], at[0], w.dtype[0], value);
  }
}

}  // namespace

void copy(Run& run) {
  Call& call = run.call;
  call.expect(1, 1, 0, 0);
  const gd_view &in = call.in(0), &out = call.out(0);
  call.expect_sizes("input", in, out);
  const auto w = make_walk<2>(call, {&in, &out});
  if (w.count == 0 ||
      (in.dtype == out.dtype && in.data == out.data && w.dense && w.data[0] == w.data[1]))
    return;
  const size_t size = itemsize(DType(in.dtype));
  if (in.dtype != out.dtype)
    return is_integer(DType(in.dtype)) ? each(run, w, kernel<cast_elements<int64_t>>())
                                       : each(run, w, kernel<cast_elements<c128>>());
  if (w.dense)
    return check(&run.device,
                 GPU(MemcpyAsync)(w.data[1], w.data[0], size_t(w.count) * size,
                                  GPU(MemcpyDeviceToDevice), run.stream),
                 "a copy");
  switch (size) {
    case 1:
      return move_as<Element<1>>(run, w);
    case 2:
      return move_as<Element<2>>(run, w);
    case 4:
      return move_as<Element<4>>(run, w);
    case 8:
      return move_as<Element<8>>(run, w);
    default:
      return move_as<Element<16>>(run, w);
  }
}

void copy_views(const Run& run, const gd_view& from, const gd_view& to) {
  if (count_of(from) == 0) return;
  gd_call raw{};
  raw.struct_size = sizeof raw;
  raw.slot = GD_COPY;
  raw.n_in = raw.n_out = 1;
  raw.in = &from;
  raw.out = &to;
  Call call(raw, run.call.device(), gd_slot_name(gd_slot(run.call.raw().slot)));
  Run inner{run.device, run.stream, call};
  copy(inner);
}

void fill(Run& run) {
  Call& call = run.call;
  call.expect(0, 1, 0, 0);
  const gd_view& out = call.out(0);
  const bool whole = out.dtype == GD_I32 || out.dtype == GD_I64;
  call.expect(0, 1, whole ? 0 : 2, whole ? 1 : 0);
  const auto w = make_walk<1>(call, {&out});
  const c128 value =
      whole ? c128() : c128(call.number(0), is_complex(DType(out.dtype)) ? call.number(1) : 0.0);
  each(run, w, kernel<fill_elements>(), value, whole ? call.integer(0) : 0, whole);
}

}  // namespace gradus::gpu
