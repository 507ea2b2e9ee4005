// What gradus says of each statement, read from the statement itself with Expr: its printed formula
// and slopes, what a slope needs saved, and one hash over all of it. A device module built from
// other formulas has another hash and is refused. For ops/, the doors and modules; knows no tensor.
#pragma once
#include "ops/def/statements.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gradus::inline v1::def {

// Bits of `saves`: bit i is operand i, and this one is the value y.
inline constexpr unsigned kSavesY = 8;

struct StatementText {
  std::string name, doc;
  Kind kind;
  unsigned dtypes;  // of Dtypes
  int arity;
  std::vector<std::string> operands;  // "x"; "a", "b"; "m", "a", "b"
  std::vector<std::string> params;
  std::vector<double> defaults;  // of params
  std::string value;             // on complex numbers too, but for non_holomorphic

  // One entry per operand; none at all where def::has_slopes is false. The mask of `where` has the
  // entry "" and saves nothing.
  std::vector<std::string> slopes;
  std::vector<unsigned> saves;
  std::vector<bool> slope_is_one, slope_is_zero;

  // Non_holomorphic only, on complex z: its value, and dz, dzbar. Bit 0 of wirtinger_saves: they
  // read z.
  std::string complex_value;
  std::vector<std::string> wirtinger;
  unsigned wirtinger_saves = 0;
};

constexpr int statement_count() { return Statements::size; }
// A built-in statement's id, or a user's; anything else throws std::out_of_range.
const StatementText& statement_info(int id);
// A user's statement gets an id above the built-in ones; no module knows it. Not while other
// threads run ops.
int add_user_statement(StatementText text);
// "sigmoid(x): y = 1 / (1 + exp(-x)); dy/dx = y * (1 - y)". Never freed; "" for an unknown id.
const char* statement_text(int id);
// -1 if there is none.
int statement_id(std::string_view name);
// FNV-1a over all statement_text in order of their ids.
uint64_t statements_hash();

}  // namespace gradus::def
