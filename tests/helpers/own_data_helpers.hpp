// Data as users have it: a table of flowers, a ZIP of arrays, folders of images; drawn from a seed.
#pragma once
#include "cli/report/png.hpp"
#include "engine/files/file.hpp"
#include "engine/files/npy.hpp"
#include "engine/abi/philox.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::test {

// Uniform in [-1, 1), the i-th of a seed.
inline double draw(uint64_t seed, uint64_t i) {
  return double(philox(seed, i, 0).w[0]) * 0x1p-31 - 1;
}

// 50 each of three kinds that differ in four measures; a header, and the kind last.
inline std::string flowers() {
  constexpr double kMeans[3][4] = {
      {5.0, 3.4, 1.5, 0.3}, {5.9, 2.8, 4.3, 1.3}, {6.6, 3.0, 5.6, 2.1}};
  constexpr const char* kNames[3] = {"setosa", "versicolor", "virginica"};
  std::string out = "sepal length,sepal width,petal length,petal width,species\n";
  for (uint64_t i = 0; i < 150; ++i) {
    for (uint64_t k = 0; k < 4; ++k) {
      char text[16];
      snprintf(text, sizeof text, "%.1f,", kMeans[i % 3][k] + 0.4 * draw(1, 4 * i + k));
      out += text;
    }
    out += std::string(kNames[i % 3]) + "\n";
  }
  return out;
}

// Little-endian, n bytes of it.
inline std::string le(uint64_t x, int n) {
  std::string out;
  for (int i = 0; i < n; ++i) out += char(x >> 8 * i & 255);
  return out;
}

// A ZIP with stored members (APPNOTE.TXT 4.3), as np.savez writes it.
inline std::string zip_of(const std::vector<std::pair<std::string, std::string>>& members) {
  std::string out, list;
  for (const auto& [name, bytes] : members) {
    const std::string common = le(20, 2) + le(0, 2) + le(0, 2) + le(0, 4) + le(crc32_of(bytes), 4) +
                               le(bytes.size(), 4) + le(bytes.size(), 4) + le(name.size(), 2) +
                               le(0, 2);
    list += "PK\1\2" + le(20, 2) + common + le(0, 2) + le(0, 2) + le(0, 2) + le(0, 4) +
            le(out.size(), 4) + name;
    out += "PK\3\4" + common + name + bytes;
  }
  const std::string n = le(members.size(), 2);
  return out + list + "PK\5\6" + le(0, 4) + n + n + le(list.size(), 4) + le(out.size(), 4) +
         le(0, 2);
}

// 6 x 6 pixels: a bar that lies, or stands, somewhere.
inline std::string bar_image(bool stands, uint64_t i, uint32_t colours = 1) {
  std::vector<uint8_t> pixels(36 * colours);
  const auto at = size_t((draw(7, 2 * i + stands) + 1) * 3);
  for (size_t p = 0; p < 36; ++p)
    for (size_t c = 0; c < colours; ++c)
      pixels[p * colours + c] =
          (stands ? p % 6 : p / 6) == at ? uint8_t(200 - 90 * c) : uint8_t(p % 5);
  return cli::png_bytes(pixels, 6, 6, colours);
}

// A folder of them: DIR/lies/00.png, DIR/stands/00.png and so on.
inline std::string bar_folder(const TempFolder& folder, const std::string& name, uint64_t each,
                              uint64_t from = 0, uint32_t colours = 1) {
  for (uint64_t i = 0; i < each; ++i)
    for (const bool stands : {false, true}) {
      char file[64];
      snprintf(file, sizeof file, "%s/%s/%02d.png", name.c_str(), stands ? "stands" : "lies",
               int(i));
      folder.write(file, bar_image(stands, from + i, colours));
    }
  return folder / name;
}

}  // namespace gradus::test
