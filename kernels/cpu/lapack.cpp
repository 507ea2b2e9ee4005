// What must be there, and how wide its integers are.
#include "kernels/cpu/lapack.hpp"

namespace gradus::inline v1::cpu {

using linalg::LapackFunctions, linalg::LapackInt;

template <class T>
std::string LapackLibrary::get_functions_of(char letter) {
  LapackFunctions<T>& f = std::get<LapackFunctions<T>>(functions.functions);
  std::string missing;
  const auto get = [&](auto& into, const char* name) {
    const std::string whole = letter + std::string(name) + "_";
    if (!library.find(whole, into) && missing.empty()) missing = whole;
  };
  get(f.potrf, "potrf");
  get(f.getrf, "getrf");
  get(f.getrs, "getrs");
  get(f.trtrs, "trtrs");
  get(f.geqrf, "geqrf");
  get(f.orgqr, is_complex_v<T> ? "ungqr" : "orgqr");
  get(f.syevd, is_complex_v<T> ? "heevd" : "syevd");
  get(f.gesdd, "gesdd");
  get(f.geev, "geev");
  return missing;
}

std::string LapackLibrary::get() {
  Function other = nullptr;
  for (const char* name : {"dpotrf_64_", "dpotrf64_"})
    if (library.find(name, other) && !library.find("dpotrf_", other))
      return "has integers of 64 bits (" + std::string(name) + "); they should have 32";
  for (const std::string& missing : {get_functions_of<float>('s'), get_functions_of<double>('d'),
                                     get_functions_of<c64>('c'), get_functions_of<c128>('z')})
    if (!missing.empty()) return "is no LAPACK: it has no " + missing + library.hint();
  functions.set_threads = library.find_set_threads();
  return try_integers();
}

// Names don't always tell. Integers of either width are read alike from 64 bits, so a small matrix
// is factored whose pivots, 2 and 2, are written with 32 bits or with 64.
std::string LapackLibrary::try_integers() const {
  if (functions.set_threads) functions.set_threads(1);
  const int64_t two = 2;
  int64_t info = 0;
  double a[] = {0, 1, 1, 0};
  LapackInt pivots[] = {-7, -7, -7, -7};
  const auto as_read = [](const int64_t& n) { return reinterpret_cast<const LapackInt*>(&n); };
  std::get<LapackFunctions<double>>(functions.functions)
      .getrf(as_read(two), as_read(two), a, as_read(two), pivots,
             reinterpret_cast<LapackInt*>(&info));
  if (pivots[0] == 2 && pivots[1] == 0 && pivots[2] == 2)
    return "has integers of 64 bits; they should have 32";
  const bool right = pivots[0] == 2 && pivots[1] == 2 && pivots[2] == -7 && a[0] == 1 && a[1] == 0;
  return right ? "" : "gives wrong factors";
}

std::string LapackLibrary::text() const {
  std::string out = "LAPACK";
  void (*version)(LapackInt*, LapackInt*, LapackInt*) = nullptr;
  LapackInt number[3] = {};
  if (library.find("ilaver_", version)) {
    version(&number[0], &number[1], &number[2]);
    for (int i = 0; i < 3; ++i) out += (i == 0 ? " " : ".") + std::to_string(number[i]);
  }
  return library.text(out);
}

}  // namespace gradus::cpu
