// What the fakes of vendors' libraries share: numbers of any type, objects that know whether they
// were destroyed, and what a test may ask and order through the exported `gradus_fake`.
#pragma once
#include "engine/abi/dtype.hpp"
#include "kernels/gpu/libraries/types.hpp"

#include <complex>
#include <cstddef>
#include <cstdint>

struct FakeState {
  int handles, plans, runs, live;        // made; made; done; objects that are not destroyed
  int wrong;                             // calls with a wrong argument, ...
  char first_wrong[200];                 // ... and what was wrong with the first
  int compute;                           // of the last plan
  int64_t workspace_wanted;              // orders: bytes that plans say they need,
  int fail_create, fail_plan, fail_run;  // a status for every such call, 0: none
};
extern "C" __attribute__((visibility("default"))) FakeState gradus_fake;

namespace fake {

using Wide = std::complex<double>;
using namespace gradus::gpu;

inline size_t bytes_of(int type) {
  return type == kC64F                     ? 16
         : type == kR64F || type == kC32F  ? 8
         : type == kR16F || type == kR16BF ? 2
                                           : 4;
}
inline Wide load(const void* data, int64_t at, int type) {
  switch (type) {
    case kR64F:
      return static_cast<const double*>(data)[at];
    case kR16F:
      return double(float(static_cast<const gradus::Half*>(data)[at]));
    case kR16BF:
      return double(float(static_cast<const gradus::BFloat16*>(data)[at]));
    case kC32F:
      return static_cast<const std::complex<float>*>(data)[at];
    case kC64F:
      return static_cast<const Wide*>(data)[at];
    default:
      return double(static_cast<const float*>(data)[at]);
  }
}
inline void store(void* data, int64_t at, int type, Wide x) {
  switch (type) {
    case kR64F:
      static_cast<double*>(data)[at] = x.real();
      return;
    case kR16F:
      static_cast<gradus::Half*>(data)[at] = gradus::Half(float(x.real()));
      return;
    case kR16BF:
      static_cast<gradus::BFloat16*>(data)[at] = gradus::BFloat16(float(x.real()));
      return;
    case kC32F:
      static_cast<std::complex<float>*>(data)[at] = std::complex<float>(x);
      return;
    case kC64F:
      static_cast<Wide*>(data)[at] = x;
      return;
    default:
      static_cast<float*>(data)[at] = float(x.real());
  }
}

constexpr int kInvalidValue = 7;
// Says what is wrong with a call, once.
int wrong(const char* what);

// Remembers a destroyed object, for leak checkers.
void bury(void* object);
// An object that stays in memory after its end, so that a use after it is seen.
struct Object {
  bool alive = true;
  Object() { ++gradus_fake.live; }
};
template <class T>
bool alive(T* object) {
  return object && reinterpret_cast<Object*>(object)->alive;
}
template <class T>
int destroy(T* object) {
  if (!alive(object)) return wrong("an object destroyed twice");
  reinterpret_cast<Object*>(object)->alive = false;
  bury(object);
  --gradus_fake.live;
  return 0;
}
template <class T>
bool aligned(const T* data, uint64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % bytes == 0;
}

}  // namespace fake

#define EXPORTED extern "C" __attribute__((visibility("default")))
