// peak FILE COMMAND...: runs the command, writes the most memory that it had resident (KiB) to the
// file, and ends as it did. A program of its own, since a process begins with the peak of the one
// that it was made from: that of the tests would hide any other.
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const pid_t child = fork();
  if (child == 0) {
    execv(argv[2], argv + 2);
    _exit(127);
  }
  int status = 0;
  struct rusage used;
  if (child < 0 || wait4(child, &status, 0, &used) < 0) return 126;
  FILE* const file = fopen(argv[1], "w");
  if (!file) return 126;
  fprintf(file, "%ld\n", used.ru_maxrss);
  fclose(file);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
