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

// Runs the program in `folder`, with `environment` such as "GRADUS_ISA=sse2".
inline ProgramRun run(const TempFolder& folder, const std::string& arguments,
                      const std::string& environment = "") {
  const std::string out = folder / ".out", err = folder / ".err";
  const int status =
      std::system(("cd '" + folder.path() + "' && env -u GRADUS_DEVICE " + environment + " '" +
                   GRADUS_PROGRAM + "' " + arguments + " >'" + out + "' 2>'" + err + "'")
                      .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
}

}  // namespace gradus::test
