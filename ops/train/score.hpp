// How well a network does on a test set, in numbers.
#pragma once

namespace gradus::inline v1::training {

// `loss` is what training makes small. Of classes there is the share of right answers; of numbers
// their error in their own units, and how much of their spread is foreseen (R^2, 1: all of it;
// NaN where they do not differ).
struct Score {
  double loss = 0, accuracy = 0;
  bool of_numbers = false;
  double rmse = 0, r2 = 0;
};

}  // namespace gradus::training
