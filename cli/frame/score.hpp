// How well a network does on a test set, in words and JSON.
#pragma once
#include "ops/train/score.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace gradus::inline v1::cli {

using training::Score;
std::string percent(double share);    // 0.9731 -> "97.31 %"
std::string text_of(const Score& s);  // "accuracy 97.31 %", "error 0.21 (rmse), R2 0.9312"
void add_to(nlohmann::ordered_json& event, const Score& s);  // "loss", and what belongs to it
Score score_from(const nlohmann::json& event);               // the inverse

}  // namespace gradus::cli
