// Calls that must be refused, and the words that people must see.
#include "tests/oracles.hpp"

namespace gradus::testing {

using rows::Ints;

const std::vector<BadInput>& bad_inputs() {
  constexpr DType f32 = DType::f32, f64 = DType::f64, c64 = DType::c64, i64 = DType::i64,
                  u8 = DType::u8;
  using K = ErrorKind;
  static const std::vector<BadInput> all{
      // pointwise: broadcasting and dtypes
      {"add", {{f32, {3, 4}}, {f32, {3, 5}}}, {}, K::shape, "add: "},
      {"erf", {{c64, {3}}}, {}, K::dtype, "erf: is not defined for c64"},
      {"lt", {{c64, {3}}, {c64, {3}}}, {}, K::dtype, "lt: is not defined for c64"},
      {"where", {{f32, {3}}, {f32, {3}}, {f32, {3}}}, {}, K::dtype, "where: the condition is f32, expected bool"},
      {"gelu", {{f32, {3}}}, {{"approximate", "tan"}}, K::value, "gelu: approximate is \"tan\"; expected none or tanh"},
      {"leaky_relu", {{f32, {3}}}, {{"slope", 0.1}}, K::value,
       "leaky_relu: has no attribute \"slope\""},
      {"softmax", {{f32, {3}}}, {{"dmi", 0}}, K::value, "did you mean \"dim\"?"},
      {"softmax", {{f32, {3}}}, {}, K::value, "softmax: attribute dim (an integer) must be given"},
      {"cast", {{f32, {3}}}, {{"dtype", 3}}, K::value, "cast: attribute dtype is a dtype, got 3"},
      // views
      {"reshape", {{f32, {2, 3}}}, {{"shape", Ints{4, 2}}}, K::shape, "reshape: "},
      {"reshape", {{f32, {2, 3}}}, {{"shape", Ints{-1, -1}}}, K::shape, "reshape: "},
      {"permute", {{f32, {2, 3}}}, {{"dims", Ints{0, 0}}}, K::index, "permute: "},
      {"transpose", {{f32, {2, 3}}}, {{"dim0", 0}, {"dim1", 2}}, K::index, "transpose: "},
      {"select", {{f32, {2, 3}}}, {{"dim", 1}, {"index", 3}}, K::index, "select: "},
      {"slice", {{f32, {5}}}, {{"step", 0}}, K::value, "slice: "},
      {"expand", {{f32, {2, 3}}}, {{"size", Ints{3, 3}}}, K::shape, "expand: "},
      {"expand", {{f32, {1}}}, {{"size", Ints{4000000000, 4000000000}}}, K::shape, "overflows"},
      {"cat", {{f32, {2, 3}}, {f32, {2, 4}}}, {{"dim", 0}}, K::shape,
       "cat: tensor 1 has shape (2, 4), tensor 0 (2, 3); they may differ on axis 0 only"},
      {"stack", {{f32, {2}}, {f32, {3}}}, {}, K::shape, "stack: tensor 1 has shape (3,), tensor 0 (2,)"},
      {"pad", {{f32, {2}}}, {{"pad", Ints{1}}}, K::shape, "pad: a tensor with 1 axes takes up to 2 widths"},
      {"pad", {{f32, {2}}}, {{"pad", Ints{-2, -1}}}, K::shape, "pad: cuts more than axis 0 of (2,) has"},
      // reductions
      {"sum", {{f32, {2, 3}}}, {{"dim", Ints{2}}}, K::index, "sum: "},
      {"sum", {{f32, {2, 3}}}, {{"dim", Ints{1, -1}}}, K::index, "sum: "},
      {"mean", {{i64, {2, 3}}}, {}, K::dtype, "mean: of i64 is not defined; cast to f32 first"},
      {"amax", {{f32, {0, 3}}}, {{"dim", Ints{0}}}, K::shape,
       "amax: axis 0 of (0, 3) is empty and has no extremum"},
      {"argmax", {{c64, {3}}}, {}, K::dtype, "argmax: complex numbers have no order"},
      {"sum_to", {{f32, {2, 3}}}, {{"size", Ints{2}}}, K::shape, "sum_to: (2,) does not broadcast to (2, 3)"},
      // contractions
      {"matmul", {{f32, {32, 784}}, {f32, {128, 784}}}, {}, K::shape,
       "matmul: inner sizes differ: a is (32, 784), b is (128, 784); did you mean b.T?"},
      {"matmul", {{f32, {}}, {f32, {3}}}, {}, K::shape, "matmul: both operands need at least one axis"},
      {"mm", {{f32, {3}}, {f32, {3, 2}}}, {}, K::shape, "mm: "},
      {"einsum", {{f32, {2, 3}}}, {{"equation", "ij->ik"}}, K::value, "einsum: "},
      {"contract", {{f32, {3, 4}}, {f32, {5, 6}}},
       {{"labels_a", Ints{0, 1}}, {"labels_b", Ints{1, 2}}, {"labels_out", Ints{0, 2}}}, K::shape,
       "contract: label 1 is 4 in the first operand (3, 4) and 5 in the second (5, 6)"},
      {"contract", {{c64, {3}}, {c64, {3}}},
       {{"labels_a", Ints{0}}, {"labels_b", Ints{0}}, {"labels_out", Ints{}}, {"algebra", "max-plus"}},
       K::dtype, "the algebra max-plus needs an order, complex numbers have none"},
      // indexing
      {"gather", {{f32, {3}}, {f64, {3}}}, {}, K::dtype, "gather: the index is f64, expected i64 or i32"},
      {"gather", {{f32, {1, 3}}, {i64, {1, 1}}}, {}, K::value, "index"},
      {"embedding", {{f32, {3}}, {i64, {2}}}, {}, K::shape, "embedding: the table has shape (3,), expected 2 axes"},
      {"scatter_add", {{f32, {3}}, {i64, {2}}, {f64, {2}}}, {}, K::dtype, "scatter_add: x is f32, source f64"},
      // softmax, losses, random
      {"softmax", {{i64, {3}}}, {{"dim", 0}}, K::dtype, "softmax: of i64 is not defined; cast to f32 first"},
      {"softmax", {{f32, {3}}}, {{"dim", 1}}, K::index, "softmax: "},
      {"cross_entropy", {{f32, {4, 3}}, {f32, {4}}}, {}, K::dtype,
       "cross_entropy: the target is f32, expected class indices (i64)"},
      {"nll_loss", {{f32, {4, 3}}, {i64, {5}}}, {}, K::shape,
       "nll_loss: the input has shape (4, 3), the target (5,); expected (n, classes) and (n,)"},
      {"mse_loss", {{f32, {4}}, {f32, {5}}}, {}, K::shape, "mse_loss: the input has shape (4,), the target (5,)"},
      {"mse_loss", {{f32, {4}}, {f32, {4}}}, {{"reduction", "avg"}}, K::value,
       "mse_loss: reduction is \"avg\"; expected mean, sum or none"},
      {"dropout", {{f32, {4}}}, {{"p", 1.5}}, K::value, "dropout: p is 1.5, expected 0 to 1"},
      {"bernoulli", {}, {{"size", Ints{2}}, {"p", -0.5}}, K::value, "bernoulli: p is -0.5, expected 0 to 1"},
      {"uniform", {}, {{"size", Ints{2}}, {"dtype", DType::i64}}, K::dtype, "uniform: of i64 is not defined"},
      {"uniform", {}, {{"size", Ints{-2}}}, K::shape, "negative size in (-2,)"},
      {"imag", {{f32, {3}}}, {}, K::dtype, "imag: is not defined for f32"},
      {"as_strided", {{u8, {3}}}, {{"size", Ints{4}}, {"stride", Ints{1}}}, K::index, "as_strided: reaches elements 0 to 3 of a tensor with 3"},
  };
  return all;
}

}  // namespace gradus::testing
