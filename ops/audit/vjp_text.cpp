// A vjp is made of ops, so to listen to it is to read it. Values are known by the memory they lie
// in: operands, the result and cotangents have names, the rest was made by a call.
#include "ops/audit/vjp_text.hpp"

#include "engine/random.hpp"
#include "ops/audit/watch.hpp"
#include "ops/def/fingerprint.hpp"
#include "ops/rows/rows.hpp"

#include <algorithm>
#include <map>

namespace gradus::audit {

namespace {

std::vector<std::string> slopes_of(const OpInfo& op) {
  std::vector<std::string> out;
  const def::StatementText& s = def::statement_info(op.statement);
  for (size_t k = 0; k < s.slopes.size(); ++k)
    if (!s.slopes[k].empty()) out.push_back("dy/d" + s.operands[k] + " = " + s.slopes[k]);
  return out;
}

// A text and how tightly it binds.
struct Term {
  enum Level { sum, product, atom };
  std::string text;
  Level level = atom;
  std::string within(Level least) const { return level < least ? "(" + text + ")" : text; }
};

class Listener {
 public:
  Listener()
      : listener_([this](const OpContext& c, GradFn*) {
          calls_.push_back({&c.op, Tensors(c.inputs.begin(), c.inputs.end()),
                            Tensors(c.outputs.begin(), c.outputs.end())});
        }),
        outer_(std::exchange(call_listener, &listener_)) {}
  ~Listener() { call_listener = outer_; }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  void name(const Tensor& t, const std::string& as) { names_.emplace_back(t, as); }
  // "dx = ..." for each of these, behind what they share.
  std::vector<std::string> formulas(const std::vector<std::pair<std::string, Tensor>>& results) {
    call_listener = outer_;
    for (const auto& [to, t] : results) count(t, calls_.size());
    if (uses_.size() > kMostTerms) return {};
    std::vector<std::string> out;
    for (const auto& [to, t] : results) {
      const std::string text = term(t, calls_.size()).text;
      out.insert(out.end(), lines_.begin(), lines_.end());
      lines_.clear();
      out.push_back(to + " = " + text);
    }
    return out;
  }

 private:
  struct Call {
    const OpInfo* op;
    Tensors inputs, outputs;
  };
  static bool same(const Tensor& a, const Tensor& b) {
    return !a.is_number() && !b.is_number() && &a.storage() == &b.storage() &&
           a.offset() == b.offset() && a.sizes() == b.sizes() && a.strides() == b.strides();
  }
  const std::string* name_of(const Tensor& t) const {
    for (const auto& [known, as] : names_)
      if (same(known, t)) return &as;
    return nullptr;
  }
  // The last call before `end` that made this value: its number and which output; -1: none did, or
  // the value has a name.
  std::pair<int, size_t> maker(const Tensor& t, size_t end) const {
    if (name_of(t)) return {-1, 0};
    for (size_t i = end; i-- > 0;)
      for (size_t k = 0; k < calls_[i].outputs.size(); ++k)
        if (same(calls_[i].outputs[k], t)) return {int(i), k};
    return {-1, 0};
  }
  static bool copies(const Call& c) { return c.op->name == "clone"; }

  void count(const Tensor& t, size_t end) {
    if (!t.defined()) return;
    const int i = maker(t, end).first;
    if (i < 0) return;
    const Call& c = calls_[size_t(i)];
    if (!copies(c) && ++uses_[i] > 1) return;
    for (const Tensor& x : c.inputs) count(x, size_t(i));
  }

  Term leaf(const Tensor& t) const {
    if (const std::string* const name = name_of(t)) return {*name};
    const rows::Numbers values = rows::download(t);
    const auto differs = [&](const auto& v) { return v != values[0]; };
    if (values.empty() || values[0].imag() != 0 ||
        std::any_of(values.begin(), values.end(), differs))
      return {"constant"};
    return {join(values[0].real())};
  }
  Term term(const Tensor& t, size_t end) {
    if (!t.defined()) return {"none"};
    const auto [i, which] = maker(t, end);
    if (i < 0) return leaf(t);
    const Call& c = calls_[size_t(i)];
    if (copies(c)) return term(c.inputs[0], size_t(i));
    const std::string part = c.outputs.size() > 1 ? join("[", which, "]") : "";
    if (const auto it = shared_.find(i); it != shared_.end()) return {it->second + part};
    Term made = written(c, size_t(i));
    const bool whole = c.inputs.empty();  // zeros(): as short as its name
    if ((uses_[i] < 2 && part.empty()) || whole) return made;
    shared_[i] = join("t", shared_.size() + 1);
    lines_.push_back(shared_[i] + " = " + made.text);
    return {shared_[i] + part};
  }
  Term written(const Call& c, size_t i) {
    const auto operand = [&](size_t k) { return term(c.inputs[k], i); };
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
    std::string text = name + "(";
    for (size_t k = 0; k < c.inputs.size(); ++k) text += (k ? ", " : "") + operand(k).text;
    return {text + ")"};
  }

  CallListener listener_;
  CallListener* outer_;
  std::vector<Call> calls_;
  std::vector<std::pair<Tensor, std::string>> names_;
  std::map<int, int> uses_;            // of calls
  std::map<int, std::string> shared_;  // calls with a line of their own
  std::vector<std::string> lines_;
};

std::string numbered(const char* name, size_t i, size_t n) { return n == 1 ? name : join(name, i); }

std::vector<std::string> told(const OpInfo& op) {
  const Unwatched quiet;
  const EnableGrad on;
  const rows::Row& row = rows::row_of(op.name);
  const DType dtype = row.dtypes & def::kReal ? DType::f64 : DType::c128;
  // Weights and biases that may be left out are there in some case.
  const auto most = std::max_element(
      row.cases.begin(), row.cases.end(),
      [](const rows::Case& a, const rows::Case& b) { return a.shapes.size() < b.shapes.size(); });
  // A device that nobody else looks at.
  const Tensors inputs =
      rows::draw_inputs(row, size_t(most - row.cases.begin()), dtype, open_device("reference"));
  std::vector<std::pair<std::string, Tensor>> leaves;
  for (size_t k = 0; k < inputs.size(); ++k) {
    const auto& last = op.operands[std::min(k, op.operands.size() - 1)];
    const std::string name =
        last.variadic ? join(last.name, k + 1 - op.operands.size()) : last.name;
    leaves.emplace_back(name, inputs[k]);
    if (is_floating(inputs[k].dtype())) Tensor(inputs[k]).set_requires_grad();
  }
  Listener listener;
  const Tensors outputs = op.call(inputs, rows::attrs_of(op, most->attrs));
  Tensors roots, seeds, moving;
  for (const Tensor& y : outputs)
    if (y.requires_grad()) {
      roots.push_back(y);
      seeds.push_back(Tensor::full(y.sizes(), 1.0, y.dtype(), y.device()).set_requires_grad());
    }
  if (roots.empty()) return {};
  for (const auto& [name, t] : leaves)
    if (t.requires_grad()) moving.push_back(t);
  const Tensors g = grad(roots, moving, seeds, {.create_graph = true, .allow_unused = true});
  for (size_t i = 0; i < roots.size(); ++i) listener.name(seeds[i], numbered("g", i, roots.size()));
  for (const auto& [name, t] : leaves) listener.name(t, name);
  for (size_t i = 0; i < outputs.size(); ++i)
    listener.name(outputs[i], numbered("y", i, outputs.size()));
  std::vector<std::pair<std::string, Tensor>> results;
  for (size_t k = 0, m = 0; k < leaves.size(); ++k)
    if (leaves[k].second.requires_grad()) {
      if (g[m].defined()) results.emplace_back("d" + leaves[k].first, g[m]);
      ++m;
    }
  return listener.formulas(results);
}

}  // namespace

std::vector<std::string> derivatives_of(const OpInfo& op) {
  if (op.statement >= 0) return slopes_of(op);
  if (!op.differentiable || op.user) return {};
  Generator& random = default_generator();
  const uint64_t seed = random.seed(), position = random.position();
  std::vector<std::string> out;
  try {
    out = told(op);
  } catch (const Error&) {  // no memory left, say: a page without these lines is better than none
  }
  random.set(seed, position);
  return out;
}

}  // namespace gradus::audit
