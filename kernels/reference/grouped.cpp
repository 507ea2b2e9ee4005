// grouped: each product of blocks is the sum of products of contract.cpp over views of the buffers,
// each copy a walk through two views, element by element where it adds.
#include "kernels/reference/order.hpp"
#include "kernels/reference/products.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/user.hpp"
#include "ops/def/statements.hpp"

namespace gradus::inline v1::reference {
namespace {

gd_view block_of_buffer(const gd_view& buffer, int64_t at, int rank, const int64_t* sizes,
                        const int64_t* strides) {
  gd_view v = buffer;
  v.rank = rank;
  v.offset += at;
  v.sizes = sizes;
  v.strides = strides;
  return v;
}

void multiply(const Call& call, const GroupedCall& g, const gd_block_product& p) {
  const DType t = DType(g.out.dtype);
  const int64_t sizes[] = {p.batch, p.m, p.n, p.k}, a_by[] = {p.a_batch, p.a_m, 0, p.a_k},
                b_by[] = {p.b_batch, 0, p.b_n, p.b_k}, c_by[] = {p.c_batch, p.c_m, p.c_n};
  const gd_view a = block_of_buffer(g.a, p.a, 4, sizes, a_by),
                b = block_of_buffer(*g.b, p.b, 4, sizes, b_by),
                out = block_of_buffer(g.out, p.c, 3, sizes, c_by);
  const ContractCall c{a,
                       b,
                       out,
                       nullptr,
                       nullptr,
                       GD_STANDARD,
                       3,
                       c128(double(p.sign)),
                       c128(p.first ? 0 : 1),
                       g.conj_a,
                       g.conj_b,
                       false};
  if (is_user(t))
    user(call, t).contract(c);
  else
    visit_accumulator(t, [&](auto zero) { sum_of_products<decltype(zero)>(c); });
}

// The two views of a block.
struct Pair {
  gd_view in, out;
  int64_t sign;

  Pair(const GroupedCall& g, int64_t job) {
    const BlockCopy c = g.copy(job);
    in = block_of_buffer(g.a, c.in, g.rank, c.sizes, c.in_by);
    out = block_of_buffer(g.out, c.out, g.rank, c.sizes, c.out_by);
    sign = c.sign;
  }
};

// As they are.
void move(DType t, const Pair& p) {
  Walk from(p.in), to(p.out);
  std::vector<c128> room(itemsize(t) / sizeof(c128) + 1);
  for (int64_t i = 0, n = count_of(p.out); i < n; ++i) {
    from.read_as(t, room.data(), 1);
    to.write_as(t, room.data(), 1);
  }
}
template <class A>
void move_numbers(const Pair& p, bool add) {
  Walk from(p.in), before(p.out), after(p.out);
  for (int64_t i = 0, n = count_of(p.out); i < n; ++i) {
    A x(0), y(0);
    if (p.sign != 0) from.read(&x, 1);
    x = times(c128(double(p.sign)), x);
    if (add) before.read(&y, 1);
    if (add) x = y + x;
    after.write(&x, 1);
  }
}
// The same by a user's statements.
void move_user(const UserKernels& kernels, DType t, const Pair& p, bool add) {
  Walk from(p.in), before(p.out), after(p.out);
  std::vector<c128> x_room(itemsize(t) / sizeof(c128) + 1), y_room = x_room;
  void *const x = x_room.data(), *const y = y_room.data();
  const void* const both[] = {y, x};
  kernels.from_number(0, 0, x);
  for (int64_t i = 0, n = count_of(p.out); i < n; ++i) {
    if (p.sign != 0) from.read_as(t, x, 1);
    if (p.sign < 0) kernels.row(def::id_of<def::neg>()).value(nullptr, both + 1, x, 1);
    if (add) before.read_as(t, y, 1);
    if (add) kernels.row(def::id_of<def::add>()).value(nullptr, both, x, 1);
    after.write_as(t, x, 1);
  }
}

}  // namespace

void grouped(Call& call) {
  const GroupedCall g = expect_grouped(call);
  const DType t = DType(g.out.dtype);
  for (int64_t job = 0; job < g.jobs; ++job) {
    if (g.products) {
      multiply(call, g, g.products[job]);
      continue;
    }
    const Pair p(g, job);
    if (g.add && p.sign == 0) continue;
    if (!g.add && p.sign == 1)
      move(t, p);
    else if (is_user(t))
      move_user(user(call, t), t, p, g.add);
    else
      visit_accumulator(t, [&](auto zero) { move_numbers<decltype(zero)>(p, g.add); });
  }
}

}  // namespace gradus::reference
