// Computes a formula as it is printed: "y * (g - sum(g * y, dim=[1], keepdim=true))" with every op
// called by its name. An oracle for texts that say what was computed.
#pragma once
#include "ops/base/dtypes.hpp"
#include "ops/ops.hpp"
#include "ops/check/rows.hpp"

#include <cctype>
#include <cstdlib>
#include <map>
#include <string>

namespace gradus::inline v1::test {

class Formula {
 public:
  using Values = std::map<std::string, Tensors>;  // several: the results of one call
  // dtype: of what is made of nothing and does not say.
  Formula(const std::string& text, const Values& values, DType dtype)
      : text_(text), values_(values), dtype_(dtype) {}
  Tensors value() {
    Tensors v = sum();
    if (at_ != text_.size()) wrong("the end");
    return v;
  }

 private:
  [[noreturn]] void wrong(const char* wanted) const {
    fail(ErrorKind::value, "formula", "expected ", wanted, " at \"", text_.substr(at_), "\" of \"",
         text_, "\"");
  }
  void blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char c) {
    blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Tensors sum() {
    Tensors a = product();
    while (true)
      if (take('+'))
        a = {add(a.at(0), product().at(0))};
      else if (take('-'))
        a = {sub(a.at(0), product().at(0))};
      else
        return a;
  }
  Tensors product() {
    Tensors a = unary();
    while (true)
      if (take('*'))
        a = {mul(a.at(0), unary().at(0))};
      else if (take('/'))
        a = {div(a.at(0), real(unary().at(0)))};
      else
        return a;
  }
  Tensor real(const Tensor& t) const { return is_floating(t.dtype()) ? t : cast(t, DType::f64); }
  Tensors unary() {
    if (take('-')) return {neg(unary().at(0))};
    Tensors a = primary();
    while (take('[')) {
      a = {a.at(std::stoul(until("]")))};
      take(']');
    }
    return a;
  }
  std::string until(const char* ends) {
    const size_t begin = at_;
    at_ = std::min(text_.find_first_of(ends, at_), text_.size());
    return text_.substr(begin, at_ - begin);
  }
  std::string name() {
    const size_t begin = at_;
    while (at_ < text_.size() && (std::isalnum(text_[at_]) || text_[at_] == '_')) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  Tensors primary() {
    if (take('(')) {
      const Tensors v = sum();
      if (!take(')')) wrong(")");
      return v;
    }
    blanks();
    if (at_ < text_.size() && (std::isdigit(text_[at_]) || text_[at_] == '[')) return {numbers()};
    const std::string word = name();
    if (word.empty()) wrong("a name or a number");
    if (at_ < text_.size() && text_[at_] == '(') return call(word);
    if (word == "none") return {Tensor()};
    if (word == "inf") return {Tensor::full({}, HUGE_VAL, DType::f64)};
    if (word == "true" || word == "false") return {Tensor::full({}, word == "true", DType::bool_)};
    if (const auto v = values_.find(word); v != values_.end()) return v->second;
    wrong("a name that is known");
  }
  // A number or nested lists of them: all of them integers, or all real.
  Tensor numbers() {
    rows::Numbers flat;
    Shape sizes;
    bool whole = true, truth = false;
    read_numbers(0, sizes, flat, whole, truth);
    return rows::upload(flat, sizes,
                        truth   ? DType::bool_
                        : whole ? DType::i64
                                : DType::f64,
                        default_device());
  }
  void read_numbers(size_t depth, Shape& sizes, rows::Numbers& flat, bool& whole, bool& truth) {
    if (!take('[')) {
      blanks();
      const std::string text = until(",]) +*/");
      whole &= text.find_first_of(".einf") == std::string::npos;
      truth |= text == "true" || text == "false";
      if (text.back() == 'e' && std::isdigit(text[0]))
        return flat.push_back(std::strtod((text + until(",]) */")).c_str(), {}));
      flat.push_back(text == "true" ? 1 : std::strtod(text.c_str(), nullptr));
      return;
    }
    if (sizes.size() == depth) sizes.push_back(0);
    int64_t n = 0;
    do {
      read_numbers(depth + 1, sizes, flat, whole, truth);
      ++n;
    } while (take(','));
    if (!take(']')) wrong("]");
    sizes[depth] = n;
  }
  Tensors call(const std::string& word) {
    const OpInfo& op = get_op(word);
    Tensors operands;
    rows::NamedAttrs attrs;
    take('(');
    while (!take(')')) {
      blanks();
      const size_t begin = at_;
      const std::string attr = name();
      if (text_[at_] == '"') {  // an einsum's equation
        ++at_;
        attrs.emplace_back("equation", AttrValue(until("\"")));
        ++at_;
      } else if (!attr.empty() && text_[at_] == '=') {
        ++at_;
        const int i = op.attr_index(attr);
        if (i < 0) wrong("an attribute");
        attrs.emplace_back(attr, attr_value(op.attrs[size_t(i)].type));
      } else {
        at_ = begin;
        operands.push_back(sum().at(0));
      }
      take(',');
    }
    const bool named = std::any_of(attrs.begin(), attrs.end(),
                                   [](const auto& known) { return known.first == "dtype"; });
    if (op.operands.empty() && !named) attrs.emplace_back("dtype", AttrValue(dtype_));
    const Outputs out = op.call(operands, rows::attrs_of(op, attrs));
    return Tensors(out.begin(), out.end());
  }
  AttrValue attr_value(AttrValue::Type type) {
    using Type = AttrValue::Type;
    if (type == Type::integers && text_[at_] == '[') {
      SmallVector<int64_t, 6> list;
      ++at_;
      while (!take(']')) {
        list.push_back(std::atoll(until(",]").c_str()));
        take(',');
      }
      return list;
    }
    if (take('"')) {
      const std::string text = until("\"");
      ++at_;
      return AttrValue(text);
    }
    const std::string text = until(",)");
    if (type == Type::boolean) return text == "true";
    if (type == Type::dtype) return parse_dtype(text);
    if (type == Type::number) return std::strtod(text.c_str(), nullptr);
    return AttrValue(int64_t(std::atoll(text.c_str())));
  }

  const std::string text_;
  const Values& values_;
  DType dtype_;
  size_t at_ = 0;
};

}  // namespace gradus::test
