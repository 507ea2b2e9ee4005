// Block-sparse tensors: functions of the submodule _gradus._blocks, on which gradus/blocks.py
// stands. Legs and structures are classes of nanobind, tensors are of blocks.py.
#pragma once
#include "bindings/python/src/python.hpp"
#include "ops/blocks/block_tensor.hpp"

namespace gradus::inline v1::py {

// Work of the engine for `who`: without the interpreter's lock; words of C++ as those of Python.
template <class F>
auto run(const char* who, F&& f) {
  const PythonLine line;
  try {
    const Unlocked unlocked;
    return f();
  } catch (const Error& e) {
    std::string text = e.message();
    const auto said = [&](const char* words, const char* here) {
      const size_t place = text.find(words);
      if (place != text.npos) text.replace(place, std::string_view(words).size(), here);
    };
    said("ask for the signs (Crossing::signs)", "write x.permute(..., signs=True)");
    if (const size_t other = text.find("; such a tensor, 0 off"); other != text.npos)
      text = text.substr(0, other) + "; block tensors have no such diagonals";
    throw Error(e.kind(), e.op().empty() ? who : e.op(), text);
  }
}

// Error(dtype) where it is no block tensor.
BlockTensor blocks_in(nb::handle o, const char* who, const std::string& what = "operand");
// One without legs is an ordinary tensor.
nb::object given(BlockTensor x);
template <class F>
nb::object run_blocks(const char* who, F&& f) {
  return given(run(who, std::forward<F>(f)));
}

// 1, or (1, 0) of a product of groups
Charge charge_at(nb::handle o, const char* who);
nb::object to_python(const Charge& q);
// {charge: size}, a leg, or (charge, size), ... in the order in which they lie
std::vector<Sector> sectors_at(nb::handle o, const char* who);
// An axis, or a list of them.
Ints axes_at(nb::handle o, const char* who);
int arrow_at(int64_t arrow, const char* who);

void add_legs(nb::module_& m);  // and structures
void add_functions(nb::module_& m);
void add_factors(nb::module_& m);

}  // namespace gradus::py
