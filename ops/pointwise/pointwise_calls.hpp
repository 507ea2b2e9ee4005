// How the typed functions of the pointwise ops reach pointwise.cpp.
#pragma once
#include "ops/def/statements.hpp"
#include "ops/base/registry.hpp"

namespace gradus::inline v1 {

// Promotes the operands, then calls apply1.
Tensor run_statement(const OpInfo& op, std::span<const Tensor> in, const Attrs& attrs);
// A statement as a recorded op.
Tensor call_statement(int id, std::span<const Tensor> in, const Attrs& attrs);
// Ops whose attributes are more than their statement's parameters.
void register_pointwise_forms();

template <class S>
Tensor call(std::initializer_list<Tensor> in, const Attrs& attrs = {}) {
  return call_statement(def::id_of<S>(), {in.begin(), in.size()}, attrs);
}

}  // namespace gradus
