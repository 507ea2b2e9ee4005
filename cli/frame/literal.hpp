// Tensors as people type them, "[[1, 2], [3, 4.5]]", and as programs read them, in JSON.
#pragma once
#include "engine/tensor.hpp"

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace gradus::inline v1::cli {

// Does a text begin as a literal, and not as the name of a file? By "[", or by being a number.
bool is_literal(std::string_view text);
// Nested lists of numbers: all whole i64, all true or false bool, one with "i" (1+2i) c128, else
// f64. Error(value) with the place of what is wrong.
Tensor parse_literal(std::string_view text, Device& device);

// The text that gives this tensor back, its elements printed with all their digits: for
// parse_literal, or as Lua's tables (complex numbers have none).
enum class Brackets { square, curly };
std::string literal(const Tensor& t, Brackets brackets);

// Nested lists, as numpy's tolist(): i64 exact, complex [re, im], "NaN" and "Infinity" as text.
nlohmann::json to_lists(const Tensor& t);

}  // namespace gradus::cli
