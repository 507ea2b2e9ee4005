// Each function once for the baseline and once for wider vectors; the loader takes the one that the
// processor has (GCC's function multiversioning).
#include "kernels/linalg/rows.hpp"

#include <cstring>

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(GRADUS_SANITIZED)
#define GRADUS_EACH_PROCESSOR __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define GRADUS_EACH_PROCESSOR
#endif

namespace gradus::inline v1::linalg::wide {

namespace {
template <class R>
using Row [[gnu::vector_size(kTile * sizeof(R))]] = R;  // in memory, at any number: by memcpy

// Blocks of 1, 2 and 4 numbers lie across; each step turns those of one size.
template <class R>
[[gnu::always_inline]] inline void read_turned(Row<R>* y, const R* from, int64_t from_row) {
  static_assert(kTile == 8);
  Row<R> x[kTile];
  for (int i = 0; i < kTile; ++i) std::memcpy(&x[i], from + i * from_row, sizeof x[i]);
  for (int i = 0; i < kTile; i += 2) {
    y[i] = __builtin_shufflevector(x[i], x[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    y[i + 1] = __builtin_shufflevector(x[i], x[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int k = 0; k < kTile / 2; ++k) {
    const int i = k + (k & 2);
    x[i] = __builtin_shufflevector(y[i], y[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
    x[i + 2] = __builtin_shufflevector(y[i], y[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
  }
  for (int i = 0; i < kTile / 2; ++i) {
    y[i] = __builtin_shufflevector(x[i], x[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    y[i + 4] = __builtin_shufflevector(x[i], x[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
}
template <class R>
[[gnu::always_inline]] inline void turn_rows(R* to, int64_t to_row, const R* from,
                                             int64_t from_row) {
  Row<R> y[kTile];
  read_turned<R>(y, from, from_row);
  for (int i = 0; i < kTile; ++i) std::memcpy(to + i * to_row, &y[i], sizeof y[i]);
}
template <class R>
[[gnu::always_inline]] inline void mean_rows(R* to, int64_t to_row, const R* a, const R* other,
                                             int64_t from_row) {
  Row<R> y[kTile];
  read_turned<R>(y, other, from_row);
  for (int i = 0; i < kTile; ++i) {
    Row<R> x;
    std::memcpy(&x, a + i * from_row, sizeof x);
    x = R(0.5) * x + R(0.5) * y[i];
    std::memcpy(to + i * to_row, &x, sizeof x);
  }
}
}  // namespace

#define GRADUS_ROWS(R)                                                                           \
  GRADUS_EACH_PROCESSOR void add_multiple(int64_t n, R a, const R* x, R* y) {                    \
    rows::add_multiple(n, a, x, y);                                                              \
  }                                                                                              \
  GRADUS_EACH_PROCESSOR R dot(int64_t n, const R* x, const R* y) {                               \
    return rows::dot<false>(n, x, y);                                                            \
  }                                                                                              \
  GRADUS_EACH_PROCESSOR void rotate(int64_t n, R* x, int64_t step, int count, const R(&c)[4],    \
                                    const R(&s)[4]) {                                            \
    switch (count) {                                                                             \
      case 4:                                                                                    \
        return rows::rotate<4>(n, x, step, c, s);                                                \
      case 3:                                                                                    \
        return rows::rotate<3>(n, x, step, c, s);                                                \
      case 2:                                                                                    \
        return rows::rotate<2>(n, x, step, c, s);                                                \
      default:                                                                                   \
        rows::rotate<1>(n, x, step, c, s);                                                       \
    }                                                                                            \
  }                                                                                              \
  GRADUS_EACH_PROCESSOR void turn_tile(R* to, int64_t to_row, const R* from, int64_t from_row) { \
    turn_rows(to, to_row, from, from_row);                                                       \
  }                                                                                              \
  GRADUS_EACH_PROCESSOR void mean_tile(R* to, int64_t to_row, const R* a, const R* other,        \
                                       int64_t from_row) {                                       \
    mean_rows(to, to_row, a, other, from_row);                                                   \
  }                                                                                              \
  GRADUS_EACH_PROCESSOR R zero_times(int64_t n, const R* x) { return rows::zero_times(n, x); }   \
  GRADUS_EACH_PROCESSOR void add_strip(int high, int depth, const Strip<R>& strip) {             \
    if (high == 2)                                                                               \
      depth == 4 ? rows::add_strip<2, 4>(strip) : rows::add_strip<2, 1>(strip);                  \
    else                                                                                         \
      depth == 4 ? rows::add_strip<1, 4>(strip) : rows::add_strip<1, 1>(strip);                  \
  }
GRADUS_ROWS(float)
GRADUS_ROWS(double)

}  // namespace gradus::linalg::wide
