// LAPACK's functions as a library has them that somebody else has opened: the Fortran interface
// with integers of 32 bits, each text followed, at the end, by its length.
#pragma once
#include "engine/abi/complex.hpp"

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

namespace gradus::inline v1::linalg {

using LapackInt = int32_t;

template <class T>
struct LapackFunctions {
  using R = real_of<T>;
  using Text = const char*;
  using In = const LapackInt*;
  using Out = LapackInt*;
  template <class Real, class Complex>
  using Either = std::conditional_t<is_complex_v<T>, Complex, Real>;

  void (*potrf)(Text, In n, T*, In ld, Out info, size_t);
  void (*getrf)(In m, In n, T*, In ld, Out pivots, Out info);
  void (*getrs)(Text, In n, In cols, const T*, In ld, In pivots, T*, In ldb, Out info, size_t);
  void (*trtrs)(Text, Text, Text, In n, In cols, const T*, In ld, T*, In ldb, Out info, size_t,
                size_t, size_t);
  void (*geqrf)(In m, In n, T*, In ld, T* tau, T* work, In lwork, Out info);
  void (*orgqr)(In m, In n, In k, T*, In ld, const T* tau, T* work, In lwork, Out info);
  Either<void (*)(Text, Text, In n, T*, In ld, R* w, T* work, In lwork, Out iwork, In liwork,
                  Out info, size_t, size_t),
         void (*)(Text, Text, In n, T*, In ld, R* w, T* work, In lwork, R* rwork, In lrwork,
                  Out iwork, In liwork, Out info, size_t, size_t)>
      syevd;
  Either<void (*)(Text, In m, In n, T*, In ld, R* s, T* u, In ldu, T* vt, In ldvt, T* work,
                  In lwork, Out iwork, Out info, size_t),
         void (*)(Text, In m, In n, T*, In ld, R* s, T* u, In ldu, T* vt, In ldvt, T* work,
                  In lwork, R* rwork, Out iwork, Out info, size_t)>
      gesdd;
  Either<void (*)(Text, Text, In n, T*, In ld, R* re, R* im, T* vl, In ldvl, T* vr, In ldvr,
                  T* work, In lwork, Out info, size_t, size_t),
         void (*)(Text, Text, In n, T*, In ld, T* w, T* vl, In ldvl, T* vr, In ldvr, T* work,
                  In lwork, R* rwork, Out info, size_t, size_t)>
      geev;
};

struct Lapack {
  std::tuple<LapackFunctions<float>, LapackFunctions<double>, LapackFunctions<c64>,
             LapackFunctions<c128>>
      functions;
  // How many threads it may use, if it can be told. Each thread that calls says 1 first: some
  // libraries count for each by itself, and somebody else in the process may have said another.
  void (*set_threads)(int);
};

}  // namespace gradus::linalg
