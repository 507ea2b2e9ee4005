// A contraction after its axes have been sorted by role: out[b, m, n] = sum_k a[b, m, k] c[b, n,
// k], each of the four an index over any number of axes with any strides. An axis of out that only
// a has (or that nobody has) is an m, one that only b has an n, one that both have a batch axis;
// what is summed is k, in its given order, which is the order of the sum. Axes of size 1 belong to
// nobody. It holds no addresses, so that it can be kept as the plan of a call.
#pragma once
#include "kernels/cpu/call.hpp"

#include <utility>

namespace gradus::inline v1::cpu {

enum Role { kA, kB, kOut, kBias, kWinner, kRoles };

// Axes of one kind; strides in elements, for each role.
struct Axes {
  int rank = 0;
  int64_t count = 1;
  int64_t size[kMaxRank];
  int64_t stride[kRoles][kMaxRank];

  void add(int64_t n, const int64_t (&s)[kRoles]) {
    for (int r = 0; r < kRoles; ++r) stride[r][rank] = s[r];
    size[rank++] = n;
    count *= n;
  }
  // Merges neighbours that every role steps through evenly.
  void merge() {
    int n = 0;
    for (int d = 0; d < rank; ++d) {
      bool even = n > 0;
      for (int r = 0; r < kRoles && even; ++r) even = stride[r][n - 1] == stride[r][d] * size[d];
      size[even ? n - 1 : n] = even ? size[n - 1] * size[d] : size[d];
      if (!even) ++n;
      for (int r = 0; r < kRoles; ++r) stride[r][n - 1] = stride[r][d];
    }
    rank = n;
  }
  void take(const Axes& from) {
    rank = from.rank;
    count = from.count;
    for (int d = 0; d < rank; ++d) {
      size[d] = from.size[d];
      for (int r = 0; r < kRoles; ++r) stride[r][d] = from.stride[r][d];
    }
  }
  // Brings axis d to place `to` beyond it.
  void move(int d, int to) {
    for (; d < to; ++d) {
      std::swap(size[d], size[d + 1]);
      for (int r = 0; r < kRoles; ++r) std::swap(stride[r][d], stride[r][d + 1]);
    }
  }
  // The axis along which a role has neighbours; else the last.
  int neighbours(int role) const {
    for (int d = rank - 1; d >= 0; --d)
      if (stride[role][d] == 1) return d;
    return rank - 1;
  }
  bool has_neighbours(int role) const { return rank > 0 && stride[role][neighbours(role)] == 1; }
  // Step from one element to the next, where there is one.
  bool even() const { return rank < 2; }
  int64_t step(int role) const { return rank == 0 ? 0 : stride[role][rank - 1]; }
  bool unit(int role) const { return rank == 0 || stride[role][rank - 1] == 1; }
  // Offsets of elements start .. start + n - 1 in row-major order.
  void offsets(int role, int64_t start, int64_t n, int64_t* to) const {
    if (rank < 2) {
      const int64_t by = step(role);
      for (int64_t i = 0; i < n; ++i) to[i] = (start + i) * by;
      return;
    }
    if (n == 0) return;
    int64_t index[kMaxRank], at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      index[d] = start % size[d];
      start /= size[d];
      at += index[d] * stride[role][d];
    }
    const int last = rank - 1;
    const int64_t by = stride[role][last];
    for (int64_t i = 0; i < n;) {
      for (; i < n && index[last] < size[last]; ++index[last], at += by) to[i++] = at;
      for (int d = last; d > 0 && index[d] == size[d]; --d) {
        at += stride[role][d - 1] - size[d] * stride[role][d];
        index[d] = 0;
        ++index[d - 1];
      }
    }
  }
  int64_t offset(int role, int64_t i) const {
    int64_t at = 0;
    for (int d = rank - 1; d > 0; --d) {
      at += i % size[d] * stride[role][d];
      i /= size[d];
    }
    return rank > 0 ? at + i * stride[role][0] : 0;
  }
};

// What a call says besides: addresses of first elements (NULL: no bias, no winners) and factors.
struct Operands {
  void* data[kRoles];
  c128 alpha, beta;

  template <class T>
  T* start(Role r) const {
    return static_cast<T*>(data[r]);
  }
  // The first element of batch element b; NULL as above.
  template <class T>
  T* start(Role r, const Axes& batch, int64_t b) const {
    return data[r] ? start<T>(r) + batch.offset(r, b) : nullptr;
  }
};

struct Contraction;
using Engine = gd_status (*)(gd_device*, const Contraction&, const Operands&, gd_error*);

// Rows of a matrix in tiles: some of so many rows, and some of one less.
struct RowTiles {
  int64_t rows = 1, tall = 1, low = 0;
  int64_t at(int64_t row) const { return row < tall * rows ? rows : rows - 1; }  // where one begins
};

// Two matrices with at most one axis of each kind, small enough to be multiplied without a plan.
struct SmallProduct {
  // Multiplications that are worth threads; and, where there is one, that are worth packing.
  static constexpr int64_t kForThreads = 1 << 19, kForOne = 1 << 22;
  explicit SmallProduct(int threads = 2) : most_work(threads == 1 ? kForOne : kForThreads) {}
  int64_t m = 1, n = 1, k = 1;
  int64_t a_m = 0, a_k = 0, b_k = 0, b_n = 0, out_m = 0, out_n = 0, bias_m = 0, bias_n = 0;
  int64_t most_work;
  RowTiles tiles[2];     // of one and of two vectors
  bool pack = false;     // columns of b are brought side by side
  bool swapped = false;  // a and b of the call have changed places
  void (*run)(const SmallProduct&, const Operands&) = nullptr;

  void swap() {
    std::swap(m, n);
    std::swap(a_k, b_k);
    std::swap(a_m, b_n);
    std::swap(out_m, out_n);
    std::swap(bias_m, bias_n);
    swapped = !swapped;
  }
};
// Is the call one? Only of calls that are whole and right: all others are told apart elsewhere.
bool small_product(const gd_call* c, SmallProduct& x);
// The same of sizes and strides, which they turn as they like: of matrices, of one row or column.
bool plan_small(SmallProduct& x, int32_t dtype);
bool plan_small_dot(SmallProduct& x, int32_t dtype);

struct Contraction {
  Axes m, n, batch, k;
  int32_t dtype = 0, algebra = 0;
  bool conj_a = false, conj_b = false;
  bool swapped = false;  // a and b of the call have changed places
  Engine run = nullptr;
  // Of the real engine: rows of a tile of one and of two vectors, operands that are read where they
  // lie, an out of even rows of neighbours, whether (and how) each batch element is small, and
  // whether it has few rows and columns in runs, or few columns and rows from anywhere.
  int64_t rows[2] = {1, 1};
  bool direct_a = false, direct_b = false, flat = false, small = false, few_rows = false,
       few_columns = false;
  SmallProduct product;
  int turned = -1;  // the axis of n along which b has its neighbours, if it is not that of out

  void swap() {
    Axes rows;
    rows.take(m);
    m.take(n);
    n.take(rows);
    std::swap(conj_a, conj_b);
    swapped = !swapped;
    for (Axes* axes : {&m, &n, &batch, &k})
      for (int d = 0; d < axes->rank; ++d) std::swap(axes->stride[kA][d], axes->stride[kB][d]);
  }
};

// m, n and batch axes as one index, sorted by the strides of out.
inline Axes output_axes(const Contraction& x) {
  Axes all;
  for (const Axes* axes : {&x.batch, &x.m, &x.n})
    for (int d = 0; d < axes->rank; ++d) {
      int64_t s[kRoles];
      for (int r = 0; r < kRoles; ++r) s[r] = axes->stride[r][d];
      all.add(axes->size[d], s);
    }
  auto reach = [&](int d) {
    return all.stride[kOut][d] < 0 ? -all.stride[kOut][d] : all.stride[kOut][d];
  };
  for (int d = 1; d < all.rank; ++d)
    for (int p = d; p > 0 && reach(p - 1) < reach(p); --p) {
      std::swap(all.size[p - 1], all.size[p]);
      for (int r = 0; r < kRoles; ++r) std::swap(all.stride[r][p - 1], all.stride[r][p]);
    }
  all.merge();
  return all;
}

// Each engine takes the dtypes and algebras that its file names: brings x into the order it likes
// and sets x.run.
void plan_dot(Contraction& x);
void plan_real(Contraction& x);
void plan_complex(Contraction& x);
void plan_integer(Contraction& x);
void plan_tropical(Contraction& x);

}  // namespace gradus::cpu
