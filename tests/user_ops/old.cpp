// A library of ops of another version, which must be refused.
#include <cstdint>

extern "C" __attribute__((visibility("default"))) const uint64_t gradus_ops_stamp = uint64_t(999)
                                                                                    << 32;
extern "C" __attribute__((visibility("default"))) void gradus_register_ops() {}
