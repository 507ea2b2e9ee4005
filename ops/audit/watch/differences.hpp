// The slope of a function along a line by differences, with an estimate of how wrong it is. The
// estimate is what keeps a check of derivatives from false alarms: at kinks, where terms cancel,
// and where the function is not defined beside the point.
#pragma once
#include <functional>
#include <vector>

namespace gradus::inline v1::audit {

using Parts = std::vector<double>;  // real numbers; a complex one is two

struct Slope {
  Parts value, error;  // of each part of f; error is infinite where there is no telling
};
// d f(t) / dt at 0. Central differences at steps 2^-6, 2^-12, 2^-18, 2^-24, each extrapolated from
// it and its half (Richardson); of neighbouring steps the two that agree best count, by part.
Slope slope(const std::function<Parts(double)>& f);

}  // namespace gradus::audit
