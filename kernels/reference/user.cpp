#include "kernels/reference/user.hpp"

#include <map>

namespace gradus::inline v1::reference {

namespace {
std::map<DType, UserKernels>& all() {
  static auto* kernels = new std::map<DType, UserKernels>;
  return *kernels;
}
}  // namespace

void add_user_kernels(DType t, const UserKernels& kernels) { all()[t] = kernels; }

const UserKernels* find_user_kernels(DType t) {
  const auto found = all().find(t);
  return found == all().end() ? nullptr : &found->second;
}

const UserKernels& user(const Call& call, DType t) {
  const UserKernels* kernels = find_user_kernels(t);
  if (!kernels) call.refuse(GD_UNSUPPORTED, "dtype code %d has no kernel here", int(t));
  return *kernels;
}

}  // namespace gradus::reference
