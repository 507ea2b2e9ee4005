// Oracles of factors and of solving; of products, powers and the exponential.
#include "tests/oracles/oracles_matrices.hpp"

namespace gradus::inline v1::testing {

namespace small_matrices {
namespace {

// ---- solving

// X with S X = B, or X S = B, where S is made of A.
Host solved_by(const Host& a, Host b, bool left, const std::function<Mat(const Mat&)>& system) {
  const size_t rank = b.sizes.size();
  const bool vector = left && (rank == 1 || (rank + 1 == a.sizes.size() &&
                                             b.sizes == Shape(a.sizes.begin(), a.sizes.end() - 1)));
  if (vector) b.sizes.push_back(1);
  Host x = batched({a, b}, [&](const Mats& in) {
    const Mat s = system(in[0]);
    return as_host(left ? solved(s, in[1]) : transposed(solved(transposed(s), transposed(in[1]))));
  })[0];
  if (vector) x.sizes.pop_back();
  return x;
}
Host triangular_solve(const Call& c) {
  return solved_by(c.in[0], c.in[1], true, [&](const Mat& a) {
    const Mat t = triangle(a, c.integer("upper") != 0, c.integer("unitriangular") != 0);
    const int64_t form = c.integer("form");
    return form == 0 ? t : form == 1 ? transposed(t) : adjoint(t);
  });
}
Host solve_triangular(const Call& c) {
  return solved_by(c.in[0], c.in[1], c.integer("left") != 0, [&](const Mat& a) {
    return triangle(a, c.integer("upper") != 0, c.integer("unitriangular") != 0);
  });
}
Host cholesky_solve(const Call& c) {
  return solved_by(c.in[1], c.in[0], true, [&](const Mat& a) {
    const Mat t = triangle(a, c.integer("upper") != 0, false);
    return c.integer("upper") ? adjoint(t) * t : t * adjoint(t);
  });
}

// ---- factors

Mat cholesky(const Mat& given) {
  const Mat a = hermitian(given);
  Mat l(a.n, a.n);
  for (int64_t j = 0; j < a.n; ++j)
    for (int64_t i = j; i < a.n; ++i) {
      Wide rest = a(i, j);
      for (int64_t k = 0; k < j; ++k) rest -= l(i, k) * std::conj(l(j, k));
      l(i, j) = i == j ? Wide(std::sqrt(rest.real())) : rest / l(j, j);
    }
  return l;
}

struct Lu {
  Mat packed;
  std::vector<int64_t> rows;
};
Lu lu_of(const Mat& given) {
  Mat a = given;
  std::vector<int64_t> rows = ordered(a.m, [](int64_t, int64_t) { return false; });
  const auto size = [&](int64_t i, int64_t k) {
    return std::abs(a(i, k).real()) + std::abs(a(i, k).imag());
  };
  for (int64_t k = 0; k < std::min(a.m, a.n); ++k) {
    int64_t best = k;
    for (int64_t i = k; i < a.m; ++i)
      if (size(i, k) > size(best, k)) best = i;
    std::swap(rows[size_t(k)], rows[size_t(best)]);
    for (int64_t j = 0; j < a.n; ++j) std::swap(a(k, j), a(best, j));
    for (int64_t i = k + 1; i < a.m; ++i) {
      a(i, k) /= a(k, k);
      for (int64_t j = k + 1; j < a.n; ++j) a(i, j) -= a(i, k) * a(k, j);
    }
  }
  return {a, rows};
}
Hosts lu_factor(const Call&, const Mat& a) {
  const Lu f = lu_of(a);
  Line rows;
  for (const int64_t i : f.rows) rows.push_back(R(i));
  return {as_host(f.packed), as_host(rows)};
}
Hosts lu(const Call&, const Mat& a) {
  const Lu f = lu_of(a);
  const int64_t k = std::min(a.m, a.n);
  const Mat p = made(a.m, a.m, [&](int64_t i, int64_t j) { return R(f.rows[size_t(j)] == i); });
  const Mat l = triangle(block(f.packed, a.m, k), false, true);
  return {as_host(p), as_host(l), as_host(triangle(block(f.packed, k, a.n), true, false))};
}

Hosts qr(const Call& c, const Mat& a) {
  Factors f = c.text("mode") == "complete" ? whole_qr(a) : qr_of(a);
  for (int64_t i = 0; c.integer("positive") && i < std::min(a.m, a.n); ++i) {
    if (f.second(i, i).real() >= 0) continue;
    for (int64_t j = 0; j < a.n; ++j) f.second(i, j) *= R(-1);
    for (int64_t j = 0; j < a.m; ++j) f.first(j, i) *= R(-1);
  }
  if (c.text("mode") == "r") f.first = Mat(a.m, 0);
  return {as_host(f.first), as_host(f.second)};
}

Mat rows_reversed(const Mat& a) {
  return made(a.m, a.n, [&](int64_t i, int64_t j) { return a(a.m - 1 - i, j); });
}
Mat columns_reversed(const Mat& a) {
  return made(a.m, a.n, [&](int64_t i, int64_t j) { return a(i, a.n - 1 - j); });
}
Factors lq_of(const Mat& a) {
  const Factors f = qr_of(adjoint(a));
  return {adjoint(f.second), adjoint(f.first)};
}
Hosts ql(const Call&, const Mat& a) {
  const Factors f = qr_of(columns_reversed(a));
  return {as_host(columns_reversed(f.first)), as_host(columns_reversed(rows_reversed(f.second)))};
}
Hosts lq(const Call&, const Mat& a) {
  const Factors f = lq_of(a);
  return {as_host(f.first), as_host(f.second)};
}
Hosts rq(const Call&, const Mat& a) {
  const Factors f = lq_of(rows_reversed(a));
  return {as_host(columns_reversed(rows_reversed(f.first))), as_host(rows_reversed(f.second))};
}

// ---- functions

Hosts slogdet(const Call&, const Mat& a) {
  const Wide d = determinant(a);
  return {as_host(d / std::abs(d)), as_host(std::log(std::abs(d)))};
}
Host matrix_power(const Call& c, const Mat& a) {
  const int64_t n = c.integer("n");
  const Mat factor = n < 0 ? inverse(a) : a;
  Mat y = one(a.n);
  for (int64_t i = 0; i < std::abs(n); ++i) y = factor * y;
  return as_host(y);
}
// The series of a 1024-th of A, squared ten times.
Mat exponential(const Mat& a) {
  Mat term = one(a.n), y = term;
  for (int64_t k = 1; k < 30; ++k) {
    term = R(1) / (1024 * R(k)) * (a * term);
    y = y + term;
  }
  for (int i = 0; i < 10; ++i) y = y * y;
  return y;
}
// What `first` gives, and an info that says all is well.
Oracle with_info(const Oracle& first) {
  return [first](const Call& c) {
    Hosts y = first(c);
    y.push_back(build(batch_of(c.in[0]), [](const Shape&) { return Wide(0); }));
    return y;
  };
}
Host expm_multiply(const Call& c) {
  return solved_by(c.in[0], c.in[1], true, [](const Mat& a) { return inverse(exponential(a)); });
}
Host multi_dot(const Call& c) {
  Mat y = matrix_at(c.in.back(), {});
  for (size_t i = c.in.size() - 1; i-- > 0;) y = matrix_at(c.in[i], {}) * y;
  return as_host(y);
}
Host vector_norm(const Call& c) {
  const Host& x = c.in[0];
  const R p = c.number("ord");
  std::vector<bool> summed(x.sizes.size(), c.attr("dim").is_none());
  for (const int64_t d : c.ints("dim")) summed[c.axis(d, x.sizes.size())] = true;
  Shape kept, squeezed;
  for (size_t d = 0; d < x.sizes.size(); ++d) {
    kept.push_back(summed[d] ? 1 : x.sizes[d]);
    if (!summed[d]) squeezed.push_back(x.sizes[d]);
  }
  Host y = build(kept, [](const Shape&) { return Wide(0); });
  for_each_index(x.sizes, [&](Shape i) {
    const R size = std::abs(x.at(i));
    for (size_t d = 0; d < i.size(); ++d)
      if (summed[d]) i[d] = 0;
    y.values[size_t(y.offset(i))] += std::pow(size, p);
  });
  for (Wide& v : y.values) v = std::pow(v.real(), 1 / p);
  if (!c.integer("keepdim")) y.sizes = squeezed;
  return y;
}

// ---- tensors

Hosts tensorqr(const Call& c) {
  const Split s = split(c);
  const Factors f = qr_of(s.matrix);
  return {Host{joined(s.rows, {f.first.n}), f.first.x},
          Host{joined({f.second.m}, s.columns), f.second.x}};
}
Host tensorinv(const Call& c) {
  const Shape& sizes = c.in[0].sizes;
  const auto middle = sizes.begin() + c.integer("ind");
  const int64_t n = numel_of(Shape(sizes.begin(), middle));
  const Mat y = inverse(matrix_at({{n, n}, c.in[0].values}, {}));
  return {joined(Shape(middle, sizes.end()), Shape(sizes.begin(), middle)), y.x};
}
Host tensorsolve(const Call& c) {
  const Host &a = c.in[0], &b = c.in[1];
  const int64_t n = numel_of(b.sizes);
  const Mat y = solved(matrix_at({{n, n}, a.values}, {}), matrix_at({{n, 1}, b.values}, {}));
  return {Shape(a.sizes.begin() + std::ptrdiff_t(b.sizes.size()), a.sizes.end()), y.x};
}

// ---- the list

Oracle each_matrix(Mat (*f)(const Mat&)) {
  return each([f](const Call&, const Mat& a) { return Hosts(as_host(f(a))); });
}
void add_solving(std::map<std::string, Oracle>& to) {
  const auto itself = [](const Mat& a) { return a; };
  to["linear_solve"] = [=](const Call& c) {
    return Hosts(solved_by(c.in[0], c.in[1], true, itself));
  };
  to["solve"] = [=](const Call& c) {
    return Hosts(solved_by(c.in[0], c.in[1], c.integer("left") != 0, itself));
  };
  to["triangular_solve"] = triangular_solve;
  to["solve_triangular"] = solve_triangular;
  to["cholesky_solve"] = cholesky_solve;
  to["inv"] = each_matrix(inverse);
  to["pinv"] = each_matrix(pseudo_inverse);
  to["det"] = each([](const Call&, const Mat& a) { return Hosts(as_host(determinant(a))); });
  to["slogdet"] = each(slogdet);
  to["tensorinv"] = tensorinv;
  to["tensorsolve"] = tensorsolve;
}

void add_factors(std::map<std::string, Oracle>& to) {
  to["cholesky"] = each([](const Call& c, const Mat& a) {
    const Mat l = cholesky(a);
    return Hosts(as_host(c.integer("upper") ? adjoint(l) : l));
  });
  to["lu_factor"] = each(lu_factor);
  to["lu"] = each(lu);
  to["qr"] = each(qr);
  to["ql"] = each(ql);
  to["lq"] = each(lq);
  to["rq"] = each(rq);
  to["tensorqr"] = tensorqr;
}

void add_functions(std::map<std::string, Oracle>& to) {
  to["matrix_power"] = each(matrix_power);
  to["expm_multiply"] = expm_multiply;
  to["multi_dot"] = multi_dot;
  to["vector_norm"] = vector_norm;
}

}  // namespace
}  // namespace small_matrices

void add_linalg_oracles(std::map<std::string, Oracle>& to) {
  small_matrices::add_solving(to);
  small_matrices::add_factors(to);
  small_matrices::add_functions(to);
  add_spectra_oracles(to);
  for (const char* name : {"linear_solve", "solve", "inv", "cholesky", "lu_factor"})
    to[std::string(name) + "_ex"] = small_matrices::with_info(to.at(name));
}

}  // namespace gradus::testing
