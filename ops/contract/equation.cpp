// Reading of einsum equations. The text is scanned once; positions in messages count its characters
// from 0. Shapes come second, so that a malformed text is refused whatever the operands are.
#include "ops/contract/equation.hpp"

#include "engine/base/text.hpp"

#include <algorithm>
#include <compare>

namespace gradus::inline v1 {

namespace {

// The letter that a text begins with, and its bytes; 0 bytes if it begins with none.
struct Letter {
  int64_t code;
  size_t bytes;
};
Letter letter_at(std::string_view text) {
  const size_t n = character_bytes(text);
  const auto byte = [&](size_t i) { return int64_t(static_cast<unsigned char>(text[i])); };
  if (n == 1) {
    const int64_t c = byte(0);
    return {c, (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ? n : 0};
  }
  int64_t code = n == 0 ? 0 : byte(0) & (0x7f >> n);
  for (size_t i = 1; i < n; ++i) code = code << 6 | (byte(i) & 0x3f);
  constexpr int64_t kNoBreakSpace = 0xa0;  // up to it controls and spaces
  return {code, code > kNoBreakSpace ? n : 0};
}

template <class... P>
[[noreturn]] void bad_value(const P&... parts) {
  fail(ErrorKind::value, "einsum", parts...);
}
template <class... P>
[[noreturn]] void bad_shape(const P&... parts) {
  fail(ErrorKind::shape, "einsum", parts...);
}

bool contains(const Labels& labels, int64_t label) {
  return std::find(labels.begin(), labels.end(), label) != labels.end();
}

std::string shown_character(std::string_view text) {
  const auto byte = static_cast<unsigned char>(text[0]);
  if (byte >= 32 && byte < 127) return {'\'', text[0], '\''};
  constexpr char kHex[] = "0123456789abcdef";
  return std::string("byte 0x") + kHex[byte >> 4] + kHex[byte & 15];
}

std::string count_text(size_t n, const char* noun) {
  return join(int64_t(n), " ", noun, n == 1 ? "" : "s");
}
std::string axes_text(size_t n) { return join(int64_t(n), n == 1 ? " axis" : " axes"); }

constexpr char kClassed[] =
    "; such a tensor, 0 off a diagonal, is made by einsum_classed (C++) or gradus.einsum (Lua)";

class Scanner {
 public:
  Scanner(std::string_view text, RepeatedOutput repeated) : text_(text), repeated_(repeated) {}

  Equation scan() {
    Equation equation;
    equation.text = text_;
    Equation::Term term;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      const std::string_view rest = text_.substr(at_);
      if (const Letter l = letter_at(rest); l.bytes > 0)
        letter(term, l);
      else if (c == '.')
        ellipsis(term);
      else if (c == ',')
        equation.inputs.push_back(close(term));
      else if (c == '-')
        arrow(equation, term);
      else if (c != ' ')
        bad_at("invalid character ", shown_character(rest), "; labels are letters");
    }
    if (in_output_) {
      equation.output = close(term);
      check_output(equation);
    } else {
      equation.inputs.push_back(close(term));
    }
    return equation;
  }

 private:
  std::string place() const {
    int64_t characters = 0;  // those before at_, by their first bytes
    for (const char c : text_.substr(0, at_)) characters += (c & 0xc0) != 0x80;
    return join(" (position ", characters, " of \"", text_, "\")");
  }
  template <class... P>
  [[noreturn]] void bad_at(const P&... parts) const {
    bad_value(parts..., place());
  }

  void letter(Equation::Term& term, Letter l) {
    if (in_output_) {
      if (repeated_ == RepeatedOutput::refused && contains(term.letters, l.code))
        bad_value("output ", label_text(l.code), " is repeated", place(), kClassed);
      output_positions_.push_back(int64_t(at_));
    }
    term.letters.push_back(l.code);
    at_ += l.bytes - 1;
  }
  void ellipsis(Equation::Term& term) {
    if (text_.substr(at_, 3) != "...") bad_at("malformed ellipsis: expected \"...\"");
    if (term.ellipsis >= 0) bad_at("a second ellipsis in one term");
    term.ellipsis = int(term.letters.size());
    at_ += 2;
  }
  void arrow(Equation& equation, Equation::Term& term) {
    if (text_.substr(at_, 2) != "->") bad_at("malformed arrow: expected \"->\"");
    if (in_output_) bad_at("a second arrow");
    equation.inputs.push_back(close(term));
    in_output_ = true;
    ++at_;
    term_start_ = at_ + 1;
  }
  // Takes the term that ends here and begins the next one.
  Equation::Term close(Equation::Term& term) {
    if (in_output_ && at_ < text_.size()) bad_at("a comma in the output");
    std::string_view written = text_.substr(term_start_, at_ - term_start_);
    while (!written.empty() && written.front() == ' ') written.remove_prefix(1);
    while (!written.empty() && written.back() == ' ') written.remove_suffix(1);
    term.text = written;
    term_start_ = at_ + 1;
    Equation::Term done = std::move(term);
    term = Equation::Term();
    return done;
  }
  void check_output(const Equation& equation) {
    for (size_t i = 0; i < equation.output->letters.size(); ++i) {
      const int64_t label = equation.output->letters[i];
      const bool known = std::any_of(equation.inputs.begin(), equation.inputs.end(),
                                     [&](const auto& t) { return contains(t.letters, label); });
      at_ = size_t(output_positions_[i]);
      if (!known) bad_at("output ", label_text(label), " is in no input");
    }
  }

  std::string_view text_;
  RepeatedOutput repeated_;
  size_t at_ = 0, term_start_ = 0;
  bool in_output_ = false;
  Labels output_positions_;  // where each letter of the output stands
};

// The labels of the axes of one operand.
Labels axis_labels(const Equation::Term& term, size_t ellipsis_rank) {
  Labels labels;
  const auto dots = [&] {
    for (size_t i = ellipsis_rank; i-- > 0;) labels.push_back(kEllipsisLabel + int64_t(i));
  };
  for (size_t i = 0; i < term.letters.size(); ++i) {
    if (int(i) == term.ellipsis) dots();
    labels.push_back(term.letters[i]);
  }
  if (term.ellipsis == int(term.letters.size())) dots();
  return labels;
}

Labels bind_term(const Equation::Term& term, const Shape& shape, size_t operand) {
  const size_t named = term.letters.size(), rank = shape.size();
  if (named > rank)
    bad_shape("operand ", int64_t(operand), " of shape ", shape, " has ", axes_text(rank),
              ", but its subscripts \"", term.text, "\" name ", int64_t(named));
  if (named < rank && term.ellipsis < 0)
    bad_shape("operand ", int64_t(operand), " of shape ", shape, " has ", axes_text(rank),
              ", but its subscripts \"", term.text, "\" name ", int64_t(named),
              "; add \"...\" for the others");
  return axis_labels(term, rank - named);
}

// One extent per label: equal within an operand, 1 or equal between operands.
class Extents {
 public:
  void add(const Labels& labels, const Shape& shape, size_t operand) {
    for (size_t axis = 0; axis < labels.size(); ++axis) {
      const int64_t label = labels[axis], extent = shape[axis];
      const size_t first = size_t(std::find(labels.begin(), labels.end(), label) - labels.begin());
      if (shape[first] != extent)
        bad_shape(label_text(label), " is ", shape[first], " and ", extent, " within operand ",
                  int64_t(operand), " (axes ", int64_t(first), " and ", int64_t(axis), " of ",
                  shape, ")");
      if (first == axis) met_.push_back({label, operand, extent});
    }
  }
  // Sorted, since a map of very many labels would be looked up at the pace of the memory.
  std::map<int64_t, int64_t> sizes() {
    std::sort(met_.begin(), met_.end());
    std::map<int64_t, int64_t> out;
    const Met *differs = nullptr, *from = nullptr;  // the first operand that does not fit
    for (auto begin = met_.begin(); begin != met_.end();) {
      const Met* one = &*begin;  // the first that is not 1, if any
      auto at = begin;
      for (; at != met_.end() && at->label == begin->label; ++at) {
        if (one->extent == 1) one = &*at;
        if (at->extent != 1 && at->extent != one->extent &&
            (!differs || at->operand < differs->operand))
          differs = &*at, from = one;
      }
      out.emplace_hint(out.end(), one->label, one->extent);
      begin = at;
    }
    if (differs)
      bad_shape(label_text(differs->label), " is ", from->extent, " in operand ",
                int64_t(from->operand), " and ", differs->extent, " in operand ",
                int64_t(differs->operand));
    return out;
  }

 private:
  struct Met {
    int64_t label;
    size_t operand;
    int64_t extent;
    auto operator<=>(const Met&) const = default;
  };
  std::vector<Met> met_;
};

Labels implicit_output(const std::vector<Labels>& terms) {
  std::map<int64_t, int> count;
  for (const Labels& term : terms)
    for (int64_t label : term) ++count[label];
  Labels output;
  const auto of_ellipsis = [](int64_t label) {
    return label >= kEllipsisLabel && !is_number_label(label);
  };
  for (auto it = count.rbegin(); it != count.rend(); ++it)
    if (of_ellipsis(it->first)) output.push_back(it->first);
  for (const auto& [label, n] : count)
    if (!of_ellipsis(label) && n == 1) output.push_back(label);
  return output;
}

// Numbers as users write them, as labels.
void take_numbers(Labels& labels) {
  for (int64_t& label : labels) {
    if (label < INT32_MIN || label > INT32_MAX) bad_value("labels have 32 bits, got ", label);
    label += kNumberLabel;
  }
}

}  // namespace

std::string letter_text(int64_t code) {
  const auto tail = [&](int shift) { return char(0x80 | (code >> shift & 0x3f)); };
  if (code < 0x80) return {char(code)};
  if (code < 0x800) return {char(0xc0 | code >> 6), tail(0)};
  if (code < 0x10000) return {char(0xe0 | code >> 12), tail(6), tail(0)};
  return {char(0xf0 | code >> 18), tail(12), tail(6), tail(0)};
}
std::string label_text(int64_t label) {
  if (is_number_label(label)) return join("label ", label - kNumberLabel);
  if (label < kEllipsisLabel) return join("label \"", letter_text(label), "\"");
  return join("axis ", kEllipsisLabel - label - 1, " of the ellipsis");
}

Equation parse_equation(std::string_view text, RepeatedOutput repeated) {
  return Scanner(text, repeated).scan();
}

BoundEquation bind_equation(const Equation& equation, const std::vector<Shape>& shapes) {
  if (shapes.empty()) bad_value("no operands: \"", equation.text, "\" needs at least one");
  if (shapes.size() != equation.inputs.size())
    bad_value(shapes.size() < equation.inputs.size() ? "fewer" : "more", " operands than terms: \"",
              equation.text, "\" has ", count_text(equation.inputs.size(), "term"), ", got ",
              count_text(shapes.size(), "operand"));
  BoundEquation bound;
  Extents extents;
  size_t ellipsis_rank = 0;
  for (size_t k = 0; k < shapes.size(); ++k) {
    bound.terms.push_back(bind_term(equation.inputs[k], shapes[k], k));
    ellipsis_rank = std::max(ellipsis_rank, shapes[k].size() - equation.inputs[k].letters.size());
  }
  for (size_t k = 0; k < shapes.size(); ++k) extents.add(bound.terms[k], shapes[k], k);
  bound.sizes = extents.sizes();
  bound.output =
      equation.output ? axis_labels(*equation.output, ellipsis_rank) : implicit_output(bound.terms);
  return bound;
}

BoundEquation bind_labels(std::vector<Labels> terms, std::optional<Labels> output,
                          const std::vector<Shape>& shapes, RepeatedOutput repeated) {
  for (Labels& term : terms) take_numbers(term);
  if (output) take_numbers(*output);
  return bind_terms(std::move(terms), std::move(output), shapes, repeated);
}

BoundEquation bind_terms(std::vector<Labels> terms, std::optional<Labels> output,
                         const std::vector<Shape>& shapes, RepeatedOutput repeated) {
  if (shapes.empty() || shapes.size() != terms.size())
    bad_value("labels for ", count_text(terms.size(), "operand"), ", got ",
              count_text(shapes.size(), "operand"));
  Extents extents;
  for (size_t k = 0; k < shapes.size(); ++k) {
    if (terms[k].size() != shapes[k].size())
      bad_shape("operand ", int64_t(k), " of shape ", shapes[k], " has ",
                axes_text(shapes[k].size()), " and ", count_text(terms[k].size(), "label"));
    extents.add(terms[k], shapes[k], k);
  }
  BoundEquation bound{std::move(terms), {}, extents.sizes()};
  bound.output = output ? *std::move(output) : implicit_output(bound.terms);
  for (size_t i = 0; i < bound.output.size(); ++i) {
    const int64_t label = bound.output[i];
    if (!bound.sizes.contains(label)) bad_value("output ", label_text(label), " is in no operand");
    if (repeated == RepeatedOutput::refused &&
        std::find(&bound.output[i] + 1, bound.output.end(), label) != bound.output.end())
      bad_value("output ", label_text(label), " is repeated", kClassed);
  }
  return bound;
}

}  // namespace gradus
