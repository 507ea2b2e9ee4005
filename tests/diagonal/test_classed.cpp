// Every function of a classed tensor against the same of the dense tensor that it stands for.
#include "tests/diagonal/structures.hpp"

#include <cmath>

using namespace gradus;
using namespace gradus::testing;

namespace {

// Structures that differ in all that may differ.
const Structure kStructures[] = {
    {{0, 0}, {3}, {}},
    {{0, 0, 0}, {3}, {}},
    {{0, 1, 0, 1}, {2, 3}, {}},
    {{1, 0, 1}, {2, 3}, {}},
    {{0, 0}, {3}, {{}, {2, 0, 1}}},
    {{0, 1, 1}, {2, 3}, {{1, 0}, {2, 0, 1}, {0, 2, 1}}},
    {{0, 1}, {2, 3}, {}},
    {{0, 0}, {1}, {}},
    {{0, 0}, {0}, {}},
    {{}, {}, {}},
};

template <class F>
void for_each_structure(F f) {
  std::mt19937 random(7);
  for (const Structure& s : kStructures)
    for (const DType dtype : {DType::f64, DType::c128}) {
      INFO(s.of(zeros(s.extents)).to_string());
      f(s, whole_numbers(random, s.extents, dtype), whole_numbers(random, s.extents, dtype),
        random);
    }
}

}  // namespace

TEST_CASE("classed: to_dense is the definition, with its derivatives") {
  for_each_structure([](const Structure& s, const Tensor& a, const Tensor& t, auto& random) {
    const Tensor g = whole_numbers(random, s.sizes(), a.dtype());
    check_same(differentiated([&](const Tensors& x) { return to_dense(s.of(x[0])); }, {a}, {t}, g),
               differentiated([&](const Tensors& x) { return s.dense(x[0]); }, {a}, {t}, g));
  });
  // An order that is another one costs nothing.
  const Tensor m = ones({2, 3});
  CHECK(&to_dense(permute(ClassedTensor(m), {1, 0})).storage() == &m.storage());
}

TEST_CASE("classed: element by element") {
  for_each_structure([](const Structure& s, const Tensor& a, const Tensor& b, auto& random) {
    const ClassedTensor x = s.of(a), y = s.of(b);
    const Tensor dx = s.dense(a), dy = s.dense(b);
    CHECK(same(to_dense(neg(x)), neg(dx)));
    CHECK(same(to_dense(conj(x)), conj(dx)));
    CHECK(same(to_dense(add(x, y)), add(dx, dy)));
    CHECK(same(to_dense(sub(x, y)), sub(dx, dy)));
    CHECK(same(to_dense(mul(x, y)), mul(dx, dy)));
    CHECK(same(to_dense(mul(x, Tensor(3))), mul(dx, Tensor(3))));
    CHECK(same(to_dense(div(x, Tensor(2))), div(dx, Tensor(2))));
    CHECK(same(to_dense(map_values("square", x)), square(dx)));
    CHECK(
        same(to_dense(map_values("leaky_relu", s.of(real(a)), {0.5})), leaky_relu(real(dx), 0.5)));
    Ints back;
    for (int64_t axis = x.rank(); axis-- > 0;) back.push_back(axis);
    CHECK(same(to_dense(permute(x, back)), permute(dx, back)));
    // With a dense tensor the product keeps the structure.
    const Tensor m = whole_numbers(random, s.sizes(), a.dtype());
    CHECK(mul(x, m).extents.size() <= x.extents.size());
    const Tensor t = whole_numbers(random, s.sizes(), a.dtype());
    const Tensor g = whole_numbers(random, s.sizes(), a.dtype());
    check_same(differentiated([&](const Tensors& in) { return to_dense(mul(s.of(in[0]), in[1])); },
                              {a, m}, {b, t}, g),
               differentiated([&](const Tensors& in) { return mul(s.dense(in[0]), in[1]); }, {a, m},
                              {b, t}, g));
  });
}

TEST_CASE("classed: structures that differ") {
  const Tensor a = f64({1, 2, 3}, {3});
  const ClassedTensor x = diagonal_tensor(a);
  // A payload whose axes stand in another order is the same structure.
  const Tensor b = reshape(arange(0, 6, 1, DType::f64), {2, 3});
  const ClassedTensor p = diagonal_tensor(b, {0, 1, 1}),
                      q = diagonal_tensor(transpose(b, 0, 1), {1, 0, 0});
  CHECK(same(to_dense(add(p, q)), to_dense(mul(p, Tensor(2)))));
  // Identities and what is scaled: one value for all places.
  CHECK(same(add(mul(identity(3, DType::f64), Tensor(2)), x).payload, f64({3, 4, 5}, {3})));
  CHECK(same(to_dense(sub(identity(3, DType::f64), x)), diag(f64({0, -1, -2}, {3}))));
  // The product of a diagonal of three axes and one of two of them.
  const ClassedTensor pair = diagonal_tensor(ones({3, 3}, DType::f64), {0, 0, 1});
  CHECK(mul(diagonal_tensor(a, {0, 0, 0}), pair).classes == Ints{0, 0, 0});
  // 0.1 stays 0.1 in f64, and f64 whatever it meets.
  CHECK(to_dense(mul(identity(2, DType::f64), Tensor(0.1))).to_vector<double>()[0] == 0.1);
  CHECK(einsum_classed("ij,jk->ik", {identity(3), x}).dtype() == DType::f64);
  CHECK(einsum_classed("ij,j->i", {identity(2), i64({1, 2}, {2})}).dtype() == DType::i64);
}

TEST_CASE("classed: words on diagonal matrices") {
  const Tensor d = f64({2, 4, 0.5, 3, 1, 8}, {2, 3}), e = f64({2, 4, 0.5}, {3});
  const ClassedTensor one = diagonal_tensor(e), many = diagonal_tensor(d, {0, 1, 1});
  const auto same_near = [](const Tensor& a, const Tensor& b) {
    return a.sizes() == b.sizes() && close(values(a), values(b));
  };
  for (const ClassedTensor& A : {one, many}) {
    const Tensor dense = to_dense(A);
    CHECK(same_near(det(A), det(dense)));
    CHECK(same_near(to_dense(inv(A)), inv(dense)));
    CHECK(same_near(to_dense(matrix_exp(A)), matrix_exp(dense)));
    CHECK(same_near(to_dense(sqrtm(A)), sqrtm(dense)));
    CHECK(same_near(to_dense(logm(A)), logm(dense)));
    const Tensor b = reshape(arange(1, 7, 1, DType::f64), {3, 2});
    CHECK(same_near(solve(A, b), solve(dense, b)));
    CHECK(same_near(solve(A, select(b, 1, 0)), solve(dense, select(b, 1, 0))));
  }
  CHECK(same_near(solve(many, d), solve(to_dense(many), d)));
  CHECK(same(trace(one), f64({6.5}, {})));
  CHECK(same(trace(many), f64({6.5, 12}, {2})));
  // A diagonal times a permutation.
  ClassedTensor moved = one;
  moved.indices = {i64({1, 2, 0}, {3}), i64({1, 0, 2}, {3})};
  const Tensor dense = to_dense(moved), b = f64({1, 2, 3}, {3});
  CHECK(same_near(det(moved), det(dense)));
  CHECK(same_near(to_dense(inv(moved)), inv(dense)));
  CHECK(same_near(solve(moved, b), solve(dense, b)));
  CHECK(trace(moved).item() == sum(diagonal(dense)).item());
  CHECK(inv(identity(3)).is_copy());
  CHECK(det(identity(3)).item() == 1);
  // Gradients have the payload's shape.
  const Tensor leaf = e.detach().set_requires_grad();
  backward(sum(einsum_classed("ij->", {inv(diagonal_tensor(leaf))}).payload));
  CHECK(same(leaf.grad(), neg(reciprocal(square(e)))));
}

TEST_CASE("classed: refusals say what to do") {
  const Tensor a = f64({1, 0, -3}, {3}), m = ones({2, 3}, DType::f64);
  const ClassedTensor x = diagonal_tensor(a), cube = diagonal_tensor(a, {0, 0, 0});
  CHECK(error_of([&] {
          diagonal_tensor(m, {0, 0});
        }) ==
        "diagonal_tensor: axis 1 of x of shape (2, 3) is in none of the classes (0, 0); each axis "
        "of x is a class of one axis or more");
  CHECK(error_of([&] {
          diagonal_tensor(a, {0, 1});
        }) == "diagonal_tensor: axis 1 has class 1, but x of shape (3,) has 1 axis");
  CHECK(error_of([&] { copy_tensor(3, 0); }) == "copy_tensor: order is 0, expected 1 or more");
  CHECK(error_of([&] { copy_tensor(-1, 2); }) == "copy_tensor: n is -1, expected 0 or more");
  CHECK(error_of([&] {
          permutation(i64({0, 2, 2}, {3}));
        }) == "permutation: index has 2 twice, expected every number below 3 once");
  CHECK(error_of([&] {
          permutation(i64({0, 3}, {2}));
        }) == "permutation: index has 3, expected numbers from 0 to 1");
  CHECK(error_of([&] { permutation(a); }) == "permutation: index is f64, expected i64");
  CHECK(error_of([&] { map_values("exp", x); }) ==
        "map_values: exp(0) is 1: the result is dense; use to_dense()");
  CHECK(error_of([&] { map_values("add", x); }) ==
        "map_values: add is no op of one tensor, element by element");
  CHECK(error_of([&] {
          add(x, diagonal_tensor(ones({3, 3}, DType::f64), {0, 1}));
        }) ==
        "add: classes (0, 0) and (0, 1) are two structures, whose sum has neither; use to_dense()");
  CHECK(error_of([&] { sub(x, cube); }) == "sub: sizes (3, 3) and (3, 3, 3) differ");
  CHECK(error_of([&] {
          add(identity(3), permutation(i64({1, 0, 2}, {3})));
        }) ==
        "add: the indices of axis 1 differ: two structures, whose sum has neither; use to_dense()");
  CHECK(error_of([&] { mul(x, cube); }) ==
        "mul: sizes (3, 3) and (3, 3, 3) differ in their number of axes");
  CHECK(error_of([&] { permute(x, {0, 0}); }) == "permute: axis 0 is given twice");
  CHECK(
      error_of([&] { inv(x); }) ==
      "inv: value (1,) of the diagonal is 0: the matrix is singular; pinv(to_dense()) does without "
      "an inverse");
  CHECK(error_of([&] { sqrtm(x); }) ==
        "sqrtm: value (2,) of the diagonal is negative; make it complex, or add to it");
  CHECK(error_of([&] { logm(x); }) ==
        "logm: value (1,) of the diagonal is 0 or negative; make it complex, or add to it");
  CHECK(
      error_of([&] { det(cube); }) ==
      "det: classes (0, 0, 0) are not those of diagonal matrices, whose last two axes alone share "
      "one; use to_dense()");
  CHECK(error_of([&] {
          matrix_exp(permutation(i64({1, 0}, {2})));
        }) ==
        "matrix_exp: an axis of the matrix has an index, so it is not diagonal; use to_dense()");
  CHECK(error_of([&] { solve(x, ones({2})); }) ==
        "solve: A has sizes (3, 3), B has shape (2,); expected 3 rows");
}
