// Contractions as kernels, for any algebra, in one of three ways that contract.cu chooses:
//   tiles   a block makes a tile of rows x columns out of squares of a and b in shared memory
//   dots    a block makes one element
//   direct  a thread makes one element
// Long sums are cut into chunks; a second kernel joins what the chunks gave, in a fixed order.
// Included by contract_*.cu, which share the time it takes to compile.
#pragma once
#include "kernels/gpu/contract/contract.hpp"

namespace gradus::inline v1::gpu {

// ---- direct

template <class A>
__global__ void GPU_THREADS(kContractThreads)
    contract_direct(Walk<kParts> elements, Contraction c, A algebra) {
  using T = typename A::Number;
  for (int64_t i = first_index(); i < elements.count; i += index_step()) {
    int64_t at[kParts];
    elements.places(i, at);
    auto sum = algebra.start();
    for (int64_t k = 0; k < c.extent[kSummed]; ++k) {
      int64_t term[kParts] = {at[kA], at[kB]};
      c.add_places<2>(kSummed, k, term);
      algebra.add(sum, algebra.read(kA, load_number<T>(elements.data[kA], term[kA], c.dtype)),
                  algebra.read(kB, load_number<T>(elements.data[kB], term[kB], c.dtype)), k);
    }
    algebra.finish(c, elements.data, at, sum);
  }
}

// a / b of numbers that are not negative, by 32 bits where they are short: 64 take 100
// instructions.
struct Quotient {
  int64_t quotient, rest;
  __device__ Quotient(int64_t a, int64_t b)
      : quotient((a | b) >> 31 != 0 ? a / b : int64_t(uint32_t(a) / uint32_t(b))),
        rest(a - quotient * b) {}
};

// ---- what several threads have of the same sum

// Joins what `slices` (a power of two) groups of threads have, into the first group, for N sums at
// once. All threads of the block call it, `positions` of them in each group. `shared` has room for
// N sums of every thread.
template <int N, class A>
__device__ inline void join_slices(const A& algebra, typename A::Sum* sums, typename A::Sum* shared,
                                   int slices, int positions) {
  const int slice = thread() / positions;
  GPU_UNROLL
  for (int i = 0; i < N; ++i) shared[i * kContractThreads + thread()] = sums[i];
  for (int half = slices / 2; half > 0; half /= 2) {
    barrier();
    if (slice >= half) continue;
    GPU_UNROLL
    for (int i = 0; i < N; ++i) {
      typename A::Sum* const own = shared + i * kContractThreads + thread();
      algebra.join(sums[i], own[half * positions]);
      *own = sums[i];
    }
  }
  barrier();
}

// The element's number among all: batch, rows, columns.
template <class A>
__device__ inline void finish_element(const Contraction& c, const A& algebra, int64_t element,
                                      const typename A::Sum& sum) {
  const Quotient columns(element, c.extent[kColumns]), rows(columns.quotient, c.extent[kRows]);
  int64_t at[kParts] = {};
  c.add_places<kParts>(kColumns, columns.rest, at);
  c.add_places<kParts>(kRows, rows.rest, at);
  c.add_places<kParts>(kBatch, rows.quotient, at);
  algebra.finish(c, c.data, at, sum);
}

// partials[chunk][element], the chunks of an element joined by `slices` threads.
template <class A>
__global__ void GPU_THREADS(kContractThreads)
    contract_join(Contraction c, A algebra, const void* partials, int slices) {
  using Sum = typename A::Sum;
  GPU_SHARED(Sum, shared, kContractThreads);
  const int positions = kContractThreads / slices;
  const int64_t count = c.extent[kBatch] * c.extent[kRows] * c.extent[kColumns];
  const int64_t groups = (count + positions - 1) / positions;
  for (int64_t group = block(); group < groups; group += blocks()) {
    const int64_t element = group * positions + thread() % positions;
    Sum sum = algebra.start();
    if (element < count)
      for (int64_t k = thread() / positions; k < c.chunks; k += slices)
        algebra.join(sum, static_cast<const Sum*>(partials)[k * count + element]);
    join_slices<1>(algebra, &sum, shared, slices, positions);
    if (thread() < positions && element < count) finish_element(c, algebra, element, sum);
  }
}

// ---- dots: thread t of a block takes the terms t, t + 256, ... of its chunk

template <class A>
__global__ void GPU_THREADS(kContractThreads)
    contract_dots(Contraction c, A algebra, void* partials) {
  using T = typename A::Number;
  using Sum = typename A::Sum;
  constexpr int kFlight = 8;  // terms that a thread asks for at once
  GPU_SHARED(Sum, shared, kContractThreads);
  const int64_t count = c.extent[kBatch] * c.extent[kRows] * c.extent[kColumns];
  for (int64_t task = block(); task < count * c.chunks; task += blocks()) {
    const Quotient chunks(task, c.chunks), columns(chunks.quotient, c.extent[kColumns]),
        rows(columns.quotient, c.extent[kRows]);
    const int64_t element = chunks.quotient, chunk = chunks.rest;
    int64_t at[kParts] = {};
    c.add_places<2>(kColumns, columns.rest, at);
    c.add_places<2>(kRows, rows.rest, at);
    c.add_places<2>(kBatch, rows.quotient, at);
    const int64_t begin = chunk * c.chunk,
                  end = begin + c.chunk < c.extent[kSummed] ? begin + c.chunk : c.extent[kSummed];
    Sum sum = algebra.start();
    for (int64_t k = begin + thread(); k < end; k += kFlight * kContractThreads) {
      Raw<T> a[kFlight], b[kFlight];
      GPU_UNROLL
      for (int i = 0; i < kFlight; ++i) {
        a[i] = b[i] = Raw<T>(0);
        if (k + i * kContractThreads < end) {
          int64_t term[kParts] = {at[kA], at[kB]};
          c.add_places<2>(kSummed, k + i * kContractThreads, term);
          a[i] = load_raw<T>(c.data[kA], term[kA], c.dtype);
          b[i] = load_raw<T>(c.data[kB], term[kB], c.dtype);
        }
      }
      GPU_UNROLL
      for (int i = 0; i < kFlight; ++i)
        if (A::pads || k + i * kContractThreads < end)
          algebra.add(sum, algebra.read(kA, number_of<T>(a[i], c.dtype)),
                      algebra.read(kB, number_of<T>(b[i], c.dtype)), k + i * kContractThreads);
    }
    join_slices<1>(algebra, &sum, shared, kContractThreads, 1);
    if (thread() > 0) continue;
    if (c.chunks > 1)
      static_cast<Sum*>(partials)[chunk * count + element] = sum;
    else
      finish_element(c, algebra, element, sum);
  }
}

// ---- tiles

// A block's tile of kRows x kColumns; each thread has kDown x kAcross of its elements. The threads
// that are too many for that share the sum: each takes every kSlices-th term.
template <int Rows, int Columns, int Down, int Across, int Depth>
struct Tile {
  static constexpr int rows = Rows, columns = Columns, down = Down, across = Across;
  static constexpr int positions = (Rows / Down) * (Columns / Across);
  static constexpr int slices = kContractThreads / positions;
  // Terms in shared memory at once: `Depth` of 8 bytes at most, fewer of larger ones.
  template <class T>
  static constexpr int depth = sizeof(T) > 8 ? Depth / 2 : Depth;
};
// The 128 x 128 tile gives the bits of the 64 x 64 one.
using LargeTile = Tile<128, 128, 8, 8, 8>;
using SquareTile = Tile<64, 64, 4, 4, 16>;
using SmallTile = Tile<32, 32, 4, 4, 32>;
using ThinTile = Tile<64, 4, 1, 4, 32>;

// Lines (rows of a or columns of b) by Depth terms, twice: one square is used while the next is
// read. Each thread holds Own of the lines, in runs of 16 bytes.
template <class T, Part P, int Lines, int Own, int Depth>
struct Square {
  static constexpr int own = Own;
  static constexpr int of_16_bytes = sizeof(T) < 16 ? 16 / int(sizeof(T)) : 1;
  static constexpr int run = of_16_bytes < Own ? of_16_bytes : Own;
  static constexpr int pitch = Lines + (Lines >= 16 ? run : 0);  // for the banks' sake
  static constexpr int elements = Depth * pitch;
  static constexpr int bytes = 2 * elements * int(sizeof(T));
  static constexpr int loads = (Lines * Depth + kContractThreads - 1) / kContractThreads;
  struct alignas(sizeof(T) * run) Together {
    T numbers[run];
  };

  static_assert(kContractThreads % Lines == 0 && kContractThreads % Depth == 0);
  static constexpr bool whole = Lines * Depth % kContractThreads == 0;

  // Which elements of a square this thread moves: each load is a step further.
  struct Mover {
    int line, term, line_step, term_step;
    __device__ explicit Mover(const Contraction& c)
        : line(c.along_sum[P] ? thread() / Depth : thread() % Lines),
          term(c.along_sum[P] ? thread() % Depth : thread() / Lines),
          line_step(c.along_sum[P] ? kContractThreads / Depth : 0),
          term_step(c.along_sum[P] ? 0 : kContractThreads / Lines) {}
    __device__ bool moves() const { return whole || thread() < Lines * Depth; }

    // Asks for elements: where a line begins plus where a term lies.
    __device__ void read(Raw<T> (&raw)[loads], const Contraction& c, const int64_t* lines,
                         const int64_t* terms, int lines_left, int terms_left) const {
      GPU_UNROLL
      for (int i = 0; i < loads; ++i) {
        const int l = line + i * line_step, t = term + i * term_step;
        raw[i] = Raw<T>(0);
        if (moves() && l < lines_left && t < terms_left)
          raw[i] = load_raw<T>(c.data[P], lines[l] + terms[t], c.dtype);
      }
    }
    template <class A>
    __device__ void put(T* square, const Raw<T> (&raw)[loads], const Contraction& c,
                        const A& algebra) const {
      if (!moves()) return;
      GPU_UNROLL
      for (int i = 0; i < loads; ++i)
        square[(term + i * term_step) * pitch + line + i * line_step] =
            algebra.read(P, number_of<T>(raw[i], c.dtype));
    }
  };
  // The line that is number i of those of place p, of Lines / Own places.
  __device__ static int line(int p, int i) {
    return i / run * (Lines / Own * run) + p * run + i % run;
  }
  __device__ static void take(T (&numbers)[Own], const T* square, int term, int p) {
    GPU_UNROLL
    for (int i = 0; i < Own; i += run) {
      const Together r = *reinterpret_cast<const Together*>(square + term * pitch + line(p, i));
      GPU_UNROLL
      for (int j = 0; j < run; ++j) numbers[i + j] = r.numbers[j];
    }
  }
};

// Where the terms from k on lie in a and in b.
template <int Depth>
__device__ inline void place_terms(const Contraction& c, int64_t* places, int64_t k, int64_t end) {
  for (int e = thread(); e < Depth; e += kContractThreads) {
    int64_t at[kParts] = {};
    if (k + e < end) c.add_places<2>(kSummed, k + e, at);
    places[e] = at[kA];
    places[Depth + e] = at[kB];
  }
}

struct alignas(16) Bytes16 {
  unsigned char bytes[16];
};

// Adds term number `term` of the squares, whose first is the sum's term k, for each of a thread's
// elements.
template <class SquareA, class SquareB, class A, class T>
__device__ inline void add_term(const A& algebra, typename A::Sum* sums, const T* square_a,
                                const T* square_b, int term, int p, int q, int64_t k) {
  T a[SquareA::own], b[SquareB::own];
  SquareA::take(a, square_a, term, p);
  SquareB::take(b, square_b, term, q);
  GPU_UNROLL
  for (int i = 0; i < SquareA::own; ++i) {
    GPU_UNROLL
    for (int j = 0; j < SquareB::own; ++j)
      algebra.add(sums[i * SquareB::own + j], a[i], b[j], k + term);
  }
}

__device__ inline int at_most(int64_t n, int most) { return n < most ? int(n) : most; }

// A task of tiles: a tile's part of one chunk.
struct Piece {
  int64_t batch, chunk, row, column, begin, end;  // the first row, ... ; the chunk's terms
  int rows, columns;                              // that are there
};
template <int Rows, int Columns>
__device__ inline Piece piece_of(const Contraction& c, int64_t task) {
  const Quotient tiles(task, c.tiles_down * c.tiles_across), chunks(tiles.quotient, c.chunks),
      across(tiles.rest, c.tiles_across);
  Piece p;
  p.batch = chunks.quotient;
  p.chunk = chunks.rest;
  p.row = across.quotient * Rows;
  p.column = across.rest * Columns;
  p.begin = p.chunk * c.chunk;
  p.end = p.begin + c.chunk < c.extent[kSummed] ? p.begin + c.chunk : c.extent[kSummed];
  p.rows = at_most(c.extent[kRows] - p.row, Rows);
  p.columns = at_most(c.extent[kColumns] - p.column, Columns);
  return p;
}
// Where the sum of an element of a piece stands among the partials.
__device__ inline int64_t partial_of(const Contraction& c, const Piece& p, int row, int column) {
  const int64_t rows = (p.chunk * c.extent[kBatch] + p.batch) * c.extent[kRows] + p.row + row;
  return rows * c.extent[kColumns] + p.column + column;
}

template <class A, class Shape>
__global__ void GPU_THREADS(kContractThreads)
    contract_tiles(Contraction c, A algebra, void* partials) {
  using T = typename A::Number;
  using Sum = typename A::Sum;
  constexpr int kDepth = Shape::template depth<T>;
  constexpr int kDown = Shape::down, kAcross = Shape::across, kSlices = Shape::slices;
  using SquareA = Square<T, kA, Shape::rows, kDown, kDepth>;
  using SquareB = Square<T, kB, Shape::columns, kAcross, kDepth>;
  constexpr int kSquares = SquareA::bytes + SquareB::bytes;
  // As many sums of a thread are joined at once as the squares' memory holds, at least a row.
  constexpr int kOne = kContractThreads * int(sizeof(Sum));
  constexpr int kJoined = kDown * kAcross * kOne <= kSquares ? kDown * kAcross : kAcross;
  constexpr int kSums = kSlices > 1 ? kJoined * kOne : 0;
  static_assert(SquareA::bytes % 16 == 0 && kContractThreads % Shape::positions == 0);
  GPU_SHARED(Bytes16, pool, ((kSquares > kSums ? kSquares : kSums) + 15) / 16);
  GPU_SHARED(int64_t, row_at, kParts * Shape::rows);
  GPU_SHARED(int64_t, column_at, kParts * Shape::columns);
  GPU_SHARED(int64_t, term_at, 2 * 2 * kDepth);
  T* const squares_a = reinterpret_cast<T*>(pool);
  T* const squares_b = reinterpret_cast<T*>(pool + SquareA::bytes / 16);

  const int slice = thread() / Shape::positions, position = thread() % Shape::positions;
  constexpr int kPlacesDown = Shape::rows / kDown, kPlacesAcross = Shape::columns / kAcross;
  const int p = c.out_along_rows ? position % kPlacesDown : position / kPlacesAcross;
  const int q = c.out_along_rows ? position / kPlacesDown : position % kPlacesAcross;
  const typename SquareA::Mover mover_a(c);
  const typename SquareB::Mover mover_b(c);
  const int64_t tiles = c.tiles_down * c.tiles_across;

  for (int64_t task = block(); task < c.extent[kBatch] * c.chunks * tiles; task += blocks()) {
    const Piece piece = piece_of<Shape::rows, Shape::columns>(c, task);
    // Where rows and columns begin. The batch's share is in the rows' places, and in b's.
    for (int e = thread(); e < Shape::rows; e += kContractThreads) {
      int64_t at[kParts] = {};
      if (e < piece.rows) {
        c.add_places<kParts>(kBatch, piece.batch, at);
        c.add_places<kParts>(kRows, piece.row + e, at);
      }
      GPU_UNROLL
      for (int v = 0; v < kParts; ++v) row_at[v * Shape::rows + e] = at[v];
    }
    for (int e = thread(); e < Shape::columns; e += kContractThreads) {
      int64_t at[kParts] = {};
      if (e < piece.columns) {
        c.add_places<kOut>(kBatch, piece.batch, at);
        c.add_places<kParts>(kColumns, piece.column + e, at);
      }
      GPU_UNROLL
      for (int v = 0; v < kParts; ++v) column_at[v * Shape::columns + e] = at[v];
    }
    Sum sums[kDown * kAcross];
    GPU_UNROLL
    for (Sum& sum : sums) sum = algebra.start();
    Raw<T> raw_a[SquareA::loads] = {}, raw_b[SquareB::loads] = {};
    place_terms<kDepth>(c, term_at, piece.begin, piece.end);
    barrier();
    int now = 1;  // the square in use; its terms are those from k on
    for (int64_t k = piece.begin - kDepth; k < piece.end; k += kDepth, now ^= 1) {
      const int64_t next = k + kDepth;
      if (next < piece.end) {
        const int64_t* const terms = term_at + (now ^ 1) * 2 * kDepth;
        mover_a.read(raw_a, c, row_at, terms, piece.rows, at_most(piece.end - next, kDepth));
        mover_b.read(raw_b, c, column_at + kB * Shape::columns, terms + kDepth, piece.columns,
                     at_most(piece.end - next, kDepth));
      }
      if (k >= piece.begin) {
        const T* const square_a = squares_a + now * SquareA::elements;
        const T* const square_b = squares_b + now * SquareB::elements;
        if constexpr (A::pads) {
          GPU_UNROLL
          for (int term = 0; term < kDepth; term += kSlices)
            add_term<SquareA, SquareB>(algebra, sums, square_a, square_b, term + slice, p, q, k);
        } else {
          const int terms = at_most(piece.end - k, kDepth);
          GPU_NO_UNROLL
          for (int term = slice; term < terms; term += kSlices)
            add_term<SquareA, SquareB>(algebra, sums, square_a, square_b, term, p, q, k);
        }
      }
      if (next < piece.end) {
        mover_a.put(squares_a + (now ^ 1) * SquareA::elements, raw_a, c, algebra);
        mover_b.put(squares_b + (now ^ 1) * SquareB::elements, raw_b, c, algebra);
        place_terms<kDepth>(c, term_at + now * 2 * kDepth, next + kDepth, piece.end);
      }
      barrier();
    }

    if constexpr (kSlices > 1) {
      GPU_UNROLL
      for (int i = 0; i < kDown * kAcross; i += kJoined)
        join_slices<kJoined>(algebra, sums + i, reinterpret_cast<Sum*>(pool), kSlices,
                             Shape::positions);
    }
    GPU_UNROLL
    for (int i = 0; i < kDown; ++i) {
      GPU_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        const int line = SquareA::line(p, i), other = SquareB::line(q, j);
        if (slice > 0 || line >= piece.rows || other >= piece.columns) continue;
        const Sum& sum = sums[i * kAcross + j];
        if (c.chunks > 1) {
          static_cast<Sum*>(partials)[partial_of(c, piece, line, other)] = sum;
          continue;
        }
        int64_t at[kParts] = {};
        GPU_UNROLL
        for (int v = kOut; v < kParts; ++v)
          at[v] = row_at[v * Shape::rows + line] + column_at[v * Shape::columns + other];
        algebra.finish(c, c.data, at, sum);
      }
    }
    barrier();  // the next tile writes the places that this one's end reads
  }
}

// ---- the launch

// Cuts the sum into the parts that were wished for, or into chunks if `tiles` blocks are too few to
// keep a large device busy.
inline void cut_sum(Contraction& c, int64_t tiles, int64_t blocks_wanted, int64_t least) {
  constexpr int64_t kStep = 64;
  const int64_t terms = c.extent[kSummed];
  int64_t chunks = (blocks_wanted + tiles - 1) / tiles;
  if (chunks > terms / least) chunks = terms / least;
  if (c.parts > 0) chunks = c.parts;
  if (chunks < 1) chunks = 1;
  c.chunk = (terms + chunks - 1) / chunks;
  c.chunk = (c.chunk + kStep - 1) / kStep * kStep;
  c.chunks = (terms + c.chunk - 1) / c.chunk;
}

// Launches work(c, algebra, partials) on `blocks` blocks, then what joins the chunks.
template <class A>
void launch_chunks(const Run& run, const Contraction& c, const A& algebra, int64_t blocks,
                   void (*work)(Contraction, A, void*)) {
  using Sum = typename A::Sum;
  constexpr int64_t kMostBlocks = 0x7fffffff;
  const int64_t count = c.extent[kBatch] * c.extent[kRows] * c.extent[kColumns];
  Sum* partials = nullptr;
  if (c.chunks > 1)
    partials = Run::Scratch(run, Run::Scratch::whole(sizeof(Sum) * size_t(count * c.chunks)))
                   .template take<Sum>(count * c.chunks);
  run.grid(Threads::together, blocks < kMostBlocks ? blocks : kMostBlocks, kContractThreads, work,
           c, algebra, static_cast<void*>(partials));
  if (c.chunks <= 1) return;
  int slices = 1;
  while (slices < kContractThreads && slices * 4 < c.chunks) slices *= 2;
  const int64_t groups = (count * slices + kContractThreads - 1) / kContractThreads;
  run.grid(Threads::together, groups < kMostBlocks ? groups : kMostBlocks, kContractThreads,
           kernel<contract_join<A>>(), c, algebra, static_cast<const void*>(partials), slices);
}

template <class Shape, class A>
void launch_tiles(const Run& run, Contraction c, const A& algebra, int64_t blocks_wanted,
                  int64_t least) {
  c.tiles_down = (c.extent[kRows] + Shape::rows - 1) / Shape::rows;
  c.tiles_across = (c.extent[kColumns] + Shape::columns - 1) / Shape::columns;
  const int64_t tiles = c.extent[kBatch] * c.tiles_down * c.tiles_across;
  cut_sum(c, tiles, blocks_wanted, least);
  launch_chunks(run, c, algebra, tiles * c.chunks, kernel<contract_tiles<A, Shape>>());
}

// In the way that was chosen.
template <class A>
void contract_in_way(const Run& run, const Walk<kParts>& elements, Contraction c,
                     const A& algebra) {
  if (c.way == GD_WAY_DIRECT) return each(run, elements, kernel<contract_direct<A>>(), c, algebra);
  if (c.way == GD_WAY_DOTS) {
    const int64_t count = c.extent[kBatch] * c.extent[kRows] * c.extent[kColumns];
    cut_sum(c, count, 264, 4096);
    return launch_chunks(run, c, algebra, count * c.chunks, kernel<contract_dots<A>>());
  }
  if (c.way == GD_WAY_THIN) return launch_tiles<ThinTile>(run, c, algebra, 528, 512);
  if constexpr (std::is_same_v<A, Standard<float>>)
    if (c.way == GD_WAY_LARGE) return launch_tiles<LargeTile>(run, c, algebra, 264, 512);
  if constexpr (A::pads)
    if (c.way == GD_WAY_SQUARE) return launch_tiles<SquareTile>(run, c, algebra, 264, 512);
  launch_tiles<SmallTile>(run, c, algebra, 264, 128);
}

}  // namespace gradus::gpu
