// The slot contract: large products of matrices by a BLAS where the device has one, all else by the
// kernels of the instruction set.
#include "kernels/cpu/call.hpp"
#include "kernels/cpu/opened.hpp"
#include "kernels/cpu/slots.hpp"
#include "ops/def/statements.hpp"

#include <cstdlib>
#include <limits>
#include <utility>

namespace gradus::inline v1::cpu {
namespace {

// Below these a call of the library, or one row or column that it packs like a matrix, gains
// nothing: sides, and multiplications of one product.
constexpr int64_t kLeastSide = 8, kLeastWork = 64 * 64 * 64;
// A product is cut into pieces of out, by its sizes alone, so that threads share it; each is
// packed by itself.
constexpr int64_t kPiece = 256, kPieceStep = 32;

enum Place { kA, kB, kOut, kPlaces };

// Several axes as one: each goes to its neighbour if all views step evenly through both.
struct Axis {
  int64_t size = 1, by[kPlaces] = {};

  bool add(const Axis& x) {
    if (size == 1) return *this = x, true;
    const Axis &outer = x.by[kOut] > by[kOut] || x.by[kA] > by[kA] ? x : *this,
               &inner = &outer == &x ? *this : x;
    for (int v = 0; v < kPlaces; ++v)
      if (outer.by[v] != inner.by[v] * inner.size) return false;
    const int64_t all = size * x.size;
    *this = inner;
    size = all;
    return true;
  }
};

// A matrix as CBLAS takes it in row-major order.
struct Matrix {
  int trans = kNoTrans;
  int64_t ld = 0;

  bool set(int64_t rows, int64_t row_by, int64_t columns, int64_t column_by, bool conj) {
    const bool turned = column_by != 1;
    if (turned && row_by != 1) return false;
    trans = !turned ? kNoTrans : conj ? kConjTrans : kTrans;
    ld = turned ? column_by : row_by;
    return ld >= (turned ? rows : columns) && ld <= std::numeric_limits<int>::max() &&
           (turned || !conj);  // CBLAS conjugates what it turns alone
  }
};

// A call as products of matrices, one for each index of the batch.
struct Products {
  Axis m, n, k, batch[kMaxRank];
  int batch_axes = 0;
  int64_t count = 1;
  Place left = kA, right = kB;
  Matrix a, b;

  // An axis of out is a batch axis if both operands have it, or if it does not go with the others.
  bool sort_axes(const gd_call& c) {
    const int64_t n_out = c.ints[0];
    for (int d = 0; d < c.in[0].rank; ++d) {
      const bool summed = d >= n_out;
      Axis x{c.in[0].sizes[d],
             {c.in[0].strides[d], c.in[1].strides[d], summed ? 0 : c.out[0].strides[d]}};
      if (x.size == 1) continue;
      if (summed || x.by[kA] == 0 || x.by[kB] == 0) {
        Axis& side = summed ? k : x.by[kB] == 0 ? m : n;
        if (side.add(x)) continue;
        if (summed) return false;
        if (x.by[kOut] < side.by[kOut]) std::swap(x, side);
      }
      batch[batch_axes++] = x;
      count *= x.size;
    }
    return true;
  }

  bool set(const gd_call& c, bool complex) {
    if (!sort_axes(c)) return false;
    constexpr int64_t kMost = std::numeric_limits<int>::max();
    for (const Axis* x : {&m, &n, &k})
      if (x->size < kLeastSide || x->size > kMost) return false;
    if (double(m.size) * double(n.size) * double(k.size) < double(kLeastWork)) return false;
    if (n.by[kOut] != 1) {  // out has its neighbours along m: turned, it is the product of b and a
      std::swap(m, n);
      std::swap(left, right);
    }
    return count > 0 && n.by[kOut] == 1 && m.by[kOut] >= n.size && m.by[kOut] <= kMost &&
           a.set(m.size, m.by[left], k.size, k.by[left], complex && c.ints[2 + left]) &&
           b.set(k.size, k.by[right], n.size, n.by[right], complex && c.ints[2 + right]);
  }
  int64_t offset(int64_t i, Place v) const {
    int64_t at = 0;
    for (int d = batch_axes - 1; d >= 0; --d) {
      at += i % batch[d].size * batch[d].by[v];
      i /= batch[d].size;
    }
    return at;
  }
};

int64_t pieces_of(int64_t size) { return (size + kPiece - 1) / kPiece; }
// Where piece i of `size` begins.
int64_t start_of_piece(int64_t size, int64_t i) {
  const int64_t n = pieces_of(size), each = (size + n - 1) / n;
  return std::min(size, i * ((each + kPieceStep - 1) / kPieceStep * kPieceStep));
}

template <class T, class Function>
void multiply(gd_device* d, const BlasLibrary& blas, Function gemm, const gd_call& c,
              const Products& p) {
  const auto number = [&](int at) {
    if constexpr (is_complex_v<T>)
      return T(real_of<T>(c.doubles[at]), real_of<T>(c.doubles[at + 1]));
    else
      return T(c.doubles[at]);
  };
  const T alpha = number(0), beta = number(2);
  const auto handed = [](const T& x) {
    if constexpr (is_complex_v<T>)
      return static_cast<const void*>(&x);
    else
      return x;
  };
  const auto start = [&](const gd_view& view, Place v, int64_t element) {
    return start_as<T>(view) + p.offset(element, v);
  };
  const int64_t down = pieces_of(p.m.size), across = pieces_of(p.n.size);
  const double work = double(p.m.size) * double(p.n.size) * double(p.k.size);
  const int64_t together = int64_t(double(kLeastWork) * 4 * double(down * across) / work);
  parallel_range(d, p.count * down * across, together, [&](int64_t begin, int64_t end) {
    if (blas.set_threads) blas.set_threads(1);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t element = i / (down * across), row = i / across % down, column = i % across;
      const int64_t r = start_of_piece(p.m.size, row), s = start_of_piece(p.n.size, column);
      gemm(kRowMajor, p.a.trans, p.b.trans, int(start_of_piece(p.m.size, row + 1) - r),
           int(start_of_piece(p.n.size, column + 1) - s), int(p.k.size), handed(alpha),
           start(c.in[p.left], p.left, element) + r * p.m.by[p.left], int(p.a.ld),
           start(c.in[p.right], p.right, element) + s * p.n.by[p.right], int(p.b.ld), handed(beta),
           start(c.out[0], kOut, element) + r * p.m.by[kOut] + s, int(p.m.by[kOut]));
    }
  });
}

// What follows the sums, with the bits of calls of their own: a bias, a statement.
gd_status finish(gd_device* d, const gd_call& c, gd_error* e) {
  const gd_view sum_and_bias[] = {c.out[0], c.n_in == 3 ? c.in[2] : gd_view{}};
  gd_call then{};
  then.struct_size = sizeof then;
  then.slot = GD_POINTWISE;
  then.in = sum_and_bias;
  then.out = c.out;
  then.n_out = 1;
  then.n_in = 2;
  then.op = def::id_of<def::add>();
  if (sum_and_bias[1].data)
    if (gd_status s = d->pointwise(d, nullptr, &then, e)) return s;
  if (c.n_ints < 5) return GD_OK;
  then.n_in = 1;
  then.op = int32_t(c.ints[4]);
  then.doubles = c.doubles + 4;
  then.n_doubles = c.n_doubles - 4;
  return d->pointwise(d, nullptr, &then, e);
}

// Worth a look: large, of a dtype that CBLAS has, not to be done in some other way.
bool may_be_large(const gd_call* c) {
  if (!c || c->struct_size < sizeof(gd_call) || c->op != 0 || c->n_in < 2 || c->n_out != 1 ||
      c->n_ints < 4 || c->n_doubles < 4 || !c->in || !c->ints || !c->doubles ||
      c->ints[1] != GD_STANDARD || !has_shape(c->in[0]) || c->in[0].rank > kMaxRank)
    return false;
  const int32_t t = c->in[0].dtype;
  if (t != GD_F32 && t != GD_F64 && t != GD_C64 && t != GD_C128) return false;
  double work = 1;
  for (int k = 0; k < c->in[0].rank; ++k) work *= double(c->in[0].sizes[k]);
  // With alpha = 0 BLAS does not read a and b, whose NaN counts.
  return work >= double(kLeastWork) && (c->doubles[0] != 0 || c->doubles[1] != 0);
}

}  // namespace

gd_status slot_contract_with_blas(gd_device* d, gd_stream* s, const gd_call* c, gd_error* e) {
  const BlasLibrary* const blas = static_cast<OpenDevice*>(d)->blas.get();
  if (!blas || !may_be_large(c)) return d->kernels->contract(d, s, c, e);
  if (!c->plan) {  // else it was checked before
    void* plan = nullptr;
    if (gd_status bad = d->kernels->prepare_contract(c, &plan, e)) return bad;
    std::free(plan);
  }
  Products p;
  const int32_t t = c->in[0].dtype;
  if (!p.set(*c, t == GD_C64 || t == GD_C128)) return d->kernels->contract(d, s, c, e);
  if (t == GD_F32) multiply<float>(d, *blas, blas->sgemm, *c, p);
  if (t == GD_F64) multiply<double>(d, *blas, blas->dgemm, *c, p);
  if (t == GD_C64) multiply<c64>(d, *blas, blas->cgemm, *c, p);
  if (t == GD_C128) multiply<c128>(d, *blas, blas->zgemm, *c, p);
  return finish(d, *c, e);
}

}  // namespace gradus::cpu
