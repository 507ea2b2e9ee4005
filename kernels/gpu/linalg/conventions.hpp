// Kernels that bring what a library gives to the conventions of ops/def/linalg.h. A block of
// threads has a column or a row to itself where the largest of its entries counts; sums and choices
// are made in a fixed order.
#pragma once
#include "kernels/gpu/linalg/numbers.hpp"

namespace gradus::inline v1::gpu {

inline constexpr int kColumnThreads = 128;

// Matrices (m, n) of a batch by columns, one after another; m and n may be 0.
struct MatrixBatch {
  int64_t count, m, n;
  GRADUS_HD int64_t size() const { return m * n; }
  GRADUS_HD int64_t elements() const { return count * size(); }
};
// What is wrong with each matrix of a batch.
struct Faults {
  int* not_finite;
  int* info;  // the library's
};
// Element (i, k) of matrix b is data[b * batch + i * down + k * by].
template <class T>
struct Columns {
  T* data;
  int64_t batch, down, by;
};

// ---- elements, one by one

GPU_MAY_RACE __device__ inline void raise(int* flag) { *flag = 1; }

// Which matrices have NaN or infinity?
template <class T>
GPU_KERNEL mark_not_finite(const T* a, MatrixBatch b, int* not_finite) {
  const int64_t size = b.size(), all = b.elements();
  for (int64_t e = first_index(); e < all; e += index_step())
    if (!is_finite(a[e])) raise(not_finite + e / size);
}

// Those become unit matrices, which any library ends with; of others the lower triangle becomes
// that of (A + A^H) / 2 if they are `hermitian`, and all is conjugated if they are `conjugate`.
template <class T>
GPU_KERNEL prepare_matrices(T* a, MatrixBatch b, const int* not_finite, bool hermitian,
                            bool conjugate) {
  const int64_t size = b.size(), all = b.elements();
  for (int64_t e = first_index(); e < all; e += index_step()) {
    const int64_t matrix = e / size, i = e % size % b.m, j = e % size / b.m;
    const real_of<T> half(0.5);
    if (not_finite[matrix])
      a[e] = T(real_of<T>(i == j));
    else if (hermitian && i == j)
      a[e] = T(w::real(a[e]));
    else if (hermitian && i > j)
      a[e] = times(half, a[e]) + times(half, conj_of(a[matrix * size + i * b.m + j]));
    else if (conjugate)
      a[e] = conj_of(a[e]);
  }
}

template <class T>
GPU_KERNEL fill_identity(T* a, MatrixBatch b) {
  const int64_t size = b.size(), all = b.elements();
  for (int64_t e = first_index(); e < all; e += index_step())
    a[e] = T(real_of<T>(e % size % b.m == e % size / b.m));
}

template <class T>
GPU_KERNEL conjugate_elements(T* a, MatrixBatch b) {
  const int64_t all = b.elements();
  for (int64_t e = first_index(); e < all; e += index_step()) a[e] = conj_of(a[e]);
}

// Square ones become their adjoints.
template <class T>
GPU_KERNEL turn_matrices(T* a, MatrixBatch b) {
  const int64_t size = b.size(), all = b.elements();
  for (int64_t e = first_index(); e < all; e += index_step()) {
    const int64_t i = e % size % b.m, j = e % size / b.m;
    T &lower = a[e], &upper = a[e - e % size + i * b.m + j];
    if (i < j) continue;
    const T kept = conj_of(lower);
    lower = conj_of(upper);
    upper = kept;
  }
}

// The other triangle becomes 0.
template <class T>
GPU_KERNEL keep_triangle(T* a, MatrixBatch b, bool lower) {
  const int64_t size = b.size(), all = b.elements();
  for (int64_t e = first_index(); e < all; e += index_step()) {
    const int64_t i = e % size % b.m, j = e % size / b.m;
    if (lower ? i < j : i > j) a[e] = T(real_of<T>(0));
  }
}

// NaN where a matrix was not finite or, `by_info`, where the library gave it up.
template <class T>
GPU_KERNEL spoil_matrices(T* a, MatrixBatch b, Faults faults, bool by_info) {
  const int64_t size = b.size(), all = b.elements();
  for (int64_t e = first_index(); e < all; e += index_step()) {
    const int64_t matrix = e / size;
    if (faults.not_finite[matrix] || (by_info && faults.info[matrix] != 0))
      a[e] = not_a_number<T>();
  }
}

// info as the slot has it: -1, the library's, or 1 for any other than 0 if it is `only_one`.
static GPU_KERNEL write_info(Faults faults, int64_t count, bool only_one, int64_t* to) {
  for (int64_t k = first_index(); k < count; k += index_step()) {
    const int64_t info = faults.info[k];
    to[k] = faults.not_finite[k] ? -1 : only_one && info != 0 ? 1 : info;
  }
}

// q (m, columns) gets the columns of a that hold reflections, and 0 behind them.
template <class T>
GPU_KERNEL copy_reflections(const T* a, MatrixBatch b, int64_t reflections, T* q, int64_t columns) {
  const int64_t size = b.m * columns, all = b.count * size;
  for (int64_t e = first_index(); e < all; e += index_step()) {
    const int64_t matrix = e / size, at = e % size;
    q[e] = at < b.m * reflections ? a[matrix * b.size() + at] : T(real_of<T>(0));
  }
}

// ---- matrices, one by one

// The order of rows, of LAPACK's exchanges.
static GPU_KERNEL order_rows(const int* pivots, MatrixBatch b, int64_t steps, int64_t* rows) {
  for (int64_t matrix = first_index(); matrix < b.count; matrix += index_step()) {
    int64_t* const r = rows + matrix * b.m;
    for (int64_t i = 0; i < b.m; ++i) r[i] = i;
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t other = pivots[matrix * steps + i] - 1, kept = r[i];
      r[i] = r[other];
      r[other] = kept;
    }
  }
}

// The product is kept as a number near 1 and an exponent, in double for all types.
template <class T>
GPU_KERNEL multiply_pivots(const T* lu, const int* pivots, MatrixBatch b, const int* not_finite,
                           T* value, T* sign, real_of<T>* log_size) {
  using R = real_of<T>;
  using Wide = std::conditional_t<is_complex_v<T>, c128, double>;
  for (int64_t matrix = first_index(); matrix < b.count; matrix += index_step()) {
    Wide product = Wide(1.0);
    int64_t exponent = 0;
    bool zero = false;
    for (int64_t i = 0; i < b.n && !zero; ++i) {
      const Wide pivot = Wide(lu[matrix * b.size() + i * b.m + i]);
      const double size = w::cabs(pivot);
      zero = size == 0;
      if (zero) break;
      int e;
      frexp(size, &e);
      if constexpr (is_complex_v<T>)
        product *= Wide(ldexp(pivot.re, -e), ldexp(pivot.im, -e));
      else
        product *= ldexp(pivot, -e);
      exponent += e;
      frexp(w::cabs(product), &e);
      product = times(ldexp(1.0, -e), product);
      exponent += e;
      if (pivots[matrix * b.n + i] != i + 1) product = -product;
    }
    if (not_finite[matrix]) {
      value[matrix] = sign[matrix] = not_a_number<T>();
      log_size[matrix] = not_a_number<R>();
    } else if (zero) {
      value[matrix] = sign[matrix] = T(R(0));
      log_size[matrix] = -R(INFINITY);
    } else {
      const double size = w::cabs(product);
      const int e = int(exponent < -20000 ? -20000 : exponent > 20000 ? 20000 : exponent);
      sign[matrix] = T(over(product, size));
      if constexpr (is_complex_v<T>)
        value[matrix] = T(Wide(ldexp(product.re, e), ldexp(product.im, e)));
      else
        value[matrix] = T(ldexp(product, e));
      log_size[matrix] = R(log(size) + double(exponent) * 0.69314718055994530942);
    }
  }
}

// ---- columns, a block of threads each

// The largest of what the threads bring; all of them call it together.
template <class R>
__device__ inline R largest_of_block(R mine, R* shared) {
  shared[thread()] = mine;
  barrier();
  for (int half = kColumnThreads / 2; half > 0; half /= 2) {
    if (thread() < half && shared[thread() + half] > shared[thread()])
      shared[thread()] = shared[thread() + half];
    barrier();
  }
  const R most = shared[0];
  barrier();
  return most;
}
template <class S>
__device__ inline S sum_of_block(S mine, S* shared) {
  shared[thread()] = mine;
  barrier();
  for (int half = kColumnThreads / 2; half > 0; half /= 2) {
    if (thread() < half) shared[thread()] += shared[thread() + half];
    barrier();
  }
  const S sum = shared[0];
  barrier();
  return sum;
}

// The phase that makes the largest of n entries real and positive: the first of those that are as
// large but for rounding. at(i) is entry i; *where is its place, -1 if all are 0.
template <class T, class F>
__device__ inline T phase_of_largest(int64_t n, F at, int64_t* where, real_of<T>* shared,
                                     int64_t* places) {
  using R = real_of<T>;
  R mine = 0;
  for (int64_t i = thread(); i < n; i += kColumnThreads) {
    const R size = w::cabs(at(i));
    if (size > mine) mine = size;
  }
  const R most = largest_of_block(mine, shared), enough = most * (1 - 256 * kUnit<R>);
  int64_t first = n;
  for (int64_t i = thread(); i < n && first == n; i += kColumnThreads)
    if (w::cabs(at(i)) >= enough) first = i;
  const int64_t found = -largest_of_block(-first, places);
  *where = most > 0 && found < n ? found : -1;
  T phase = T(R(1));
  if (*where >= 0) phase = over(conj_of(at(found)), w::cabs(at(found)));
  barrier();  // all have read before any writes
  return phase;
}

// The largest entry of column k < columns, of `length`, becomes real and positive; row k of
// `partner`, whose element j is at j * down + k * by, gets the conjugate phase.
template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    set_column_phases(Columns<T> c, int64_t count, int64_t columns, int64_t length,
                      Columns<T> partner, int64_t width) {
  GPU_SHARED(real_of<T>, shared, kColumnThreads);
  GPU_SHARED(int64_t, places, kColumnThreads);
  for (int64_t task = block(); task < count * columns; task += blocks()) {
    const int64_t matrix = task / columns, k = task % columns;
    T* const x = c.data + matrix * c.batch + k * c.by;
    int64_t where;
    const T phase = phase_of_largest<T>(
        length, [&](int64_t i) { return x[i * c.down]; }, &where, shared, places);
    if (where < 0) continue;
    for (int64_t i = thread(); i < length; i += kColumnThreads) {
      const T turned = x[i * c.down] * phase;
      x[i * c.down] = i == where ? T(w::real(turned)) : turned;
    }
    if (!partner.data) continue;
    T* const row = partner.data + matrix * partner.batch + k * partner.by;
    for (int64_t j = thread(); j < width; j += kColumnThreads)
      row[j * partner.down] = row[j * partner.down] * conj_of(phase);
  }
}

// R (m, n) gets a real diagonal, not negative if `positive`; q (m, columns) or null goes along.
template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    set_real_diagonal(T* r, MatrixBatch b, T* q, int64_t columns, int64_t steps, bool positive) {
  using R = real_of<T>;
  for (int64_t task = block(); task < b.count * steps; task += blocks()) {
    const int64_t matrix = task / steps, i = task % steps;
    T* const row = r + matrix * b.size() + i;
    const T pivot = row[i * b.m];
    const bool is_real = w::imag(pivot) == 0;
    barrier();
    if (is_real && !(positive && w::real(pivot) < 0)) continue;
    const T phase = is_real ? T(R(-1)) : over(conj_of(pivot), w::cabs(pivot));
    for (int64_t j = i + thread(); j < b.n; j += kColumnThreads) {
      const T turned = row[j * b.m] * phase;
      row[j * b.m] = j == i ? T(w::real(turned)) : turned;
    }
    if (!q) continue;
    T* const column = q + matrix * b.m * columns + i * b.m;
    for (int64_t j = thread(); j < b.m; j += kColumnThreads) column[j] = column[j] * conj_of(phase);
  }
}

// w in ascending order; the vectors, packed as LAPACK does for real ones, in the same order and of
// norm 1. vectors, v: null if they are not wanted.
template <class T>
__global__ void __launch_bounds__(kColumnThreads)
    order_eigenvectors(const Complex<real_of<T>>* w, const T* vectors, MatrixBatch b,
                       Complex<real_of<T>>* w_out, Complex<real_of<T>>* v) {
  using R = real_of<T>;
  using C = Complex<R>;
  GPU_SHARED(R, shared, kColumnThreads);
  GPU_SHARED(double, sums, kColumnThreads);
  GPU_SHARED(int64_t, places, kColumnThreads);
  const int64_t n = b.n;
  for (int64_t task = block(); task < b.count * n; task += blocks()) {
    const int64_t matrix = task / n, k = task % n;
    const C* const values = w + matrix * n;
    const C own = values[k];
    // How many go before it?
    int64_t before = 0;
    for (int64_t i = thread(); i < n; i += kColumnThreads) {
      const C x = values[i];
      before += x.re != own.re ? x.re < own.re : x.im != own.im ? x.im < own.im : i < k;
    }
    const int64_t place = sum_of_block(before, places);
    if (thread() == 0) w_out[matrix * n + place] = own;
    if (!v) continue;
    const T* const all = vectors + matrix * n * n;
    const auto entry = [&](int64_t i) -> C {
      if constexpr (is_complex_v<T>) {
        return all[k * n + i];
      } else {
        // Two columns are the parts of a vector whose number has an imaginary part above 0; the
        // next number is conjugate, and so is its vector.
        if (own.im == 0) return C(all[k * n + i]);
        return own.im > 0 ? C(all[k * n + i], k + 1 < n ? all[(k + 1) * n + i] : R(0))
                          : C(k > 0 ? all[(k - 1) * n + i] : R(0), -all[k * n + i]);
      }
    };
    int64_t where;
    const C phase = phase_of_largest<C>(n, entry, &where, shared, places);
    C* const to = v + (matrix * n + place) * n;
    const R most = where < 0 ? R(1) : w::cabs(entry(where));
    double sum = 0;
    for (int64_t i = thread(); i < n; i += kColumnThreads) {
      const C x = over(entry(i), most);
      sum += double(x.re) * double(x.re) + double(x.im) * double(x.im);
    }
    const R norm = R(sqrt(sum_of_block(sum, sums)));
    for (int64_t i = thread(); i < n; i += kColumnThreads) {
      const C x = over(over(entry(i), most) * phase, norm);
      to[i] = i == where ? C(x.re) : x;
    }
  }
}

// A thread for each of `all` elements, and a block for each of `tasks` columns.
template <class... P, class... A>
void each_element(const Run& run, int64_t all, void (*function)(P...), A&&... args) {
  if (all > 0)
    run.grid(Threads::apart, run.blocks_for(all, 256), 256, function, std::forward<A>(args)...);
}
template <class... P, class... A>
void each_block(const Run& run, int64_t tasks, void (*function)(P...), A&&... args) {
  if (tasks > 0)
    run.grid(Threads::together, run.blocks_for(tasks, 1), kColumnThreads, function,
             std::forward<A>(args)...);
}

}  // namespace gradus::gpu
