// What a gradus_op handle names.
#pragma once
#include "bindings/c/door.hpp"

namespace gradus::inline v1::c {

struct Callee : Object {
  explicit Callee(const OpInfo& o)
      : op(o),
        least(o.least_operands()),
        most(!o.operands.empty() && o.operands.back().variadic ? SIZE_MAX : o.operands.size()) {}
  const OpInfo& op;
  const size_t least, most;  // operands
  // Of a function of the caller's: the attribute that tells the op which one it is.
  Attrs fixed;
  bool takes_none() const { return !fixed.empty() || op.attrs.empty(); }  // from who calls
};

}  // namespace gradus::c
