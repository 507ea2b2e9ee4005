// The program itself: how long it takes to say its version, and how large it is.
#include "benches/bench.hpp"
#include "engine/base/error.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

namespace gradus::inline v1::bench {
namespace {

void start(const char* const* argv) {
  const pid_t child = fork();
  if (child == 0) {
    dup2(open("/dev/null", O_WRONLY), 1);
    execvp(argv[0], const_cast<char* const*>(argv));
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) fail(ErrorKind::io, "bench", argv[0], " does not run");
}

}  // namespace

void program(Run& run) {
  if (!std::filesystem::exists(GRADUS_BENCH_PROGRAM)) {
    run.note("not built: " GRADUS_BENCH_PROGRAM);
    return;
  }
  const char* const version[] = {GRADUS_BENCH_PROGRAM, "--version", nullptr};
  run.compare({"gradus --version"}, [&] { start(version); }, {bound("limit", 10e-3)});

  const std::string stripped =
      std::filesystem::temp_directory_path() / ("gradus_stripped_" + std::to_string(getpid()));
  const char* const strip[] = {"strip", "-o", stripped.c_str(), GRADUS_BENCH_PROGRAM, nullptr};
  start(strip);
  run.add({"gradus, stripped", 1, 0, "MiB"}, double(std::filesystem::file_size(stripped)), "limit",
          15.0 * 1048576, at_least(1));
  std::filesystem::remove(stripped);
}

}  // namespace gradus::bench
