#include "ops/blocks/contraction.hpp"

#include "ops/base/dtypes.hpp"
#include "ops/blocks/plan_cache.hpp"
#include "ops/contract/plan.hpp"
#include "ops/shape/memory.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

struct Operand {
  BlockTensor x;
  Labels labels;
};

bool has(const Labels& labels, int64_t l) {
  return std::find(labels.begin(), labels.end(), l) != labels.end();
}

// Labels that stand twice become traces, or where others need them, diagonals.
template <class Needed>
void take_repeated(const char* op, Operand& t, Needed&& needed) {
  for (size_t i = 0; i < t.labels.size(); ++i)
    for (size_t j = i + 1; j < t.labels.size(); ++j) {
      const int64_t l = t.labels[i];
      if (l != t.labels[j]) continue;
      const bool stays = needed(l) || std::count(t.labels.begin(), t.labels.end(), l) > 2;
      check_joins(op, label_text(l), t.x.structure.legs()[i], t.x.structure.legs()[j]);
      t.x = stays ? diagonal(t.x, int64_t(i), int64_t(j)) : trace(t.x, int64_t(i), int64_t(j));
      t.labels.erase(j);
      if (!stays) t.labels.erase(i);
      return take_repeated(op, t, needed);
    }
}

// Neutral legs that nobody else has are summed.
template <class Needed>
void sum_alone(const char* op, Operand& t, Needed&& needed) {
  for (size_t i = t.labels.size(); i-- > 0;) {
    if (needed(t.labels[i])) continue;
    if (!t.x.structure.legs()[i].is_neutral())
      fail(ErrorKind::value, op, label_text(t.labels[i]),
           " is in one operand alone and not in the output; a leg that carries charge (",
           t.x.structure.legs()[i].text(), ") can't be summed alone");
    t.x = sum(t.x, int64_t(i));
    t.labels.erase(i);
  }
}

// Does each label stand once, and somewhere else too?
bool all_needed(const Labels& own, const Labels& other, const Labels& out) {
  for (size_t i = 0; i < own.size(); ++i)
    if (!(has(other, own[i]) || has(out, own[i])) ||
        std::find(own.begin(), own.begin() + i, own[i]) != own.begin() + i)
      return false;
  return true;
}

BlockTensor contract_ready(const char* op, const BlockTensor& a, const Labels& la,
                           const BlockTensor& b, const Labels& lb, const Labels& out) {
  const Tensor both[] = {a.data, b.data};
  const DType dtype = result_dtype(both);
  if (dtype == DType::bool_) fail(ErrorKind::dtype, op, "operands are bool; expected numbers");
  const auto plan = plan_pair(op, a.structure, la, b.structure, lb, out);
  Tensor x = cast(a.data, dtype), y = cast(b.data, dtype);
  if (plan->pack_a) x = (*plan->pack_a)(x);
  if (plan->pack_b) y = (*plan->pack_b)(y);
  Tensor z = plan->products(x, y);
  if (plan->unpack) z = (*plan->unpack)(z);
  return {std::move(z), plan->result};
}

// ---- einsum

struct Terms {
  std::vector<Labels> inputs;
  Labels output;
};

void check_terms(const Terms& t, const std::vector<BlockTensor>& operands) {
  if (operands.empty()) fail(ErrorKind::value, "einsum", "no operands");
  if (t.inputs.size() != operands.size())
    fail(ErrorKind::value, "einsum", "the expression has ", t.inputs.size(), " terms, got ",
         operands.size(), " operands");
  std::map<int64_t, int> count;
  for (size_t k = 0; k < operands.size(); ++k) {
    if (t.inputs[k].size() != operands[k].rank())
      fail(ErrorKind::shape, "einsum", "operand ", k, " has ", operands[k].rank(),
           " legs, its term names ", t.inputs[k].size());
    for (const int64_t l : t.inputs[k]) ++count[l];
  }
  for (const int64_t l : t.output)
    if (!count[l]++)
      fail(ErrorKind::value, "einsum", "output ", label_text(l), " is in no operand");
  for (size_t k = 0; k < operands.size(); ++k)
    for (size_t i = 0; i < t.inputs[k].size(); ++i) {
      const int64_t l = t.inputs[k][i];
      const Leg& leg = operands[k].structure.legs()[i];
      if (!leg.is_neutral() && count[l] > 2)
        fail(ErrorKind::value, "einsum", label_text(l), " stands ", count[l],
             " times: a leg that carries charge (", leg.text(),
             ") joins two; only neutral ones are hyperedges");
    }
}

Terms read_terms(std::string_view text) {
  const Equation e = parse_equation(text);
  Terms t;
  std::map<int64_t, int> count;
  for (const Equation::Term& term : e.inputs) {
    if (term.ellipsis >= 0)
      fail(ErrorKind::value, "einsum", "block tensors take no \"...\": name the legs of ",
           term.text);
    t.inputs.push_back(term.letters);
    for (const int64_t l : term.letters) ++count[l];
  }
  if (e.output) t.output = e.output->letters;
  for (const auto& [l, n] : count)
    if (!e.output && n == 1) t.output.push_back(l);
  return t;
}

// The legs that a contraction of two leaves open.
Labels open_labels(const Labels& a, const Labels& b, const auto& needed) {
  Labels open;
  for (const Labels* side : {&a, &b})
    for (const int64_t l : *side)
      if (needed(l) && !has(open, l)) open.push_back(l);
  return open;
}

// ---- the order of least work

struct Value {
  BlockStructure s;
  Labels labels;
  double flops = 0;
  size_t left = 0, right = 0;  // of which subsets
};

bool share_label(const Labels& a, const Labels& b) {
  return std::any_of(a.begin(), a.end(), [&](int64_t l) { return has(b, l); });
}

constexpr size_t kMostSubsets = 7;  // operands whose orders are all tried

// By dynamic programming over subsets; pairs in the order of a tree's steps.
std::vector<std::pair<int, int>> best_order(const Terms& t,
                                            const std::vector<BlockStructure>& operands) {
  const size_t n = operands.size(), all = size_t(1) << n;
  std::vector<std::optional<Value>> best(all);
  for (size_t k = 0; k < n; ++k) best[size_t(1) << k] = Value{operands[k], t.inputs[k]};
  for (size_t set = 1; set < all; ++set) {
    if (!(set & (set - 1))) continue;
    const auto needed = [&](int64_t l) {
      if (has(t.output, l)) return true;
      for (size_t k = 0; k < n; ++k)
        if (!(set >> k & 1) && has(t.inputs[k], l)) return true;
      return false;
    };
    // Does the rest of the network share no label with it? Only then outer products are formed.
    bool alone = true;
    for (size_t k = 0; k < n; ++k)
      for (size_t i = 0; i < n; ++i)
        if ((set >> k & 1) && !(set >> i & 1)) alone &= !share_label(t.inputs[k], t.inputs[i]);
    for (size_t right = (set - 1) & set; right > (set ^ right); right = (right - 1) & set) {
      const size_t left = set ^ right;  // right has the last operand of both
      const auto &x = best[left], &y = best[right];
      if (!x || !y || !(alone || share_label(x->labels, y->labels))) continue;
      const double before = x->flops + y->flops;
      if (best[set] && before >= best[set]->flops) continue;
      const Labels out = open_labels(x->labels, y->labels, needed);
      const double flops = before + pair_flops("einsum", x->s, x->labels, y->s, y->labels, out);
      if (best[set] && flops >= best[set]->flops) continue;
      best[set] = Value{pair_result("einsum", x->s, x->labels, y->s, y->labels, out), out, flops,
                        left, right};
    }
  }
  // The tree as positions in a shrinking list.
  std::vector<size_t> list;
  for (size_t k = 0; k < n; ++k) list.push_back(size_t(1) << k);
  std::vector<std::pair<int, int>> pairs;
  const auto steps = [&](const auto& self, size_t set) -> void {
    if (!(set & (set - 1))) return;
    self(self, best[set]->left);
    self(self, best[set]->right);
    const auto at = [&](size_t s) {
      return int(std::find(list.begin(), list.end(), s) - list.begin());
    };
    const int i = at(best[set]->left), j = at(best[set]->right);
    pairs.emplace_back(i, j);
    list.erase(list.begin() + std::max(i, j));
    list.erase(list.begin() + std::min(i, j));
    list.push_back(set);
  };
  steps(steps, all - 1);
  return pairs;
}

// Carries out an order on anything that has labels: step(a, b, out labels) makes a value of two.
template <class T, class Step>
T carry_out(std::vector<T> list, const std::vector<std::pair<int, int>>& pairs,
            const Labels& output, Step&& step) {
  for (const auto& [i, j] : pairs) {
    const T a = list[size_t(i)], b = list[size_t(j)];
    list.erase(list.begin() + std::max(i, j));
    list.erase(list.begin() + std::min(i, j));
    const auto needed = [&](int64_t l) {
      if (has(output, l)) return true;
      return std::any_of(list.begin(), list.end(), [&](const T& x) { return has(x.labels, l); });
    };
    list.push_back(step(a, b, list.empty() ? output : open_labels(a.labels, b.labels, needed)));
  }
  return list[0];
}

BlockPath make_path(const Terms& t, const std::vector<BlockStructure>& operands) {
  BlockPath path;
  if (operands.size() > kMostSubsets) {  // more than can be tried: the order of the dense network
    std::vector<Shape> shapes;
    for (const BlockStructure& s : operands) shapes.push_back(s.dense_sizes());
    for (const auto& [i, j] : plan_einsum(t.inputs, t.output, shapes).path)
      path.pairs.emplace_back(i, j);
  } else if (operands.size() > 1) {
    path.pairs = best_order(t, operands);
  }
  std::vector<Value> list;
  for (size_t k = 0; k < operands.size(); ++k) list.push_back({operands[k], t.inputs[k]});
  carry_out(list, path.pairs, t.output, [&](const Value& a, const Value& b, const Labels& out) {
    const auto plan = plan_pair("einsum", a.s, a.labels, b.s, b.labels, out);
    path.flops += plan->flops;
    path.block_pairs += plan->pairs;
    double dense = 2;
    for (const Leg& leg : a.s.legs()) dense *= double(leg.size());
    for (size_t i = 0; i < b.labels.size(); ++i)
      if (!has(a.labels, b.labels[i])) dense *= double(b.s.legs()[i].size());
    path.dense_flops += dense;
    return Value{plan->result, out};
  });
  return path;
}

// The operands of an einsum as its pairs want them, and the order of these.
struct Ready {
  std::vector<Operand> operands;
  Labels output;
  std::shared_ptr<const BlockPath> path;
};
Ready ready(Terms t, const std::vector<BlockTensor>& operands) {
  check_terms(t, operands);
  std::vector<BlockStructure> structures;
  for (const BlockTensor& x : operands) structures.push_back(x.structure);
  Ready r;
  r.output = t.output;
  PlanKey key;
  const std::vector<Labels> as_given = t.inputs;
  for (size_t k = 0; k < operands.size(); ++k) {
    check_buffer("einsum", operands[k]);
    Operand x{operands[k], t.inputs[k]};
    const auto needed = [&](int64_t l) {
      if (has(t.output, l)) return true;
      for (size_t i = 0; i < as_given.size(); ++i)
        if (i != k && has(as_given[i], l)) return true;
      return false;
    };
    take_repeated("einsum", x, needed);
    sum_alone("einsum", x, needed);
    t.inputs[k] = x.labels;
    structures[k] = x.x.structure;
    key.push_back(int64_t(structures[k].id()));
    key.append(x.labels.data(), x.labels.size());
    r.operands.push_back(std::move(x));
  }
  key.append(t.output.data(), t.output.size());
  static auto& known = *new PlanCache<BlockPath>;
  r.path = known.get(key, [&] { return make_path(t, structures); });
  return r;
}

}  // namespace

BlockTensor contract(const BlockTensor& a, const Labels& la, const BlockTensor& b, const Labels& lb,
                     const Labels& out) {
  if (la.size() != a.rank() || lb.size() != b.rank())
    fail(ErrorKind::value, "contract", la.size(), " and ", lb.size(), " labels for operands with ",
         a.rank(), " and ", b.rank(), " legs");
  check_buffer("contract", a);
  check_buffer("contract", b);
  if (all_needed(la, lb, out) && all_needed(lb, la, out))
    return contract_ready("contract", a, la, b, lb, out);
  Operand x{a, la}, y{b, lb};
  for (auto [t, other] : {std::pair(&x, &lb), {&y, &la}}) {
    const auto needed = [&, o = other](int64_t l) { return has(*o, l) || has(out, l); };
    take_repeated("contract", *t, needed);
    sum_alone("contract", *t, needed);
  }
  return contract_ready("contract", x.x, x.labels, y.x, y.labels, out);
}

BlockPath plan_block_einsum(std::string_view equation, const std::vector<BlockTensor>& operands) {
  NoGrad off;
  return *ready(read_terms(equation), operands).path;
}
BlockPath plan_block_einsum(const std::vector<BlockTensor>& operands,
                            const std::vector<Labels>& labels, const Labels& output) {
  NoGrad off;
  return *ready({labels, output}, operands).path;
}

namespace {
BlockTensor contracted(const Ready& r) {
  const Operand last =
      carry_out(r.operands, r.path->pairs, r.output,
                [](const Operand& a, const Operand& b, const Labels& out) {
                  return Operand{contract_ready("einsum", a.x, a.labels, b.x, b.labels, out), out};
                });
  Ints order;
  for (const int64_t l : r.output)
    order.push_back(std::find(last.labels.begin(), last.labels.end(), l) - last.labels.begin());
  return permute(last.x, order, Crossing::signs);
}
}  // namespace

BlockTensor einsum(std::string_view equation, const std::vector<BlockTensor>& operands) {
  return contracted(ready(read_terms(equation), operands));
}
BlockTensor einsum(const std::vector<BlockTensor>& operands, const std::vector<Labels>& labels,
                   const Labels& output) {
  return contracted(ready({labels, output}, operands));
}

}  // namespace gradus
