// The blocked loops of a contraction, after Goto and van de Geijn ("Anatomy of high-performance
// matrix multiplication", ACM TOMS 34, 2008) and BLIS: k in equal blocks of at most kKc, for each
// of them panels of a (kMr rows) and of b (kNr columns) are packed from any strides into contiguous
// memory, and a micro-kernel multiplies panel by panel into a tile, which the engine's store()
// brings to out.
//
// An element of out is always: for each block of k, upwards, one tile sum over that block, upwards.
// So its bits depend on the k axes alone, not on threads, batches, strides or the size of m and n.
//
// An engine E says: In (element of a and b), Real (what is packed; kPlanes per element), kCommutes,
// kMr, kNr, kKc, Tile (kMr x kNr results in row-major order), Target, and
//   put(to, i, width, element, flag of a or b)   packs one element,
//   micro(target, kc, a, b, tile)                multiplies two panels,
//   store(target, tile, KBlock, rows, r, nr, columns, c, nc)
//                                                brings rows r .. r + nr, columns c .. c + nc to
//                                                out.
// An engine with a kNote has so many elements beyond each panel, in which
//   note(target, panel, n)                       leaves a word to micro(), and
//   fetch(target, rows, r, nr, columns, c, nc)   touches ahead what store() will write.
#pragma once
#include "kernels/cpu/isa/contract/line_boxes.hpp"
#include "kernels/cpu/isa/contract/pack.hpp"

#include <initializer_list>
#include <utility>

namespace gradus::inline v1::cpu {

inline constexpr int64_t kPanelsM = 128, kPanelsN = 64;       // packed at a time
inline constexpr int64_t kTaskPanelsM = 8, kTaskPanelsN = 4;  // of one task
inline constexpr int64_t kSerialWork = 1 << 18;               // multiplications not worth threads

// Offsets of a block of rows (or columns) for the roles that a store touches.
template <int64_t N>
struct Lines {
  int64_t at[kRoles][N];
  int64_t count;

  void fill(const Axes& axes, const Operands& o, int64_t start, int64_t n) {
    count = n;
    for (int r = kOut; r < kRoles; ++r)
      if (o.data[r]) axes.offsets(r, start, n, at[r]);
  }
};

// Which block of k: the first one meets what out holds, the last one the bias.
struct KBlock {
  int64_t k0;
  bool first, last;
};

// One panel: for each k, W elements. Rows beyond `rows` repeat the last; their results are dropped.
template <class E, int64_t W>
void pack_panel(const typename E::In* from, const Axes& axes, int role, int64_t start,
                const int64_t* k_at, int64_t kc, bool k_unit, bool conj,
                const typename E::Target& target, typename E::Real* to) {
  int64_t at[W] = {};
  const int64_t left = axes.count - start, rows = left < W ? left : W;
  axes.offsets(role, start, rows, at);
  for (int64_t i = rows; i < W; ++i) at[i] = at[rows - 1];
  constexpr int64_t step = W * E::kPlanes;
  typename E::Real* const panel = to;
  if (unit_steps(at, W)) {
    for (int64_t k = 0; k < kc; ++k, to += step) {
      const typename E::In* row = from + at[0] + k_at[k];
      for (int64_t i = 0; i < W; ++i) E::put(to, i, W, row[i], conj);
    }
  } else if (k_unit) {
    const typename E::In* lines[W];
    for (int64_t i = 0; i < W; ++i) lines[i] = from + at[i] + (kc > 0 ? k_at[0] : 0);
    for (int64_t k = 0; k < kc; ++k, to += step)
      for (int64_t i = 0; i < W; ++i) E::put(to, i, W, lines[i][k], conj);
  } else {
    for (int64_t k = 0; k < kc; ++k, to += step)
      for (int64_t i = 0; i < W; ++i) E::put(to, i, W, from[at[i] + k_at[k]], conj);
  }
  if constexpr (requires { E::kNote; }) E::note(target, panel, kc * step);
}

// One batch element. The roles of a and b may be swapped beforehand; x says who is who.
template <class E>
class Gemm {
 public:
  using In = typename E::In;
  using Real = typename E::Real;
  static constexpr bool kNotes = requires { E::kNote; };

  // Batch element b.
  Gemm(gd_device* d, const Contraction& x, const Operands& o, const typename E::Target& target,
       int64_t b)
      : d_(d),
        x_(x),
        o_(o),
        target_(target),
        a_(o.start<const In>(kA, x.batch, b)),
        b_(o.start<const In>(kB, x.batch, b)) {}

  // GD_OK or GD_OOM.
  gd_status run() {
    const int64_t kc = k_block(x_.k.count, E::kKc);
    const int64_t all_m = panels(x_.m.count, E::kMr), all_n = panels(x_.n.count, E::kNr);
    a_step_ = kc * E::kMr * E::kPlanes;
    b_step_ = kc * E::kNr * E::kPlanes;
    if constexpr (kNotes) {
      a_step_ += E::kNote;
      b_step_ += E::kNote;
    }
    const size_t a_bytes = size_t(least(all_m, kPanelsM) * a_step_) * sizeof(Real),
                 b_bytes = size_t(least(all_n, kPanelsN) * b_step_) * sizeof(Real);
    pack_a_ = static_cast<Real*>(d_->scratch(kScratchA, a_bytes));
    pack_b_ = static_cast<Real*>(d_->scratch(kScratchB, b_bytes));
    if (!pack_a_ || !pack_b_) return GD_OOM;
    for (int64_t jp = 0; jp < all_n; jp += kPanelsN) {
      const int64_t np = least(all_n - jp, kPanelsN);
      int64_t k0 = 0;
      do {
        k0_ = k0;
        kc_ = least(x_.k.count - k0, kc);
        x_.k.offsets(kA, k0, kc_, k_at_[0]);
        x_.k.offsets(kB, k0, kc_, k_at_[1]);
        for (int64_t ip = 0; ip < all_m; ip += kPanelsM) {
          const int64_t mp = least(all_m - ip, kPanelsM);
          pack(ip, mp, jp, ip == 0 ? np : 0);
          multiply(ip, mp, jp, np);
        }
        k0 += kc;
      } while (k0 < x_.k.count);
    }
    return GD_OK;
  }

 private:
  void pack(int64_t ip, int64_t mp, int64_t jp, int64_t np) {
    const bool unit[2] = {unit_steps(k_at_[0], kc_), unit_steps(k_at_[1], kc_)};
    constexpr int64_t each = 4;  // panels of one task
    const int64_t ta = panels(mp, each), tb = panels(np, each);
    run_tasks(d_, ta + tb, (mp * E::kMr + np * E::kNr) * kc_ * 4, kSerialWork, [&](int64_t t) {
      if (t < ta)
        for (int64_t p = t * each; p < least(mp, (t + 1) * each); ++p)
          pack_panel<E, E::kMr>(a_, x_.m, kA, (ip + p) * E::kMr, k_at_[0], kc_, unit[0], x_.conj_a,
                                target_, pack_a_ + p * a_step_);
      else
        for (int64_t p = (t - ta) * each; p < least(np, (t - ta + 1) * each); ++p)
          pack_panel<E, E::kNr>(b_, x_.n, kB, (jp + p) * E::kNr, k_at_[1], kc_, unit[1], x_.conj_b,
                                target_, pack_b_ + p * b_step_);
    });
  }

  void multiply(int64_t ip, int64_t mp, int64_t jp, int64_t np) {
    const int64_t tm = panels(mp, kTaskPanelsM), tn = panels(np, kTaskPanelsN);
    run_tasks(d_, tm * tn, mp * E::kMr * np * E::kNr * kc_, kSerialWork, [&](int64_t t) {
      const int64_t i0 = t % tm * kTaskPanelsM, j0 = t / tm * kTaskPanelsN;
      corner(ip, i0, least(mp, i0 + kTaskPanelsM), jp, j0, least(np, j0 + kTaskPanelsN));
    });
  }

  void corner(int64_t ip, int64_t i0, int64_t i1, int64_t jp, int64_t j0, int64_t j1) {
    Lines<kTaskPanelsM * E::kMr> rows;
    Lines<kTaskPanelsN * E::kNr> columns;
    const int64_t row0 = (ip + i0) * E::kMr, column0 = (jp + j0) * E::kNr;
    rows.fill(x_.m, o_, row0, least(x_.m.count - row0, (i1 - i0) * E::kMr));
    columns.fill(x_.n, o_, column0, least(x_.n.count - column0, (j1 - j0) * E::kNr));
    typename E::Tile tile;
    const KBlock block{k0_, k0_ == 0, k0_ + kc_ == x_.k.count};
    for (int64_t j = j0; j < j1; ++j)
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t r = (i - i0) * E::kMr, c = (j - j0) * E::kNr;
        const int64_t nr = least(rows.count - r, E::kMr), nc = least(columns.count - c, E::kNr);
        if constexpr (kNotes) E::fetch(target_, rows, r, nr, columns, c, nc);
        E::micro(target_, kc_, pack_a_ + i * a_step_, pack_b_ + j * b_step_, tile);
        E::store(target_, tile, block, rows, r, nr, columns, c, nc);
      }
  }

  gd_device* d_;
  const Contraction& x_;
  const Operands& o_;
  const typename E::Target& target_;
  const In *a_, *b_;
  Real *pack_a_ = nullptr, *pack_b_ = nullptr;
  int64_t a_step_ = 0, b_step_ = 0, k0_ = 0, kc_ = 0;
  int64_t k_at_[2][E::kKc];
};

// a and b change places where the register block is then filled better; and, in engines whose
// product commutes to the bit, where out is then written along its rows.
template <class E>
void orient(Contraction& x) {
  auto padded = [](int64_t m, int64_t n) {
    return panels(m, E::kMr) * E::kMr * panels(n, E::kNr) * E::kNr;
  };
  auto unit = [&](const Axes& axes) { return axes.rank > 0 && axes.unit(kOut); };
  const int64_t now = padded(x.m.count, x.n.count), then = padded(x.n.count, x.m.count);
  const bool along_rows = E::kCommutes && then * 7 <= now * 8 && unit(x.m) && !unit(x.n);
  if (then * 8 < now * 7 || along_rows) x.swap();
}

// f(index), which gives GD_OK or GD_OOM, for `count` batch elements or groups of them, each of so
// much work: many small ones side by side, large ones one after the other (each of them then uses
// the threads itself).
template <class F>
gd_status for_groups(gd_device* d, int64_t count, int64_t work, gd_error* e, F&& f) {
  int failed = 0;
  if (count == 1 || (work >= (1 << 20) && count < 4 * d->threads)) {
    for (int64_t b = 0; b < count && !failed; ++b) failed = f(b) != GD_OK;
  } else {
    parallel_range(d, count, kSerialWork / work, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        if (f(b) != GD_OK) __atomic_store_n(&failed, 1, __ATOMIC_RELAXED);
    });
  }
  return failed ? refuse(e, GD_OOM, "contract", "no memory for packed panels") : GD_OK;
}
template <class F>
gd_status for_batches(gd_device* d, const Contraction& x, gd_error* e, F&& f) {
  return for_groups(d, x.batch.count, x.m.count * x.n.count * (x.k.count + 1), e, f);
}

// f16 and bf16 share one instance; the flag of put() says which it is.
inline float widen(uint16_t bits, bool brain) {
  Half h;
  BFloat16 b;
  h.bits = b.bits = bits;
  return brain ? float(b) : float(h);
}
inline uint16_t narrow(float x, bool brain) { return brain ? BFloat16(x).bits : Half(x).bits; }

// For f16 and bf16: `multiply(contraction, operands, f32 out, b)` brings the results of batch
// element b into a dense f32 array, then `finish(to, sum, bias or null)` rounds each of them once.
template <class Multiply, class Finish>
gd_status through_f32(gd_device* d, const Contraction& x, const Operands& o, gd_error* e,
                      Multiply&& multiply, Finish&& finish) {
  using H = uint16_t;
  const int64_t m = x.m.count, n = x.n.count;
  Contraction dense = x;
  Operands raw = o;
  raw.data[kBias] = nullptr;
  int64_t step = 1;
  for (Axes* axes : {&dense.n, &dense.m})
    for (int k = axes->rank - 1; k >= 0; --k) {
      axes->stride[kOut][k] = step;
      step *= axes->size[k];
    }
  return for_batches(d, x, e, [&](int64_t b) -> gd_status {
    float* const sum = static_cast<float*>(d->scratch(kScratchC, size_t(m * n) * sizeof(float)));
    if (!sum || multiply(dense, raw, sum, b) != GD_OK) return GD_OOM;
    H* const out = o.start<H>(kOut, x.batch, b);
    const H* const bias = o.start<const H>(kBias, x.batch, b);
    parallel_range(d, m, kGrain / n, [&](int64_t begin, int64_t end) {
      constexpr int64_t kSome = 128;
      int64_t at[kSome], bias_at[kSome];
      for (int64_t j = 0; j < n; j += kSome) {
        const int64_t some = least(n - j, kSome);
        x.n.offsets(kOut, j, some, at);
        x.n.offsets(kBias, j, some, bias_at);
        for (int64_t i = begin; i < end; ++i) {
          H* const row = out + x.m.offset(kOut, i);
          const H* const bias_row = bias ? bias + x.m.offset(kBias, i) : nullptr;
          for (int64_t q = 0; q < some; ++q)
            finish(row[at[q]], sum[i * n + j + q], bias_row ? bias_row + bias_at[q] : nullptr);
        }
      }
    });
    return GD_OK;
  });
}

}  // namespace gradus::cpu
