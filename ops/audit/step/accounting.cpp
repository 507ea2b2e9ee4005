// The books are kept a second time, from what was sent, and compared.
#include "ops/audit/step/accounting.hpp"

#include "engine/arithmetic.hpp"
#include "engine/hooks.hpp"
#include "ops/audit/watch/run.hpp"

#include <algorithm>

namespace gradus::inline v1::audit {

namespace {

class Bookkeeper {
 public:
  explicit Bookkeeper(const Stepper& s) : s_(s) {}
  Account run() {
    const NoGrad off;
    const Unwatched quiet;
    out_.nodes = s_.nodes().size();
    out_.leaves = s_.leaves().size();
    if (!s_.error().empty()) note("walk", s_.error());
    for (const Turn& t : s_.turns()) check_types(t);
    check_turns();
    for (const Turn& t : s_.turns())
      for (size_t i = 0; i < t.in.size(); ++i) check_sum({false, t.node, int(i)}, t.in[i]);
    if (s_.at_end() && s_.error().empty())
      for (size_t i = 0; i < s_.leaves().size(); ++i)
        check_sum({true, int(i), 0}, s_.cotangent({true, int(i), 0}));
    for (size_t i = 0; i < s_.nodes().size(); ++i) check_cycle(int(i));
    check_aliases();
    return std::move(out_);
  }

 private:
  void note(const char* check, std::string text, bool bad = true) {
    out_.findings.push_back({check, std::move(text), bad});
  }

  void check_types(const Turn& t) {
    const auto metas = s_.nodes()[size_t(t.node)]->input_metas();
    for (size_t k = 0; k < t.out.size(); ++k) {
      if (!t.out[k].defined()) continue;
      const auto which = [&] { return join("operand ", k, " of ", s_.name_of(t.node)); };
      if (!(t.out[k].sizes() == metas[k].sizes))
        note("shape", join(which(), " is ", metas[k].sizes, ", its cotangent ", t.out[k].sizes()));
      if (t.out[k].dtype() != metas[k].dtype)
        note("dtype", join(which(), " is ", metas[k].dtype, ", its cotangent ", t.out[k].dtype()));
    }
  }

  void check_turns() {
    std::vector<int> turns(s_.nodes().size());
    for (const Turn& t : s_.turns()) ++turns[size_t(t.node)];
    for (size_t i = 0; i < turns.size(); ++i) {
      const int id = int(i);
      size_t sent = 0;
      for (size_t o = 0; o < s_.nodes()[i]->output_metas().size(); ++o)
        for (const Delivery& d : s_.deliveries({false, id, int(o)})) {
          ++sent;
          if (turns[i] > 0 && d.turn >= s_.turn_of(id))
            note("turn", join(s_.name_of(id), " had its turn before its consumer ",
                              s_.name_of(s_.turns()[size_t(d.turn)].node)));
        }
      if (turns[i] > 1 || (turns[i] == 0 && sent > 0 && s_.error().empty()))
        note("turn", join(s_.name_of(id), " was sent ", sent, " cotangents and had ", turns[i],
                          turns[i] == 1 ? " turn" : " turns"));
    }
  }

  bool has_hook(const Place& p) const {
    if (!p.leaf) {
      const NodeHooks* hooks = s_.nodes()[size_t(p.id)]->hooks_if_any();
      return hooks && (!hooks->before.functions().empty() ||
                       (size_t(p.output) < hooks->outputs.size() &&
                        !hooks->outputs[size_t(p.output)].grad.functions().empty()));
    }
    const Autograd& leaf = *s_.leaves()[size_t(p.id)].second.body()->autograd;
    return leaf.hooks && !leaf.hooks->grad.functions().empty();
  }

  void check_sum(const Place& p, const Tensor& got) {
    ++out_.sums;
    Tensor sum;
    for (const Delivery& d : s_.deliveries(p)) {
      ++out_.deliveries;
      const Tensor g = s_.delivered(d);
      sum = sum.defined() ? arithmetic().add(sum, g) : g;
    }
    if (same_bits(sum, got)) return;
    const std::string name = p.leaf ? s_.name_of(p) : s_.name_of(p.id);
    if (!p.leaf && s_.is_set(p.id, p.output))
      return note("hook", "the cotangent of " + name + " was set by hand", false);
    if (has_hook(p)) return note("hook", "a hook changed the cotangent of " + name, false);
    note("sum", join("what ", name, " got is not the sum of the ", s_.deliveries(p).size(),
                     " cotangents that it was sent"));
  }

  void check_cycle(int id) {
    const GradFn& node = *s_.nodes()[size_t(id)];
    for (const Edge& e : node.inputs())
      if (e.fn && e.fn->sequence() >= node.sequence())
        note("cycle", join(s_.name_of(id), " takes the result of a node that is not older"));
    for (const Saved& s : node.saved())
      if (s.tensor.defined() && s.tensor.grad_fn() &&
          s.tensor.grad_fn()->sequence() >= node.sequence())
        note("cycle", join(s_.name_of(id), " saved a tensor that holds it, so neither is ever ",
                           "freed; save outputs by save_output()"));
  }

  // Memory that two share: a write to one changes the other. (Copies on write have storages of
  // their own.)
  void check_aliases() {
    std::unordered_map<const Storage*, std::string> owners;
    const auto own = [&](const Tensor& t, const std::string& what, bool is_gradient) {
      if (!t.defined() || t.is_number() || !t.body()->storage) return;
      const auto [at, fresh] = owners.try_emplace(&t.storage(), what);
      if (!fresh && is_gradient) note("alias", join(what, " is the memory of ", at->second));
    };
    for (const auto& [name, t] : s_.leaves()) own(t, name, false);
    for (size_t i = 0; i < s_.nodes().size(); ++i)
      for (const Saved& s : s_.nodes()[i]->saved())
        own(s.tensor, "what " + s_.name_of(int(i)) + " saved", false);
    for (const auto& [name, t] : s_.leaves()) own(t.grad(), "the .grad of " + name, true);
  }

  const Stepper& s_;
  Account out_;
};

}  // namespace

size_t Account::bad() const {
  return size_t(std::count_if(findings.begin(), findings.end(), [](auto& f) { return f.bad; }));
}

Account account(const Stepper& stepper) { return Bookkeeper(stepper).run(); }

std::vector<Imbalance> leaked(std::vector<Ref<GradFn>> nodes) {
  std::vector<Imbalance> findings;
  for (; !nodes.empty(); nodes.pop_back())
    if (const int others = nodes.back()->use_count() - 1; others > 0) {
      findings.push_back(
          {"leak", join("%", nodes.size() - 1, " ", nodes.back()->op().name, " is still held by ",
                        others, others == 1 ? " other" : " others")});
      break;  // it holds those before it
    }
  return findings;
}

}  // namespace gradus::audit
