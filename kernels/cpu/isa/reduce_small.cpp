// Sums of f32 and f64 that are known by one look at the call: few rows of neighbours added up (the
// gradient of a bias), or a short row.
#include "kernels/cpu/isa/kernels.hpp"
#include "kernels/cpu/isa/lane_tree.hpp"
#include "kernels/cpu/isa/tile.hpp"

namespace gradus::inline v1::cpu {
namespace {

constexpr int64_t kMost = 1 << 14;  // elements

template <class T, bool kPart>
void columns(const T* from, int64_t rows, int64_t row, int64_t n, T* to) {
  using B = Batch<T>;
  const Some<T> some(n);
  const auto load = [&](const T* p) { return kPart ? some.load(p) : B::load_unaligned(p); };
  const B sum = lane_tree<0, 1, B>(
      rows, [&](int64_t lane) __attribute__((always_inline)) {
        B x = load(from + lane * row);
        for (int64_t k = lane + kLanes; k < rows; k += kLanes) x = x + load(from + k * row);
        return x;
      });
  kPart ? some.store(to, sum) : sum.store_unaligned(to);
}

template <class T>
void sum(const gd_call* c, int64_t rows, int64_t row, int64_t n) {
  const T* from = static_cast<const T*>(c->in[0].data) + c->in[0].offset;
  T* to = static_cast<T*>(c->out[0].data) + c->out[0].offset;
  if (n == 1 && row == 1) {
    *to = fold_span<Sum<T>>(from, rows);
    return;
  }
  constexpr int64_t kWidth = int64_t(Batch<T>::size);
  for (; n >= kWidth; n -= kWidth, from += kWidth, to += kWidth)
    columns<T, false>(from, rows, row, kWidth, to);
  if (n > 0) columns<T, true>(from, rows, row, n, to);
}

}  // namespace

bool sum_small(const gd_call* c) {
  if (c->struct_size < sizeof(gd_call) || c->op != GD_SUM || c->n_in != 1 || c->n_out != 1 ||
      !c->in || !c->out)
    return false;
  const gd_view &in = c->in[0], &out = c->out[0];
  if ((in.dtype != GD_F32 && in.dtype != GD_F64) || out.dtype != in.dtype || in.rank > 4 ||
      out.rank != in.rank || !in.data || !out.data || !has_shape(in) || !has_shape(out))
    return false;
  int64_t rows = 1, row = 0, n = 1;
  for (int d = in.rank - 1; d >= 0; --d) {  // rows are the outer axis, of one step
    const int64_t size = in.sizes[d], kept = out.sizes[d];
    if (size < 1 || size > kMost) return false;
    if (size == 1 && kept == 1) continue;
    if (kept == size) {
      if (rows != 1 || in.strides[d] != n || out.strides[d] != n) return false;
      n *= size;
    } else {
      if (kept != 1 || (rows != 1 && in.strides[d] != row * rows)) return false;
      if (rows == 1) row = in.strides[d];
      rows *= size;
    }
    if (n * rows > kMost) return false;
  }
  if (rows > kSpan) return false;
  in.dtype == GD_F32 ? sum<float>(c, rows, row, n) : sum<double>(c, rows, row, n);
  return true;
}

}  // namespace gradus::cpu
