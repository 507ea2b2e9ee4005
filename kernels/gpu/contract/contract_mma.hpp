// Contractions on tensor cores. As the tiles of contract_kernels.hpp, but strips of the operands
// lie in shared memory as they lie in global memory, 16 bytes at a time, and each wave holds its
// elements the way mma does. Included by contract_mma_*.cu, which share the time it takes to
// compile.
#pragma once
#include "kernels/gpu/contract/contract_kernels.hpp"
#include "kernels/gpu/contract/mma.hpp"

#if !defined(__HIP_PLATFORM_AMD__)
namespace gradus::inline v1::gpu {

struct alignas(16) Packet {
  uint32_t words[4];
};

// Lines by `depth` terms of an operand, twice. If neighbouring threads read along the sum, a line's
// terms lie together, else a term's lines. Pitches are such that a wave's reads meet no bank twice.
template <Mma M, Part P, int Lines>
struct Strip {
  using Element = std::conditional_t<M == Mma::tf32, uint32_t, uint16_t>;
  static constexpr int run = 16 / int(sizeof(Element));  // elements of a packet
  static constexpr int depth = 64 / int(sizeof(Element));
  static constexpr int along_pitch = depth + run, across_pitch = Lines + 8;
  static constexpr int elements =
      Lines * along_pitch > depth* across_pitch ? Lines* along_pitch : depth* across_pitch;
  static constexpr int bytes = 2 * elements * int(sizeof(Element));
  static constexpr int loads = Lines * depth / run / kContractThreads;
  static_assert(Lines * depth % (run * kContractThreads) == 0 && bytes % 16 == 0);

  // The first element of this thread's packet number i.
  __device__ static void place(bool along, int i, int& line, int& term) {
    const int e = thread() + i * kContractThreads;
    line = along ? e / (depth / run) : e % (Lines / run) * run;
    term = along ? e % (depth / run) * run : e / (Lines / run);
  }
  // Begins to fill a strip: where a line begins plus where a term lies. 0 beyond what is there.
  __device__ static void fetch(Element* strip, const Contraction& c, const int64_t* lines,
                               const int64_t* terms, int lines_left, int terms_left) {
    const bool along = c.along_sum[P];
    const Element* const data = reinterpret_cast<const Element*>(c.data[P]);
    GPU_UNROLL
    for (int i = 0; i < loads; ++i) {
      int line, term;
      place(along, i, line, term);
      Element* const to = strip + (along ? line * along_pitch + term : term * across_pitch + line);
      const bool there = line < lines_left && term < terms_left;
      if (there && c.aligned[P]) {
        copy_async(to, data + lines[line] + terms[term]);
        continue;
      }
      Packet x{};
      GPU_UNROLL
      for (int j = 0; j < run; ++j) {
        const int l = along ? line : line + j, t = along ? term + j : term;
        if (!there || l >= lines_left || t >= terms_left) continue;
        const uint32_t element = data[lines[l] + terms[t]];
        x.words[j * 4 / run] |= element << (M == Mma::tf32 ? 0 : 16 * (j % 2));
      }
      *reinterpret_cast<Packet*>(to) = x;
    }
  }
  // Registers of mma for 16 lines by mma's terms. LinesFirst: of these squares of 8 lines by half
  // of the terms, register r has lines 8 (r % 2) and half r / 2; else the other way round.
  template <bool Along, bool LinesFirst>
  __device__ static void take(uint32_t (&r)[4], const Element* strip, int line, int term) {
    if constexpr (Along || M != Mma::tf32) {
      const int square = lane() / 8, row = lane() % 8;
      const int l = 8 * (LinesFirst ? square % 2 : square / 2),
                t = run * (LinesFirst ? square / 2 : square % 2);
      load_matrices<!Along>(r, strip + (Along ? (line + l + row) * along_pitch + term + t
                                              : (term + t + row) * across_pitch + line + l));
    } else {
      const Element* const at = strip + (term + lane() % 4) * across_pitch + line + lane() / 4;
      GPU_UNROLL
      for (int i = 0; i < 4; ++i)
        r[i] =
            at[4 * (LinesFirst ? i / 2 : i % 2) * across_pitch + 8 * (LinesFirst ? i % 2 : i / 2)];
    }
    if constexpr (M == Mma::tf32) {
      GPU_UNROLL
      for (uint32_t& word : r) word = to_tf32(word);
    }
  }
};

// A wave's share of a strip: Down x Across products of 16 x 8.
template <bool AlongA, bool AlongB, Mma M, class StripA, class StripB, int Down, int Across>
__device__ inline void multiply(float (&sums)[Down][Across][4],
                                const typename StripA::Element* strip_a,
                                const typename StripB::Element* strip_b, int row, int column) {
  GPU_UNROLL
  for (int term = 0; term < StripA::depth; term += mma_terms<M>) {
    uint32_t a[Down][4], b[Across / 2][4];
    GPU_UNROLL
    for (int i = 0; i < Down; ++i)
      StripA::template take<AlongA, true>(a[i], strip_a, row + 16 * i, term);
    GPU_UNROLL
    for (int j = 0; j < Across / 2; ++j)
      StripB::template take<AlongB, false>(b[j], strip_b, column + 16 * j, term);
    GPU_UNROLL
    for (int i = 0; i < Down; ++i) {
      GPU_UNROLL
      for (int j = 0; j < Across; ++j) {
        const uint32_t half[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
        mma<M>(sums[i][j], a[i], half);
      }
    }
  }
}

template <Mma M, int Rows, int Columns>
__global__ void GPU_THREADS_RESIDENT(kContractThreads, 2)
    contract_strips(Contraction c, Standard<float> algebra, void* partials) {
  using StripA = Strip<M, kA, Rows>;
  using StripB = Strip<M, kB, Columns>;
  using Element = typename StripA::Element;
  constexpr int kDepth = StripA::depth;
  // Eight waves, two down and four across; each has kDown x kAcross products of 16 x 8.
  constexpr int kWaveRows = Rows / 2, kWaveColumns = Columns / 4;
  constexpr int kDown = kWaveRows / 16, kAcross = kWaveColumns / 8;
  GPU_SHARED(Packet, pool, (StripA::bytes + StripB::bytes) / 16);
  GPU_SHARED(int64_t, line_at, Rows + Columns);
  GPU_SHARED(int64_t, term_at, 2 * 2 * kDepth);
  Element* const strips_a = reinterpret_cast<Element*>(pool);
  Element* const strips_b = strips_a + 2 * StripA::elements;
  const int wave = thread() / 32, g = lane() / 4, t = lane() % 4;
  const int first_row = wave / 4 * kWaveRows, first_column = wave % 4 * kWaveColumns;
  const int64_t tasks = c.extent[kBatch] * c.chunks * c.tiles_down * c.tiles_across;

  for (int64_t task = block(); task < tasks; task += blocks()) {
    const Piece piece = piece_of<Rows, Columns>(c, task);
    for (int e = thread(); e < Rows + Columns; e += kContractThreads) {
      int64_t at[kParts] = {};
      c.add_places<2>(kBatch, piece.batch, at);
      if (e < Rows) {
        if (e < piece.rows) c.add_places<2>(kRows, piece.row + e, at);
      } else if (e - Rows < piece.columns) {
        c.add_places<2>(kColumns, piece.column + e - Rows, at);
      }
      line_at[e] = e < Rows ? at[kA] : at[kB];
    }
    float sums[kDown][kAcross][4] = {};
    place_terms<kDepth>(c, term_at, piece.begin, piece.end);
    barrier();
    int now = 1;  // the strip in use; its terms are those from k on
    for (int64_t k = piece.begin - kDepth; k < piece.end; k += kDepth, now ^= 1) {
      const int64_t next = k + kDepth;
      if (next < piece.end) {
        const int64_t* const terms = term_at + (now ^ 1) * 2 * kDepth;
        const int left = at_most(piece.end - next, kDepth);
        StripA::fetch(strips_a + (now ^ 1) * StripA::elements, c, line_at, terms, piece.rows, left);
        StripB::fetch(strips_b + (now ^ 1) * StripB::elements, c, line_at + Rows, terms + kDepth,
                      piece.columns, left);
      }
      if (k >= piece.begin) {
        const Element* const strip_a = strips_a + now * StripA::elements;
        const Element* const strip_b = strips_b + now * StripB::elements;
        // Each of the four ways has all its places known when it is compiled.
        if (c.along_sum[kA] && c.along_sum[kB])
          multiply<true, true, M, StripA, StripB>(sums, strip_a, strip_b, first_row, first_column);
        else if (c.along_sum[kA])
          multiply<true, false, M, StripA, StripB>(sums, strip_a, strip_b, first_row, first_column);
        else if (c.along_sum[kB])
          multiply<false, true, M, StripA, StripB>(sums, strip_a, strip_b, first_row, first_column);
        else
          multiply<false, false, M, StripA, StripB>(sums, strip_a, strip_b, first_row,
                                                    first_column);
      }
      if (next < piece.end)
        place_terms<kDepth>(c, term_at + now * 2 * kDepth, next + kDepth, piece.end);
      wait_copies();
      barrier();
    }

    // Where rows and columns of out and of the bias lie, in place of the strips.
    int64_t* const out_at = reinterpret_cast<int64_t*>(pool);
    int64_t* const bias_at = out_at + Rows + Columns;
    for (int e = thread(); e < Rows + Columns; e += kContractThreads) {
      int64_t at[kParts] = {};
      if (e < piece.rows) {
        c.add_places<kParts>(kBatch, piece.batch, at);
        c.add_places<kParts>(kRows, piece.row + e, at);
      } else if (e >= Rows && e - Rows < piece.columns) {
        c.add_places<kParts>(kColumns, piece.column + e - Rows, at);
      }
      out_at[e] = at[kOut];
      bias_at[e] = at[kBias];
    }
    barrier();
    GPU_UNROLL
    for (int i = 0; i < kDown; ++i) {
      GPU_UNROLL
      for (int j = 0; j < kAcross; ++j) {
        GPU_UNROLL
        for (int r = 0; r < 4; ++r) {
          const int row = first_row + 16 * i + g + 8 * (r / 2),
                    column = first_column + 8 * j + 2 * t + r % 2;
          if (row >= piece.rows || column >= piece.columns) continue;
          if (c.chunks > 1) {
            static_cast<float*>(partials)[partial_of(c, piece, row, column)] = sums[i][j][r];
            continue;
          }
          int64_t at[kParts] = {};
          at[kOut] = out_at[row] + out_at[Rows + column];
          at[kBias] = bias_at[row] + bias_at[Rows + column];
          algebra.finish(c, c.data, at, sums[i][j][r]);
        }
      }
    }
    barrier();  // the next tile writes where this one's end reads
  }
}

template <Mma M, int Side>
void launch_strips(const Run& run, Contraction c, const Standard<float>& algebra) {
  c.tiles_down = (c.extent[kRows] + Side - 1) / Side;
  c.tiles_across = (c.extent[kColumns] + Side - 1) / Side;
  const int64_t tiles = c.extent[kBatch] * c.tiles_down * c.tiles_across;
  cut_sum(c, tiles, 264, 512);
  launch_chunks(run, c, algebra, tiles * c.chunks, kernel<contract_strips<M, Side, Side>>());
}
template <Mma M>
void launch_strips(const Run& run, const Contraction& c, const Standard<float>& algebra) {
  return c.way == GD_WAY_MATRIX_LARGE ? launch_strips<M, 128>(run, c, algebra)
                                      : launch_strips<M, 64>(run, c, algebra);
}

// One file each.
void contract_f16_mma(const Run&, const Contraction&, const Standard<float>&);
void contract_bf16_mma(const Run&, const Contraction&, const Standard<float>&);
void contract_tf32_mma(const Run&, const Contraction&, const Standard<float>&);

}  // namespace gradus::gpu
#endif
