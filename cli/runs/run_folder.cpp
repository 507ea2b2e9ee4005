// Files of a run by POSIX calls; failures are Error(io) with the file's name.
#include "cli/runs/run_folder.hpp"

#include "engine/files/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kPrefix = "checkpoint-";
constexpr const char* kSuffix = ".safetensors";
constexpr const char* kFormat = "gradus.checkpoint/2";
constexpr size_t kKept = 2;

// The step in a checkpoint's name, or -1.
int64_t step_of(const std::string& name) {
  const size_t head = strlen(kPrefix), tail = strlen(kSuffix);
  if (name.size() <= head + tail || name.compare(0, head, kPrefix) != 0 ||
      name.compare(name.size() - tail, tail, kSuffix) != 0)
    return -1;
  const std::string digits = name.substr(head, name.size() - head - tail);
  if (digits.size() > 18 || digits.find_first_not_of("0123456789") != std::string::npos) return -1;
  return std::stoll(digits);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    out.push_back(it->path().filename().string());
  if (error) fail_errno(folder, "list the folder", error.value());
  return out;
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) fail_errno(path, "make the folder", error.value());
  if (!fs::is_directory(path, error)) fail(ErrorKind::io, path, "is a file, expected a folder");
}

// What an open metrics.jsonl holds; a missing one nothing.
uint32_t crc_of_file(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? crc32_of(read_file(path)) : 0;
}

}  // namespace

std::vector<std::string> checkpoints_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const std::string& name : names_in(folder))
    if (step_of(name) >= 0) out.push_back(name);
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return step_of(a) > step_of(b); });
  return out;
}

void check_run_folder(const std::string& path) {
  constexpr size_t kMostNamed = 3;
  std::error_code error;
  const fs::path folder(path);
  if (fs::exists(folder / "config.json", error)) return;
  if (fs::is_regular_file(folder, error))
    fail(ErrorKind::io, path, "is a file, expected the folder of a run, as `gradus train ",
         path.ends_with(".json") ? path : "CONFIG", " --out DIR` makes one");
  if (!fs::exists(folder, error))
    fail(ErrorKind::io, path, "no such folder; `gradus train CONFIG --out ", path,
         "` makes a run there");
  std::vector<std::string> runs;
  for (const std::string& name : names_in(path))
    if (fs::exists(folder / name / "config.json", error)) runs.push_back((folder / name).string());
  std::sort(runs.begin(), runs.end());
  std::string hint;
  for (size_t i = 0; i < std::min(runs.size(), kMostNamed); ++i)
    hint += (i == 0 ? "; runs within it: " : ", ") + runs[i];
  if (runs.size() > kMostNamed) hint += join(" and ", runs.size() - kMostNamed, " more");
  fail(ErrorKind::io, path, "is no run folder: it holds no config.json", hint);
}

RunFolder::Checkpoint read_checkpoint(const std::string& file, Device& device) {
  Safetensors state = read_safetensors(file, device);
  const std::string& format = state.metadata["format"];
  if (format != kFormat)
    fail(ErrorKind::io, file, format.empty() ? "is no checkpoint: it names no format" : "is a \"",
         format, format.empty() ? "" : "\"", ", expected \"", kFormat, "\"",
         format == "gradus.checkpoint/1"
             ? "; that version has no checksum, so it can't be told whether the file is whole: "
               "finish the run with the gradus that began it, or begin it anew"
             : "");
  if (!state.checked)
    fail(ErrorKind::io, file, "lacks its checksum, so it can't be told whether it is whole");
  return {file, std::move(state)};
}

std::optional<RunFolder::Checkpoint> newest_checkpoint(const std::string& folder, Device& device,
                                                       std::vector<std::string>* unreadable) {
  std::string reasons;
  for (const std::string& name : checkpoints_in(folder)) {
    try {
      return read_checkpoint(folder + "/" + name, device);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io) throw;
      reasons += (reasons.empty() ? "" : "; ") + std::string(e.what());
      unreadable->push_back(e.what());
    }
  }
  if (!reasons.empty()) fail(ErrorKind::io, folder, "no checkpoint can be read: ", reasons);
  return std::nullopt;
}

// Held as long as the process lives; the system drops it with the process.
struct RunFolder::Lock {
  explicit Lock(int descriptor) : fd(descriptor) {}
  ~Lock() { ::close(fd); }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;
  int fd;
};

RunFolder::RunFolder(std::string path) : path_(std::move(path)), metrics_(nullptr, std::fclose) {}

void RunFolder::take_lock() {
  const int fd = ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) fail_errno(path_, "open the folder", errno);
  lock_ = std::make_shared<Lock>(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    fail(ErrorKind::io, path_, "another process is training in this folder");
}

// What a killed process left half written: see write_file_atomically.
void RunFolder::remove_leftovers() {
  for (const std::string& name : names_in(path_))
    for (const char* mark : {".safetensors.tmp.", ".json.tmp.", ".svg.tmp.", ".html.tmp."})
      if (name.find(mark) != std::string::npos) ::unlink(file(name).c_str());
}

RunFolder RunFolder::open(const std::string& path, bool resume) {
  make_folder(path);
  RunFolder folder(path);
  while (folder.path_.size() > 1 && folder.path_.back() == '/') folder.path_.pop_back();
  folder.take_lock();
  if (!resume && !names_in(path).empty())
    fail(ErrorKind::config, path,
         "the run folder is not empty; go on with --resume, or name another one with --out");
  folder.remove_leftovers();
  return folder;
}

RunFolder RunFolder::open_numbered(const std::string& name, bool resume) {
  make_folder("runs");
  const std::string stem = name + "-";
  int64_t highest = 0;
  for (const std::string& entry : names_in("runs")) {
    if (entry.compare(0, stem.size(), stem) != 0) continue;
    const std::string digits = entry.substr(stem.size());
    if (digits.empty() || digits.size() > 9 ||
        digits.find_first_not_of("0123456789") != std::string::npos)
      continue;
    highest = std::max<int64_t>(highest, std::stoll(digits));
  }
  if (resume && highest > 0) return open(join("runs/", stem, highest), true);
  // Another process may take the same number between the look and the making.
  for (int64_t n = highest + 1;; ++n) {
    const std::string path = join("runs/", stem, n);
    if (::mkdir(path.c_str(), 0777) == 0) return open(path, resume);
    if (errno != EEXIST) fail_errno(path, "make the folder", errno);
  }
}

bool RunFolder::has(const std::string& name) const {
  struct stat info;
  return ::stat(file(name).c_str(), &info) == 0;
}

void RunFolder::append_metrics(const std::string& line) {
  const std::string path = file(kMetrics);
  if (!metrics_) {
    metrics_crc_ = crc_of_file(path);
    metrics_.reset(std::fopen(path.c_str(), "ae"));
    if (!metrics_) fail_errno(path, "open", errno);
  }
  const std::string text = line + "\n";
  if (std::fwrite(text.data(), 1, text.size(), metrics_.get()) != text.size() ||
      std::fflush(metrics_.get()) != 0)
    fail_errno(path, "write", errno);
  metrics_crc_ = crc32_of(text, metrics_crc_);
}

uint32_t RunFolder::metrics_crc() { return metrics_ ? metrics_crc_ : crc_of_file(file(kMetrics)); }

int64_t RunFolder::metrics_bytes() {
  const std::string path = file(kMetrics);
  if (metrics_ && ::fsync(fileno(metrics_.get())) != 0 && errno != EINVAL)
    fail_errno(path, "sync", errno);
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 ? int64_t(info.st_size) : 0;
}

bool RunFolder::cut_metrics(int64_t bytes) {
  const std::string path = file(kMetrics);
  metrics_.reset();
  struct stat info;
  if (::stat(path.c_str(), &info) != 0) return bytes == 0;
  if (info.st_size < bytes) return false;
  if (::truncate(path.c_str(), bytes) != 0) fail_errno(path, "cut", errno);
  return true;
}

void RunFolder::save_checkpoint(int64_t step, const NamedTensors& tensors, Metadata metadata) {
  metadata["format"] = kFormat;
  char number[24];
  snprintf(number, sizeof number, "%09lld", static_cast<long long>(step));
  write_safetensors(file(join(kPrefix, number, kSuffix)), tensors, metadata);
  const std::vector<std::string> all = checkpoints_in(path_);
  for (size_t i = kKept; i < all.size(); ++i) ::unlink(file(all[i]).c_str());
}

std::optional<RunFolder::Checkpoint> RunFolder::newest_checkpoint(
    Device& device, std::vector<std::string>* unreadable) const {
  return cli::newest_checkpoint(path_, device, unreadable);
}

}  // namespace gradus::cli
