// copy and fill.
#include "kernels/gpu/runtime.hpp"
#include "kernels/gpu/runs.hpp"

namespace gradus::inline v1::gpu {
namespace {

constexpr int kCastRun = 4;

// Every cast goes through one of three types that hold all numbers of the source exactly.
template <class Wide>
GPU_KERNEL cast_elements(Runs<2> w) {
  for (uint32_t r = uint32_t(first_index()); r < w.total; r += uint32_t(index_step())) {
    int64_t at[2];
    const int n = w.start(r, at);
    const bool all = n == kCastRun;
    Wide x[kCastRun] = {};
    at_held<Wide>(w.dtype[0], [&](auto s) {
      using S = decltype(s);
      S stored[kCastRun] = {};
      load_run(stored, reinterpret_cast<const S*>(w.data[0]) + at[0], w.step(0), n,
               all && (w.wide & 1u));
      for (int k = 0; k < kCastRun; ++k) x[k] = cast_to<Wide>(stored[k]);
    });
    at_any(w.dtype[1], [&](auto s) {
      using S = decltype(s);
      S stored[kCastRun] = {};
      for (int k = 0; k < kCastRun; ++k) stored[k] = cast_to<S>(x[k]);
      store_run(stored, reinterpret_cast<S*>(w.data[1]) + at[1], w.step(1), n,
                all && (w.wide & 2u));
    });
  }
}

template <class E>
constexpr int kMoveRun = int(16 / sizeof(E));

template <class E>
GPU_KERNEL move_elements(Runs<2> w) {
  constexpr int R = kMoveRun<E>;
  for (uint32_t r = uint32_t(first_index()); r < w.total; r += uint32_t(index_step())) {
    int64_t at[2];
    const int n = w.start(r, at);
    E x[R] = {};
    load_run(x, reinterpret_cast<const E*>(w.data[0]) + at[0], w.step(0), n,
             n == R && (w.wide & 1u));
    store_run(x, reinterpret_cast<E*>(w.data[1]) + at[1], w.step(1), n, n == R && (w.wide & 2u));
  }
}

template <class E>
GPU_KERNEL fill_elements(Runs<1> w, E value) {
  constexpr int R = kMoveRun<E>;
  E x[R];
  for (int k = 0; k < R; ++k) x[k] = value;
  for (uint32_t r = uint32_t(first_index()); r < w.total; r += uint32_t(index_step())) {
    int64_t at[1];
    const int n = w.start(r, at);
    store_run(x, reinterpret_cast<E*>(w.data[0]) + at[0], w.step(0), n, n == R && w.wide);
  }
}

// Where source and destination run along different axes, tiles of a plane go through shared memory:
// read along the one side, written along the other. A side is an axis, or several that make up for
// short ones.
constexpr int kMostSide = 256, kSideAxes = 4;
struct Side {
  uint32_t total = 1, length = 1;  // elements of the side, and of a tile along it
  Divisor tiles, in_tile;          // their number; length, to divide by
  int32_t rank = 0;
  Divisor sizes[kSideAxes];  // the axis with the shortest steps first
  int64_t strides[2][kSideAxes];
  // The place of element i in view v.
  __device__ int64_t place(int v, uint32_t i) const {
    int64_t at = 0;
    GPU_ROLLED
    for (int d = 0; d < rank; ++d) {
      const uint32_t rest = d + 1 < rank ? sizes[d].quotient(i) : 0;
      at += int64_t(i - rest * sizes[d].divisor) * strides[v][d];
      i = rest;
    }
    return at;
  }
  __device__ uint32_t in(uint32_t begin) const {  // elements of the tile that begins there
    return total - begin < length ? total - begin : length;
  }
};
struct Plane {
  Side a, b;  // along the source; along the destination
  Divisor tiles;
  uint32_t total, pitch;
};
template <class E>
constexpr int kTileSide = sizeof(E) > 4   ? 32
                          : sizeof(E) > 1 ? 64
                                          : 128;
// Rows of a tile are an odd number of 4 bytes apart, so that a column lies in different banks.
template <class E>
constexpr int kPad = sizeof(E) < 4 ? int(4 / sizeof(E)) : 1;
template <class E>
constexpr int kTile = kTileSide<E>*(kTileSide<E> + kPad<E>);

// Threads take an element of one side each and go along the other; few are left over.
template <class E>
GPU_KERNEL turn_planes(Walk<2> outer, Plane p) {
  constexpr uint32_t kTogether = sizeof(E) > 4 ? 4 : 8;  // loads of a thread on their way
  GPU_SHARED(E, tile, kTile<E>);
  GPU_SHARED(int64_t, from_b, kMostSide);
  GPU_SHARED(int64_t, to_a, kMostSide);
  const uint32_t me = uint32_t(thread()), all = uint32_t(block_threads());
  for (uint32_t task = uint32_t(block()); task < p.total; task += uint32_t(blocks())) {
    const uint32_t plane = p.tiles.quotient(task), in_plane = task - plane * p.tiles.divisor,
                   row = p.a.tiles.quotient(in_plane),
                   a0 = (in_plane - row * p.a.tiles.divisor) * p.a.length, b0 = row * p.b.length,
                   an = p.a.in(a0), bn = p.b.in(b0);
    if (me < bn) from_b[me] = p.b.place(0, b0 + me);
    if (me < an) to_a[me] = p.a.place(1, a0 + me);
    int64_t at[2];
    outer.places(plane, at);
    barrier();
    {
      const uint32_t first = p.a.in_tile.quotient(me), a = me - first * p.a.length,
                     step = p.a.in_tile.quotient(all);
      if (first < step && a < an) {
        const E* from = reinterpret_cast<const E*>(outer.data[0]) + at[0] + p.a.place(0, a0 + a);
        E* cell = tile + first * p.pitch + a;
        const uint32_t rows = step * p.pitch;
        for (uint32_t b = first; b < bn; b += kTogether * step) {
          E x[kTogether];  // past the end the last one again, which needs no branch
          for (uint32_t k = 0; k < kTogether; ++k)
            x[k] = from[from_b[b + k * step < bn ? b + k * step : bn - 1]];
          for (uint32_t k = 0; k < kTogether; ++k, cell += rows)
            if (b + k * step < bn) *cell = x[k];
        }
      }
    }
    barrier();
    {
      const uint32_t first = p.b.in_tile.quotient(me), b = me - first * p.b.length,
                     step = p.b.in_tile.quotient(all);
      if (first < step && b < bn) {
        E* to = reinterpret_cast<E*>(outer.data[1]) + at[1] + p.b.place(1, b0 + b);
        const E* cell = tile + b * p.pitch + first;
        const int64_t* place = to_a + first;
        for (uint32_t a = first; a < an; a += 4 * step)
          for (uint32_t k = 0; k < 4; ++k, cell += step, place += step)
            if (a + k * step < an) to[*place] = *cell;
      }
    }
    barrier();
  }
}

// The axis with the shortest step in view v among those that `free` allows, or -1.
int shortest(const Walk<2>& w, int v, uint32_t free) {
  const auto step = [&](int d) { return w.strides[v][d] < 0 ? -w.strides[v][d] : w.strides[v][d]; };
  int best = -1;
  for (int d = 0; d < w.rank; ++d)
    if (free >> d & 1u && step(d) != 0 && (best < 0 || step(d) < step(best))) best = d;
  return best;
}

// Takes axis d of w out of `free` and appends it to the side.
void take(const Walk<2>& w, int d, Side& side, uint32_t& free) {
  side.sizes[side.rank] = w.divisors[d];
  for (int v = 0; v < 2; ++v) side.strides[v][side.rank] = w.strides[v][d];
  ++side.rank;
  side.total *= uint32_t(w.sizes[d]);
  free &= ~(1u << d);
}

// The plane of a walk and the axes that are left, if the walk is better turned.
template <class E>
bool make_plane(const Walk<2>& w, Plane& p, Walk<2>& outer) {
  uint32_t free = (1u << w.rank) - 1;
  const int first[2] = {shortest(w, 0, free), shortest(w, 1, free)};
  if (w.count < 1024 || first[0] < 0 || first[1] < 0 || first[0] == first[1] ||
      w.strides[0][first[1]] == 0)
    return false;
  Side* const sides[2] = {&p.a, &p.b};
  for (int v = 0; v < 2; ++v) take(w, first[v], *sides[v], free);
  for (int v = 1; v >= 0; --v)
    while (sides[v]->total < uint32_t(kTileSide<E>) && sides[v]->rank < kSideAxes) {
      const int d = shortest(w, v, free);
      if (d < 0) break;
      take(w, d, *sides[v], free);
    }
  const auto least = [](uint32_t x, uint32_t y) { return x < y ? x : y; };
  const uint32_t room = kTile<E>;
  p.a.length = least(p.a.total, kTileSide<E>);
  if (p.b.total < uint32_t(kTileSide<E>))  // thin: the other way makes up for it
    p.a.length = least(p.a.total, least(kMostSide, room / p.b.total - 2 * kPad<E>));
  p.pitch = ((p.a.length + kPad<E> - 1) / kPad<E> | 1u) * kPad<E>;
  p.b.length = least(p.b.total, least(kMostSide, room / p.pitch));
  if (p.a.total >= uint32_t(kTileSide<E>)) p.b.length = least(p.b.length, kTileSide<E>);
  for (Side* side : sides) {
    side->tiles = Divisor((side->total + side->length - 1) / side->length);
    side->in_tile = Divisor(side->length);
  }
  outer = w;
  outer.rank = 0;
  outer.dense = false;
  outer.count = 1;
  for (int d = 0; d < w.rank; ++d) {
    if (!(free >> d & 1u)) continue;
    outer.sizes[outer.rank] = w.sizes[d];
    outer.divisors[outer.rank] = w.divisors[d];
    for (int v = 0; v < 2; ++v) outer.strides[v][outer.rank] = w.strides[v][d];
    outer.count *= w.sizes[d];
    ++outer.rank;
  }
  p.tiles = Divisor(p.a.tiles.divisor * p.b.tiles.divisor);
  p.total = uint32_t(outer.count) * p.tiles.divisor;
  return true;
}

template <class E>
void move_as(const Run& run, const Walk<2>& w) {
  in_pieces(w, [&](const Walk<2>& piece) {
    Plane p;
    Walk<2> outer;
    if (make_plane<E>(piece, p, outer))
      run.grid(Threads::together, p.total, 256, kernel<turn_planes<E>>(), outer, p);
    else
      each_run(run, piece, kMoveRun<E>, kernel<move_elements<E>>());
  });
}

template <class E>
void fill_as(const Run& run, const Walk<1>& w, const void* bytes) {
  E value;
  memcpy(&value, bytes, sizeof(E));
  each_run(run, w, kMoveRun<E>, kernel<fill_elements<E>>(), value);
}

}  // namespace

void copy(Run& run) {
  Call& call = run.call;
  call.expect(1, 1, 0, 0);
  const gd_view &in = call.in(0), &out = call.out(0);
  call.expect_sizes("input", in, out);
  const auto w = in_order_of_output(make_walk<2>(call, {&in, &out}));
  if (w.count == 0 ||
      (in.dtype == out.dtype && in.data == out.data && w.dense && w.data[0] == w.data[1]))
    return;
  const size_t size = itemsize(DType(in.dtype));
  if (in.dtype != out.dtype)
    return each_run(run, w, kCastRun,
                    is_integer(DType(in.dtype)) ? kernel<cast_elements<int64_t>>()
                    : in.dtype == GD_F32 || is_half(DType(in.dtype))
                        ? kernel<cast_elements<float>>()
                        : kernel<cast_elements<c128>>());
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
  alignas(16) unsigned char bytes[16];
  if (whole)
    store(bytes, 0, out.dtype, call.integer(0));
  else
    store(bytes, 0, out.dtype,
          c128(call.number(0), is_complex(DType(out.dtype)) ? call.number(1) : 0.0));
  switch (itemsize(DType(out.dtype))) {
    case 1:
      return fill_as<Element<1>>(run, w, bytes);
    case 2:
      return fill_as<Element<2>>(run, w, bytes);
    case 4:
      return fill_as<Element<4>>(run, w, bytes);
    case 8:
      return fill_as<Element<8>>(run, w, bytes);
    default:
      return fill_as<Element<16>>(run, w, bytes);
  }
}

}  // namespace gradus::gpu
