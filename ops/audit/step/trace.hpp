// A recorded step as plain data: all that it takes to run it again without the program that made
// it, and what came out then. record() reads it from a Watch, run() makes it a live graph, files
// hold it in the format "gradus.trace/1": a .safetensors file whose metadata say which call took
// what.
//
// What recorded nothing (labels as one-hot rows, masks, drawn numbers) is in it by its values, as
// constants; so nothing that is run again is random.
#pragma once
#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/watch/watch.hpp"

namespace gradus::inline v1::audit {

struct RecordedOutput {
  Shape sizes;
  DType dtype = DType::f32;
  Tensor value, cotangent;  // undefined: not kept (of views), or there is none
};

struct RecordedNode {
  const OpInfo* op = nullptr;
  Attrs attrs;
  std::vector<Source> inputs;  // absent, node, leaf or constant; nodes are earlier ones
  std::vector<RecordedOutput> outputs;
  std::string where;  // the open Traces
};

struct RecordedLeaf {
  std::string name;
  Tensor value, gradient;  // undefined gradient: the roots do not depend on it
};

struct RecordedStep {
  std::string title;
  std::string device, arch, build;  // where it ran
  std::string file;                 // that it was read from, for messages; "" for none
  std::vector<RecordedNode> nodes;
  std::vector<RecordedLeaf> leaves;
  Tensors constants;  // numbers too
  std::vector<Source> roots;
  Tensors seeds;  // where backward begins, one per root; undefined: ones
};

// The graph behind the roots as `watch` saw it, with its backward pass, which it runs: no .grad
// changes, nothing is freed. Leaves without a name are called "leaf0". Error(autograd) for what a
// recording could not repeat: nodes from before the watch, hooks, an op that is not in the op list,
// a leaf that was written between two uses. With `views`, their values are kept too.
RecordedStep record(const Watch& watch, const Tensors& roots, const Names& leaves,
                    const Tensors& seeds = {}, bool views = false);

// f(); of a step from a file, what an op refuses on the way (all but a lack of memory, a device, an
// interrupt) is an Error(io) that names the file: nobody has checked it but the ops themselves.
template <class F>
auto blaming_file(const RecordedStep& step, F&& f) {
  try {
    return f();
  } catch (const Error& e) {
    if (step.file.empty() || e.kind() > ErrorKind::autograd) throw;
    fail(ErrorKind::io, step.file, e.what());
  }
}

struct LiveStep {
  Tensors roots, seeds;
  Names leaves;
};
// Runs the calls on that device, recorded; backward is not run. What an op refuses is an Error that
// names the node, of a step from a file an Error(io) that names both.
LiveStep run(const RecordedStep& step, Device& device);
// The same under a watch, with backward, recorded anew. Of a step from a file, what its backward
// refuses is an Error(io), too.
RecordedStep run_again(const RecordedStep& step, Device& device, bool views = false);
// The same calls in f64 and c128: leaves, constants, seeds and dtypes in attributes are wide;
// without values and gradients.
RecordedStep widened(RecordedStep step);

// ---- files (trace_file.cpp)

std::string trace_bytes(const RecordedStep& step, const std::string& name);
// Error(autograd) for an op that a script made: its name would mean nothing to who reads the file.
void write_trace(const std::string& path, const RecordedStep& step);
// Believes nothing. Error(io) that names what is wrong: a file of another kind, a reference to a
// later node, an unknown op (with a hint at --load), operands or attributes that an op does not
// have, tensors that are missing or have other sizes.
RecordedStep read_trace(const std::string& path, Device& device);
RecordedStep parse_trace(std::string_view bytes, const std::string& name, Device& device);
// Does this file begin as a .safetensors file does? Error(io) if it can't be read.
bool is_trace(const std::string& path);
// The name of the device that it was made on, by its metadata alone. Error(io).
std::string device_of_trace(const std::string& path);

}  // namespace gradus::audit
