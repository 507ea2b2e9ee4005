// What the pages speak of: a folder with configs, arrays, scripts, runs, and a shell in it.
#pragma once
#include "tests/helpers/program_helpers.hpp"

#include <string>

namespace gradus::inline v1::test {

// What makes a training run short.
constexpr const char* kSmaller = " --set epochs=1 --set data.train=128 --set data.test=64";
// A small network.
extern const char* const kPagesMlp;

class Workplace {
 public:
  Workplace();
  // Runs a command of a shell in a fresh copy of the folder.
  ProgramRun operator()(const std::string& command) const;
  // In the copy as the command before has left it.
  ProgramRun again(const std::string& command) const;
  void refresh() const;
  // Is there a device of this kind?
  bool has(const std::string& kind) const;

 private:
  ProgramRun shell(const std::string& command, const char* where) const;
  TempFolder folder_;
};

// One for all tests.
const Workplace& workplace();

}  // namespace gradus::test
