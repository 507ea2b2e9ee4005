// pointwise and pointwise_vjp: block by block, operands are loaded in the type that computes, a row
// of the statement is evaluated, the value is stored. f16 and bf16 compute in f32 and round at the
// store.
#include "kernels/reference/statements/rows.hpp"
#include "kernels/reference/slots.hpp"
#include "kernels/reference/user.hpp"
#include "kernels/reference/walk.hpp"

#include <limits>
#include <optional>

namespace gradus::inline v1::reference {
namespace {

DType computing_dtype(DType t) { return is_half(t) ? DType::f32 : t; }

Row find_row(const Call& call, DType t) {
  const int32_t id = call.op();
  if (is_user(t)) return user(call, t).row(id);
  const DType computing = computing_dtype(t);
  if (is_complex(t)) return complex_row(id, computing);
  return is_integer(t) ? integer_row(id, computing) : real_row(id, computing);
}

// One operand, block by block. An operand that is left out reads as NaN (a mask as false): the
// statement does not look at it, and if it did, that would not pass unseen.
class Operand {
 public:
  Operand(const Layout* v, DType computing) : computing_(computing) {
    if (v) {
      walk_.emplace(*v);
      return;
    }
    const double nan = std::numeric_limits<double>::quiet_NaN();
    for (int64_t i = 0; i < kBlock; ++i) switch (computing) {
        case DType::f32:
          block_.as<float>()[i] = float(nan);
          break;
        case DType::f64:
          block_.as<double>()[i] = nan;
          break;
        case DType::c64:
          block_.as<c64>()[i] = c64(float(nan), float(nan));
          break;
        case DType::c128:
          block_.as<c128>()[i] = c128(nan, nan);
          break;
        default:
          block_.as<bool>()[i] = false;
      }
  }
  const void* next(int64_t n) {
    if (walk_) walk_->read_as(computing_, block_.raw(), n);
    return block_.raw();
  }

 private:
  DType computing_;
  std::optional<Walk> walk_;
  Block block_;
};

}  // namespace

void pointwise(Call& call) {
  const Statement s = named_statement(call);
  call.expect(s.arity, 1, s.params, 0);
  const Layout out = call.out(0);
  const DType t = DType(call.in(s.arity - 1).dtype);
  const Row row = find_row(call, t);
  if (!row.reads)
    call.refuse(GD_UNSUPPORTED, "dtype %s is not read by this statement", dtype_name(t));
  call.expect_dtype("output", out, row.y == computing_dtype(t) ? t : row.y);

  std::vector<Operand> x;
  x.reserve(size_t(s.arity));
  for (int k = 0; k < s.arity; ++k) {
    const Layout v = operand(call, s, k, k, t, out);
    x.emplace_back(&v, computing_dtype(v.dtype));
  }
  Walk to(out);
  Block y;
  for_blocks(
      out.count(),
      [&](int64_t n) {
        const void* rows[3] = {};
        for (size_t k = 0; k < x.size(); ++k) rows[k] = x[k].next(n);
        row.value(call.numbers(), rows, y.raw(), n);
        to.write_as(row.y, y.raw(), n);
      },
      block_of(t));
}

void pointwise_vjp(Call& call) {
  const Statement s = named_statement(call);
  call.expect(s.arity + 2, 1, s.params, 1);
  const Layout g = call.in(0), out = call.out(0);
  const DType t = g.dtype, computing = computing_dtype(t);
  const int64_t which = call.integer(0);
  if (which < 0 || which >= s.arity)
    call.refuse(GD_INVALID, "there is no operand %lld", static_cast<long long>(which));
  const Row row = find_row(call, t);
  if (!row.reads || !row.vjp[which])
    call.refuse(GD_UNSUPPORTED, "operand %lld has no slope in dtype %s",
                static_cast<long long>(which), dtype_name(t));
  call.expect_sizes("cotangent", g, out);
  call.expect_dtype("output", out, t);

  // g, the operands, y: the order of the call.
  std::vector<Operand> read;
  read.reserve(size_t(s.arity) + 2);
  read.emplace_back(&g, computing);
  for (int k = 0; k <= s.arity; ++k) {
    const DType own = s.has_mask && k == 0 ? DType::bool_ : computing;
    if (!call.has_in(k + 1)) {
      read.emplace_back(nullptr, own);
    } else {
      const Layout v = operand(call, s, k, k + 1, t, out);
      read.emplace_back(&v, own);
    }
  }
  Walk to(out);
  Block result;
  for_blocks(
      out.count(),
      [&](int64_t n) {
        const void* rows[5] = {};
        for (size_t k = 0; k < read.size(); ++k) rows[k] = read[k].next(n);
        row.vjp[which](call.numbers(), rows + 1, rows[s.arity + 1], rows[0], result.raw(), n);
        to.write_as(computing, result.raw(), n);
      },
      block_of(t));
}

}  // namespace gradus::reference
