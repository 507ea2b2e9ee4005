#include "engine/arithmetic.hpp"
#include "engine/batch.hpp"

#include <algorithm>
#include <atomic>

namespace gradus::inline v1 {

namespace {
thread_local const BatchScope* innermost = nullptr;
std::atomic<uint64_t> next_id{1};
Outputs (*fallback)(const BatchCall&) = nullptr;

// Axes 0 and 1 exchanged.
Tensor swapped(const Tensor& t) {
  Shape order;
  for (int64_t i = 0; i < t.rank(); ++i) order.push_back(i < 2 ? 1 - i : i);
  return arithmetic().permute(t, order);
}
}  // namespace

void destroy(const Batch* batch) { delete batch; }
void set_batch_fallback(Outputs (*rule)(const BatchCall&)) { fallback = rule; }

BatchScope::BatchScope(int64_t size, Randomness r)
    : level{next_id.fetch_add(1), innermost ? innermost->level.depth + 1 : 0, size},
      randomness(r),
      outer(innermost) {
  innermost = this;
}
BatchScope::~BatchScope() { innermost = outer; }
const BatchScope* BatchScope::current() { return innermost; }

bool is_batched_at(const Tensor& t, const BatchLevel& level) {
  if (!is_batched(t)) return false;
  const Batch& b = *t.body()->batch;
  return b.level.id == level.id || is_batched_at(b.physical, level);
}
bool any_batched(std::span<const Tensor> tensors) {
  return std::any_of(tensors.begin(), tensors.end(), is_batched);
}

Tensor unwrapped(const Tensor& t, const BatchLevel& level) {
  if (!is_batched(t) || t.body()->batch->level.depth < level.depth) {
    Shape sizes = t.sizes();
    sizes.insert(0, level.size);
    return arithmetic().expand(t, sizes);
  }
  const Batch& b = *t.body()->batch;
  return b.level.id == level.id ? b.physical
                                : wrapped(swapped(unwrapped(b.physical, level)), b.level);
}

Tensor wrapped(const Tensor& physical, const BatchLevel& level) {
  if (is_batched(physical) && physical.body()->batch->level.depth > level.depth) {
    const Batch& b = *physical.body()->batch;
    return wrapped(wrapped(swapped(b.physical), level), b.level);
  }
  Ref<TensorBody> body = make_ref<TensorBody>();
  body->dtype = physical.dtype();
  body->sizes = physical.sizes();
  body->strides = physical.strides();
  body->sizes.erase(0);
  body->strides.erase(0);
  body->batch = make_ref<Batch>();
  body->batch->physical = physical;
  body->batch->level = level;
  return Tensor(std::move(body));
}

Tensor lifted(const Tensor& t) {
  Tensor x = t;
  for (const BatchScope* s = innermost; s; s = s->outer)
    if (!is_batched_at(x, s->level)) x = wrapped(unwrapped(x, s->level), s->level);
  return x;
}

const BatchScope* batch_scope_of(const OpInfo& op, std::span<const Tensor> inputs) {
  if (inputs.empty() && op.batch) return innermost;
  const BatchLevel* deepest = nullptr;
  for (const Tensor& t : inputs)
    if (is_batched(t) && (!deepest || t.body()->batch->level.depth > deepest->depth))
      deepest = &t.body()->batch->level;
  if (!deepest) return nullptr;
  for (const BatchScope* s = innermost; s; s = s->outer)
    if (s->level.id == deepest->id) return s;
  fail(ErrorKind::value, op.name,
       "vmap: a batched tensor was kept beyond the function that was mapped, where it has no "
       "meaning; return it from that function");
}

Outputs apply_batched(const BatchScope& scope, const OpInfo& op, std::span<const Tensor> inputs,
                      const Attrs& attrs) {
  const Scoped hidden(innermost, scope.outer);  // this level and those inside it
  SmallVector<Tensor, 3> in;
  SmallVector<bool, 4> batched;
  for (const Tensor& t : inputs) {
    batched.push_back(is_batched_at(t, scope.level));
    in.push_back(batched.back() ? unwrapped(t, scope.level) : t);
  }
  const BatchCall call{op, {in.data(), in.size()}, batched, attrs, scope};
  Outputs out = (op.batch ? op.batch : fallback)(call);
  for (Tensor& y : out)
    if (y.defined()) y = wrapped(y, scope.level);
  return out;
}

// One level less at a time, until the walk sees physical tensors. Seeds may stay batched at a level
// that neither outputs nor inputs have: the rules then push batched cotangents.
Tensors grad_batched(const Tensors& outputs, const Tensors& inputs, const Tensors& seeds,
                     BackwardOptions options) {
  if (!seeds.empty() && seeds.size() != outputs.size())
    fail(ErrorKind::autograd, "grad", int64_t(outputs.size()), " outputs and ",
         int64_t(seeds.size()), " seeds");
  BatchLevel level{0, -1, 0};
  for (const Tensors* list : {&outputs, &inputs})
    for (const Tensor& t : *list)
      if (is_batched(t) && t.body()->batch->level.depth > level.depth)
        level = t.body()->batch->level;
  Tensors y, x, g;
  bool batched = false;
  for (size_t i = 0; i < outputs.size(); ++i) {
    y.push_back(outputs[i]);
    g.push_back(seeds.empty() ? Tensor() : seeds[i]);
    if (!is_batched_at(y[i], level) && !is_batched_at(g[i], level)) continue;
    batched = true;
    if (!g[i].defined() && y[i].numel() == 1)
      g[i] = Tensor::full(y[i].sizes(), 1.0, y[i].dtype(), y[i].device());
    y[i] = unwrapped(y[i], level);
    if (g[i].defined()) g[i] = unwrapped(g[i], level);
  }
  for (size_t k = 0; k < inputs.size(); ++k) {
    const bool own = is_batched_at(inputs[k], level);
    if (!own && batched)
      fail(ErrorKind::autograd, "grad", "vmap: the outputs are batched, input ", int64_t(k), " ",
           inputs[k].sizes(),
           " is not: its gradient would be summed over the examples; use func::grad, which gives "
           "every example its own");
    x.push_back(own ? unwrapped(inputs[k], level) : inputs[k]);
  }
  Tensors out = grad(y, x, g, options);
  for (size_t k = 0; k < out.size(); ++k)
    if (out[k].defined() && is_batched_at(inputs[k], level)) out[k] = wrapped(out[k], level);
  return out;
}

}  // namespace gradus
