// The lines of an operand of a contraction (rows of a, columns of b) cut into boxes that fit in a
// cache. A box is a range of each axis; its lines count in row-major order.
#pragma once
#include "kernels/cpu/isa/contract/contraction.hpp"

namespace gradus::inline v1::cpu {

inline int64_t panels(int64_t n, int64_t width) { return (n + width - 1) / width; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most(int64_t a, int64_t b) { return a < b ? b : a; }

// n tasks, by threads if their multiplications are worth it.
template <class F>
void run_tasks(gd_device* d, int64_t n, int64_t work, int64_t worth, F&& f) {
  if (work < worth)
    for (int64_t i = 0; i < n; ++i) f(i);
  else
    parallel(d, n, f);
}

// k in equal blocks of at most `most_each`; at least 1.
inline int64_t k_block(int64_t k, int64_t most_each) {
  return most(panels(k, most(panels(k, most_each), 1)), 1);
}

struct Box {
  Axes axes;
  int64_t start[kRoles];

  void offsets(int role, int64_t first, int64_t n, int64_t* to) const {
    axes.offsets(role, first, n, to);
    for (int64_t i = 0; i < n; ++i) to[i] += start[role];
  }
};

class Boxes {
 public:
  // About `lines` lines in a box, whole panels of `width` where the innermost axis is cut. Where
  // the operand has its neighbours along another axis, `turned` (else -1), than out, which has them
  // along the last, a box is a square of both, and what follows them in memory: then whole cache
  // lines are read and whole ones are written.
  Boxes(const Axes& axes, int turned, int64_t lines, int64_t width) : axes_(axes) {
    const int last = axes.rank - 1;
    for (int d = 0; d <= last; ++d) extent_[d] = 1;
    int64_t left = lines;
    auto give = [&](int d, int64_t size) {
      left *= extent_[d];
      extent_[d] = cut(axes.size[d], most(size, 1), d == last ? width : 16);
      left /= extent_[d];
    };
    if (turned >= 0) {
      int64_t side = 16;
      while (side * side < lines) side += 16;
      give(last, side);
      give(turned, most(left, 16));
      while (left > 1) {  // the next ones of out, then of the operand, by turns
        int d = last;
        while (d >= 0 && extent_[d] == axes.size[d]) --d;
        const int follower = next(kB, turned);
        if (d < 0) break;
        give(d, 2 * extent_[d]);
        if (follower >= 0 && left > 1) give(follower, 2 * extent_[follower]);
      }
    } else {
      for (int d = last; d >= 0; --d) give(d, left);
    }
    for (int d = 0; d <= last; ++d) {
      number_[d] = panels(axes.size[d], extent_[d]);
      count *= number_[d];
      largest *= extent_[d];
    }
    // Neighbours of the operand first: the next box reads on where this one ended.
    for (int d = 0; d <= last; ++d) order_[d] = last - d;
    if (turned >= 0) {
      for (int o = last - turned; o > 0; --o) order_[o] = order_[o - 1];
      order_[0] = turned;
    }
  }

  void get(int64_t i, Box& box) const {
    box.axes.take(axes_);
    box.axes.count = 1;
    for (int64_t& at : box.start) at = 0;
    for (int o = 0; o < axes_.rank; ++o) {
      const int d = order_[o];
      const int64_t first = i % number_[d] * extent_[d];
      i /= number_[d];
      box.axes.size[d] = least(extent_[d], axes_.size[d] - first);
      box.axes.count *= box.axes.size[d];
      for (int r = 0; r < kRoles; ++r) box.start[r] += first * axes_.stride[r][d];
    }
  }

  int64_t count = 1, largest = 1;

 private:
  // The axis that is next in memory and not yet whole, or -1.
  int next(int role, int turned) const {
    int found = -1;
    for (int d = 0; d < axes_.rank; ++d)
      if (d != turned && extent_[d] < axes_.size[d] && axes_.stride[role][d] > 0 &&
          (found < 0 || axes_.stride[role][d] < axes_.stride[role][found]))
        found = d;
    return found;
  }
  // Equal pieces of at most about `most_each`.
  static int64_t cut(int64_t size, int64_t most_each, int64_t width) {
    if (size <= most_each) return size;
    const int64_t each = panels(size, panels(size, most_each)), round = panels(each, width) * width;
    return round <= most_each || each >= width ? least(round, size) : each;
  }

  const Axes& axes_;
  int64_t extent_[kMaxRank], number_[kMaxRank];
  int order_[kMaxRank];
};

}  // namespace gradus::cpu
