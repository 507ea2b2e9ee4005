// What the contracts of slots (engine/abi/kernel_table.h) ask of a call, said once for the devices
// that refuse by throwing. Each names what the call asks for, refuses a call that breaks the slot's
// contract, and gives back its views by name; they belong to the call.
#pragma once
#include "ops/def/grouped.h"
#include "ops/def/linalg.h"
#include "ops/def/normalize.h"
#include "kernels/call/call.hpp"

namespace gradus::inline v1::calls {

// Lines of in, rewritten along an axis. A 0-d view has none: axis is -1, and its line is the
// element.
struct LineCall {
  const gd_view &in, &out;
  int axis;
};
LineCall expect_scan(Call& call);
LineCall expect_softmax(Call& call);

struct ReduceCall {
  const gd_view &in, &out;
  bool places, truth, orders;  // argmax and argmin; any and all; those and max and min
};
ReduceCall expect_reduce(Call& call);
inline bool takes_maximum(int32_t op) { return op == GD_MAX || op == GD_ARGMAX; }
inline bool orders(int32_t op) { return op >= GD_MAX && op <= GD_ARGMIN; }

struct NormalizeCall {
  const gd_view &x, &y, &mean, &var;
  const gd_view* operands[2];  // in[1], in[2]; null: left out
  bool value, vjp;
};
NormalizeCall expect_normalize(Call& call);

// A number that scales has no imaginary part for real dtypes, and is whole for integers.
struct ContractCall {
  const gd_view &a, &b, &out;
  const gd_view *bias, *winners;  // null: there is none
  int64_t algebra;
  int out_axes;
  c128 alpha, beta;
  bool conj_a, conj_b, statement;
};
ContractCall expect_contract(Call& call);
// The call of a contraction's statement over what out holds.
gd_call statement_call(const gd_call& contract);

struct SortCall {
  const gd_view &in, *values, &places;  // values: null if not wanted
  int axis;
};
SortCall expect_sort(Call& call);

// Matrices (m, n), batch by batch (ops/def/linalg.h).
struct LinalgCall {
  gd_linalg op;
  const gd_view &a, *b;   // b: null: the op has none
  const gd_view* out[4];  // as the op lists them, without info; null: left out
  const gd_view* info;    // null: the op has none
  int batch_axes;
  int64_t m, n;
  int turned;                      // solve, solve_triangular: 0 A, 1 A^T, 2 A^H
  bool upper, unit, not_negative;  // solve_triangular; qr
};
LinalgCall expect_linalg(Call& call);
inline constexpr const char* kLinalg[GD_LINALG_COUNT] = {
    "cholesky", "lu", "solve", "det", "solve_triangular", "qr", "eigh", "svd", "eig", "formula"};

// GD_FORMULA: its values have these sizes, first those of the inputs.
struct FormulaCall {
  struct Step {
    gd_step code;
    int a, b, flags;
  };
  struct Size {
    int64_t rows, cols;
  };
  static constexpr int kMostIn = 8;
  const gd_view* in;
  const gd_view& out;
  int n_in, batch_axes, steps;
  Step step[GD_MOST_STEPS];
  Size size[GD_MOST_STEPS + kMostIn];
  int64_t room, cost;  // numbers in all values; about how many multiplications

  int values() const { return n_in + steps; }
  bool is_vector(int k) const { return in[k].rank < out.rank; }
};
FormulaCall expect_formula(Call& call);

// GD_GROUPED: whole buffers, and the table of jobs, each checked against them.
struct BlockCopy {
  int64_t sign, in, out;
  const int64_t *sizes, *in_by, *out_by;
};
struct GroupedCall {
  const gd_view &a, *b, &out;  // b: null: copies
  int64_t jobs;
  const gd_block_product* products;
  bool conj_a, conj_b, add;
  int rank;  // of the blocks that are copied
  const int64_t* copies;

  BlockCopy copy(int64_t job) const {
    const int64_t* const at = copies + job * (3 + 3 * rank);
    return {at[0], at[1], at[2], at + 3, at + 3 + rank, at + 3 + 2 * rank};
  }
};
GroupedCall expect_grouped(Call& call);

// GD_CHAIN: value v < ins is in[v], ins + k is the result of step k. What is left to the device is
// whether its statements read these dtypes, and what they give.
struct ChainCall {
  static constexpr int kOperands = 5;
  struct Step {
    int slot;
    int32_t op;
    int64_t which;  // vjp: by which operand
    int first_double, operands;
    int operand[kOperands];  // values; -1: left out
    int out;                 // which output it is written to, or -1
    int key() const { return slot == GD_POINTWISE ? operands - 1 : 0; }  // whose dtype is read
  };
  int ins, outs, steps, doubles;
  Step step[GD_CHAIN_MOST];
  DType dtype[2 * GD_CHAIN_MOST];  // of each value
};
ChainCall expect_chain(Call& call);

void expect_index(const Call& call, const gd_view& index);
// Names the distribution.
void expect_random(Call& call);
int uniform_bits(int32_t dtype);  // random ones of a uniform number: as many as the dtype holds

// The views of one parameter's update are checked by the device.
struct OptimizerCall {
  int outs, parameters;  // outs: of each parameter
};
OptimizerCall expect_optimizer(Call& call);
// in[k] as a view of n numbers, or more.
const gd_view& step_values(const Call& call, int k, const char* whose, int64_t n);

// What is known of a statement without its formula.
struct Statement {
  const char* name = nullptr;  // null: there is no statement of this id
  int arity = 0, params = 0;
  bool has_mask = false;  // in operand 0
};
Statement statement(int32_t id);
Statement named_statement(Call& call);
// Operand k of a statement, or y after the last, which stands at in[place]: out's sizes, dtype t
// (or bool for a mask).
const gd_view& operand(const Call& call, const Statement& s, int k, int place, DType t,
                       const gd_view& out);

}  // namespace gradus::calls
