#include "ops/linalg/formula.hpp"

#include "engine/batch.hpp"
#include "engine/forward.hpp"

namespace gradus::inline v1::linalg {

namespace {

// Larger ones are sooner done by products of their own.
constexpr int64_t kMostRows = 16;

}  // namespace

bool is_quiet(const Tensor& t) {
  return !is_batched(t) && !(grad_enabled() && t.requires_grad()) &&
         !(forward_mode() && t.tangent().defined());
}

bool Steps::take(std::initializer_list<const Tensor*> inputs) {
  const Tensor& matrix = **inputs.begin();
  if (matrix.dtype() != DType::f32 && matrix.dtype() != DType::f64) return false;
  const Device& device = matrix.device();
  if (!device.host_memory() || !device.offers(GD_LINALG) || matrix.numel() == 0) return false;
  for (const Tensor* const t : inputs) {
    if (!t->defined()) continue;
    if (!is_quiet(*t) || t->size(-1) > kMostRows) return false;
    if (t->rank() == matrix.rank() && t->size(-2) > kMostRows) return false;
  }
  return true;
}

Term Steps::input(const Tensor& x) {
  if (!x.defined()) return {};
  inputs_.push_back(&x);
  const bool vector = x.rank() < matrix_.rank();
  return {this, int(inputs_.size()) - 1, vector ? 1 : x.size(-2), x.size(-1)};
}

Term Steps::add(gd_step code, int64_t rows, int64_t cols, const Term& a, const Term& b, int flags) {
  steps_.push_back(int64_t(code) | int64_t(a.index) << 8 | int64_t(b.index) << 16 |
                   int64_t(flags) << 24);
  return {this, int(inputs_.size() + steps_.size()) - 1, rows, cols};
}

Tensor Steps::run(const Term& result) {
  const Term last = plain(result);
  const Tensor out = Tensor::empty(with(batch_of(matrix_), {last.rows, last.cols}), matrix_.dtype(),
                                   matrix_.device());
  KernelCall call(GD_LINALG, GD_FORMULA);
  for (const Tensor* const x : inputs_) call.in(*x);
  for (const int64_t step : steps_) call.integer(step);
  call.out(out).run();
  return out;
}

}  // namespace gradus::linalg
