// Text that people type on the command line as values of an op: attributes, axes of vmap.
#pragma once
#include "engine/op_info.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/transforms/func.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace gradus::inline v1::cli {

// "dim=[0,2]" and the like by the op's AttrSpecs, defaults filled in. Error(value) says what was
// expected, or the nearest name.
Attrs parse_attrs(const OpInfo& op, const std::vector<std::string>& assignments);

// "0,none,-1": an axis or none for each operand.
func::MappedDims parse_in_dims(const OpInfo& op, const std::string& text, size_t operands);

// Refuses a file to write whose name says that it is of another format than it would be: one with
// another ending. "-" drops a result.
void check_ending(const char* option, const std::string& file, std::string_view ending);

}  // namespace gradus::cli
