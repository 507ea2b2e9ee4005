// Writes in place that autograd knows of. x.op_(...) is the op out of place, after which x takes
// the result's memory and history: a node that saved x's old values finds another version, an
// error; what the op itself saved stays as it was. A view hands the write on to its base: the
// base's new history is as_strided_scatter(base, value), and every view reads its own from there,
// as as_strided(base).
#pragma once
#include "engine/op_info.hpp"

#include <span>

namespace gradus::inline v1 {

// x := op(x, others...). The op must give one tensor of x's shape, and a dtype that casts to x's
// without loss of kind. Error(autograd | shape | dtype), before anything is written.
Tensor in_place(const OpInfo& op, const Tensor& x, std::span<const Tensor> others = {},
                const Attrs& attrs = {});
// x := y, values and history; y has x's shape. `op` is the name that messages give to the write.
void assign(const Tensor& x, Tensor y, const char* op);
// Gives a view its history anew if its base has got another since.
void follow_base(const Tensor& view);
// After the forward of a view op (or of a user's function): says which outputs are views of what.
void link_views(const OpInfo& op, std::span<const Tensor> inputs, std::span<Tensor> outputs);

}  // namespace gradus
