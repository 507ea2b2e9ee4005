// Rows of the ops that rearrange, repeat and cut apart, and of those that make tensors from a
// shape.
#include "ops/check/row_words.hpp"

namespace gradus::inline v1::rows {

namespace {

constexpr Exactness kCounts{2, true, 1, "computed in f64 and rounded"};
constexpr Exactness kSums{64, true, 2, "up to 20 terms in another order"};
constexpr Exactness kProducts{4, true, 2, "one product, or the difference of two"};

Row made(const char* name, std::vector<NamedAttrs> attrs, Exactness exactness = kMoves) {
  Row row{name, {}, 0, {}, exactness};
  for (NamedAttrs& a : attrs) row.cases.push_back({{}, std::move(a)});
  return row;
}

std::vector<Row> moved_rows() {
  const Case cube{{{2, 3, 4}}}, square{{{3, 5}}};
  return {
      moves("roll", {{{{3, 5}}, {{"shifts", Ints{2}}, {"dims", Ints{1}}}},
                     {{{3, 5}}, {{"shifts", Ints{-4}}}},
                     {{{2, 3, 4}}, {{"shifts", Ints{1, -9}}, {"dims", Ints{0, -1}}}},
                     {{{0}}, {{"shifts", Ints{3}}, {"dims", Ints{0}}}}}),
      moves("fliplr", {square, cube, {{{0, 3}}}}),
      moves("flipud", {square, cube, {{{0}}}}),
      moves("rot90", {square,
                      {{{3, 5}}, {{"k", 2}}},
                      {{{2, 3, 4}}, {{"k", -1}, {"dims", Ints{2, 0}}}},
                      {{{0, 3}}, {{"k", 7}}},
                      {{{3, 2}}, {{"k", 4}}}}),
      moves("movedim", {{{{2, 3, 4}}, {{"source", Ints{0}}, {"destination", Ints{-1}}}},
                        {{{2, 3, 4, 5}}, {{"source", Ints{3, 0}}, {"destination", Ints{1, 2}}}},
                        {{{}}, {{"source", Ints{}}, {"destination", Ints{}}}},
                        {{{0, 3}}, {{"source", Ints{1}}, {"destination", Ints{0}}}}}),
      moves("flatten", {square,
                        {{{2, 3, 4}}, {{"start_dim", 1}}},
                        {{{}}},
                        {{{2, 3, 4}}, {{"end_dim", -2}}},
                        {{{0, 3}}}}),
      moves("ravel", {square, {{{}}}, {{{0, 3}}}}),
      moves("unflatten", {{{{3, 6}}, {{"dim", 1}, {"sizes", Ints{2, -1}}}},
                          {{{12}}, {{"dim", 0}, {"sizes", Ints{2, 3, 2}}}},
                          {{{0, 3}}, {{"dim", 0}, {"sizes", Ints{0, 2}}}}}),
  };
}

std::vector<Row> triangle_rows() {
  const auto triangles = [](const char* name) {
    return moves(
        name,
        {{{{3, 5}}}, {{{5, 3}}, {{"diagonal", 1}}}, {{{2, 4, 4}}, {{"diagonal", -2}}}, {{{0, 3}}}});
  };
  return {
      triangles("tril"),
      triangles("triu"),
      moves("diag", {{{{4}}, {{"diagonal", 1}}},
                     {{{3, 5}}, {{"diagonal", -1}}},
                     {{{4}}},
                     {{{0}}},
                     {{{5, 3}}}}),
      moves("diag_embed", {{{{3}}},
                           {{{2, 3}}, {{"offset", -1}}},
                           {{{2, 3}}, {{"offset", 2}, {"dim1", 0}, {"dim2", -2}}},
                           {{{2, 0}}, {{"dim1", 2}, {"dim2", 0}}}}),
      {"trace", {kPlain}, kNumbers, {{{{4, 4}}}, {{{3, 5}}}, {{{0, 3}}}}, kSums},
  };
}

std::vector<Row> repeated_rows() {
  return {
      moves("repeat", {{{{3, 5}}, {{"repeats", Ints{2, 3}}}},
                       {{{3}}, {{"repeats", Ints{4, 1}}}},
                       {{{}}, {{"repeats", Ints{}}}},
                       {{{3, 2}}, {{"repeats", Ints{0, 2}}}}}),
      moves("tile", {{{{3, 5}}, {{"dims", Ints{2}}}},
                     {{{3}}, {{"dims", Ints{2, 3}}}},
                     {{{}}, {{"dims", Ints{3}}}},
                     {{{0}}, {{"dims", Ints{2}}}}}),
      moves("repeat_interleave", {{{{3, 5}}, {{"repeats", 2}}},
                                  {{{3, 5}}, {{"repeats", 3}, {"dim", -2}}},
                                  {{{}}, {{"repeats", 2}}},
                                  {{{3}}, {{"repeats", 0}, {"dim", 0}}}}),
      moves("broadcast_to", {{{{3, 1}}, {{"size", Ints{2, 3, 4}}}},
                             {{{}}, {{"size", Ints{3}}}},
                             {{{1}}, {{"size", Ints{0}}}}}),
      moves("broadcast_tensors", {{{{3, 1}, {4}}}, {{{}, {2, 1}, {3}}}, {{{0}, {1}}}, {{{3}}}}),
      moves("meshgrid", {{{{3}, {4}}},
                         {{{3}, {4}, {2}}, {{"indexing", "xy"}}},
                         {{{}, {3}}},
                         {{{3}}, {{"indexing", "xy"}}},
                         {{{0}, {2}}}}),
      {"kron",
       {kPlain},
       kNumbers,
       {{{{2, 3}, {4, 2}}}, {{{3}, {2, 2}}}, {{{}, {3}}}, {{{0, 2}, {3, 1}}}},
       kProducts},
      {"cross",
       {kPlain},
       kNumbers,
       {{{{4, 3}, {4, 3}}}, {{{3}, {5, 3}}}, {{{3, 4}, {3, 1}}, {{"dim", 0}}}, {{{0, 3}, {0, 3}}}},
       kProducts},
  };
}

std::vector<Row> part_rows() {
  const std::vector<Case> stacks{
      {{{3, 5}, {3, 5}}}, {{{4}, {4}, {4}}}, {{{}, {}}}, {{{2, 3, 4}, {2, 3, 4}}}, {{{0}, {0}}}};
  return {
      moves("narrow", {{{{3, 5}}, {{"dim", 1}, {"start", 1}, {"length", 3}}},
                       {{{7}}, {{"dim", 0}, {"start", -2}, {"length", 2}}},
                       {{{7}}, {{"dim", 0}, {"start", 7}, {"length", 0}}}}),
      moves("split", {{{{7, 2}}, {{"split_size_or_sections", Ints{3}}}},
                      {{{3, 5}}, {{"split_size_or_sections", Ints{2, 0, 3}}, {"dim", -1}}},
                      {{{0, 3}}, {{"split_size_or_sections", Ints{2}}}}}),
      moves("chunk", {{{{7, 2}}, {{"chunks", 3}}},
                      {{{3, 5}}, {{"chunks", 4}, {"dim", 1}}},
                      {{{0, 3}}, {{"chunks", 2}}}}),
      moves("unbind", {{{{3, 5}}}, {{{2, 3, 4}}, {{"dim", -2}}}, {{{1}}}, {{{2, 0}}}}),
      moves("hstack", stacks),
      moves("vstack", stacks),
      moves("dstack", stacks),
      moves("column_stack", stacks),
  };
}

std::vector<Row> creation_rows() {
  const AttrValue size = Ints{3, 7}, none = Ints{}, empty = Ints{0, 3};
  const std::vector<Case> shapes{{{{3, 5}}}, {{{}}}, {{{0, 3}}}};
  std::vector<Case> filled = shapes;
  filled[0].attrs = {{"fill_value", 3.0}};
  return {
      made("full", {{{"size", size}, {"fill_value", 1.5}},
                    {{"size", none}, {"fill_value", -2.0}, {"dtype", DType::i64}},
                    {{"size", empty}, {"dtype", DType::c64}}}),
      made("zeros",
           {{{"size", size}}, {{"size", none}, {"dtype", DType::bool_}}, {{"size", empty}}}),
      made("ones", {{{"size", size}},
                    {{"size", none}, {"dtype", DType::c128}},
                    {{"size", empty}, {"dtype", DType::u8}}}),
      made("eye", {{{"n", 3}}, {{"n", 2}, {"m", 5}, {"dtype", DType::i32}}, {{"n", 0}}}),
      made("arange",
           {{{"end", 5.0}},
            {{"end", -1.0}, {"start", 3.0}, {"step", -0.7}},
            {{"end", 4.0}, {"start", 4.0}},
            {{"end", 40.0}, {"start", 3.0}, {"step", 4.0}, {"dtype", DType::f64}},
            {{"end", 1.0}, {"step", 0.3}, {"dtype", DType::f16}}},
           kCounts),
      made("linspace",
           {{{"start", -1.0}, {"end", 2.0}, {"steps", 7}},
            {{"start", 3.0}, {"end", 1.0}, {"steps", 10}, {"dtype", DType::f64}},
            {{"start", 3.0}, {"end", 4.0}, {"steps", 1}},
            {{"start", 0.0}, {"end", 1.0}, {"steps", 0}}},
           kCounts),
      moves("zeros_like", shapes),
      moves("ones_like", shapes),
      moves("full_like", filled),
  };
}

}  // namespace

std::vector<Row> rearrange_rows() {
  std::vector<Row> all = moved_rows();
  for (auto more : {triangle_rows(), repeated_rows(), part_rows(), creation_rows()})
    for (Row& row : more) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::rows
