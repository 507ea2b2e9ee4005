#include "bindings/lua/paths.hpp"

#include "engine/base/error.hpp"

#include <algorithm>
#include <filesystem>

namespace gradus::inline v1::lua {

namespace {

namespace fs = std::filesystem;

// The path that the system would open, or make. fs::weakly_canonical takes a link to nothing for
// the end of a path, which it is not: to write there makes what the link names.
std::string real_path(const std::string& path) {
  constexpr int kMostLinks = 40;  // as in Linux
  std::error_code none;
  fs::path real = "/";
  const fs::path whole = fs::absolute(path);
  std::vector<fs::path> ahead(whole.begin(), whole.end());
  std::reverse(ahead.begin(), ahead.end());
  for (int links = 0; !ahead.empty();) {
    const fs::path name = ahead.back();
    ahead.pop_back();
    if (name.empty() || name == "." || name == "/") continue;
    if (name == "..") {
      real = real.parent_path();
      continue;
    }
    const fs::path at = real / name;
    if (!fs::is_symlink(fs::symlink_status(at, none))) {
      real = at;
      continue;
    }
    if (++links > kMostLinks) fail(ErrorKind::io, path, "links that lead to links without end");
    const fs::path target = fs::read_symlink(at, none);
    if (target.is_absolute()) real = "/";
    const std::vector<fs::path> names(target.begin(), target.end());
    ahead.insert(ahead.end(), names.rbegin(), names.rend());
  }
  return real.string();
}

bool is_below(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder == "/" ? folder : folder + "/");
}

std::vector<std::string> real_paths(const std::vector<std::string>& folders) {
  std::vector<std::string> out;
  for (const std::string& folder : folders) {
    std::string real = real_path(folder);
    if (std::find(out.begin(), out.end(), real) == out.end()) out.push_back(std::move(real));
  }
  return out;
}

}  // namespace

Paths::Paths(const std::vector<std::string>& written, const std::vector<std::string>& read)
    : all_(false), written_(real_paths(written)), read_(real_paths(read)) {}

void Paths::check(const std::string& path, Access access) const {
  if (all_) return;
  const std::string real = real_path(path);
  std::vector<std::string> allowed = written_;
  const bool reads = access == Access::read;
  if (reads) allowed.insert(allowed.end(), read_.begin(), read_.end());
  std::string names;
  for (const std::string& folder : allowed) {
    if (is_below(real, folder)) return;
    names += (names.empty() ? "" : ", ") + folder;
  }
  fail(ErrorKind::io, path, real == path ? std::string() : join("is ", real, "; "), "a script may ",
       reads ? "read" : "write", " below ", names, " (--allow-", reads ? "read" : "write",
       " DIR adds a folder, --unsafe lifts this)");
}

void Paths::check_folder(const std::string& path, Access access) const {
  check(path, access);
  if (all_) return;
  std::error_code none;  // what is no folder has no files, and who opens it says so
  for (fs::directory_iterator it(path, none), end; !none && it != end; it.increment(none))
    check(it->path().string(), access);
}

}  // namespace gradus::lua
