// A graph as lines of text, and for Graphviz.
#include "ops/audit/step/graph_view.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/def/fingerprint.hpp"

#include <algorithm>
#include <cstdio>
#include <map>
#include <sstream>

namespace gradus::inline v1::audit {

namespace {

constexpr size_t kLongestAttr = 40;

std::string attrs_text(const GraphCall& c) {
  std::string text;
  for (const auto& [key, value] : c.attrs)
    text += "; " + key + "=" +
            (value.size() > kLongestAttr ? value.substr(0, kLongestAttr - 3) + "..." : value);
  return text;
}

// The backward program, with names that say whose gradient a result is.
class Backward {
 public:
  explicit Backward(const GraphView& v) : v_(v) {}

  std::string text() {
    for (const BackwardStep& step : v_.steps) {
      for (const auto& [output, value] : step.cotangents)
        define(value, gradient({Source::Kind::node, step.node, output}));
      for (const BackwardStep::Delivery& d : step.deliveries)
        if (d.of == 1) define(d.value, gradient(d.to));
    }
    for (size_t i = 0; i < v_.leaf_gradients.size(); ++i)
      define(v_.leaf_gradients[i], gradient({Source::Kind::leaf, int(i), 0}));
    for (const BackwardStep& step : v_.steps) write(step);
    for (int i = v_.first_leaf_sum; i < int(v_.backward_calls.size()); ++i)
      line(i, i == v_.first_leaf_sum ? "gradients of leaves add up" : "");
    return text_;
  }

 private:
  std::string gradient(const Source& of) const { return "g:" + name_of(v_, of); }
  void define(const Source& value, const std::string& name) {
    if (value.kind == Source::Kind::call) names_.try_emplace({value.id, value.output}, name);
  }
  std::string name(const Source& s) const {
    if (s.kind != Source::Kind::call) return name_of(v_, s);
    const auto at = names_.find({s.id, s.output});
    return at == names_.end() ? name_of(v_, s) : at->second;
  }
  void line(int call, const std::string& note) {
    const GraphCall& c = v_.backward_calls[size_t(call)];
    std::string left;
    for (size_t i = 0; i < c.outputs.size(); ++i)
      left += (i ? ", " : "") + name({Source::Kind::call, call, int(i)}) + ":" +
              type_text(c.outputs[i]);
    std::string right = c.op->name + "(";
    for (size_t k = 0; k < c.inputs.size(); ++k) right += (k ? ", " : "") + name(c.inputs[k]);
    text_ += "  " + left + " = " + right + attrs_text(c) + ")" +
             (note.empty() ? "" : "   # " + note) + "\n";
  }
  bool seeds(const BackwardStep& step, int call) const {
    const std::vector<Source>& in = v_.backward_calls[size_t(step.first_call + call)].inputs;
    return in.size() == 1 && in[0].kind == Source::Kind::seed;
  }
  void write(const BackwardStep& step) {
    const Node& node = v_.nodes[size_t(step.node)];
    text_ += join("# ", node.step + 1, ": vjp of %", step.node, " ", node.op->name, "; ",
                  bytes_text(double(step.saved_bytes_left)), " of saved tensors left after it\n");
    for (const auto& [output, value] : step.cotangents)
      if (value.kind != Source::Kind::call)
        text_ +=
            "  " + gradient({Source::Kind::node, step.node, output}) + " = " + name(value) + "\n";
    for (int i = 0; i < step.calls; ++i)
      line(step.first_call + i, i >= step.sums ? "" : seeds(step, i) ? "seed" : "gradients add up");
    for (const BackwardStep::Delivery& d : step.deliveries) {
      const std::string to = gradient(d.to), from = name(d.value);
      if (d.of > 1)
        text_ += "  " + to + " += " + from + join("   # ", d.nth, " of ", d.of, "\n");
      else if (to != from)
        text_ += "  " + to + " = " + from + "\n";
    }
  }

  const GraphView& v_;
  std::map<std::pair<int, int>, std::string> names_;
  std::string text_;
};

// No op reads the leaf, nor does backward begin with it.
bool is_outside(const GraphView& v, size_t leaf) {
  const auto it_is = [&](const Source& root) {
    return root.kind == Source::Kind::leaf && root.id == int(leaf);
  };
  return v.leaves[leaf].uses == 0 && std::none_of(v.roots.begin(), v.roots.end(), it_is);
}

std::string dot_text(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + "\"";
}

}  // namespace

std::string name_of(const GraphView& v, const Source& s) {
  switch (s.kind) {
    case Source::Kind::node:
      return output_name("%", s.id, s.output, v.nodes[size_t(s.id)].outputs.size());
    case Source::Kind::leaf:
      return v.leaves[size_t(s.id)].name;
    case Source::Kind::constant:
      return v.constants[size_t(s.id)].name;
    case Source::Kind::seed:
      return "1";
    case Source::Kind::call:
      return output_name("%b", s.id, s.output, v.backward_calls[size_t(s.id)].outputs.size());
    default:
      return "none";
  }
}

std::string type_text(const Value& value) {
  std::string text = std::string(dtype_name(value.dtype)) + "[";
  for (size_t i = 0; i < value.sizes.size(); ++i) text += join(i ? "," : "", value.sizes[i]);
  return text + "]";
}

std::string call_text(const GraphView& v, const GraphCall& c) {
  std::string text = c.op->name + "(";
  for (size_t k = 0; k < c.inputs.size(); ++k) text += (k ? ", " : "") + name_of(v, c.inputs[k]);
  return text + attrs_text(c) + ")";
}

std::string bytes_text(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t i = 0;
  for (; bytes >= 1024 && i + 1 < std::size(kUnits); ++i) bytes /= 1024;
  char text[40];
  snprintf(text, sizeof text, "%.4g %s", bytes * (1 + 1e-12), kUnits[i]);
  return text;
}

std::string plural(size_t n, const char* one, const char* more) {
  if (n == 1) return join("1 ", one);
  return more ? join(int64_t(n), " ", more) : join(int64_t(n), " ", one, "s");
}

std::string count_text(double n, const char* unit) {
  constexpr const char* kPrefix[] = {"", "k", "M", "G", "T", "P"};
  size_t i = 0;
  for (; n >= 1000 && i + 1 < std::size(kPrefix); ++i) n /= 1000;
  char text[40];
  snprintf(text, sizeof text, "%.3g %s%s", n, kPrefix[i], unit);
  return text;
}

std::string module_of(const Node& n) { return n.path.empty() ? "" : n.path.back(); }

std::string to_text(const GraphView& v) {
  std::string text =
      join("# ", v.title.empty() ? "graph" : v.title, " on ", v.device, ": ",
           plural(v.nodes.size(), "node"), ", ", plural(v.leaves.size(), "leaf", "leaves"), ", ",
           bytes_text(double(v.saved_bytes)), " saved for backward\n");
  for (size_t i = 0; i < v.leaves.size(); ++i)
    text += "leaf " + v.leaves[i].name + ":" + type_text(v.leaves[i].value) +
            (is_outside(v, i) ? "   # not in the graph: it gets no gradient" : "") + "\n";
  for (const Constant& c : v.constants)
    if (!c.number && !c.backward) text += "constant " + c.name + ":" + type_text(c.value) + "\n";
  text += "\nforward\n";
  const std::vector<std::string>* path = nullptr;
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const Node& n = v.nodes[i];
    if (!path || *path != n.path) {
      path = &n.path;
      if (!n.path.empty()) text += "# " + n.path.back() + "\n";
    }
    text += "  ";
    for (size_t o = 0; o < n.outputs.size(); ++o)
      text += (o ? ", " : "") + name_of(v, {Source::Kind::node, int(i), int(o)}) + ":" +
              type_text(n.outputs[o]);
    text += " = " + call_text(v, n) + "   #";
    if (!n.note.empty()) text += " " + n.note + ";";
    if (n.flops >= 0) text += " " + count_text(n.flops, "flop") + ",";
    std::string saves;
    for (const SavedTensor& s : n.saved)
      saves += (saves.empty() ? "" : ", ") + s.what +
               (s.packed    ? " (packed)"
                : s.counted ? ""
                            : " (shared)") +
               (s.read ? "" : " (never read)");
    text += saves.empty() ? " saves nothing"
                          : " saves " + saves + ": " + bytes_text(double(n.saved_bytes));
    text += "\n";
  }
  for (size_t r = 0; r < v.roots.size(); ++r)
    text += (r ? ", " : "return ") + name_of(v, v.roots[r]);
  return text + "\n\nbackward\n" + Backward(v).text();
}

std::string to_dot(const GraphView& v) {
  std::string text =
      "digraph gradus {\n  rankdir=TB;\n  node [shape=box, fontsize=10, "
      "fontname=\"Helvetica\"];\n  edge [fontsize=8, fontname=\"Helvetica\"];\n";
  // Clusters open and close as the path changes: nodes stand in the order of recording.
  std::vector<std::string> open;
  int clusters = 0;
  const auto go_to = [&](const std::vector<std::string>& path) {
    size_t same = 0;
    while (same < open.size() && same < path.size() && open[same] == path[same]) ++same;
    for (; open.size() > same; open.pop_back()) text += "}\n";
    for (; open.size() < path.size(); open.push_back(path[open.size()]))
      text += join("subgraph cluster_", clusters++, " {\n  label=", dot_text(path[open.size()]),
                   "; style=rounded; color=gray;\n");
  };
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const Node& n = v.nodes[i];
    go_to(n.path);
    std::string label = join("%", int64_t(i), " ", n.op->name);
    if (!n.note.empty()) label += "\n" + n.note;
    for (const Value& y : n.outputs) label += "\n" + type_text(y);
    text += join("  n", int64_t(i), " [label=", dot_text(label), "];\n");
  }
  go_to({});
  for (size_t i = 0; i < v.leaves.size(); ++i)
    text +=
        join("  leaf", int64_t(i), " [shape=ellipse, style=filled, fillcolor=\"#cfe3f5\", label=",
             dot_text(v.leaves[i].name + "\n" + type_text(v.leaves[i].value)), "];\n");
  for (size_t i = 0; i < v.constants.size(); ++i)
    if (!v.constants[i].number && !v.constants[i].backward)
      text += join("  const", int64_t(i), " [shape=ellipse, style=dashed, label=",
                   dot_text(v.constants[i].name + "\n" + type_text(v.constants[i].value)), "];\n");
  for (size_t i = 0; i < v.nodes.size(); ++i)
    for (const Source& s : v.nodes[i].inputs) {
      if (s.kind == Source::Kind::node)
        text += join("  n", s.id, " -> n", int64_t(i),
                     s.output ? join(" [label=\"", s.output, "\"]") : std::string(), ";\n");
      else if (s.kind == Source::Kind::leaf)
        text += join("  leaf", s.id, " -> n", int64_t(i), ";\n");
      else if (s.kind == Source::Kind::constant && !v.constants[size_t(s.id)].number)
        text += join("  const", s.id, " -> n", int64_t(i), " [style=dashed];\n");
    }
  return text + "}\n";
}

void add_sources(GraphView& view, const std::function<std::string(const std::string&)>& source) {
  for (const Node& n : view.nodes)
    for (const std::string& place : n.path)
      if (!view.sources.contains(place))
        if (std::string text = source(place); !text.empty())
          view.sources.emplace(place, std::move(text));
}

std::string lines_around(const std::string& program, int64_t line) {
  constexpr int64_t kAround = 3;
  std::istringstream in(program);
  std::string text, found;
  int64_t n = 1;
  for (; n <= line + kAround && std::getline(in, found); ++n)
    if (n >= line - kAround) text += join(n == line ? "> " : "  ", n, "  ", found, "\n");
  return n > line ? text : "";
}

}  // namespace gradus::audit
