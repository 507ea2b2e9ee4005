// What tests of linear algebra share: matrices to begin with, both derivatives at once.
#pragma once
#include "ops/check/rows.hpp"
#include "ops/ops.hpp"
#include "ops/transforms/func.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/texts.hpp"

namespace gradus::inline v1::testing::matrices {

using test::has;

constexpr DType kFields[] = {DType::f64, DType::c128};

// The same numbers in [-1, 1] for ever.
inline Tensor drawn(const Shape& shape, DType dtype, uint64_t stream = 1) {
  const auto x = rows::draw_direction("test_linalg", stream, numel_of(shape), is_complex(dtype));
  return rows::upload(x, shape, dtype, default_device());
}
inline Tensor near_identity(int64_t n, DType dtype, uint64_t stream = 1) {
  return drawn({n, n}, dtype, stream) + eye(n, n, dtype) * cast(f64({3}, {}), dtype);
}
inline void check_both(const func::Function& f, const Tensors& inputs) {
  func::gradcheck(f, inputs);
  func::gradgradcheck(f, inputs);
}
// What is wrong between a and b, relative to b.
inline double distance(const Tensor& a, const Tensor& b) {
  const double size = norm(b).item(), off = norm(sub(a, b)).item();
  return size > 0 ? off / size : off;
}

}  // namespace gradus::testing::matrices
