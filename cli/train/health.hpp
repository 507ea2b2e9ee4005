// The health of a step (ops/audit/judge/health.hpp) as JSON, as a table, as lines of signs.
#pragma once
#include "ops/audit/judge/health.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

// {"event": "health", "gradient_norm": ..., "parameters": [{"name", "value_norm", "norm", "rms",
// "max", "mean", "zeros", "moved", "sign"}], "activations": [{"node", "op", "where", "zero",
// "flat", "units", "dead", "sign"}]}. zeros, zero and flat are shares, units and dead are numbers
// of units; null: not known, or not finite. No sign is "".
nlohmann::ordered_json health_event(const audit::Health& health);
std::string health_table(const audit::Health& health);

// What is wrong, and the numbers that show it. `what` alone stays the same as long as the sign
// does.
struct Sign {
  std::string what;     // "layers.2.weight: vanishing"
  std::string numbers;  // "rms of the gradient 1.2e-09, the largest is 3.0e-02"; "" for none
};
std::vector<Sign> signs_of(const audit::Health& health);

}  // namespace gradus::cli
