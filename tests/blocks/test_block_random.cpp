// Random structures against their dense embedding: values, gradients, tangents and second
// derivatives, equal with ==, since all numbers are whole.
#include "tests/blocks/block_helpers.hpp"

#include "engine/forward.hpp"
#include "ops/blocks/factors.hpp"
#include "ops/blocks/file.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/pointwise/functions.hpp"
#include "tests/helpers/io_helpers.hpp"
#include "tests/helpers/sizes.hpp"

#include <algorithm>
#include <functional>

using namespace gradus;
using namespace gradus::test;

namespace {

class Drawn {
 public:
  explicit Drawn(uint64_t seed) : gen(seed) {
    static const std::vector<Ints> groups = {{0}, {2}, {3}, {0, 2}, {0, 0, 2}};
    g.mods = groups[seed % groups.size()];
  }
  int64_t below(int64_t n) { return int64_t(gen() % uint64_t(n)); }
  Charge charge() {
    Charge q;
    for (size_t i = 0; i < g.mods.size(); ++i) q.push_back(below(3) - 1);
    return q;
  }
  Leg leg() {
    std::vector<Sector> sectors;
    const int64_t n = below(12) == 0 ? 0 : 1 + below(3);
    for (int64_t i = 0; i < n; ++i) sectors.push_back({charge(), below(6) == 0 ? 0 : 1 + below(2)});
    return Leg(g, below(2) ? 1 : -1, sectors);
  }
  Legs legs(size_t n) {
    Legs all;
    while (all.size() < n) all.push_back(leg());
    return all;
  }
  // A structure that has blocks, if a few tries find one.
  BlockStructure structure(const Legs& legs) {
    for (int i = 0; i < 6; ++i) {
      const BlockStructure s(g, legs, charge());
      if (s.elements() > 0) return s;
    }
    return BlockStructure(g, legs, g.neutral());
  }
  Ints order(size_t n) {
    Ints o;
    for (size_t i = 0; i < n; ++i) o.push_back(int64_t(i));
    std::shuffle(o.begin(), o.end(), gen);
    return o;
  }

  std::mt19937 gen;
  Symmetry g;
};

void check_equal(const Tensor& a, const Tensor& b, int line = __builtin_LINE()) {
  CAPTURE(line);
  REQUIRE(a.sizes() == b.sizes());
  NoGrad off;
  for (const auto& part :
       {std::function<Tensor(const Tensor&)>(real), std::function<Tensor(const Tensor&)>(imag)})
    CHECK(gradus::testing::values(part(cast(a.detach(), DType::c128))) ==
          gradus::testing::values(part(cast(b.detach(), DType::c128))));
}

// f of blocks and d of their dense tensors: values, cotangents, tangents.
template <class F, class D>
void check_embedding(Drawn& draw, const BlockTensor& x, F&& f, D&& d) {
  BlockTensor leaf = with_data(x, x.data.detach().set_requires_grad());
  const BlockTensor y = f(leaf);
  const Tensor dense = d(to_dense(leaf));
  check_equal(to_dense(y), dense);
  const BlockTensor g = random_blocks(y.structure, draw.gen, x.data.dtype());
  check_equal(
      grad({y.data}, {leaf.data}, {g.data}, {.allow_unused = true, .materialize_grads = true})[0],
      grad({dense}, {leaf.data}, {to_dense(g)},
           {.allow_unused = true, .materialize_grads = true})[0]);
  ForwardLevel level;
  level.set_tangent(leaf.data, random_blocks(x.structure, draw.gen, x.data.dtype()).data);
  const Tensor t = f(leaf).data.tangent(), td = d(to_dense(leaf)).tangent();
  if (t.defined() && td.defined()) check_equal(to_dense({t, y.structure}), td);
}

void one_tensor(Drawn& draw, DType dtype) {
  const BlockStructure s = draw.structure(draw.legs(2 + size_t(draw.below(5))));
  const BlockTensor x = random_blocks(s, draw.gen, dtype);
  check_equal(from_dense(to_dense(x), s).data, x.data);
  const Ints order = draw.order(s.rank());
  check_embedding(
      draw, x, [&](const BlockTensor& t) { return permute(t, order); },
      [&](const Tensor& t) { return permute(t, order); });
  check_embedding(
      draw, x, [](const BlockTensor& t) { return conj(t); },
      [](const Tensor& t) { return conj(t); });
  check_embedding(
      draw, x, [](const BlockTensor& t) { return sub(mul(t, Tensor(3.0)), neg(t)); },
      [](const Tensor& t) { return mul(t, Tensor(4.0)); });
  const size_t first = size_t(draw.below(int64_t(s.rank()) - 1)),
               n = 2 + size_t(draw.below(int64_t(s.rank() - first) - 1));
  const int arrow = draw.below(2) ? 1 : -1;
  check_embedding(
      draw, x,
      [&](const BlockTensor& t) {
        return split(fuse(t, int64_t(first), int64_t(n), arrow), int64_t(first));
      },
      [](const Tensor& t) { return mul(t, Tensor(1.0)); });
  const BlockTensor fused = fuse(x, int64_t(first), int64_t(n), arrow);
  CHECK(fused.structure.elements() == s.elements());
  CHECK(fused.structure.charge() == s.charge());
  // A slice of some axis, by index.
  const size_t axis = size_t(draw.below(int64_t(s.rank())));
  std::vector<std::pair<int64_t, int64_t>> ranges;
  std::vector<int64_t> index;
  for (size_t i = 0; i < s.legs()[axis].count(); ++i) {
    const int64_t size = s.legs()[axis].sectors()[i].size, a = draw.below(size + 1),
                  b = a + draw.below(size - a + 1);
    ranges.emplace_back(a, b);
    for (int64_t k = a; k < b; ++k) index.push_back(s.legs()[axis].start(i) + k);
  }
  const Tensor where = Tensor::from(index, {int64_t(index.size())});
  check_embedding(
      draw, x, [&](const BlockTensor& t) { return slice(t, int64_t(axis), ranges); },
      [&](const Tensor& t) { return index_select(t, int64_t(axis), where); });
  const Tensor numbers =
      random_blocks(
          BlockStructure({Leg(Symmetry{{0}, {}}, 1, {{{0}, s.legs()[axis].size()}})}, {0}),
          draw.gen, dtype)
          .data;
  Shape beside(s.rank(), 1);
  beside[axis] = s.legs()[axis].size();
  check_embedding(
      draw, x, [&](const BlockTensor& t) { return scale(t, int64_t(axis), numbers); },
      [&](const Tensor& t) { return mul(t, reshape(numbers, beside)); });
  // A trace over a leg and its reverse.
  Legs closed = s.legs();
  const size_t a = size_t(draw.below(int64_t(closed.size()) + 1)),
               b = size_t(draw.below(int64_t(s.rank())));
  closed.insert(closed.begin() + int64_t(a), s.legs()[b].reversed());
  const size_t of_b = b + (a <= b);
  if (closed.size() <= 6) {
    const BlockTensor y = random_blocks(draw.structure(closed), draw.gen, dtype);
    check_embedding(
        draw, y, [&](const BlockTensor& t) { return trace(t, int64_t(a), int64_t(of_b)); },
        [&](const Tensor& t) { return sum(diagonal(t, 0, int64_t(a), int64_t(of_b)), {-1}); });
  }
}

void two_tensors(Drawn& draw, DType dtype) {
  const size_t rank_a = 1 + size_t(draw.below(5)),
               shared = size_t(draw.below(int64_t(std::min<size_t>(rank_a, 3)) + 1)),
               own = size_t(draw.below(3)) + (shared == 0);
  Legs of_a = draw.legs(rank_a), of_b = draw.legs(own);
  Labels la, lb, out;
  for (size_t i = 0; i < rank_a; ++i) la.push_back(int64_t(i));
  for (size_t i = 0; i < own; ++i) lb.push_back(int64_t(rank_a + i));
  const Ints which = draw.order(rank_a);
  for (size_t i = 0; i < shared; ++i) {
    const size_t at = size_t(draw.below(int64_t(of_b.size()) + 1));
    of_b.insert(of_b.begin() + int64_t(at), of_a[size_t(which[i])].reversed());
    lb.insert(at, which[i]);
  }
  for (size_t i = shared; i < rank_a; ++i) out.push_back(which[i]);
  for (size_t i = 0; i < own; ++i) out.push_back(int64_t(rank_a + i));
  std::shuffle(out.begin(), out.end(), draw.gen);
  BlockTensor a = random_blocks(draw.structure(of_a), draw.gen, dtype),
              b = random_blocks(draw.structure(of_b), draw.gen, dtype);
  a.data.set_requires_grad();
  b.data.set_requires_grad();
  const auto blocks = [&] { return contract(a, la, b, lb, out); };
  const auto dense = [&] { return einsum({to_dense(a), to_dense(b)}, {la, lb}, out); };
  const BlockTensor y = blocks();
  const Tensor whole = dense();
  check_equal(to_dense(y), whole);
  const BlockTensor g = random_blocks(y.structure, draw.gen, dtype);
  const BackwardOptions how{.create_graph = true, .allow_unused = true, .materialize_grads = true};
  const Tensors ga = grad({y.data}, {a.data, b.data}, {g.data}, how),
                gd = grad({whole}, {a.data, b.data}, {to_dense(g)}, how);
  for (size_t k = 0; k < 2; ++k) check_equal(ga[k], gd[k]);
  // Second derivatives: of the sum of both gradients' squares.
  const auto squares = [](const Tensors& t) {
    return add(sum(real(mul(t[0], conj(t[0])))), sum(real(mul(t[1], conj(t[1])))));
  };
  const BackwardOptions last{.allow_unused = true, .materialize_grads = true};
  const Tensors second = grad({squares(ga)}, {a.data, b.data}, {}, last),
                second_dense = grad({squares(gd)}, {a.data, b.data}, {}, last);
  for (size_t k = 0; k < 2; ++k) check_equal(second[k], second_dense[k]);
  ForwardLevel level;
  level.set_tangent(a.data, random_blocks(a.structure, draw.gen, dtype).data);
  level.set_tangent(b.data, random_blocks(b.structure, draw.gen, dtype).data);
  const Tensor t = blocks().data.tangent(), td = dense().tangent();
  if (t.defined() && td.defined()) check_equal(to_dense({t, y.structure}), td);
}

}  // namespace

TEST_CASE("blocks: 1,000 random structures equal their dense embedding, with all derivatives") {
  const int draws = small_sizes() ? 60 : 500;
  for (int i = 0; i < draws; ++i) {
    CAPTURE(i);
    Drawn draw{uint64_t(i)};
    const DType dtype = i / 5 % 2 ? DType::c128 : DType::f64;
    const DeviceScope scope(open_device(i % 7 ? "cpu" : "reference"));
    one_tensor(draw, dtype);
    two_tensors(draw, dtype);
  }
}

TEST_CASE("blocks: decompositions of random maps, values and gradients beside the dense ones") {
  for (int i = 0; i < (small_sizes() ? 10 : 60); ++i) {
    CAPTURE(i);
    Drawn draw{uint64_t(i) * 77 + 1};
    Legs legs = draw.legs(2 + size_t(draw.below(3)));
    BlockTensor x = random_blocks(draw.structure(legs), draw.gen, i % 2 ? DType::c128 : DType::f64);
    if (x.data.numel() == 0) continue;
    std::normal_distribution<double> normal;
    std::vector<double> noise;
    for (int64_t k = 0; k < x.data.numel(); ++k) noise.push_back(normal(draw.gen));
    x.data = add(x.data, cast(Tensor::from(noise, {x.data.numel()}), x.data.dtype()));
    x.data.set_requires_grad();
    const Ints left{draw.below(int64_t(legs.size()))};
    const auto restored = [&](const BlockFactors& f, bool values) {
      Labels l, r, out;
      const size_t last = f.left.rank() - 1;
      for (size_t k = 0; k < last; ++k) l.push_back(int64_t(k)), out.push_back(int64_t(k));
      l.push_back(100);
      r.push_back(100);
      for (size_t k = 1; k < f.right.rank(); ++k)
        r.push_back(int64_t(last + k)), out.push_back(int64_t(last + k));
      return contract(values ? scale(f.left, -1, cast(f.values, x.data.dtype())) : f.left, l,
                      f.right, r, out);
    };
    Ints order = left;
    for (int64_t k = 0; k < int64_t(legs.size()); ++k)
      if (k != left[0]) order.push_back(k);
    const BlockTensor wanted = permute({x.data.detach(), x.structure}, order);
    const auto near = [](const Tensor& a, const Tensor& b, double tolerance) {
      NoGrad off;
      if (a.numel() == 0) return true;
      return amax(abs(sub(cast(a.detach(), DType::c128), cast(b.detach(), DType::c128)))).item() <=
             tolerance;
    };
    const bool to_left = draw.below(2);
    const BlockFactors f = svd(x, left, {}, to_left ? TakesCharge::left : TakesCharge::right),
                       q = qr(x, left, true, to_left ? TakesCharge::left : TakesCharge::right);
    CHECK(near(restored(f, true).data, wanted.data, 1e-12));
    CHECK(near(restored(q, false).data, wanted.data, 1e-12));
    // Of the sum of fourth powers of the singular values, which the dense matrix has, too.
    const auto fourth = [](const Tensor& s) { return sum(mul(mul(s, s), mul(s, s))); };
    const Tensor dense = permute(to_dense(x), order);
    const Tensor matrix = reshape(dense, {dense.size(0), -1});
    const Tensor a = grad({fourth(f.values)}, {x.data})[0],
                 b = grad({fourth(svdvals(matrix))}, {x.data})[0];
    CHECK(near(a, b, 1e-9));
    // Through the vectors of a cut: the error of the best map of rank 2, whose gradient is twice
    // that error, since the vectors stand at a minimum.
    const BlockTensor some = restored(svd(x, left, {.rank = 2}, TakesCharge::right), true);
    if (some.structure == wanted.structure) {
      const BlockTensor error = sub(some, permute(x, order));
      const Tensor g = grad({sum(real(mul(error.data, conj(error.data))))}, {x.data})[0];
      const BlockTensor back = permute(x, order);
      CHECK(
          near(g, grad({back.data}, {x.data}, {mul(error.data.detach(), Tensor(-2.0))})[0], 1e-8));
    }
  }
}

TEST_CASE("blocks: files give back every bit, and damaged lists are refused") {
  const TempFolder dir;
  for (int i = 0; i < 24; ++i) {
    Drawn draw{uint64_t(i) + 9000};
    BlockTensor x = random_blocks(draw.structure(draw.legs(1 + size_t(draw.below(4)))), draw.gen,
                                  i % 2 ? DType::c128 : DType::f32);
    if (x.rank() > 1) x = fuse(x, 0, 2, -1);
    const std::string path = dir / "x.safetensors";
    write_blocks(path, {{"x", x}});
    const auto back = read_blocks(path);
    REQUIRE(back.size() == 1);
    CHECK(back[0].name == "x");
    CHECK(back[0].tensor.structure == x.structure);
    check_equal(back[0].tensor.data, x.data);
  }
  const Symmetry g{{0}, {}};
  const Leg leg(g, 1, {{{0}, 2}, {{1}, 1}});
  const BlockTensor x = zeros_of(BlockStructure({leg, leg.reversed()}, {0}), DType::f64);
  NamedTensors tensors;
  Metadata metadata;
  to_entries({"x", x}, tensors, metadata);
  const auto refusal = [&](auto&& damage) {
    NamedTensors t = tensors;
    Metadata m = metadata;
    damage(t, m);
    const std::string path = dir / "bad.safetensors";
    write_safetensors(path, t, m);
    return gradus::testing::error_of([&] { read_blocks(path); });
  };
  const auto entry = [](NamedTensors& t, const char* name) -> Tensor& {
    for (auto& [n, tensor] : t)
      if (n == name) return tensor;
    throw std::runtime_error(name);
  };
  CHECK(refusal([](auto&, auto&) {}) == "");
  const std::string wrong_block = refusal([&](NamedTensors& t, Metadata&) {
    entry(t, "x.blocks") = gradus::testing::i64({0, 0, 0, 1, 0, 4}, {2, 3});
  });
  CHECK(wrong_block.find("block tensor \"x\" has sector 0 of leg 1 in block 1, expected 1") !=
        std::string::npos);
  CHECK(refusal([&](NamedTensors& t, Metadata&) {
          entry(t, "x.blocks") = gradus::testing::i64({0, 0, 0, 1, 1, 3}, {2, 3});
        }).find("at 3, expected 4") != std::string::npos);
  CHECK(refusal([&](NamedTensors& t, Metadata&) {
          entry(t, "x.blocks") = gradus::testing::i64({0, 0, 0}, {1, 3});
        }).find("lists 1 blocks") != std::string::npos);
  CHECK(refusal([&](NamedTensors& t, Metadata&) {
          entry(t, "x") = Tensor::zeros({4}, DType::f64);
        }).find("allow 5 elements") != std::string::npos);
  CHECK(refusal([&](NamedTensors& t, Metadata&) {
          entry(t, "x.leg.1") = gradus::testing::i64({0, 2, 1, 2}, {2, 2});
        }) != "");
  CHECK(refusal([&](NamedTensors&, Metadata& m) {
          m["x"] = R"({"format": "gradus.block", "version": 2})";
        }).find("version 2") != std::string::npos);
  CHECK(refusal([&](NamedTensors&, Metadata& m) {
          m["x"] = R"({"format": "gradus.block", "version": 1})";
        }).find("can't be read") != std::string::npos);
  CHECK(refusal([&](NamedTensors&, Metadata& m) { m.clear(); }).find("no block tensor") !=
        std::string::npos);
}
