// Reads every statement once, on first use.
#include "ops/def/fingerprint.hpp"

#include "ops/def/read_statement.hpp"

#include <charconv>
#include <deque>

namespace gradus::inline v1::def {

namespace detail {

StatementText text_of(const Meta& meta, Kind kind, int arity, const double* defaults) {
  StatementText t{};
  t.name = meta.name;
  t.doc = meta.doc;
  t.kind = kind;
  t.dtypes = meta.dtypes;
  t.arity = arity;
  constexpr const char* operands[][3] = {{"x"}, {"a", "b"}, {"m", "a", "b"}};
  t.operands.assign(operands[arity - 1], operands[arity - 1] + arity);
  t.params.assign(meta.params, meta.params + meta.param_count());
  t.defaults.assign(defaults, defaults + meta.param_count());
  return t;
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

void add_wirtinger(StatementText& t, const Expr& value, const Expr& dz, const Expr& dzbar) {
  t.complex_value = value.text();
  t.wirtinger = {dz.text(), dzbar.text()};
  t.wirtinger_saves = dz.uses("z") || dzbar.uses("z") ? 1 : 0;
}

const Symbols& symbols() {
  static const Symbols all;
  return all;
}

}  // namespace detail

namespace {

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
      infos.push_back(read_statement<S>());
      lines.push_back(line(infos.back()));
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

// Users' statements: a deque, since ops keep references.
std::deque<StatementText>& users() {
  static std::deque<StatementText> all;
  return all;
}

}  // namespace

const StatementText& statement_info(int id) {
  return id < statement_count() ? book().infos.at(static_cast<size_t>(id))
                                : users().at(static_cast<size_t>(id - statement_count()));
}

int add_user_statement(StatementText text) {
  users().push_back(std::move(text));
  return statement_count() + static_cast<int>(users().size()) - 1;
}

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
