#include "ops/blocks/factors.hpp"

#include "engine/arithmetic.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/shape.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/blocks/moves.hpp"
#include "ops/blocks/sectors.hpp"
#include "ops/linalg/matrices.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/shape/creation.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace gradus::inline v1 {

namespace {

// The matrix m of s, as it lies or as a map: of fermions einsum applies its columns, whose first
// leg is `rows`, with signs. Either is the other one's.
Tensor as_map(const BlockStructure& s, const SectorMatrix& m, size_t rows, const Tensor& matrix) {
  if (!s.symmetry().is_fermionic() || matrix.numel() == 0) return matrix;
  const Legs columns(s.legs().begin() + int64_t(rows), s.legs().end());
  std::vector<double> signs(size_t(m.column_size), 1);
  for (const Combination& c : m.columns)
    if (turning_sign(columns, c.at, 0, columns.size(), 1) < 0)
      std::fill_n(signs.begin() + c.start, c.size, -1.0);
  if (std::find(signs.begin(), signs.end(), -1.0) == signs.end()) return matrix;
  return mul(matrix, cast(Tensor::from(signs, {m.column_size}, matrix.device()), matrix.dtype()));
}

enum class Taken { as_it_lies, as_a_map };

// A tensor whose first axes are the rows, as matrices.
class Matrices {
 public:
  Matrices(const char* op, const BlockTensor& x, const Ints& left, Taken taken = Taken::as_it_lies)
      : rows(left.size()) {
    Ints order;
    for (const int64_t d : left) {
      order.push_back(normal_axis(op, d, int64_t(x.rank())));
      for (size_t i = 0; i + 1 < order.size(); ++i)
        if (order[i] == order.back()) fail(ErrorKind::value, op, "axis ", d, " is named twice");
    }
    for (size_t i = 0; i < x.rank(); ++i)
      if (std::find(order.begin(), order.end(), int64_t(i)) == order.end())
        order.push_back(int64_t(i));
    tensor = permute(x, order, Crossing::signs);
    const auto packed = packing(tensor->structure, rows);
    all = *packed->matrices;
    const Tensor buffer = packed->copies(tensor->data);
    for (size_t i = 0; i < all.size(); ++i)
      matrices.push_back(reshape(slice(buffer, 0, packed->offsets[i], packed->offsets[i + 1]),
                                 {all[i].row_size, all[i].column_size}));
    for (size_t i = 0; i < all.size() && taken == Taken::as_a_map; ++i)
      matrices[i] = as_map(structure(), all[i], rows, matrices[i]);
  }
  const BlockStructure& structure() const { return tensor->structure; }
  // Sum over the rows' legs of arrow * charge in matrix i.
  Charge row_charge(size_t i) const {
    Charge q = structure().charge();
    structure().symmetry().add(q, all[i].charge, -1);
    return q;
  }
  Legs row_legs() const {
    return {structure().legs().begin(), structure().legs().begin() + int64_t(rows)};
  }
  Legs column_legs() const {
    return {structure().legs().begin() + int64_t(rows), structure().legs().end()};
  }

  size_t rows;
  std::optional<BlockTensor> tensor;
  SectorMatrices all;
  Tensors matrices;
};

// The tensor of these legs whose matrix with column charge q is matrix_of(q): all are there.
// `like` has its dtype and device, and its history where nothing else has one.
template <class MatrixOf>
BlockTensor assembled(const Symmetry& symmetry, const Legs& legs, const Charge& charge, size_t rows,
                      const Tensor& like, Taken taken, MatrixOf&& matrix_of) {
  const BlockStructure s(symmetry, legs, charge);
  const auto packed = packing(s, rows);
  Tensors parts{slice(like, 0, 0, 0)};
  for (const SectorMatrix& m : *packed->matrices) {
    const Tensor matrix = matrix_of(m);
    parts.push_back(reshape(taken == Taken::as_a_map ? as_map(s, m, rows, matrix) : matrix, {-1}));
  }
  return {packed->copies.transposed(cat(parts, 0)), s};
}

// What a sector gives: factors of its matrix, by the new leg's charge.
struct Factored {
  Charge charge;
  Tensor left, values, right;
  int64_t kept = 0;
};

bool by_charge(const Factored& a, const Factored& b) { return less(a.charge, b.charge); }

const Factored& of_charge(const std::vector<Factored>& all, const Charge& q) {
  const auto it =
      std::lower_bound(all.begin(), all.end(), q,
                       [](const Factored& f, const Charge& c) { return less(f.charge, c); });
  return *it;
}

// The charge of the new leg where that of the rows' legs is q.
Charge bond_charge(const char* op, const Matrices& m, TakesCharge takes, size_t i) {
  const Symmetry& g = m.structure().symmetry();
  const Charge& total = m.structure().charge();
  if (!(total == g.neutral()) && takes == TakesCharge::none)
    fail(ErrorKind::value, op, "the tensor has charge ", to_text(total),
         "; say which factor takes it, left or right");
  Charge q = m.row_charge(i);
  if (takes == TakesCharge::left) g.add(q, total, -1);
  return q;
}

// How many values each sector keeps.
double cut(const Symmetry& g, std::vector<Factored>& all, const Truncation& t) {
  if (!(t.atol >= 0) || !(t.rtol >= 0) || t.rank < 0 || t.least < 0)
    fail(ErrorKind::value, "svd", "a cut by rank ", t.rank, ", atol ", t.atol, ", rtol ", t.rtol,
         " and least ", t.least, "; none may be negative");
  if (!t.sizes.empty()) {
    if (t.rank > 0 || t.atol > 0 || t.rtol > 0 || t.least > 0)
      fail(ErrorKind::value, "svd",
           "sizes say all of the cut; rank, atol, rtol and least are not "
           "for beside them");
    for (Factored& f : all) f.kept = 0;
    for (const Sector& given : t.sizes) {
      const Charge q = g.normal("svd", given.charge);
      const auto it =
          std::find_if(all.begin(), all.end(), [&](const Factored& f) { return f.charge == q; });
      if (it == all.end() || given.size < 0 || given.size > it->values.numel() || it->kept > 0)
        fail(ErrorKind::value, "svd", "sizes ask for ", given.size, " values of charge ",
             to_text(q),
             it == all.end() ? ", a charge that the new leg has not"
             : it->kept > 0  ? ", named twice"
                             : join(", which has ", it->values.numel()).c_str());
      it->kept = given.size;
    }
    return std::nan("");  // not read from the device
  }
  if (t.rank <= 0 && t.atol <= 0 && t.rtol <= 0) return 0;
  struct Value {
    double value;
    size_t sector;
    int64_t place;
  };
  std::vector<Value> values;
  for (size_t i = 0; i < all.size(); ++i) {
    const std::vector<double> s = cast(all[i].values.detach(), DType::f64).to_vector<double>();
    for (size_t k = 0; k < s.size(); ++k) values.push_back({s[k], i, int64_t(k)});
  }
  std::stable_sort(values.begin(), values.end(),
                   [](const Value& a, const Value& b) { return a.value > b.value; });
  if (values.empty()) return 0;
  const double tie = 64 * linalg::epsilon(all[0].values.dtype()) * values[0].value,
               least = std::max(t.atol, t.rtol * values[0].value);
  size_t keep = t.rank > 0 ? std::min(size_t(t.rank), values.size()) : values.size();
  const bool below = t.atol > 0 || t.rtol > 0;
  while (keep > 0 && below && !(values[keep - 1].value > least)) --keep;
  // Values as small as rounding errors are no multiplet.
  if (t.whole_multiplets && keep > 0)
    for (const double edge = values[keep - 1].value; keep < values.size() &&
                                                     values[keep].value > std::max(least, tie) &&
                                                     edge - values[keep].value <= tie;)
      ++keep;
  double discarded = 0;
  for (Factored& f : all) f.kept = std::min(t.least, f.values.numel());
  for (size_t i = 0; i < keep; ++i)
    all[values[i].sector].kept = std::max(all[values[i].sector].kept, values[i].place + 1);
  for (const Value& v : values)
    if (v.place >= all[v.sector].kept) discarded += v.value * v.value;
  return discarded;
}

// Factors put together, with the first `kept` columns and rows of each.
BlockFactors joined(const char* op, const Matrices& m, std::vector<Factored> all, TakesCharge takes,
                    double discarded, Taken taken = Taken::as_it_lies) {
  const BlockStructure& s = m.structure();
  const Symmetry& g = s.symmetry();
  std::sort(all.begin(), all.end(), by_charge);
  std::vector<Sector> sectors;
  Tensors values;
  for (const Factored& f : all) {
    if (f.kept == 0) continue;
    sectors.push_back({f.charge, f.kept});
    if (f.values.defined()) values.push_back(slice(f.values, 0, 0, f.kept));
  }
  const Leg bond(g, 1, sectors, op);
  const Tensor& like = m.tensor->data;
  Legs left = m.row_legs(), right = m.column_legs();
  left.push_back(bond.reversed());
  right.insert(right.begin(), bond);
  const Charge none = g.neutral();
  const bool to_left = takes == TakesCharge::left;
  BlockTensor l = assembled(g, left, to_left ? s.charge() : none, m.rows, like, taken,
                            [&](const SectorMatrix& x) {
                              Charge q = none;  // columns: the new leg, turned
                              g.add(q, x.charge, -1);
                              const Factored& f = of_charge(all, q);
                              return slice(f.left, 1, 0, f.kept);
                            });
  BlockTensor r =
      assembled(g, right, to_left ? none : s.charge(), 1, like, taken, [&](const SectorMatrix& x) {
        Charge q = to_left ? none : s.charge();
        g.add(q, x.charge, -1);
        const Factored& f = of_charge(all, q);
        return slice(f.right, 0, 0, f.kept);
      });
  Tensor w =
      values.empty() ? cast(real(slice(like, 0, 0, 0)), real_dtype(like.dtype())) : cat(values, 0);
  return {std::move(l), std::move(w), std::move(r), bond, discarded};
}

bool is_empty(const Tensor& x) { return x.numel() == 0; }

}  // namespace

BlockFactors svd(const BlockTensor& x, const Ints& left, const Truncation& t, TakesCharge takes,
                 Degenerate degenerate) {
  const Matrices m("svd", x, left);
  std::vector<Factored> all;
  for (size_t i = 0; i < m.all.size(); ++i) {
    if (is_empty(m.matrices[i])) continue;
    const Tensors f = svd(m.matrices[i], false, degenerate);
    all.push_back({bond_charge("svd", m, takes, i), f[0], f[1], f[2], f[1].numel()});
  }
  std::sort(all.begin(), all.end(), by_charge);
  const double discarded = cut(m.structure().symmetry(), all, t);
  return joined("svd", m, std::move(all), takes, discarded);
}

BlockFactors qr(const BlockTensor& x, const Ints& left, bool positive, TakesCharge takes) {
  const Matrices m("qr", x, left);
  std::vector<Factored> all;
  for (size_t i = 0; i < m.all.size(); ++i) {
    if (is_empty(m.matrices[i])) continue;
    const Tensors f = qr(m.matrices[i], "reduced", positive);
    all.push_back({bond_charge("qr", m, takes, i), f[0], {}, f[1], f[0].size(1)});
  }
  return joined("qr", m, std::move(all), takes, 0);
}

namespace {

// How many indices some legs have together of each charge, by arrow * charge.
using Space = std::map<Charge, int64_t, decltype(&less)>;
Space space_of(const Symmetry& g, const Legs& legs) {
  Space space(&less);
  if (legs.empty()) {
    space[g.neutral()] = 1;
    return space;
  }
  const std::vector<Sector> sectors =
      legs.size() > 1 ? Leg::fused(legs, 1).sectors() : legs[0].sectors();
  for (const Sector& s : sectors) {
    Charge q = g.neutral();
    g.add(q, s.charge, legs.size() > 1 ? 1 : legs[0].arrow());
    if (s.size > 0) space[q] += s.size;
  }
  return space;
}

// Has each sector of the map as many rows as columns? Error(shape) if rows and columns are not
// equally many in all; `singular` if they are.
bool is_square(const char* op, const Matrices& m) {
  const Symmetry& g = m.structure().symmetry();
  Space rows = space_of(g, m.row_legs()), columns(&less);
  int64_t row_size = 0, column_size = 0;
  for (const auto& [q, n] : space_of(g, m.column_legs())) {
    Charge other = m.structure().charge();
    g.add(other, q, -1);
    columns[other] = n;
    column_size += n;
    rows.try_emplace(other, 0);
  }
  for (const auto& [q, n] : rows) row_size += n;
  for (const auto& [q, n] : rows) {
    const auto it = columns.find(q);
    const int64_t c = it == columns.end() ? 0 : it->second;
    if (n == c) continue;
    if (row_size == column_size) return false;
    fail(ErrorKind::shape, op, "the matrix of sector ", to_text(q), " has ", n, " rows and ", c,
         " columns; expected square ones");
  }
  return true;
}
void check_neutral(const char* op, const Matrices& m) {
  if (!(m.structure().charge() == m.structure().symmetry().neutral()))
    fail(ErrorKind::value, op, "the map has charge ", to_text(m.structure().charge()),
         ", expected 0");
}

}  // namespace

BlockFactors eigh(const BlockTensor& x, const Ints& left, Degenerate degenerate) {
  const Matrices m("eigh", x, left, Taken::as_a_map);
  check_neutral("eigh", m);
  const Legs rows = m.row_legs(), columns = m.column_legs();
  if (rows.size() != columns.size())
    fail(ErrorKind::shape, "eigh", rows.size(), " legs of rows and ", columns.size(),
         " of columns");
  for (size_t i = 0; i < rows.size(); ++i)
    check_joins("eigh", join("leg ", i, " of the rows and of the columns"), rows[i], columns[i]);
  std::vector<Factored> all;
  for (size_t i = 0; i < m.all.size(); ++i) {
    if (is_empty(m.matrices[i])) continue;
    const Tensors f = eigh(m.matrices[i], degenerate);
    all.push_back({bond_charge("eigh", m, TakesCharge::none, i), f[1], f[0], linalg::adjoint(f[1]),
                   f[0].numel()});
  }
  return joined("eigh", m, std::move(all), TakesCharge::none, 0, Taken::as_a_map);
}

namespace {

// The map whose rows are m's columns, turned, and whose columns are m's rows, turned;
// matrix_of(i) is its matrix where m has matrix i.
template <class MatrixOf>
BlockTensor turned(const char* op, const Matrices& m, MatrixOf&& matrix_of) {
  refuse_odd(op, m.structure());
  const Symmetry& g = m.structure().symmetry();
  Legs legs;
  for (const Legs& side : {m.column_legs(), m.row_legs()})
    for (const Leg& leg : side) legs.push_back(leg.reversed());
  Charge charge = g.neutral();
  g.add(charge, m.structure().charge(), -1);
  return assembled(g, legs, charge, m.structure().rank() - m.rows, m.tensor->data, Taken::as_a_map,
                   [&](const SectorMatrix& y) {
                     for (size_t i = 0; i < m.all.size(); ++i) {
                       Charge q = m.row_charge(i);
                       g.add(q, y.charge, 1);
                       if (q == g.neutral()) return matrix_of(i);
                     }
                     fail(ErrorKind::numeric, op, "sector ", to_text(y.charge),
                          " has no matrix: the map is singular");
                   });
}

}  // namespace

BlockTensor adjoint(const BlockTensor& x, const Ints& left) {
  const Matrices m("adjoint", x, left, Taken::as_a_map);
  return turned("adjoint", m, [&](size_t i) { return linalg::adjoint(m.matrices[i]); });
}

BlockTensor inv(const BlockTensor& x, const Ints& left) {
  const Matrices m("inv", x, left, Taken::as_a_map);
  if (!is_square("inv", m))
    fail(ErrorKind::numeric, "inv",
         "a sector has more rows than columns, another fewer: the map is "
         "singular");
  return turned("inv", m, [&](size_t i) { return inv(m.matrices[i]); });
}

Tensor det(const BlockTensor& x, const Ints& left) {
  const Matrices m("det", x, left, Taken::as_a_map);
  const bool square = is_square("det", m);
  check_neutral("det", m);
  if (!square) return sum(slice(m.tensor->data, 0, 0, 0));
  Tensor product = Tensor::full({}, 1, m.tensor->data.dtype(), m.tensor->data.device());
  for (const Tensor& a : m.matrices)
    if (!is_empty(a)) product = mul(product, det(a));
  return product;
}

BlockTensor solve(const BlockTensor& a, const Ints& left, const BlockTensor& b) {
  const BlockTensor inverse = inv(a, left);
  const size_t rows = left.size(), columns = a.rank() - rows;
  if (b.rank() < rows)
    fail(ErrorKind::shape, "solve", "b has ", b.rank(), " legs, the rows of the map ", rows);
  Labels of_inverse, of_b, out;
  for (size_t i = 0; i < columns + rows; ++i) of_inverse.push_back(int64_t(i));
  for (size_t i = 0; i < columns; ++i) out.push_back(int64_t(i));
  for (size_t i = 0; i < b.rank(); ++i) of_b.push_back(int64_t(columns + i));
  for (size_t i = rows; i < b.rank(); ++i) out.push_back(int64_t(columns + i));
  return contract(inverse, of_inverse, b, of_b, out);
}

}  // namespace gradus
