// The slot contract: checks the call, sorts the axes by role and hands over to an engine.
#include "kernels/cpu/isa/contract/contraction.hpp"
#include "kernels/cpu/isa/kernels.hpp"

#include <cstdlib>
#include <new>

namespace gradus::inline v1::cpu {
namespace {

constexpr const char* kSlot = "contract";

bool whole(double x) { return x >= -0x1p53 && x <= 0x1p53 && double(int64_t(x)) == x; }

gd_status check_scale(gd_error* e, DType t, const char* name, c128 x) {
  if (!is_complex(t) && x.im != 0)
    return refuse(e, GD_INVALID, kSlot, "%s has an imaginary part, but dtype is %s", name,
                  dtype_name(t));
  if (is_integer(t) && !whole(x.re))
    return refuse(e, GD_INVALID, kSlot, "%s = %g is no integer, but dtype is %s", name, x.re,
                  dtype_name(t));
  return GD_OK;
}

gd_status check_algebra(const gd_call* c, DType t, gd_error* e) {
  const int64_t algebra = c->ints[1];
  const c128 alpha{c->doubles[0], c->doubles[1]}, beta{c->doubles[2], c->doubles[3]};
  if (algebra < GD_STANDARD || algebra >= GD_ALGEBRA_COUNT)
    return refuse(e, GD_INVALID, kSlot, "no algebra has code %lld",
                  static_cast<long long>(algebra));
  if (algebra == GD_STANDARD) {
    if (c->n_out == 2) return refuse(e, GD_INVALID, kSlot, "a sum of products has no winners");
    if (t == DType::bool_)
      return refuse(e, GD_UNSUPPORTED, kSlot,
                    "dtype bool is not read: a sum of products leaves it");
    if (gd_status s = check_scale(e, t, "alpha", alpha)) return s;
    return check_scale(e, t, "beta", beta);
  }
  if (c->n_in == 3 || c->n_ints > 4 || alpha != c128(1) || beta != c128(0))
    return refuse(e, GD_INVALID, kSlot,
                  "tropical algebras take alpha = 1, beta = 0, no bias and no statement");
  if (is_complex(t) || t == DType::u8 || t == DType::bool_)
    return refuse(e, GD_UNSUPPORTED, kSlot,
                  "a tropical algebra does not read dtype %s; f32 f64 f16 bf16 i32 i64 are read",
                  dtype_name(t));
  if (c->n_out == 2 && c->out[1].dtype != GD_I64)
    return refuse(e, GD_INVALID, kSlot, "winners should be i64, got %s",
                  dtype_name(DType(c->out[1].dtype)));
  return GD_OK;
}

gd_status check_views(const gd_call* c, gd_error* e) {
  const gd_view &a = c->in[0], &b = c->in[1], &out = c->out[0];
  const int64_t n = c->ints[0];
  if (!same_sizes(a, b))
    return refuse(e, GD_INVALID, kSlot, "a and b should stand over one index space");
  if (n < 0 || n > a.rank || out.rank != n)
    return refuse(e, GD_INVALID, kSlot,
                  "%lld output axes, output of rank %d, joint index space of rank %d",
                  static_cast<long long>(n), out.rank, a.rank);
  for (int d = 0; d < n; ++d)
    if (out.sizes[d] != a.sizes[d])
      return refuse(e, GD_INVALID, kSlot, "axis %d: output has size %lld, a and b have %lld", d,
                    static_cast<long long>(out.sizes[d]), static_cast<long long>(a.sizes[d]));
  if (b.dtype != a.dtype || out.dtype != a.dtype)
    return refuse(e, GD_INVALID, kSlot, "dtypes differ: a %s, b %s, output %s",
                  dtype_name(DType(a.dtype)), dtype_name(DType(b.dtype)),
                  dtype_name(DType(out.dtype)));
  const gd_view* like[] = {c->n_in == 3 ? &c->in[2] : nullptr,
                           c->n_out == 2 ? &c->out[1] : nullptr};
  for (const gd_view* v : like)
    if (v && v->data && !same_sizes(*v, out))
      return refuse(e, GD_INVALID, kSlot, "bias and winners should have the output's sizes");
  if (like[0] && like[0]->data && like[0]->dtype != out.dtype)
    return refuse(e, GD_INVALID, kSlot, "bias is %s, output is %s",
                  dtype_name(DType(like[0]->dtype)), dtype_name(DType(out.dtype)));
  return GD_OK;
}

void sort_roles(const gd_call* c, Contraction& x) {
  const gd_view* views[kRoles] = {&c->in[0], &c->in[1], &c->out[0],
                                  c->n_in == 3 && c->in[2].data ? &c->in[2] : nullptr,
                                  c->n_out == 2 && c->out[1].data ? &c->out[1] : nullptr};
  const int n_out = int(c->ints[0]), rank = views[kA]->rank;
  // Output axes from the largest stride of out to the smallest: their order is free.
  int order[kMaxRank];
  int64_t reach[kMaxRank];
  for (int d = 0; d < n_out; ++d) {
    const int64_t by = views[kOut]->strides[d], r = by < 0 ? -by : by;
    int to = d;
    for (; to > 0 && reach[to - 1] < r; --to) {
      order[to] = order[to - 1];
      reach[to] = reach[to - 1];
    }
    order[to] = d;
    reach[to] = r;
  }
  for (int place = 0; place < rank; ++place) {
    const int d = place < n_out ? order[place] : place;
    const int64_t size = views[kA]->sizes[d];
    if (size == 1) continue;
    int64_t s[kRoles];
    for (int r = 0; r < kRoles; ++r)
      s[r] = views[r] && (r < kOut || d < n_out) ? views[r]->strides[d] : 0;
    Axes& axes = d >= n_out ? x.k : s[kB] == 0 ? x.m : s[kA] == 0 ? x.n : x.batch;
    axes.add(size, s);
  }
  for (Axes* axes : {&x.m, &x.n, &x.batch, &x.k})
    if (axes->rank > 1) axes->merge();
}

gd_status nothing(gd_device*, const Contraction&, const Operands&, gd_error*) { return GD_OK; }

gd_status analyse(const gd_call* c, Contraction& x, gd_error* e) {
  if (gd_status s = check_call(e, kSlot, c, {2, 3, 1, 2, 4, 4, 4u, 2u})) return s;
  const DType t = dtype_of_view(c->in[0]);
  if (gd_status s = check_views(c, e)) return s;
  if (gd_status s = check_algebra(c, t, e)) return s;
  x.dtype = int32_t(t);
  x.algebra = int32_t(c->ints[1]);
  x.conj_a = c->ints[2] != 0;
  x.conj_b = c->ints[3] != 0;
  sort_roles(c, x);
  if (x.m.count * x.n.count * x.batch.count == 0)
    x.run = nothing;
  else if (x.algebra != GD_STANDARD)
    plan_tropical(x);
  else if (is_complex(t))
    plan_complex(x);
  else if (is_integer(t))
    plan_integer(x);
  else if (!is_half(t) && (x.m.count == 1 || x.n.count == 1))
    plan_dot(x);  // one row or one column: no register block to fill
  else
    plan_real(x);
  return GD_OK;
}

Operands operands(const gd_call* c, bool swapped) {
  Operands o;
  o.data[kA] = start_of(c->in[swapped ? 1 : 0]);
  o.data[kB] = start_of(c->in[swapped ? 0 : 1]);
  o.data[kOut] = start_of(c->out[0]);
  o.data[kBias] = c->n_in == 3 && c->in[2].data ? start_of(c->in[2]) : nullptr;
  o.data[kWinner] = c->n_out == 2 && c->out[1].data ? start_of(c->out[1]) : nullptr;
  o.alpha = {c->doubles[0], c->doubles[1]};
  o.beta = {c->doubles[2], c->doubles[3]};
  return o;
}

// The statement ints[4] over out. A small dense one needs no look at views.
gd_status apply_statement(gd_device* d, const gd_call* c, gd_error* e) {
  const gd_view& out = c->out[0];
  const int32_t op = int32_t(c->ints[4]);
  const double* const params = c->doubles + 4;
  const Block* const b = out.dtype == GD_F32   ? block_f32(op)
                         : out.dtype == GD_F64 ? block_f64(op)
                                               : nullptr;
  int64_t n = 1;
  bool dense = true;
  for (int k = out.rank - 1; k >= 0; n *= out.sizes[k--]) dense = dense && out.strides[k] == n;
  if (dense && n <= kGrain && n % kPad == 0 && b && b->arity == 1 && b->out_dtype == out.dtype &&
      c->n_doubles - 4 >= b->params) {
    void* const at = start_of(out);
    const int64_t step = 1;
    b->value(&at, &step, at, n, params);
    return GD_OK;
  }
  const gd_call then{sizeof(gd_call), GD_POINTWISE, op,     1,       1,       c->n_doubles - 4, 0,
                     c->out,          c->out,       params, nullptr, nullptr, nullptr,          0,
                     nullptr};
  return d->pointwise(d, nullptr, &then, e);
}
gd_status run(gd_device* d, const gd_call* c, const Contraction& x, gd_error* e) {
  const gd_status s = x.run(d, x, operands(c, x.swapped), e);
  return s == GD_OK && c->n_ints > 4 ? apply_statement(d, c, e) : s;
}

gd_status run_small(gd_device*, const Contraction& x, const Operands& o, gd_error*) {
  x.product.run(x.product, o);
  return GD_OK;
}

}  // namespace

gd_status slot_contract(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  if (c && c->plan) return run(d, c, *static_cast<const Contraction*>(c->plan), e);
  if (c && (c->op & GD_WAY_ONLY) && (c->op & 0xff))
    return refuse(e, GD_UNSUPPORTED, kSlot, "way %d is not one of the CPU's", c->op & 0xff);
  SmallProduct p(d ? d->threads : 2);
  if (c && c->n_ints == 4 && small_product(c, p)) {
    p.run(p, operands(c, p.swapped));
    return GD_OK;
  }
  Contraction x;
  if (gd_status s = analyse(c, x, e)) return s;
  return run(d, c, x, e);
}

gd_status prepare_contract(const gd_call* c, void** plan, gd_error* e) {
  void* const memory = std::malloc(sizeof(Contraction));
  if (!memory) return out_of_memory(e, kSlot, sizeof(Contraction));
  Contraction* const x = new (memory) Contraction;
  if (c && small_product(c, x->product)) {
    x->swapped = x->product.swapped;
    x->run = run_small;
  } else if (gd_status s = analyse(c, *x, e)) {
    std::free(memory);
    return s;
  }
  *plan = x;
  return GD_OK;
}

}  // namespace gradus::cpu
