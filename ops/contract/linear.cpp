// Products as networks and linear algebra write them.
#include "ops/base/dtypes.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/base/registry.hpp"
#include "ops/base/shape.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/contract/gathered.hpp"
#include "ops/contract/linear.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/views.hpp"

namespace gradus::inline v1 {

namespace {

using Scaled = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, double, double);

Tensor scaled_sum(const char* op, const Tensor& input, double beta, const Tensor& product,
                  double alpha) {
  if (!broadcasts_to(input.sizes(), product.sizes()))
    fail(ErrorKind::shape, op, "the input has shape ", input.sizes(),
         ", which does not broadcast to the product's ", product.sizes());
  const Tensor scaled = alpha == 1 ? product : mul(product, number_beside(alpha, product));
  if (beta == 0) return scaled;
  return add(beta == 1 ? input : mul(input, number_beside(beta, input)), scaled);
}

template <Scaled f>
void register_scaled(const char* name, const char* doc, const char* formula) {
  add_composition(
      name, "contraction", doc, formula, {{"input"}, {"a"}, {"b"}},
      {number_attr("beta", 1, "factor of the input; 0: it is not read"),
       number_attr("alpha", 1, "factor of the product")},
      [](Operands in, const Attrs& a) { return f(in[0], in[1], in[2], a[0].number, a[1].number); });
}

// Is the bias one for the last axis of the result?
void check_bias(const char* op, const Tensor& bias, int64_t features) {
  if (bias.defined() && (bias.rank() > 1 || (bias.rank() == 1 && bias.size(0) != features)))
    fail(ErrorKind::shape, op, "the bias has shape ", bias.sizes(), ", expected (", features, ",)");
}

Ints first_labels(int64_t n) {
  Ints labels;
  for (int64_t i = 0; i < n; ++i) labels.push_back(i);
  return labels;
}
Shape without_last(const Tensor& x) {
  Shape s = x.sizes();
  s.pop_back();
  return s;
}

}  // namespace

void register_linear() {
  const OperandSpec bias{"bias", false, true};
  add_composition("linear", "contraction", "every row times a matrix, plus a bias",
                  "y = x weight^T + bias", {{"x"}, {"weight"}, bias}, {},
                  [](Operands in, const Attrs&) { return linear(in[0], in[1], operand(in, 2)); });
  add_composition("bilinear", "contraction", "a form in two vectors for each output, plus a bias",
                  "y[.., o] = sum_ij x1[.., i] weight[o, i, j] x2[.., j] + bias[o]",
                  {{"x1"}, {"x2"}, {"weight"}, bias}, {}, [](Operands in, const Attrs&) {
                    return bilinear(in[0], in[1], in[2], operand(in, 3));
                  });
  register_scaled<addmm>("addmm", "a matrix product added to the input",
                         "y = beta * input + alpha * a b");
  register_scaled<addmv>("addmv", "a matrix times a vector added to the input",
                         "y = beta * input + alpha * a b");
  register_scaled<addr>("addr", "all products of two vectors added to the input",
                        "y[i, j] = beta * input[i, j] + alpha * a[i] * b[j]");
  register_scaled<baddbmm>("baddbmm", "products of two stacks of matrices added to the input",
                           "y[n] = beta * input[n] + alpha * a[n] b[n]");
  register_scaled<addbmm>("addbmm", "the sum of the products of two stacks, added to the input",
                          "y = beta * input + alpha * sum_n a[n] b[n]");
  add_composition("inner", "contraction", "sums of products over the last axes",
                  "y[i.., j..] = sum_k a[i.., k] * b[j.., k]", {{"a"}, {"b"}}, {},
                  [](Operands in, const Attrs&) { return inner(in[0], in[1]); });
  add_composition("vdot", "contraction", "scalar product of two vectors, the first conjugated",
                  "y = sum_k conj(a[k]) * b[k]", {{"a"}, {"b"}}, {},
                  [](Operands in, const Attrs&) { return vdot(in[0], in[1]); });
  add_composition("vecdot", "contraction", "scalar products along an axis, the first conjugated",
                  "y = sum_k conj(a[k]) * b[k]", {{"a"}, {"b"}}, {int_attr("dim", -1, "axis")},
                  [](Operands in, const Attrs& a) { return vecdot(in[0], in[1], a[0].integer); });
  add_composition("chain_matmul", "contraction", "product of matrices in the cheapest order",
                  "y = a b c ...", {{"matrices", true}}, {},
                  [](Operands in, const Attrs&) { return chain_matmul(list(in)); });
}

// The contraction runs over weight's last axis as it lies, so that its gradient lies so too.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  if (weight.rank() < 1 || weight.rank() > 2)
    fail(ErrorKind::shape, "linear", "the weight has shape ", weight.sizes(),
         ", expected (out, in) or (in,)");
  if (x.rank() == 0 || x.size(-1) != weight.size(-1))
    fail(ErrorKind::shape, "linear", "x has shape ", x.sizes(), ", the weight ", weight.sizes(),
         "; their last axes should be equal");
  const bool matrix = weight.rank() == 2;
  const int64_t inner_label = x.rank() - 1, out_label = x.rank();
  Ints out = first_labels(x.rank() - 1);
  if (matrix) out.push_back(out_label);
  check_bias("linear", bias, matrix ? weight.size(0) : 1);
  return contract(x, first_labels(x.rank()), weight,
                  matrix ? Ints{out_label, inner_label} : Ints{inner_label}, out, Algebra::standard,
                  bias);
}

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias) {
  const bool fits = weight.rank() == 3 && x1.rank() >= 1 && x2.rank() >= 1 &&
                    x1.size(-1) == weight.size(1) && x2.size(-1) == weight.size(2) &&
                    without_last(x1) == without_last(x2);
  if (!fits)
    fail(ErrorKind::shape, "bilinear", "x1 has shape ", x1.sizes(), ", x2 ", x2.sizes(),
         ", the weight ", weight.sizes(), "; expected (..., i), (..., j) and (out, i, j)");
  const int64_t i = x1.rank() - 1, j = i + 1, o = i + 2;
  Ints left = first_labels(i), right = left, half = left, out = left;
  left.push_back(i);
  right.push_back(j);
  half.push_back(o);
  half.push_back(j);
  out.push_back(o);
  check_bias("bilinear", bias, weight.size(0));
  const Tensor partial = contract(x1, left, weight, {o, i, j}, half);
  return contract(partial, half, x2, right, out, Algebra::standard, bias);
}

Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  // What is no more than added to the sums, one kernel adds; what does not fit is refused below.
  const Tensor all[] = {input, a, b};
  if (alpha == 1 && beta == 1 && !input.is_number() && a.rank() == 2 && b.rank() == 2 &&
      a.size(1) == b.size(0) && broadcasts_to(input.sizes(), {a.size(0), b.size(1)}) &&
      !live_apart(all))
    return contract(a, {0, 1}, b, {1, 2}, {0, 2}, Algebra::standard, input);
  return scaled_sum("addmm", input, beta, mm(a, b), alpha);
}
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& x, double beta, double alpha) {
  return scaled_sum("addmv", input, beta, mv(a, x), alpha);
}
Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return scaled_sum("addr", input, beta, outer(a, b), alpha);
}
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  return scaled_sum("baddbmm", input, beta, bmm(a, b), alpha);
}
// The stack's axis is summed by the contraction itself.
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta, double alpha) {
  if (a.rank() != 3 || b.rank() != 3 || a.size(0) != b.size(0) || a.size(2) != b.size(1))
    fail(ErrorKind::shape, "addbmm", "a has shape ", a.sizes(), ", b ", b.sizes(),
         "; expected (n, i, k) and (n, k, j)");
  return scaled_sum("addbmm", input, beta, contract(a, {3, 0, 1}, b, {3, 1, 2}, {0, 2}), alpha);
}

Tensor inner(const Tensor& a, const Tensor& b) {
  if (a.rank() == 0 || b.rank() == 0) return mul(a, b);
  if (a.size(-1) != b.size(-1))
    fail(ErrorKind::shape, "inner", "a has shape ", a.sizes(), ", b ", b.sizes(),
         "; their last axes should be equal");
  return tensordot(a, b, {-1}, {-1});
}

Tensor vdot(const Tensor& a, const Tensor& b) {
  if (a.rank() != 1 || b.rank() != 1 || a.size(0) != b.size(0))
    fail(ErrorKind::shape, "vdot", "a has shape ", a.sizes(), ", b ", b.sizes(),
         "; expected two vectors of one length");
  return dot(conj(a), b);
}

Tensor vecdot(const Tensor& a, const Tensor& b, int64_t dim) {
  const Shape sizes = broadcast_shapes("vecdot", a.sizes(), b.sizes());
  const int64_t rank = int64_t(sizes.size()), axis = normal_axis("vecdot", dim, rank);
  const Ints labels = first_labels(rank);
  Ints out = labels;
  out.erase(size_t(axis));
  return contract(expand(conj(a), sizes), labels, expand(b, sizes), labels, out);
}

Tensor chain_matmul(const Tensors& matrices) {
  if (matrices.empty()) fail(ErrorKind::value, "chain_matmul", "needs at least one matrix");
  if (matrices.size() > 25)
    fail(ErrorKind::value, "chain_matmul", "takes up to 25 matrices, got ", matrices.size());
  std::string terms;
  for (size_t i = 0; i < matrices.size(); ++i) {
    const Tensor& m = matrices[i];
    if (m.rank() != 2 || (i > 0 && matrices[i - 1].size(1) != m.size(0)))
      fail(ErrorKind::shape, "chain_matmul", "matrix ", i, " has shape ", m.sizes(),
           i ? join(", the one before it ", matrices[i - 1].sizes()) : std::string(),
           "; expected two axes, inner ones equal");
    terms += join(i ? "," : "", std::string{char('a' + i), char('b' + i)});
  }
  return einsum(terms + "->a" + char('a' + matrices.size()), matrices);
}

}  // namespace gradus
