// How well a network does on a test set, in numbers, words and JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradus::cli {

// `loss` is what training makes small. Of classes there is the share of right answers; of numbers
// their error in their own units, and how much of their spread is foreseen (R^2, 1: all of it;
// NaN where they do not differ).
struct Score {
  double loss = 0, accuracy = 0;
  bool of_numbers = false;
  double rmse = 0, r2 = 0;
};
std::string percent(double share);    // 0.9731 -> "97.31 %"
std::string text_of(const Score& s);  // "accuracy 97.31 %", "error 0.21 (rmse), R2 0.9312"
void add_to(nlohmann::ordered_json& event, const Score& s);  // "loss", and what belongs to it
Score score_from(const nlohmann::json& event);               // the inverse

}  // namespace gradus::cli
