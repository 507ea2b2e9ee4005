#include "engine/abi/user_dtype.hpp"

#include "engine/base/error.hpp"

#include <deque>

namespace gradus::inline v1 {

namespace {
std::deque<UserDType>& types() {
  static auto* all = new std::deque<UserDType>;
  return *all;
}
size_t place(DType t) { return size_t((int32_t(t) & ((1 << kUserSizeShift) - 1)) - GD_USER_DTYPE); }
}  // namespace

DType add_dtype(UserDType type) {
  for (int32_t t = 0; t < GD_DTYPE_COUNT; ++t)
    if (type.name == dtype_name(DType(t)))
      fail(ErrorKind::value, "add_dtype", "the name ", type.name, " is a built-in dtype\'s");
  for (const UserDType& other : types())
    if (other.name == type.name)
      fail(ErrorKind::value, "add_dtype", "a dtype ", type.name, " is there already");
  user_dtype_name = [](DType t) -> const char* {
    return place(t) < types().size() ? types()[place(t)].name.c_str() : "user";
  };
  types().push_back(std::move(type));
  return DType(GD_USER_DTYPE + int32_t(types().size() - 1) +
               (int32_t(types().back().size) << kUserSizeShift));
}

const UserDType& user_dtype(DType t) {
  if (!is_user(t) || place(t) >= types().size())
    fail(ErrorKind::internal, "user_dtype", "no dtype has code ", int64_t(t));
  return types()[place(t)];
}

}  // namespace gradus
