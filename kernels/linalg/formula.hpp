// GD_FORMULA, step by step. An element E is a number, or a vector that holds the same entry of as
// many matrices as it has lanes; T is its number. Nothing here is blocked: matrices are small.
#pragma once
#include "kernels/call/checks.hpp"
#include "kernels/linalg/matrix.hpp"

namespace gradus::inline v1::linalg {

// A matrix by rows without gaps.
template <class E>
struct Small {
  E* data = nullptr;
  int rows = 0, cols = 0;

  E& operator()(int i, int j) const { return data[i * cols + j]; }
  int count() const { return rows * cols; }
};

// b becomes X of op(A) X = B with a triangular A, `turned` its transpose.
template <class M>
void solve_small_triangle(M a, bool upper, bool unit, bool turned, M b) {
  const int n = b.rows;
  const bool forward = upper == turned;
  for (int step = 0; step < n; ++step) {
    const int i = forward ? step : n - 1 - step;
    for (int k = forward ? 0 : i + 1; k < (forward ? i : n); ++k) {
      const auto by = turned ? a(k, i) : a(i, k);
      for (int j = 0; j < b.cols; ++j) b(i, j) -= by * b(k, j);
    }
    if (unit) continue;
    const auto pivot = a(i, i);
    for (int j = 0; j < b.cols; ++j) b(i, j) = b(i, j) / pivot;
  }
}

// For vectors, xsimd's own.
template <class T>
requires std::is_floating_point_v<T> T select(bool which, T x, T y) { return which ? x : y; }

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
    const int n = y.count();
    switch (s.code) {
      case GD_STEP_PRODUCT:
        return multiply(a, s.flags & 1, b, s.flags & 2, y);
      case GD_STEP_DIVIDED:
        std::copy_n(b.data, n, y.data);
        return solve_small_triangle(a, s.flags & 1, s.flags & 2, s.flags & 4, y);
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
      default:
        return rows_back(a, b, y);
    }
  }
  template <class F>
  static void each(M y, F&& f) {
    for (int i = 0; i < y.rows; ++i)
      for (int j = 0; j < y.cols; ++j) y(i, j) = f(i, j);
  }
  static void multiply(M a, bool turn_a, M b, bool turn_b, M y) {
    const int inner = turn_a ? a.rows : a.cols;
    if constexpr (std::is_same_v<E, T>)  // the same sums, of whole rows at a time
      if (!turn_b) {
        std::fill_n(y.data, y.count(), T(0));
        for (int i = 0; i < y.rows; ++i)
          for (int k = 0; k < inner; ++k)
            add_multiple(y.cols, turn_a ? a(k, i) : a(i, k), &b(k, 0), &y(i, 0));
        return;
      }
    const int a_row = turn_a ? 1 : a.cols, a_step = turn_a ? a.cols : 1;
    const int b_col = turn_b ? b.cols : 1, b_step = turn_b ? 1 : b.cols;
    for (int i = 0; i < y.rows; ++i)
      for (int j = 0; j < y.cols; ++j) {
        const E *x = a.data + i * a_row, *z = b.data + j * b_col;
        E sum(T(0));
        for (int k = 0; k < inner; ++k, x += a_step, z += b_step) sum += *x * *z;
        y(i, j) = sum;
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
  // A place that is none is left out: rows come from outside.
  static void rows_back(M a, M rows, M y) {
    constexpr int lanes = int(sizeof(E) / sizeof(T));
    std::fill_n(y.data, y.count(), E(T(0)));
    const auto number = [](M m, int i, int j, int lane) -> T& {
      return reinterpret_cast<T*>(&m(i, j))[lane];
    };
    for (int i = 0; i < a.rows; ++i)
      for (int lane = 0; lane < lanes; ++lane) {
        const T to = number(rows, 0, i, lane);
        if (!(to >= 0 && to < T(y.rows))) continue;
        for (int j = 0; j < y.cols; ++j) number(y, int(to), j, lane) = number(a, i, j, lane);
      }
  }

  const calls::FormulaCall& call_;
  M value_[GD_MOST_STEPS + 8];
};

}  // namespace gradus::linalg
