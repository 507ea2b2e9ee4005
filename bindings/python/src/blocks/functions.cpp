// Block tensors taken from dense ones, moved about, contracted, in files; the submodule.
#include "bindings/python/src/blocks/blocks.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/blocks/file.hpp"
#include "ops/ops.hpp"

#include <map>
#include <nanobind/stl/map.h>

namespace gradus::inline v1::py {

namespace {

struct Planned {
  std::string equation;
  BlockPath path;
};

std::vector<BlockTensor> operands_of(nb::handle list, const char* who) {
  std::vector<BlockTensor> all;
  for (nb::handle one : list) all.push_back(blocks_in(one, who, join("operand ", all.size())));
  return all;
}

Coordinates coordinates_at(nb::handle o, const char* who) {
  Coordinates at;
  for (const int64_t k : axes_at(o, who)) {
    if (k < 0 || k > INT32_MAX)
      fail(ErrorKind::index, who, "sector ", k, "; sectors of a leg count from 0");
    at.push_back(int32_t(k));
  }
  return at;
}

// Of each sector (start, stop), (start,) or ().
std::vector<std::pair<int64_t, int64_t>> ranges_at(nb::handle o) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  const auto refuse = [](nb::handle got) {
    fail(ErrorKind::value, "slice", "expected for each sector (start, stop), (start,) or (), got ",
         nb::cast<std::string>(nb::repr(got)).substr(0, 100));
  };
  if (!PyList_Check(o.ptr()) && !PyTuple_Check(o.ptr())) refuse(o);
  for (nb::handle one : o) {
    if (is_integer_like(one.ptr())) refuse(one);
    const Ints r = axes_at(one, "slice");
    if (r.size() > 2) refuse(one);
    ranges.emplace_back(r.empty() ? 0 : r[0], r.size() < 2 ? kEnd : r[1]);
  }
  return ranges;
}

// Name, and what one operand, or two of one structure, give.
template <BlockTensor (*Op)(const BlockTensor&)>
void unary(nb::module_& m, const char* who) {
  m.def(who,
        [who](nb::handle x) { return run_blocks(who, [b = blocks_in(x, who)] { return Op(b); }); });
}
template <BlockTensor (*Op)(const BlockTensor&, const BlockTensor&)>
void binary(nb::module_& m, const char* who) {
  m.def(who, [who](nb::handle x, nb::handle y) {
    return run_blocks(who, [a = blocks_in(x, who), b = blocks_in(y, who)] { return Op(a, b); });
  });
}

void add_numbers(nb::module_& m) {
  m.def("check", [](nb::handle x) { check_buffer("with_data", blocks_in(x, "with_data")); });
  m.def("to_dense", [](nb::handle x) {
    return run("to_dense", [b = blocks_in(x, "to_dense")] { return to_dense(b); });
  });
  m.def("from_dense", [](const Tensor& x, const BlockStructure& s, double tolerance) {
    if (!(tolerance >= 0))
      fail(ErrorKind::value, "from_dense", "tolerance: expected 0 or more, got ", tolerance);
    return run_blocks("from_dense", [&] { return from_dense(x, s, tolerance); });
  });
  m.def("block", [](nb::handle x, nb::handle at) {
    return get_block(blocks_in(x, "block"), coordinates_at(at, "block"));
  });
  m.def("set_block", [](nb::handle x, nb::handle at, const Tensor& block) {
    return run_blocks("set_block",
                      [&, b = blocks_in(x, "set_block"), c = coordinates_at(at, "set_block")] {
                        return set_block(b, c, block);
                      });
  });
  unary<neg>(m, "neg");
  binary<add>(m, "add");
  binary<sub>(m, "sub");
  m.def("mul", [](nb::handle x, const Tensor& number) {
    return run_blocks("mul", [&, b = blocks_in(x, "mul")] { return mul(b, number); });
  });
  m.def("map", [](const std::string& op, nb::handle x) {
    return run_blocks(op.c_str(), [&, b = blocks_in(x, op.c_str())] { return map(op.c_str(), b); });
  });
  // Ops of one tensor that go over the numbers, if f(0) is 0.
  nb::list pointwise;
  for (const OpInfo& op : all_ops())
    if (op.group == "pointwise" && op.least_operands() == 1 && op.operands.size() == 1)
      pointwise.append(op.name);
  m.attr("pointwise") = nb::frozenset(pointwise);
  m.def("inner", [](nb::handle x, nb::handle y) {
    return run("inner",
               [a = blocks_in(x, "inner"), b = blocks_in(y, "inner")] { return inner(a, b); });
  });
  m.def("text", [](nb::handle x) { return to_string(blocks_in(x, "repr")); });
}

void add_moves(nb::module_& m) {
  unary<conj>(m, "conj");
  m.def("permute", [](nb::handle x, nb::handle dims, bool signs) {
    return run_blocks("permute", [&, b = blocks_in(x, "permute"), d = axes_at(dims, "permute")] {
      return permute(b, d, signs ? Crossing::signs : Crossing::refuse);
    });
  });
  m.def(
      "fuse",
      [](nb::handle x, int64_t dim, int64_t n, std::optional<int64_t> arrow) {
        const BlockTensor b = blocks_in(x, "fuse");
        const int64_t at = dim < 0 ? dim + int64_t(b.rank()) : dim;
        const bool there = at >= 0 && at < int64_t(b.rank());
        const int64_t own = there ? b.structure.legs()[size_t(at)].arrow() : 1;
        return run_blocks("fuse", [&, to = arrow_at(arrow.value_or(own), "fuse")] {
          return fuse(b, dim, n, to);
        });
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("split", [](nb::handle x, int64_t dim) {
    return run_blocks("split", [&, b = blocks_in(x, "split")] { return split(b, dim); });
  });
  m.def("slice", [](nb::handle x, int64_t dim, nb::handle ranges) {
    return run_blocks("slice", [&, b = blocks_in(x, "slice"), r = ranges_at(ranges)] {
      return slice(b, dim, r);
    });
  });
  m.def("trace", [](nb::handle x, int64_t dim0, int64_t dim1) {
    return run_blocks("trace", [&, b = blocks_in(x, "trace")] { return trace(b, dim0, dim1); });
  });
  m.def("sum", [](nb::handle x, int64_t dim) {
    return run_blocks("sum", [&, b = blocks_in(x, "sum")] { return sum(b, dim); });
  });
  m.def("scale", [](nb::handle x, int64_t dim, const Tensor& numbers) {
    return run_blocks("scale", [&, b = blocks_in(x, "scale")] { return scale(b, dim, numbers); });
  });
  m.def("twist", [](nb::handle x, nb::handle dims) {
    return run_blocks(
        "twist", [b = blocks_in(x, "twist"), d = axes_at(dims, "twist")] { return twist(b, d); });
  });
}

void add_einsum(nb::module_& m) {
  nb::class_<Planned>(m, "BlockPlan", "The order of a contraction, and its work.")
      .def_ro("equation", &Planned::equation)
      .def_prop_ro(
          "order", [](const Planned& p) { return p.path.pairs; },
          "Pairs of positions in the shrinking list of operands.")
      .def_prop_ro(
          "flops", [](const Planned& p) { return p.path.flops; }, "Of all pairs of blocks.")
      .def_prop_ro(
          "dense_flops", [](const Planned& p) { return p.path.dense_flops; },
          "Of the same order without structure.")
      .def_prop_ro(
          "pairs", [](const Planned& p) { return p.path.block_pairs; }, "Of blocks that meet.")
      .def("__repr__", [](const Planned& p) {
        return join("<BlockPlan ", p.equation, ": ", p.path.pairs.size(), " steps, ",
                    p.path.block_pairs, " pairs of blocks, ", p.path.flops,
                    " flops; of dense tensors ", p.path.dense_flops, ">");
      });
  m.def("einsum", [](const std::string& equation, nb::handle operands) {
    return run_blocks("einsum",
                      [&, all = operands_of(operands, "einsum")] { return einsum(equation, all); });
  });
  m.def("plan", [](const std::string& equation, nb::handle operands) {
    return Planned{equation, run("plan", [&, all = operands_of(operands, "plan")] {
                     return plan_block_einsum(equation, all);
                   })};
  });
}

void add_files(nb::module_& m) {
  m.def("save", [](const std::string& path, const nb::dict& tensors) {
    std::vector<NamedBlocks> all;
    for (const auto& [name, x] : tensors) {
      if (!PyUnicode_Check(name.ptr())) fail(ErrorKind::value, "save", "tensors need names");
      const std::string text = nb::cast<std::string>(name);
      const BlockTensor b = blocks_in(x, "save", '"' + text + '"');
      all.push_back({text, with_data(b, b.data.detach())});
    }
    run("save", [&] { write_blocks(path, all); });
  });
  m.def(
      "load",
      [](const std::string& path, nb::handle device) {
        Device& to = device_at(device.ptr());
        nb::dict all;
        for (NamedBlocks& one : run("load", [&] { return read_blocks(path, to); }))
          all[one.name.c_str()] = given(std::move(one.tensor));
        return all;
      },
      nb::arg(), nb::arg().none());
}

}  // namespace

void open_blocks(nb::module_& extension) {
  nb::module_ m = extension.def_submodule("_blocks");
  m.attr("__name__") = "gradus.blocks";  // where its classes are found
  add_legs(m);
  add_numbers(m);
  add_moves(m);
  add_factors(m);
  add_einsum(m);
  add_files(m);
}

}  // namespace gradus::py
