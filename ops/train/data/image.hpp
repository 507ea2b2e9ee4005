// PNG images, read by libpng where gradus was built with it: 8 bits a colour, grey or red, green
// and blue in planes. Whatever else a file holds (palettes, 16 bits, a transparent part, over
// black) is converted.
#pragma once
#include "ops/train/data/dataset.hpp"

#include <string>

namespace gradus::inline v1::training {

struct Image {
  int64_t colours = 1, rows = 0, cols = 0;
  Pixels pixels{};  // colours x rows x cols
};
// `colours`: 1 or 3, or 0 for what the file has. Error(io) for a file that is no PNG or is damaged.
Image read_png(const std::string& path, int64_t colours = 0);
// The same image in planes of red, green and blue.
Image in_colour(const Image& image);

}  // namespace gradus::training
