// What a data set is to the program: plain host memory, one byte a pixel or a token. Knows neither
// tensors nor where the samples came from.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace gradus::cli {

// A token that need not be told: PyTorch's default of ignore_index.
constexpr int32_t kNoLabel = -100;

struct Samples {
  int64_t count = 0;
  std::vector<uint8_t> inputs;  // count x rows x cols, row-major; pixels are 0 black to 255 white
  std::vector<int32_t>
      labels;  // in [0, classes) or kNoLabel; one a sample, of sequences one a token
};

// Grey images of rows x cols, or sequences of cols tokens (then rows is 1).
struct Dataset {
  std::string name;
  int64_t rows = 0, cols = 0, classes = 0;
  Samples train, test;
  bool sequences = false;

  int64_t inputs_each() const { return rows * cols; }
  int64_t labels_each() const { return sequences ? cols : 1; }
};

}  // namespace gradus::cli
