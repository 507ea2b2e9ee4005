// What a captured step saves: chains instead of single pointwise calls, one arena instead of many
// buffers, with the bits of eager steps.
#include "engine/capture/capture.hpp"
#include "engine/capture/replay.hpp"
#include "tests/helpers/nn_helpers.hpp"
#include "ops/nn/conv.hpp"
#include "ops/optim/optimizer.hpp"

using namespace gradus;
using namespace gradus::testing;

TEST_CASE("capture: lives that meet never share memory, and little is wasted") {
  std::vector<wrap::Life> lives;
  for (size_t i = 0; i < 200; ++i) {
    const size_t first = i * 37 % 101;
    lives.push_back({1 + i * i * 31 % 1000, first, first + i * 13 % 17});
  }
  const size_t total = wrap::place(lives);
  size_t most = 0;
  for (size_t t = 0; t < 120; ++t) {
    size_t sum = 0;
    for (const wrap::Life& l : lives)
      if (l.first <= t && t <= l.last) sum += (l.bytes + 63) / 64 * 64;
    most = std::max(most, sum);
  }
  CHECK(total <= most * 5 / 4);
  for (size_t i = 0; i < lives.size(); ++i)
    for (size_t k = 0; k < i; ++k) {
      const wrap::Life &a = lives[i], &b = lives[k];
      if (a.last < b.first || b.last < a.first) continue;
      CHECK((a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset));
    }
}

TEST_CASE("capture: pointwise calls become chains, constants and copies of them vanish") {
  Tensor x = wave_tensor({6, 5}, 0), row = wave_tensor({5}, 3), narrow = cast(x, DType::f16);
  const auto work = [&] {
    const Tensor a = relu(add(mul(x, Tensor(2.0)), row));  // a number: filled once
    const Tensor b = where(gt(a, Tensor(0.5)), exp(neg(a)), reshape(x, {6, 5}));
    const Tensor c = reshape(sigmoid(reshape(b, {30})), {6, 5});  // another shape, the same line
    copy_(x, mul(c, x));                                          // in place, read before
    const Tensor h = add(narrow, narrow);                         // 16 bits stay alone
    return Tensors{c, sum(mul(c, x)), transpose(c, 0, 1), cast(h, DType::f32)};
  };
  const auto all = [&](const Tensors& out) {
    std::vector<std::vector<float>> v;
    for (const Tensor& t : out) v.push_back(floats(t));
    v.push_back(floats(x));
    return v;
  };
  Captured step = capture(default_device(), work);
  REQUIRE(step);
  const Tensor x0 = clone(x);
  const auto replayed = all(step.replay());
  copy_(x, x0);
  CHECK(all(work()) == replayed);
  if (default_device().offers(GD_CHAIN)) CHECK(step.calls() <= 4);  // chain, sum, 16 bits twice
}

TEST_CASE("capture: chains of every kind of neighbourhood give the bits of eager") {
  // Random steps over a few tensors, with writes in place, views, casts, broadcasts and sums.
  for (int seed = 0; seed < 60; ++seed) {
    uint64_t bits = uint64_t(seed) * 2654435761u + 1;
    const auto pick = [&](size_t n) {
      bits = bits * 6364136223846793005u + 1442695040888963407u;
      return size_t(bits >> 33) % n;
    };
    struct Op {
      size_t kind, a, b;
    };
    std::vector<Op> ops;
    for (int i = 0; i < 25; ++i) ops.push_back({pick(9), pick(1000), pick(1000)});
    std::vector<Tensor> kept;
    const auto restart = [&] {
      kept = {wave_tensor({4, 6}, seed), wave_tensor({6}, seed + 5), wave_tensor({4, 1}, seed + 9),
              wave_tensor({24}, seed + 20)};
    };
    const auto work = [&] {
      std::vector<Tensor> t = kept;
      const auto any = [&](size_t k) { return t[k % t.size()]; };
      const auto wide = [&](size_t k) {  // (4, 6)
        const Tensor x = any(k);
        return x.numel() == 24 ? reshape(x, {4, 6}) : expand(x, {4, 6});
      };
      for (const Op& op : ops) {
        const Tensor a = wide(op.a), b = wide(op.b);
        switch (op.kind) {
          case 0:
            t.push_back(tanh(add(a, b)));
            break;
          case 1:
            t.push_back(mul(a, any(op.b).numel() == 24 ? b : any(op.b)));
            break;
          case 2:
            t.push_back(reshape(sub(a, b), {24}));
            break;
          case 3:
            copy_(kept[0], sigmoid(mul(a, b)));
            break;
          case 4:
            copy_(select(kept[0], 0, int64_t(op.a % 4)), select(tanh(b), 0, 1));
            break;
          case 5:
            t.push_back(where(gt(a, b), a, sin(b)));
            break;
          case 6:
            t.push_back(tanh(sum(a, {0})));
            break;
          case 7:
            t.push_back(cast(cast(a, DType::f64), DType::f32));
            break;
          default:
            copy_(kept[3], reshape(cos(a), {24}));
            break;
        }
      }
      return Tensors{t.back(), t[t.size() - 2], any(ops[0].a)};
    };
    const auto all = [&](const Tensors& out) {
      std::vector<std::vector<float>> v;
      for (const Tensor& x : out) v.push_back(floats(x));
      for (const Tensor& x : kept) v.push_back(floats(x));
      return v;
    };
    restart();
    std::vector<std::vector<std::vector<float>>> eager;
    for (int n = 0; n < 3; ++n) eager.push_back(all(work()));
    restart();
    Captured step = capture(default_device(), work);
    INFO("seed " << seed << ": " << step.why_not());
    REQUIRE(step);
    CHECK(all(step.outputs()) == eager[0]);
    CHECK(all(step.replay()) == eager[1]);
    CHECK(all(step.replay()) == eager[2]);
  }
}

TEST_CASE("capture: a result takes the place of an operand that dies") {
  const Tensor a = wave_tensor({96, 64}, 0), b = wave_tensor({64, 96}, 3);
  const size_t one = 96 * 96 * sizeof(float);
  const auto work = [&] {
    const Tensor c = matmul(a, b), d = sigmoid(c);   // c dies in it
    const Tensor e = matmul(d, d);                   // d is read as two operands, and lives on
    return Tensors{sum(sub(e, d)), sum(mul(d, e))};  // two results, two operands that die
  };
  const Tensors eager = work();
  Captured step = capture(default_device(), work);
  REQUIRE(step);
  CHECK(step.arena_bytes() < 4 * one);  // each in a place of its own: four at the last two
  for (int i = 0; i < 2; ++i) {
    const Tensors& again = step.replay();
    CHECK(floats(again[0]) == floats(eager[0]));
    CHECK(floats(again[1]) == floats(eager[1]));
  }
}

TEST_CASE("capture: the arena is no larger than what the step had allocated at once") {
  const Tensor x = wave_tensor({8, 1, 14, 14}, 0);
  manual_seed(1);
  nn::Sequential net;
  net.add(std::make_unique<nn::Conv>(
      nn::ConvOptions{.in_channels = 1, .out_channels = 4, .kernel_size = {3, 3}}));
  net.add(std::make_unique<nn::OpLayer>("relu"));
  net.add(std::make_unique<nn::Flatten>());
  net.add(std::make_unique<nn::Linear>(4 * 12 * 12, 32, true, DType::f32, default_device()));
  net.add(std::make_unique<nn::OpLayer>("gelu"));
  net.add(std::make_unique<nn::Linear>(32, 3, true, DType::f32, default_device()));
  optim::Optimizer optimizer(net.parameters(), optim::Adam{});
  optimizer.prepare(0.1);
  const auto work = [&] {
    const Tensor loss = mean(square(net.forward(x)));
    backward(loss);
    optimizer.apply();
    optimizer.zero_grad();
    return Tensors{loss.detach()};
  };
  Pool& pool = default_device().pool();
  pool.reset_peak();
  const size_t before = pool.stats().live;
  work();
  const size_t peak = pool.stats().peak - before;
  const Captured step = capture(default_device(), work);
  REQUIRE(step);
  CHECK(step.arena_bytes() <= peak);
  MESSAGE("eager " << peak << " bytes at once, arena " << step.arena_bytes());
}
