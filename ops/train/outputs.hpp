// What a network gives for samples: in evaluation mode, in batches of a fixed size, on the host.
#pragma once
#include "ops/train/data/dataset.hpp"
#include "ops/nn/loss.hpp"
#include "ops/nn/module.hpp"

#include <functional>
#include <span>

namespace gradus::inline v1::training {

// `see` gets the samples [first, first + n) and their outputs, a row for each; the network is left
// in training mode.
using SeeOutputs = std::function<void(int64_t first, int64_t n, std::span<const float> outputs)>;
void each_output(nn::Sequential& network, const Form& form, const Samples& set, Device& device,
                 const SeeOutputs& see);

// Does the loss take a row of outputs for probabilities? Then they are those of softmax.
bool knows_probabilities(const nn::Loss& loss);
std::vector<double> probabilities(std::span<const float> row);

}  // namespace gradus::training
