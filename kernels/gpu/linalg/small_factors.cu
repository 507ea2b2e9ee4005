// Factors of small matrices: a block of threads has one in shared memory. Golub & Van Loan, Matrix
// Computations, 4th edition: Cholesky by outer products (4.2.5), LU with partial pivoting (3.4.1),
// Householder's QR (5.2.1) and its Q, from the last reflection backwards (5.1.6).
#include "kernels/gpu/linalg/small.hpp"

namespace gradus::inline v1::gpu {
namespace {

constexpr int kSolved = 16;  // columns of a right-hand side that a block solves

// info: the first pivot, counted from 1, that is not positive. Of a the lower triangle is read.
template <class T>
GPU_KERNEL small_cholesky(T* all, int64_t count, int n, int* info) {
  using R = real_of<T>;
  GPU_SHARED(T, a, kShortSide * (kShortSide + 1));
  const int pitch = n | 1;
  for (int64_t matrix = block(); matrix < count; matrix += blocks()) {
    T* const own = all + matrix * n * n;
    each_entry(0, n, 0, n, [&](int i, int j) { a[j * pitch + i] = own[j * n + i]; });
    barrier();
    int wrong = 0;
    for (int k = 0; k < n; ++k) {
      T* const column = a + k * pitch;
      const R pivot = w::real(column[k]);
      if (!(pivot > 0)) {
        wrong = k + 1;
        break;
      }
      const R root = w::sqrt(pivot);
      each_index(k + 1, n, [&](int i) { column[i] = over(column[i], root); });
      barrier();
      if (thread() == 0) column[k] = T(root);  // which nobody reads any more
      each_entry(k + 1, n, k + 1, n, [&](int i, int j) {
        if (i >= j) a[j * pitch + i] = a[j * pitch + i] - column[i] * conj_of(column[j]);
      });
      barrier();
    }
    each_entry(0, n, 0, n, [&](int i, int j) {
      if (i >= j) own[j * n + i] = a[j * pitch + i];
    });
    if (thread() == 0) info[matrix] = wrong;
    barrier();
  }
}

template <class R>
struct Pivot {
  R size;
  int row;
};

// LAPACK's exchanges, counted from 1; info: the first pivot that is 0.
template <class T>
GPU_KERNEL small_lu(T* all, int64_t count, int m, int n, int* pivots, int* info) {
  using R = real_of<T>;
  GPU_SHARED(T, a, kLongSide * (kShortSide + 1));  // (32, 48) needs more than (48, 32)
  const int pitch = m | 1, least = m < n ? m : n;
  for (int64_t matrix = block(); matrix < count; matrix += blocks()) {
    T* const own = all + matrix * m * n;
    each_entry(0, m, 0, n, [&](int i, int j) { a[j * pitch + i] = own[j * m + i]; });
    barrier();
    int wrong = 0;
    for (int k = 0; k < least; ++k) {
      T* const column = a + k * pitch;
      Pivot<R> best{R(-1), k};
      for (int i = k + lane_of_group(); i < m; i += kLanes)
        if (const R size = size_of(column[i]); size > best.size) best = {size, i};
      best = fold_lanes(best, [](Pivot<R> x, Pivot<R> y) {
        return y.size > x.size || (y.size == x.size && y.row < x.row) ? y : x;
      });
      barrier();  // all have found it
      if (best.row != k)
        each_index(0, n, [&](int j) {
          T &upper = a[j * pitch + k], &lower = a[j * pitch + best.row];
          const T kept = upper;
          upper = lower;
          lower = kept;
        });
      if (thread() == 0) pivots[matrix * least + k] = best.row + 1;
      barrier();
      const T pivot = column[k];
      if (pivot == T(R(0))) {  // there are zeros below it
        if (wrong == 0) wrong = k + 1;
        continue;
      }
      each_index(k + 1, m, [&](int i) { column[i] = column[i] / pivot; });
      barrier();
      each_entry(k + 1, m, k + 1, n, [&](int i, int j) {
        T* const other = a + j * pitch;
        other[i] = other[i] - column[i] * other[k];
      });
      barrier();
    }
    each_entry(0, m, 0, n, [&](int i, int j) { own[j * m + i] = a[j * pitch + i]; });
    if (thread() == 0) info[matrix] = wrong;
    barrier();
  }
}

// op(A) X = B in B's place by A's LU and exchanges. turned: 0 A, 1 A^T, 2 A^H.
template <class T>
GPU_KERNEL small_solve(const T* lu, const int* pivots, T* right, int64_t count, int n,
                       int64_t columns, int turned) {
  GPU_SHARED(T, a, kShortSide * (kShortSide + 1));
  GPU_SHARED(T, x, kSolved * (kShortSide + 1));
  GPU_SHARED(int, exchanges, kShortSide);
  const int pitch = n | 1;
  const int64_t tiles = (columns + kSolved - 1) / kSolved;
  for (int64_t task = block(); task < count * tiles; task += blocks()) {
    const int64_t matrix = task / tiles, first = task % tiles * kSolved;
    const int width = int(columns - first < kSolved ? columns - first : kSolved);
    const T* const own = lu + matrix * n * n;
    T* const b = right + (matrix * columns + first) * n;
    // a becomes op(A)
    each_entry(0, n, 0, n, [&](int i, int j) {
      const T e = own[j * n + i];
      a[turned ? i * pitch + j : j * pitch + i] = turned == 2 ? conj_of(e) : e;
    });
    each_entry(0, n, 0, width, [&](int i, int j) { x[j * pitch + i] = b[j * n + i]; });
    each_index(0, n, [&](int i) { exchanges[i] = pivots[matrix * n + i] - 1; });
    barrier();
    const auto exchange = [&] {
      each_index(0, width, [&](int j) {
        for (int step = 0; step < n; ++step) {
          const int i = turned ? n - 1 - step : step;
          T &one = x[j * pitch + i], &other = x[j * pitch + exchanges[i]];
          const T kept = one;
          one = other;
          other = kept;
        }
      });
      barrier();
    };
    const auto substitute = [&](bool forward, bool unit) {
      for (int step = 0; step < n; ++step) {
        const int k = forward ? step : n - 1 - step;
        if (!unit) {
          each_index(0, width,
                     [&](int j) { x[j * pitch + k] = x[j * pitch + k] / a[k * pitch + k]; });
          barrier();
        }
        each_entry(forward ? k + 1 : 0, forward ? n : k, 0, width, [&](int i, int j) {
          x[j * pitch + i] = x[j * pitch + i] - a[k * pitch + i] * x[j * pitch + k];
        });
        barrier();
      }
    };
    if (!turned) exchange();
    substitute(true, !turned);
    substitute(false, turned);
    if (turned) exchange();
    each_entry(0, n, 0, width, [&](int i, int j) { b[j * n + i] = x[j * pitch + i]; });
    barrier();
  }
}

// Columns [first, n) of c become H c or H^H c with H = 1 - tau v v^H, `by` tau or its conjugate and
// v = (1, tail) in rows [k, m): a group of lanes has a column.
template <class T>
__device__ inline void reflect_columns(T* c, int pitch, int m, int k, int first, int n,
                                       const T* tail, T by) {
  using R = real_of<T>;
  for (int begin = first; begin < n; begin += groups()) {  // whole waves at the folds
    const int j = begin + group();
    T* const x = c + j * pitch;
    T sum = T(R(0));
    for (int i = k + lane_of_group(); i < m && j < n; i += kLanes)
      sum = sum + (i == k ? x[i] : conj_of(tail[i]) * x[i]);
    sum = by * sum_of_lanes(sum);
    for (int i = k + lane_of_group(); i < m && j < n; i += kLanes)
      x[i] = x[i] - (i == k ? sum : tail[i] * sum);
  }
}

// As LAPACK's geqrf: R, the vectors of the reflections below it without their leading 1, tau.
template <class T>
GPU_KERNEL small_qr(T* all, int64_t count, int m, int n, T* tau) {
  using R = real_of<T>;
  GPU_SHARED(T, a, kLongSide * (kShortSide + 1));  // (32, 48) needs more than (48, 32)
  GPU_SHARED(R, room, kBlockThreads);
  const int pitch = m | 1, least = m < n ? m : n;
  for (int64_t matrix = block(); matrix < count; matrix += blocks()) {
    T* const own = all + matrix * m * n;
    each_entry(0, m, 0, n, [&](int i, int j) { a[j * pitch + i] = own[j * m + i]; });
    barrier();
    const int scaled = normalize_scale(a, pitch, m, n, room);
    for (int k = 0; k < least; ++k) {
      T* const column = a + k * pitch;
      R most = 0;
      for (int i = k + lane_of_group(); i < m; i += kLanes)
        if (const R size = size_of(column[i]); size > most) most = size;
      most = largest_of_lanes(most);
      // A power of two near the largest: squares neither overflow nor underflow.
      int power = 0;
      if (most > 0) frexp(most, &power);
      constexpr int kLeast = sizeof(R) == 4 ? -123 : -1019;
      power = power < kLeast ? kLeast : power;
      const R up = R(ldexp(R(1), -power));
      R sum = 0;
      for (int i = k + 1 + lane_of_group(); i < m; i += kLanes)
        sum += square_of(times(up, column[i]));
      sum = sum_of_lanes(sum);
      const T alpha = times(up, column[k]);
      barrier();  // all have read the column
      T factor = T(R(0));
      if (sum > 0 || w::imag(alpha) != 0) {
        const R length = w::sqrt(square_of(alpha) + sum);
        const R beta = -R(copysign(length, w::real(alpha)));
        factor = over(T(beta) - alpha, beta);
        const T by = T(R(1)) / (alpha - T(beta));
        each_index(k, m, [&](int i) {
          column[i] = i == k ? T(R(ldexp(beta, power))) : by * times(up, column[i]);
        });
      }
      if (thread() == 0) tau[matrix * least + k] = factor;
      barrier();
      if (factor != T(R(0))) reflect_columns(a, pitch, m, k, k + 1, n, column, conj_of(factor));
      barrier();
    }
    each_entry(0, m, 0, n, [&](int i, int j) {
      const T x = a[j * pitch + i];
      own[j * m + i] = i <= j ? scale_by_power(x, -scaled) : x;
    });
    barrier();
  }
}

// As LAPACK's orgqr: the first n columns of Q, from the vectors of k reflections in their place.
template <class T>
GPU_KERNEL small_q(T* all, int64_t count, int m, int n, int k, const T* tau) {
  using R = real_of<T>;
  GPU_SHARED(T, q, kLongSide * (kLongSide + 1));
  GPU_SHARED(T, factors, kShortSide);
  const int pitch = m | 1;
  for (int64_t matrix = block(); matrix < count; matrix += blocks()) {
    T* const own = all + matrix * m * n;
    each_entry(0, m, 0, n, [&](int i, int j) {
      q[j * pitch + i] = i > j && j < k ? own[j * m + i] : T(R(i == j));
    });
    each_index(0, k, [&](int i) { factors[i] = tau[matrix * k + i]; });
    barrier();
    for (int step = k - 1; step >= 0; --step) {
      T* const v = q + step * pitch;
      const T factor = factors[step];
      reflect_columns(q, pitch, m, step, step + 1, n, v, factor);
      barrier();
      each_index(step, m, [&](int i) { v[i] = i == step ? T(R(1)) - factor : -(factor * v[i]); });
      barrier();
    }
    each_entry(0, m, 0, n, [&](int i, int j) { own[j * m + i] = q[j * pitch + i]; });
    barrier();
  }
}

}  // namespace

template <class T>
void small_factor(const Run& run, const SolverStep& s) {
  using Step = SolverStep;
  T *const a = static_cast<T*>(s.a), *const tau = static_cast<T*>(s.tau);
  const int m = int(s.m), n = int(s.n);
  // Half the threads do for the smallest ones.
  const int threads = m <= kShortSide / 2 && n <= kShortSide / 2 ? 64 : 256;
  const auto launch = [&](int64_t tasks, auto function, auto... arguments) {
    run.grid(Threads::together, run.blocks_for(tasks, 1), threads, function, arguments...);
  };
  switch (s.function) {
    case Step::kPotrf:
      return launch(s.count, kernel<small_cholesky<T>>(), a, s.count, n, s.info);
    case Step::kGetrf:
      return launch(s.count, kernel<small_lu<T>>(), a, s.count, m, n, s.pivots, s.info);
    case Step::kGetrs:
      return launch(s.count * ((s.columns + kSolved - 1) / kSolved), kernel<small_solve<T>>(), a,
                    s.pivots, static_cast<T*>(s.b), s.count, n, s.columns, s.turned);
    case Step::kGeqrf:
      return launch(s.count, kernel<small_qr<T>>(), a, s.count, m, n, tau);
    default:
      return launch(s.count, kernel<small_q<T>>(), a, s.count, m, n, int(s.columns), tau);
  }
}

template void small_factor<float>(const Run&, const SolverStep&);
template void small_factor<double>(const Run&, const SolverStep&);
template void small_factor<c64>(const Run&, const SolverStep&);
template void small_factor<c128>(const Run&, const SolverStep&);

}  // namespace gradus::gpu
