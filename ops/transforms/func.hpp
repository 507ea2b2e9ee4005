// Functional transforms: derivatives of functions from tensors to tensors. They nest in each other
// and in vmap (ops/transforms/vmap.hpp). A transform hands f views of its inputs, so that an input
// and the same tensor captured by f are told apart: only the input is differentiated. Inside vmap
// every input is given the examples' axis first, so every example has a gradient of its own.
//
//   Function f = [](const Tensors& in) { return Tensors{sum(sin(in[0]))}; };
//   Tensor cosine = func::grad(f, {x})[0];
//   Tensor each = func::vmap([&](const Tensors& in) { return func::grad(f, in); })({xs})[0];
#pragma once
#include "ops/transforms/vmap.hpp"
#include "engine/forward.hpp"

namespace gradus::inline v1::func {

// Of a Jacobian: a row per backward walk, or a column per tangent. automatic: whichever are fewer.
enum class Mode { automatic, forward, reverse };

struct Options {
  // grad, value_and_grad: the inputs to differentiate. The others differentiate all.
  std::vector<int64_t> argnums = {0};
  // May the results be differentiated again? Left out: yes inside another transform, and where an
  // input or what f captured has history.
  std::optional<bool> create_graph = {};
  // Errors instead of silent zeros where an output does not depend on an input.
  bool strict = false;
  // Of jacobian and hessian:
  bool vectorize = true;     // all rows at once by vmap; else one after another
  bool holomorphic = false;  // complex inputs and outputs, dy/dz alone
  Mode mode = Mode::automatic;
};

// f gives one real number.
struct ValueAndGrad {
  Tensor value;
  Tensors grads;  // one per argnum
};
ValueAndGrad value_and_grad(const Function& f, const Tensors& inputs, const Options& options = {});
Tensors grad(const Function& f, const Tensors& inputs, const Options& options = {});

// pullback: v, one cotangent per output (none at all for one output of one element), to J^H v. It
// may be called many times, also under vmap.
struct Vjp {
  Tensors outputs;
  Function pullback;
};
Vjp vjp(const Function& f, const Tensors& inputs, const Options& options = {});

// Forward mode, with one tangent per input. Inside another jvp it is two vjps: tangents have one
// level (ForwardLevel).
struct Jvp {
  Tensors outputs, tangents;
};
Jvp jvp(const Function& f, const Tensors& inputs, const Tensors& v, const Options& options = {});

// The Hessian of f (one real number) times v: forward over reverse, and reverse over reverse.
struct Product {
  Tensor value;
  Tensors product;
};
Product hvp(const Function& f, const Tensors& inputs, const Tensors& v,
            const Options& options = {});
Product vhp(const Function& f, const Tensors& inputs, const Tensors& v,
            const Options& options = {});

// [i][k]: output i by input k, of shape (output's..., input's...).
using Blocks = std::vector<Tensors>;
Blocks jacobian(const Function& f, const Tensors& inputs, const Options& options = {});
// [i][k]: the derivative by input i and input k of one real number.
Blocks hessian(const Function& f, const Tensors& inputs, const Options& options = {});

// What a function gave beside its outputs, as a transform gives it on: with history where that
// leads on past what the function was given (leaves) and made since it began (start, of
// next_sequence()).
Tensors released(const Tensors& tensors, const Tensors& leaves, uint64_t start);

struct GradcheckOptions {
  double eps = 1e-6;                // how far inputs are moved
  double atol = 1e-5, rtol = 1e-3;  // |analytical - numerical| <= atol + rtol |numerical|
  Mode mode = Mode::automatic;      // forward or reverse alone; automatic: both
};
// The Jacobian of f by reverse and by forward mode against central differences, for every real and
// complex input (f64 or c128). Error(numeric) names the worst element. Also an error: a function
// that does not repeat itself, a backward walk that gives other bits the second time.
void gradcheck(const Function& f, const Tensors& inputs, const GradcheckOptions& options = {});
// The same of its gradients: reverse over reverse and forward over reverse.
void gradgradcheck(const Function& f, const Tensors& inputs, const GradcheckOptions& options = {});

}  // namespace gradus::func
