// Graphs that tests of the graph view share.
#pragma once
#include "ops/audit/step/graph_view.hpp"
#include "tests/helpers/helpers.hpp"

namespace gradus::inline v1::testing {

// y = sum((w x)^2 + w x), with w x used twice.
struct Small {
  Tensor w = leaf(f64({1, 2, 3}, {3})), unused = leaf(f64({1}, {1}));
  Tensor x = f64({4, 5, 6}, {3});
  audit::GraphRecorder recorder{default_device(), true};
  Tensor h = [&] {
    const Trace trace("model"), inner("layer 1");
    return w * x;
  }();
  Tensor y = sum(h * h + h);
  audit::GraphView view = audit::read_graph({y}, {{"w", w}, {"unused", unused}}, &recorder);
};

// A chain of `n` pointwise ops with a link over three of them here and there.
inline audit::GraphView chain(int n) {
  Tensor x = leaf(f32({0.5f, -0.5f}, {2}));
  Tensor y = x, before = x;
  for (int i = 0; i < n; ++i) {
    if (i % 5 == 3) {
      y = y + before;
      before = y;
    } else {
      y = i % 2 ? tanh(y) : sigmoid(y);
    }
  }
  return audit::read_graph({sum(y)}, {{"x", x}});
}

}  // namespace gradus::testing
