// The contract of GD_GROUPED: every job stays inside of its buffers, and the jobs of a block of out
// agree on where it lies.
#include "kernels/call/checks.hpp"

namespace gradus::inline v1::calls {
namespace {

using Long = long long;  // as printf takes it

const gd_view& expect_buffer(const Call& call, const char* whose, const gd_view& v, DType t) {
  if (v.rank != 1 || (v.sizes[0] > 1 && v.strides[0] != 1))
    call.refuse(GD_INVALID, "%s should be a whole buffer of one axis and stride 1, got %s", whose,
                SizesText(v).text);
  call.expect_dtype(whose, v, t);
  return v;
}

// The places of one operand of a job: from `first` along axes of these sizes. No sum of products of
// 64 bits leaves 128.
struct Reach {
  __extension__ typedef __int128 Wide;
  int64_t first, signs = 0;  // below 0 where a step is
  Wide last;
  bool stands = false;  // is a step 0?

  explicit Reach(int64_t start) : first(start), last(start) {}
  void along(int64_t size, int64_t stride) {
    signs |= stride;
    stands |= size > 1 && stride == 0;
    last += Wide(size - 1) * stride;
  }
  void expect_inside(const Call& call, int64_t job, const char* whose, const gd_view& v) const {
    if (signs < 0)
      call.refuse(GD_INVALID, "job %lld: a stride of %s is negative", Long(job), whose);
    if (first < 0 || last >= v.sizes[0])
      call.refuse(GD_INVALID, "job %lld: %s goes from element %lld to %lld of %lld", Long(job),
                  whose, Long(first), Long(last < INT64_MAX ? last : INT64_MAX), Long(v.sizes[0]));
  }
};

void expect_sign(const Call& call, int64_t job, int64_t sign, int64_t least) {
  if (sign != 1 && sign != -1 && sign != least)
    call.refuse(GD_INVALID, "job %lld: sign %lld", Long(job), Long(sign));
}
void expect_standing(const Call& call, int64_t job, const Reach& out) {
  if (out.stands)
    call.refuse(GD_INVALID, "job %lld: a block of the output has stride 0", Long(job));
}

bool same_block(const gd_block_product& p, const gd_block_product& q) {
  return p.batch == q.batch && p.m == q.m && p.n == q.n && p.c == q.c && p.c_batch == q.c_batch &&
         p.c_m == q.c_m && p.c_n == q.c_n;
}

// Of a job of numbers below 2^31, of which no sum of three products leaves 64 bits; false: unknown.
bool surely_inside(const GroupedCall& g, const gd_block_product& p) {
  const int64_t all = p.batch | p.m | p.n | p.k | p.a | p.a_batch | p.a_m | p.a_k | p.b |
                      p.b_batch | p.b_k | p.b_n | p.c | p.c_batch | p.c_m | p.c_n;
  if (uint64_t(all) >> 31 || p.batch == 0 || p.m == 0 || p.n == 0 || p.k == 0) return false;
  const uint64_t batch = uint64_t(p.batch - 1), m = uint64_t(p.m - 1), n = uint64_t(p.n - 1),
                 k = uint64_t(p.k - 1);
  uint64_t a = uint64_t(p.a) + m * uint64_t(p.a_m) + k * uint64_t(p.a_k),
           b = uint64_t(p.b) + k * uint64_t(p.b_k) + n * uint64_t(p.b_n),
           c = uint64_t(p.c) + m * uint64_t(p.c_m) + n * uint64_t(p.c_n);
  if (batch > 0) {
    a += batch * uint64_t(p.a_batch);
    b += batch * uint64_t(p.b_batch);
    c += batch * uint64_t(p.c_batch);
    if (p.c_batch == 0) return false;
  }
  return a < uint64_t(g.a.sizes[0]) && b < uint64_t(g.b->sizes[0]) &&
         c < uint64_t(g.out.sizes[0]) && (m == 0 || p.c_m > 0) && (n == 0 || p.c_n > 0);
}

void expect_product(const Call& call, const GroupedCall& g, int64_t job) {
  const gd_block_product& p = g.products[job];
  if (p.batch < 0 || p.m < 0 || p.n < 0 || p.k < 0)
    call.refuse(GD_INVALID, "job %lld: a size is negative: batch %lld, m %lld, n %lld, k %lld",
                Long(job), Long(p.batch), Long(p.m), Long(p.n), Long(p.k));
  expect_sign(call, job, p.sign, 1);
  if (p.first != 1 && (p.first != 0 || job == 0 || !same_block(p, g.products[job - 1])))
    call.refuse(GD_INVALID, "job %lld goes on with a block of the output that is not the last one",
                Long(job));
  if (surely_inside(g, p) || p.batch == 0 || p.m == 0 || p.n == 0) return;
  Reach c(p.c);
  c.along(p.batch, p.c_batch);
  c.along(p.m, p.c_m);
  c.along(p.n, p.c_n);
  c.expect_inside(call, job, "the output", g.out);
  expect_standing(call, job, c);
  if (p.k == 0) return;
  Reach a(p.a), b(p.b);
  a.along(p.batch, p.a_batch);
  a.along(p.m, p.a_m);
  a.along(p.k, p.a_k);
  a.expect_inside(call, job, "a", g.a);
  b.along(p.batch, p.b_batch);
  b.along(p.k, p.b_k);
  b.along(p.n, p.b_n);
  b.expect_inside(call, job, "b", *g.b);
}

void expect_copy(const Call& call, const GroupedCall& g, int64_t job) {
  const BlockCopy c = g.copy(job);
  expect_sign(call, job, c.sign, 0);
  Reach in(c.in), out(c.out);
  bool empty = false;
  for (int d = 0; d < g.rank; ++d) {
    if (c.sizes[d] < 0)
      call.refuse(GD_INVALID, "job %lld: size %lld on axis %d", Long(job), Long(c.sizes[d]), d);
    empty |= c.sizes[d] == 0;
    in.along(c.sizes[d], c.in_by[d]);
    out.along(c.sizes[d], c.out_by[d]);
  }
  if (empty) return;
  out.expect_inside(call, job, "the output", g.out);
  if (!g.add) expect_standing(call, job, out);
  if (c.sign != 0) in.expect_inside(call, job, "a", g.a);
}

// The jobs that fill ints from 2 on.
int64_t expect_jobs(const Call& call, int64_t each) {
  const int64_t given = call.n_ints() - 2;
  if (given % each != 0)
    call.refuse(GD_INVALID, "%lld ints are no table of jobs of %lld", Long(given), Long(each));
  return given / each;
}

}  // namespace

GroupedCall expect_grouped(Call& call) {
  const int32_t op = call.op();
  if (op != GD_BLOCK_PRODUCTS && op != GD_BLOCK_COPIES)
    call.refuse(GD_INVALID, "no work on blocks has code %d", op);
  const bool products = op == GD_BLOCK_PRODUCTS;
  call.named(products ? "products" : "copies");
  call.expect(products ? 2 : 1, 1, 0, 2);
  const gd_view& out = call.out(0);
  const DType t = DType(out.dtype);
  expect_buffer(call, "output", out, t);
  GroupedCall g{expect_buffer(call, "a", call.in(0), t),
                nullptr,
                out,
                0,
                nullptr,
                false,
                false,
                false,
                0,
                nullptr};
  const int64_t* const table = call.raw().ints + 2;
  if (products) {
    constexpr int64_t kEach = sizeof(gd_block_product) / sizeof(int64_t);
    g.b = &expect_buffer(call, "b", call.in(1), t);
    if (t == DType::bool_)
      call.refuse(GD_UNSUPPORTED, "dtype bool is not read: a sum of products leaves it");
    g.conj_a = call.integer(0) != 0;
    g.conj_b = call.integer(1) != 0;
    g.jobs = expect_jobs(call, kEach);
    g.products = reinterpret_cast<const gd_block_product*>(table);
    for (int64_t job = 0; job < g.jobs; ++job) expect_product(call, g, job);
    return g;
  }
  g.add = call.integer(0) != 0;
  const int64_t rank = call.integer(1);
  if (rank < 0 || rank > call.device().most_axes)
    call.refuse(rank < 0 ? GD_INVALID : GD_UNSUPPORTED, "blocks of rank %lld", Long(rank));
  g.rank = int(rank);
  g.jobs = expect_jobs(call, 3 + 3 * rank);
  g.copies = table;
  for (int64_t job = 0; job < g.jobs; ++job) {
    expect_copy(call, g, job);
    if (t == DType::bool_ && (g.add || g.copy(job).sign < 0))
      call.refuse(GD_UNSUPPORTED, "dtype bool is not read: sums and negatives leave it");
  }
  return g;
}

}  // namespace gradus::calls
