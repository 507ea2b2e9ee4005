// The slot grouped: jobs over blocks of whole buffers. Jobs that write the same block stay
// together; such chains are dealt out to the threads by their work, and a large one has all the
// threads for itself. Products are done by the instruction set (isa/contract/contract_blocks.cpp).
// Copies are small: one look at the axes, then runs, or planes turned in registers; large ones go
// the way of copy.cpp.
#include "kernels/call/checks.hpp"
#include "kernels/cpu/slots.hpp"
#include "kernels/cpu/walk.hpp"

#include <algorithm>
#include <atomic>

namespace gradus::inline v1::cpu {
namespace {

using calls::BlockCopy;
using calls::GroupedCall;

// ---- jobs for threads

// Jobs up to `end` that belong together.
struct Chain {
  int64_t end;
  double cost;
  bool large;  // worth all threads
};

// Calls run(begin, end) for all jobs, those of a chain in one go. next(begin) gives a chain; so
// much cost is worth a task.
template <class Next, class Run>
void deal_out(gd_device* d, int64_t jobs, double task, Next&& next, Run&& run) {
  if (d->threads == 1) return run(int64_t(0), jobs);
  double total = 0;
  bool all_small = true;
  for (int64_t i = 0; i < jobs;) {
    const Chain c = next(i);
    all_small &= !c.large;
    if (c.large)
      run(i, c.end);
    else
      total += c.cost;
    i = c.end;
  }
  constexpr int64_t kMost = 256;
  const int64_t tasks =
      std::clamp(int64_t(total / task), int64_t(1), std::min(kMost, int64_t(8) * d->threads));
  if (all_small && tasks == 1) return run(int64_t(0), jobs);
  int64_t begin[kMost + 1], k = 0;
  double done = 0;
  for (int64_t i = 0; i < jobs;) {
    for (; k < tasks && done >= total * double(k) / double(tasks); ++k) begin[k] = i;
    const Chain c = next(i);
    if (!c.large) done += c.cost;
    i = c.end;
  }
  for (; k <= tasks; ++k) begin[k] = jobs;
  parallel(d, tasks, [&](int64_t t) {
    if (all_small) return run(begin[t], begin[t + 1]);
    for (int64_t i = begin[t]; i < begin[t + 1];) {
      const Chain c = next(i);
      if (!c.large) run(i, c.end);
      i = c.end;
    }
  });
}

// ---- products

// In multiplications: what a job costs beside its own, what is worth a task, and threads within.
constexpr double kJob = 256, kTask = 1 << 17, kLarge = 1 << 22;

void multiply(gd_device* d, const gd_call* c, const GroupedCall& g) {
  std::atomic<bool> failed = false;
  gd_error first{};
  const auto next = [&](int64_t begin) {
    Chain chain{begin, 0, false};
    do {
      const gd_block_product& p = g.products[chain.end];
      const double work =
          double(p.batch) * double(p.m) * double(p.n) * double(std::max<int64_t>(p.k, 1));
      chain.large |= work >= kLarge;
      chain.cost += kJob + work;
    } while (++chain.end < g.jobs && !g.products[chain.end].first);
    return chain;
  };
  deal_out(d, g.jobs, kTask, next, [&](int64_t begin, int64_t end) {
    gd_error e{};
    const gd_status s = d->kernels->block_products(d, slot_contract_with_blas, c, begin, end, &e);
    if (s != GD_OK && !failed.exchange(true)) first = e;
  });
  if (failed) calls::refuse(first.code, first.native, "%s", first.text);
}

// ---- copies

constexpr int kOut = 0, kIn = 1;
// In bytes: what a block costs beside its own, what is worth a task, and what copy.cpp does.
constexpr int64_t kCopyJob = 512, kCopyTask = 16 * kGrain, kLargeCopy = 1 << 20;

Walk walk_of(const GroupedCall& g, const BlockCopy& c) {
  Walk w;
  w.views = 2;
  w.rank = g.rank;
  w.item[kOut] = w.item[kIn] = int64_t(itemsize(DType(g.out.dtype)));
  w.base[kOut] = start_of(g.out) + c.out * w.item[kOut];
  w.base[kIn] = c.sign == 0 ? w.base[kOut] : start_of(g.a) + c.in * w.item[kIn];
  for (int k = 0; k < g.rank; ++k) {
    w.size[k] = c.sizes[k];
    w.stride[kOut][k] = c.out_by[k] * w.item[kOut];
    w.stride[kIn][k] = (c.sign == 0 ? c.out_by[k] : c.in_by[k]) * w.item[kIn];
  }
  return w;
}

// Calls f(to, from) for every place of the axes of w.
template <class F>
void each_place(const Walk& w, F&& f) {
  for_all_rows(w, 0, w.count(), [&](char* const* p, int64_t n) {
    if (w.rank == 0) return f(p[kOut], p[kIn]);
    const int64_t to = w.stride[kOut][w.rank - 1], from = w.stride[kIn][w.rank - 1];
    for (int64_t i = 0; i < n; ++i) f(p[kOut] + i * to, p[kIn] + i * from);
  });
}

// Rows of the last axis, gathered at any steps.
void copy_rows(const Walk& w, int64_t unit) {
  const int last = w.rank - 1;
  for_all_rows(w, 0, w.count(), [&](char* const* p, int64_t n) {
    copy_row(p[kOut], w.stride[kOut][last], p[kIn], w.stride[kIn][last], n, unit);
  });
}

// A matrix whose columns lie one after another where it is read, and whose rows do where it is
// written.
class Turned {
 public:
  Turned(const gd_device* d, int64_t rows, int64_t columns, int64_t to_row, int64_t from_column,
         int64_t unit)
      : turn_(d->kernels->transpose(unit)),
        rows_(rows),
        columns_(columns),
        to_row_(to_row),
        from_column_(from_column),
        unit_(unit),
        staged_(columns <= kColumns && to_row == columns * unit && rows * to_row >= kStaged) {
    for (int64_t j = 0; j < std::min(kColumns, columns); ++j) at_[j] = j * from_column;
  }
  // Some rows at a time, so that they are written in few streams; by way of the first cache where
  // they are one long run, which is then written without being read first.
  void operator()(char* to, const char* from) const {
    alignas(64) char block[kColumns * kRowBytes];
    const int64_t some = kRowBytes / unit_;
    for (int64_t j = 0; j < columns_; j += kColumns)
      for (int64_t i = 0; i < rows_; i += some) {
        const int64_t n = std::min(some, rows_ - i);
        char* const rows = to + i * to_row_ + j * unit_;
        turn_(staged_ ? block : rows, to_row_, from + i * unit_ + j * from_column_, at_,
              std::min(kColumns, columns_ - j), n);
        if (staged_) memcpy(rows, block, size_t(n * to_row_));
      }
  }

 private:
  static constexpr int64_t kColumns = 256, kRowBytes = 128, kStaged = 8 << 10;
  const TransposeFn turn_;
  const int64_t rows_, columns_, to_row_, from_column_, unit_;
  const bool staged_;
  int64_t at_[kColumns];
};

void copy_block(gd_device* d, Walk& w) {
  int64_t unit = w.item[kOut];
  sort_axes(w, kOut);
  if (w.count() * unit >= kLargeCopy) return copy_same(d, w);
  const auto dense = [&](int v, int k) { return w.stride[v][k] == unit; };
  if (w.rank > 0 && dense(kOut, w.rank - 1) && dense(kIn, w.rank - 1)) {
    const int64_t run = unit * w.size[--w.rank];
    if (run > 16 || (run & (run - 1)) != 0)
      return each_place(w, [&](char* to, const char* from) { memcpy(to, from, size_t(run)); });
    unit = run;
  }
  if (w.rank == 0) return void(memcpy(w.base[kOut], w.base[kIn], size_t(unit)));
  if (dense(kOut, w.rank - 1))
    for (int k = w.rank - 2; k >= 0; --k) {
      if (!dense(kIn, k)) continue;
      move_axis(w, k, w.rank - 2);
      w.rank -= 2;
      return each_place(w, Turned(d, w.size[w.rank], w.size[w.rank + 1], w.stride[kOut][w.rank],
                                  w.stride[kIn][w.rank + 1], unit));
    }
  copy_rows(w, unit);
}

// ---- arithmetic of copies, row by row

template <class T>
T negative(T x) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(-float(x));
  else
    return T(-x);
}
template <class T>
T sum_of(T x, T y) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(float(x) + float(y));
  else
    return T(x + y);
}

template <class T>
void negate_row(char* row, int64_t n, int64_t step) {
  T* const x = reinterpret_cast<T*>(row);
  if (step == int64_t(sizeof(T)))
    for (int64_t i = 0; i < n; ++i) x[i] = negative(x[i]);
  else
    for (int64_t i = 0, by = step / int64_t(sizeof(T)); i < n; ++i) x[i * by] = negative(x[i * by]);
}

template <class T, bool kMinus>
void add_row(T* to, int64_t to_by, const T* from, int64_t from_by, int64_t n) {
  const auto term = [&](int64_t i) { return kMinus ? negative(from[i]) : from[i]; };
  if (to_by == 0) {
    T sum = *to;
    for (int64_t i = 0; i < n; ++i) sum = sum_of(sum, term(i * from_by));
    *to = sum;
  } else if (to_by == 1 && from_by == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = sum_of(to[i], term(i));
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * to_by] = sum_of(to[i * to_by], term(i * from_by));
  }
}

// Elements that are named once may be added in any order.
template <class T, bool kMinus>
void add_block(Walk& w) {
  bool once = true;
  for (int k = 0; k < w.rank; ++k) once &= w.size[k] == 1 || w.stride[kOut][k] != 0;
  once ? sort_axes(w, kOut) : merge_axes(w);
  constexpr int64_t item = sizeof(T);
  const int64_t to_by = w.rank > 0 ? w.stride[kOut][w.rank - 1] / item : 0,
                from_by = w.rank > 0 ? w.stride[kIn][w.rank - 1] / item : 0;
  for_all_rows(w, 0, w.count(), [&](char* const* p, int64_t n) {
    add_row<T, kMinus>(reinterpret_cast<T*>(p[kOut]), to_by, reinterpret_cast<const T*>(p[kIn]),
                       from_by, n);
  });
}

// What most blocks are, at first sight: one run of neighbours on both sides, or a matrix that is
// turned. False: not done.
bool copy_plain(gd_device* d, const GroupedCall& g, const BlockCopy& c) {
  const int64_t unit = int64_t(itemsize(DType(g.out.dtype)));
  int axes[2] = {}, rank = 0;
  int64_t bytes = unit;
  for (int k = 0; k < g.rank; ++k) {
    if (c.sizes[k] == 1) continue;
    if (rank == 2) return false;
    axes[rank++] = k;
    bytes *= c.sizes[k];
  }
  if (bytes >= kLargeCopy) return false;
  char* const to = start_of(g.out) + c.out * unit;
  const char* const from = start_of(g.a) + c.in * unit;
  const int i = axes[0], j = axes[1];
  if (rank == 0 || (rank == 1 && c.in_by[i] == 1 && c.out_by[i] == 1))
    memcpy(to, from, size_t(bytes));
  else if (rank == 2 && c.in_by[i] == 1 && c.out_by[j] == 1)
    Turned(d, c.sizes[i], c.sizes[j], c.out_by[i] * unit, c.in_by[j] * unit, unit)(to, from);
  else if (rank == 2 && c.in_by[j] == 1 && c.out_by[i] == 1)
    Turned(d, c.sizes[j], c.sizes[i], c.out_by[j] * unit, c.in_by[i] * unit, unit)(to, from);
  else
    return false;
  return true;
}

void run_copy(gd_device* d, const GroupedCall& g, int64_t job) {
  const BlockCopy c = g.copy(job);
  if (c.sign == 1 && !g.add && copy_plain(d, g, c)) return;
  Walk w = walk_of(g, c);
  if (w.count() == 0 || (g.add && c.sign == 0)) return;
  if (c.sign == 0) {
    sort_axes(w, kOut);
    for_rows(w, kOut, 0, w.count(), [&](char* p, int64_t n, int64_t step) {
      const size_t item = size_t(w.item[kOut]);
      if (step == int64_t(item)) return void(memset(p, 0, size_t(n) * item));
      for (int64_t i = 0; i < n; ++i) memset(p + i * step, 0, item);
    });
    return;
  }
  const int32_t dtype = g.out.dtype;
  if (!g.add) {
    copy_block(d, w);
    if (c.sign == 1) return;
    w = walk_of(g, c);
    sort_axes(w, kOut);
  }
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<T, bool>)
      return;  // refused
    else if (!g.add)
      for_rows(w, kOut, 0, w.count(), negate_row<T>);
    else if (c.sign < 0)
      add_block<T, true>(w);
    else
      add_block<T, false>(w);
  });
}

void copy_blocks(gd_device* d, const GroupedCall& g) {
  const auto run = [&](int64_t begin, int64_t end) {
    for (int64_t job = begin; job < end; ++job) run_copy(d, g, job);
  };
  if (g.add) return run(0, g.jobs);  // blocks of out may overlap
  const auto next = [&](int64_t begin) {
    const BlockCopy c = g.copy(begin);
    double bytes = double(itemsize(DType(g.out.dtype)));
    for (int k = 0; k < g.rank; ++k) bytes *= double(c.sizes[k]);
    return Chain{begin + 1, bytes + kCopyJob, bytes >= kLargeCopy};
  };
  deal_out(d, g.jobs, kCopyTask, next, run);
}

}  // namespace

gd_status slot_grouped(gd_device* d, gd_stream*, const gd_call* raw, gd_error* e) {
  return calls::guarded("cpu", e, [&] {
    calls::Call call(*raw, calls::Device{"cpu", kMaxRank}, "grouped");
    const GroupedCall g = calls::expect_grouped(call);
    g.products ? multiply(d, raw, g) : copy_blocks(d, g);
  });
}

}  // namespace gradus::cpu
