// A node in words: formula and derivative, what broadcasting does to its cotangents, and the chain
// rule at one element of its output, with the numbers that it had.
#pragma once
#include "ops/audit/step/stepper.hpp"
#include "ops/audit/watch/watch.hpp"

namespace gradus::inline v1::audit {

// One element of a node's output, and what its cotangent alone gives the operands.
struct ElementStory {
  int output = 0;
  Shape element;  // where the cotangent is largest
  double value = 0, cotangent = 0;
  struct Operand {
    int operand;
    int64_t reached = 0;          // elements of the operand whose gradient it changes
    Shape element;                // the one that it changes most
    double value = 0, slope = 0;  // its value; the output's slope in it
    double share = 0;             // what is added to its gradient: cotangent * slope
  };
  std::vector<Operand> operands;
};

struct NodeStory {
  std::string call;                      // "%7:f32[64,10] = add(%6, layers.2.bias)"
  std::string where;                     // the Traces it was recorded in
  std::string formula;                   // "y = a + b"
  std::vector<std::string> derivatives;  // "dy/da = 1"
  std::vector<std::string> broadcasts;   // "b (10,) stretches along axis 0 ..."
  std::string remark;                    // of linear algebra: the nearest gap, or a condition
  std::optional<ElementStory> example;   // none: real numbers only, and no cotangent came
};
// `watch` saw the forward pass. The walk of the stepper must have come past the node. Of complex
// numbers there is no example. Nothing is accumulated.
NodeStory explain_node(const Stepper& stepper, int node, const Watch& watch);

}  // namespace gradus::audit
