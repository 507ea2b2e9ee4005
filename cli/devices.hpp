// `gradus devices`: every device kind that is registered or could be, what it is, or why it is
// missing.
#pragma once
#include <iosfwd>

namespace gradus::cli {

struct DevicesOptions {
  bool json = false;
};

int run_devices(const DevicesOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
