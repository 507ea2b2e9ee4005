// Sugiyama's steps (Sugiyama, Tagawa, Toda 1981) in their plainest form; long edges get a dummy box
// in each layer they cross.
#include "ops/audit/show/graph_layout.hpp"

#include <algorithm>
#include <map>
#include <numeric>

namespace gradus::inline v1::audit {

namespace {

constexpr int kMostNodes = 60;  // of a group
constexpr size_t kMostGroups = 150;
constexpr double kLetter = 6.4, kPad = 8, kGapX = 18, kGapY = 26, kHeight = 34, kGradient = 62;
constexpr int kSweeps = 8;

bool drawn(const GraphView& v, const Source& s) {
  return s.kind == Source::Kind::leaf ||
         (s.kind == Source::Kind::constant && !v.constants[size_t(s.id)].number);
}

double width_of(const GraphView& v, const Source& s) {
  std::string name, type;
  if (s.kind == Source::Kind::node) {
    const Node& n = v.nodes[size_t(s.id)];
    name = join("%", s.id, " ", n.op->name);
    type = type_text(n.outputs[0]);
  } else {
    name = name_of(v, s);
    type = type_text(s.kind == Source::Kind::leaf ? v.leaves[size_t(s.id)].value
                                                  : v.constants[size_t(s.id)].value);
  }
  // In the page's right lane a leaf is called "∇ name".
  const size_t letters = name.size() + (s.kind == Source::Kind::leaf ? 2 : 0);
  return double(std::max(letters, type.size())) * kLetter + 2 * kPad +
         (s.kind == Source::Kind::node ? kGradient : 0);
}

std::vector<Group> by_module(const GraphView& v) {
  std::vector<Group> groups;
  if (v.nodes.empty() && !v.leaves.empty()) groups.emplace_back();  // backward of leaves
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const Node& n = v.nodes[i];
    if (groups.empty() || groups.back().path != n.path ||
        groups.back().last - groups.back().first >= kMostNodes) {
      Group g;
      g.path = n.path;
      g.first = g.last = int(i);
      groups.push_back(std::move(g));
    }
    groups.back().last = int(i) + 1;
  }
  return groups;
}

// Neighbours are joined while they are many and small.
void join_small(std::vector<Group>& groups) {
  while (groups.size() > kMostGroups) {
    std::vector<Group> joined;
    for (Group& g : groups) {
      if (!joined.empty() && (joined.size() + groups.size()) % 2 == 0 &&
          g.last - joined.back().first <= 2 * kMostNodes)
        joined.back().last = g.last;
      else
        joined.push_back(std::move(g));
    }
    if (joined.size() == groups.size()) break;
    groups = std::move(joined);
  }
}

void name(const GraphView& v, Group& g) {
  if (g.first == g.last) {
    g.name = "no op";
    return;
  }
  g.name = g.path.empty() ? join("%", g.first, " to %", g.last - 1) : g.path.back();
  const Node& last = v.nodes[size_t(g.last - 1)];
  if (!g.path.empty() && last.path != g.path)
    g.name += " to " + (last.path.empty() ? join("%", g.last - 1) : last.path.back());
}

// What is drawn of a graph: all of it, or what is left when trivial nodes are skipped.
class Drawn {
 public:
  Drawn(const GraphView& v, bool hide_trivial) : v_(v), hidden_(v.nodes.size()) {
    for (size_t i = 0; hide_trivial && i < v.nodes.size(); ++i) hidden_[i] = v.nodes[i].trivial();
    for (const Source& r : v.roots)
      if (r.kind == Source::Kind::node) hidden_[size_t(r.id)] = false;
  }
  bool hidden(int node) const { return hidden_[size_t(node)]; }
  // Where an operand comes from, past what is hidden.
  Source source(Source s) const {
    while (s.kind == Source::Kind::node && hidden_[size_t(s.id)])
      s = v_.nodes[size_t(s.id)].inputs.empty() ? Source() : v_.nodes[size_t(s.id)].inputs[0];
    return s;
  }

 private:
  const GraphView& v_;
  std::vector<bool> hidden_;
};

class Inside {
 public:
  // `used_later`: by node, is it an operand in a younger group?
  Inside(const GraphView& v, const Drawn& d, Group& g, const std::vector<bool>& used_later)
      : v_(v), d_(d), g_(g), used_later_(used_later) {}

  void run() {
    collect();
    if (items_.empty()) return;
    assign_layers();
    add_dummies();
    for (int sweep = 0; sweep < kSweeps; ++sweep) order(sweep % 2 == 0);
    place();
    finish();
  }

 private:
  struct Item {
    int layer = 0;
    double width = 4, x = 0;  // x: centre
    std::vector<int> up, down;
  };

  int add_box(const Source& s) {
    g_.boxes.push_back({s, 0, 0, width_of(v_, s), kHeight});
    items_.push_back({0, g_.boxes.back().width, 0, {}, {}});
    return int(items_.size()) - 1;
  }

  void collect() {
    std::map<std::pair<int, int>, int> inputs;  // kind, id
    for (size_t i = 0; g_.first == g_.last && i < v_.leaves.size(); ++i)
      add_box({Source::Kind::leaf, int(i), 0});
    for (int i = g_.first; i < g_.last; ++i) {
      if (d_.hidden(i)) continue;
      std::vector<Source> inputs_of;
      for (const Source& s : v_.nodes[size_t(i)].inputs) inputs_of.push_back(d_.source(s));
      std::vector<int> from;
      for (const Source& s : inputs_of) {
        if (s.kind == Source::Kind::node && s.id >= g_.first) {
          from.push_back(box_of_.at(s.id));
        } else if (drawn(v_, s)) {
          const auto key = std::pair(int(s.kind), s.id);
          if (!inputs.contains(key)) inputs[key] = add_box(s);
          from.push_back(inputs[key]);
        } else {
          from.push_back(-1);
        }
      }
      const int box = add_box({Source::Kind::node, i, 0});
      box_of_[i] = box;
      for (const Source& s : inputs_of)
        if (s.kind == Source::Kind::node && s.id < g_.first) g_.in.push_back({s.id, box, {}});
      if (used_later_[size_t(i)]) g_.out.push_back({i, box, {}});
      for (const int operand : from)
        if (operand >= 0) g_.wires.push_back({operand, box, {}});
    }
    real_ = items_.size();
  }

  void assign_layers() {
    // Wires come in the order of their targets: one pass gives the longest paths. Then leaves move
    // down to just above their first use.
    for (const Wire& w : g_.wires)
      items_[size_t(w.to)].layer =
          std::max(items_[size_t(w.to)].layer, items_[size_t(w.from)].layer + 1);
    std::map<int, int> first_use;
    for (const Wire& w : g_.wires)
      if (g_.boxes[size_t(w.from)].what.kind != Source::Kind::node) {
        const int above = items_[size_t(w.to)].layer - 1;
        const auto [at, fresh] = first_use.try_emplace(w.from, above);
        if (!fresh) at->second = std::min(at->second, above);
      }
    for (const auto& [box, layer] : first_use) items_[size_t(box)].layer = layer;
  }

  // A dummy in each layer from `first` to before `end`.
  std::vector<int> dummies(int first, int end) {
    std::vector<int> chain;
    for (int l = first; l < end; ++l) {
      items_.push_back({l, 4, 0, {}, {}});
      if (!chain.empty()) link(chain.back(), int(items_.size()) - 1);
      chain.push_back(int(items_.size()) - 1);
    }
    return chain;
  }
  void add_dummies() {
    int depth = 0;
    for (const Item& i : items_) depth = std::max(depth, i.layer + 1);
    const auto layer = [&](int item) { return items_[size_t(item)].layer; };
    for (const Wire& w : g_.wires) {
      chains_.push_back(dummies(layer(w.from) + 1, layer(w.to)));
      link(w.from, chains_.back().empty() ? w.to : chains_.back().front());
      if (!chains_.back().empty()) link(chains_.back().back(), w.to);
    }
    for (const Passage& p : g_.in) {
      chains_.push_back(dummies(0, layer(p.box)));
      if (!chains_.back().empty()) link(chains_.back().back(), p.box);
    }
    for (const Passage& p : g_.out) {
      chains_.push_back(dummies(layer(p.box) + 1, depth));
      if (!chains_.back().empty()) link(p.box, chains_.back().front());
    }
    for (size_t i = 0; i < items_.size(); ++i) {
      layers_.resize(std::max(layers_.size(), size_t(items_[i].layer) + 1));
      layers_[size_t(items_[i].layer)].push_back(int(i));
    }
    rank_.resize(items_.size());
    for (const auto& layer : layers_) number(layer);
  }
  void link(int above, int below) {
    items_[size_t(above)].down.push_back(below);
    items_[size_t(below)].up.push_back(above);
  }
  void number(const std::vector<int>& layer) {
    for (size_t i = 0; i < layer.size(); ++i) rank_[size_t(layer[i])] = double(i);
  }

  static double mean(const std::vector<int>& of, const std::vector<double>& value,
                     double otherwise) {
    if (of.empty()) return otherwise;
    double sum = 0;
    for (const int i : of) sum += value[size_t(i)];
    return sum / double(of.size());
  }

  void order(bool down) {
    std::vector<double> key(items_.size());
    for (size_t l = 0; l < layers_.size(); ++l) {
      auto& layer = layers_[down ? l : layers_.size() - 1 - l];
      for (const int i : layer)
        key[size_t(i)] =
            mean(down ? items_[size_t(i)].up : items_[size_t(i)].down, rank_, rank_[size_t(i)]);
      std::stable_sort(layer.begin(), layer.end(),
                       [&](int a, int b) { return key[size_t(a)] < key[size_t(b)]; });
      number(layer);
    }
  }

  // Each box under the middle of its neighbours, as far as those beside it allow.
  void place() {
    std::vector<double> x(items_.size(), 0);
    for (const auto& layer : layers_) settle(layer, x, std::vector<double>(items_.size(), 0));
    for (int sweep = 0; sweep < kSweeps; ++sweep)
      for (size_t l = 0; l < layers_.size(); ++l) {
        const auto& layer = layers_[sweep % 2 ? layers_.size() - 1 - l : l];
        std::vector<double> wish = x;
        for (const int i : layer) {
          std::vector<int> around = items_[size_t(i)].up;
          around.insert(around.end(), items_[size_t(i)].down.begin(), items_[size_t(i)].down.end());
          wish[size_t(i)] = mean(around, x, x[size_t(i)]);
        }
        settle(layer, x, wish);
      }
    for (size_t i = 0; i < items_.size(); ++i) items_[i].x = x[i];
  }
  void settle(const std::vector<int>& layer, std::vector<double>& x,
              const std::vector<double>& wish) const {
    double moved = 0, right = -1e18;
    for (const int i : layer) {
      const double half = items_[size_t(i)].width / 2;
      x[size_t(i)] = std::max(wish[size_t(i)], right + half);
      moved += x[size_t(i)] - wish[size_t(i)];
      right = x[size_t(i)] + half + kGapX;
    }
    for (const int i : layer) x[size_t(i)] -= moved / double(layer.size());
  }

  void finish() {
    double left = 1e18, right = -1e18;
    for (const Item& i : items_) {
      left = std::min(left, i.x - i.width / 2);
      right = std::max(right, i.x + i.width / 2);
    }
    const double title = double(g_.name.size()) * 7 + 40 - (right - left + 2 * kPad);
    left -= std::max(title, 0.0) / 2;
    right += std::max(title, 0.0) / 2;
    g_.width = right - left + 2 * kPad;
    g_.height = double(layers_.size()) * (kHeight + kGapY) - kGapY + 2 * kPad;
    const auto y = [](int layer) { return kPad + double(layer) * (kHeight + kGapY); };
    for (size_t i = 0; i < real_; ++i) {
      Box& b = g_.boxes[i];
      b.x = items_[i].x - left + kPad - b.width / 2;
      b.y = y(items_[i].layer);
    }
    size_t c = 0;
    const auto bend = [&](auto& wires) {
      for (auto& w : wires)
        for (const int d : chains_[c++]) {  // straight past the boxes of the layer
          const Item& i = items_[size_t(d)];
          w.bends.emplace_back(i.x - left + kPad, y(i.layer));
          w.bends.emplace_back(i.x - left + kPad, y(i.layer) + kHeight);
        }
    };
    bend(g_.wires);
    bend(g_.in);
    bend(g_.out);
  }

  const GraphView& v_;
  const Drawn& d_;
  Group& g_;
  const std::vector<bool>& used_later_;
  std::vector<Item> items_;
  size_t real_ = 0;
  std::map<int, int> box_of_;
  std::vector<std::vector<int>> layers_, chains_;
  std::vector<double> rank_;
};

// Two groups with the same text look the same: ops, types, attributes, and how they hang together.
std::string text_of(const GraphView& v, const Group& g) {
  std::string text;
  for (int i = g.first; i < g.last; ++i) {
    const Node& n = v.nodes[size_t(i)];
    text += n.op->name + "(";
    for (const Source& s : n.inputs) {
      if (s.kind == Source::Kind::node)
        text += s.id >= g.first ? join(s.id - g.first, ".", s.output)
                                : type_text(v.nodes[size_t(s.id)].outputs[size_t(s.output)]);
      else if (s.kind == Source::Kind::leaf)
        text += "leaf " + type_text(v.leaves[size_t(s.id)].value);
      else if (s.kind == Source::Kind::constant)
        text += "c " + type_text(v.constants[size_t(s.id)].value);
      text += ",";
    }
    for (const auto& [name, value] : n.attrs) text += name + "=" + value + ",";
    text += ")";
    for (const Value& y : n.outputs) text += type_text(y);
  }
  return text;
}

std::vector<Repeat> repeats_of(const GraphView& v, const std::vector<Group>& groups) {
  std::map<std::string, int> numbers;
  std::vector<int> kind;
  for (const Group& g : groups)
    kind.push_back(numbers.try_emplace(text_of(v, g), int(numbers.size())).first->second);
  const int n = int(kind.size());
  std::vector<Repeat> found;
  for (int i = 0; i < n;) {
    Repeat best{i, 1, 1};
    for (int p = 1; i + 2 * p <= n; ++p) {
      int end = i + p;
      while (end < n && kind[size_t(end)] == kind[size_t(end - p)]) ++end;
      const int count = (end - i) / p;
      if (count > 1 && p * count > best.period * best.count) best = {i, p, count};
    }
    if (best.count > 1) found.push_back(best);
    i += best.period * best.count;
  }
  return found;
}

}  // namespace

Layout lay_out(const GraphView& v, bool hide_trivial) {
  Layout layout{by_module(v), std::vector<int>(v.nodes.size()), {}};
  layout.repeats = repeats_of(v, layout.groups);
  size_t drawn_once = layout.groups.size();
  for (const Repeat& r : layout.repeats) drawn_once -= size_t(r.period * (r.count - 1));
  if (drawn_once > kMostGroups) {
    join_small(layout.groups);
    layout.repeats = repeats_of(v, layout.groups);
  }
  for (Group& g : layout.groups) name(v, g);
  for (size_t g = 0; g < layout.groups.size(); ++g)
    for (int i = layout.groups[g].first; i < layout.groups[g].last; ++i)
      layout.group_of[size_t(i)] = int(g);
  const Drawn drawn(v, hide_trivial);
  std::vector<bool> used_later(v.nodes.size());
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    if (drawn.hidden(int(i))) continue;
    for (const Source& operand : v.nodes[i].inputs) {
      const Source s = drawn.source(operand);
      if (s.kind == Source::Kind::node && layout.group_of[size_t(s.id)] != layout.group_of[i])
        used_later[size_t(s.id)] = true;
    }
  }
  for (Group& group : layout.groups) Inside(v, drawn, group, used_later).run();
  return layout;
}

}  // namespace gradus::audit
