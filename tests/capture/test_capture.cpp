// Captured steps: the same bits as eager ones whatever happens between replays, and a clear no for
// every step that a replay would get wrong.
#include "engine/random.hpp"
#include "engine/capture/capture.hpp"
#include "engine/capture/ledger.hpp"
#include "tests/helpers/capture_helpers.hpp"
#include "tests/helpers/nn_helpers.hpp"
#include "ops/base/checkpoint.hpp"
#include "ops/nn/normalization.hpp"
#include "ops/optim/optimizer.hpp"
#include "bindings/cpp/xtensor.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <thread>

using namespace gradus;
using namespace gradus::testing;
using gradus::test::error_text;

namespace {

// Everything that a step can be: dropout, running statistics, a clipped Adam.
struct Model {
  nn::Sequential net;
  nn::NamedTensors parameters;
  std::unique_ptr<optim::Optimizer> optimizer;
  Tensor x = Tensor::zeros({7, 6}, DType::f32), y = Tensor::zeros({7, 3}, DType::f32);

  explicit Model(const optim::Rule& rule) {
    manual_seed(3);
    net.add(std::make_unique<nn::Linear>(6, 5, true, DType::f32, default_device()));
    net.add(std::make_unique<nn::BatchNorm>(5));
    net.add(std::make_unique<nn::OpLayer>("relu"));
    net.add(std::make_unique<nn::Dropout>(0.3));
    net.add(std::make_unique<nn::Linear>(5, 3, true, DType::f32, default_device()));
    parameters = net.parameters();
    optimizer = std::make_unique<optim::Optimizer>(parameters, rule);
  }
  Tensor step() {
    optimizer->zero_grad();
    const Tensor loss = mean(square(sub(net.forward(x), y)));
    backward(loss);
    optimizer->apply(optim::clip_gain(parameters, 0.5));
    return loss.detach();
  }
  void feed(int64_t n) {
    copy_(x, wave_tensor({7, 6}, 100 * n));
    copy_(y, wave_tensor({7, 3}, 100 * n + 50));
    optimizer->prepare(0.1 / double(n + 1));
  }
  std::vector<float> state() const {
    std::vector<float> all;
    for (const auto& list : {net.state(), optimizer->state()})
      for (const auto& [name, t] : list)
        for (const float v : floats(t)) all.push_back(v);
    for (const auto& [name, p] : parameters)
      if (p.grad().defined())
        for (const float v : floats(p.grad())) all.push_back(v);
    return all;
  }
};

}  // namespace

TEST_CASE("capture: replayed steps give the bits of eager ones") {
  const std::vector<optim::Rule> rules{
      optim::Adam{}, optim::Adam{.weight_decay = 0.1, .decoupled = true}, optim::Sgd{},
      optim::Sgd{.momentum = 0.9, .nesterov = true}, optim::Sgd{.momentum = 0.9, .dampening = 0.5}};
  for (const optim::Rule& rule : rules) {
    std::vector<std::vector<float>> eager;
    {
      Model m(rule);
      for (int n = 0; n < 6; ++n) {
        m.feed(n);
        eager.push_back(floats(m.step()));
        eager.push_back(m.state());
      }
    }
    Model m(rule);
    CaptureCache cache(default_device());
    for (int n = 0; n < 6; ++n) {
      m.feed(n);
      const Tensors out = cache.run({7}, [&] { return Tensors{m.step()}; });
      CHECK(floats(out[0]) == eager[size_t(2 * n)]);
      CHECK(m.state() == eager[size_t(2 * n + 1)]);
    }
    CHECK(cache.why_not() == "");
    CHECK(cache.replays() == 4);
  }
}

TEST_CASE("capture: what happens to the tensors between replays") {
  Tensor x = wave_tensor({4, 3}, 0), w = wave_tensor({3, 2}, 7),
         total = Tensor::zeros({2}, DType::f32);
  Captured step = capture(default_device(), [&] {
    add_(total, sum(matmul(x, w), {0}));
    return Tensors{neg(total)};
  });
  REQUIRE(step);
  const auto expected = [&](const std::vector<float>& before) {
    std::vector<float> after = floats(add(Tensor::from(before, {2}), sum(matmul(x, w), {0})));
    return after;
  };
  std::vector<float> before = floats(total);
  SUBCASE("nothing") {
    step.replay();
    CHECK(floats(total) == expected(before));
    CHECK(floats(step.outputs()[0]) == floats(neg(total)));
  }
  SUBCASE("a clone keeps the old numbers, and a new version is there") {
    const Tensor kept = clone(total), kept_output = clone(step.outputs()[0]);
    const auto output_before = floats(kept_output);
    const uint64_t version = total.version();
    step.replay();
    CHECK(floats(kept) == before);
    CHECK(floats(kept_output) == output_before);
    CHECK(floats(total) == expected(before));
    CHECK(total.version() > version);
  }
  SUBCASE("inputs get new numbers, and new memory") {
    const Tensor old = clone(w);
    copy_(w, wave_tensor({3, 2}, 90));  // unshares: w moves
    mul_(x, Tensor(2.0));               // takes the memory of the product
    step.replay();
    CHECK(floats(total) == expected(before));
    before = floats(total);
    step.replay();
    CHECK(floats(total) == expected(before));
  }
  SUBCASE("its tensors are written between replays") {
    copy_(total, wave_tensor({2}, 5));
    copy_(step.outputs()[0], wave_tensor({2}, 6));
    before = floats(total);
    step.replay();
    CHECK(floats(total) == expected(before));
    CHECK(floats(step.outputs()[0]) == floats(neg(total)));
  }
  SUBCASE("saved for backward, then written by a replay") {
    Tensor v = wave_tensor({2}, 1);
    v.set_requires_grad();
    const Tensor product = sum(mul(v, total));
    step.replay();
    CHECK(error_text(ErrorKind::autograd, [&] { backward(product); }).find("changed by replay") !=
          std::string::npos);
  }
  SUBCASE("the other memory is taken by others") {
    std::vector<Tensor> others;
    for (int i = 0; i < 50; ++i) others.push_back(Tensor::full({8}, 7.0, DType::f32));
    step.replay();
    CHECK(floats(total) == expected(before));
    for (const Tensor& t : others) CHECK(floats(t) == std::vector<float>(8, 7.0f));
  }
}

TEST_CASE("capture: memory that changes hands inside of the step") {
  Tensor x = wave_tensor({5}, 0), y = wave_tensor({5}, 9), z = wave_tensor({5}, 20);
  Tensor kept, aside;
  const auto work = [&] {
    kept = clone(x);   // shares x's old memory, and outlives the step
    mul_(x, y);        // x takes the memory of the product
    aside = clone(y);  // shares y's
    const Tensor t = clone(z);
    add_(t, x);  // unshares
    return Tensors{t, clone(t), x};
  };
  const auto all = [&](const Tensors& out) {
    std::vector<std::vector<float>> v;
    for (const Tensor& t : {x, y, z, kept, aside, out[0], out[1], out[2]}) v.push_back(floats(t));
    return v;
  };
  Captured step = capture(default_device(), work);
  REQUIRE(step);
  const Tensor x2 = clone(x);
  for (int n = 0; n < 3; ++n) {
    const auto got = all(step.replay());
    const Tensor expected_x = mul(x2, y);
    CHECK(got[3] == floats(x2));
    CHECK(got[0] == floats(expected_x));
    CHECK(got[7] == floats(expected_x));
    CHECK(got[4] == floats(y));
    CHECK(got[5] == floats(add(z, expected_x)));
    CHECK(got[6] == got[5]);
    copy_(x2, expected_x);
    copy_(y, wave_tensor({5}, 30 + n));
  }
}

TEST_CASE("capture: gradients stay in .grad") {
  Tensor w = wave_tensor({3}, 2), x = wave_tensor({3}, 4);
  w.set_requires_grad();
  const auto work = [&] {
    const Tensor loss = sum(square(mul(w, x)));
    backward(loss);
    return Tensors{loss.detach()};
  };
  const auto expected = [&] { return floats(mul(mul(Tensor(2.0), mul(w.detach(), x)), x)); };
  SUBCASE("dropped before each step") {
    Captured step = capture(default_device(), work);
    REQUIRE(step);
    const auto first = floats(w.grad());
    for (int n = 0; n < 2; ++n) {
      copy_(x, wave_tensor({3}, 40 + n));
      w.set_grad({});
      step.replay();
      REQUIRE(w.grad().defined());
      CHECK(floats(w.grad()) == expected());
      CHECK(floats(w.grad()) != first);
    }
    CHECK(error_text(ErrorKind::autograd, [&] { step.replay(); }).find("call zero_grad()") !=
          std::string::npos);
  }
  SUBCASE("added to") {
    w.set_grad(Tensor::zeros({3}, DType::f32));
    Captured step = capture(default_device(), work);
    REQUIRE(step);
    step.replay();
    const auto one = expected();
    for (size_t i = 0; i < 3; ++i) CHECK(floats(w.grad())[i] == one[i] + one[i]);
    w.set_grad({});
    CHECK(error_text(ErrorKind::autograd, [&] { step.replay(); }).find("replaced or dropped") !=
          std::string::npos);
  }
}

TEST_CASE("capture: steps that can't be replayed say why") {
  Tensor x = wave_tensor({4}, 0);
  CHECK(why_not([&] { return Tensors{mul(x, Tensor(sum(x).item()))}; }).find("read on the host") !=
        std::string::npos);
  CHECK(why_not([&] {
          return Tensors{add(x, wave_tensor({4}, 3))};
        }).find("copied from the host") != std::string::npos);
  CHECK(why_not([&] {
          as_xtensor<float>(x)(0) = 1;
          return Tensors{neg(x)};
        }).find("read on the host") != std::string::npos);
  CHECK(why_not([&] { return Tensors{masked_select(x, gt(x, Tensor(0.0)))}; }) != "");
  CHECK(why_not([&] {
          manual_seed(1);
          return Tensors{dropout(x, 0.5, true)};
        }) != "");
  Tensor state = neg(x);
  CHECK(why_not([&] {
          state = add(state, x);
          return Tensors{};
        }).find("must be written in place") != std::string::npos);
  CHECK(why_not([&] {
          Tensor y;
          std::thread([&] { y = add(x, x); }).join();
          return Tensors{y};
        }).find("another thread") != std::string::npos);
  Device& reference = open_device("reference");
  if (&reference != &default_device())
    CHECK(why_not([&] {
            return Tensors{Tensor::zeros({2}, DType::f32, reference), add(x, x)};
          }).find("also works on reference") != std::string::npos);
  Tensor w = wave_tensor({4}, 3);
  w.set_requires_grad();
  w.set_grad(wave_tensor({4}, 9));
  optim::Optimizer sgd({{"w", w}}, optim::Sgd{.momentum = 0.5, .dampening = 0.5});
  CHECK(why_not([&] {
          sgd.step(0.1);
          return Tensors{};
        }).find("copied from the host") != std::string::npos);
  optim::Optimizer other({{"w", w}}, optim::Sgd{.momentum = 0.5, .dampening = 0.5});
  other.prepare(0.1);
  CHECK(why_not([&] {
          other.apply();
          return Tensors{};
        }).find("dampening") != std::string::npos);
  Ledger ledger(default_device());
  CHECK(why_not([&] { return Tensors{add(x, x)}; }).find("ledger") != std::string::npos);
  CHECK(error_text(ErrorKind::value, [&] { Captured().replay(); }).find("nothing was captured") !=
        std::string::npos);
}

TEST_CASE("capture: random numbers go on where they were") {
  const Tensor x = Tensor::full({20}, 1.0, DType::f32);
  const auto draw = [&] { return Tensors{dropout(x, 0.5, true), dropout(x, 0.5, true)}; };
  std::vector<std::vector<float>> eager, replayed;
  const auto keep = [](auto& list, const Tensors& t) {
    list.push_back(floats(t[0]));
    list.push_back(floats(t[1]));
  };
  manual_seed(8);
  for (int n = 0; n < 5; ++n) keep(eager, draw());
  const uint64_t position = default_generator().position();
  manual_seed(8);
  keep(replayed, draw());
  Captured step = capture(default_device(), draw);
  REQUIRE(step);
  keep(replayed, step.outputs());
  keep(replayed, step.replay());
  keep(replayed, draw());
  keep(replayed, step.replay());
  CHECK(replayed == eager);
  CHECK(default_generator().position() == position);
  std::string error;
  std::thread([&] { error = error_text(ErrorKind::value, [&] { step.replay(); }); }).join();
  CHECK(error.find("another thread") != std::string::npos);
}

TEST_CASE("capture: constants of ops and checkpointed parts are repeated") {
  Tensor x = wave_tensor({2, 4, 6}, 0), w = wave_tensor({2, 4, 6}, 5);
  w.set_requires_grad();
  const auto work = [&] {
    const Tensor q = mul(x, w);
    const Tensor a = checkpoint(
        [](const Tensors& in) {
          return Tensors{scaled_dot_product_attention(in[0], in[0], in[0], {}, true)};
        },
        {q})[0];
    const Tensor loss = sum(square(a));
    w.set_grad({});
    backward(loss);
    return Tensors{loss.detach()};
  };
  Captured step = capture(default_device(), work);
  CHECK(step.why_not() == "");
  REQUIRE(step);
  copy_(x, wave_tensor({2, 4, 6}, 77));
  const auto replayed = floats(step.replay()[0]), gradient = floats(w.grad());
  CHECK(floats(work()[0]) == replayed);
  CHECK(floats(w.grad()) == gradient);
}

TEST_CASE("capture: a kernel's refusal at replay is an error in words") {
  const Tensor x = wave_tensor({4}, 0), index = Tensor::from(std::vector<int64_t>{1, 2}, {2});
  Captured step = capture(default_device(), [&] { return Tensors{gather(x, 0, index)}; });
  REQUIRE(step);
  fill_(index, Tensor(int64_t(9)));
  CHECK(error_text(ErrorKind::value, [&] { step.replay(); }).find("gather") != std::string::npos);
}

TEST_CASE("capture: a ledger counts the calls of a replay") {
  const Tensor x = wave_tensor({4}, 0);
  Captured step = capture(default_device(), [&] { return Tensors{exp(neg(x))}; });
  REQUIRE(step);
  const auto plain = floats(step.replay()[0]);
  Ledger ledger(default_device());
  CHECK(floats(step.replay()[0]) == plain);
  CHECK(ledger.total().calls == step.calls());
}

TEST_CASE("capture: a derivative that looks at the rank of its matrix is no step") {
  for (const DType t : {DType::f32, DType::f64, DType::c128})
    for (const Shape& shape : {Shape{4, 4}, Shape{3, 5}, Shape{6, 4}}) {
      manual_seed(5);
      const Tensor a = cast(normal(shape, 0, 1, DType::f64), t).set_requires_grad();
      const auto slope = [&] { return Tensors{grad({sum(abs(qr(a)[1]))}, {a})[0]}; };
      const Captured step = capture(default_device(), slope);
      CHECK(!step);
      CHECK(step.why_not().find("read on the host") != std::string::npos);
    }
}
