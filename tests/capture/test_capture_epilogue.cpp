// A statement over the result of a contraction becomes its end in a captured step, on every device,
// with the bits of eager; and the slot itself on the reference device, against calls of their own.
#include "engine/kernel_call.hpp"
#include "engine/random.hpp"
#include "engine/capture/capture.hpp"
#include "engine/capture/ledger.hpp"
#include "tests/helpers/nn_helpers.hpp"
#include "ops/def/fingerprint.hpp"
#include "ops/optim/optimizer.hpp"

using namespace gradus;
using namespace gradus::testing;

namespace {

// Calls of a replay that are contractions with a statement.
struct Epilogues : KernelWrapper {
  int count = 0;
  gd_status call(const gd_call& c, Next next, gd_error& error) override {
    count += c.slot == GD_CONTRACT && c.n_ints > 4;
    return next(error);
  }
};
int epilogues(Captured& step, Device& device) {
  Epilogues seen;
  const WrapperScope scope(device, seen);
  step.replay();
  return seen.count;
}

Tensor raw_contract(const Tensor& a, const Tensor& b, int statement, std::vector<double> params) {
  const int64_t m = a.size(0), n = b.size(1), k = a.size(1);
  const Shape joint{m, n, k}, strides_a{k, 0, 1}, strides_b{0, 1, n};
  const Tensor y = Tensor::empty({m, n}, a.dtype(), a.device());
  KernelCall call(GD_CONTRACT);
  call.in(a, joint, strides_a).in(b, joint, strides_b);
  call.integer(2).integer(GD_STANDARD).integer(0).integer(0);
  if (statement >= 0) call.integer(statement);
  call.number(1).number(0).number(0).number(0);
  for (const double p : params) call.number(p);
  call.out(y).run();
  return y;
}

}  // namespace

TEST_CASE("contract slot: every device puts finished elements through a statement") {
  for (const char* name : {"reference", "cpu"})
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
      Device& device = open_device(name);
      const Tensor a = wave_tensor({5, 7}, 0, dtype, device),
                   b = wave_tensor({7, 3}, 11, dtype, device), plain = raw_contract(a, b, -1, {});
      CAPTURE(name);
      CAPTURE(dtype_name(dtype));
      CHECK(values(raw_contract(a, b, def::statement_id("tanh"), {})) == values(tanh(plain)));
      CHECK(values(raw_contract(a, b, def::statement_id("leaky_relu"), {0.25})) ==
            values(leaky_relu(plain, 0.25)));
      CHECK(error_of([&] { raw_contract(a, b, def::statement_id("add"), {}); }) != "");
      CHECK(error_of([&] { raw_contract(a, b, def::statement_id("isnan"), {}); }) != "");
    }
}

TEST_CASE("capture: an activation after a linear layer is the end of its contraction") {
  for (const char* name : {"reference", "cpu"})
    for (const DType dtype : {DType::f32, DType::f64})
      for (const char* activation : {"relu", "tanh", "sigmoid", "gelu"})
        for (const int64_t width : {16, 100}) {  // small products and blocked ones
          CAPTURE(name);
          CAPTURE(activation);
          Device& device = open_device(name);
          const auto run = [&](bool captured, std::vector<std::vector<double>>& seen) {
            manual_seed(3);
            nn::Sequential net;
            for (const int64_t layer : {0, 1}) {
              net.add(std::make_unique<nn::Linear>(layer ? width : 8, width, true, dtype, device));
              net.add(std::make_unique<nn::OpLayer>(activation));
            }
            net.add(std::make_unique<nn::Linear>(width, 3, true, dtype, device));
            const Tensor x = wave_tensor({37, 8}, 5, dtype, device);
            optim::Optimizer sgd(net.parameters(), optim::Sgd{});
            const auto work = [&] {
              sgd.zero_grad();
              const Tensor loss = mean(square(net.forward(x)));
              backward(loss);
              sgd.apply();
              return Tensors{loss.detach()};
            };
            sgd.prepare(0.1);
            Captured step;
            for (int i = 0; i < 3; ++i) {
              if (captured && i == 0) {
                step = capture(device, work);
                REQUIRE(step);
                seen.push_back(values(step.outputs()[0]));
              } else {
                seen.push_back(values((captured ? step.replay() : work())[0]));
              }
            }
            for (const auto& [parameter, p] : net.parameters()) seen.push_back(values(p));
            // gelu's slope reads x, so x stays.
            if (captured)
              CHECK(epilogues(step, device) == (std::string(activation) == "gelu" ? 0 : 2));
          };
          std::vector<std::vector<double>> eager, replayed;
          run(false, eager);
          run(true, replayed);
          CHECK(eager == replayed);
        }
}

TEST_CASE("capture: a contraction keeps its result where something else reads or writes it") {
  Device& device = open_device("cpu");
  const Tensor a = wave_tensor({20, 30}, 0, DType::f32, device),
               b = wave_tensor({30, 40}, 7, DType::f32, device),
               kept = wave_tensor({20, 40}, 9, DType::f32, device);
  struct Step {
    const char* what;
    int epilogues;
    std::function<Tensors()> work;
  };
  const auto square_of = [&](const Tensor& y) { return matmul(y, transpose(y, 0, 1)); };
  const Step steps[] = {
      {"alone", 1, [&] { return Tensors{square_of(tanh(matmul(a, b)))}; }},
      {"seen from outside", 1, [&] { return Tensors{tanh(matmul(a, b))}; }},
      {"its operand too", 0,
       [&] {
         const Tensor y = matmul(a, b);
         return Tensors{tanh(y), y};
       }},
      {"read twice", 0,
       [&] {
         const Tensor y = matmul(a, b);
         return Tensors{square_of(tanh(y)), square_of(y)};
       }},
      {"another shape", 0,
       [&] {
         return Tensors{square_of(tanh(reshape(matmul(a, b), {40, 20})))};
       }},
      {"a part", 0, [&] { return Tensors{square_of(tanh(slice(matmul(a, b), 0, 2, 9)))}; }},
      {"a chain", 0, [&] { return Tensors{square_of(mul(tanh(matmul(a, b)), kept))}; }},
      {"two operands", 0,
       [&] {
         const Tensor y = matmul(a, b);
         return Tensors{square_of(mul(y, y))};
       }},
      {"into what was read between", 0,
       [&] {
         const Tensor y = matmul(a, b), before = square_of(kept);
         copy_(kept, tanh(y));
         return Tensors{before, square_of(kept)};
       }},
      {"after a tropical one", 0,
       [&] {
         return Tensors{square_of(tanh(contract(a, {0, 1}, b, {1, 2}, {0, 2}, Algebra::max_plus)))};
       }},
  };
  const Tensor start = clone(kept);
  for (const Step& s : steps) {
    CAPTURE(s.what);
    std::vector<std::vector<double>> eager, replayed;
    copy_(kept, start);
    for (int i = 0; i < 2; ++i)
      for (const Tensor& t : s.work()) eager.push_back(values(t));
    eager.push_back(values(kept));
    copy_(kept, start);
    Captured step = capture(device, s.work);
    REQUIRE(step);
    for (const Tensor& t : step.outputs()) replayed.push_back(values(t));
    for (const Tensor& t : step.replay()) replayed.push_back(values(t));
    replayed.push_back(values(kept));
    CHECK(eager == replayed);
    CHECK(epilogues(step, device) == s.epilogues);
  }
}
