// Plans of contractions, made once and run many times: gradus.contract.
#include "bindings/python/src/python.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/contract/plan.hpp"

namespace gradus::inline v1::py {

namespace {

struct Plan {
  EinsumPlan plan;
  Algebra algebra;
  double bytes;
};

PathOptions path_of(nb::handle optimize, double budget, uint64_t seed, Algebra algebra) {
  PathOptions o;
  o.budget = budget;
  o.seed = seed;
  o.sum_alone = sums_alone(algebra);
  o.watch = [](double, double, double) {  // Ctrl-C ends a search
    const nb::gil_scoped_acquire locked;
    if (PyErr_CheckSignals() != 0) throw Error(ErrorKind::interrupted, "", "interrupted");
  };
  if (PyUnicode_Check(optimize.ptr())) {
    o.kind = parse_path_kind(nb::cast<std::string>(optimize));
  } else {
    o.kind = PathOptions::Kind::fixed;
    o.path = nb::cast<ContractionPath>(optimize);
  }
  return o;
}
// Of tensors or shapes.
Shape shape_of(nb::handle o) {
  if (is_tensor(o.ptr())) return tensor_in(o.ptr()).sizes();
  Shape s;
  if (!shape_at(o.ptr(), s))
    fail(ErrorKind::value, "einsum_plan", "expected tensors or their shapes, got ",
         Py_TYPE(o.ptr())->tp_name);
  return s;
}
Labels labels_of(nb::handle o) {
  Labels out;
  for (nb::handle n : o) out.push_back(integer_at(n.ptr(), "einsum_plan"));
  return out;
}

}  // namespace

void open_contract(nb::module_& m) {
  nb::class_<Plan>(m, "EinsumPlan", "In which order an einsum is contracted, and what that costs.")
      .def("__call__",
           [](const Plan& p, nb::args operands) {
             const Tensors in = tensors_of(operands, "einsum_plan");
             const PythonLine line;
             const Unlocked unlocked;
             return einsum(p.plan, in, p.algebra);
           })
      .def_prop_ro("equation", [](const Plan& p) { return p.plan.equation; })
      .def_prop_ro("path", [](const Plan& p) { return p.plan.path; })
      .def_prop_ro("flops", [](const Plan& p) { return p.plan.flops; })
      .def_prop_ro("largest", [](const Plan& p) { return p.plan.largest_intermediate; })
      .def_prop_ro("bytes", [](const Plan& p) { return p.bytes; })
      .def_prop_ro("slices", [](const Plan& p) { return p.plan.slices; })
      .def_prop_ro("family", [](const Plan& p) { return std::string(p.plan.family); })
      .def_prop_ro("units", [](const Plan& p) { return p.plan.units; })
      .def_prop_ro("steps",
                   [](const Plan& p) {
                     std::vector<std::string> out;
                     for (const EinsumStep& s : p.plan.steps) out.push_back(s.expression());
                     return out;
                   })
      .def("__repr__", [](const Plan& p) {
        return join("<EinsumPlan ", p.plan.equation, ": ", int64_t(p.plan.steps.size()), " steps, ",
                    p.plan.flops, " flops, largest ", p.plan.largest_intermediate,
                    " elements, found by ", p.plan.family, ">");
      });
  m.def(
      "_einsum_plan",
      [](nb::handle equation, nb::handle output, nb::list operands, nb::handle optimize,
         double budget, uint64_t seed, double memory, const std::string& algebra, DType dtype,
         bool gradients) {
        Plan p{{}, parse_algebra(algebra), 0};
        std::vector<Shape> shapes;
        for (nb::handle o : operands) shapes.push_back(shape_of(o));
        const PathOptions options = path_of(optimize, budget, seed, p.algebra);
        if (PyUnicode_Check(equation.ptr())) {
          const std::string text = nb::cast<std::string>(equation);
          const Unlocked unlocked;
          p.plan = plan_einsum(text, shapes, options);
        } else {
          std::vector<Labels> terms;
          for (nb::handle t : equation) terms.push_back(labels_of(t));
          std::optional<Labels> out;
          if (!output.is_none()) out = labels_of(output);
          const Unlocked unlocked;
          p.plan = plan_einsum(terms, out, shapes, options);
        }
        if (memory > 0)
          p.plan = within_memory(p.plan, memory, dtype, p.algebra, gradients, options);
        p.bytes = einsum_bytes(p.plan, dtype, p.algebra, gradients);
        return p;
      },
      nb::arg(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
      nb::arg(), nb::arg());
  m.def(
      "_einsum_labels",
      [](const Tensors& operands, nb::list labels, nb::handle output, const std::string& algebra) {
        std::vector<Labels> terms;
        for (nb::handle t : labels) terms.push_back(labels_of(t));
        const PythonLine line;
        return output.is_none()
                   ? einsum(operands, terms)
                   : einsum(operands, terms, labels_of(output), parse_algebra(algebra));
      },
      nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
}

}  // namespace gradus::py
