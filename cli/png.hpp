// Grey images as PNG (ISO 15948) by zlib, and bytes as base64 (RFC 4648), for pages that stand
// alone.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gradus::cli {

// rows x cols pixels, row-major, 0 black to 255 white. REQUIRES pixels.size() == rows * cols > 0.
std::string grey_png(std::span<const uint8_t> pixels, uint32_t rows, uint32_t cols);
std::string base64(std::string_view bytes);

}  // namespace gradus::cli
