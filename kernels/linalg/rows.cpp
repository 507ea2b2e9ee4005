// Each function once for the baseline and once for wider vectors; the loader takes the one that the
// processor has (GCC's function multiversioning).
#include "kernels/linalg/rows.hpp"

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(GRADUS_SANITIZED)
#define GRADUS_EACH_PROCESSOR __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define GRADUS_EACH_PROCESSOR
#endif

namespace gradus::inline v1::linalg::wide {

// A tile is read whole before it is written. Two numbers of 8 bytes at a time, four turned in
// registers.
void turn_tile(double* __restrict to, int64_t to_row, const double* __restrict from,
               int64_t from_row) {
  using Pair [[gnu::vector_size(16), gnu::aligned(8), gnu::may_alias]] = double;
  for (int64_t j = 0; j < kTile; j += 2)
    for (int64_t i = 0; i < kTile; i += 2) {
      const Pair x = *reinterpret_cast<const Pair*>(from + i * from_row + j);
      const Pair y = *reinterpret_cast<const Pair*>(from + (i + 1) * from_row + j);
      *reinterpret_cast<Pair*>(to + j * to_row + i) = Pair{x[0], y[0]};
      *reinterpret_cast<Pair*>(to + (j + 1) * to_row + i) = Pair{x[1], y[1]};
    }
}
void turn_tile(float* __restrict to, int64_t to_row, const float* __restrict from,
               int64_t from_row) {
  float tile[kTile][kTile];
  for (int64_t i = 0; i < kTile; ++i)
    for (int64_t j = 0; j < kTile; ++j) tile[i][j] = from[i * from_row + j];
  for (int64_t j = 0; j < kTile; ++j)
    for (int64_t i = 0; i < kTile; ++i) to[j * to_row + i] = tile[i][j];
}

#define GRADUS_ROWS(R)                                                                         \
  GRADUS_EACH_PROCESSOR void add_multiple(int64_t n, R a, const R* x, R* y) {                  \
    rows::add_multiple(n, a, x, y);                                                            \
  }                                                                                            \
  GRADUS_EACH_PROCESSOR R dot(int64_t n, const R* x, const R* y) {                             \
    return rows::dot<false>(n, x, y);                                                          \
  }                                                                                            \
  GRADUS_EACH_PROCESSOR void rotate(int64_t n, R* x, int64_t step, int count, const R(&c)[4],  \
                                    const R(&s)[4]) {                                          \
    switch (count) {                                                                           \
      case 4:                                                                                  \
        return rows::rotate<4>(n, x, step, c, s);                                              \
      case 3:                                                                                  \
        return rows::rotate<3>(n, x, step, c, s);                                              \
      case 2:                                                                                  \
        return rows::rotate<2>(n, x, step, c, s);                                              \
      default:                                                                                 \
        rows::rotate<1>(n, x, step, c, s);                                                     \
    }                                                                                          \
  }                                                                                            \
  GRADUS_EACH_PROCESSOR R zero_times(int64_t n, const R* x) { return rows::zero_times(n, x); } \
  GRADUS_EACH_PROCESSOR void add_strip(int high, int depth, const Strip<R>& strip) {           \
    if (high == 2)                                                                             \
      depth == 4 ? rows::add_strip<2, 4>(strip) : rows::add_strip<2, 1>(strip);                \
    else                                                                                       \
      depth == 4 ? rows::add_strip<1, 4>(strip) : rows::add_strip<1, 1>(strip);                \
  }
GRADUS_ROWS(float)
GRADUS_ROWS(double)

}  // namespace gradus::linalg::wide
