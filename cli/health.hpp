// The health of a step (ops/audit/health.hpp) as JSON, as a table, as lines of signs.
#pragma once
#include "ops/audit/health.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gradus::cli {

// {"event": "health", "gradient_norm": ..., "parameters": [{"name", "value_norm", "norm", "rms",
// "max", "mean", "zeros", "moved", "sign"}], "activations": [{"node", "op", "where", "zero",
// "flat", "units", "dead", "sign"}]}. zeros, zero and flat are shares, units and dead are numbers
// of units; null: not known. No sign is "".
nlohmann::ordered_json health_event(const audit::Health& health);
std::string health_table(const audit::Health& health);

// "layers.2.weight: vanishing (rms 1.2e-09, largest 3e-02)". `what` alone is the same for as long
// as the sign is.
struct Sign {
  std::string what;     // "layers.2.weight: vanishing"
  std::string numbers;  // "rms 1.2e-09, largest 3e-02"
};
std::vector<Sign> signs_of(const audit::Health& health);

}  // namespace gradus::cli
