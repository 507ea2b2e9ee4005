// What the oracles of linear algebra share: small matrices in long double, host arrays as batches
// of them, Gauss-Jordan with full pivoting, Laplace expansion, Householder matrices multiplied out.
#pragma once
#include "tests/oracles/oracles.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradus::inline v1::testing {

namespace small_matrices {

using R = long double;
using Line = std::vector<Wide>;

// ---- small matrices

struct Mat {
  int64_t m, n;
  Line x;
  Mat(int64_t rows, int64_t columns) : m(rows), n(columns), x(size_t(rows * columns)) {}
  Wide& operator()(int64_t i, int64_t j) { return x[size_t(i * n + j)]; }
  const Wide& operator()(int64_t i, int64_t j) const { return x[size_t(i * n + j)]; }
};
using Mats = std::vector<Mat>;

inline Mat made(int64_t m, int64_t n, const std::function<Wide(int64_t, int64_t)>& f) {
  Mat y(m, n);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) y(i, j) = f(i, j);
  return y;
}
inline Mat one(int64_t n) {
  return made(n, n, [](int64_t i, int64_t j) { return R(i == j); });
}
inline Mat block(const Mat& a, int64_t m, int64_t n) {  // its first rows and columns
  return made(m, n, [&](int64_t i, int64_t j) { return a(i, j); });
}
inline Mat transposed(const Mat& a) {
  return made(a.n, a.m, [&](int64_t i, int64_t j) { return a(j, i); });
}
inline Mat adjoint(const Mat& a) {
  return made(a.n, a.m, [&](int64_t i, int64_t j) { return std::conj(a(j, i)); });
}
inline Mat operator*(const Mat& a, const Mat& b) {
  return made(a.m, b.n, [&](int64_t i, int64_t j) {
    Wide sum = 0;
    for (int64_t k = 0; k < a.n; ++k) sum += a(i, k) * b(k, j);
    return sum;
  });
}
inline Mat operator+(const Mat& a, const Mat& b) {
  return made(a.m, a.n, [&](int64_t i, int64_t j) { return a(i, j) + b(i, j); });
}
inline Mat operator*(Wide s, const Mat& a) {
  return made(a.m, a.n, [&](int64_t i, int64_t j) { return s * a(i, j); });
}
inline Mat hermitian(const Mat& a) { return R(0.5) * (a + adjoint(a)); }
inline Mat triangle(const Mat& a, bool upper, bool unit) {
  return made(a.m, a.n, [&](int64_t i, int64_t j) {
    return unit && i == j ? R(1) : (upper ? i <= j : j <= i) ? a(i, j) : R(0);
  });
}
inline Line column(const Mat& a, int64_t j) {
  Line y;
  for (int64_t i = 0; i < a.m; ++i) y.push_back(a(i, j));
  return y;
}
inline R size_of(const Line& x) {
  R sum = 0;
  for (const Wide& v : x) sum += std::norm(v);
  return std::sqrt(sum);
}
inline Mat picked(const Mat& a, const std::vector<int64_t>& columns) {
  return made(a.m, int64_t(columns.size()),
              [&](int64_t i, int64_t j) { return a(i, columns[size_t(j)]); });
}
// 0 to n - 1 in the order `before`.
inline std::vector<int64_t> ordered(int64_t n,
                                    const std::function<bool(int64_t, int64_t)>& before) {
  std::vector<int64_t> order(size_t(n), 0);
  std::iota(order.begin(), order.end(), int64_t(0));
  std::stable_sort(order.begin(), order.end(), before);
  return order;
}

// ---- host arrays as batches of matrices

inline Host as_host(const Mat& a) { return {{a.m, a.n}, a.x}; }
inline Host as_host(const Line& x) { return {{int64_t(x.size())}, x}; }
inline Host as_host(Wide x) { return {{}, {x}}; }

inline Shape batch_of(const Host& h) { return Shape(h.sizes.begin(), h.sizes.end() - 2); }
inline Shape joined(Shape a, const Shape& b) {
  for (const int64_t n : b) a.push_back(n);
  return a;
}
inline Shape broadcast(const Shape& a, const Shape& b) {
  if (a.size() < b.size()) return broadcast(b, a);
  Shape y = a;
  for (size_t i = 0; i < b.size(); ++i)
    if (int64_t& n = y[a.size() - b.size() + i]; n == 1) n = b[i];
  return y;
}
inline Mat matrix_at(const Host& h, const Shape& index) {
  Shape batch = batch_of(h), at(batch.size(), 0);
  for (size_t i = 0; i < batch.size(); ++i)
    at[i] = batch[i] == 1 ? 0 : index[index.size() - batch.size() + i];
  const size_t rank = h.sizes.size();
  return made(h.sizes[rank - 2], h.sizes[rank - 1], [&](int64_t i, int64_t j) {
    return h.at(joined(at, {i, j}));
  });
}

// f of the matrices of each element of the batch. What shapes it gives is asked with matrices of no
// meaning, since the batch may be empty.
inline Hosts batched(const std::vector<Host>& in, const std::function<Hosts(const Mats&)>& f) {
  Shape batch;
  Mats any;
  for (const Host& h : in) {
    batch = broadcast(batch, batch_of(h));
    const size_t rank = h.sizes.size();
    any.push_back(made(h.sizes[rank - 2], h.sizes[rank - 1],
                       [](int64_t i, int64_t j) { return R(i == j) * R(i + 1); }));
  }
  Hosts out = f(any);
  for (Host& h : out) h = {joined(batch, h.sizes), {}};
  for_each_index(batch, [&](const Shape& index) {
    Mats matrices;
    for (const Host& h : in) matrices.push_back(matrix_at(h, index));
    const Hosts y = f(matrices);
    for (size_t k = 0; k < out.size(); ++k)
      out[k].values.insert(out[k].values.end(), y[k].values.begin(), y[k].values.end());
  });
  return out;
}
inline Oracle each(const std::function<Hosts(const Call&, const Mat&)>& f) {
  return
      [=](const Call& c) { return batched({c.in[0]}, [&](const Mats& a) { return f(c, a[0]); }); };
}

// ---- solving

// a^-1 b by Gauss-Jordan steps, each with the largest entry that is left.
inline Mat solved(Mat a, Mat b) {
  const int64_t n = a.m;
  std::vector<int64_t> row_of(size_t(n), -1);
  std::vector<bool> used(size_t(n), false);
  for (int64_t step = 0; step < n; ++step) {
    int64_t p = -1, q = -1;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        if (!used[size_t(i)] && row_of[size_t(j)] < 0 &&
            (p < 0 || std::abs(a(i, j)) > std::abs(a(p, q))))
          p = i, q = j;
    used[size_t(p)] = true;
    row_of[size_t(q)] = p;
    for (int64_t i = 0; i < n; ++i) {
      if (i == p) continue;
      const Wide by = a(i, q) / a(p, q);
      for (int64_t j = 0; j < n; ++j) a(i, j) -= by * a(p, j);
      for (int64_t j = 0; j < b.n; ++j) b(i, j) -= by * b(p, j);
    }
  }
  return made(n, b.n, [&](int64_t i, int64_t j) {
    return b(row_of[size_t(i)], j) / a(row_of[size_t(i)], i);
  });
}
inline Mat inverse(const Mat& a) { return solved(a, one(a.m)); }

// The product of what is left on the diagonal, each step with the largest entry of its column.
inline Wide determinant(Mat a) {
  Wide product = 1;
  for (int64_t k = 0; k < a.n; ++k) {
    int64_t p = k;
    for (int64_t i = k + 1; i < a.n; ++i)
      if (std::abs(a(i, k)) > std::abs(a(p, k))) p = i;
    if (a(p, k) == Wide(0)) return 0;
    product *= p == k ? a(p, k) : -a(p, k);
    for (int64_t j = k; j < a.n; ++j) std::swap(a(p, j), a(k, j));
    for (int64_t i = k + 1; i < a.n; ++i) {
      const Wide by = a(i, k) / a(k, k);
      for (int64_t j = k; j < a.n; ++j) a(i, j) -= by * a(k, j);
    }
  }
  return product;
}

// Of full rank, by the smaller of A^H A and A A^H.
inline Mat pseudo_inverse(const Mat& a) {
  const Mat h = adjoint(a);
  return a.m >= a.n ? solved(h * a, h) : h * inverse(a * h);
}

// ---- reflections

// The reflection H with H^H x = (x_0 .. x_(from - 1), beta, 0 ..), beta real and of the sign that
// LAPACK gives it.
inline Mat reflection(const Line& x, int64_t from) {
  const int64_t n = int64_t(x.size());
  const Line tail(x.begin() + from + 1, x.end());
  const Wide alpha = x[size_t(from)];
  const R rest = size_of(tail);
  if (rest == 0 && alpha.imag() == 0) return one(n);
  const R beta = -std::copysign(std::hypot(std::abs(alpha), rest), alpha.real());
  Mat w(n, 1);  // x - beta e
  for (int64_t i = from; i < n; ++i) w(i, 0) = x[size_t(i)] - (i == from ? beta : R(0));
  return one(n) + R(1) / (beta * std::conj(alpha - beta)) * (w * adjoint(w));
}
struct Factors {
  Mat first, second;
};
// Q (m, m) and R (m, n).
inline Factors whole_qr(Mat a) {
  Mat q = one(a.m);
  for (int64_t k = 0; k < std::min(a.m, a.n); ++k) {
    const Mat h = reflection(column(a, k), k);
    a = adjoint(h) * a;
    q = q * h;
  }
  return {q, triangle(a, true, false)};
}
inline Factors qr_of(const Mat& a) {
  const int64_t k = std::min(a.m, a.n);
  const Factors f = whole_qr(a);
  return {block(f.first, a.m, k), block(f.second, k, a.n)};
}

// ---- tensors as matrices

// The axes left_dims are the rows.
struct Split {
  Mat matrix;
  Shape rows, columns;
};
inline Split split(const Call& c) {
  const Host& x = c.in[0];
  Shape left, right, rows, columns;  // axes and their sizes
  for (const int64_t d : c.ints("left_dims")) {
    left.push_back(int64_t(c.axis(d, x.sizes.size())));
    rows.push_back(x.sizes[size_t(left.back())]);
  }
  for (int64_t d = 0; d < int64_t(x.sizes.size()); ++d) {
    if (std::find(left.begin(), left.end(), d) != left.end()) continue;
    right.push_back(d);
    columns.push_back(x.sizes[size_t(d)]);
  }
  const Host y = build(joined(rows, columns), [&](const Shape& i) {
    Shape at(i.size(), 0);
    for (size_t k = 0; k < i.size(); ++k)
      at[size_t(k < left.size() ? left[k] : right[k - left.size()])] = i[k];
    return x.at(at);
  });
  Mat matrix(numel_of(rows), numel_of(columns));
  matrix.x = y.values;
  return {matrix, rows, columns};
}

}  // namespace small_matrices

void add_spectra_oracles(std::map<std::string, Oracle>& to);  // by add_linalg_oracles

}  // namespace gradus::testing
