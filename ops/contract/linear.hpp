// Products as networks and linear algebra write them: all are contractions and a sum.
#pragma once
#include "ops/base/ints.hpp"

namespace gradus::inline v1 {

// x (..., in), weight (out, in) or (in,), bias (out,) or undefined.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});
// x1 (..., i), x2 (..., j), weight (out, i, j): y[.., o] = sum_ij x1[.., i] weight[o, i, j] x2[..,
// j].
Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias = {});

// beta * input + alpha * product. beta 0: the input is not read, whatever it holds.
Tensor addmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1,
             double alpha = 1);
Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& x, double beta = 1,
             double alpha = 1);
Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1,
            double alpha = 1);
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1,
               double alpha = 1);
Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, double beta = 1,
              double alpha = 1);

Tensor inner(const Tensor& a, const Tensor& b);  // over the last axes; none is conjugated
Tensor vdot(const Tensor& a, const Tensor& b);   // of vectors; a is conjugated
Tensor vecdot(const Tensor& a, const Tensor& b, int64_t dim = -1);  // a is conjugated
Tensor chain_matmul(const Tensors& matrices);                       // in the cheapest order

}  // namespace gradus
