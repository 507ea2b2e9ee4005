// What the ops give, written down for another program to compute again:
// tests/peers/compare_torch.py reads it. Every op runs over the cases of its row and over random
// ones derived from them (other extents, attributes, broadcasts, layouts), over all dtypes, numbers
// and 0-d tensors, and at the points where conventions differ: kinks, ties, infinities, NaN. Knows
// no op by name.
#pragma once
#include "engine/files/safetensors.hpp"

#include <cstdint>
#include <string>

namespace gradus::inline v1::rows {

struct RecordOptions {
  std::string op;     // "" for all
  uint64_t seed = 1;  // of the random cases
  int cases = 8;      // random ones for each op
};

// Metadata "ops" and "cases" are JSON texts. A case:
//   op, kind     "row", "random", "refused", "dtypes", "special" or "ties"; "given" by a file
//   attrs        all of the op's; a dtype is {"dtype": "f32"}, a number JSON lacks {"number":
//   "inf"} in           a tensor's name, or a number as it was given out          tensors; or
//   "refused": the message
// and where derivatives were taken, one entry per operand (in) or output (out), null for zero:
//   w, grads     cotangents (out), and what they give (in)
//   u, second    of <u, grads> by the operands (in), second_w: by w (out)
//   v, jvp       tangents (in), and what they give (out)
//   failed       the message of an op whose derivative failed
// A c128 tensor is stored as f64 with a last axis of 2, under a name that ends in ".c128".
struct Recording {
  NamedTensors tensors;
  Metadata metadata;
};
Recording record(const RecordOptions& options, Device& device);

// The calls of a .safetensors file, in its order, those that are refused too. Metadata "calls" is
// a JSON list; of each call:
//   op, attrs    by name; those left out have their defaults
//   in           numbers, or {"tensor": name, "size", "stride", "offset": a view of its memory,
//                "constant": true where no derivative by it is asked for}
//   slopes, higher   whether first derivatives are taken, and with them second order and jvp
Recording record_calls(const std::string& file, Device& device);

}  // namespace gradus::rows
