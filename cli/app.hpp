// The command line: reads arguments, starts the house, runs one command, and turns every error into
// one line and an exit code.
#pragma once
#include "engine/base/error.hpp"

#include <exception>
#include <iosfwd>

namespace gradus::inline v1::cli {

// 0 done, 1 a defect of gradus, 2 wrong usage or config, 3 file, 4 device, 5 numeric failure or
// memory limit, 130 interrupted.
int exit_code(ErrorKind kind);
const char* kind_name(ErrorKind kind);

int run_app(int argc, char** argv, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
