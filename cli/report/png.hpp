// Images as PNG (ISO 15948) by zlib, and bytes as base64 (RFC 4648), for pages that stand
// alone.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace gradus::inline v1::cli {

// rows x cols pixels, row-major, of 1 (0 black to 255 white) or 3 colours side by side.
// REQUIRES pixels.size() == rows * cols * colours > 0.
std::string png_bytes(std::span<const uint8_t> pixels, uint32_t rows, uint32_t cols,
                      uint32_t colours = 1);
std::string base64(std::string_view bytes);

}  // namespace gradus::cli
