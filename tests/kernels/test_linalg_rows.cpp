// What the algorithms of kernels/linalg are made of: rows have the same bits on each processor and
// in loops without vectors, and copies between any two orders in memory.
#include "kernels/linalg/order.hpp"
#include "tests/kernels/linalg_calls.hpp"

#include <cstring>

namespace linalg_test {
namespace {

using namespace gradus::linalg;

double number() { return std::uniform_real_distribution<double>(-1, 1)(cpu_test::rng()); }
template <class R>
std::vector<R> drawn(int64_t n) {
  std::vector<R> x;
  for (int64_t i = 0; i < n; ++i) x.push_back(R(number()));
  return x;
}
template <class R>
bool same(const std::vector<R>& x, const std::vector<R>& y) {
  return x.size() == y.size() &&
         (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(R)) == 0);
}

template <class R>
void rows_agree(int64_t n) {
  CAPTURE(n);
  const std::vector<R> x = drawn<R>(n), start = drawn<R>(n);
  std::vector<R> y = start, z = start;
  wide::add_multiple(n, R(0.7), x.data(), y.data());
  rows::add_multiple(n, R(0.7), x.data(), z.data());
  CHECK(same(y, z));
  const R dots[] = {wide::dot(n, x.data(), y.data()), rows::dot<false>(n, x.data(), y.data())};
  CHECK(std::memcmp(&dots[0], &dots[1], sizeof(R)) == 0);

  // Rotations four at a time, up and down, and the same one by one.
  const R c[4] = {R(0.8), R(0.28), R(-0.6), R(1)}, s[4] = {R(0.6), R(-0.96), R(0.8), R(0)};
  for (int count = 1; count <= 4; ++count)
    for (const int64_t step : {n, -n}) {
      const std::vector<R> five = drawn<R>(5 * n);
      std::vector<R> together = five, alone = five;
      const int64_t at = step < 0 ? 4 * n : 0;
      wide::rotate(n, together.data() + at, step, count, c, s);
      for (int k = 0; k < count; ++k)
        for (int64_t j = 0; j < n; ++j) {
          R& p = alone[size_t(at + k * step + j)];
          R& q = alone[size_t(at + (k + 1) * step + j)];
          const R a = p, b = q;
          p = c[k] * a + s[k] * b;
          q = c[k] * b - s[k] * a;
        }
      CHECK(same(together, alone));
    }

  for (const int high : {1, 2})
    for (const int depth : {1, 4}) {
      const std::vector<R> b = drawn<R>(4 * n);
      std::vector<R> made = drawn<R>(2 * n), wanted = made;
      Strip<R> strip{n, made.data(), n, b.data(), n, {}};
      for (auto& row : strip.x)
        for (R& f : row) f = R(number());
      wide::add_strip(high, depth, strip);
      for (int r = 0; r < high; ++r)
        for (int64_t j = 0; j < n; ++j)
          for (int k = 0; k < depth; ++k)
            wanted[size_t(r * n + j)] += strip.x[r][k] * b[size_t(k * n + j)];
      CHECK(same(made, wanted));
    }

  std::vector<R> some = x;
  CHECK(wide::zero_times(n, some.data()) == 0);
  for (int64_t i = 0; i < n; ++i) {
    some[size_t(i)] = i % 2 ? std::numeric_limits<R>::infinity() : not_a_number<R>();
    CHECK_FALSE(wide::zero_times(n, some.data()) == 0);
    some[size_t(i)] = 1;
  }
}

template <class T>
void copies_agree(int64_t m, int64_t n, bool from_turned, bool to_turned, Part part) {
  CAPTURE(m);
  CAPTURE(n);
  CAPTURE(int(part));
  const auto view = [&](std::vector<T>& of, bool turned) {
    return turned ? Strided<T>{of.data(), m, n, 1, m + 1} : Strided<T>{of.data(), m, n, n + 3, 1};
  };
  const size_t room = size_t((m + 3) * (n + 3));
  std::vector<T> from(room), to(room, T(-1));
  for (size_t i = 0; i < room; ++i) from[i] = T(real_of<T>(i + 1));
  const Strided<T> a = view(from, from_turned), b = view(to, to_turned);
  copy(b, a, part);
  bool right = true;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const bool inside = part == Part::kAll || (part == Part::kLower ? j <= i : i <= j);
      right = right && b(i, j) == (inside ? a(i, j) : T(0));
    }
  CHECK(right);
}

template <class T>
std::vector<T> counted(size_t n) {
  std::vector<T> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = T(real_of<T>(i + 1));
  if constexpr (gradus::is_complex_v<T>)
    for (T& z : x) z.im = 2 - z.re;
  return x;
}

// A square where it lies, as it is or turned; what is between its lines stays.
template <class T>
void copies_in_place(int64_t n, bool turns, Part part) {
  CAPTURE(n);
  CAPTURE(int(part));
  const int64_t apart = n + 3;
  const std::vector<T> before = counted<T>(size_t(n * apart));
  std::vector<T> x = before;
  const Strided<T> rows{x.data(), n, n, apart, 1};
  copy(rows, turns ? turned(rows) : rows, part);
  bool right = true;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < apart; ++j) {
      const bool inside = part == Part::kAll || (part == Part::kLower ? j <= i : i <= j);
      const T old = before[size_t(turns && j < n ? j * apart + i : i * apart + j)];
      right = right && rows(i, j) == (inside || j >= n ? old : T(0));
    }
  CHECK(right);
}

// The lower triangle of (A + A^H) / 2, of A in either order or in its place; above it all stays.
template <class T>
void halves_agree(int64_t n, bool by_columns) {
  CAPTURE(n);
  std::vector<T> from = counted<T>(size_t(n * n)), to(from.size(), T(-1)), x = from;
  const Strided<T> a{from.data(), n, n, by_columns ? 1 : n, by_columns ? n : 1};
  const Matrix<T> b{to.data(), n, n, n}, c{x.data(), n, n, n};
  copy_hermitian(b, a);
  copy_hermitian(c, strided(c));
  bool right = true;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const T half = times(real_of<T>(0.5), a(i, j) + conj_of(a(j, i)));
      right = right && b(i, j) == (j <= i ? half : T(-1));
      if (!by_columns) right = right && c(i, j) == (j <= i ? half : a(i, j));
    }
  CHECK(right);
}

}  // namespace

TEST_CASE("linalg rows: vectors of any width give the bits of loops") {
  for (const int64_t n : {0, 1, 7, 8, 15, 16, 17, 31, 33, 64, 70}) {
    rows_agree<float>(n);
    rows_agree<double>(n);
  }
}

TEST_CASE("linalg rows: copies of a matrix or a triangle, in any order") {
  for (const auto& [m, n] : {std::pair<int64_t, int64_t>{0, 3},
                             {1, 1},
                             {8, 8},
                             {24, 24},
                             {9, 30},
                             {30, 9},
                             {17, 16},
                             {48, 56}})
    for (const Part part : {Part::kAll, Part::kLower, Part::kUpper})
      for (const bool from : {false, true})
        for (const bool to : {false, true}) {
          copies_agree<double>(m, n, from, to, part);
          copies_agree<float>(m, n, from, to, part);
          copies_agree<gradus::c128>(m, n, from, to, part);
        }
}

TEST_CASE("linalg rows: a square is turned where it lies, a Hermitian part read in any order") {
  for (const int64_t n : {0, 1, 7, 8, 16, 19, 48}) {
    copies_in_place<double>(n, true, Part::kAll);
    copies_in_place<float>(n, true, Part::kAll);
    copies_in_place<gradus::c64>(n, true, Part::kAll);
    for (const Part part : {Part::kAll, Part::kLower, Part::kUpper})
      copies_in_place<double>(n, false, part);
    for (const bool by_columns : {false, true}) {
      halves_agree<double>(n, by_columns);
      halves_agree<float>(n, by_columns);
      halves_agree<gradus::c128>(n, by_columns);
    }
  }
}

TEST_CASE("linalg rows: a thread computes with denormal numbers after a decomposition, as before") {
  const volatile float least = std::numeric_limits<float>::min();
  const auto half = [&] { return float(least / 2); };
  REQUIRE(half() > 0);
  {
    const NoTinyNumbers mode;
#ifdef __SSE2__
    CHECK(half() == 0);
#endif
  }
  CHECK(half() > 0);
}

}  // namespace linalg_test
