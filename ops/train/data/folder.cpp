#include "ops/train/data/folder.hpp"

#include "engine/files/file.hpp"

#include <cstdlib>
#include <sys/stat.h>

namespace gradus::inline v1::training {

namespace {
bool is_there(const std::string& path) {
  struct stat info;
  return ::stat(path.c_str(), &info) == 0;
}
}  // namespace

std::string data_root() {
  const char* const named = std::getenv("GRADUS_DATA");
  return named && *named ? named : "data";
}

std::string below_data_root(const std::string& idx) {
  if (idx.empty() || idx[0] == '/' || is_there(idx)) return "";
  return path_in(data_root(), idx);
}

std::string data_folder(const std::string& idx) {
  const std::string below = below_data_root(idx);
  return !below.empty() && is_there(below) ? below : idx;
}

}  // namespace gradus::training
