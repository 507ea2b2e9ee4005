// One registration function per file of ops; init() calls them in order. Explicit, because statics
// that register themselves vanish from static libraries.
#pragma once
#include "engine/graph.hpp"

namespace gradus::inline v1 {

void register_pointwise();
void register_pointwise_compositions();
void register_memory();
void register_views();
void register_join();
void register_reductions();
void register_contractions();
void register_network();
void register_products();
void register_indexing();
void register_softmax();
void register_losses();
void register_random();
void register_creation();
void register_masking();
void register_sorting();
void register_scans();
void register_rearrangements();
void register_windows();
void register_standardize();
void register_norms();
void register_distances();
void register_linear();
void register_attention();
void register_linalg();
void register_block_copy();
void register_grouped();
void register_batching();  // after all others

// For views written in place (engine/in_place.hpp).
const OpInfo& as_strided_scatter_op();
Tensor elements_at(const Tensor& x, const Shape& sizes, const Shape& strides, int64_t offset);

// What an op says of itself. Who makes it sets what it does.
inline OpInfo new_op(std::string name, std::string group, std::string doc, std::string formula,
                     std::vector<OperandSpec> operands, std::vector<AttrSpec> attrs = {}) {
  OpInfo op;
  op.name = std::move(name);
  op.group = std::move(group);
  op.doc = std::move(doc);
  op.formula = std::move(formula);
  op.operands = std::move(operands);
  op.attrs = std::move(attrs);
  return op;
}

// A composition: an op made of ops; the doors see it like any other.
inline OpInfo& add_composition(std::string name, std::string group, std::string doc,
                               std::string formula, std::vector<OperandSpec> operands,
                               std::vector<AttrSpec> attrs, OpCall call) {
  OpInfo op = new_op(std::move(name), std::move(group), std::move(doc), std::move(formula),
                     std::move(operands), std::move(attrs));
  op.primitive = false;
  op.call = std::move(call);
  return add_op(std::move(op));
}

// Operand k of a call; undefined where it was left out.
inline Tensor operand(Operands in, size_t k) { return k < in.size() ? in[k] : Tensor(); }
// The operands of an op that takes a list.
inline Tensors list(Operands in) { return Tensors(in.begin(), in.end()); }

// Common attributes.
inline AttrSpec int_attr(std::string name, std::string doc) {
  return {std::move(name), AttrValue::Type::integer, {}, std::move(doc)};
}
inline AttrSpec int_attr(std::string name, int64_t value, std::string doc) {
  return {std::move(name), AttrValue::Type::integer, value, std::move(doc)};
}
inline AttrSpec ints_attr(std::string name, std::string doc) {
  return {std::move(name), AttrValue::Type::integers, {}, std::move(doc)};
}
inline AttrSpec ints_attr(std::string name, SmallVector<int64_t, 6> value, std::string doc) {
  return {std::move(name), AttrValue::Type::integers, std::move(value), std::move(doc)};
}
inline AttrSpec dims_attr() {
  return {"dim", AttrValue::Type::integers, {}, "axes; all when left out", true};
}
inline AttrSpec keepdim_attr() {
  return {"keepdim", AttrValue::Type::boolean, false, "keep reduced axes with size 1"};
}
inline AttrSpec number_attr(std::string name, double value, std::string doc) {
  return {std::move(name), AttrValue::Type::number, value, std::move(doc)};
}
inline AttrSpec bool_attr(std::string name, bool value, std::string doc) {
  return {std::move(name), AttrValue::Type::boolean, value, std::move(doc)};
}
inline AttrSpec text_attr(std::string name, const char* value, std::string doc) {
  return {std::move(name), AttrValue::Type::text, value, std::move(doc)};
}

}  // namespace gradus
