// One forward pass of what a file describes, recorded and not yet walked: a training step of a
// network on its first batch, a contraction of drawn operands, or the step in a trace file
// (ops/audit/trace.hpp). For commands that look at graphs.
#pragma once
#include "engine/device.hpp"
#include "engine/io/options.hpp"
#include "engine/tensor.hpp"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace gradus::cli {

struct OneStep {
  Tensors roots;                                       // the loss, or the value
  std::vector<std::pair<std::string, Tensor>> leaves;  // parameters, or operands
  Tensors seeds;  // cotangents of the roots; empty, or one undefined: ones
};

// The "device" value of a config, or where the step of a trace file ran; null if there is none. For
// who opens the device.
Json config_device(const std::string& file);

struct OneStepConfig {
  std::string file;
  std::vector<std::string> set;  // of a network alone
};
// Makes data, parameters and operands, then calls `ready` and runs the forward pass: what `ready`
// makes can watch it. Error(config) for what is no such config, Error(io) for a file that can't be
// trusted.
OneStep run_one_step(const OneStepConfig& config, Device& device,
                     const std::function<void()>& ready);

}  // namespace gradus::cli
