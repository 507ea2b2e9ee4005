// Kernels of users' element types. user_scalar.hpp instantiates them from the templates of this
// folder; the slots look them up by dtype code.
#pragma once
#include "kernels/reference/fold.hpp"
#include "kernels/reference/places.hpp"
#include "kernels/reference/products.hpp"
#include "kernels/reference/statements/rows.hpp"

namespace gradus::inline v1::reference {

struct UserKernels {
  // to = the type's number for `re`; `whole` has its integer value where re was rounded. Refuses.
  void (*from_number)(double re, int64_t whole, void* to);
  void (*from_integers)(const int64_t* from, void* to, int64_t n);
  Row (*row)(int32_t statement);
  void (*reduce)(const Lines& lines, int32_t op);
  void (*scan)(int32_t op, const Layout& in, const Layout& out, int axis, bool from_end);
  void (*contract)(const ContractCall& call);
  void (*gather)(const Layout& in, const Layout& out, IndexLines& places, int axis);
  void (*scatter_add)(const Layout& source, const Layout& out, IndexLines& places, int axis);
};

void add_user_kernels(DType t, const UserKernels& kernels);  // at start-up
const UserKernels* find_user_kernels(DType t);               // null if there are none
const UserKernels& user(const Call& call, DType t);          // refuses if there are none

}  // namespace gradus::reference
