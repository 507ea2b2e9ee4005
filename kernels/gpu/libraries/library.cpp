// Searching and opening.
#include "kernels/gpu/libraries/library.hpp"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <sstream>
#include <unistd.h>

namespace gradus::inline v1::gpu {
namespace {

std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> out;
  glob_t found{};
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return out;
}

// The folder above each bin/ of PATH that has a python3: an environment need not be active to be
// the one that people use.
std::vector<std::string> python_roots() {
  std::vector<std::string> out;
  const char* const path = std::getenv("PATH");
  std::stringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (folder.ends_with("/bin") && ::access((folder + "/python3").c_str(), X_OK) == 0)
      out.push_back(folder.substr(0, folder.size() - 4));
  return out;
}

// Where Python's packages lie: the active environment, those of PATH, the user's own, the
// machine's.
std::vector<std::string> package_folders() {
  std::vector<std::string> out;
  const auto add = [&](const char* root, const std::string& below) {
    if (!root || !*root) return;
    for (const char* lib : {"/lib", "/lib64"})
      for (const char* packages : {"/python3*/site-packages", "/python3*/dist-packages"})
        for (std::string& folder : matches(root + below + lib + packages))
          if (std::find(out.begin(), out.end(), folder) == out.end())
            out.push_back(std::move(folder));
  };
  add(std::getenv("VIRTUAL_ENV"), "");
  add(std::getenv("CONDA_PREFIX"), "");
  for (const std::string& root : python_roots()) add(root.c_str(), "");
  add(std::getenv("HOME"), "/.local");
  add("/usr/local", "");
  add("/usr", "");
  return out;
}

}  // namespace

std::vector<std::string> library_paths(const LibrarySearch& search) {
  if (search.setting != "auto") return {search.setting};
  const char* const variable = std::getenv(search.variable);
  if (variable && *variable) return {variable};
  std::vector<std::string> paths = search.names, folders = search.folders;
  for (const std::string& packages : package_folders())
    for (const std::string& wheel : search.wheels)
      if (std::string folder = packages + "/" + wheel; ::access(folder.c_str(), X_OK) == 0)
        folders.push_back(std::move(folder));
  for (const std::string& folder : folders)
    for (const std::string& name : search.names) paths.push_back(folder + "/" + name);
  return paths;
}

Library::Library(const char* title, const LibrarySearch& search) : title_(title) {
  if (search.setting == "off")
    refuse("it is off in the device config");
  else if (search.setting == "auto" && !search.none.empty())
    refuse(search.none);
  else
    open(library_paths(search));
}

void Library::open(const std::vector<std::string>& paths) {
  std::string tried, wrong;
  for (const std::string& path : paths) {
    handle_ = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
    if (handle_) {
      path_ = path;
      return;
    }
    const char* const error = ::dlerror();
    // Of a file that is there, the loader knows what is wrong with it.
    if (::access(path.c_str(), F_OK) == 0 && error) wrong += std::string("; ") + error;
    tried += (tried.empty() ? "" : ", ") + path;
  }
  refuse("can't be opened; tried " + tried + wrong);
}

void Library::refuse(const std::string& why) {
  if (why_.empty()) why_ = title_ + (path_.empty() ? "" : " (" + path_ + ")") + ": " + why;
}

std::string Library::text(const char* version_symbol) const {
  void* const symbol = symbol_at(version_symbol);
  return text(symbol ? reinterpret_cast<size_t (*)()>(symbol)() : 0);
}

std::string Library::text(size_t version) const {
  if (!why_.empty()) return why_;
  const std::string out = title_ + (version > 0 ? " " + std::to_string(version) : "");
  const link_map* map = nullptr;
  const bool found = ::dlinfo(handle_, RTLD_DI_LINKMAP, &map) == 0 && map && *map->l_name;
  return out + ", " + (found ? map->l_name : path_.c_str());
}

void* Library::symbol_at(const char* symbol) const {
  return handle_ ? ::dlsym(handle_, symbol) : nullptr;
}

std::string status_text(int status) {
  const char* const name = status == 0    ? "SUCCESS"
                           : status == 1  ? "NOT_INITIALIZED"
                           : status == 3  ? "ALLOC_FAILED"
                           : status == 7  ? "INVALID_VALUE"
                           : status == 8  ? "ARCH_MISMATCH"
                           : status == 11 ? "MAPPING_ERROR"
                           : status == 13 ? "EXECUTION_FAILED"
                           : status == 14 ? "INTERNAL_ERROR"
                           : status == 15 ? "NOT_SUPPORTED"
                           : status == 16 ? "LICENSE_ERROR"
                           : status == 19 ? "INSUFFICIENT_WORKSPACE"
                           : status == 20 ? "INSUFFICIENT_DRIVER"
                           : status == 21 ? "IO_ERROR"
                                          : "status";
  return std::string(name) + " (" + std::to_string(status) + ")";
}

bool did_nothing(int status) {
  return status == 3 || status == 7 || status == 8 || status == 15 || status == 19 || status == 20;
}

int64_t alignment_of(const void* address, int64_t most) {
  int64_t bytes = 1;
  while (bytes < most && reinterpret_cast<uintptr_t>(address) % uintptr_t(2 * bytes) == 0)
    bytes *= 2;
  return bytes;
}

}  // namespace gradus::gpu
