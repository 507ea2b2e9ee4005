// How `gradus step` writes tensors: a row of text within the columns of a terminal, or JSON.
#pragma once
#include "cli/frame/events.hpp"
#include "engine/graph.hpp"

#include <iosfwd>

namespace gradus::inline v1::cli {

std::string type_of(const TensorMeta& m);  // "f32[64,10]"
std::string type_of(const Tensor& t);
// In lines of at most 80 columns, broken at spaces; later ones begin with four. Ends with a
// newline.
std::string fold(const std::string& text);
// "  left   f32[3]   norm 0.118  0.0016 -0.014 ...": as many elements as the line has room for.
// Of an undefined one `none`.
std::string row(const std::string& left, const Tensor& t, const char* none = "zero (nothing came)");
Event tensor_event(const Tensor& t);  // dtype, shape, norm, first elements

}  // namespace gradus::cli
