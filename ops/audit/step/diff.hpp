// Two recorded steps compared: which nodes were inserted, removed or changed, and where the numbers
// part, forward and backward. Nodes are matched by op, shapes and place, in order (a longest common
// subsequence). Knows no op by name.
#pragma once
#include "ops/audit/step/trace.hpp"

namespace gradus::inline v1::audit {

// Two tensors of one shape, element by element; of complex ones, part by part. Two NaNs are equal.
struct Numbers {
  int64_t count = 0, differing = 0;
  // The largest distance in units of the last place; -1: of two dtypes, or without bound (a NaN).
  double ulps = 0;
  // How many lie 2^k to 2^(k+1)-1 such units apart, by k; of those that are any.
  std::vector<int64_t> ulp_histogram{};
  double relative = 0;  // largest difference over largest magnitude; infinite with NaN or inf
  Shape element;        // the first that differs, and what is there
  double a = 0, b = 0;
  bool same() const { return differing == 0; }
  std::string text() const;  // "120 of 4096 elements, up to 2 ulp, relative 1.2e-07; (0, 3): 1 | 2"
};
// Error(shape) if the shapes differ.
Numbers compare(const Tensor& a, const Tensor& b);

struct NodeDifference {
  enum class Kind { same, inserted, removed, changed } kind = Kind::same;  // in structure
  int a = -1, b = -1;                                                      // places in the steps
  std::string what;                         // changed: attributes, operands, shapes, dtypes
  std::optional<Numbers> value, cotangent;  // if both were kept and have one shape
};
struct LeafDifference {
  std::string name;
  std::string what;  // only in a, only in b, shapes; "": in both
  std::optional<Numbers> value, gradient;
};
struct StepDifference {
  std::vector<NodeDifference> nodes;  // in the order of b; removed ones where they were
  std::vector<LeafDifference> leaves;
  std::string
      dtypes;  // what all dtypes of one kind became, "f32 -> f64"; that alone changes no node
  int structural = 0;  // nodes and leaves of which there is something to say
  // In nodes: where values part first, and cotangents in the order of backward; -1: nowhere.
  int first_value = -1, first_cotangent = -1;
  int values = 0, cotangents = 0, gradients = 0, operands = 0;  // how many differ
  bool same() const {
    return dtypes.empty() && structural == 0 && values == 0 && cotangents == 0 && gradients == 0 &&
           operands == 0;
  }
};
StepDifference diff(const RecordedStep& a, const RecordedStep& b);
// The first thing that differs, in the order in which it ran, in words; "" if there is none.
std::string first_difference(const RecordedStep& a, const StepDifference& difference);

// "%5 matmul(%4, layers.1.weight)  # layers[1]".
std::string node_text(const RecordedStep& step, size_t node);

// Writes a step that was recorded on this device, after it has been run again: Error(autograd)
// that names the node if the recording does not repeat, and no file.
void save_trace(const std::string& file, const audit::RecordedStep& step, Device& device);

}  // namespace gradus::audit
