// Rows of norms and distances, normalisation layers, attention, gates, and the products that
// networks are made of.
#include "ops/check/row_words.hpp"

#include <limits>

namespace gradus::inline v1::rows {

namespace {

constexpr Exactness kSums{64, true, 2, "sums in f32, rounded once"};
constexpr Exactness kScaled{64, true, 4, "a contraction, scaled and added: rounded three times"};
constexpr Exactness kGates{16, true, 3, "a few functions of 4 ulp, each rounded to the dtype"};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<Row> layer_rows() {
  const Domain weight = between(0.5, 1.5), bias = between(-1, 1);
  const NamedAttrs last{{"normalized_shape", Ints{5}}}, two{{"normalized_shape", Ints{3, 4}}};
  const NamedAttrs rms{{"rms", true}, {"dim", Ints{1}}, {"eps", 0.25}};
  return {
      {"standardize",
       {kPlain, weight, bias},
       kReal | kComplex,
       {{{{3, 5}}, {{"dim", Ints{1}}}},
        {{{3, 5}, {5}, {5}}, {{"dim", Ints{-1}}}},
        {{{2, 3, 4}, {3, 1}, {1, 4}}, {{"dim", Ints{0, 2}}}},
        {{{3, 5}, {5}, {5}}, rms},
        {{{7}, {}}, {{"eps", 0.1}}},
        {{{5, 9}, {9}, {9}}, {{"dim", Ints{0}}, {"eps", 0.5}}},
        {{{37, 4}, {37, 1}, {4}}, {{"dim", Ints{0}}, {"rms", true}}},
        {{{}, {}, {}}, {{"eps", 0.5}}},
        {{{0, 5}, {5}, {5}}, {{"dim", Ints{1}}}}},
       kSums},
      {"layer_norm",
       {kPlain, weight, bias},
       kReal | kComplex,
       {{{{3, 5}}, last},
        {{{3, 5}, {5}}, last},
        {{{3, 5}, {5}, {5}}, last},
        {{{2, 3, 4}, {3, 4}, {3, 4}}, two},
        {{{5}, {5}}, {{"normalized_shape", Ints{5}}, {"eps", 0.5}}},
        {{{0, 5}, {5}, {5}}, last}},
       kSums},
      {"rms_norm",
       {kPlain, weight},
       kReal | kComplex,
       {{{{3, 5}}, last},
        {{{3, 5}, {5}}, last},
        {{{2, 3, 4}, {3, 4}}, two},
        {{{5}}, {{"normalized_shape", Ints{5}}, {"eps", 0.5}}},
        {{{0, 5}, {5}}, last}},
       kSums},
      {"group_norm",
       {kPlain, weight, bias},
       kReal | kComplex,
       {{{{2, 6, 3}, {6}, {6}}, {{"num_groups", 3}}},
        {{{2, 4}}, {{"num_groups", 2}}},
        {{{3, 4, 2, 2}, {4}}, {{"num_groups", 1}, {"eps", 0.1}}},
        {{{0, 4, 3}, {4}, {4}}, {{"num_groups", 2}}}},
       kSums},
      {"instance_norm",
       {kPlain, weight, bias},
       kReal | kComplex,
       {{{{2, 3, 7}}},
        {{{2, 3, 7}, {3}, {3}}},
        {{{2, 2, 3, 3}, {2}}, {{"eps", 0.1}}},
        {{{0, 3, 4}}}},
       kSums},
      {"batch_norm",
       {kPlain, bias, weight, weight, bias},
       kReal,
       {{{{5, 3}, {3}, {3}}},
        {{{5, 3}, {3}, {3}, {3}, {3}}},
        {{{5, 3}, {3}, {3}}, {{"training", true}}},
        {{{2, 3, 4}, {3}, {3}, {3}, {3}}, {{"training", true}}},
        {{{2, 2, 3, 3}, {2}, {2}, {2}}, {{"training", true}, {"eps", 0.1}}},
        {{{2, 3, 4}, {3}, {3}, {3}}, {{"eps", 0.1}}},
        {{{0, 3}, {3}, {3}}}},
       kSums},
      {"local_response_norm",
       {kPlain},
       kReal | kComplex,
       {{{{2, 5, 3}}, {{"size", 3}, {"alpha", 0.7}}},
        {{{2, 5}}, {{"size", 4}, {"alpha", 0.5}, {"beta", 0.5}, {"k", 2.0}}},
        {{{1, 2, 3, 2}}, {{"size", 5}}},
        {{{0, 3, 2}}, {{"size", 2}}}},
       kSums},
  };
}

std::vector<Row> vector_norm_rows() {
  std::vector<Case> orders;
  for (const double p : {1.0, 3.0, 0.5, -2.0, 0.0, kInfinity, -kInfinity})
    orders.push_back({{{3, 5}}, {{"p", p}, {"dim", Ints{1}}}});
  std::vector<Case> norms{{{{3, 5}}},
                          {{{}}},
                          {{{2, 3, 4}}, {{"dim", Ints{0, -1}}, {"keepdim", true}}},
                          {{{0}}},
                          {{{0, 3}}, {{"p", kInfinity}, {"dim", Ints{1}}}},
                          {{{}}, {{"p", 3.0}}},
                          {{{101}}, {{"p", 2.5}}}};
  for (const Case& c : orders) norms.push_back(c);
  const std::vector<Case> spreads{
      {{{3, 5}}, {{"dim", Ints{1}}}},
      {{{3, 5}}},
      {{{2, 3, 4}}, {{"dim", Ints{0, 2}}, {"keepdim", true}, {"correction", 0.0}}}};
  // Operands that never meet: no difference is near 0, where a norm of order 1 has its kink.
  const Domain below = between(-2, 0), above = between(0.2, 2);
  return {
      {"norm", {away_from({0})}, kReal | kComplex, norms, kSums},
      {"normalize",
       {away_from({0})},
       kReal | kComplex,
       {{{{3, 5}}},
        {{{5}}, {{"dim", Ints{0}}, {"p", 1.0}}},
        {{{2, 3, 4}}, {{"dim", Ints{0, -1}}, {"p", 3.0}}},
        {{{3, 4}}, {{"p", kInfinity}}},
        {{{3, 4}}, {{"eps", 9.0}}},
        {{{0, 3}}}},
       kSums},
      {"cosine_similarity",
       {kPlain, kPlain},
       kReal,
       {{{{3, 5}, {3, 5}}},
        {{{2, 3, 4}, {3, 4}}, {{"dim", -1}}},
        {{{5}, {5}}, {{"dim", 0}}},
        {{{3, 1, 4}, {2, 4}}, {{"dim", 0}}},
        {{{3, 4}, {3, 4}}, {{"eps", 2.2}}},
        {{{0, 3}, {0, 3}}}},
       kSums},
      {"pairwise_distance",
       {below, above},
       kReal | kComplex,
       {{{{3, 5}, {3, 5}}},
        {{{5}, {3, 5}}, {{"p", 1.0}}},
        {{{2, 3, 4}, {3, 4}}, {{"p", 3.0}, {"eps", 0.1}, {"keepdim", true}}},
        {{{4}, {4}}, {{"p", kInfinity}}},
        {{{0, 3}, {0, 3}}}},
       kSums},
      {"cdist",
       {below, above},
       kReal | kComplex,
       {{{{3, 4}, {5, 4}}},
        {{{2, 3, 4}, {5, 4}}, {{"p", 1.0}}},
        {{{2, 1, 3, 2}, {3, 2, 2}}, {{"p", 3.0}}},
        {{{3, 4}, {2, 4}}, {{"p", kInfinity}}},
        {{{3, 4}, {2, 4}}, {{"p", 0.0}}},
        {{{3, 0}, {2, 0}}},
        {{{0, 4}, {5, 4}}}},
       kSums},
      {"dist",
       {below, above},
       kReal | kComplex,
       {{{{3, 5}, {3, 5}}}, {{{3, 5}, {5}}, {{"p", 1.0}}}, {{{}, {}}, {{"p", 3.0}}}, {{{0}, {0}}}},
       kSums},
      {"var_mean", {kPlain}, kReal | kComplex, spreads, kSums},
      {"std_mean", {kPlain}, kReal | kComplex, spreads, kChain},
  };
}

std::vector<Row> attention_rows() {
  return {
      {"scaled_dot_product_attention",
       {kPlain, kPlain, kPlain, masks()},
       kReal,
       {{{{3, 4}, {5, 4}, {5, 2}}},
        {{{3, 4}, {5, 4}, {5, 2}}, {{"is_causal", true}, {"scale", 0.3}}},
        {{{2, 3, 4}, {2, 5, 4}, {2, 5, 2}, {3, 5}}},
        {{{2, 1, 6, 4}, {3, 2, 4}, {1, 3, 2, 3}, {6, 2}}},  // some rows look nowhere
        {{{4, 2}, {5, 2}, {5, 3}, {1, 5}}, {{"is_causal", true}}},
        {{{3, 4}, {1, 4}, {1, 2}, {3, 1}}},
        {{{0, 4}, {5, 4}, {5, 2}}},
        {{{3, 4}, {0, 4}, {0, 2}}}},
       kChain},
      {"softmin",
       {between(-3, 3)},
       kReal,
       {{{{3, 5}}, {{"dim", 1}}}, {{{2, 3, 4}}, {{"dim", -2}}}, {{{}}, {{"dim", 0}}}},
       kExponentials},
      {"glu",
       {kPlain},
       kReal | kComplex,
       {{{{3, 6}}}, {{{4, 5}}, {{"dim", 0}}}, {{{2, 2, 3}}, {{"dim", -2}}}, {{{0, 4}}}},
       kGates},
      {"prelu",
       {away_from({0}), kPlain},
       kReal,
       {{{{3, 5}, {5}}},
        {{{3, 5}, {1}}},
        {{{7}, {}}},
        {{{2, 3, 4}, {3}}},
        {{{}, {1}}},
        {{{0, 3}, {3}}}},
       kGates},
  };
}

Row scaled(const char* name, Shape input, Shape a, Shape b) {
  const std::vector<Shape> shapes{std::move(input), std::move(a), std::move(b)};
  std::vector<Shape> number = shapes;
  number[0] = {};
  constexpr unsigned kFloating = kReal | kComplex;
  return {name,
          {kPlain},
          kReal | kComplex | kInteger,
          {{shapes},
           {shapes, {{"beta", 0.5}, {"alpha", -1.5}}, 0, true, kFloating},
           {shapes, {{"beta", 0.0}}},
           {number, {{"alpha", 2.0}}, 0, true, kFloating}},
          kScaled};
}

std::vector<Row> product_rows() {
  constexpr unsigned kProducts = kReal | kComplex | kInteger;
  std::vector<Row> rows{
      {"linear",
       {kPlain},
       kProducts,
       {{{{3, 5}, {4, 5}}},
        {{{3, 5}, {4, 5}, {4}}},
        {{{2, 3, 5}, {4, 5}, {4}}},
        {{{5}, {4, 5}, {4}}},
        {{{3, 5}, {5}, {}}},
        {{{0, 5}, {4, 5}, {4}}},
        {{{17, 65}, {9, 65}, {9}}}},
       kScaled},
      {"bilinear",
       {kPlain},
       kProducts,
       {{{{3, 4}, {3, 5}, {2, 4, 5}}},
        {{{3, 4}, {3, 5}, {2, 4, 5}, {2}}},
        {{{4}, {5}, {2, 4, 5}}},
        {{{2, 3, 4}, {2, 3, 1}, {3, 4, 1}, {3}}},
        {{{0, 4}, {0, 5}, {2, 4, 5}}}},
       kScaled},
      scaled("addmm", {3, 4}, {3, 5}, {5, 4}),
      scaled("addmv", {3}, {3, 5}, {5}),
      scaled("addr", {3, 4}, {3}, {4}),
      scaled("baddbmm", {2, 3, 4}, {2, 3, 5}, {2, 5, 4}),
      scaled("addbmm", {3, 4}, {2, 3, 5}, {2, 5, 4}),
      {"inner",
       {kPlain},
       kProducts,
       {{{{5}, {5}}}, {{{3, 5}, {2, 5}}}, {{{2, 3, 5}, {5}}}, {{{}, {3}}}, {{{0}, {0}}}},
       kContracts},
      {"vdot", {kPlain}, kProducts, {{{{7}, {7}}}, {{{0}, {0}}}, {{{70}, {70}}}}, kContracts},
      {"vecdot",
       {kPlain},
       kProducts,
       {{{{3, 5}, {3, 5}}},
        {{{2, 3, 4}, {3, 1}}, {{"dim", 1}}},
        {{{7}, {7}}},
        {{{0, 3}, {0, 3}}, {{"dim", 0}}}},
       kContracts},
      {"chain_matmul",
       {between(-1, 1)},
       kProducts,
       {{{{3, 4}, {4, 5}, {5, 2}, {2, 6}}},
        {{{3, 4}, {4, 2}}},
        {{{3, 4}}},
        {{{3, 0}, {0, 2}, {2, 4}}}},
       kScaled},
  };
  for (Row& row : rows)
    row.may_become_dot = row.name == "linear" || row.name == "bilinear" || row.name == "inner";
  return rows;
}

}  // namespace

std::vector<Row> norm_rows() {
  std::vector<Row> all = layer_rows();
  for (auto more : {vector_norm_rows(), attention_rows(), product_rows()})
    for (Row& row : more) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::rows
