// Small einsums, and what each algebra makes of them by definition: a loop over all assignments.
#pragma once
#include "ops/contract/einsum.hpp"
#include "tests/helpers/helpers.hpp"

#include <functional>
#include <limits>
#include <map>

namespace gradus::inline v1::testing {

inline constexpr double kInf = std::numeric_limits<double>::infinity();

struct Definition {
  double zero, one;
  std::function<double(double, double)> sum, product;
};
inline Definition definition(Algebra algebra) {
  const auto add = [](double x, double y) { return x + y; };
  const auto times = [](double x, double y) { return x * y; };
  const auto max = [](double x, double y) { return std::max(x, y); };
  const auto min = [](double x, double y) { return std::min(x, y); };
  const auto log_add = [](double x, double y) {
    return std::max(x, y) == -kInf ? -kInf
                                   : std::max(x, y) + std::log1p(std::exp(-std::abs(x - y)));
  };
  switch (algebra) {
    case Algebra::max_plus:
      return {-kInf, 0, max, add};
    case Algebra::min_plus:
      return {kInf, 0, min, add};
    case Algebra::max_times:
      return {0, 1, max, times};
    case Algebra::min_times:
      return {kInf, 1, min, times};
    case Algebra::log_sum_exp:
      return {-kInf, 0, log_add, add};
    case Algebra::boolean:
      return {0, 1, max, min};
    default:
      return {0, 1, add, times};
  }
}

// Every value of every label once. `visit` hears the place in the output, the assignment and the
// product there.
using Assignment = std::map<int64_t, int64_t>;
inline void for_each_term(const EinsumPlan& plan, const std::vector<std::vector<double>>& in,
                          const Definition& d,
                          const std::function<void(size_t, const Assignment&, double)>& visit) {
  Assignment at;
  for (const auto& [label, n] : plan.sizes) {
    if (n == 0) return;
    at[label] = 0;
  }
  while (true) {
    double term = d.one;
    for (size_t k = 0; k < in.size(); ++k) {
      size_t place = 0;
      for (size_t i = 0; i < plan.terms[k].size(); ++i) {
        const int64_t n = plan.shapes[k][i];
        place = place * size_t(n) + size_t(n == 1 ? 0 : at[plan.terms[k][i]]);
      }
      term = d.product(term, in[k][place]);
    }
    size_t place = 0;
    for (int64_t label : plan.output)
      place = place * size_t(plan.sizes.at(label)) + size_t(at[label]);
    visit(place, at, term);
    auto l = at.begin();
    while (l != at.end() && ++l->second == plan.sizes.at(l->first)) l++->second = 0;
    if (l == at.end()) return;
  }
}
inline std::vector<double> naive(const EinsumPlan& plan, const std::vector<std::vector<double>>& in,
                                 const Definition& d) {
  size_t count = 1;
  for (int64_t label : plan.output) count *= size_t(plan.sizes.at(label));
  std::vector<double> y(count, d.zero);
  for_each_term(plan, in, d, [&](size_t place, const Assignment&, double term) {
    y[place] = d.sum(y[place], term);
  });
  return y;
}

struct Network {
  const char* equation;
  std::vector<Shape> shapes;
};
inline const std::vector<Network>& networks() {
  static const std::vector<Network> list{
      {"ij,jk->ik", {{3, 4}, {4, 5}}},
      {"ij,jk,kl->il", {{2, 3}, {3, 4}, {4, 3}}},
      {"ii,i->", {{4, 4}, {4}}},
      {"i,j->", {{3}, {4}}},
      {"i,j->j", {{3}, {4}}},
      {"ij->j", {{3, 4}}},
      {"ij->", {{3, 4}}},
      {"ij->ji", {{3, 4}}},
      {"ijk,kl,jl->i", {{2, 3, 4}, {4, 3}, {3, 3}}},
      {",i->i", {{}, {3}}},
      {"ab,cd->ad", {{2, 3}, {4, 2}}},
      {"ai,bi,ci->abc", {{2, 4}, {3, 4}, {2, 4}}},
      {"ij,ij->j", {{1, 4}, {3, 4}}},
      {"ij,jk->ik", {{2, 1}, {1, 3}}},
      {"ij,jk,k->i", {{2, 0}, {0, 3}, {3}}},
      {"ij,jk->ik", {{2, 3}, {3, 0}}},
      {"ij,jk,kl,lm->", {{2, 3}, {3, 2}, {2, 4}, {4, 2}}},
  };
  return list;
}
inline EinsumPlan plan_of(const Network& n, Algebra algebra) {
  PathOptions options;
  options.sum_alone = sums_alone(algebra);
  return plan_einsum(n.equation, n.shapes, options);
}
// Small whole numbers from `low` to 7, the same for ever.
inline std::vector<double> numbers(const Shape& shape, unsigned seed, int low) {
  std::vector<double> x(size_t(numel_of(shape)));
  for (double& value : x) {
    seed = seed * 1664525u + 1013904223u;
    value = low + int((seed >> 16) % unsigned(8 - low));
  }
  return x;
}
inline std::vector<std::vector<double>> draw(const Network& n, unsigned seed, int low) {
  std::vector<std::vector<double>> all;
  for (const Shape& shape : n.shapes) all.push_back(numbers(shape, seed += 7, low));
  return all;
}
inline Tensors tensors(const Network& n, const std::vector<std::vector<double>>& in, DType dtype) {
  Tensors out;
  for (size_t k = 0; k < in.size(); ++k)
    out.push_back(cast(Tensor::from(in[k], n.shapes[k]), dtype));
  return out;
}

inline constexpr Algebra kTropical[] = {Algebra::max_plus, Algebra::min_plus, Algebra::max_times,
                                        Algebra::min_times};

}  // namespace gradus::testing
