// A network while it is being contracted: what tensors are left, what they hold, and what the steps
// so far cost. The searches that make pairs one after another, simplify and greedy, stand on it.
#pragma once
#include "engine/base/small_vector.hpp"
#include "ops/contract/plan/network.hpp"

#include <limits>
#include <utility>

namespace gradus::inline v1::plan {

struct State {
  // What is read of a label at a time lies side by side: in large networks each read is a miss.
  struct Label {
    double log2_extent;
    int uses;          // tensors alive that have it, and the output
    uint32_t holders;  // the exclusive or of their numbers + 1
  };

  // The labels of a tensor, sorted; those of most stand where it does.
  using Held = SmallVector<int, 4>;

  // Labels of extent 1 are left out: they change nothing.
  explicit State(const Network& network)
      : alive(network.tensors.size(), 1), labels(network.open.size()) {
    for (size_t l = 0; l < labels.size(); ++l)
      labels[l] = {network.log2_extent[l], network.open[l] != 0, 0};
    tensors.reserve(2 * network.tensors.size());
    for (size_t k = 0; k < network.tensors.size(); ++k) {
      Held& held = tensors.emplace_back();
      double size = 0;
      for (int l : network.tensors[k]) {
        Label& label = labels[size_t(l)];
        if (!(label.log2_extent > 0)) continue;
        held.push_back(l);
        size += label.log2_extent;
        ++label.uses;
        label.holders ^= uint32_t(k + 1);
      }
      log2_size.push_back(size);
    }
  }
  // The tensor other than k that has a label of two uses, -1 if that is the output.
  int other_than(int k, int label) const {
    return int(labels[size_t(label)].holders ^ uint32_t(k + 1)) - 1;
  }
  // Asks for the entries of labels that are read next: large networks do not fit into caches.
  void fetch(const Held& of) const {
    for (int l : of) __builtin_prefetch(&labels[size_t(l)]);
  }
  // Contracts two tensors that are alive and returns the number of the result. Tensors that are
  // gone keep no labels.
  int contract(int a, int b) {
    Held x = std::exchange(tensors[size_t(a)], {}), y = std::exchange(tensors[size_t(b)], {});
    fetch(x), fetch(y);
    const int id = int(tensors.size());
    result_.clear();
    double work = 0, size = 0;
    for (size_t i = 0, j = 0; i < x.size() || j < y.size();) {
      const bool in_x = j == y.size() || (i < x.size() && x[i] <= y[j]);
      const bool in_y = i == x.size() || (j < y.size() && y[j] <= x[i]);
      const int l = in_x ? x[i] : y[j];
      i += in_x;
      j += in_y;
      Label& label = labels[size_t(l)];
      work += label.log2_extent;
      label.uses -= in_x + in_y;
      label.holders ^= (in_x ? uint32_t(a + 1) : 0) ^ (in_y ? uint32_t(b + 1) : 0);
      if (label.uses > 0) {
        ++label.uses;
        label.holders ^= uint32_t(id + 1);
        size += label.log2_extent;
        result_.push_back(l);
      }
    }
    log2_work = log2_add(log2_work, work);
    log2_size.push_back(size);
    alive[size_t(a)] = alive[size_t(b)] = 0;
    alive.push_back(1);
    Held& kept = x.size() < y.size() ? y : x;  // large sets are not allocated anew
    kept.clear();
    kept.append(result_.data(), result_.size());
    tensors.push_back(std::move(kept));
    path.emplace_back(std::min(a, b), std::max(a, b));
    return id;
  }

  std::vector<Held> tensors;  // by SSA number, as are the next two
  std::vector<char> alive;
  std::vector<double> log2_size;
  std::vector<Label> labels;
  SsaPath path;
  double log2_work = -std::numeric_limits<double>::infinity();  // of the steps so far

 private:
  LabelSet result_;  // within contract()
};

}  // namespace gradus::plan
