// gradus.func's inside: the engine's transforms of functions from tensors to tensors. Trees of
// tensors, argnums and auxiliary results are Python's part.
#include "bindings/python/src/python.hpp"
#include "ops/transforms/func.hpp"

namespace gradus::inline v1::py {

namespace {

func::Options options(const std::vector<int64_t>& argnums, std::optional<bool> create_graph) {
  func::Options o;
  o.argnums = argnums;
  o.create_graph = create_graph;
  return o;
}
func::Mode mode_of(const std::string& name) {
  if (name == "forward") return func::Mode::forward;
  if (name == "reverse") return func::Mode::reverse;
  return func::Mode::automatic;
}
// A function of C++ as one of Python: lists of tensors in and out.
nb::object callable(Function f) {
  return nb::cpp_function([f = std::move(f)](const Tensors& in) { return f(in); });
}

}  // namespace

void open_transforms(nb::module_& m) {
  m.def(
      "_value_and_grad",
      [](nb::handle f, const Tensors& in, const std::vector<int64_t>& argnums,
         std::optional<bool> create_graph) {
        auto r = func::value_and_grad(function_of(f), in, options(argnums, create_graph));
        return std::make_pair(r.value, r.grads);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("_vjp", [](nb::handle f, const Tensors& in) {
    func::Vjp r = func::vjp(function_of(f), in);
    return nb::make_tuple(r.outputs, callable(r.pullback));
  });
  m.def("_jvp", [](nb::handle f, const Tensors& in, const Tensors& v) {
    func::Jvp r = func::jvp(function_of(f), in, v);
    return std::make_pair(r.outputs, r.tangents);
  });
  m.def("_jacobian", [](nb::handle f, const Tensors& in, const std::string& mode, bool vectorize,
                        bool holomorphic) {
    func::Options o;
    o.mode = mode_of(mode);
    o.vectorize = vectorize;
    o.holomorphic = holomorphic;
    return func::jacobian(function_of(f), in, o);
  });
  m.def("_hessian",
        [](nb::handle f, const Tensors& in) { return func::hessian(function_of(f), in); });
  m.def("_hvp", [](nb::handle f, const Tensors& in, const Tensors& v) {
    auto r = func::hvp(function_of(f), in, v);
    return std::make_pair(r.value, r.product);
  });
  m.def("_vhp", [](nb::handle f, const Tensors& in, const Tensors& v) {
    auto r = func::vhp(function_of(f), in, v);
    return std::make_pair(r.value, r.product);
  });
  m.def("_vmap", [](nb::handle f, const std::vector<std::optional<int64_t>>& in_dims,
                    const std::string& randomness, const Tensors& in) {
    const Randomness r = randomness == "different" ? Randomness::different
                         : randomness == "same"    ? Randomness::same
                                                   : Randomness::error;
    return func::vmap(function_of(f), in_dims, {}, r)(in);
  });
  m.def("_released", func::released);
  m.def("_next_sequence", next_sequence);
  m.def("_is_mapped", [](const Tensor& t) {  // by the innermost vmap that runs
    return is_batched_at(t, BatchScope::current()->level);
  });
  m.def("_gradcheck", [](nb::handle f, const Tensors& in, double eps, double atol, double rtol,
                         bool second, const std::string& mode) {
    const func::GradcheckOptions o{eps, atol, rtol, mode_of(mode)};
    second ? func::gradgradcheck(function_of(f), in, o) : func::gradcheck(function_of(f), in, o);
  });
}

}  // namespace gradus::py
