// Products of blocks (GD_GROUPED): outer products of one block together, row by row; the others job
// by job: tiny ones in plain loops, small ones of f32 and f64 straight to what contract_small.cpp
// does with them, all others as calls of the slot contract. Sizes and steps alone say which, and so
// in which order terms are added.
#include "kernels/cpu/isa/contract/contraction.hpp"
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/tile.hpp"
#include "kernels/cpu/stream.hpp"
#include "ops/def/grouped.h"

namespace gradus::inline v1::cpu {
namespace {

// Multiplications that cost less than a plan or a call.
template <class T>
constexpr int64_t kTiny = std::is_same_v<T, float> || std::is_same_v<T, double> ? 8 : 64;
// Of a batch whose elements are done one by one.
constexpr int64_t kSmallBatch = 1 << 14;

template <class T>
struct summed_in {
  using type = T;
};
template <>
struct summed_in<Half> {
  using type = float;
};
template <>
struct summed_in<BFloat16> {
  using type = float;
};

struct Jobs {
  gd_device* d;
  SlotFn contract;
  const gd_view *a, *b, *c;
  bool conj_a, conj_b;
};

template <class T>
void multiply_tiny(const Jobs& jobs, const gd_block_product& p) {
  using Sum = typename summed_in<T>::type;
  const T *a = start_as<const T>(*jobs.a) + p.a, *b = start_as<const T>(*jobs.b) + p.b;
  T* c = start_as<T>(*jobs.c) + p.c;
  const bool conj_a = is_complex_v<T> && jobs.conj_a, conj_b = is_complex_v<T> && jobs.conj_b;
  for (int64_t i = 0; i < p.batch; ++i, a += p.a_batch, b += p.b_batch, c += p.c_batch)
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t n = 0; n < p.n; ++n) {
        Sum sum(0);
        for (int64_t k = 0; k < p.k; ++k) {
          const Sum x(a[m * p.a_m + k * p.a_k]), y(b[k * p.b_k + n * p.b_n]);
          sum = Sum(sum + (conj_a ? conj_of(x) : x) * (conj_b ? conj_of(y) : y));
        }
        if (p.sign < 0) sum = Sum(-sum);
        T& to = c[m * p.c_m + n * p.c_n];
        to = T(p.first ? sum : Sum(Sum(to) + sum));
      }
}

// False: not done.
template <class T>
bool multiply_small(const Jobs& jobs, const gd_block_product& p) {
  SmallProduct x(jobs.d->threads);
  x.m = p.m;
  x.n = p.n;
  x.k = p.k;
  if (p.m > 1) x.a_m = p.a_m, x.out_m = p.c_m;
  if (p.n > 1) x.b_n = p.b_n, x.out_n = p.c_n;
  if (p.k > 1) x.a_k = p.a_k, x.b_k = p.b_k;
  constexpr int32_t t = int32_t(dtype_of<T>);
  if (!(p.m == 1 || p.n == 1 ? plan_small_dot(x, t) : plan_small(x, t))) return false;
  const Role left = x.swapped ? kB : kA, right = x.swapped ? kA : kB;
  const T *a = start_as<const T>(*jobs.a) + p.a, *b = start_as<const T>(*jobs.b) + p.b;
  T* c = start_as<T>(*jobs.c) + p.c;
  Operands o{};
  o.alpha = {double(p.sign), 0};
  o.beta = {p.first ? 0.0 : 1.0, 0};
  for (int64_t i = 0; i < p.batch; ++i, a += p.a_batch, b += p.b_batch, c += p.c_batch) {
    o.data[left] = const_cast<T*>(a);
    o.data[right] = const_cast<T*>(b);
    o.data[kOut] = c;
    x.run(x, o);
  }
  return true;
}

// A block of c to which nothing is added: 0 is 0 bits in every dtype.
void clear(const gd_view& c, const gd_block_product& p) {
  const auto item = int64_t(itemsize(DType(c.dtype)));
  const bool by_m = p.c_m == 1, in_rows = by_m || p.c_n == 1 || p.n == 1;
  const int64_t length = (by_m ? p.m : p.n) * item, rows = by_m ? p.n : p.m,
                by = (by_m ? p.c_n : p.c_m) * item;
  const bool dense =
      in_rows && (rows == 1 || by == length) && (p.batch == 1 || p.c_batch * item == rows * length);
  char* const to = start_of(c) + p.c * item;
  if (dense && c.sizes[0] * item >= kStreamed) {
    alignas(64) static constexpr char kZeros[1 << 12] = {};
    for (int64_t at = 0, all = p.batch * rows * length; at < all; at += sizeof kZeros)
      stream_run(to + at, kZeros, std::min(all - at, int64_t(sizeof kZeros)));
    return end_streams();
  }
  if (dense) return void(memset(to, 0, size_t(p.batch * rows * length)));
  for (int64_t e = 0; e < p.batch; ++e)
    for (int64_t i = 0; i < rows; ++i) {
      char* const row = to + e * p.c_batch * item + i * by;
      if (in_rows)
        memset(row, 0, size_t(length));
      else
        for (int64_t j = 0; j < p.n; ++j) memset(row + j * p.c_n * item, 0, size_t(item));
    }
}

// Outer products (k = 1) of one block of c, along which c and one operand are dense: each element
// is written once, its terms summed in registers. Whole numbers and 16-bit ones have other ways.
template <class T>
class OuterProducts {
  // Rows are longer, since what follows is as quick with shorter ones; terms are no more.
  static constexpr int64_t kShort = is_complex_v<T> ? 56 : 3, kMost = 2;
  static constexpr int64_t kPiece = 4096;  // of a row: threads share a long one
  static constexpr int64_t kNarrow = 32;   // rows are short up to here

 public:
  // The first jobs from `first` on that are of this kind: count(), 0 if there is none.
  OuterProducts(const Jobs& jobs, const gd_block_product* first, const gd_block_product* end) {
    const gd_block_product& p = *first;
    const bool by_m = p.c_m == 1 && p.m > kShort, by_n = !by_m && p.c_n == 1 && p.n > kShort;
    conj_ = is_complex_v<T> && (by_m ? jobs.conj_b : jobs.conj_a);
    if (p.k != 1 || !(by_m || by_n) || (is_complex_v<T> && (by_m ? jobs.conj_a : jobs.conj_b)))
      return;
    const T *const a = start_as<const T>(*jobs.a), *const b = start_as<const T>(*jobs.b);
    for (const gd_block_product* q = first; q != end && count_ < kMost; ++q) {
      if (q != first && (q->first || q->k != 1)) break;
      if ((by_m ? q->a_m : q->b_n) != 1) break;
      terms_[count_++] =
          by_m ? Term{a + q->a, b + q->b, q->a_batch, q->b_batch, q->b_n, q->sign < 0}
               : Term{b + q->b, a + q->a, q->b_batch, q->a_batch, q->a_m, q->sign < 0};
    }
    length_ = by_m ? p.m : p.n;
    rows_ = by_m ? p.n : p.m;
    pieces_ = (length_ + kPiece - 1) / kPiece;
    c_step_ = by_m ? p.c_n : p.c_m;
    batch_ = p.batch;
    c_batch_ = p.c_batch;
    c_ = start_as<T>(*jobs.c) + p.c;
    keep_ = !p.first;
    const bool dense =
        (rows_ == 1 || c_step_ == length_) && (batch_ == 1 || c_batch_ == rows_ * length_);
    streamed_ = dense && !keep_ && jobs.c->sizes[0] * int64_t(sizeof(T)) >= kStreamed;
  }
  int64_t count() const { return count_; }

  void run(gd_device* d) const {
    parallel_range(d, batch_ * rows_ * pieces_, kGrain / std::min(length_, kPiece) + 1,
                   [&](int64_t begin, int64_t end) {
                     count_ == 1 ? run_some<1>(begin, end) : run_some<2>(begin, end);
                   });
  }

 private:
  struct Term {
    const T *row, *factor;
    int64_t row_batch, factor_batch, factor_step;
    bool minus;
  };

  // Pieces [begin, end) of all rows.
  template <int Terms>
  void run_some(int64_t begin, int64_t end) const {
    if (streamed_) return stream_some<Terms>(begin, end);
    if constexpr (std::is_floating_point_v<T>)
      if (rows_ > 1 && length_ <= kNarrow) return run_narrow<Terms>(begin, end);
    each_row<Terms>(begin, end, [&](const Sum<Terms>& sum, T* to, int64_t j, int64_t n) {
      keep_ ? sum.template put<true>(to, j, n) : sum.template put<false>(to, j, n);
    });
  }
  // Of short rows a vector of each term serves for all.
  template <int Terms>
  void run_narrow(int64_t begin, int64_t end) const {
    using B = Batch<T>;
    constexpr int64_t kWidth = int64_t(B::size);
    for (int64_t e = begin / rows_, first = begin % rows_; begin < end; ++e, first = 0) {
      const int64_t count = std::min(rows_ - first, end - begin);
      const T* f[Terms];
      for (int t = 0; t < Terms; ++t)
        f[t] = terms_[t].factor + e * terms_[t].factor_batch + first * terms_[t].factor_step;
      T* const to = c_ + e * c_batch_ + first * c_step_;
      for (int64_t j = 0; j < length_; j += kWidth) {
        const Some<T> some(std::min(kWidth, length_ - j));
        B x[Terms];
        for (int t = 0; t < Terms; ++t) {
          x[t] = some.load(terms_[t].row + e * terms_[t].row_batch + j);
          if (terms_[t].minus) x[t] = -x[t];
        }
        for (int64_t i = 0; i < count; ++i) {
          T* const here = to + i * c_step_ + j;
          B sum = B(f[0][i * terms_[0].factor_step]);
          sum = keep_ ? fused<T>(sum, x[0], some.load(here)) : sum * x[0];
          for (int t = 1; t < Terms; ++t)
            sum = fused<T>(B(f[t][i * terms_[t].factor_step]), x[t], sum);
          some.store(here, sum);
        }
      }
      begin += count;
    }
  }
  // By way of the first cache, past the others.
  template <int Terms>
  void stream_some(int64_t begin, int64_t end) const {
    constexpr int64_t kStaged = (1 << 13) / int64_t(sizeof(T));
    alignas(64) T stage[kStaged];
    T* out = nullptr;
    int64_t staged = 0, full = 0;
    const auto flush = [&] {
      stream_run(reinterpret_cast<char*>(out), reinterpret_cast<const char*>(stage),
                 staged * int64_t(sizeof(T)));
      out += staged;
      staged = 0;
      full = kStaged;
    };
    each_row<Terms>(begin, end, [&](const Sum<Terms>& sum, T* to, int64_t j, int64_t n) {
      if (!out) {  // the first run ends where a line does
        out = to;
        full = kStaged - int64_t(reinterpret_cast<uintptr_t>(to) % 64 / sizeof(T));
      }
      for (const int64_t end = j + n; j < end;) {
        const int64_t some = std::min(end - j, full - staged);
        sum.template put<false>(stage + staged, j, some);
        j += some;
        if ((staged += some) == full) flush();
      }
    });
    flush();
    end_streams();
  }
  // f(sum, to, j, n) for n elements of a row from j on.
  template <int Terms, class F>
  void each_row(int64_t begin, int64_t end, F&& f) const {
    int64_t piece = begin % pieces_, row = begin / pieces_ % rows_, e = begin / pieces_ / rows_;
    for (int64_t left = end - begin; left > 0; --left) {
      const int64_t j = piece * kPiece;
      f(Sum<Terms>(*this, e, row), c_ + e * c_batch_ + row * c_step_ + j, j,
        std::min(length_ - j, kPiece));
      if (++piece < pieces_) continue;
      piece = 0;
      if (++row < rows_) continue;
      row = 0;
      ++e;
    }
  }

  // A row of c.
  template <int Terms>
  struct Sum {
    const T* x[Terms];
    T f[Terms];
    Sum(const OuterProducts& o, int64_t e, int64_t row) {
      for (int t = 0; t < Terms; ++t) {
        const Term& term = o.terms_[t];
        x[t] = term.row + e * term.row_batch;
        f[t] = term.factor[e * term.factor_batch + row * term.factor_step];
        if (o.conj_) f[t] = conj_of(f[t]);
        if (term.minus) f[t] = T(-f[t]);
      }
    }
    // Elements j .. j + n - 1, to `to`.
    template <bool kKeep>
    void put(T* to, int64_t j, int64_t n) const {
      int64_t i = 0;
      if constexpr (std::is_floating_point_v<T>) {
        using B = Batch<T>;
        constexpr int64_t kWidth = int64_t(B::size);
        const auto sum = [&](const auto& load) {
          const B first = load(x[0] + j + i);
          B s = kKeep ? fused<T>(B(f[0]), first, load(to + i)) : B(f[0]) * first;
          for (int t = 1; t < Terms; ++t) s = fused<T>(B(f[t]), load(x[t] + j + i), s);
          return s;
        };
        for (; i + kWidth <= n; i += kWidth)
          sum([](const T* p) { return B::load_unaligned(p); }).store_unaligned(to + i);
        if (i == n) return;
        const Some<T> some(n - i);
        some.store(to + i, sum([&](const T* p) { return some.load(p); }));
      } else {
#ifndef __clang__
#pragma GCC ivdep
#endif
        for (; i < n; ++i) {
          T s = kKeep ? T(to[i] + f[0] * x[0][j + i]) : T(f[0] * x[0][j + i]);
          for (int t = 1; t < Terms; ++t) s = T(s + f[t] * x[t][j + i]);
          to[i] = s;
        }
      }
    }
  };

  Term terms_[kMost];
  int64_t count_ = 0, length_, rows_, pieces_, batch_, c_batch_, c_step_;
  T* c_;
  bool keep_, conj_, streamed_;
};

gd_status multiply_by_call(const Jobs& jobs, const gd_block_product& p, gd_error* e) {
  const int64_t sizes[] = {p.batch, p.m, p.n, p.k}, a_by[] = {p.a_batch, p.a_m, 0, p.a_k},
                b_by[] = {p.b_batch, 0, p.b_n, p.b_k}, c_by[] = {p.c_batch, p.c_m, p.c_n};
  const int left_out = p.batch == 1 ? 1 : 0;  // axes that stand first
  const auto view = [&](const gd_view& buffer, int64_t at, int rank, const int64_t* by) {
    return gd_view{buffer.buffer,      buffer.data,      buffer.dtype, rank - left_out,
                   buffer.offset + at, sizes + left_out, by + left_out};
  };
  const gd_view in[] = {view(*jobs.a, p.a, 4, a_by), view(*jobs.b, p.b, 4, b_by)},
                out = view(*jobs.c, p.c, 3, c_by);
  const double doubles[] = {double(p.sign), 0, p.first ? 0.0 : 1.0, 0};
  const int64_t ints[] = {3 - left_out, GD_STANDARD, jobs.conj_a, jobs.conj_b};
  const gd_call call{sizeof(gd_call), GD_CONTRACT, 0,       2,       1, 4,      4, in, &out,
                     doubles,         ints,        nullptr, nullptr, 0, nullptr};
  return jobs.contract(jobs.d, nullptr, &call, e);
}

// Gives how many jobs it did.
template <class T>
__attribute__((noinline)) int64_t multiply_outer(const Jobs& jobs, const gd_block_product* first,
                                                 const gd_block_product* end) {
  const OuterProducts<T> outer(jobs, first, end);
  if (outer.count() > 0) outer.run(jobs.d);
  return outer.count();
}

template <class T>
gd_status multiply_all(const Jobs& jobs, const gd_block_product* first, const gd_block_product* end,
                       gd_error* e) {
  for (const gd_block_product* p = first; p != end; ++p) {
    if (p->batch == 0 || p->m == 0 || p->n == 0) continue;
    if (p->k == 0) {
      if (p->first) clear(*jobs.c, *p);
      continue;
    }
    const int64_t work = p->m * p->n * p->k;
    if (work * p->batch <= kTiny<T>) {
      multiply_tiny<T>(jobs, *p);
      continue;
    }
    if constexpr (std::is_floating_point_v<T> || is_complex_v<T>)
      if (const int64_t done = p->k == 1 ? multiply_outer<T>(jobs, p, end) : 0; done > 0) {
        p += done - 1;
        continue;
      }
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      if ((p->batch == 1 || work * p->batch <= kSmallBatch) && multiply_small<T>(jobs, *p))
        continue;
    if (gd_status s = multiply_by_call(jobs, *p, e)) return s;
  }
  return GD_OK;
}

}  // namespace

gd_status block_products(gd_device* d, SlotFn contract, const gd_call* c, int64_t begin,
                         int64_t end, gd_error* e) {
  const Jobs jobs{d, contract, &c->in[0], &c->in[1], &c->out[0], c->ints[0] != 0, c->ints[1] != 0};
  const auto* const table = reinterpret_cast<const gd_block_product*>(c->ints + 2);
  gd_status s = GD_OK;
  visit_dtype(c->out[0].dtype, [&](auto zero) {
    if constexpr (!std::is_same_v<decltype(zero), bool>)
      s = multiply_all<decltype(zero)>(jobs, table + begin, table + end, e);
  });
  return s;
}

}  // namespace gradus::cpu
