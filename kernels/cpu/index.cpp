// The slots gather and scatter_add. Indices are checked before anything is written. Two
// contributions meet only if they differ along the axis alone, so scatter_add gives each task a
// range of the other axes and walks the axis upwards: the row-major order, whatever the thread
// count.
#include "kernels/cpu/slots.hpp"
#include "kernels/cpu/walk.hpp"

#include <atomic>

namespace gradus::inline v1::cpu {
namespace {

int64_t read_index(const char* p, int32_t dtype) {
  if (dtype == GD_I32) {
    int32_t i;
    memcpy(&i, p, 4);
    return i;
  }
  int64_t i;
  memcpy(&i, p, 8);
  return i;
}

// Do n adjacent indices lie in [0, size)?
template <class Index>
bool inside(const char* p, int64_t n, int64_t size) {
  const Index* const index = reinterpret_cast<const Index*>(p);
  bool all = true;
  for (int64_t i = 0; i < n; ++i) all &= uint64_t(int64_t(index[i])) < uint64_t(size);
  return all;
}

// Every index in [0, size), or GD_INVALID that names the first one outside.
gd_status check_index(gd_device* d, gd_error* e, const char* slot, const gd_view& index,
                      int64_t size) {
  if (index.dtype != GD_I32 && index.dtype != GD_I64)
    return refuse(e, GD_INVALID, slot, "the index should be i64 or i32, got %s",
                  dtype_name(DType(index.dtype)));
  Walk w;
  add_view(w, index);
  if (w.count() == 0) return GD_OK;
  for (int k = 0; k < w.rank; ++k)
    if (w.stride[0][k] == 0) w.size[k] = 1;
  merge_axes(w);
  const int64_t n = w.count();
  std::atomic<int64_t> first{n};
  parallel_range(d, n, kGrain, [&](int64_t begin, int64_t end) {
    int64_t at = begin;
    for_rows(w, 0, begin, end - begin, [&](const char* p, int64_t run, int64_t step) {
      if (step == w.item[0] && (step == 4 ? inside<int32_t> : inside<int64_t>)(p, run, size)) {
        at += run;
        return;
      }
      for (int64_t i = 0; i < run; ++i, ++at, p += step) {
        const int64_t value = read_index(p, index.dtype);
        if (value >= 0 && value < size) continue;
        int64_t known = first.load(std::memory_order_relaxed);
        while (at < known && !first.compare_exchange_weak(known, at, std::memory_order_relaxed)) {
        }
        return;
      }
    });
  });
  if (first == n) return GD_OK;
  int64_t bad = 0;
  for_rows(w, 0, first, 1,
           [&](const char* p, int64_t, int64_t) { bad = read_index(p, index.dtype); });
  return refuse(e, GD_INVALID, slot, "index %lld is outside [0, %lld)", static_cast<long long>(bad),
                static_cast<long long>(size));
}

// v seen with the sizes of `like`, its own stride along `axis` taken out.
struct WithoutAxis {
  int64_t strides[kMaxRank];
  gd_view view;
  WithoutAxis(const gd_view& v, const gd_view& like, int64_t axis) : view(v) {
    for (int k = 0; k < v.rank; ++k) strides[k] = k == axis ? 0 : v.strides[k];
    view.sizes = like.sizes;
    view.strides = strides;
  }
};

gd_status check_other_sizes(gd_error* e, const char* slot, const gd_view& v, const gd_view& like,
                            int64_t axis) {
  bool same = v.rank == like.rank;
  for (int k = 0; same && k < v.rank; ++k) same = k == axis || v.sizes[k] == like.sizes[k];
  if (same) return GD_OK;
  return refuse(e, GD_INVALID, slot, "sizes differ on another axis than %lld",
                static_cast<long long>(axis));
}

// Adds source rows into out along one axis; Acc is what out holds.
template <class Source, class Acc>
void add_rows(gd_device* d, const Walk& w, int64_t length, const int64_t (&along)[3],
              int64_t out_step, int32_t index_dtype) {
  enum { kOut, kSource, kIndex };
  const int64_t columns = w.count();
  // Whole rows where that is work for a few tasks only: each task walks all of the axis.
  int64_t grain = kGrain / (length > 0 ? length : 1);
  if (grain < 256) grain = 256;
  // Column by column where the axis is what lies together.
  const int last = w.rank - 1;
  const bool within = last >= 0 && length > 1 && along[kSource] < w.stride[kSource][last];
  parallel_range(d, columns, grain, [&](int64_t begin, int64_t end) {
    if (within) {
      for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          char* const out = p[kOut] + i * w.stride[kOut][last];
          const char* source = p[kSource] + i * w.stride[kSource][last];
          const char* index = p[kIndex] + i * w.stride[kIndex][last];
          for (int64_t a = 0; a < length; ++a, source += along[kSource], index += along[kIndex]) {
            Acc& to = *reinterpret_cast<Acc*>(out + read_index(index, index_dtype) * out_step);
            to = Acc(to + Acc(*reinterpret_cast<const Source*>(source)));
          }
        }
      });
      return;
    }
    for (int64_t a = 0; a < length; ++a)
      for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t n) {
        const int64_t so = last < 0 ? 0 : w.stride[kOut][last],
                      ss = last < 0 ? 0 : w.stride[kSource][last],
                      si = last < 0 ? 0 : w.stride[kIndex][last];
        const char* source = p[kSource] + a * along[kSource];
        const char* index = p[kIndex] + a * along[kIndex];
        char* out = p[kOut];
        if (si == 0) {
          out += read_index(index, index_dtype) * out_step;
          if (so == int64_t(sizeof(Acc)) && ss == int64_t(sizeof(Source))) {
            Acc* const to = reinterpret_cast<Acc*>(out);
            const Source* const x = reinterpret_cast<const Source*>(source);
            for (int64_t i = 0; i < n; ++i) to[i] = Acc(to[i] + Acc(x[i]));
            return;
          }
          for (int64_t i = 0; i < n; ++i) {
            Acc& to = *reinterpret_cast<Acc*>(out + i * so);
            to = Acc(to + Acc(*reinterpret_cast<const Source*>(source + i * ss)));
          }
          return;
        }
        for (int64_t i = 0; i < n; ++i) {
          Acc& to = *reinterpret_cast<Acc*>(out + i * so +
                                            read_index(index + i * si, index_dtype) * out_step);
          to = Acc(to + Acc(*reinterpret_cast<const Source*>(source + i * ss)));
        }
      });
  });
}

// out (or its f32 copy) += source.
void scatter_into(gd_device* d, const gd_view& index, const gd_view& source, const gd_view& out,
                  int64_t axis) {
  const WithoutAxis target(out, source, axis);
  Walk w;
  add_view(w, target.view);
  add_view(w, source);
  add_view(w, index);
  const int64_t length = w.size[axis];
  const int64_t along[3] = {0, w.stride[1][axis], w.stride[2][axis]};
  const int64_t out_step = out.strides[axis] * w.item[0];
  w.size[axis] = 1;
  sort_axes(w, 0);
  visit_dtype(source.dtype, [&](auto t) {
    using T = decltype(t);
    if constexpr (is_half(dtype_of<T>))
      add_rows<T, float>(d, w, length, along, out_step, index.dtype);
    else
      add_rows<T, T>(d, w, length, along, out_step, index.dtype);
  });
}

// n elements, one from each place of a row: to[i] = from[i][index[i]], all steps in bytes.
struct Steps {
  int64_t to, from, index, along;
};
template <class Index, int B>
void gather_row(char* to, const char* from, const char* index, int64_t n, const Steps& s) {
  for (int64_t i = 0; i < n; ++i) {
    Index k;
    memcpy(&k, index + i * s.index, sizeof k);
    memcpy(to + i * s.to, from + i * s.from + int64_t(k) * s.along, B);
  }
}
template <class Index>
auto gather_row_of(int64_t item) {
  return item == 1   ? gather_row<Index, 1>
         : item == 2 ? gather_row<Index, 2>
         : item == 4 ? gather_row<Index, 4>
         : item == 8 ? gather_row<Index, 8>
                     : gather_row<Index, 16>;
}

}  // namespace

gd_status slot_gather(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  const char* slot = "gather";
  if (gd_status s = check_call(e, slot, c, {2, 2, 1, 1, 0, 1})) return s;
  const gd_view &in = c->in[0], &index = c->in[1], &out = c->out[0];
  const int64_t axis = c->ints[0];
  if (gd_status s = check_axis(e, slot, axis, out)) return s;
  if (!same_sizes(index, out))
    return refuse(e, GD_INVALID, slot, "index and output have different sizes");
  if (in.dtype != out.dtype)
    return refuse(e, GD_INVALID, slot, "input is %s, output is %s", dtype_name(DType(in.dtype)),
                  dtype_name(DType(out.dtype)));
  if (gd_status s = check_other_sizes(e, slot, in, out, axis)) return s;
  if (gd_status s = check_index(d, e, slot, index, in.sizes[axis])) return s;
  if (count_of(out) == 0) return GD_OK;
  enum { kOut, kIn, kIndex };
  const WithoutAxis source(in, out, axis);
  Walk w;
  add_view(w, out);
  add_view(w, source.view);
  add_view(w, index);
  const int64_t item = w.item[kOut], step = in.strides[axis] * item;
  sort_axes(w, kOut);
  const auto row =
      index.dtype == GD_I32 ? gather_row_of<int32_t>(item) : gather_row_of<int64_t>(item);
  parallel_range(d, w.count(), kGrain, [&](int64_t begin, int64_t end) {
    for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t n) {
      const int last = w.rank - 1;
      const int64_t so = last < 0 ? item : w.stride[kOut][last],
                    si = last < 0 ? item : w.stride[kIn][last],
                    sx = last < 0 ? 0 : w.stride[kIndex][last];
      if (sx == 0) {
        copy_row(p[kOut], so, p[kIn] + read_index(p[kIndex], index.dtype) * step, si, n, item);
        return;
      }
      row(p[kOut], p[kIn], p[kIndex], n, {so, si, sx, step});
    });
  });
  return GD_OK;
}

gd_status slot_scatter_add(gd_device* d, gd_stream* stream, const gd_call* c, gd_error* e) {
  const char* slot = "scatter_add";
  if (gd_status s = check_call(e, slot, c, {2, 2, 1, 1, 0, 1})) return s;
  const gd_view &index = c->in[0], &source = c->in[1], &out = c->out[0];
  const int64_t axis = c->ints[0];
  if (gd_status s = check_axis(e, slot, axis, out)) return s;
  if (!same_sizes(index, source))
    return refuse(e, GD_INVALID, slot, "index and source have different sizes");
  if (source.dtype != out.dtype)
    return refuse(e, GD_INVALID, slot, "source is %s, output is %s",
                  dtype_name(DType(source.dtype)), dtype_name(DType(out.dtype)));
  if (gd_status s = check_other_sizes(e, slot, source, out, axis)) return s;
  if (gd_status s = check_index(d, e, slot, index, out.sizes[axis])) return s;
  if (count_of(source) == 0) return GD_OK;
  if (!is_half(dtype_of_view(out))) {
    scatter_into(d, index, source, out, axis);
    return GD_OK;
  }
  // 16-bit sums run in a dense f32 copy and are rounded once.
  const size_t bytes = size_t(count_of(out)) * sizeof(float);
  gd_view copy = out;
  int64_t dense[kMaxRank], n = 1;
  for (int k = out.rank - 1; k >= 0; --k) {
    dense[k] = n;
    n *= out.sizes[k];
  }
  copy.data = d->scratch(kScratchC, bytes);
  if (!copy.data) return out_of_memory(e, slot, bytes);
  copy.dtype = GD_F32;
  copy.offset = 0;
  copy.strides = dense;
  gd_call widen{sizeof(gd_call), GD_COPY, 0,       1,       1,       0, 0,      &out,
                &copy,           nullptr, nullptr, nullptr, nullptr, 0, nullptr};
  if (gd_status s = slot_copy(d, stream, &widen, e)) return s;
  scatter_into(d, index, source, copy, axis);
  gd_call narrow{sizeof(gd_call), GD_COPY, 0,       1,       1, 0,      0, &copy, &out,
                 nullptr,         nullptr, nullptr, nullptr, 0, nullptr};
  return slot_copy(d, stream, &narrow, e);
}

}  // namespace gradus::cpu
