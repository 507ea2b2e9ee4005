// Rows of the ops that rearrange and reduce: memory, views, joins, reductions. Those that only move
// values are exact; sums are compared normwise, as their terms cancel.
#include "ops/check/row_words.hpp"

namespace gradus::inline v1::rows {

namespace {

constexpr Exactness kLongSums{64, true, 2, "up to 100 terms in another order"};

// The shapes and axes that every reduction takes. The op table's empty cases: sums of nothing.
std::vector<Case> reductions(bool may_be_empty = true) {
  std::vector<Case> cases{{{{3, 5}}, {{"dim", Ints{1}}}},
                          {{{3, 5}}},
                          {{{}}},
                          {{{2, 3, 4}}, {{"dim", Ints{0, 2}}, {"keepdim", true}}},
                          {{{2, 3, 4}}, {{"dim", Ints{-2}}}},
                          {{{101}}, {{"dim", Ints{0}}}},
                          {{{}}, {{"dim", Ints{-1}}, {"keepdim", true}}}};
  if (may_be_empty) {
    cases.push_back({{{0}}});
    cases.push_back({{{0, 3}}, {{"dim", Ints{0}}}});
  }
  cases.push_back({{{0, 3}}, {{"dim", Ints{1}}}});
  return cases;
}

// As reductions(), with at least two elements in each group.
std::vector<Case> spreads() {
  return {{{{3, 5}}, {{"dim", Ints{1}}}},
          {{{3, 5}}},
          {{{2, 3, 4}}, {{"dim", Ints{0, 2}}, {"keepdim", true}, {"correction", 0.0}}},
          {{{37}}, {{"dim", Ints{0}}}}};
}

std::vector<Row> memory_rows() {
  std::vector<Case> casts;
  for (const DType to : {DType::f64, DType::c128, DType::f32, DType::c64})
    for (const Shape& shape : {Shape{3, 5}, Shape{}, Shape{0}})
      casts.push_back({{shape}, {{"dtype", to}}});
  // To the narrow ones: no slope is checked through a rounding.
  for (const DType to : {DType::i32, DType::i64, DType::bool_, DType::f16, DType::bf16})
    casts.push_back({{{2, 3, 17}}, {{"dtype", to}}, 0, false});
  for (size_t i = 6; i < 12; ++i) casts[i].slopes = false;
  Row complex = moves("complex", {{{{3, 5}, {3, 5}}}, {{{5}, {3, 1}}}, {{{}, {}}}, {{{0}, {0}}}});
  complex.dtypes = kReal;
  complex.halves = false;
  return {
      moves("cast", std::move(casts)),
      moves("contiguous", {{{{3, 5}}}, {{{}}}, {{{0}}}}),
      moves("clone", {{{{3, 5}}}, {{{}}}, {{{0}}}}),
      std::move(complex),
  };
}

std::vector<Row> view_rows() {
  Row as_strided = moves("as_strided",
                         {{{{3, 5}}, {{"size", Ints{2, 2}}, {"stride", Ints{5, 2}}, {"offset", 1}}},
                          {{{12}}, {{"size", Ints{3, 4}}, {"stride", Ints{4, 1}}}}});
  Row scatter =
      moves("as_strided_scatter", {{{{3, 5}, {2, 2}}, {{"stride", Ints{5, 2}}, {"offset", 1}}},
                                   {{{12}, {3, 4}}, {{"stride", Ints{4, 1}}}},
                                   {{{}, {}}, {{"stride", Ints{}}}},
                                   {{{7}, {0}}, {{"stride", Ints{1}}}}});
  as_strided.layouts = false;  // its strides are those of the memory under x
  return {
      as_strided,
      scatter,
      moves("embed", {{{{2, 2}}, {{"shape", Ints{3, 5}}, {"stride", Ints{5, 2}}, {"offset", 1}}},
                      {{{}}, {{"shape", Ints{4}}, {"stride", Ints{}}, {"offset", 2}}}}),
      moves("to_dense", {{{{3}}, {{"classes", Ints{0, 0}}}},
                         {{{2, 3}}, {{"classes", Ints{1, 0, 1, 1}}}},
                         {{{2, 3}}, {{"classes", Ints{1, 0}}}},
                         {{{0, 2}}, {{"classes", Ints{0, 1, 0, 1}}}}}),
      moves("reshape", {{{{4, 6}}, {{"shape", Ints{8, -1}}}},
                        {{{}}, {{"shape", Ints{1, 1}}}},
                        {{{2, 3, 4}}, {{"shape", Ints{6, 4}}}},
                        {{{0, 3}}, {{"shape", Ints{3, 0}}}}}),
      moves("permute", {{{{2, 3, 4}}, {{"dims", Ints{2, 0, 1}}}},
                        {{{}}, {{"dims", Ints{}}}},
                        {{{3, 5}}, {{"dims", Ints{-1, 0}}}},
                        {{{0, 3}}, {{"dims", Ints{1, 0}}}}}),
      moves("transpose",
            {{{{2, 3, 4}}, {{"dim0", 0}, {"dim1", -1}}}, {{{3, 5}}, {{"dim0", 1}, {"dim1", 0}}}}),
      moves("slice", {{{{5, 7}}, {{"dim", 1}, {"start", 1}, {"end", -1}, {"step", 2}}},
                      {{{9}}, {{"dim", 0}, {"start", -2}, {"step", -3}, {"end", 0}}},
                      {{{5, 3}}, {{"dim", 0}, {"start", 4}, {"end", 4}}},
                      {{{7}}, {{"dim", 0}}}}),
      moves("select", {{{{3, 5}}, {{"dim", 1}, {"index", -2}}},
                       {{{7}}, {{"dim", 0}, {"index", 3}}},
                       {{{2, 3, 4}}, {{"dim", 1}, {"index", 0}}}}),
      moves("expand", {{{{3, 1}}, {{"size", Ints{2, 3, 4}}}},
                       {{{}}, {{"size", Ints{3}}}},
                       {{{1, 5}}, {{"size", Ints{4, -1}}}},
                       {{{1}}, {{"size", Ints{0}}}}}),
      moves("flip", {{{{3, 5}}, {{"dims", Ints{0, 1}}}},
                     {{{2, 3, 4}}, {{"dims", Ints{-2}}}},
                     {{{0}}, {{"dims", Ints{0}}}},
                     {{{}}, {{"dims", Ints{0}}}}}),
      moves("diagonal", {{{{4, 4}}},
                         {{{3, 5}}, {{"offset", 1}}},
                         {{{5, 3}}, {{"offset", -2}}},
                         {{{2, 4, 3}}, {{"dim1", 1}, {"dim2", 2}}}}),
      moves("squeeze", {{{{1, 3, 1}}},
                        {{{1, 3, 1}}, {{"dim", Ints{0}}}},
                        {{{3, 1}}, {{"dim", Ints{-1}}}},
                        {{{}}},
                        {{{}}, {{"dim", Ints{-1}}}}}),
      moves("unsqueeze", {{{{3, 5}}, {{"dim", 1}}}, {{{}}, {{"dim", 0}}}, {{{4}}, {{"dim", -1}}}}),
  };
}

std::vector<Row> join_rows() {
  return {
      moves("cat", {{{{3, 5}, {2, 5}}},
                    {{{3, 2}, {3, 1}, {3, 0}}, {{"dim", 1}}},
                    {{{2, 3, 4}, {2, 1, 4}}, {{"dim", -2}}},
                    {{{7}}}}),
      moves("stack",
            {{{{3, 5}, {3, 5}}}, {{{4}, {4}, {4}}, {{"dim", -1}}}, {{{}, {}}}, {{{0}, {0}}}}),
      moves("pad", {{{{3, 5}}, {{"pad", Ints{1, 2}}}},
                    {{{3, 5}}, {{"pad", Ints{-1, 2, 1, 0}}, {"value", 1.5}}},
                    {{{2, 3, 4}}, {{"pad", Ints{0, 1, 2, 0, 1, 1}}}},
                    {{{0}}, {{"pad", Ints{2, 1}}}}}),
  };
}

std::vector<Row> reduction_rows() {
  std::vector<Case> products = reductions();
  std::erase_if(products, [](const Case& c) { return c.shapes[0] == Shape{101}; });
  return {
      {"sum", {kPlain}, kAny, reductions(), kLongSums},
      {"mean", {kPlain}, kReal | kComplex, reductions(false), kLongSums},
      {"prod", {between(0.5, 1.7)}, kNumbers, products, kChain},
      {"amax", {lattice()}, kReal | kInteger, reductions(false), kMoves},
      {"amin", {lattice()}, kReal | kInteger, reductions(false), kMoves},
      {"argmax",
       {lattice()},
       kReal | kInteger,
       {{{{3, 5}}, {{"dim", 1}}},
        {{{3, 5}}},
        {{{}}},
        {{{2, 3, 4}}, {{"dim", -2}, {"keepdim", true}}},
        {{{101}}, {{"dim", 0}}},
        {{{0, 3}}, {{"dim", 1}}}},
       kMoves},
      {"var", {kPlain}, kReal | kComplex, spreads(), kChain},
      {"std", {kPlain}, kReal | kComplex, spreads(), kChain},
      {"logsumexp",
       {kPlain},
       kNumbers,
       {{{{3, 5}}, {{"dim", Ints{1}}}},
        {{{2, 3, 4}}, {{"dim", Ints{0, 2}}, {"keepdim", true}}},
        {{{37}}, {{"dim", Ints{0}}}}},
       kChain},
      {"cumsum",
       {kPlain},
       kNumbers,
       {{{{3, 5}}, {{"dim", 1}}},
        {{{3, 5}}, {{"dim", 0}}},
        {{{}}},
        {{{2, 3, 4}}, {{"dim", -2}, {"reverse", true}}},
        {{{0, 3}}, {{"dim", 0}}},
        {{{37}}}},
       kLongSums},
      {"sum_to",
       {kPlain},
       kNumbers,
       {{{{3, 5}}, {{"size", Ints{5}}}},
        {{{2, 3, 4}}, {{"size", Ints{3, 1}}}},
        {{{3, 5}}, {{"size", Ints{}}}},
        {{{3, 5}}, {{"size", Ints{3, 5}}}}},
       kLongSums},
  };
}

}  // namespace

std::vector<Row> structured_rows() {
  std::vector<Row> all = memory_rows();
  for (auto more : {view_rows(), join_rows(), reduction_rows()})
    for (Row& row : more) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::rows
