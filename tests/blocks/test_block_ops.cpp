// What is done to one block-sparse tensor, decompositions, fermions, and what is refused: the cases
// of whole numbers, and random structures against their dense embedding.
#include "tests/blocks/block_helpers.hpp"

#include "ops/blocks/factors.hpp"

#include <algorithm>
#include <functional>

using namespace gradus;
using namespace gradus::test;
using gradus::testing::error_of;

namespace {

const std::map<char, std::vector<Sector>> mps_legs{{'l', {{{-1}, 2}, {{1}, 3}}},
                                                   {'p', {{{-1}, 1}, {{1}, 1}}},
                                                   {'q', {{{-1}, 1}, {{1}, 1}}},
                                                   {'r', {{{-1}, 3}, {{1}, 2}}}};
BlockTensor two_site() {
  const Filled f{"lpqr", {1, 1, 1, -1}, {0}, {{3, 5, 2, 7}, 1, 11, 5}};
  return filled(structure_of({0}, mps_legs, f), f.fill);
}
BlockTensor z2(const char* labels, const Ints& arrows, int64_t charge, const Fill& fill,
               bool fermions) {
  std::map<char, std::vector<Sector>> legs;
  for (const char* l = labels; *l; ++l) legs[*l] = {{{0}, 2}, {{1}, 1}};
  const Filled f{labels, arrows, {charge}, fill};
  return filled(structure_of({2}, legs, f, fermions ? Ints{0} : Ints{}), fill);
}
double number(const BlockTensor& x) { return to_dense(x).item(); }
std::string sectors(const Leg& leg) { return leg.text(); }

}  // namespace

TEST_CASE("blocks: one tensor, in whole numbers") {
  gradus::testing::on_each_device([] {
    const BlockTensor x = two_site();
    check_sums(x, {23, 377, 1153});
    CHECK(x.structure.count() == 6);
    CHECK(x.structure.elements() == 37);
    check_sums(permute(x, {3, 0, 2, 1}), {23, 377, 1595});
    CHECK(sectors(fuse(x, 0, 2, 1).structure.legs()[0]) == "+ {-2: 2, 0: 5, 2: 3}");
    CHECK(sectors(fuse(x, 2, 2, -1).structure.legs()[2]) == "- {-2: 3, 0: 5, 2: 2}");
    const BlockTensor matrix = fuse(fuse(x, 2, 2, -1), 0, 2, 1);
    CHECK(matrix.structure.count() == 3);
    CHECK(matrix.structure.sizes(0) == Shape{2, 3});
    CHECK(matrix.structure.sizes(1) == Shape{5, 5});
    CHECK(matrix.structure.sizes(2) == Shape{3, 2});
    const BlockTensor back = split(split(matrix, 0), 2);
    CHECK(back.structure == x.structure);
    CHECK(gradus::testing::values(back.data) == gradus::testing::values(x.data));
    check_sums(scale(x, 0, gradus::testing::f64({1, 3, 5, 7, 9}, {5})), {89, 12361, 3127});
    CHECK(inner(x, x).item() == 377);
    check_sums(slice(x, 0, {{1, kEnd}, {1, kEnd}}), {13, 241, 59});
    check_sums(add(x, filled(x.structure, {{2, 3, 4, 5}, 0, 11, 5})), {15, 707, 563});

    const std::vector<Sector> i{{{-1}, 2}, {{0}, 3}, {{1}, 2}};
    const Filled f{"ijk", {1, -1, 1}, {0}, {{3, 5, 2}, 1, 11, 5}};
    const BlockTensor y =
        filled(structure_of({0}, {{'i', i}, {'j', i}, {'k', {{{0}, 2}, {{1}, 1}}}}, f), f.fill);
    check_sums(y, {-13, 447, -1245});
    const BlockTensor t = trace(y, 0, 1);
    check_sums(t, {-3, 9, -9});
    CHECK(t.structure.count() == 1);
    check_sums(einsum("iik->k", {y}), {-3, 9, -9});
  });
}

TEST_CASE("blocks: fermions") {
  const BlockTensor x = z2("abc", {1, 1, 1}, 0, {{3, 5, 2}, 1, 11, 5}, true);
  const BlockTensor boson = z2("abc", {1, 1, 1}, 0, {{3, 5, 2}, 1, 11, 5}, false);
  struct Permuted {
    Ints dims;
    Sums signs, none;
  };
  for (const Permuted& p : {Permuted{{1, 0, 2}, {-11, 113, -374}, {-3, 113, 228}},
                            {{2, 1, 0}, {-3, 113, -138}, {-3, 113, -146}},
                            {{1, 2, 0}, {-1, 113, 258}, {-3, 113, 130}},
                            {{2, 0, 1}, {5, 113, 190}, {-3, 113, -342}}}) {
    check_sums(permute(x, p.dims, Crossing::signs), p.signs);
    check_sums(permute(boson, p.dims), p.none);
  }
  check_sums(permute(z2("abcd", {1, 1, 1, 1}, 1, {{3, 5, 2, 4}, 1, 11, 5}, true), {3, 2, 1, 0},
                     Crossing::signs),
             {-7, 361, -156});

  // Loops: every order of contraction gives one value.
  struct Part {
    const char* labels;
    Ints arrows;
    Ints k;
  };
  struct Network {
    std::vector<Part> parts;
    double fermions, bosons;
  };
  const std::vector<Network> networks = {{{{"ad", {1, -1}, {3, 5}},
                                           {"ab", {-1, 1}, {4, 5}},
                                           {"cd", {-1, 1}, {5, 5}},
                                           {"bc", {-1, 1}, {6, 5}}},
                                          720,
                                          720},
                                         {{{"ad", {1, 1}, {3, 5}},
                                           {"ab", {-1, 1}, {4, 5}},
                                           {"cd", {-1, -1}, {5, 5}},
                                           {"bc", {-1, 1}, {6, 5}}},
                                          720,
                                          720},
                                         {{{"ade", {1, -1, 1}, {3, 5, 2}},
                                           {"ab", {-1, 1}, {4, 5}},
                                           {"cd", {-1, 1}, {5, 5}},
                                           {"bce", {-1, 1, -1}, {6, 5, 2}}},
                                          386,
                                          426},
                                         {{{"ade", {1, -1, 1}, {3, 5, 2}},
                                           {"abf", {-1, 1, 1}, {4, 5, 2}},
                                           {"cdf", {-1, 1, -1}, {5, 5, 2}},
                                           {"bce", {-1, 1, -1}, {6, 5, 2}}},
                                          -172,
                                          -298}};
  for (const Network& n : networks)
    for (const bool fermions : {true, false}) {
      std::vector<BlockTensor> tensors;
      for (size_t i = 0; i < 4; ++i)
        tensors.push_back(z2(n.parts[i].labels, n.parts[i].arrows, 0,
                             {n.parts[i].k, int64_t(i), 11, 5}, fermions));
      Ints order{0, 1, 2, 3};
      do {
        std::string equation;
        std::vector<BlockTensor> in;
        for (const int64_t i : order) {
          equation += (in.empty() ? "" : ",") + std::string(n.parts[size_t(i)].labels);
          in.push_back(tensors[size_t(i)]);
        }
        CHECK(number(einsum(equation, in)) == (fermions ? n.fermions : n.bosons));
        // Left to right, too.
        BlockTensor left = in[0];
        Labels labels = labels_of(n.parts[size_t(order[0])].labels);
        for (size_t k = 1; k < 4; ++k) {
          const Labels next = labels_of(n.parts[size_t(order[k])].labels);
          Labels out;
          for (const Labels* side : std::initializer_list<const Labels*>{&labels, &next})
            for (const int64_t l : *side)
              if ((std::find(labels.begin(), labels.end(), l) == labels.end()) !=
                  (std::find(next.begin(), next.end(), l) == next.end()))
                out.push_back(l);
          left = contract(left, labels, in[k], next, out);
          labels = out;
        }
        CHECK(number(left) == (fermions ? n.fermions : n.bosons));
      } while (std::next_permutation(order.begin(), order.end()));
    }
  // The norm is positive from either side.
  const Labels abc = labels_of("abc");
  CHECK(number(contract(conj(x), abc, x, abc, {})) == 113);
  CHECK(number(contract(x, abc, conj(x), abc, {})) == 113);
}

TEST_CASE("blocks: decompositions by sector, and what a cut keeps") {
  const std::vector<Sector> rows{{{-1}, 1}, {{0}, 2}, {{1}, 2}};
  const Symmetry g{{0}, {}};
  const BlockStructure s({Leg(g, 1, rows), Leg(g, -1, rows)}, {0});
  BlockTensor x{gradus::testing::f64({2, 1, 2, 2, 1, 4, 0, 3, 5}, {9}), s};
  const auto restored = [](const BlockFactors& f) {
    return contract(scale(f.left, -1, f.values), {0, 1}, f.right, {1, 2}, {0, 2});
  };
  const BlockFactors whole = svd(x, {0});
  CHECK(gradus::testing::close(gradus::testing::values(whole.values),
                               {2, 3, 1, std::sqrt(40.0), std::sqrt(10.0)}, 1e-12));
  CHECK(gradus::testing::close(gradus::testing::values(restored(whole).data),
                               gradus::testing::values(x.data), 1e-12));
  struct Kept {
    int64_t rank;
    std::string sectors;
    double discarded;
  };
  for (const Kept& k : {Kept{5, "+ {-1: 1, 0: 2, 1: 2}", 0},
                        {4, "+ {-1: 1, 0: 1, 1: 2}", 1},
                        {3, "+ {0: 1, 1: 2}", 5},
                        {2, "+ {1: 2}", 14},
                        {1, "+ {1: 1}", 24}}) {
    const BlockFactors f = svd(x, {0}, {.rank = k.rank});
    CHECK(f.bond.text() == k.sectors);
    CHECK(f.discarded == doctest::Approx(k.discarded));
    CHECK(svd(x, {0}, {.rank = k.rank, .least = 1}).bond.count() == 3);
  }
  const std::vector<Sector> ones{{{-1}, 1}, {{0}, 1}, {{1}, 1}};
  const BlockTensor tie{gradus::testing::f64({2, 3, 2}, {3}),
                        BlockStructure({Leg(g, 1, ones), Leg(g, -1, ones)}, {0})};
  CHECK(svd(tie, {0}, {.rank = 2}).bond.text() == "+ {-1: 1, 0: 1, 1: 1}");
  CHECK(svd(tie, {0}, {.rank = 2, .whole_multiplets = false}).bond.text() == "+ {-1: 1, 0: 1}");

  const std::vector<Sector> two{{{0}, 2}, {{1}, 2}};
  BlockTensor h{gradus::testing::f64({2, 1, 1, 2, 5, 2, 2, 2}, {8}),
                BlockStructure({Leg(g, 1, two), Leg(g, -1, two)}, {0})};
  h.data.set_requires_grad();
  const BlockFactors e = eigh(h, {0});
  CHECK(gradus::testing::close(gradus::testing::values(e.values), {1, 3, 1, 6}, 1e-12));
  // 1 stands in both sectors, and each derivative is finite: of the sum of cubes it is 3 h^2.
  const Tensor loss = sum(mul(mul(e.values, e.values), e.values)),
               w = sum(mul(
                   to_dense(e.left),
                   gradus::testing::f64({1, 2, 0, 0, 3, 4, 0, 0, 0, 0, 5, 6, 0, 0, 7, 8}, {4, 4})));
  const Tensor found = grad({loss}, {h.data}, {}, {.retain_graph = true})[0];
  const Labels ij{0, 1}, jk{1, 2};
  const BlockTensor squared =
      contract({h.data.detach(), h.structure}, ij, {h.data.detach(), h.structure}, jk, {0, 2});
  CHECK(gradus::testing::close(gradus::testing::values(found),
                               gradus::testing::values(mul(squared.data, 3.0)), 1e-10));
  for (const double v : gradus::testing::values(grad({w}, {h.data})[0])) CHECK(std::isfinite(v));
  CHECK(det(x, {0}).item() == doctest::Approx(2.0 * -3 * 20));
  const BlockTensor one = contract(inv(x, {0}), ij, x, jk, {0, 2});
  CHECK(gradus::testing::close(gradus::testing::values(one.data), {1, 1, 0, 0, 1, 1, 0, 0, 1},
                               1e-12));
}

TEST_CASE("blocks: what is refused, and in which words") {
  const Symmetry u1{{0}, {}}, z{{2}, {}};
  const std::vector<Sector> i{{{-1}, 2}, {{0}, 3}, {{1}, 2}}, j{{{-1}, 2}, {{0}, 4}, {{1}, 2}};
  const auto matrix = [&](const Symmetry& g, const std::vector<Sector>& a, int arrow_a,
                          const std::vector<Sector>& b, int arrow_b, int64_t charge = 0) {
    return zeros_of(BlockStructure({Leg(g, arrow_a, a), Leg(g, arrow_b, b)}, {charge}), DType::f64);
  };
  const BlockTensor x = matrix(u1, i, 1, i, -1);
  const auto says = [](const std::string& text, std::initializer_list<const char*> words) {
    for (const char* w : words) CHECK_MESSAGE(text.find(w) != std::string::npos, text);
  };
  const auto ikj = [&](const BlockTensor& b) {
    return error_of([&] { einsum("ik,kj->ij", {x, b}); });
  };
  says(ikj(matrix(u1, i, -1, i, 1)), {"\"k\"", "-1 and -1"});
  says(ikj(matrix(u1, j, 1, i, -1)), {"\"k\"", "sector 1", "0 of size 3", "0 of size 4"});
  says(ikj(matrix(z, {{{0}, 2}, {{1}, 3}}, 1, {{{0}, 1}}, -1)), {"U(1)", "Z2"});
  says(error_of([&] { add(x, matrix(u1, i, 1, i, -1, 1)); }), {"charges 0 and 1"});
  says(error_of([&] { add(x, matrix(u1, i, 1, i, 1)); }), {"axis 1", "arrow"});
  Tensor dense = Tensor::zeros({7, 7}, DType::f64);
  copy_(select(select(dense, 0, 3), 0, 6), Tensor(0.5));
  says(error_of([&] { from_dense(dense, x.structure); }),
       {"(3, 6)", "0.5", "charge is -1", "tolerance"});
  CHECK(error_of([&] { from_dense(dense, x.structure, 0.6); }) == "");
  says(error_of([&] {
         set_block(x, {0, 1}, Tensor::zeros({2, 3}, DType::f64));
       }),
       {"sum to -1", "charge is 0"});
  says(error_of([&] { split(x, 0); }), {"leg 0", "not fused"});
  for (const char* f : {"exp", "cos"}) says(error_of([&] { map(f, x); }), {f, "to_dense"});
  CHECK(error_of([&] { map("tanh", x); }) == "");
  says(error_of([&] { trace(matrix(u1, i, 1, i, 1), 0, 1); }), {"0 and 1", "+1 and +1"});
  says(error_of([&] { trace(two_site(), 0, 3); }), {"sector 0", "size 2", "size 3"});
  says(error_of([&] { svd(matrix(u1, i, 1, i, -1, 1), {0}); }), {"charge 1", "left or right"});
  for (const auto& f : {std::function<void()>([&] { inv(matrix(u1, i, 1, j, -1), {0}); }),
                        std::function<void()>([&] { det(matrix(u1, i, 1, j, -1), {0}); }),
                        std::function<void()>([&] { solve(matrix(u1, i, 1, j, -1), {0}, x); })})
    says(error_of(f), {"sector 0", "3 rows and 4 columns"});
  says(error_of([&] { einsum("ik,kj,kl->ijl", {x, x, x}); }), {"\"k\"", "neutral"});
  says(error_of([&] { einsum("ik,kj->i", {x, x}); }), {"\"j\"", "charge"});
  says(error_of([&] {
         permute(z2("abc", {1, 1, 1}, 0, {{3, 5, 2}, 1, 11, 5}, true), {1, 0, 2});
       }),
       {"a sign is needed"});
  says(error_of([&] { Leg(u1, 0, i); }), {"arrow"});
  says(error_of([&] { fuse(x, 1, 2, 1); }), {"2 legs"});
}
