// How long a device takes for a step: a model of its rate, its memory and what any step costs. A
// step is a batched matrix product, and the sizes of its operands, its result and its work say all:
// with extents m, n, k and batch b they are mkb, nkb, mnb and mnkb.
#pragma once
#include <algorithm>
#include <cmath>

namespace gradus::inline v1::plan {

struct StepTime {
  double flops = 1e10;     // a second, of a product that is large in all directions
  double bytes = 8e9;      // a second, read and written
  double overhead = 1e-6;  // seconds of any step
  double half_k = 4;       // the k at which half the rate is reached, and so for m and n
  double half_mn = 2;
  double element = 4;  // bytes

  // All four are log2 of numbers of elements or products; an extent of 0 counts as 1.
  double seconds(double left, double right, double result, double work) const {
    for (double* log2 : {&left, &right, &result, &work}) *log2 = std::max(*log2, 0.0);
    const auto share = [&](double log2_extent, double half) {
      return 1 / (1 + half * std::exp2(-std::max(log2_extent, 0.0)));
    };
    const double rate = flops * share(work - result, half_k) * share(work - right, half_mn) *
                        share(work - left, half_mn);
    const double moved = element * (std::exp2(left) + std::exp2(right) + std::exp2(result));
    return std::max(2 * std::exp2(work) / rate, moved / bytes) + overhead;
  }
  double log2_seconds(double left, double right, double result, double work) const {
    return std::log2(seconds(left, right, result, work));
  }
};

}  // namespace gradus::plan
