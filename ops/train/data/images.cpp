// A folder of images by class.
#include "ops/train/data/image.hpp"
#include "ops/train/data/own.hpp"
#include "engine/base/error.hpp"
#include "engine/files/file.hpp"
#include "engine/base/text.hpp"

#include <algorithm>
#include <filesystem>
#include <memory>

namespace gradus::inline v1::training {

namespace fs = std::filesystem;

namespace {

struct Found {
  std::string file, name;  // its path, and that within the folder
  std::string label;
};

// Names in a folder, sorted, without hidden ones.
std::vector<std::string> sorted_names(const std::string& folder, bool folders) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (const std::string name = it->path().filename(); !name.starts_with("."))
      if (std::error_code unknown; it->is_directory(unknown) == folders && !unknown)
        out.push_back(name);
  if (error) fail(ErrorKind::io, folder, "cannot list the folder: ", error.message());
  std::sort(out.begin(), out.end());
  return out;
}

bool is_png(const std::string& name) {
  return name.size() > 4 && (name.ends_with(".png") || name.ends_with(".PNG"));
}

bool is_other_image(const std::string& name) {
  for (const char* ending : {".jpg", ".jpeg", ".JPG", ".bmp", ".gif", ".tif", ".tiff", ".webp"})
    if (name.ends_with(ending)) return true;
  return false;
}

std::vector<Found> find_images(const std::string& folder) {
  const std::vector<std::string> classes = sorted_names(folder, true);
  if (classes.empty())
    fail(ErrorKind::io, folder,
         "holds no folder; expected one for each class, with its .png files, such as ",
         path_in(folder, "cats/1.png"));
  std::vector<Found> out;
  for (const std::string& label : classes) {
    const std::string inside = path_in(folder, label);
    const std::vector<std::string> names = sorted_names(inside, false);
    const size_t before = out.size();
    for (const std::string& name : names)
      if (is_other_image(name))
        fail(ErrorKind::io, path_in(inside, name), "is no .png; convert it first, or take it away");
      else if (is_png(name))
        out.push_back({path_in(inside, name), label + "/" + name, label});
    if (out.size() == before)
      fail(ErrorKind::io, inside, "holds no .png file",
           names.empty() ? "" : ", only others, such as " + names[0]);
  }
  return out;
}

std::string size_text(const Image& image) { return join(image.rows, " x ", image.cols); }

}  // namespace

Raw read_images(const std::string& folder, const Form* like) {
  const auto found = std::make_shared<std::vector<Found>>(find_images(folder));
  const int64_t wanted = !like ? 0 : like->sizes.size() == 3 ? 3 : 1;
  std::vector<Image> images;
  bool colour = wanted == 3;
  for (const Found& f : *found) {
    images.push_back(read_png(f.file, wanted));
    colour = colour || images.back().colours == 3;
    const Image &first = images.front(), &last = images.back();
    if (last.rows != first.rows || last.cols != first.cols)
      fail(ErrorKind::io, f.file, "is ", size_text(last), " pixels, ", found->front().name, " is ",
           size_text(first), "; images of a set have one size");
  }
  Raw raw;
  raw.name = folder;
  raw.count = int64_t(images.size());
  raw.sizes = {images[0].rows, images[0].cols};
  if (colour) raw.sizes.insert(raw.sizes.begin(), 3);
  auto& pixels = raw.inputs.emplace<Pixels>();
  auto& labels = raw.targets.emplace<std::vector<std::string>>();
  for (size_t i = 0; i < images.size(); ++i) {
    if (colour) images[i] = in_colour(images[i]);
    pixels.insert(pixels.end(), images[i].pixels.begin(), images[i].pixels.end());
    images[i].pixels = {};
    labels.push_back(printable((*found)[i].label, ""));
  }
  raw.place = [found](int64_t i) { return (*found)[size_t(i)].name; };
  return raw;
}

Raw raw_of_image(const std::string& file, const Form& like) {
  if (like.kind != InputKind::pixels)
    fail(ErrorKind::io, file, "is an image, but the network takes ",
         like.kind == InputKind::tokens ? "tokens" : "numbers");
  const auto& s = like.sizes;
  const bool planes = s.size() == 3 && s[0] == 3, mixed = s.size() == 3 && s[2] == 3 && !planes;
  const Image image = read_png(file, planes || mixed ? 3 : 1);
  Raw raw;
  raw.name = file;
  raw.count = 1;
  raw.place = [](int64_t) { return std::string("image"); };
  raw.sizes = {image.rows, image.cols};
  auto& pixels = raw.inputs.emplace<Pixels>(image.pixels);
  if (mixed) {
    const size_t plane = pixels.size() / 3;
    for (size_t k = 0; k < pixels.size(); ++k) pixels[k % plane * 3 + k / plane] = image.pixels[k];
    raw.sizes.push_back(3);
  } else if (planes) {
    raw.sizes.insert(raw.sizes.begin(), 3);
  }
  // A row of pixels, or one plane of grey, is the same image.
  if (image.colours == 1 && s.size() != 2 && int64_t(pixels.size()) == like.inputs_each())
    raw.sizes = s;
  return raw;
}

}  // namespace gradus::training
