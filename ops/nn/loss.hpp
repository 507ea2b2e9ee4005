// Losses by name, for networks that tell classes apart or numbers: what outputs cost against a
// class, or against the numbers.
#pragma once
#include "engine/graph.hpp"

#include <string>
#include <vector>

namespace gradus::inline v1::nn {

// cross_entropy takes logits and nll logarithms of probabilities, for each sample or for each token
// of a sequence; multi_margin wants the output of the class to be larger than the others by 1 (the
// hinge loss for classes). The rest compare the outputs of a sample with 1 for its class and 0
// elsewhere, and take the mean over all. Names are PyTorch's functions without "_loss".
struct Loss {
  enum class Kind {
    cross_entropy,
    nll,
    mse,
    l1,
    smooth_l1,
    huber,
    binary_cross_entropy_with_logits,
    multi_margin
  };
  Kind kind = Kind::cross_entropy;
  double label_smoothing = 0;  // cross_entropy
  double beta = 1;             // smooth_l1: where the parabola ends
  double delta = 1;            // huber: the same
};
// The names of the kinds, in their order.
const std::vector<std::string>& loss_names();
// Error(value) for a name that is none of them.
Loss::Kind loss_named(const std::string& name);

// A label that does not count, PyTorch's default of ignore_index.
inline constexpr int64_t kIgnored = -100;

// Mean over what counts: outputs (n, classes) with labels (n,) i64, or (n, length, classes) with
// (n, length); or outputs with as many floating numbers, for the losses that compares_numbers().
Tensor loss_of(const Loss& loss, const Tensor& outputs, const Tensor& targets);
bool compares_numbers(Loss::Kind kind);  // mse, l1, smooth_l1, huber
bool takes_sequences(Loss::Kind kind);   // cross_entropy, nll
// (n, classes) of 0 and 1, in a floating dtype.
Tensor one_hot(const Tensor& labels, int64_t classes, DType dtype);
// How many rows have their largest output at their label, as an i64 number on the device.
Tensor correct(const Tensor& outputs, const Tensor& labels);

}  // namespace gradus::nn
