// GD_FORMULA, step by step.
#pragma once
#include "kernels/call/checks.hpp"
#include "kernels/linalg/matrix.hpp"
#include "kernels/linalg/small.hpp"

namespace gradus::inline v1::linalg {

template <class E, class T>
class Formula {
 public:
  // `room`: for call.room elements.
  Formula(const calls::FormulaCall& call, E* room) : call_(call) {
    for (int k = 0; k < call.values(); ++k) {
      value_[k] = {room, int(call.size[k].rows), int(call.size[k].cols)};
      room += value_[k].count();
    }
  }

  // The inputs are to be filled before run().
  Small<E> value(int k) const { return value_[k]; }
  Small<E> result() const { return value_[call_.values() - 1]; }

  void run() {
    for (int k = 0; k < call_.steps; ++k) {
      const calls::FormulaCall::Step& s = call_.step[k];
      step(s, value_[s.a], value_[s.b], value_[call_.n_in + k]);
    }
  }

 private:
  using M = Small<E>;

  static void step(const calls::FormulaCall::Step& s, M a, M b, M y) {
    switch (s.code) {
      case GD_STEP_PRODUCT: {
        const auto product = [&](auto l, auto r, auto p) {
          multiply(l, s.flags & 1, r, s.flags & 2, p, s.flags & 4);
        };
        if (!with_squares(product, a, b, y)) product(a, b, y);
        return;
      }
      case GD_STEP_DIVIDED:
        return solve_small_triangle(a, s.flags & 1, s.flags & 2, s.flags & 4, b, y);
      case GD_STEP_LU:
        std::copy_n(a.data, a.count(), y.data);
        small_lu<T>(M{y.data, a.rows, a.cols}, &y(a.rows, 0));
        return;
      case GD_STEP_TURNED:
        return each(y, [&](int i, int j) { return a(j, i); });
      case GD_STEP_SUM:
        return each(y, [&](int i, int j) { return a(i, j) + b(i, j); });
      case GD_STEP_DIFFERENCE:
        return each(y, [&](int i, int j) { return a(i, j) - b(i, j); });
      case GD_STEP_TIMES:
        return each(y, [&](int i, int j) { return a(i, j) * b(b.rows == 1 ? 0 : i, j); });
      case GD_STEP_NEGATIVE:
        return each(y, [&](int i, int j) { return -a(i, j); });
      case GD_STEP_HALF:
        return each(y, [&](int i, int j) { return E(T(0.5)) * a(i, j); });
      case GD_STEP_LOWER:
        return each(y, [&](int i, int j) { return j <= i - (s.flags & 1) ? a(i, j) : E(T(0)); });
      case GD_STEP_UPPER:
        return each(y, [&](int i, int j) { return j >= i ? a(i, j) : E(T(0)); });
      case GD_STEP_HALF_LOWER:
        return each(y, [&](int i, int j) {
          return j < i ? a(i, j) : j == i ? E(T(0.5)) * a(i, j) : E(T(0));
        });
      case GD_STEP_BELOW:
        return each(y, [&](int i, int j) { return j < i ? a(i, j) : b(i, j); });
      case GD_STEP_WITH_DIAGONAL:
        return each(y, [&](int i, int j) { return i == j ? a(i, j) + b(0, i) : a(i, j); });
      case GD_STEP_RECIPROCAL_GAPS:
      case GD_STEP_RECIPROCAL_SUMS:
        return reciprocals(a, s.code == GD_STEP_RECIPROCAL_GAPS, y);
      case GD_STEP_RECIPROCALS: {
        const E reach = reach_of(a);
        return each(y, [&](int, int j) { return guarded(a(0, j), reach); });
      }
      default: {
        const E* const order = &b(b.rows - 1, 0);
        const auto put_back = [&](auto from, auto to) { rows_back(from, order, to); };
        if (!with_squares(put_back, a, y)) put_back(a, y);
      }
    }
  }
  template <class F>
  static void each(M y, F&& f) {
    for (int i = 0; i < y.rows; ++i)
      for (int j = 0; j < y.cols; ++j) y(i, j) = f(i, j);
  }
  template <class S>
  static void multiply(S a, bool turn_a, S b, bool turn_b, S y, bool negative) {
    const int inner = turn_a ? a.rows : a.cols;
    if constexpr (std::is_same_v<E, T>)  // the same sums, of whole rows at a time
      if (!turn_b) {
        std::fill_n(y.data, y.rows * y.cols, T(0));
        for (int i = 0; i < y.rows; ++i)
          for (int k = 0; k < inner; ++k)
            add_multiple(y.cols, turn_a ? a(k, i) : a(i, k), &b(k, 0), &y(i, 0));
        for (int i = 0; negative && i < y.rows * y.cols; ++i) y.data[i] = -y.data[i];
        return;
      }
    const int a_row = turn_a ? 1 : a.cols, a_step = turn_a ? a.cols : 1;
    const int b_col = turn_b ? b.cols : 1, b_step = turn_b ? 1 : b.cols;
    for (int i = 0; i < y.rows; ++i) {
      const E* const x = a.data + i * a_row;
      int j = 0;
      for (; j + 4 <= y.cols; j += 4) {  // four sums in registers
        const E* z = b.data + j * b_col;
        E s(T(0)), t(T(0)), u(T(0)), v(T(0));
        for (int k = 0; k < inner; ++k, z += b_step) {
          const E by = x[k * a_step];
          s += by * z[0];
          t += by * z[b_col];
          u += by * z[2 * b_col];
          v += by * z[3 * b_col];
        }
        y(i, j) = negative ? -s : s;
        y(i, j + 1) = negative ? -t : t;
        y(i, j + 2) = negative ? -u : u;
        y(i, j + 3) = negative ? -v : v;
      }
      for (; j < y.cols; ++j) {
        E sum(T(0));
        for (int k = 0; k < inner; ++k) sum += x[k * a_step] * b.data[j * b_col + k * b_step];
        y(i, j) = negative ? -sum : sum;
      }
    }
  }
  // What counts as 0 beside the numbers a.
  static E reach_of(M a) {
    using std::abs;
    E most(T(0));
    for (int j = 0; j < a.cols; ++j) {
      const E size = abs(a(0, j));
      most = select(size > most, size, most);
    }
    return most * E(16 * T(std::max(a.cols, 8)) * kEpsilon<T>);
  }
  static E guarded(E x, E reach) {
    using std::abs;
    return select(abs(x) <= reach, E(T(0)), E(T(1)) / x);
  }
  static void reciprocals(M a, bool gaps, M y) {
    const E reach = reach_of(a);
    for (int i = 0; i < y.rows; ++i)
      for (int j = i; j < y.cols; ++j) {
        y(i, j) = guarded(gaps ? a(0, j) - a(0, i) : a(0, i) + a(0, j), reach);
        y(j, i) = gaps ? -y(i, j) : y(i, j);
      }
  }
  template <class S>
  static void rows_back(S a, const E* order, S y) {
    std::fill_n(y.data, y.rows * y.cols, E(T(0)));
    for (int i = 0; i < a.rows; ++i) {
      if (i < y.rows && all(order[i] == E(T(i)))) {  // it stays where it is
        for (int j = 0; j < y.cols; ++j) y(i, j) = a(i, j);
        continue;
      }
      for (int to = 0; to < y.rows; ++to) {
        const auto here = order[i] == E(T(to));
        if (!any(here)) continue;
        for (int j = 0; j < y.cols; ++j) y(to, j) = select(here, a(i, j), y(to, j));
      }
    }
  }

  const calls::FormulaCall& call_;
  M value_[GD_MOST_STEPS + calls::FormulaCall::kMostIn];
};

}  // namespace gradus::linalg
