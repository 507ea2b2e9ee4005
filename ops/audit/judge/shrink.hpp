// The smallest part of a recorded step that still shows a failure. Nodes are left out as in delta
// debugging (Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002):
// what a kept node takes from one that is left out becomes a leaf with the value that it had, and
// where nothing that is kept reads an output, backward begins there with the cotangent that it had.
#pragma once
#include "ops/audit/step/trace.hpp"

#include <functional>

namespace gradus::inline v1::audit {

struct Fails {
  std::function<bool(const RecordedStep&)> shows;
  std::string otherwise;  // what is so where it does not show: "no root has a NaN"
};

// The failure to keep: "nan" or "inf" (in a root or gradient, though no leaf, constant or seed has
// one that the whole step has not), "mismatch" (the audit finds a wrong derivative) or
// "differs:DEVICE" (a node gives other values or cotangents there, from the same operands, than
// rounding explains; other last bits are none). Error(config) for other words.
Fails failure_named(const std::string& name, const RecordedStep& whole, Device& device);

struct Shrunk {
  RecordedStep step;  // as it ran here
  int runs = 0;       // steps that were tried
};
// Error(numeric) if `step` itself does not fail. `stop`, if given, is asked before each run; then
// the smallest step so far is returned.
Shrunk shrink(const RecordedStep& step, const Fails& fails, Device& device,
              const std::function<bool()>& stop = {});

// These nodes alone, in order; values and cotangents are those of `step`.
RecordedStep part_of(const RecordedStep& step, const std::vector<int>& nodes);

}  // namespace gradus::audit
