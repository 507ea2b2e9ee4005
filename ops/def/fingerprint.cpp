// Reads every statement once, on first use.
#include "ops/def/fingerprint.hpp"

#include "ops/def/expr.hpp"

#include <charconv>

namespace gradus::def {

namespace {

// A statement whose parameters are tags, so that Expr prints their names.
template <class S>
S tagged() {
  const double tags[4] = {Expr::tag(0), Expr::tag(1), Expr::tag(2), Expr::tag(3)};
  return make<S>(tags);
}

template <class S>
void read_parameters(StatementText& t) {
  const S statement{};
  double defaults[4] = {};
  if constexpr (S::meta.param_count() > 0) memcpy(defaults, &statement, sizeof statement);
  for (int k = 0; k < S::meta.param_count(); ++k) {
    t.params.push_back(S::meta.params[k]);
    t.defaults.push_back(defaults[k]);
  }
}

void add_slope(StatementText& t, const Expr& slope) {
  unsigned saves = slope.uses("y") ? kSavesY : 0;
  for (size_t k = 0; k < t.operands.size(); ++k)
    if (slope.uses(t.operands[k])) saves |= 1u << k;
  t.slopes.push_back(slope.text());
  t.saves.push_back(saves);
  t.slope_is_one.push_back(slope.is_one());
  t.slope_is_zero.push_back(slope.is_zero());
}

template <class S>
void read_formulas(StatementText& t) {
  const ParameterNames names(S::meta.params);
  const S s = tagged<S>();
  const Expr x = Expr::symbol("x"), a = Expr::symbol("a"), b = Expr::symbol("b");
  const Expr m = Expr::symbol("m"), y = Expr::symbol("y"), z = Expr::symbol("z");
  if constexpr (S::arity == 1) {
    t.operands = {"x"};
    t.value = s.value(x).text();
    if constexpr (has_slopes<S>) add_slope(t, s.slope(x, y));
  } else if constexpr (S::arity == 2) {
    t.operands = {"a", "b"};
    t.value = s.value(a, b).text();
    if constexpr (has_slopes<S>) {
      add_slope(t, s.slope_a(a, b, y));
      add_slope(t, s.slope_b(a, b, y));
    }
  } else {
    t.operands = {"m", "a", "b"};
    t.value = s.value(m, a, b).text();
    t.slopes = {""};
    t.saves = {0};
    t.slope_is_one = t.slope_is_zero = {false};
    add_slope(t, s.slope_a(m, a, b, y));
    add_slope(t, s.slope_b(m, a, b, y));
  }
  if constexpr (S::kind == Kind::non_holomorphic) {
    const Expr dz = s.dz(z), dzbar = s.dzbar(z);
    t.complex_value = s.cvalue(z).text();
    t.wirtinger = {dz.text(), dzbar.text()};
    t.wirtinger_saves = dz.uses("z") || dzbar.uses("z") ? 1 : 0;
  }
}

std::string number(double c) {
  char digits[40];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, c).ptr);
}

std::string line(const StatementText& t) {
  const bool complex_only = !(t.dtypes & kReal) && t.kind == Kind::non_holomorphic;
  std::string text = t.name + "(";
  if (complex_only) text += "z";
  for (size_t k = 0; k < t.operands.size() && !complex_only; ++k)
    text += (k ? ", " : "") + t.operands[k];
  for (size_t k = 0; k < t.params.size(); ++k)
    text += (k ? ", " : "; ") + t.params[k] + "=" + number(t.defaults[k]);
  text += "):";
  if (!complex_only) {
    text += " y = " + t.value;
    for (size_t k = 0; k < t.slopes.size(); ++k)
      if (!t.slopes[k].empty()) text += "; dy/d" + t.operands[k] + " = " + t.slopes[k];
  }
  if (t.kind == Kind::non_holomorphic) {
    text += complex_only ? " y = " : "; on complex z: y = ";
    text += t.complex_value + "; dy/dz = " + t.wirtinger[0] + "; dy/dz* = " + t.wirtinger[1];
  }
  return text;
}

struct Book {
  std::vector<StatementText> infos;
  std::vector<std::string> lines;
  uint64_t hash = 14695981039346656037u;

  Book() {
    for_each(Statements{}, [this]<class S>(int) {
      StatementText t{};
      t.name = S::meta.name;
      t.doc = S::meta.doc;
      t.kind = S::kind;
      t.dtypes = S::meta.dtypes;
      t.arity = S::arity;
      read_parameters<S>(t);
      read_formulas<S>(t);
      lines.push_back(line(t));
      infos.push_back(std::move(t));
    });
    // The terminator counts, so that no text runs into the next.
    for (const std::string& text : lines)
      for (size_t k = 0; k <= text.size(); ++k)
        hash = (hash ^ static_cast<unsigned char>(text.c_str()[k])) * 1099511628211u;
  }
};

const Book& book() {
  static const Book all;
  return all;
}

}  // namespace

const StatementText& statement_info(int id) { return book().infos.at(static_cast<size_t>(id)); }

const char* statement_text(int id) {
  return id >= 0 && id < statement_count() ? book().lines[static_cast<size_t>(id)].c_str() : "";
}

int statement_id(std::string_view name) {
  int found = -1;
  for_each(Statements{}, [&]<class S>(int id) {
    if (name == S::meta.name) found = id;
  });
  return found;
}

uint64_t statements_hash() { return book().hash; }

}  // namespace gradus::def
