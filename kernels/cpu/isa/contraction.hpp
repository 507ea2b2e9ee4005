// A contraction after its axes have been sorted by role: out[b, m, n] = sum_k a[b, m, k] c[b, n,
// k], each of the four an index over any number of axes with any strides. An axis of out that only
// a has (or that nobody has) is an m, one that only b has an n, one that both have a batch axis;
// what is summed is k, in its given order, which is the order of the sum. Axes of size 1 belong to
// nobody.
#pragma once
#include "kernels/cpu/call.hpp"

namespace gradus::cpu {

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
  // Offsets of elements start .. start + n - 1 in row-major order.
  void offsets(int role, int64_t start, int64_t n, int64_t* to) const {
    if (rank == 0 || n == 0) {
      for (int64_t i = 0; i < n; ++i) to[i] = 0;
      return;
    }
    int64_t index[kMaxRank], at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      index[d] = start % size[d];
      start /= size[d];
      at += index[d] * stride[role][d];
    }
    const int last = rank - 1;
    const int64_t step = stride[role][last];
    for (int64_t i = 0; i < n;) {
      for (; i < n && index[last] < size[last]; ++index[last], at += step) to[i++] = at;
      for (int d = last; d > 0 && index[d] == size[d]; --d) {
        at += stride[role][d - 1] - size[d] * stride[role][d];
        index[d] = 0;
        ++index[d - 1];
      }
    }
  }
  int64_t offset(int role, int64_t i) const {
    int64_t at;
    offsets(role, i, 1, &at);
    return at;
  }
};

struct Contraction {
  Axes m, n, batch, k;
  void* data[kRoles] = {};  // first elements; NULL: no bias, no winners
  int32_t dtype = 0, algebra = 0;
  bool conj_a = false, conj_b = false;
  c128 alpha, beta;

  template <class T>
  T* start(Role r) const {
    return static_cast<T*>(data[r]);
  }
};

// The engines; each takes the dtypes and algebras that its file names.
gd_status contract_dot(gd_device*, const Contraction&, gd_error*);
gd_status contract_real(gd_device*, const Contraction&, gd_error*);
gd_status contract_complex(gd_device*, const Contraction&, gd_error*);
gd_status contract_integer(gd_device*, const Contraction&, gd_error*);
gd_status contract_tropical(gd_device*, const Contraction&, gd_error*);

}  // namespace gradus::cpu
