// Layers by name, in one table: what a config may say of each, and how it is built. Ops of one
// operand are in it by themselves, so a new activation or pooling needs no line here.
#pragma once
#include "engine/config/options.hpp"
#include "ops/nn/module.hpp"

#include <functional>

namespace gradus::inline v1::training {

// One element of model.layers, or of a list inside it. Call gradus::init() first.
const Spec& layer_spec();

// Builds a layer for inputs like `probe`, a batch of one sample; `place` is for messages.
using LayerMaker =
    std::function<std::unique_ptr<nn::Module>(const Tensor& probe, const std::string& place)>;
// Of a value that layer_spec() has checked.
LayerMaker read_layer(const Json& layer);
std::vector<LayerMaker> read_layers(const Json& layers);

// Builds layer by layer, each for what the one before gives; `probe` becomes what the last one
// gives. Left in training mode. An error names the layer.
nn::Sequential build_layers(const std::vector<LayerMaker>& makers, Tensor& probe,
                            const std::string& place);

}  // namespace gradus::training
