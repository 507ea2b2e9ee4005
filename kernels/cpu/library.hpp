// A library of functions that are found by name: a file that the device config names, opened at run
// time, or functions that the program which embeds gradus has given. Nothing of either is needed
// to build.
#pragma once
#include "kernels/cpu/cpu.hpp"

#include <memory>
#include <string>

namespace gradus::inline v1::cpu {

class Library {
 public:
  // `file` is a path, or a name that the system's loader finds. False, and *why says it, if it
  // can't be opened. It stays open, as its threads may outlive the device.
  bool open(const std::string& file, std::string* why);
  void take(const GivenLibrary& given);

  // Sets f to the function of that name, null if there is none.
  template <class F>
  bool find(const std::string& name, F& f) const {
    return (f = reinterpret_cast<F>(function(name))) != nullptr;
  }
  // The function by which it is told how many threads to use; null: it can't be told. Each thread
  // that calls says 1 first: some libraries count for each by itself, and somebody else in the
  // process may have said another.
  void (*find_set_threads() const)(int);
  // Whom errors speak of, with what helps where it is a file that lacks something.
  std::string name() const;
  std::string hint() const;
  // A line for people: the standard it follows with the version of that, maker, file.
  std::string text(const std::string& standard) const;

 private:
  Function function(const std::string& name) const;

  void* handle_ = nullptr;
  std::string file_;
  GivenLibrary given_;
};

// An L made of a library, whose get() says what is wrong with it, "" if nothing is. Null, and *why
// says it, if it can't be used.
template <class L>
std::shared_ptr<const L> use_library(Library library, std::string* why) {
  auto out = std::make_shared<L>();
  out->library = std::move(library);
  *why = out->get();
  if (why->empty()) return out;
  *why = out->library.name() + " " + *why;
  return nullptr;
}
template <class L>
std::shared_ptr<const L> open_library(const std::string& file, std::string* why) {
  Library library;
  return library.open(file, why) ? use_library<L>(std::move(library), why) : nullptr;
}

}  // namespace gradus::cpu
