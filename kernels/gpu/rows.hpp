// Lines that a team holds in its registers, so that memory is read once: what softmax.cu and
// normalize.cu do when a line's elements lie together, in fours that are aligned. The order of
// folds is that of fold.hpp; a thread has one member, of up to E chunks.
#pragma once
#include "kernels/gpu/fold.hpp"

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

  template <class S, class T>
  __device__ void load_eight(const S* from, int e, bool there, T absent, T (&v)[kEight]) const {
    GPU_UNROLL
    for (int h = 0; h < 2; ++h) {
      Four<S> x{};
      if (there && has(e, h))
        x = *reinterpret_cast<const Four<S>*>(from + first + h * gap + e * kChunk);
      GPU_UNROLL
      for (int j = 0; j < 4; ++j) v[h * 4 + j] = there && has(e, h) ? widened<T>(x.x[j]) : absent;
    }
  }
  template <class S, class T>
  __device__ void load(const S* from, bool there, T absent, T (&v)[E][kEight]) const {
    GPU_UNROLL
    for (int e = 0; e < E; ++e) load_eight(from, e, there, absent, v[e]);
  }
  template <class S, class T>
  __device__ void store_eight(S* to, int e, bool there, const T (&v)[kEight]) const {
    GPU_UNROLL
    for (int h = 0; h < 2; ++h) {
      Four<S> x;
      GPU_UNROLL
      for (int j = 0; j < 4; ++j) x.x[j] = S(v[h * 4 + j]);
      if (there && has(e, h)) *reinterpret_cast<Four<S>*>(to + first + h * gap + e * kChunk) = x;
    }
  }
  template <class S, class T>
  __device__ void store(S* to, bool there, const T (&v)[E][kEight]) const {
    GPU_UNROLL
    for (int e = 0; e < E; ++e) store_eight(to, e, there, v[e]);
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
