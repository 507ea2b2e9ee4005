// The slots copy and fill. Same dtype: whole runs, or tiles where memory runs along different axes
// on the two sides (a transpose): a tile is read in runs, turned in registers (isa/transpose.cpp)
// and written in runs. Large outputs are written past the caches. Other dtypes: gathered blocks
// through a conversion.
#include "kernels/cpu/slots.hpp"
#include "kernels/cpu/stream.hpp"
#include "kernels/cpu/walk.hpp"

#include <initializer_list>

namespace gradus::inline v1::cpu {
namespace {

constexpr int kOut = 0, kIn = 1;

int64_t shorter(int64_t a, int64_t b) { return a < b ? a : b; }
int64_t longer(int64_t a, int64_t b) { return a > b ? a : b; }
int64_t reach(int64_t stride) { return stride < 0 ? -stride : stride; }

// ---- runs of bytes

void put_run(char* to, const char* from, int64_t bytes, bool streamed, const char* next = nullptr) {
  streamed ? stream_run(to, from, bytes, next) : void(memcpy(to, from, size_t(bytes)));
}

constexpr int64_t kAhead = 4096, kFar = 16384;  // bytes

void copy_run(gd_device* d, char* to, const char* from, int64_t bytes) {
  const bool streamed = bytes >= kStreamed;
  parallel_range(d, bytes, 4 * kGrain, [&](int64_t begin, int64_t end) {
    put_run(to + begin, from + begin, end - begin, streamed, from + begin + kAhead);
    if (streamed) end_streams();
  });
}

// ---- rows: both sides are densest along the last axis

void copy_rows(gd_device* d, const Walk& w, int64_t unit) {
  const int last = w.rank - 1;
  const int64_t to_step = w.stride[kOut][last], from_step = w.stride[kIn][last];
  const bool streamed = w.count() * unit >= kStreamed && unit >= 1024;
  parallel_range(d, w.count(), longer(1, 4 * kGrain / unit), [&](int64_t begin, int64_t end) {
    for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t n) {
      if (unit <= 16)
        copy_row(p[kOut], to_step, p[kIn], from_step, n, unit);
      else
        for (int64_t i = 0; i < n; ++i)
          put_run(p[kOut] + i * to_step, p[kIn] + i * from_step, unit, streamed,
                  unit < kFar ? p[kIn] + (i + 1) * from_step : nullptr);
    });
    if (streamed) end_streams();
  });
}

// ---- tiles: memory runs along different axes on the two sides

// Bytes of one tile along each side. Reads want long runs, and wait where they begin; writes go on
// their way by whole lines. Where all is in the cache, small tiles turn within the first level.
constexpr int64_t kColumnBytes = 512, kRowBytes = 1024, kCachedRowBytes = 256, kUnitBytes = 2048;
constexpr int64_t kCached = int64_t(1) << 20;
constexpr int64_t kLine = 64;
constexpr int64_t kMostOfSide = 1536, kTileBytes = 320 << 10;

// One side of a tile: the axes that a view is densest along, all of some and a block of the last.
struct Side {
  int64_t count = 1;            // elements of a whole tile along this side
  int64_t size = 1, block = 1;  // of the last axis
  int64_t step[2] = {0, 0};     // of the last axis, in each view
  int64_t at[2][kMostOfSide];   // where each element lies, in each view
  Side() { at[kOut][0] = at[kIn][0] = 0; }

  // Room for about `most` elements: false if that is not even two of axis d.
  bool add(const Walk& w, int d, int64_t most, int64_t unit) {
    if (block < size) return false;
    int64_t n = shorter((most + count / 2) / count, kMostOfSide / count);
    if (n < 2) return false;
    if (n < w.size[d] && count == 1) {  // even blocks, of whole lines
      const int64_t blocks = (w.size[d] + n - 1) / n,
                    line = unit > 16 ? 1 : longer(16, kLine / unit);
      n = shorter(((w.size[d] + blocks - 1) / blocks + line - 1) / line * line, kMostOfSide);
    }
    size = w.size[d];
    block = shorter(n, size);
    for (const int v : {kOut, kIn}) {
      step[v] = w.stride[v][d];
      for (int64_t i = count; i < count * block; ++i) at[v][i] = at[v][i - count] + step[v];
    }
    count *= block;
    return true;
  }
  int64_t blocks() const { return (size + block - 1) / block; }
  // Elements of the tile whose blocks begin at `begin`.
  int64_t count_from(int64_t begin) const { return count / block * shorter(block, size - begin); }
  // How many elements lie side by side in view v, again and again.
  int64_t run(int v, int64_t unit) const {
    int64_t n = 1;
    while (n < count && at[v][n] == n * unit) ++n;
    return n;
  }
};

struct Tiling {
  Walk rest;           // the axes around the tiles
  Side rows, columns;  // densest in the input; densest in the output
  int64_t unit, pitch, in_run, out_run;
  int64_t staged[kMostOfSide];  // where the rows of a tile lie in a block of its own
  bool adjacent;                // the rows of a tile follow each other in the output
  bool streamed;
  bool direct;  // rows go straight to the output
  bool ahead;   // the next tile is fetched while this one is turned
  TurnFn turn;  // null: rows are gathered unit by unit

  int64_t tiles() const { return rest.count() * rows.blocks() * columns.blocks(); }
};

struct Place {
  char* to;
  const char* from;
  int64_t rows, columns;
};
// Tiles follow each other along the rows, then along the columns.
Place place_of(const Tiling& t, int64_t tile) {
  const int64_t down = t.rows.blocks(), across = t.columns.blocks();
  const int64_t i = tile % down * t.rows.block, j = tile / down % across * t.columns.block;
  int64_t at[2], rest = tile / down / across;
  for (const int v : {kOut, kIn}) at[v] = i * t.rows.step[v] + j * t.columns.step[v];
  for (int k = t.rest.rank - 1; k >= 0; --k) {
    const int64_t n = rest % t.rest.size[k];
    rest /= t.rest.size[k];
    for (const int v : {kOut, kIn}) at[v] += n * t.rest.stride[v][k];
  }
  return {t.rest.base[kOut] + at[kOut], t.rest.base[kIn] + at[kIn], t.rows.count_from(i),
          t.columns.count_from(j)};
}

void turn_tile(const Tiling& t, const Place& p, const char* next, char* to, const int64_t* to_at,
               bool streamed) {
  for (int64_t i = 0; i < p.rows; i += t.in_run) {
    const int64_t at = t.rows.at[kIn][i];
    t.turn(to, to_at + i, p.from + at, t.columns.at[kIn], p.columns, shorter(t.in_run, p.rows - i),
           next ? next + at : nullptr, streamed);
  }
}

template <int B>
void gather_units(char* to, const char* from, const int64_t* at, int64_t n) {
  for (int64_t j = 0; j < n; ++j) memcpy(to + j * B, from + at[j], B);
}
template <int B>
void scatter_units(char* to, const int64_t* at, const char* from, int64_t n) {
  for (int64_t j = 0; j < n; ++j) memcpy(to + at[j], from + j * B, B);
}

// A row of a tile to where its elements belong.
void put_row(const Tiling& t, char* to, const char* row, int64_t columns) {
  if (t.out_run * t.unit < 16 && t.unit <= 8) {
    (t.unit == 1   ? scatter_units<1>
     : t.unit == 2 ? scatter_units<2>
     : t.unit == 4 ? scatter_units<4>
                   : scatter_units<8>)(to, t.columns.at[kOut], row, columns);
    return;
  }
  for (int64_t j = 0; j < columns; j += t.out_run)
    put_run(to + t.columns.at[kOut][j], row + j * t.unit, shorter(t.out_run, columns - j) * t.unit,
            t.streamed);
}

// Without turning: row by row, from wherever its elements are.
void gather_tile(const Tiling& t, const Place& p, const char* next) {
  alignas(64) char block[2 * kUnitBytes];
  const int64_t* const at = t.columns.at[kIn];
  const bool straight = t.direct && (!t.streamed || t.unit % kLine == 0);
  for (int64_t i = 0; i < p.rows; ++i) {
    const char* const from = p.from + t.rows.at[kIn][i];
    const char* const then = next ? next + t.rows.at[kIn][i] : nullptr;
    char* const to = p.to + t.rows.at[kOut][i];
    char* const row = straight ? to : block;
    if (then && !(straight && t.streamed))
      for (int64_t j = 0; j < p.columns; ++j)
        for (int64_t b = 0; b < t.unit; b += kLine) fetch_ahead(then + at[j] + b);
    if (t.unit > 16)
      for (int64_t j = 0; j < p.columns; ++j)
        put_run(row + j * t.unit, from + at[j], t.unit, straight && t.streamed,
                then ? then + at[j] : nullptr);
    else
      (t.unit == 1   ? gather_units<1>
       : t.unit == 2 ? gather_units<2>
       : t.unit == 4 ? gather_units<4>
       : t.unit == 8 ? gather_units<8>
                     : gather_units<16>)(row, from, at, p.columns);
    if (!straight) put_row(t, to, row, p.columns);
  }
}

void copy_tile(const Tiling& t, const Place& p, const char* next, char* block) {
  if (t.turn && t.direct) {
    turn_tile(t, p, next, p.to, t.rows.at[kOut], t.streamed);
  } else if (!block) {
    gather_tile(t, p, next);
  } else {
    turn_tile(t, p, next, block, t.staged, false);
    if (t.adjacent && p.columns == t.columns.count) {
      put_run(p.to, block, p.rows * p.columns * t.unit, t.streamed);
      return;
    }
    for (int64_t i = 0; i < p.rows; ++i)
      put_row(t, p.to + t.rows.at[kOut][i], block + t.staged[i], p.columns);
  }
}

void copy_tiles(gd_device* d, Tiling& t) {
  const int64_t tile_bytes = t.unit * t.rows.count * t.columns.count, tiles = t.tiles();
  parallel_range(d, tiles, 4 * kGrain / tile_bytes, [&](int64_t begin, int64_t end) {
    char* const block =
        !t.turn || t.direct
            ? nullptr
            : static_cast<char*>(d->scratch(kScratchTask, size_t(t.rows.count * t.pitch)));
    Place p = place_of(t, begin);
    for (int64_t k = begin; k < end; ++k) {
      const Place next = place_of(t, k + 1 < tiles ? k + 1 : k);
      copy_tile(t, p, t.ahead ? next.from : nullptr, block);
      p = next;
    }
    if (t.streamed) end_streams();
  });
}

// Do all rows of all tiles begin at a line of the output?
bool by_lines(const Tiling& t) {
  uint64_t all =
      reinterpret_cast<uintptr_t>(t.rest.base[kOut]) | uint64_t(t.rows.step[kOut]) |
      uint64_t(t.columns.block < t.columns.size ? t.columns.block * t.columns.step[kOut] : 0);
  for (int64_t i = 0; i < t.rows.count; ++i) all |= uint64_t(t.rows.at[kOut][i]);
  for (int k = 0; k < t.rest.rank; ++k) all |= uint64_t(t.rest.stride[kOut][k]);
  return all % kLine == 0;
}

// Takes the axes from the walk that make the sides of a tile.
void plan_tiles(gd_device* d, Walk& w, int64_t unit, Tiling& t) {
  const int64_t bytes = w.count() * unit;
  const auto take = [&](int k) {
    move_axis(w, k, w.rank - 1);
    --w.rank;
  };
  const auto flip = [&](int k, int v) {  // makes view v run upwards along axis k
    if (w.stride[v][k] >= 0) return;
    for (int u : {kOut, kIn}) {
      w.base[u] += (w.size[k] - 1) * w.stride[u][k];
      w.stride[u][k] = -w.stride[u][k];
    }
  };
  const auto densest = [&](int v) {
    int best = -1;
    for (int k = w.rank - 1; k >= 0; --k)
      if (w.stride[v][k] != 0 && (best < 0 || reach(w.stride[v][k]) < reach(w.stride[v][best])))
        best = k;
    return best;
  };
  t.unit = unit;
  t.turn = unit <= 16 ? d->kernels->turn(unit) : nullptr;
  t.streamed = bytes >= kStreamed;
  t.ahead = bytes >= kCached;
  const int64_t wide = shorter((t.turn ? kColumnBytes : kUnitBytes) / unit, 256);
  const int64_t row_bytes = t.turn && !t.streamed ? kCachedRowBytes
                            : t.turn              ? kRowBytes
                                                  : kUnitBytes;
  const int input = densest(kIn);
  for (int k = w.rank - 1; k >= 0; k = w.rank - 1) {
    // The input's own axis is left to the rows, unless that leaves hardly a column. Few will do if
    // pixels follow each other.
    const int64_t width = t.columns.count * unit;
    const int64_t few = w.size[k] * unit < kLine            ? kLine
                        : reach(w.stride[kOut][k]) == width ? 8
                                                            : 16;
    if (k == input && width >= few) break;
    flip(k, kOut);
    if (!t.columns.add(w, k, wide, unit)) break;
    take(k);
  }
  const int64_t width = t.columns.count * unit, pitch = (width + 63) / 64 * 64 + 64;
  const int64_t high =
      shorter(shorter(kMostOfSide, kTileBytes / pitch), longer(row_bytes / unit, 16384 / width));
  while (w.rank > 0 && t.rows.count * unit < row_bytes) {
    const int k = densest(kIn);
    if (k < 0) break;
    flip(k, kIn);
    if (!t.rows.add(w, k, high, unit)) break;
    take(k);
  }
  t.in_run = t.rows.run(kIn, unit);
  t.out_run = t.columns.run(kOut, unit);
  if (t.in_run == 1) t.turn = nullptr;
  t.adjacent = t.out_run == t.columns.count && t.rows.run(kOut, width) == t.rows.count;
  t.pitch = t.adjacent ? width : pitch;
  for (int64_t i = 0; i < t.rows.count; ++i) t.staged[i] = i * t.pitch;
  // Around them: what is near in either view is walked last.
  const auto nearness = [&](int k) {
    return shorter(reach(w.stride[kOut][k]), reach(w.stride[kIn][k]));
  };
  for (int k = 1; k < w.rank; ++k) {
    int to = k;
    while (to > 0 && nearness(to - 1) < nearness(k)) --to;
    if (to != k) move_axis(w, k, to);
  }
  t.rest = w;
  t.direct = t.out_run == t.columns.count && (!t.streamed || by_lines(t));
}

void copy_converted(gd_device* d, const Walk& w, ConvertFn convert) {
  const bool plain_in = w.contiguous(kIn), plain_out = w.contiguous(kOut);
  parallel_range(d, w.count(), kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) char from[kBlock * 16], to[kBlock * 16];
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = end - i < kBlock ? end - i : kBlock;
      if (!plain_in) gather_block(w, kIn, i, n, from);
      const char* source = plain_in ? w.base[kIn] + i * w.item[kIn] : from;
      convert(source, plain_out ? w.base[kOut] + i * w.item[kOut] : to, n);
      if (!plain_out) scatter_block(w, kOut, i, n, to);
    }
  });
}

}  // namespace

void copy_same(gd_device* d, Walk& w) {
  int64_t unit = w.item[kOut];
  if (w.rank > 0 && w.stride[kOut][w.rank - 1] == unit && w.stride[kIn][w.rank - 1] == unit) {
    const int64_t run = unit * w.size[w.rank - 1];
    if (run >= 32 || (run <= 16 && (run & (run - 1)) == 0)) {
      unit = run;
      --w.rank;
    }
  }
  if (w.rank == 0) {
    copy_run(d, w.base[kOut], w.base[kIn], unit);
    return;
  }
  int dense = w.rank - 1;
  for (int k = 0; k < w.rank; ++k)
    if (w.stride[kIn][k] != 0 && reach(w.stride[kIn][k]) < reach(w.stride[kIn][dense])) dense = k;
  if (dense == w.rank - 1 || unit >= 4096 || w.count() < 256) {
    copy_rows(d, w, unit);
    return;
  }
  Tiling t;
  plan_tiles(d, w, unit, t);
  copy_tiles(d, t);
}

void copy_dense(gd_device* d, const Walk& w, int v, char* to) {
  Walk pair;
  pair.rank = w.rank;
  pair.views = 2;
  pair.base[kOut] = to;
  pair.base[kIn] = w.base[v];
  int64_t step = pair.item[kOut] = pair.item[kIn] = w.item[v];
  for (int k = w.rank - 1; k >= 0; --k) {
    pair.size[k] = w.size[k];
    pair.stride[kIn][k] = w.stride[v][k];
    pair.stride[kOut][k] = step;
    step *= w.size[k];
  }
  merge_axes(pair);
  copy_same(d, pair);
}

gd_status slot_copy(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  const char* slot = "copy";
  if (gd_status s = check_call(e, slot, c, {1, 1, 1, 1, 0, 0})) return s;
  const gd_view &in = c->in[0], &out = c->out[0];
  if (!same_sizes(in, out))
    return refuse(e, GD_INVALID, slot, "input and output have different sizes");
  Walk w;
  add_view(w, out);
  add_view(w, in);
  if (w.count() == 0 || (w.base[kIn] == w.base[kOut] && in.dtype == out.dtype && w.rank == 0))
    return GD_OK;
  sort_axes(w, kOut);
  if (in.dtype != out.dtype) {
    copy_converted(d, w, d->convert(in.dtype, out.dtype));
    return GD_OK;
  }
  bool itself = w.base[kIn] == w.base[kOut];
  for (int k = 0; k < w.rank && itself; ++k) itself = w.stride[kIn][k] == w.stride[kOut][k];
  if (!itself) copy_same(d, w);
  return GD_OK;
}

gd_status slot_fill(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  const char* slot = "fill";
  if (gd_status s = check_call(e, slot, c, {0, 0, 1, 1, 0, 0})) return s;
  const gd_view& out = c->out[0];
  const bool by_int = (out.dtype == GD_I32 || out.dtype == GD_I64) && c->n_ints > 0 && c->ints;
  if (!by_int && (c->n_doubles < 1 || !c->doubles))
    return refuse(e, GD_INVALID, slot, "there is no value");
  alignas(64) char block[kBlock * 16];
  Walk w;
  add_view(w, out);
  const int64_t count = w.count(), item = w.item[0];
  if (count == 0) return GD_OK;
  sort_axes(w, 0);
  if (by_int) {
    d->convert(GD_I64, out.dtype)(c->ints, block, 1);
  } else {
    const c128 value{c->doubles[0], c->n_doubles > 1 ? c->doubles[1] : 0.0};
    d->convert(GD_C128, out.dtype)(&value, block, 1);
  }
  copy_row(block + item, item, block, 0, (count < kBlock ? count : kBlock) - 1, item);
  const bool plain = w.contiguous(0);
  parallel_range(d, count, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += kBlock) {
      const int64_t n = end - i < kBlock ? end - i : kBlock;
      if (plain)
        memcpy(w.base[0] + i * item, block, size_t(n * item));
      else
        scatter_block(w, 0, i, n, block);
    }
  });
  return GD_OK;
}

}  // namespace gradus::cpu
