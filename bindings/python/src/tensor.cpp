// gradus.Tensor as a type: how it is made, its operators, its subscripts' slots. What has a name is
// in members.cpp.
#include "bindings/python/src/python.hpp"
#include "engine/in_place.hpp"
#include "ops/ops.hpp"
#include "ops/pointwise/pointwise_calls.hpp"

#include <array>
#include <structmember.h>

namespace gradus::inline v1::py {

namespace {

// Tensors of results come and go with every op: some of those that went are kept.
constexpr int kPool = 256;
PyTensor* pool[kPool];
int pooled = 0;

PyTensor* alloc(PyTypeObject* type) {
  if (type == tensor_type && pooled > 0) {
    PyTensor* const t = pool[--pooled];
    PyObject_Init(reinterpret_cast<PyObject*>(t), type);
    return t;
  }
  PyObject* const o = type->tp_alloc(type, 0);
  if (!o) nb::raise_python_error();
  return reinterpret_cast<PyTensor*>(o);
}

void dealloc(PyObject* self) {
  auto* const t = reinterpret_cast<PyTensor*>(self);
  if (t->weak) PyObject_ClearWeakRefs(self);
  PyTypeObject* const type = Py_TYPE(self);
  t->tensor.~Tensor();
  if (type == tensor_type && pooled < kPool)
    pool[pooled++] = t;
  else
    type->tp_free(self);
  Py_DECREF(type);
}

// Tensor(x): x's memory under a type, which may be one derived from Tensor; without history.
PyObject* make(PyTypeObject* type, PyObject* args, PyObject* named) {
  return guarded([&] {
    if (type == tensor_type &&
        (PyTuple_GET_SIZE(args) > 1 || (named && PyDict_GET_SIZE(named) > 0)))
      fail(ErrorKind::dtype, "Tensor",
           "takes the data alone; gradus.tensor() takes dtype and device, ",
           "gradus.empty(2, 3) a shape");
    Tensor t;
    if (PyTuple_GET_SIZE(args) > 0) {
      PyObject* const data = PyTuple_GET_ITEM(args, 0);
      t = is_tensor(data) ? tensor_in(data).detach()
                          : tensor_from(data, std::nullopt, default_device());
    } else {
      t = Tensor::empty({0}, DType::f32);
    }
    PyTensor* const made = alloc(type);
    new (&made->tensor) Tensor(std::move(t));
    made->weak = nullptr;
    return reinterpret_cast<PyObject*>(made);
  });
}

// ---- operators: each an op of two operands, one of which is a tensor

struct Operator {
  const char* name;
  const OpInfo* op = nullptr;
  Attrs defaults{};
};
enum Which {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloor,
  kMod,
  kPow,
  kMatmul,
  kAnd,
  kOr,
  kXor,
  kLeft,
  kRight,
  kLt,
  kLe,
  kEq,
  kNe,
  kGt,
  kGe,
  kNeg,
  kAbs,
  kNot,
  kLogicalNot
};
Operator operators[] = {{"add"},
                        {"sub"},
                        {"mul"},
                        {"div"},
                        {"floor_divide"},
                        {"remainder"},
                        {"pow"},
                        {"matmul"},
                        {"bitwise_and"},
                        {"bitwise_or"},
                        {"bitwise_xor"},
                        {"bitwise_left_shift"},
                        {"bitwise_right_shift"},
                        {"lt"},
                        {"le"},
                        {"eq"},
                        {"ne"},
                        {"gt"},
                        {"ge"},
                        {"neg"},
                        {"abs"},
                        {"bitwise_not"},
                        {"logical_not"}};

Tensor run(const Operator& o, Operands in) {
  const PythonLine line;
  const Unlocked unlocked(is_long(in));
  if (o.op->statement >= 0 && o.defaults.empty()) return run_statement(*o.op, in, o.defaults);
  return o.op->call(in, o.defaults)[0];
}

template <Which W>
PyObject* unary(PyObject* x) {
  return guarded([&] { return wrap(run(operators[W], {&tensor_in(x), 1})); });
}
PyObject* binary(const Operator& o, PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    if (is_tensor(a) && is_tensor(b)) {
      Borrowed in;
      in.add(a);
      in.add(b);
      return wrap(run(o, in));
    }
    std::array<Tensor, 2> in;
    if (!operand_at(a, in[0]) || !operand_at(b, in[1])) Py_RETURN_NOTIMPLEMENTED;
    return wrap(run(o, in));
  });
}
template <Which W>
PyObject* binary(PyObject* a, PyObject* b) {
  return binary(operators[W], a, b);
}
PyObject* power(PyObject* a, PyObject* b, PyObject* modulus) {
  if (modulus != Py_None) Py_RETURN_NOTIMPLEMENTED;
  if (is_tensor(a) && PyLong_CheckExact(b) && is_integer(tensor_in(a).dtype())) {
    int beyond = 0;
    if (PyLong_AsLongLongAndOverflow(b, &beyond) < 0 || beyond < 0)  // PyTorch refuses it, too
      return guarded([]() -> PyObject* {
        fail(ErrorKind::value, "pow",
             "whole numbers to a negative power are fractions; x.float() ** -1 has them");
      });
  }
  return binary(operators[kPow], a, b);
}
// x += y: the op in place, which autograd knows of.
template <Which W>
PyObject* in_place(PyObject* a, PyObject* b) {
  return guarded([&]() -> PyObject* {
    Tensor other;
    if (!operand_at(b, other)) Py_RETURN_NOTIMPLEMENTED;
    const PythonLine line;
    gradus::in_place(*operators[W].op, tensor_in(a), {&other, 1}, operators[W].defaults);
    return nb::borrow(a).release().ptr();
  });
}
PyObject* in_place_power(PyObject* a, PyObject* b, PyObject*) { return in_place<kPow>(a, b); }

PyObject* compare(PyObject* a, PyObject* b, int how) {
  constexpr Which which[] = {kLt, kLe, kEq, kNe, kGt, kGe};  // in the order of Py_LT, ...
  return binary(operators[which[how]], a, b);
}
PyObject* positive(PyObject* x) { return nb::borrow(x).release().ptr(); }

// ---- one element as a number of Python

const Tensor& one(PyObject* x, const char* who) {
  const Tensor& t = tensor_in(x);
  if (t.numel() != 1)
    fail(ErrorKind::value, who, "one element expected, the shape is ", t.sizes(),
         std::string_view(who) == "bool" ? "; any() or all() say what is meant" : "");
  if (is_complex(t.dtype()) && std::string_view(who) != "bool")
    fail(ErrorKind::dtype, who, "the element is complex; complex(x) and x.item() give it whole");
  return t;
}
int truth(PyObject* x) {
  return guarded(
      [&] {
        const Tensor& t = one(x, "bool");
        return int(is_complex(t.dtype()) ? t.item_complex() != 0.0 : t.item() != 0);
      },
      -1);
}
PyObject* as_float(PyObject* x) {
  return guarded([&] { return PyFloat_FromDouble(one(x, "float").item()); });
}
PyObject* as_int(PyObject* x) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = one(x, "int");
    return is_integer(t.dtype()) ? PyLong_FromLongLong(t.item_integer())
                                 : PyLong_FromDouble(t.item());
  });
}
PyObject* as_index(PyObject* x) {
  return guarded([&] {
    const Tensor& t = tensor_in(x);
    if (t.rank() > 0)
      fail(ErrorKind::dtype, "index",
           "only integer tensors without axes are an index, the shape is ", t.sizes());
    if (!is_integer(t.dtype()) || t.dtype() == DType::bool_)
      fail(ErrorKind::dtype, "index", "only integer tensors of one element are an index, this is ",
           t.dtype());
    return PyLong_FromLongLong(t.item_integer());
  });
}

// ---- as a sequence
Py_ssize_t length(PyObject* x) {
  return guarded(
      [&] {
        const Tensor& t = tensor_in(x);
        if (t.rank() == 0) fail(ErrorKind::dtype, "len", "a tensor without axes has no length");
        return Py_ssize_t(t.size(0));
      },
      Py_ssize_t(-1));
}
PyObject* iterate(PyObject* x) {
  return guarded([&] {
    const Tensor& t = tensor_in(x);
    if (t.rank() == 0)
      fail(ErrorKind::dtype, "iter", "a tensor without axes can't be iterated over");
    const Tensors rows = unbind(t);
    nb::object list = nb::steal(PyTuple_New(Py_ssize_t(rows.size())));
    for (size_t i = 0; i < rows.size(); ++i)
      PyTuple_SET_ITEM(list.ptr(), Py_ssize_t(i), wrap(rows[i]));
    return PyObject_GetIter(list.ptr());
  });
}
Py_hash_t hash(PyObject* x) { return Py_hash_t(reinterpret_cast<uintptr_t>(x) >> 4); }

PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(PyTensor, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

#define SLOT(id, f) \
  PyType_Slot { id, reinterpret_cast<void*>(f) }
PyType_Slot slots[] = {
    SLOT(Py_tp_doc,
         const_cast<char*>("An n-dimensional array that remembers how it was computed.")),
    SLOT(Py_tp_new, make),
    SLOT(Py_tp_dealloc, dealloc),
    SLOT(Py_tp_members, members),
    SLOT(Py_tp_richcompare, compare),
    SLOT(Py_tp_hash, hash),
    SLOT(Py_tp_iter, iterate),
    SLOT(Py_nb_add, binary<kAdd>),
    SLOT(Py_nb_subtract, binary<kSub>),
    SLOT(Py_nb_multiply, binary<kMul>),
    SLOT(Py_nb_true_divide, binary<kDiv>),
    SLOT(Py_nb_floor_divide, binary<kFloor>),
    SLOT(Py_nb_remainder, binary<kMod>),
    SLOT(Py_nb_power, power),
    SLOT(Py_nb_matrix_multiply, binary<kMatmul>),
    SLOT(Py_nb_and, binary<kAnd>),
    SLOT(Py_nb_or, binary<kOr>),
    SLOT(Py_nb_xor, binary<kXor>),
    SLOT(Py_nb_lshift, binary<kLeft>),
    SLOT(Py_nb_rshift, binary<kRight>),
    SLOT(Py_nb_negative, unary<kNeg>),
    SLOT(Py_nb_positive, positive),
    SLOT(Py_nb_absolute, unary<kAbs>),
    SLOT(Py_nb_invert, unary<kNot>),
    SLOT(Py_nb_inplace_add, in_place<kAdd>),
    SLOT(Py_nb_inplace_subtract, in_place<kSub>),
    SLOT(Py_nb_inplace_multiply, in_place<kMul>),
    SLOT(Py_nb_inplace_true_divide, in_place<kDiv>),
    SLOT(Py_nb_inplace_floor_divide, in_place<kFloor>),
    SLOT(Py_nb_inplace_remainder, in_place<kMod>),
    SLOT(Py_nb_inplace_power, in_place_power),
    SLOT(Py_nb_inplace_and, in_place<kAnd>),
    SLOT(Py_nb_inplace_or, in_place<kOr>),
    SLOT(Py_nb_inplace_xor, in_place<kXor>),
    SLOT(Py_nb_inplace_lshift, in_place<kLeft>),
    SLOT(Py_nb_inplace_rshift, in_place<kRight>),
    SLOT(Py_nb_bool, truth),
    SLOT(Py_nb_float, as_float),
    SLOT(Py_nb_int, as_int),
    SLOT(Py_nb_index, as_index),
    SLOT(Py_mp_length, length),
    SLOT(Py_mp_subscript, subscript),
    SLOT(Py_mp_ass_subscript, assign_subscript),
    SLOT(Py_bf_getbuffer, get_buffer),
    SLOT(Py_bf_releasebuffer, release_buffer),
    {0, nullptr},
};
#undef SLOT
PyType_Spec spec = {"gradus.Tensor", sizeof(PyTensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                    slots};

}  // namespace

PyObject* wrap(Tensor t) {
  if (!t.defined()) return nb::none().release().ptr();
  if (t.is_number()) t = materialise(t, t.dtype(), default_device());
  PyTensor* const made = alloc(tensor_type);
  new (&made->tensor) Tensor(std::move(t));
  made->weak = nullptr;
  return reinterpret_cast<PyObject*>(made);
}
PyObject* wrap(Outputs ys) {
  if (ys.size() == 1) return wrap(std::move(ys[0]));
  nb::object all = nb::steal(PyTuple_New(Py_ssize_t(ys.size())));
  for (size_t i = 0; i < ys.size(); ++i)
    PyTuple_SET_ITEM(all.ptr(), Py_ssize_t(i), wrap(std::move(ys[i])));
  return all.release().ptr();
}

void open_tensor(nb::module_& m) {
  for (Operator& o : operators) {
    o.op = &get_op(o.name);
    o.defaults = o.op->completed({});
  }
  tensor_type = reinterpret_cast<PyTypeObject*>(checked(PyType_FromSpec(&spec)).release().ptr());
  nb::handle type(reinterpret_cast<PyObject*>(tensor_type));
  type.attr("__module__") = "gradus";
  type.attr("__array_priority__") = 1000;
  type.attr("__array_ufunc__") = nb::none();  // ndarray * tensor comes to us
  m.attr("Tensor") = type;
}

}  // namespace gradus::py
