// Each function once for the baseline and once for wider vectors; the loader takes the one that the
// processor has (GCC's function multiversioning).
#include "kernels/linalg/rows.hpp"

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(GRADUS_SANITIZED)
#define GRADUS_EACH_PROCESSOR __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define GRADUS_EACH_PROCESSOR
#endif

namespace gradus::inline v1::linalg::wide {

#define GRADUS_ROWS(R)                                                                        \
  GRADUS_EACH_PROCESSOR void add_multiple(int64_t n, R a, const R* x, R* y) {                 \
    rows::add_multiple(n, a, x, y);                                                           \
  }                                                                                           \
  GRADUS_EACH_PROCESSOR R dot(int64_t n, const R* x, const R* y) {                            \
    return rows::dot<false>(n, x, y);                                                         \
  }                                                                                           \
  GRADUS_EACH_PROCESSOR void rotate(int64_t n, R* x, int64_t step, int count, const R(&c)[4], \
                                    const R(&s)[4]) {                                         \
    switch (count) {                                                                          \
      case 4:                                                                                 \
        return rows::rotate<4>(n, x, step, c, s);                                             \
      case 3:                                                                                 \
        return rows::rotate<3>(n, x, step, c, s);                                             \
      case 2:                                                                                 \
        return rows::rotate<2>(n, x, step, c, s);                                             \
      default:                                                                                \
        rows::rotate<1>(n, x, step, c, s);                                                    \
    }                                                                                         \
  }                                                                                           \
  GRADUS_EACH_PROCESSOR void add_strip(int high, int depth, const Strip<R>& strip) {          \
    if (high == 2)                                                                            \
      depth == 4 ? rows::add_strip<2, 4>(strip) : rows::add_strip<2, 1>(strip);               \
    else                                                                                      \
      depth == 4 ? rows::add_strip<1, 4>(strip) : rows::add_strip<1, 1>(strip);               \
  }
GRADUS_ROWS(float)
GRADUS_ROWS(double)

}  // namespace gradus::linalg::wide
