// Small helpers for tests of files and messages: a folder that goes away, and the text of an error.
#pragma once
#include "engine/base/error.hpp"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace gradus::inline v1::test {

class TempFolder {
 public:
  TempFolder() {
    static std::atomic<int> counter{0};
    path_ = std::filesystem::temp_directory_path() /
            join("gradus_test_", ::getpid(), "_", counter.fetch_add(1));
    std::filesystem::create_directories(path_);
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }
  std::string write(const std::string& name, const std::string& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary) << bytes;
    return *this / name;
  }

 private:
  std::filesystem::path path_;
};

// Sets or removes an environment variable for the length of a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) before_ = old, had_ = true;
    value ? ::setenv(name, value, 1) : ::unsetenv(name);
  }
  ~Variable() { had_ ? ::setenv(name_, before_.c_str(), 1) : ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

// The text of the Error that f throws, "no error" if it throws none; `kind` is checked on the way.
template <class F>
std::string error_text(ErrorKind kind, F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.kind() == kind ? e.what() : std::string("error of another kind: ") + e.what();
  }
  return "no error";
}

}  // namespace gradus::test
