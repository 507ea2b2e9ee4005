// What must be there, how wide its integers are, and what it does with a NaN.
#include "kernels/cpu/blas.hpp"

#include <cstdint>
#include <limits>

namespace gradus::inline v1::cpu {

std::string BlasLibrary::get() {
  // By value integers of either width are read alike, so this is called as if it had 64 bits, by a
  // length that is 1 in the lower half and negative, that is nothing to do, as a whole.
  void (*scale)(int64_t n, double by, double* x, int64_t step) = nullptr;
  for (const char* name : {"cblas_dgemm_64", "cblas_dgemm64_"})
    if (library.find(name, scale) && !library.find("cblas_dgemm", scale))
      return "has integers of 64 bits (" + std::string(name) + "); they should have 32";
  std::string missing;
  const auto get = [&](auto& into, const char* name) {
    if (!library.find(name, into) && missing.empty()) missing = name;
  };
  get(sgemm, "cblas_sgemm");
  get(dgemm, "cblas_dgemm");
  get(cgemm, "cblas_cgemm");
  get(zgemm, "cblas_zgemm");
  get(scale, "cblas_dscal");
  if (!missing.empty()) return "is no CBLAS: it has no " + missing + library.hint();
  set_threads = library.find_set_threads();
  if (set_threads) set_threads(1);

  double x = 1;
  scale(-(int64_t(1) << 32) + 1, 2, &x, 1);
  if (x == 1) return "has integers of 64 bits; they should have 32";
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  const double a[] = {1, 2, 3, 4}, b[] = {5, 6, 7, 8}, zeros[4] = {};
  double c[] = {nan, nan, nan, nan};
  dgemm(kRowMajor, kNoTrans, kTrans, 2, 2, 2, 1, a, 2, b, 2, 0, c, 2);
  if (c[0] != 17 || c[1] != 23 || c[2] != 39 || c[3] != 53) return "gives wrong products";
  constexpr double inf = std::numeric_limits<double>::infinity();
  const double bad[] = {nan, inf, inf, nan};
  for (const bool first : {true, false}) {
    dgemm(kRowMajor, kNoTrans, kNoTrans, 2, 2, 2, 1, first ? bad : zeros, 2, first ? zeros : bad, 2,
          0, c, 2);
    for (const double y : c)
      if (y == y) return "loses a NaN where it meets a zero";
  }
  return "";
}

}  // namespace gradus::cpu
