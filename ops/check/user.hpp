// Ops of your own, in one include. Two kinds:
//
//   add_statement<my_op>(row): a struct as in ops/def, value and slope and nothing else. It has no
//     kernel: it runs as a chain of ops (read by Traced), so on any device; formulas, saved
//     tensors, broadcasting, promotion and derivatives of every order come from the same lines as
//     those of the built-in statements.
//   add_function({...}, row): a forward with its own vjp and jvp, all plain function pointers.
//
// Both give an op like any other: `gradus ops`, `gradus check`, graphs and the ledger show it. The
// row says how `check` draws its inputs (ops/check/rows.hpp); without one, add_statement() takes
// numbers between -2 and 2. Register at start-up, before other threads run ops. A library for
// `gradus --load` starts with GRADUS_USER_OPS:
//
//   GRADUS_USER_OPS() { gradus::add_statement<my_op>({...}); }
#pragma once
#include "engine/graph.hpp"
#include "ops/def/read_statement.hpp"
#include "ops/base/registry.hpp"
#include "ops/check/rows.hpp"
#include "ops/pointwise/statement_reader.hpp"

namespace gradus::inline v1 {

// Numbers between -2 and 2 for each operand, in a few shapes.
rows::Row plain_row(int operands, unsigned dtypes);
// row.name may stay empty.
const OpInfo& add_user_statement(def::StatementText text, const StatementReader& reader,
                                 rows::Row row);
template <class S>
const OpInfo& add_statement(rows::Row row = plain_row(S::arity, S::meta.dtypes)) {
  StatementReader reader = reader_of<S>();
  reader.value = detail::read_value<S>;
  return add_user_statement(def::read_statement<S>(), reader, std::move(row));
}

struct UserFunction {
  std::string name, doc, formula;
  std::vector<OperandSpec> operands;
  std::vector<AttrSpec> attrs;
  // Appends to ctx.outputs. It may call ops: they run unrecorded, and numbers among the inputs are
  // tensors already. What vjp and jvp read is kept with ctx.save_input, save_output or save.
  void (*forward)(OpContext& ctx) = nullptr;
  // As in OpInfo. Left out, a derivative that is asked for is an error then, not before.
  Tensor (*vjp)(GradFn& node, size_t k, std::span<const Tensor> g) = nullptr;
  Tensor (*jvp)(GradFn& node, size_t out, std::span<const Tensor> t) = nullptr;
  void (*vjps)(GradFn& node, std::span<const char> wanted, std::span<const Tensor> g,
               std::span<Tensor> cotangents) = nullptr;  // beside vjp; not if once_differentiable
  Cost (*cost)(const OpContext& ctx) = nullptr;
  Outputs (*batch)(const BatchCall& call) = nullptr;  // of vmap; left out: example by example
  // The vjp is right but not made of ops: its result can't be differentiated again, and that is
  // refused.
  bool once_differentiable = false;
  // Its code ends with this process (a script's function): no file may name it.
  bool local = false;
  // What `call` should do before the op runs (promotion, attributes made normal); by default
  // numbers take the dtype and device of the other operands, attributes their defaults.
  std::function<Outputs(const OpInfo& op, Operands, const Attrs&)> call = nullptr;
};
const OpInfo& add_function(UserFunction function, rows::Row row);
// The same in no list: to try a function before it is everybody's.
const OpInfo& unlisted_function(UserFunction function);
bool is_local(const OpInfo& op);  // as UserFunction::local; false for all other ops

// ---- libraries of ops

// What a library was built against: a version, and the sizes of what both sides share.
inline constexpr uint32_t kUserOpsVersion = 3;
inline constexpr uint64_t kUserOpsStamp =
    uint64_t(kUserOpsVersion) << 32 |
    (sizeof(OpInfo) + 31 * sizeof(rows::Row) + 977 * sizeof(TensorBody) + 7919 * sizeof(GradFn) +
     104729 * sizeof(def::StatementText));

#define GRADUS_USER_OPS()                                                            \
  extern "C" __attribute__((visibility("default"))) const uint64_t gradus_ops_stamp; \
  const uint64_t gradus_ops_stamp = ::gradus::kUserOpsStamp;                         \
  extern "C" __attribute__((visibility("default"))) void gradus_register_ops();      \
  void gradus_register_ops()

// Opens the library of this path (it is not searched for) and lets it register its ops, once.
// Error(device), as for device modules.
void load_ops(const std::string& path);

}  // namespace gradus
