// `gradus op NAME`: runs any op of the list on .npy files or on numbers as they are typed, with its
// gradients and tangents. Reads OpInfo and knows no op by name.
#pragma once
#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct OpOptions {
  std::string name;
  std::vector<std::string> inputs;      // files, or literals: see literal.hpp
  std::vector<std::string> attrs;       // "key=value"
  std::vector<std::string> outputs;     // one file per output; none: print the values
  std::vector<std::string> cotangents;  // one file or literal per floating output
  std::vector<std::string> grads;       // one file per floating operand, "-" for none; or print
  std::vector<std::string> tangents;    // one file per floating operand, "-" for zero
  std::vector<std::string> jvps;        // one file per floating output; none: print
  bool jacobian = false, hessian = false;
  std::vector<std::string> jacobians;  // one file per floating output and operand; none: print
  std::vector<std::string> hessians;   // one file; none: print
  std::vector<std::string> vectors;    // of --hvp: one file per floating operand, "-" for zero
  std::vector<std::string> hvps;       // one file per floating operand; none: print
  std::string in_dims;                 // vmap: "0,none", one per operand; "": no vmap
  std::string device;
  std::string dtype;    // real and complex operands are cast to it
  int64_t seed = 0;     // of random ops
  bool ledger = false;  // print what every op cost
  bool json = false;
};

// The exit code. Throws Error.
int run_op(const OpOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
