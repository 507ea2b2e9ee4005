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

// Refuses files to write whose names say that they are of another format than they would be: those
// with another ending. Before anything is computed.
void check_endings(const std::vector<std::string>& files, std::string_view ending);

}  // namespace gradus::cli
