// Building, reading, printing and evaluating Expr. Formulas are small (some dozens of nodes), so
// the recursions here are shallow.
#include "ops/def/expr.hpp"

#include "ops/def/words_scalar.hpp"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

namespace gradus::inline v1 {

struct Expr::Node {
  enum class Kind { constant, symbol, apply } kind;
  double number = 0;
  std::string name;  // of the symbol, function or operator
  std::vector<std::shared_ptr<const Node>> arguments;
};

namespace {

using Node = Expr::Node;
using NodePtr = std::shared_ptr<const Node>;

thread_local const char* const* parameter_names = nullptr;

constexpr uint64_t kTag = 0x7ff8677261640000u;

// The place that a tag stands for, -1 if c is no tag.
int tag_place(double c) {
  uint64_t bits;
  std::memcpy(&bits, &c, sizeof bits);
  return (bits & ~uint64_t(3)) == kTag ? int(bits & 3) : -1;
}

}  // namespace

double Expr::tag(int k) {
  const uint64_t bits = kTag | uint64_t(k);
  double c;
  std::memcpy(&c, &bits, sizeof c);
  return c;
}

ParameterNames::ParameterNames(const char* const (&names)[4])
    : outer_(std::exchange(parameter_names, names)) {}
ParameterNames::~ParameterNames() { parameter_names = outer_; }

// ---- building

Expr::Expr(double c) {
  const int place = tag_place(c);
  if (place < 0) {
    node_ = std::make_shared<Node>(Node{Node::Kind::constant, c, "", {}});
    return;
  }
  if (!parameter_names || !parameter_names[place])
    throw std::logic_error("Expr: a tagged parameter outside of ParameterNames");
  *this = symbol(parameter_names[place]);
}

Expr::Expr(const Expr& other) = default;
Expr::Expr(Expr&& other) noexcept = default;
Expr& Expr::operator=(Expr other) noexcept {
  node_.swap(other.node_);
  return *this;
}
Expr::~Expr() = default;

Expr Expr::symbol(std::string name) {
  return Expr(std::make_shared<Node>(Node{Node::Kind::symbol, 0, std::move(name), {}}));
}

Expr Expr::apply(const char* name, const Expr& a) {
  return Expr(std::make_shared<Node>(Node{Node::Kind::apply, 0, name, {a.node_}}));
}
Expr Expr::apply(const char* name, const Expr& a, const Expr& b) {
  return Expr(std::make_shared<Node>(Node{Node::Kind::apply, 0, name, {a.node_, b.node_}}));
}
Expr Expr::apply(const char* name, const Expr& a, const Expr& b, const Expr& c) {
  return Expr(
      std::make_shared<Node>(Node{Node::Kind::apply, 0, name, {a.node_, b.node_, c.node_}}));
}

const double* Expr::constant() const {
  return node_->kind == Node::Kind::constant ? &node_->number : nullptr;
}

Expr operator+(const Expr& a, const Expr& b) {
  if (a.constant() && b.constant()) return *a.constant() + *b.constant();
  if (a.is_zero()) return b;
  if (b.is_zero()) return a;
  return Expr::apply("+", a, b);
}

Expr operator-(const Expr& a, const Expr& b) {
  if (a.constant() && b.constant()) return *a.constant() - *b.constant();
  if (b.is_zero()) return a;
  return Expr::apply("-", a, b);
}

Expr operator*(const Expr& a, const Expr& b) {
  if (a.constant() && b.constant()) return *a.constant() * *b.constant();
  if (a.is_one()) return b;
  if (b.is_one()) return a;
  return Expr::apply("*", a, b);
}

Expr operator/(const Expr& a, const Expr& b) {
  if (a.constant() && b.constant()) return *a.constant() / *b.constant();
  if (b.is_one()) return a;
  return Expr::apply("/", a, b);
}

Expr operator-(const Expr& a) {
  if (a.constant()) return -*a.constant();
  if (a.node_->name == "neg") return Expr(a.node_->arguments[0]);
  return Expr::apply("neg", a);
}

// ---- reading

namespace {

bool node_uses(const Node& n, std::string_view symbol) {
  if (n.kind == Node::Kind::symbol) return n.name == symbol;
  for (const NodePtr& a : n.arguments)
    if (node_uses(*a, symbol)) return true;
  return false;
}

using ValueOf = std::function<double(std::string_view)>;

#define GRADUS_EVALUATE(name) {#name, W::name},
double evaluate_call(const std::string& name, const double* x) {
  using W = Words<double>;
  static const std::map<std::string_view, double (*)(double)> unary = {
      {"neg", [](double v) { return -v; }},
      GRADUS_WORDS(GRADUS_EVALUATE) GRADUS_ROUNDING_WORDS(GRADUS_EVALUATE)
          GRADUS_LANE_WORDS(GRADUS_EVALUATE){"conj", W::conj},
      {"real", W::real},
      {"imag", W::imag}};
  static const std::map<std::string_view, double (*)(double, double)> binary = {
      {"+", [](double a, double b) { return a + b; }},
      {"-", [](double a, double b) { return a - b; }},
      {"*", [](double a, double b) { return a * b; }},
      {"/", [](double a, double b) { return a / b; }},
      {"<", [](double a, double b) { return double(a < b); }},
      {"<=", [](double a, double b) { return double(a <= b); }},
      {"==", [](double a, double b) { return double(a == b); }},
      {"!=", [](double a, double b) { return double(a != b); }},
      GRADUS_LANE_WORDS2(GRADUS_EVALUATE){"min", W::min},
      {"max", W::max}};
  if (name == "?:") return x[0] != 0 ? x[1] : x[2];
  if (const auto f = unary.find(name); f != unary.end()) return f->second(x[0]);
  if (const auto f = binary.find(name); f != binary.end()) return f->second(x[0], x[1]);
  throw std::logic_error("Expr: cannot evaluate " + name);
}
#undef GRADUS_EVALUATE

double evaluate_node(const Node& n, const ValueOf& value_of) {
  if (n.kind == Node::Kind::constant) return n.number;
  if (n.kind == Node::Kind::symbol) return value_of(n.name);
  double x[3] = {};
  for (size_t k = 0; k < n.arguments.size(); ++k) x[k] = evaluate_node(*n.arguments[k], value_of);
  return evaluate_call(n.name, x);
}

}  // namespace

bool Expr::is_one() const { return constant() && *constant() == 1; }
bool Expr::is_zero() const { return constant() && *constant() == 0; }
bool Expr::uses(std::string_view symbol) const { return node_uses(*node_, symbol); }
double Expr::evaluate(const ValueOf& value_of) const { return evaluate_node(*node_, value_of); }

// ---- printing

namespace {

std::string number_text(double c) {
  if (c != c) return "nan";
  char digits[40];
  const auto end = std::to_chars(digits, digits + sizeof digits, c).ptr;
  return std::string(digits, end);
}

// How tightly a node binds, as in C++.
enum Level { kChoice, kCompare, kSum, kProduct, kMinus, kAtom };

Level level_of(const Node& n) {
  if (n.kind == Node::Kind::constant) return std::signbit(n.number) ? kMinus : kAtom;
  if (n.kind == Node::Kind::symbol) return kAtom;
  if (n.name == "?:") return kChoice;
  if (n.name == "neg") return kMinus;
  if (n.name == "+" || n.name == "-") return kSum;
  if (n.name == "*" || n.name == "/") return kProduct;
  if (n.name == "<" || n.name == "<=" || n.name == "==" || n.name == "!=") return kCompare;
  return kAtom;
}

class Printer {
 public:
  std::string print(const Node& root) {
    survey(root);
    std::string text = node(root, kChoice);
    for (size_t k = 0; k < pending_.size(); ++k) {
      const Node* shared = pending_[k];
      text += (k == 0 ? " where " : ", ") + names_.at(shared) + " = " + body(*shared);
    }
    return text;
  }

 private:
  // Counts how often each node is used, and the leaves below it.
  int survey(const Node& n) {
    if (n.kind == Node::Kind::symbol) symbols_[n.name] = true;
    if (n.kind != Node::Kind::apply) return 1;
    if (uses_[&n]++ > 0) return leaves_[&n];
    int leaves = 0;
    for (const NodePtr& a : n.arguments) leaves += survey(*a);
    return leaves_[&n] = leaves;
  }

  // Named at the end: what is used more than once and has more than two leaves.
  bool is_shared(const Node& n) const {
    return n.kind == Node::Kind::apply && uses_.at(&n) > 1 && leaves_.at(&n) > 2;
  }

  const std::string& name_of(const Node& n) {
    const auto found = names_.find(&n);
    if (found != names_.end()) return found->second;
    static const char* const letters[] = {"u", "v", "s", "r", "q", "p"};
    for (const char* letter : letters)
      if (!symbols_.count(letter)) {
        symbols_[letter] = true;
        pending_.push_back(&n);
        return names_[&n] = letter;
      }
    throw std::logic_error("Expr: more shared parts than letters");
  }

  std::string node(const Node& n, Level least) {
    if (is_shared(n)) return name_of(n);
    const std::string text = body(n);
    return level_of(n) < least ? "(" + text + ")" : text;
  }

  std::string body(const Node& n) {
    if (n.kind == Node::Kind::constant) return number_text(n.number);
    if (n.kind == Node::Kind::symbol) return n.name;
    const auto& a = n.arguments;
    const Level level = level_of(n);
    switch (level) {
      case kChoice: {
        const std::string condition = node(*a[0], kCompare), yes = node(*a[1], kCompare);
        return condition + " ? " + yes + " : " + node(*a[2], kChoice);
      }
      case kMinus:
        return "-" + node(*a[0], kAtom);
      case kCompare:
      case kSum:
      case kProduct: {
        const std::string left = node(*a[0], level);
        return left + " " + n.name + " " + node(*a[1], Level(level + 1));
      }
      case kAtom:
        break;
    }
    std::string text = n.name + "(";
    for (size_t k = 0; k < a.size(); ++k) text += (k ? ", " : "") + node(*a[k], kChoice);
    return text + ")";
  }

  std::map<const Node*, int> uses_, leaves_;
  std::map<const Node*, std::string> names_;
  std::map<std::string, bool> symbols_;
  std::vector<const Node*> pending_;
};

}  // namespace

std::string Expr::text() const { return Printer().print(*node_); }

}  // namespace gradus
