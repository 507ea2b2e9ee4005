#include "cli/report/png.hpp"

#include <zlib.h>

namespace gradus::inline v1::cli {

namespace {

std::string big_endian(uint32_t n) {
  return {char(n >> 24), char(n >> 16 & 255), char(n >> 8 & 255), char(n & 255)};
}

std::string chunk(const std::string& type_and_data) {
  const auto* const bytes = reinterpret_cast<const Bytef*>(type_and_data.data());
  const auto size = uInt(type_and_data.size());
  return big_endian(size - 4) + type_and_data + big_endian(uint32_t(crc32(0, bytes, size)));
}

}  // namespace

std::string png_bytes(std::span<const uint8_t> pixels, uint32_t rows, uint32_t cols,
                      uint32_t colours) {
  const size_t line = size_t(cols) * colours;
  std::string lines;  // each begins with its filter: none
  for (uint32_t r = 0; r < rows; ++r) {
    lines += '\0';
    lines.append(reinterpret_cast<const char*>(pixels.data()) + r * line, line);
  }
  uLongf size = compressBound(uLong(lines.size()));
  std::string packed(size, '\0');
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(lines.data()), uLong(lines.size()), 9);
  packed.resize(size);
  // 8 bits of grey or of red, green and blue; the only methods of compression and filtering that
  // there are; not interlaced
  const std::string form{8, colours == 1 ? '\0' : '\2', 0, 0, 0};
  return "\x89PNG\r\n\x1a\n" + chunk("IHDR" + big_endian(cols) + big_endian(rows) + form) +
         chunk("IDAT" + packed) + chunk("IEND");
}

std::string base64(std::string_view bytes) {
  constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k)
      out += i + k <= bytes.size() ? digits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace gradus::cli
