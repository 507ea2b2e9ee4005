// Lines that a team holds in its registers, so that memory is read once: what softmax.cu and
// normalize.cu do when a line's elements lie together, in fours that are aligned. The order of
// folds is that of fold.hpp; a thread has one member, of up to E chunks.
#pragma once
#include "kernels/gpu/folds/fold.hpp"

namespace gradus::inline v1::gpu {

// Blocks that a unit of 64 Ki registers should hold: a thread keeps E eights of computing<S>.
template <class S, int E>
inline constexpr int kRowBlocks = E * sizeof(computing<S>) <= 4    ? 4
                                  : E * sizeof(computing<S>) <= 16 ? 3
                                  : E * sizeof(computing<S>) <= 32 ? 2
                                                                   : 1;

template <int E>
struct Row {
  Team team;
  int length, first, gap, used;  // used: chunks that the line has

  __device__ Row(const Team& t, int n)
      : team(t),
        length(n),
        first(t.place() * 4),
        gap(t.members() * 4),
        used(int((n + kChunk - 1) / kChunk)) {}

  // Are the elements of this half of an eight there? All are, or none.
  __device__ bool has(int e, int half) const {
    return e * int(kChunk) < length - first - half * gap;
  }

  // Eights e, e + 1, ... of a line: of elements that are not there, `absent`, which an S holds. All
  // is loaded before any is used.
  template <int N, class S, class T>
  __device__ void load(const S* from, int e, bool there, T absent, T (&v)[N][kEight]) const {
    Four<S> x[N][2];
    GPU_UNROLL
    for (int n = 0; n < 2 * N; ++n) {
      Four<S>& to = x[n / 2][n % 2];
      GPU_UNROLL
      for (int j = 0; j < 4; ++j) to.x[j] = S(absent);
      if (there && has(e + n / 2, n % 2))
        to = *reinterpret_cast<const Four<S>*>(from + first + n % 2 * gap + (e + n / 2) * kChunk);
    }
    GPU_UNROLL
    for (int n = 0; n < N; ++n) {
      GPU_UNROLL
      for (int j = 0; j < kEight; ++j) v[n][j] = T(widened(x[n][j / 4].x[j % 4]));
    }
  }
  template <class S, class T>
  __device__ void store(S* to, bool there, const T (&v)[E][kEight]) const {
    GPU_UNROLL
    for (int n = 0; n < 2 * E; ++n) {
      Four<S> x;
      GPU_UNROLL
      for (int j = 0; j < 4; ++j) x.x[j] = S(v[n / 2][n % 2 * 4 + j]);
      if (there && has(n / 2, n % 2))
        *reinterpret_cast<Four<S>*>(to + first + n % 2 * gap + n / 2 * kChunk) = x;
    }
  }

  // The fold of what the eights of the team's threads give. All threads of the block call it.
  template <class F, class Acc = typename F::Acc>
  __device__ Acc fold(const F& f, Acc (&part)[E], Acc* shared) const {
    GPU_UNROLL
    for (int e = 0; e < E; ++e) part[e] = f.combine(f.none(), part[e]);
    fold_neighbours(f, part, used, team, shared);
    GPU_UNROLL
    for (int d = 1; d < E; d *= 2) {
      GPU_UNROLL
      for (int e = 0; e < E; e += 2 * d) part[e] = f.combine(part[e], part[e + d]);
    }
    return part[0];
  }
};

// Calls f(S{}, E) with constants for lines of this dtype and length, if there are kernels for them.
template <class F>
bool at_rows(int32_t dtype, int64_t length, F&& f) {
  const auto at_length = [&](auto zero) {
    if (length <= kChunk)
      f(zero, std::integral_constant<int, 1>());
    else if (length <= 4 * kChunk)
      f(zero, std::integral_constant<int, 4>());
    else
      return false;
    return true;
  };
  switch (dtype) {
    case GD_F32:
      return at_length(float{});
    case GD_F64:
      return at_length(double{});
    case GD_F16:
      return at_length(Half{});
    default:
      return at_length(BFloat16{});
  }
}

}  // namespace gradus::gpu
