// Whole texts or nothing: "2x" is no number, and a NaN is no attribute.
#include "cli/frame/parse.hpp"

#include "ops/base/dtypes.hpp"
#include "ops/check/rows.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>

namespace gradus::inline v1::cli {

namespace {

template <class T>
bool whole(std::string_view text, T& value) {
  if (!text.empty() && text[0] == '+') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string_view trimmed(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

// "[0, 2]", "(0,2)", "0,2", "3", "[]"
bool integers(std::string_view text, SmallVector<int64_t, 6>& out) {
  if (text.size() >= 2 &&
      ((text.front() == '[' && text.back() == ']') || (text.front() == '(' && text.back() == ')')))
    text = trimmed(text.substr(1, text.size() - 2));
  while (!text.empty()) {
    const size_t comma = text.find(',');
    int64_t value = 0;
    if (!whole(trimmed(text.substr(0, comma)), value)) return false;
    out.push_back(value);
    if (comma == std::string_view::npos) break;
    text = trimmed(text.substr(comma + 1));  // a comma may end the list, as in Python
  }
  return true;
}

bool boolean(std::string_view text, bool& out) {
  for (const char* yes : {"true", "True", "1", "yes"})
    if (text == yes) return out = true, true;
  for (const char* no : {"false", "False", "0", "no"})
    if (text == no) return out = false, true;
  return false;
}

AttrValue parse_value(const OpInfo& op, const AttrSpec& spec, std::string_view text) {
  using Type = AttrValue::Type;
  const auto wrong = [&](const char* expected) {
    fail(ErrorKind::value, op.name, "attribute ", spec.name, " is ", expected, ", got \"", text,
         "\"");
  };
  if (spec.optional && (text == "none" || text == "None")) return {};
  switch (spec.type) {
    case Type::integer: {
      int64_t value = 0;
      if (!whole(text, value)) wrong("a whole number");
      return value;
    }
    case Type::number: {
      double value = 0;
      if (!whole(text, value) || value != value) wrong("a number (inf and -inf are fine)");
      if (int64_t n = 0; whole(text, n) && !is_exact(n)) wrong("a number that a double holds");
      return value;
    }
    case Type::boolean: {
      bool value = false;
      if (!boolean(text, value)) wrong("true or false");
      return value;
    }
    case Type::integers: {
      SmallVector<int64_t, 6> value;
      if (!integers(text, value)) wrong("a list of whole numbers such as [0,2]");
      return value;
    }
    case Type::dtype:
      return parse_dtype(std::string(text));
    case Type::text:
      return text;
    case Type::none:
      break;
  }
  wrong("never given");
  return {};
}

}  // namespace

Attrs parse_attrs(const OpInfo& op, const std::vector<std::string>& assignments) {
  rows::NamedAttrs named;
  for (const std::string& text : assignments) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      fail(ErrorKind::value, op.name, "--attr takes key=value, got \"", text, "\"");
    const std::string key = text.substr(0, equals);
    const int i = op.attr_index(key);
    const std::string_view value = trimmed(std::string_view(text).substr(equals + 1));
    // A name that the op has not is reported by attrs_of, with the nearest one.
    named.emplace_back(key, i < 0 ? AttrValue() : parse_value(op, op.attrs[size_t(i)], value));
  }
  const bool known = std::all_of(named.begin(), named.end(),
                                 [&](const auto& n) { return op.attr_index(n.first) >= 0; });
  for (const AttrSpec& spec : op.attrs)
    if (known && spec.default_value.is_none() && !spec.optional &&
        std::none_of(named.begin(), named.end(),
                     [&](const auto& n) { return n.first == spec.name; }))
      fail(ErrorKind::value, op.name, "attribute ", spec.name, " must be given: --attr ", spec.name,
           "=... (", spec.doc, ")");
  return rows::attrs_of(op, named);
}

func::MappedDims parse_in_dims(const OpInfo& op, const std::string& text, size_t operands) {
  func::MappedDims dims;
  std::istringstream in(text);
  for (std::string word; std::getline(in, word, ',');) {
    int64_t axis = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), axis);
    const bool number = error == std::errc() && end == word.data() + word.size();
    if (!number && word != "none")
      fail(ErrorKind::value, op.name, "--in-dims takes an axis or none for each operand, as in ",
           "0,none; got \"", word, "\"");
    dims.push_back(number ? std::optional(axis) : func::kNone);
  }
  if (dims.size() != operands)
    fail(ErrorKind::value, op.name, "--in-dims names ", int64_t(dims.size()), " axes for ",
         int64_t(operands), operands == 1 ? " operand" : " operands");
  return dims;
}

void check_endings(const std::vector<std::string>& files, std::string_view ending) {
  for (const std::string& file : files)
    if (const std::string said = std::filesystem::path(file).extension();
        !said.empty() && said != ending)
      fail(ErrorKind::config, file, "should end in ", ending, ": ",
           ending == ".npy" ? "an array is" : "block tensors are", " written");
}

}  // namespace gradus::cli
