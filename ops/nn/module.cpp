// Containers and the loading of named tensors.
#include "ops/nn/module.hpp"

#include "ops/base/checkpoint.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/shape/memory.hpp"
#include "ops/pointwise/pointwise.hpp"

#include <algorithm>

namespace gradus::inline v1::nn {

void Sequential::add(std::unique_ptr<Module> layer) {
  layer->set_place(join(path_, "[", layers_.size(), "]"));
  if (compute()) layer->set_compute(*compute());
  layers_.push_back(std::move(layer));
}

Tensor Sequential::forward(const Tensor& x) {
  Tensor y = x;
  for (const auto& layer : layers_) {
    std::optional<Trace> here;
    if (observer || detecting_anomaly()) here.emplace(join(layer->place(), " ", layer->kind()));
    y = layer->forward(y);
  }
  return y;
}

void Sequential::collect(const std::string& prefix, NamedTensors& out) const {
  for (size_t i = 0; i < layers_.size(); ++i)
    layers_[i]->collect(join(prefix, "layers.", i, "."), out);
}

void Sequential::set_training(bool on) {
  for (const auto& layer : layers_) layer->set_training(on);
}

void Sequential::set_compute(DType dtype) {
  Module::set_compute(dtype);
  for (const auto& layer : layers_) layer->set_compute(dtype);
}

NamedTensors Sequential::state() const {
  NamedTensors out;
  collect("", out);
  return out;
}

NamedTensors Sequential::parameters() const {
  NamedTensors out = state();
  std::erase_if(out, [](const auto& named) { return !named.second.requires_grad(); });
  return out;
}

void Sequential::load(const NamedTensors& values, const std::string& source) {
  load_into(state(), values, source, "parameter");
}

Tensor Residual::forward(const Tensor& x) {
  const Tensor y = f_.forward(x);
  if (!(y.sizes() == x.sizes()))
    fail(ErrorKind::shape, "residual", place(), " adds what goes in, ", x.sizes(),
         ", to what its layers give, ", y.sizes(), "; the shapes must be the same");
  return add(x, y);
}

Checkpoint::Checkpoint(Sequential f) : f_(std::make_shared<Sequential>(std::move(f))) {
  for (const auto& [name, tensor] : f_->state())
    if (!tensor.requires_grad())
      fail(ErrorKind::value, "checkpoint", "its layers run twice for each step, which would move ",
           name, " twice; take the layer that has it out of the checkpoint");
}

Tensor Checkpoint::forward(const Tensor& x) {
  // The parameters are inputs so that a write to them before backward is seen.
  Tensors inputs{x};
  for (const auto& named : f_->state()) inputs.push_back(named.second);
  return checkpoint([f = f_](const Tensors& in) { return Tensors{f->forward(in[0])}; }, inputs)[0];
}

Tensor outputs_of(Module& network, const Tensor& inputs) {
  const bool narrow = network.compute() && is_floating(inputs.dtype());
  const Tensor y = network.forward(narrow ? cast(inputs, *network.compute()) : inputs);
  return cast(y, statistics_dtype(y.dtype()));
}

int64_t count(const NamedTensors& parameters) {
  int64_t n = 0;
  for (const auto& [name, tensor] : parameters) n += tensor.numel();
  return n;
}

void load_into(const NamedTensors& targets, const NamedTensors& values, const std::string& source,
               const char* what) {
  std::vector<std::string> names;
  for (const auto& target : targets) names.push_back(target.first);
  for (const auto& value : values)
    if (std::find(names.begin(), names.end(), value.first) == names.end())
      fail(ErrorKind::io, source, "the ", what, " \"", value.first, "\" is in the file but not in ",
           "the network", did_you_mean(value.first, names));
  std::vector<const Tensor*> found;
  for (const auto& [name, target] : targets) {
    const auto it = std::find_if(values.begin(), values.end(),
                                 [&, &n = name](const auto& v) { return v.first == n; });
    if (it == values.end()) fail(ErrorKind::io, source, "the ", what, " \"", name, "\" is missing");
    const Tensor& v = it->second;
    if (!(v.sizes() == target.sizes()) || v.dtype() != target.dtype())
      fail(ErrorKind::io, source, "the ", what, " \"", name, "\" is ", v.dtype(), " ", v.sizes(),
           " in the file, the network has ", target.dtype(), " ", target.sizes());
    found.push_back(&v);
  }
  const NoGrad no_grad;
  for (size_t i = 0; i < targets.size(); ++i)
    copy_(targets[i].second, to_device(*found[i], targets[i].second.device()));
}

}  // namespace gradus::nn
