// The slot normalize. The n elements that share a mean are a line. A line is taken in spans of
// fold.hpp: each has its own mean and sum of squares around it, both summed in lanes, and spans are
// joined in a tree by Chan's formula. So memory is read once for the statistics, and no digits
// cancel. Where neighbours in memory belong to one line, vectors run along it; where they belong to
// different lines (the channels of a batch), a strip of lines is taken side by side. Both make the
// same sums in the same order.
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/normalize_parts.hpp"

#include <cmath>
#include <limits>

namespace gradus::cpu {
namespace {

constexpr const char* kSlot = "normalize";

// ---- lines

// One operand of a line: runs of it as T, side by side. One that is the same number all over the
// line, or left out, is a single batch that does not move.
template <class T>
class Side {
 public:
  Side(const gd_device* d, const Job& job, int v, T absent)
      : item_(job.inner.item[v]), there_(job.inner.base[v]) {
    walk_.views = 1;
    walk_.rank = job.inner.rank;
    walk_.item[0] = item_;
    for (int k = 0; k < walk_.rank; ++k) {
      walk_.size[k] = job.inner.size[k];
      walk_.stride[0][k] = job.inner.stride[v][k];
    }
    merge_axes(walk_);
    const int32_t dtype = v == kY ? job.to : job.dtype;
    convert_ = dtype == job.work ? nullptr
               : v == kY         ? d->convert(job.work, dtype)
                                 : d->convert(dtype, job.work);
    const bool dense = walk_.rank == 0 || (walk_.rank == 1 && walk_.stride[0][0] == item_);
    direct_ = there_ && dense && !convert_;
    gathered_ = !dense;
    const bool may_stand = v == kW || v == kB;
    step = !there_ || (may_stand && walk_.scalar(0) && job.length > 1) ? 0 : 1;
    if (!there_)
      for (int64_t k = 0; k < kPad; ++k) wide_[k] = absent;
  }
  // n elements from element k of the line at p; if step is 0, kPad equal ones.
  const T* read(char* p, int64_t k, int64_t n) {
    if (!there_) return wide_;
    if (step == 0) {
      if (convert_)
        convert_(p, wide_, 1);
      else
        memcpy(wide_, p, sizeof(T));
      for (int64_t l = 1; l < kPad; ++l) wide_[l] = wide_[0];
      return wide_;
    }
    const char* from = p + k * item_;
    if (direct_) return reinterpret_cast<const T*>(from);
    if (gathered_) {
      char* const to = convert_ ? raw_ : reinterpret_cast<char*>(wide_);
      walk_.base[0] = p;
      gather_block(walk_, 0, k, n, to);
      from = to;
    }
    if (convert_) convert_(from, wide_, n);
    return wide_;
  }
  // Where n results may be put, and what takes them to the line.
  T* room(char* p, int64_t k) { return direct_ ? reinterpret_cast<T*>(p + k * item_) : wide_; }
  void write(char* p, int64_t k, int64_t n) {
    if (direct_) return;
    char* from = reinterpret_cast<char*>(wide_);
    if (convert_) {
      char* const to = gathered_ ? raw_ : p + k * item_;
      convert_(wide_, to, n);
      from = to;
    }
    if (!gathered_) return;
    walk_.base[0] = p;
    scatter_block(walk_, 0, k, n, from);
  }
  int64_t step;

 private:
  Walk walk_;
  int64_t item_;
  bool there_, direct_, gathered_;
  ConvertFn convert_;
  alignas(64) T wide_[kSpan];
  alignas(64) char raw_[kSpan * 8];
};

template <class T>
class Lines {
  using B = Batch<T>;
  static constexpr int64_t width = int64_t(B::size);

 public:
  Lines(const gd_device* d, const Job& job)
      : job_(job), x_(d, job, kX, 0), w_(d, job, kW, 1), b_(d, job, kB, 0), y_(d, job, kY, 0) {}

  void line(char* const* p) {
    T mean, var;
    if (job_.op == GD_NORM_VALUE) {
      Moments<T> all(1);
      int64_t s = 0;
      do {  // a line has an element
        const int64_t n = job_.span_length(s);
        x = x_.read(p[kX], s * kSpan, n);
        T sums[2] = {};
        moments(n, sums);
        all.add(n, sums, sums + 1);
      } while (++s < job_.spans);
      all.result(&mean, &var);
      memcpy(p[kMean], &mean, sizeof(T));
      memcpy(p[kVar], &var, sizeof(T));
    } else {
      memcpy(&mean, p[kMean], sizeof(T));
      memcpy(&var, p[kVar], sizeof(T));
    }
    const T rstd = T(1) / std::sqrt(var + T(job_.eps));
    Terms<T> t{B(mean), B(rstd), B(T(0)), B(T(0))};
    if (job_.op == GD_NORM_VJP) {
      Tree<Sum<T>, T, 2> all(2);
      for (int64_t s = 0; s < job_.spans; ++s) {
        bring(p, s);
        T sums[2];
        slopes(job_.span_length(s), t, sums);
        all.add(sums);
      }
      const T* const sums = all.result();
      if (job_.centred) t.a = B(sums[0] / T(job_.length));
      t.c = B(sums[1] / T(job_.length));
    }
    for (int64_t s = 0; s < job_.spans; ++s) {
      if (job_.spans > 1 || job_.op != GD_NORM_VJP) bring(p, s);
      const int64_t n = job_.span_length(s);
      T* const y = y_.room(p[kY], s * kSpan);
      const int64_t ws = w_.step, bs = b_.step;
      for_batches<T>(n, [&](int64_t i, int64_t left) {
        const B xs = load_part(x + i, left), wi = load_part(w + i * ws, ws ? left : width),
                bi = load_part(b + i * bs, bs ? left : width);
        store_part<T>(job_.op == GD_NORM_VJP ? t.vjp(xs, wi, bi) : t.value(xs, wi, bi), y + i,
                      left);
      });
      y_.write(p[kY], s * kSpan, n);
    }
  }

 private:
  void bring(char* const* p, int64_t s) {
    const int64_t n = job_.span_length(s);
    if (job_.spans > 1 || job_.op != GD_NORM_VALUE) x = x_.read(p[kX], s * kSpan, n);
    w = w_.read(p[kW], s * kSpan, n);
    b = b_.read(p[kB], s * kSpan, n);
  }
  void moments(int64_t n, T* out) {
    if (job_.centred) {
      lane_sums<T, 1>(
          n, [&](int64_t i, int64_t left, B* s) { s[0] = s[0] + load_part(x + i, left); }, out);
      out[0] = out[0] / T(n);
    }
    const B mean(out[0]);
    lane_sums<T, 1>(
        n,
        [&](int64_t i, int64_t left, B* s) {
          const B far = first_of<T>(load_part(x + i, left) - mean, left);
          s[0] = fused<T>(far, far, s[0]);
        },
        out + 1);
  }
  void slopes(int64_t n, const Terms<T>& t, T* out) {
    const int64_t ws = w_.step, gs = b_.step;
    lane_sums<T, 2>(
        n,
        [&](int64_t i, int64_t left, B* s) {
          const B gw = first_of<T>(
              load_part(b + i * gs, gs ? left : width) * load_part(w + i * ws, ws ? left : width),
              left);
          s[0] = s[0] + gw;
          s[1] = fused<T>(gw, first_of<T>(t.h(load_part(x + i, left)), left), s[1]);
        },
        out);
  }

  const Job& job_;
  Side<T> x_, w_, b_, y_;
  const T *x = nullptr, *w = nullptr, *b = nullptr;  // the span at hand
};

// ---- strips

template <class T>
class Strips {
  using B = Batch<T>;

 public:
  Strips(const gd_device* d, const Job& job)
      : job_(job),
        inner_(job.inner),
        x_(d, job.dtype, job.work),
        w_(d, job.dtype, job.work),
        b_(d, job.dtype, job.work),
        y_(d, job.work, job.to) {
    for (int64_t j = 0; j < kStrip; ++j) one_[j] = 1;
  }

  // `lines` <= kStrip neighbours, from the one at p on.
  void strip(char* const* p, int64_t lines) {
    lines_ = lines;
    wide_ = (lines + kPad - 1) / kPad * kPad;
    for (int v = 0; v < kViews; ++v) inner_.base[v] = p[v];
    if (job_.op == GD_NORM_VALUE) {
      Moments<T> all(wide_);
      int64_t s = 0;
      do {
        T mean[kStrip] = {};
        const T n = T(job_.span_length(s));
        if (job_.centred) {
          sum(s, [&](int64_t j, int64_t left, T* lane, int64_t) {
            (B::load_unaligned(lane) + load_part(row_x_ + j, left)).store_unaligned(lane);
          });
          for (int64_t j = 0; j < wide_; ++j) mean[j] = lanes_[j] / n;
        }
        sum(s, [&](int64_t j, int64_t left, T* lane, int64_t) {
          const B far = load_part(row_x_ + j, left) - B::load_unaligned(mean + j);
          fused<T>(far, far, B::load_unaligned(lane)).store_unaligned(lane);
        });
        all.add(job_.span_length(s), mean, lanes_);
      } while (++s < job_.spans);
      all.result(mean_, var_);
      move(kMean, mean_, p, true);
      move(kVar, var_, p, true);
    } else {
      move(kMean, mean_, p, false);
      move(kVar, var_, p, false);
    }
    for (int64_t j = 0; j < wide_; ++j) {
      rstd_[j] = T(1) / std::sqrt(var_[j] + T(job_.eps));
      a_[j] = c_[j] = 0;
    }
    if (job_.op == GD_NORM_VJP) add_slopes();
    T y[kStrip];
    for_rows_of(0, job_.length, [&](char* const* at) {
      for (int64_t j = 0; j < lines_; j += int64_t(B::size)) {
        const int64_t left = lines_ - j;
        const Terms<T> t = terms(j);
        const B xs = load_part(row_x_ + j, left), w = load_part(row_w_ + j, left),
                b = load_part(row_b_ + j, left);
        (job_.op == GD_NORM_VJP ? t.vjp(xs, w, b) : t.value(xs, w, b)).store_unaligned(y + j);
      }
      y_.write(y, at[kY], lines_, step(kY));
    });
  }

 private:
  int64_t step(int v) const { return job_.kept.stride[v][job_.kept.rank - 1]; }
  Terms<T> terms(int64_t j) const {
    return {B::load_unaligned(mean_ + j), B::load_unaligned(rstd_ + j), B::load_unaligned(a_ + j),
            B::load_unaligned(c_ + j)};
  }
  // Statistics of the strip's lines.
  void move(int v, T* x, char* const* p, bool out) {
    char* const far = p[v];
    char* const own = reinterpret_cast<char*>(x);
    constexpr int64_t item = int64_t(sizeof(T));
    if (out) return copy_row(far, step(v), own, item, lines_, item);
    memset(x, 0, size_t(wide_ * item));
    copy_row(own, item, far, step(v), lines_, item);
  }
  // f for rows [start, start + n) of the strip.
  template <class F>
  void for_rows_of(int64_t start, int64_t n, F&& f) {
    for_all_rows(inner_, start, n, [&](char* const* p, int64_t rows) {
      char* at[kViews];
      memcpy(at, p, sizeof at);
      for (int64_t k = 0; k < rows; ++k) {
        row_x_ = x_.read(at[kX], lines_, step(kX));
        row_w_ = inner_.base[kW] ? w_.read(at[kW], lines_, step(kW)) : one_;
        row_b_ = inner_.base[kB] ? b_.read(at[kB], lines_, step(kB)) : zero_;
        f(static_cast<char* const*>(at));
        for (int v = 0; v < kViews; ++v)
          if (at[v]) at[v] += inner_.stride[v][inner_.rank - 1];
      }
    });
  }
  // term(column, columns left, lane of the row, row) for a span; then its lanes are joined.
  template <class F>
  void sum(int64_t span, F&& term) {
    memset(lanes_, 0, size_t(kLanes * wide_) * sizeof(T));
    int64_t k = 0;
    for_rows_of(span * kSpan, job_.span_length(span), [&](char* const*) {
      T* const lane = lanes_ + k % kLanes * wide_;
      for (int64_t j = 0; j < lines_; j += int64_t(B::size)) term(j, lines_ - j, lane + j, k);
      ++k;
    });
    join_lanes<Sum<T>>(lanes_, kLanes, wide_);
  }
  void add_slopes() {
    Tree<Sum<T>, T, 2 * kStrip> all(2 * wide_);
    T both[2 * kStrip];
    for (int64_t s = 0; s < job_.spans; ++s) {
      sum(s, [&](int64_t j, int64_t left, T* lane, int64_t) {
        (B::load_unaligned(lane) + load_part(row_b_ + j, left) * load_part(row_w_ + j, left))
            .store_unaligned(lane);
      });
      memcpy(both, lanes_, size_t(wide_) * sizeof(T));
      sum(s, [&](int64_t j, int64_t left, T* lane, int64_t) {
        const B gw = load_part(row_b_ + j, left) * load_part(row_w_ + j, left);
        fused<T>(gw, terms(j).h(load_part(row_x_ + j, left)), B::load_unaligned(lane))
            .store_unaligned(lane);
      });
      memcpy(both + wide_, lanes_, size_t(wide_) * sizeof(T));
      all.add(both);
    }
    const T* const sums = all.result();
    for (int64_t j = 0; j < wide_; ++j) {
      if (job_.centred) a_[j] = sums[j] / T(job_.length);
      c_[j] = sums[wide_ + j] / T(job_.length);
    }
  }

  const Job& job_;
  Walk inner_;
  Reader<T, kStrip> x_, w_, b_;
  Writer<T, kStrip> y_;
  int64_t lines_ = 0, wide_ = 0;
  const T *row_x_ = nullptr, *row_w_ = nullptr, *row_b_ = nullptr;  // the row at hand
  T one_[kStrip], zero_[kStrip] = {};
  alignas(64) T mean_[kStrip], var_[kStrip], rstd_[kStrip], a_[kStrip], c_[kStrip];
  alignas(64) T lanes_[kLanes * kStrip];
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
    parallel_range(d, kept.count(), (grain + kStrip - 1) / kStrip * kStrip,
                   [&](int64_t begin, int64_t end) {
                     Strips<T> work(d, job);
                     for_all_rows(kept, begin, end - begin, [&](char* const* p, int64_t lines) {
                       char* at[kViews];
                       memcpy(at, p, sizeof at);
                       for (int64_t j = 0; j < lines; j += kStrip) {
                         work.strip(at, shorter(lines - j, kStrip));
                         for (int v = 0; v < kViews; ++v)
                           if (at[v]) at[v] += kStrip * kept.stride[v][last];
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
