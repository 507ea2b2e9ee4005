// A straight list of calls as one: what a graph of another library is interpreted by. Python runs
// once per graph, the lock of the interpreter is let go of once, and a value dies with its last
// use.
#include "bindings/python/src/python.hpp"
#include "ops/check/rows.hpp"

namespace gradus::inline v1::py {

namespace {

// One operand: a value of the program, or a number.
struct Source {
  int slot = -1;
  Tensor number;
};
struct Line {
  const OpInfo* op;
  Attrs attrs;
  std::vector<Source> in;
  std::vector<int> out, dead;  // slots; -1: nobody wants it
  std::string where;
};
struct Program {
  Device* device = nullptr;  // for what is made of no operands; null: the default one
  int inputs = 0, slots = 0;
  std::vector<Line> lines;
  std::vector<int> results;
};

AttrValue value_of(nb::handle o, const OpInfo& op, const AttrSpec& spec) {
  using Type = AttrValue::Type;
  if (o.is_none()) return {};
  switch (spec.type) {
    case Type::integer:
      return integer_at(o.ptr(), op.name);
    case Type::number:
      return nb::cast<double>(o);
    case Type::boolean:
      return nb::cast<bool>(o);
    case Type::text:
      return nb::cast<std::string_view>(o);
    case Type::dtype:
      return nb::cast<DType>(o);
    default: {
      Shape s;
      if (!shape_at(o.ptr(), s))
        fail(ErrorKind::value, op.name, spec.name, ": expected whole numbers");
      return AttrValue(std::move(s));
    }
  }
}

Tensors run(const Program& p, const Tensors& inputs) {
  if (inputs.size() != size_t(p.inputs))
    fail(ErrorKind::value, "Program", "takes ", p.inputs, " inputs, got ", int64_t(inputs.size()));
  Tensors values(size_t(p.slots));
  for (size_t i = 0; i < inputs.size(); ++i) values[i] = inputs[i];
  SmallVector<Tensor, 4> in;
  std::optional<DeviceScope> there;
  if (p.device) there.emplace(*p.device);
  for (const Line& line : p.lines) {
    try {
      in.clear();
      for (const Source& s : line.in) in.push_back(s.slot >= 0 ? values[size_t(s.slot)] : s.number);
      Outputs out = line.op->call({in.data(), in.size()}, line.attrs);
      if (out.size() < line.out.size())
        fail(ErrorKind::internal, line.op->name, "gave ", int64_t(out.size()), " results of ",
             int64_t(line.out.size()));
      for (size_t k = 0; k < line.out.size(); ++k)
        if (line.out[k] >= 0) values[size_t(line.out[k])] = std::move(out[k]);
      for (const int dead : line.dead) values[size_t(dead)] = Tensor();
    } catch (const Error& e) {
      throw Error(e.kind(), e.op(),
                  line.where.empty() ? e.message() : e.message() + " (" + line.where + ")");
    }
  }
  Tensors results;
  for (const int r : p.results) results.push_back(r >= 0 ? values[size_t(r)] : Tensor());
  return results;
}

}  // namespace

void open_program(nb::module_& m) {
  nb::class_<Program>(
      m, "Program",
      "Calls of ops in a row: lines (op, operands, attrs, outputs, where). An operand is a slot's\n"
      "number, a float (a number) or None; attrs is a dict; outputs are slots, -1 for one that\n"
      "nobody wants. Slots 0.. are the inputs; results are slots.")
      .def(
          "__init__",
          [](Program* self, int inputs, nb::list lines, const std::vector<int>& results,
             nb::handle device) {
            Program p;
            if (!device.is_none()) p.device = &device_at(device.ptr());
            if (inputs < 0) fail(ErrorKind::value, "Program", "inputs is ", inputs);
            p.inputs = p.slots = inputs;
            std::vector<int> last;  // use of each slot
            for (nb::handle given : lines) {
              const nb::tuple t = nb::cast<nb::tuple>(given);
              Line line{&get_op(nb::cast<std::string>(t[0])), {}, {},
                        nb::cast<std::vector<int>>(t[3]),     {}, nb::cast<std::string>(t[4])};
              const OpInfo& op = *line.op;
              line.attrs = op.completed({});
              for (auto [key, value] : nb::cast<nb::dict>(t[2])) {
                const std::string name = nb::cast<std::string>(key);
                const int i = op.attr_index(name);
                if (i < 0) fail(ErrorKind::value, op.name, "has no attribute \"", name, "\"");
                line.attrs[size_t(i)] = value_of(value, op, op.attrs[size_t(i)]);
              }
              for (nb::handle o : t[1]) {
                Source s;
                if (PyLong_CheckExact(o.ptr()))
                  s.slot = nb::cast<int>(o);
                else if (!o.is_none())
                  s.number = operand_at(o.ptr(), op.name, "operand");
                if (s.slot >= p.slots || s.slot < -1)
                  fail(ErrorKind::value, op.name, "slot ", s.slot, " is read before it is written");
                line.in.push_back(std::move(s));
              }
              while (!line.in.empty() && line.in.back().slot < 0 &&
                     !line.in.back().number.defined())
                line.in.pop_back();
              for (const int o : line.out)
                if (o < -1 || o > 1 << 24) fail(ErrorKind::value, op.name, "slot ", o);
              for (const int o : line.out) p.slots = std::max(p.slots, o + 1);
              p.lines.push_back(std::move(line));
            }
            // A value dies with its last use.
            last.assign(size_t(p.slots), -1);
            for (size_t i = 0; i < p.lines.size(); ++i)
              for (const Source& s : p.lines[i].in)
                if (s.slot >= 0) last[size_t(s.slot)] = int(i);
            for (const int r : results)
              if (r >= 0) last.at(size_t(r)) = -1;
            for (size_t s = 0; s < last.size(); ++s)
              if (last[s] >= 0) p.lines[size_t(last[s])].dead.push_back(int(s));
            p.results = results;
            new (self) Program(std::move(p));
          },
          nb::arg("inputs"), nb::arg("lines"), nb::arg("results"), nb::arg("device") = nb::none())
      .def("__call__",
           [](const Program& p, nb::handle arrays) {
             const Tensors inputs = tensors_at(arrays.ptr());
             const Unlocked unlocked;
             return run(p, inputs);
           })
      // Runs it recorded on leaves of its own over the inputs' memory: the results, and what
      // derivatives are asked of. `wanted`: which inputs need a gradient.
      .def("recorded", [](const Program& p, nb::handle arrays, const std::vector<bool>& wanted) {
        const Tensors inputs = tensors_at(arrays.ptr());
        const Unlocked unlocked;
        Tensors leaves;
        for (size_t i = 0; i < inputs.size(); ++i) {
          leaves.push_back(inputs[i].detach());
          if (i < wanted.size() && wanted[i]) leaves.back().set_requires_grad();
        }
        const EnableGrad on;
        Tensors results = run(p, leaves);
        return std::make_pair(results, leaves);
      });
  // function(values), recorded or not, where new tensors are made on that device.
  m.def("_run_on", [](nb::handle device, bool recorded, nb::handle function, nb::handle values) {
    const DeviceScope there(device_at(device.ptr()));
    Modes inside = modes;
    inside.grad = recorded;
    inside.inference = inside.anomaly = false;
    const Scoped<Modes> scope(modes, inside);
    return nb::borrow<nb::callable>(function)(values);
  });
}

}  // namespace gradus::py
