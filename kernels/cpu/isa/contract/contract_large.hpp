// A contraction of f32 or f64 that is not small, after Goto and van de Geijn ("Anatomy of
// high-performance matrix multiplication", ACM TOMS 34, 2008) and BLIS, with boxes of lines in the
// place of ranges of columns, as in TBLIS (Matthews, "High-performance tensor contraction without
// transposition", SISC 40, 2018). For each block of k: the rows of a are packed; then each task
// packs a box of columns of b, which stays in its L2 cache, and multiplies it with its share of the
// rows. Operands that are as quick to read where they lie are not packed. out is written along its
// neighbours: straight from the registers where a vector is one run of them, else run by run.
#pragma once
#include "kernels/cpu/isa/contract/gemm.hpp"
#include "kernels/cpu/isa/contract/line_boxes.hpp"
#include "kernels/cpu/isa/contract/pack.hpp"

namespace gradus::inline v1::cpu {

// Rows of a tile of two vectors of columns: with a line of b and one broadcast they fill the
// registers. kRows1: of one vector, for small products.
#if defined(__AVX512BW__)
inline constexpr int64_t kRows = 14, kRows1 = 14;
#elif defined(__AVX2__)
inline constexpr int64_t kRows = 6, kRows1 = 8;
#elif defined(__SSE2__)
inline constexpr int64_t kRows = 4, kRows1 = 8;
#else
inline constexpr int64_t kRows = 8, kRows1 = 8;
#endif
inline constexpr int64_t kVectors = 2;
inline constexpr int64_t kSerial = 1 << 19;  // multiplications not worth threads

// In is what a and b hold, R what is added up and what out holds.
template <class In, class R>
class Large {
 public:
  using B = Batch<R>;
  static constexpr int64_t kWidth = int64_t(B::size), kNr = kVectors * kWidth,
                           kBytes = int64_t(sizeof(R)), kKc = kBlock<R>;
  static constexpr bool kSame = sizeof(In) == sizeof(R);

  Large(gd_device* d, const Contraction& x, const Operands& o)
      : d_(d), x_(x), alpha_(R(o.alpha.re)), beta_(R(o.beta.re)) {}

  // Addresses of a batch element; GD_OK or GD_OOM.
  gd_status run(const In* a, const In* b, R* out, const R* bias) {
    a_ = a;
    b_ = b;
    out_ = out;
    bias_ = bias;
    one_line_ = bias_;
    for (int d = 0; d < x_.m.rank; ++d) one_line_ = one_line_ && x_.m.stride[kBias][d] == 0;
    m_ = x_.m.count;
    rows_ = x_.rows[1];
    const int64_t k = x_.k.count, block = k_block(k, kKc);
    a_step_ = rows_ * block + kWidth;
    b_step_ = block * kNr + kWidth;
    const int64_t line = block * kBytes,
                  held = x_.direct_b ? kMostLines : d_->cache[1] * 3 / 8 / line;
    const Boxes boxes(x_.n, x_.direct_b ? -1 : x_.turned,
                      most(least(held, kMostLines), 4 * kNr) / kNr * kNr, kNr);
    boxes_ = &boxes;
    // One box: the rows are in use only once, and had better stay close until then.
    const int64_t close = boxes.count == 1 ? d_->cache[1] / 2 : least(d_->cache[2] / 8, 4 << 20),
                  at_once = x_.direct_a ? m_ : most(close / line / rows_, 8) * rows_;
    const int64_t a_most = x_.direct_a ? 0 : panels(least(m_, at_once), rows_) * a_step_;
    pack_a_ = static_cast<R*>(d_->scratch(kScratchA, size_t(a_most * kBytes)));
    if (!pack_a_ && a_most > 0) return GD_OOM;
    k0_ = 0;
    do {
      kc_ = least(k - k0_, block);
      if (!x_.direct_a) x_.k.offsets(kA, k0_, kc_, k_at_[0]);
      if (!x_.direct_b) x_.k.offsets(kB, k0_, kc_, k_at_[1]);
      for (row0_ = 0; row0_ < m_; row0_ += at_once) {
        const int64_t all = panels(least(m_ - row0_, at_once), rows_);
        if (!x_.direct_a) pack_rows(all);
        multiply(all);
        if (failed_) return GD_OOM;
      }
      k0_ += block;
    } while (k0_ < k);
    return GD_OK;
  }

 private:
  static constexpr int64_t kMostLines = 4096,  // of a box, about
      kRowsAtOnce = 16 * kRows, kRunsOfTile = 8, kFetch = 64, kLongRow = 1024;

  // What a task knows of its box.
  struct Columns {
    int64_t count;
    const R* packed;
    const Run* runs;
    const int32_t* begin;  // first run of each panel
    const int64_t* bias;   // offsets; and a line of numbers, if it is the same for all rows
    const R* bias_line;
    bool long_rows;  // of neighbours in out
    int64_t direct;  // offset of the first column of an operand that is not packed
  };

  void pack_rows(int64_t all) {
    const bool unit = unit_steps(k_at_[0], kc_);
    constexpr int64_t each = 4;  // panels of one task
    run_tasks(d_, panels(all, each), all * rows_ * kc_ * 4, kSerial, [&](int64_t t) {
      for (int64_t p = t * each; p < least(all, (t + 1) * each); ++p) {
        const int64_t row = row0_ + p * rows_, rows = least(m_ - row, rows_);
        R* const to = pack_a_ + p * a_step_;
        int64_t at[kRows];
        x_.m.offsets(kA, row, rows, at);
        pack_panel(a_, at, rows, rows_, k_at_[0], unit, x_.conj_a, to);
      }
    });
  }

  void pack_panel(const In* from, const int64_t* at, int64_t n, int64_t width, const int64_t* k_at,
                  bool k_unit, bool brain, R* to) {
    if constexpr (kSame)
      pack_lines(from, at, n, width, k_at, kc_, k_unit, to);
    else
      for (int64_t k = 0; k < kc_; ++k)
        for (int64_t i = 0; i < n; ++i) to[k * width + i] = widen(from[at[i] + k_at[k]], brain);
  }

  void pack_box(const Box& box, R* turn, R* to) {
    if constexpr (kSame)
      if (x_.turned >= 0) {
        pack_turned(b_, box, kB, x_.turned, kNr, k_at_[1], kc_, turn, to, b_step_);
        return;
      }
    const bool unit = unit_steps(k_at_[1], kc_);
    int64_t at[kNr];
    for (int64_t first = 0; first < box.axes.count; first += kNr, to += b_step_) {
      const int64_t n = least(box.axes.count - first, kNr);
      box.offsets(kB, first, n, at);
      pack_panel(b_, at, n, kNr, k_at_[1], unit, x_.conj_b, to);
    }
  }

  void multiply(int64_t all) {
    // Shares of the rows where there are too few boxes for the threads.
    int64_t share = all;
    while (d_->threads > 1 && share > 4 && boxes_->count * panels(all, share) < 4 * d_->threads)
      share = panels(share, 2);
    const int64_t shares = panels(all, share);
    run_tasks(d_, boxes_->count * shares, all * rows_ * x_.n.count * kc_, kSerial, [&](int64_t t) {
      Box box;
      boxes_->get(t / shares, box);
      const int64_t first = t % shares * share;
      if (!one_box(box, first, least(all, first + share)))
        __atomic_store_n(&failed_, true, __ATOMIC_RELAXED);
    });
  }

  // Panels p0 .. p1 - 1 of rows with a box of columns; false if there is no memory.
  bool one_box(const Box& box, int64_t p0, int64_t p1) {
    const int64_t lines = box.axes.count, np = panels(lines, kNr),
                  packed = x_.direct_b ? 0 : np * b_step_,
                  turn = x_.turned >= 0 ? panels(lines, kNr) * kNr : 0;
    const size_t bytes =
        size_t((packed + turn + lines) * kBytes + lines * int64_t(sizeof(Run) + 16) +
               (np + 1) * int64_t(sizeof(int32_t)));
    R* const pack = static_cast<R*>(d_->scratch(kScratchB, bytes));
    if (!pack) return false;
    Run* const runs = reinterpret_cast<Run*>(pack + packed + turn);
    int64_t* const at = reinterpret_cast<int64_t*>(runs + lines);
    int64_t* const bias = at + lines;
    R* const line = reinterpret_cast<R*>(bias + lines);
    int32_t* const begin = reinterpret_cast<int32_t*>(line + lines);
    if (!x_.direct_b) pack_box(box, pack + packed, pack);
    box.offsets(kOut, 0, lines, at);
    if (bias_) box.offsets(kBias, 0, lines, bias);
    for (int64_t i = 0; i < lines && one_line_; ++i) line[i] = bias_[bias[i]];
    int32_t count = 0;
    for (int64_t p = 0; p < np; ++p) {
      begin[p] = count;
      const int64_t n = least(lines - p * kNr, kNr);
      const int64_t* const to = at + p * kNr;
      for (int64_t i = 0; i < n; ++count) {
        int64_t j = i + 1;
        while (j < n && j % kWidth != 0 && to[j] == to[i] + j - i) ++j;
        runs[count] = {to[i], int32_t(i), int32_t(j - i)};
        i = j;
      }
    }
    begin[np] = count;
    const bool long_rows =
        box.axes.unit(kOut) &&
        (box.axes.rank == 0 || box.axes.size[box.axes.rank - 1] >= kLongRow || box.axes.rank == 1);
    const Columns columns{lines,     pack,         runs, begin, bias, one_line_ ? line : nullptr,
                          long_rows, box.start[kB]};
    for (int64_t p = p0; p < p1; p += kRowsAtOnce / kRows)
      some_rows(columns, p, least(p1, p + kRowsAtOnce / kRows));
    return true;
  }

  void some_rows(const Columns& columns, int64_t p0, int64_t p1) {
    const bool first = k0_ == 0;
    const R* const bias = k0_ + kc_ == x_.k.count ? bias_ : nullptr;  // the last block's
    // Sums that are only stored, or added, may go to out at once.
    const bool adds = !first || beta_ == R(1);
    const bool plain = alpha_ == R(1) && (adds || beta_ == R(0)) && (!bias || one_line_);
    int64_t out_at[kRowsAtOnce], bias_at[kRowsAtOnce];
    const int64_t row_first = row0_ + p0 * rows_,
                  row_count = least(m_ - row_first, (p1 - p0) * rows_);
    x_.m.offsets(kOut, row_first, row_count, out_at);
    if (bias) x_.m.offsets(kBias, row_first, row_count, bias_at);
    alignas(64) R sums[kRows * kNr];
    const int64_t a_m = x_.m.step(kA), a_k = x_.k.step(kA), b_n = x_.n.step(kB),
                  b_k = x_.k.step(kB);
    const void* fetch[kFetch];
    TileCall t;
    t.fetch = fetch;
    t.k = kc_;
    t.a_row = (x_.direct_a ? a_m : 1) * kBytes;
    t.a_k = (x_.direct_a ? a_k : rows_) * kBytes;
    t.b_k = (x_.direct_b ? b_k : kNr) * kBytes;
    t.b_ahead = x_.direct_b ? kNr * kBytes : 8 * kNr * kBytes;
    for (int64_t i = p0; i < p1; ++i) {
      const int64_t row = row0_ + i * rows_, nr = least(m_ - row, rows_);
      const int64_t *const out_row = out_at + (row - row_first), *const bias_row =
                                                                     bias_at + (row - row_first);
      t.a = reinterpret_cast<const char*>(x_.direct_a ? same(a_) + row * a_m + k0_ * a_k
                                                      : pack_a_ + i * a_step_);
      for (int64_t j = 0; j < panels(columns.count, kNr); ++j) {
        const int64_t nc = least(columns.count - j * kNr, kNr), v = panels(nc, kWidth);
        const Run *const run = columns.runs + columns.begin[j], *const end = columns.runs +
                                                                             columns.begin[j + 1];
        t.last = nc - (v - 1) * kWidth;
        t.b = reinterpret_cast<const char*>(x_.direct_b ? same(b_) + columns.direct +
                                                              j * kNr * b_n + k0_ * b_k
                                                        : columns.packed + j * b_step_);
        const bool even = end - run == v && (v == 1 || run[1].at == run->at + kWidth),
                   direct = plain && end - run <= kRunsOfTile;
        t.c_at = nullptr;
        t.add = direct && adds;
        if (direct && even && x_.m.even()) {
          t.c = out_ + out_row[0] + run->at;
          t.c_row = x_.m.step(kOut);
        } else if (direct) {
          t.c = out_;
          t.c_at = out_row;
          t.run = t.run_end[0] = run;
          while (t.run_end[0] < end && t.run_end[0]->first < kWidth) ++t.run_end[0];
          t.run_end[1] = end;
        } else {
          t.c = sums;
          t.c_row = kNr;
        }
        t.bias = direct && bias ? columns.bias_line + j * kNr : nullptr;
        // The processor foresees long rows, no short runs and no sums that are to be added to.
        const bool foreseen = !adds && even && columns.long_rows;
        int64_t n_fetch = 0;
        for (const Run* r = run; !foreseen && r < end && n_fetch + 2 * nr <= kFetch; ++r) {
          for (int64_t q = 0; q < nr; ++q) fetch[n_fetch++] = out_ + out_row[q] + r->at;
          if (r + 1 == end)
            for (int64_t q = 0; q < nr; ++q)
              fetch[n_fetch++] = out_ + out_row[q] + r->at + r->n - 1;
        }
        t.fetch_steps = n_fetch / 2;
        find_tile<R, int(kRows1), int(kRows)>(nr, v, t.last < kWidth)(t);
        if (!direct)
          finish(sums, first, bias, out_row, bias_row, nr, run, end, columns.bias + j * kNr, nc);
      }
    }
  }
  static const R* same(const In* p) { return reinterpret_cast<const R*>(p); }

  // out = alpha sum + beta out for the first block of k, out += alpha sum for the others, and then
  // the bias, if there is one.
  void finish(const R* sums, bool first, const R* bias, const int64_t* out_row,
              const int64_t* bias_row, int64_t nr, const Run* begin, const Run* end,
              const int64_t* bias_column, int64_t nc) {
    const bool old = !first || beta_ != R(0);
    const R scale = first ? beta_ : R(1);
    R given[kNr];
    for (int64_t i = 0; i < nr; ++i, sums += kNr) {
      R* const row = out_ + out_row[i];
      if (bias && (i == 0 || bias_row[i] != bias_row[i - 1]))
        for (int64_t j = 0; j < nc; ++j) given[j] = bias[bias_row[i] + bias_column[j]];
      for (const Run* r = begin; r < end; ++r) {
        if (r->n > 1) {
          const Some<R> some(r->n);
          B y = B(alpha_) * some.load(sums + r->first);
          if (old) y = y + B(scale) * some.load(row + r->at);
          if (bias) y = y + some.load(given + r->first);
          some.store(row + r->at, y);
          continue;
        }
        R y = alpha_ * sums[r->first];
        if (old) y = y + scale * row[r->at];
        row[r->at] = bias ? y + given[r->first] : y;
      }
    }
  }

  gd_device* d_;
  const Contraction& x_;
  const R alpha_, beta_;
  R* out_ = nullptr;
  const R* bias_ = nullptr;
  const In *a_ = nullptr, *b_ = nullptr;
  R* pack_a_ = nullptr;
  const Boxes* boxes_ = nullptr;
  bool failed_ = false, one_line_ = false;
  int64_t m_ = 0, rows_ = 1, a_step_ = 0, b_step_ = 0, k0_ = 0, kc_ = 0, row0_ = 0;
  int64_t k_at_[2][kKc];
};

}  // namespace gradus::cpu
