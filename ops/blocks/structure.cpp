#include "ops/blocks/structure.hpp"

#include "ops/blocks/interned.hpp"

#include <algorithm>

namespace gradus::inline v1 {

struct BlockStructure::Data {
  Symmetry symmetry;
  Legs legs;
  Charge charge;
  std::vector<Coordinates> at;
  std::vector<int64_t> offsets{0};  // of each block, then the end
  uint64_t id = 0;
};

namespace {

bool before(const Coordinates& a, const Coordinates& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

constexpr size_t kMostCharges = size_t(1) << 18;
constexpr int64_t kMany = int64_t(1) << 40;  // combinations are not counted beyond

// A sum of arrow * charge, and how many combinations of sectors have it; or a sector with its
// number.
struct Sum {
  Charge charge;
  int64_t count;
};
bool less_charge(const Sum& a, const Sum& b) { return less(a.charge, b.charge); }
using Sums = std::vector<Sum>;  // sorted by charge
auto with_charge(const Sums& sums, const Charge& q) {
  return std::equal_range(sums.begin(), sums.end(), Sum{q, 0}, less_charge);
}

// Those of the legs from `axis` on, each charge once, for each axis but the first.
std::vector<Sums> sums_from(const Symmetry& g, const Legs& legs, const char* op) {
  std::vector<Sums> sums(legs.size() + 1);
  sums.back() = {{g.neutral(), 1}};
  for (size_t axis = legs.size(); axis-- > 1;) {
    Sums& here = sums[axis];
    for (const Sector& s : legs[axis].sectors())
      for (const Sum& rest : sums[axis + 1]) {
        here.push_back(rest);
        g.add(here.back().charge, s.charge, legs[axis].arrow());
        if (here.size() > 4 * kMostCharges)
          fail(ErrorKind::memory, op, "the legs have more than ", kMostCharges, " sums of charges");
      }
    std::sort(here.begin(), here.end(), less_charge);
    size_t n = 0;
    for (const Sum& one : here)
      if (n > 0 && here[n - 1].charge == one.charge)
        here[n - 1].count = std::min(here[n - 1].count + one.count, kMany);
      else
        here[n++] = one;
    here.resize(n);
  }
  return sums;
}

// The combinations of sectors that make `charge`, in lexicographic order.
class Combinations {
 public:
  Combinations(const Symmetry& g, const Legs& legs, const Charge& charge, const char* op)
      : g_(g), legs_(legs), charge_(charge), sums_(sums_from(g, legs, op)) {
    if (legs.empty()) return;
    for (size_t i = 0; i < legs.back().count(); ++i) {
      last_.push_back({g.neutral(), int64_t(i)});
      g.add(last_.back().charge, legs.back().sectors()[i].charge, legs.back().arrow());
    }
    std::stable_sort(last_.begin(), last_.end(), less_charge);
  }
  int64_t count() const {
    if (legs_.empty()) return charge_ == g_.neutral();
    int64_t n = 0;
    for (const Sector& s : legs_[0].sectors()) {
      const auto [it, end] = with_charge(sums_[1], without(charge_, s, legs_[0]));
      if (it != end) n = std::min(n + it->count, kMany);
    }
    return n;
  }
  template <class Found>
  void each(Found&& found) const {
    Coordinates at(legs_.size(), 0);
    if (!legs_.empty())
      walk(at, 0, charge_, found);
    else if (count() == 1)
      found(at);
  }

 private:
  Charge without(Charge q, const Sector& s, const Leg& leg) const {
    g_.add(q, s.charge, -leg.arrow());
    return q;
  }
  // Leg by leg, as long as the charge that is left can be had from the legs that follow.
  template <class Found>
  void walk(Coordinates& at, size_t axis, const Charge& left, Found& found) const {
    if (axis + 1 == legs_.size()) {
      for (auto [it, end] = with_charge(last_, left); it != end; ++it) {
        at[axis] = int32_t(it->count);
        found(at);
      }
      return;
    }
    for (size_t i = 0; i < legs_[axis].count(); ++i) {
      const Charge rest = without(left, legs_[axis].sectors()[i], legs_[axis]);
      const auto [it, end] = with_charge(sums_[axis + 1], rest);
      if (it == end) continue;
      at[axis] = int32_t(i);
      walk(at, axis + 1, rest, found);
    }
  }

  const Symmetry& g_;
  const Legs& legs_;
  const Charge& charge_;
  const std::vector<Sums> sums_;
  Sums last_;  // the last leg's sectors by charge, then by number
};

const Symmetry& symmetry_of(const Legs& legs, const char* op) {
  if (legs.empty()) fail(ErrorKind::value, op, "a tensor without legs needs the symmetry's groups");
  return legs[0].symmetry();
}

}  // namespace

BlockStructure::BlockStructure(Legs legs, Charge charge, const char* op)
    : BlockStructure(symmetry_of(legs, op), legs, std::move(charge), op) {}

BlockStructure::BlockStructure(const Symmetry& symmetry, Legs legs, Charge charge, const char* op,
                               size_t most_blocks) {
  static auto& all = *new Interned<Data>;
  symmetry.check(op);
  charge = symmetry.normal(op, charge);
  InternKey key;
  for (const Leg& leg : legs) {
    if (!(leg.symmetry() == symmetry))
      fail(ErrorKind::value, op, "legs of ", symmetry.text(), " and of ", leg.symmetry().text());
    key.push_back(int64_t(leg.id()));
  }
  if (legs.empty())  // with its symmetry told by numbers below all of a leg's
    for (const Ints* list : {&symmetry.mods, &symmetry.parity}) {
      key.push_back(-1 - int64_t(list->size()));
      for (const int64_t x : *list) key.push_back(-1 - x);
    }
  key.push_back(0);
  key.insert(key.end(), charge.begin(), charge.end());
  data_ = all.get(key, [&](uint64_t id) {
    Data d;
    d.id = id;
    d.symmetry = symmetry;
    const Combinations blocks(symmetry, legs, charge, op);
    if (blocks.count() > int64_t(most_blocks))
      fail(ErrorKind::memory, op, "the legs allow more than ", most_blocks, " blocks");
    blocks.each([&](const Coordinates& at) {
      int64_t size = 1;
      for (size_t i = 0; i < at.size(); ++i)
        if (__builtin_mul_overflow(size, legs[i].sectors()[size_t(at[i])].size, &size))
          fail(ErrorKind::memory, op, "a block has more than 2^63 elements");
      if (__builtin_add_overflow(size, d.offsets.back(), &size))
        fail(ErrorKind::memory, op, "the blocks have more than 2^63 elements");
      d.at.push_back(at);
      d.offsets.push_back(size);
    });
    d.legs = std::move(legs);
    d.charge = std::move(charge);
    return d;
  });
}

const Symmetry& BlockStructure::symmetry() const { return data_->symmetry; }
const Legs& BlockStructure::legs() const { return data_->legs; }
const Charge& BlockStructure::charge() const { return data_->charge; }
size_t BlockStructure::count() const { return data_->at.size(); }
int64_t BlockStructure::elements() const { return data_->offsets.back(); }
const Coordinates& BlockStructure::at(size_t block) const { return data_->at[block]; }
int64_t BlockStructure::offset(size_t block) const { return data_->offsets[block]; }
uint64_t BlockStructure::id() const { return data_->id; }

size_t BlockStructure::bytes() const {
  return count() * (sizeof(Coordinates) + sizeof(int64_t)) + rank() * sizeof(Leg);
}

Shape BlockStructure::dense_sizes() const {
  Shape s;
  for (const Leg& leg : legs()) s.push_back(leg.size());
  return s;
}

Shape BlockStructure::sizes(size_t block) const {
  Shape s;
  const Coordinates& c = at(block);
  for (size_t i = 0; i < rank(); ++i) s.push_back(legs()[i].sectors()[size_t(c[i])].size);
  return s;
}

int64_t BlockStructure::find(const Coordinates& at) const {
  const auto& all = data_->at;
  const auto it = std::lower_bound(all.begin(), all.end(), at, before);
  return it != all.end() && *it == at ? it - all.begin() : -1;
}

std::string BlockStructure::text(int64_t first) const {
  double dense = 1;
  for (const Leg& leg : legs()) dense *= double(leg.size());
  std::string s = join(elements(), elements() == 1 ? " element of " : " elements of ", dense,
                       " in ", count(), count() == 1 ? " block" : " blocks", ", ",
                       symmetry().text(), ", charge ", to_text(charge()));
  for (size_t i = 0; i < rank(); ++i) {
    s += join("\n  leg ", first + int64_t(i), ": ", legs()[i].text());
    for (size_t k = 0; k < legs()[i].parts().size(); ++k)
      s += join(k ? " x " : "  of ", legs()[i].parts()[k].text());
  }
  return s;
}

std::string BlockStructure::brief() const {
  constexpr size_t kMostShown = 5;
  std::string s;
  for (const Leg& leg : legs()) {
    s += leg.arrow() > 0 ? "+ {" : "- {";
    if (leg.count() > kMostShown)
      s += join(leg.size(), " in ", leg.count(), " sectors");
    else
      for (size_t i = 0; i < leg.count(); ++i)
        s += join(i ? ", " : "", to_text(leg.sectors()[i].charge), ": ", leg.sectors()[i].size);
    s += "} ";
  }
  if (!s.empty()) s.replace(s.size() - 1, 1, ", ");
  return s + join(count(), count() == 1 ? " block" : " blocks");
}

Charge charge_at(const BlockStructure& s, const Coordinates& at) {
  Charge q = s.symmetry().neutral();
  for (size_t i = 0; i < at.size(); ++i)
    s.symmetry().add(q, s.legs()[i].sectors()[size_t(at[i])].charge, s.legs()[i].arrow());
  return q;
}

}  // namespace gradus
