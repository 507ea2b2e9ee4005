// The names of all statements, and the names of libm. Declared here as structs before any statement
// is read, they hide the functions of <math.h>: inside a statement a bare `exp(x)` or `cbrt(x)`
// names a struct and does not compile, where it would silently have taken the double function.
// (`sqrt(x)` of a float, of a SIMD batch and of a dual number must be one thing: w::sqrt.)
// A libm name that has no statement yet stays an incomplete struct; defining it lifts nothing.
#pragma once

namespace gradus::def {

// Statements.
struct neg; struct add; struct sub; struct mul; struct div; struct reciprocal; struct square;
struct sqrt; struct rsqrt; struct exp; struct expm1; struct log; struct log1p; struct sin;
struct cos; struct tanh; struct sigmoid; struct erf; struct lt; struct le; struct gt; struct ge;
struct eq; struct ne; struct where; struct relu; struct leaky_relu; struct maximum;
struct minimum; struct clamp; struct elu; struct softplus; struct logsigmoid; struct silu;
struct gelu; struct gelu_tanh; struct pow; struct abs; struct sign; struct conj; struct real;
struct imag;

// Words that are not statements of that name.
struct min; struct max; struct select; struct cabs;

// The rest of <math.h> and <stdlib.h>.
struct acos; struct acosh; struct asin; struct asinh; struct atan; struct atan2; struct atanh;
struct cbrt; struct ceil; struct copysign; struct cosh; struct erfc; struct exp2; struct exp10;
struct fabs; struct fdim; struct floor; struct fma; struct fmax; struct fmin; struct fmod;
struct frexp; struct hypot; struct ilogb; struct isfinite; struct isinf; struct isnan; struct j0;
struct j1; struct jn; struct labs; struct ldexp; struct ldiv; struct lgamma; struct llabs;
struct llrint; struct llround; struct log10; struct log2; struct logb; struct lrint;
struct lround; struct modf; struct nan; struct nearbyint; struct nextafter; struct remainder;
struct rint; struct round; struct scalbn; struct signbit; struct sinh; struct tan; struct tgamma;
struct trunc; struct y0; struct y1; struct yn; struct acosf; struct asinf; struct atanf;
struct atan2f; struct cosf; struct coshf; struct erff; struct erfcf; struct expf; struct exp2f;
struct expm1f; struct fabsf; struct fmaf; struct fmaxf; struct fminf; struct fmodf; struct hypotf;
struct lgammaf; struct logf; struct log10f; struct log1pf; struct log2f; struct powf;
struct rsqrtf; struct sinf; struct sinhf; struct sqrtf; struct tanf; struct tanhf; struct tgammaf;

}  // namespace gradus::def
