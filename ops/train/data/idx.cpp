// Reading and checking IDX files.
#include "ops/train/data/idx.hpp"

#include "engine/base/error.hpp"
#include "engine/files/file.hpp"

#include <cstring>
#include <sys/stat.h>

namespace gradus::inline v1::training {
namespace {

// Twice the largest set of the family (EMNIST ByClass, 547 MB of images).
constexpr uint64_t kMaxBytes = uint64_t(1) << 30;

uint32_t big_endian(std::string_view bytes, size_t at) {
  uint32_t n = 0;
  for (size_t i = 0; i < 4; ++i) n = n << 8 | uint8_t(bytes[at + i]);
  return n;
}

std::string hex(uint32_t n) {
  constexpr char digits[] = "0123456789abcdef";
  std::string s = "0x";
  for (int shift = 28; shift >= 0; shift -= 4) s += digits[n >> shift & 15];
  return s;
}

const char* dtype_word(int code) {
  switch (code) {
    case 0x08:
      return "unsigned byte";
    case 0x09:
      return "signed byte";
    case 0x0b:
      return "short";
    case 0x0c:
      return "int";
    case 0x0d:
      return "float";
    case 0x0e:
      return "double";
    default:
      return "unknown";
  }
}

// What a file that is no IDX looks like, if we can tell.
const char* guess(std::string_view bytes) {
  const size_t start = bytes.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && bytes[start] == '<')
    return "; it looks like a web page: the download went wrong";
  if (bytes.substr(0, 2) == "PK") return "; it looks like a zip file: unpack it";
  return "";
}

void check_magic(std::string_view bytes, const std::string& name, size_t rank) {
  const uint32_t magic = big_endian(bytes, 0), expected = 0x0800u + uint32_t(rank);
  if (magic == expected) return;
  if (magic >> 16 != 0)
    fail(ErrorKind::io, name, "magic: expected ", hex(expected), ", got ", hex(magic),
         guess(bytes));
  const int dtype = int(magic >> 8 & 255), axes = int(magic & 255);
  if (dtype != 8)
    fail(ErrorKind::io, name, "dtype: expected 8 (unsigned byte), got ", dtype, " (",
         dtype_word(dtype), ")");
  fail(ErrorKind::io, name, "rank: expected ", rank, " axes, got ", axes,
       rank == 3 && axes == 1   ? "; is this the file of labels?"
       : rank == 1 && axes == 3 ? "; is this the file of images?"
                                : "");
}

bool exists(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}

std::string find_file(const std::string& folder, const std::string& stem, const char* kind,
                      const std::string& remedy) {
  std::string looked_for;
  for (const char* joint : {"-", "."})
    for (const char* end : {"", ".gz"}) {
      const std::string file = stem + joint + kind + end;
      if (exists(path_in(folder, file))) return path_in(folder, file);
      looked_for += (looked_for.empty() ? "" : ", ") + file;
    }
  fail(ErrorKind::io, folder,
       exists(folder) ? "none of these files is here: " : "no such folder; looked there for ",
       looked_for, remedy);
}

Samples load_part(const std::string& folder, const std::string& part, Dataset& data,
                  const std::string& remedy) {
  const std::string image_file = find_file(folder, part + "-images", "idx3-ubyte", remedy);
  const std::string label_file = find_file(folder, part + "-labels", "idx1-ubyte", remedy);
  const Idx images = read_idx(image_file, 3), labels = read_idx(label_file, 1);
  if (images.sizes[1] == 0 || images.sizes[2] == 0)
    fail(ErrorKind::io, image_file, "images are ", images.sizes[1], " x ", images.sizes[2],
         ", expected at least one pixel");
  if (labels.sizes[0] != images.sizes[0])
    fail(ErrorKind::io, label_file, "count: expected ", images.sizes[0],
         " labels, one for each image of ", image_file, ", got ", labels.sizes[0]);
  if (data.sizes.empty()) data.sizes = {images.sizes[1], images.sizes[2]};
  if (data.rows() != images.sizes[1] || data.cols() != images.sizes[2])
    fail(ErrorKind::io, image_file, "image size: expected ", data.rows(), " x ", data.cols(),
         " as in the training set, got ", images.sizes[1], " x ", images.sizes[2]);
  Samples out;
  out.count = images.sizes[0];
  out.inputs.emplace<Pixels>(images.bytes.begin(), images.bytes.end());
  ClassLabels& told = out.targets.emplace<ClassLabels>();
  told.reserve(size_t(out.count));
  for (const char byte : labels.bytes) {
    told.push_back(uint8_t(byte));
    data.classes = std::max<int64_t>(data.classes, told.back() + 1);
  }
  return out;
}

}  // namespace

namespace {

// The sizes that the header of a file says, which has `size` bytes (UINT64_MAX: not known) and
// begins with `bytes`.
std::vector<int64_t> sizes_of(std::string_view bytes, uint64_t size, const std::string& name,
                              size_t rank) {
  const size_t start = 4 + 4 * rank;
  if (bytes.size() >= 4) check_magic(bytes, name, rank);
  if (bytes.size() < start)
    fail(ErrorKind::io, name, "header: expected ", start, " bytes, got ", bytes.size(),
         guess(bytes));
  std::vector<int64_t> sizes;
  uint64_t expected = 1;
  for (size_t i = 0; i < rank; ++i) {
    sizes.push_back(int64_t(big_endian(bytes, 4 + 4 * i)));
    if (__builtin_mul_overflow(expected, uint64_t(sizes[i]), &expected)) expected = UINT64_MAX;
  }
  std::string shape;
  for (const int64_t n : sizes) shape += join(shape.empty() ? "" : " x ", n);
  if (size < UINT64_MAX && size - start != expected)
    fail(ErrorKind::io, name, size - start < expected ? "truncated" : "too long",
         ": its header says ", shape, " = ",
         expected == UINT64_MAX ? "more than 2^64" : std::to_string(expected),
         " bytes of data, got ", size - start);
  return sizes;
}

}  // namespace

Idx parse_idx(std::string bytes, const std::string& name, size_t rank) {
  Idx out;
  out.sizes = sizes_of(bytes, bytes.size(), name, rank);
  bytes.erase(0, 4 + 4 * rank);
  out.bytes = std::move(bytes);
  return out;
}

Idx read_idx(const std::string& path, size_t rank) {
  const auto look = [&](std::string_view head, uint64_t size) { sizes_of(head, size, path, rank); };
  return parse_idx(read_gz(path, kMaxBytes, look), path, rank);
}

Dataset load_idx(const std::string& folder, const std::string& remedy) {
  Dataset data;
  data.name = folder;
  data.train = load_part(folder, "train", data, remedy);
  data.test = load_part(folder, "t10k", data, remedy);
  return data;
}

}  // namespace gradus::training
