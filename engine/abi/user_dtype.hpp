// Users' element types: name, size, how one is printed, and the device kind that has kernels for
// it. Plain header: the reference kernels include it.
#pragma once
#include "engine/abi/dtype.hpp"

#include <string>

namespace gradus::inline v1 {

struct UserDType {
  std::string name;
  size_t size;
  std::string device;  // the kind that has kernels
  std::string (*text)(const void* element);
};
// A new code. At start-up, before other threads run ops. Error(value) if the name is taken.
DType add_dtype(UserDType type);
const UserDType& user_dtype(DType t);

}  // namespace gradus
