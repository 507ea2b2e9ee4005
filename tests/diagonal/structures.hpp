// Structures of classed tensors, and the dense tensor of one by definition: for each element the
// place of the payload that it has, or none.
#pragma once
#include "engine/forward.hpp"
#include "ops/diagonal/hyperedges.hpp"
#include "tests/helpers/helpers.hpp"

#include <algorithm>
#include <functional>
#include <random>

namespace gradus::inline v1::testing {

struct Structure {
  Ints classes;
  Shape extents;
  std::vector<std::vector<int64_t>> indices;  // of each axis; empty: in order
  bool copy = false;                          // without a payload

  ClassedTensor of(const Tensor& payload) const {
    ClassedTensor x = copy ? copy_tensor(1, 1, DType::f64) : diagonal_tensor(payload, classes);
    x.classes = classes;
    x.extents = extents;
    for (const auto& index : indices)
      x.indices.push_back(index.empty() ? Tensor() : Tensor::from(index, {int64_t(index.size())}));
    return x;
  }
  Shape sizes() const {
    Shape sizes;
    for (const int64_t c : classes) sizes.push_back(extents[size_t(c)]);
    return sizes;
  }
  // Gathered from the payload: derivatives of every order are those of the gathering.
  Tensor dense(const Tensor& payload) const {
    const Shape all = sizes(), steps = contiguous_strides(extents);
    std::vector<int64_t> from;
    std::vector<double> there;
    Shape at(all.size(), 0);
    for (int64_t left = numel_of(all); left > 0; --left) {
      Ints k(extents.size(), -1);
      bool one = true;
      for (size_t a = 0; a < at.size(); ++a) {
        int64_t i = at[a];
        if (a < indices.size() && !indices[a].empty())
          i = std::find(indices[a].begin(), indices[a].end(), i) - indices[a].begin();
        int64_t& of_class = k[size_t(classes[a])];
        one = one && (of_class < 0 || of_class == i);
        of_class = i;
      }
      int64_t place = 0;
      for (size_t c = 0; c < k.size(); ++c) place += k[c] * steps[c];
      from.push_back(one ? place : 0);
      there.push_back(one);
      for (size_t a = at.size(); a-- > 0 && ++at[a] == all[a];) at[a] = 0;
    }
    const Tensor mask = Tensor::from(there, all);
    if (copy) return mask;
    const Tensor taken =
        index_select(reshape(payload, {-1}), 0, Tensor::from(from, {int64_t(from.size())}));
    return mul(reshape(taken, all), cast(mask, payload.dtype()));
  }
};

// Small whole numbers, so that sums are exact in any order.
inline Tensor whole_numbers(std::mt19937& random, const Shape& shape, DType dtype) {
  const auto n = size_t(numel_of(shape));
  std::vector<double> re(n), im(n);
  for (size_t i = 0; i < n; ++i)
    re[i] = double(int(random() % 5) - 2), im[i] = double(int(random() % 5) - 2);
  const Tensor x = Tensor::from(re, shape), y = Tensor::from(im, shape);
  if (!is_complex(dtype)) return cast(x, dtype);
  return add(cast(x, dtype), mul(cast(y, dtype), Tensor::full({}, {0, 1}, dtype)));
}

inline bool same(const Tensor& a, const Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         (a.numel() == 0 || all(eq(a, b)).item() == 1);
}

// Value, tangent, gradients and gradients of gradients.
struct Differentiated {
  Tensor value, tangent;
  Tensors grads, second;
};
inline Differentiated differentiated(const std::function<Tensor(const Tensors&)>& f,
                                     const Tensors& at, const Tensors& tangents,
                                     const Tensor& seed) {
  Differentiated d;
  {
    ForwardLevel level;
    Tensors dual;
    for (size_t k = 0; k < at.size(); ++k) {
      dual.push_back(at[k].detach());
      level.set_tangent(dual[k], tangents[k]);
    }
    const Tensor t = f(dual).tangent();
    d.tangent = t.defined() ? t.detach() : zeros_like(seed);
  }
  Tensors leaves;
  for (const Tensor& x : at) leaves.push_back(x.detach().set_requires_grad());
  const Tensor y = f(leaves);
  d.value = y.detach();
  if (!y.requires_grad()) return d;
  BackwardOptions options;
  options.materialize_grads = true;
  options.create_graph = true;
  const Tensors first = grad({y}, leaves, {seed}, options);
  options.create_graph = false;
  Tensors roots, seeds;
  for (size_t k = 0; k < first.size(); ++k) {
    d.grads.push_back(first[k].detach());
    if (first[k].requires_grad()) roots.push_back(first[k]), seeds.push_back(tangents[k]);
  }
  if (!roots.empty()) d.second = grad(roots, leaves, seeds, options);
  return d;
}
inline void check_same(const Differentiated& a, const Differentiated& b) {
  CHECK(same(a.value, b.value));
  CHECK(same(a.tangent, b.tangent));
  REQUIRE(a.grads.size() == b.grads.size());
  for (size_t k = 0; k < a.grads.size(); ++k)
    CHECK_MESSAGE(same(a.grads[k], b.grads[k]), "gradient of payload ", k);
  const auto second = [](const Differentiated& d, size_t k) {
    return d.second.empty() ? zeros_like(d.grads[k]) : d.second[k];
  };
  for (size_t k = 0; k < a.grads.size(); ++k)
    CHECK_MESSAGE(same(second(a, k), second(b, k)), "second order, payload ", k);
}

}  // namespace gradus::testing
