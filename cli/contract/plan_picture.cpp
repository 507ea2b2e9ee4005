#include "cli/contract/plan_picture.hpp"

#include "engine/base/error.hpp"
#include "ops/audit/show/graph_page.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace gradus::inline v1::cli {

namespace {

using audit::escaped;

constexpr double kMargin = 30, kRow = 34;

// Okabe and Ito's colours, for the colour-blind, on paper or in the dark. No variables: many
// viewers of SVG know none.
constexpr const char* kStyle =
    "<style>.e{fill:none;stroke:#999;stroke-linejoin:round}.w{stroke:#d55e00}.n{fill:#0072b2}"
    ".l{fill:#777}svg text{font:11px system-ui,\"DejaVu Sans\",sans-serif;fill:#1b1b1b}"
    "svg .s{fill:#777}svg .m{fill:#d55e00;font-weight:bold}"
    "@media (prefers-color-scheme:dark){.e{stroke:#777}.w{stroke:#ff9a52}.n{fill:#56b4e9}"
    ".l{fill:#a3a3a0}svg text{fill:#e8e8e6}svg .s{fill:#a3a3a0}svg .m{fill:#ff9a52}}</style>\n";

struct Node {
  int left = -1, right = -1, level = 0;
  const EinsumStep* step = nullptr;  // that makes it; null at operands
  double x = 0, elements = 1;
};

// Nodes by slot: operands first.
class Drawing {
 public:
  explicit Drawing(const EinsumPlan& plan) : plan_(plan), nodes_(plan.shapes.size()) {
    for (size_t k = 0; k < nodes_.size(); ++k)
      for (const int64_t n : plan.shapes[k]) nodes_[k].elements *= double(n);
    for (const EinsumStep& s : plan.steps) {
      most_ = std::max(most_, s.flops);
      if (s.right < 0) continue;
      nodes_.resize(std::max(nodes_.size(), size_t(s.result) + 1));
      const int level = std::max(at(s.left).level, at(s.right).level) + 1;
      at(s.result) = {s.left, s.right, level, &s, 0, s.elements};
    }
    for (size_t k = 0; k + 1 < nodes_.size(); ++k) {
      widest_elements_ = std::max(widest_elements_, nodes_[k].elements);
      if (nodes_[k].step && (widest_ < 0 || nodes_[k].elements > at(widest_).elements))
        widest_ = int(k);
    }
    column_ = nodes_.size() > 240 ? 12 : 30;
    place();
  }

  std::string svg() const {
    const double width = 2 * kMargin + column_ * double(plan_.shapes.size() - 1) + 60;
    const double height = y_of(0) + kMargin;
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" "
        "width=\"{0:.0f}\" "
        "height=\"{1:.0f}\" role=\"img\">\n<title>order of contraction of {2} tensors</title>\n",
        width, height, plan_.shapes.size());
    out += kStyle;
    for (size_t k = 0; k + 1 < nodes_.size(); ++k)
      if (int(k) != widest_) out += edge(int(k));
    if (widest_ >= 0) out += edge(widest_);
    for (size_t k = 0; k < nodes_.size(); ++k) out += dot(int(k));
    if (widest_ >= 0) {
      const Node& n = at(widest_);
      out += fmt::format("<text class=\"m\" x=\"{:.1f}\" y=\"{:.1f}\">{} elements</text>\n",
                         n.x + 8, y_of(n.level) - 9, count_text(n.elements));
    }
    return out + "</svg>\n";
  }

 private:
  Node& at(int k) { return nodes_[size_t(k)]; }
  const Node& at(int k) const { return nodes_[size_t(k)]; }
  double y_of(int level) const { return kMargin + kRow * (nodes_.back().level - level); }

  // Operands side by side as the tree has them, results above the middle of their parts.
  void place() {
    double next = kMargin;
    std::vector<std::pair<int, bool>> todo{{int(nodes_.size()) - 1, false}};
    while (!todo.empty()) {
      const auto [k, below] = todo.back();
      todo.pop_back();
      Node& n = at(k);
      if (n.left < 0) {
        n.x = next;
        next += column_;
      } else if (below) {
        n.x = (at(n.left).x + at(n.right).x) / 2;
      } else {
        todo.insert(todo.end(), {{k, true}, {n.right, false}, {n.left, false}});
      }
    }
    above_.resize(nodes_.size());
    for (const Node& n : nodes_)
      for (const int child : {n.left, n.right})
        if (child >= 0) above_[size_t(child)] = &n;
  }

  std::string edge(int k) const {
    const Node &n = at(k), &up = *above_[size_t(k)];
    const double wide = std::log2(std::max(n.elements, 1.)) /
                        std::max(std::log2(std::max(widest_elements_, 2.)), 1.);
    return fmt::format(
        "<path class=\"e{}\" stroke-width=\"{:.1f}\" d=\"M{:.1f} {:.1f}V{:.1f}H{:.1f}\"/>\n",
        k == widest_ ? " w" : "", 1 + 6 * wide, n.x, y_of(n.level), y_of(up.level), up.x);
  }
  std::string dot(int k) const {
    const Node& n = at(k);
    const double share = n.step && most_ > 0 ? n.step->flops / most_ : 0;
    const std::string title =
        n.step ? fmt::format("{}: {} flops, {} elements", n.step->expression(),
                             count_text(n.step->flops), count_text(n.elements))
               : fmt::format("operand {} of shape {}", k, to_text(plan_.shapes[size_t(k)]));
    std::string out = fmt::format(
        "<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" "
        "r=\"{:.1f}\"><title>{}</title></circle>\n",
        n.step ? "n" : "l", n.x, y_of(n.level), 2.5 + 9 * std::sqrt(share), escaped(title));
    if (!n.step && column_ > 20)
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", n.x,
                         y_of(0) + 18, k);
    if (n.step && share > 0.05 && k != widest_)
      out +=
          fmt::format("<text class=\"s\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                      n.x + 4 + 9 * std::sqrt(share), y_of(n.level) - 8, count_text(n.step->flops));
    return out;
  }

  const EinsumPlan& plan_;
  std::vector<Node> nodes_;
  std::vector<const Node*> above_;
  double most_ = 0, widest_elements_ = 1, column_ = 30;
  int widest_ = -1;
};

}  // namespace

std::string count_text(double n) {
  return n <= 1e6 ? fmt::format("{:.0f}", n) : fmt::format("2^{:.1f}", std::log2(n));
}

std::string plan_svg(const EinsumPlan& plan) {
  if (plan.shapes.size() > kMostDrawn)
    fail(ErrorKind::value, "contract", "a picture is for at most ", kMostDrawn,
         " tensors, the network has ", plan.shapes.size(), "; --json lists the steps");
  return Drawing(plan).svg();
}

std::string plan_page(const EinsumPlan& plan, const std::string& title, const Facts& facts) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      escaped(title) +
      "</title>\n<style>:root{color-scheme:light dark}body{font:14px/1.45 system-ui,\"DejaVu "
      "Sans\",sans-serif;margin:16px;max-width:1100px}h1{font-size:17px;overflow-wrap:anywhere}"
      "h2{font-size:15px}.wide{overflow-x:auto}table{border-collapse:collapse}th,td{text-align:"
      "left;"
      "padding:2px 10px;border-bottom:1px solid #8886}td.n{text-align:right;white-space:nowrap}"
      "code{overflow-wrap:anywhere}</style>\n</head>\n<body>\n<h1>" +
      escaped(title) + "</h1>\n<table>\n";
  for (const auto& [what, value] : facts)
    out += "<tr><th>" + escaped(what) + "<td>" + escaped(value) + "</tr>\n";
  out +=
      "</table>\n<p>Operands stand below, by number; each dot above them is a step, the larger the "
      "more of the work it does. The wider a line, the more elements the tensor has; the widest "
      "intermediate is marked.</p>\n<div class=\"wide\">\n" +
      plan_svg(plan) +
      "</div>\n<h2>Steps</h2>\n<div class=\"wide\"><table><tr><th>step<th>contraction"
      "<th>flops<th>of all<th>elements</tr>\n";
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const EinsumStep& s = plan.steps[i];
    out += fmt::format(
        "<tr><td class=\"n\">{}<td><code>{}</code><td class=\"n\">{}<td class=\"n\">{:.1f} %"
        "<td class=\"n\">{}</tr>\n",
        i, escaped(s.expression()), count_text(s.flops),
        plan.flops > 0 ? 100 * s.flops * plan.slices / plan.flops : 0, count_text(s.elements));
  }
  return out + "</table></div>\n</body>\n</html>\n";
}

}  // namespace gradus::cli
