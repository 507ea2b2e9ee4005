// gradcheck: it passes what is right, in both modes and both orders, and finds what is planted.
#include "engine/random.hpp"
#include "ops/transforms/func.hpp"
#include "tests/helpers/helpers.hpp"

using namespace gradus;
using namespace gradus::testing;
using func::Function;
using func::Mode;

namespace {

bool says(const std::string& message, const std::string& part) {
  const bool found = message.find(part) != std::string::npos;
  CHECK_MESSAGE(found, "\"", message, "\" lacks \"", part, "\"");
  return found;
}

// Another derivative for an op, until the end of the scope.
struct Planted {
  explicit Planted(const char* name)
      : op(const_cast<OpInfo&>(get_op(name))), vjp(op.vjp), jvp(op.jvp) {}
  ~Planted() {
    op.vjp = vjp;
    op.jvp = jvp;
  }
  OpInfo& op;
  decltype(OpInfo::vjp) vjp;
  decltype(OpInfo::jvp) jvp;
};

Tensor matrix() { return f64({0.3, -1.2, 0.7, 2, 0.1, -0.4}, {2, 3}); }
const Function kLayer = [](const Tensors& in) {
  return Tensors{tanh(matmul(in[0], in[1])), sum(in[1])};
};

}  // namespace

TEST_CASE("gradcheck: right derivatives pass, real and complex, of many inputs and outputs") {
  const Tensor v = f64({0.5, -0.25, 1.5}, {3});
  func::gradcheck(kLayer, {matrix(), v});
  func::gradgradcheck(kLayer, {matrix(), v});
  // Not holomorphic, with a real and a complex output, on strided and expanded inputs.
  const Tensor z = Tensor::from(std::vector<c128>{{1, 2}, {3, -1}, {0.5, 0.25}}, {3});
  const Function f = [](const Tensors& in) {
    return Tensors{abs(in[0]), conj(in[0]) * in[1], exp(in[0] * in[1])};
  };
  func::gradcheck(f, {z, matrix()});
  func::gradgradcheck(f, {flip(z, {0}), expand(slice(matrix(), 0, 1, 2), {2, 3})});
  // Integers go by: an input, and an output.
  const Function pick = [](const Tensors& in) {
    return Tensors{argmax(in[1], 0), square(gather(in[1], 0, in[0]))};
  };
  func::gradcheck(pick, {i64({2, 2, 0}, {3}), v});
  func::gradgradcheck(pick, {i64({2, 2, 0}, {3}), v});
  // Nothing to move, and inputs that do not matter.
  func::gradcheck(
      [](const Tensors& in) {
        return Tensors{square(in[0]), in[1] * 0.0};
      },
      {Tensor::zeros({0}, DType::f64), v});
  // The inputs keep what they had.
  const Tensor x = leaf(f64({1, 2}, {2}));
  func::gradcheck([](const Tensors& in) { return Tensors{square(in[0])}; }, {x});
  CHECK_FALSE(x.grad().defined());
}

TEST_CASE("gradcheck: a wrong vjp, a wrong jvp and a wrong second derivative are found") {
  const Tensor x = f64({1, 2, 4}, {3}), y = f64({3, 5, 7}, {3});
  const Function f = [](const Tensors& in) { return Tensors{in[0] + in[1], in[0] * exp(in[1])}; };
  const Function slope = [](const Tensors& in) { return Tensors{exp(in[0])}; };
  {
    const Planted exp_op("exp");
    exp_op.op.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return g[0]; };
    const std::string wrong = error_of([&] { func::gradcheck(f, {x, y}); });
    says(wrong,
         "gradcheck: Jacobian mismatch for output 1 with respect to input 1 in reverse mode: "
         "numerical 4386.5");
    says(wrong, ", analytical 4, for element (2,) by element (2,)");
    func::gradcheck(f, {x, y}, {.mode = Mode::forward});
  }
  {
    const Planted exp_op("exp");
    exp_op.op.jvp = [](GradFn&, size_t, std::span<const Tensor> t) { return t[0]; };
    says(error_of([&] {
           func::gradcheck(f, {x, y});
         }),
         "output 1 with respect to input 1 in forward mode: numerical 4386.5");
    func::gradcheck(f, {x, y}, {.mode = Mode::reverse});
  }
  {
    // The right numbers, whose own derivative is lost.
    const Planted exp_op("exp");
    exp_op.op.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
      return g[0] * node.output(0).detach();
    };
    func::gradcheck(slope, {x});
    says(error_of([&] { func::gradgradcheck(slope, {x}); }),
         "gradgradcheck: Jacobian mismatch for the gradient of input 0 with respect to input 0");
  }
  // One part of a complex number can be wrong alone.
  {
    const Planted conj_op("conj");
    conj_op.op.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return g[0]; };
    const Tensor z = Tensor::from(std::vector<c128>{{1, 2}}, {1});
    const std::string wrong = error_of(
        [&] { func::gradcheck([](const Tensors& in) { return Tensors{conj(in[0])}; }, {z}); });
    says(wrong, "numerical -1");
    says(wrong,
         ", analytical 1, for imaginary part of element (0,) by imaginary part of element (0,)");
  }
}

TEST_CASE("gradcheck: what it refuses") {
  const Function same = [](const Tensors& in) { return Tensors{in[0] * 1.0}; };
  CHECK(error_of([&] { func::gradcheck(same, {f32({1}, {1})}); }) ==
        "gradcheck: input 0 is f32, whose rounding hides what differences should show; cast to f64 "
        "or c128");
  says(error_of([&] {
         func::gradgradcheck([](const Tensors& in) { return Tensors{cast(in[0], DType::f32)}; },
                             {matrix()});
       }),
       "gradgradcheck: output 0 is f32");
  says(error_of([&] { func::gradcheck(same, {i64({1}, {1})}); }), "no input is real or complex");
  says(error_of([&] {
         func::gradcheck([](const Tensors& in) { return Tensors{argmax(in[0], 0)}; }, {matrix()});
       }),
       "no output is real or complex");
  says(error_of([&] { func::gradcheck(same, {Tensor()}); }), "input 0 is undefined");
  says(error_of([&] {
         func::gradcheck([](const Tensors& in) { return Tensors{dropout(in[0], 0.5)}; },
                         {matrix()});
       }),
       "the function gave other values when it ran again");
  // A derivative that depends on how often it was asked for.
  const Planted exp_op("exp");
  static int asked = 0;
  exp_op.op.vjp = [](GradFn&, size_t, std::span<const Tensor> g) {
    return g[0] * (1.0 + 1e-9 * ++asked);
  };
  says(error_of([&] {
         func::gradcheck([](const Tensors& in) { return Tensors{exp(in[0])}; }, {f64({0}, {1})});
       }),
       "backward gave other bits when it ran again");
}
