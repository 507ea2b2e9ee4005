// `gradus devices`: every device kind that is registered or could be, what it is, or why it is
// missing.
#pragma once
#include <iosfwd>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gradus::inline v1 {
class Device;
}

namespace gradus::inline v1::cli {

struct DevicesOptions {
  bool json = false;
};

// One object per device, as --json prints it, or one that says why the kind has none.
std::vector<nlohmann::json> survey_devices();

// For records of runs: what a CPU computes with beside its own kernels, ", NAME VERSION, FILE"
// each.
std::string libraries_of(Device& device);

int run_devices(const DevicesOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
