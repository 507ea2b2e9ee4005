// Linear algebra where the op table cannot look: losses that do not depend on a phase, of real and
// complex matrices; errors planted in each rule; ties, phases, rank and what is refused of them.
#include "engine/random.hpp"
#include "ops/linalg/matrices.hpp"
#include "tests/helpers/matrices.hpp"

#include <array>
#include <limits>

using namespace gradus;
using namespace gradus::testing;
using namespace gradus::linalg;
using namespace gradus::testing::matrices;
using func::Function;

namespace {

Function one(Tensor (*f)(const Tensor&)) {
  return [f](const Tensors& in) { return Tensors{f(in[0])}; };
}
// V tanh(w) V^H, U h(S) V^H, |V|^2: no phase in them.
Tensor through_eigh(const Tensor& a) {
  const Tensors f = eigh(a);
  return sandwich(f[1], diag_embed(cast(tanh(f[0]), a.dtype())), adjoint(f[1]));
}
Tensor through_svd(const Tensor& a) {
  const Tensors f = svd(a, false);
  const Tensor h = div(square(f[1]), add(f[1], 1));
  return matmul(by_columns(f[0], h), f[2]);
}
Tensor through_eig(const Tensor& a) {
  const Tensors f = eig(a);
  return cat({reshape(square(abs(f[1])), {-1}), abs(f[0])});
}

// Another vjp for an op, until the end of the scope.
struct Planted {
  using Vjp = Tensor (*)(GradFn&, size_t, std::span<const Tensor>);
  Planted(const char* name, Vjp wrong) : op(const_cast<OpInfo&>(get_op(name))) {
    right = std::exchange(op.vjp, wrong);
  }
  ~Planted() { op.vjp = right; }
  OpInfo& op;
  static inline Vjp right;
};
// Reverse mode against differences, of a right rule and with the error planted.
void check_planted(const char* name, Planted::Vjp wrong, const Function& f, const Tensor& a) {
  CAPTURE(name);
  func::GradcheckOptions reverse;
  reverse.mode = func::Mode::reverse;
  CHECK(error_of([&] { func::gradcheck(f, {a}, reverse); }) == "");
  const Planted planted(name, wrong);
  CHECK(has(error_of([&] { func::gradcheck(f, {a}, reverse); }), "gradcheck"));
}

}  // namespace

TEST_CASE("linalg: derivatives of factors and solutions, both modes, both orders") {
  for (const DType t : kFields) {
    CAPTURE(t);
    const Tensor a = near_identity(3, t), b = drawn({3, 2}, t, 2);
    check_both([](const Tensors& in) { return Tensors{solve(in[0], in[1])}; }, {a, b});
    check_both([](const Tensors& in) { return Tensors{solve_triangular(in[0], in[1], true)}; },
               {a, b});
    check_both(one(inv), {a});
    check_both(one(det), {a});
    check_both([](const Tensors& in) { return slogdet(in[0]); }, {a});
    check_both([](const Tensors& in) { return Tensors{cholesky(in[0])}; }, {a});
    check_both([](const Tensors& in) { return Tensors{cholesky(in[0], true)}; }, {a});
    for (const Shape& s : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}}) {
      const Tensor m = drawn(s, t, 3);
      check_both([](const Tensors& in) { return Tensors{lu_factor(in[0])[0]}; }, {m});
      check_both([](const Tensors& in) { return qr(in[0]); }, {m});
      check_both([](const Tensors& in) { return Tensors{pinv(in[0])}; }, {m});
    }
    for (const Shape& s : {Shape{3, 3}, Shape{2, 4}})  // as reduced, so Q is determined
      check_both([](const Tensors& in) { return qr(in[0], "complete"); }, {drawn(s, t, 3)});
  }
}

TEST_CASE("linalg: derivatives of spectra, through what has no phase") {
  for (const DType t : kFields) {
    CAPTURE(t);
    const Tensor a = drawn({3, 3}, t, 4);
    check_both(one(through_eigh), {a});
    check_both(one(eigvalsh), {a});
    check_both(one(through_eig), {a});
    check_both(
        [](const Tensors& in) {
          const Tensors f = svd(in[0]);  // full, of a square matrix
          return Tensors{f[1], matmul(by_columns(f[0], square(f[1])), f[2])};
        },
        {a});
    for (const Shape& s : {Shape{3, 3}, Shape{4, 2}, Shape{2, 4}}) {
      const Tensor m = drawn(s, t, 5);
      check_both(one(through_svd), {m});
      check_both(one(svdvals), {m});
      check_both([](const Tensors& in) { return Tensors{matrix_norm(in[0], "nuc")}; }, {m});
    }
  }
}

TEST_CASE("linalg: derivatives of small matrices in one call equal those made of ops") {
  // Without a graph of it a small derivative is a formula (ops/linalg/formula.hpp); with one, and
  // on tensors that take part in a vmap, it is made of ops.
  const struct {
    const char* name;
    Tensors (*f)(const Tensor&);
    bool square, definite;
  } cases[] = {
      {"cholesky", [](const Tensor& a) { return Tensors{cholesky(a)}; }, true, true},
      {"cholesky upper", [](const Tensor& a) { return Tensors{cholesky(a, true)}; }, true, true},
      {"lu_factor", [](const Tensor& a) { return Tensors{lu_factor(a)[0]}; }, false, false},
      {"qr", [](const Tensor& a) { return qr(a); }, false, false},
      {"q", [](const Tensor& a) { return Tensors{qr(a)[0]}; }, false, false},
      {"r", [](const Tensor& a) { return Tensors{qr(a)[1]}; }, false, false},
      {"inv", [](const Tensor& a) { return Tensors{inv(a)}; }, true, false},
      {"solve", [](const Tensor& a) { return Tensors{solve(a, a.detach())}; }, true, false},
      {"eigvalsh", [](const Tensor& a) { return Tensors{eigvalsh(a)}; }, true, true},
      {"eigh", [](const Tensor& a) { return eigh(a); }, true, true},
      {"svd", [](const Tensor& a) { return svd(a, false); }, false, false},
      {"U", [](const Tensor& a) { return Tensors{svd(a, false)[0]}; }, false, false},
      {"Vh", [](const Tensor& a) { return Tensors{svd(a, false)[2]}; }, false, false},
      {"svdvals", [](const Tensor& a) { return Tensors{svdvals(a)}; }, false, false},
  };
  struct Formulas : KernelWrapper {
    int calls = 0;
    gd_status call(const gd_call& c, Next next, gd_error& e) override {
      calls += c.slot == GD_LINALG && c.op == GD_FORMULA;
      return next(e);
    }
  } formulas;
  const WrapperScope counting(default_device(), formulas);
  manual_seed(4);
  for (const auto& c : cases)
    for (const DType t : {DType::f32, DType::f64})
      for (const Shape& s : {Shape{1, 1}, Shape{4, 4}, Shape{3, 5, 5}, Shape{2, 9, 16, 16},
                             Shape{6, 3}, Shape{11, 3, 5}, Shape{17, 17}}) {
        const int64_t m = s[s.size() - 2], n = s.back();
        if (c.square && m != n) continue;
        INFO(std::string(c.name) << join(" ", s));
        Tensor a = normal(s, 0, 1, t);
        if (m == n) a = add(a, diag(arange(1, double(n) + 1, 1, t)));
        if (c.definite) a = matmul(a, transpose(a, -2, -1));
        a = a.detach().set_requires_grad();
        const Tensors y = c.f(a);
        Tensors seeds;
        for (const Tensor& x : y) seeds.push_back(normal(x.sizes(), 0, 1, t));
        BackwardOptions kept, recorded;
        kept.retain_graph = true;
        recorded.create_graph = true;
        formulas.calls = 0;
        const Tensor quick = grad(y, {a}, seeds, kept)[0];
        if (m == n && m <= 16) CHECK(formulas.calls == 1);
        const Tensor slow = grad(y, {a}, seeds, recorded)[0];
        const double most = amax(abs(slow)).item(), off = amax(abs(sub(quick, slow))).item();
        // Two ways of the same sums, whose factors divide by gaps and pivots of some thousandths.
        const double close = 2e4 * epsilon(t) * std::max(1.0, most);
        CHECK(off <= close);
      }
}

TEST_CASE("linalg: planted errors are found") {
  const Tensor square = near_identity(3, DType::c128), tall = drawn({4, 2}, DType::c128, 6);
  const Function of_qr = [](const Tensors& in) { return qr(in[0]); };
  // The diagonal of W twice.
  const auto not_halved = [](GradFn& node, size_t k, std::span<const Tensor> g) {
    const Tensor q = node.output(0), r = node.output(1);
    const Tensor w = sub(matmul(triu(or_zeros(g[1], node.output_metas()[1])), adjoint(r)),
                         matmul(adjoint(q), or_zeros(g[0], node.output_metas()[0])));
    const Tensor more = diag_embed(cast(real(diagonal_of(w)), q.dtype()));
    return add(Planted::right(node, k, g), over_adjoint(matmul(q, more), r));
  };
  check_planted("qr", not_halved, of_qr, tall);
  check_planted("qr", not_halved, of_qr, drawn({3, 3}, DType::f64, 7));
  const auto no_phase_term = [](GradFn& node, size_t k, std::span<const Tensor> g) {
    const Tensor u = node.output(0), s = node.output(1), vh = node.output(2);
    const Tensor turn = div(diagonal_of(skew(matmul(adjoint(u), g[0]))), mul(s, 2));
    return sub(Planted::right(node, k, g), sandwich(u, diag_embed(turn), vh));
  };
  check_planted("svd", no_phase_term, one(through_svd), square);
  const auto inside_alone = [](GradFn& node, size_t k, std::span<const Tensor> g) {
    const Tensor u = node.output(0), s = node.output(1), vh = node.output(2);
    const Tensor outside = sub(g[0], matmul(u, matmul(adjoint(u), g[0])));
    return sub(Planted::right(node, k, g), matmul(by_columns(outside, reciprocal(s)), vh));
  };
  check_planted("svd", inside_alone, one(through_svd), tall);
  const auto wrong_gap = [](GradFn& node, size_t k, std::span<const Tensor> g) {
    const Tensor w = node.output(0), v = node.output(1);
    const Tensor turned = mul(matmul(adjoint(v), g[1]), reciprocal_gaps(w, Degenerate::exact));
    return sub(Planted::right(node, k, g), sym(sandwich(v, turned, adjoint(v))));
  };
  check_planted("eigh", wrong_gap, one(through_eigh), square);
  const auto rows_forgotten = [](GradFn& node, size_t k, std::span<const Tensor> g) {
    return permuted(Planted::right(node, k, g), node.output(1));
  };
  check_planted(
      "lu_factor", rows_forgotten, [](const Tensors& in) { return Tensors{lu_factor(in[0])[0]}; },
      f64({1, 2, 4, 3, 1, 0.5, 2, -2, 1}, {3, 3}));
  const auto not_conjugated = [](GradFn& node, size_t, std::span<const Tensor> g) {
    const Tensor y = transpose(node.output(0), -2, -1);
    return neg(matmul(matmul(y, g[0]), y));
  };
  check_planted("inv", not_conjugated, one(inv), square);
}

TEST_CASE("linalg: planted errors of functions of a matrix and of parts of a spectrum are found") {
  const Tensor real = near_identity(3, DType::f64, 8), complex = near_identity(3, DType::c128, 9);
  // The tangent's map where its adjoint belongs.
  const auto not_adjoint = [](GradFn& node, size_t, std::span<const Tensor> g) {
    return node.op().jvp(node, 0, g);
  };
  for (const Tensor& a : {real, complex}) {
    check_planted(
        "matrix_function", not_adjoint, [](const Tensors& in) { return Tensors{sqrtm(in[0])}; }, a);
    check_planted(
        "matrix_function", not_adjoint, [](const Tensors& in) { return Tensors{logm(in[0])}; }, a);
  }
  // The slopes of eigenvalues alone, as if vectors stood still.
  const auto values_alone = [](GradFn& node, size_t, std::span<const Tensor> g) {
    const Tensors f = eigh(node.input(0));
    const Tensor inner = diagonal_of(sandwich(adjoint(f[1]), g[0], f[1]));
    return matmul(by_columns(f[1], mul(inner, cast(exp(f[0]), inner.dtype()))), adjoint(f[1]));
  };
  for (const Tensor& a : {real, complex})
    check_planted(
        "hermitian_function", values_alone,
        [](const Tensors& in) { return Tensors{matrix_exp(in[0], true)}; }, a);
  // What lies beyond the vectors that are known.
  const auto inside_alone = [](GradFn& node, size_t k, std::span<const Tensor> g) {
    const Tensor v = node.output(1);
    return Planted::right(node, k, std::array{g[0], matmul(v, matmul(adjoint(v), g[1]))});
  };
  const Function projector = [](const Tensors& in) {
    const Tensor v = eigsh(in[0], 2, "LA")[1];
    return Tensors{matmul(v, adjoint(v))};
  };
  for (const DType t : kFields) {
    const Tensor x = near_identity(5, t, 10);
    check_planted("eigsh", inside_alone, projector,
                  add(sym(x), cast(diag(arange(0, 5, 1, DType::f64)), t)));
  }
}

TEST_CASE("linalg: values alone are those beside vectors") {
  for (const DType t : {DType::f32, DType::f64, DType::c64, DType::c128})
    for (const Shape& s : {Shape{4, 4}, Shape{7, 3, 3}, Shape{40, 40}}) {
      const Tensor a = drawn(s, t, 12), h = sym(a);
      const double close = 64 * epsilon(t);
      CHECK(distance(eigvalsh(h), eigh(h)[0]) <= close);
      CHECK(distance(svdvals(a), svd(a, false)[1]) <= close);
      CHECK(svdvals(a).grad_fn() == nullptr);
    }
  const Tensor wide = drawn({3, 5}, DType::f64);
  CHECK(distance(svdvals(wide), svd(wide)[1]) <= 1e-13);
  CHECK(error_of([&] { eigvalsh(wide); }) ==
        "eigvalsh: A has shape (3, 5), expected square matrices (..., n, n)");
  CHECK(has(error_of([] { svdvals(f64({NAN, 0, 0, 1}, {2, 2})); }), "has a NaN or an infinity"));
}

TEST_CASE("linalg: a tie is refused where its gap counts, with both values; safe damps it") {
  const Tensor a = leaf(diag(f64({1, 2, 2, 5}, {4})));
  const Tensor weights = drawn({4, 4}, DType::f64, 8);
  const auto slope = [&](Degenerate mode) {
    return grad({sum(mul(eigh(a, mode)[1], weights))}, {a})[0];
  };
  const std::string said = error_of([&] { slope(Degenerate::exact); });
  CHECK_MESSAGE(has(said, "values 1 and 2 (2 and 2)"), said);
  CHECK(has(said, "degenerate=safe"));
  for (const double g : values(slope(Degenerate::safe))) CHECK(std::isfinite(g));
  // Values alone, and a loss that does not tell the two vectors apart within their space.
  CHECK(close(values(grad({sum(eigvalsh(a))}, {a})[0]), values(eye(4, 4, DType::f64))));
  const Tensors f = svd(leaf(eye(3, 3, DType::f64)), false);
  CHECK(has(error_of([&] {
              backward(sum(mul(f[0], drawn({3, 3}, DType::f64))));
            }),
            "values 0 and 1 (1 and 1)"));
}

TEST_CASE("linalg: a loss that depends on a phase is refused, and says of what") {
  const Tensor a = leaf(drawn({3, 3}, DType::c128, 9)), w = drawn({3, 3}, DType::c128, 10);
  const auto loss = [&](const Tensor& v) { return sum(real(mul(v, w))); };
  const std::pair<std::string, Tensor> vectors[] = {
      {"eigh", eigh(a)[1]}, {"eig", eig(a)[1]}, {"svd", svd(a)[0]}};
  for (const auto& v : vectors) {
    const std::string said = error_of([&] { backward(loss(v.second)); });
    CHECK_MESSAGE(has(said, v.first + ": the loss depends on the phase of vector 0"), said);
  }
  const Tensors f = svd(a);  // U and V turn together: their product has no phase
  backward(loss(matmul(f[0], f[2])));
}

TEST_CASE("linalg: what has no derivative is refused in words") {
  const auto of = [](const Tensors& y) { return error_of([&] { backward(sum(y[0])); }); };
  const Tensor tall = leaf(drawn({4, 2}, DType::f64));
  CHECK(has(of(qr(tall, "complete")), "columns of Q from 2 on are not determined"));
  CHECK(has(of({qr(tall, "r")[1]}), "mode r has no derivative"));
  CHECK(has(of(svd(tall)), "full_matrices of (4, 2)"));
  CHECK(has(of(qr(leaf(ones({3, 2}, DType::f64)))), "has not full rank"));
  for (const DType t : {DType::f32, DType::f64}) {  // one of many
    const Tensor regular = expand(eye(2, 2, t), {700, 2, 2});
    backward(sum(qr(leaf(clone(regular)))[1]));
    const Tensor many = cat({regular, ones({1, 2, 2}, t), regular});
    CHECK(has(of(qr(leaf(many))), "batch (700,): the matrix has not full rank (R[1, 1] is "));
    CHECK(
        has(of(lu_factor(leaf(many))), "batch (700,): the matrix has not full rank (R[1, 1] is "));
  }
}

TEST_CASE("linalg: what fails is a numeric error with its batch and pivot") {
  const Tensor good = eye(2, 2, DType::f64), bad = f64({1, 2, 2, 1}, {2, 2}),
               flat = f64({1, 2, 2, 4}, {2, 2});
  on_each_device([&] {
    const auto here = [](const Tensor& t) { return to_device(t, default_device()); };
    const Tensor pair = here(stack({good, bad})), singular = here(stack({good, flat}));
    CHECK(has(error_of([&] { cholesky(pair); }),
              "cholesky: batch (1,): the matrix is not positive definite: pivot 1 of 2"));
    CHECK(has(error_of([&] { inv(singular); }),
              "inv: batch (1,): the matrix is singular: pivot 1 of 2"));
    CHECK(has(error_of([&] { solve(here(flat), here(good)); }), "solve: the matrix is singular"));
    CHECK(values(det(singular)) == std::vector<double>{1, 0});
    const Tensors s = slogdet(singular);
    CHECK(values(s[0]) == std::vector<double>{1, 0});
    CHECK(values(s[1])[1] == -std::numeric_limits<double>::infinity());
    for (const double x :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const Tensor broken = here(f64({1, x, x, 1}, {2, 2}));
      for (const auto& f : {+[](const Tensor& t) { return eigvalsh(t); },
                            +[](const Tensor& t) { return svdvals(t); },
                            +[](const Tensor& t) { return eigvals(t); },
                            +[](const Tensor& t) { return lstsq(t, t)[0]; }})
        CHECK(has(error_of([&] { f(broken); }), "has a NaN or an infinity"));
      CHECK(std::isnan(values(det(broken))[0]));
      CHECK(std::isnan(values(matrix_exp(broken))[0]));
    }
  });
}

TEST_CASE("linalg: a singular determinant has a gradient") {
  for (const DType t : kFields) {
    const Tensors f = svd(drawn({3, 3}, t, 11));
    const Tensor s = cast(f64({2, 1, 0}, {3}), f[1].dtype());
    Tensor a = leaf(matmul(by_columns(f[0], s), f[2]).detach());
    // The determinant itself is 0 but for rounding; the rule for 0 and the other agree.
    const Tensor exact = diag(cast(f64({2, 1, 0}, {3}), t));
    const Tensor at = leaf(exact.detach());
    backward(real(det(at)));
    CHECK(close(values(real(at.grad())), {0, 0, 0, 0, 0, 0, 0, 0, 2}));
    backward(real(det(a)));
    const Tensor expected =
        mul(conj(det(f[0]) * det(f[2])),
            matmul(by_columns(f[0], cast(f64({0, 0, 2}, {3}), s.dtype())), f[2]));
    CHECK(distance(a.grad(), expected) < 1e-7);
  }
}

TEST_CASE("linalg: numbers of a matrix") {
  const Tensor a = f64({3, 0, 4, 0, 5, 0}, {2, 3});
  CHECK(matrix_norm(a).item() == doctest::Approx(std::sqrt(50.0)));
  CHECK(matrix_norm(a, 1).item() == 5);
  CHECK(matrix_norm(a, -1).item() == 3);
  CHECK(matrix_norm(a, INFINITY).item() == 7);
  CHECK(matrix_norm(a, 2).item() == doctest::Approx(5));
  CHECK(matrix_norm(a, "nuc").item() == doctest::Approx(10));
  CHECK(cond(a).item() == doctest::Approx(1));
  CHECK(matrix_rank(a).item_integer() == 2);
  CHECK(matrix_rank(ones({3, 3}, DType::f64)).item_integer() == 1);
  CHECK(close(values(matrix_exp(f64({0, 1, -1, 0}, {2, 2}) * 20.0)),
              {std::cos(20.0), std::sin(20.0), -std::sin(20.0), std::cos(20.0)}));
  CHECK(close(values(matrix_power(f64({1, 1, 0, 1}, {2, 2}), -3)), {1, -3, 0, 1}));
  const Tensors p = lu(f64({1, 2, 3, 4, 5, 6}, {3, 2}));
  CHECK(close(values(matmul(matmul(p[0], p[1]), p[2])), {1, 2, 3, 4, 5, 6}));
  const Tensors fit = lstsq(f64({1, 0, 1, 1, 1, 2}, {3, 2}), f64({1, 2, 4}, {3}));
  CHECK(close(values(fit[0]), {5.0 / 6, 1.5}));
  CHECK(close(values(fit[1]), {1.0 / 6}));
  const Tensor x = drawn({2, 2, 4}, DType::f64, 12), b = drawn({2, 2}, DType::f64, 13);
  const Tensor y = tensorsolve(x, b);
  CHECK(close(values(tensordot(x, y, {2}, {0})), values(b)));
  CHECK(close(values(tensordot(tensorinv(x), b, {1, 2}, {0, 1})), values(y)));
  const Tensors halves = tensorsvd(x, {2, 0});
  CHECK(halves[0].sizes() == Shape{4, 2, 2});
  CHECK(close(values(tensordot(mul(halves[0], halves[1]), halves[2], {2}, {0})),
              values(permute(x, {2, 0, 1}))));
  CHECK(has(error_of([&] { matrix_norm(a, "l2"); }), "write fro, nuc, 1, -1, 2, -2, inf or -inf"));
  CHECK(has(error_of([&] { cholesky(a); }), "expected square matrices"));
  CHECK(has(error_of([&] { svd(cast(a, DType::f16)); }), "expected f32, f64, c64 or c128"));
  CHECK(has(error_of([&] {
              solve(eye(2, 2, DType::f64), f64({1, 2, 3}, {3}));
            }),
            "B should have 2 rows"));
}
