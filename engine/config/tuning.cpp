// Classes of contractions, ways by name, the file.
#include "engine/config/tuning.hpp"

#include "engine/abi/algebra.hpp"
#include "engine/abi/dtype.hpp"
#include "engine/base/error.hpp"
#include "engine/files/file.hpp"
#include "engine/config/options.hpp"

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gradus::inline v1 {

namespace {

constexpr const char* kFormat = "gradus.tuning/1";
constexpr char kLetters[] = "mnkb";
constexpr const char* kOperands[] = {"a", "b", "out"};
constexpr const char* kWays[GD_WAY_COUNT] = {
    "own",   "direct", "dots",         "thin",         "small",         "square",
    "large", "matrix", "matrix-large", "gemm-library", "tensor-library"};
constexpr int kMostParts = 20;  // log2

uint8_t log2_up(int64_t n) { return uint8_t(n <= 1 ? 0 : std::bit_width(uint64_t(n - 1))); }

// Element of a text list, or -1.
template <size_t N>
int find(const char* const (&names)[N], std::string_view name) {
  for (size_t i = 0; i < N; ++i)
    if (name == names[i]) return int(i);
  return -1;
}

}  // namespace

ContractionClass class_of(const gd_call& call) {
  using C = ContractionClass;
  const gd_view* views[] = {&call.in[0], &call.in[1], &call.out[0]};
  const auto n_out = int(call.ints[0]);
  C c;
  c.dtype = views[0]->dtype;
  c.algebra = int32_t(call.ints[1]);
  int64_t extents[C::groups] = {1, 1, 1, 1}, smallest[3] = {INT64_MAX, INT64_MAX, INT64_MAX};
  for (int d = 0; d < views[0]->rank; ++d) {
    const int64_t size = views[0]->sizes[d];
    if (size == 1) continue;
    const bool in_a = views[0]->strides[d] != 0, in_b = views[1]->strides[d] != 0;
    const C::Group g = d >= n_out     ? C::summed
                       : in_a && in_b ? C::batch
                       : in_b         ? C::columns
                                      : C::rows;
    extents[g] *= size;
    for (int v = 0; v < (d < n_out ? 3 : 2); ++v) {
      const int64_t stride = std::abs(views[v]->strides[d]);
      if (stride == 0 || stride >= smallest[v]) continue;
      smallest[v] = stride;
      c.along[size_t(v)] = uint8_t(g);
    }
  }
  for (size_t g = 0; g < C::groups; ++g) c.log2[g] = log2_up(extents[g]);
  return c;
}

std::string to_text(const ContractionClass& c) {
  std::string s = dtype_name(DType(c.dtype));
  if (c.algebra != GD_STANDARD) s += std::string(" ") + kKernelAlgebras[c.algebra];
  for (size_t g = 0; g < c.log2.size(); ++g)
    s += join(" ", std::string(1, kLetters[g]), int64_t(1) << c.log2[g]);
  for (size_t v = 0; v < c.along.size(); ++v)
    s += join(" ", kOperands[v], ":", std::string(1, kLetters[c.along[v]]));
  return s;
}

std::optional<ContractionClass> parse_class(const std::string& text) {
  std::istringstream words(text);
  std::string word;
  ContractionClass c;
  words >> word;
  c.dtype = -1;
  for (int t = 0; t < GD_DTYPE_COUNT; ++t)
    if (word == dtype_name(DType(t))) c.dtype = t;
  words >> word;
  if (const int a = find(kKernelAlgebras, word); a >= 0) {
    c.algebra = a;
    words >> word;
  }
  for (size_t g = 0; g < c.log2.size(); ++g, words >> word) {
    int64_t n = 0;
    if (word.size() < 2 || word[0] != kLetters[g]) return std::nullopt;
    const char* const end = word.data() + word.size();
    if (const auto [p, e] = std::from_chars(word.data() + 1, end, n);
        p != end || e != std::errc() || n < 1)
      return std::nullopt;
    c.log2[g] = log2_up(n);
  }
  for (size_t v = 0; v < c.along.size(); ++v, words >> word) {
    const char* const letter = word.empty() ? nullptr : std::strchr(kLetters, word.back());
    if (!letter || word.substr(0, word.size() - 1) != std::string(kOperands[v]) + ":")
      return std::nullopt;
    c.along[v] = uint8_t(letter - kLetters);
  }
  return c.dtype >= 0 && to_text(c) == text ? std::optional(c) : std::nullopt;
}

std::string way_text(int32_t op) {
  const int32_t way = op & 0xff, parts = op >> 8 & 0xff;
  return parts > 0 ? join(kWays[way], "/", int64_t(1) << (parts - 1)) : kWays[way];
}

std::optional<int32_t> parse_way(const std::string& text) {
  const std::string name = text.substr(0, text.find('/'));
  const int way = find(kWays, name);
  for (int32_t parts = 0; way >= 0 && parts <= kMostParts; ++parts)
    if (const int32_t op = way + 256 * parts; way_text(op) == text) return op;
  return std::nullopt;
}

void Tuning::choose(gd_call& call) {
  if (call.slot != GD_CONTRACT || call.op != GD_WAY_OWN) return;
  if (const auto it = ways.find(class_of(call)); it != ways.end()) call.op = it->second.op;
}

int64_t Tuning::changes() const {
  int64_t n = 0;
  for (const auto& [c, way] : ways) n += way.op != GD_WAY_OWN;
  return n;
}

std::string tuning_name(const Device& device) {
  const gd_info info = device.info();
  return join(device.kind(), ", ", info.name, ", ", info.arch);
}

std::string default_tuning_file() {
  const auto value = [](const char* name) {
    const char* const v = std::getenv(name);
    return std::string(v ? v : "");
  };
  if (const std::string file = value("GRADUS_TUNING"); !file.empty()) return file;
  if (const std::string cache = value("XDG_CACHE_HOME"); !cache.empty())
    return cache + "/gradus/tuning.json";
  const std::string home = value("HOME");
  return home.empty() ? "" : home + "/.cache/gradus/tuning.json";
}

// ---- the file: {"format": ..., "devices": {NAME: {CLASS: {"way", "us", "own_us"}}}}

namespace {

Json read_file_of_ways(const std::string& file) {
  struct stat info;
  if (::stat(file.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR))
    return Json::object();
  const Json all = parse_json(read_text(file), file, false, ErrorKind::io);
  if (!all.is_object() || !all.contains("format"))
    fail(ErrorKind::io, file, "is no tuning file; `gradus tune` writes one");
  if (all["format"] != kFormat) return Json::object();
  const Spec way = Spec::object("a way of contracting")
                       .with("way", Spec::string("its name"))
                       .with("us", Spec::number("its microseconds"))
                       .with("own_us", Spec::number("those of the device's own choice"));
  const Spec spec = Spec::object("ways of contracting that were found to be the fastest")
                        .with("format", Spec::string("the format's version"))
                        .maybe("devices", Spec::map(Spec::map(way, "by class"), "by device"));
  return check(spec, all, file, ErrorKind::io);
}

void make_folder(const std::string& folder) {
  struct stat info;
  if (folder.empty() || ::stat(folder.c_str(), &info) == 0) return;
  make_folder(folder_of(folder));
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    fail(ErrorKind::io, folder, "can't make this folder: ", std::strerror(errno));
}

// Held by one process at a time, until its end of scope.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : file_(::open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0666)) {
    if (file_ < 0 || ::flock(file_, LOCK_EX) != 0) {
      if (file_ >= 0) ::close(file_);
      fail(ErrorKind::io, path, "can't be locked: ", std::strerror(errno));
    }
  }
  ~FileLock() { ::close(file_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

}  // namespace

Tuning read_tuning(const std::string& file, const std::string& device) {
  Tuning out;
  const Json all = read_file_of_ways(file);
  if (!all.contains("devices") || !all["devices"].contains(device)) return out;
  for (const auto& [text, entry] : all["devices"][device].items()) {
    const auto c = parse_class(text);
    const auto op = parse_way(entry["way"].get<std::string>());
    if (!c || !op) fail(ErrorKind::io, file, "has an entry that is not understood: \"", text, "\"");
    out.ways[*c] = {*op, entry["us"].get<double>(), entry["own_us"].get<double>()};
  }
  return out;
}

namespace {
void add_and_write(Json all, const std::string& file, const std::string& device,
                   const Tuning& tuning) {
  all["format"] = kFormat;
  Json& ways = all["devices"][device];
  for (const auto& [c, way] : tuning.ways)
    ways[to_text(c)] = {{"way", way_text(way.op)}, {"us", way.microseconds}, {"own_us", way.own}};
  write_file_atomically(file, all.dump(1) + "\n");
}
}  // namespace

void write_tuning(const std::string& file, const std::string& device, const Tuning& tuning) {
  add_and_write(Json::object(), file, device, tuning);
}

void update_tuning(const std::string& file, const std::string& device, const Tuning& tuning) {
  make_folder(folder_of(file));
  const FileLock lock(file + ".lock");
  add_and_write(read_file_of_ways(file), file, device, tuning);
}

}  // namespace gradus
