// The tiles of copy.cpp: columns of a strided matrix become rows of a dense one, in registers.
// Every 16 bytes of a register are a small square block of their own (4 x 4 for elements of 4
// bytes), so one network of interleavings serves all element sizes and register widths.
#include "kernels/cpu/isa/kernels.hpp"

#include <string.h>
#include <type_traits>
#include <utility>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace gradus::inline v1::cpu {
namespace {

#if defined(__AVX512BW__)
constexpr int kWidest = 4;  // blocks of 16 bytes in a register
#elif defined(__AVX2__)
constexpr int kWidest = 2;
#else
constexpr int kWidest = 1;
#endif

template <int B>
using Unit = std::conditional_t<
    B == 1, uint8_t,
    std::conditional_t<B == 2, uint16_t, std::conditional_t<B == 4, uint32_t, uint64_t>>>;
template <class T, int kBlocks>
struct Vector {
  typedef T type __attribute__((vector_size(16 * kBlocks)));
};

// Registers must stay registers: everything here is inlined by force.
#define GRADUS_MEMBER [[gnu::always_inline]]
#define GRADUS_INLINE GRADUS_MEMBER static inline

template <class V, size_t... I>
GRADUS_INLINE auto joined(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, I...);
}

// Lower (or upper) halves of each block of a and b, element by element.
template <int N, bool kUpper, class V, size_t... I>
GRADUS_INLINE V interleaved(V a, V b, std::index_sequence<I...>) {
  constexpr size_t all = sizeof...(I), half = kUpper ? N / 2 : 0;
  return __builtin_shufflevector(a, b, ((I / N * N) + half + I % N / 2 + (I % 2 ? all : 0))...);
}

// A round sends registers q and q + N/2 to 2q and 2q + 1; log2(N) rounds transpose each block.
template <int N, int kRound, class V, size_t... K>
GRADUS_INLINE void interleave(V (&v)[N], std::index_sequence<K...> all) {
  if constexpr (kRound < N) {
    using Lanes = std::make_index_sequence<sizeof(V) / sizeof(v[0][0])>;
    V t[N] = {interleaved<N, K % 2 == 1>(v[K / 2], v[K / 2 + N / 2], Lanes())...};
    interleave<N, 2 * kRound>(t, all);
    ((v[K] = t[K]), ...);
  }
}

// Past the caches; `to` is a multiple of the size.
template <class V>
GRADUS_INLINE void stream(char* to, const V& v) {
#if defined(__AVX512BW__)
  if constexpr (sizeof v == 64)
    return _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)v);
#endif
#if defined(__AVX2__)
  if constexpr (sizeof v == 32)
    return _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)v);
#endif
#if defined(__SSE2__)
  if constexpr (sizeof v == 16) return _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)v);
#endif
  memcpy(to, &v, sizeof v);
}

// Where row i of the result lies.
struct Even {
  int64_t step;
  int64_t operator()(int64_t i) const { return i * step; }
};
struct Listed {
  const int64_t* at;
  int64_t operator()(int64_t i) const { return at[i]; }
};

template <int B, int kBlocks>
struct Tile {
  static constexpr int N = 16 / B;  // a side of a block
  static constexpr int rows = N, columns = N * kBlocks;
  using V = typename Vector<Unit<B>, kBlocks>::type;
  using Each = std::make_index_sequence<N>;

  // 16 bytes of every N-th column, which are moved as numbers of 8 bytes.
  GRADUS_INLINE typename Vector<uint64_t, kBlocks>::type load(const char* from, const int64_t* at) {
    if constexpr (kBlocks == 1) {
      typename Vector<uint64_t, 1>::type v;
      memcpy(&v, from + at[0], sizeof v);
      return v;
    } else {
      using Half = Tile<B, kBlocks / 2>;
      return joined(Half::load(from, at), Half::load(from, at + Half::columns),
                    std::make_index_sequence<2 * kBlocks>());
    }
  }
  // N rows by `columns`, given to put(row, V).
  template <class Put, size_t... K>
  GRADUS_INLINE void turn(const char* from, const int64_t* at, Put&& put,
                          std::index_sequence<K...> all) {
    V v[N] = {V(load(from, at + K))...};
    interleave<N, 1>(v, all);
    (put(int64_t(K), v[K]), ...);
  }
};

// A whole register of every column: blocks within the lanes of 16 bytes, then the lanes.
template <int B, int kBlocks>
struct Square {
  using Narrow = Tile<B, 1>;
  static constexpr int N = Narrow::N, rows = N * kBlocks, columns = rows;
  using V = typename Vector<Unit<B>, kBlocks>::type;
  using Words = typename Vector<uint64_t, kBlocks>::type;
  using Each = std::make_index_sequence<kBlocks>;

  template <size_t... K>
  GRADUS_INLINE void columns_of(V (&v)[N], const char* from, const int64_t* at,
                                std::index_sequence<K...> all) {
    (memcpy(&v[K], from + at[K], sizeof(V)), ...);
    interleave<N, 1>(v, all);
  }
  template <class Put>
  GRADUS_INLINE void put_rows(const V (&t)[kBlocks][N], Put&& put, int64_t k) {
    if constexpr (kBlocks == 1) {
      put(k, t[0][k]);
    } else if constexpr (kBlocks == 2) {
      const Words a = Words(t[0][k]), b = Words(t[1][k]);
      put(k, __builtin_shufflevector(a, b, 0, 1, 4, 5));
      put(k + N, __builtin_shufflevector(a, b, 2, 3, 6, 7));
    } else {
      const Words a = Words(t[0][k]), b = Words(t[1][k]), c = Words(t[2][k]), d = Words(t[3][k]);
      const Words e = __builtin_shufflevector(a, b, 0, 1, 4, 5, 8, 9, 12, 13),
                  f = __builtin_shufflevector(c, d, 0, 1, 4, 5, 8, 9, 12, 13),
                  g = __builtin_shufflevector(a, b, 2, 3, 6, 7, 10, 11, 14, 15),
                  h = __builtin_shufflevector(c, d, 2, 3, 6, 7, 10, 11, 14, 15);
      put(k, __builtin_shufflevector(e, f, 0, 1, 4, 5, 8, 9, 12, 13));
      put(k + N, __builtin_shufflevector(g, h, 0, 1, 4, 5, 8, 9, 12, 13));
      put(k + 2 * N, __builtin_shufflevector(e, f, 2, 3, 6, 7, 10, 11, 14, 15));
      put(k + 3 * N, __builtin_shufflevector(g, h, 2, 3, 6, 7, 10, 11, 14, 15));
    }
  }
  template <class Put, size_t... K>
  GRADUS_INLINE void turn(const char* from, const int64_t* at, Put&& put,
                          std::index_sequence<K...>) {
    V t[kBlocks][N];
    (columns_of(t[K], from, at + K * N, std::make_index_sequence<N>()), ...);
    [&]<size_t... R>(std::index_sequence<R...>) __attribute__((always_inline)) {
      (put_rows(t, put, int64_t(R)), ...);
    }
    (std::make_index_sequence<N>());
  }
};

template <int B, class Row>
struct Transposer {
  using Wide = Tile<B, kWidest>;
  using Narrow = Tile<B, 1>;
  // Bytes and pairs would need more registers than there are.
  using Big = std::conditional_t<B >= 4, Square<B, kWidest>, Wide>;
  static constexpr int N = Narrow::N, kLine = 64 / B;

  char* to;
  Row row;
  const char* from;
  const int64_t* at;
  int64_t columns, rows;

  // All rows of columns [j, j + kWidth), in blocks; the last block once more. What is fetched ahead
  // goes to the second cache: the first could not hold it.
  template <class T, int kWidth, bool kStream>
  GRADUS_MEMBER void strip(int64_t j, const char* next) const {
    for (int64_t i = 0; i < rows; i += T::rows) {
      const int64_t r = i + T::rows <= rows ? i : rows - T::rows;
      if (next && i * B % 64 == 0)
        for (int64_t c = j; c < j + kWidth; ++c) __builtin_prefetch(next + at[c] + i * B, 0, 2);
      for (int64_t c = j; c < j + kWidth; c += T::columns)
        T::turn(
            from + r * B, at + c,
            [&](int64_t k, const auto& v) __attribute__((always_inline)) {
              char* const p = to + row(r + k) + c * B;
              if constexpr (kStream)
                stream(p, v);
              else
                memcpy(p, &v, sizeof v);
            },
            typename T::Each());
    }
  }
  template <class Big, bool kStream>
  void all(const char* next) const {
    int64_t j = 0;
    for (; j + kLine <= columns; j += kLine) strip<Big, kLine, kStream>(j, next);
    for (; j + Wide::columns <= columns; j += Wide::columns)
      strip<Wide, Wide::columns, false>(j, next);
    for (; j < columns; j += N) strip<Narrow, N, false>(j + N <= columns ? j : columns - N, next);
  }
  // Fewer than N columns. Where rows follow each other, what is written beyond one is the place of
  // the next; that leaves the last ones.
  void few_columns() const {
    int64_t filled[N], i = 0;
    for (int64_t c = 0; c < N; ++c) filled[c] = at[c < columns ? c : columns - 1];
    bool adjacent = true;
    for (int64_t k = 1; k < rows; ++k) adjacent = adjacent && row(k) == row(0) + k * columns * B;
    for (; adjacent && i + 2 * N <= rows; i += N)
      Narrow::turn(
          from + i * B, filled,
          [&](int64_t k, const auto& v)
              __attribute__((always_inline)) { memcpy(to + row(i + k), &v, sizeof v); },
          typename Narrow::Each());
    one_by_one(i, 0);
  }
  // Fewer than N rows: what is read beyond a column lies before the end of the last one.
  void few_rows() const {
    int64_t last = at[0], j = 0;
    for (int64_t c = 1; c < columns; ++c) last = at[c] > last ? at[c] : last;
    last += rows * B - 16;
    const auto safe = [&](int64_t n) {
      for (int64_t c = j; c < j + n; ++c)
        if (at[c] > last) return false;
      return true;
    };
    const auto turn = [&]<class T>(T) {
      T::turn(
          from, at + j,
          [&](int64_t k, const auto& v) __attribute__((always_inline)) {
            if (k < rows) memcpy(to + row(k) + j * B, &v, sizeof v);
          },
          typename T::Each());
      j += T::columns;
    };
    while (j + Wide::columns <= columns && safe(Wide::columns)) turn(Wide());
    while (j + N <= columns && safe(N)) turn(Narrow());
    one_by_one(0, j);
  }
  void one_by_one(int64_t i, int64_t j) const {
    for (; i < rows; ++i)
      for (int64_t c = j; c < columns; ++c) memcpy(to + row(i) + c * B, from + at[c] + i * B, B);
  }
  void run(const char* next, bool streamed) const {
    if (rows >= N && columns >= N)
      rows < Big::rows ? all<Wide, false>(next)
      : streamed       ? all<Big, true>(next)
                       : all<Big, false>(next);
    else if (rows >= N && 2 * columns >= N)
      few_columns();
    else if (columns >= N && 4 * rows >= N)
      few_rows();
    else
      one_by_one(0, 0);
  }
};

template <int B>
void transpose(char* to, int64_t to_row, const char* from, const int64_t* at, int64_t columns,
               int64_t rows) {
  Transposer<B, Even>{to, {to_row}, from, at, columns, rows}.run(nullptr, false);
}
template <int B>
void turn(char* to, const int64_t* to_at, const char* from, const int64_t* from_at, int64_t columns,
          int64_t rows, const char* next, bool streamed) {
  Transposer<B, Listed>{to, {to_at}, from, from_at, columns, rows}.run(next, streamed);
}

template <class Fn, class F>
Fn by_unit(int64_t unit, F&& of) {
  switch (unit) {
    case 1:
      return of(std::integral_constant<int, 1>());
    case 2:
      return of(std::integral_constant<int, 2>());
    case 4:
      return of(std::integral_constant<int, 4>());
    case 8:
      return of(std::integral_constant<int, 8>());
    default:
      return of(std::integral_constant<int, 16>());
  }
}

#undef GRADUS_INLINE
#undef GRADUS_MEMBER

}  // namespace

TransposeFn find_transpose(int64_t unit) {
  return by_unit<TransposeFn>(unit,
                              []<int B>(std::integral_constant<int, B>) { return transpose<B>; });
}
TurnFn find_turn(int64_t unit) {
  return by_unit<TurnFn>(unit, []<int B>(std::integral_constant<int, B>) { return turn<B>; });
}

}  // namespace gradus::cpu
