// A part that runs again instead of saving. Saved-tensor hooks put placeholders in the place of
// what its nodes would save; the first one that is asked for its tensor runs the part again under
// hooks that keep all of them. The part's inputs are kept as the hooks around it keep tensors:
// those of a part within a part are placeholders of the outer one.
#include "ops/base/checkpoint.hpp"

#include "engine/batch.hpp"
#include "engine/random.hpp"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace gradus::inline v1 {

namespace {

// One checkpointed part: shared by all that it has packed.
struct Part {
  struct Input {
    Tensor tensor;  // without its history, which may lead here; undefined if packed
    std::shared_ptr<Packed> packed;
    uint64_t version = 0;
    bool requires_grad = false;
  };
  struct Kept {  // in place of one saved tensor
    TensorMeta meta;
    bool wanted = true;  // does its owner live?
    Tensor again{};
  };
  std::function<Tensors(const Tensors&)> f;
  std::vector<Input> inputs;
  uint64_t seed, position;
  bool draws = false;  // did the first run draw random numbers?
  // Several walks may ask. The lock is never held while f runs or a tensor dies: either may ask for
  // it, too.
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Kept> kept;
  bool first_run = true;
  std::thread::id runner;  // of the second run, while it goes on

  void keep(const Tensors& in);
  Tensors copies();
  std::vector<TensorMeta> run(size_t count, bool drawing);
  void run_again();
  Tensor give(size_t index);
  void forget();
};

// What stands in for the n-th saved tensor.
struct Placeholder {
  Placeholder(std::shared_ptr<Part> p, size_t i) : part(std::move(p)), index(i) {}
  ~Placeholder() {
    Tensor dead;
    const std::lock_guard lock(part->mutex);
    part->kept[index].wanted = false;
    std::swap(dead, part->kept[index].again);
  }
  std::shared_ptr<Part> part;
  size_t index;
};

void Part::keep(const Tensors& in) {
  for (const Tensor& t : in) {
    Input& input = inputs.emplace_back();
    input.tensor = t;
    if (!t.defined() || t.is_number()) continue;
    input.version = t.version();
    input.requires_grad = t.requires_grad();
    input.packed = pack(t, "checkpoint");
    input.tensor = input.packed ? Tensor() : t.detach();
  }
}

Tensors Part::copies() {
  Tensors out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Input& in = inputs[i];
    const bool tensor = in.tensor.defined() && !in.tensor.is_number();
    if (tensor && in.tensor.version() != in.version)
      fail(ErrorKind::autograd, "checkpoint", "input ", int64_t(i), " ", in.tensor.sizes(),
           " was changed by ", in.tensor.storage().last_writer(),
           " since the first run; clone() it before the write");
    Tensor copy = in.packed ? unpack(*in.packed, "checkpoint", "input", i) : in.tensor;
    if (in.packed || tensor) copy = copy.detach();
    if (in.requires_grad) copy.set_requires_grad();
    out.push_back(copy);
  }
  return out;
}

// The second run: gives what it would have saved, and keeps of the first `count` those wanted.
std::vector<TensorMeta> Part::run(size_t count, bool drawing) {
  const Tensors in = copies();
  Generator& generator = default_generator();
  struct Back {  // also if f throws
    Generator& generator;
    bool draws;
    uint64_t seed = generator.seed(), position = generator.position();
    ~Back() { draws ? generator.set(seed, position) : void(); }
  } back{generator, drawing};
  if (drawing) generator.set(seed, position);
  EnableGrad on;
  std::vector<TensorMeta> saved;
  const SavedTensorHooks hooks(
      [&](const Tensor& t) {
        Tensor before;  // dies outside of the lock
        const size_t i = saved.size();
        saved.push_back({t.sizes(), t.dtype(), &t.device()});
        const std::lock_guard lock(mutex);
        if (i < count && kept[i].wanted) before = std::exchange(kept[i].again, t);
        return std::any(t);  // for gradients taken inside of f
      },
      [](const std::any& t) { return std::any_cast<const Tensor&>(t); });
  f(in);
  return saved;
}

void Part::run_again() {
  std::vector<TensorMeta> before;
  bool partly, drawing;  // a first run that asks for gradients itself has saved but a part yet
  {
    const std::lock_guard lock(mutex);
    for (const Kept& k : kept) before.push_back(k.meta);
    partly = first_run;
    drawing = draws || (first_run && default_generator().position() != position);
  }
  const std::vector<TensorMeta> saved = run(before.size(), drawing);
  if (partly ? saved.size() < before.size() : saved.size() != before.size())
    fail(ErrorKind::autograd, "checkpoint", "the first run saved ", int64_t(before.size()),
         " tensors, the second ", int64_t(saved.size()),
         "; the function must do the same each time");
  for (size_t i = 0; i < before.size(); ++i) {
    const TensorMeta &was = before[i], &is = saved[i];
    if (!(was.sizes == is.sizes) || was.dtype != is.dtype)
      fail(ErrorKind::autograd, "checkpoint", "saved tensor ", int64_t(i), " was ", was.dtype, " ",
           was.sizes, " in the first run, is ", is.dtype, " ", is.sizes,
           " in the second; the function must do the same each time");
  }
}

Tensor Part::give(size_t index) {
  std::unique_lock lock(mutex);
  if (runner == std::this_thread::get_id())
    fail(ErrorKind::autograd, "checkpoint",
         "the function's second run asks for the gradient of what its first run computed; let it ",
         "differentiate only what it computes itself");
  changed.wait(lock, [&] { return runner == std::thread::id(); });
  if (kept[index].again.defined()) return kept[index].again;
  runner = std::this_thread::get_id();
  lock.unlock();
  std::exception_ptr error;
  try {
    run_again();
  } catch (...) {
    error = std::current_exception();
    forget();
  }
  lock.lock();
  runner = {};
  changed.notify_all();
  if (error) std::rethrow_exception(error);
  return kept[index].again;
}

void Part::forget() {
  Tensors dead;
  const std::lock_guard lock(mutex);
  for (Kept& k : kept) dead.push_back(std::exchange(k.again, Tensor()));
}

}  // namespace

Tensors checkpoint(std::function<Tensors(const Tensors&)> f, const Tensors& inputs) {
  if (!grad_enabled()) return f(inputs);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined() && is_batched(inputs[i]))
      fail(ErrorKind::autograd, "checkpoint", "input ", int64_t(i), " ", inputs[i].sizes(),
           " is one example of a vmap; checkpoint the function that calls vmap instead");
  auto part = std::make_shared<Part>();
  part->f = std::move(f);
  part->keep(inputs);
  part->seed = default_generator().seed();
  part->position = default_generator().position();
  const SavedTensorHooks hooks(
      [part](const Tensor& t) {
        const std::lock_guard lock(part->mutex);
        part->kept.push_back({{t.sizes(), t.dtype(), &t.device()}});
        return std::any(std::make_shared<Placeholder>(part, part->kept.size() - 1));
      },
      [](const std::any& packed) {
        const Placeholder& it = *std::any_cast<const std::shared_ptr<Placeholder>&>(packed);
        return it.part->give(it.index);
      });
  Tensors out = part->f(inputs);
  {
    const std::lock_guard lock(part->mutex);
    part->draws = default_generator().position() != part->position;
    part->first_run = false;
  }
  part->forget();  // what gradients taken inside of f asked for
  return out;
}

}  // namespace gradus
