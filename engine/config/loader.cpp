// dlopen with RTLD_LOCAL, so that two modules never see each other's symbols, and RTLD_NODELETE,
// because devices live for ever.
#include "engine/config/loader.hpp"

#include "engine/device/device.hpp"
#include "engine/base/error.hpp"
#include "engine/files/file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <link.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

namespace gradus::inline v1 {
namespace {

constexpr std::string_view kPrefix = "gradus_", kSuffix = ".so";

bool is_file(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

bool is_registered(const std::string& kind) {
  const auto kinds = known_kinds();
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const KnownKind& k) { return k.kind == kind; });
}

// Debian's package of a shared library: libfoo.so.5 is in libfoo5, libfoo64.so.5 in libfoo64-5.
std::string package_of(const std::string& library) {
  const size_t so = library.find(".so.");
  if (so == std::string::npos || so == 0) return "";
  const bool digit = library[so - 1] >= '0' && library[so - 1] <= '9';
  return library.substr(0, so) + (digit ? "-" : "") + library.substr(so + 4);
}

// What dlopen said, as "needs LIBRARY, which ..." if a library that the module needs is missing.
std::string why_not_opened(const std::string& path, const std::string& text) {
  const size_t end = text.find(": cannot open shared object file");
  const std::string library = end == std::string::npos ? "" : text.substr(0, end);
  if (library.empty() || library == path) return "cannot be opened: " + text;
  const std::string package = package_of(library);
  return "needs " + library + ", which was not found" +
         (package.empty() ? "" : "; on Debian it is in the package " + package);
}

// The module speaks another major version; it tells which when asked with its own.
[[noreturn]] void fail_major(const std::string& path, gd_module_entry entry) {
  std::string theirs = "another version";
  for (uint32_t major = 0; major < 256; ++major)
    if (const gd_table* table = entry(major, 0); table && table->magic == GD_MAGIC) {
      theirs = join(table->major, ".", table->minor);
      break;
    }
  fail(ErrorKind::device, path, "speaks device interface ", theirs, ", this program speaks ",
       GD_MAJOR, ".", GD_MINOR, "; rebuild the module");
}

// How a module that is missing comes to be, of those that can be built here.
std::string how_built(const std::string& kind) {
  const std::string build = "; `./dev build release gradus_" + kind + "` builds it";
  if (kind == "emu" || kind == "refmod" || kind == "torch") return build;
  if (kind == "cuda") return build + " where nvcc is found";
  if (kind == "hip") return build + " where hipcc is found (./dev hipcc)";
  return "";
}

// The folder of the file that holds this code: libgradus, or the program it is linked into.
std::string find_own_folder() {
  Dl_info info;
  link_map* map = nullptr;
  const auto address = reinterpret_cast<void*>(&load_module);
  const int found = dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP);
  // The program itself has no name in the link map; argv[0] would depend on the working folder.
  const bool program = found == 0 || !map || !map->l_name || !*map->l_name;
  const std::unique_ptr<char, void (*)(void*)> real(
      ::realpath(program ? "/proc/self/exe" : map->l_name, nullptr), std::free);
  return real ? folder_of(real.get()) : std::string();
}
const std::string& own_folder() {
  static const std::string folder = find_own_folder();
  return folder;
}
// Asked for before main(): the name that a library was found by may be relative
// (LD_LIBRARY_PATH=lib) and is then meant from the folder that was the working one.
[[maybe_unused]] const std::string& at_load = own_folder();

LoadReport try_load(const std::string& kind, const std::string& path) {
  LoadReport report{kind, path, false, ""};
  try {
    load_module(path);
    report.loaded = true;
  } catch (const Error& e) {
    report.message = e.what();
  }
  return report;
}

LoadReport find_and_load(const std::string& kind, const std::vector<std::string>& explicit_paths) {
  const std::string file = module_file(kind);
  std::string searched;
  for (const std::string& path : explicit_paths)
    if (module_kind(path) == kind) searched += (searched.empty() ? "" : ", ") + path;
  for (const std::string& folder : module_folders()) {
    const std::string path = path_in(folder, file);
    if (is_file(path)) return try_load(kind, path);
    searched += (searched.empty() ? "" : ", ") + folder;
  }
  return {kind, "", false,
          "no module " + file + " found (searched " + searched + ")" + how_built(kind)};
}

}  // namespace

void* open_library(const std::string& path) {
  const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), std::free);
  if (!real) fail(ErrorKind::device, path, "no such module file: ", std::strerror(errno));
  void* handle = dlopen(real.get(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) {
    const char* text = dlerror();
    fail(ErrorKind::device, path, why_not_opened(real.get(), text ? text : "dlopen failed"));
  }
  return handle;
}

const gd_table* load_module(const std::string& path) {
  void* const handle = open_library(path);
  const auto entry = reinterpret_cast<gd_module_entry>(dlsym(handle, GD_ENTRY_SYMBOL));
  if (!entry)
    fail(ErrorKind::device, path, "is not a gradus module: it has no symbol ", GD_ENTRY_SYMBOL);
  const gd_table* table = entry(GD_MAJOR, GD_MINOR);
  if (!table) fail_major(path, entry);
  register_table(table, path);
  return table;
}

std::string module_file(const std::string& kind) {
  return join(kPrefix, kind == "refmod" ? "reference" : kind, kSuffix);
}

std::string module_kind(const std::string& path) {
  const std::string file = path.substr(path.rfind('/') + 1);
  if (file.size() <= kPrefix.size() + kSuffix.size() || file.compare(0, kPrefix.size(), kPrefix) ||
      file.compare(file.size() - kSuffix.size(), kSuffix.size(), kSuffix))
    return "";
  const std::string kind =
      file.substr(kPrefix.size(), file.size() - kPrefix.size() - kSuffix.size());
  return kind == "reference" ? "refmod" : kind;
}

std::vector<std::string> module_folders() {
  std::vector<std::string> out;
  const auto add = [&](const std::string& folder) {
    if (!folder.empty() && folder[0] == '/' &&
        std::find(out.begin(), out.end(), folder) == out.end())
      out.push_back(folder);
  };
  if (const char* listed = std::getenv("GRADUS_MODULE_PATH")) {
    const std::string text = listed;
    for (size_t at = 0; at <= text.size();) {
      const size_t end = std::min(text.find(':', at), text.size());
      add(text.substr(at, end - at));
      at = end + 1;
    }
  }
  const std::string own = own_folder();
  if (!own.empty()) {
    add(own);
    add(path_in(own, "lib"));
    add(path_in(folder_of(own), "lib"));
    // Installed: beside a library; below the prefix of a program, whose own name that is in bin/.
    if (const std::string beside = path_in(own, "gradus"); !is_file(beside)) add(beside);
    add(path_in(folder_of(own), GRADUS_INSTALL_MODULES));
  }
  return out;
}

std::vector<std::string> module_kinds() {
  std::vector<std::string> out;
  for (const std::string& folder : module_folders()) {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(folder.c_str()), ::closedir);
    if (!dir) continue;
    while (const dirent* entry = ::readdir(dir.get())) {
      const std::string kind = module_kind(entry->d_name);
      if (!kind.empty() && std::find(out.begin(), out.end(), kind) == out.end())
        out.push_back(kind);
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<LoadReport> load_modules(const std::vector<std::string>& kinds,
                                     const std::vector<std::string>& explicit_paths) {
  std::vector<LoadReport> out;
  for (const std::string& path : explicit_paths) out.push_back(try_load(module_kind(path), path));
  for (const std::string& kind : kinds)
    if (!is_registered(kind)) out.push_back(find_and_load(kind, explicit_paths));
  return out;
}

}  // namespace gradus
