// The program itself: how long it takes to say its version, and how large it is.
#include "benches/bench.hpp"
#include "engine/base/error.hpp"

#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <sys/wait.h>
#include <unistd.h>

namespace gradus::inline v1::bench {

void run_program(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int nowhere = open("/dev/null", O_WRONLY);
    dup2(nowhere, 1), dup2(nowhere, 2);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) fail(ErrorKind::io, "bench", words[0], " does not run");
}

void program(Run& run) {
  if (!std::filesystem::exists(GRADUS_BENCH_PROGRAM)) {
    run.note("not built: " GRADUS_BENCH_PROGRAM);
    return;
  }
  run.compare({"gradus --version"},
              [] {
                run_program({GRADUS_BENCH_PROGRAM, "--version"});
              },
              {bound("limit", 10e-3)});

  const std::string stripped =
      std::filesystem::temp_directory_path() / ("gradus_stripped_" + std::to_string(getpid()));
  run_program({"strip", "-o", stripped, GRADUS_BENCH_PROGRAM});
  run.add({"gradus, stripped", 1, 0, "MiB"}, double(std::filesystem::file_size(stripped)), "limit",
          15.0 * 1048576, at_least(1));
  std::filesystem::remove(stripped);
}

}  // namespace gradus::bench
