// Which paths from the roots to a leaf contribute how much to its gradient. The contribution of a
// path is the cotangent pushed along it alone; those of all paths sum to the gradient. Each is
// measured by its amount, the inner product with the direction of the gradient (or of one element),
// and amounts sum to the norm of the gradient (or to that element).
//
// The amount that passes through an edge, over all paths that use it, is exact without following
// any: the leaf is given that direction as its tangent, jvp rules push it up to the roots, and
// <cotangent along the edge, tangent below it> is what passes. It is kept at every node, as a flow
// is. A graph of many joins has too many paths to follow them all. Then some hundred are open at a
// time, those whose beginnings carry most. What is followed is exact; that no heavier path was
// missed is certain only if all were followed.
#pragma once
#include "ops/audit/step/stepper.hpp"

namespace gradus::inline v1::audit {

struct GradientPath {
  struct Hop {
    int node, operand;  // passed from its output to this operand
  };
  int root = 0;
  std::vector<Hop> hops;  // from the root
  Tensor contribution;    // undefined: zero
  double amount = 0, norm = 0;
};

struct GradientPaths {
  Tensor gradient;
  double total = 0;                 // sum of the amounts of all paths
  double count = 0;                 // of all paths; past 2^53 not exact
  double followed = 0;              // of them
  std::vector<GradientPath> paths;  // the largest first, by the absolute value of the amount
  double others = 0;                // amount of the rest: total minus those of `paths`
  double others_norm = 0;           // of gradient minus their contributions; if there is no rest,
                                    // that is rounding
  // What passes from a node to an operand, by Stepper::nodes().
  std::vector<std::vector<double>> flow;
  // How far reverse and forward mode differ on the total, relative to it if it is not 0: rounding.
  double residual = 0;
};

// Of a leaf of the stepper, whose walk must have come to its end. `element`: of the gradient, to
// explain that alone. Error(value) for a zero gradient without an element, a wrong element, or
// cotangents that were set by hand; Error(autograd) if an op on the way has no jvp. Hooks of the
// graph that change gradients are not followed: their effect is in `residual`.
GradientPaths explain_paths(const Stepper& stepper, int leaf,
                            const std::optional<Shape>& element = {}, size_t top = 5);

}  // namespace gradus::audit
