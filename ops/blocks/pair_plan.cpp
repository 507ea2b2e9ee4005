// How two block-sparse tensors are contracted. Both are matrices by sectors of the charge that
// flows through the summed legs. Pair by pair, or sector by sector after blocks were copied
// together: what takes less by a small model of time. An operand is copied only if its blocks do
// not lie as the products want them. Signs of fermions: facts of each block of a, b and c, so
// constants of the plan.
#include "ops/base/shape.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/blocks/moves.hpp"
#include "ops/blocks/sectors.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace gradus::inline v1 {

namespace {

bool has(const Labels& labels, int64_t l) {
  return std::find(labels.begin(), labels.end(), l) != labels.end();
}
int64_t place(const Labels& labels, int64_t l) {
  return std::find(labels.begin(), labels.end(), l) - labels.begin();
}
Ints places(const Labels& labels, const Labels& wanted) {
  Ints axes;
  for (const int64_t l : wanted) axes.push_back(place(labels, l));
  return axes;
}

// "ij,jk->ik"; of labels that are no letters "(0 1),(1 2)->(0 2)".
std::string text_of(const Labels& la, const Labels& lb, const Labels& out) {
  std::string text;
  for (const Labels* labels : {&la, &lb, &out}) {
    text += labels == &la ? "" : labels == &lb ? "," : "->";
    const bool letters = std::all_of(labels->begin(), labels->end(),
                                     [](int64_t l) { return l >= 'A' && l < kEllipsisLabel; });
    std::string numbers;
    for (const int64_t l : *labels)
      if (letters)
        text += letter_text(l);
      else
        numbers += join(numbers.empty() ? "" : " ", is_number_label(l) ? l - kNumberLabel : l);
    if (!letters) text += "(" + numbers + ")";
  }
  return text;
}

// One of a, b and c: its matrices, and where the products find them.
class Side {
 public:
  Side(const BlockStructure& s, Parting parting)
      : s_(s),
        parting_(std::move(parting)),
        kept_(sector_matrices(s, parting_)),
        matrices_(*kept_) {
    wanted_.assign(matrices_.size(), 0);
    steps_.resize(s.count());
    split(Outer::none, 0);
  }
  // The first `outer` axes of the rows, or of the columns, step by themselves: products are made
  // for each of their indices, as of a batch.
  enum class Outer { none, rows, columns };
  void split(Outer of, size_t outer) {
    outer_ = of;
    Ints first = parting_.batch, rows = parting_.rows, columns = parting_.columns;
    if (of != Outer::none) {
      Ints& from = of == Outer::rows ? rows : columns;
      first = Ints(from.begin(), from.begin() + outer);
      from = Ints(from.begin() + outer, from.end());
    }
    in_place_ = true;
    for (size_t b = 0; b < s_.count(); ++b) {
      const Shape sizes = s_.sizes(b), strides = contiguous_strides(sizes);
      Steps& steps = steps_[b] = {};
      const bool batch = merged(sizes, strides, first, &steps.batch),
                 row = merged(sizes, strides, rows, &steps.row),
                 column = merged(sizes, strides, columns, &steps.column);
      in_place_ = in_place_ && batch && row && column;
      for (const int64_t a : first) steps.batch_size *= sizes[size_t(a)];
    }
  }
  int64_t batch_size(size_t i, size_t r, size_t c) const {
    return steps_[matrices_[i].block(r, c)].batch_size;
  }
  const std::vector<SectorMatrix>& matrices() const { return matrices_; }
  void want(size_t i) { wanted_[i] = 1; }
  bool wants_all() const { return std::find(wanted_.begin(), wanted_.end(), 0) == wanted_.end(); }
  // Can products read (write) it without a copy: block by block, or matrix by matrix?
  bool lies(bool by_pairs) const {
    if (!in_place_) return false;
    for (size_t i = 0; i < matrices_.size() && !by_pairs; ++i)
      if (wanted_[i] && matrices_[i].blocks.size() != 1) return false;
    return true;
  }
  // Nanoseconds, about.
  double copy_time() const {
    double t = 200;
    for (size_t i = 0; i < matrices_.size(); ++i)
      if (wanted_[i])
        t += 15 * double(matrices_[i].blocks.size()) + 0.8 * double(matrices_[i].elements());
    return t;
  }

  std::vector<int> signs;  // of each block; none: all are +1

  void settle(bool by_pairs) {
    copied_ = !lies(by_pairs);
    if (copied_) packed_ = pack(s_, matrices_, parting_, wanted_, signs);
  }
  bool copied() const { return copied_; }
  const PackedSectors& packed() const { return packed_; }
  int64_t buffer_size() const { return copied_ ? packed_.offsets.back() : s_.elements(); }

  struct Spot {
    int64_t offset, batch, row, column;
    int sign;
  };
  // Block (r, c) of matrix i, or all of it.
  Spot block(size_t i, size_t r, size_t c) const {
    const SectorMatrix& m = matrices_[i];
    const size_t b = m.block(r, c);
    if (copied_) {
      const int64_t inner = steps_[b].batch_size,
                    batch = outer_ == Outer::rows
                                ? m.rows[r].size / std::max<int64_t>(inner, 1) * m.column_size
                            : outer_ == Outer::columns
                                ? m.columns[c].size / std::max<int64_t>(inner, 1)
                                : m.row_size * m.column_size;
      return {packed_.offsets[i] + m.rows[r].start * m.column_size + m.columns[c].start, batch,
              m.column_size, 1, 1};
    }
    return {s_.offset(b), steps_[b].batch, steps_[b].row, steps_[b].column,
            signs.empty() ? 1 : signs[b]};
  }

 private:
  struct Steps {
    int64_t batch = 0, row = 0, column = 0, batch_size = 1;
  };
  // Do these axes step as one?
  static bool merged(const Shape& sizes, const Shape& strides, const Ints& axes, int64_t* step) {
    int64_t expected = 0;
    for (size_t k = axes.size(); k-- > 0;) {
      const auto a = size_t(axes[k]);
      if (sizes[a] == 1) continue;
      if (expected == 0)
        *step = expected = strides[a];
      else if (strides[a] != expected)
        return false;
      expected *= sizes[a];
    }
    return true;
  }

  const BlockStructure& s_;
  const Parting parting_;
  const std::shared_ptr<const SectorMatrices> kept_;
  const SectorMatrices& matrices_;
  std::vector<Steps> steps_;
  std::vector<char> wanted_;
  PackedSectors packed_;
  Outer outer_ = Outer::none;
  bool in_place_ = true, copied_ = false;
};

struct Parted {
  Labels batch, free_a, free_b, summed;
};

Parted part(const char* op, const BlockStructure& a, const Labels& la, const BlockStructure& b,
            const Labels& lb, const Labels& out) {
  Parted p;
  if (!(a.symmetry() == b.symmetry()))
    fail(ErrorKind::value, op, "operands of ", a.symmetry().text(), " and of ",
         b.symmetry().text());
  if (la.size() != a.rank() || lb.size() != b.rank())
    fail(ErrorKind::value, op, la.size(), " and ", lb.size(), " labels for operands with ",
         a.rank(), " and ", b.rank(), " legs");
  for (const Labels* labels : {&la, &lb, &out})
    for (size_t i = 0; i < labels->size(); ++i)
      if (place(*labels, (*labels)[i]) != int64_t(i))
        fail(ErrorKind::value, op, label_text((*labels)[i]), " stands twice in ",
             labels == &out ? "the output" : "one operand");
  for (const int64_t l : out)
    if (!has(la, l) && !has(lb, l))
      fail(ErrorKind::value, op, "output ", label_text(l), " is in no operand");
  for (const int64_t l : la) {
    if (!has(lb, l)) {
      p.free_a.push_back(l);
      continue;
    }
    const Leg &x = a.legs()[size_t(place(la, l))], &y = b.legs()[size_t(place(lb, l))];
    if (!has(out, l)) {
      check_joins(op, label_text(l), x, y);
      p.summed.push_back(l);
    } else if (!x.is_neutral() || !y.is_neutral()) {
      fail(ErrorKind::value, op, label_text(l),
           " of both operands stands in the output, too: "
           "charge would be counted twice; it may where all charges are 0");
    } else {
      check_joins(op, label_text(l), x, y);
      p.batch.push_back(l);
    }
  }
  for (const int64_t l : lb)
    if (!has(la, l)) p.free_b.push_back(l);
  for (const Labels* free : {&p.free_a, &p.free_b})
    for (const int64_t l : *free)
      if (!has(out, l))
        fail(ErrorKind::value, op, label_text(l), " is in one operand alone and not in the output");
  return p;
}

// Signs of bringing a's summed legs to its end and b's, in reverse, to its front; of closing them;
// and of bringing the result's legs into order.
void fermion_signs(const BlockStructure& a, const Labels& la, const BlockStructure& b,
                   const Labels& lb, const BlockStructure& c, const Labels& out, const Parted& p,
                   Side& of_a, Side& of_b, Side& of_c) {
  const auto joined = [](const Labels& x, const Labels& y, const Labels& z) {
    Labels all = x;
    all.append(y.data(), y.size());
    all.append(z.data(), z.size());
    return all;
  };
  const auto each = [](const BlockStructure& s, const Ints& order, const Ints& closed) {
    std::vector<int> signs(s.count(), 1);
    for (size_t i = 0; i < s.count(); ++i) {
      signs[i] = crossing_sign(s.legs(), s.at(i), order);
      for (const int64_t axis : closed)
        if (s.legs()[size_t(axis)].arrow() > 0 &&
            s.legs()[size_t(axis)].odd(size_t(s.at(i)[size_t(axis)])))
          signs[i] = -signs[i];
    }
    return signs;
  };
  Labels backwards = p.summed;
  std::reverse(backwards.begin(), backwards.end());
  of_a.signs = each(a, places(la, joined(p.batch, p.free_a, p.summed)), places(la, p.summed));
  of_b.signs = each(b, places(lb, joined(p.batch, backwards, p.free_b)), {});
  of_c.signs = each(c, places(out, joined(p.batch, p.free_a, p.free_b)), {});
}

// What the summed legs of a matrix carry in a's arrows, by its batch.
using Flow = SmallVector<int64_t, 8>;
Flow flow(const SectorMatrix& m, const Symmetry& g, const Charge& minus) {
  Charge q = m.charge;
  g.add(q, minus, -1);
  Flow f(m.batch.begin(), m.batch.end());
  f.append(q.data(), q.size());
  return f;
}
struct Before {
  bool operator()(const Flow& a, const Flow& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

}  // namespace

BlockStructure pair_result(const char* op, const BlockStructure& a, const Labels& la,
                           const BlockStructure& b, const Labels& lb, const Labels& out) {
  const Symmetry& g = a.symmetry();
  Legs legs;
  for (const int64_t l : out)
    legs.push_back(has(la, l) ? a.legs()[size_t(place(la, l))] : b.legs()[size_t(place(lb, l))]);
  Charge charge = a.charge();
  g.add(charge, b.charge(), 1);
  return {g, legs, charge, op};
}

double pair_flops(const char* op, const BlockStructure& a, const Labels& la,
                  const BlockStructure& b, const Labels& lb, const Labels& out) {
  const Parted p = part(op, a, la, b, lb, out);
  const Symmetry& g = a.symmetry();
  const auto of_a = sector_matrices(
                 a, {places(la, p.batch), places(la, p.free_a), places(la, p.summed)}),
             of_b = sector_matrices(
                 b, {places(lb, p.batch), places(lb, p.summed), places(lb, p.free_b)});
  std::map<Flow, double, Before> columns;  // of b, by what flows
  for (const SectorMatrix& m : *of_b) columns[flow(m, g, b.charge())] += double(m.column_size);
  double flops = 0;
  for (const SectorMatrix& m : *of_a)
    if (const auto it = columns.find(flow(m, g, g.neutral())); it != columns.end())
      flops += 2.0 * double(m.elements()) * it->second;
  return flops;
}

namespace {

// The batch of a job becomes more rows of a and c, or more columns of b and c, where it does so in
// all jobs of these blocks: a block has one shape in all jobs, and so has its gradient.
void join_batches(std::vector<gd_block_product>& jobs, bool rows) {
  using Job = gd_block_product;
  const auto follows = [&](const Job& p) {
    return rows ? p.b_batch == 0 &&
                      (p.m == 1 || (p.a_batch == p.m * p.a_m && p.c_batch == p.m * p.c_m))
                : p.a_batch == 0 &&
                      (p.n == 1 || (p.b_batch == p.n * p.b_n && p.c_batch == p.n * p.c_n));
  };
  std::set<int64_t> apart[2];  // blocks of c, and of a or b, that keep their batch
  const auto stays = [&](const Job& p) {
    return p.batch > 1 &&
           (!follows(p) || apart[0].contains(p.c) || apart[1].contains(rows ? p.a : p.b));
  };
  for (size_t before = 1, now = 0; before != now;) {
    before = now;
    for (const Job& p : jobs)
      if (stays(p) && p.m > 0 && p.n > 0 && p.k > 0) {
        apart[0].insert(p.c);
        apart[1].insert(rows ? p.a : p.b);
      }
    now = apart[0].size() + apart[1].size();
  }
  for (Job& p : jobs) {
    if (p.batch <= 1 || stays(p)) continue;
    if (rows && p.m == 1) p.a_m = p.a_batch, p.c_m = p.c_batch;
    if (!rows && p.n == 1) p.b_n = p.b_batch, p.c_n = p.c_batch;
    (rows ? p.m : p.n) *= p.batch;
    p.batch = 1;
  }
}

PairPlan make_plan(const char* op, const BlockStructure& a, const Labels& la,
                   const BlockStructure& b, const Labels& lb, const Labels& out) {
  const Parted p = part(op, a, la, b, lb, out);
  const Symmetry& g = a.symmetry();
  for (const BlockStructure* s : {&a, &b}) refuse_odd(op, *s);
  const BlockStructure c = pair_result(op, a, la, b, lb, out);

  const auto side = [&](const BlockStructure& s, const Labels& l, const Labels& rows,
                        const Labels& columns) {
    return Side(s, {places(l, p.batch), places(l, rows), places(l, columns)});
  };
  Side A = side(a, la, p.free_a, p.summed), B = side(b, lb, p.summed, p.free_b),
       C = side(c, out, p.free_a, p.free_b);
  if (g.is_fermionic()) fermion_signs(a, la, b, lb, c, out, p, A, B, C);

  // Which matrices meet: those through whose summed legs the same charge flows.
  std::map<Flow, size_t, Before> of_a, of_b;
  for (size_t i = 0; i < A.matrices().size(); ++i)
    of_a.emplace(flow(A.matrices()[i], g, g.neutral()), i);
  for (size_t i = 0; i < B.matrices().size(); ++i)
    of_b.emplace(flow(B.matrices()[i], g, b.charge()), i);
  struct Meeting {
    size_t a, b, c;
  };
  std::vector<Meeting> meetings;
  std::vector<size_t> empty;  // matrices of c that are sums of nothing
  int64_t pairs = 0;
  for (size_t i = 0; i < C.matrices().size(); ++i) {
    const Flow f = flow(C.matrices()[i], g, b.charge());
    const auto x = of_a.find(f), y = of_b.find(f);
    if (x == of_a.end() || y == of_b.end()) {
      empty.push_back(i);
      continue;
    }
    meetings.push_back({x->second, y->second, i});
    A.want(x->second);
    B.want(y->second);
    C.want(i);
    for (const Combination& k : A.matrices()[x->second].columns)
      pairs += k.size > 0 ? int64_t(C.matrices()[i].blocks.size()) : 0;
  }

  const auto time = [&](bool by_pairs) {
    double t = 40 * double(by_pairs ? pairs : int64_t(meetings.size()));
    for (const Side* s : {&A, &B, &C})
      if (!s->lies(by_pairs)) t += s->copy_time();
    return t;
  };
  bool by_pairs = time(true) <= time(false);
  double best = std::min(time(true), time(false));
  // Free legs of one operand that the result has in two places.
  Side::Outer outer = Side::Outer::none;
  size_t first = 0;
  const auto split = [&](Side::Outer of, size_t n) {
    (of == Side::Outer::columns ? A : B).split(Side::Outer::none, 0);
    (of == Side::Outer::columns ? B : A).split(of, n);
    C.split(of, n);
  };
  if (p.batch.empty() && !(A.lies(true) && B.lies(true) && C.lies(true)))
    for (const auto& [of, n] : {std::pair(Side::Outer::rows, p.free_a.size()),
                                std::pair(Side::Outer::columns, p.free_b.size())}) {
      for (size_t k = 1; k < n; ++k) {
        split(of, k);
        double batches = 0;
        for (const Meeting& meet : meetings)
          for (size_t r = 0; r < C.matrices()[meet.c].rows.size(); ++r)
            for (size_t c = 0; c < C.matrices()[meet.c].columns.size(); ++c)
              for (const Combination& k : A.matrices()[meet.a].columns)
                batches += double(C.batch_size(meet.c, r, c)) * (k.size == 1 ? 0.2 : 1);
        if (const double t = time(true) + 30 * batches; t < best)
          best = t, by_pairs = true, outer = of, first = k;
      }
    }
  if (p.batch.empty()) split(outer, first);
  for (Side* s : {&A, &B, &C}) s->settle(by_pairs);

  std::vector<gd_block_product> jobs;
  const auto add_job = [&](bool first, const Side::Spot& x, const Side::Spot& y,
                           const Side::Spot& z, int64_t batch, int64_t m, int64_t n, int64_t k) {
    jobs.push_back({first, x.sign * y.sign * z.sign, batch, m, n, k, x.offset, x.batch, x.row,
                    x.column, y.offset, y.batch, y.row, y.column, z.offset, z.batch, z.row,
                    z.column});
  };
  for (const Meeting& meet : meetings) {
    const SectorMatrix &ma = A.matrices()[meet.a], &mb = B.matrices()[meet.b],
                       &mc = C.matrices()[meet.c];
    if (!by_pairs) {
      add_job(true, A.block(meet.a, 0, 0), B.block(meet.b, 0, 0), C.block(meet.c, 0, 0),
              mc.batch_size, mc.row_size, mc.column_size, ma.column_size);
      continue;
    }
    for (size_t r = 0; r < mc.rows.size(); ++r)
      for (size_t n = 0; n < mc.columns.size(); ++n)
        for (size_t k = 0; k < ma.columns.size(); ++k) {
          const int64_t batch = C.batch_size(meet.c, r, n), inner = std::max<int64_t>(batch, 1);
          Side::Spot x = A.block(meet.a, r, k), y = B.block(meet.b, k, n);
          if (outer == Side::Outer::rows) y.batch = 0;
          if (outer == Side::Outer::columns) x.batch = 0;
          add_job(k == 0, x, y, C.block(meet.c, r, n), batch,
                  mc.rows[r].size / (outer == Side::Outer::rows ? inner : 1),
                  mb.columns[n].size / (outer == Side::Outer::columns ? inner : 1),
                  ma.columns[k].size);
        }
  }
  if (outer != Side::Outer::none) join_batches(jobs, outer == Side::Outer::rows);
  std::vector<StridedBlock> back;  // from matrices of c to c
  if (C.copied()) {
    back = C.packed().blocks;
    for (StridedBlock& x : back) {
      std::swap(x.from, x.to);
      std::swap(x.from_strides, x.to_strides);
    }
  }
  for (const size_t i : empty)
    for (const size_t block : C.matrices()[i].blocks) {
      const int64_t n = c.size(block), at = c.offset(block);
      if (C.copied())
        back.push_back(
            {0, 0, at, c.sizes(block), Shape(c.rank(), 0), contiguous_strides(c.sizes(block))});
      else if (n > 0)
        add_job(true, {0, 0, 0, 0, 1}, {0, 0, 0, 0, 1}, {at, 0, n, 1, 1}, 1, 1, n, 0);
    }

  const auto structure = [](const Side& s, const BlockStructure& of) {
    return s.copied() ? std::nullopt : std::optional(of);
  };
  PairPlan plan{c,
                GroupedProducts(text_of(la, lb, out), C.buffer_size(), jobs,
                                A.copied() || A.wants_all(), B.copied() || B.wants_all(), true,
                                {structure(C, c), structure(A, a), structure(B, b)}),
                {},
                {},
                {},
                pairs,
                0};
  plan.flops = plan.products.flops();
  const auto packing = [](const Side& s, const BlockStructure& of) -> std::optional<BlockCopies> {
    if (!s.copied()) return {};
    return BlockCopies("pack", s.packed().blocks, {of, s.wants_all() ? Covers::all : Covers::some},
                       {s.buffer_size(), Covers::all});
  };
  plan.pack_a = packing(A, a);
  plan.pack_b = packing(B, b);
  if (C.copied())
    plan.unpack.emplace("unpack", back, BlockCopies::Side{C.buffer_size(), Covers::all},
                        BlockCopies::Side{c, Covers::all});
  return plan;
}

}  // namespace

std::shared_ptr<const PairPlan> plan_pair(const char* op, const BlockStructure& a, const Labels& la,
                                          const BlockStructure& b, const Labels& lb,
                                          const Labels& out) {
  static auto& known = *new PlanCache<PairPlan>;
  PlanKey key{int64_t(a.id()), int64_t(b.id()), int64_t(la.size()), int64_t(lb.size())};
  for (const Labels* l : {&la, &lb, &out}) key.append(l->data(), l->size());
  return known.get(key, [&] { return make_plan(op, a, la, b, lb, out); });
}

}  // namespace gradus
