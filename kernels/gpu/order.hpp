// A stable sort of lines, for sort and for scatter_add: merges of runs of 1, 2, 4, ... elements. In
// each pass an element finds its place by counting, in the run beside its own, those that go before
// it. No thread waits for another, and the result depends on the keys alone.
#pragma once
#include "kernels/gpu/walk.hpp"

namespace gradus::inline v1::gpu {

struct Keyed {
  int64_t key, place;  // place: where it stood in its line
};

// Sorts `count / length` lines, count at most kMostElements. `a` and `b` hold count elements;
// returns the one of them that holds the result.
Keyed* sort_lines(const Run& run, Keyed* a, Keyed* b, int64_t count, int64_t length);

}  // namespace gradus::gpu
