// How operands, nodes, places and numbers are called in what people read.
#pragma once
#include "engine/op_info.hpp"

#include <string>
#include <vector>

namespace gradus::inline v1::audit {

// "a"; all of a list have its name. `unnamed`: what stands before the number where an op names
// none.
std::string operand_name(const OpInfo& op, size_t k, const char* unnamed = "operand ");
std::string operand_label(const OpInfo& op, size_t k);  // the same; of a list, "tensors[1]"
// As formulas have it, in a call of `count` operands; of a list of several, "tensors1".
std::string operand_variable(const OpInfo& op, size_t k, size_t count);
std::string numbered(const char* name, size_t i, size_t count);  // "y"; of several, "y0"
std::string output_name(const char* node, int id, int output, size_t outputs);  // "%7", or "%7.1"

// The open Traces of a node or call, outermost first.
std::vector<std::string> places_of(std::string_view trace);

// So many significant digits; a NaN without a sign.
std::string digits(double x, int n);

}  // namespace gradus::audit
