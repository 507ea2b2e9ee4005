// The lines of an operand of a contraction (rows of a, columns of b) cut into boxes that fit in a
// cache. A box is a range of each axis; its lines count in row-major order.
#pragma once
#include "kernels/cpu/isa/contraction.hpp"

namespace gradus::cpu {

inline int64_t panels(int64_t n, int64_t width) { return (n + width - 1) / width; }
inline int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t most(int64_t a, int64_t b) { return a < b ? b : a; }

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
  // the operand and out have neighbours along different axes (`turned`: the last two), a box is a
  // square of both: then whole cache lines are read and whole ones are written.
  Boxes(const Axes& axes, bool turned, int64_t lines, int64_t width) : axes_(axes) {
    const int last = axes.rank - 1;
    int64_t left = lines;
    for (int d = last; d >= 0; --d) {
      int64_t side = left;
      if (turned && d == last) {
        side = 16;
        while (side * side < lines) side += 16;
      }
      if (turned && d == last - 1) side = most(left, 16);
      extent_[d] = cut(axes.size[d], most(side, 1), d == last ? width : 16);
      number_[d] = panels(axes.size[d], extent_[d]);
      left /= extent_[d];
      count *= number_[d];
      largest *= extent_[d];
    }
    // Neighbours of the operand first: the next box reads on where this one ended.
    for (int d = 0; d <= last; ++d) order_[d] = last - d;
    if (turned) std::swap(order_[0], order_[1]);
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
