// Contractions where a packed operand would be used a time or two, as convolutions have them: it is
// read where it lies, at the offsets of k. FewRows: few rows, and columns that lie in runs in b and
// in out; only the rows are packed. FewColumns: few columns, and rows from anywhere; only the
// columns are packed. The sums are those of contract_large.hpp, so are the bits.
#pragma once
#include "kernels/cpu/isa/contract/contract_large.hpp"

namespace gradus::inline v1::cpu {

// Two vectors of columns, each of up to a batch of neighbours at an address of its own.
template <class T>
struct RunsCall {
  const T* a;        // k lines of `rows` numbers
  const int64_t* k;  // offsets in b, in elements
  int64_t steps;     // of k
  const T* b[2];
  T* c[2];
  int64_t lanes[2];
  const int64_t* row;  // offsets of the rows in out
  bool add;            // to what out holds
};

template <class T, size_t... I>
void runs_tile_rows(const RunsCall<T>& t, std::index_sequence<I...>) {
  using B = Batch<T>;
  constexpr int64_t kRowsHere = int64_t(sizeof...(I)) / 2;
  const Some<T> some[2] = {Some<T>(t.lanes[0]), Some<T>(t.lanes[1])};
  const T* a = t.a;
  B sum[sizeof...(I)];
  ((sum[I] = B(T(0))), ...);
  for (int64_t k = 0; k < t.steps; ++k, a += kRowsHere) {
    const B line[2] = {some[0].load(t.b[0] + t.k[k]), some[1].load(t.b[1] + t.k[k])};
    ((sum[I] = fused<T>(B(a[I / 2]), line[I % 2], sum[I])), ...);
  }
  auto put = [&](size_t i) {
    T* const to = t.c[i % 2] + t.row[i / 2];
    some[i % 2].store(to, t.add ? sum[i] + some[i % 2].load(to) : sum[i]);
  };
  (put(I), ...);
}
template <class T, size_t... M>
auto find_runs_tile(int64_t rows, std::index_sequence<M...>) {
  using Fn = void (*)(const RunsCall<T>&);
  static constexpr Fn all[] = {+[](const RunsCall<T>& t) {
    runs_tile_rows<T>(t, std::make_index_sequence<2 * (M + 1)>());
  }...};
  return all[rows - 1];
}

template <class T>
class FewRows {
 public:
  static constexpr int64_t kWidth = int64_t(Batch<T>::size);
#if defined(__AVX2__)
  static constexpr bool kMasks = true;  // parts of vectors are read as fast as whole ones
#else
  static constexpr bool kMasks = false;
#endif

  static bool suits(const Contraction& x) {
    if (!kMasks || x.n.rank < 2 || x.m.count > 2 * kRows || !x.n.unit(kB) || !x.n.unit(kOut))
      return false;
    const int64_t run = x.n.size[x.n.rank - 1];
    return 2 * run > panels(run, kWidth) * kWidth;  // more than half of the lanes work
  }
  static double cost(const Contraction& x) {
    const int64_t run = x.n.size[x.n.rank - 1];
    return double(x.m.count * (x.n.count / run) * panels(run, kWidth)) * double(x.k.count);
  }

  FewRows(gd_device* d, const Contraction& x) : d_(d), x_(x) {}

  // out = a b; addresses of a batch element. GD_OK or GD_OOM.
  gd_status run(const T* a, const T* b, T* out) {
    const int64_t m = x_.m.count, k = x_.k.count, rows = x_.rows[1], block = k_block(k, kBlock<T>),
                  last = x_.n.rank - 1, run = x_.n.size[last], each = panels(run, kWidth);
    Axes lines;  // where runs begin
    lines.take(x_.n);
    lines.rank = last;
    lines.count = x_.n.count / run;
    T* const packed = static_cast<T*>(
        d_->scratch(kScratchA, size_t(panels(m, rows) * (rows * block + kWidth)) * sizeof(T)));
    if (!packed) return GD_OOM;
    int64_t row_at[2 * kRows], a_at[2 * kRows], k_at[2][kBlock<T>];
    x_.m.offsets(kA, 0, m, a_at);
    x_.m.offsets(kOut, 0, m, row_at);
    int64_t k0 = 0;
    do {
      const int64_t kc = least(k - k0, block);
      x_.k.offsets(kA, k0, kc, k_at[0]);
      x_.k.offsets(kB, k0, kc, k_at[1]);
      const bool unit = unit_steps(k_at[0], kc);
      for (int64_t row = 0; row < m; row += rows)
        pack_lines(a, a_at + row, least(m - row, rows), least(m - row, rows), k_at[0], kc, unit,
                   packed + row * block + row / rows * kWidth);
      const int64_t work = m * kc * each * kWidth,
                    grain = most(work < kSerial ? kSerial / most(work, 1) : 1, 2);
      parallel_range(d_, lines.count, grain, [&](int64_t begin, int64_t end) {
        RunsCall<T> t{nullptr, k_at[1], kc, {}, {}, {}, nullptr, k0 > 0};
        constexpr int64_t kSome = 64;
        int64_t from[kSome], to[kSome];
        for (int64_t l = begin; l < end; l += kSome) {
          const int64_t some = least(end - l, kSome);
          lines.offsets(kB, l, some, from);
          lines.offsets(kOut, l, some, to);
          for (int64_t piece = 0; piece < some * each; piece += 2) {
            for (int64_t v = 0; v < 2; ++v) {
              const int64_t p = least(piece + v, some * each - 1), first = p % each * kWidth;
              t.b[v] = b + from[p / each] + first;
              t.c[v] = out + to[p / each] + first;
              t.lanes[v] = piece + v < some * each ? least(run - first, kWidth) : 0;
            }
            for (int64_t row = 0; row < m; row += rows) {
              t.a = packed + row * block + row / rows * kWidth;
              t.row = row_at + row;
              find_runs_tile<T>(least(m - row, rows), std::make_index_sequence<size_t(kRows)>())(t);
            }
          }
        }
      });
      k0 += block;
    } while (k0 < k);
    return GD_OK;
  }

 private:
  gd_device* d_;
  const Contraction& x_;
};

// Rows of a at addresses of their own, times vectors of columns.
template <class T>
struct ColumnsCall {
  const T* const* row;
  const int64_t* k;  // offsets in a, in elements
  int64_t steps;     // of k
  const T* b;        // k lines of V vectors
  T* sums;           // rows of V vectors
};

template <class T, int V, size_t... I>
void columns_tile_rows(const ColumnsCall<T>& t, std::index_sequence<I...>) {
  using B = Batch<T>;
  constexpr int64_t kWidth = int64_t(B::size);
  const T* row[sizeof...(I) / V];
  for (size_t r = 0; r < sizeof...(I) / V; ++r) row[r] = t.row[r];
  const T* b = t.b;
  B sum[sizeof...(I)];
  ((sum[I] = B(T(0))), ...);
  for (int64_t k = 0; k < t.steps; ++k, b += V * kWidth) {
    const int64_t here = t.k[k];
    B line[V];
    for (int v = 0; v < V; ++v) line[v] = B::load_aligned(b + v * kWidth);
    ((sum[I] = fused<T>(B(row[I / V][here]), line[I % V], sum[I])), ...);
  }
  ((sum[I].store_aligned(t.sums + int64_t(I) * kWidth)), ...);
}
template <class T, int V, size_t... M>
auto find_columns_tile(int64_t rows, std::index_sequence<M...>) {
  using Fn = void (*)(const ColumnsCall<T>&);
  static constexpr Fn all[] = {+[](const ColumnsCall<T>& t) {
    columns_tile_rows<T, V>(t, std::make_index_sequence<V*(M + 1)>());
  }...};
  return all[rows - 1];
}

template <class T>
class FewColumns {
 public:
  static constexpr int64_t kWidth = int64_t(Batch<T>::size);

  // Do columns n suit, with rows m?
  static bool suits(const Contraction& x, const Axes& m, const Axes& n, Role a) {
    const bool apart = !m.even() || !x.k.even();  // else the rows are read where they lie as it is
    return apart && m.rank > 0 && m.stride[a][m.rank - 1] != 0 && m.count >= kRows &&
           n.count <= kVectors * kWidth && 3 * n.count >= kWidth;
  }
  // Multiplications of vectors, and the numbers that are written one by one.
  static double cost(const Contraction& x, const Axes& m, const Axes& n) {
    return double(m.count * panels(n.count, kWidth)) * double(x.k.count) +
           2.0 * double(m.count * n.count);
  }

  FewColumns(gd_device* d, const Contraction& x) : d_(d), x_(x) {}

  // out = a b; addresses of a batch element. GD_OK or GD_OOM.
  gd_status run(const T* a, const T* b, T* out) {
    const int64_t m = x_.m.count, n = x_.n.count, k = x_.k.count, block = k_block(k, kBlock<T>),
                  vectors = panels(n, kWidth), width = vectors * kWidth,
                  rows = panels(m, panels(m, kRows));
    T* const packed =
        static_cast<T*>(d_->scratch(kScratchA, size_t(block * width + kWidth) * sizeof(T)));
    if (!packed) return GD_OOM;
    int64_t k_at[2][kBlock<T>], b_at[kVectors * kWidth], column[kVectors * kWidth];
    x_.n.offsets(kB, 0, n, b_at);
    x_.n.offsets(kOut, 0, n, column);
    for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += block) {
      const int64_t kc = least(k - k0, block);
      x_.k.offsets(kA, k0, kc, k_at[0]);
      x_.k.offsets(kB, k0, kc, k_at[1]);
      pack_lines(b, b_at, n, width, k_at[1], kc, unit_steps(k_at[1], kc), packed);
      const int64_t work = rows * width * kc;
      parallel_range(d_, panels(m, rows), most(kSerial / most(work, 1), 1),
                     [&](int64_t begin, int64_t end) {
                       for (int64_t p = begin; p < end; ++p) {
                         alignas(64) T sums[kRows * kVectors * kWidth];
                         const T* row[kRows];
                         int64_t at[kRows], to[kRows];
                         const int64_t nr = least(m - p * rows, rows);
                         x_.m.offsets(kA, p * rows, nr, at);
                         x_.m.offsets(kOut, p * rows, nr, to);
                         for (int64_t r = 0; r < nr; ++r) row[r] = a + at[r];
                         constexpr auto all = std::make_index_sequence<size_t(kRows)>();
                         const ColumnsCall<T> t{row, k_at[0], kc, packed, sums};
                         (vectors == 1 ? find_columns_tile<T, 1>(nr, all)
                                       : find_columns_tile<T, 2>(nr, all))(t);
                         for (int64_t r = 0; r < nr; ++r)
                           for (int64_t j = 0; j < n; ++j) {
                             T& y = out[to[r] + column[j]];
                             y = k0 > 0 ? sums[r * width + j] + y : sums[r * width + j];
                           }
                       }
                     });
    }
    return GD_OK;
  }

 private:
  gd_device* d_;
  const Contraction& x_;
};

}  // namespace gradus::cpu
