// Rows of the ops that order, scan and index.
#include "ops/check/row_words.hpp"

namespace gradus::inline v1::rows {

namespace {

constexpr unsigned kOrdered = kReal | kInteger | kBool;
constexpr Exactness kSums{64, true, 2, "up to 40 terms in another order"};

std::vector<Case> lines(NamedAttrs more = {}) {
  std::vector<Case> cases{{{{3, 5}}, {{"dim", 1}}}, {{{4, 3}}, {{"dim", 0}}},
                          {{{}}, {{"dim", -1}}},    {{{2, 3, 4}}, {{"dim", -2}}},
                          {{{37}}, {{"dim", 0}}},   {{{0, 3}}, {{"dim", 1}}},
                          {{{0, 3}}, {{"dim", 0}}}};
  for (size_t i = 1; i < cases.size(); i += 2)
    for (const auto& attr : more) cases[i].attrs.push_back(attr);
  return cases;
}

std::vector<Case> extrema() {
  return {{{{3, 5}}},
          {{{3, 5}}, {{"dim", 1}}},
          {{{}}},
          {{{}}, {{"dim", 0}}},
          {{{2, 3, 4}}, {{"dim", -2}, {"keepdim", true}}},
          {{{37}}, {{"dim", 0}}},
          {{{0, 3}}, {{"dim", 1}}}};
}

Row ordered(const char* name, std::vector<Case> cases, unsigned dtypes = kOrdered) {
  return {name, {lattice()}, dtypes, std::move(cases), kMoves};
}

std::vector<Row> order_rows() {
  // A constant sequence, or one of one element, is sorted; longer ones stand in test_sorting.cpp.
  const Domain constant = between(0.5, 0.5);
  return {
      ordered("argsort", lines({{"descending", true}})),
      ordered("sort", lines({{"descending", true}})),
      ordered("msort", {{{{5, 3}}}, {{{}}}, {{{37}}}, {{{0, 3}}}}),
      ordered("topk", {{{{3, 5}}, {{"k", 2}}},
                       {{{4, 3}}, {{"k", 3}, {"dim", 0}, {"largest", false}}},
                       {{{}}, {{"k", 1}}},
                       {{{37}}, {{"k", 37}}},
                       {{{3, 5}}, {{"k", 0}}},
                       {{{3, 0}}, {{"k", 0}}}}),
      ordered("kthvalue", {{{{3, 5}}, {{"k", 2}}},
                           {{{}}, {{"k", 1}}},
                           {{{2, 3, 4}}, {{"k", 3}, {"dim", 1}, {"keepdim", true}}},
                           {{{0, 3}}, {{"k", 3}}}}),
      ordered("median", {{{{3, 5}}},
                         {{{3, 4}}, {{"dim", 1}}},
                         {{{}}},
                         {{{2, 4, 3}}, {{"dim", -2}, {"keepdim", true}}},
                         {{{0, 3}}, {{"dim", 1}}}}),
      ordered("max", extrema(), kReal | kInteger),
      ordered("min", extrema(), kReal | kInteger),
      ordered("aminmax", extrema(), kReal | kInteger),
      ordered("argmin",
              {{{{3, 5}}, {{"dim", 1}}},
               {{{3, 5}}},
               {{{}}},
               {{{2, 3, 4}}, {{"dim", -2}, {"keepdim", true}}},
               {{{101}}, {{"dim", 0}}},
               {{{0, 3}}, {{"dim", 1}}}},
              kReal | kInteger),
      ordered("unique", {{{{3, 5}}}, {{{}}}, {{{0}}}, {{{37}}}}),
      {"unique_consecutive", {kPlain}, kAny, {{{{3, 5}}}, {{{}}}, {{{0}}}, {{{37}}}}, kMoves},
      {"searchsorted",
       {constant, between(-1, 2)},
       kReal | kInteger,
       {{{{5}, {3, 4}}},
        {{{1}, {}}, {{"right", true}}},
        {{{2, 7}, {2, 3}}, {{"right", true}}},
        {{{0}, {3}}}},
       kMoves},
      {"bucketize",
       {between(-1, 2), constant},
       kReal | kInteger,
       {{{{3, 4}, {5}}}, {{{}, {1}}, {{"right", true}}}, {{{0}, {3}}}},
       kMoves},
      {"bincount",
       {indices(), kPlain},
       kNumbers,
       {{{{17}, {17}}, {}, 5}, {{{17}}, {{"minlength", 9}}, 5}, {{{0}}, {{"minlength", 3}}, 1}},
       kSums},
  };
}

std::vector<Row> scan_rows() {
  const std::vector<Case> integrals{{{{3, 5}}, {{"dx", 0.5}}},
                                    {{{4, 3}, {4}}, {{"dim", 0}}},
                                    {{{2, 3, 4}, {2, 3, 4}}, {{"dim", 1}}},
                                    {{{1}}},
                                    {{{0, 3}}}};
  return {
      {"cumprod", {kPlain}, kNumbers, lines(), kChain},
      ordered("cummax", lines()),
      ordered("cummin", lines()),
      {"logcumsumexp", {kPlain}, kReal, lines(), kChain},
      {"diff",
       {kPlain},
       kAny,
       {{{{3, 5}}},
        {{{4, 3}}, {{"dim", 0}, {"n", 2}}},
        {{{2, 3}}, {{"n", 5}}},
        {{{0, 3}}, {{"n", 0}}},
        {{{0, 3}}, {{"dim", 0}}}},
       kSums},
      {"trapezoid", {kPlain}, kReal | kComplex, integrals, kChain},
      {"cumulative_trapezoid", {kPlain}, kReal | kComplex, integrals, kChain},
  };
}

std::vector<Row> index_rows() {
  const std::vector<Domain> picks = {kPlain, indices()}, fills = {kPlain, indices(), kPlain};
  Case added{{{4, 5}, {3, 5}, {3}}, {{"accumulate", true}}, 4};
  added.dtypes = kNumbers;
  Case put_added{{{4, 5}, {11}, {11}}, {{"accumulate", true}}, 20};
  put_added.dtypes = kNumbers;
  return {
      {"scatter",
       fills,
       kAny,
       {{{{4, 5}, {3, 5}, {3, 5}}, {{"dim", 0}}, 4},
        {{{4, 5}, {4, 7}, {4, 7}}, {{"dim", -1}}, 5},
        {{{6}, {11}}, {{"value", 1.0}}, 6},
        {{{4, 5}, {2, 3}, {3, 5}}, {{"dim", 1}}, 5},
        {{{4, 5}, {0, 5}, {2, 5}}, {}, 4},
        {{{6}, {37}, {37}}, {}, 6}},
       kMoves},
      {"index_select",
       picks,
       kAny,
       {{{{4, 5}, {3}}, {}, 4},
        {{{2, 3, 4}, {6}}, {{"dim", -2}}, 3},
        {{{4}, {}}, {}, 4},
        {{{4, 5}, {0}}, {{"dim", 1}}, 5}},
       kMoves},
      {"index_add",
       fills,
       kNumbers,
       {{{{4, 5}, {6}, {6, 5}}, {}, 4},
        {{{2, 3, 4}, {5}, {2, 5, 4}}, {{"dim", 1}, {"alpha", 2}}, 3},
        {{{4, 5}, {0}, {4, 0}}, {{"dim", 1}}, 5}},
       kSums},
      {"index_copy",
       fills,
       kAny,
       {{{{4, 5}, {6}, {6, 5}}, {}, 4},
        {{{2, 3, 4}, {2}, {2, 2, 4}}, {{"dim", 1}}, 3},
        {{{4, 5}, {0}, {4, 0}}, {{"dim", 1}}, 5}},
       kMoves},
      {"index_fill",
       picks,
       kAny,
       {{{{4, 5}, {2}}, {{"value", 1.0}}, 4},
        {{{2, 3, 4}, {2}}, {{"dim", -1}, {"value", 3.0}}, 4},
        {{{4, 5}, {0}}, {{"dim", 1}}, 5}},
       kMoves},
      {"index",
       picks,
       kAny,
       {{{{4, 5}, {3}, {3}}, {}, 4},
        {{{4, 5, 2}, {2, 3}}, {}, 4},
        {{{4, 5}, {2, 1}, {3}}, {}, 4},
        {{{4}, {}}, {}, 4},
        {{{4, 5}, {0}}, {}, 4}},
       kMoves},
      {"index_put",
       {kPlain, kPlain, indices()},
       kAny,
       {{{{4, 5}, {7}, {7}, {7}}, {}, 4},
        added,
        {{{4, 5, 2}, {2}, {2, 3}}, {}, 4},
        {{{4, 5}, {}, {2, 1}, {3}}, {}, 4},
        {{{4, 5}, {5}, {0}}, {}, 4}},
       kSums},
      {"take",
       picks,
       kAny,
       {{{{4, 5}, {2, 3}}, {}, 20}, {{{7}, {}}, {}, 7}, {{{7}, {0}}, {}, 7}},
       kMoves},
      {"put",
       {kPlain, indices(), kPlain},
       kAny,
       {{{{4, 5}, {2, 3}, {2, 3}}, {}, 20}, put_added, {{{7}, {0}, {0}}, {}, 7}},
       kSums},
      {"take_along_dim",
       picks,
       kAny,
       {{{{4, 5}, {3, 1}}, {{"dim", 0}}, 4},
        {{{4, 5}, {7}}, {}, 20},
        {{{1, 3, 4}, {2, 6, 1}}, {{"dim", -2}}, 3},
        {{{4, 5}, {4, 0}}, {{"dim", 1}}, 5}},
       kMoves},
      {"select_scatter",
       {kPlain},
       kAny,
       {{{{3, 5}, {3}}, {{"dim", 1}, {"index", -2}}}, {{{7}, {}}, {{"index", 3}}}},
       kMoves},
      {"slice_scatter",
       {kPlain},
       kAny,
       {{{{5, 4}, {2, 4}}, {{"start", 1}, {"step", 2}}},
        {{{7}, {3}}, {{"start", -2}, {"step", -2}}},
        {{{3, 5}, {3, 0}}, {{"dim", 1}, {"start", 5}}}},
       kMoves},
      {"diagonal_scatter",
       {kPlain},
       kAny,
       {{{{4, 4}, {4}}},
        {{{3, 5}, {3}}, {{"offset", 1}}},
        {{{2, 4, 3}, {2, 3}}, {{"dim1", 1}, {"dim2", 2}}}},
       kMoves},
  };
}

std::vector<Row> mask_rows() {
  const std::vector<Case> reductions{
      {{{3, 5}}, {{"dim", Ints{1}}}},       {{{3, 5}}}, {{{}}},
      {{{2, 3, 4}}, {{"dim", Ints{0, 2}}}}, {{{0}}},    {{{0, 3}}, {{"dim", Ints{0}}}}};
  std::vector<Case> kept = reductions;
  kept[3].attrs.push_back({"keepdim", true});
  const std::vector<Case> places{{{{3, 5}}}, {{{}}}, {{{2, 3, 4}}}, {{{0, 3}}}};
  return {
      {"masked_fill",
       {kPlain, masks(), kPlain},
       kAny,
       {{{{3, 5}, {3, 5}}, {{"value", 1.0}}}, {{{3, 5}, {5}, {}}}, {{{3, 1}, {4}}}, {{{0}, {0}}}},
       kMoves},
      {"masked_select",
       {kPlain, masks()},
       kAny,
       {{{{3, 5}, {3, 5}}}, {{{3, 1}, {4}}}, {{{}, {}}}, {{{37}, {37}}}, {{{0}, {0}}}},
       kMoves},
      {"masked_scatter",
       {kPlain, masks(), kPlain},
       kAny,
       {{{{3, 5}, {3, 5}, {15}}}, {{{3, 1}, {4}, {3, 4}}}, {{{}, {}, {2}}}, {{{0}, {0}, {0}}}},
       kMoves},
      {"nonzero", {kPlain}, kAny, places, kMoves},
      {"argwhere", {kPlain}, kAny, places, kMoves},
      {"count_nonzero", {kPlain}, kAny, reductions, kMoves},
      {"any", {kPlain}, kAny, kept, kMoves},
      {"all", {kPlain}, kAny, kept, kMoves},
      {"one_hot",
       {indices()},
       0,
       {{{{7}}, {{"num_classes", 5}}, 5},
        {{{2, 3}}, {}, 4},
        {{{}}, {{"num_classes", 3}}, 3},
        {{{0}}, {{"num_classes", 3}}, 3}},
       kMoves},
  };
}

}  // namespace

std::vector<Row> sorting_rows() {
  std::vector<Row> all = order_rows();
  for (auto more : {scan_rows(), index_rows(), mask_rows()})
    for (Row& row : more) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::rows
