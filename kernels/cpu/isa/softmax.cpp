// The slot softmax: lines of the axis are brought into contiguous f32 or f64, a group of lines at a
// time so that memory is walked in runs, and written back. With m = max x and s = sum exp(x - m) in
// the order of fold.hpp: softmax = exp(x - m) / s, its logarithm (x - m) - log(s).
#include "kernels/cpu/isa/fold.hpp"
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/lines.hpp"
#include "kernels/cpu/isa/simd.hpp"

namespace gradus::cpu {
namespace {

constexpr const char* kSlot = "softmax";
constexpr int64_t kGroup = 16;
enum { kIn, kOut };

// In place on n elements; the line has room up to a multiple of kPad.
template <class T>
void softmax_line(T* x, int64_t n, bool logarithm) {
  using B = Batch<T>;
  constexpr int64_t width = int64_t(B::size);
  const T m = fold<Maximum<T>>(x, n);
  for (int64_t i = n; i % kPad != 0; ++i) x[i] = m;
  // exponentials span by span: the logarithm needs x itself once more
  T e[kSpan];
  Tree<Sum<T>, T, 1> tree(1);
  for (int64_t i = 0; i < n; i += kSpan) {
    const int64_t some = shorter(n - i, kSpan);
    T* const to = logarithm ? e : x + i;
    for (int64_t j = 0; j < some; j += width)
      w::exp(B::load_unaligned(x + i + j) - B(m)).store_unaligned(to + j);
    const T span = fold_span<Sum<T>>(to, some);
    tree.add(&span);
  }
  const T s = *tree.result();
  if (logarithm) {
    const T log_s = std::log(s);
    for (int64_t i = 0; i < n; ++i) x[i] = (x[i] - m) - log_s;
  } else {
    for (int64_t i = 0; i < n; ++i) x[i] = x[i] / s;
  }
}

struct Lines {
  Walk others;
  int64_t length, step[2];
  int32_t dtype, work;
  bool logarithm;
};

// Lines [begin, begin + n) of one row of the other axes, si and so bytes apart.
template <class T>
void softmax_group(gd_device* d, const Lines& l, const char* in, int64_t si, char* out, int64_t so,
                   int64_t n, T* room, int64_t room_step) {
  Reader<T, kBlock> reader(d, l.dtype, l.work);
  Writer<T, kBlock> writer(d, l.work, l.dtype);
  const int64_t item = l.others.item[kIn];
  // Along the axis where that is dense, else across it.
  auto along = [&](int v, int64_t across) { return n == 1 || l.step[v] == item || across != item; };
  if (along(kIn, si)) {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < l.length; k += kBlock) {
        const int64_t some = shorter(l.length - k, kBlock);
        memcpy(room + j * room_step + k,
               reader.read(in + j * si + k * l.step[kIn], some, l.step[kIn]),
               size_t(some) * sizeof(T));
      }
  } else {
    for (int64_t k = 0; k < l.length; ++k) {
      const T* x = reader.read(in + k * l.step[kIn], n, si);
      for (int64_t j = 0; j < n; ++j) room[j * room_step + k] = x[j];
    }
  }
  for (int64_t j = 0; j < n; ++j) softmax_line(room + j * room_step, l.length, l.logarithm);
  if (along(kOut, so)) {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t k = 0; k < l.length; k += kBlock)
        writer.write(room + j * room_step + k, out + j * so + k * l.step[kOut],
                     shorter(l.length - k, kBlock), l.step[kOut]);
  } else {
    T y[kGroup];
    for (int64_t k = 0; k < l.length; ++k) {
      for (int64_t j = 0; j < n; ++j) y[j] = room[j * room_step + k];
      writer.write(y, out + k * l.step[kOut], n, so);
    }
  }
}

template <class T>
gd_status run(gd_device* d, const Lines& l, gd_error* e) {
  const Walk& w = l.others;
  const int last = w.rank - 1;
  // One cache line more, so that a group's lines do not all fall into the same sets.
  const int64_t room_step = (l.length + kPad - 1) / kPad * kPad + kPad;
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
      const int64_t si = last < 0 ? 0 : w.stride[kIn][last],
                    so = last < 0 ? 0 : w.stride[kOut][last];
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
