// Analytic functions of a matrix: exponential, principal root, logarithm. Sources: Higham,
// "Functions of Matrices" (SIAM 2008), and for the exponential SIAM J. Matrix Anal. Appl. 26
// (2005): a Pade approximant of degree 13 with scaling and squaring, made of ops. The derivative of
// root and logarithm is the upper right block of f((A, dA), (0, A)), (3.16) of the book; that of a
// Hermitian matrix has divided differences of f (3.20), which need no gaps.
#include "ops/linalg/matrices.hpp"

#include <cmath>

namespace gradus::inline v1 {

namespace linalg {
namespace {

const OpInfo *principal_info, *hermitian_info;

// f(A) for polynomials of even and odd powers: q(A) = even - odd, p(A) = even + odd.
Tensor pade_13(const Tensor& a) {
  constexpr double c[] = {64764752532480000.,
                          32382376266240000.,
                          7771770303897600.,
                          1187353796428800.,
                          129060195264000.,
                          10559470521600.,
                          670442572800.,
                          33522128640.,
                          1323241920.,
                          40840800.,
                          960960.,
                          16380.,
                          182.,
                          1.};
  const auto times = [&](int k, const Tensor& x) { return mul(x, number_beside(c[k] / c[0], x)); };
  const Tensor one = identity_like(a), a2 = matmul(a, a), a4 = matmul(a2, a2), a6 = matmul(a4, a2);
  const auto three = [&](int k) {  // c[k] A^6 + c[k - 2] A^4 + c[k - 4] A^2
    return add(times(k, a6), add(times(k - 2, a4), times(k - 4, a2)));
  };
  const Tensor odd = matmul(a, add(matmul(a6, three(13)), add(three(7), times(1, one))));
  const Tensor even = add(matmul(a6, three(12)), add(three(6), times(0, one)));
  return solve(sub(even, odd), add(even, odd));
}

// ---- root and logarithm

// In f64: a root near 1 loses what it differs from 1 by.
Tensor wide(const Tensor& a) { return cast(a, is_complex(a.dtype()) ? DType::c128 : DType::f64); }
// An eigenvalue below `highest` * norm on the real axis, but for rounding: no principal root.
void refuse_axis(const char* op, const Tensor& a, double highest = -1e-12) {
  const Tensor w = eigvals(a);
  const HostValues values = host_values(w);
  const double size = norm_1(a), near = 64 * tie(w) * size;
  const int64_t n = a.size(-1);
  for (size_t i = 0; i < values.size(); ++i)
    if (std::abs(values[i].imag()) <= near && values[i].real() <= highest * size)
      fail(ErrorKind::numeric, op, place_in(batch_of(a), int64_t(i) / n), "eigenvalue ",
           int64_t(i) % n, " (", shown(values[i]),
           ") is on the closed negative real axis, where there is no principal root; a singular "
           "Hermitian matrix has one with hermitian=true");
}
// Newton's iteration in product form, (6.29) of the book: X goes to the root, M to 1; scaled by
// determinants as long as M is far from it. a: f64 or c128.
Tensor principal_root(const char* op, const Tensor& a) {
  const int64_t n = a.size(-1);
  const Tensor one = identity_like(a);
  Tensor m = a, x = a;
  double last = INFINITY;
  for (int step = 0; step < 50; ++step) {
    const double distance = norm_1(sub(m, one));
    const bool near = distance < 1e-4;
    if (!(distance > double(n) * 4e-16) || (near && distance >= last / 2)) return x;
    last = distance;
    const Tensors inverse = inv_ex(m);
    if (first_failure(inverse[1]).element >= 0) break;
    Tensor back = inverse[0];  // M^-1 / mu^2
    if (distance > 0.5) {
      const Tensor log_mu = mul(slogdet(m)[1], -0.5 / double(n));
      const Tensor mu = unsqueeze(unsqueeze(exp(log_mu), -1), -1), squared = square(mu);
      m = mul(m, squared);
      x = mul(x, mu);
      back = div(back, squared);
    }
    x = halved(add(x, matmul(x, back)));
    m = halved(add(one, halved(add(m, back))));
  }
  refuse_axis(op, a, 1e-12);
  fail(ErrorKind::numeric, op, "Newton's iteration did not converge");
}
// Roots until A is near 1, then the quadrature of Gauss and Legendre with 8 points for the integral
// over t in [0, 1] of (A - 1) / (1 + t (A - 1)), which is the Pade approximant [8/8]: 2^-53 within
// the reach.
Tensor principal_log(const char* op, Tensor a) {
  constexpr double kReach = 0.34;
  constexpr std::pair<double, double> kPoints[] = {
      {0.98014492824876812, 0.05061426814518813}, {0.89833323870681337, 0.11119051722668724},
      {0.76276620495816449, 0.15685332293894364}, {0.59171732124782490, 0.18134189168918099},
      {0.40828267875217510, 0.18134189168918099}, {0.23723379504183551, 0.15685332293894364},
      {0.10166676129318663, 0.11119051722668724}, {0.01985507175123188, 0.05061426814518813}};
  const Tensor one = identity_like(a);
  double scale = 1;
  for (; norm_1(sub(a, one)) > kReach; scale *= 2) a = principal_root(op, a);
  const Tensor off = sub(a, one);
  Tensor y = zeros_like(a);
  for (const auto& [t, weight] : kPoints)
    y = add(y, mul(solve(add(one, mul(off, number_beside(t, off))), off),
                   number_beside(weight * scale, off)));
  return y;
}

// ---- matrix_function. attrs: f, "sqrt" or "log".

bool is_root(const AttrValue& f) {
  const std::string_view name = f.text;
  if (name == "sqrt" || name == "log") return name == "sqrt";
  fail(ErrorKind::value, "matrix_function", "f is \"", f.text, "\"; write sqrt or log");
}
void principal_forward(OpContext& ctx) {
  const bool root = is_root(ctx.attrs[0]);
  const char* op = root ? "sqrtm" : "logm";
  need_square(op, ctx.inputs[0]);
  const Tensor given = wide(ctx.inputs[0].detach());
  ctx.save_input(0);
  if (given.numel() == 0) return ctx.outputs.push_back(clone(ctx.inputs[0].detach()));
  // What is not finite stays out of it, and is NaN.
  const Tensor good = isfinite(sum(abs(given), {-2, -1}, true));
  const Tensor a = where(good, given, identity_like(given));
  if (is_complex(a.dtype())) refuse_axis(op, a);  // Newton's iteration may miss it by rounding
  const Tensor y = root ? principal_root(op, a) : principal_log(op, a);
  const Tensor none = full({}, NAN, y.dtype(), y.device());
  ctx.outputs.push_back(cast(where(good, y, none), ctx.inputs[0].dtype()));
}
// The derivative at A in the direction E, which is made as large as A meanwhile.
Tensor principal_slope(GradFn& node, const Tensor& a, const Tensor& e) {
  if (e.numel() == 0) return e;
  const int64_t n = a.size(-1);
  const Tensor of_a = matrix_norm(a.detach(), "fro", true);
  const Tensor of_e = matrix_norm(e.detach(), "fro", true);
  const Tensor scale = div(add(of_e, eq(of_e, zeros_like(of_e))), of_a);
  const Tensor blocks = cat({cat({a, div(e, scale)}, -1), cat({zeros_like(a), a}, -1)}, -2);
  const Tensor f = apply1(*principal_info, {blocks}, {node.attr(0)});
  return mul(slice(slice(f, -2, 0, n), -1, n), scale);
}
Tensor principal_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return principal_slope(node, adjoint(node.input(0)), g[0]);
}
Tensor principal_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return principal_slope(node, node.input(0), t[0]);
}

// ---- hermitian_function. attrs: f.

// f(w), and its divided differences (f(high) - f(low)) / (high - low) without cancellation, f'
// where both are equal. Their own derivatives hold where they differ.
struct Spectral {
  const char *name, *op;
  Tensor (*f)(const Tensor& w);
  Tensor (*quotient)(const Tensor& low, const Tensor& high);
};
// g(d) / d, or `limit` where d is 0.
Tensor over_difference(Tensor (*g)(const Tensor&), const Tensor& of, const Tensor& d,
                       const Tensor& limit) {
  const Tensor same = eq(d, zeros_like(d));
  return where(same, limit, div(g(of), where(same, ones_like(d), d)));
}
Tensor exp_quotient(const Tensor& low, const Tensor& high) {
  const Tensor down = sub(low, high);
  return mul(exp(high), over_difference(expm1, down, down, ones_like(down)));
}
Tensor log_quotient(const Tensor& low, const Tensor& high) {
  const Tensor up = sub(high, low);
  return over_difference(log1p, div(up, low), up, expand(reciprocal(low), up.sizes()));
}
Tensor sqrt_quotient(const Tensor& low, const Tensor& high) {
  const Tensor sum = add(sqrt(low), sqrt(high));
  return guarded_reciprocal(sum, eq(sum, zeros_like(sum)));
}
constexpr Spectral kSpectral[] = {{"exp", "matrix_exp", exp, exp_quotient},
                                  {"log", "logm", log, log_quotient},
                                  {"sqrt", "sqrtm", sqrt, sqrt_quotient}};
const Spectral& spectral(std::string_view name) {
  for (const Spectral& s : kSpectral)
    if (name == s.name) return s;
  fail(ErrorKind::value, "hermitian_function", "f is \"", name, "\"; write exp, log or sqrt");
}
// w, where what is nothing but for rounding is 0 for the root; refused where f is not real.
Tensor in_domain(const Spectral& s, const Tensor& w) {
  if (s.f == exp || w.numel() == 0) return w;
  const bool root = s.f == sqrt;
  const HostValues values = host_values(w);
  const int64_t n = w.size(-1);
  const double rounding = epsilon(w.dtype()) * double(n);
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t line = i - i % size_t(n);
    const double most = std::max(std::abs(values[line]), std::abs(values[line + size_t(n) - 1]));
    const double x = values[i].real(), nothing = rounding * most;
    if (root ? x >= -nothing : x > nothing) continue;
    fail(ErrorKind::numeric, s.op, place_in(batch_of(unsqueeze(w, -1)), int64_t(i) / n),
         "eigenvalue ", int64_t(i) % n, " is ", x, " beside ", most, ", expected ",
         root ? "none below 0" : "all above 0 and its rounding errors");
  }
  if (!root) return w;
  const Tensor nothing = le(w, mul(amax(w, {-1}, true), rounding));
  return where(nothing.detach(), zeros_like(w), w);
}
void hermitian_forward(OpContext& ctx) {
  const DType dtype = ctx.inputs[0].dtype();
  const Spectral& s = spectral(ctx.attrs[0].text);
  need_square(s.op, ctx.inputs[0]);
  const Tensors f = eigh(wide(ctx.inputs[0].detach()));
  const Tensor y = matmul(by_columns(f[1], s.f(in_domain(s, f[0]))), adjoint(f[1]));
  ctx.outputs.push_back(cast(y, dtype));
  ctx.save_input(0);
}
// The same map for cotangents and tangents: it is its own adjoint.
Tensor hermitian_slope(GradFn& node, const Tensor& x) {
  const Spectral& s = spectral(node.attr(0).text);
  const Tensors f = eigh(wide(node.input(0)));
  const Tensor w = in_domain(s, f[0]), v = f[1], vh = adjoint(v);
  if (s.f == sqrt && has_zero(w))
    fail(ErrorKind::autograd, s.op, "an eigenvalue is 0, where the root has no derivative");
  const Tensor left = unsqueeze(w, -1), right = unsqueeze(w, -2);
  const Tensor quotients = s.quotient(minimum(left, right), maximum(left, right));
  const Tensor inner = sandwich(vh, halved(sym(wide(x))), v);
  return cast(sandwich(v, mul(inner, quotients), vh), x.dtype());
}
Tensor hermitian_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return hermitian_slope(node, g[0]);
}
Tensor hermitian_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return hermitian_slope(node, t[0]);
}

}  // namespace

void register_analytic() {
  OpInfo o = new_op("matrix_function", "linalg", "the principal root or logarithm of a matrix",
                    "y y = A, exp(y) = A", {{"A"}}, {text_attr("f", "sqrt", "sqrt or log")});
  o.forward = principal_forward;
  o.vjp = principal_vjp;
  o.jvp = principal_jvp;
  o.call = [](Operands in, const Attrs& a) { return is_root(a[0]) ? sqrtm(in[0]) : logm(in[0]); };
  principal_info = &add_op(std::move(o));
  o = new_op("hermitian_function", "linalg", "a function of a Hermitian matrix by its eigenvalues",
             "y = V f(w) V^H, of (A + A^H) / 2", {{"A"}},
             {text_attr("f", "exp", "exp, log or sqrt")});
  o.forward = hermitian_forward;
  o.vjp = hermitian_vjp;
  o.jvp = hermitian_jvp;
  o.call = [](Operands in, const Attrs& a) { return apply1(*hermitian_info, {in[0]}, {a[0]}); };
  hermitian_info = &add_op(std::move(o));

  const auto function = [](const char* name, const char* doc, const char* formula,
                           Tensor (*f)(const Tensor&, bool)) {
    add_composition(name, "linalg", doc, formula, {{"A"}},
                    {bool_attr("hermitian", false, "by eigenvalues, of (A + A^H) / 2")},
                    [f](Operands in, const Attrs& a) { return f(in[0], a[0].integer); });
  };
  function("matrix_exp", "the exponential of a matrix", "y = sum_k A^k / k!", matrix_exp);
  function("sqrtm", "the principal root of a matrix", "y y = A", sqrtm);
  function("logm", "the principal logarithm of a matrix", "exp(y) = A", logm);
}

}  // namespace linalg

using namespace linalg;

Tensor matrix_exp(const Tensor& A, bool hermitian) {
  if (hermitian) return apply1(*hermitian_info, {A}, {"exp"});
  need_square("matrix_exp", A);
  constexpr double kReach = 5.371920351148152;  // of degree 13 in f64
  const double size = norm_1(A);
  const int squarings =
      size > kReach && std::isfinite(size) ? int(std::ceil(std::log2(size / kReach))) : 0;
  const Tensor scaled = mul(A, number_beside(std::ldexp(1.0, -squarings), A));
  Tensor y = pade_13(scaled);
  for (int i = 0; i < squarings; ++i) y = matmul(y, y);
  return y;
}
Tensor sqrtm(const Tensor& A, bool hermitian) {
  return apply1(hermitian ? *hermitian_info : *principal_info, {A}, {"sqrt"});
}
Tensor logm(const Tensor& A, bool hermitian) {
  return apply1(hermitian ? *hermitian_info : *principal_info, {A}, {"log"});
}

}  // namespace gradus
