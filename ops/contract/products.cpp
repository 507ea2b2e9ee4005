// Products by name: the labels that each of them hands to contract.
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

Ints range(int64_t first, int64_t n) {
  Ints r;
  for (int64_t i = 0; i < n; ++i) r.push_back(first + i);
  return r;
}

void need_rank(const char* op, const Tensor& t, int64_t rank, const char* which) {
  if (t.rank() != rank)
    fail(ErrorKind::shape, op, which, " has shape ", t.sizes(), ", expected ", rank,
         rank == 1 ? " axis" : " axes");
}
[[noreturn]] void inner_mismatch(const char* op, const Tensor& a, const Tensor& b) {
  const bool transposed = b.rank() >= 2 && a.rank() >= 1 && b.size(-1) == a.size(-1);
  fail(ErrorKind::shape, op, "inner sizes differ: a is ", a.sizes(), ", b is ", b.sizes(),
       transposed ? "; did you mean b.T?" : "");
}

using Two = Tensor (*)(const Tensor&, const Tensor&);
template <Two f>
void register_two(const char* name, const char* doc, const char* formula) {
  add_composition(name, "contraction", doc, formula, {{"a"}, {"b"}}, {},
                  [](Operands in, const Attrs&) { return f(in[0], in[1]); });
}

}  // namespace

void register_products() {
  register_two<matmul>("matmul", "matrix product; leading axes are batches and broadcast",
                       "y[.., i, j] = sum_k a[.., i, k] * b[.., k, j]");
  register_two<mm>("mm", "product of two matrices", "y[i, j] = sum_k a[i, k] * b[k, j]");
  register_two<bmm>("bmm", "products of two stacks of matrices",
                    "y[n, i, j] = sum_k a[n, i, k] * b[n, k, j]");
  register_two<mv>("mv", "matrix times vector", "y[i] = sum_k a[i, k] * b[k]");
  register_two<dot>("dot", "sum of products of two vectors, none conjugated",
                    "y = sum_k a[k] * b[k]");
  register_two<outer>("outer", "all products of two vectors", "y[i, j] = a[i] * b[j]");
  add_composition(
      "tensordot", "contraction", "contraction over pairs of axes",
      "y = sum over pairs (dims_a[i], dims_b[i])", {{"a"}, {"b"}},
      {{"dims_a", AttrValue::Type::integers, {}, "axes of a", true},
       {"dims_b", AttrValue::Type::integers, {}, "axes of b, pair by pair", true},
       {"dims", AttrValue::Type::integer, {}, "or so many: the last of a, the first of b", true}},
      [](Operands in, const Attrs& a) {
        const int64_t n = a[2].integer;
        if (n == 0) return tensordot(in[0], in[1], a[0].integers, a[1].integers);
        if (n < 0 || !a[0].is_none() || !a[1].is_none())
          fail(ErrorKind::value, "tensordot", "dims is ", n, "; a count, and no lists beside it");
        return tensordot(in[0], in[1], range(-n, n), range(0, n));
      });
}

// Labels: 0 = i, 1 = k, 2 = j, batches from 3, aligned at the right.
Tensor matmul(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0)
    fail(ErrorKind::shape, "matmul", "both operands need at least one axis: a is ", a.sizes(),
         ", b is ", b.sizes());
  if (a.size(-1) != b.size(b.rank() == 1 ? -1 : -2)) inner_mismatch("matmul", a, b);
  if (a.rank() <= 2 && b.rank() <= 2) {
    static const Ints left[] = {{1}, {0, 1}}, right[] = {{1}, {1, 2}},
                      out[] = {{}, {0}, {2}, {0, 2}};
    const size_t rows = size_t(a.rank() - 1), columns = size_t(b.rank() - 1);
    return contract(a, left[rows], b, right[columns], out[rows + 2 * columns]);
  }
  const int64_t batch_a = std::max<int64_t>(0, a.rank() - 2),
                batch_b = std::max<int64_t>(0, b.rank() - 2);
  const int64_t batch = std::max(batch_a, batch_b);
  Shape lead_a, lead_b;
  for (int64_t i = 0; i < batch_a; ++i) lead_a.push_back(a.sizes()[size_t(i)]);
  for (int64_t i = 0; i < batch_b; ++i) lead_b.push_back(b.sizes()[size_t(i)]);
  broadcast_shapes("matmul", lead_a, lead_b);
  Ints la = range(3 + batch - batch_a, batch_a), lb = range(3 + batch - batch_b, batch_b);
  Ints out = range(3, batch);
  if (a.rank() > 1) {
    la.push_back(0);
    out.push_back(0);
  }
  la.push_back(1);
  lb.push_back(1);
  if (b.rank() > 1) {
    lb.push_back(2);
    out.push_back(2);
  }
  return contract(a, la, b, lb, out);
}

namespace {
// A matrix times a matrix or a vector.
Tensor matrix_times(const char* op, const Tensor& a, const Tensor& b, int64_t rank) {
  need_rank(op, a, 2, "a");
  need_rank(op, b, rank, "b");
  if (a.size(1) != b.size(0)) inner_mismatch(op, a, b);
  return matmul(a, b);
}
}  // namespace

Tensor mm(const Tensor& a, const Tensor& b) { return matrix_times("mm", a, b, 2); }
Tensor mv(const Tensor& a, const Tensor& x) { return matrix_times("mv", a, x, 1); }
Tensor bmm(const Tensor& a, const Tensor& b) {
  need_rank("bmm", a, 3, "a");
  need_rank("bmm", b, 3, "b");
  if (a.size(0) != b.size(0))
    fail(ErrorKind::shape, "bmm", "batch sizes differ: a is ", a.sizes(), ", b is ", b.sizes());
  if (a.size(2) != b.size(1)) inner_mismatch("bmm", a, b);
  return matmul(a, b);
}
Tensor dot(const Tensor& a, const Tensor& b) {
  need_rank("dot", a, 1, "a");
  need_rank("dot", b, 1, "b");
  if (a.size(0) != b.size(0))
    fail(ErrorKind::shape, "dot", "sizes differ: a is ", a.sizes(), ", b is ", b.sizes());
  return matmul(a, b);
}
Tensor outer(const Tensor& a, const Tensor& b) {
  need_rank("outer", a, 1, "a");
  need_rank("outer", b, 1, "b");
  return mul(unsqueeze(a, 1), b);
}
Tensor tensordot(const Tensor& a, const Tensor& b, const Ints& dims_a, const Ints& dims_b) {
  if (dims_a.size() != dims_b.size())
    fail(ErrorKind::value, "tensordot", int64_t(dims_a.size()), " axes of a against ",
         int64_t(dims_b.size()), " of b",
         dims_b.empty() ? "; dims says how many: the last ones of a, the first ones of b" : "");
  if (!dims_a.empty()) {
    normal_axes("tensordot", dims_a, a.rank());  // refuses an axis that is given twice
    normal_axes("tensordot", dims_b, b.rank());
  }
  Ints la = range(0, a.rank()), lb = range(a.rank(), b.rank()), out;
  for (size_t i = 0; i < dims_a.size(); ++i) {
    const int64_t da = normal_axis("tensordot", dims_a[i], a.rank());
    const int64_t db = normal_axis("tensordot", dims_b[i], b.rank());
    if (a.size(da) != b.size(db))
      fail(ErrorKind::shape, "tensordot", "axis ", da, " of a is ", a.size(da), ", axis ", db,
           " of b is ", b.size(db));
    lb[size_t(db)] = la[size_t(da)];
  }
  const auto has = [](const Ints& labels, int64_t l) {
    return std::find(labels.begin(), labels.end(), l) != labels.end();
  };
  for (int64_t l : la)
    if (!has(lb, l)) out.push_back(l);
  for (int64_t l : lb)
    if (!has(la, l)) out.push_back(l);
  return contract(a, la, b, lb, out);
}

}  // namespace gradus
