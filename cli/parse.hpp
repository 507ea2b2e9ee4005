// Text that people type on the command line as values of an op: attributes and dtypes.
#pragma once
#include "engine/op_info.hpp"

#include <string>
#include <vector>

namespace gradus::cli {

// "dim=[0,2]" and the like by the op's AttrSpecs, defaults filled in. Error(value) says what was
// expected, or the nearest name.
Attrs parse_attrs(const OpInfo& op, const std::vector<std::string>& assignments);
// "f32", also "float32", "complex64", "int64", ...; Error(value) with the nearest name.
DType parse_dtype(const std::string& name);

}  // namespace gradus::cli
