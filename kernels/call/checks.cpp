// The checks, slot by slot.
#include "kernels/call/checks.hpp"

#include "engine/abi/algebra.hpp"
#include "ops/def/statements.hpp"

#include <vector>

namespace gradus::inline v1::calls {
namespace {

constexpr const char* kReductions[] = {"sum",    "prod",   "max", "min",
                                       "argmax", "argmin", "any", "all"};

DType dtype_of_view(const gd_view& v) { return DType(v.dtype); }

void expect_real_float(const Call& call, DType t) {
  if (!is_real_float(t))
    call.refuse(GD_UNSUPPORTED, "dtype %s is not read; f32 f64 f16 bf16 are", dtype_name(t));
}

void expect_alike(const Call& call, const gd_view& in, const gd_view& out) {
  call.expect_sizes("input", in, out);
  call.expect_dtype("input", in, dtype_of_view(out));
}

// out has in's axes, of in's size or 1.
void expect_reduces(const Call& call, const gd_view& in, const gd_view& out) {
  if (in.rank != out.rank)
    call.refuse(GD_INVALID, "ranks differ: input %s, output %s", SizesText(in).text,
                SizesText(out).text);
  for (int d = 0; d < in.rank; ++d)
    if (in.sizes[d] != out.sizes[d] && out.sizes[d] != 1)
      call.refuse(GD_INVALID, "input %s does not reduce to output %s", SizesText(in).text,
                  SizesText(out).text);
}

}  // namespace

// ---- lines

LineCall expect_scan(Call& call) {
  const int32_t op = call.op();
  if (op < GD_SUM || op > GD_MIN) call.refuse(GD_INVALID, "no scan has code %d", op);
  call.named(kReductions[op]);
  call.expect(1, 1, 0, 2);
  const gd_view &in = call.in(0), &out = call.out(0);
  expect_alike(call, in, out);
  const DType t = dtype_of_view(in);
  if (orders(op) && (is_complex(t) || is_user(t)))
    call.refuse(GD_UNSUPPORTED, "numbers of dtype %s have no order", dtype_name(t));
  return {in, out, in.rank > 0 ? call.axis(0, in) : -1};
}

LineCall expect_softmax(Call& call) {
  call.expect(1, 1, 0, 2);
  const gd_view &in = call.in(0), &out = call.out(0);
  expect_alike(call, in, out);
  expect_real_float(call, dtype_of_view(in));
  return {in, out, in.rank > 0 ? call.axis(0, in) : -1};
}

SortCall expect_sort(Call& call) {
  call.expect(1, 2, 0, 2);
  const gd_view &in = call.in(0), &places = call.out(1);
  const int axis = call.axis(0, in);
  call.expect_sizes("index output", places, in);
  call.expect_dtype("index output", places, DType::i64);
  const gd_view* const values = call.has_out(0) ? &call.out(0) : nullptr;
  if (values) {
    call.expect_sizes("value output", *values, in);
    call.expect_dtype("value output", *values, dtype_of_view(in));
  }
  const DType t = dtype_of_view(in);
  if (is_complex(t)) call.refuse(GD_UNSUPPORTED, "complex numbers have no order");
  if (is_user(t)) call.refuse(GD_UNSUPPORTED, "numbers of dtype %s have no order", dtype_name(t));
  return {in, values, places, axis};
}

ReduceCall expect_reduce(Call& call) {
  const int32_t op = call.op();
  if (op < GD_SUM || op > GD_ALL) call.refuse(GD_INVALID, "no reduction has code %d", op);
  call.named(kReductions[op]);
  const bool places = op == GD_ARGMAX || op == GD_ARGMIN, truth = op == GD_ANY || op == GD_ALL;
  call.expect(1, 1, 0, places ? 1 : 0);
  const gd_view &in = call.in(0), &out = call.out(0);
  expect_reduces(call, in, out);
  const DType t = dtype_of_view(in);
  const bool widens = (op == GD_SUM || op == GD_PROD) && is_integer(t);
  call.expect_dtype("output", out, truth ? DType::bool_ : places || widens ? DType::i64 : t);
  if (places && in.rank > 0) {  // the one axis they name
    const int axis = call.axis(0, in);
    std::vector<int64_t> sizes(in.sizes, in.sizes + in.rank);
    sizes[size_t(axis)] = 1;
    gd_view wanted = in;
    wanted.sizes = sizes.data();
    call.expect_sizes("output", out, wanted);
  }
  if (orders(op) && count_of(in) == 0 && count_of(out) > 0)
    call.refuse(GD_INVALID, "nothing to choose from: input %s", SizesText(in).text);
  if (is_user(t) && op != GD_SUM && op != GD_PROD)
    call.refuse(GD_UNSUPPORTED, "dtype %s has sums and products alone", dtype_name(t));
  if (orders(op) && is_complex(t))
    call.refuse(GD_UNSUPPORTED, "complex numbers (%s) have no order", dtype_name(t));
  return {in, out, places, truth, orders(op)};
}

NormalizeCall expect_normalize(Call& call) {
  constexpr const char* kNames[] = {"value", "given", "vjp"};
  const int32_t op = call.op();
  if (op < GD_NORM_VALUE || op > GD_NORM_VJP)
    call.refuse(GD_INVALID, "no normalisation has code %d", op);
  call.named(kNames[op]);
  const bool value = op == GD_NORM_VALUE, vjp = op == GD_NORM_VJP;
  call.expect(value ? 3 : 5, value ? 3 : 1, 1, 1);
  const gd_view &x = call.in(0), &y = call.out(0);
  const gd_view &mean = value ? call.out(1) : call.in(3), &var = value ? call.out(2) : call.in(4);
  const DType t = dtype_of_view(x), wide = t == DType::f64 ? t : DType::f32;
  expect_real_float(call, t);
  call.expect_sizes("output", y, x);
  if (dtype_of_view(y) != wide) call.expect_dtype("output", y, t);
  call.expect_dtype("mean", mean, wide);
  call.expect_dtype("variance", var, wide);
  call.expect_sizes("variance", var, mean);
  if (vjp && !call.has_in(2)) call.refuse(GD_INVALID, "there is no cotangent");
  expect_reduces(call, x, mean);
  NormalizeCall n{x, y, mean, var, {}, value, vjp};
  for (int k : {1, 2}) {
    if (!call.has_in(k)) continue;
    const gd_view& v = call.in(k);
    call.expect_sizes("operand", v, x);
    call.expect_dtype("operand", v, t);
    n.operands[k - 1] = &v;
  }
  return n;
}

// ---- contract

namespace {

c128 scale(const Call& call, DType t, const char* name, int k) {
  const c128 x{call.number(k), call.number(k + 1)};
  if (!is_complex(t) && x.im != 0)
    call.refuse(GD_INVALID, "%s has an imaginary part, but dtype is %s", name, dtype_name(t));
  if ((is_integer(t) || is_user(t)) &&
      !(x.re >= -0x1p53 && x.re <= 0x1p53 && double(int64_t(x.re)) == x.re))
    call.refuse(GD_INVALID, "%s = %g is no integer, but dtype is %s", name, x.re, dtype_name(t));
  return x;
}

void expect_tropical(const Call& call, DType t) {
  if (call.n_ints() > 4) call.refuse(GD_INVALID, "tropical algebras take no statement");
  if (call.number(0) != 1 || call.number(1) != 0 || call.number(2) != 0 || call.number(3) != 0 ||
      call.n_in() != 2)
    call.refuse(GD_INVALID, "tropical algebras take alpha = 1, beta = 0 and no bias");
  if (is_complex(t) || is_user(t) || t == DType::u8 || t == DType::bool_)
    call.refuse(GD_UNSUPPORTED, "dtype %s is not read; f32 f64 f16 bf16 i32 i64 are",
                dtype_name(t));
}

void expect_standard(const Call& call, DType t) {
  if (call.n_out() == 2) call.refuse(GD_INVALID, "a sum has no winners");
  if (t == DType::bool_)
    call.refuse(GD_UNSUPPORTED, "dtype bool is not read: a sum of products leaves it");
}

}  // namespace

ContractCall expect_contract(Call& call) {
  if (call.n_ints() < 2) call.refuse(GD_INVALID, "expected 4 ints");
  const int64_t algebra = call.integer(1);
  if (algebra < GD_STANDARD || algebra >= GD_ALGEBRA_COUNT)
    call.refuse(GD_INVALID, "no algebra has code %lld", static_cast<long long>(algebra));
  call.named(kKernelAlgebras[algebra]);
  call.expect(call.n_in() == 3 ? 3 : 2, call.n_out() == 2 ? 2 : 1, 4, 4);

  const gd_view &a = call.in(0), &b = call.in(1), &out = call.out(0);
  call.expect_sizes("b", b, a);
  const int64_t n = call.integer(0);
  if (n < 0 || n > a.rank)
    call.refuse(GD_INVALID, "%lld output axes of a joint index space %s", static_cast<long long>(n),
                SizesText(a).text);
  gd_view wanted = a;  // over out's axes
  wanted.rank = int32_t(n);
  call.expect_sizes("output", out, wanted);
  const DType t = dtype_of_view(out);
  call.expect_dtype("b", b, dtype_of_view(a));
  call.expect_dtype("output", out, dtype_of_view(a));

  ContractCall c{a, b, out, nullptr, nullptr, algebra, int(n), {}, {}, false, false, false};
  if (algebra != GD_STANDARD) {
    expect_tropical(call, t);
    if (call.n_out() == 2) {
      c.winners = &call.out(1);
      call.expect_sizes("winners", *c.winners, out);
      call.expect_dtype("winners", *c.winners, DType::i64);
    }
    return c;
  }
  expect_standard(call, t);
  c.alpha = scale(call, t, "alpha", 0);
  c.beta = scale(call, t, "beta", 2);
  c.conj_a = call.integer(2) != 0;
  c.conj_b = call.integer(3) != 0;
  c.statement = call.n_ints() > 4;
  if (call.n_in() == 3 && call.has_in(2)) {
    c.bias = &call.in(2);
    call.expect_sizes("bias", *c.bias, out);
    call.expect_dtype("bias", *c.bias, t);
  }
  return c;
}

gd_call statement_call(const gd_call& contract) {
  gd_call c = contract;
  c.slot = GD_POINTWISE;
  c.op = int32_t(c.ints[4]);
  c.n_in = 1;
  c.in = c.out;
  c.doubles += 4;
  c.n_doubles -= 4;
  c.n_ints = 0;
  return c;
}

// ---- linalg

namespace {

// Checks views against the batch of a.
struct Batch {
  const Call& call;
  const gd_view& a;

  void expect(const char* whose, const gd_view& v, DType t, std::vector<int64_t> last) const {
    std::vector<int64_t> sizes(a.sizes, a.sizes + a.rank - 2);
    sizes.insert(sizes.end(), last.begin(), last.end());
    gd_view wanted = a;
    wanted.rank = int32_t(sizes.size());
    wanted.sizes = sizes.data();
    call.expect_sizes(whose, v, wanted);
    call.expect_dtype(whose, v, t);
  }
  const gd_view* out(int k, const char* whose, DType t, std::vector<int64_t> last) const {
    expect(whose, call.out(k), t, std::move(last));
    return &call.out(k);
  }
  const gd_view* out_if_there(int k, const char* whose, DType t, std::vector<int64_t> last) const {
    return call.has_out(k) ? out(k, whose, t, std::move(last)) : nullptr;
  }
  // How long axis `from_end` of output k is, which may be `thin` or `full`.
  int64_t thin_or_full(int k, const char* whose, int from_end, int64_t thin, int64_t full) const {
    if (!call.has_out(k)) return thin;
    const gd_view& v = call.out(k);
    const int64_t size = v.rank >= 2 ? v.sizes[v.rank - from_end] : -1;
    if (size != thin && size != full)
      call.refuse(GD_INVALID, "%s should have %lld or %lld %s, got %s", whose,
                  static_cast<long long>(thin), static_cast<long long>(full),
                  from_end == 1 ? "columns" : "rows", SizesText(v).text);
    return size;
  }
};

int64_t choice(const Call& call, int k, int64_t most) {
  if (k >= call.n_ints()) return 0;
  const int64_t x = call.integer(k);
  if (x < 0 || x > most)
    call.refuse(GD_INVALID, "ints[%d] should be from 0 to %lld, got %lld", k,
                static_cast<long long>(most), static_cast<long long>(x));
  return x;
}

const gd_view& expect_matrix(Call& call) {
  constexpr struct {
    int in, out, ints;
  } counts[GD_FORMULA] = {{1, 2, 0}, {1, 3, 0}, {2, 2, 0}, {1, 3, 0}, {2, 1, 3},
                          {1, 2, 0}, {1, 3, 0}, {1, 4, 0}, {1, 3, 0}};
  const int32_t op = call.op();
  if (op < 0 || op >= GD_FORMULA) call.refuse(GD_INVALID, "no factorisation has code %d", op);
  call.named(kLinalg[op]);
  call.expect(counts[op].in, counts[op].out, 0, counts[op].ints);
  const gd_view& a = call.in(0);
  const DType t = dtype_of_view(a);
  if (a.rank < 2) call.refuse(GD_INVALID, "a matrix has two axes, got %s", SizesText(a).text);
  if (t != DType::f32 && t != DType::f64 && !is_complex(t))
    call.refuse(GD_UNSUPPORTED, "dtype %s is not read; f32 f64 c64 c128 are", dtype_name(t));
  const bool any_shape = op == GD_LU || op == GD_QR || op == GD_SVD;
  if (!any_shape && a.sizes[a.rank - 2] != a.sizes[a.rank - 1])
    call.refuse(GD_INVALID, "expected square matrices, got %s", SizesText(a).text);
  return a;
}

void expect_solve(Call& call, const Batch& batch, LinalgCall& c) {
  c.b = &call.in(1);
  const int64_t r = c.b->rank >= 2 ? c.b->sizes[c.b->rank - 1] : 1;
  const DType t = dtype_of_view(c.a);
  batch.expect("B", *c.b, t, {c.n, r});
  c.out[0] = batch.out(0, "X", t, {c.n, r});
  if (c.op == GD_SOLVE) {
    c.turned = int(choice(call, 0, 2));
    return;
  }
  c.upper = choice(call, 0, 1) != 0;
  c.unit = choice(call, 1, 1) != 0;
  c.turned = int(choice(call, 2, 2));
}

void expect_qr(Call& call, const Batch& batch, LinalgCall& c) {
  const int64_t k = c.m < c.n ? c.m : c.n;
  const int64_t q = call.has_out(0) ? batch.thin_or_full(0, "Q", 1, k, c.m)
                                    : batch.thin_or_full(1, "R", 2, k, c.m);
  const DType t = dtype_of_view(c.a);
  c.out[0] = batch.out_if_there(0, "Q", t, {c.m, q});
  c.out[1] = batch.out_if_there(1, "R", t, {q, c.n});
  c.not_negative = choice(call, 0, 1) != 0;
}

void expect_svd(const Batch& batch, LinalgCall& c) {
  const int64_t k = c.m < c.n ? c.m : c.n;
  // One of the two is k either way: they can't differ in kind.
  const int64_t u = batch.thin_or_full(0, "U", 1, k, c.m);
  const int64_t v = batch.thin_or_full(2, "Vh", 2, k, c.n);
  const DType t = dtype_of_view(c.a);
  c.out[0] = batch.out_if_there(0, "U", t, {c.m, u});
  c.out[1] = batch.out(1, "s", real_dtype(t), {k});
  c.out[2] = batch.out_if_there(2, "Vh", t, {v, c.n});
}

}  // namespace

LinalgCall expect_linalg(Call& call) {
  const gd_view& a = expect_matrix(call);
  LinalgCall c{gd_linalg(call.op()), a, nullptr, {},    nullptr, a.rank - 2, a.sizes[a.rank - 2],
               a.sizes[a.rank - 1],  0, false,   false, false};
  const Batch batch{call, a};
  const DType t = dtype_of_view(a),
              complex = real_dtype(t) == DType::f32 ? DType::c64 : DType::c128;
  switch (c.op) {
    case GD_CHOLESKY:
      c.out[0] = batch.out(0, "L", t, {c.n, c.n});
      break;
    case GD_LU:
      c.out[0] = batch.out(0, "LU", t, {c.m, c.n});
      c.out[1] = batch.out(1, "rows", DType::i64, {c.m});
      break;
    case GD_SOLVE:
    case GD_SOLVE_TRIANGULAR:
      expect_solve(call, batch, c);
      break;
    case GD_DET:
      c.out[0] = batch.out_if_there(0, "det", t, {});
      c.out[1] = batch.out_if_there(1, "sign", t, {});
      c.out[2] = batch.out_if_there(2, "log |det|", real_dtype(t), {});
      break;
    case GD_QR:
      expect_qr(call, batch, c);
      break;
    case GD_SVD:
      expect_svd(batch, c);
      break;
    default:
      c.out[0] = batch.out(0, "w", c.op == GD_EIG ? complex : real_dtype(t), {c.n});
      c.out[1] = batch.out_if_there(1, "V", c.op == GD_EIG ? complex : t, {c.n, c.n});
  }
  const bool has_info = c.op != GD_DET && c.op != GD_SOLVE_TRIANGULAR && c.op != GD_QR;
  if (has_info) c.info = batch.out(call.n_out() - 1, "info", DType::i64, {});
  return c;
}

// ---- statements

Statement statement(int32_t id) {
  Statement found;
  def::visit(def::Statements{}, id, [&]<class S>() {
    found = {S::meta.name, S::arity, S::meta.param_count(), S::kind == def::Kind::select};
  });
  return found;
}

Statement named_statement(Call& call) {
  const Statement s = statement(call.op());
  if (!s.name) call.refuse(GD_INVALID, "no statement has id %d", call.op());
  call.named(s.name);
  return s;
}

const gd_view& operand(const Call& call, const Statement& s, int k, int place, DType t,
                       const gd_view& out) {
  const char* const letters[] = {"a", "b", "m"};
  const char* const whose = k == s.arity   ? "y"
                            : s.arity == 1 ? "x"
                                           : letters[s.has_mask ? (k + 2) % 3 : k];
  const gd_view& v = call.in(place);
  call.expect_sizes(whose, v, out);
  call.expect_dtype(whose, v, s.has_mask && k == 0 ? DType::bool_ : t);
  return v;
}

// ---- the others

void expect_index(const Call& call, const gd_view& index) {
  if (index.dtype != GD_I64 && index.dtype != GD_I32)
    call.refuse(GD_INVALID, "an index is i64 or i32, got %s", dtype_name(dtype_of_view(index)));
  if (index.rank == 0) call.refuse(GD_INVALID, "an index needs an axis, got a 0-d view");
}

int uniform_bits(int32_t dtype) {
  return dtype == GD_F64 ? 53 : dtype == GD_F16 ? 11 : dtype == GD_BF16 ? 8 : 24;
}

void expect_random(Call& call) {
  const char* const names[] = {"uniform", "normal", "bernoulli"};
  const int32_t op = call.op();
  if (op < GD_UNIFORM || op > GD_BERNOULLI)
    call.refuse(GD_INVALID, "no distribution has code %d", op);
  call.named(names[op]);
  call.expect(1, 1, op == GD_BERNOULLI ? 1 : 2, 1);
  const gd_view& state = call.in(0);
  const DType t = dtype_of_view(call.out(0));
  call.expect_dtype("{seed, base}", state, DType::i64);
  if (count_of(state) != 2 || state.rank != 1)
    call.refuse(GD_INVALID, "{seed, base} should have 2 elements, got %s", SizesText(state).text);
  if (op == GD_BERNOULLI ? is_complex(t) : !is_real_float(t))
    call.refuse(GD_UNSUPPORTED, "no numbers of dtype %s", dtype_name(t));
}

OptimizerCall expect_optimizer(Call& call) {
  const char* const names[] = {"sgd", "adam", "adamw"};
  const int32_t op = call.op();
  if (op < GD_SGD || op > GD_ADAMW) call.refuse(GD_INVALID, "no optimizer has code %d", op);
  call.named(names[op]);
  const int outs = op == GD_SGD ? 2 : 3, parameters = call.n_in() / 3,
            most = parameters > 1 ? parameters : 1;
  call.expect(3 * most, outs * most, 4, op == GD_SGD);
  return {outs, parameters};
}

const gd_view& step_values(const Call& call, int k, const char* whose, int64_t n) {
  const gd_view& v = call.in(k);
  if (count_of(v) < n || v.rank > 1 || (v.dtype != GD_F64 && v.dtype != GD_F32))
    call.refuse(GD_INVALID, "%s should hold %lld numbers of f64 or f32, got %s %s", whose,
                static_cast<long long>(n), dtype_name(dtype_of_view(v)), SizesText(v).text);
  return v;
}

}  // namespace gradus::calls
