#include "engine/checkpoint.hpp"

#include "engine/random.hpp"

#include <mutex>

namespace gradus {

namespace {

// One checkpointed part: shared by all that it has packed.
struct Part {
  std::function<Tensors(const Tensors&)> f;
  Tensors inputs;
  std::vector<uint64_t> versions;
  uint64_t seed, position;
  bool draws = false;             // did the first run draw random numbers?
  std::vector<TensorMeta> saved;  // what the first run would have saved
  Tensors again;                  // what the second run saved; an entry dies with its owner
  bool ran_again = false;
  std::mutex mutex;  // of the last two: several walks may ask

  void run_again();
};

// What stands in for the n-th saved tensor.
struct Place {
  Place(std::shared_ptr<Part> p, size_t i) : part(std::move(p)), index(i) {}
  ~Place() {
    const std::lock_guard lock(part->mutex);
    if (index < part->again.size()) part->again[index] = Tensor();
  }
  std::shared_ptr<Part> part;
  size_t index;
};

void Part::run_again() {
  Tensors copies;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].defined() && inputs[i].version() != versions[i])
      fail(ErrorKind::autograd, "checkpoint", "input ", int64_t(i), " ", inputs[i].sizes(),
           " was changed by ", inputs[i].storage().last_writer(),
           " since the first run; clone() it before the write");
    const bool tensor = inputs[i].defined() && !inputs[i].is_number();
    Tensor copy = tensor ? inputs[i].detach() : inputs[i];
    if (tensor && inputs[i].requires_grad()) copy.set_requires_grad();
    copies.push_back(copy);
  }
  Generator& generator = default_generator();
  again.clear();
  {
    struct Back {  // also if f throws
      Generator& generator;
      bool draws;
      uint64_t seed = generator.seed(), position = generator.position();
      ~Back() { draws ? generator.set(seed, position) : void(); }
    } back{generator, draws};
    if (draws) generator.set(seed, position);
    EnableGrad on;
    const SavedTensorHooks keep(
        [&](const Tensor& t) {
          again.push_back(t);
          return std::any();
        },
        [](const std::any&) { return Tensor(); });
    f(copies);
  }
  if (again.size() != saved.size())
    fail(ErrorKind::autograd, "checkpoint", "the first run saved ", int64_t(saved.size()),
         " tensors, the second ", int64_t(again.size()),
         "; the function must do the same each time");
  for (size_t i = 0; i < saved.size(); ++i)
    if (!(again[i].sizes() == saved[i].sizes) || again[i].dtype() != saved[i].dtype)
      fail(ErrorKind::autograd, "checkpoint", "saved tensor ", int64_t(i), " was ", saved[i].dtype,
           " ", saved[i].sizes, " in the first run, is ", again[i].dtype(), " ", again[i].sizes(),
           " in the second; the function must do the same each time");
  ran_again = true;
}

}  // namespace

Tensors checkpoint(std::function<Tensors(const Tensors&)> f, const Tensors& inputs) {
  if (!grad_enabled()) return f(inputs);
  auto part = std::make_shared<Part>();
  part->f = std::move(f);
  part->inputs = inputs;
  for (const Tensor& t : inputs) part->versions.push_back(t.defined() ? t.version() : 0);
  part->seed = default_generator().seed();
  part->position = default_generator().position();
  const SavedTensorHooks hooks(
      [part](const Tensor& t) {
        part->saved.push_back({t.sizes(), t.dtype(), &t.device()});
        return std::any(std::make_shared<Place>(part, part->saved.size() - 1));
      },
      [](const std::any& packed) {
        const Place& place = *std::any_cast<const std::shared_ptr<Place>&>(packed);
        const std::lock_guard lock(place.part->mutex);
        if (!place.part->ran_again) place.part->run_again();
        return place.part->again[place.index];
      });
  Tensors out = part->f(inputs);
  part->draws = default_generator().position() != part->position;
  return out;
}

}  // namespace gradus
