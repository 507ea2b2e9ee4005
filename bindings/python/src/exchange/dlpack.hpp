// DLPack 1.3's binary interface, as dmlc/dlpack's dlpack.h lays it down.
#pragma once
#include <cstdint>

namespace gradus::inline v1::py::dl {

struct Version {
  uint32_t major, minor;
};
inline constexpr Version kVersion{1, 3};
struct Device {
  int32_t type, id;
};
enum : int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kRocm = 10 };
struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};
enum : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
struct Array {
  void* data;
  Device device;
  int32_t ndim;
  DataType dtype;
  int64_t *shape, *strides;  // in elements; null strides: row-major
  uint64_t byte_offset;
};
struct Managed {  // in capsules "dltensor"
  Array array;
  void* context;
  void (*deleter)(Managed*);
};
enum : uint64_t { kReadOnly = 1, kIsCopied = 2 };
struct ManagedVersioned {  // in capsules "dltensor_versioned"
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Array array;
};
// type(x).__dlpack_c_exchange_api__, a capsule "dlpack_exchange_api". Functions give 0, or -1 with
// an exception of Python set; none waits for a device.
struct ExchangeTable {
  Version version;
  ExchangeTable* older;
  int (*allocate)(Array* like, ManagedVersioned** out, void* context,
                  void (*set_error)(void* context, const char* kind, const char* message));
  int (*from_object)(void* object, ManagedVersioned** out);
  int (*to_object)(ManagedVersioned* array, void** out);
  int (*view_object)(void* object, Array* out);
  int (*current_stream)(int32_t device_type, int32_t device_id, void** out);
};

}  // namespace gradus::py::dl
