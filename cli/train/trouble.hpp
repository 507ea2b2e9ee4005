// Runs that go wrong without a NaN: the loss is far above where it began, or the network still
// guesses when it is done. Knows numbers and words, and nothing of where they come from.
#pragma once
#include "ops/train/data/dataset.hpp"
#include "cli/frame/score.hpp"
#include "ops/nn/loss.hpp"

#include <optional>
#include <string>

namespace gradus::inline v1::cli {

using namespace training;

// What knows nothing of the inputs comes to.
struct Guessing {
  double accuracy = 0;  // of who always says the class that the test set has most
  double margin = 0;    // three standard errors of that
  double loss = 0;  // of who knows how frequent classes are; 0 if the loss is none of probabilities
};
Guessing guessing(const Dataset& data, const nn::Loss& loss);

// How a run stands after an epoch.
struct Standing {
  int64_t epoch = 0, steps = 0;
  bool last = false;      // no epoch follows
  double first_loss = 0;  // of the first step
  double train_loss = 0;  // mean of the epoch
  Score score;            // on the test set
  double lr = 0;          // of the last step
  bool clips = false;     // by clip_norm
};
struct Trouble {
  const char* kind;  // "diverged", "chance"
  std::string message;
};
std::optional<Trouble> trouble(const Standing& now, const Guessing& guess);

}  // namespace gradus::cli
