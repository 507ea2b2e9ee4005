#include "cli/frame/score.hpp"

#include "cli/frame/progress.hpp"
#include "engine/base/error.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::cli {

std::string percent(double share) {
  char text[40];
  snprintf(text, sizeof text, "%.2f %%", 100 * share);
  return text;
}

std::string text_of(const Score& s) {
  if (!s.of_numbers) return "accuracy " + percent(s.accuracy);
  char r2[40];
  snprintf(r2, sizeof r2, "%.4f", s.r2);
  return join("error ", short_number(s.rmse), " (rmse)", std::isfinite(s.r2) ? ", R2 " : "",
              std::isfinite(s.r2) ? r2 : "");
}

void add_to(nlohmann::ordered_json& event, const Score& s) {
  event["loss"] = s.loss;
  if (!s.of_numbers) {
    event["accuracy"] = s.accuracy;
    return;
  }
  event["rmse"] = s.rmse;
  if (std::isfinite(s.r2)) event["r2"] = s.r2;
}

Score score_from(const nlohmann::json& event) {
  Score s;
  s.of_numbers = event.contains("rmse");
  const auto number = [&](const char* key) {
    const auto at = event.find(key);
    return at != event.end() && at->is_number() ? at->get<double>() : std::nan("");
  };
  s.loss = number("loss");
  s.accuracy = number("accuracy");
  s.rmse = number("rmse");
  s.r2 = number("r2");
  return s;
}

}  // namespace gradus::cli
