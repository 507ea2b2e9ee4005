// What moves blocks about: permute, fuse, split, slice, trace, sum, conj. Each is one block_copy.
#include "ops/base/dtypes.hpp"
#include "ops/base/shape.hpp"
#include "ops/blocks/block_tensor.hpp"
#include "ops/blocks/moves.hpp"
#include "ops/pointwise/pointwise.hpp"

#include <algorithm>

namespace gradus::inline v1 {

int crossing_sign(const Legs& legs, const Coordinates& at, const Ints& order) {
  int sign = 1;
  for (size_t i = 0; i < order.size(); ++i)
    for (size_t j = i + 1; j < order.size(); ++j)
      if (order[i] > order[j] && legs[size_t(order[i])].odd(size_t(at[size_t(order[i])])) &&
          legs[size_t(order[j])].odd(size_t(at[size_t(order[j])])))
        sign = -sign;
  return sign;
}

namespace {

// Block by block to a block of `to`: place(b, &copy) says which, or -1; `copy` comes with the
// source's offset, sizes and strides.
template <class Place>
std::vector<StridedBlock> copies_of(const BlockStructure& s, Place&& place) {
  std::vector<StridedBlock> list;
  for (size_t b = 0; b < s.count(); ++b) {
    const Shape sizes = s.sizes(b);
    StridedBlock copy{1, s.offset(b), 0, sizes, contiguous_strides(sizes), {}};
    if (place(b, copy)) list.push_back(std::move(copy));
  }
  return list;
}

size_t axis_of(const char* op, const BlockTensor& x, int64_t dim) {
  return size_t(normal_axis(op, dim, int64_t(x.rank())));
}

}  // namespace

BlockTensor permute(const BlockTensor& x, const Ints& dims, Crossing crossing) {
  const BlockStructure& s = x.structure;
  Ints order;
  for (const int64_t d : dims) order.push_back(normal_axis("permute", d, int64_t(s.rank())));
  Ints sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size() || i < s.rank(); ++i)
    if (sorted.size() != s.rank() || sorted[i] != int64_t(i))
      fail(ErrorKind::value, "permute", "dims ", Shape(dims), " are not the ", s.rank(),
           " axes in some order");
  if (std::is_sorted(order.begin(), order.end())) return x;
  const MovedRef move = moves("permute", s, order, [&] {
    Legs legs;
    for (const int64_t d : order) legs.push_back(s.legs()[size_t(d)]);
    const BlockStructure to(s.symmetry(), legs, s.charge());
    std::vector<StridedBlock> list = copies_of(s, [&](size_t b, StridedBlock& copy) {
      Coordinates at;
      Shape strides(s.rank(), 0);
      for (const int64_t d : order) at.push_back(s.at(b)[size_t(d)]);
      const auto target = size_t(to.find(at));
      const Shape there = contiguous_strides(to.sizes(target));
      for (size_t i = 0; i < order.size(); ++i) strides[size_t(order[i])] = there[i];
      copy.sign = crossing_sign(s.legs(), s.at(b), order);
      copy.to = to.offset(target);
      copy.to_strides = strides;
      return true;
    });
    return Moved{to, BlockCopies("permute", list, {s, Covers::all}, {to, Covers::all})};
  });
  if (s.symmetry().is_fermionic() && crossing == Crossing::refuse)
    for (size_t b = 0; b < s.count(); ++b)
      if (crossing_sign(s.legs(), s.at(b), order) < 0)
        fail(ErrorKind::value, "permute", "a sign is needed: in block ", b,
             " odd legs of the fermionic tensor cross; ask for the signs (Crossing::signs)");
  return {move->copies(x.data), move->structure};
}

void refuse_odd(const char* op, const BlockStructure& s) {
  if (s.symmetry().is_fermionic() && s.symmetry().is_odd(s.charge()))
    fail(ErrorKind::value, op, "a fermionic tensor has the odd charge ", to_text(s.charge()),
         "; give it a leg of size 1 with that charge, so that it is even");
}

int turning_sign(const Legs& legs, const Coordinates& at, size_t first, size_t n, int arrow) {
  Ints reversed;
  int sign = 1;
  for (size_t i = first + n; i-- > first;) {
    reversed.push_back(int64_t(i));
    if (legs[i].arrow() == arrow && legs[i].odd(size_t(at[i]))) sign = -sign;
  }
  return sign * crossing_sign(legs, at, reversed);
}

namespace {

// Axes first .. first + n - 1 of s as one.
MovedRef fusion(const BlockStructure& s, size_t first, size_t n, int arrow) {
  return moves("fuse", s, {int64_t(first), int64_t(n), arrow}, [&] {
    const auto begin = s.legs().begin() + int64_t(first), end = begin + int64_t(n);
    const Legs parts(begin, end);
    const Leg leg = Leg::fused(parts, arrow);
    Legs legs(s.legs().begin(), begin);
    legs.push_back(leg);
    legs.insert(legs.end(), end, s.legs().end());
    const BlockStructure to(s.symmetry(), legs, s.charge());
    const auto list = copies_of(s, [&](size_t b, StridedBlock& copy) {
      const Coordinates& from = s.at(b);
      size_t place = 0;
      for (size_t i = 0; i < n; ++i) place = place * parts[i].count() + size_t(from[first + i]);
      const Leg::Place& in_leg = leg.places()[place];
      Coordinates at(from.begin(), from.begin() + first);
      at.push_back(int32_t(in_leg.sector));
      at.append(from.begin() + first + n, s.rank() - first - n);
      const auto target = size_t(to.find(at));
      const Shape there = contiguous_strides(to.sizes(target));
      copy.to = to.offset(target) + in_leg.start * there[first];
      copy.to_strides.append(there.data(), first);
      const Shape inner =
          contiguous_strides(Shape(copy.sizes.begin() + first, copy.sizes.begin() + first + n));
      for (const int64_t stride : inner) copy.to_strides.push_back(stride * there[first]);
      copy.to_strides.append(there.data() + first + 1, there.size() - first - 1);
      if (arrow > 0) copy.sign = turning_sign(s.legs(), from, first, n, -1);
      return true;
    });
    return Moved{to, BlockCopies("fuse", list, {s, Covers::all}, {to, Covers::all})};
  });
}

}  // namespace

BlockTensor conj(const BlockTensor& x) {
  const BlockStructure& s = x.structure;
  Legs legs;
  for (const Leg& leg : s.legs()) legs.push_back(leg.reversed());
  Charge charge = s.symmetry().neutral();
  s.symmetry().add(charge, s.charge(), -1);
  const BlockStructure to(s.symmetry(), legs, charge);
  const Tensor y = is_complex(x.data.dtype()) ? conj(x.data) : x.data;
  if (!s.symmetry().is_fermionic()) return {y, to};
  refuse_odd("conj", s);
  const MovedRef move = moves("conj", s, {}, [&] {
    const auto list = copies_of(s, [&](size_t b, StridedBlock& copy) {
      copy.sign = turning_sign(s.legs(), s.at(b), 0, s.rank(), -1);
      copy.to = copy.from;
      copy.to_strides = copy.from_strides;
      return true;
    });
    return Moved{to, BlockCopies("conj", list, {s, Covers::all}, {to, Covers::all})};
  });
  return {move->copies(y), to};
}

BlockTensor twist(const BlockTensor& x, const Ints& dims) {
  const BlockStructure& s = x.structure;
  Ints axes;
  for (const int64_t d : dims) axes.push_back(int64_t(axis_of("twist", x, d)));
  if (!s.symmetry().is_fermionic() || axes.empty()) return x;
  const MovedRef move = moves("twist", s, axes, [&] {
    const auto list = copies_of(s, [&](size_t b, StridedBlock& copy) {
      for (const int64_t axis : axes)
        if (s.legs()[size_t(axis)].odd(size_t(s.at(b)[size_t(axis)]))) copy.sign = -copy.sign;
      copy.to = copy.from;
      copy.to_strides = copy.from_strides;
      return true;
    });
    return Moved{s, BlockCopies("twist", list, {s, Covers::all}, {s, Covers::all})};
  });
  return with_data(x, move->copies(x.data));
}

BlockTensor fuse(const BlockTensor& x, int64_t dim, int64_t n, int arrow) {
  const size_t first = axis_of("fuse", x, dim);
  if (n < 2 || first + size_t(n) > x.rank())
    fail(ErrorKind::value, "fuse", "axes ", first, " to ", int64_t(first) + n - 1,
         " of a tensor with ", x.rank(), " legs; two neighbours or more are fused");
  const MovedRef move = fusion(x.structure, first, size_t(n), arrow);
  return {move->copies(x.data), move->structure};
}

BlockTensor split(const BlockTensor& x, int64_t dim) {
  const BlockStructure& s = x.structure;
  const size_t axis = axis_of("split", x, dim);
  const Leg& leg = s.legs()[axis];
  if (leg.parts().empty())
    fail(ErrorKind::value, "split", "leg ", axis, " (", leg.text(), ") was not fused of others");
  Legs legs(s.legs().begin(), s.legs().begin() + int64_t(axis));
  legs.insert(legs.end(), leg.parts().begin(), leg.parts().end());
  legs.insert(legs.end(), s.legs().begin() + int64_t(axis) + 1, s.legs().end());
  const BlockStructure to(s.symmetry(), legs, s.charge());
  return {fusion(to, axis, leg.parts().size(), leg.arrow())->copies.transposed(x.data), to};
}

BlockTensor slice(const BlockTensor& x, int64_t dim,
                  const std::vector<std::pair<int64_t, int64_t>>& ranges) {
  const BlockStructure& s = x.structure;
  const size_t axis = axis_of("slice", x, dim);
  const Leg& leg = s.legs()[axis];
  if (ranges.size() != leg.count())
    fail(ErrorKind::value, "slice", ranges.size(), " ranges for the ", leg.count(),
         " sectors of axis ", axis, " (", leg.text(), ")");
  Ints key{int64_t(axis)};
  std::vector<Sector> sectors;
  std::vector<int32_t> number;  // of each sector in the new leg; -1: it is gone
  bool whole = true;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const int64_t size = leg.sectors()[i].size, end = std::min(ranges[i].second, size),
                  start = ranges[i].first;
    if (start < 0 || start > size || end < 0)
      fail(ErrorKind::index, "slice", "range ", i, " is [", start, ", ", ranges[i].second,
           ") of a sector of size ", size);
    key.push_back(start);
    key.push_back(end);
    whole = whole && start == 0 && end == size;
    number.push_back(end > start ? int32_t(sectors.size()) : -1);
    if (end > start) sectors.push_back({leg.sectors()[i].charge, end - start});
  }
  if (whole) return x;  // with the parts that the leg may have
  const MovedRef move = moves("slice", s, key, [&] {
    Legs legs = s.legs();
    legs[axis] = Leg(s.symmetry(), leg.arrow(), sectors, "slice");
    const BlockStructure to(s.symmetry(), legs, s.charge());
    const auto list = copies_of(s, [&](size_t b, StridedBlock& copy) {
      Coordinates at = s.at(b);
      const auto i = size_t(at[axis]);
      if (number[i] < 0) return false;
      at[axis] = number[i];
      const auto target = size_t(to.find(at));
      copy.from += ranges[i].first * copy.from_strides[axis];
      copy.sizes = to.sizes(target);
      copy.to = to.offset(target);
      copy.to_strides = contiguous_strides(copy.sizes);
      return true;
    });
    return Moved{to, BlockCopies("slice", list,
                                 {s, to.elements() == s.elements() ? Covers::all : Covers::some},
                                 {to, Covers::all})};
  });
  return {move->copies(x.data), move->structure};
}

BlockTensor diagonal(const BlockTensor& x, int64_t dim0, int64_t dim1) {
  const BlockStructure& s = x.structure;
  const size_t a = axis_of("diagonal", x, dim0), b = axis_of("diagonal", x, dim1);
  if (a == b) fail(ErrorKind::value, "diagonal", "axis ", a, " with itself");
  check_joins("diagonal", join("the pair of axes ", a, " and ", b), s.legs()[a], s.legs()[b]);
  if (!s.legs()[a].is_neutral())
    fail(ErrorKind::value, "diagonal", "axis ", a, " (", s.legs()[a].text(),
         ") carries charge; of neutral legs alone the diagonal is a leg");
  const MovedRef move = moves("diagonal", s, {int64_t(a), int64_t(b)}, [&] {
    Legs legs = s.legs();
    legs.erase(legs.begin() + int64_t(b));
    const BlockStructure to(s.symmetry(), legs, s.charge());
    const auto list = copies_of(s, [&](size_t block, StridedBlock& copy) {
      Coordinates at = s.at(block);
      if (at[a] != at[b]) return false;
      at.erase(b);
      copy.from_strides[a] += copy.from_strides[b];
      copy.from_strides.erase(b);
      copy.sizes.erase(b);
      copy.to = to.offset(size_t(to.find(at)));
      copy.to_strides = contiguous_strides(copy.sizes);
      return true;
    });
    return Moved{to, BlockCopies("diagonal", list, {s, Covers::some}, {to, Covers::all})};
  });
  return {move->copies(x.data), move->structure};
}

BlockTensor trace(const BlockTensor& x, int64_t dim0, int64_t dim1) {
  const BlockStructure& s = x.structure;
  const size_t a = axis_of("trace", x, dim0), b = axis_of("trace", x, dim1);
  if (a == b) fail(ErrorKind::value, "trace", "axis ", a, " with itself");
  check_joins("trace", join("the pair of axes ", a, " and ", b), s.legs()[a], s.legs()[b]);
  const MovedRef move = moves("trace", s, {int64_t(a), int64_t(b)}, [&] {
    Legs legs;
    Ints order;
    for (size_t i = 0; i < s.rank(); ++i)
      if (i != a && i != b) {
        legs.push_back(s.legs()[i]);
        order.push_back(int64_t(i));
      }
    const BlockStructure to(s.symmetry(), legs, s.charge());
    order.push_back(int64_t(a));
    order.push_back(int64_t(b));
    const auto list = copies_of(s, [&](size_t block, StridedBlock& copy) {
      const Coordinates& from = s.at(block);
      if (from[a] != from[b]) return false;
      copy.sign = crossing_sign(s.legs(), from, order);
      if (s.legs()[a].arrow() > 0 && s.legs()[a].odd(size_t(from[a]))) copy.sign = -copy.sign;
      Coordinates at;
      Shape sizes, strides;
      for (size_t i = 0; i + 2 < order.size(); ++i) {
        const auto axis = size_t(order[i]);
        at.push_back(from[axis]);
        sizes.push_back(copy.sizes[axis]);
        strides.push_back(copy.from_strides[axis]);
      }
      copy.to = to.offset(size_t(to.find(at)));
      copy.to_strides = contiguous_strides(sizes);
      copy.to_strides.push_back(0);
      sizes.push_back(copy.sizes[a]);
      strides.push_back(copy.from_strides[a] + copy.from_strides[b]);
      copy.sizes = sizes;
      copy.from_strides = strides;
      return true;
    });
    return Moved{to, BlockCopies("trace", list, {s, Covers::some}, {to, Covers::several})};
  });
  return {move->copies(x.data), move->structure};
}

BlockTensor sum(const BlockTensor& x, int64_t dim) {
  const BlockStructure& s = x.structure;
  const size_t axis = axis_of("sum", x, dim);
  if (!s.legs()[axis].is_neutral())
    fail(ErrorKind::value, "sum", "axis ", axis, " (", s.legs()[axis].text(),
         ") has charges that are not 0: a sum over it has no charge");
  const MovedRef move = moves("sum", s, {int64_t(axis)}, [&] {
    Legs legs = s.legs();
    legs.erase(legs.begin() + int64_t(axis));
    const BlockStructure to(s.symmetry(), legs, s.charge());
    const auto list = copies_of(s, [&](size_t b, StridedBlock& copy) {
      Coordinates at = s.at(b);
      at.erase(axis);
      Shape sizes = copy.sizes;
      sizes.erase(axis);
      copy.to = to.offset(size_t(to.find(at)));
      copy.to_strides = contiguous_strides(sizes);
      copy.to_strides.insert(axis, 0);
      return true;
    });
    return Moved{to, BlockCopies("sum", list, {s, Covers::all}, {to, Covers::several})};
  });
  return {move->copies(x.data), move->structure};
}

}  // namespace gradus
