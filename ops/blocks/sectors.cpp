#include "ops/blocks/sectors.hpp"

#include "ops/blocks/plan_cache.hpp"

#include <algorithm>
#include <map>

namespace gradus::inline v1 {

namespace {

struct Before {
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
  }
};

Coordinates chosen(const Coordinates& at, const Ints& axes) {
  Coordinates some;
  for (const int64_t a : axes) some.push_back(at[size_t(a)]);
  return some;
}
int64_t size_at(const BlockStructure& s, const Coordinates& at, const Ints& axes) {
  int64_t n = 1;
  for (const int64_t a : axes) n *= s.legs()[size_t(a)].sectors()[size_t(at[size_t(a)])].size;
  return n;
}

using SectorKey = SmallVector<int64_t, 8>;  // batch, then charge

// Combinations found, by their sectors.
using Found = std::map<Coordinates, Combination, Before>;
std::vector<Combination> in_a_row(Found& found, int64_t* size) {
  std::vector<Combination> all;
  *size = 0;
  for (auto& [at, c] : found) {
    c.start = *size;
    *size += c.size;
    all.push_back(c);
  }
  return all;
}
size_t place_in(const std::vector<Combination>& all, const Coordinates& at) {
  const auto it =
      std::lower_bound(all.begin(), all.end(), at,
                       [](const Combination& c, const auto& x) { return Before()(c.at, x); });
  return size_t(it - all.begin());
}

SectorMatrices make_matrices(const BlockStructure& s, const Parting& parting) {
  struct Making {
    Coordinates batch;
    Charge charge;
    Found rows, columns;
    std::vector<size_t> blocks;
  };
  std::map<SectorKey, Making, Before> making;
  for (size_t b = 0; b < s.count(); ++b) {
    const Coordinates& at = s.at(b);
    Charge q = s.symmetry().neutral();
    for (const int64_t a : parting.columns) {
      const Leg& leg = s.legs()[size_t(a)];
      s.symmetry().add(q, leg.sectors()[size_t(at[size_t(a)])].charge, leg.arrow());
    }
    const Coordinates batch = chosen(at, parting.batch);
    SectorKey key(batch.begin(), batch.end());
    key.append(q.data(), q.size());
    Making& m = making[key];
    m.batch = batch;
    m.charge = q;
    for (auto [found, axes] : {std::pair(&m.rows, &parting.rows), {&m.columns, &parting.columns}}) {
      const Coordinates here = chosen(at, *axes);
      found->try_emplace(here, Combination{here, 0, size_at(s, at, *axes)});
    }
    m.blocks.push_back(b);
  }
  SectorMatrices all;
  for (auto& [key, m] : making) {
    SectorMatrix x;
    x.batch = m.batch;
    x.charge = m.charge;
    x.rows = in_a_row(m.rows, &x.row_size);
    x.columns = in_a_row(m.columns, &x.column_size);
    x.batch_size = size_at(s, s.at(m.blocks[0]), parting.batch);
    x.blocks.resize(x.rows.size() * x.columns.size());
    for (const size_t b : m.blocks)
      x.blocks[place_in(x.rows, chosen(s.at(b), parting.rows)) * x.columns.size() +
               place_in(x.columns, chosen(s.at(b), parting.columns))] = b;
    all.push_back(std::move(x));
  }
  return all;
}

}  // namespace

size_t SectorMatrices::bytes() const {
  size_t n = 0;
  for (const SectorMatrix& m : *this)
    n += sizeof m + (m.rows.size() + m.columns.size()) * sizeof(Combination) +
         m.blocks.size() * sizeof(size_t);
  return n;
}

std::shared_ptr<const SectorMatrices> sector_matrices(const BlockStructure& s,
                                                      const Parting& parting) {
  static auto& known = *new PlanCache<SectorMatrices>;
  PlanKey key{int64_t(s.id()), int64_t(parting.batch.size()), int64_t(parting.rows.size())};
  for (const Ints* axes : {&parting.batch, &parting.rows, &parting.columns})
    key.append(axes->data(), axes->size());
  return known.get(key, [&] { return make_matrices(s, parting); });
}

std::shared_ptr<const SectorPacking> packing(const BlockStructure& s, size_t rows) {
  static auto& known = *new PlanCache<SectorPacking>;
  return known.get({int64_t(s.id()), int64_t(rows)}, [&] {
    Parting parting;
    for (size_t i = 0; i < s.rank(); ++i)
      (i < rows ? parting.rows : parting.columns).push_back(int64_t(i));
    auto matrices = sector_matrices(s, parting);
    PackedSectors p = pack(s, *matrices, parting, {}, {});
    return SectorPacking{
        std::move(matrices), p.offsets,
        BlockCopies("pack", p.blocks, {s, Covers::all}, {p.offsets.back(), Covers::all})};
  });
}

PackedSectors pack(const BlockStructure& s, const std::vector<SectorMatrix>& matrices,
                   const Parting& parting, const std::vector<char>& wanted,
                   const std::vector<int>& signs) {
  PackedSectors p;
  p.offsets.push_back(0);
  for (size_t i = 0; i < matrices.size(); ++i) {
    const SectorMatrix& m = matrices[i];
    const int64_t start = p.offsets.back();
    const bool here = wanted.empty() || wanted[i];
    p.offsets.push_back(start + (here ? m.elements() : 0));
    for (size_t r = 0; here && r < m.rows.size(); ++r)
      for (size_t c = 0; c < m.columns.size(); ++c) {
        const size_t b = m.block(r, c);
        const Shape sizes = s.sizes(b);
        StridedBlock copy{signs.empty() ? 1 : signs[b],
                          s.offset(b),
                          start + m.rows[r].start * m.column_size + m.columns[c].start,
                          sizes,
                          contiguous_strides(sizes),
                          Shape(sizes.size(), 0)};
        const auto step = [&](const Ints& axes, int64_t stride) {
          for (size_t k = axes.size(); k-- > 0; stride *= sizes[size_t(axes[k])])
            copy.to_strides[size_t(axes[k])] = stride;
        };
        step(parting.columns, 1);
        step(parting.rows, m.column_size);
        step(parting.batch, m.row_size * m.column_size);
        p.blocks.push_back(std::move(copy));
      }
  }
  return p;
}

}  // namespace gradus
