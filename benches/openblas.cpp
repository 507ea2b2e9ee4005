// Finds OpenBLAS by the names that systems give it.
#include "benches/openblas.hpp"

#include <cstdio>
#include <dlfcn.h>

namespace gradus::inline v1::bench {
namespace {

template <class F>
bool find(void* library, const char* symbol, F& f) {
  f = reinterpret_cast<F>(dlsym(library, symbol));
  return f != nullptr;
}

OpenBlas* open() {
  void* lib = nullptr;
  for (const char* name : {"libopenblas.so.0", "libopenblas.so"})
    if (!lib) lib = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  static OpenBlas b;
  if (!lib || !find(lib, "cblas_sgemm", b.sgemm) || !find(lib, "cblas_dgemm", b.dgemm) ||
      !find(lib, "cblas_sgemv", b.sgemv) || !find(lib, "cblas_dgemv", b.dgemv) ||
      !find(lib, "cblas_cgemm", b.cgemm) || !find(lib, "cblas_zgemm", b.zgemm) ||
      !find(lib, "openblas_set_num_threads", b.set_threads)) {
    std::puts("peer missing: OpenBLAS (libopenblas0)");
    return nullptr;
  }
  b.name = "OpenBLAS";
  const char* (*config)() = nullptr;
  const char* (*core)() = nullptr;
  if (find(lib, "openblas_get_config", config) && find(lib, "openblas_get_corename", core))
    std::printf("peer: %s, kernels for %s\n", config(), core());
  return &b;
}

}  // namespace

const OpenBlas* openblas() {
  static const OpenBlas* found = open();
  return found;
}

}  // namespace gradus::bench
