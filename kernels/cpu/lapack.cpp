// Opening, what must be there, and how wide its integers are.
#include "kernels/cpu/lapack.hpp"

#include <dlfcn.h>
#include <link.h>

namespace gradus::inline v1::cpu {
namespace {

using linalg::LapackFunctions, linalg::LapackInt;

constexpr const char* kHint =
    "; `apt-get install libopenblas0-pthread` brings /usr/lib/x86_64-linux-gnu/liblapack.so.3";

}  // namespace

std::unique_ptr<LapackLibrary> LapackLibrary::open(const std::string& file, std::string* why) {
  auto out = std::make_unique<LapackLibrary>();
  out->handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!out->handle_) {
    const char* const said = ::dlerror();
    *why = (said ? said : file + " can't be opened") + std::string(kHint);
    return nullptr;
  }
  *why = out->get_functions();
  if (why->empty()) *why = out->try_integers();
  if (why->empty()) return out;
  *why = file + " " + *why;
  return nullptr;
}

void* LapackLibrary::symbol(const std::string& name) const {
  return ::dlsym(handle_, name.c_str());
}

template <class T>
std::string LapackLibrary::get_functions_of(char letter) {
  LapackFunctions<T>& f = std::get<LapackFunctions<T>>(functions_.functions);
  std::string missing;
  const auto get = [&](auto& into, const char* name) {
    const std::string whole = letter + std::string(name) + "_";
    into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(symbol(whole));
    if (!into && missing.empty()) missing = whole;
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

std::string LapackLibrary::get_functions() {
  for (const char* name : {"dpotrf_64_", "dpotrf64_"})
    if (symbol(name) && !symbol("dpotrf_"))
      return "has integers of 64 bits (" + std::string(name) + "); they should have 32";
  for (const std::string& missing : {get_functions_of<float>('s'), get_functions_of<double>('d'),
                                     get_functions_of<c64>('c'), get_functions_of<c128>('z')})
    if (!missing.empty()) return "is no LAPACK: it has no " + missing + kHint;
  for (const char* name :
       {"openblas_set_num_threads", "MKL_Set_Num_Threads", "goto_set_num_threads"})
    if (!functions_.set_threads)
      functions_.set_threads = reinterpret_cast<void (*)(int)>(symbol(name));
  return "";
}

// Names don't always tell. Integers of either width are read alike from 64 bits, so a small matrix
// is factored whose pivots, 2 and 2, are written with 32 bits or with 64.
std::string LapackLibrary::try_integers() const {
  if (functions_.set_threads) functions_.set_threads(1);
  const int64_t two = 2;
  int64_t info = 0;
  double a[] = {0, 1, 1, 0};
  LapackInt pivots[] = {-7, -7, -7, -7};
  const auto as_read = [](const int64_t& n) { return reinterpret_cast<const LapackInt*>(&n); };
  std::get<LapackFunctions<double>>(functions_.functions)
      .getrf(as_read(two), as_read(two), a, as_read(two), pivots,
             reinterpret_cast<LapackInt*>(&info));
  if (pivots[0] == 2 && pivots[1] == 0 && pivots[2] == 2)
    return "has integers of 64 bits; they should have 32";
  const bool right = pivots[0] == 2 && pivots[1] == 2 && pivots[2] == -7 && a[0] == 1 && a[1] == 0;
  return right ? "" : "gives wrong factors";
}

std::string LapackLibrary::text() const {
  std::string out = "LAPACK";
  if (void* const version = symbol("ilaver_")) {
    LapackInt number[3] = {};
    reinterpret_cast<void (*)(LapackInt*, LapackInt*, LapackInt*)>(version)(&number[0], &number[1],
                                                                            &number[2]);
    for (int i = 0; i < 3; ++i) out += (i == 0 ? " " : ".") + std::to_string(number[i]);
  }
  if (void* const config = symbol("openblas_get_config"))
    out += std::string(" of ") + reinterpret_cast<const char* (*)()>(config)();
  const link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map) out += std::string(", ") + map->l_name;
  return out;
}

}  // namespace gradus::cpu
