// Device modules: shared libraries that export one symbol which gives a kernel table. Finds, opens
// and checks them; a module is never closed again. Knows file names, not what a device does.
#pragma once
#include "engine/abi/kernel_table.h"

#include <string>
#include <vector>

namespace gradus::inline v1 {

// Opens a shared library by its path, for ever. Error(device) that says why it can't be.
void* open_library(const std::string& path);

// Opens a module file and registers its table. Throws Error(device) that names the file: missing,
// not loadable (with the library that is missing), no entry symbol, other interface, other
// statements. Loading a module twice is fine and gives the same table.
const gd_table* load_module(const std::string& path);

// The file of a kind: "gradus_cuda.so" for "cuda", "gradus_reference.so" for "refmod".
std::string module_file(const std::string& kind);
// The kind that a module file's name stands for; "" if it is not named as a module.
std::string module_kind(const std::string& path);

// Where modules are looked for, in order: absolute folders of GRADUS_MODULE_PATH, the folder of
// this program or library, its lib/, its sibling lib/, and where an installation has them: gradus/
// beside a library, lib/gradus beside the bin/ of a program. Never the working folder.
std::vector<std::string> module_folders();
// Kinds that have a module file in those folders.
std::vector<std::string> module_kinds();

struct LoadReport {
  std::string kind;
  std::string path;  // the file that was tried; "" if none was found
  bool loaded = false;
  std::string message;  // why not
};

// Loads every explicit path, then for each kind that no table is registered for the first module
// file in module_folders(). Throws nothing: each failure is a report.
std::vector<LoadReport> load_modules(const std::vector<std::string>& kinds,
                                     const std::vector<std::string>& explicit_paths = {});

}  // namespace gradus
