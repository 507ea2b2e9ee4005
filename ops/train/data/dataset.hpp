// What a data set is to the program: plain host memory. Its form says what a sample is, and is kept
// with a run; its samples are numbers one after the other. Knows neither tensors nor where the
// samples came from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace gradus::inline v1::training {

// A token that need not be told: PyTorch's default of ignore_index.
constexpr int32_t kNoLabel = -100;

using Pixels = std::vector<uint8_t>;                 // 0 black to 255 white; a network gets v / 255
using Reals = std::vector<float>;                    // as a network gets them: scaled
using Tokens = std::vector<int32_t>;                 // from 0
using Inputs = std::variant<Pixels, Reals, Tokens>;  // count x the sizes of a sample, row-major
using ClassLabels = std::vector<int32_t>;            // in [0, classes) or kNoLabel
using Targets = std::variant<ClassLabels, Reals>;    // count x the sizes of a sample's target

struct Samples {
  int64_t count = 0;
  Inputs inputs;
  Targets targets;

  const ClassLabels& labels() const { return std::get<ClassLabels>(targets); }
  const Pixels& pixels() const { return std::get<Pixels>(inputs); }
  int64_t counted() const;  // targets that count: labels but kNoLabel, or samples with numbers
  // Of all of it: the same samples in the same order have the same CRC-32.
  uint32_t crc32() const;
};

// What x was scaled by: a network gets (x - mean) / scale. Both empty: x as it is.
struct Scaling {
  std::vector<double> mean, scale;  // one for each number of a sample
  bool none() const { return mean.empty(); }
  float scaled(double x, size_t at) const {
    return none() ? float(x) : float((x - mean[at]) / scale[at]);
  }
  double back(double x, size_t at) const { return none() ? x : x * scale[at] + mean[at]; }
};

// The alternatives of Inputs, in their order.
enum class InputKind { pixels, numbers, tokens };

struct Form {
  std::string name;
  InputKind kind = InputKind::pixels;
  std::vector<int64_t> sizes;            // of a sample: {28, 28}, {3, 32, 32}, {4}, {20}
  std::vector<std::string> columns;      // what its numbers are called, or none
  Scaling scaling;                       // of its numbers
  std::string target;                    // what is told, or ""
  std::vector<int64_t> target_sizes;     // {}: one; of sequences one a token
  int64_t classes = 0;                   // 0: numbers are told
  std::vector<std::string> class_names;  // or none: they are called 0, 1, ...
  Scaling target_scaling;                // of numbers that are told

  bool classifies() const { return classes > 0; }
  bool sequences() const { return kind == InputKind::tokens; }
  int64_t rows() const { return sizes.size() > 1 ? sizes[sizes.size() - 2] : 1; }
  int64_t cols() const { return sizes.empty() ? 1 : sizes.back(); }
  int64_t inputs_each() const;
  int64_t targets_each() const;
  std::string class_name(int64_t c) const;
};

struct Dataset : Form {
  Samples train, test;
};

std::string sizes_text(const std::vector<int64_t>& sizes);  // "28 x 28"; "1" of none

}  // namespace gradus::training
