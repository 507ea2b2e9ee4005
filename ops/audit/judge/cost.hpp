// What each node of a step costs, forward and backward, and how near that comes to what the machine
// can do: the roofline (Williams, Waterman, Patterson 2009), with peaks that are measured.
#pragma once
#include "ops/audit/step/graph_view.hpp"

namespace gradus::inline v1::audit {

// Multiplies square matrices and copies memory on this device, with its threads; the fastest of
// several runs. Takes about 0.2 s, and 128 MiB or, on a GPU, several times that.
MachinePeaks measure_peaks(Device& device, DType dtype);

// One pass of one node, or of all nodes of an op.
struct PassCost {
  double flops = -1, bytes = -1, ns = -1;  // -1: not known
  double intensity() const;                // flops per byte; -1: not known
  // The least time that the peaks allow, as a part of the time it took; above 1 where operands lay
  // in a cache that is quicker than memory. -1: not known.
  double of_peak(const MachinePeaks& peaks) const;
  // What the peaks say limits it: "compute" or "memory"; "" if that is not known.
  const char* bound(const MachinePeaks& peaks) const;
};

struct CostLine {
  int node = -1;  // -1: all nodes of an op
  std::string op;
  int count = 1;
  PassCost forward, backward;
  double ns() const;  // of both
};
// By time, the slowest first; of equal ones the older.
std::vector<CostLine> cost_of_nodes(const GraphView& view);
std::vector<CostLine> cost_of_ops(const GraphView& view);

}  // namespace gradus::audit
