// What must be there, how wide its integers are, and what it does with a NaN.
#include "kernels/cpu/blas.hpp"

#include <cstdint>
#include <limits>

namespace gradus::inline v1::cpu {

namespace {

// By value integers of either width are handed over alike. So cblas_dscal is called as if it had 64
// bits, with a length that is 1 in its lower half and, as a whole, negative, which is nothing to
// do.
#if defined(__clang__)
[[clang::no_sanitize("function")]]  // which looks for calls by another type
#endif
bool reads_64_bits(Function dscal) {
  const auto scale = reinterpret_cast<void (*)(int64_t, double, double*, int64_t)>(dscal);
  double x = 1;
  scale(1 - (int64_t(1) << 32), 2, &x, 1);
  return x == 1;
}

}  // namespace

std::string BlasLibrary::get() {
  Function scale = nullptr;
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

  if (reads_64_bits(scale)) return "has integers of 64 bits; they should have 32";
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
