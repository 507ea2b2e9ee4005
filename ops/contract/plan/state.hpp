// A network while it is being contracted: what tensors are left, what they hold, and what the steps
// so far cost. The searches that make pairs one after another, simplify and greedy, stand on it.
#pragma once
#include "ops/contract/plan/network.hpp"

#include <limits>

namespace gradus::inline v1::plan {

struct State {
  // Labels of extent 1 are left out: they change nothing.
  explicit State(const Network& network)
      : tensors(network.tensors),
        alive(tensors.size(), 1),
        log2_extent(network.log2_extent),
        uses(network.open.begin(), network.open.end()) {
    tensors.reserve(2 * tensors.size());
    for (LabelSet& t : tensors) {
      std::erase_if(t, [&](int l) { return !(log2_extent[size_t(l)] > 0); });
      log2_size.push_back(size_of(t));
      for (int l : t) ++uses[size_t(l)];
    }
  }
  double size_of(const LabelSet& labels) const {
    double size = 0;
    for (int l : labels) size += log2_extent[size_t(l)];
    return size;
  }
  // Contracts two tensors that are alive and returns the number of the result. Tensors that are
  // gone keep no labels.
  int contract(int a, int b) {
    const LabelSet x = std::move(tensors[size_t(a)]), y = std::move(tensors[size_t(b)]);
    tensors[size_t(a)].clear();
    tensors[size_t(b)].clear();
    LabelSet result;
    double work = 0;
    for (size_t i = 0, j = 0; i < x.size() || j < y.size();) {
      const bool in_x = j == y.size() || (i < x.size() && x[i] <= y[j]);
      const bool in_y = i == x.size() || (j < y.size() && y[j] <= x[i]);
      const int l = in_x ? x[i] : y[j];
      i += in_x;
      j += in_y;
      work += log2_extent[size_t(l)];
      int& n = uses[size_t(l)];
      n -= in_x + in_y;
      if (n > 0) {
        ++n;
        result.push_back(l);
      }
    }
    log2_work = log2_add(log2_work, work);
    log2_size.push_back(size_of(result));
    alive[size_t(a)] = alive[size_t(b)] = 0;
    alive.push_back(1);
    tensors.push_back(std::move(result));
    path.emplace_back(std::min(a, b), std::max(a, b));
    return int(tensors.size()) - 1;
  }

  std::vector<LabelSet> tensors;  // by SSA number, as are the next two
  std::vector<char> alive;
  std::vector<double> log2_size;
  std::vector<double> log2_extent;  // by label
  std::vector<int> uses;            // by label: tensors alive that have it, and the output
  SsaPath path;
  double log2_work = -std::numeric_limits<double>::infinity();  // of the steps so far
};

}  // namespace gradus::plan
