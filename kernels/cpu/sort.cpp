// The slot sort. Each element becomes an unsigned number that is ordered as the elements are (NaN
// largest, -0 as 0, complemented where the order runs downwards) with its place behind it, so that
// a plain sort of pairs is stable. Lines are dealt out to the threads.
#include "kernels/cpu/slots.hpp"
#include "kernels/cpu/walk.hpp"

#include <algorithm>
#include <atomic>

namespace gradus::inline v1::cpu {
namespace {

template <class Bits, class F>
Bits ordered_float(F x) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  if (x != x) return Bits(~Bits(0));
  if (x == F(0)) return sign;
  Bits bits;
  memcpy(&bits, &x, sizeof bits);
  return bits & sign ? Bits(~bits) : Bits(bits | sign);
}
template <class T>
auto ordered(T x) {
  if constexpr (sizeof(T) == 2)
    return ordered_float<uint32_t>(float(x));
  else if constexpr (std::is_same_v<T, float>)
    return ordered_float<uint32_t>(x);
  else if constexpr (std::is_same_v<T, double>)
    return ordered_float<uint64_t>(x);
  else if constexpr (std::is_same_v<T, int64_t>)
    return uint64_t(x) ^ (uint64_t(1) << 63);
  else
    return uint32_t(int64_t(x) + (int64_t(1) << 31));
}

struct Pair {
  uint64_t key;
  int64_t place;
  bool operator<(const Pair& o) const { return key < o.key || (key == o.key && place < o.place); }
};
// Key and place in one number: lines of up to 2^32 elements of 32 bits or less.
struct Packed {
  uint64_t both;
  bool operator<(const Packed& o) const { return both < o.both; }
};

struct Line {
  const char* in;
  char *values, *places;  // values may be NULL
  int64_t in_step, values_step, places_step, n, item;
};

// Item is Pair or Packed; room holds n of them.
template <class T, class Item>
void sort_line(const Line& l, bool descending, Item* room) {
  for (int64_t i = 0; i < l.n; ++i) {
    T x;
    memcpy(&x, l.in + i * l.in_step, sizeof x);
    auto key = ordered(x);
    if (descending) key = decltype(key)(~key);
    if constexpr (std::is_same_v<Item, Pair>)
      room[i] = {uint64_t(key), i};
    else
      room[i] = {uint64_t(key) << 32 | uint64_t(i)};
  }
  std::sort(room, room + l.n);
  for (int64_t i = 0; i < l.n; ++i) {
    int64_t place;
    if constexpr (std::is_same_v<Item, Pair>)
      place = room[i].place;
    else
      place = int64_t(room[i].both & 0xFFFFFFFFu);
    memcpy(l.places + i * l.places_step, &place, sizeof place);
    if (l.values) memcpy(l.values + i * l.values_step, l.in + place * l.in_step, size_t(l.item));
  }
}

}  // namespace

gd_status slot_sort(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  const char* slot = "sort";
  if (gd_status s = check_call(e, slot, c, {1, 1, 2, 2, 0, 2, 0, 1})) return s;
  const gd_view &in = c->in[0], &values = c->out[0], &places = c->out[1];
  const int64_t axis = c->ints[0];
  if (gd_status s = check_axis(e, slot, axis, in)) return s;
  if (!same_sizes(in, places) || (values.data && !same_sizes(in, values)))
    return refuse(e, GD_INVALID, slot, "input and outputs have different sizes");
  if (places.dtype != GD_I64 || (values.data && values.dtype != in.dtype))
    return refuse(e, GD_INVALID, slot, "expected outputs %s and i64, got %s and %s",
                  dtype_name(DType(in.dtype)), dtype_name(DType(values.dtype)),
                  dtype_name(DType(places.dtype)));
  if (is_complex(DType(in.dtype)))
    return refuse(e, GD_UNSUPPORTED, slot, "complex numbers have no order");
  if (count_of(in) == 0) return GD_OK;
  Walk w;
  add_view(w, in);
  add_view(w, places);
  if (values.data) add_view(w, values);
  const int64_t n = w.size[axis];
  Line line{
      nullptr,           nullptr, nullptr,  w.stride[0][axis], values.data ? w.stride[2][axis] : 0,
      w.stride[1][axis], n,       w.item[0]};
  w.size[axis] = 1;
  merge_axes(w);
  const bool packed = w.item[0] <= 4 && n <= int64_t(UINT32_MAX), descending = c->ints[1] != 0;
  const size_t bytes = size_t(n) * (packed ? sizeof(Packed) : sizeof(Pair));
  std::atomic<bool> full{false};
  parallel_range(d, w.count(), kGrain / (8 * n) + 1, [&](int64_t begin, int64_t end) {
    void* room = d->scratch(kScratchTask, bytes);
    if (!room) {
      full = true;
      return;
    }
    for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t rows) {
      const int last = w.rank - 1;
      for (int64_t r = 0; r < rows; ++r) {
        Line l = line;
        const auto at = [&](int v) { return p[v] + (last < 0 ? 0 : r * w.stride[v][last]); };
        l.in = at(0);
        l.places = at(1);
        if (values.data) l.values = at(2);
        visit_dtype(in.dtype, [&](auto t) {
          using T = decltype(t);
          if constexpr (sizeof(T) <= 4)
            packed ? sort_line<T>(l, descending, static_cast<Packed*>(room))
                   : sort_line<T>(l, descending, static_cast<Pair*>(room));
          else if constexpr (!is_complex_v<T>)
            sort_line<T>(l, descending, static_cast<Pair*>(room));
        });
      }
    });
  });
  return full ? out_of_memory(e, slot, bytes) : GD_OK;
}

}  // namespace gradus::cpu
