// Graphs by a seed: pointwise ops that broadcast, reductions, contractions, views, writes in place,
// nodes that are used several times; all leaves named.
#pragma once
#include "ops/shape/in_place.hpp"
#include "tests/helpers/helpers.hpp"

#include <random>

namespace gradus::inline v1::testing {

class RandomGraph {
 public:
  explicit RandomGraph(unsigned seed, int nodes = 40)
      : random_(seed), dtype_(seed % 3 ? DType::f32 : DType::f64) {
    for (int i = 0; i < 3; ++i) pool_.push_back(drawn({4, 4}));
    for (int i = 0; i < nodes; ++i) put(step(any(), any()));
    root = sum(pool_[0]);
    for (size_t i = 1; i < pool_.size(); ++i) root = add(root, sum(pool_[i]));
  }
  Tensor root;
  std::vector<std::pair<std::string, Tensor>> leaves;

 private:
  size_t below(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  Tensor drawn(const Shape& sizes) {
    std::vector<double> v(size_t(numel_of(sizes)));
    for (double& x : v) x = std::uniform_real_distribution<double>(-1.5, 1.5)(random_);
    Tensor t = cast(Tensor::from(v, sizes), dtype_);
    leaves.emplace_back(join("w", leaves.size()), t.set_requires_grad());
    return t;
  }
  Tensor any() { return pool_[below(pool_.size())]; }
  void put(const Tensor& t) {
    if (pool_.size() < 6)
      pool_.push_back(t);
    else
      pool_[below(pool_.size())] = t;
  }
  Tensor step(const Tensor& a, const Tensor& b) {
    switch (below(12)) {
      case 0:
        return add(a, drawn({4}));
      case 1:
        return mul(a, drawn({4, 1}));
      case 2:
        return tanh(mul(a, a));  // one node, both operands
      case 3:
        return tanh(matmul(a, b));
      case 4:
        return div(a, add(square(b), 0.5));
      case 5:
        return softmax(sub(a, b), 1);
      case 6:
        return add(transpose(a, 0, 1), flip(b, {1}));
      case 7:
        return mul(sum(a, {0}, true), sigmoid(b));
      case 8: {  // a row of a base is written in place
        const Tensor h = mul(a, 1.5);
        mul_(select(h, 0, 1), select(b, 0, 2));
        return tanh(h);
      }
      case 9: {
        const Tensor h = mul(a, 0.5);
        add_(h, b);
        return h;
      }
      case 10:
        return cat({slice(a, 0, 0, 2), slice(b, 0, 2, 4)}, 0);
      default:
        return maximum(a, b);
    }
  }

  std::mt19937 random_;
  DType dtype_;
  Tensors pool_;
};

}  // namespace gradus::testing
