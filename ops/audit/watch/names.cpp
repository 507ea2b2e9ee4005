// Names.
#include "ops/audit/watch/names.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace gradus::inline v1::audit {

namespace {
// The last one may stand for a list.
const OperandSpec& spec_of(const OpInfo& op, size_t k) {
  return op.operands[std::min(k, op.operands.size() - 1)];
}
}  // namespace

std::string operand_name(const OpInfo& op, size_t k, const char* unnamed) {
  return op.operands.empty() ? join(unnamed, k) : spec_of(op, k).name;
}

std::string operand_label(const OpInfo& op, size_t k) {
  const std::string name = operand_name(op, k);
  return op.operands.empty() || !spec_of(op, k).variadic
             ? name
             : join(name, "[", k + 1 - op.operands.size(), "]");
}

std::string operand_variable(const OpInfo& op, size_t k, size_t count) {
  const OperandSpec& spec = spec_of(op, k);
  return spec.variadic && count > op.operands.size() ? join(spec.name, k + 1 - op.operands.size())
                                                     : spec.name;
}

std::string numbered(const char* name, size_t i, size_t count) {
  return count == 1 ? name : join(name, i);
}

std::string output_name(const char* node, int id, int output, size_t outputs) {
  return outputs > 1 ? join(node, id, ".", output) : join(node, id);
}

std::vector<std::string> places_of(std::string_view trace) {
  std::vector<std::string> places;
  while (!trace.empty()) {
    const size_t end = std::min(trace.find(", "), trace.size());
    places.emplace_back(trace.substr(0, end));
    trace.remove_prefix(std::min(end + 2, trace.size()));
  }
  return places;
}

std::string digits(double x, int n) {
  char text[40];
  snprintf(text, sizeof text, "%.*g", n, std::isnan(x) ? NAN : x);
  return text;
}

}  // namespace gradus::audit
