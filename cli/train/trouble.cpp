// The rules. They are wide, so that a run that learns is never accused: a first epoch may begin
// with a high loss, a test loss may rise while accuracy does, and rare classes may be learnt late.
#include "cli/train/trouble.hpp"

#include "cli/frame/progress.hpp"
#include "engine/base/error.hpp"

#include <algorithm>
#include <cmath>

namespace gradus::inline v1::cli {

namespace {

constexpr double kFar = 3;          // times where it began, with an accuracy that says the same
constexpr double kLost = 100;       // times where it began, whatever the accuracy
constexpr double kLearnt = 0.25;    // of the way from guessing to all right
constexpr double kNoBetter = 0.95;  // of the loss of guessing
constexpr int64_t kEnough = 100;    // steps after which something should have been learnt

// How often each class occurs among labels that count, as shares.
std::vector<double> shares(const Samples& set, int64_t classes, double& counted) {
  std::vector<double> n(static_cast<size_t>(classes), 0.0);
  counted = 0;
  for (const int32_t label : set.labels())
    if (label >= 0 && label < classes) {
      ++n[size_t(label)];
      ++counted;
    }
  for (double& share : n) share /= std::max(counted, 1.0);
  return n;
}

}  // namespace

Guessing guessing(const Dataset& data, const nn::Loss& loss) {
  Guessing out;
  if (!data.classifies()) {  // the mean of targets that were scaled to mean 0 and variance 1
    if (loss.kind == nn::Loss::Kind::mse && !data.target_scaling.none()) out.loss = 1;
    return out;
  }
  double counted = 0;
  const std::vector<double> test = shares(data.test, data.classes, counted);
  if (!test.empty()) out.accuracy = *std::max_element(test.begin(), test.end());
  out.margin = 3 * std::sqrt(out.accuracy * (1 - out.accuracy) / std::max(counted, 1.0));
  if (loss.kind != nn::Loss::Kind::cross_entropy && loss.kind != nn::Loss::Kind::nll) return out;
  for (const double share : shares(data.train, data.classes, counted))
    if (share > 0) out.loss -= share * std::log(share);
  return out;
}

std::optional<Trouble> trouble(const Standing& now, const Guessing& guess) {
  const std::string lr = join("optimizer.lr (it is ", short_number(now.lr), ")");
  const bool known = !std::isnan(now.first_loss);
  const double began = known ? std::max(now.first_loss, guess.loss) : guess.loss;
  // R2 is NaN where all targets are one number, and says nothing then.
  const Score& score = now.score;
  const bool knows = score.of_numbers
                         ? !(score.r2 <= kLearnt)
                         : score.accuracy > guess.accuracy + kLearnt * (1 - guess.accuracy);
  const bool guesses =
      score.of_numbers ? score.r2 <= 0 : score.accuracy <= guess.accuracy + guess.margin;
  if (began > 0 && now.train_loss > (knows ? kLost : kFar) * began)
    return Trouble{
        "diverged",
        join("epoch ", now.epoch, ": training diverges: the loss is ", loss_text(now.train_loss),
             known ? join(", it began at ", loss_text(now.first_loss)) : std::string(),
             "; a smaller ", lr, now.clips ? " or clip_norm" : " or a clip_norm", " may help")};
  const double least = known && guess.loss > 0 ? std::min(guess.loss, now.first_loss)
                       : known                 ? now.first_loss
                                               : guess.loss;
  if (now.last && now.steps >= kEnough && guesses && now.train_loss >= kNoBetter * least)
    return Trouble{
        "chance",
        join("after ", now.steps, " steps nothing is learnt: ",
             score.of_numbers ? "always saying the mean has no larger error"
                              : join(percent(score.accuracy), " is right, and always saying one ",
                                     "class gives ", percent(guess.accuracy)),
             "; another ", lr, ", optimizer or seed, or more epochs may help")};
  return std::nullopt;
}

}  // namespace gradus::cli
