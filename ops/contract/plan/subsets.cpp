#include "ops/contract/plan/subsets.hpp"

namespace gradus::inline v1::plan {

bool Subsets::read(const Network& part) {
  k_ = int(part.tensors.size());
  time_ = part.time;
  const size_t labels = part.log2_extent.size(), subsets = size_t(1) << k_;
  std::vector<Mask> holders(labels, 0);
  for (int t = 0; t < k_; ++t)
    for (int l : part.tensors[size_t(t)]) holders[size_t(l)] |= Mask(1) << t;
  shared_.clear();
  degree_.assign(size_t(k_), 0);
  alone_.assign(size_t(k_), 0);
  edge_.assign(size_t(k_ * k_), 0);
  for (size_t l = 0; l < labels; ++l) {
    const Mask m = holders[l];
    const double extent = part.log2_extent[l];
    const int count = __builtin_popcount(m);
    if (!m || extent == 0) continue;
    const int i = __builtin_ctz(m);
    if (count + (part.open[l] ? 1 : 0) > 2) {
      const auto same = std::find_if(shared_.begin(), shared_.end(), [&](const Shared& s) {
        return s.holders == m && s.open == (part.open[l] != 0);
      });
      if (same != shared_.end())
        same->extent += extent;
      else
        shared_.push_back({m, part.open[l] != 0, extent});
    } else if (count == 1) {
      degree_[size_t(i)] += extent;
      if (!part.open[l]) {
        lone_.push_back({i, extent});
        alone_[size_t(i)] += extent;
      }
    } else {
      const int j = 31 - __builtin_clz(m);
      degree_[size_t(i)] += extent;
      degree_[size_t(j)] += extent;
      edge_[size_t(i * k_ + j)] += extent;
      edge_[size_t(j * k_ + i)] += extent;
    }
  }
  if (shared_.size() > kMaxShared) return lone_.clear(), false;
  sizes(subsets);
  return true;
}

bool Subsets::solve(double bar, double* splits) {
  const size_t subsets = size_t(1) << k_;
  cost_.assign(subsets, 1 - 1e-6);  // in units of 2^bar: nothing dearer is of use
  split_.assign(subsets, 0);
  for (int i = 0; i < k_; ++i) cost_[size_t(1) << i] = 0;
  for (Mask s = 3; s < subsets; ++s) {
    if (!(s & (s - 1))) continue;
    const Mask low = s & (~s + 1), rest = s ^ low;
    double best = cost_[s];
    for (Mask sub = (rest - 1) & rest;; sub = (sub - 1) & rest) {
      const Mask one = sub | low, two = s ^ one;
      const double below = cost_[one] + cost_[two];
      if (below < best) {
        double work = size_[one] + size_[two] + size_[s];
        if (!shared_.empty()) work -= weigh(alive_[one] & alive_[two] & alive_[s]);
        work = work / 2;
        if (time_) work = time_->log2_seconds(held(one), held(two), size_[s], work);
        work -= bar;
        if (work < 0) {
          const double total = below + std::exp2(work);
          if (total < best) {
            best = total;
            split_[s] = one;
          }
        }
      }
      if (sub == 0) break;
    }
    cost_[s] = best;
  }
  *splits = std::pow(3.0, k_) / 2;
  return split_[subsets - 1] != 0;
}

SsaPath Subsets::order() const {
  SsaPath path;
  grow((Mask(1) << k_) - 1, &path);
  return path;
}

void Subsets::sizes(size_t subsets) {
  size_.assign(subsets, 0);
  alive_.assign(subsets, 0);
  for (Mask s = 1; s < subsets; ++s) {
    const int i = __builtin_ctz(s);
    const Mask rest = s & (s - 1);
    double common = 0;
    for (Mask r = rest; r; r &= r - 1) common += edge_[size_t(i * k_ + __builtin_ctz(r))];
    size_[s] = size_[rest] + degree_[size_t(i)] - 2 * common;
  }
  // What only one tensor has leaves with its first step.
  for (const Lone& lone : lone_)
    for (Mask s = 1; s < subsets; ++s)
      if (s >> lone.tensor & 1)
        size_[s] += s == Mask(1) << lone.tensor ? lone.extent : -lone.extent;
  lone_.clear();
  for (size_t h = 0; h < shared_.size(); ++h) {
    const Shared& label = shared_[h];
    for (Mask s = 1; s < subsets; ++s) {
      if (!(s & label.holders) || (!label.open && !(label.holders & ~s))) continue;
      alive_[s] |= uint64_t(1) << h;
      size_[s] += label.extent;
    }
  }
}
double Subsets::held(Mask s) const {
  return s & (s - 1) ? size_[s] : size_[s] - alone_[size_t(__builtin_ctz(s))];
}
double Subsets::weigh(uint64_t set) const {
  double sum = 0;
  for (; set; set &= set - 1) sum += shared_[size_t(__builtin_ctzll(set))].extent;
  return sum;
}
int Subsets::grow(Mask s, SsaPath* path) const {
  if (!(s & (s - 1))) return __builtin_ctz(s);
  const int a = grow(split_[s], path), b = grow(s ^ split_[s], path);
  path->emplace_back(a, b);
  return k_ + int(path->size()) - 1;
}

SsaPath order_by_subsets(const Network& network) {
  Subsets subsets;
  if (network.tensors.size() < 2 || !subsets.read(network)) return {};
  double all = 0;  // no step costs more than all labels together
  for (const double extent : network.log2_extent) all += extent;
  if (network.time) all = network.time->log2_seconds(all, all, all, all);
  double splits = 0;
  subsets.solve(all + std::log2(double(network.tensors.size())) + 1, &splits);
  return subsets.order();
}

}  // namespace gradus::plan
