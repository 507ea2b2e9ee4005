// The names of all statements, and the names of libm. Declared here as structs before any statement
// is read, they hide the functions of <math.h>: inside a statement a bare `exp(x)` or `cbrt(x)`
// names a struct and does not compile, where it would silently have taken the double function.
// (`sqrt(x)` of a float, of a SIMD batch and of a dual number must be one thing: w::sqrt.)
// A libm name that has no statement yet stays an incomplete struct; defining it lifts nothing.
#pragma once
#include "ops/def/list.hpp"

namespace gradus::inline v1::def {

// Words that are not statements of that name.
struct min;
struct max;
struct select;
struct cabs;

// The rest of <math.h> and <stdlib.h>.
struct exp10;
struct fabs;
struct fdim;
struct fma;
struct frexp;
struct ilogb;
struct j0;
struct j1;
struct jn;
struct labs;
struct ldexp;
struct ldiv;
struct llabs;
struct llrint;
struct llround;
struct logb;
struct lrint;
struct lround;
struct modf;
struct nan;
struct nearbyint;
struct nextafter;
struct rint;
struct scalbn;
struct tgamma;
struct y0;
struct y1;
struct yn;
struct acosf;
struct asinf;
struct atanf;
struct atan2f;
struct cosf;
struct coshf;
struct erff;
struct erfcf;
struct expf;
struct exp2f;
struct expm1f;
struct fabsf;
struct fmaf;
struct fmaxf;
struct fminf;
struct fmodf;
struct hypotf;
struct lgammaf;
struct logf;
struct log10f;
struct log1pf;
struct log2f;
struct powf;
struct rsqrtf;
struct sinf;
struct sinhf;
struct sqrtf;
struct tanf;
struct tanhf;
struct tgammaf;

}  // namespace gradus::def
