#include "ops/contract/plan/tree.hpp"

#include <iterator>
#include <limits>

namespace gradus::inline v1::plan {

Tree tree_of(const Network& network, const SsaPath& path) {
  const size_t n = network.tensors.size();
  Tree t;
  t.leaves = int(n);
  t.left.assign(n + path.size(), -1);
  t.right.assign(n + path.size(), -1);
  t.work.assign(n + path.size(), -std::numeric_limits<double>::infinity());
  t.labels = network.tensors;
  t.labels.resize(n + path.size());
  // Who has the label still: tensors, and the output as one more.
  std::vector<int> holders(network.open.begin(), network.open.end());
  for (const LabelSet& set : network.tensors)
    for (int l : set) ++holders[size_t(l)];
  LabelSet touched;
  for (size_t i = 0; i < path.size(); ++i) {
    const auto [a, b] = path[i];
    const LabelSet &la = t.labels[size_t(a)], &lb = t.labels[size_t(b)];
    touched.clear();
    std::set_intersection(la.begin(), la.end(), lb.begin(), lb.end(), std::back_inserter(touched));
    for (int l : touched) --holders[size_t(l)];
    touched.clear();
    std::set_union(la.begin(), la.end(), lb.begin(), lb.end(), std::back_inserter(touched));
    double work = 0;
    LabelSet kept;
    for (int l : touched) {
      work += network.log2_extent[size_t(l)];
      if (holders[size_t(l)] > 1) kept.push_back(l);
    }
    if (network.time)
      work = network.time->log2_seconds(network.log2_size(la), network.log2_size(lb),
                                        network.log2_size(kept), work);
    t.left[n + i] = a;
    t.right[n + i] = b;
    t.work[n + i] = work;
    t.labels[n + i] = std::move(kept);
  }
  return t;
}

SsaPath path_of(const Tree& tree) {
  SsaPath path;
  if (tree.leaves < 2) return path;
  path.reserve(size_t(tree.leaves - 1));
  std::vector<int> name(size_t(tree.nodes()), -1);  // the number in the path
  for (int i = 0; i < tree.leaves; ++i) name[size_t(i)] = i;
  std::vector<int> stack = {tree.root()};
  while (!stack.empty()) {
    const size_t node = size_t(stack.back());
    const size_t l = size_t(tree.left[node]), r = size_t(tree.right[node]);
    if (name[l] >= 0 && name[r] >= 0) {
      name[node] = tree.leaves + int(path.size());
      path.emplace_back(name[l], name[r]);
      stack.pop_back();
    } else {
      if (name[r] < 0) stack.push_back(int(r));
      if (name[l] < 0) stack.push_back(int(l));
    }
  }
  return path;
}

double log2_total(const std::vector<double>& work) {
  double top = -std::numeric_limits<double>::infinity();
  for (double w : work) top = std::max(top, w);
  if (std::isinf(top)) return top;
  double sum = 0;
  for (double w : work)
    if (w > top - 60) sum += std::exp2(w - top);
  return top + std::log2(sum);
}

Piece piece_below(const Tree& tree, int top, int size, Random* random) {
  Piece piece;
  std::vector<int> queue = {top};  // can be opened
  size_t first = 0;
  int leaves = 1;
  while (first < queue.size() && leaves < size) {
    if (random)
      std::swap(queue[first], queue[first + size_t(random->below(int(queue.size() - first)))]);
    const size_t node = size_t(queue[first++]);
    piece.inner.push_back(int(node));
    for (int child : {tree.left[node], tree.right[node]})
      (tree.is_leaf(child) ? piece.tensors : queue).push_back(child);
    ++leaves;
  }
  piece.tensors.insert(piece.tensors.end(), queue.begin() + int64_t(first), queue.end());
  return piece;
}

Network network_of(const Network& network, const Tree& tree, const Piece& piece, LabelSet* names) {
  Network part;
  names->clear();
  for (int t : piece.tensors)
    names->insert(names->end(), tree.labels[size_t(t)].begin(), tree.labels[size_t(t)].end());
  std::sort(names->begin(), names->end());
  names->erase(std::unique(names->begin(), names->end()), names->end());
  const auto local = [&](const LabelSet& set) {
    LabelSet out;
    out.reserve(set.size());
    size_t i = 0;
    for (int l : set) {
      i = size_t(std::lower_bound(names->begin() + int64_t(i), names->end(), l) - names->begin());
      out.push_back(int(i));
    }
    return out;
  };
  for (int t : piece.tensors) part.tensors.push_back(local(tree.labels[size_t(t)]));
  for (int l : *names) part.log2_extent.push_back(network.log2_extent[size_t(l)]);
  part.open.assign(names->size(), 0);
  for (int l : local(tree.labels[size_t(piece.inner.front())])) part.open[size_t(l)] = 1;
  part.time = network.time;
  return part;
}

SsaPath order_of(const Tree& tree, const Piece& piece) {
  const int n = int(piece.tensors.size());
  std::vector<std::pair<int, int>> names;  // node, its number in the order
  for (int i = 0; i < n; ++i) names.emplace_back(piece.tensors[size_t(i)], i);
  for (int i = 0; i + 1 < n; ++i) names.emplace_back(piece.inner[size_t(i)], 2 * n - 2 - i);
  std::sort(names.begin(), names.end());
  const auto name = [&](int node) {
    return std::lower_bound(names.begin(), names.end(), std::pair(node, 0))->second;
  };
  SsaPath order;
  for (int i = n - 2; i >= 0; --i) {
    const size_t node = size_t(piece.inner[size_t(i)]);
    order.emplace_back(name(tree.left[node]), name(tree.right[node]));
  }
  return order;
}

void replant(Tree* tree, const Piece& piece, const Network& part, const LabelSet& names,
             const SsaPath& order) {
  const Tree grown = tree_of(part, order);
  const int n = grown.leaves;
  // The piece's top stays on top; the rest of its inner nodes are dealt out.
  const auto place = [&](int node) {
    return size_t(node < n ? piece.tensors[size_t(node)] : piece.inner[size_t(2 * n - 2 - node)]);
  };
  for (int i = n; i < grown.nodes(); ++i) {
    const size_t to = place(i);
    tree->left[to] = int(place(grown.left[size_t(i)]));
    tree->right[to] = int(place(grown.right[size_t(i)]));
    tree->work[to] = grown.work[size_t(i)];
    LabelSet set;
    for (int l : grown.labels[size_t(i)]) set.push_back(names[size_t(l)]);
    tree->labels[to] = std::move(set);
  }
}

}  // namespace gradus::plan
