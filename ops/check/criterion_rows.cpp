// Rows of the losses. Domains keep away from kinks: lattices where differences have them.
#include "ops/check/row_words.hpp"

namespace gradus::inline v1::rows {

namespace {

const Domain kWeights = between(0.5, 2);

NamedAttrs with(const char* reduction, NamedAttrs more = {}) {
  more.push_back({"reduction", reduction});
  return more;
}

// One shape for all operands, in every reduction; more attributes with the mean.
std::vector<Case> same_shapes(size_t operands, const NamedAttrs& more = {}) {
  const auto shapes = [&](Shape s) { return std::vector<Shape>(operands, std::move(s)); };
  std::vector<Case> cases;
  for (const char* reduction : {"mean", "sum", "none"})
    cases.push_back({shapes({4, 6}), with(reduction)});
  cases.push_back({shapes({})});
  cases.push_back({shapes({0, 3}), with("sum")});
  if (!more.empty()) cases.push_back({shapes({5, 3}), more});
  return cases;
}

Row pair(const char* name, Domain x, Domain target, unsigned dtypes = kReal,
         const NamedAttrs& more = {}) {
  return {name, {std::move(x), std::move(target)}, dtypes, same_shapes(2, more), kChain};
}

std::vector<Case> classes(bool smooth) {
  std::vector<Case> cases;
  for (const char* reduction : {"mean", "sum", "none"}) {
    cases.push_back({{{4, 6}, {4}}, with(reduction), 6});
    cases.push_back({{{5, 3}, {5}, {3}}, with(reduction, {{"ignore_index", 1}}), 3});
  }
  cases.push_back({{{6}, {}}, {}, 6});
  cases.push_back({{{6}, {}, {6}}, {}, 6});
  cases.push_back({{{2, 3, 4, 2}, {2, 4, 2}, {3}}, {{"ignore_index", 2}}, 3});
  cases.push_back({{{2, 3, 5}, {2, 5}}, with("none"), 3});
  cases.push_back({{{0, 3}, {0}}, with("sum"), 3});
  if (!smooth) return cases;
  const NamedAttrs smoothed{{"label_smoothing", 0.2}, {"ignore_index", 1}};
  cases.push_back({{{5, 3}, {5}}, smoothed, 3});
  cases.push_back({{{5, 3}, {5}, {3}}, smoothed, 3});
  cases.push_back({{{2, 3, 4}, {2, 4}, {3}}, with("none", smoothed), 3});
  return cases;
}

std::vector<Row> class_rows() {
  return {
      {"nll_loss", {between(-3, 0), indices(), kWeights}, kReal, classes(false), kChain},
      {"cross_entropy", {between(-3, 3), indices(), kWeights}, kReal, classes(true), kChain},
      {"multi_margin_loss",
       {lattice(-1.7, 1.9), indices(), kWeights},
       kReal,
       {{{{4, 6}, {4}}, {}, 6},
        {{{4, 6}, {4}, {6}}, with("sum", {{"p", 2.0}, {"margin", 0.8}}), 6},
        {{{4, 6}, {4}}, with("none", {{"margin", 0.8}}), 6},
        {{{5}, {}}, {}, 5},
        {{{0, 3}, {0}}, with("sum"), 3}},
       kChain},
  };
}

std::vector<Row> likelihood_rows() {
  Row kl = pair("kl_div", between(-3, 0), between(0.1, 1), kReal, {{"log_target", true}});
  kl.cases.push_back({{{4, 3}, {4, 3}}, with("batchmean")});
  kl.cases.push_back({{{}, {}}, with("batchmean")});
  Row entropy = pair("binary_cross_entropy", between(0.05, 0.95), between(0, 1));
  Row logits = pair("binary_cross_entropy_with_logits", between(-3, 3), between(0, 1));
  for (Row* row : {&entropy, &logits}) {
    row->operands.push_back(kWeights);
    row->cases.push_back({{{4, 3}, {4, 3}, {4, 3}}});
    row->cases.push_back({{{4, 3}, {4, 3}, {3}}, with("none")});
  }
  logits.operands.push_back(kWeights);
  logits.cases.push_back({{{4, 3}, {4, 3}, {}, {3}}});
  logits.cases.push_back({{{4, 3}, {4, 3}, {4, 1}, {}}, with("sum")});
  // Stirling's term begins at a target of 1, with a step.
  Row poisson = pair("poisson_nll_loss", between(0.2, 2), away_from({1}, 0.2, 3), kReal,
                     {{"log_input", false}, {"full", true}, {"eps", 0.1}});
  poisson.cases.push_back({{{7}, {7}}, {{"full", true}}});
  return {
      kl,
      entropy,
      logits,
      poisson,
      {"gaussian_nll_loss",
       {kPlain, kPlain, between(0.3, 2)},
       kReal,
       {{{{4, 6}, {4, 6}, {4, 6}}},
        {{{4, 6}, {4, 6}, {4, 1}}, with("sum", {{"full", true}})},
        {{{4, 6}, {4, 6}, {4}}, with("none")},
        {{{}, {}, {}}},
        {{{0, 3}, {0, 3}, {0, 3}}, with("sum")}},
       kChain},
  };
}

std::vector<Row> margin_rows() {
  Row multilabel = pair("multilabel_soft_margin_loss", between(-3, 3), between(0, 1));
  std::erase_if(multilabel.cases, [](const Case& c) { return c.shapes[0].empty(); });
  multilabel.operands.push_back(kWeights);
  multilabel.cases.push_back({{{4, 3}, {4, 3}, {3}}});
  multilabel.cases.push_back({{{3}, {3}}});
  return {
      pair("soft_margin_loss", between(-3, 3), signs()),
      pair("hinge_embedding_loss", away_from({0.5, 1}, -3, 3), signs(), kReal, {{"margin", 0.5}}),
      {"margin_ranking_loss",
       {lattice(), lattice(), signs()},
       kReal,
       same_shapes(3, {{"margin", 0.3}}),
       kChain},
      {"cosine_embedding_loss",
       {kPlain, kPlain, signs()},
       kReal,
       {{{{6, 3}, {6, 3}, {6}}},
        {{{6, 3}, {6, 3}, {6}}, with("sum", {{"margin", 0.2}})},
        {{{6, 3}, {6, 3}, {6}}, with("none", {{"margin", -0.3}})},
        {{{5}, {5}, {}}},
        {{{0, 3}, {0, 3}, {0}}, with("sum")}},
       kChain},
      multilabel,
      {"triplet_margin_loss",
       {kPlain, kPlain, kPlain},
       kReal,
       {{{{6, 3}, {6, 3}, {6, 3}}},
        {{{6, 3}, {6, 3}, {6, 3}}, with("sum", {{"p", 1.0}, {"margin", 2.0}, {"swap", true}})},
        {{{6, 3}, {6, 3}, {6, 3}}, with("none", {{"p", 3.0}, {"eps", 0.1}})},
        {{{5}, {5}, {5}}},
        {{{0, 3}, {0, 3}, {0, 3}}, with("sum")}},
       kChain},
  };
}

}  // namespace

std::vector<Row> criterion_rows() {
  const Domain uneven = lattice(-1.9, 2);  // no difference is near 0.7 or 1
  std::vector<Row> all{
      pair("mse_loss", kPlain, kPlain),
      pair("l1_loss", lattice(-4, 4), lattice(-4, 4), kReal | kComplex),
      pair("smooth_l1_loss", uneven, uneven, kReal, {{"beta", 0.7}}),
      pair("huber_loss", uneven, uneven, kReal, {{"delta", 0.7}}),
  };
  all[2].cases.push_back({{{5, 3}, {5, 3}}, {{"beta", 0.0}}});
  for (auto more : {class_rows(), likelihood_rows(), margin_rows()})
    for (Row& row : more) all.push_back(std::move(row));
  return all;
}

}  // namespace gradus::rows
