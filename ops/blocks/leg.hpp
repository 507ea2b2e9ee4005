// Leg: an axis of a tensor with a symmetry: sectors (charge, size) in the order in which they lie
// along the axis, and an arrow. A charge may stand twice, a size may be 0. Legs are interned: equal
// ones are the same object, so that a comparison is one of pointers. Threads: any.
#pragma once
#include "ops/blocks/symmetry.hpp"

#include <memory>
#include <span>
#include <vector>

namespace gradus::inline v1 {

struct Sector {
  Charge charge;
  int64_t size;
};

class Leg {
 public:
  // arrow: 1 or -1. Error(value) of `op` for another one, for negative sizes, for charges that do
  // not fit.
  Leg(const Symmetry& symmetry, int arrow, std::vector<Sector> sectors, const char* op = "leg");
  // Two or more legs as one: its sectors are the sums of theirs, turned to `arrow`, sorted; within
  // a sector they stand in lexicographic order.
  static Leg fused(const std::vector<Leg>& parts, int arrow, const char* op = "fuse");

  const Symmetry& symmetry() const;
  int arrow() const;
  const std::vector<Sector>& sectors() const;
  size_t count() const { return sectors().size(); }
  int64_t size() const;                   // of all sectors
  int64_t start(size_t sector) const;     // along the axis
  const std::vector<Leg>& parts() const;  // of a fused one
  bool odd(size_t sector) const;
  bool is_neutral() const;  // all charges are 0
  Leg reversed() const;     // its parts, too
  uint64_t id() const;      // never given twice
  // The sectors alone are equal.
  bool has_sectors_of(const Leg& o) const;
  friend bool operator==(const Leg& a, const Leg& b) { return a.data_ == b.data_; }
  std::string text() const;  // "+ {-1: 2, 0: 3}"

  // Where a combination of the parts' sectors lies in a fused leg.
  struct Place {
    size_t sector;
    int64_t start, size;
  };
  // In lexicographic order of the combinations.
  const std::vector<Place>& places() const;

 private:
  struct Data;
  explicit Leg(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  static Leg interned(Data data);
  std::shared_ptr<const Data> data_;
};

std::string parts_text(const Leg& leg);  // "+ {0: 1} x - {1: 2}"
// Can two legs be summed over? Error of `op` else: names `label`, and both arrows, or both groups,
// or the first sector that differs, or what they were fused of. Arrows of neutral legs are free.
void check_joins(const char* op, const std::string& label, const Leg& a, const Leg& b);

}  // namespace gradus
