// Products of blocks (GD_GROUPED), job by job: tiny ones in plain loops, small ones of f32 and f64
// straight to what contract_small.cpp does with them, all others as calls of the slot contract. A
// job's sizes alone say which, and so in which order its terms are added.
#include "kernels/cpu/isa/contract/contraction.hpp"
#include "kernels/cpu/isa/kernels.hpp"
#include "ops/def/grouped.h"

namespace gradus::inline v1::cpu {
namespace {

// Multiplications that cost less than a plan or a call.
template <class T>
constexpr int64_t kTiny = std::is_same_v<T, float> || std::is_same_v<T, double> ? 8 : 64;
// Of a batch whose elements are done one by one.
constexpr int64_t kSmallBatch = 1 << 14;

template <class T>
struct summed_in {
  using type = T;
};
template <>
struct summed_in<Half> {
  using type = float;
};
template <>
struct summed_in<BFloat16> {
  using type = float;
};

struct Jobs {
  gd_device* d;
  SlotFn contract;
  const gd_view *a, *b, *c;
  bool conj_a, conj_b;
};

template <class T>
void multiply_tiny(const Jobs& jobs, const gd_block_product& p) {
  using Sum = typename summed_in<T>::type;
  const T *a = start_as<const T>(*jobs.a) + p.a, *b = start_as<const T>(*jobs.b) + p.b;
  T* c = start_as<T>(*jobs.c) + p.c;
  const bool conj_a = is_complex_v<T> && jobs.conj_a, conj_b = is_complex_v<T> && jobs.conj_b;
  for (int64_t i = 0; i < p.batch; ++i, a += p.a_batch, b += p.b_batch, c += p.c_batch)
    for (int64_t m = 0; m < p.m; ++m)
      for (int64_t n = 0; n < p.n; ++n) {
        Sum sum(0);
        for (int64_t k = 0; k < p.k; ++k) {
          const Sum x(a[m * p.a_m + k * p.a_k]), y(b[k * p.b_k + n * p.b_n]);
          sum = Sum(sum + (conj_a ? conj_of(x) : x) * (conj_b ? conj_of(y) : y));
        }
        if (p.sign < 0) sum = Sum(-sum);
        T& to = c[m * p.c_m + n * p.c_n];
        to = T(p.first ? sum : Sum(Sum(to) + sum));
      }
}

// False: not done.
template <class T>
bool multiply_small(const Jobs& jobs, const gd_block_product& p) {
  SmallProduct x;
  if (jobs.d->threads == 1) x.most_work *= 2;
  x.m = p.m;
  x.n = p.n;
  x.k = p.k;
  if (p.m > 1) x.a_m = p.a_m, x.out_m = p.c_m;
  if (p.n > 1) x.b_n = p.b_n, x.out_n = p.c_n;
  if (p.k > 1) x.a_k = p.a_k, x.b_k = p.b_k;
  constexpr int32_t t = int32_t(dtype_of<T>);
  if (!(p.m == 1 || p.n == 1 ? plan_small_dot(x, t) : plan_small(x, t))) return false;
  const Role left = x.swapped ? kB : kA, right = x.swapped ? kA : kB;
  const T *a = start_as<const T>(*jobs.a) + p.a, *b = start_as<const T>(*jobs.b) + p.b;
  T* c = start_as<T>(*jobs.c) + p.c;
  Operands o{};
  o.alpha = {double(p.sign), 0};
  o.beta = {p.first ? 0.0 : 1.0, 0};
  for (int64_t i = 0; i < p.batch; ++i, a += p.a_batch, b += p.b_batch, c += p.c_batch) {
    o.data[left] = const_cast<T*>(a);
    o.data[right] = const_cast<T*>(b);
    o.data[kOut] = c;
    x.run(x, o);
  }
  return true;
}

gd_status multiply_by_call(const Jobs& jobs, const gd_block_product& p, gd_error* e) {
  const int64_t sizes[] = {p.batch, p.m, p.n, p.k}, a_by[] = {p.a_batch, p.a_m, 0, p.a_k},
                b_by[] = {p.b_batch, 0, p.b_n, p.b_k}, c_by[] = {p.c_batch, p.c_m, p.c_n};
  const int left_out = p.batch == 1 ? 1 : 0;  // axes that stand first
  const auto view = [&](const gd_view& buffer, int64_t at, int rank, const int64_t* by) {
    return gd_view{buffer.buffer,      buffer.data,      buffer.dtype, rank - left_out,
                   buffer.offset + at, sizes + left_out, by + left_out};
  };
  const gd_view in[] = {view(*jobs.a, p.a, 4, a_by), view(*jobs.b, p.b, 4, b_by)},
                out = view(*jobs.c, p.c, 3, c_by);
  const double doubles[] = {double(p.sign), 0, p.first ? 0.0 : 1.0, 0};
  const int64_t ints[] = {3 - left_out, GD_STANDARD, jobs.conj_a, jobs.conj_b};
  const gd_call call{sizeof(gd_call), GD_CONTRACT, 0,       2,       1, 4,      4, in, &out,
                     doubles,         ints,        nullptr, nullptr, 0, nullptr};
  return jobs.contract(jobs.d, nullptr, &call, e);
}

template <class T>
gd_status multiply_all(const Jobs& jobs, const gd_block_product* first, const gd_block_product* end,
                       gd_error* e) {
  for (const gd_block_product* p = first; p != end; ++p) {
    if (p->batch == 0 || p->m == 0 || p->n == 0) continue;
    const int64_t work = p->m * p->n * p->k;
    if (work * p->batch <= kTiny<T>) {
      multiply_tiny<T>(jobs, *p);
      continue;
    }
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
      if ((p->batch == 1 || work * p->batch <= kSmallBatch) && multiply_small<T>(jobs, *p))
        continue;
    if (gd_status s = multiply_by_call(jobs, *p, e)) return s;
  }
  return GD_OK;
}

}  // namespace

gd_status block_products(gd_device* d, SlotFn contract, const gd_call* c, int64_t begin,
                         int64_t end, gd_error* e) {
  const Jobs jobs{d, contract, &c->in[0], &c->in[1], &c->out[0], c->ints[0] != 0, c->ints[1] != 0};
  const auto* const table = reinterpret_cast<const gd_block_product*>(c->ints + 2);
  gd_status s = GD_OK;
  visit_dtype(c->out[0].dtype, [&](auto zero) {
    if constexpr (!std::is_same_v<decltype(zero), bool>)
      s = multiply_all<decltype(zero)>(jobs, table + begin, table + end, e);
  });
  return s;
}

}  // namespace gradus::cpu
