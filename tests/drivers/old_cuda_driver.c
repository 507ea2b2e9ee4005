/* A driver of CUDA 12.4 as far as the run-time library asks it before it compares versions. */
#include <string.h>
static int version(int* v) {
  *v = 12040;
  return 0;
}
static int nothing(void) { return 3; }
static int find_v2(const char* name, void** p, int v, unsigned long long flags, int* status);
static int find(const char* name, void** p, int v, unsigned long long flags) {
  return find_v2(name, p, v, flags, 0);
}
static int find_v2(const char* name, void** p, int v, unsigned long long flags, int* status) {
  (void)flags;
  *p = strcmp(name, "cuDriverGetVersion") == 0 ? (void*)version
       : strcmp(name, "cuGetProcAddress") == 0 ? (v >= 12000 ? (void*)find_v2 : (void*)find)
                                               : (void*)nothing;
  if (status) *status = 0;
  return 0;
}
int cuDriverGetVersion(int* v) { return version(v); }
int cuInit(unsigned f) {
  (void)f;
  return 0;
}
int cuGetProcAddress_v2(const char* n, void** p, int v, unsigned long long f, int* s) {
  return find_v2(n, p, v, f, s);
}
int cuGetProcAddress(const char* n, void** p, int v, unsigned long long f) {
  return find(n, p, v, f);
}
int cuGetExportTable(const void** t, const void* id) {
  (void)id;
  *t = 0;
  return 500;
}
