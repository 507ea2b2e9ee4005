// Checks of a gd_call: every slot calls these before it touches memory, so that a call that breaks
// its contract becomes a status with a text. Statuses only, no exceptions; compiled once per
// instruction set as well, so no std types.
#pragma once
#include "engine/abi/dtype.hpp"
#include "kernels/cpu/runtime.hpp"

#include <stdarg.h>
#include <stdio.h>
#include <type_traits>

namespace gradus::inline v1::cpu {

inline constexpr int kMaxRank = 64;

// Fills *e with "cpu SLOT: ..." and returns code.
__attribute__((format(printf, 4, 5))) inline gd_status refuse(gd_error* e, gd_status code,
                                                              const char* slot, const char* format,
                                                              ...) {
  e->code = code;
  e->native = 0;
  const int used = snprintf(e->text, sizeof e->text, "cpu %s: ", slot);
  va_list args;
  va_start(args, format);
  vsnprintf(e->text + used, sizeof e->text - size_t(used), format, args);
  va_end(args);
  return code;
}

inline gd_status out_of_memory(gd_error* e, const char* slot, size_t bytes) {
  return refuse(e, GD_OOM, slot, "no memory for %zu bytes of scratch", bytes);
}

inline int64_t count_of(const gd_view& v) {
  int64_t n = 1;
  for (int d = 0; d < v.rank; ++d) n *= v.sizes[d];
  return n;
}
inline bool same_sizes(const gd_view& a, const gd_view& b) {
  if (a.rank != b.rank) return false;
  if (a.sizes == b.sizes) return true;
  for (int d = 0; d < a.rank; ++d)
    if (a.sizes[d] != b.sizes[d]) return false;
  return true;
}
inline bool has_shape(const gd_view& v) {
  return v.rank == 0 || (v.rank > 0 && v.sizes && v.strides);
}
inline DType dtype_of_view(const gd_view& v) { return DType(v.dtype); }
inline char* start_of(const gd_view& v) {
  return static_cast<char*>(v.data) + v.offset * int64_t(itemsize(DType(v.dtype)));
}
template <class T>
inline T* start_as(const gd_view& v) {
  return static_cast<T*>(v.data) + v.offset;
}

// Views that may be NULL are checked only when they are there.
inline gd_status check_view(gd_error* e, const char* slot, const char* side, int k,
                            const gd_view& v, bool may_be_null, bool writes) {
  if (!v.data && may_be_null) return GD_OK;
  if (v.dtype < 0 || v.dtype >= GD_DTYPE_COUNT)
    return refuse(e, GD_UNSUPPORTED, slot, "%s %d has dtype code %d, which has no kernel here",
                  side, k, v.dtype);
  if (!has_shape(v))
    return refuse(e, GD_INVALID, slot, "%s %d has rank %d without sizes and strides", side, k,
                  v.rank);
  if (v.rank > kMaxRank)
    return refuse(e, GD_UNSUPPORTED, slot, "%s %d has rank %d, this device takes %d", side, k,
                  v.rank, kMaxRank);
  bool empty = false;
  int overlaps = -1;
  for (int d = 0; d < v.rank; ++d) {
    const int64_t size = v.sizes[d];
    if (size < 0)
      return refuse(e, GD_INVALID, slot, "%s %d has size %lld on axis %d", side, k,
                    static_cast<long long>(size), d);
    empty |= size == 0;
    if (size > 1 && v.strides[d] == 0) overlaps = d;
  }
  if (empty) return GD_OK;
  if (!v.data) return refuse(e, GD_INVALID, slot, "%s %d is left out", side, k);
  if (writes && overlaps >= 0)
    return refuse(e, GD_INVALID, slot, "%s %d overlaps itself: stride 0 on axis %d", side, k,
                  overlaps);
  return GD_OK;
}

// What a slot expects; bit k of null_in / null_out allows view k to be left out.
struct Wanted {
  int min_in, max_in, min_out, max_out, doubles, ints;
  uint32_t null_in = 0, null_out = 0;
};
inline gd_status check_call(gd_error* e, const char* slot, const gd_call* c, const Wanted& w) {
  if (!c || c->struct_size < sizeof(gd_call))
    return refuse(e, GD_INVALID, slot, "the call has %u bytes, this table needs %zu",
                  c ? c->struct_size : 0u, sizeof(gd_call));
  if (c->n_in < w.min_in || c->n_in > w.max_in || c->n_out < w.min_out || c->n_out > w.max_out)
    return refuse(e, GD_INVALID, slot, "expected %d..%d inputs and %d..%d outputs, got %d and %d",
                  w.min_in, w.max_in, w.min_out, w.max_out, c->n_in, c->n_out);
  if (c->n_doubles < w.doubles || c->n_ints < w.ints)
    return refuse(e, GD_INVALID, slot, "expected %d doubles and %d ints, got %d and %d", w.doubles,
                  w.ints, c->n_doubles, c->n_ints);
  if ((c->n_in > 0 && !c->in) || (c->n_out > 0 && !c->out) || (w.doubles > 0 && !c->doubles) ||
      (w.ints > 0 && !c->ints))
    return refuse(e, GD_INVALID, slot, "a count is positive and its array is missing");
  for (int k = 0; k < c->n_in; ++k)
    if (gd_status s = check_view(e, slot, "input", k, c->in[k], w.null_in >> k & 1u, false))
      return s;
  for (int k = 0; k < c->n_out; ++k)
    if (gd_status s = check_view(e, slot, "output", k, c->out[k], w.null_out >> k & 1u, true))
      return s;
  return GD_OK;
}

// An axis number of v.
inline gd_status check_axis(gd_error* e, const char* slot, int64_t axis, const gd_view& v) {
  if (axis >= 0 && axis < v.rank) return GD_OK;
  return refuse(e, GD_INVALID, slot, "axis %lld is not an axis of rank %d",
                static_cast<long long>(axis), v.rank);
}

// ---- parallel loops. f must not throw.

template <class F>
inline void parallel(gd_device* d, int64_t tasks, F&& f) {
  using Body = std::remove_reference_t<F>;
  d->run(
      d, tasks, [](void* context, int64_t i) { (*static_cast<Body*>(context))(i); },
      const_cast<void*>(static_cast<const void*>(&f)));
}
// f(begin, end) over pieces of `grain` of [0, n).
template <class F>
inline void parallel_range(gd_device* d, int64_t n, int64_t grain, F&& f) {
  if (grain < 1) grain = 1;
  parallel(d, (n + grain - 1) / grain, [&](int64_t i) {
    const int64_t begin = i * grain, end = begin + grain < n ? begin + grain : n;
    f(begin, end);
  });
}
inline constexpr int64_t kGrain = 32768;  // elements that are worth a task

}  // namespace gradus::cpu
