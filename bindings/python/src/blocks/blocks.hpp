// Block-sparse tensors as classes of nanobind, in the submodule _gradus._blocks.
#pragma once
#include "bindings/python/src/python.hpp"
#include "ops/blocks/block_tensor.hpp"

namespace gradus::inline v1::py {

// Work of the engine: without the interpreter's lock; words of C++ as those of Python.
template <class F>
auto run(F&& f) {
  const PythonLine line;
  try {
    const Unlocked unlocked;
    return f();
  } catch (const Error& e) {
    const std::string said = "ask for the signs (Crossing::signs)";
    std::string text = e.message();
    const size_t place = text.find(said);
    if (place == text.npos) throw;
    text.replace(place, said.size(), "write x.permute(..., signs=True)");
    fail(e.kind(), e.op(), text);
  }
}

// 1, or (1, 0) of a product of groups
Charge charge_at(nb::handle o, const char* who);
nb::object to_python(const Charge& q);
// {charge: size}, or (charge, size), ... in the order in which they lie
std::vector<Sector> sectors_at(nb::handle o, const char* who);
// (0, 1), [0, 1] or 0, 1; no argument is no axis
Ints axes_at(nb::handle o, const char* who);
int arrow_at(int64_t arrow, const char* who);

using BlockType = nb::class_<BlockTensor>;
void add_leg(nb::module_& m);
void add_making(nb::module_& m);  // zeros, from_dense, einsum, plan, save, load
void add_operators(BlockType& type);
void add_properties(BlockType& type);
void add_moves(BlockType& type);
void add_factors(nb::module_& m, BlockType& type);

}  // namespace gradus::py
