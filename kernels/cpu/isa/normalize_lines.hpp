// Normalisation line by line, in vectors that run along the line.
#pragma once
#include "kernels/cpu/isa/normalize_parts.hpp"
#include "ops/def/normalize.h"

#include <cmath>

namespace gradus::inline v1::cpu {

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
      gather(k, n, to);
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
  void gather(int64_t k, int64_t n, char* to) {
    for_rows(walk_, 0, k, n, [&](const char* p, int64_t run, int64_t by) {
      if (by == 0 && !convert_) {  // one number for each row: the weight of a channel
        T x;
        memcpy(&x, p, sizeof(T));
        T* const row = reinterpret_cast<T*>(to);
        for (int64_t i = 0; i < run; ++i) row[i] = x;
      } else {
        copy_row(to, item_, p, by, run, item_);
      }
      to += run * item_;
    });
  }
  Walk walk_;
  int64_t item_;
  bool there_, direct_, gathered_;
  ConvertFn convert_;
  alignas(64) T wide_[kSpan];
  alignas(64) char raw_[kSpan * 2];
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
      moments(p, mean, var);
      memcpy(p[kMean], &mean, sizeof(T));
      memcpy(p[kVar], &var, sizeof(T));
    } else {
      memcpy(&mean, p[kMean], sizeof(T));
      memcpy(&var, p[kVar], sizeof(T));
    }
    const T rstd = T(1) / std::sqrt(var + T(job_.eps));
    Terms<T> t{B(mean), B(rstd), B(T(0)), B(T(0))};
    if (job_.op == GD_NORM_VJP) {
      slopes(p, t);
      each(p, t, [](const Terms<T>& u, B x, B w, B g) { return u.vjp(x, w, g); });
    } else {
      each(p, t, [](const Terms<T>& u, B x, B w, B b) { return u.value(x, w, b); });
    }
  }

 private:
  // A span's operands. What is a single batch has step 0.
  struct Span {
    const T *x, *w, *b;
    int64_t ws, bs;
    B at_w(int64_t i, int64_t left) const { return load_part(w + i * ws, ws ? left : width); }
    B at_b(int64_t i, int64_t left) const { return load_part(b + i * bs, bs ? left : width); }
  };
  Span bring(char* const* p, int64_t s) {
    const int64_t k = s * kSpan, n = job_.span_length(s);
    return {x_.read(p[kX], k, n), w_.read(p[kW], k, n), b_.read(p[kB], k, n), w_.step, b_.step};
  }

  void moments(char* const* p, T& mean, T& var) {
    if (job_.spans == 1) {
      span_moments(p, 0, mean, var);
      var = var / T(job_.length);
      return;
    }
    Moments<T> all(1);
    int64_t s = 0;
    do {
      span_moments(p, s, mean, var);
      all.add(job_.span_length(s), &mean, &var);
    } while (++s < job_.spans);
    all.result(&mean, &var);
  }
  void span_moments(char* const* p, int64_t s, T& mean, T& squares) {
    const int64_t n = job_.span_length(s);
    const T* const x = x_.read(p[kX], s * kSpan, n);
    mean = 0;
    if (job_.centred) {
      lane_sums<T, 1>(
          n,
          [=](int64_t i, int64_t left, B * sum)
              __attribute__((always_inline)) { sum[0] = sum[0] + load_part(x + i, left); },
          &mean);
      mean = mean / T(n);
    }
    const B middle(mean);
    lane_sums<T, 1>(
        n,
        [=](int64_t i, int64_t left, B * sum) __attribute__((always_inline)) {
          const B far = first_of<T>(load_part(x + i, left) - middle, left);
          sum[0] = fused<T>(far, far, sum[0]);
        },
        &squares);
  }

  void slopes(char* const* p, Terms<T>& t) {
    T sums[2];
    if (job_.spans == 1) {
      span_slopes(p, 0, t, sums);
    } else {
      Tree<Sum<T>, T, 2> all(2);
      for (int64_t s = 0; s < job_.spans; ++s) {
        span_slopes(p, s, t, sums);
        all.add(sums);
      }
      memcpy(sums, all.result(), sizeof sums);
    }
    if (job_.centred) t.a = B(sums[0] / T(job_.length));
    t.c = B(sums[1] / T(job_.length));
  }
  void span_slopes(char* const* p, int64_t s, const Terms<T>& terms, T* out) {
    const Span span = bring(p, s);
    const Terms<T> t = terms;
    lane_sums<T, 2>(
        job_.span_length(s),
        [=](int64_t i, int64_t left, B * sum) __attribute__((always_inline)) {
          const B gw = first_of<T>(span.at_b(i, left) * span.at_w(i, left), left);
          sum[0] = sum[0] + gw;
          sum[1] = fused<T>(gw, first_of<T>(t.h(load_part(span.x + i, left)), left), sum[1]);
        },
        out);
  }

  // y = f(x, w, b), by spans.
  template <class F>
  void each(char* const* p, const Terms<T>& terms, const F& f) {
    const Terms<T> t = terms;
    for (int64_t s = 0; s < job_.spans; ++s) {
      const Span span = bring(p, s);
      T* const y = y_.room(p[kY], s * kSpan);
      for_batches<T>(
          job_.span_length(s), [=](int64_t i, int64_t left) __attribute__((always_inline)) {
            const B x = load_part(span.x + i, left);
            store_part<T>(f(t, x, span.at_w(i, left), span.at_b(i, left)), y + i, left);
          });
      y_.write(p[kY], s * kSpan, job_.span_length(s));
    }
  }

  const Job& job_;
  Side<T> x_, w_, b_, y_;
};

}  // namespace gradus::cpu
