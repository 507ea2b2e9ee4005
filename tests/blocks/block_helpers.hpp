// What tests of block tensors begin with: tensors filled by a rule, sums of dense ones, random
// ones.
#pragma once
#include "ops/blocks/contraction.hpp"
#include "tests/blocks/contraction_cases.hpp"
#include "tests/helpers/helpers.hpp"

#include <random>

namespace gradus::inline v1::test {

inline Labels labels_of(const char* text) {
  Labels l;
  for (; *text; ++text) l.push_back(*text);
  return l;
}

inline BlockStructure structure_of(const Ints& mods,
                                   const std::map<char, std::vector<Sector>>& legs, const Filled& f,
                                   const Ints& parity = {}) {
  const Symmetry g{mods, parity};
  Legs all;
  for (size_t i = 0; f.labels[i]; ++i)
    all.push_back(Leg(g, int(f.arrows[i]), legs.at(f.labels[i])));
  return BlockStructure(g, all, f.charge);
}

// Which element is allowed, said again by the rule alone: sum of arrow * charge = charge.
inline bool allowed(const BlockStructure& s, const Shape& index) {
  for (size_t c = 0; c < s.symmetry().mods.size(); ++c) {
    int64_t sum = -s.charge()[c];
    for (size_t i = 0; i < s.rank(); ++i) {
      int64_t left = index[i];
      size_t k = 0;
      while (left >= s.legs()[i].sectors()[k].size) left -= s.legs()[i].sectors()[k++].size;
      sum += s.legs()[i].arrow() * s.legs()[i].sectors()[k].charge[c];
    }
    const int64_t mod = s.symmetry().mods[c];
    if (mod ? sum % mod != 0 : sum != 0) return false;
  }
  return true;
}

// f(index, number in row-major order) for all elements of a shape.
template <class F>
void each_index(const Shape& sizes, F&& f) {
  Shape at(sizes.size(), 0);
  for (int64_t t = 0, n = numel_of(sizes); t < n; ++t) {
    f(at, t);
    for (size_t i = at.size(); i-- > 0 && ++at[i] == sizes[i];) at[i] = 0;
  }
}

inline Tensor filled_dense(const BlockStructure& s, const Fill& f) {
  std::vector<double> values;
  each_index(s.dense_sizes(), [&](const Shape& at, int64_t) {
    int64_t x = f.c;
    for (size_t i = 0; i < at.size(); ++i) x += f.k[i] * at[i];
    values.push_back(allowed(s, at) ? double(x % f.mod - f.shift) : 0);
  });
  return Tensor::from(values, s.dense_sizes());
}
inline BlockTensor filled(const BlockStructure& s, const Fill& f) {
  return from_dense(filled_dense(s, f), s);
}

inline void check_sums(const BlockTensor& x, const Sums& wanted) {
  const std::vector<double> v = testing::values(to_dense(x));
  int64_t plain = 0, squares = 0, weighted = 0;
  for (size_t t = 0; t < v.size(); ++t) {
    const auto n = int64_t(v[t]);
    plain += n;
    squares += n * n;
    weighted += n * int64_t((7 * t + 3) % 101);
  }
  CHECK(plain == wanted.plain);
  CHECK(squares == wanted.squares);
  CHECK(weighted == wanted.weighted);
}

// Whole numbers, so that sums are exact in any order.
inline BlockTensor random_blocks(const BlockStructure& s, std::mt19937& gen, DType dtype) {
  std::vector<double> values;
  const int64_t n = s.elements() * (is_complex(dtype) ? 2 : 1);
  for (int64_t i = 0; i < n; ++i) values.push_back(double(int(gen() % 9)) - 4);
  Tensor x = Tensor::from(values, {n});
  if (is_complex(dtype)) {
    std::vector<c128> z;
    for (int64_t i = 0; i < n; i += 2) z.push_back({values[size_t(i)], values[size_t(i) + 1]});
    x = Tensor::from(z, {s.elements()});
  }
  return {cast(x, dtype), s};
}

}  // namespace gradus::test
