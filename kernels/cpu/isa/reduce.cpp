// The slot reduce. Every output is the fold (fold.hpp) of its elements in row-major order of the
// reduced axes, whichever way memory is walked: along the reduced axes, along the kept ones, a
// strip of outputs at a time, or, where few elements make an output, block by block through a
// turned copy. Spans are partial results, so one long sum uses all threads too.
#include "kernels/cpu/isa/reduce_blocks.hpp"
#include "kernels/cpu/isa/words/simd.hpp"

namespace gradus::inline v1::cpu {
namespace {

constexpr const char* kSlot = "reduce";
constexpr const char* kNames[] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all"};
constexpr int64_t kCached = int64_t(1) << 20;
constexpr int64_t kWideStrip = 1024;  // beyond the caches long runs count

// ---- folds

// fold_span, with the lanes of a maximum or minimum held in registers.
template <class J, class T>
T span_of(const T* x, int64_t n) {
  constexpr bool maximum = std::is_same_v<J, Maximum<T>>, minimum = std::is_same_v<J, Minimum<T>>;
  if constexpr (std::is_floating_point_v<T> && (maximum || minimum)) {
    if (n < kLanes) return fold_span<J>(x, n);
    using B = Batch<T>;
    constexpr int64_t width = int64_t(B::size), registers = kLanes / width;
    B best[registers];
#pragma GCC unroll 16
    for (int64_t k = 0; k < registers; ++k) best[k] = B::load_unaligned(x + k * width);
    int64_t i = kLanes;
    for (; i + kLanes <= n; i += kLanes)
#pragma GCC unroll 16
      for (int64_t k = 0; k < registers; ++k) {
        const B a = best[k], b = B::load_unaligned(x + i + k * width);
        // b beats a, or is NaN; and a is none
        const auto loses = maximum ? b <= a : b >= a;
        const auto wins = (!loses) & (a == a);
        best[k] = xsimd::select(wins, b, a);
      }
    T lane[kLanes];
#pragma GCC unroll 16
    for (int64_t k = 0; k < registers; ++k) best[k].store_unaligned(lane + k * width);
    for (int64_t l = 0; i + l < n; ++l) lane[l] = J::join(lane[l], x[i + l]);
    join_lanes<J>(lane, kLanes, 1);
    return lane[0];
  } else {
    return fold_span<J>(x, n);
  }
}

template <class J>
class Folding {
  using T = typename J::Element;

 public:
  Folding(gd_device* d, const Split& s) : d_(d), s_(s), spans_((s.length + kSpan - 1) / kSpan) {}

  gd_status run(gd_error* e) {
    if (s_.length > 0 && Blocks<T>::suit(s_) && !along_out(2 * kStrip)) {
      fold_blocks();
      return GD_OK;
    }
    if (s_.length > 0 && s_.length <= kSpan && s_.outs == 1 && s_.reduced.rank < 2) {
      fold_one();
      return GD_OK;
    }
    const size_t bytes = size_t(s_.outs * (spans_ > 0 ? spans_ : 1)) * sizeof(T);
    parts_ = static_cast<T*>(d_->scratch(kScratchC, bytes));
    if (!parts_) return out_of_memory(e, kSlot, bytes);
    if (s_.length == 0)
      for (int64_t o = 0; o < s_.outs; ++o) parts_[o] = J::empty();
    else if (along_out(4))
      s_.length* s_.outs* int64_t(sizeof(T)) < kCached ? fold_strips<kStrip>()
                                                       : fold_strips<kWideStrip>();
    else
      fold_rows();
    finish();
    return GD_OK;
  }

 private:
  int64_t span_length(int64_t span) const { return shorter(s_.length - span * kSpan, kSpan); }
  // Does memory run along the kept axes, in rows of at least this many?
  bool along_out(int64_t least) const {
    const Walk &kept = s_.kept, &reduced = s_.reduced;
    const int64_t item = kept.item[kIn];
    return kept.rank > 0 && kept.stride[kIn][kept.rank - 1] == item &&
           kept.size[kept.rank - 1] >= least &&
           !(reduced.rank > 0 && reduced.stride[0][reduced.rank - 1] == item);
  }

  void fold_one() {
    Reader<T, kSpan> reader(d_, s_.from, s_.work);
    Writer<T, 1> writer(d_, s_.work, s_.to);
    const int64_t item = s_.kept.item[kIn], step = s_.reduced.rank ? s_.reduced.stride[0][0] : item;
    const T y = span_of<J>(reader.read(s_.kept.base[kIn], s_.length, step), s_.length);
    writer.write(&y, s_.kept.base[kOut], 1, s_.kept.item[kOut]);
  }

  void fold_blocks() {
    const int64_t grain = kGrain / s_.length / kStrip * kStrip;
    parallel_range(d_, s_.outs, grain, [&](int64_t begin, int64_t end) {
      Blocks<T> blocks(d_, s_);
      Writer<T, kStrip> writer(d_, s_.work, s_.to);
      T lane[kLanes * kStrip];
      for (int64_t o = begin; o < end; o += kStrip) {
        const int64_t n = shorter(end - o, kStrip);
        const T* x = blocks.bring(o, n);
        // As join_lanes does. Rows without a partner are copied by a loop of their own: a vector
        // that loads what it does not use is slow where that memory was never touched.
        for (int64_t half = kLanes / 2, count = s_.length; half > 0; half /= 2) {
          if (half >= count) continue;
          for (int64_t l = 0; l < half; ++l) {
            T* const to = lane + l * kStrip;
            const T *const first = x + l * kStrip, *const second = first + half * kStrip;
            if (l + half < count)
              for (int64_t j = 0; j < n; ++j) to[j] = J::join(first[j], second[j]);
            else if (to != first)
              memcpy(to, first, size_t(n) * sizeof(T));
          }
          count = half;
          x = lane;
        }
        const T* from = x;
        for_rows(s_.kept, kOut, o, n, [&](char* p, int64_t run, int64_t step) {
          writer.write(from, p, run, step);
          from += run;
        });
      }
    });
  }

  void fold_rows() {
    parallel_range(
        d_, s_.outs * spans_, kGrain / shorter(s_.length, kSpan), [&](int64_t begin, int64_t end) {
          Reader<T, kSpan> reader(d_, s_.from, s_.work);
          alignas(64) char block[kSpan * 16];
          Walk reduced = s_.reduced;
          const bool plain = reduced.rank < 2;
          const int64_t far = plain && s_.kept.rank > 0 ? s_.kept.stride[kIn][s_.kept.rank - 1] : 0;
          const int64_t step = s_.reduced.rank ? s_.reduced.stride[0][0] : s_.reduced.item[0];
          const auto one = [&](char* p, int64_t span) {
            const int64_t n = span_length(span);
            const char* from = p + span * kSpan * step;
            if (!plain) {
              reduced.base[0] = p;
              gather_block(reduced, 0, span * kSpan, n, block);
              from = block;
            }
            return span_of<J>(reader.read(from, n, plain ? step : reduced.item[0]), n);
          };
          // The spans of an output one after the other, or the outputs of a span, as memory runs.
          const bool by_output = spans_ > 1 && step * kSpan < far;
          const int64_t inner = by_output ? spans_ : s_.outs;
          for (int64_t i = begin; i < end;) {
            const int64_t slow = i / inner, fast = i % inner, some = shorter(end - i, inner - fast);
            if (by_output)
              for_rows(s_.kept, kIn, slow, 1, [&](char* p, int64_t, int64_t) {
                for (int64_t span = fast; span < fast + some; ++span)
                  parts_[span * s_.outs + slow] = one(p, span);
              });
            else
              for_rows(s_.kept, kIn, fast, some,
                       [&, to = parts_ + i](char* p, int64_t run, int64_t by) mutable {
                         for (int64_t k = 0; k < run; ++k, p += by) *to++ = one(p, slow);
                       });
            i += some;
          }
        });
  }

  template <int64_t kMost>
  void fold_strips() {
    const Walk& kept = s_.kept;
    const int last = kept.rank - 1;
    const int64_t width = kept.size[last], strips = (width + kMost - 1) / kMost;
    const int64_t rows = s_.outs / width, per_span = rows * strips;
    const int64_t work = shorter(s_.length, kSpan) * shorter(width, kMost);
    const size_t bytes = size_t(kLanes * shorter(width, kMost)) * sizeof(T);
    parallel_range(d_, per_span * spans_, kGrain / work, [&](int64_t begin, int64_t end) {
      Reader<T, kMost> reader(d_, s_.from, s_.work);
      T* lanes = static_cast<T*>(d_->scratch(kScratchTask, bytes));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t span = i / per_span, row = i % per_span / strips, j = i % strips * kMost,
                      n = shorter(width - j, kMost);
        const int64_t o = row * width + j;
        T* const to = parts_ + span * s_.outs + o;
        const int64_t at = address(kept, kIn, o) - kept.base[kIn];
        if (lanes) {
          fold_strip(at, span, n, to, lanes, reader);
          continue;
        }
        T few[kLanes];  // no memory: one output after the other
        for (int64_t q = 0; q < n; ++q)
          fold_strip(at + q * kept.item[kIn], span, 1, to + q, few, reader);
      }
    });
  }

  template <class R>
  void fold_strip(int64_t at, int64_t span, int64_t n, T* to, T* lane, R& reader) {
    const int64_t length = span_length(span);
    int64_t k = 0;
    for_rows(s_.reduced, 0, span * kSpan, length, [&](char* p, int64_t run, int64_t step) {
      for (int64_t q = 0; q < run; ++q, ++k, p += step) {
        const T* x = reader.read(p + at, n, s_.kept.item[kIn]);
        T* const l = lane + k % kLanes * n;
        if (k < kLanes)
          for (int64_t j = 0; j < n; ++j) l[j] = x[j];
        else
          for (int64_t j = 0; j < n; ++j) l[j] = J::join(l[j], x[j]);
      }
    });
    join_lanes<J>(lane, shorter(length, kLanes), n);
    memcpy(to, lane, size_t(n) * sizeof(T));
  }

  // The tree over spans, then the write.
  void finish() {
    parallel_range(d_, s_.outs, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t half = 1; half < spans_; half *= 2)
        for (int64_t span = 0; span + half < spans_; span += 2 * half) {
          T *a = parts_ + span * s_.outs, *b = a + half * s_.outs;
          for (int64_t o = begin; o < end; ++o) a[o] = J::join(a[o], b[o]);
        }
      Writer<T, kBlock> writer(d_, s_.work, s_.to);
      const T* from = parts_ + begin;
      for (int64_t o = begin; o < end; o += kBlock)
        for_rows(s_.kept, kOut, o, shorter(end - o, kBlock),
                 [&](char* p, int64_t run, int64_t step) {
                   writer.write(from, p, run, step);
                   from += run;
                 });
    });
  }

  gd_device* d_;
  const Split& s_;
  int64_t spans_;
  T* parts_ = nullptr;
};

// argmax and argmin: place of the first winner; NaN wins.
template <class T, bool kMaximum>
class Places {
  using Order = std::conditional_t<kMaximum, Maximum<T>, Minimum<T>>;

 public:
  Places(gd_device* d, const Split& s) : d_(d), s_(s) {}

  void run() {
    if (Blocks<T>::suit(s_)) {
      places_in_blocks();
      return;
    }
    const Walk& kept = s_.kept;
    const int last = kept.rank - 1;
    const bool strips = last >= 0 && kept.stride[kIn][last] == kept.item[kIn] && step() != item();
    const int64_t most = strips ? kStrip : 1;
    const int64_t grain = (kGrain / s_.length / most + 1) * most;
    parallel_range(d_, s_.outs, grain, [&](int64_t begin, int64_t end) {
      for_all_rows(kept, begin, end - begin, [&](char* const* p, int64_t run) {
        const int64_t in_step = last < 0 ? 0 : kept.stride[kIn][last],
                      out_step = last < 0 ? 0 : kept.stride[kOut][last];
        for (int64_t j = 0; j < run; j += most)
          places(p[kIn] + j * in_step, in_step, p[kOut] + j * out_step, out_step,
                 shorter(run - j, most));
      });
    });
  }

 private:
  int64_t item() const { return s_.kept.item[kIn]; }
  int64_t step() const { return s_.reduced.rank ? s_.reduced.stride[0][0] : item(); }
  static bool beats(T x, T best) {
    return (best == best) & ((x != x) | (kMaximum ? x > best : x < best));
  }

  void places_in_blocks() {
    const int64_t grain = kGrain / s_.length / kStrip * kStrip;
    parallel_range(d_, s_.outs, grain, [&](int64_t begin, int64_t end) {
      Blocks<T> blocks(d_, s_);
      for (int64_t o = begin; o < end; o += kStrip) {
        const int64_t n = shorter(end - o, kStrip);
        const T* x = blocks.bring(o, n);
        T best[kStrip];
        int64_t place[kStrip] = {};
        memcpy(best, x, size_t(n) * sizeof(T));
        for (int64_t k = 1; k < s_.length; ++k) update(x + k * kStrip, k, n, best, place);
        const char* from = reinterpret_cast<const char*>(place);
        for_rows(s_.kept, kOut, o, n, [&](char* p, int64_t run, int64_t step) {
          copy_row(p, step, from, 8, run, 8);
          from += 8 * run;
        });
      }
    });
  }
  static void update(const T* x, int64_t k, int64_t n, T* best, int64_t* place) {
    for (int64_t j = 0; j < n; ++j) {
      const bool wins = beats(x[j], best[j]);
      best[j] = wins ? x[j] : best[j];
      place[j] = wins ? k : place[j];
    }
  }

  // n outputs side by side (one: along the axis).
  void places(const char* in, int64_t in_step, char* out, int64_t out_step, int64_t n) {
    int64_t place[kStrip] = {};
    if (n == 1) {
      Reader<T, kBlock> reader(d_, s_.from, s_.work);
      T best = *reader.read(in, 1, item());
      for (int64_t k = 0; k < s_.length; k += kBlock) {
        const int64_t some = shorter(s_.length - k, kBlock);
        const T* x = reader.read(in + k * step(), some, step());
        const T m = span_of<Order>(x, some);  // the block's first NaN, or its best
        if (!beats(m, best)) continue;
        best = m;
        place[0] = k;
        while (x[place[0] - k] != m && (m == m || x[place[0] - k] == x[place[0] - k])) ++place[0];
      }
    } else {
      Reader<T, kStrip> reader(d_, s_.from, s_.work);
      T best[kStrip];
      memcpy(best, reader.read(in, n, in_step), size_t(n) * sizeof(T));
      for (int64_t k = 1; k < s_.length; ++k) {
        update(reader.read(in + k * step(), n, in_step), k, n, best, place);
      }
    }
    copy_row(out, out_step, reinterpret_cast<char*>(place), 8, n, 8);
  }

  gd_device* d_;
  const Split& s_;
};

template <template <class> class J>
gd_status fold_as(gd_device* d, const Split& s, gd_error* e) {
  switch (s.work) {
    case GD_F32:
      return Folding<J<float>>(d, s).run(e);
    case GD_F64:
      return Folding<J<double>>(d, s).run(e);
    case GD_C64:
      return Folding<J<c64>>(d, s).run(e);
    case GD_C128:
      return Folding<J<c128>>(d, s).run(e);
    default:
      return Folding<J<int64_t>>(d, s).run(e);
  }
}
template <template <class> class J>
gd_status choose_as(gd_device* d, const Split& s, gd_error* e) {
  switch (s.work) {
    case GD_F32:
      return Folding<J<float>>(d, s).run(e);
    case GD_F64:
      return Folding<J<double>>(d, s).run(e);
    default:
      return Folding<J<int64_t>>(d, s).run(e);
  }
}
template <bool kMaximum>
gd_status place_as(gd_device* d, const Split& s) {
  switch (s.work) {
    case GD_F32:
      Places<float, kMaximum>(d, s).run();
      break;
    case GD_F64:
      Places<double, kMaximum>(d, s).run();
      break;
    default:
      Places<int64_t, kMaximum>(d, s).run();
  }
  return GD_OK;
}

int32_t work_dtype(int32_t op, DType t) {
  if (op == GD_ANY || op == GD_ALL) return GD_BOOL;
  return is_half(t) ? int32_t(GD_F32) : is_integer(t) ? int32_t(GD_I64) : int32_t(t);
}

gd_status check(const gd_call* c, gd_error* e) {
  const int32_t op = c->op;
  const gd_view &in = c->in[0], &out = c->out[0];
  const DType t = dtype_of_view(in);
  const bool places = op == GD_ARGMAX || op == GD_ARGMIN, truth = op == GD_ANY || op == GD_ALL,
             order = op >= GD_MAX && op <= GD_ARGMIN;
  if (in.rank != out.rank)
    return refuse(e, GD_INVALID, kSlot, "%s: input has rank %d, output %d", kNames[op], in.rank,
                  out.rank);
  int64_t length = 1;
  for (int d = 0; d < in.rank; ++d) {
    if (in.sizes[d] != out.sizes[d] && out.sizes[d] != 1)
      return refuse(e, GD_INVALID, kSlot, "%s: axis %d does not reduce from %lld to %lld",
                    kNames[op], d, static_cast<long long>(in.sizes[d]),
                    static_cast<long long>(out.sizes[d]));
    if (in.sizes[d] != out.sizes[d]) length *= in.sizes[d];
  }
  if (order && is_complex(t))
    return refuse(e, GD_UNSUPPORTED, kSlot, "%s: complex numbers (%s) have no order", kNames[op],
                  dtype_name(t));
  const int32_t wanted = truth ? int32_t(GD_BOOL)
                         : places || ((op == GD_SUM || op == GD_PROD) && is_integer(t))
                             ? int32_t(GD_I64)
                             : in.dtype;
  if (out.dtype != wanted)
    return refuse(e, GD_INVALID, kSlot, "%s of %s gives %s, the output is %s", kNames[op],
                  dtype_name(t), dtype_name(DType(wanted)), dtype_name(DType(out.dtype)));
  if (order && length == 0 && count_of(out) > 0)
    return refuse(e, GD_INVALID, kSlot, "%s: nothing to choose from", kNames[op]);
  if (!places || in.rank == 0) return GD_OK;
  if (c->n_ints < 1 || !c->ints)
    return refuse(e, GD_INVALID, kSlot, "%s: there is no axis", kNames[op]);
  if (gd_status s = check_axis(e, kSlot, c->ints[0], in)) return s;
  for (int d = 0; d < in.rank; ++d)
    if (in.sizes[d] != out.sizes[d] && d != c->ints[0])
      return refuse(e, GD_INVALID, kSlot, "%s reduces its one axis, not axis %d", kNames[op], d);
  return GD_OK;
}

}  // namespace

gd_status slot_reduce(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  if (c && sum_small(c)) return GD_OK;
  if (gd_status s = check_call(e, kSlot, c, {1, 1, 1, 1, 0, 0})) return s;
  if (c->op < GD_SUM || c->op > GD_ALL)
    return refuse(e, GD_INVALID, kSlot, "no reduction has code %d", c->op);
  if (gd_status s = check(c, e)) return s;
  const gd_view &in = c->in[0], &out = c->out[0];
  Split s;
  s.outs = count_of(out);
  if (s.outs == 0) return GD_OK;
  add_view(s.kept, in);
  add_view(s.kept, out);
  add_view(s.reduced, in);
  s.length = 1;
  for (int k = 0; k < in.rank; ++k) {
    const bool kept = in.sizes[k] == out.sizes[k];
    (kept ? s.reduced : s.kept).size[k] = 1;
    if (!kept) s.length *= in.sizes[k];
  }
  merge_axes(s.reduced);
  sort_axes(s.kept, kIn);
  s.from = in.dtype;
  s.to = out.dtype;
  s.work = work_dtype(c->op, dtype_of_view(in));
  switch (c->op) {
    case GD_SUM:
      return fold_as<Sum>(d, s, e);
    case GD_PROD:
      return fold_as<Product>(d, s, e);
    case GD_MAX:
      return choose_as<Maximum>(d, s, e);
    case GD_MIN:
      return choose_as<Minimum>(d, s, e);
    case GD_ARGMAX:
      return place_as<true>(d, s);
    case GD_ARGMIN:
      return place_as<false>(d, s);
    case GD_ANY:
      return Folding<Any>(d, s).run(e);
    default:
      return Folding<All>(d, s).run(e);
  }
}

}  // namespace gradus::cpu
