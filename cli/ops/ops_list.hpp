// `gradus ops [NAME]`: what each op computes, its derivative, what it saves, its attributes, and
// which devices have kernels for it; of one op also its shapes, an example with numbers, and the
// errors of its check. What OpInfo does not say is seen by running the op on its test row, now.
#pragma once
#include <iosfwd>
#include <string>

namespace gradus::inline v1::cli {

struct OpsOptions {
  std::string name;    // "" for all
  std::string device;  // of the example and of the check
  bool json = false;
};

int run_ops(const OpsOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
