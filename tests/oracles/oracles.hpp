// Independent values of the ops for the op table: long double and std::complex functions for
// pointwise ops, naive loops over indices for the others; never the engine's formula where another
// one exists. And the bad inputs of each op, with the message that people must see.
#pragma once
#include "ops/check/rows.hpp"

#include <complex>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace gradus::inline v1::testing {

using Wide = std::complex<long double>;

// A host array, row-major.
struct Host {
  Shape sizes;
  std::vector<Wide> values;
  const Wide& at(const Shape& index) const { return values[size_t(offset(index))]; }
  int64_t offset(const Shape& index) const;
};
Host build(const Shape& sizes, const std::function<Wide(const Shape&)>& value);
void for_each_index(const Shape& sizes, const std::function<void(const Shape&)>& body);

// One call of an op, as its oracle sees it.
struct Call {
  std::vector<Host> in;
  DType dtype;  // of the operands that are numbers
  const OpInfo* op;
  Attrs attrs;
  const AttrValue& attr(const char* name) const { return attrs[size_t(op->attr_index(name))]; }
  int64_t integer(const char* name) const { return attr(name).integer; }
  double number(const char* name) const { return attr(name).number; }
  const rows::Ints& ints(const char* name) const { return attr(name).integers; }
  std::string text(const char* name) const { return attr(name).text; }
  // A possibly negative axis.
  size_t axis(int64_t dim, size_t rank) const {
    return size_t(dim < 0 ? dim + int64_t(rank) : dim);
  }
};
// What an oracle gives: one host array, or several for an op of several outputs.
struct Hosts : std::vector<Host> {
  Hosts(Host one) { push_back(std::move(one)); }
  Hosts(std::initializer_list<Host> several) : std::vector<Host>(several) {}
};
using Oracle = std::function<Hosts(const Call&)>;

// By op name: those of this folder, and each OracleOf, which stands beside the tests of its op.
const std::map<std::string, Oracle>& oracles();
struct OracleOf {
  OracleOf(const char* op, Oracle oracle);  // at the program's start
};
void add_pointwise_oracles(std::map<std::string, Oracle>& to);
void add_statement_oracles(std::map<std::string, Oracle>& to);
void add_structured_oracles(std::map<std::string, Oracle>& to);
void add_model_oracles(std::map<std::string, Oracle>& to);
void add_sorting_oracles(std::map<std::string, Oracle>& to);
void add_indexing_oracles(std::map<std::string, Oracle>& to);
void add_rearrange_oracles(std::map<std::string, Oracle>& to);
void add_window_oracles(std::map<std::string, Oracle>& to);
void add_norm_oracles(std::map<std::string, Oracle>& to);  // and attention's
void add_attention_oracles(std::map<std::string, Oracle>& to);
void add_criterion_oracles(std::map<std::string, Oracle>& to);
void add_linalg_oracles(std::map<std::string, Oracle>& to);  // and those of spectra

// What a number becomes when it is stored in this dtype: integers wrap, bool is "not zero", complex
// to real keeps the real part. Floats are left as they are.
rows::Numbers stored(const std::vector<Wide>& values, DType dtype);

// A call that must be refused.
struct BadInput {
  const char* op;
  std::vector<std::pair<DType, Shape>> operands;
  rows::NamedAttrs attrs;
  ErrorKind kind;
  const char* message;  // a part of it
};
const std::vector<BadInput>& bad_inputs();
void add_sorting_bad_inputs(std::vector<BadInput>& to);
void add_rearrange_bad_inputs(std::vector<BadInput>& to);
void add_window_bad_inputs(std::vector<BadInput>& to);
void add_norm_bad_inputs(std::vector<BadInput>& to);  // and attention's
void add_attention_bad_inputs(std::vector<BadInput>& to);
void add_criterion_bad_inputs(std::vector<BadInput>& to);

}  // namespace gradus::testing
