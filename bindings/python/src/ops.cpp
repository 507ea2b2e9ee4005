// Every op of the op list as gradus.NAME(...) and x.NAME(...): operands, then attributes in their
// order, both by name too. One type of callable object stands for all of them, called without a
// tuple or a dict in between, so an op that is added needs no line here.
#include "bindings/python/src/python.hpp"
#include "engine/in_place.hpp"
#include "ops/base/registry.hpp"
#include "ops/check/rows.hpp"
#include "ops/pointwise/pointwise_calls.hpp"
#include "ops/shape/memory.hpp"

#include <cmath>
#include <deque>
#include <structmember.h>

namespace gradus::inline v1::py {

namespace {

struct Callee {
  const OpInfo* op;
  Attrs defaults;
  std::vector<PyObject*> operands = {}, attrs = {};  // their names, interned
  bool required = false;                             // must any attribute be given?
  bool dim_first = false;                            // PyTorch's gather(x, dim, index)
  bool lists = false;                                // a tuple also of one result
  bool creates = false;                              // no operands: device=, requires_grad=
  bool views = false;                                // may the result be in an operand's memory?
  PyTypeObject* result = nullptr;                    // of several: a tuple with names
};
struct PyOp {
  PyObject_HEAD vectorcallfunc call;
  const Callee* callee;
  bool in_place;
};
PyTypeObject* op_type = nullptr;

bool is_true(PyObject* o) {
  const int yes = PyObject_IsTrue(o);
  if (yes < 0) nb::raise_python_error();
  return yes == 1;
}
bool is_integers(AttrValue::Type t) {
  return t == AttrValue::Type::integer || t == AttrValue::Type::integers;
}

// A number of an attribute is a double: a whole one that none holds is refused, not rounded.
std::optional<double> number_at(PyObject* o, const OpInfo& op, const AttrSpec& spec) {
  if (PyFloat_Check(o)) return PyFloat_AS_DOUBLE(o);
  if (!PyNumber_Check(o) || PyComplex_Check(o)) return std::nullopt;
  const double x = PyFloat_AsDouble(o);
  if (x == -1 && PyErr_Occurred()) {
    PyErr_Clear();
    return std::nullopt;
  }
  if (std::abs(x) < 0x1p53 || !PyIndex_Check(o)) return x;
  const nb::object whole = nb::steal(PyNumber_Index(o));
  if (!whole.is_valid()) PyErr_Clear();  // an array of one real number
  if (whole.is_valid() && !whole.equal(nb::steal(PyFloat_FromDouble(x))))
    fail(ErrorKind::value, op.name, spec.name, ": ", nb::cast<std::string>(nb::str(whole)),
         " is not a double, which is what it is kept as; float() rounds it, where an operand may",
         " stand gradus.tensor() keeps it");
  return x;
}

// What a wrong argument probably meant.
const char* hint_for(PyObject* o, const OpInfo& op, const AttrSpec& spec) {
  if (is_tensor(o) && op.name == "max") return "; gradus.maximum(a, b) is of two tensors";
  if (is_tensor(o) && op.name == "min") return "; gradus.minimum(a, b) is of two tensors";
  if (op.name == "einsum" && !PyUnicode_Check(o) && PyObject_HasAttrString(o, "with_data"))
    return "; gradus.blocks.einsum contracts block tensors";
  if (PyBool_Check(o) && spec.name == "dim" && op.attr_index("correction") >= 0)
    return "; PyTorch's unbiased=False is correction=0";
  return "";
}

AttrValue attribute_at(PyObject* o, const OpInfo& op, const AttrSpec& spec) {
  using Type = AttrValue::Type;
  const bool other = is_tensor(o) && *hint_for(o, op, spec);  // no axis, also where it might be
  switch (spec.type) {
    case Type::integer:
      if (!other && is_integer_like(o)) return integer_at(o, op.name);
      break;
    case Type::integers: {
      Shape list;
      if (!other && shape_at(o, list)) return AttrValue(std::move(list));
      break;
    }
    case Type::number:
      if (const auto x = number_at(o, op, spec)) return *x;
      break;
    case Type::boolean:
      if (PyBool_Check(o)) return o == Py_True;
      if (std::string_view(Py_TYPE(o)->tp_name).starts_with("numpy.bool")) return is_true(o);
      break;
    case Type::text:
      if (PyUnicode_Check(o)) return nb::cast<std::string_view>(nb::handle(o));
      break;
    case Type::dtype: {
      DType t;
      if (dtype_at(o, t)) return t;
      break;
    }
    case Type::none:
      break;
  }
  constexpr const char* kinds[] = {"nothing",       "a whole number", "a number", "True or False",
                                   "whole numbers", "a text",         "a dtype"};
  std::string got = nb::cast<std::string>(nb::repr(nb::handle(o)));
  if (got.size() > 80 || got.find('\n') != got.npos) got = join("a ", Py_TYPE(o)->tp_name);
  fail(spec.type == Type::dtype ? ErrorKind::dtype : ErrorKind::value, op.name, spec.name,
       ": expected ", kinds[int(spec.type)], ", got ", got, hint_for(o, op, spec));
}

// The arguments of one call, read in the order in which people write them.
class Call {
 public:
  Call(const Callee& callee, PyObject* const* args, size_t n, PyObject* names)
      : callee_(callee), op_(*callee.op), args_(args), n_(n) {
    operands();
    attributes();
    for (Py_ssize_t i = 0; names && i < PyTuple_GET_SIZE(names); ++i)
      named(PyTuple_GET_ITEM(names, i), args_[n_ + size_t(i)]);
    while (!in.empty() && !in.back().defined()) in.pop_back();
    if (in.size() < op_.operands.size() && in.size() < op_.least_operands())
      fail(ErrorKind::dtype, op_.name, "takes ", int64_t(op_.least_operands()), " operands (",
           op_.operands[0].name, op_.operands.size() > 1 ? ", ..." : "", "), got ",
           int64_t(in.size()));
    for (const Tensor& t : in)
      if (!t.defined() &&
          !op_.operands[std::min(size_t(&t - in.data()), op_.operands.size() - 1)].optional)
        fail(ErrorKind::dtype, op_.name, op_.operands[size_t(&t - in.data())].name, " is missing");
    if (callee.required)
      for (size_t i = 0; i < attrs().size(); ++i)
        if (attrs()[i].is_none() && !op_.attrs[i].optional)
          fail(ErrorKind::dtype, op_.name, op_.attrs[i].name, " is missing: ", op_.attrs[i].doc);
  }
  SmallVector<Tensor, 3> in;
  const Attrs& attrs() const { return own_.empty() ? callee_.defaults : own_; }
  Device* device = nullptr;
  bool requires_grad = false;

 private:
  void set(size_t i, PyObject* o) {
    if (own_.empty()) own_ = callee_.defaults;
    if (i < 64 && given_ >> i & 1)
      fail(ErrorKind::dtype, op_.name, op_.attrs[i].name, " is given twice");
    given_ |= i < 64 ? uint64_t(1) << i : 0;
    own_[i] = o == Py_None ? callee_.defaults[i] : attribute_at(o, op_, op_.attrs[i]);
  }
  void operands() {
    // A text may come before the operands: einsum("ij,jk->ik", x, y).
    while (a_ < op_.attrs.size() && at_ < n_ && PyUnicode_Check(args_[at_]) &&
           op_.attrs[a_].type == AttrValue::Type::text && !op_.operands.empty())
      set(a_++, args_[at_++]);
    for (size_t k = 0; k < op_.operands.size() && at_ < n_; ++k) {
      const OperandSpec& spec = op_.operands[k];
      PyObject* const o = args_[at_];
      if (spec.variadic) {
        if (PyList_Check(o) || PyTuple_Check(o)) {
          list(o);
          ++at_;
        } else {
          Tensor t;
          while (at_ < n_ && operand_at(args_[at_], t)) {
            in.push_back(t);
            ++at_;
          }
        }
        break;
      }
      // PyTorch's order: the axis stands before the indices.
      if (k == 1 && callee_.dim_first && at_ + 1 < n_ && PyLong_Check(o) && a_ == 0) {
        set(a_++, args_[at_++]);
        --k;
        continue;
      }
      if (spec.optional && o != Py_None && !is_tensor(o) && k >= op_.least_operands() &&
          PyNumber_Check(o) && (PyLong_Check(o) || PyFloat_Check(o)))
        break;  // an attribute
      if (o == Py_None && spec.optional) {
        in.emplace_back();
        ++at_;
        continue;
      }
      Tensor t;
      if (!operand_at(o, t)) {
        if (spec.optional) break;
        operand_at(o, op_.name, spec.name);  // says what it is
      }
      in.push_back(std::move(t));
      ++at_;
    }
  }
  void list(PyObject* o) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i)
      in.push_back(operand_at(PySequence_Fast_GET_ITEM(o, i), op_.name, "element of the list"));
  }
  void attributes() {
    for (size_t i = a_; at_ < n_; ++at_, ++i) {
      if (i >= op_.attrs.size())
        fail(ErrorKind::dtype, op_.name, "takes ", int64_t(op_.operands.size() + op_.attrs.size()),
             " arguments, got ", int64_t(n_));
      // reshape(4, 3) for reshape((4, 3)): where no other whole number may follow
      if (op_.attrs[i].type == AttrValue::Type::integers && is_integer_like(args_[at_]) &&
          at_ + 1 < n_ && is_integer_like(args_[at_ + 1]) &&
          (i + 1 >= op_.attrs.size() || !is_integers(op_.attrs[i + 1].type))) {
        Shape all;
        for (; at_ < n_ && is_integer_like(args_[at_]); ++at_)
          all.push_back(integer_at(args_[at_], op_.name));
        --at_;
        if (own_.empty()) own_ = callee_.defaults;
        own_[i] = AttrValue(std::move(all));
        continue;
      }
      set(i, args_[at_]);
    }
  }
  void named(PyObject* name, PyObject* value) {
    for (size_t i = 0; i < callee_.attrs.size(); ++i)
      if (callee_.attrs[i] == name) return set(i, value);
    for (size_t k = 0; k < callee_.operands.size(); ++k)
      if (callee_.operands[k] == name) return operand(k, value);
    const std::string text = nb::cast<std::string>(nb::handle(name));
    for (size_t i = 0; i < op_.attrs.size(); ++i)
      if (op_.attrs[i].name == text) return set(i, value);
    // numpy's words, and PyTorch's for the operands
    if (text == "axis" && op_.attr_index("dim") >= 0)
      return set(size_t(op_.attr_index("dim")), value);
    if (text == "keepdims" && op_.attr_index("keepdim") >= 0)
      return set(size_t(op_.attr_index("keepdim")), value);
    if ((text == "ddof" || text == "unbiased") && op_.attr_index("correction") >= 0)
      return set(size_t(op_.attr_index("correction")), value);
    if ((text == "out" || text == "dtype") && value == Py_None) return;  // np.sum(x), np.mean(x)
    for (size_t k = 0; k < op_.operands.size(); ++k)
      if (op_.operands[k].name == text ||
          (k == 0 && (text == "input" || text == "self" || text == "tensors")) ||
          (k == 1 && text == "other"))
        return operand(k, value);
    if (callee_.creates && text == "device") return void(device = &device_at(value));
    if (callee_.creates && text == "requires_grad") return void(requires_grad = is_true(value));
    std::vector<std::string> known;
    for (const OperandSpec& s : op_.operands) known.push_back(s.name);
    for (const AttrSpec& s : op_.attrs) known.push_back(s.name);
    if (callee_.creates) known.insert(known.end(), {"device", "requires_grad"});
    std::string hint = did_you_mean(text, known);
    if (hint.empty())
      for (size_t i = 0; i < known.size(); ++i) hint += (i ? ", " : "; there are ") + known[i];
    fail(ErrorKind::dtype, op_.name, "has no argument \"", text, "\"", hint);
  }
  void operand(size_t k, PyObject* value) {
    if (op_.operands[k].variadic && (PyList_Check(value) || PyTuple_Check(value)))
      return list(value);
    while (in.size() <= k) in.emplace_back();
    if (in[k].defined()) fail(ErrorKind::dtype, op_.name, op_.operands[k].name, " is given twice");
    in[k] = value == Py_None ? Tensor() : operand_at(value, op_.name, op_.operands[k].name);
  }

  const Callee& callee_;
  const OpInfo& op_;
  PyObject* const* args_;
  size_t n_, at_ = 0, a_ = 0;
  Attrs own_;
  uint64_t given_ = 0;  // a bit for each attribute
};

// Most calls: as many tensors as the op takes, and nothing else.
bool plain(const Callee& callee, PyObject* const* args, size_t n, PyObject* names) {
  if (names || n == 0 || n > 3 || n != callee.op->operands.size() || callee.required) return false;
  for (size_t k = 0; k < n; ++k)
    if (!is_tensor(args[k])) return false;
  return !callee.op->operands.back().variadic;
}

bool shares_memory(const Tensor& x, const Tensor& y) {
  return x.body()->storage && y.body()->storage && &x.storage() == &y.storage();
}

Outputs run(const Callee& callee, Operands in, const Attrs& attrs) {
  const PythonLine line;
  const OpInfo& op = *callee.op;
  const Unlocked unlocked(is_long(in) || in.empty());
  if (op.statement >= 0 && op.attrs.empty()) return run_statement(op, in, attrs);
  Outputs ys = op.call(in, attrs);
  if (!callee.views)
    for (Tensor& y : ys)
      for (const Tensor& x : in)
        if (x.defined() && y.defined() && shares_memory(x, y)) y = clone(y);
  return ys;
}

PyObject* result_of(const Callee& callee, Outputs ys) {
  PyObject* const one = ys.size() == 1 ? wrap(std::move(ys[0])) : nullptr;
  if (!one) return callee.result ? wrap(callee.result, std::move(ys)) : wrap(std::move(ys));
  return callee.lists ? Py_BuildValue("(N)", one) : one;
}
PyObject* call_op(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* names) {
  return guarded([&]() -> PyObject* {
    const auto& o = *reinterpret_cast<PyOp*>(self);
    const Callee& callee = *o.callee;
    const auto n = size_t(PyVectorcall_NARGS(nargsf));
    if (o.in_place) {
      if (n == 0 || !is_tensor(args[0]))
        fail(ErrorKind::dtype, callee.op->name + "_", "needs a tensor");
      const Call call(callee, args, n, names);
      const PythonLine line;
      in_place(*callee.op, tensor_in(args[0]), {call.in.data() + 1, call.in.size() - 1},
               call.attrs());
      return nb::borrow(args[0]).release().ptr();
    }
    if (plain(callee, args, n, names)) {
      Borrowed in;
      for (size_t k = 0; k < n; ++k) in.add(args[k]);
      return result_of(callee, run(callee, in, callee.defaults));
    }
    const Call call(callee, args, n, names);
    std::optional<DeviceScope> scope;
    if (call.device) scope.emplace(*call.device);
    Outputs ys = run(callee, {call.in.data(), call.in.size()}, call.attrs());
    if (call.requires_grad) ys[0].set_requires_grad();
    return result_of(callee, std::move(ys));
  });
}

// ---- the type

PyObject* bound(PyObject* self, PyObject* instance, PyObject*) {
  return instance && instance != Py_None ? PyMethod_New(self, instance)
                                         : nb::borrow(self).release().ptr();
}
std::string signature(const PyOp& o) {
  const OpInfo& op = *o.callee->op;
  std::string s = op.name + (o.in_place ? "_(" : "(");
  const char* comma = "";
  for (const OperandSpec& k : op.operands) {
    s += comma + ((k.variadic ? "*" : "") + k.name) + (k.optional ? "=None" : "");
    comma = ", ";
  }
  for (const AttrSpec& a : op.attrs) {
    s += comma + a.name;
    if (a.optional && a.default_value.is_none()) s += "=None";
    if (!a.default_value.is_none()) s += "=" + to_text(a.default_value);
    comma = ", ";
  }
  return s + ")";
}
const PyOp& of(PyObject* self) { return *reinterpret_cast<PyOp*>(self); }
PyObject* text(const std::string& s) {
  return PyUnicode_FromStringAndSize(s.data(), Py_ssize_t(s.size()));
}
PyObject* show(PyObject* self) { return text("<op " + signature(of(self)) + ">"); }
PyObject* get_name(PyObject* self, void*) {
  return text(of(self).callee->op->name + (of(self).in_place ? "_" : ""));
}
PyObject* get_signature(PyObject* self, void*) { return text(signature(of(self))); }
PyObject* get_doc(PyObject* self, void*) {
  const OpInfo& op = *of(self).callee->op;
  std::string s = signature(of(self)) + "\n\n" + op.doc;
  if (of(self).in_place) s += ", in place";
  if (!op.formula.empty()) s += "\n\n    " + op.formula;
  if (!op.attrs.empty()) s += "\n";
  for (const AttrSpec& a : op.attrs) s += "\n" + a.name + ": " + a.doc;
  if (!op.differentiable) s += "\n\nIt has no derivative.";
  return text(s);
}
PyObject* reduce(PyObject* self, PyObject*) { return get_name(self, nullptr); }
PyGetSetDef getters[] = {{"__name__", get_name, nullptr, nullptr, nullptr},
                         {"__qualname__", get_name, nullptr, nullptr, nullptr},
                         {"__doc__", get_doc, nullptr, nullptr, nullptr},
                         {"signature", get_signature, nullptr, "what it takes", nullptr},
                         {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(PyOp, call), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
#define SLOT(id, f) \
  PyType_Slot { id, reinterpret_cast<void*>(f) }
PyType_Slot slots[] = {SLOT(Py_tp_call, PyVectorcall_Call),
                       SLOT(Py_tp_descr_get, bound),
                       SLOT(Py_tp_repr, show),
                       SLOT(Py_tp_getset, getters),
                       SLOT(Py_tp_methods, methods),
                       SLOT(Py_tp_members, members),
                       {0, nullptr}};
#undef SLOT
PyType_Spec spec = {"gradus.Op", sizeof(PyOp), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR |
                        Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

// As in PyTorch; whatever else gives x (a roll by 0, the product of one number) gives a copy.
bool gives_views(const OpInfo& op) {
  constexpr std::string_view kOthers =
      " movedim flatten ravel unflatten broadcast_to broadcast_tensors meshgrid narrow split chunk "
      "unbind ";
  return op.group == "memory" || (op.group == "view" && op.name != "flip") ||
         kOthers.find(" " + op.name + " ") != std::string_view::npos;
}

Callee& callee_of(const OpInfo& op) {
  static auto* const all = new std::deque<Callee>;  // with the lock
  Callee& c = all->emplace_back(Callee{&op, op.completed({})});
  for (const OperandSpec& s : op.operands)
    c.operands.push_back(PyUnicode_InternFromString(s.name.c_str()));
  for (const AttrSpec& s : op.attrs) {
    c.attrs.push_back(PyUnicode_InternFromString(s.name.c_str()));
    c.required |= s.default_value.is_none() && !s.optional;
  }
  for (const char* name : {"unbind", "split", "chunk", "meshgrid", "broadcast_tensors"})
    c.lists |= op.name == name;
  c.creates = op.operands.empty();
  c.views = gives_views(op);
  c.dim_first =
      op.operands.size() > 1 && op.operands[1].name == "index" && op.attr_index("dim") == 0;
  return c;
}
nb::object function(const Callee& callee, bool in_place) {
  PyOp* const o = PyObject_New(PyOp, op_type);
  if (!o) nb::raise_python_error();
  o->call = call_op;
  o->callee = &callee;
  o->in_place = in_place;
  return nb::steal(reinterpret_cast<PyObject*>(o));
}

// Of a list of ops that give x's shape, which in PyTorch have a form in place.
constexpr std::string_view kInPlace =
    " add sub mul div pow neg abs exp log sqrt square reciprocal sin cos tanh sigmoid relu "
    "leaky_relu clamp floor ceil round sign lerp addcmul addcdiv masked_fill tril triu "
    "scatter_add scatter index_fill index_add index_copy index_put nan_to_num remainder "
    "floor_divide rsqrt masked_scatter bitwise_and bitwise_or bitwise_xor logical_not trunc "
    "bitwise_left_shift bitwise_right_shift bitwise_not acos acosh asin asinh atan atanh atan2 "
    "copysign cosh deg2rad digamma erf erfc erfinv exp2 expm1 fmod frac heaviside hypot lgamma "
    "log10 log1p log2 logit rad2deg sgn sinc sinh tan xlogy cumsum cumprod addbmm addmm addmv addr "
    "baddbmm logical_and logical_or logical_xor ";

}  // namespace

nb::object op_function(const OpInfo& op) { return function(callee_of(op), false); }

void open_ops(nb::module_& m) {
  op_type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release().ptr());
  m.attr("Op") = nb::handle(reinterpret_cast<PyObject*>(op_type));
  const nb::handle methods_of(reinterpret_cast<PyObject*>(tensor_type));
  nb::list names;
  nb::dict types;
  for (const OpInfo& op : all_ops()) {
    Callee& callee = callee_of(op);
    callee.result = result_type(op, types);
    const nb::object f = function(callee, false);
    m.attr(op.name.c_str()) = f;
    names.append(op.name);
    if (!op.operands.empty() && !nb::hasattr(methods_of, op.name.c_str()))
      methods_of.attr(op.name.c_str()) = f;
    if (kInPlace.find(" " + op.name + " ") != std::string_view::npos)
      methods_of.attr((op.name + "_").c_str()) = function(callee, true);
  }
  m.attr("op_names") = nb::tuple(names);
  m.attr("_return_types") = types;
  m.def(
      "describe",
      [](const std::string& name) {
        const OpInfo& op = get_op(name);
        nb::dict d;
        d["doc"] = op.doc;
        d["formula"] = op.formula;
        d["group"] = op.group;
        d["differentiable"] = op.differentiable;
        d["view"] = op.is_view;
        nb::list operands, attrs;
        for (const OperandSpec& s : op.operands)
          operands.append(nb::make_tuple(s.name, s.variadic, s.optional));
        for (const AttrSpec& s : op.attrs)
          attrs.append(nb::make_tuple(s.name, int(s.type),
                                      s.default_value.is_none()
                                          ? nb::object(nb::none())
                                          : nb::cast(to_text(s.default_value)),
                                      s.optional, s.doc));
        d["operands"] = operands;
        d["attrs"] = attrs;
        return d;
      },
      "What an op takes, as data: what the stubs are printed from.");
}

}  // namespace gradus::py
