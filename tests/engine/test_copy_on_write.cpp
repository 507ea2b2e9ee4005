// Copies that share memory until a write: of whole tensors only. What is small never keeps what is
// large alive, and no write copies more than it writes; counted in the pool's bytes.
#include "engine/hooks.hpp"
#include "engine/capture/capture.hpp"
#include "ops/check/check.hpp"
#include "tests/helpers/helpers.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

constexpr int64_t kSide = 1000;                // of a matrix of 8 MB
constexpr int64_t kRow = 8192;                 // bytes of its row, as the pool rounds them
constexpr int64_t kMatrix = int64_t(8) << 20;  // and of all of it

// Bytes of the pool since it was made.
class Bytes {
 public:
  Bytes() { pool_.reset_peak(); }
  int64_t live() const { return int64_t(pool_.stats().live) - before_; }
  int64_t peak() const { return int64_t(pool_.stats().peak) - before_; }

 private:
  Pool& pool_ = default_device().pool();
  const int64_t before_ = int64_t(pool_.stats().live);
};

Tensor numbers(const Shape& sizes) {
  return cos(reshape(arange(0, double(numel_of(sizes)), 1, DType::f64), sizes));
}

}  // namespace

TEST_CASE("copy on write: clones of rows, each written, take a row each") {
  on_each_device([] {
    const Tensor x = numbers({kSide, kSide});
    const double last = select(select(x, 0, 99), 0, 999).item();
    const Bytes bytes;
    Tensors rows;
    for (int64_t i = 0; i < 100; ++i) {
      rows.push_back(clone(select(x, 0, i)));
      fill_(rows.back(), double(i));
    }
    CHECK(bytes.live() == 100 * kRow);
    CHECK(bytes.peak() == 100 * kRow + 64);  // a number to fill with
    CHECK(values(rows[7]) == std::vector<double>(kSide, 7));
    CHECK(select(select(x, 0, 99), 0, 999).item() == last);
    // A transposed tensor is all of its memory: shared until the write.
    const Tensor turned = clone(transpose(x, 0, 1));
    CHECK(bytes.live() == 100 * kRow);
    fill_(turned, 0.0);
    CHECK(bytes.live() == 100 * kRow + kMatrix);
    // A written row of x, of which a clone is there, is no reason for either to be copied again.
    const Tensor whole = clone(x);
    fill_(select(x, 0, 0), 1.0);
    fill_(select(x, 0, 1), 1.0);
    CHECK(bytes.live() == 100 * kRow + 2 * kMatrix);
    CHECK(select(select(whole, 0, 0), 0, 0).item() == 1.0);
    CHECK(select(select(whole, 0, 1), 0, 0).item() != 1.0);
  });
}

TEST_CASE("copy on write: clones of columns, steps and expanded parts hold what they show") {
  const Tensor x = numbers({kSide, kSide});
  const Bytes bytes;
  const Tensor column = clone(select(x, 1, 3)), odd = clone(slice(x, 0, 1, 20, 2));
  CHECK(bytes.live() == kRow + 80384);
  CHECK(values(column) == values(select(x, 1, 3)));
  CHECK(values(odd) == values(slice(x, 0, 1, 20, 2)));
  const Tensor none = clone(slice(x, 0, 5, 5));
  CHECK(none.sizes() == Shape{0, kSide});
  const int64_t before = bytes.live();
  const Tensor many = expand(select(x, 0, 2), {500, kSide}).clone_data();  // what hooks are given
  CHECK(bytes.live() - before == kRow);
  CHECK(many.strides() == Shape{0, 1});
  CHECK(values(many) == values(expand(select(x, 0, 2), {500, kSide})));
}

TEST_CASE("copy on write: rows written in place keep the rows that were saved") {
  on_each_device([] {
    const Tensor x = leaf(numbers({kSide, kSide})), w = leaf(numbers({kSide}));
    const Tensor h = x * 1.0;
    const Bytes bytes;
    for (int64_t i = 0; i < 100; ++i) mul_(select(h, 0, i), w);
    CHECK(bytes.live() == 100 * kRow);
    CHECK(bytes.peak() == 101 * kRow);
    const Tensors g = grad({sum(slice(h, 0, 0, 120))}, {x, w});
    const Tensor top = slice(x.detach(), 0, 0, 100);
    CHECK(close(values(g[1]), values(sum(top, {0}))));
    CHECK(values(select(g[0], 0, 99)) == values(w));
    CHECK(values(select(g[0], 0, 100)) == std::vector<double>(kSide, 1));
    // Nothing is recorded: nothing is kept.
    const Tensor plain = numbers({kSide, kSide}), factor = w.detach();
    const Bytes quiet;
    mul_(select(plain, 0, 0), factor);
    CHECK(quiet.live() == 0);
    CHECK(quiet.peak() == kRow);
  });
}

TEST_CASE("copy on write: gradients hold their own bytes, whatever they were cut from") {
  on_each_device([] {
    constexpr int64_t kLeaves = 200, kBytes = 40448;  // of 5000 f64
    Tensors leaves;
    for (int64_t i = 0; i < kLeaves; ++i) leaves.push_back(leaf(numbers({5000})));
    const Tensor weight = numbers({kLeaves * 5000});
    const auto step = [&] { backward(sum(mul(cat(leaves, 0), weight))); };
    const Bytes bytes;
    step();
    CHECK(bytes.live() == kLeaves * kBytes);
    for (int pass = 0; pass < 2; ++pass) {
      const Bytes again;
      step();
      CHECK(again.live() == 0);
      CHECK(again.peak() == 3 * kMatrix + 128);  // of what all leaves together have
    }
    CHECK(close(values(leaves[3].grad()), values(slice(weight, 0, 15000, 20000) * 3.0)));

    const Tensor x = leaf(f64({1, 2, 3, 4, 5}, {5})), y = x * 1.0;
    y.retain_grad();
    const Tensor rest = numbers({kSide * kSide}), factors = numbers({kSide * kSide + 5});
    const Bytes small;
    const auto all = [&] { return sum(mul(cat({y, rest}, 0), factors)); };
    backward(all(), {.retain_graph = true});
    CHECK(small.live() == 2 * 64);
    const Tensors g = grad({all()}, {y});
    CHECK(small.live() == 3 * 64);
    CHECK(values(g[0]) == values(slice(factors, 0, 0, 5)));
    CHECK(values(x.grad()) == values(g[0]));
  });
}

TEST_CASE(
    "copy on write: a captured step with clones of rows and rows written gives the same bits") {
  const Tensor x = numbers({6, 4}), w = leaf(numbers({4}));
  const auto work = [&] {
    w.set_grad(Tensor());
    const Tensor h = mul(x, w), row = clone(select(h, 0, 1));
    mul_(select(h, 0, 2), w);
    add_(row.detach(), Tensor(1.0));
    backward(sum(mul(h, h)) + sum(mul(row, row)));
    return Tensors{h.detach(), row.detach()};
  };
  const auto seen = [&](const Tensors& out) {
    return std::vector{values(out[0]), values(out[1]), values(w.grad())};
  };
  Captured step = capture(default_device(), work);
  REQUIRE_MESSAGE(step, step.why_not());
  for (int n = 0; n < 3; ++n) {
    copy_(x, numbers({6, 4}) * double(n + 2));
    const auto eager = seen(work());
    w.set_grad(Tensor());
    CHECK(seen(step.replay()) == eager);
  }
}

// Ops that cut their result from a larger one of their own must copy it.
TEST_CASE("copy on write: no op's result keeps a larger one alive") {
  std::string found;
  for (const OpInfo& op : all_ops()) {
    if (op.user) continue;
    const rows::Row& row = rows::row_of(op.name);
    for (size_t c = 0; c < row.cases.size(); ++c)
      for (const DType dtype : rows::dtypes_of_case(row, c)) {
        const Tensors in = rows::draw_inputs(row, c, dtype, default_device());
        for (const Tensor& y : rows::evaluate(op, in, rows::attrs_of(op, row.cases[c].attrs))) {
          bool view = y.bytes() >= y.storage().bytes();
          for (const Tensor& x : in) view |= &x.storage() == &y.storage();
          if (!view && found.find(op.name) == std::string::npos) found += op.name + " ";
        }
      }
  }
  CHECK(found == "");
}
