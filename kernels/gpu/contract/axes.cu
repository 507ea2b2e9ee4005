// Axes sorted into groups, and the copies that make a contraction a product of matrices.
#include "kernels/gpu/contract/axes.hpp"

#include <algorithm>

namespace gradus::inline v1::gpu {
namespace {

using Groups = std::vector<int>[kGroups];

void sort_by_role(const Views& views, Groups& groups) {
  const gd_view& joint = *views.v[kA];
  for (int d = 0; d < joint.rank; ++d) {
    if (joint.sizes[d] == 1) continue;
    const bool in_a = views.stride(kA, d) != 0, in_b = views.stride(kB, d) != 0;
    groups[d >= views.n ? kSummed : in_a && in_b ? kBatch : in_b ? kColumns : kRows].push_back(d);
  }
}
void put_in_order(const Views& views, const Orders& orders, Groups& groups) {
  for (int g = 0; g < kGroups; ++g)
    if (const Part p = orders.by[g]; p != kParts)
      std::stable_sort(groups[g].begin(), groups[g].end(), [&](int x, int y) {
        return magnitude(views.stride(p, x)) > magnitude(views.stride(p, y));
      });
}

}  // namespace

// Axes that lie as one are joined. The order of rows and columns is free: the one with the smallest
// stride in its operand comes last, so that tiles are read in runs.
Contraction grouped(const Call& call, const Views& views, const Orders& orders) {
  Contraction c{};
  Groups groups;
  sort_by_role(views, groups);
  put_in_order(views, orders, groups);
  const gd_view& joint = *views.v[kA];
  int count = 0;
  for (int g = 0; g < kGroups; ++g) {
    c.first[g] = count;
    c.extent[g] = 1;
    for (auto d = groups[g].rbegin(); d != groups[g].rend(); ++d) {
      const int64_t size = joint.sizes[*d];
      c.extent[g] *= size;
      bool joins = count > c.first[g];
      for (int v = 0; joins && v < kParts; ++v)
        joins = views.stride(v, *d) == c.axes[count - 1].strides[v] * c.axes[count - 1].size;
      if (joins) {
        c.axes[count - 1].size *= size;
        continue;
      }
      if (count == kMaxAxes)
        call.refuse(GD_UNSUPPORTED, "more than %d axes that can't be joined", kMaxAxes);
      c.axes[count].size = size;
      for (int v = 0; v < kParts; ++v) c.axes[count].strides[v] = views.stride(v, *d);
      ++count;
    }
  }
  c.first[kGroups] = count;
  for (int d = 0; d < count; ++d) {
    Contraction::Axis& axis = c.axes[d];
    axis.inverse = 1.0 / double(axis.size);
    if (axis.size <= kMostElements && axis.size > 0) axis.divisor = Divisor(uint32_t(axis.size));
  }
  for (int v = 0; v < kParts; ++v)
    c.data[v] = views.v[v] && views.v[v]->data ? start_of(*views.v[v]) : nullptr;
  c.dtype = joint.dtype;
  c.chunks = c.tiles_down = c.tiles_across = 1;
  return c;
}

// ---- packing

namespace {

// The groups of a part, its batch last.
struct Sides {
  Group side[2];
};
constexpr Sides kSides[] = {{{kRows, kSummed}}, {{kSummed, kColumns}}, {{kRows, kColumns}}};

int64_t extent_of(const Views& views, const std::vector<int>& group) {
  int64_t n = 1;
  for (const int d : group) n *= views.v[kA]->sizes[d];
  return n;
}

// The step from one of the joined axes to the next; 0 if they do not lie as one.
int64_t joined_step(const Views& views, Part p, const std::vector<int>& group) {
  for (size_t i = 0; i < group.size(); ++i) {
    const int64_t stride = views.stride(p, group[i]);
    if (stride <= 0) return 0;
    if (i + 1 < group.size() &&
        stride != views.stride(p, group[i + 1]) * views.v[kA]->sizes[group[i + 1]])
      return 0;
  }
  return group.empty() ? 1 : views.stride(p, group.back());
}

bool lies_as_matrix(const Views& views, Part p, const Groups& groups) {
  if (reinterpret_cast<uintptr_t>(start_of(*views.v[p])) % 16 != 0) return false;
  int64_t step[2], extent[2];
  for (int k : {0, 1}) {
    const std::vector<int>& group = groups[kSides[p].side[k]];
    step[k] = joined_step(views, p, group);
    extent[k] = extent_of(views, group);
  }
  if (step[0] == 0 || step[1] == 0 || joined_step(views, p, groups[kBatch]) == 0) return false;
  const auto columns_of = [&](int k) {
    return (step[k] == 1 || extent[k] == 1) && (extent[1 - k] == 1 || step[1 - k] >= extent[k]);
  };
  return columns_of(0) || columns_of(1);
}

}  // namespace

Packing::Packing(const Views& views) : packed_(views) {
  Groups groups, best;
  sort_by_role(views, groups);
  const int64_t item = int64_t(itemsize(DType(views.v[kA]->dtype)));
  int64_t elements[kBias];
  for (const Part p : {kA, kB, kOut})
    elements[p] = extent_of(views, groups[kSides[p].side[0]]) *
                  extent_of(views, groups[kSides[p].side[1]]) * extent_of(views, groups[kBatch]);
  bytes_ = INT64_MAX;
  for (const Part rows : {kA, kOut})
    for (const Part columns : {kB, kOut})
      for (const Part summed : {kA, kB})
        for (const Part batch : {kOut, kA, kB}) {
          const Orders orders{{rows, columns, batch, summed}};
          Groups sorted;
          for (int g = 0; g < kGroups; ++g) sorted[g] = groups[g];
          put_in_order(views, orders, sorted);
          bool made[kBias];
          int64_t bytes = 0;
          for (const Part p : {kA, kB, kOut}) {
            made[p] = !lies_as_matrix(views, p, sorted);
            bytes += made[p] ? 2 * elements[p] * item : 0;  // read and written
          }
          if (bytes >= bytes_) continue;
          bytes_ = bytes;
          orders_ = orders;
          for (const Part p : {kA, kB, kOut}) copies_[p].made = made[p];
          for (int g = 0; g < kGroups; ++g) best[g] = sorted[g];
        }
  for (const Part p : {kA, kB, kOut})
    if (copies_[p].made) {
      scratch_ += Run::Scratch::whole(size_t(elements[p] * item));
      lay_out(views, p, best);
    }
}

// Batch by batch; the side that has the axis with the smallest stride lies without gaps, so that
// the copy reads in runs.
void Packing::lay_out(const Views& views, Part p, const std::vector<int> (&groups)[kGroups]) {
  const Sides sides = kSides[p];
  const auto least = [&](Group g) {
    int64_t n = INT64_MAX;
    for (const int d : groups[g])
      if (const int64_t s = magnitude(views.stride(p, d)); s > 0) n = std::min(n, s);
    return n;
  };
  const bool first = least(sides.side[0]) < least(sides.side[1]);
  Copy& copy = copies_[p];
  int64_t step = 1;
  for (const Group g : {sides.side[first ? 0 : 1], sides.side[first ? 1 : 0], kBatch})
    for (auto d = groups[g].rbegin(); d != groups[g].rend(); ++d) {
      copy.strides[*d] = step;
      step *= views.v[kA]->sizes[*d];
    }
  copy.view = *views.v[p];
  copy.view.offset = 0;
  copy.view.strides = copy.strides;
  copy.bytes = Run::Scratch::whole(size_t(step) * itemsize(DType(copy.view.dtype)));
  packed_.v[p] = &copy.view;
}

const Views& Packing::views(char* memory) {
  for (Copy& c : copies_)
    if (c.made) {
      c.view.data = memory;
      if (memory) memory += c.bytes;
    }
  return packed_;
}

void Packing::copy_in(const Run& run, const Views& given, bool reads_out) const {
  for (const Part p : {kA, kB, kOut})
    if (copies_[p].made && (p != kOut || reads_out)) move(run, given, p, false);
}
void Packing::copy_out(const Run& run, const Views& given) const {
  if (copies_[kOut].made) move(run, given, kOut, true);
}

void Packing::move(const Run& run, const Views& given, Part p, bool back) const {
  const Copy& c = copies_[p];
  int64_t sizes[kMaxViewRank], outside[kMaxViewRank], inside[kMaxViewRank];
  gd_view from = *given.v[p], to = c.view;
  from.rank = 0;
  for (int d = 0; d < to.rank; ++d)
    if (c.strides[d] != 0) {
      sizes[from.rank] = to.sizes[d];
      outside[from.rank] = given.stride(p, d);
      inside[from.rank++] = c.strides[d];
    }
  to.rank = from.rank;
  from.sizes = to.sizes = sizes;
  from.strides = outside;
  to.strides = inside;
  back ? copy_views(run, to, from) : copy_views(run, from, to);
}

}  // namespace gradus::gpu
