#include "cli/ops/op_example.hpp"

#include "bindings/lua/script.hpp"
#include "cli/frame/literal.hpp"
#include "engine/device/device.hpp"
#include "engine/graph.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/check/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace gradus::inline v1::cli {

namespace {

using rows::Case;
using rows::Row;

double rounded(double x, int digits) {
  char text[40];
  snprintf(text, sizeof text, "%.*g", digits, x);
  return std::strtod(text, nullptr);
}

Tensor rounded(const Tensor& t, int digits) {
  if (!is_floating(t.dtype())) return t;
  rows::Numbers numbers = rows::download(t);
  for (std::complex<double>& z : numbers)
    z = {rounded(z.real(), digits), rounded(z.imag(), digits)};
  return rows::upload(numbers, t.sizes(), t.dtype(), t.device());
}

bool all_finite(const NamedTensors& tensors) {
  for (const auto& [name, t] : tensors)
    if (is_floating(t.dtype()))
      for (const std::complex<double>& z : rows::download(t))
        if (!std::isfinite(z.real()) || !std::isfinite(z.imag())) return false;
  return true;
}

DType dtype_of(const Row& row) {
  const auto has = [&](unsigned dtypes) { return (row.dtypes & dtypes) != 0; };
  return row.dtypes == 0 || has(def::kReal) ? DType::f64
         : has(def::kComplex)               ? DType::c128
                                            : DType::i64;
}

// ---- which case

constexpr int64_t kElements = 8;  // of all operands together; about as many look well
int64_t total(const Case& c) {
  int64_t n = 0;
  for (const Shape& s : c.shapes) n += numel_of(s);
  return n;
}
// How far a case is from one that shows something on a line or two.
int64_t distance(const Row& row, const Case& c) {
  const bool empty = std::any_of(c.shapes.begin(), c.shapes.end(),
                                 [](const Shape& s) { return numel_of(s) == 0; });
  const bool scalars = !c.shapes.empty() && total(c) == int64_t(c.shapes.size());
  const bool wrong = row.dtypes != 0 && (c.dtypes & row.dtypes) == 0;
  size_t rank = 0;
  for (const Shape& s : c.shapes) rank = std::max(rank, s.size());
  return std::abs(total(c) - kElements) + (rank > 2 ? 6 * int64_t(rank - 2) : 0) +
         (empty || wrong ? 100000 : 0) + (c.slopes ? 0 : 1000) + (scalars ? 100 : 0) -
         int64_t(c.attrs.size());
}

// The row with its cases in the order of how well they serve, also with all axes cut to 3 and to 2:
// that fits most ops, and those that it does not fit say so when they run. Pointwise ops take any
// shape.
Row for_examples(const OpInfo& op) {
  Row row = rows::row_of(op.name);
  std::vector<Case> all = row.cases;
  for (const int64_t most : {3, 2})
    for (Case c : row.cases) {
      for (Shape& s : c.shapes)
        for (int64_t& n : s) n = std::min(n, most);
      c.extent = std::min(c.extent, most);
      all.push_back(c);
    }
  if (op.group == "pointwise" && !row.cases.empty()) {
    // The case with most attributes that are not the default: they show in the derivative.
    const auto most =
        std::max_element(row.cases.begin(), row.cases.end(), [](const Case& a, const Case& b) {
          return std::pair(a.slopes, a.attrs.size()) < std::pair(b.slopes, b.attrs.size());
        });
    all.insert(all.begin(), *most);
    for (Shape& s : all[0].shapes) s = {3};
  } else {
    std::stable_sort(all.begin(), all.end(), [&](const Case& a, const Case& b) {
      return distance(row, a) < distance(row, b);
    });
  }
  row.cases = std::move(all);
  return row;
}

// ---- the call as text

std::string quoted(const std::string& text) {
  return text.find_first_of(" []()*?&;|<>\\") == std::string::npos ? text : "\"" + text + "\"";
}
// As JSON's and Lua's numbers, with all digits.
std::string attr_text(const AttrValue& v, bool axis_from_one) {
  if (v.type == AttrValue::Type::number) {
    std::string text = join(v.number);
    char exact[40];
    if (std::strtod(text.c_str(), nullptr) != v.number)
      snprintf(exact, sizeof exact, "%.17g", v.number), text = exact;
    return text;
  }
  AttrValue moved = v;
  const auto move = [&](int64_t& n) { n += axis_from_one && n >= 0; };
  if (v.type == AttrValue::Type::integer) move(moved.integer);
  for (int64_t& n : moved.integers) move(n);
  std::string text = to_text(moved);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  return text;
}

std::string in_shell(const OpInfo& op, const OpExample& e) {
  std::string text = "gradus op " + op.name;
  const auto list = [&](const char* option, const NamedTensors& tensors) {
    if (!tensors.empty()) text += std::string(" ") + option;
    for (const auto& [name, t] : tensors) {
      const std::string numbers = literal(t, Brackets::square);
      // CLI11 would take a number below zero for an option.
      text += " " + quoted(numbers[0] == '-' ? " " + numbers : numbers);
    }
  };
  list("--in", e.inputs);
  for (const auto& [name, value] : e.attrs)
    text += " --attr " + quoted(name + "=" + attr_text(value, false));
  list("--cotangent", e.cotangents);
  if (op.group == "random") text += join(" --seed ", int64_t(rows::kCheckSeed));
  return text;
}

// Names that Lua keeps for itself, of those that ops and attributes have or may have.
bool is_keyword(const std::string& name) {
  constexpr const char* words[] = {"and", "end",    "for",    "function", "if",    "in",   "not",
                                   "or",  "repeat", "return", "then",     "until", "while"};
  return std::find(std::begin(words), std::end(words), name) != std::end(words);
}

std::string in_lua(const OpInfo& op, const OpExample& e) {
  std::string text, separator;
  for (const auto& [name, t] : e.inputs) {
    if (is_complex(t.dtype())) return "";
    const bool natural = t.dtype() == DType::i64 || t.dtype() == DType::bool_;
    text += separator + "gradus.tensor(" + literal(t, Brackets::curly) +
            (natural ? ")" : join(", {dtype = \"", dtype_name(t.dtype()), "\"})"));
    separator = ", ";
  }
  std::string named;
  const bool plain_size = op.name == "zeros" || op.name == "ones";  // Lua's own: zeros(2, 3)
  for (const auto& [name, value] : e.attrs) {
    const AttrSpec& spec = op.attrs[size_t(op.attr_index(name))];
    std::string v = attr_text(value, lua::is_axis(op, spec));
    if (spec.type == AttrValue::Type::text || spec.type == AttrValue::Type::dtype)
      v = "\"" + v + "\"";
    else if (v == "inf" || v == "-inf")
      v = v[0] == '-' ? "-math.huge" : "math.huge";
    else if (v[0] == '[')
      v = "{" + v.substr(1, v.size() - 2) + "}";
    if (plain_size && name == "size") {
      text = v.substr(1, v.size() - 2);
      separator = text.empty() ? "" : ", ";
      continue;
    }
    named +=
        (named.empty() ? "" : ", ") + (is_keyword(name) ? "[\"" + name + "\"]" : name) + " = " + v;
  }
  if (!named.empty()) text += separator + "{" + named + "}";
  return (op.group == "random" ? join("gradus.seed(", int64_t(rows::kCheckSeed), ") ") : "") +
         "print(gradus" + (is_keyword(op.name) ? "[\"" + op.name + "\"]" : "." + op.name) + "(" +
         text + "))";
}

// ---- running it

OpExample run(const OpInfo& op, const Row& row, size_t which, int digits, Device& device) {
  OpExample e;
  const Case& c = row.cases[which];
  for (const auto& [name, value] : c.attrs) {
    const int i = op.attr_index(name);
    if (i < 0 || to_text(op.attrs[size_t(i)].default_value) != to_text(value))
      e.attrs.emplace_back(name, value);
  }
  Tensors inputs, leaves;
  std::vector<std::string> names;
  for (const Tensor& drawn : rows::draw_inputs(row, which, dtype_of(row), device)) {
    Tensor t = rounded(drawn, digits);
    const std::string name = audit::operand_variable(op, inputs.size(), c.shapes.size());
    e.inputs.emplace_back(name, t.detach());
    if (op.differentiable && is_floating(t.dtype())) {
      leaves.push_back(t.set_requires_grad());
      names.push_back("d" + name);
    }
    inputs.push_back(t);
  }
  const Tensors y = rows::evaluate(op, inputs, rows::attrs_of(op, c.attrs), true);
  Tensors roots, seeds;
  for (size_t i = 0; i < y.size(); ++i) {
    e.outputs.emplace_back(audit::numbered("y", i, y.size()), y[i].detach());
    if (!is_floating(y[i].dtype())) continue;
    const Tensor drawn = rounded(
        rows::upload(rows::draw_direction(op.name, i, y[i].numel(), is_complex(y[i].dtype())),
                     y[i].sizes(), y[i].dtype(), device),
        2);
    const Tensor g = rows::cotangent_of(row, y[i], drawn);
    e.cotangents.emplace_back(audit::numbered("g", i, y.size()), g);
    if (!y[i].requires_grad()) continue;
    roots.push_back(y[i]);
    seeds.push_back(g);
  }
  if (roots.empty() || leaves.empty()) {
    e.cotangents.clear();
  } else {
    const Tensors g = grad(roots, leaves, seeds, {.materialize_grads = true});
    for (size_t k = 0; k < g.size(); ++k) e.gradients.emplace_back(names[k], g[k].detach());
  }
  e.shell = in_shell(op, e);
  e.lua = in_lua(op, e);
  return e;
}

}  // namespace

OpExample example_of(const OpInfo& op, Device& device) {
  const Row row = for_examples(op);
  const DeviceScope scope(device);
  std::optional<OpExample> first;
  for (size_t c = 0; c < row.cases.size(); ++c)
    for (const int digits : {3, 17}) {  // three may leave the op's domain
      try {
        OpExample e = run(op, row, c, digits, device);
        const bool empty = std::any_of(e.outputs.begin(), e.outputs.end(),
                                       [](const auto& y) { return y.second.numel() == 0; });
        if (!empty && all_finite(e.inputs) && all_finite(e.outputs) && all_finite(e.gradients))
          return e;
        if (!first) first = std::move(e);
      } catch (const Error&) {
        if (c + 1 == row.cases.size() && digits == 17 && !first) throw;
      }
    }
  if (!first) return run(op, row, 0, 17, device);
  return *first;
}

std::vector<std::string> shapes_of(const OpInfo& op, size_t most, Device& device) {
  const Row& row = rows::row_of(op.name);
  const DeviceScope scope(device);
  std::vector<std::string> out;
  for (size_t c = 0; c < row.cases.size() && out.size() < most; ++c) {
    if (distance(row, row.cases[c]) >= 100000) continue;
    std::string text;
    for (const Shape& s : row.cases[c].shapes) text += (text.empty() ? "" : ", ") + to_text(s);
    for (const auto& [name, value] : row.cases[c].attrs)
      text += join(text.empty() ? "" : " ", name, "=", attr_text(value, false));
    const std::vector<DType> dtypes = rows::dtypes_of_case(row, c);
    const DType dtype = std::find(dtypes.begin(), dtypes.end(), dtype_of(row)) != dtypes.end()
                            ? dtype_of(row)
                            : dtypes.front();
    const Tensors y = rows::evaluate(op, rows::draw_inputs(row, c, dtype, device),
                                     rows::attrs_of(op, row.cases[c].attrs));
    text += text.empty() ? "-> " : " -> ";
    for (size_t i = 0; i < y.size(); ++i) text += (i ? ", " : "") + to_text(y[i].sizes());
    if (std::find(out.begin(), out.end(), text) == out.end()) out.push_back(text);
  }
  return out;
}

}  // namespace gradus::cli
