// The tree of join_lanes (fold.hpp) over lanes that are vectors in registers: depth first, so that
// few of them wait.
#pragma once
#include "kernels/cpu/isa/fold.hpp"
#include "kernels/cpu/isa/tile.hpp"

namespace gradus::inline v1::cpu {

// The sum of lanes kFirst, kFirst + kStep, ... of those below n; lane(l) gives one.
template <int kFirst, int kStep, class B, class F>
__attribute__((always_inline)) inline B lane_tree(int64_t n, const F& lane) {
  if constexpr (kStep == kLanes) {
    return lane(kFirst);
  } else {
    const B x = lane_tree<kFirst, 2 * kStep, B>(n, lane);
    return kFirst + kStep < n ? x + lane_tree<kFirst + kStep, 2 * kStep, B>(n, lane) : x;
  }
}

}  // namespace gradus::cpu
