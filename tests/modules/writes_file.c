/* A shared library that leaves a trace of having been opened: the file named by GRADUS_WITNESS. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((constructor)) static void opened(void) {
  const char* path = getenv("GRADUS_WITNESS");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (file) fclose(file);
}
