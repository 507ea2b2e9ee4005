// What the kernels for small matrices share. A matrix lies by columns in shared memory, whose pitch
// is odd so that neither rows nor columns meet in few banks. Sums are made by groups of kLanes
// neighbouring threads, in an order that does not depend on the width of a wave; where all threads
// need a sum, each group makes it by itself, which costs less than a barrier.
#pragma once
#include "kernels/gpu/linalg/numbers.hpp"

namespace gradus::inline v1::gpu {

inline constexpr int kLanes = 8;

__device__ inline int group() { return thread() / kLanes; }
__device__ inline int groups() { return block_threads() / kLanes; }
__device__ inline int lane_of_group() { return thread() % kLanes; }

// Folds what the lanes of a group bring; all lanes of a wave call it together. f commutes, so each
// lane gets the same bits.
template <class E, class F>
__device__ inline E fold_lanes(E mine, F&& f) {
  for (int step = kLanes / 2; step > 0; step /= 2) mine = f(mine, shuffle(mine, lane() ^ step));
  return mine;
}
template <class E>
__device__ inline E sum_of_lanes(E mine) {
  return fold_lanes(mine, [](E a, E b) { return a + b; });
}
template <class R>
__device__ inline R largest_of_lanes(R mine) {
  return fold_lanes(mine, [](R a, R b) { return a < b ? b : a; });
}
// The largest of what all threads of the block bring, for all; room: a number for each thread.
template <class R>
__device__ inline R largest_of_threads(R mine, R* room) {
  room[thread()] = mine;
  barrier();
  R most = 0;
  for (int i = lane_of_group(); i < block_threads(); i += kLanes)
    if (room[i] > most) most = room[i];
  most = largest_of_lanes(most);
  barrier();
  return most;
}

// f(i, j) for i in [i0, m) and j in [j0, n), by the threads of a block: Down of them along columns.
template <int Down = 32, class F>
__device__ inline void each_entry(int i0, int m, int j0, int n, F&& f) {
  for (int j = j0 + thread() / Down; j < n; j += block_threads() / Down)
    for (int i = i0 + thread() % Down; i < m; i += Down) f(i, j);
}
// f(i) for i in [i0, n).
template <class F>
__device__ inline void each_index(int i0, int n, F&& f) {
  for (int i = i0 + thread(); i < n; i += block_threads()) f(i);
}

// The power of two by which the largest entry of a (m, n) comes near 1; a is multiplied by it.
template <class T>
__device__ inline int normalize_scale(T* a, int pitch, int m, int n, real_of<T>* room) {
  using R = real_of<T>;
  R mine = 0;
  each_entry(0, m, 0, n, [&](int i, int j) {
    const R size = size_of(a[j * pitch + i]);
    if (size > mine) mine = size;
  });
  const R most = largest_of_threads(mine, room);
  if (most == 0) return 0;
  constexpr int kMost = sizeof(R) == 4 ? 124 : 1020;
  int by;
  frexp(most, &by);
  by = by < -kMost ? kMost : by > kMost ? -kMost : -by;
  const R factor = R(ldexp(R(1), by));
  each_entry(0, m, 0, n, [&](int i, int j) { a[j * pitch + i] = times(factor, a[j * pitch + i]); });
  barrier();
  return by;
}
template <class T>
__device__ inline T scale_by_power(T x, int by) {
  if constexpr (is_complex_v<T>)
    return T(real_of<T>(ldexp(x.re, by)), real_of<T>(ldexp(x.im, by)));
  else
    return T(ldexp(x, by));
}

}  // namespace gradus::gpu
