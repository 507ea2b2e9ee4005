// What a data set of small grey images is to the program: plain host memory, one byte a pixel.
// Knows neither tensors nor where the images came from.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace gradus::cli {

struct ImageSet {
  int64_t count = 0;
  std::vector<uint8_t> images;  // count x rows x cols, row-major, 0 black to 255 white
  std::vector<int32_t> labels;  // count numbers in [0, classes)
};

struct Dataset {
  std::string name;
  int64_t rows = 0, cols = 0, classes = 0;
  ImageSet train, test;
};

}  // namespace gradus::cli
