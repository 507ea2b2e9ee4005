// One forward pass of what a config describes, recorded and not yet walked: a training step of a
// network on its first batch, or a contraction of drawn operands. For commands that look at graphs.
#pragma once
#include "engine/device.hpp"
#include "engine/tensor.hpp"

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gradus::cli {

struct OneStep {
  Tensors roots;                                       // the loss, or the value
  std::vector<std::pair<std::string, Tensor>> leaves;  // parameters, or operands
};

// The config's "device" value is looked up by who opens the device: config_device().
struct OneStepConfig {
  std::string file;
  std::vector<std::string> set;  // of a network alone
};
// Makes data, parameters and operands, then calls `ready` and runs the forward pass: what `ready`
// makes can watch it. Error(config) for what is no such config.
OneStep run_one_step(const OneStepConfig& config, Device& device,
                     const std::function<void()>& ready);

}  // namespace gradus::cli
