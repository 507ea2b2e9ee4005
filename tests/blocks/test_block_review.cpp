// Block tensors at their edges: equal keys, repeated labels, fused fermions, maps that are not
// square, ties among rounding errors, hostile files, networks whose outer products would fill
// memory.
#include "tests/blocks/block_helpers.hpp"

#include "engine/capture/ledger.hpp"
#include "ops/audit/step/graph_view.hpp"
#include "ops/blocks/factors.hpp"
#include "ops/blocks/file.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/shape/memory.hpp"
#include "ops/transforms/vmap.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>

using namespace gradus;
using namespace gradus::test;
using gradus::testing::close;
using gradus::testing::error_of;
using gradus::testing::f64;
using gradus::testing::values;

namespace {

const Symmetry u1{{0}, {}};
std::mt19937 gen(5);

BlockTensor drawn(const Legs& legs, const Charge& charge = {0}) {
  return random_blocks(BlockStructure(legs, charge), gen, DType::f64);
}
void says(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* w : words) CHECK_MESSAGE(text.find(w) != std::string::npos, text);
}

}  // namespace

TEST_CASE("blocks: legs that look alike to a list of numbers are told apart") {
  const Leg p(u1, 1, {{{0}, 1}}), q(u1, 1, {{{1}, 1}}), plain(u1, 1, {{{1}, 1}, {{2}, 1}});
  const BlockTensor x = drawn({p, q}, {1});
  const BlockTensor y = fuse(x, 0, 2, 1);
  CHECK(y.structure.legs()[0].parts().size() == 2);
  CHECK(plain.parts().empty());
  CHECK(values(split(y, 0).data) == values(x.data));
  CHECK_FALSE(Leg(u1, 1, {{{1}, 1}, {{2}, 1}}) == y.structure.legs()[0]);
}

TEST_CASE("blocks: neutral legs are hyperedges, diagonals where the output keeps them") {
  const Leg n(u1, 1, {{{0}, 2}, {{0}, 1}}), other(u1, 1, {{{0}, 1}, {{0}, 2}}),
      i(u1, 1, {{{-1}, 2}, {{1}, 1}});
  const BlockTensor x = drawn({n, n.reversed()}), y = drawn({n, i, i.reversed()}),
                    z = drawn({n, i, i.reversed()}), w = drawn({other, i, i.reversed()});
  const auto same = [](const char* equation, const std::vector<BlockTensor>& in) {
    Tensors dense;
    for (const BlockTensor& t : in) dense.push_back(to_dense(t));
    CAPTURE(equation);
    CHECK(values(to_dense(einsum(equation, in))) == values(einsum(equation, dense)));
  };
  same("ii->i", {x});
  same("ii,ijk->ijk", {x, y});
  same("ii,ijk->jk", {x, y});
  same("ii->", {x});
  same("bij,bjk->bik", {y, z});
  same("bij,bij->b", {y, conj(z)});
  same("aij,ajk,akl->il", {y, z, y});
  says(error_of([&] { einsum("bij,bjk->bik", {y, w}); }), {"\"b\"", "sector 0"});
  says(error_of([&] { contract(y, {0, 1, 2}, z, {0, 2, 3}, {0, 1, 3, 3}); }), {"twice", "output"});
}

TEST_CASE("blocks: a leg of fermions may be fused without a change of what contracts over it") {
  const Symmetry g{{2}, {0}};
  const std::vector<Sector> s{{{0}, 2}, {{1}, 1}};
  for (int arrows = 0; arrows < 16; ++arrows) {
    CAPTURE(arrows);
    const auto arrow = [&](int bit) { return arrows >> bit & 1 ? 1 : -1; };
    const Leg a(g, arrow(2), s), i(g, arrow(0), s), j(g, arrow(1), s);
    const BlockTensor x = drawn({a, i, j}), y = drawn({i.reversed(), j.reversed(), a.reversed()});
    const BlockTensor wanted = einsum("aij,ijb->ab", {x, y});
    const int to = arrow(3);
    const BlockTensor found = einsum("af,fb->ab", {fuse(x, 1, 2, to), fuse(y, 0, 2, -to)});
    CHECK(values(found.data) == values(wanted.data));
    CHECK(values(split(conj(fuse(x, 1, 2, to)), 1).data) == values(conj(x).data));
    CHECK(values(conj(conj(x)).data) == values(x.data));
  }
  says(error_of([&] { conj(drawn({Leg(g, 1, s), Leg(g, 1, s)}, {1})); }), {"odd charge 1"});
}

TEST_CASE("blocks: determinants and inverses of maps whose sectors do not pair") {
  const Leg rows(u1, 1, {{{0}, 2}, {{1}, 1}}), columns(u1, -1, {{{0}, 2}, {{2}, 1}}),
      fewer(u1, -1, {{{0}, 2}});
  BlockTensor x = drawn({rows, columns});
  x.data.set_requires_grad();
  CHECK(det(x, {0}).item() == 0);
  CHECK(values(grad({det(x, {0})}, {x.data})[0]) == std::vector<double>{0, 0, 0, 0});
  says(error_of([&] { inv(x, {0}); }), {"inv", "singular"});
  says(error_of([&] { det(drawn({rows, fewer}), {0}); }), {"sector 1", "1 rows and 0 columns"});
  const BlockTensor number{f64({4}, {1}), BlockStructure(u1, {}, {0})};
  CHECK(inv(number, {}).data.item() == 0.25);
  CHECK(det(number, {}).item() == 4);
}

TEST_CASE("blocks: a cut counts no rounding errors as a multiplet, and says what it can't do") {
  const Leg i(u1, 1, {{{-1}, 4}, {{0}, 8}, {{1}, 4}});
  const Leg two(u1, 1, {{{0}, 1}, {{1}, 1}});
  const BlockTensor low =
      contract(drawn({i, two.reversed()}), {0, 1}, drawn({two, i.reversed()}), {1, 2}, {0, 2});
  CHECK(svd(low, {0}, {.rank = 4}).bond.size() == 4);
  BlockTensor zero = zeros_of(low.structure, DType::f64);
  zero.data.set_requires_grad();
  const BlockFactors none = svd(zero, {0}, {.rtol = 1e-10});
  CHECK(none.bond.count() == 0);
  CHECK(none.left.data.requires_grad());
  const Truncation sized{.sizes = {{{0}, 2}, {{1}, 1}}};
  CHECK(svd(low, {0}, sized).bond.text() == "+ {0: 2, 1: 1}");
  CHECK(std::isnan(svd(low, {0}, sized).discarded));
  says(error_of([&] { svd(low, {0}, {.sizes = {{{7}, 1}}}); }), {"charge 7", "has not"});
  says(error_of([&] { svd(low, {0}, {.sizes = {{{0}, 9}}}); }), {"9 values", "has 8"});
  says(error_of([&] { svd(low, {0}, {.rank = 1, .sizes = {{{0}, 1}}}); }), {"beside"});
  says(error_of([&] { svd(low, {0}, {.rtol = std::nan("")}); }), {"rtol", "nan"});
}

TEST_CASE("blocks: what is dense or of another dtype is not lost on its way in") {
  const double inf = std::numeric_limits<double>::infinity();
  const Leg i(u1, 1, {{{0}, 1}, {{1}, 1}});
  const BlockStructure s({i, i.reversed()}, {0});
  CHECK(std::isinf(values(from_dense(f64({inf, 0, 0, std::nan("")}, {2, 2}), s).data)[0]));
  says(error_of([&] { from_dense(f64({1, std::nan(""), 0, 1}, {2, 2}), s); }), {"(0, 1)", "nan"});
  says(error_of([&] {
         from_dense(f64({1, 0, 0, 1}, {2, 2}), s, std::nan(""));
       }),
       {"tolerance is nan"});
  const BlockTensor x = zeros_of(s, DType::f64);
  says(error_of([&] {
         set_block(x, {0, 0}, Tensor::zeros({1, 1}, DType::c128));
       }),
       {"c128", "f64"});
  const Leg p(u1, 1, {{{0}, 1}, {{1}, 2}}), q(u1, 1, {{{0}, 2}, {{1}, 1}});
  const BlockTensor pq = fuse(drawn({p, q}, {1}), 0, 2, 1), qp = fuse(drawn({q, p}, {1}), 0, 2, 1);
  REQUIRE(pq.structure.legs()[0].has_sectors_of(qp.structure.legs()[0]));
  says(error_of([&] { add(pq, qp); }), {"fused of other legs"});
}

TEST_CASE("blocks: files of others: bits, depth, numbers that are none") {
  const TempFolder folder;
  const std::string path = folder / "x.safetensors";
  const Leg i(u1, 1, {{{0}, 1}, {{1}, 1}});
  const BlockStructure s({i, i.reversed()}, {0});
  const double inf = std::numeric_limits<double>::infinity();
  const BlockTensor x{Tensor::from(std::vector<c128>{{-0.0, inf}, {1, -0.0}}, {2}), s};
  write_blocks(path, {{"x", x}});
  const auto back = read_blocks(path)[0].tensor.data.to_vector<c128>();
  CHECK(std::signbit(back[0].re));
  CHECK(std::isinf(back[0].im));
  CHECK(std::signbit(back[1].im));

  NamedTensors tensors;
  Metadata metadata;
  to_entries({"y", zeros_of(s, DType::f64)}, tensors, metadata);
  const std::string plain = metadata["y"];
  const auto refusal = [&](const std::string& from, const std::string& to) {
    std::string text = plain;
    const size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    metadata["y"] = text.replace(at, from.size(), to);
    write_safetensors(path, tensors, metadata);
    return error_of([&] { read_blocks(path); });
  };
  says(refusal("\"version\":1", "\"version\":1.7"), {"\"y\"", "1.7"});
  says(refusal("[1,-1]", "[1,4294967295]"), {"\"y\"", "arrow"});
  says(refusal("[1,-1]", "[1.5,-1]"), {"whole number"});
  says(refusal("\"mods\":[0]", "\"mods\":{}"), {"mods", "expected a list"});
  for (const int depth : {50, 3000, 200'000}) {
    std::string begin, end;
    for (int k = 0; k < depth; ++k) begin += "{\"arrow\":1,\"parts\":[", end += "]}";
    const std::string deep = begin + "{\"arrow\":1,\"sectors\":[[0,1]]}" + end;
    says(refusal("\"mods\":[0]", "\"mods\":[0],\"parts\":{\"0\":[" + deep + "]}"),
         {"\"y\"", "fused of fused ones more than 16 times"});
  }
}

TEST_CASE("blocks: a ring with many sectors is planned without its outer products") {
  std::vector<Sector> many;
  for (int64_t q = -4; q <= 4; ++q) many.push_back({{q}, 1});
  const Leg i(u1, 1, many);
  const BlockTensor x = drawn({i, i, i.reversed(), i.reversed()});
  const double value = to_dense(einsum("abcd,cdef,efgh,ghab->", {x, x, x, x})).item();
  const Tensor d = to_dense(x);
  CHECK(value == einsum("abcd,cdef,efgh,ghab->", {d, d, d, d}).item());
  std::vector<Sector> equal(3000, {{0}, 1});
  const Leg wide(u1, 1, equal);
  says(error_of([&] { BlockStructure({wide, wide}, {0}); }), {"more than"});
  says(error_of([&] { Leg::fused({wide, wide}, 1); }), {"combinations"});
}

TEST_CASE("blocks: graph and ledger say which contraction it is, and what is made dense") {
  const Leg i(u1, 1, {{{-1}, 2}, {{0}, 3}});
  BlockTensor x = drawn({i, i.reversed()});
  x.data.set_requires_grad();
  Ledger ledger(x.data.device());
  const BlockTensor y = einsum("ij,jk->ik", {x, x});
  CHECK_FALSE(ledger.by_op().contains("to_dense"));
  const Tensor dense = to_dense(y);
  CHECK(ledger.by_op().at("to_dense").calls == 2);  // zeros, then the blocks
  CHECK_FALSE(ledger.by_op().contains("block_copy"));
  const auto what = [](GradFn& node) { return std::string(node.attrs().back().text); };
  CHECK(what(*y.data.grad_fn()) == "ij,jk->ik");
  CHECK(what(*dense.grad_fn()->inputs()[0].fn) == "to_dense");
}

TEST_CASE("blocks: nodes hold the table of their plan, and its derivatives fit their operands") {
  const auto full = [](int64_t n) { return Tensor::full({n}, 1.0, DType::f64); };
  const auto table = [](const Tensor& x) { return x.grad_fn()->shared_attrs(); };
  const GroupedProducts products("all", 4, {{1, 1, 1, 2, 2, 3, 0, 0, 3, 1, 0, 0, 2, 1, 0, 0, 2, 1}},
                                 false, true, true);
  const BlockCopies copies("all", {{1, 0, 0, {6}, {1}, {1}}}, {6, Covers::some}, {6, Covers::all});
  for (const int64_t more : {0, 3, 0}) {
    Tensor a = full(6 + more), b = full(6);
    a.set_requires_grad();
    b.set_requires_grad();
    std::vector<SharedAttrs> tables;
    for (int i = 0; i < 2; ++i) {
      const Tensor c = products(a, b), d = copies(a);
      const Tensors g =
          grad({c, d}, {a, b}, {full(4), Tensor::zeros({6}, DType::f64)}, {.create_graph = true});
      CHECK(values(g[0]) == values(mul(cat({full(6), Tensor::zeros({more}, DType::f64)}, 0), 2.0)));
      CHECK(values(g[1]) == values(mul(full(6), 2.0)));
      tables.insert(tables.end(), {table(c), table(d), table(g[1])});
    }
    for (size_t i = 0; i < 3; ++i) CHECK(tables[i] == tables[i + 3]);
  }
}

TEST_CASE("blocks: their ops over batches") {
  const Leg i(u1, 1, {{{-1}, 2}, {{0}, 3}, {{1}, 2}});
  const BlockTensor x = drawn({i, i.reversed()}), y = drawn({i, i.reversed()});
  const Tensor batch = stack({x.data, y.data, mul(x.data, Tensor(2.0))}, 0);
  const auto f = [&](const Tensors& in) {
    const BlockTensor t = permute({in[0], x.structure}, {1, 0});
    return Tensors{
        add(contract({in[0], x.structure}, {0, 1}, y, {1, 2}, {0, 2}).data, conj(t).data)};
  };
  const Tensor all = func::vmap(f)({batch})[0];
  for (int64_t e = 0; e < 3; ++e)
    CHECK(values(select(all, 0, e)) == values(f({select(batch, 0, e)})[0]));
}

TEST_CASE("blocks: all products of a block of the result go over the same indices") {
  // Of k = 0 the rows of the first operand follow one another, of k = 1 they do not.
  const std::vector<Sector> some{{{0}, 1}, {{1}, 2}};
  const Leg k(u1, 1, some), l(u1, -1, some);
  for (const int64_t rows : {4, 40}) {
    const BlockTensor x = drawn({Leg(u1, 1, {{{0}, rows}}), k, l, Leg(u1, -1, {{{0}, 64}})}),
                      y = drawn({k.reversed(), l.reversed(), Leg(u1, -1, {{{0}, 1}})});
    for (const char* out : {"ikls,klj->ijs", "ikls,klj->isj", "ikls,klj->jis"}) {
      CAPTURE(out);
      const Tensor a = x.data.detach().set_requires_grad(), b = y.data.detach().set_requires_grad();
      const BlockTensor of_a = with_data(x, a), of_b = with_data(y, b);
      const BlockTensor z = einsum(out, {of_a, of_b});
      const Tensor dense = einsum(out, {to_dense(of_a), to_dense(of_b)});
      CHECK(close(values(to_dense(z)), values(dense)));
      const Tensors g = grad({sum(square(z.data))}, {a, b}),
                    wanted = grad({sum(square(dense))}, {a, b});
      for (size_t i = 0; i < 2; ++i) CHECK(close(values(g[i]), values(wanted[i])));
    }
  }
}

TEST_CASE("blocks: a block that is a batch to one product and rows to another has its gradient") {
  const Leg c(u1, 1, {{{1}, 1}}), a(u1, 1, {{{0}, 3}, {{0}, 1}}), b(u1, 1, {{{1}, 2}}),
      d(u1, 1, {{{0}, 2}});
  const Leg p(u1, 1, {{{-1}, 1}, {{0}, 1}, {{1}, 2}}), q(u1, -1, {{{-1}, 1}, {{0}, 1}}),
      e(u1, -1, {{{1}, 1}}), m(u1, 1, {{{-1}, 2}}), n(u1, -1, {{{0}, 2}});
  const auto check = [](const char* equation, BlockTensor x, BlockTensor y) {
    CAPTURE(equation);
    x.data.set_requires_grad();
    y.data.set_requires_grad();
    const BlockTensor z = einsum(equation, {x, y});
    const BlockTensor g = drawn(z.structure.legs(), z.structure.charge());
    const Tensor dense = einsum(equation, {to_dense(x), to_dense(y)});
    const Tensors found = grad({z.data}, {x.data, y.data}, {g.data}),
                  wanted = grad({dense}, {x.data, y.data}, {to_dense(g)});
    for (size_t k = 0; k < 2; ++k) CHECK(values(found[k]) == values(wanted[k]));
  };
  check("ca,cbd->bad", drawn({c, a}, {1}), drawn({c.reversed(), b, d}));
  check("abe,dce->dbac", drawn({p, q, e}), drawn({m, n, e.reversed()}, {-1}));
  check("abe,dce->dbac", drawn({p, q, e}, {1}), drawn({m, n, e.reversed()}, {-1}));
}

TEST_CASE("blocks: maps of fermions are what contract makes of them") {
  for (const Ints& parity : {Ints{}, Ints{0}})
    for (const int arrow : {1, -1}) {
      CAPTURE(parity.size());
      CAPTURE(arrow);
      const Symmetry g{{2}, parity};
      const Leg s(g, arrow, {{{0}, 2}, {{1}, 1}}), t(g, 1, {{{0}, 1}, {{1}, 2}}), r = s.reversed(),
                                                                                  q = t.reversed();
      const auto drawn_of = [&](const Legs& legs) {
        return random_blocks(BlockStructure(g, legs, {0}), gen, DType::c128);
      };
      const auto near = [](const BlockTensor& a, const BlockTensor& b) {
        return norm(sub(a, b)).item() < 1e-11;
      };
      const BlockTensor x = drawn_of({s, t, r, q});
      const BlockTensor xh = adjoint(x, {0, 1}), y = drawn_of({s, t, r});
      // <y|x y> and the adjoint on the other side, by the product that is the sum of |.|^2.
      const auto apply = [](const BlockTensor& m, const BlockTensor& v) {
        return einsum("abcd,cdz->abz", {m, v});
      };
      const Tensor one = inner(y, apply(x, y)), other = inner(apply(xh, y), y);
      CHECK(abs(sub(one, other)).item() < 1e-10);
      CHECK(near(adjoint(xh, {0, 1}), x));
      const BlockTensor h = add(x, xh);
      const BlockFactors e = eigh(h, {0, 1});
      CHECK(near(apply(h, e.left), scale(e.left, 2, e.values)));
      CHECK(near(einsum("abz,zcd->abcd", {scale(e.left, 2, e.values), e.right}), h));
      CHECK(near(e.right, adjoint(e.left, {0, 1})));
      const BlockFactors f = svd(x, {0, 1});
      for (const BlockFactors& k : {f, qr(x, {0, 1})}) {
        CHECK(near(einsum("abz,zcd,cdef->abef", {k.left, adjoint(k.left, {0, 1}), x}), x));
        CHECK(near(einsum("abcd,cdz,zef->abef", {x, adjoint(f.right, {0}), f.right}), x));
      }
      const BlockTensor one_map = einsum("abcd,cdef->abef", {inv(h, {0, 1}), h});
      CHECK(near(apply(one_map, y), y));
      CHECK(near(solve(h, {0, 1}, apply(h, y)), y));
      const Tensor squares = einsum("abcd,cdef->abef", {h, h}).data;
      CHECK(abs(sub(det(BlockTensor{squares, h.structure}, {0, 1}),
                    mul(det(h, {0, 1}), det(h, {0, 1}))))
                .item() < 1e-9 * abs(det(BlockTensor{squares, h.structure}, {0, 1})).item());
    }
}

TEST_CASE("blocks: fermions of an odd charge have no adjoint, no inverse, no conjugate") {
  const Leg s(Symmetry{{2}, {0}}, 1, {{{0}, 1}, {{1}, 1}});
  const BlockTensor x = drawn({s, s.reversed()}, {1});
  for (const auto& use : {std::function<void()>([&] { adjoint(x, {0}); }),
                          std::function<void()>([&] { inv(x, {0}); }),
                          std::function<void()>([&] { conj(x); }), std::function<void()>([&] {
                            einsum("ij,jk->ik", {x, x});
                          })})
    says(error_of(use), {"fermionic", "odd charge 1", "a leg of size 1"});
  CHECK(values(twist(x, {0, 0}).data) == values(x.data));
  says(error_of([&] { twist(x, {2}); }), {"twist", "axis 2"});
}

TEST_CASE("blocks: a bra of several fermionic tensors, its bonds twisted once") {
  const Symmetry g{{2}, {0}};
  for (int arrows = 0; arrows < 16; ++arrows) {
    CAPTURE(arrows);
    const auto leg = [&](int bit) {
      return Leg(g, arrows >> bit & 1 ? 1 : -1, {{{0}, 2}, {{1}, 1}});
    };
    const BlockTensor a = random_blocks(BlockStructure(g, {leg(0), leg(1)}, {0}), gen, DType::f64),
                      b = random_blocks(BlockStructure(g, {leg(1).reversed(), leg(2), leg(3)}, {0}),
                                        gen, DType::f64),
                      c = random_blocks(BlockStructure(g, {leg(3).reversed(), leg(0)}, {0}), gen,
                                        DType::f64);
    const BlockTensor psi = einsum("ab,bcd,de->ace", {a, b, c});
    const double wanted = mul(norm(psi), norm(psi)).item();
    const BlockTensor twice = einsum("ab,bcd,de,ap,pcq,qe->",
                                     {twist(conj(a), {1}), conj(b), twist(conj(c), {0}), a, b, c});
    CHECK(std::abs(twice.data.item() - wanted) <= 1e-12 * wanted);
    const BlockTensor other =
        einsum("ab,bcd,de,ap,pcq,qe->", {conj(a), twist(conj(b), {0, 2}), conj(c), a, b, c});
    CHECK(std::abs(other.data.item() - wanted) <= 1e-12 * wanted);
  }
}

TEST_CASE("blocks: what has many sectors, neutral legs of either arrow, whole slices, numbers") {
  std::vector<Sector> many;
  for (int64_t q = 0; q < 3000; ++q) many.push_back({{q}, 1});
  const Leg wide(u1, 1, many), two(u1, 1, {{{0}, 1}, {{1}, 1}});
  CHECK(BlockStructure({wide, wide.reversed()}, {0}).count() == 3000);
  CHECK(BlockStructure({wide, two, wide.reversed()}, {0}).count() == 5999);

  const Leg n(u1, 1, {{{0}, 2}}), i(u1, 1, {{{-1}, 2}, {{1}, 1}});
  const BlockTensor a = drawn({n}), b = drawn({n.reversed()});
  CHECK(values(add(a, b).data) == values(add(b, a).data));
  CHECK(add(a, b).structure == a.structure);
  says(error_of([&] { add(drawn({i}, {1}), drawn({i.reversed()}, {-1})); }), {"arrow 1", "-1"});

  const BlockTensor f = fuse(drawn({i, i}), 0, 2, 1);
  const std::vector<std::pair<int64_t, int64_t>> all(f.structure.legs()[0].count(), {0, 1000});
  CHECK(split(slice(f, 0, all), 0).rank() == 2);

  const BlockTensor half{cast(a.data, DType::f32), a.structure};
  CHECK(mul(half, f64({2}, {1})).data.dtype() == DType::f64);
  CHECK(mul(half, f64({2}, {})).data.dtype() == DType::f32);

  const BlockTensor x = drawn({i, i.reversed()});
  const BlockTensor longer{Tensor::zeros({70}, DType::f64), x.structure};
  for (const auto& use : {std::function<void()>([&] {
                            einsum("ij,jk->ik", {longer, x});
                          }),
                          std::function<void()>([&] {
                            contract(x, {0, 1}, longer, {1, 2}, {0, 2});
                          }),
                          std::function<void()>([&] { add(longer, x); })})
    says(error_of(use), {"have shape (70,)", "takes (5,)"});
  says(error_of([&] {
         get_block(x, {0, 1});
       }),
       {"sum to -2", "leg 1, in its sector 1 of charge 1, would fit in sector 0 of charge -1"});
  Tensor wrong = Tensor::zeros({3, 3}, DType::f64);
  copy_(slice(reshape(wrong, {9}), 0, 2, 3), f64({5}, {1}));
  says(error_of([&] { from_dense(wrong, x.structure); }),
       {"element (0, 2) is 5", "leg 1, in its sector 1 of charge 1", "a tolerance"});

  BlockTensor deep = drawn({i, i.reversed()});
  for (int k = 0; k < 17; ++k) {
    deep = einsum("ab,c->acb", {deep, drawn({Leg(u1, 1, {{{0}, 1}})})});
    deep = fuse(deep, 0, 2, 1);
  }
  const TempFolder folder;
  says(error_of([&] {
         write_blocks(folder / "x.safetensors", {{"x", deep}});
       }),
       {"\"x\"", "axis 0", "more than 16 times", "split"});
  CHECK_FALSE(std::filesystem::exists(folder / "x.safetensors"));
}

TEST_CASE("blocks: graphs show what moves, and the legs and blocks that come of it") {
  const Leg i(u1, 1, {{{0}, 2}, {{1}, 3}}), one(u1, 1, {{{0}, 1}});
  std::vector<Sector> many;
  for (int64_t q = 0; q < 9; ++q) many.push_back({{q}, 2});
  const Leg wide(u1, -1, many);
  BlockTensor x = drawn({i, i.reversed()});
  x.data.set_requires_grad();
  const BlockTensor y = einsum("ij,jk->ik", {x, drawn({i, wide})});
  const BlockTensor z = permute(split(fuse(y, 0, 2, 1), 0), {1, 0});
  const audit::GraphView v = audit::read_graph({sum(to_dense(z))}, {});
  for (const std::string& text : {audit::to_text(v), audit::to_dot(v)})
    says(text, {"ij,jk->ik into + {0: 2, 1: 3} - {18 in 9 sectors}, 2 blocks",
                "fuse into + {90 in 10 sectors}, 1 block",
                "split into + {0: 2, 1: 3} - {18 in 9 sectors}, 2 blocks",
                "permute into - {18 in 9 sectors} + {0: 2, 1: 3}, 2 blocks", "to_dense"});
}
