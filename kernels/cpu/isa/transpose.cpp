// The tiles of copy.cpp: columns of a strided matrix become rows of a dense one, in registers.
// Every 16 bytes of a register are a small square block of their own (4 x 4 for elements of 4
// bytes), so one network of interleavings serves all element sizes and register widths.
#include "kernels/cpu/isa/kernels.hpp"

#include <string.h>
#include <type_traits>
#include <utility>

namespace gradus::cpu {
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

template <class V, size_t... I>
inline auto joined(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, I...);
}

// Lower (or upper) halves of each block of a and b, element by element.
template <int N, bool kUpper, class V, size_t... I>
inline V interleaved(V a, V b, std::index_sequence<I...>) {
  constexpr size_t all = sizeof...(I), half = kUpper ? N / 2 : 0;
  return __builtin_shufflevector(a, b, ((I / N * N) + half + I % N / 2 + (I % 2 ? all : 0))...);
}

// A round sends registers q and q + N/2 to 2q and 2q + 1; log2(N) rounds transpose each block.
template <int N, int kRound, class V, size_t... K>
inline void interleave(V (&v)[N], std::index_sequence<K...> all) {
  if constexpr (kRound < N) {
    using Lanes = std::make_index_sequence<sizeof(V) / sizeof(v[0][0])>;
    V t[N] = {interleaved<N, K % 2 == 1>(v[K / 2], v[K / 2 + N / 2], Lanes())...};
    interleave<N, 2 * kRound>(t, all);
    ((v[K] = t[K]), ...);
  }
}

template <int B, int kBlocks>
struct Tile {
  static constexpr int N = 16 / B;  // a side of a block
  static constexpr int columns = N * kBlocks;
  using V = typename Vector<Unit<B>, kBlocks>::type;

  // 16 bytes of every N-th column.
  static V load(const char* from, const int64_t* at) {
    if constexpr (kBlocks == 1) {
      V v;
      memcpy(&v, from + at[0], sizeof v);
      return v;
    } else {
      using Half = Tile<B, kBlocks / 2>;
      return joined(Half::load(from, at), Half::load(from, at + Half::columns),
                    std::make_index_sequence<16 * kBlocks / sizeof(Unit<B>)>());
    }
  }
  // N rows by `columns`.
  template <size_t... K>
  static void move(char* to, int64_t to_row, const char* from, const int64_t* at,
                   std::index_sequence<K...>) {
    V v[N] = {load(from, at + K)...};
    interleave<N, 1>(v, std::make_index_sequence<N>());
    (memcpy(to + int64_t(K) * to_row, &v[K], sizeof(V)), ...);
  }
  static void rows(char* to, int64_t to_row, const char* from, const int64_t* at, int64_t run) {
    for (int64_t i = 0; i < run; i += N) {
      const int64_t r = i + N <= run ? i : run - N;  // the last ones once more
      move(to + r * to_row, to_row, from + r * B, at, std::make_index_sequence<N>());
    }
  }
};

// to[i * to_row + j * B] = from[at[j] + i * B]
template <int B>
void transpose(char* to, int64_t to_row, const char* from, const int64_t* at, int64_t columns,
               int64_t run) {
  using Wide = Tile<B, kWidest>;
  using Narrow = Tile<B, 1>;
  if (run < Narrow::N || columns < Narrow::columns) {
    for (int64_t i = 0; i < run; ++i)
      for (int64_t j = 0; j < columns; ++j)
        memcpy(to + i * to_row + j * B, from + at[j] + i * B, B);
    return;
  }
  int64_t j = 0;
  for (; j + Wide::columns <= columns; j += Wide::columns)
    Wide::rows(to + j * B, to_row, from, at + j, run);
  for (; j < columns; j += Narrow::columns) {
    const int64_t c = j + Narrow::columns <= columns ? j : columns - Narrow::columns;
    Narrow::rows(to + c * B, to_row, from, at + c, run);
  }
}

}  // namespace

TransposeFn find_transpose(int64_t unit) {
  switch (unit) {
    case 1:
      return transpose<1>;
    case 2:
      return transpose<2>;
    case 4:
      return transpose<4>;
    case 8:
      return transpose<8>;
    default:
      return transpose<16>;
  }
}

}  // namespace gradus::cpu
