// gradus.audit's inside: what ops/audit sees, as plain Python data.
#include "bindings/python/src/python.hpp"
#include "engine/files/safetensors.hpp"
#include "ops/audit/judge/audit.hpp"
#include "ops/audit/judge/explain.hpp"
#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/step/stepper.hpp"
#include "ops/check/rows.hpp"

#include <thread>

namespace gradus::inline v1::py {

namespace {

struct Watching {
  std::unique_ptr<audit::Watch> watch;
  std::unique_ptr<audit::GraphRecorder> recorder;
  std::thread::id thread = std::this_thread::get_id();
  const audit::Watch& open() const {
    if (!watch) fail(ErrorKind::value, "audit", "the watch is over; ask it inside its with block");
    return *watch;
  }
};

nb::object birth_of(const audit::Birth& b, bool backward) {
  nb::dict d;
  d["op"] = b.call->op->name;
  d["where"] = b.call->where;
  d["value"] = b.value;
  d["text"] = b.text;
  d["backward"] = backward;
  d["from_outside"] = b.from_outside;
  d["operand"] = b.operand >= 0 ? nb::cast(b.operand) : nb::object(nb::none());
  d["element"] = b.element;
  return d;
}

std::string written(const audit::GraphView& view, const std::string& kind) {
  return kind == "html"   ? audit::to_html(view)
         : kind == "svg"  ? audit::to_svg(view)
         : kind == "dot"  ? audit::to_dot(view)
         : kind == "json" ? audit::to_json(view)
                          : audit::to_text(view);
}

struct Walk {
  std::shared_ptr<audit::Stepper> stepper;
};
nb::dict turn_of(const audit::Stepper& s, const audit::Turn& t) {
  nb::dict d;
  d["node"] = s.name_of(t.node);
  d["call"] = s.call_text(t.node);
  nb::list in, sent;
  for (const Tensor& g : t.in) in.append(nb::cast(g.defined() ? g.detach() : g));
  for (size_t k = 0; k < t.out.size(); ++k)
    if (const auto to = s.target(t.node, int(k)); to && t.out[k].defined())
      sent.append(nb::make_tuple(int(k), s.name_of(*to), nb::cast(t.out[k].detach())));
  d["cotangents"] = in;
  d["sent"] = sent;
  return d;
}

}  // namespace

void open_audit(nb::module_& m) {
  nb::class_<Watching>(m, "_Watch")
      .def("__init__",
           [](Watching* self, bool record) {
             new (self) Watching;
             self->watch = std::make_unique<audit::Watch>();
             if (record)
               self->recorder = std::make_unique<audit::GraphRecorder>(default_device(), true);
           })
      .def("close",
           [](Watching& w) {
             if (w.thread != std::this_thread::get_id())
               fail(ErrorKind::value, "audit.watch", "ends in the thread in which it began");
             w.recorder.reset();
             w.watch.reset();
           })
      .def("calls",
           [](const Watching& w) {
             nb::list out;
             for (const audit::Call& c : w.open().calls())
               out.append(nb::make_tuple(c.op->name, c.where, c.shapes()));
             return out;
           })
      .def(
          "check",
          [](const Watching& w, const Tensors& roots, nb::handle against) {
            audit::Options o;
            if (!against.is_none()) o.against = &device_at(against.ptr());
            o.each = [](int64_t, int64_t) {
              if (PyErr_CheckSignals() != 0) throw Error(ErrorKind::interrupted, "", "interrupted");
            };
            const audit::Report report = audit::audit(w.open(), roots, o);
            nb::list lines;
            for (const audit::Line& l : report.lines) {
              nb::dict d;
              d["op"] = l.call->op->name;
              d["where"] = l.call->where;
              d["operands"] = l.call->shapes();
              d["verdict"] = std::string(audit::to_text(l.verdict));
              d["bad"] = l.bad();
              d["error"] = l.error;
              d["tolerance"] = l.tolerance;
              d["condition"] = l.condition;
              d["text"] = l.text;
              d["remark"] = l.remark;
              lines.append(d);
            }
            return lines;
          },
          nb::arg(), nb::arg().none())
      .def("birth",
           [](const Watching& w, const Tensors& roots, bool infinities) -> nb::object {
             if (const auto b = audit::birth(w.open(), infinities)) return birth_of(*b, false);
             if (roots.empty()) return nb::none();
             if (const auto b = audit::birth_in_backward(w.open(), roots, infinities))
               return birth_of(*b, true);
             return nb::none();
           })
      .def("unreached",
           [](const Watching& w, const Tensors& roots, const NamedTensors& parameters) {
             Tensors list;
             for (const auto& [name, t] : parameters) list.push_back(t);
             nb::dict out;
             for (const audit::Unreached& u : audit::unreached(w.open(), roots, list))
               out[parameters[u.which].first.c_str()] = u.why;
             return out;
           })
      .def("explain",
           [](const Watching& w, const Walk& walk, int node) {
             const audit::NodeStory s = audit::explain_node(*walk.stepper, node, w.open());
             nb::dict d;
             d["call"] = s.call;
             d["where"] = s.where;
             d["formula"] = s.formula;
             d["derivatives"] = s.derivatives;
             d["broadcasts"] = s.broadcasts;
             d["remark"] = s.remark;
             if (s.example) {
               nb::dict e;
               e["element"] = s.example->element;
               e["value"] = s.example->value;
               e["cotangent"] = s.example->cotangent;
               nb::list operands;
               for (const auto& o : s.example->operands) {
                 nb::dict p;
                 p["operand"] = o.operand;
                 p["reached"] = o.reached;
                 p["element"] = o.element;
                 p["value"] = o.value;
                 p["slope"] = o.slope;
                 p["share"] = o.share;
                 operands.append(p);
               }
               e["operands"] = operands;
               d["example"] = e;
             }
             return d;
           })
      .def("graph", [](Watching& w, const Tensors& roots, const NamedTensors& names,
                       const std::string& kind, const std::string& title) {
        audit::GraphView view = audit::read_graph(roots, names, w.recorder.get());
        view.title = title;
        return written(view, kind);
      });
  m.def("_graph", [](const Tensors& roots, const NamedTensors& names, const std::string& kind,
                     const std::string& title) {
    audit::GraphView view = audit::read_graph(roots, names);
    view.title = title;
    return written(view, kind);
  });
  nb::class_<Walk>(m, "_Stepper")
      .def("__init__",
           [](Walk* self, const Tensors& roots, const NamedTensors& names, const Tensors& seeds) {
             new (self) Walk{std::make_shared<audit::Stepper>(roots, names, seeds)};
           })
      .def("upcoming",
           [](const Walk& w) -> nb::object {
             const audit::Turn* const t = w.stepper->upcoming();
             return t ? nb::object(turn_of(*w.stepper, *t)) : nb::none();
           })
      .def("node",
           [](const Walk& w, const std::string& name) { return w.stepper->find_node(name); })
      .def("next", [](Walk& w) { return w.stepper->next(); })
      .def("back", [](Walk& w) { return w.stepper->back(); })
      .def("run_to_end", [](Walk& w) { return w.stepper->run({}); })
      .def("run_to",
           [](Walk& w, const std::string& kind, const std::string& text, double bound) {
             using Kind = audit::Breakpoint::Kind;
             return w.stepper->run({kind == "op"     ? w.stepper->at_op(text)
                                    : kind == "path" ? w.stepper->at_path(text)
                                    : kind == "nan"  ? audit::Breakpoint{Kind::nan}
                                    : kind == "norm" ? audit::Breakpoint{Kind::norm, -1, "", bound}
                                                     : w.stepper->at_node(text)}) >= 0;
           })
      .def("set",
           [](Walk& w, const std::string& name, const Tensor& value) {
             const audit::Place p = w.stepper->find(name);
             if (p.leaf)
               fail(ErrorKind::value, "set", "\"", name,
                    "\" is a leaf; cotangents of nodes can be set");
             w.stepper->set(p.id, p.output, value);
           })
      .def("cotangent",
           [](const Walk& w, const std::string& name) {
             return w.stepper->cotangent(w.stepper->find(name));
           })
      .def_prop_ro("position", [](const Walk& w) { return w.stepper->position(); })
      .def_prop_ro("at_end", [](const Walk& w) { return w.stepper->at_end(); })
      .def_prop_ro("turns", [](const Walk& w) { return w.stepper->turns().size(); })
      .def_prop_ro("nodes", [](const Walk& w) {
        std::vector<std::string> out;
        for (size_t i = 0; i < w.stepper->nodes().size(); ++i)
          out.push_back(w.stepper->call_text(int(i)));
        return out;
      });
  // What `gradus check` draws for an op: for each case its operands in f64, the attributes by name,
  // and whether derivatives are to be compared there.
  m.def("_rows", [](const std::string& name) {
    const rows::Row& row = rows::row_of(name);
    nb::list out;
    for (size_t i = 0; i < row.cases.size(); ++i) {
      const std::vector<DType> dtypes = rows::dtypes_of(row, row.cases[i].dtypes);
      const bool real = std::find(dtypes.begin(), dtypes.end(), DType::f64) != dtypes.end();
      nb::dict attrs;
      for (const auto& [key, value] : row.cases[i].attrs) {
        using Type = AttrValue::Type;
        nb::object o = nb::none();
        if (value.type == Type::integer) o = nb::cast(value.integer);
        if (value.type == Type::number) o = nb::cast(value.number);
        if (value.type == Type::boolean) o = nb::cast(value.integer != 0);
        if (value.type == Type::text) o = nb::cast(std::string(value.text));
        if (value.type == Type::dtype) o = nb::cast(value.dtype());
        if (value.type == Type::integers) o = nb::cast(value.integers);
        attrs[key.c_str()] = o;
      }
      out.append(nb::make_tuple(rows::draw_inputs(row, i,
                                                  real             ? DType::f64
                                                  : dtypes.empty() ? DType::f32
                                                                   : dtypes[0],
                                                  open_device("cpu")),
                                attrs, row.cases[i].slopes));
    }
    return out;
  });
  // Of outputs with a phase or sign of their own: what a loss may depend on.
  m.def("_seen", [](const std::string& name, const Tensors& outputs) {
    const rows::Row& row = rows::row_of(name);
    return row.seen ? row.seen(outputs) : outputs;
  });
}

}  // namespace gradus::py
