// Block tensors made, drawn, taken from dense ones, contracted, in files; the submodule.
#include "bindings/python/src/blocks/blocks.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/blocks/file.hpp"
#include "ops/ops.hpp"

#include <map>
#include <nanobind/stl/map.h>

namespace gradus::inline v1::py {

namespace {

BlockStructure structure_of(const Legs& legs, nb::handle charge, const char* who) {
  if (legs.empty()) fail(ErrorKind::value, who, "a block tensor has one leg or more");
  return {legs, charge.is_none() ? legs[0].symmetry().neutral() : charge_at(charge, who), who};
}
BlockTensor made(const char* who, const Legs& legs, nb::handle charge, std::optional<DType> dtype,
                 nb::handle device, bool requires_grad) {
  if (dtype == DType::bool_) fail(ErrorKind::dtype, who, "dtype: blocks hold numbers, not bool");
  const BlockStructure s = structure_of(legs, charge, who);
  const DeviceScope scope(device_at(device.ptr()));
  const Shape size{s.elements()};
  const DType t = dtype.value_or(DType::f32);
  const std::string_view name = who;
  Tensor data = run([&] {
    return name == "zeros"  ? Tensor::zeros(size, t)
           : name == "rand" ? rand(size, t)
                            : randn(size, t);
  });
  if (requires_grad) data.set_requires_grad(true);
  return {data, s};
}
struct Planned {
  std::string equation;
  BlockPath path;
};

std::vector<BlockTensor> operands_of(const nb::args& operands, const char* who) {
  std::vector<BlockTensor> all;
  const bool listed = operands.size() == 1 && (nb::isinstance<nb::list>(operands[0]) ||
                                               nb::isinstance<nb::tuple>(operands[0]));
  const nb::object list = listed ? nb::object(operands[0]) : nb::object(operands);
  for (nb::handle one : list) {
    if (nb::isinstance<BlockTensor>(one)) {
      all.push_back(nb::cast<const BlockTensor&>(one));
      continue;
    }
    fail(ErrorKind::value, who, "operand ", all.size(), " is no block tensor but ",
         Py_TYPE(one.ptr())->tp_name,
         is_tensor(one.ptr()) ? "; gradus.blocks.from_dense(x, legs) gives it legs" : "");
  }
  return all;
}

}  // namespace

void add_making(nb::module_& m) {
  nb::class_<Planned>(m, "BlockPlan", "The order of a contraction, and its work.")
      .def_ro("equation", &Planned::equation)
      .def_prop_ro("order", [](const Planned& p) { return p.path.pairs; })
      .def_prop_ro("flops", [](const Planned& p) { return p.path.flops; })
      .def_prop_ro("dense_flops", [](const Planned& p) { return p.path.dense_flops; })
      .def_prop_ro("pairs", [](const Planned& p) { return p.path.block_pairs; })
      .def("__repr__", [](const Planned& p) {
        return join("<BlockPlan ", p.equation, ": ", p.path.pairs.size(), " steps, ",
                    p.path.block_pairs, " pairs of blocks, ", p.path.flops,
                    " flops; of dense tensors ", p.path.dense_flops, ">");
      });
  for (const char* who : {"zeros", "rand", "randn"})
    m.def(
        who,
        [who](const Legs& legs, nb::handle charge, std::optional<DType> dtype, nb::handle device,
              bool requires_grad) { return made(who, legs, charge, dtype, device, requires_grad); },
        nb::arg("legs"), nb::arg("charge") = nb::none(), nb::kw_only(),
        nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none(),
        nb::arg("requires_grad") = false);
  m.def(
      "from_dense",
      [](const Tensor& x, const Legs& legs, nb::handle charge, double tolerance) {
        if (!(tolerance >= 0))
          fail(ErrorKind::value, "from_dense", "tolerance: expected 0 or more, got ", tolerance);
        const BlockStructure s = structure_of(legs, charge, "from_dense");
        return run([&] { return from_dense(x, s, tolerance); });
      },
      nb::arg("x"), nb::arg("legs"), nb::arg("charge") = nb::none(), nb::kw_only(),
      nb::arg("tolerance") = 0.0,
      "The blocks of a dense tensor; an error for a number outside of them that is larger than "
      "tolerance.");
  m.def(
      "einsum",
      [](const std::string& equation, const nb::args& operands) {
        const std::vector<BlockTensor> all = operands_of(operands, "einsum");
        return run([&] { return einsum(equation, all); });
      },
      nb::arg("equation"), nb::arg("operands"),
      "Any number of block tensors, in the order of least work over the pairs of blocks.");
  m.def(
      "plan",
      [](const std::string& equation, const nb::args& operands) {
        const std::vector<BlockTensor> all = operands_of(operands, "plan");
        return Planned{equation, run([&] { return plan_block_einsum(equation, all); })};
      },
      nb::arg("equation"), nb::arg("operands"), "What einsum would cost.");
  m.def(
      "save",
      [](const std::string& path, const std::map<std::string, BlockTensor>& tensors) {
        std::vector<NamedBlocks> all;
        for (const auto& [name, x] : tensors) all.push_back({name, with_data(x, x.data.detach())});
        run([&] { write_blocks(path, all); });
      },
      nb::arg("path"), nb::arg("tensors"),
      "A .safetensors file of block tensors by name, which any library reads.");
  m.def(
      "load",
      [](const std::string& path, nb::handle device) {
        Device& to = device_at(device.ptr());
        std::map<std::string, BlockTensor> all;
        for (NamedBlocks& one : run([&] { return read_blocks(path, to); }))
          all.emplace(one.name, std::move(one.tensor));
        return all;
      },
      nb::arg("path"), nb::arg("device") = nb::none());
}

void open_blocks(nb::module_& extension) {
  nb::module_ m = extension.def_submodule("_blocks");
  m.attr("__name__") = "gradus.blocks";  // where its classes are found
  add_leg(m);
  nb::class_<BlockTensor> type(
      m, "BlockTensor", "A tensor with a symmetry: its blocks in one buffer, and their structure.");
  add_operators(type);
  add_properties(type);
  add_moves(type);
  add_factors(m, type);
  add_making(m);
}

}  // namespace gradus::py
