// One forward pass of what a config describes, recorded and not yet walked: a training step of a
// network on its first batch, a contraction of drawn operands, or what a script comes to backward()
// with. For commands that look at graphs.
#pragma once
#include "engine/device.hpp"
#include "engine/tensor.hpp"

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gradus::cli {

struct OneStep {
  Tensors roots;                                       // the loss, or the value
  std::vector<std::pair<std::string, Tensor>> leaves;  // parameters, or operands
  Tensors seeds{};                                     // cotangents of the roots; empty: ones
  std::shared_ptr<const void> keeps{};                 // what calls of its ops need, if they do
};

// Of a script alone.
struct ScriptTarget {
  std::vector<std::string> arguments;
  int64_t backward = 1;  // the graph of the n-th backward() or gradus.grad()
  bool unsafe = false;   // no sandbox
};
struct OneStepConfig {
  std::string file;              // a config, or a script if it ends in .lua
  std::vector<std::string> set;  // of a network alone
  ScriptTarget script{};
};
// The config's "device" value, for who opens the device; null if it has none.
nlohmann::json config_device(const std::string& file);
// Makes data, parameters and operands, then calls `ready` and runs the forward pass: what `ready`
// makes can watch it. Error(config) for what is no such config.
OneStep run_one_step(const OneStepConfig& config, Device& device,
                     const std::function<void()>& ready);

}  // namespace gradus::cli
