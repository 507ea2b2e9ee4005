// The ops, as C++ functions on Tensor. Names, argument order and semantics are PyTorch's wherever
// PyTorch has the op. Axes may be negative. Every function records itself when a derivative can be
// asked for. Errors are gradus::Error{shape | dtype | value | index, op, ...}.
// Call gradus::init() (ops/init.hpp) once before anything else.
#pragma once
#include "engine/graph.hpp"

namespace gradus {

using Ints = SmallVector<int64_t, 6>;
inline constexpr int64_t kEnd = INT64_MAX;  // "to the end" of a slice

// ---- pointwise; operands broadcast and promote (ops/dtypes.hpp)
Tensor neg(const Tensor& x);
Tensor abs(const Tensor& x);
Tensor sign(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor rsqrt(const Tensor& x);
Tensor reciprocal(const Tensor& x);
Tensor square(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor expm1(const Tensor& x);
Tensor log(const Tensor& x);
Tensor log1p(const Tensor& x);
Tensor sin(const Tensor& x);
Tensor cos(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor erf(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor logsigmoid(const Tensor& x);
Tensor softplus(const Tensor& x, double beta = 1, double threshold = 20);
Tensor relu(const Tensor& x);
Tensor leaky_relu(const Tensor& x, double negative_slope = 0.01);
Tensor elu(const Tensor& x, double alpha = 1);
Tensor gelu(const Tensor& x, const char* approximate = "none");  // "none" or "tanh"
Tensor silu(const Tensor& x);
Tensor clamp(const Tensor& x, double min, double max);
Tensor pow(const Tensor& a, const Tensor& b);
Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
Tensor maximum(const Tensor& a, const Tensor& b);
Tensor minimum(const Tensor& a, const Tensor& b);
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
Tensor lt(const Tensor& a, const Tensor& b);
Tensor le(const Tensor& a, const Tensor& b);
Tensor gt(const Tensor& a, const Tensor& b);
Tensor ge(const Tensor& a, const Tensor& b);
Tensor eq(const Tensor& a, const Tensor& b);
Tensor ne(const Tensor& a, const Tensor& b);
Tensor conj(const Tensor& x);  // real tensors are returned as they are
Tensor real(const Tensor& x);
Tensor imag(const Tensor& x);

inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
inline Tensor operator-(const Tensor& x) { return neg(x); }

// ---- dtype, device, memory
Tensor cast(const Tensor& x, DType dtype);          // x itself if it has the dtype already
Tensor contiguous(const Tensor& x);                 // x itself if it is row-major
Tensor clone(const Tensor& x);                      // copy on write
Tensor to_device(const Tensor& x, Device& device);  // leaves only keep no history: detaches
void copy_(const Tensor& to,
           const Tensor& from);  // in place, broadcasts and casts; see prepare_write

// ---- views (no copy where the strides allow)
Tensor reshape(const Tensor& x, const Shape& shape);  // one -1 is inferred; copies if it must
Tensor permute(const Tensor& x, const Ints& dims);
Tensor transpose(const Tensor& x, int64_t dim0, int64_t dim1);
Tensor slice(const Tensor& x, int64_t dim, int64_t start, int64_t end = kEnd, int64_t step = 1);
Tensor select(const Tensor& x, int64_t dim, int64_t index);
Tensor expand(const Tensor& x, const Shape& size);  // -1 keeps an axis
Tensor flip(const Tensor& x, const Ints& dims);
Tensor diagonal(const Tensor& x, int64_t offset = 0, int64_t dim1 = 0, int64_t dim2 = 1);
Tensor squeeze(const Tensor& x);
Tensor squeeze(const Tensor& x, const Ints& dims);
Tensor unsqueeze(const Tensor& x, int64_t dim);
Tensor cat(const Tensors& xs, int64_t dim = 0);
Tensor stack(const Tensors& xs, int64_t dim = 0);
// PyTorch's order: (last axis before, last axis after, second last before, ...).
Tensor pad(const Tensor& x, const Ints& pad, double value = 0);

// ---- reductions; empty dims = all axes
Tensor sum(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor mean(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor prod(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor amax(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor amin(const Tensor& x, const Ints& dims = {}, bool keepdim = false);
Tensor argmax(const Tensor& x);  // of the flattened tensor
Tensor argmax(const Tensor& x, int64_t dim, bool keepdim = false);
Tensor var(const Tensor& x, const Ints& dims = {}, double correction = 1, bool keepdim = false);
Tensor std(const Tensor& x, const Ints& dims = {}, double correction = 1, bool keepdim = false);
Tensor logsumexp(const Tensor& x, const Ints& dims, bool keepdim = false);
Tensor cumsum(const Tensor& x, int64_t dim);
Tensor sum_to(const Tensor& x, const Shape& sizes);  // undoes broadcasting

// ---- contraction. Labels are any integers, one per axis. Labels of the output must occur in an
// operand; a label in both operands but not in the output is summed, and so is one that only one
// operand has; a label repeated in one operand walks its diagonal; an axis of size 1 broadcasts
// against n in the other operand.
enum class Algebra { standard, max_plus, min_plus, max_times };  // as gd_algebra
Tensor contract(const Tensor& a, const Ints& labels_a, const Tensor& b, const Ints& labels_b,
                const Ints& labels_out, Algebra algebra = Algebra::standard);
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
Tensor mv(const Tensor& a, const Tensor& x);
Tensor dot(const Tensor& a, const Tensor& b);
Tensor outer(const Tensor& a, const Tensor& b);
Tensor tensordot(const Tensor& a, const Tensor& b, const Ints& dims_a, const Ints& dims_b);

// ---- indexing
Tensor gather(const Tensor& x, int64_t dim, const Tensor& index);
Tensor scatter_add(const Tensor& x, int64_t dim, const Tensor& index, const Tensor& source);
Tensor embedding(const Tensor& weight, const Tensor& index);

// ---- softmax and losses. reduction: "mean", "sum" or "none"
Tensor softmax(const Tensor& x, int64_t dim);
Tensor log_softmax(const Tensor& x, int64_t dim);
Tensor nll_loss(const Tensor& log_probabilities, const Tensor& target,
                const char* reduction = "mean");
Tensor cross_entropy(const Tensor& logits, const Tensor& target, const char* reduction = "mean");
Tensor mse_loss(const Tensor& x, const Tensor& target, const char* reduction = "mean");
Tensor bce_with_logits(const Tensor& x, const Tensor& target, const char* reduction = "mean");

// ---- random numbers, from the thread's generator (ops/random.hpp)
Tensor uniform(const Shape& size, double low = 0, double high = 1, DType dtype = DType::f32,
               Device& device = default_device());
Tensor normal(const Shape& size, double mean = 0, double std = 1, DType dtype = DType::f32,
              Device& device = default_device());
Tensor bernoulli(const Shape& size, double p = 0.5, DType dtype = DType::f32,
                 Device& device = default_device());
Tensor dropout(const Tensor& x, double p = 0.5, bool training = true);

}  // namespace gradus
