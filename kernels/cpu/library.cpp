// Opening, and what is said of a library.
#include "kernels/cpu/library.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <link.h>

namespace gradus::inline v1::cpu {

bool Library::open(const std::string& file, std::string* why) {
  file_ = file;
  handle_ = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle_) return true;
  const char* const said = ::dlerror();
  *why = (said ? said : file + " can't be opened") + hint();
  return false;
}

void Library::take(const GivenLibrary& given) { given_ = given; }

Function Library::function(const std::string& name) const {
  if (handle_) return reinterpret_cast<Function>(::dlsym(handle_, name.c_str()));
  for (const auto& [its, function] : given_.functions)
    if (its == name) return function;
  return nullptr;
}

void (*Library::find_set_threads() const)(int) {
  void (*set_threads)(int) = nullptr;
  for (const char* name :
       {"openblas_set_num_threads", "MKL_Set_Num_Threads", "goto_set_num_threads"})
    if (find(name, set_threads)) break;
  return set_threads;
}

std::string Library::name() const { return handle_ ? file_ : "the program's library"; }

std::string Library::hint() const {
  if (file_.empty()) return "";
  return "; `apt-get install libopenblas0-pthread` brings /usr/lib/x86_64-linux-gnu/liblapack.so.3 "
         "and libblas.so.3";
}

std::string Library::text(const std::string& standard) const {
  std::string out = standard;
  const char* (*config)() = nullptr;
  if (find("openblas_get_config", config)) out += std::string(" of ") + config();
  void (*version)(char*, int) = nullptr;
  if (find("MKL_Get_Version_String", version)) {
    char words[256] = {};
    version(words, int(sizeof words) - 1);
    const std::string said = words;
    out += " of " + said.substr(0, said.find_last_not_of(' ') + 1);
  }
  if (!handle_)
    return out + ", given by the program" + (given_.text.empty() ? "" : ": ") + given_.text;
  const link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || !map) return out;
  // Names of files end with versions where those of links do not.
  char* const file = ::realpath(map->l_name, nullptr);
  out += std::string(", ") + (file ? file : map->l_name);
  std::free(file);
  return out;
}

}  // namespace gradus::cpu
