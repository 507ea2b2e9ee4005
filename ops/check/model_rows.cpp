// Rows of what models are made of: contractions, indexing, softmax, random numbers.
#include "ops/check/row_words.hpp"

namespace gradus::inline v1::rows {

namespace {

constexpr Exactness kSameBits{0, false, 0, "seed and position give the number on every device"};
constexpr unsigned kProducts = kReal | kComplex | kInteger;
constexpr unsigned kInAlgebras = kProducts | kBool;

Row product(const char* name, std::vector<Case> cases) {
  return {name, {kPlain, kPlain}, kProducts, std::move(cases), kContracts};
}

// The tropical algebras have no complex numbers and no u8, log-sum-exp has reals alone, boolean
// alone has bool.
void restrict(Case& c, std::string_view algebra) {
  c.dtypes = algebra == "standard"         ? kProducts
             : algebra == "log-sum-exp"    ? kReal
             : algebra == "boolean"        ? kBool
             : algebra.starts_with("mod ") ? kInteger
                                           : kReal | kInteger;
  c.bytes = algebra == "standard";
}

Case contraction(Shape a, Ints la, Shape b, Ints lb, Ints out, const char* algebra = "standard") {
  Case c{{std::move(a), std::move(b)},
         {{"labels_a", la}, {"labels_b", lb}, {"labels_out", out}, {"algebra", algebra}}};
  restrict(c, algebra);
  return c;
}

Case with_bias(Case c, Shape bias) {
  c.shapes.push_back(std::move(bias));
  return c;
}

// The general form: batches, repeated labels, labels of one operand alone, broadcast extents.
Row contract_row() {
  Row row{"contract",
          {between(0.1, 2), between(0.1, 2)},  // positive: the zero of max-times is 0
          kInAlgebras,
          {contraction({3, 4}, {0, 1}, {4, 5}, {1, 2}, {0, 2}),
           contraction({2, 3, 4}, {9, 0, 1}, {5, 2, 4}, {2, 9, 1}, {2, 9, 0}),
           contraction({4, 4}, {0, 0}, {4, 3}, {0, 1}, {1}),
           contraction({3, 4}, {0, 1}, {5}, {2}, {0, 2}),
           contraction({3, 1}, {0, 1}, {4, 5}, {1, 2}, {2, 0}), contraction({}, {}, {3}, {0}, {0}),
           contraction({0, 4}, {0, 1}, {4, 2}, {1, 2}, {0, 2}),
           contraction({3, 0}, {0, 1}, {0, 2}, {1, 2}, {0, 2}),
           with_bias(contraction({3, 4}, {0, 1}, {4, 5}, {1, 2}, {0, 2}), {5}),
           with_bias(contraction({2, 3, 4}, {9, 0, 1}, {5, 2, 4}, {2, 9, 1}, {2, 9, 0}), {2, 1}),
           with_bias(contraction({4, 4}, {0, 0}, {4, 3}, {0, 1}, {1}), {}),
           with_bias(contraction({7}, {0}, {7}, {0}, {}), {}),
           with_bias(contraction({0, 4}, {0, 1}, {4, 2}, {1, 2}, {0, 2}), {2}),
           with_bias(contraction({3, 0}, {0, 1}, {0, 2}, {1, 2}, {0, 2}), {3, 2})},
          kContracts};
  for (const char* algebra :
       {"max-plus", "min-plus", "max-times", "min-times", "log-sum-exp", "boolean", "mod 3"}) {
    row.cases.push_back(contraction({3, 4}, {0, 1}, {4, 5}, {1, 2}, {0, 2}, algebra));
    // Drawn so that no winner wins by less than the step of a difference; else check_vjp says so.
    row.cases.push_back(
        contraction({2, 3, 4}, {9, 0, 1}, {3, 2, 4}, {2, 9, 1}, {2, 9, 0}, algebra));
  }
  return row;
}

Case equation(std::vector<Shape> shapes, const char* text, const char* algebra = "standard") {
  Case c{std::move(shapes), {{"equation", text}, {"algebra", algebra}}};
  restrict(c, algebra);
  return c;
}

Row einsum_row() {
  return {
      "einsum",
      {between(0.1, 2)},
      kInAlgebras,
      {equation({{3, 4}, {4, 5}}, "ij,jk->ik"), equation({{4, 4}}, "ii->"),
       equation({{2, 3}, {3, 4}, {4, 2}}, "ij,jk,kl->il"),
       equation({{2, 3, 4}, {4, 3}}, "...ij,ji->..."), equation({{3}, {5}}, "i,j->ji"),
       equation({{}, {3}}, ",i->i"), equation({{0, 4}, {4}}, "ij,j->i"),
       equation({{1, 4}, {3, 4}}, "ij,ij->j"), equation({{2, 3}, {3, 4}}, "ij,jk->ik", "max-plus"),
       equation({{2, 3}, {3, 4}}, "ij,jk->ik", "max-times"),
       equation({{2, 3}, {3, 4}}, "ij,jk->ik", "min-times"),
       equation({{2, 3}, {3, 4}, {4, 2}}, "ij,jk,kl->il", "log-sum-exp"),
       equation({{2, 3}, {3, 4}, {4, 2}}, "ij,jk,kl->il", "boolean"),
       equation({{2, 3}, {3, 4}, {4, 2}}, "ij,jk,kl->il", "mod 3")},
      kContracts};
}

Case network(std::vector<Shape> shapes, Ints terms, Ints path, Ints sliced = {}) {
  return {std::move(shapes), {{"terms", terms}, {"path", path}, {"sliced", sliced}}};
}

// A chain; a hyperedge, a diagonal and an extent of 1; the sum of one slice after the other;
// nothing to sum; a label of one operand alone.
Row network_row() {
  const Ints chain{2, 0, 1, 2, 1, 2, 2, 2, 3, 2, 0, 3};
  return {"network",
          {between(0.1, 2)},
          kProducts,
          {network({{2, 3}, {3, 4}, {4, 2}}, chain, {0, 1, 0, 1}),
           network({{3, 4}, {3, 3}, {3, 1}, {4}}, {2, 0, 1, 2, 0, 0, 2, 0, 2, 1, 1, 2, 1, 2},
                   {0, 1, 0, 2, 0, 1}),
           network({{2, 3}, {3, 4}, {4, 2}}, chain, {1, 2, 0, 1}, {2, 1}),
           network({{2}, {3}, {2}}, {1, 0, 1, 1, 1, 2, 3, 2, 1, 0}, {0, 1, 0, 1}),
           network({{2, 3}, {3, 5}, {3}}, {2, 0, 1, 2, 1, 2, 1, 1, 1, 0}, {0, 1, 0, 1}),
           network({{2, 3}, {3, 0}, {0, 2}}, chain, {0, 1, 0, 1})},
          kContracts};
}

// Two blocks change places, one of them turned and one with its sign; the diagonal's sum; a number
// for many; a block among zeros, which stand in the list or do not; nothing.
Row block_copy_row() {
  const auto copy = [](int64_t n, int64_t size, Ints blocks, int64_t covers_x, int64_t covers_y) {
    return Case{{{n}},
                {{"size", size},
                 {"blocks", std::move(blocks)},
                 {"covers_x", covers_x},
                 {"covers_y", covers_y}}};
  };
  return {"block_copy",
          {kPlain},
          kProducts,
          {copy(12, 12, {0, 2, 1, 0, 6, 2, 3, 3, 1, 1, 2, -1, 6, 0, 2, 3, 3, 1, 3, 1}, 0, 0),
           copy(9, 1, {1, 1, 1, 0, 0, 3, 4, 0}, 1, 2), copy(1, 4, {0, 1, 1, 0, 0, 4, 0, 1}, 2, 0),
           copy(3, 5, {0, 1, 1, 0, 2, 3, 1, 1}, 0, 1),
           copy(2, 6, {0, 1, 0, 0, 0, 4, 0, 1, 1, 0, 4, 2, 1, 1}, 0, 0), copy(0, 0, {0, 0}, 0, 0)},
          kContracts};
}

// One product; two into one block, and a block of nothing; batches, one operand the same for all;
// conjugates; elements that no job names.
Row grouped_row() {
  const auto grouped = [](int64_t a, int64_t b, int64_t size, Ints jobs, int64_t rest = 0) {
    return Case{{{a}, {b}}, {{"size", size}, {"jobs", std::move(jobs)}, {"rest", rest}}};
  };
  return {"grouped_contract",
          {between(0.1, 2)},
          kProducts,
          {grouped(6, 6, 4, {0, 0, 1, 1, 1, 2, 2, 3, 0, 0, 3, 1, 0, 0, 2, 1, 0, 0, 2, 1}),
           grouped(8, 8, 6, {0, 0, 1,  1, 1, 2, 2, 2, 0, 0, 2, 1, 0, 0, 2, 1, 0, 0, 2,
                             1, 0, -1, 1, 2, 2, 2, 4, 0, 2, 1, 4, 0, 2, 1, 0, 0, 2, 1,
                             1, 1, 1,  1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 2, 1}),
           grouped(4, 4, 2, {0, 0, 1, 1, 2, 1, 1, 2, 0, 2, 2, 1, 0, 2, 1, 1, 0, 1, 1, 1}),
           grouped(4, 2, 2, {0, 0, 1, 1, 2, 1, 1, 2, 0, 2, 2, 1, 0, 0, 1, 1, 0, 1, 1, 1}),
           grouped(6, 6, 4, {1, 0, 1, 1, 1, 2, 2, 3, 0, 0, 3, 1, 0, 0, 2, 1, 0, 0, 2, 1}),
           grouped(6, 6, 4, {1, 1, 1, 1, 1, 2, 2, 3, 0, 0, 3, 1, 0, 0, 2, 1, 0, 0, 2, 1}),
           grouped(4, 5, 5, {0, 0, 1, 1, 1, 1, 2, 2, 0, 0, 2, 1, 1, 0, 2, 1, 2, 0, 2, 1}, 7),
           grouped(0, 0, 0, {0, 0})},
          kContracts};
}

std::vector<Row> contraction_rows() {
  return {
      contract_row(),
      einsum_row(),
      network_row(),
      block_copy_row(),
      grouped_row(),
      product("matmul", {{{{3, 5}, {5, 4}}},
                         {{{5}, {5}}},
                         {{{3, 5}, {5}}},
                         {{{5}, {5, 4}}},
                         {{{2, 1, 3, 5}, {4, 5, 2}}},
                         {{{3, 0}, {0, 2}}},
                         {{{0, 3}, {3, 2}}},
                         {{{17, 67}, {67, 9}}}}),
      product("mm",
              {{{{3, 5}, {5, 4}}}, {{{1, 7}, {7, 1}}}, {{{3, 0}, {0, 2}}}, {{{33, 34}, {34, 35}}}}),
      product("bmm",
              {{{{2, 3, 5}, {2, 5, 4}}}, {{{0, 3, 5}, {0, 5, 4}}}, {{{3, 1, 7}, {3, 7, 1}}}}),
      product("mv", {{{{3, 5}, {5}}}, {{{3, 0}, {0}}}, {{{19, 65}, {65}}}}),
      product("dot", {{{{7}, {7}}}, {{{0}, {0}}}, {{{70}, {70}}}}),
      product("outer", {{{{3}, {5}}}, {{{0}, {5}}}, {{{17}, {9}}}}),
      product("tensordot",
              {{{{2, 3, 4}, {4, 3, 5}}, {{"dims_a", Ints{1, 2}}, {"dims_b", Ints{1, 0}}}},
               {{{3, 4}, {4, 5}}, {{"dims_a", Ints{-1}}, {"dims_b", Ints{0}}}},
               {{{2, 3, 4}, {3, 4, 5}}, {{"dims", 2}}},
               {{{2}, {3}}, {{"dims_a", Ints{}}, {"dims_b", Ints{}}}}}),
  };
}

std::vector<Row> indexing_rows() {
  return {
      {"gather",
       {kPlain, indices()},
       kNumbers,
       {{{{4, 5}, {3, 5}}, {{"dim", 0}}, 4},
        {{{4, 5}, {4, 7}}, {{"dim", -1}}, 5},
        {{{6}, {11}}, {}, 6},
        {{{4, 5}, {2, 3}}, {{"dim", 1}}, 5},
        {{{4, 5}, {0, 5}}, {}, 4},
        {{{2, 3, 4}, {2, 6, 4}}, {{"dim", 1}}, 3}},
       kMoves},
      {"scatter_add",
       {kPlain, indices(), kPlain},
       kNumbers,
       {{{{4, 5}, {3, 5}, {3, 5}}, {{"dim", 0}}, 4},
        {{{4, 5}, {4, 7}, {4, 7}}, {{"dim", 1}}, 5},
        {{{6}, {11}, {12}}, {}, 6},
        {{{4, 5}, {2, 3}, {3, 5}}, {{"dim", -1}}, 5},
        {{{4, 5}, {0, 5}, {2, 5}}, {}, 4}},
       kContracts},
      {"embedding",
       {kPlain, indices()},
       kNumbers,
       {{{{7, 3}, {2, 5}}, {}, 7}, {{{7, 3}, {}}, {}, 7}, {{{7, 3}, {0}}, {}, 7}},
       kMoves},
  };
}

std::vector<Row> softmax_rows() {
  const std::vector<Case> softmax{{{{3, 5}}, {{"dim", 1}}},     {{{3, 5}}, {{"dim", 0}}},
                                  {{{2, 3, 4}}, {{"dim", -2}}}, {{{}}, {{"dim", 0}}},
                                  {{{0, 3}}, {{"dim", 1}}},     {{{37}}, {{"dim", 0}}}};
  return {
      {"softmax", {between(-3, 3)}, kReal, softmax, kExponentials},
      {"log_softmax", {between(-3, 3)}, kReal, softmax, kExponentials},
  };
}

std::vector<Row> random_rows() {
  const AttrValue size = Ints{3, 7};
  return {
      {"uniform",
       {},
       0,
       {{{}, {{"size", size}}},
        {{}, {{"size", size}, {"low", -2.0}, {"high", 3.0}, {"dtype", DType::f64}}},
        {{}, {{"size", size}, {"dtype", DType::f16}}},
        {{}, {{"size", Ints{}}}},
        {{}, {{"size", Ints{0}}}}},
       kSameBits,
       {{0.5, 1.0 / 12}, {0.5, 25.0 / 12}}},
      {"normal",
       {},
       0,
       {{{}, {{"size", size}}},
        {{}, {{"size", size}, {"mean", 1.0}, {"std", 2.0}, {"dtype", DType::f64}}},
        {{}, {{"size", size}, {"dtype", DType::bf16}}},
        {{}, {{"size", Ints{}}}},
        {{}, {{"size", Ints{0}}}}},
       kSameBits,
       {{0, 1}, {1, 4}}},
      {"bernoulli",
       {},
       0,
       {{{}, {{"size", size}}},
        {{}, {{"size", size}, {"p", 0.2}, {"dtype", DType::bool_}}},
        {{}, {{"size", size}, {"p", 1.0}, {"dtype", DType::f64}}},
        {{}, {{"size", Ints{0}}}}},
       kSameBits,
       {{0.5, 0.25}, {0.2, 0.16}}},
      {"dropout",
       {kPlain},
       kReal | kComplex,
       {{{{3, 5}}, {{"p", 0.4}}},
        {{{37}}},
        {{{3, 5}}, {{"training", false}}},
        {{{}}, {{"p", 1.0}}},
        {{{0}}}},
       {2, false, 3, "two products, the scale rounded to f16"}},
      {"feature_dropout",
       {kPlain},
       kReal | kComplex,
       {{{{3, 5, 4}}, {{"p", 0.4}}},
        {{{4, 7}}},
        {{{3, 5}}, {{"training", false}}},
        {{{2, 3, 2, 2}}},
        {{{2, 3}}, {{"p", 1.0}}},
        {{{0, 3}}}},
       {2, false, 3, "two products, the scale rounded to f16"}},
      {"alpha_dropout",
       {kPlain},
       kReal,
       {{{{3, 5}}, {{"p", 0.4}}},
        {{{37}}},
        {{{3, 5}}, {{"training", false}}},
        {{{}}, {{"p", 1.0}}},
        {{{0}}}},
       {4, true, 4, "a product and a sum, whose terms cancel"}},
  };
}

}  // namespace

std::vector<Row> model_rows() {
  std::vector<Row> all = contraction_rows();
  for (auto more : {indexing_rows(), softmax_rows(), random_rows()})
    for (Row& row : more) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::rows
