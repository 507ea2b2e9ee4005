// The register block of the real contraction: a tile of c = a b, M rows of V vectors, each sum a
// chain of fused multiply-adds over k from zero upwards. Operands are read where they lie: rows and
// steps of k of a at any strides, steps of k of b at any stride, columns of b contiguous. Whatever
// the shape of the tile, an element gets the same bits.
#pragma once
#include "kernels/cpu/isa/words/simd.hpp"

#include <type_traits>
#include <utility>

namespace gradus::inline v1::cpu {

// k is cut in blocks of so many; an element of out is, for each block upwards, one tile sum.
template <class R>
inline constexpr int64_t kBlock = sizeof(R) == 4 ? 400 : 256;

// Lanes first .. first + n - 1 of a batch: others are neither read nor written.
template <class T>
class Some {
 public:
  using B = Batch<T>;
#if defined(__AVX512F__)
  explicit Some(int64_t n, int64_t first = 0) : mask_(((1u << n) - 1u) << first) {}
  B load(const T* p) const {
    if constexpr (sizeof(T) == 4)
      return _mm512_maskz_loadu_ps(__mmask16(mask_), p);
    else
      return _mm512_maskz_loadu_pd(__mmask8(mask_), p);
  }
  void store(T* p, B x) const {
    if constexpr (sizeof(T) == 4)
      _mm512_mask_storeu_ps(p, __mmask16(mask_), x);
    else
      _mm512_mask_storeu_pd(p, __mmask8(mask_), x);
  }

 private:
  uint32_t mask_;
#elif defined(__AVX2__)
  explicit Some(int64_t n, int64_t first = 0)
      : mask_(_mm256_andnot_si256(lanes_below(first), lanes_below(first + n))) {}
  B load(const T* p) const {
    if constexpr (sizeof(T) == 4)
      return _mm256_maskload_ps(p, mask_);
    else
      return _mm256_maskload_pd(p, mask_);
  }
  void store(T* p, B x) const {
    if constexpr (sizeof(T) == 4)
      _mm256_maskstore_ps(p, mask_, x);
    else
      _mm256_maskstore_pd(p, mask_, x);
  }

 private:
  static __m256i lanes_below(int64_t n) {
    alignas(32) static constexpr int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256(
        reinterpret_cast<const __m256i*>(ones + 8 - n * int64_t(sizeof(T) / 4)));
  }
  __m256i mask_;
#else
  explicit Some(int64_t n, int64_t first = 0) : first_(first), end_(first + n) {}
  B load(const T* p) const {
    T lanes[B::size] = {};
    for (int64_t i = first_; i < end_; ++i) lanes[i] = p[i];
    return B::load_unaligned(lanes);
  }
  void store(T* p, B x) const {
    T lanes[B::size];
    x.store_unaligned(lanes);
    for (int64_t i = first_; i < end_; ++i) p[i] = lanes[i];
  }

 private:
  int64_t first_, end_;
#endif
};

// Columns of a panel, all of one vector, that are neighbours in out: first .. first + n - 1 lie at
// `at` and on, counted from the address of a row.
struct Run {
  int64_t at;
  int32_t first, n;
};

// Where a tile reads and writes. Strides of a and b in bytes, of c in elements; b_ahead bytes
// beyond each line of b are fetched into the caches; `last` are the columns of the last vector.
// Rows of c lie c_row apart, or, if c_at is given, at c_at[row]; then their columns lie in runs, of
// which those of vector v end before run_end[v].
struct TileCall {
  const char *a, *b;
  int64_t a_row, a_k, b_k, b_ahead, k;
  void* c;
  int64_t c_row, last;
  const int64_t* c_at = nullptr;
  const Run* run = nullptr;
  const Run* run_end[2] = {};
  bool add = false;            // to what c holds
  const void* bias = nullptr;  // a line to be added to each finished row
  // Addresses to be fetched for writing, two at each of the first steps of k.
  const void* const* fetch = nullptr;
  int64_t fetch_steps = 0;
};

// Row i lies at a + i * step. i = odd * 2^s, and 2^s is a scale of the addressing mode: seven odd
// multiples in registers reach fourteen rows.
template <int kRows>
struct OddSteps {
  int64_t of[(kRows + 1) / 2];
  explicit OddSteps(int64_t step) {
    for (int i = 0; i < (kRows + 1) / 2; ++i) of[i] = (2 * i + 1) * step;
  }
  int64_t operator[](int row) const {
    if (row == 0) return 0;
    const int scale = row & -row;
    return of[row / scale / 2] * scale;
  }
};

// Sums that a function could see would live in memory, so what stores them must be inlined.
#define GRADUS_INLINE __attribute__((always_inline))

// A near tile finds b in the first cache and writes even rows: it fetches nothing, and knows no
// runs.
template <class T, int V, bool kPart, bool kNear, size_t... I>
inline void tile_rows(const TileCall& t, std::index_sequence<I...>) {
  using B = Batch<T>;
  constexpr int64_t kWidth = int64_t(B::size);
  constexpr int kRows = int(sizeof...(I)) / V;
  const Some<T> some(t.last);
  const OddSteps<kRows> rows(t.a_row);
  const char *a = t.a, *b = t.b;
  const int64_t a_k = t.a_k, b_k = t.b_k;
  [[maybe_unused]] const int64_t ahead = t.b_ahead;
  B sum[sizeof...(I)];
  ((sum[I] = B(T(0))), ...);
  auto step = [&]() GRADUS_INLINE {
    B line[V];
    for (int v = 0; v < V; ++v) {
      const T* p = reinterpret_cast<const T*>(b) + v * kWidth;
      line[v] = kPart && v == V - 1 ? some.load(p) : B::load_unaligned(p);
      if constexpr (!kNear) __builtin_prefetch(b + ahead + v * 64);
    }
    ((sum[I] = fused<T>(B(*reinterpret_cast<const T*>(a + rows[int(I) / V])), line[I % V], sum[I])),
     ...);
    a += a_k;
    b += b_k;
  };
  // One loop, so that there is one step, which is inlined.
  [[maybe_unused]] const void* const* fetch = t.fetch;
  [[maybe_unused]] const void* const* const fetch_end = fetch + 2 * t.fetch_steps;
  for (int64_t k = t.k; k > 0; --k) {
    if constexpr (!kNear)
      if (fetch != fetch_end) {
        __builtin_prefetch(fetch[0], 1);
        __builtin_prefetch(fetch[1], 1);
        fetch += 2;
      }
    step();
  }
  const T* const bias = static_cast<const T*>(t.bias);
  auto more = [&](size_t v) GRADUS_INLINE {
    const T* const p = bias + v * size_t(kWidth);
    return kPart && v == V - 1 ? some.load(p) : B::load_unaligned(p);
  };
  T* const c = static_cast<T*>(t.c);
  auto put = [&](size_t i, T* p) GRADUS_INLINE {
    if (kPart && i % V == V - 1)
      some.store(p, sum[i]);
    else
      sum[i].store_unaligned(p);
  };
  if (!kNear && t.c_at) {
    const Run* run = t.run;
    auto put_runs = [&](auto v) GRADUS_INLINE {
      for (; run < t.run_end[v]; ++run) {
        const int64_t at = run->at - (run->first - int64_t(v) * kWidth);
        auto biased = [&](B x) GRADUS_INLINE { return bias ? x + more(v) : x; };
        auto whole = [&](T* p, B x) GRADUS_INLINE {
          biased(t.add ? x + B::load_unaligned(p) : x).store_unaligned(p);
        };
        const Some<T> lanes(run->n, run->first - int64_t(v) * kWidth);
        auto part = [&](T* p, B x)
                        GRADUS_INLINE { lanes.store(p, biased(t.add ? x + lanes.load(p) : x)); };
        if (run->n == kWidth)
          ((I % V == v ? whole(c + t.c_at[I / V] + at, sum[I]) : void()), ...);
        else
          ((I % V == v ? part(c + t.c_at[I / V] + at, sum[I]) : void()), ...);
      }
    };
    put_runs(std::integral_constant<size_t, 0>());
    if constexpr (V > 1) put_runs(std::integral_constant<size_t, 1>());
    return;
  }
  const int64_t c_row = t.c_row;
  if (t.add) {
    auto old = [&](size_t i) GRADUS_INLINE {
      const T* const p = c + int64_t(i / V) * c_row + int64_t(i % V) * kWidth;
      return kPart && i % V == V - 1 ? some.load(p) : B::load_unaligned(p);
    };
    ((sum[I] = sum[I] + old(I)), ...);
  }
  if (bias) ((sum[I] = sum[I] + more(I % V)), ...);
  (put(I, c + int64_t(I / V) * c_row + int64_t(I % V) * kWidth), ...);
}

#undef GRADUS_INLINE

template <class T, int M, int V, bool kPart, bool kNear>
void tile(const TileCall& t) {
  tile_rows<T, V, kPart, kNear>(t, std::make_index_sequence<size_t(M * V)>());
}

using TileFn = void (*)(const TileCall&);

// The tile of `rows` rows of v = 1 or 2 vectors, the last of them a part if `part`. kMost rows of
// two vectors and kMost1 of one; near tiles have at least half of them.
template <class T, int V, bool kPart, bool kNear, int kLeast, size_t... M>
TileFn find_rows(int64_t rows, std::index_sequence<M...>) {
  static constexpr TileFn all[] = {tile<T, int(M) + kLeast, V, kPart, kNear>...};
  return all[rows - kLeast];
}
template <class T, int V, int kMost, bool kNear>
TileFn find_rows(int64_t rows, bool part) {
  constexpr int kLeast = kNear ? kMost / 2 : 1;
  constexpr auto all = std::make_index_sequence<size_t(kMost - kLeast + 1)>();
  return part ? find_rows<T, V, true, kNear, kLeast>(rows, all)
              : find_rows<T, V, false, kNear, kLeast>(rows, all);
}
template <class T, int kMost1, int kMost, bool kNear = false>
TileFn find_tile(int64_t rows, int64_t v, bool part) {
  return v == 1 ? find_rows<T, 1, kMost1, kNear>(rows, part)
                : find_rows<T, 2, kMost, kNear>(rows, part);
}

}  // namespace gradus::cpu
