// Which attributes of ops are axes: what examples say even where there is no Lua.
#include "bindings/lua/script.hpp"

#include <algorithm>

namespace gradus::inline v1::lua {

bool is_axis(const OpInfo& op, const AttrSpec& spec) {
  if (spec.name == "dims" && (op.name == "tensordot" || op.name == "tile"))
    return false;  // how many
  constexpr const char* names[] = {"dim",       "dims",        "dim0",      "dim1",      "dim2",
                                   "dimension", "dims_a",      "dims_b",    "start_dim", "end_dim",
                                   "source",    "destination", "left_dims", "classes"};
  return (spec.type == AttrValue::Type::integer || spec.type == AttrValue::Type::integers) &&
         std::find(std::begin(names), std::end(names), spec.name) != std::end(names);
}

}  // namespace gradus::lua
