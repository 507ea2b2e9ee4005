// GD_FORMULA's contract: what each step takes, and the sizes of what it gives.
#include "kernels/call/checks.hpp"

#include <algorithm>

namespace gradus::inline v1::calls {

namespace {

using Size = FormulaCall::Size;
using Step = FormulaCall::Step;

bool equal(const Size& x, const Size& y) { return x.rows == y.rows && x.cols == y.cols; }
bool square(const Size& x) { return x.rows == x.cols; }
Size turned(const Size& x, bool really) { return really ? Size{x.cols, x.rows} : x; }

// What is larger is not meant; all sizes of a formula can be counted then.
constexpr int64_t kMostSide = 1 << 14;

int most_flags(int code) {
  return code == GD_STEP_PRODUCT || code == GD_STEP_DIVIDED ? 7 : code == GD_STEP_LOWER ? 1 : 0;
}

// What the step gives; {-1, 0} of sizes that it doesn't take. `cost`: its multiplications.
Size size_of_step(const Step& s, const Size& a, const Size& b, int64_t* cost) {
  constexpr Size none{-1, 0};
  const auto if_all = [&](bool right, const Size& given) { return right ? given : none; };
  *cost = a.rows * a.cols;
  switch (s.code) {
    case GD_STEP_PRODUCT: {
      const Size left = turned(a, s.flags & 1), right = turned(b, s.flags & 2);
      *cost *= right.cols;
      return if_all(left.cols == right.rows, {left.rows, right.cols});
    }
    case GD_STEP_DIVIDED:
      *cost *= b.cols;
      return if_all(a.rows >= a.cols && a.cols == b.rows, b);
    case GD_STEP_LU:
      *cost *= a.cols;
      return if_all(square(a), {a.rows + 1, a.cols});
    case GD_STEP_TURNED:
      return {a.cols, a.rows};
    case GD_STEP_SUM:
    case GD_STEP_DIFFERENCE:
    case GD_STEP_BELOW:
      return if_all(equal(a, b), a);
    case GD_STEP_TIMES:
      return if_all(a.cols == b.cols && (a.rows == b.rows || b.rows == 1), a);
    case GD_STEP_WITH_DIAGONAL:
      return if_all(square(a) && b.rows == 1 && b.cols == a.rows, a);
    case GD_STEP_ROWS_BACK:
      return if_all(b.cols == a.rows, a);
    case GD_STEP_RECIPROCAL_GAPS:
    case GD_STEP_RECIPROCAL_SUMS:
      *cost *= a.cols;
      return if_all(a.rows == 1, {a.cols, a.cols});
    case GD_STEP_RECIPROCALS:
      return if_all(a.rows == 1, a);
    default:
      return a;
  }
}

}  // namespace

FormulaCall expect_formula(Call& call) {
  call.named("formula");
  call.expect(call.n_in(), 1, 0, 1);
  FormulaCall c{call.raw().in, call.out(0), call.n_in(), 0, call.n_ints(), {}, {}, 0, 16};
  const auto t = DType(c.out.dtype);
  if (t != DType::f32 && t != DType::f64)
    call.refuse(GD_UNSUPPORTED, "dtype %s is not computed; f32 and f64 are", dtype_name(t));
  if (c.out.rank < 2)
    call.refuse(GD_INVALID, "a matrix has two axes, got %s", SizesText(c.out).text);
  if (c.n_in < 1 || c.n_in > FormulaCall::kMostIn || c.steps > GD_MOST_STEPS)
    call.refuse(GD_INVALID, "expected at most 8 inputs and %d steps, got %d and %d", GD_MOST_STEPS,
                c.n_in, c.steps);
  c.batch_axes = c.out.rank - 2;
  uint64_t whole = 0;  // inputs of i64
  for (int k = 0; k < c.n_in; ++k) {
    const gd_view& v = call.in(k);
    bool right = v.rank == c.out.rank || v.rank == c.out.rank - 1;
    for (int d = 0; right && d < c.batch_axes; ++d) right = v.sizes[d] == c.out.sizes[d];
    if (!right)
      call.refuse(GD_INVALID, "input %d has sizes %s, out %s: expected the same batch", k,
                  SizesText(v).text, SizesText(c.out).text);
    if (v.dtype == GD_I64)
      whole |= uint64_t(1) << k;
    else
      call.expect_dtype("an input", v, t);
    c.size[k] = {v.rank == c.out.rank ? v.sizes[v.rank - 2] : 1, v.sizes[v.rank - 1]};
    if (std::max(c.size[k].rows, c.size[k].cols) > kMostSide)
      call.refuse(GD_UNSUPPORTED,
                  "input %d has sizes %s: sides above %lld are none of a small matrix", k,
                  SizesText(v).text, static_cast<long long>(kMostSide));
    c.room += c.size[k].rows * c.size[k].cols;
  }
  for (int k = 0; k < c.steps; ++k) {
    const auto word = uint64_t(call.integer(k));
    Step& s = c.step[k];
    const int known = c.n_in + k, code = int(word & 255);
    s = {gd_step(code), int(word >> 8 & 255), int(word >> 16 & 255), int(word >> 24 & 255)};
    // The order of rows is whole numbers, or what a step gives.
    const bool is_whole = whole >> s.b & 1,
               right = code == GD_STEP_ROWS_BACK ? is_whole || s.b >= c.n_in : !is_whole;
    if (code >= GD_STEP_COUNT || s.a >= known || s.b >= known || (word >> 32) != 0 ||
        s.flags > most_flags(code) || (whole >> s.a & 1) || !right)
      call.refuse(GD_INVALID, "step %d is malformed", k);
    int64_t cost = 0;
    const Size &a = c.size[s.a], &b = c.size[s.b];
    const Size given = size_of_step(s, a, b, &cost);
    if (given.rows < 0)
      call.refuse(GD_INVALID, "step %d: (%lld, %lld) and (%lld, %lld) don't fit", k,
                  static_cast<long long>(a.rows), static_cast<long long>(a.cols),
                  static_cast<long long>(b.rows), static_cast<long long>(b.cols));
    c.size[known] = given;
    c.room += given.rows * given.cols;
    c.cost += cost;
  }
  const Size last = c.size[c.values() - 1];
  if (last.rows != c.out.sizes[c.out.rank - 2] || last.cols != c.out.sizes[c.out.rank - 1])
    call.refuse(GD_INVALID, "the last step gives (%lld, %lld), out is %s",
                static_cast<long long>(last.rows), static_cast<long long>(last.cols),
                SizesText(c.out).text);
  return c;
}

}  // namespace gradus::calls
