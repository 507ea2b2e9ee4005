#include "ops/train/data/image.hpp"

#include "engine/base/error.hpp"
#include "engine/files/file.hpp"

#ifdef GRADUS_PNG
#include <png.h>
#endif

namespace gradus::inline v1::training {

Image in_colour(const Image& image) {
  if (image.colours == 3) return image;
  Image out{3, image.rows, image.cols, {}};
  for (int plane = 0; plane < 3; ++plane)
    out.pixels.insert(out.pixels.end(), image.pixels.begin(), image.pixels.end());
  return out;
}

#ifdef GRADUS_PNG
namespace {

constexpr uint64_t kMostBytes = uint64_t(1) << 28, kMostPixels = uint64_t(1) << 26;

// libpng's reader, which frees what it holds.
struct PngReader {
  png_image image{};
  PngReader() { image.version = PNG_IMAGE_VERSION; }
  ~PngReader() { png_image_free(&image); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;
};

}  // namespace

Image read_png(const std::string& path, int64_t colours) {
  const std::string bytes = read_file(path, kMostBytes, [&](std::string_view head, uint64_t) {
    if (head.substr(0, 8) != "\x89PNG\r\n\x1a\n")
      fail(ErrorKind::io, path, "is no PNG",
           head.substr(0, 2) == "\xff\xd8" ? ": it is a JPEG; convert it first" : "");
  });
  PngReader reader;
  png_image& image = reader.image;
  if (!png_image_begin_read_from_memory(&image, bytes.data(), bytes.size()))
    fail(ErrorKind::io, path, "is a damaged PNG: ", image.message);
  if (uint64_t(image.width) * image.height > kMostPixels)
    fail(ErrorKind::io, path, "has ", image.height, " x ", image.width, " pixels, at most ",
         kMostPixels, " are read");
  if (colours == 0) colours = image.format & PNG_FORMAT_FLAG_COLOR ? 3 : 1;
  image.flags |= PNG_IMAGE_FLAG_16BIT_sRGB;  // what names no gamma is as 8 bits are, also in 16
  image.format = colours == 3 ? PNG_FORMAT_RGB : PNG_FORMAT_GRAY;
  Image out{colours, image.height, image.width, {}};
  Pixels mixed(PNG_IMAGE_SIZE(image));
  const png_color black{0, 0, 0};
  if (!png_image_finish_read(&image, &black, mixed.data(), 0, nullptr))
    fail(ErrorKind::io, path, "is a damaged PNG: ", image.message);
  if (colours == 1) {
    out.pixels = std::move(mixed);
    return out;
  }
  const size_t plane = size_t(out.rows * out.cols);
  out.pixels.resize(3 * plane);
  for (size_t i = 0; i < mixed.size(); ++i) out.pixels[i % 3 * plane + i / 3] = mixed[i];
  return out;
}

#else
Image read_png(const std::string& path, int64_t) {
  fail(ErrorKind::config, path,
       "this gradus was built without libpng and reads no PNG; install libpng-dev and build it "
       "again, or save the images as an array: \"npy\": [X.npy, Y.npy]");
}
#endif

}  // namespace gradus::training
