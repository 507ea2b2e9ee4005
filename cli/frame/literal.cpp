#include "cli/frame/literal.hpp"

#include "cli/frame/events.hpp"
#include "engine/base/error.hpp"
#include "ops/ops.hpp"
#include "ops/check/rows.hpp"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::cli {

namespace {

using Json = nlohmann::json;

// Reads nested lists from left to right; every list of a depth has to be as long as the first.
class LiteralReader {
 public:
  explicit LiteralReader(std::string_view text) : text_(text) {}

  Tensor read(Device& device) {
    value(0);
    if (skip_spaces(); at_ < text_.size()) wrong("the end");
    if (complex_) return finish(DType::c128, device);
    if (real_ || numbers_.empty()) return finish(DType::f64, device);
    if (boolean_ && !whole_) return finish(DType::bool_, device);
    return Tensor::from(integers_, sizes_, device);
  }

 private:
  [[noreturn]] void wrong(const char* expected) const {
    fail(ErrorKind::value, text_.substr(0, 40), "expected ", expected, " at character ", at_ + 1,
         at_ < text_.size() ? join(", got \"", text_.substr(at_, 10), "\"") : std::string());
  }
  void skip_spaces() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void value(size_t depth) {
    skip_spaces();
    if (depth > 32) wrong("fewer lists within lists");
    if (take("[")) return list(depth);
    if (depth != sizes_.size()) wrong("a list, as before");
    closed_ = true;
    if (const bool yes = take("true"); yes || take("false")) {
      boolean_ = true;
      numbers_.emplace_back(yes);
      integers_.push_back(yes);
      return;
    }
    const size_t begin = at_;
    const double first = number();
    if (take("i")) return number(0, first);
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) {
      const double second = number();
      if (!take("i")) wrong("i, for a complex number");
      return number(first, second);
    }
    const std::string_view digits = text_.substr(begin, at_ - begin);
    int64_t n = 0;
    const char* const from = digits.data() + (digits[0] == '+');
    const auto [end, error] = std::from_chars(from, digits.data() + digits.size(), n);
    const bool whole = end == digits.data() + digits.size();
    if (whole && error != std::errc()) wrong("a number of 64 bits before");
    (whole ? whole_ : real_) = true;
    numbers_.emplace_back(first);
    integers_.push_back(n);
  }
  void number(double re, double im) {
    complex_ = true;
    numbers_.emplace_back(re, im);
    integers_.push_back(0);
  }
  double number() {
    double x = 0;
    const size_t begin = at_ < text_.size() && text_[at_] == '+' ? at_ + 1 : at_;
    const auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + text_.size(), x);
    if (error != std::errc()) wrong("a number, true, false or [");
    at_ = size_t(end - text_.data());
    return x;
  }

  void list(size_t depth) {
    const bool first = sizes_.size() == depth;
    if (first && closed_) wrong("a number, as before");
    if (first) sizes_.push_back(-1);
    int64_t n = 0;
    skip_spaces();
    if (!take("]"))
      for (;; skip_spaces()) {
        value(depth + 1);
        ++n;
        skip_spaces();
        if (take("]")) break;
        if (!take(",")) wrong(", or ]");
      }
    else
      closed_ = true;
    if (sizes_[depth] >= 0 && sizes_[depth] != n)
      fail(ErrorKind::value, text_.substr(0, 40), "lists of ", sizes_[depth], " and of ", n,
           " elements side by side");
    sizes_[depth] = n;
  }

  Tensor finish(DType dtype, Device& device) const {
    return rows::upload(numbers_, sizes_, dtype, device);
  }

  std::string_view text_;
  size_t at_ = 0;
  Shape sizes_;
  bool closed_ = false;  // is the number of axes known?
  bool real_ = false, whole_ = false, boolean_ = false, complex_ = false;
  rows::Numbers numbers_;
  std::vector<int64_t> integers_;
};

std::string_view unspaced(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::string shortest(double x) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, x).ptr;
  std::string out(text, end);
  // A real number stays one.
  return out.find_first_not_of("-0123456789") == std::string::npos ? out + ".0" : out;
}

std::string text_of_element(std::complex<double> x, DType dtype) {
  if (is_complex(dtype))
    return shortest(x.real()) + (std::signbit(x.imag()) ? "" : "+") + shortest(x.imag()) + "i";
  if (dtype == DType::bool_) return x.real() != 0 ? "true" : "false";
  return is_integer(dtype) ? join(int64_t(x.real())) : shortest(x.real());
}

// Every element, row-major.
std::vector<Json> elements(const Tensor& t) {
  std::vector<Json> out;
  if (t.dtype() == DType::i64) {
    for (const int64_t x : t.to_vector<int64_t>()) out.push_back(x);
    return out;
  }
  for (const std::complex<double>& x : rows::download(t)) {
    if (is_complex(t.dtype()))
      out.push_back(Json::array({number_event(x.real()), number_event(x.imag())}));
    else if (t.dtype() == DType::bool_)
      out.push_back(x.real() != 0);
    else if (is_integer(t.dtype()))
      out.push_back(int64_t(x.real()));
    else
      out.push_back(number_event(x.real()));
  }
  return out;
}

Json nested(const std::vector<Json>& values, const Shape& sizes, size_t axis, size_t& at) {
  if (axis == sizes.size()) return values[at++];
  Json list = Json::array();
  for (int64_t i = 0; i < sizes[axis]; ++i) list.push_back(nested(values, sizes, axis + 1, at));
  return list;
}

}  // namespace

bool is_literal(std::string_view text) {
  text = unspaced(text);
  if (text.empty()) return false;
  if (text[0] == '[') return true;
  double x = 0;
  const char* const end = text.data() + text.size();
  return std::from_chars(text.data() + (text[0] == '+'), end, x).ptr == end;
}

Tensor parse_literal(std::string_view text, Device& device) {
  return LiteralReader(unspaced(text)).read(device);
}

std::string literal(const Tensor& t, Brackets brackets) {
  const rows::Numbers numbers = rows::download(t.detach());
  const char *open = brackets == Brackets::square ? "[" : "{",
             *close = brackets == Brackets::square ? "]" : "}", *comma = ", ";
  if (brackets == Brackets::square) comma = ",";
  size_t at = 0;
  const std::function<std::string(size_t)> part = [&](size_t axis) -> std::string {
    if (axis == t.sizes().size()) return text_of_element(numbers[at++], t.dtype());
    std::string out = open;
    for (int64_t i = 0; i < t.size(int64_t(axis)); ++i) out += (i ? comma : "") + part(axis + 1);
    return out + close;
  };
  return part(0);
}

Json to_lists(const Tensor& t) {
  size_t at = 0;
  return nested(elements(t.detach()), t.sizes(), 0, at);
}

}  // namespace gradus::cli
