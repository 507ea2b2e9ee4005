// Rows of linear algebra. Matrices are drawn with a diagonal that grows: regular, positive
// definite, with gaps between all eigenvalues and singular values. What happens without gaps or
// rank stands in tests/ops/test_linalg.cpp.
#include "ops/check/row_words.hpp"
#include "ops/pointwise/pointwise.hpp"

namespace gradus::inline v1::rows {

namespace {

constexpr unsigned kFields = kReal | kComplex;
constexpr Exactness kSolves{512, true, 0, "backward stable, times a condition below 20"};
constexpr Exactness kSpectra{1024, true, 0,
                             "backward stable, times the nearest gap, another iteration"};

// What does not depend on the phase of a vector: its squared magnitudes.
Tensors magnitudes(const Tensors& outputs) {
  Tensors seen;
  for (const Tensor& y : outputs) seen.push_back(is_complex(y.dtype()) ? real(mul(y, conj(y))) : y);
  return seen;
}

std::vector<Case> squares(NamedAttrs attrs = {}) {
  std::vector<Case> cases;
  for (const Shape& s : {Shape{4, 4}, Shape{2, 3, 3}, Shape{1, 1}, Shape{0, 0}, Shape{2, 0, 3, 3}})
    cases.push_back({{s}, attrs});
  return cases;
}
std::vector<Case> rectangles(NamedAttrs attrs = {}) {
  std::vector<Case> cases;
  for (const Shape& s : {Shape{4, 4}, Shape{5, 3}, Shape{2, 3, 4}, Shape{1, 1}, Shape{0, 3}})
    cases.push_back({{s}, attrs});
  return cases;
}
Row of_squares(const char* name, Exactness exactness = kSolves, NamedAttrs attrs = {}) {
  return {name, {matrices(4)}, kFields, squares(std::move(attrs)), exactness};
}
Row of_rectangles(const char* name, Exactness exactness = kSolves, NamedAttrs attrs = {}) {
  return {name, {matrices(4)}, kFields, rectangles(std::move(attrs)), exactness};
}
Row pivoted(const char* name) {
  Row row = of_rectangles(name);
  row.operands = {reversed_matrices(4)};
  return row;
}
Row with_cases(Row row, std::vector<Case> cases) {
  for (Case& c : cases) row.cases.push_back(std::move(c));
  return row;
}
Row by_magnitude(Row row) {
  row.seen = magnitudes;
  return row;
}

std::vector<Row> solving_rows() {
  const Domain a = matrices(4), b = between(-1, 1);
  const auto of_two = [&](const char* name, std::vector<Case> cases) {
    return Row{name, {a, b}, kFields, std::move(cases), kSolves};
  };
  return {
      of_two("linear_solve", {{{{4, 4}, {4, 2}}}, {{{2, 3, 3}, {3, 1}}}, {{{0, 0}, {0, 2}}}}),
      of_two("solve", {{{{4, 4}, {4, 2}}},
                       {{{2, 3, 3}, {2, 3}}},
                       {{{4, 4}, {4}}},
                       {{{2, 1, 3, 3}, {4, 2, 3}}, {{"left", false}}}}),
      of_two("triangular_solve", {{{{4, 4}, {4, 2}}},
                                  {{{2, 3, 3}, {3, 1}}, {{"upper", true}, {"form", 2}}},
                                  {{{3, 3}, {2, 3, 2}}, {{"unitriangular", true}, {"form", 1}}}}),
      of_two("solve_triangular", {{{{4, 4}, {4, 2}}, {{"upper", true}}},
                                  {{{2, 3, 3}, {2, 3}}, {{"upper", false}}},
                                  {{{2, 3, 3}, {4, 3}}, {{"upper", false}, {"left", false}}}}),
      {"cholesky_solve",
       {b, a},
       kFields,
       {{{{4, 2}, {4, 4}}}, {{{3, 1}, {2, 3, 3}}, {{"upper", true}}}},
       kSolves},
      of_two("linear_solve_ex", {{{{4, 4}, {4, 2}}}, {{{2, 3, 3}, {3, 1}}}}),
      of_two("solve_ex", {{{{4, 4}, {4, 2}}}, {{{2, 3, 3}, {4, 3}}, {{"left", false}}}}),
      of_squares("inv"),
      of_squares("inv_ex"),
      of_squares("det"),
      of_squares("slogdet"),
      of_two("lstsq", {{{{5, 3}, {5, 2}}}, {{{2, 3, 4}, {2, 3}}}}),
  };
}

std::vector<Row> function_rows() {
  // Computed in f64; a root, a logarithm and Taylor's series lose some digits.
  constexpr Exactness some{4096, true, 0, "a chain of products and inverses"};
  const auto of = [&](const char* name, std::vector<Case> cases) {
    return Row{name, {matrices(4)}, kFields, std::move(cases), some};
  };
  const NamedAttrs hermitian{{"hermitian", true}};
  return {
      {"matrix_exp",
       {matrices(1)},
       kFields,
       {{{{3, 3}}}, {{{2, 2, 2}}}, {{{8, 8}}}, {{{0, 0}}}, {{{2, 3, 3}}, hermitian}},
       {4096, true, 0, "squared up to four times"}},
      {"expm_multiply",
       {matrices(1), between(-1, 1)},
       kFields,
       {{{{3, 3}, {3, 2}}}, {{{2, 3, 3}, {2, 3}}}, {{{4, 4}, {2, 4, 1}}}},
       some},
      of("sqrtm", {{{{3, 3}}}, {{{2, 2, 2}}, hermitian}}),
      of("logm", {{{{3, 3}}}, {{{2, 2, 2}}, hermitian}}),
      of("matrix_function", {{{{4, 4}}}, {{{2, 3, 3}}, {{"f", "log"}}}, {{{0, 0}}}}),
      of("hermitian_function", {{{{3, 3}}, {{"f", "exp"}}},
                                {{{2, 3, 3}}, {{"f", "log"}}},
                                {{{4, 4}}, {{"f", "sqrt"}}},
                                {{{0, 0}}}}),
      by_magnitude({"eigsh",
                    {matrices(4)},
                    kFields,
                    {{{{5, 5}}, {{"k", 2}, {"which", "SA"}}},
                     {{{2, 4, 4}}, {{"k", 1}}},
                     {{{4, 4}}, {{"k", 3}, {"which", "LA"}}},
                     {{{3, 3}}, {{"k", 3}}},
                     {{{0, 3, 3}}, {{"k", 2}}}},
                    kSpectra}),
  };
}

std::vector<Row> tensor_rows() {
  const Domain plain = between(-1, 1);
  const auto of_tensor = [&](const char* name, std::vector<Case> cases) {
    return Row{name, {plain}, kFields, std::move(cases), kSpectra};
  };
  Row factors{"polar_factors", {matrices(4)}, kFields, {{{{4, 4}}}, {{{2, 4, 3}}}}, kSpectra};
  Row polar = with_cases(factors, {{{{2, 3}}, {{"left", true}}}});
  polar.name = "polar";
  return {
      factors,
      polar,
      by_magnitude(
          {"truncated_svd",
           {matrices(4)},
           kFields,
           {{{{4, 4}}, {{"rank", 2}}}, {{{2, 5, 3}}, {{"rtol", 0.5}}}, {{{3, 4}}, {{"atol", 6.0}}}},
           kSpectra}),
      {"vector_norm",
       {plain},
       kFields,
       {{{{3, 4}}}, {{{3, 4}}, {{"ord", 3.0}, {"dim", 1}, {"keepdim", true}}}},
       kChain},
      {"multi_dot", {plain}, kFields, {{{{3, 4}, {4, 2}, {2, 5}}}}, kContracts},
      by_magnitude(of_tensor("tensorsvd", {{{{2, 2, 3}}, {{"left_dims", Ints{0, 1}}}},
                                           {{{3, 2, 2}}, {{"left_dims", 1}, {"rank", 1}}}})),
      of_tensor("tensorqr", {{{{2, 2, 3}}, {{"left_dims", Ints{1, 0}}}}}),
      by_magnitude(of_tensor("tensoreigh", {{{{2, 2, 2, 2}}, {{"left_dims", Ints{0, 1}}}}})),
      {"tensorinv", {matrices(4)}, kFields, {{{{3, 3}}, {{"ind", 1}}}}, kSolves},
      {"tensorsolve", {matrices(4), plain}, kFields, {{{{3, 3}, {3}}}}, kSolves}};
}

}  // namespace

std::vector<Row> linalg_rows() {
  std::vector<Row> rows = solving_rows();
  for (Row& row : function_rows()) rows.push_back(std::move(row));
  for (Row& row : tensor_rows()) rows.push_back(std::move(row));
  for (Row& row : std::vector<Row>{
           with_cases(of_squares("cholesky"), {{{{3, 3}}, {{"upper", true}}}}),
           with_cases(of_squares("cholesky_ex"), {{{{3, 3}}, {{"upper", true}}}}),
           pivoted("lu_factor"),
           pivoted("lu_factor_ex"),
           pivoted("lu"),
           with_cases(of_rectangles("qr"), {{{{4, 3}}, {{"positive", true}}},
                                            {{{3, 4}}, {{"mode", "complete"}}, 0, false},
                                            {{{4, 3}}, {{"mode", "complete"}}, 0, false},
                                            {{{4, 3}}, {{"mode", "r"}}, 0, false}}),
           {"ql", {matrices(4)}, kFields, {{{{4, 3}}}, {{{2, 3, 3}}}}, kSolves},
           of_rectangles("lq"),
           {"rq", {matrices(4)}, kFields, {{{{3, 4}}}, {{{2, 3, 3}}}}, kSolves},
           of_rectangles("pinv"),
           by_magnitude(of_squares("eigh", kSpectra)),
           of_squares("eigvalsh", kSpectra),
           with_cases(by_magnitude(of_rectangles("svd", kSpectra, {{"full_matrices", false}})),
                      {{{{4, 4}}, {}, 0, false}, {{{4, 3}}, {}, 0, false}}),
           of_rectangles("svdvals", kSpectra),
           by_magnitude(of_squares("eig", kSpectra)),
           of_squares("eigvals", kSpectra),
           {"matrix_power",
            {matrices(1)},
            kFields,
            {{{{3, 3}}, {{"n", 3}}}, {{{2, 3, 3}}, {{"n", -2}}}, {{{3, 3}}, {{"n", 0}}, 0, false}},
            kSolves},
           with_cases(of_rectangles("matrix_norm", kSpectra),
                      {{{{4, 3}}, {{"ord", "nuc"}}},
                       {{{4, 3}}, {{"ord", "2"}, {"keepdim", true}}},
                       {{{3, 3}}, {{"ord", "-2"}}},
                       {{{4, 3}}, {{"ord", "1"}}},
                       {{{4, 3}}, {{"ord", "-inf"}}}}),
           {"matrix_rank", {matrices(4)}, kFields, {{{{4, 3}}}, {{{2, 3, 3}}}}, kMoves},
           {"cond", {matrices(4)}, kFields, {{{{4, 3}}}, {{{2, 3, 3}}}}, kSpectra},
       })
    rows.push_back(std::move(row));
  for (Row& row : rows) {
    row.halves = false;
    if (row.name != "vector_norm" && row.name != "multi_dot") row.slot = GD_LINALG;
  }
  return rows;
}

}  // namespace gradus::rows
