// Module: something with parameters and a forward pass. Layers are ops with state around them, so a
// network's derivative is that of its ops: nothing here knows how to differentiate, or any device.
// The state of a module is parameters, leaves that require a gradient, and buffers, which the
// forward pass itself moves (running statistics); both have names in a fixed order
// ("layers.0.weight"), as files store them.
#pragma once
#include "engine/graph.hpp"
#include "ops/shape/memory.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::nn {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

class Module {
 public:
  virtual ~Module() = default;
  // Error(shape) that names the layer if x does not fit.
  virtual Tensor forward(const Tensor& x) = 0;
  // The word for the layer in configs and messages: "linear", "dropout", an op's name.
  virtual std::string kind() const = 0;
  // Appends this module's parameters and buffers; the handles are those themselves, not copies.
  virtual void collect(const std::string& /*prefix*/, NamedTensors& /*out*/) const {}
  virtual void set_training(bool /*on*/) {}
  // Mixed precision: from now on the layer works in `dtype`, and its state stays what it is (f32).
  // Normalisation layers go on computing in f32, and give the dtype of their input.
  virtual void set_compute(DType dtype) { compute_ = dtype; }
  std::optional<DType> compute() const { return compute_; }  // none: the dtype of its parameters
  // Where the module stands, for messages: "layers[1]"; set by the container.
  void set_place(std::string place) { place_ = std::move(place); }
  const std::string& place() const { return place_; }

 protected:
  // A parameter, or what was taken out of it, as forward() works with it. The cast is an op like
  // any other, so the gradient comes back to the parameter in the parameter's own dtype.
  Tensor used(const Tensor& parameter) const {
    return compute_ && parameter.defined() ? cast(parameter, *compute_) : parameter;
  }

 private:
  std::string place_ = "layer";
  std::optional<DType> compute_;
};

// Layers one after another. Their tensors are called layers.N.x, N counting every layer.
class Sequential : public Module {
 public:
  // Its layers stand at path[0], path[1], ...
  explicit Sequential(std::string path = "layers") : path_(std::move(path)) {}
  void add(std::unique_ptr<Module> layer);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "sequential"; }
  void collect(const std::string& prefix, NamedTensors& out) const override;
  void set_training(bool on) override;
  void set_compute(DType dtype) override;

  size_t size() const { return layers_.size(); }
  Module& layer(size_t i) const { return *layers_[i]; }
  NamedTensors state() const;       // parameters and buffers
  NamedTensors parameters() const;  // those of the state that require a gradient
  // Overwrites the state, each tensor by that of its name, on any device. Error(io) that begins
  // with `source` for a name that is missing or too many, or another shape or dtype; then nothing
  // changed.
  void load(const NamedTensors& values, const std::string& source);

 private:
  std::string path_;
  std::vector<std::unique_ptr<Module>> layers_;
};

// x + f(x), f being layers that keep the shape.
class Residual : public Module {
 public:
  explicit Residual(Sequential f) : f_(std::move(f)) {}
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "residual"; }
  void collect(const std::string& prefix, NamedTensors& out) const override {
    f_.collect(prefix, out);
  }
  void set_training(bool on) override { f_.set_training(on); }
  void set_compute(DType dtype) override {
    Module::set_compute(dtype);
    f_.set_compute(dtype);
  }

 private:
  Sequential f_;
};

// f(x) that keeps x alone for backward, and runs f again when that asks for more
// (ops/base/checkpoint.hpp): less memory for a second forward pass, and the same numbers.
// Error(value) for layers with buffers, which would move twice.
class Checkpoint : public Module {
 public:
  explicit Checkpoint(Sequential f);
  Tensor forward(const Tensor& x) override;
  std::string kind() const override { return "checkpoint"; }
  void collect(const std::string& prefix, NamedTensors& out) const override {
    f_->collect(prefix, out);
  }
  void set_training(bool on) override { f_->set_training(on); }
  void set_compute(DType dtype) override {
    Module::set_compute(dtype);
    f_->set_compute(dtype);
  }

 private:
  std::shared_ptr<Sequential> f_;  // graphs run it again, perhaps after this module is gone
};

// What a network makes of a batch, for a loss: inputs that are no integers go in as the dtype it
// computes in, outputs of 16 bits come out as f32.
Tensor outputs_of(Module& network, const Tensor& inputs);

// The numbers that parameters hold together.
int64_t count(const NamedTensors& parameters);

// The shared rule behind load: writes each value into the target of its name, all or nothing.
// `what` is the word for one of them in messages: "parameter".
void load_into(const NamedTensors& targets, const NamedTensors& values, const std::string& source,
               const char* what);

}  // namespace gradus::nn
