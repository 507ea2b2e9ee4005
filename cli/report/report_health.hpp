// The part of a report that shows gradients and activations over the steps of a run.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

// HTML of the events "health" of metrics.jsonl (health.hpp), in their order; "" if there are none.
// Throws nlohmann::json::exception for what is no such event.
std::string health_section(const std::vector<nlohmann::json>& events);

}  // namespace gradus::cli
