// Runs the built program as people do.
#pragma once
#include "gradus_paths.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/wait.h>

namespace gradus::inline v1::test {

struct ProgramRun {
  int code;
  std::string out, err;
};

inline std::string slurp(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Runs a command line of the shell in `folder`.
inline ProgramRun run_line(const TempFolder& folder, const std::string& command) {
  const std::string out = folder / ".out", err = folder / ".err";
  const int status = std::system(
      ("cd '" + folder.path() + "' && " + command + " >'" + out + "' 2>'" + err + "'").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
}

// Runs the program in `folder`, with `environment` such as "GRADUS_ISA=sse2".
inline ProgramRun run(const TempFolder& folder, const std::string& arguments,
                      const std::string& environment = "") {
  return run_line(folder,
                  "env -u GRADUS_DEVICE " + environment + " '" GRADUS_PROGRAM "' " + arguments);
}

struct MeasuredRun {
  ProgramRun run;
  long peak;  // the most MiB that were resident
};
inline MeasuredRun run_measured(const TempFolder& folder, const std::string& arguments) {
  const ProgramRun r = run_line(
      folder, "'" GRADUS_BUILD_DIR "/gradus_peak' .peak '" GRADUS_PROGRAM "' " + arguments);
  return {r, std::stol(slurp(folder / ".peak")) >> 10};
}

}  // namespace gradus::test
