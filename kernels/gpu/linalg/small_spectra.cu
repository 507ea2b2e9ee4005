// Spectra of small matrices by Jacobi's rotations: a block of threads has a matrix in shared
// memory, and n / 2 rotations of different columns are made at once, in the order of a tournament's
// rounds (Brent and Luk, SIAM J. Sci. Stat. Comput. 6, 1985). Hermitian ones from both sides (Golub
// & Van Loan, Matrix Computations, 4th edition, 8.5), the columns of others from the right until
// they are orthogonal (Hestenes's method, there 8.6.3).
#include "kernels/gpu/linalg/small.hpp"

namespace gradus::inline v1::gpu {
namespace {

constexpr int kMostSweeps = 30;  // 5 to 10 are usual
template <class R>
constexpr R kLeastNormal = R(sizeof(R) == 4 ? 0x1p-126 : 0x1p-1022);

struct Players {
  int p, q;  // p < q
};
// Players i of a round: in players - 1 rounds each of an even number meets each other once.
__device__ inline Players pair_of(int players, int round, int i) {
  const int last = players - 1;
  int p = round + i, q = round - i;
  if (p >= last) p -= last;
  if (q < 0) q += last;
  if (i == 0) q = last;
  return p < q ? Players{p, q} : Players{q, p};
}

// The columns c p - conj(g) q and g p + c q make (app, apq; conj(apq), aqq) diagonal: of the two
// ways the smaller angle. `shift` goes from app to aqq.
template <class T>
struct Rotation {
  real_of<T> c, shift;
  T g;
};
template <class T>
__device__ inline Rotation<T> rotation(real_of<T> app, real_of<T> aqq, T apq) {
  using R = real_of<T>;
  constexpr R kFar =
      R(sizeof(R) == 4 ? 0x1p30 : 0x1p60);  // has a square, beside which 1 is nothing
  const R size = w::cabs(apq), ratio = (aqq - app) / (2 * size), far = w::abs(ratio);
  const R t = R(copysign(1 / (far + (far < kFar ? w::sqrt(1 + far * far) : far)), ratio));
  const R c = 1 / w::sqrt(1 + t * t);
  return {c, t * size, times(c * t, over(apq, size))};
}
template <class T>
__device__ inline void rotate(Rotation<T> by, T& p, T& q) {
  const T kept = p;
  p = times(by.c, kept) - conj_of(by.g) * q;
  q = by.g * kept + times(by.c, q);
}

// A = V diag(w) V^H: w ascends, V takes A's place if it is wanted. The lower triangle is read.
template <class T>
GPU_KERNEL small_eigh(T* all, int64_t count, int n, real_of<T>* values, bool vectors, int* info) {
  using R = real_of<T>;
  GPU_SHARED(T, a, kShortSide * (kShortSide + 1));
  GPU_SHARED(T, v, kShortSide * (kShortSide + 1));
  GPU_SHARED(Rotation<T>, turns, kShortSide / 2);
  GPU_SHARED(R, room, kBlockThreads);
  GPU_SHARED(int, order, kShortSide);
  // An odd number gets a row and a column of zeros, which are never turned.
  const int size = n + n % 2, half = size / 2, pitch = size | 1;
  for (int64_t matrix = block(); matrix < count; matrix += blocks()) {
    T* const own = all + matrix * n * n;
    each_entry(0, size, 0, size, [&](int i, int j) {
      if (i >= j) {
        const T x = i < n ? own[j * n + i] : T(R(0));
        a[j * pitch + i] = x;
        if (i > j) a[i * pitch + j] = conj_of(x);
      }
      v[j * pitch + i] = T(R(i == j));
    });
    barrier();
    const int scaled = normalize_scale(a, pitch, size, size, room);
    // What all entries beside the diagonal together are then is less than a rounding error of A.
    constexpr R kSmall = kUnit<R> / 64;
    bool done = false;
    for (int sweep = 0; sweep <= kMostSweeps; ++sweep) {
      R mine = 0;
      each_entry(0, size, 0, size, [&](int i, int j) {
        const R beside = i < j ? size_of(a[j * pitch + i]) : R(0);
        if (beside > mine) mine = beside;
      });
      done = largest_of_threads(mine, room) <= kSmall;
      if (done) break;
      for (int round = 0; round < size - 1; ++round) {
        each_index(0, half, [&](int i) {
          const auto [p, q] = pair_of(size, round, i);
          const T apq = a[q * pitch + p];
          turns[i] = size_of(apq) <= kSmall
                         ? Rotation<T>{R(1), R(0), T(R(0))}
                         : rotation(w::real(a[p * pitch + p]), w::real(a[q * pitch + q]), apq);
        });
        barrier();
        // The four entries where the rows of a pair cross the columns of another are one thread's.
        each_entry<kShortSide / 2>(0, half, 0, half, [&](int i, int k) {
          const auto [p, q] = pair_of(size, round, i);
          const auto [r, s] = pair_of(size, round, k);
          T &pr = a[r * pitch + p], &ps = a[s * pitch + p], &qr = a[r * pitch + q],
            &qs = a[s * pitch + q];
          if (i == k) {
            const R shift = turns[i].shift;
            if (shift == 0) return;
            pr = T(w::real(pr) - shift);
            qs = T(w::real(qs) + shift);
            ps = qr = T(R(0));
            return;
          }
          T pr_ = pr, ps_ = ps, qr_ = qr, qs_ = qs;
          rotate(turns[k], pr_, ps_);
          rotate(turns[k], qr_, qs_);
          const Rotation<T> left{turns[i].c, R(0), conj_of(turns[i].g)};
          rotate(left, pr_, qr_);
          rotate(left, ps_, qs_);
          pr = pr_, ps = ps_, qr = qr_, qs = qs_;
        });
        if (vectors)
          each_entry(0, n, 0, half, [&](int i, int k) {
            const auto [p, q] = pair_of(size, round, k);
            rotate(turns[k], v[p * pitch + i], v[q * pitch + i]);
          });
        barrier();
      }
    }
    each_index(0, n, [&](int i) {
      const R value = w::real(a[i * pitch + i]);
      int place = 0;
      for (int j = 0; j < n; ++j) {
        const R other = w::real(a[j * pitch + j]);
        place += other < value || (other == value && j < i);
      }
      order[i] = place;
      values[matrix * n + place] = scale_by_power(value, -scaled);
    });
    if (thread() == 0) info[matrix] = !done;
    barrier();
    if (vectors)
      each_entry(0, n, 0, n, [&](int i, int j) { own[order[j] * n + i] = v[j * pitch + i]; });
    barrier();
  }
}

// Columns [begin, end) of u (m, end), in global memory: unit vectors orthogonal to all before. Of
// each the start is the unit vector that is farthest from those, from which they are taken away
// twice (Golub & Van Loan 5.2.7).
template <class T>
__device__ inline void complete_columns(T* u, int m, int begin, int end, T* x, T* parts,
                                        real_of<T>* lengths) {
  using R = real_of<T>;
  for (int j = begin; j < end; ++j) {
    each_index(0, m, [&](int i) {
      R sum = 0;
      for (int k = 0; k < j; ++k) sum += square_of(u[k * m + i]);
      lengths[i] = sum;
    });
    barrier();
    int best = 0;
    for (int i = 1; i < m; ++i)
      if (lengths[i] < lengths[best]) best = i;
    each_index(0, m, [&](int i) { x[i] = T(R(i == best)); });
    barrier();
    for (int again = 0; again < 2; ++again) {
      each_index(0, j, [&](int k) {
        T sum = T(R(0));
        for (int i = 0; i < m; ++i) sum = sum + conj_of(u[k * m + i]) * x[i];
        parts[k] = sum;
      });
      barrier();
      each_index(0, m, [&](int i) {
        T rest = x[i];
        for (int k = 0; k < j; ++k) rest = rest - u[k * m + i] * parts[k];
        x[i] = rest;
      });
      barrier();
    }
    R sum = 0;
    for (int i = lane_of_group(); i < m; i += kLanes) sum += square_of(x[i]);
    const R length = w::sqrt(sum_of_lanes(sum));
    each_index(0, m, [&](int i) { u[j * m + i] = over(x[i], length); });
    barrier();
  }
}

// A = U diag(s) Vh of (m, n), m >= n; s descends. u (m, columns) with columns n or m, and vh (n, n)
// are null if they are not wanted.
template <class T>
GPU_KERNEL small_svd(const T* all, int64_t count, int m, int n, real_of<T>* values, T* u_all,
                     int columns, T* vh_all, int* info) {
  using R = real_of<T>;
  GPU_SHARED(T, a, kShortSide * (kLongSide + 1));
  GPU_SHARED(T, v, kShortSide * (kShortSide + 1));
  GPU_SHARED(R, room, 4 * kShortSide);
  GPU_SHARED(R, lengths, kLongSide);
  GPU_SHARED(T, x, kLongSide);
  GPU_SHARED(T, parts, kLongSide);
  GPU_SHARED(int, order, kShortSide);
  const int pitch = m | 1, v_pitch = n | 1, players = n + n % 2;
  const R orthogonal = kUnit<R> * w::sqrt(R(m));
  for (int64_t matrix = block(); matrix < count; matrix += blocks()) {
    const T* const own = all + matrix * m * n;
    each_entry(0, m, 0, n, [&](int i, int j) { a[j * pitch + i] = own[j * m + i]; });
    each_entry(0, n, 0, n, [&](int i, int j) { v[j * v_pitch + i] = T(R(i == j)); });
    barrier();
    const int scaled = normalize_scale(a, pitch, m, n, room);
    bool done = n == 1;
    for (int sweep = 0; sweep < kMostSweeps && !done; ++sweep) {
      bool turned = false;
      for (int round = 0; round < players - 1; ++round) {
        // A group of lanes has a pair of columns.
        const auto [p, q] = pair_of(players, round, group() < players / 2 ? group() : 0);
        const bool here = group() < players / 2 && q < n;
        T *const left = a + p * pitch, *const right = a + q * pitch;
        R app = 0, aqq = 0;
        T apq = T(R(0));
        for (int i = lane_of_group(); i < m && here; i += kLanes) {
          const T l = left[i], r = right[i];
          app += square_of(l);
          aqq += square_of(r);
          apq = apq + conj_of(l) * r;
        }
        app = sum_of_lanes(app), aqq = sum_of_lanes(aqq), apq = sum_of_lanes(apq);
        // A column whose square has no digits counts as nothing.
        if (here && app > kLeastNormal<R> && aqq > kLeastNormal<R> &&
            w::cabs(apq) > orthogonal * w::sqrt(app) * w::sqrt(aqq)) {
          turned = true;
          const Rotation<T> by = rotation(app, aqq, apq);
          for (int i = lane_of_group(); i < m; i += kLanes) rotate(by, left[i], right[i]);
          for (int i = lane_of_group(); i < n && vh_all; i += kLanes)
            rotate(by, v[p * v_pitch + i], v[q * v_pitch + i]);
        }
        barrier();
      }
      done = largest_of_threads(R(turned), room) == 0;
    }
    for (int begin = 0; begin < n; begin += groups()) {  // whole waves at the folds
      const int j = begin + group();
      R sum = 0;
      for (int i = lane_of_group(); i < m && j < n; i += kLanes) sum += square_of(a[j * pitch + i]);
      sum = sum_of_lanes(sum);
      if (j < n && lane_of_group() == 0) lengths[j] = sum > kLeastNormal<R> ? w::sqrt(sum) : R(0);
    }
    barrier();
    int rank = 0;
    for (int j = 0; j < n; ++j) rank += lengths[j] > 0;
    each_index(0, n, [&](int i) {
      int place = 0;
      for (int j = 0; j < n; ++j)
        place += lengths[j] > lengths[i] || (lengths[j] == lengths[i] && j < i);
      order[i] = place;
      values[matrix * n + place] = scale_by_power(lengths[i], -scaled);
    });
    if (thread() == 0) info[matrix] = !done;
    barrier();
    if (u_all) {
      T *const u = u_all + matrix * m * columns, *const vh = vh_all + matrix * n * n;
      each_entry(0, m, 0, n, [&](int i, int j) {
        if (lengths[j] > 0) u[order[j] * m + i] = over(a[j * pitch + i], lengths[j]);
      });
      each_entry(0, n, 0, n,
                 [&](int i, int j) { vh[i * n + order[j]] = conj_of(v[j * v_pitch + i]); });
      barrier();
      complete_columns(u, m, rank, columns, x, parts, lengths);
    }
    barrier();
  }
}

}  // namespace

template <class T>
void small_spectrum(const Run& run, const SolverStep& s) {
  using R = real_of<T>;
  T* const a = static_cast<T*>(s.a);
  R* const values = static_cast<R*>(s.values);
  const int m = int(s.m), n = int(s.n);
  const int64_t blocks = run.blocks_for(s.count, 1);
  if (s.function == SolverStep::kSyevd)
    return run.grid(Threads::together, blocks, n <= kShortSide / 2 ? 64 : 256,
                    kernel<small_eigh<T>>(), a, s.count, n, values, s.vectors, s.info);
  // A group of lanes for each pair of columns.
  const int threads = ((n + 1) / 2 * kLanes + 31) / 32 * 32;
  run.grid(Threads::together, blocks, threads, kernel<small_svd<T>>(), a, s.count, m, n, values,
           s.vectors ? static_cast<T*>(s.u) : nullptr, int(s.full ? s.m : s.n),
           s.vectors ? static_cast<T*>(s.b) : nullptr, s.info);
}

template void small_spectrum<float>(const Run&, const SolverStep&);
template void small_spectrum<double>(const Run&, const SolverStep&);
template void small_spectrum<c64>(const Run&, const SolverStep&);
template void small_spectrum<c128>(const Run&, const SolverStep&);

}  // namespace gradus::gpu
