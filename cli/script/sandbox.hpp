// What a script is allowed, as it is typed; in bindings/lua/manual.md.
#pragma once
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct Sandbox {
  bool unsafe = false;                       // there is none
  std::vector<std::string> read{}, write{};  // folders, beside its own and the working one
  std::string memory{};                      // "50MiB"; "": 2 GiB in the sandbox, else no limit
};

}  // namespace gradus::cli
