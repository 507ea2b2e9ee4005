// An op on a few numbers: what goes in, what comes out, what a cotangent becomes, and the same call
// as it is typed in a shell and in a script. All of it is computed when it is asked for.
#pragma once
#include "engine/files/safetensors.hpp"
#include "engine/op_info.hpp"
#include "ops/check/rows.hpp"

#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::cli {

struct OpExample {
  NamedTensors inputs, outputs;        // by the names of the operands; "y", or "y0", "y1", ...
  NamedTensors cotangents, gradients;  // "g" and "dx"; none where the op has no derivative
  rows::NamedAttrs attrs;              // those that are not the default
  std::string shell, lua;              // lua is "" where a script can't say it: complex numbers
};
// Operands of the op's test row, small and with three digits, for which nothing comes out that is
// not finite, if there are such. Throws what the op throws.
OpExample example_of(const OpInfo& op, Device& device);

// "(2, 3) dim=1 -> (2)": the shapes of cases of the op's row, at most `most` different ones.
std::vector<std::string> shapes_of(const OpInfo& op, size_t most, Device& device);

}  // namespace gradus::cli
