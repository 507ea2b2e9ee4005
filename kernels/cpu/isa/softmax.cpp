// The slot softmax. A line that lies side by side is read where it lies; others are brought
// together a group at a time, turned in registers, and turned back. With m = max x and s = sum
// exp(x - m) in the order of fold.hpp: softmax = exp(x - m) / s, its logarithm (x - m) - log(s).
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/lane_tree.hpp"
#include "kernels/cpu/isa/lines.hpp"
#include "kernels/cpu/isa/words/simd.hpp"

#include <limits>

namespace gradus::inline v1::cpu {
namespace {

constexpr const char* kSlot = "softmax";
constexpr int64_t kGroup = 16;
enum { kIn, kOut };

// Batches of a line; the last one is filled up with `rest`.
template <class T>
class Batches {
  using B = Batch<T>;
  static constexpr int64_t width = int64_t(B::size);

 public:
  Batches(const T* x, int64_t n, T rest) : x_(x), whole_(n / width * width) {
    if (whole_ == n) return;
    for (int64_t i = 0; i < width; ++i) tail_[i] = whole_ + i < n ? x[whole_ + i] : rest;
  }
  B operator[](int64_t i) const {
    return i < whole_ ? B::load_unaligned(x_ + i) : B::load_unaligned(tail_);
  }

 private:
  const T* x_;
  int64_t whole_;
  T tail_[width];
};

template <class T>
void store_part(T* y, int64_t i, int64_t n, Batch<T> b) {
  constexpr int64_t width = int64_t(Batch<T>::size);
  if (i + width <= n) {
    b.store_unaligned(y + i);
    return;
  }
  T part[width];
  b.store_unaligned(part);
  for (int64_t k = 0; i + k < n; ++k) y[i + k] = part[k];
}

// y may be x. A NaN among the elements loses in the maximum, and wins in the sum.
template <class T>
void softmax_line(const T* x, T* y, int64_t n, bool logarithm) {
  using B = Batch<T>;
  constexpr int64_t width = int64_t(B::size), registers = kLanes / width;
  const T least = -std::numeric_limits<T>::infinity();
  const Batches<T> all(x, n, least);

  B best[registers];
#pragma GCC unroll 16
  for (auto& b : best) b = B(least);
  for (int64_t i = 0; i < n; i += kLanes)
#pragma GCC unroll 16
    for (int64_t k = 0; k < registers; ++k)
      if (i + k * width < n) {
        const B b = all[i + k * width];
        best[k] = xsimd::select(b > best[k], b, best[k]);
      }
  const T m = joined_lanes<T>(best, larger_of);

  // Exponentials span by span, summed as fold_span does: what fills up the line adds zeros.
  const B top(m);
  Tree<Sum<T>, T, 1> tree(1);
  int64_t span = 0;
  do {  // a line has an element
    const int64_t end = shorter(span + kSpan, n);
    B sum[registers];
#pragma GCC unroll 16
    for (auto& b : sum) b = B(T(0));
    for (int64_t i = span; i < end; i += kLanes)
#pragma GCC unroll 16
      for (int64_t k = 0; k < registers; ++k)
        if (const int64_t at = i + k * width; at < end) {
          const B e = w::exp(all[at] - top);
          if (!logarithm) store_part(y, at, n, e);
          sum[k] = sum[k] + e;
        }
    const T joined = joined_lanes<T>(sum, sum_of);
    tree.add(&joined);
    span += kSpan;
  } while (span < n);
  const T s = *tree.result();
  if (logarithm) {
    const B log_s(std::log(s));
    for (int64_t i = 0; i < n; i += width) store_part(y, i, n, (all[i] - top) - log_s);
  } else {
    const B divisor(s);
    const Batches<T> exps(y, n, T(0));
    for (int64_t i = 0; i < n; i += width) store_part(y, i, n, exps[i] / divisor);
  }
}

struct Lines {
  Walk others;
  int64_t length, step[2];
  int32_t dtype, work;
  bool logarithm;
  int64_t* places;  // of the elements of a line of the input
};

// Up to kGroup lines of at most kLanes elements, side by side: element k of line j stands at
// [k * kGroup + j]. The sum is the tree of join_lanes, as that of a line on its own.
template <class T>
void softmax_short(T* x, int64_t length, bool logarithm) {
  using B = Batch<T>;
  for (int64_t j = 0; j < kGroup; j += int64_t(B::size)) {
    T* const column = x + j;
    B m(-std::numeric_limits<T>::infinity()), e[kLanes], sum[kLanes];
    for (int64_t k = 0; k < length; ++k) {
      const B b = B::load_unaligned(column + k * kGroup);
      m = xsimd::select(b > m, b, m);
    }
    for (int64_t k = 0; k < length; ++k)
      sum[k] = e[k] = w::exp(B::load_unaligned(column + k * kGroup) - m);
    for (int64_t half = kLanes / 2; half > 0; half /= 2)
      for (int64_t l = 0; l < half && l + half < length; ++l) sum[l] = sum[l] + sum[l + half];
    T s[B::size];
    sum[0].store_unaligned(s);
    if (logarithm)
      for (T& v : s) v = std::log(v);
    const B total = B::load_unaligned(s);
    for (int64_t k = 0; k < length; ++k) {
      T* const y = column + k * kGroup;
      const B r = logarithm ? (B::load_unaligned(y) - m) - total : e[k] / total;
      r.store_unaligned(y);
    }
  }
}

template <class T>
void softmax_short_group(const Lines& l, const char* in, int64_t si, char* out, int64_t so,
                         int64_t n) {
  constexpr int64_t item = int64_t(sizeof(T)), row = kGroup * item;
  alignas(64) T block[kLanes * kGroup];
  char* const bytes = reinterpret_cast<char*>(block);
  int64_t at[kLanes];
  static_assert(kGroup <= kLanes);
  if (n < kGroup) memset(block, 0, size_t(l.length * row));
  if (l.step[kIn] == item) {
    for (int64_t j = 0; j < n; ++j) at[j] = j * si;
    find_transpose(item)(bytes, row, in, at, n, l.length);
  } else {
    for (int64_t k = 0; k < l.length; ++k)
      copy_row(bytes + k * row, item, in + k * l.step[kIn], si, n, item);
  }
  softmax_short(block, l.length, l.logarithm);
  if (l.step[kOut] == item) {
    for (int64_t k = 0; k < l.length; ++k) at[k] = k * row;
    find_transpose(item)(out, so, bytes, at, l.length, n);
  } else {
    for (int64_t k = 0; k < l.length; ++k)
      copy_row(out + k * l.step[kOut], so, bytes + k * row, item, n, item);
  }
}

// n lines, si and so bytes apart. The room holds kGroup lines and the places of a line's elements.
template <class T>
void softmax_group(gd_device* d, const Lines& l, const char* in, int64_t si, char* out, int64_t so,
                   int64_t n, T* room, int64_t room_step) {
  const int64_t item = l.others.item[kIn], row = room_step * int64_t(sizeof(T));
  const bool same = l.dtype == l.work;
  if (same && l.length <= kLanes && n >= 4) {
    softmax_short_group<T>(l, in, si, out, so, n);
    return;
  }
  const bool reads = same && l.step[kIn] == item, writes = same && l.step[kOut] == item;
  // Across the axis, where that is dense and it is not.
  const auto across = [&](int v, int64_t step) {
    return same && n > 1 && step == item && l.step[v] != item;
  };
  const TransposeFn turn = find_transpose(item);
  if (across(kIn, si)) {
    turn(reinterpret_cast<char*>(room), row, in, l.places, l.length, n);
  } else if (!reads) {
    Reader<T, kBlock> reader(d, l.dtype, l.work);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < l.length; k += kBlock) {
        const int64_t some = shorter(l.length - k, kBlock);
        memcpy(room + j * room_step + k,
               reader.read(in + j * si + k * l.step[kIn], some, l.step[kIn]),
               size_t(some) * sizeof(T));
      }
  }
  for (int64_t j = 0; j < n; ++j) {
    T* const own = room + j * room_step;
    softmax_line(reads ? reinterpret_cast<const T*>(in + j * si) : own,
                 writes ? reinterpret_cast<T*>(out + j * so) : own, l.length, l.logarithm);
  }
  if (across(kOut, so)) {
    int64_t lines[kGroup];
    for (int64_t j = 0; j < n; ++j) lines[j] = j * row;
    turn(out, l.step[kOut], reinterpret_cast<const char*>(room), lines, n, l.length);
  } else if (!writes) {
    Writer<T, kBlock> writer(d, l.work, l.dtype);
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < l.length; k += kBlock)
        writer.write(room + j * room_step + k, out + j * so + k * l.step[kOut],
                     shorter(l.length - k, kBlock), l.step[kOut]);
  }
}

template <class T>
gd_status run(gd_device* d, Lines& l, gd_error* e) {
  const Walk& w = l.others;
  if (l.dtype == l.work && l.step[kIn] == w.item[kIn] && l.step[kOut] == w.item[kOut] &&
      w.count() == 1) {  // needs no room
    softmax_line(reinterpret_cast<const T*>(w.base[kIn]), reinterpret_cast<T*>(w.base[kOut]),
                 l.length, l.logarithm);
    return GD_OK;
  }
  const int last = w.rank - 1;
  const int64_t si = last < 0 ? 0 : w.stride[kIn][last], so = last < 0 ? 0 : w.stride[kOut][last];
  // One cache line more, so that a group's lines do not all fall into the same sets.
  const int64_t room_step = (l.length + kPad - 1) / kPad * kPad + kPad;
  const size_t places = size_t(l.length) * sizeof(int64_t);
  l.places = static_cast<int64_t*>(d->scratch(kScratchA, places));
  if (!l.places) return out_of_memory(e, kSlot, places);
  for (int64_t k = 0; k < l.length; ++k) l.places[k] = k * l.step[kIn];
  const size_t bytes = size_t(room_step * kGroup) * sizeof(T);
  int failed = 0;
  const int64_t grain = (kGrain / 8 / l.length / kGroup + 1) * kGroup;
  parallel_range(d, w.count(), grain, [&](int64_t begin, int64_t end) {
    T* const room = static_cast<T*>(d->scratch(kScratchTask, bytes));
    if (!room) {
      __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
      return;
    }
    for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t rows) {
      for (int64_t j = 0; j < rows; j += kGroup)
        softmax_group(d, l, p[kIn] + j * si, si, p[kOut] + j * so, so, shorter(rows - j, kGroup),
                      room, room_step);
    });
  });
  return failed ? out_of_memory(e, kSlot, bytes) : GD_OK;
}

}  // namespace

gd_status slot_softmax(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  if (gd_status s = check_call(e, kSlot, c, {1, 1, 1, 1, 0, 2})) return s;
  const gd_view &in = c->in[0], &out = c->out[0];
  const DType t = dtype_of_view(in);
  if (!same_sizes(in, out) || in.dtype != out.dtype)
    return refuse(e, GD_INVALID, kSlot, "input and output should have equal sizes and dtypes");
  if (!is_real_float(t))
    return refuse(e, GD_UNSUPPORTED, kSlot, "dtype %s is not read; f32 f64 f16 bf16 are",
                  dtype_name(t));
  if (in.rank > 0)
    if (gd_status s = check_axis(e, kSlot, c->ints[0], in)) return s;
  Lines l;
  add_view(l.others, in);
  add_view(l.others, out);
  if (l.others.count() == 0) return GD_OK;
  l.dtype = in.dtype;
  l.work = t == DType::f64 ? GD_F64 : GD_F32;
  l.logarithm = c->ints[1] != 0;
  l.length = 1;
  l.step[kIn] = l.step[kOut] = l.others.item[kIn];
  if (in.rank > 0) {
    const int axis = int(c->ints[0]);
    l.length = in.sizes[axis];
    l.step[kIn] = l.others.stride[kIn][axis];
    l.step[kOut] = l.others.stride[kOut][axis];
    l.others.size[axis] = 1;
  }
  sort_axes(l.others, kOut);
  return l.work == GD_F64 ? run<double>(d, l, e) : run<float>(d, l, e);
}

}  // namespace gradus::cpu
