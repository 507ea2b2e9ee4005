// The slot normalize. The n elements that share a mean are a line. A line is taken in spans of
// fold.hpp: each has its own mean and sum of squares around it, both summed in lanes, and spans are
// joined in a tree by Chan's formula. So memory is read once for the statistics, and no digits
// cancel. Where neighbours in memory belong to one line, vectors run along it; where they belong to
// different lines (the channels of a batch), a strip of lines is taken side by side. Both make the
// same sums in the same order.
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/normalize_lines.hpp"
#include "ops/def/normalize.h"

#include <limits>

namespace gradus::inline v1::cpu {
namespace {

constexpr const char* kSlot = "normalize";

// ---- strips

template <class T>
class Strips {
  using B = Batch<T>;

 public:
  static constexpr int64_t kMost = 512;

  Strips(const gd_device* d, const Job& job)
      : job_(job),
        inner_(job.inner),
        x_(d, job.dtype, job.work),
        w_(d, job.dtype, job.work),
        b_(d, job.dtype, job.work),
        y_(d, job.work, job.to) {
    for (int64_t j = 0; j < kMost; ++j) one_[j] = 1;
  }

  // `lines` <= kMost neighbours, from the one at p on. The sums are made kStrip lines at a time,
  // whose lanes fit in the first cache; what is written, by whole rows.
  void run(char* const* p, int64_t lines) {
    const bool value = job_.op == GD_NORM_VALUE;
    if (!value) {
      see(p, 0, lines);
      move(kMean, mean_, false);
      move(kVar, var_, false);
      deviations();
    }
    if (job_.op != GD_NORM_GIVEN)
      for (int64_t j = 0; j < lines; j += kStrip) {
        see(p, j, shorter(lines - j, kStrip));
        value ? moments() : slopes();
      }
    see(p, 0, lines);
    if (value) {
      move(kMean, mean_, true);
      move(kVar, var_, true);
      deviations();
    }
    if (job_.op == GD_NORM_VJP)
      each([](const Terms<T>& t, B x, B w, B g) { return t.vjp(x, w, g); });
    else
      each([](const Terms<T>& t, B x, B w, B b) { return t.value(x, w, b); });
  }

 private:
  int64_t step(int v) const { return job_.kept.stride[v][job_.kept.rank - 1]; }
  // Lines [first, first + lines) of those at p are at hand.
  void see(char* const* p, int64_t first, int64_t lines) {
    first_ = first;
    lines_ = lines;
    wide_ = (lines + kPad - 1) / kPad * kPad;
    for (int v = 0; v < kViews; ++v) inner_.base[v] = p[v] ? p[v] + first * step(v) : nullptr;
  }
  void deviations() {
    for (int64_t j = 0; j < wide_; ++j) {
      rstd_[j] = T(1) / std::sqrt(var_[j] + T(job_.eps));
      a_[j] = c_[j] = 0;
    }
  }
  Terms<T> terms(int64_t j) const {
    j += first_;
    return {B::load_unaligned(mean_ + j), B::load_unaligned(rstd_ + j), B::load_unaligned(a_ + j),
            B::load_unaligned(c_ + j)};
  }
  // Statistics of the lines, out to their views or in.
  void move(int v, T* own, bool out) {
    constexpr int64_t item = int64_t(sizeof(T));
    char* const bytes = reinterpret_cast<char*>(own);
    if (out) return copy_row(inner_.base[v], step(v), bytes, item, lines_, item);
    memset(own, 0, size_t(wide_ * item));
    copy_row(bytes, item, inner_.base[v], step(v), lines_, item);
  }

  // One row: an element of each of the lines.
  struct Row {
    const T *x, *w, *b;
    char* y;
  };
  // f(row, its number) for those from `start` on; `all` operands or x alone.
  template <bool all, class F>
  void for_rows_of(int64_t start, int64_t n, const F& f) {
    const int last = inner_.rank > 0 ? inner_.rank - 1 : 0;
    int64_t k = 0;
    if constexpr (!all) {
      for_rows(inner_, kX, start, n, [&](char* p, int64_t rows, int64_t by) {
        for (int64_t i = 0; i < rows; ++i, p += by)
          f(Row{x_.read(p, lines_, step(kX)), one_, zero_, nullptr}, k++);
      });
    } else {
      const bool has_w = inner_.base[kW], has_b = inner_.base[kB];
      for_all_rows(inner_, start, n, [&](char* const* p, int64_t rows) {
        for (int64_t i = 0; i < rows; ++i)
          f(Row{x_.read(p[kX] + i * inner_.stride[kX][last], lines_, step(kX)),
                has_w ? w_.read(p[kW] + i * inner_.stride[kW][last], lines_, step(kW)) : one_,
                has_b ? b_.read(p[kB] + i * inner_.stride[kB][last], lines_, step(kB)) : zero_,
                p[kY] + i * inner_.stride[kY][last]},
            k++);
      });
    }
  }
  // f(j, left) for the batches of a row.
  template <class F>
  __attribute__((always_inline)) void across(const F& f) const {
    for_batches<T>(lines_, f);
  }
  // kSums sums of each line over a span: term(row, j, left, sums so far). The lanes are joined.
  template <int kSums, bool all, class F>
  void sum(int64_t span, const F& term) {
    memset(lanes_, 0, size_t(kLanes * kSums * wide_) * sizeof(T));
    for_rows_of<all>(span * kSpan, job_.span_length(span), [&](const Row& row, int64_t k) {
      T* const lane = lanes_ + k % kLanes * kSums * wide_;
      across([&](int64_t j, int64_t left) __attribute__((always_inline)) {
        B s[kSums];
        for (int i = 0; i < kSums; ++i) s[i] = B::load_unaligned(lane + i * wide_ + j);
        term(row, j, left, s);
        for (int i = 0; i < kSums; ++i) s[i].store_unaligned(lane + i * wide_ + j);
      });
    });
    join_lanes<Sum<T>>(lanes_, kLanes, kSums * wide_);
  }

  void moments() {
    Moments<T> all(wide_);
    T* const mean = mean_ + first_;
    int64_t s = 0;
    do {  // a line has an element
      memset(mean, 0, size_t(wide_) * sizeof(T));
      if (job_.centred) {
        sum<1, false>(
            s, [](const Row& row, int64_t j, int64_t left, B* at)
                   __attribute__((always_inline)) { at[0] = at[0] + load_part(row.x + j, left); });
        for (int64_t j = 0; j < wide_; ++j) mean[j] = lanes_[j] / T(job_.span_length(s));
      }
      sum<1, false>(
          s, [=](const Row& row, int64_t j, int64_t left, B* at) __attribute__((always_inline)) {
            const B far = load_part(row.x + j, left) - B::load_unaligned(mean + j);
            at[0] = fused<T>(far, far, at[0]);
          });
      all.add(job_.span_length(s), mean, lanes_);
    } while (++s < job_.spans);
    all.result(mean, var_ + first_);
  }
  void slopes() {
    Tree<Sum<T>, T, 2 * kStrip> all(2 * wide_);
    for (int64_t s = 0; s < job_.spans; ++s) {
      sum<2, true>(
          s, [this](const Row& row, int64_t j, int64_t left, B* at) __attribute__((always_inline)) {
            const B gw = load_part(row.b + j, left) * load_part(row.w + j, left);
            at[0] = at[0] + gw;
            at[1] = fused<T>(gw, terms(j).h(load_part(row.x + j, left)), at[1]);
          });
      all.add(lanes_);
    }
    const T* const sums = all.result();
    for (int64_t j = 0; j < wide_; ++j) {
      if (job_.centred) a_[first_ + j] = sums[j] / T(job_.length);
      c_[first_ + j] = sums[wide_ + j] / T(job_.length);
    }
  }
  // y = f(x, w, b), row by row.
  template <class F>
  void each(const F& f) {
    const bool direct = job_.to == job_.work && step(kY) == int64_t(sizeof(T));
    alignas(64) T room[kMost];
    for_rows_of<true>(0, job_.length, [&](const Row& row, int64_t) {
      T* const y = direct ? reinterpret_cast<T*>(row.y) : room;
      across([&](int64_t j, int64_t left) __attribute__((always_inline)) {
        const B x = load_part(row.x + j, left);
        const B r = f(terms(j), x, load_part(row.w + j, left), load_part(row.b + j, left));
        store_part<T>(r, y + j, left);
      });
      if (!direct) y_.write(room, row.y, lines_, step(kY));
    });
  }

  const Job& job_;
  Walk inner_;
  Reader<T, kMost> x_, w_, b_;
  Writer<T, kMost> y_;
  int64_t first_ = 0, lines_ = 0, wide_ = 0;
  T one_[kMost], zero_[kMost] = {};
  alignas(64) T mean_[kMost], var_[kMost], rstd_[kMost], a_[kMost], c_[kMost];
  alignas(64) T lanes_[kLanes * 2 * kStrip];
};

template <class T>
void run(gd_device* d, const Job& job) {
  const Walk &kept = job.kept, &inner = job.inner;
  const int last = kept.rank - 1;
  const int64_t grain = kGrain / 4 / job.length + 1;
  const bool strips = last >= 0 && kept.size[last] >= 4 && inner.rank > 0 &&
                      kept.stride[kX][last] == kept.item[kX] &&
                      inner.stride[kX][inner.rank - 1] != inner.item[kX];
  if (strips) {
    constexpr int64_t kWide = 256;  // lines of a task at least
    parallel_range(d, kept.count(), (grain + kWide - 1) / kWide * kWide,
                   [&](int64_t begin, int64_t end) {
                     Strips<T> work(d, job);
                     for_all_rows(kept, begin, end - begin, [&](char* const* p, int64_t lines) {
                       char* at[kViews];
                       memcpy(at, p, sizeof at);
                       constexpr int64_t most = Strips<T>::kMost;
                       for (int64_t j = 0; j < lines; j += most) {
                         work.run(at, shorter(lines - j, most));
                         for (int v = 0; v < kViews; ++v)
                           if (at[v]) at[v] += most * kept.stride[v][last];
                       }
                     });
                   });
    return;
  }
  parallel_range(d, kept.count(), grain, [&](int64_t begin, int64_t end) {
    Lines<T> work(d, job);
    for_all_rows(kept, begin, end - begin, [&](char* const* p, int64_t lines) {
      char* at[kViews];
      memcpy(at, p, sizeof at);
      for (int64_t j = 0; j < lines; ++j) {
        work.line(at);
        for (int v = 0; v < kViews; ++v)
          if (at[v] && last >= 0) at[v] += kept.stride[v][last];
      }
    });
  });
}

// ---- the call

gd_status check(const gd_call* c, const gd_view* const* v, gd_error* e) {
  const gd_view &x = *v[kX], &mean = *v[kMean];
  const DType t = dtype_of_view(x);
  if (!is_real_float(t))
    return refuse(e, GD_UNSUPPORTED, kSlot, "dtype %s is not read; f32 f64 f16 bf16 are",
                  dtype_name(t));
  const int32_t wide = t == DType::f64 ? GD_F64 : GD_F32;
  for (int k : {kW, kB, kY}) {
    if (!v[k]->data && (k != kY || count_of(x) == 0)) continue;
    if (!same_sizes(*v[k], x) || (v[k]->dtype != x.dtype && (k != kY || v[k]->dtype != wide)))
      return refuse(e, GD_INVALID, kSlot, "operands and result should have equal sizes and dtypes");
  }
  if (c->op == GD_NORM_VJP && !v[kB]->data && count_of(x) > 0)
    return refuse(e, GD_INVALID, kSlot, "there is no cotangent");
  if (!same_sizes(mean, *v[kVar]) || mean.dtype != wide || v[kVar]->dtype != wide)
    return refuse(e, GD_INVALID, kSlot, "mean and variance should have equal sizes and dtype %s",
                  dtype_name(DType(wide)));
  bool fits = mean.rank == x.rank;
  for (int k = 0; fits && k < x.rank; ++k) fits = mean.sizes[k] == x.sizes[k] || mean.sizes[k] == 1;
  if (!fits) return refuse(e, GD_INVALID, kSlot, "the mean's sizes are not those of x or 1");
  return GD_OK;
}

// View v over the axes of x: the kept ones, or (all others having size 1) those of a line.
void add(Walk& w, const gd_view& v) {
  const int k = w.views++;
  w.item[k] = int64_t(itemsize(DType(v.dtype)));
  w.base[k] = v.data ? start_of(v) : nullptr;
  for (int d = 0; d < w.rank; ++d) w.stride[k][d] = v.data ? v.strides[d] * w.item[k] : 0;
}

}  // namespace

gd_status slot_normalize(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  if (c && (c->op < GD_NORM_VALUE || c->op > GD_NORM_VJP))
    return refuse(e, GD_INVALID, kSlot, "no normalisation has code %d", c->op);
  const bool value = c && c->op == GD_NORM_VALUE;
  const int n_in = value ? 3 : 5, n_out = value ? 3 : 1;
  if (gd_status s = check_call(e, kSlot, c, {n_in, n_in, n_out, n_out, 1, 1, 6})) return s;
  const gd_view* const v[kViews] = {&c->in[0],
                                    &c->in[1],
                                    &c->in[2],
                                    value ? &c->out[1] : &c->in[3],
                                    value ? &c->out[2] : &c->in[4],
                                    &c->out[0]};
  if (gd_status s = check(c, v, e)) return s;
  const gd_view &x = *v[kX], &mean = *v[kMean];
  Job job;
  job.kept.rank = job.inner.rank = x.rank;
  for (Walk* w : {&job.kept, &job.inner})
    for (const gd_view* view : v) add(*w, *view);
  job.length = 1;
  for (int k = 0; k < x.rank; ++k) {
    const bool kept = x.sizes[k] == mean.sizes[k];
    job.kept.size[k] = kept ? x.sizes[k] : 1;
    job.inner.size[k] = kept ? 1 : x.sizes[k];
    if (!kept) job.length *= x.sizes[k];
    if (!kept) job.inner.stride[kMean][k] = job.inner.stride[kVar][k] = 0;
  }
  sort_axes(job.kept, kX);
  merge_axes(job.inner);
  if (job.kept.count() == 0) return GD_OK;
  job.spans = (job.length + kSpan - 1) / kSpan;
  job.dtype = x.dtype;
  job.to = c->out[0].dtype;
  job.work = mean.dtype;
  job.op = c->op;
  job.eps = c->doubles[0];
  job.centred = c->ints[0] == 0;
  if (job.length == 0) {
    if (!value) return GD_OK;
    const auto fill = [&](auto nan) {
      for (int view : {kMean, kVar})
        for_rows(job.kept, view, 0, job.kept.count(), [&](char* p, int64_t n, int64_t step) {
          copy_row(p, step, reinterpret_cast<const char*>(&nan), 0, n, int64_t(sizeof nan));
        });
    };
    if (job.work == GD_F64)
      fill(std::numeric_limits<double>::quiet_NaN());
    else
      fill(std::numeric_limits<float>::quiet_NaN());
    return GD_OK;
  }
  if (job.work == GD_F64)
    run<double>(d, job);
  else
    run<float>(d, job);
  return GD_OK;
}

}  // namespace gradus::cpu
