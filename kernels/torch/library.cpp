// Where libtorch is looked for, and its functions by their names.
#include "kernels/torch/library.hpp"

#include "kernels/call/call.hpp"

#include <cstdlib>
#include <dlfcn.h>
#include <link.h>
#include <mutex>
#include <sys/stat.h>

namespace gradus::inline v1::torch {
namespace {

constexpr const char* kFile = "libtorch_cpu.so";

// A text of any length, cut to its room.
[[noreturn]] void refuse(const std::string& text) {
  calls::refuse(GD_NO_DRIVER, 0, "%s", text.c_str());
}

bool is_folder(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

std::string file_in(const std::string& named) {
  if (!is_folder(named)) return named;
  const std::string deep = named + "/lib/" + kFile;
  struct stat info;
  return ::stat(deep.c_str(), &info) == 0 ? deep : named + "/" + kFile;
}

void* open_file(const std::string& named, const char* who) {
  const std::string file = file_in(named);
  if (void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)) return handle;
  const char* const said = ::dlerror();
  refuse(std::string(who) + ": " + (said ? said : file + " can't be opened"));
}

// One that is there already is the one to take: two libtorchs in a process disturb each other.
void* open_any(const std::string& named) {
  if (void* handle = ::dlopen(kFile, RTLD_NOW | RTLD_NOLOAD)) return handle;
  if (!named.empty()) return open_file(named, "libraries.torch");
  const char* const environment = std::getenv("LIBTORCH");
  if (environment && *environment) return open_file(environment, "LIBTORCH");
  refuse(std::string("found no libtorch: the process has no ") + kFile +
         ", the device config has no \"libraries\": {\"torch\": PATH}, and LIBTORCH is not set; "
         "either names the file, or the folder \"torch\" of a Python package");
}

std::string version_text(uint64_t version) {
  std::string out;
  for (int shift : {56, 48, 40})
    out += (out.empty() ? "" : ".") + std::to_string(version >> shift & 0xff);
  return out;
}

std::string file_of(void* handle) {
  const link_map* map = nullptr;
  return ::dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map ? map->l_name : kFile;
}

Library functions_of(void* handle) {
  Library l{};
  l.file = file_of(handle);
  std::string missing;
  const auto find = [&](auto& into, const char* name) {
    into = reinterpret_cast<std::decay_t<decltype(into)>>(::dlsym(handle, name));
    if (!into && missing.empty()) missing = name;
  };
  find(l.version_number, "aoti_torch_abi_version");
  find(l.call, "torch_call_dispatcher");
  find(l.from_blob, "torch_from_blob");
  find(l.new_handle, "aoti_torch_new_tensor_handle");
  find(l.delete_tensor, "aoti_torch_delete_tensor_object");
  find(l.subtract, "aoti_torch_aten_subtract_Tensor");
  find(l.new_list, "torch_new_list_reserve_size");
  find(l.push_back, "torch_list_push_back");
  find(l.delete_list, "torch_delete_list");
  find(l.new_string, "torch_new_string_handle");
  find(l.get_threads, "torch_get_num_threads");
  find(l.cpu, "aoti_torch_device_type_cpu");
  find(l.strided, "aoti_torch_layout_strided");
  find(l.row_major, "aoti_torch_memory_format_contiguous_format");
  constexpr const char* kDTypes[] = {"float32", "float64", "complex64", "complex128", "int32",
                                     "int64",   "uint8",   "bool",      "float16",    "bfloat16"};
  for (size_t t = 0; t < std::size(kDTypes); ++t)
    find(l.dtype[t], (std::string("aoti_torch_dtype_") + kDTypes[t]).c_str());
  if (!missing.empty()) refuse(l.file + " has no " + missing + ", which libtorch has since 2.11");
  l.version = version_text(l.version_number());
  find(l.last_error, "torch_exception_get_what_without_backtrace");
  find(l.new_value, "torch_new_stable_ivalue");
  return l;
}

const Library* opened = nullptr;

}  // namespace

const Library& open_library(const std::string& named) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (!opened) opened = new Library(functions_of(open_any(named)));
  return *opened;
}

const Library& library() { return *opened; }

}  // namespace gradus::torch
