// Where the memory of a step goes: what each node keeps for backward and which derivative needs it,
// what a checkpoint of a module would free, and how many bytes live on the device while the step
// runs, forward and backward.
#pragma once
#include "ops/audit/step/graph_view.hpp"

#include <map>

namespace gradus::inline v1::audit {

// Watches a device's memory from its making on: first the forward pass, then run_backward(). The
// step must run in this thread, and its graph must not be held by anybody else: what that keeps
// alive is counted.
class MemoryRecorder : public KernelWrapper, public Observer {
 public:
  explicit MemoryRecorder(Device& device);
  ~MemoryRecorder() override;

  // Backward from the roots, with cotangents of ones: adds to .grad and frees the graph. Node n is
  // the n-th behind the roots, as in read_graph(). Error(autograd) for roots without history.
  MemoryProfile run_backward(const Tensors& roots);

  gd_status call(const gd_call&, Next next, gd_error& error) override { return next(error); }
  void allocated(uint64_t buffer, size_t bytes, const char* op) override;
  void released(uint64_t buffer, size_t bytes) override;
  void called(const OpContext& ctx, GradFn* node) override;

 private:
  void close(MemoryMoment moment);
  Device& device_;
  size_t before_;
  int64_t live_ = 0, peak_ = 0, highest_ = 0;  // peak_: since the last moment
  bool backward_ = false;
  std::map<uint64_t, std::pair<std::string, size_t>> buffers_;  // made since the beginning
  std::map<std::string, size_t> live_of_, at_peak_;             // by op
  std::map<std::string, MemoryOfOp> ops_;
  std::vector<MemoryMoment> moments_;
  std::vector<uint64_t> sequences_;  // of the nodes of moments_
  ObserverScope listening_{*this};
};

// The most bytes at once, and when.
const MemoryMoment* peak_of(const MemoryProfile& profile);

// For each saved tensor of the node, the operands whose vjp asks for it; empty for those that hooks
// packed. Runs each vjp once, with cotangents of zeros, and leaves no trace in the node.
std::vector<std::vector<int>> readers_of_saved(GradFn& node);

// A run of nodes that were recorded in one module, run again in backward instead of kept: bytes
// that need not be saved, less those of its operands, which then must be. Constants and leaves
// are taken to be there anyway.
struct CheckpointSaving {
  std::string module;
  int first = 0, last = 0;  // nodes first .. last - 1
  size_t bytes = 0;         // less between forward and backward
  double flops = -1;        // that run again; -1: not known
};
// Those that save something, the most first. Needs a view that was recorded.
std::vector<CheckpointSaving> checkpoint_savings(const GraphView& view);

// By SavedTensor::storage, the node whose saved_bytes has it; -1: a leaf's, or packed.
std::vector<int> holders_of(const GraphView& view);
// Why the node saves it: "for the vjp of a, b", "no vjp reads it: it need not be saved", ...;
// and who holds the same memory. `holders` as above.
std::string reason_of(const Node& node, const SavedTensor& saved, const std::vector<int>& holders);

}  // namespace gradus::audit
