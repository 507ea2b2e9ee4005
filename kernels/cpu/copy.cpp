// The slots copy and fill. Same dtype: whole memcpy, rows, or tiles where a transpose would jump
// through memory. Other dtypes: gathered blocks through a conversion.
#include "kernels/cpu/slots.hpp"
#include "kernels/cpu/walk.hpp"

namespace gradus::cpu {
namespace {

constexpr int kOut = 0, kIn = 1;
constexpr int64_t kTile = 32;

// A tile of rows x cols elements: memory runs along the rows' axis in the input and along the
// columns' axis in the output. Both sides are touched in runs; the jumps happen in the buffer.
template <int B>
void copy_tile(char* to, int64_t to_row, int64_t to_col, const char* from, int64_t from_row,
               int64_t from_col, int64_t rows, int64_t cols) {
  char buffer[kTile][kTile + 1][B];
  for (int64_t j = 0; j < cols; ++j)
    for (int64_t i = 0; i < rows; ++i) memcpy(buffer[i][j], from + i * from_row + j * from_col, B);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) memcpy(to + i * to_row + j * to_col, buffer[i][j], B);
}
using TileFn = decltype(&copy_tile<1>);
TileFn tile_function(int64_t item) {
  switch (item) {
    case 1:
      return copy_tile<1>;
    case 2:
      return copy_tile<2>;
    case 4:
      return copy_tile<4>;
    case 8:
      return copy_tile<8>;
    default:
      return copy_tile<16>;
  }
}

int64_t reach(int64_t stride) { return stride < 0 ? -stride : stride; }

// The axis along which the input is densest, other than the output's.
int densest_input_axis(const Walk& w) {
  int best = w.rank - 1;
  for (int d = 0; d < w.rank - 1; ++d)
    if (w.stride[kIn][d] != 0 && reach(w.stride[kIn][d]) < reach(w.stride[kIn][best])) best = d;
  return best;
}

// Axes rank-2 (the input's densest) and rank-1 (the output's) in tiles, the others around them.
void copy_tiled(gd_device* d, const Walk& w) {
  const int r = w.rank - 2, c = w.rank - 1;
  const int64_t rows = (w.size[r] + kTile - 1) / kTile, cols = (w.size[c] + kTile - 1) / kTile;
  Walk outer = w;
  outer.rank = w.rank - 2;
  const TileFn tile = tile_function(w.item[kOut]);
  parallel_range(
      d, outer.count() * rows * cols, kGrain / (kTile * kTile), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t j = t % cols * kTile, i = t / cols % rows * kTile;
          const int64_t ni = w.size[r] - i < kTile ? w.size[r] - i : kTile;
          const int64_t nj = w.size[c] - j < kTile ? w.size[c] - j : kTile;
          for_all_rows(outer, t / cols / rows, 1, [&](char* const* p, int64_t) {
            tile(p[kOut] + i * w.stride[kOut][r] + j * w.stride[kOut][c], w.stride[kOut][r],
                 w.stride[kOut][c], p[kIn] + i * w.stride[kIn][r] + j * w.stride[kIn][c],
                 w.stride[kIn][r], w.stride[kIn][c], ni, nj);
          });
        }
      });
}

void copy_same(gd_device* d, Walk& w) {
  if (w.rank >= 2) {
    const int dense = densest_input_axis(w);
    if (dense != w.rank - 1 && w.size[dense] >= 8 && w.size[w.rank - 1] >= 8) {
      move_axis(w, dense, w.rank - 2);
      copy_tiled(d, w);
      return;
    }
  }
  const int64_t item = w.item[kOut];
  parallel_range(d, w.count(), kGrain, [&](int64_t begin, int64_t end) {
    for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t n) {
      const int last = w.rank - 1;
      copy_row(p[kOut], w.rank ? w.stride[kOut][last] : item, p[kIn],
               w.rank ? w.stride[kIn][last] : item, n, item);
    });
  });
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
  if (w.count() == 0) return GD_OK;
  sort_axes(w, 0);
  const int64_t item = w.item[0];
  if (by_int) {
    d->convert(GD_I64, out.dtype)(c->ints, block, 1);
  } else {
    const c128 value{c->doubles[0], c->n_doubles > 1 ? c->doubles[1] : 0.0};
    d->convert(GD_C128, out.dtype)(&value, block, 1);
  }
  copy_row(block + item, item, block, 0, kBlock - 1, item);
  const bool plain = w.contiguous(0);
  parallel_range(d, w.count(), kGrain, [&](int64_t begin, int64_t end) {
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
