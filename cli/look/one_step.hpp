// One forward pass of what a file describes, recorded and not yet walked: a training step of a
// network on its first batch, a contraction of drawn operands, what a script comes to backward()
// with, or the step in a trace file (ops/audit/step/trace.hpp). For commands that look at graphs.
#pragma once
#include "cli/script/sandbox.hpp"
#include "cli/frame/session.hpp"
#include "engine/tensor.hpp"

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::cli {

struct OneStep {
  Tensors roots;                                       // the loss, or the value
  std::vector<std::pair<std::string, Tensor>> leaves;  // parameters, or operands
  Tensors seeds{};                      // cotangents of the roots; empty, or undefined: ones
  size_t unwatched = 0;                 // nodes from before `ready` was called
  bool recorded = false;                // it comes from a trace file
  std::shared_ptr<const void> keeps{};  // what calls of its ops need, if they do
  // The lines of the file at a place that a Trace names; "" if they are not known. May be empty.
  std::function<std::string(const std::string&)> source{};
};

// Of a script alone.
struct ScriptTarget {
  std::vector<std::string> arguments;
  int64_t backward = 1;  // the graph of the n-th backward() or gradus.grad()
  bool quiet = false;    // what it prints is dropped
  Sandbox sandbox{};
  double seconds = 0;  // 0: no limit
  int64_t instructions = 0;
  std::string code{};  // what it says; "": what the file says
};
// What commands that look at one step have in common.
struct OneStepConfig {
  std::string file;              // a config, a trace file, or a script if it ends in .lua
  std::vector<std::string> set;  // "path=value"; of a network alone
  ScriptTarget script{};
  std::string device{};  // as typed; "": the file's own
};
// The "device" value of a config, or where the step of a trace file ran; null if there is none. For
// who opens the device.
nlohmann::json config_device(const std::string& file);
// Makes data, parameters and operands, then calls `ready` and runs the forward pass: what `ready`
// makes can watch it. Error(config) for what is no such config, Error(io) for a file that can't be
// trusted.
OneStep run_one_step(const OneStepConfig& config, Device& device,
                     const std::function<void()>& ready);
// The same, and its nodes know their places.
OneStep run_traced_step(
    const OneStepConfig& config, Device& device, const std::function<void()>& ready = [] {});
// The device for it.
std::unique_ptr<Session> open_session(const OneStepConfig& config, std::ostream& err);

}  // namespace gradus::cli
