#include "ops/blocks/leg.hpp"

#include "ops/blocks/interned.hpp"

#include <algorithm>
#include <map>

namespace gradus::inline v1 {

struct Leg::Data {
  Symmetry symmetry;
  int arrow = 1;
  std::vector<Sector> sectors;
  std::vector<Leg> parts;
  std::vector<Place> places;
  std::vector<int64_t> starts;  // of each sector, then the end
  std::vector<char> odd;
  uint64_t id = 0;
};

Leg Leg::interned(Data data) {
  static auto& all = *new Interned<Data>;
  InternKey key{data.arrow};
  for (const Ints* list : {&data.symmetry.mods, &data.symmetry.parity}) {
    key.push_back(int64_t(list->size()));
    key.insert(key.end(), list->begin(), list->end());
  }
  for (const Sector& s : data.sectors) {
    key.push_back(s.size);
    key.insert(key.end(), s.charge.begin(), s.charge.end());
  }
  for (const Leg& p : data.parts) key.push_back(int64_t(p.id()));
  return Leg(all.get(key, [&](uint64_t id) {
    data.id = id;
    for (const Sector& s : data.sectors) {
      data.starts.push_back(data.starts.empty() ? 0 : data.starts.back() + (&s)[-1].size);
      data.odd.push_back(data.symmetry.is_odd(s.charge));
    }
    data.starts.push_back(data.sectors.empty() ? 0 : data.starts.back() + data.sectors.back().size);
    return std::move(data);
  }));
}

namespace {
int checked_arrow(int arrow, const char* op) {
  if (arrow != 1 && arrow != -1)
    fail(ErrorKind::value, op, "an arrow is 1 (charges count as they are) or -1, got ", arrow);
  return arrow;
}
}  // namespace

Leg::Leg(const Symmetry& symmetry, int arrow, std::vector<Sector> sectors, const char* op) {
  symmetry.check(op);
  int64_t size = 0;
  for (Sector& s : sectors) {
    s.charge = symmetry.normal(op, s.charge);
    if (s.size < 0 || __builtin_add_overflow(size, s.size, &size))
      fail(ErrorKind::value, op, "sector ", to_text(s.charge), " has size ", s.size);
  }
  Data d;
  d.symmetry = symmetry;
  d.arrow = checked_arrow(arrow, op);
  d.sectors = std::move(sectors);
  *this = interned(std::move(d));
}

Leg Leg::fused(const std::vector<Leg>& parts, int arrow, const char* op) {
  if (parts.size() < 2)
    fail(ErrorKind::value, op, "two legs or more are fused, got ", parts.size());
  Data d;
  d.symmetry = parts[0].symmetry();
  d.arrow = checked_arrow(arrow, op);
  d.parts = parts;
  for (const Leg& p : parts)
    if (!(p.symmetry() == d.symmetry))
      fail(ErrorKind::value, op, "legs of ", d.symmetry.text(), " and of ", p.symmetry().text());
  const auto before = [](const Charge& a, const Charge& b) { return less(a, b); };
  std::map<Charge, int64_t, decltype(before)> sizes(before);
  std::vector<Charge> charges;  // of each combination
  std::vector<size_t> at(parts.size(), 0);
  constexpr double kMost = 1 << 22;
  double all = 1;
  for (const Leg& p : parts) all *= double(p.count());
  if (all > kMost)
    fail(ErrorKind::memory, op, "the legs have ", all, " combinations of sectors, at most ", kMost,
         " can be fused");
  const bool none =
      std::any_of(parts.begin(), parts.end(), [](const Leg& p) { return !p.count(); });
  while (!none) {
    Charge q = d.symmetry.neutral();
    int64_t size = 1;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Sector& s = parts[i].sectors()[at[i]];
      d.symmetry.add(q, s.charge, arrow * parts[i].arrow());
      size *= s.size;
    }
    int64_t& sum = sizes[q];
    d.places.push_back({0, sum, size});
    charges.push_back(q);
    sum += size;
    size_t i = parts.size();
    while (i > 0 && ++at[i - 1] == parts[i - 1].count()) at[--i] = 0;
    if (i == 0) break;
  }
  for (const auto& [q, size] : sizes) d.sectors.push_back({q, size});
  for (size_t i = 0; i < charges.size(); ++i)
    d.places[i].sector = size_t(std::distance(sizes.begin(), sizes.find(charges[i])));
  return interned(std::move(d));
}

const Symmetry& Leg::symmetry() const { return data_->symmetry; }
int Leg::arrow() const { return data_->arrow; }
const std::vector<Sector>& Leg::sectors() const { return data_->sectors; }
int64_t Leg::size() const { return data_->starts.back(); }
int64_t Leg::start(size_t sector) const { return data_->starts[sector]; }
const std::vector<Leg>& Leg::parts() const { return data_->parts; }
const std::vector<Leg::Place>& Leg::places() const { return data_->places; }
bool Leg::odd(size_t sector) const { return data_->odd[sector]; }
uint64_t Leg::id() const { return data_->id; }

bool Leg::is_neutral() const {
  return std::all_of(sectors().begin(), sectors().end(), [](const Sector& s) {
    return std::all_of(s.charge.begin(), s.charge.end(), [](int64_t q) { return q == 0; });
  });
}

Leg Leg::reversed() const {
  Data d;
  d.symmetry = symmetry();
  d.arrow = -arrow();
  d.sectors = sectors();
  d.places = places();
  for (const Leg& p : parts()) d.parts.push_back(p.reversed());
  return interned(std::move(d));
}

namespace {
// The first sector that differs; both counts if none does.
size_t first_difference(const Leg& a, const Leg& b) {
  size_t i = 0;
  while (i < a.count() && i < b.count() && a.sectors()[i].charge == b.sectors()[i].charge &&
         a.sectors()[i].size == b.sectors()[i].size)
    ++i;
  return i;
}
std::string sector_text(const Leg& leg, size_t i) {
  if (i >= leg.count()) return "nothing";
  return join(to_text(leg.sectors()[i].charge), " of size ", leg.sectors()[i].size);
}
}  // namespace

bool Leg::has_sectors_of(const Leg& o) const {
  if (data_ == o.data_) return true;
  return symmetry() == o.symmetry() && count() == o.count() &&
         first_difference(*this, o) == count();
}

std::string Leg::text() const {
  std::string s = arrow() > 0 ? "+ {" : "- {";
  for (size_t i = 0; i < count(); ++i)
    s += join(i ? ", " : "", to_text(sectors()[i].charge), ": ", sectors()[i].size);
  return s + "}";
}

void check_joins(const char* op, const std::string& label, const Leg& a, const Leg& b) {
  const auto arrow = [](const Leg& x) { return x.arrow() > 0 ? "+1" : "-1"; };
  if (!(a.symmetry() == b.symmetry()))
    fail(ErrorKind::value, op, label, " is a leg of ", a.symmetry().text(), " and one of ",
         b.symmetry().text());
  if (a.arrow() == b.arrow())
    fail(ErrorKind::value, op, label, " has arrows ", arrow(a), " and ", arrow(b),
         "; legs that are summed over have opposite ones (conj turns them)");
  if (!a.has_sectors_of(b)) {
    const size_t i = first_difference(a, b);
    fail(ErrorKind::shape, op, label, ": sector ", i, " is ", sector_text(a, i), " and ",
         sector_text(b, i), " (charges, sizes and their order must be equal)");
  }
}

}  // namespace gradus
