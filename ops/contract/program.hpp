// A contraction of many tensors as data: values, and steps that contract two of them into a third.
// An einsum in some order is such a program. Its derivatives are programs too, by one rule each,
// and so are theirs:
//   y += SUM a * b    has cotangents  ga += SUM gy * conj(b),  gb += SUM conj(a) * gy
//                     and tangent     ty += SUM ta * b + SUM a * tb.
// Since each product holds every label once, a label may be fixed outside and looped over.
#pragma once
#include "engine/base/error.hpp"

#include <vector>

namespace gradus::inline v1 {

struct ContractionProgram {
  using Axes = SmallVector<int, 6>;  // labels, which are numbers from 0

  struct Factor {
    int value = -1;  // -1: there is none
    bool conj = false;
  };
  // out += SUM over the labels that out lacks of a * b; without b, of a, which is repeated along
  // labels of out that it lacks. The first step into a value sets it.
  struct Step {
    Factor a, b;
    int out;
  };
  // A tensor given or made: the label of each axis. kNone: an axis of extent 1. A label that stands
  // twice: the diagonal, off which an output is 0.
  struct Port {
    int value;
    Axes axes;
  };
  static constexpr int kNone = -1;

  std::vector<int64_t> extents;  // by label, none is 1
  std::vector<Axes> values;      // labels of each, all different
  std::vector<Port> inputs, outputs;
  std::vector<Step> steps;  // a value is complete before it is read

  Shape sizes(const Port& port) const;
  double elements(int value) const;
};

using Chosen = std::vector<char>;  // by input or output

// The cotangents of the wanted inputs. Its inputs: those of `p`, then a cotangent for each given
// output of `p`. Cotangents of inputs that no given output depends on are 0.
ContractionProgram vjp_program(const ContractionProgram& p, const Chosen& wanted,
                               const Chosen& given);
// The tangent of output `out`. Its inputs: those of `p`, then a tangent for each given input.
ContractionProgram jvp_program(const ContractionProgram& p, int out, const Chosen& given);
// The program for `size` examples at once: the chosen inputs have one more axis, their first, and
// so have all outputs.
ContractionProgram mapped_program(ContractionProgram p, int64_t size, const Chosen& batched);

// Which values the steps that the outputs depend on read or make.
Chosen needed_values(const ContractionProgram& p);
// Without steps that no output depends on.
void prune(ContractionProgram& p);

}  // namespace gradus
