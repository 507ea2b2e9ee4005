// `gradus devices`: every device kind that is registered or could be, what it is, or why it is
// missing.
#pragma once
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <vector>

namespace gradus::inline v1::cli {

struct DevicesOptions {
  bool json = false;
};

// One object per device, as --json prints it, or one that says why the kind has none.
std::vector<nlohmann::json> survey_devices();

int run_devices(const DevicesOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
