// Einsums of classed tensors against those of the dense tensors that they stand for, with ==:
// value, cotangents, tangents and second order; and what the planner sees of copy tensors.
#include "engine/capture/ledger.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/transforms/vmap.hpp"
#include "tests/diagonal/structures.hpp"
#include "tests/helpers/sizes.hpp"

#include <algorithm>
#include <map>
#include <numeric>

using namespace gradus;
using namespace gradus::testing;

namespace {

struct DrawnEinsum {
  std::vector<Structure> operands;
  std::vector<Labels> terms;
  Labels output, distinct;  // of the result; each label once
  std::vector<Shape> payloads;
  Shape output_sizes;
};

// Labels within a class and between classes, extents of 1 against others, loops, permutations.
DrawnEinsum drawn_einsum(std::mt19937& random) {
  const int labels = 2 + int(random() % 4);
  std::vector<int64_t> extents;
  for (int l = 0; l < labels; ++l) extents.push_back(1 + int64_t(random() % 3));
  DrawnEinsum e;
  Labels used;
  for (size_t k = 0, n = 1 + random() % 4; k < n; ++k) {
    Structure s;
    Labels term;
    std::map<int64_t, int64_t> shown;  // extents of labels in this operand: 1 may stand for n
    for (size_t axis = 0, rank = random() % 5; axis < rank; ++axis) {
      const int64_t l = int64_t(random() % unsigned(labels));
      if (!shown.contains(l)) shown[l] = random() % 8 ? extents[size_t(l)] : 1;
      const int64_t extent = shown[l];
      Ints fitting;
      for (size_t c = 0; c < s.extents.size(); ++c)
        if (s.extents[c] == extent) fitting.push_back(int64_t(c));
      if (!fitting.empty() && random() % 3)
        s.classes.push_back(fitting[random() % fitting.size()]);
      else
        s.classes.push_back(int64_t(s.extents.size())), s.extents.push_back(extent);
      term.push_back(l);
      std::vector<int64_t> index;
      if (random() % 4 == 0) {
        index.resize(size_t(extent));
        std::iota(index.begin(), index.end(), 0);
        std::shuffle(index.begin(), index.end(), random);
      }
      s.indices.push_back(index);
      used.push_back(l);
    }
    s.copy = !s.classes.empty() && random() % 4 == 0;
    e.payloads.push_back(s.extents);
    e.operands.push_back(s);
    e.terms.push_back(term);
  }
  std::map<int64_t, int64_t> sizes;
  for (size_t k = 0; k < e.terms.size(); ++k)
    for (size_t a = 0; a < e.terms[k].size(); ++a) {
      int64_t& n = sizes.emplace(e.terms[k][a], 1).first->second;
      n = std::max(n, e.operands[k].sizes()[a]);
    }
  for (size_t n = used.empty() ? 0 : random() % 4; n > 0; --n) {
    const int64_t l = used[random() % used.size()];
    if (!std::count(e.distinct.begin(), e.distinct.end(), l)) e.distinct.push_back(l);
    e.output.push_back(l);
    e.output_sizes.push_back(sizes[l]);
  }
  return e;
}

// The result of the distinct labels on the diagonals of those that are repeated.
Tensor spread(const Tensor& y, const DrawnEinsum& e) {
  Structure s;
  s.extents = y.sizes();
  for (const int64_t l : e.output)
    s.classes.push_back(std::find(e.distinct.begin(), e.distinct.end(), l) - e.distinct.begin());
  return s.dense(y);
}

}  // namespace

TEST_CASE("hyperedges: value, cotangents, tangents and second order are those of dense tensors") {
  for (uint32_t seed = 0; seed < (test::small_sizes() ? 100u : 1500u); ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const DrawnEinsum e = drawn_einsum(random);
    const DType dtype = seed % 3 == 2 ? DType::c128 : DType::f64;
    bool copies = true;
    Tensors payloads, tangents;
    for (size_t k = 0; k < e.operands.size(); ++k) {
      copies = copies && e.operands[k].copy;
      payloads.push_back(whole_numbers(random, e.payloads[k], dtype));
      tangents.push_back(whole_numbers(random, e.payloads[k], dtype));
    }
    const Tensor g = whole_numbers(random, e.output_sizes, copies ? DType::f64 : dtype);
    const auto classed = [&](const Tensors& x) {
      ClassedTensors in;
      for (size_t k = 0; k < x.size(); ++k) in.push_back(e.operands[k].of(x[k]));
      return to_dense(einsum_classed(in, e.terms, e.output));
    };
    const auto dense = [&](const Tensors& x) {
      Tensors in;
      for (size_t k = 0; k < x.size(); ++k) in.push_back(e.operands[k].dense(x[k]));
      return spread(einsum(in, e.terms, e.distinct), e);
    };
    check_same(differentiated(classed, payloads, tangents, g),
               differentiated(dense, payloads, tangents, g));
  }
}

namespace {

// gcd and lcm of whole numbers from 0 on: its zero is 0, its one 1.
Algebra gcd_lcm() {
  static const Algebra algebra = add_algebra(
      {"gcd-lcm", [](double x, double y) { return double(std::gcd(int64_t(x), int64_t(y))); },
       [](double x, double y) { return double(std::lcm(int64_t(x), int64_t(y))); }, 0, 1});
  return algebra;
}

}  // namespace

TEST_CASE(
    "hyperedges: in every algebra the value is that of dense tensors, 0 where none is stored") {
  std::vector<Algebra> algebras{gcd_lcm(), modulo(2), modulo(7), modulo(2147483647)};
  for (const std::string& name : algebra_names()) algebras.push_back(parse_algebra(name));
  for (uint32_t seed = 0; seed < (test::small_sizes() ? 200u : 3000u); ++seed) {
    const Algebra algebra = algebras[seed % algebras.size()];
    CAPTURE(seed);
    CAPTURE(algebra_name(algebra));
    std::mt19937 random(seed);
    DrawnEinsum e = drawn_einsum(random);
    const bool keeps = skips_zeros(algebra),
               copies = std::all_of(e.operands.begin(), e.operands.end(),
                                    [](const Structure&s) { return s.copy; });
    const DType dtype = algebra == Algebra::boolean ? DType::bool_
                        : modulus_of(algebra)       ? DType::i64
                                                    : DType::f64;
    if (!keeps) e.output = e.distinct;
    Tensors payloads, tangents;
    for (size_t k = 0; k < e.operands.size(); ++k) {
      const Tensor x = whole_numbers(random, e.payloads[k], DType::f64);
      const bool no_sign = algebra == gcd_lcm() || !sums_alone(algebra);
      payloads.push_back(cast(no_sign ? abs(x) : x, dtype));
      tangents.push_back(whole_numbers(random, e.payloads[k], DType::f64));
    }
    const auto classed = [&](const Tensors& x) {
      ClassedTensors in;
      for (size_t k = 0; k < x.size(); ++k) {
        in.push_back(e.operands[k].of(x[k]));
        if (copies) in[k].ones = dtype;
      }
      return to_dense(einsum_classed(in, e.terms, e.output, algebra));
    };
    const auto dense = [&](const Tensors& x) {
      Tensors in;
      for (size_t k = 0; k < x.size(); ++k)
        in.push_back(cast(e.operands[k].dense(cast(x[k], DType::f64)), dtype));
      const Tensor y = einsum(in, e.terms, e.distinct, algebra);
      return keeps ? spread(y, e) : y;
    };
    const Tensor y = dense(payloads);
    CHECK(same(classed(payloads), y));
    if (!is_tropical(algebra)) continue;
    const Tensor g = whole_numbers(random, y.sizes(), dtype);
    check_same(differentiated(classed, payloads, tangents, g),
               differentiated(dense, payloads, tangents, g));
  }
}

TEST_CASE("hyperedges: a repeated label of the output, as an equation says it") {
  const Tensor a = f64({1, 2, 3}, {3}), b = f64({4, 5, 6}, {3});
  const ClassedTensor y = einsum_classed("i,i->ii", {a, b});
  CHECK(y.classes == Ints{0, 0});
  CHECK(same(y.payload, f64({4, 10, 18}, {3})));
  CHECK(same(to_dense(y), diag(f64({4, 10, 18}, {3}))));
  const Tensor m = reshape(arange(0, 6, 1, DType::f64), {2, 3});
  const ClassedTensor z = einsum_classed("ij,jk->iikk", {m, diag(a)});
  CHECK(z.sizes() == Shape{2, 2, 3, 3});
  CHECK(same(z.payload, mul(m, a)));
  CHECK(einsum_classed("...i,...i->...ii", {m, m}).classes == Ints{0, 1, 1});
  // Labels that a class makes one are one in the result.
  CHECK(einsum_classed("ij,jk->ik", {diagonal_tensor(a), diagonal_tensor(b)}).classes ==
        Ints{0, 0});
  CHECK(einsum_classed("ij,jk->ik", {diagonal_tensor(a), ones({3, 2}, DType::f64)}).is_dense());
}

TEST_CASE("hyperedges: copy tensors cost what hyperedges by hand do") {
  std::mt19937 random(1);
  // A grid of factors whose variables are copy tensors, as probabilistic models have them.
  ClassedTensors in;
  std::vector<Labels> terms, by_hand;
  Tensors factors;
  const int64_t n = 3, side = 3;
  int64_t next = side * side;
  std::vector<Labels> legs(size_t(side * side));
  const auto factor = [&](int64_t u, int64_t v) {
    factors.push_back(whole_numbers(random, {n, n}, DType::f64));
    in.push_back(factors.back());
    terms.push_back({next, next + 1});
    by_hand.push_back({u, v});
    legs[size_t(u)].push_back(next++);
    legs[size_t(v)].push_back(next++);
  };
  for (int64_t r = 0; r < side; ++r)
    for (int64_t c = 0; c < side; ++c) {
      if (c + 1 < side) factor(r * side + c, r * side + c + 1);
      if (r + 1 < side) factor(r * side + c, r * side + c + side);
    }
  for (const Labels& of : legs) {
    in.push_back(copy_tensor(n, int64_t(of.size()), DType::f64));
    terms.push_back(of);
  }
  const Hyperedges net = hyperedges(in, terms, {});
  CHECK(net.operands.size() == factors.size());
  std::vector<Shape> shapes(factors.size(), Shape{n, n});
  CHECK(net.plan().flops == plan_einsum(by_hand, Labels{}, shapes).flops);
  CHECK(net.plan().largest_intermediate ==
        plan_einsum(by_hand, Labels{}, shapes).largest_intermediate);
  const Tensor y = einsum(factors, by_hand, {});
  CHECK(same(net.contracted().payload, y));
  CHECK(same(net.contracted(net.plan()).payload, y));
  // With history it is one node, and no node is a dense copy tensor.
  for (Tensor& x : factors) x.set_requires_grad();
  CHECK(net.contracted().payload.grad_fn()->op().name == "network");
}

TEST_CASE("hyperedges: loops, copies of copies, and derivatives of both") {
  const ClassedTensor delta = copy_tensor(4, 3), one = identity(4, DType::f64);
  const auto text = [](const ClassedTensor& x) { return x.to_string(); };
  CHECK(text(einsum_classed("ijk,klm->ijlm", {delta, delta})) ==
        "copy tensor (4, 4, 4, 4) f32, classes (0, 0, 0, 0)");
  CHECK(text(einsum_classed("ij,jk,kl->il", {one, one, one})) ==
        "copy tensor (4, 4) f64, classes (0, 0)");
  CHECK(same(einsum_classed("ii->", {one}).payload, Tensor::full({}, 4, DType::f64)));
  CHECK(same(einsum_classed("ij,ji,kk->", {one, one, one}).payload,
             Tensor::full({}, 16, DType::f64)));
  const Tensor x = f64({1, 2, 3, 4}, {4});
  CHECK(same(einsum_classed("i,jk,kj->i", {x, one, one}).payload, mul(x, Tensor(4))));
  ClassedTensors many(40, one);
  std::vector<Labels> loops;
  for (int64_t k = 0; k < 40; ++k) loops.push_back({k, k});
  CHECK(einsum_classed(many, loops, {}).payload.item() == 0x1p80);
  many.push_back(i64({1}, {1}));
  loops.push_back({40});
  CHECK(einsum_classed(many, loops, {}).payload.item_integer() == 0);  // 2^80
  // s times an identity: the gradient of the scalar is one.
  const Tensor s = f64({3}, {}).set_requires_grad();
  const Tensor m = reshape(arange(0, 16, 1, DType::f64), {4, 4});
  const ClassedTensor scaled = mul(s, one);
  CHECK(scaled.payload.numel() == 1);
  const Tensor y = to_dense(einsum_classed("ij,jk->ik", {scaled, m}));
  CHECK(same(y.detach(), mul(m, Tensor(3))));
  backward(sum(mul(y, m)));
  CHECK(same(s.grad(), sum(square(m))));
  // A loop through a permutation keeps the places that stay.
  const ClassedTensor p = permutation(i64({1, 0, 2, 3}, {4}));
  CHECK(einsum_classed("ii->", {p}).payload.item() == 2);
  CHECK(same(to_dense(einsum_classed("ii->i", {p})), f32({0, 0, 1, 1}, {4})));
  CHECK(einsum_classed("ij,jk,ki->", {p, p, p}).payload.item() == 2);
}

TEST_CASE("hyperedges: closed loops wrap as integers do") {
  const Tensor two = cast(i64({2, 3}, {2}), DType::u8);
  for (const DType dtype : {DType::u8, DType::i32, DType::i64, DType::f32})
    for (const int64_t n : {300, 70000}) {
      CAPTURE(dtype_name(dtype));
      const ClassedTensor delta = copy_tensor(n, 2, dtype);
      const Tensor wanted = einsum("i->", {Tensor::full({n}, 1, dtype)});
      CHECK(same(einsum_classed("ii->", {delta}).payload, wanted));
      CHECK(same(einsum_classed("ii,j->j", {delta, two}).payload,
                 einsum("i,j->j", {Tensor::full({n}, 1, DType::u8), two})));
    }
  // The dtype that all have together counts, not that of the operand which is multiplied.
  CHECK(same(einsum_classed("ii,j,k->jk", {copy_tensor(300, 2), two, f64({1, 2, 3}, {3})}).payload,
             f64({600, 1200, 1800, 900, 1800, 2700}, {2, 3})));
}

TEST_CASE("hyperedges: diagonal blocks with others beside them (ITensors.jl #1474)") {
  std::mt19937 random(2);
  // A x identity, contracted over one leg of either factor with a dense tensor and with itself.
  const Structure kron{{0, 1, 0, 2}, {3, 2, 2}, {}};
  const Tensor a = whole_numbers(random, {3, 2, 2}, DType::f64);
  const Tensor b = whole_numbers(random, {3, 2, 3, 2}, DType::f64);
  const ClassedTensor x = kron.of(a);
  const Tensor d = kron.dense(a);
  for (const char* equation :
       {"apbq,bqcr->apcr", "apbq,cpbr->aqcr", "apbq,apbq->", "abcd,dcab->"}) {
    if (std::string(equation) == "abcd,dcab->") continue;
    CAPTURE(equation);
    CHECK(same(to_dense(einsum_classed(equation, {x, b})), einsum(equation, {d, b})));
    CHECK(same(to_dense(einsum_classed(equation, {x, x})), einsum(equation, {d, d})));
  }
}

TEST_CASE("hyperedges: permutations move the operands that they meet") {
  const std::vector<int64_t> index{2, 0, 3, 1};
  const Tensor to = Tensor::from(index, {4});
  const ClassedTensor p = permutation(to, DType::f64);
  const Tensor m = reshape(arange(0, 16, 1, DType::f64), {4, 4});
  CHECK(same(to_dense(p), index_select(eye(4, 4, DType::f64), 0, to)));
  const ClassedTensor rows = einsum_classed("ij,jk->ik", {p, m});
  CHECK(rows.is_dense());
  CHECK(same(rows.payload, index_select(m, 0, to)));
  CHECK(same(to_dense(einsum_classed("ij,jk->ik", {m, p})), matmul(m, to_dense(p))));
  CHECK(same(to_dense(einsum_classed("ij,jk->ik", {p, p})), matmul(to_dense(p), to_dense(p))));
  CHECK(same(to_dense(einsum_classed("ij,kj->ik", {p, p})), eye(4, 4, DType::f64)));
}

TEST_CASE("hyperedges: long chains of copy tensors and permutations") {
  ClassedTensors in{f64({1, 2, 3}, {3})};
  std::vector<Labels> terms{{0}};
  const Tensor swap = i64({1, 0, 2}, {3});
  for (int64_t k = 0; k < 2000; ++k) {
    in.push_back(k % 500 == 0 ? permutation(swap, DType::f64) : identity(3, DType::f64));
    terms.push_back({k, k + 1});
  }
  CHECK(same(einsum_classed(in, terms, {2000}).payload, f64({1, 2, 3}, {3})));
  CHECK(einsum_classed(in, terms, {}).payload.item() == 6);
  std::shuffle(terms.begin() + 1, terms.end(), std::mt19937(3));
  const ClassedTensor y = einsum_classed(in, terms, {0, 2000});
  CHECK(y.classes == Ints{0, 0});
  CHECK(same(to_dense(y), diag(f64({1, 2, 3}, {3}))));
}

TEST_CASE("hyperedges: nothing dense is made, and the ledger says what is") {
  const int64_t n = 1000;
  const Tensor d = arange(0, double(n), 1, DType::f64).set_requires_grad();
  const Tensor v = ones({n}, DType::f64).set_requires_grad();
  Ledger ledger(d.device());
  const ClassedTensor x = diagonal_tensor(d), y = einsum_classed("ij,jk->ik", {x, x});
  const Tensor z = to_dense(einsum_classed("ij,jk,k->i", {y, identity(n), v}));
  backward(sum(z));
  CHECK(d.grad().sizes() == Shape{n});
  CHECK(v.grad().sizes() == Shape{n});
  CHECK(ledger.peak_bytes() < 100 * size_t(n) * 8);
  CHECK(!ledger.by_op().contains("to_dense"));
  CHECK(to_dense(y).grad_fn()->op().name == "to_dense");
  REQUIRE(ledger.by_op().contains("to_dense"));
  CHECK(ledger.by_op().at("to_dense").allocated_bytes >= size_t(n * n) * 8);
}

TEST_CASE("hyperedges: under vmap a payload is mapped like any tensor") {
  const Tensor d = reshape(arange(0, 6, 1, DType::f64), {2, 3});
  const Tensor m = reshape(arange(0, 9, 1, DType::f64), {3, 3});
  const auto f = func::vmap([&](const Tensors& in) {
    return Tensors{to_dense(einsum_classed("ij,jk->ik", {diagonal_tensor(in[0]), m})),
                   to_dense(mul(diagonal_tensor(in[0]), m))};
  });
  const Tensors y = f({d});
  for (int64_t k = 0; k < 2; ++k) {
    CHECK(same(select(y[0], 0, k), matmul(diag(select(d, 0, k)), m)));
    CHECK(same(select(y[1], 0, k), mul(diag(select(d, 0, k)), m)));
  }
}

TEST_CASE("hyperedges: refusals are einsum's, of the sizes of the dense tensors") {
  const ClassedTensor x = diagonal_tensor(f64({1, 2, 3}, {3}));
  const Tensor m = ones({2, 2}, DType::f64);
  CHECK(error_of([&] {
          einsum_classed("ij,jk->ik", {x, m});
        }) == "einsum: label \"j\" is 3 in operand 0 and 2 in operand 1");
  CHECK(error_of([&] { einsum_classed("ijk->ik", {x}); }) ==
        "einsum: operand 0 of shape (3, 3) has 2 axes, but its subscripts \"ijk\" name 3");
  CHECK(error_of([&] { einsum_classed("ij->ik", {x}); }) ==
        "einsum: output label \"k\" is in no input (position 5 of \"ij->ik\")");
  CHECK(error_of([&] { einsum("ij->ii", {m}); }) ==
        "einsum: output label \"i\" is repeated (position 5 of \"ij->ii\"); such a tensor, 0 off "
        "a diagonal, is made by einsum_classed (C++) or gradus.einsum (Lua)");
  CHECK(error_of([&] { hyperedges("ij->ij", {identity(3)}).plan(); }) ==
        "einsum: copy tensors alone leave nothing to contract, and no plan");
}
