// Differentiation: backward, grad, modes, hooks, nodes of the graph.
#include "bindings/python/src/python.hpp"
#include "engine/batch.hpp"
#include "engine/device/device.hpp"
#include "engine/hooks.hpp"
#include "ops/base/checkpoint.hpp"

#include <chrono>

namespace gradus::inline v1::py {

namespace {

// Looks for Ctrl-C between the kernels of a long walk, some times in a second.
class Interruptible : public KernelWrapper {
 public:
  gd_status call(const gd_call&, Next next, gd_error& error) override {
    if (std::chrono::steady_clock::now() > due_) look();
    return next(error);
  }

 private:
  void look() {
    const Locked locked;
    if (PyErr_CheckSignals() != 0) throw Error(ErrorKind::interrupted, "", "interrupted");
    due_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  }
  std::chrono::steady_clock::time_point due_ =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
};

Tensors seeds_of(nb::handle given, const Tensors& roots) {
  if (given.is_none()) return {};
  Tensors seeds = tensors_of(given, "gradient");
  for (size_t i = 0; i < seeds.size() && i < roots.size(); ++i)
    if (seeds[i].defined()) seeds[i] = materialise(seeds[i], roots[i].dtype(), roots[i].device());
  return seeds;
}

// f without the lock; Ctrl-C ends it.
template <class F>
auto walked(const Tensors& roots, F&& f) {
  if (roots.empty() || !roots[0].defined()) return f();
  const PythonLine line;
  Interruptible looks;
  const Unlocked unlocked;
  if (is_batched(roots[0])) return f();
  const WrapperScope scope(roots[0].device(), looks);
  return f();
}

void backward_of(const Tensors& roots, nb::handle gradient, std::optional<bool> retain_graph,
                 bool create_graph, nb::handle inputs) {
  BackwardOptions o;
  o.retain_graph = retain_graph.value_or(create_graph);
  o.create_graph = create_graph;
  const Tensors seeds = seeds_of(gradient, roots), into = tensors_of(inputs, "inputs");
  if (!into.empty()) o.inputs = &into;
  walked(roots, [&] { backward(roots, seeds, o); });
}

// One node of the graph. It holds what the node saved.
struct Node {
  Ref<GradFn> fn;
};

TensorHook tensor_hook(nb::handle f) {
  return [kept = std::make_shared<Kept>(f)](const Tensor& g) {
    const Locked locked;
    const nb::object out = kept->get()(g);
    return out.is_none() ? Tensor() : operand_at(out.ptr(), "hook", "result");
  };
}

struct Removable {
  HookHandle handle;
};
}  // namespace

void open_autograd(nb::module_& m) {
  const nb::handle type(reinterpret_cast<PyObject*>(tensor_type));
  nb::cpp_function_def(
      [](const Tensor& t, nb::handle gradient, std::optional<bool> retain_graph, bool create_graph,
         nb::handle inputs) { backward_of({t}, gradient, retain_graph, create_graph, inputs); },
      nb::scope(type), nb::name("backward"), nb::is_method(), nb::arg("gradient") = nb::none(),
      nb::arg("retain_graph") = nb::none(), nb::arg("create_graph") = false,
      nb::arg("inputs") = nb::none(),
      "Adds the derivatives of this tensor to .grad of the leaves it depends on. `gradient` is the "
      "cotangent,\n"
      "needed where there is more than one element.");
  m.def(
      "backward",
      [](nb::handle roots, nb::handle seeds, std::optional<bool> retain_graph, bool create_graph,
         nb::handle inputs) {
        backward_of(tensors_of(roots, "backward"), seeds, retain_graph, create_graph, inputs);
      },
      nb::arg("tensors"), nb::arg("grad_tensors") = nb::none(),
      nb::arg("retain_graph") = nb::none(), nb::arg("create_graph") = false,
      nb::arg("inputs") = nb::none());
  m.def(
      "grad",
      [](nb::handle outputs, nb::handle inputs, nb::handle grad_outputs,
         std::optional<bool> retain_graph, bool create_graph, bool allow_unused,
         bool materialize_grads) {
        BackwardOptions o;
        o.retain_graph = retain_graph.value_or(create_graph);
        o.create_graph = create_graph;
        o.allow_unused = allow_unused || materialize_grads;
        o.materialize_grads = materialize_grads;
        const Tensors ys = tensors_of(outputs, "grad: outputs"),
                      xs = tensors_of(inputs, "grad: inputs"), seeds = seeds_of(grad_outputs, ys);
        const Tensors gs = walked(ys, [&] { return grad(ys, xs, seeds, o); });
        return nb::tuple(nb::cast(gs));
      },
      nb::arg("outputs"), nb::arg("inputs"), nb::arg("grad_outputs") = nb::none(),
      nb::arg("retain_graph") = nb::none(), nb::arg("create_graph") = false,
      nb::arg("allow_unused") = false, nb::arg("materialize_grads") = false,
      "The derivatives of the outputs, summed, by each input: a tuple. No .grad is touched.");

  // Modes of this thread; the context managers are in Python.
  m.def("is_grad_enabled", [] { return grad_enabled(); });
  m.def("is_inference_mode_enabled", [] { return inference_mode(); });
  m.def("_set_modes", [](bool grad, bool inference, bool anomaly) {
    const auto before = std::make_tuple(modes.grad, modes.inference, modes.anomaly);
    modes.grad = grad;
    modes.inference = inference;
    modes.anomaly = anomaly;
    return nb::make_tuple(std::get<0>(before), std::get<1>(before), std::get<2>(before));
  });
  m.def("_modes", [] { return nb::make_tuple(modes.grad, modes.inference, modes.anomaly); });

  nb::class_<Removable>(m, "RemovableHandle",
                        "What registering a hook gives: remove() takes it away.")
      .def("remove", [](Removable& r) { r.handle.remove(); });
  nb::cpp_function_def(
      [](const Tensor& t, nb::handle hook) {
        return Removable{register_hook(t, tensor_hook(hook))};
      },
      nb::scope(type), nb::name("register_hook"), nb::is_method(), nb::arg("hook"),
      "Calls hook(gradient) as this tensor's gradient passes; what it gives, if not None, replaces "
      "it.");
  nb::cpp_function_def(
      [](const Tensor& t, nb::handle hook) {
        return Removable{register_post_accumulate_grad_hook(
            t, [kept = std::make_shared<Kept>(hook)](const Tensor& leaf) {
              const Locked locked;
              kept->get()(leaf);
            })};
      },
      nb::scope(type), nb::name("register_post_accumulate_grad_hook"), nb::is_method(),
      nb::arg("hook"));

  nb::class_<Node>(m, "Node",
                   "A node of the graph: the op that made a tensor, and where its cotangents go.")
      .def("name", [](const Node& n) { return n.fn->op().name; })
      .def("__repr__",
           [](const Node& n) {
             return join("<", n.fn->op().name, " node ", int64_t(n.fn->sequence()), ">");
           })
      .def_prop_ro("sequence", [](const Node& n) { return n.fn->sequence(); })
      .def_prop_ro("next_functions",
                   [](const Node& n) {
                     nb::list out;
                     for (const Edge& e : n.fn->inputs())
                       out.append(nb::make_tuple(
                           e.fn ? nb::cast(Node{e.fn}) : nb::object(nb::none()), e.index));
                     return nb::tuple(out);
                   })
      .def_prop_ro("attributes",
                   [](const Node& n) {
                     nb::dict out;
                     for (size_t i = 0; i < n.fn->attrs().size() && i < n.fn->op().attrs.size();
                          ++i)
                       out[n.fn->op().attrs[i].name.c_str()] = to_text(n.fn->attrs()[i]);
                     return out;
                   })
      .def_prop_ro("saved_tensors", [](const Node& n) {
        nb::list out;
        for (const Saved& s : n.fn->saved()) {
          if (s.role == Saved::Role::input) out.append(nb::cast(n.fn->input(s.index)));
          if (s.role == Saved::Role::output) out.append(nb::cast(n.fn->output(s.index)));
          if (s.role == Saved::Role::extra) out.append(nb::cast(n.fn->extra(s.index)));
        }
        return nb::tuple(out);
      });
  type.attr("grad_fn") = nb::module_::import_("builtins")
                             .attr("property")(nb::cpp_function(
                                 [](const Tensor& t) -> nb::object {
                                   GradFn* const fn = t.grad_fn();
                                   if (!fn) return nb::none();
                                   return nb::cast(Node{edge_of(t).fn});
                                 },
                                 nb::is_method()));

  m.def(
      "_checkpoint",
      [](nb::handle f, const Tensors& inputs) {
        const Function function = function_of(f);
        const Unlocked unlocked;
        return checkpoint(function, inputs);
      },
      "gradus.checkpoint of tensors alone.");
}

}  // namespace gradus::py
