#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <vector>

namespace gradus::inline v1 {

Error::Error(ErrorKind kind, std::string op, std::string message)
    : kind_(kind),
      op_(printable(op)),
      message_(printable(message)),
      what_(op_.empty() ? message_ : op_ + ": " + message_) {}

std::string to_text(const Shape& shape) {
  std::string s = "(";
  for (size_t i = 0; i < shape.size(); ++i) s += (i ? ", " : "") + std::to_string(shape[i]);
  return s + (shape.size() == 1 ? ",)" : ")");
}

namespace detail {
void append(std::string& out, std::string_view s) { out += s; }
void append(std::string& out, const Shape& s) { out += to_text(s); }
void append(std::string& out, DType t) { out += dtype_name(t); }
void append(std::string& out, int64_t n) { out += std::to_string(n); }
void append(std::string& out, double x) {
  if (x != x) {  // to_chars would keep NaN's sign
    out += "nan";
    return;
  }
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, x).ptr;
  out.append(buffer, end);
}
}  // namespace detail

size_t edit_distance(std::string_view a, std::string_view b) {
  if (std::max(a.size(), b.size()) > 1000) return std::max(a.size(), b.size());  // no name
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t changed = std::exchange(diagonal, row[j]) + (a[i - 1] != b[j - 1]);
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, changed});
    }
  }
  return row[b.size()];
}

}  // namespace gradus
