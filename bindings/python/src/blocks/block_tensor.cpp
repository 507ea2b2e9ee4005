// gradus.blocks.BlockTensor: operators, properties, what it is not; blocks moved about.
#include "bindings/python/src/blocks/blocks.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/ops.hpp"

#include <algorithm>

namespace gradus::inline v1::py {

namespace {

Coordinates coordinates_at(nb::handle o, const char* who) {
  Coordinates at;
  for (const int64_t k : axes_at(o, who)) {
    if (k < 0 || k > INT32_MAX)
      fail(ErrorKind::index, who, "sector ", k, "; sectors of a leg count from 0");
    at.push_back(int32_t(k));
  }
  return at;
}
// A tensor, an array, or lists of numbers beside x.
Tensor numbers_beside(const BlockTensor& x, nb::handle o, const char* who, const char* what) {
  if (nb::isinstance<nb::list>(o) || nb::isinstance<nb::tuple>(o))
    return tensor_from(o.ptr(), x.data.dtype(), x.data.device());
  return operand_at(o.ptr(), who, what);
}
BlockTensor quotient(const BlockTensor& x, const Tensor& number) {
  if (number.numel() != 1)
    fail(ErrorKind::shape, "div", "by one number, got shape ", number.sizes());
  return with_data(x, div(x.data, number.is_number() ? number : reshape(number, {})));
}
[[noreturn]] void refuse_number(const char* op) {
  fail(ErrorKind::value, op, "a number beside a block tensor: ", op,
       " would fill the blocks that must be 0, so the result is dense; to_dense() makes the tensor "
       "dense, explicitly");
}
// Attributes of the numbers; methods of theirs whose result is a block tensor again.
constexpr const char *kOfNumbers[] = {"dtype",   "device", "requires_grad", "is_leaf",
                                      "grad_fn", "item",   "backward"},
                     *kAgain[] = {"to",      "cpu",      "cuda",           "float",
                                  "double",  "cfloat",   "cdouble",        "clone",
                                  "detach",  "zero_",    "fill_",          "copy_",
                                  "normal_", "uniform_", "requires_grad_", "retain_grad"};

nb::object attribute(const BlockTensor& x, const std::string& name) {
  const auto is = [&](const char* one) { return name == one; };
  if (std::any_of(std::begin(kOfNumbers), std::end(kOfNumbers), is))
    return nb::steal(wrap(x.data)).attr(name.c_str());
  if (std::any_of(std::begin(kAgain), std::end(kAgain), is))
    return nb::cpp_function([x, name](const nb::args& args, const nb::kwargs& named) -> nb::object {
      nb::list given;
      for (nb::handle one : args) {
        if (!nb::isinstance<BlockTensor>(one)) {
          given.append(one);
          continue;
        }
        const auto& other = nb::cast<const BlockTensor&>(one);
        if (name == "copy_" && !(other.structure == x.structure))
          fail(ErrorKind::value, name, "of another structure");
        given.append(nb::steal(wrap(other.data)));
      }
      const nb::object numbers = nb::steal(wrap(x.data));
      const nb::object result = numbers.attr(name.c_str())(*nb::tuple(given), **named);
      if (!is_tensor(result.ptr())) return result;
      return nb::cast(with_data(x, tensor_in(result.ptr())));
    });
  const OpInfo* const op = find_op(name);
  if (op && op->group == "pointwise" && op->least_operands() == 1 && op->operands.size() == 1)
    return nb::cpp_function([x, name] { return run([&] { return map(name.c_str(), x); }); });
  if (name.starts_with("__")) throw nb::attribute_error(name.c_str());
  std::string hint;
  for (const char* shaped : {"reshape", "view", "flatten", "unflatten", "squeeze", "unsqueeze"})
    if (name == shaped) hint = "; legs are fused and split: x.fuse(0, 2), x.split(0)";
  for (const char* turned : {"transpose", "t", "T", "mT", "movedim"})
    if (name == turned) hint = "; write x.permute(1, 0), and x.conj() turns the arrows";
  for (const char* joined : {"matmul", "mm", "tensordot", "contract", "dot"})
    if (name == joined) hint = "; write gradus.blocks.einsum(\"ij,jk->ik\", x, y)";
  if (hint.empty() && (op || nb::hasattr(nb::handle((PyObject*)tensor_type), name.c_str())))
    hint = "; x.data." + name + " goes over the numbers, x.to_dense() makes them dense, explicitly";
  throw nb::attribute_error(join("a block tensor has no \"", name, "\"", hint).c_str());
}

}  // namespace

void add_operators(BlockType& type) {
  const nb::is_operator op;  // of what stands beside it nothing is known: Python says so
  type.def(
          "__add__",
          [](const BlockTensor& x, const BlockTensor& y) { return run([&] { return add(x, y); }); },
          op)
      .def(
          "__sub__",
          [](const BlockTensor& x, const BlockTensor& y) { return run([&] { return sub(x, y); }); },
          op)
      .def(
          "__mul__",
          [](const BlockTensor&, const BlockTensor&) {
            fail(ErrorKind::value, "mul",
                 "of two block tensors: gradus.blocks.einsum contracts them; number by number, in "
                 "one "
                 "structure, it is x.with_data(x.data * y.data)");
          },
          op);
  for (const char* name : {"__add__", "__radd__", "__sub__", "__rsub__"})
    type.def(
        name,
        [what = name[2 + (name[2] == 'r')] == 'a' ? "add" : "sub"](
            const BlockTensor&, const Tensor&) { refuse_number(what); },
        op);
  for (const char* name : {"__mul__", "__rmul__"})
    type.def(
        name,
        [](const BlockTensor& x, const Tensor& number) {
          return run([&] { return mul(x, number); });
        },
        op);
  type.def(
          "__truediv__",
          [](const BlockTensor& x, const Tensor& number) {
            return run([&] { return quotient(x, number); });
          },
          op)
      .def(
          "__matmul__",
          [](const BlockTensor& x, const BlockTensor& y) {
            if (x.rank() != 2 || y.rank() != 2)
              fail(ErrorKind::shape, "matmul", "of block tensors with 2 legs, got ", x.rank(),
                   " and ", y.rank(), "; gradus.blocks.einsum contracts any");
            return run([&] { return einsum("ij,jk->ik", {x, y}); });
          },
          op)
      .def("__neg__", [](const BlockTensor& x) { return run([&] { return neg(x); }); })
      .def("__getattr__", attribute)
      .def("__repr__", [](const BlockTensor& x) {
        const GradFn* const fn = x.data.grad_fn();
        return join(to_string(x), fn                       ? ", grad_fn=<" + fn->op().name + ">"
                                  : x.data.requires_grad() ? ", requires_grad=True"
                                                           : "");
      });
}

void add_properties(BlockType& type) {
  type.def_prop_ro(
          "data", [](const BlockTensor& x) { return x.data; },
          "All numbers, an ordinary tensor of one axis: optimisers, files, x.data.norm().")
      .def_prop_ro("legs", [](const BlockTensor& x) { return x.structure.legs(); })
      .def_prop_ro("charge", [](const BlockTensor& x) { return to_python(x.structure.charge()); })
      .def_prop_ro("symmetry", [](const BlockTensor& x) { return x.structure.symmetry().text(); })
      .def_prop_ro(
          "blocks",
          [](const BlockTensor& x) {
            nb::list all;
            for (size_t b = 0; b < x.structure.count(); ++b) {
              nb::list at;
              for (const int32_t k : x.structure.at(b)) at.append(k);
              all.append(nb::tuple(at));
            }
            return all;
          },
          "The sectors of each block, in the order in which they lie.")
      .def_prop_ro(
          "count", [](const BlockTensor& x) { return x.structure.count(); }, "How many blocks.")
      .def_prop_ro(
          "elements", [](const BlockTensor& x) { return x.structure.elements(); },
          "How many numbers.")
      .def_prop_ro("rank", &BlockTensor::rank, "How many legs.")
      .def_prop_ro(
          "shape", [](const BlockTensor& x) { return x.structure.dense_sizes(); },
          "Sizes of the legs.")
      .def_prop_ro(
          "grad",
          [](const BlockTensor& x) -> nb::object {
            const Tensor g = x.data.grad();
            return g.defined() ? nb::cast(with_data(x, g)) : nb::none();
          },
          "With the blocks of the tensor; None before a backward pass.");
}

void add_moves(BlockType& type) {
  type.def("to_dense", [](const BlockTensor& x) { return run([&] { return to_dense(x); }); })
      .def(
          "block",
          [](const BlockTensor& x, const nb::args& at) {
            return get_block(x, coordinates_at(at, "block"));
          },
          "x.block(0, 1): the block of these sectors, a view.")
      .def(
          "set_block",
          [](const BlockTensor& x, nb::handle at, nb::handle block) {
            const Coordinates c = coordinates_at(at, "set_block");
            const Tensor t = numbers_beside(x, block, "set_block", "block");
            return run([&] { return set_block(x, c, t); });
          },
          nb::arg("at"), nb::arg("block"), "Another tensor, which has this block there.")
      .def(
          "with_data",
          [](const BlockTensor& x, const Tensor& data) {
            const BlockTensor y = with_data(x, data);
            check_buffer("with_data", y);
            return y;
          },
          nb::arg("data"), "The same structure with other numbers.")
      .def(
          "permute",
          [](const BlockTensor& x, const nb::args& dims, bool signs) {
            const Ints order = axes_at(dims, "permute");
            return run(
                [&] { return permute(x, order, signs ? Crossing::signs : Crossing::refuse); });
          },
          nb::arg("dims"), nb::kw_only(), nb::arg("signs") = false,
          "Legs in another order; of fermions, where odd legs cross, with signs=True.")
      .def(
          "fuse",
          [](const BlockTensor& x, int64_t dim, int64_t n, std::optional<int64_t> arrow) {
            const int64_t at = dim < 0 ? dim + int64_t(x.rank()) : dim;
            const bool there = at >= 0 && at < int64_t(x.rank());
            const int64_t own = there ? x.structure.legs()[size_t(at)].arrow() : 1;
            return run(
                [&, to = arrow_at(arrow.value_or(own), "fuse")] { return fuse(x, dim, n, to); });
          },
          nb::arg("dim"), nb::arg("n"), nb::arg("arrow") = nb::none(),
          "The n legs from dim on as one, with the first one's arrow if none is said.")
      .def(
          "split",
          [](const BlockTensor& x, int64_t dim) { return run([&] { return split(x, dim); }); },
          nb::arg("dim"), "A fused leg as the legs that it was made of.")
      .def(
          "slice",
          [](const BlockTensor& x, int64_t dim, nb::handle given) {
            std::vector<std::pair<int64_t, int64_t>> ranges;
            for (nb::handle one : given) {
              const Ints r = axes_at(one, "slice");
              if (r.size() > 2)
                fail(ErrorKind::value, "slice", "a range is (start, stop), (start,) or (), got ",
                     r.size(), " numbers");
              ranges.emplace_back(r.empty() ? 0 : r[0], r.size() < 2 ? kEnd : r[1]);
            }
            return run([&] { return slice(x, dim, ranges); });
          },
          nb::arg("dim"), nb::arg("ranges"),
          "Of each sector of a leg the elements from start to stop; () is all of it.")
      .def(
          "trace",
          [](const BlockTensor& x, int64_t dim0, int64_t dim1) {
            return run([&] { return trace(x, dim0, dim1); });
          },
          nb::arg("dim0") = 0, nb::arg("dim1") = 1)
      .def(
          "sum", [](const BlockTensor& x, int64_t dim) { return run([&] { return sum(x, dim); }); },
          nb::arg("dim"), "Over a neutral leg; x.data.sum() is the sum of all numbers.")
      .def(
          "scale",
          [](const BlockTensor& x, int64_t dim, nb::handle given) {
            const Tensor numbers = numbers_beside(x, given, "scale", "numbers");
            return run([&] { return scale(x, dim, numbers); });
          },
          nb::arg("dim"), nb::arg("numbers"), "Multiplied along a leg by a number for each index.")
      .def(
          "conj", [](const BlockTensor& x) { return run([&] { return conj(x); }); },
          "Complex conjugate; turns arrows and charge. Of fermions with the signs of <x|x>.")
      .def(
          "twist",
          [](const BlockTensor& x, const nb::args& dims) {
            return run([&, of = axes_at(dims, "twist")] { return twist(x, of); });
          },
          "Of fermions: the blocks in which these legs together are odd change sign.")
      .def("norm", [](const BlockTensor& x) { return run([&] { return norm(x); }); })
      .def(
          "inner",
          [](const BlockTensor& x, const BlockTensor& y) {
            return run([&] { return inner(x, y); });
          },
          nb::arg("other"), "The sum of conj(x) y.")
      .def(
          "map",
          [](const BlockTensor& x, const std::string& op) {
            return run([&] { return map(op.c_str(), x); });
          },
          nb::arg("op"), "A pointwise op by its name, of which f(0) is 0; also x.tanh().");
}

}  // namespace gradus::py
