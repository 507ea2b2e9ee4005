#include "ops/blocks/grouped.hpp"

#include "engine/batch.hpp"
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/blocks/plan_cache.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

namespace gradus::inline v1 {

namespace {

const OpInfo* grouped_info;
enum { kSize, kTable, kRest, kWhat };
// The table as the slot takes it: {conj_a, conj_b, jobs}.
constexpr size_t kHead = 2, kEach = sizeof(gd_block_product) / sizeof(int64_t);
// Bits of the attribute `rest`: not every element of this buffer is written, where it is the
// result.
constexpr int64_t kRestC = 1, kRestA = 2, kRestB = 4;

size_t jobs_in(const Ints& t) { return (t.size() - kHead) / kEach; }
gd_block_product job(const Ints& t, size_t i) {
  gd_block_product j;
  std::memcpy(&j, t.data() + kHead + i * kEach, sizeof j);
  return j;
}
void append(Ints& t, const gd_block_product& j) {
  int64_t numbers[kEach];
  std::memcpy(numbers, &j, sizeof j);
  t.append(numbers, kEach);
}
Ints table_of(bool conj_a, bool conj_b, const std::vector<gd_block_product>& jobs) {
  Ints t;
  t.reserve(kHead + jobs.size() * kEach);
  t.push_back(conj_a);
  t.push_back(conj_b);
  for (const gd_block_product& j : jobs) append(t, j);
  return t;
}

// The cotangent of operand k is a call of the same kind:
//   ga = ca(g conj(cb(b))^T) = (g conj if conj_a) (b conj unless conj_b == conj_a)^T, gb alike.
// first is {g, b} for a, {a, g} for b.
Attrs attrs_of_cotangent(const Attrs& attrs, size_t k, int64_t size) {
  const Ints& t = attrs[kTable].integers;
  const bool own = t[k], other = !t[1 - k];
  std::vector<gd_block_product> jobs;
  jobs.reserve(jobs_in(t));
  bool zeros = false;  // is a block of c the sum of nothing?
  int64_t dropped = 0;
  for (size_t i = 0; i < jobs_in(t); ++i) {
    const gd_block_product j = job(t, i);
    if (j.k == 0) {
      zeros = true;
      continue;
    }
    gd_block_product r =
        k == 0 ? gd_block_product{0,     j.sign,    j.batch, j.m,       j.k,   j.n,
                                  j.c,   j.c_batch, j.c_m,   j.c_n,     j.b,   j.b_batch,
                                  j.b_n, j.b_k,     j.a,     j.a_batch, j.a_m, j.a_k}
               : gd_block_product{0,     j.sign,    j.batch, j.k,       j.n,   j.m,
                                  j.a,   j.a_batch, j.a_k,   j.a_m,     j.c,   j.c_batch,
                                  j.c_m, j.c_n,     j.b,     j.b_batch, j.b_k, j.b_n};
    if (r.batch == 0 || r.m == 0 || r.n == 0) {  // it may begin where another block does
      dropped = kRestA | kRestB | kRestC;
      continue;
    }
    if (r.c_batch || r.batch <= 1) {
      jobs.push_back(r);
      continue;
    }
    const int64_t batch = std::exchange(r.batch, 1);  // summed over
    for (int64_t e = 0; e < batch; ++e, r.a += r.a_batch, r.b += r.b_batch) jobs.push_back(r);
  }
  std::stable_sort(jobs.begin(), jobs.end(),
                   [](const auto& x, const auto& y) { return x.c < y.c; });
  for (size_t i = 0; i < jobs.size(); ++i) jobs[i].first = i == 0 || jobs[i].c != jobs[i - 1].c;
  const int64_t rest = attrs[kRest].integer;
  const int64_t c = (rest & kRestC) || zeros ? (k == 0 ? kRestA : kRestB) : 0;
  const int64_t result = rest & (k == 0 ? kRestA : kRestB) ? kRestC : 0;
  const int64_t side = k == 0 ? rest & kRestB : rest & kRestA;
  const bool of_own = own, of_other = other != own;
  return {size, table_of(k == 0 ? of_own : of_other, k == 0 ? of_other : of_own, jobs),
          c | result | side | dropped, attrs[kWhat]};
}

void product_by_product(const Tensor& a, const Tensor& b, const Tensor& c, const Ints& t) {
  for (size_t i = 0; i < jobs_in(t); ++i) {
    const gd_block_product j = job(t, i);
    const Shape sizes{j.batch, j.m, j.n, j.k}, out_sizes{j.batch, j.m, j.n},
        by_a{j.a_batch, j.a_m, 0, j.a_k}, by_b{j.b_batch, 0, j.b_n, j.b_k},
        by_c{j.c_batch, j.c_m, j.c_n};
    if (numel_of(out_sizes) == 0) continue;
    const Tensor out = c.alias(out_sizes, by_c, c.offset() + j.c);
    KernelCall call(GD_CONTRACT);
    call.in(a, sizes, by_a).at(a.offset() + j.a).in(b, sizes, by_b).at(b.offset() + j.b);
    call.integer(3).integer(GD_STANDARD).integer(t[0]).integer(t[1]);
    call.number(double(j.sign)).number(0).number(j.first ? 0 : 1).number(0).out(out).run();
  }
}

void forward(OpContext& ctx) {
  const Tensor &a = ctx.inputs[0], &b = ctx.inputs[1];
  const int64_t size = ctx.attrs[kSize].integer;
  const Ints& table = ctx.attrs[kTable].integers;
  const Tensor c = ctx.attrs[kRest].integer & kRestC ? Tensor::zeros({size}, a.dtype(), a.device())
                                                     : Tensor::empty({size}, a.dtype(), a.device());
  if (table.size() > kHead && size > 0) {
    if (a.device().offers(GD_GROUPED))
      KernelCall(GD_GROUPED, GD_BLOCK_PRODUCTS)
          .integers({table.data(), table.size()})
          .in(a)
          .in(b)
          .out(c)
          .run();
    else
      product_by_product(a, b, c, table);
  }
  ctx.outputs.push_back(c);
  if (ctx.needs(0)) ctx.save_input(1);
  if (ctx.needs(1)) ctx.save_input(0);
}

Tensor call(const Tensor& a, const Tensor& b, const SharedAttrs& attrs) {
  const Tensor both[] = {a, b};
  return apply(*grouped_info, both, *attrs, &attrs)[0];
}

Tensor vjp(GradFn& node, size_t k, std::span<const Tensor> g) {
  thread_local const auto kept = std::make_unique<DerivedAttrs[]>(2);
  const SharedAttrs attrs =
      kept[k].get(node.shared_attrs(), node.input_metas()[k].sizes[0],
                  [&](const SharedAttrs& own, int64_t size) {
                    const auto [c, a, b] = Noted::of(own);
                    return Noted::attrs(attrs_of_cotangent(*own, k, size),
                                        k == 0 ? Structures{a, c, b} : Structures{b, a, c});
                  });
  const Tensor cotangent = contiguous(g[0]);
  return k == 0 ? call(cotangent, node.input(1), attrs) : call(node.input(0), cotangent, attrs);
}

Tensor jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  Tensor sum;
  if (t[0].defined()) sum = call(contiguous(t[0]), node.input(1), node.shared_attrs());
  if (t[1].defined()) {
    const Tensor more = call(node.input(0), contiguous(t[1]), node.shared_attrs());
    sum = sum.defined() ? add(sum, more) : more;
  }
  return sum;
}

Cost cost(const OpContext& ctx) {
  const Ints& t = ctx.attrs[kTable].integers;
  Cost c;
  for (size_t i = 0; i < jobs_in(t); ++i) {
    const gd_block_product j = job(t, i);
    c.flops += 2.0 * double(j.batch) * double(j.m) * double(j.n) * double(j.k);
  }
  if (is_complex(ctx.outputs[0].dtype())) c.flops *= 4;
  for (const Tensor& x : ctx.inputs) c.bytes += double(x.bytes());
  c.bytes += double(ctx.outputs[0].bytes());
  return c;
}

// Of a table that somebody else wrote; the slot checks that jobs stay inside the buffers.
void check_table(Operands in, const Attrs& a) {
  const char* const op = "grouped_contract";
  const Ints& t = a[kTable].integers;
  for (size_t k = 0; k < 2; ++k)
    if (in[k].rank() != 1)
      fail(ErrorKind::shape, op, "operand ", k, " has shape ", in[k].sizes(),
           ", expected one axis");
  if (in[0].dtype() != in[1].dtype() || in[0].dtype() == DType::bool_)
    fail(ErrorKind::dtype, op, "operands are of ", in[0].dtype(), " and ", in[1].dtype(),
         "; expected one dtype of numbers");
  if (a[kSize].integer < 0) fail(ErrorKind::value, op, "size is ", a[kSize].integer);
  if (t.size() < kHead || (t.size() - kHead) % kEach)
    fail(ErrorKind::value, op, "jobs is {conj_a, conj_b, then ", kEach, " integers for each job}");
  const int64_t limits[] = {in[0].numel(), in[1].numel(), a[kSize].integer};
  for (size_t i = 0; i < jobs_in(t); ++i) {
    const gd_block_product j = job(t, i);
    const int64_t reach[3][7] = {{j.a, j.batch, j.a_batch, j.m, j.a_m, j.k, j.a_k},
                                 {j.b, j.batch, j.b_batch, j.k, j.b_k, j.n, j.b_n},
                                 {j.c, j.batch, j.c_batch, j.m, j.c_m, j.n, j.c_n}};
    if ((j.first | 1) != 1 || (j.sign != 1 && j.sign != -1))
      fail(ErrorKind::value, op, "job ", i, ": first is 0 or 1 and sign is 1 or -1");
    for (size_t v = 0; v < 3; ++v) {
      __extension__ typedef __int128 Wide;
      Wide last = reach[v][0];
      bool empty = false;
      for (size_t d = 1; d < 7; d += 2) {
        empty |= reach[v][d] == 0;
        if (reach[v][d] < 0 || reach[v][d + 1] < 0 || reach[v][0] < 0)
          fail(ErrorKind::value, op, "job ", i, " has a negative offset, size or stride");
        last += Wide(reach[v][d] - 1) * reach[v][d + 1];
        if (v == 2 && reach[v][d] > 1 && reach[v][d + 1] == 0)
          fail(ErrorKind::value, op, "job ", i, " writes an element twice");
      }
      if (!empty && last >= limits[v])
        fail(ErrorKind::index, op, "job ", i, " leaves ",
             v == 2 ? "the result"
             : v    ? "b"
                    : "a",
             ", which has ", limits[v], " elements");
    }
  }
}

// A user's table: which elements of each buffer jobs name, and whether blocks that differ overlap,
// whose gradients would be written over each other.
int64_t counted_rest(Operands in, const Attrs& a) {
  const char* const op = "grouped_contract";
  const Ints& t = a[kTable].integers;
  const int64_t sizes[] = {in[0].numel(), in[1].numel(), a[kSize].integer};
  constexpr const char* kWhose[] = {"a", "b", "the result"};
  constexpr int64_t kBits[] = {kRestA, kRestB, kRestC};
  int64_t rest = 0;
  double work = 0;
  for (size_t v = 0; v < 3; ++v) {
    std::vector<int32_t> owner(size_t(sizes[v]), -1);
    std::vector<std::array<int64_t, 7>> blocks;
    for (size_t i = 0; i < jobs_in(t); ++i) {
      const gd_block_product j = job(t, i);
      const std::array<int64_t, 7> all[] = {{j.a, j.batch, j.a_batch, j.m, j.a_m, j.k, j.a_k},
                                            {j.b, j.batch, j.b_batch, j.k, j.b_k, j.n, j.b_n},
                                            {j.c, j.batch, j.c_batch, j.m, j.c_m, j.n, j.c_n}};
      const auto& b = all[v];
      if (b[1] * b[3] * b[5] == 0 || (v < 2 && j.k == 0)) continue;
      work += double(b[1]) * double(b[3]) * double(b[5]) +
              double(j.batch) * double(j.m) * double(j.n) * double(j.k) / 1e3;
      if (work > 1e9) fail(ErrorKind::memory, op, "the jobs name more than 1e9 elements");
      auto it = std::find(blocks.begin(), blocks.end(), b);
      const bool fresh = it == blocks.end();
      if (fresh) it = blocks.insert(blocks.end(), b);
      const auto number = int32_t(it - blocks.begin());
      for (int64_t x = 0; x < b[1]; ++x)
        for (int64_t y = 0; y < b[3]; ++y)
          for (int64_t z = 0; z < b[5]; ++z) {
            int32_t& who = owner[size_t(b[0] + x * b[2] + y * b[4] + z * b[6])];
            if (who >= 0 && who != number)
              fail(ErrorKind::value, op, "job ", i, ": its block of ", kWhose[v],
                   " overlaps another one");
            who = number;
          }
    }
    if (std::find(owner.begin(), owner.end(), -1) != owner.end()) rest |= kBits[v];
  }
  return rest;
}

// All examples at once: each job has the batch, or where jobs have batches, is there for each.
Outputs batch(const BatchCall& c) {
  const Ints& t = c.attrs[kTable].integers;
  const int64_t examples = c.scope.level.size, size = c.attrs[kSize].integer;
  int64_t by[2] = {0, 0};
  Tensor in[2];
  for (size_t k = 0; k < 2; ++k) {
    in[k] = c.in[k];
    if (!c.batched[k]) continue;
    by[k] = in[k].size(1);
    in[k] = contiguous(reshape(in[k], {examples * by[k]}));
  }
  bool plain = true;
  for (size_t i = 0; i < jobs_in(t); ++i) plain &= job(t, i).batch == 1;
  std::vector<gd_block_product> jobs;
  for (int64_t e = 0; e < (plain ? 1 : examples); ++e)
    for (size_t i = 0; i < jobs_in(t); ++i) {
      gd_block_product j = job(t, i);
      if (plain) {
        j.batch = examples;
        j.a_batch = by[0];
        j.b_batch = by[1];
        j.c_batch = size;
      } else {
        j.a += e * by[0];
        j.b += e * by[1];
        j.c += e * size;
      }
      jobs.push_back(j);
    }
  return reshape(
      apply1(*grouped_info, {in[0], in[1]},
             {examples * size, table_of(t[0], t[1], jobs), c.attrs[kRest], c.attrs[kWhat]}),
      {examples, size});
}

}  // namespace

GroupedProducts::GroupedProducts(std::string_view what, int64_t c_size,
                                 const std::vector<gd_block_product>& jobs, bool covers_a,
                                 bool covers_b, bool covers_c, const Structures& structures)
    : attrs_(Noted::attrs(
          Attrs{c_size, table_of(false, false, jobs),
                int64_t(covers_c ? 0 : kRestC) | (covers_a ? 0 : kRestA) | (covers_b ? 0 : kRestB),
                AttrValue(what)},
          structures)) {
  for (const gd_block_product& j : jobs)
    flops_ += 2.0 * double(j.batch) * double(j.m) * double(j.n) * double(j.k);
}

Tensor GroupedProducts::operator()(const Tensor& a, const Tensor& b) const {
  return call(contiguous(a), contiguous(b), attrs_);
}

void register_grouped() {
  OpInfo o = new_op(
      "grouped_contract", "blocks", "products of blocks of a and b, summed into blocks of a buffer",
      "c = 0; for each job: c[.., m, n] (+)= sign * sum over k of a[.., m, k] * b[.., k, n]",
      {{"a"}, {"b"}},
      {int_attr("size", "elements of c"),
       ints_attr("jobs",
                 "conj_a, conj_b; of each job: first, sign, batch, m, n, k, offset in a and "
                 "strides of batch, m, k, in b of batch, k, n, in c of batch, m, n"),
       int_attr("rest", 7, "add 1, 2, 4: jobs leave elements of c, of a, of b untouched"),
       text_attr("what", "", "which contraction it is: \"ij,jk->ik\"")});
  o.forward = forward;
  o.vjp = vjp;
  o.jvp = jvp;
  o.cost = cost;
  o.batch = batch;
  o.call = [](Operands in, const Attrs& a) {
    check_table(in, a);
    Attrs own = a;
    own[kRest] = counted_rest(in, a);
    return apply1(*grouped_info, {contiguous(in[0]), contiguous(in[1])}, own);
  };
  grouped_info = &add_op(std::move(o));
}

}  // namespace gradus
