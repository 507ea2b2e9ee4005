#include "ops/diagonal/classed.hpp"

#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/diagonal/structure.hpp"
#include "ops/index/indexing.hpp"
#include "ops/index/sorting.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

void check_classes(const char* op, const Tensor& payload, const Ints& classes) {
  Ints axes(size_t(payload.rank()), 0);
  for (size_t axis = 0; axis < classes.size(); ++axis) {
    const int64_t c = classes[axis];
    if (c < 0 || c >= payload.rank())
      fail(ErrorKind::index, op, "axis ", int64_t(axis), " has class ", c, ", but x of shape ",
           payload.sizes(), " has ", payload.rank(), payload.rank() == 1 ? " axis" : " axes");
    ++axes[size_t(c)];
  }
  for (size_t c = 0; c < axes.size(); ++c)
    if (axes[c] == 0)
      fail(ErrorKind::index, op, "axis ", int64_t(c), " of x of shape ", payload.sizes(),
           " is in none of the classes ", to_text(classes),
           "; each axis of x is a class of one axis or more");
}

Tensor inverse_of(const Tensor& index) { return index.defined() ? argsort(index) : Tensor(); }
Tensor composed(const Tensor& outer, const Tensor& inner) {
  if (!outer.defined() || !inner.defined()) return outer.defined() ? outer : inner;
  return index_select(outer, 0, inner);
}
Tensor reindexed(const Tensor& x, int64_t dim, const Tensor& index) {
  return index.defined() ? index_select(x, dim, index) : x;
}

ClassedTensor::ClassedTensor(const Tensor& dense) : payload(dense), extents(dense.sizes()) {
  for (int64_t axis = 0; axis < dense.rank(); ++axis) classes.push_back(axis);
}
Shape ClassedTensor::sizes() const {
  Shape sizes;
  for (size_t axis = 0; axis < classes.size(); ++axis) sizes.push_back(size(axis));
  return sizes;
}
bool ClassedTensor::is_dense() const {
  for (size_t axis = 0; axis < classes.size(); ++axis)
    if (classes[axis] != int64_t(axis) || index(axis).defined()) return false;
  return payload.defined() && payload.sizes() == extents;
}
std::string ClassedTensor::to_string(int64_t first) const {
  Ints shown;
  for (const int64_t c : classes) shown.push_back(c + first);
  std::string text = join(is_copy() ? "copy tensor " : "classed tensor ", sizes(), " ", dtype(),
                          ", classes ", to_text(shown));
  for (size_t axis = 0; axis < classes.size(); ++axis)
    if (index(axis).defined()) text += join(", an index on axis ", int64_t(axis) + first);
  if (!is_copy()) text += join(", payload ", payload.sizes());
  return text;
}

ClassedTensor diagonal_tensor(const Tensor& payload, const Ints& classes) {
  check_classes("diagonal_tensor", payload, classes);
  ClassedTensor x;
  x.payload = payload;
  x.classes = classes;
  x.extents = payload.sizes();
  return x;
}
ClassedTensor copy_tensor(int64_t n, int64_t order, DType dtype, Device& device) {
  if (n < 0) fail(ErrorKind::value, "copy_tensor", "n is ", n, ", expected 0 or more");
  if (order < 1) fail(ErrorKind::value, "copy_tensor", "order is ", order, ", expected 1 or more");
  ClassedTensor x;
  x.classes = Ints(size_t(order), 0);
  x.extents = {n};
  x.ones = dtype;
  x.device = &device;
  return x;
}
ClassedTensor identity(int64_t n, DType dtype, Device& device) {
  return copy_tensor(n, 2, dtype, device);
}
ClassedTensor permutation(const Tensor& index, DType dtype) {
  if (index.rank() != 1)
    fail(ErrorKind::shape, "permutation", "index has shape ", index.sizes(), ", expected one axis");
  if (index.dtype() != DType::i64)
    fail(ErrorKind::dtype, "permutation", "index is ", index.dtype(), ", expected i64");
  const int64_t n = index.size(0);
  std::vector<char> seen(size_t(n), 0);
  for (const int64_t i : index.to_vector<int64_t>()) {
    if (i < 0 || i >= n)
      fail(ErrorKind::value, "permutation", "index has ", i, ", expected numbers from 0 to ",
           n - 1);
    if (seen[size_t(i)]++)
      fail(ErrorKind::value, "permutation", "index has ", i, " twice, expected every number below ",
           n, " once");
  }
  ClassedTensor x = copy_tensor(n, 2, dtype, index.device());
  x.indices = {Tensor(), index};
  return x;
}

Tensor stored(const ClassedTensor& x) {
  if (x.payload.defined()) return x.payload;
  return Tensor::full(Shape(x.extents.size(), 1), 1, x.ones,
                      x.device ? *x.device : default_device());
}
Tensor values(const ClassedTensor& x) { return expand(stored(x), x.extents); }
ClassedTensor with_payload(const ClassedTensor& x, const Tensor& payload) {
  ClassedTensor y = x;
  y.payload = payload;
  return y;
}

Tensor to_dense(const ClassedTensor& x) {
  Tensor y = to_dense(values(x), x.classes);
  for (size_t axis = 0; axis < x.classes.size(); ++axis)
    y = reindexed(y, int64_t(axis), inverse_of(x.index(axis)));
  return y;
}

ClassedTensor permute(const ClassedTensor& x, const Ints& dims) {
  const int64_t rank = x.rank();
  Ints seen(size_t(rank), 0);
  if (int64_t(dims.size()) != rank)
    fail(ErrorKind::shape, "permute", "dims ", to_text(dims), " for ", rank, " axes");
  ClassedTensor y = x;
  for (size_t axis = 0; axis < dims.size(); ++axis) {
    const auto from = size_t(normal_axis("permute", dims[axis], rank));
    if (seen[from]++) fail(ErrorKind::index, "permute", "axis ", int64_t(from), " is given twice");
    y.classes[axis] = x.classes[from];
    if (!x.indices.empty()) y.indices[axis] = x.indices[from];
  }
  return y;
}

}  // namespace gradus
