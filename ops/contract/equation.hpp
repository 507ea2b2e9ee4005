// An einsum equation, read and bound to shapes: which axis of which operand carries which label.
// numpy's and PyTorch's syntax, spaces anywhere, "..." once per term; letters are a-z, A-Z and, as
// in opt_einsum, every UTF-8 character beyond ASCII. Every refusal is one Error with op "einsum".
// Knows nothing of tensors.
#pragma once
#include "engine/base/error.hpp"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace gradus::inline v1 {

// Within a bound equation a label is its letter's code point. The axes that an ellipsis stands for
// have labels too, counted from the right, since ellipses broadcast as numpy's shapes do:
// kEllipsisLabel + 0 is the last one. Labels that users write as numbers, any int32, stand above
// all others.
using Labels = SmallVector<int64_t, 6>;
inline constexpr int64_t kEllipsisLabel = int64_t(1) << 21;
inline constexpr int64_t kNumberLabel = int64_t(1) << 40;
constexpr bool is_number_label(int64_t label) { return label >= kNumberLabel - INT32_MAX - 1; }

// "label "b"", "label 7" or "axis -1 of the ellipsis", for messages; and "b" alone, of a letter.
std::string label_text(int64_t label);
std::string letter_text(int64_t code);

// What the text alone says.
struct Equation {
  struct Term {
    Labels letters;
    int ellipsis = -1;  // before which letter "..." stands; -1: there is none
    std::string text;   // as written, without spaces at its ends
  };
  std::string text;
  std::vector<Term> inputs;
  std::optional<Term> output;  // absent: implicit
};
// May a label stand in the output repeatedly? The result is 0 off its diagonal (ops/diagonal).
enum class RepeatedOutput { refused, allowed };
// Error(value): invalid character, malformed or doubled ellipsis, two arrows, output label repeated
// or in no input; each with its position in the text.
Equation parse_equation(std::string_view text, RepeatedOutput repeated = RepeatedOutput::refused);

// The equation with one label per axis and one extent per label. Error(shape) for extents that
// differ and for ranks that do not fit; Error(value) for a wrong number of operands. An ellipsis
// that the output leaves out is summed. Implicit output: the ellipsis, then the letters that occur
// once, sorted.
struct BoundEquation {
  std::vector<Labels> terms;
  Labels output;
  std::map<int64_t, int64_t> sizes;
};
BoundEquation bind_equation(const Equation& equation, const std::vector<Shape>& shapes);
// The same of numbers instead of letters: terms[k] has one for each axis of operand k. The same
// errors; Error(value) for a number beyond 32 bits.
BoundEquation bind_labels(std::vector<Labels> terms, std::optional<Labels> output,
                          const std::vector<Shape>& shapes,
                          RepeatedOutput repeated = RepeatedOutput::refused);
// The terms and the output of a bound equation, with other shapes.
BoundEquation bind_terms(std::vector<Labels> terms, std::optional<Labels> output,
                         const std::vector<Shape>& shapes,
                         RepeatedOutput repeated = RepeatedOutput::refused);

}  // namespace gradus
