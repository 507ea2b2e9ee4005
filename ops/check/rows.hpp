// The rows of the op test table: one per registered op. A row says how inputs are drawn (domain of
// each operand, kinks to keep away from, dtypes, cases of shapes and attributes) and how exact the
// op has to be, with the reason. It holds no expected values: oracles live in tests/. Knows ops by
// name only.
#pragma once
#include "engine/op_info.hpp"
#include "ops/def/statement.hpp"

#include <complex>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace gradus::inline v1::rows {

using Ints = SmallVector<int64_t, 6>;

// How the elements of one operand are drawn.
struct Domain {
  enum class Kind {
    range,    // uniform in [low, high], in the dtype of the run
    lattice,  // as range, but no two elements of any operand are near each other (max, sort, ties)
    index,    // i64 in [0, extent of the case)
    mask,     // bool
    sign,     // i64, 1 or -1
    matrix,   // as range, and on the diagonal of the last two axes gap, 2 gap, ... more
  };
  Kind kind = Kind::range;
  double low = -2, high = 2;
  std::vector<double> avoid = {};  // kinks and poles: nothing is drawn nearer than margin
  double margin = 0.05;
  double gap = 0;         // of a matrix
  bool reversed = false;  // its rows from the last to the first
};
Domain between(double low, double high);
Domain away_from(std::vector<double> kinks, double low = -2, double high = 2);
Domain lattice(double low = -2, double high = 2);
Domain indices();
Domain masks();
Domain signs();
Domain matrices(double gap);           // regular, positive definite, spectra without ties
Domain reversed_matrices(double gap);  // in whose LU all rows change places

using NamedAttrs = std::vector<std::pair<std::string, AttrValue>>;

// One shape per operand, attributes by name (the others take their defaults).
struct Case {
  std::vector<Shape> shapes;
  NamedAttrs attrs = {};
  int64_t extent = 0;     // of index operands
  bool slopes = true;     // false: value modes only
  unsigned dtypes = ~0u;  // of those of the row
  bool bytes = true;      // false: not in u8
};

// How far two correct implementations may differ. `ulps` counts units of the dtype's epsilon, over
// the element itself (elementwise) or over the largest element of the result (normwise, where terms
// cancel).
struct Exactness {
  double ulps;
  bool normwise;
  double half_ulps;  // the same for f16 and bf16: one per rounding on the way
  const char* reason;
};

// Of a random op: what its numbers must have on average.
struct Moments {
  double mean, variance;
};

struct Row {
  std::string name;
  std::vector<Domain> operands;  // the last one also stands for the rest of a list
  unsigned dtypes;               // of def::Dtypes
  std::vector<Case> cases;
  Exactness exactness;
  std::vector<Moments> moments = {};  // random ops: one per case
  bool layouts = true;                // false: the result depends on the strides of the operands
  // true: where both operands repeat one row the contract kernel takes a dot product, whose sum has
  // another order and other last bits
  bool may_become_dot = false;
  bool halves = true;  // false: f16 and bf16 are refused
  int slot = -1;       // a gd_slot that not every device has: without it nothing is checked there
  // Derivatives are checked through this function of the outputs: vectors have a phase that a loss
  // must not depend on.
  Tensors (*seen)(const Tensors& outputs) = nullptr;
};

// All rows, in no particular order; row_of throws Error(internal) for a name without a row.
const std::deque<Row>& all_rows();
const Row& row_of(std::string_view name);
// The row of a user's op. Error(value) if the name has one, or if there is no such op.
void add_row(Row row);
std::vector<Row> pointwise_rows();
std::vector<Row> structured_rows();
std::vector<Row> model_rows();
std::vector<Row> sorting_rows();
std::vector<Row> rearrange_rows();
std::vector<Row> window_rows();
std::vector<Row> norm_rows();
std::vector<Row> criterion_rows();
std::vector<Row> linalg_rows();

// Attributes in the op's order: defaults, overwritten by name. Integers serve as numbers and as
// lists of one where the op says so. Error(value) for a name or type the op has not, Error(value)
// for one that must be given.
Attrs attrs_of(const OpInfo& op, const NamedAttrs& named);

// The dtypes of a row, or those that are in a mask of def::Dtypes, too.
std::vector<DType> dtypes_of(const Row& row, unsigned mask = ~0u);

// ---- drawing. Deterministic: the same row, case and operand give the same numbers for ever.

// Numbers in the host's widest form, row-major. Integers are exact up to 2^53.
using Numbers = std::vector<std::complex<double>>;

Numbers draw(const Row& row, size_t which_case, size_t operand, DType dtype);
// Uniform in [-1, 1] (both parts if complex): directions and cotangents. `stream` tells draws
// apart.
Numbers draw_direction(std::string_view name, uint64_t stream, int64_t count, bool complex);

// The dtype in which operand k runs when the row runs in `dtype`.
DType operand_dtype(const Row& row, size_t k, DType dtype);
// g as a cotangent of output y: of vectors that have a phase (Row::seen) one that does not depend
// on it, that of a sum of g's real part times their squared magnitudes.
Tensor cotangent_of(const Row& row, const Tensor& y, const Tensor& g);
// All operands of a case as fresh tensors.
Tensors draw_inputs(const Row& row, size_t which_case, DType dtype, Device& device);

Tensor upload(const Numbers& numbers, const Shape& shape, DType dtype, Device& device);
Numbers download(const Tensor& t);

}  // namespace gradus::rows
