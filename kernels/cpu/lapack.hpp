// A LAPACK library that the device config names, opened at run time; nothing of it is needed to
// build. It stays open, as its threads may outlive the device.
#pragma once
#include "kernels/linalg/lapack_functions.hpp"

#include <memory>
#include <string>

namespace gradus::inline v1::cpu {

class LapackLibrary {
 public:
  // `file` is a path, or a name that the system's loader finds. Null, and *why says it, if it can't
  // be opened, lacks a function, or has integers of 64 bits.
  static std::unique_ptr<LapackLibrary> open(const std::string& file, std::string* why);

  const linalg::Lapack& functions() const { return functions_; }
  // A line for people: version, maker, file.
  std::string text() const;

 private:
  void* symbol(const std::string& name) const;
  std::string get_functions();
  template <class T>
  std::string get_functions_of(char letter);
  std::string try_integers() const;

  void* handle_ = nullptr;
  linalg::Lapack functions_{};
};

}  // namespace gradus::cpu
