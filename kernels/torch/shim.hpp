// The part of libtorch's stable C interface that is used, as it is since 2.11, so that no libtorch
// is needed to build: torch/csrc/stable/c/shim.h and torch/csrc/inductor/aoti_torch/c/shim.h there.
#pragma once
#include <cstddef>
#include <cstdint>

namespace gradus::inline v1::torch {

// Opaque.
using TensorHandle = struct TensorStruct*;
using ListHandle = struct ListStruct*;
using StringHandle = struct StringStruct*;

// An argument or a result of an op: an integer, a double, a bool or a handle in 64 bits. None is 0;
// an optional that is there is the address of a Value, made with new_value, which the call frees.
using Value = uint64_t;

// The release whose interface is spoken: one byte each for major and minor.
inline constexpr uint64_t kTarget = uint64_t(2) << 56 | uint64_t(11) << 48;

// What returns an int32_t fails unless it is 0.
struct Shim {
  uint64_t (*version_number)();
  // The values of an op are taken, its results stand in their place and are the caller's.
  int32_t (*call)(const char* op, const char* overload, Value* stack, uint64_t built_for);
  // Without a deleter the memory stays the caller's. The index of the CPU is -1.
  int32_t (*from_blob)(void* data, int64_t rank, const int64_t* sizes, const int64_t* strides,
                       int64_t offset, int32_t dtype, int32_t device_type, int32_t device_index,
                       TensorHandle* out, int32_t layout, const uint8_t* metadata,
                       int64_t metadata_size, void (*deleter)(void*, void*), void* context);
  int32_t (*new_handle)(TensorHandle, TensorHandle* out);  // of the same tensor
  int32_t (*delete_tensor)(TensorHandle);
  // a - alpha b. Numbers that are no tensors are no Values.
  int32_t (*subtract)(TensorHandle a, TensorHandle b, double alpha, TensorHandle* out);
  int32_t (*new_list)(size_t room, ListHandle* out);
  int32_t (*push_back)(ListHandle, Value);
  int32_t (*delete_list)(ListHandle);
  int32_t (*new_string)(const char* text, size_t length, StringHandle* out);
  int32_t (*get_threads)(uint32_t* out);
  int32_t (*cpu)();
  int32_t (*strided)();
  int32_t (*row_major)();
  int32_t (*dtype[10])();  // by the codes of the kernel table
  // Since 2.13; null before.
  const char* (*last_error)();
  int32_t (*new_value)(Value** out);
};

}  // namespace gradus::torch
