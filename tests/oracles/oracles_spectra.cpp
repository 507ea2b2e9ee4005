// Oracles of spectra and what is made of them: Jacobi rotations from both sides or one, the roots
// of det(A - z) by Durand & Kerner, polar factors by Newton's iteration.
#include "tests/oracles/oracles_matrices.hpp"

namespace gradus::inline v1::testing {

namespace small_matrices {
namespace {

R epsilon_of(const Call& c) {
  return c.dtype == DType::f64 || c.dtype == DType::c128 ? 0x1p-52L : 0x1p-23L;
}
// What makes the largest entry of x real and positive, the first of those that are equal but for
// the rounding of the call's dtype.
Wide phase_of(const Call& c, const Line& x) {
  R most = 0;
  for (const Wide& v : x) most = std::max(most, std::abs(v));
  for (const Wide& v : x)
    if (std::abs(v) >= most * (1 - 256 * epsilon_of(c))) return std::conj(v) / std::abs(v);
  return 1;
}
void turn_column(Mat& a, int64_t j, Wide by) {
  for (int64_t i = 0; i < a.m; ++i) a(i, j) *= by;
}

// ---- Jacobi rotations

// Columns p and q of a become c p - s q', s p + c q' with q' = q e^(-i arg pq), by the angle that
// makes ((pp, pq), (conj pq, qq)) diagonal.
struct Rotation {
  R c, s;
  Wide phase;
};
Rotation rotation(R pp, R qq, Wide pq) {
  const R size = std::abs(pq);
  if (size == 0) return {1, 0, 1};
  const R tau = (qq - pp) / (2 * size);
  const R t = std::copysign(1 / (std::fabs(tau) + std::hypot(R(1), tau)), tau);
  const R c = 1 / std::hypot(R(1), t);
  return {c, c * t, std::conj(pq) / size};
}
void rotate(Mat& a, int64_t p, int64_t q, const Rotation& by) {
  for (int64_t i = 0; i < a.m; ++i) {
    const Wide x = a(i, p), y = a(i, q) * by.phase;
    a(i, p) = by.c * x - by.s * y;
    a(i, q) = by.s * x + by.c * y;
  }
}
void sweep(int64_t n, const std::function<void(int64_t p, int64_t q)>& body) {
  for (int time = 0; time < 30; ++time)
    for (int64_t p = 0; p < n; ++p)
      for (int64_t q = p + 1; q < n; ++q) body(p, q);
}

struct Spectrum {
  Line w;
  Mat v;
};
Spectrum eigh_of(const Call& c, const Mat& given) {
  const int64_t n = given.n;
  Mat a = hermitian(given), v = one(n);
  sweep(n, [&](int64_t p, int64_t q) {
    const Rotation r = rotation(a(p, p).real(), a(q, q).real(), a(p, q));
    rotate(a, p, q, r);
    a = adjoint(a);
    rotate(a, p, q, r);
    rotate(v, p, q, r);
  });
  const auto order =
      ordered(n, [&](int64_t i, int64_t j) { return a(i, i).real() < a(j, j).real(); });
  v = picked(v, order);
  Line w;
  for (int64_t j = 0; j < n; ++j) {
    w.push_back(a(order[size_t(j)], order[size_t(j)]).real());
    turn_column(v, j, phase_of(c, column(v, j)));
  }
  return {w, v};
}

struct Svd {
  Mat u;
  Line s;
  Mat v;
};
// Of m >= n, of any phase: columns are rotated until all are orthogonal.
Svd tall_svd(const Mat& given) {
  const int64_t n = given.n;
  Mat a = given, v = one(n);
  sweep(n, [&](int64_t p, int64_t q) {
    const Line x = column(a, p), y = column(a, q);
    Wide xy = 0;
    for (size_t i = 0; i < x.size(); ++i) xy += std::conj(x[i]) * y[i];
    const Rotation r = rotation(std::pow(size_of(x), R(2)), std::pow(size_of(y), R(2)), xy);
    rotate(a, p, q, r);
    rotate(v, p, q, r);
  });
  const auto order = ordered(
      n, [&](int64_t i, int64_t j) { return size_of(column(a, i)) > size_of(column(a, j)); });
  Svd f{picked(a, order), {}, picked(v, order)};
  for (int64_t j = 0; j < n; ++j) {
    f.s.push_back(size_of(column(f.u, j)));
    turn_column(f.u, j, R(1) / f.s.back());
  }
  return f;
}
// The columns that the kernel adds to the U of m > n: those of the reflections from the left that
// make A bidiagonal.
Mat completed(const Mat& u, Mat a) {
  Mat q = one(a.m);
  for (int64_t k = 0; k < a.n; ++k) {
    const Mat left = reflection(column(a, k), k);
    q = q * left;
    a = adjoint(left) * a;
    if (k + 1 < a.n) a = a * reflection(column(adjoint(a), k), k + 1);
  }
  return made(a.m, a.m, [&](int64_t i, int64_t j) { return j < u.n ? u(i, j) : q(i, j); });
}
Svd svd_of(const Call& c, const Mat& a, bool full = false) {
  const bool tall = a.m >= a.n;
  const Mat of = tall ? a : adjoint(a);
  Svd f = tall_svd(of);
  if (full) f.u = completed(f.u, of);
  if (!tall) std::swap(f.u, f.v);
  for (int64_t j = 0; j < int64_t(f.s.size()); ++j) {
    const Wide phase = phase_of(c, column(f.u, j));
    turn_column(f.u, j, phase);
    turn_column(f.v, j, phase);
  }
  for (Mat* side : {&f.u, &f.v})
    for (int64_t j = int64_t(f.s.size()); j < side->n; ++j)
      turn_column(*side, j, phase_of(c, column(*side, j)));
  return f;
}
Line values_of(const Mat& a) { return tall_svd(a.m >= a.n ? a : adjoint(a)).s; }

R largest_of(const Line& s) { return s.empty() ? 0 : s[0].real(); }
int64_t count_above(const Line& s, R least) {
  return std::count_if(s.begin(), s.end(), [&](Wide x) { return x.real() > least; });
}

// ---- eigenvalues

Mat minus(const Mat& a, Wide z) { return a + -z * one(a.n); }
// All roots of det(z - A) at once, by steps of Durand and Kerner until none moves.
Line roots(const Mat& a) {
  R bound = 1;
  for (const Wide& x : a.x) bound += std::abs(x);
  Line z;
  for (int64_t k = 0; k < a.n; ++k) z.push_back(std::polar(bound, 1 + R(2.4L) * R(k)));
  bool moved = true;
  for (int step = 0; step < 200 && moved; ++step) {
    moved = false;
    for (size_t k = 0; k < z.size(); ++k) {
      Wide by = determinant(R(-1) * minus(a, z[k]));
      for (size_t j = 0; j < z.size(); ++j)
        if (j != k) by /= z[k] - z[j];
      z[k] -= by;
      moved |= std::abs(by) > R(1e-18L) * std::abs(z[k]);
    }
  }
  return z;
}
// What Cayley and Hamilton leave of A but one eigenvalue: each column is a vector of it.
Spectrum eig_of(const Call& c, const Mat& a) {
  const int64_t n = a.n;
  const Line z = roots(a);
  const auto order = ordered(n, [&](int64_t i, int64_t j) {
    const Wide x = z[size_t(i)], y = z[size_t(j)];
    const bool tie = std::fabs(x.real() - y.real()) < R(1e-14L) * std::abs(x);  // conjugate ones
    return tie ? x.imag() < y.imag() : x.real() < y.real();
  });
  Spectrum f{{}, Mat(n, n)};
  for (int64_t k = 0; k < n; ++k) {
    f.w.push_back(z[size_t(order[size_t(k)])]);
    Mat rest = one(n);
    for (int64_t j = 0; j < n; ++j)
      if (j != order[size_t(k)]) rest = rest * minus(a, z[size_t(j)]);
    Line v(size_t(n), Wide(0));
    for (int64_t j = 0; j < n; ++j)
      if (size_of(column(rest, j)) > size_of(v)) v = column(rest, j);
    const Wide scale = phase_of(c, v) / size_of(v);
    for (int64_t i = 0; i < n; ++i) f.v(i, k) = v[size_t(i)] * scale;
  }
  return f;
}

// ---- functions by eigenvalues

using Number = Wide (*)(const Wide&);
Mat diagonal_times(const Line& w, Number f, const Mat& a) {
  return made(a.m, a.n, [&](int64_t i, int64_t j) { return f(w[size_t(i)]) * a(i, j); });
}
// V f(w) V^-1
Mat function_of(const Call& c, const Mat& a, bool hermitian, Number f) {
  const Spectrum s = hermitian ? eigh_of(c, a) : eig_of(c, a);
  return s.v * diagonal_times(s.w, f, hermitian ? adjoint(s.v) : inverse(s.v));
}
Number number_function(const std::string& name) {
  return name == "exp"   ? Number(std::exp<R>)
         : name == "log" ? Number(std::log<R>)
                         : Number(std::sqrt<R>);
}

// ---- polar factors, {U, P}

// Of R of A = Q R by Newton's iteration.
Factors polar_of(const Mat& a) {
  const Factors f = qr_of(a);
  Mat w = f.second;
  for (int step = 0; step < 60; ++step) w = R(0.5) * (w + inverse(adjoint(w)));
  return {f.first * w, adjoint(w) * f.second};
}
Hosts polar(const Mat& a, bool left) {
  const Factors f = polar_of(left ? adjoint(a) : a);
  if (left) return {as_host(f.second), as_host(adjoint(f.first))};
  return {as_host(f.first), as_host(f.second)};
}

// ---- what is left of singular values

// {U, S, Vh, discarded}
Hosts truncated_svd(const Call& c, const Host& x) {
  const int64_t rank = c.integer("rank");
  const R atol = c.number("atol"), rtol = c.number("rtol");
  int64_t found = 1, all = 0;
  for_each_index(batch_of(x), [&](const Shape& index) {
    const Line s = values_of(matrix_at(x, index));
    all = int64_t(s.size());
    found = std::max(found, count_above(s, std::max(atol, rtol * largest_of(s))));
  });
  if (atol <= 0 && rtol <= 0) found = all;
  const int64_t k = rank > 0 ? std::min(rank, found) : found;
  return batched({x}, [&](const Mats& in) -> Hosts {
    const Svd f = svd_of(c, in[0]);
    const auto middle = f.s.begin() + k;
    return {as_host(block(f.u, f.u.m, k)), as_host(Line(f.s.begin(), middle)),
            as_host(adjoint(block(f.v, f.v.m, k))), as_host(size_of(Line(middle, f.s.end())))};
  });
}
Hosts tensorsvd(const Call& c) {
  const Split s = split(c);
  Hosts y = truncated_svd(c, as_host(s.matrix));
  y[0].sizes = joined(s.rows, {y[0].sizes[1]});
  y[2].sizes = joined({y[2].sizes[0]}, s.columns);
  return y;
}
Hosts tensoreigh(const Call& c) {
  const Split s = split(c);
  const Spectrum f = eigh_of(c, s.matrix);
  return {as_host(f.w), Host{joined(s.rows, {f.v.n}), f.v.x}};
}

// {X, residuals, rank, singular values} of full rank
Hosts lstsq(const Call& c) {
  const Host& a = c.in[0];
  Host b = c.in[1];
  const bool vector = b.sizes.size() + 1 == a.sizes.size();
  if (vector) b.sizes.push_back(1);
  Hosts y = batched({a, b}, [](const Mats& in) -> Hosts {
    const Mat x = pseudo_inverse(in[0]) * in[1], off = in[0] * x + R(-1) * in[1];
    Line residuals;
    for (int64_t j = 0; j < off.n; ++j)
      residuals.push_back(std::pow(size_of(column(off, j)), R(2)));
    const Line s = values_of(in[0]);
    return {as_host(x), as_host(residuals), as_host(Wide(R(s.size()))), as_host(s)};
  });
  if (vector) y[0].sizes.pop_back();
  const size_t rank = a.sizes.size();
  if (a.sizes[rank - 2] <= a.sizes[rank - 1]) y[1] = {{0}, {}};
  return y;
}

R extreme(const std::vector<R>& x, bool largest) {
  return largest ? *std::max_element(x.begin(), x.end()) : *std::min_element(x.begin(), x.end());
}
// Of the sums of |columns|.
R norm_1(const Mat& a, bool largest) {
  std::vector<R> sums;
  for (int64_t j = 0; j < a.n; ++j) {
    sums.push_back(0);
    for (const Wide& x : column(a, j)) sums.back() += std::abs(x);
  }
  return extreme(sums, largest);
}
R norm_of(const Mat& a, std::string ord) {
  if (ord == "fro") return size_of(a.x);
  std::vector<R> s;
  for (const Wide& x : values_of(a)) s.push_back(x.real());
  if (ord == "nuc") return std::accumulate(s.begin(), s.end(), R(0));
  const bool largest = ord[0] != '-';
  if (!largest) ord.erase(0, 1);
  return ord == "2" ? extreme(s, largest) : norm_1(ord == "1" ? a : transposed(a), largest);
}
Host matrix_norm(const Call& c, const Mat& a) {
  const Wide y = norm_of(a, c.text("ord"));
  return c.integer("keepdim") ? Host{{1, 1}, {y}} : as_host(y);
}
Host matrix_rank(const Call& c, const Mat& a) {
  const Line s = values_of(a);
  const R atol = c.number("atol"), rtol = c.number("rtol");
  const R relative = rtol >= 0 ? rtol : atol > 0 ? 0 : epsilon_of(c) * R(std::max(a.m, a.n));
  return as_host(Wide(R(count_above(s, std::max(atol, relative * largest_of(s))))));
}

// ---- the list

void add_values(std::map<std::string, Oracle>& to) {
  to["svdvals"] = each([](const Call&, const Mat& a) { return Hosts(as_host(values_of(a))); });
  to["eigvalsh"] =
      each([](const Call& c, const Mat& a) { return Hosts(as_host(eigh_of(c, a).w)); });
  to["eigvals"] = each([](const Call& c, const Mat& a) { return Hosts(as_host(eig_of(c, a).w)); });
  to["matrix_norm"] = each(matrix_norm);
  to["matrix_rank"] = each(matrix_rank);
  to["cond"] = each([](const Call&, const Mat& a) {
    const Line s = values_of(a);
    return Hosts(as_host(s.front() / s.back()));
  });
}

void add_vectors(std::map<std::string, Oracle>& to) {
  to["eigh"] = each([](const Call& c, const Mat& a) -> Hosts {
    const Spectrum f = eigh_of(c, a);
    return {as_host(f.w), as_host(f.v)};
  });
  to["svd"] = each([](const Call& c, const Mat& a) -> Hosts {
    const Svd f = svd_of(c, a, c.integer("full_matrices") != 0);
    return {as_host(f.u), as_host(f.s), as_host(adjoint(f.v))};
  });
  to["eig"] = each([](const Call& c, const Mat& a) -> Hosts {
    const Spectrum f = eig_of(c, a);
    return {as_host(f.w), as_host(f.v)};
  });
  to["eigsh"] = each([](const Call& c, const Mat& a) -> Hosts {
    const Spectrum f = eigh_of(c, a);
    const std::string which = c.text("which");
    auto order = ordered(a.n, [&](int64_t i, int64_t j) {
      const R x = f.w[size_t(i)].real(), y = f.w[size_t(j)].real();
      return which == "LA" ? x > y : which == "SA" ? x < y : std::fabs(x) > std::fabs(y);
    });
    order.resize(size_t(c.integer("k")));
    std::sort(order.begin(), order.end());
    Line w;
    for (const int64_t i : order) w.push_back(f.w[size_t(i)]);
    return {as_host(w), as_host(picked(f.v, order))};
  });
  for (const auto& [op, f] : {std::pair("matrix_exp", "exp"), {"sqrtm", "sqrt"}, {"logm", "log"}})
    to[op] = each([f = std::string(f)](const Call& c, const Mat& a) {
      return Hosts(as_host(function_of(c, a, c.integer("hermitian") != 0, number_function(f))));
    });
  for (const bool hermitian : {false, true})
    to[hermitian ? "hermitian_function" : "matrix_function"] =
        each([hermitian](const Call& c, const Mat& a) {
          return Hosts(as_host(function_of(c, a, hermitian, number_function(c.text("f")))));
        });
  to["truncated_svd"] = [](const Call& c) { return truncated_svd(c, c.in[0]); };
  to["polar_factors"] = each([](const Call&, const Mat& a) { return polar(a, false); });
  to["polar"] = each([](const Call& c, const Mat& a) { return polar(a, c.integer("left") != 0); });
  to["tensorsvd"] = tensorsvd;
  to["tensoreigh"] = tensoreigh;
  to["lstsq"] = lstsq;
}

}  // namespace
}  // namespace small_matrices

void add_spectra_oracles(std::map<std::string, Oracle>& to) {
  small_matrices::add_values(to);
  small_matrices::add_vectors(to);
}

}  // namespace gradus::testing
