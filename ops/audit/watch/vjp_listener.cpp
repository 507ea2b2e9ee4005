// Values are known by the memory they lie in: operands, the result and cotangents have names, the
// rest was made by a call. What nothing with a name goes into is a constant, and is written as its
// numbers.
#include "ops/audit/watch/vjp_listener.hpp"

#include "ops/check/rows.hpp"

#include <algorithm>
#include <charconv>

namespace gradus::inline v1::audit {

namespace {

constexpr size_t kMostNumbers = 16;         // of a constant that is written in full
constexpr int64_t kMostElements = 1 << 20;  // of one that is looked at

std::string number_text(std::complex<double> z, DType dtype) {
  if (dtype == DType::bool_) return z.real() != 0 ? "true" : "false";
  if (is_floating(dtype) && !is_complex(dtype) && dtype != DType::f64) {
    char text[32];  // as few digits as tell it from other numbers of its dtype
    return {text, std::to_chars(text, text + sizeof text, float(z.real())).ptr};
  }
  if (z.imag() == 0) return join(z.real());
  return "(" + join(z.real()) + (z.imag() < 0 ? "" : "+") + join(z.imag()) + "i)";
}

// Nested lists; numbers that are not integers show it, so that the lists can be typed.
std::string lists_text(const Tensor& t, const rows::Numbers& values, size_t axis, size_t& at) {
  if (axis == t.sizes().size()) {
    const std::string text = number_text(values[at++], t.dtype());
    const bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
    return text + (whole && is_floating(t.dtype()) ? ".0" : "");
  }
  std::string text = "[";
  for (int64_t i = 0; i < t.sizes()[axis]; ++i)
    text += (i ? ", " : "") + lists_text(t, values, axis + 1, at);
  return text + "]";
}

// One number in all places; `as_number` says that it may stretch to any shape. None: too many.
std::optional<std::string> constant_text(const Tensor& t, bool as_number) {
  if (t.numel() > kMostElements) return {};
  const rows::Numbers values = rows::download(t);
  const auto differs = [&](const auto& v) { return v != values[0]; };
  if (!values.empty() && std::any_of(values.begin(), values.end(), differs)) {
    size_t at = 0;
    if (values.size() > kMostNumbers) return {};
    return lists_text(t, values, 0, at);
  }
  const std::complex<double> v = values.empty() ? 0 : values[0];
  if (as_number || t.is_number() || t.sizes().empty()) return number_text(v, t.dtype());
  std::string text = join("size=", to_text(AttrValue(t.sizes())));
  if (v != 0.0 && v != 1.0) text += ", fill_value=" + number_text(v, t.dtype());
  if (!is_floating(t.dtype())) text += join(", dtype=", dtype_name(t.dtype()));
  return (v == 0.0 ? "zeros(" : v == 1.0 ? "ones(" : "full(") + text + ")";
}

}  // namespace

void VjpListener::name(const Tensor& t, const std::string& as) { names_.push_back({t, as, -1}); }

void VjpListener::begin_vjp() {
  begin_ = calls_.size();
  int draws = 0;
  for (size_t i = 0; i < begin_; ++i)
    if (const Call& c = calls_[i]; random(c))
      names_.push_back({c.outputs[0], draws++ ? join("mask", draws) : "mask", int(i)});
}

VjpText VjpListener::text(const std::vector<std::pair<std::string, Tensor>>& results) {
  listening_.end();
  VjpText out;
  for (size_t i = begin_; i < calls_.size(); ++i) {
    if (copies(calls_[i])) continue;
    const auto known = std::find_if(out.ops.begin(), out.ops.end(), [&](const auto& known) {
      return known.first == calls_[i].op->name;
    });
    if (known == out.ops.end())
      out.ops.emplace_back(calls_[i].op->name, 1);
    else
      ++known->second;
  }
  for (const auto& [to, t] : results) count(t, calls_.size());
  if (uses_.size() > kMostTerms) return out;
  for (const auto& [to, t] : results) {
    const std::string text = t.defined() ? term(t, calls_.size(), false).text : "0";
    out.lines.insert(out.lines.end(), lines_.begin(), lines_.end());
    lines_.clear();
    out.lines.push_back(to + " = " + text);
  }
  return out;
}

bool VjpListener::same(const Tensor& a, const Tensor& b) {
  return !a.is_number() && !b.is_number() && &a.storage() == &b.storage() &&
         a.offset() == b.offset() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

bool VjpListener::copies(const Call& c) {
  return c.op->name == "clone" || c.op->name == "contiguous";
}

bool VjpListener::random(const Call& c) { return c.op->group == "random" && c.inputs.empty(); }

const VjpListener::Name* VjpListener::name_of(const Tensor& t) const {
  for (const Name& n : names_)
    if (same(n.tensor, t)) return &n;
  return nullptr;
}

std::pair<int, size_t> VjpListener::maker(const Tensor& t, size_t end) const {
  if (name_of(t)) return {-1, 0};
  for (size_t i = end; i-- > 0;)
    for (size_t k = 0; k < calls_[i].outputs.size(); ++k)
      if (same(calls_[i].outputs[k], t)) return {int(i), k};
  return {-1, 0};
}

bool VjpListener::constant(const Tensor& t, size_t end) {
  if (!t.defined()) return true;
  if (name_of(t)) return false;
  const int i = maker(t, end).first;
  if (i < 0) return true;
  if (const auto known = constants_.find(i); known != constants_.end()) return known->second;
  const Call& c = calls_[size_t(i)];
  return constants_[i] = std::all_of(c.inputs.begin(), c.inputs.end(),
                                     [&](const Tensor& x) { return constant(x, size_t(i)); });
}

std::optional<VjpListener::Term> VjpListener::constant_term(const Tensor& t, size_t end,
                                                            bool as_number) {
  if (!constant(t, end)) return {};
  const int i = maker(t, end).first;
  if (i >= 0 && calls_[size_t(i)].op->name == "div" && t.numel() == 1) return {};
  if (std::optional<std::string> text = constant_text(t, as_number)) return Term{*text};
  return i < 0 ? std::optional<Term>(Term{"constant" + to_text(t.sizes())}) : std::nullopt;
}

void VjpListener::count(const Tensor& t, size_t end) {
  if (!t.defined() || constant_term(t, end, true)) return;
  const int i = maker(t, end).first;
  if (i < 0) return;
  const Call& c = calls_[size_t(i)];
  if (!copies(c) && ++uses_[i] > 1) return;
  for (const Tensor& x : c.inputs) count(x, size_t(i));
}

VjpListener::Term VjpListener::term(const Tensor& t, size_t end, bool as_number) {
  if (!t.defined()) return {"none"};
  if (const Name* const name = name_of(t)) return named(*name);
  if (const std::optional<Term> number = constant_term(t, end, as_number)) return *number;
  const auto [i, which] = maker(t, end);
  const Call& c = calls_[size_t(i)];
  if (copies(c)) return term(c.inputs[0], size_t(i), as_number);
  const std::string part = c.outputs.size() > 1 ? join("[", which, "]") : "";
  if (const auto it = shared_.find(i); it != shared_.end()) return {it->second + part};
  Term made = call_term(c, size_t(i));
  if (uses_[i] < 2 && part.empty()) return made;
  shared_[i] = join("t", ++shared_terms_);
  lines_.push_back(shared_[i] + " = " + made.text);
  return {shared_[i] + part};
}

VjpListener::Term VjpListener::named(const Name& name) {
  if (name.drawn >= 0 && !shared_.contains(name.drawn)) {
    shared_[name.drawn] = name.as;
    const std::string made = call_term(calls_[size_t(name.drawn)], 0).text;
    lines_.push_back(name.as + " = " + made + ", as the call drew and saved it");
  }
  return {name.as};
}

VjpListener::Term VjpListener::call_term(const Call& c, size_t i) {
  const bool stretches = c.op->statement >= 0;
  const auto operand = [&](size_t k) { return term(c.inputs[k], i, stretches); };
  const std::string& name = c.op->name;
  if (c.inputs.size() == 2) {
    if (name == "add") return {operand(0).text + " + " + operand(1).text, Term::sum};
    if (name == "sub")
      return {operand(0).text + " - " + operand(1).within(Term::product), Term::sum};
    if (name == "mul")
      return {operand(0).within(Term::product) + " * " + operand(1).within(Term::product),
              Term::product};
    if (name == "div")
      return {operand(0).within(Term::product) + " / " + operand(1).within(Term::atom),
              Term::product};
  }
  if (name == "neg") return {"-" + operand(0).within(Term::product), Term::product};
  const bool contraction = name == "contract";
  std::string text = contraction ? "einsum(\"" + equation(c.attrs) + "\", " : name + "(";
  const size_t listed = contraction ? 2 : c.inputs.size();
  for (size_t k = 0; k < listed; ++k) text += (k ? ", " : "") + operand(k).text;
  for (size_t a = contraction ? 3 : 0; a < c.op->attrs.size() && a < c.attrs.size(); ++a) {
    const std::string attr = attr_text(c, a);
    if (!attr.empty()) text += (text.back() == '(' ? "" : ", ") + attr;
  }
  text += ")";
  if (contraction && c.inputs.size() > 2 && c.inputs[2].defined())
    return {text + " + " + operand(2).text, Term::sum};
  return {text};
}

std::string VjpListener::attr_text(const Call& c, size_t a) {
  const AttrSpec& spec = c.op->attrs[a];
  const AttrValue& v = c.attrs[a];
  const std::string text = to_text(v);
  if (v.is_none() || text == to_text(spec.default_value)) return "";
  if (v.type == AttrValue::Type::dtype && c.inputs.empty() && is_floating(v.dtype())) return "";
  return spec.name + "=" + (v.type == AttrValue::Type::text ? "\"" + text + "\"" : text);
}

std::string VjpListener::equation(const Attrs& attrs) {
  std::string text;
  for (size_t list = 0; list < 3; ++list) {
    text += list == 0 ? "" : list == 1 ? "," : "->";
    for (const int64_t label : attrs[list].integers) text += letter(label);
  }
  return text;
}

char VjpListener::letter(int64_t label) {
  if (const auto known = letters_.find(label); known != letters_.end()) return known->second;
  const bool is_letter = (label >= 'a' && label <= 'z') || (label >= 'A' && label <= 'Z');
  char c = is_letter ? char(label) : label >= 0 && label < 18 ? char('i' + label) : 'a';
  const auto taken = [&](const auto& known) { return known.second == c; };
  while (std::any_of(letters_.begin(), letters_.end(), taken))
    c = c == 'z' ? 'A' : c == 'Z' ? 'a' : char(c + 1);
  return letters_[label] = c;
}

}  // namespace gradus::audit
