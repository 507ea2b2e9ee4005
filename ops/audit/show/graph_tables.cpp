// Tables of the page. Cells of numbers carry them as data-v, by which page_tables.js sorts.
#include "ops/audit/judge/cost.hpp"
#include "ops/audit/show/graph_page.hpp"
#include "ops/audit/step/memory_ledger.hpp"
#include "ops/audit/watch/names.hpp"

#include <algorithm>
#include <cstdio>
#include <functional>

namespace gradus::inline v1::audit {

namespace {

// Of saved tensors, and of checkpoints: a page of thousands of nodes must open quickly.
constexpr size_t kMostRows = 500;

// A cell of a number: how it reads, and its value; empty if it is not known.
std::string cell(bool known, double x, const std::string& text) {
  return known ? join("<td class=n data-v=\"", digits(x, 9), "\">", text) : "<td>";
}
std::string number(bool known, double x) { return cell(known, x, digits(x, 4)); }
std::string bytes(double x) { return cell(x >= 0, x, bytes_text(x)); }
std::string micros(double ns) { return number(ns >= 0, ns / 1e3); }

// What is closed at first is no work for the browser until the graph stands: with scripts
// <noscript> is mere text, which page_tables.js unpacks.
std::string section(const std::string& title, const std::string& inside, bool open = false) {
  return join("<details", open ? " open" : "", "><summary>", title, "</summary>\n",
              open ? inside : "<noscript>" + inside + "</noscript>", "</details>\n");
}
std::string node_link(int id, const std::string& text) {
  return join("<a href=\"#n=", id, "\">%", id, "</a>", text.empty() ? "" : " " + escaped(text));
}

std::string findings(const GraphView& v) {
  if (!v.findings) return "";
  size_t bad = 0, judged = 0;
  std::string items;
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const std::optional<NodeVerdict>& verdict = v.nodes[i].verdict;
    if (!verdict) continue;
    ++judged;
    if (!verdict->bad) continue;
    ++bad;
    items += "<li class=\"wrong\"><b>✗ " + escaped(verdict->verdict) + "</b> " +
             node_link(int(i), v.nodes[i].op->name) + ": " + escaped(verdict->text) + "</li>\n";
  }
  for (const Finding& f : *v.findings)
    items += "<li class=\"wrong\"><b>" + std::string(f.kind == "birth" ? "NaN" : escaped(f.kind)) +
             "</b> " + (f.node >= 0 ? node_link(f.node, "") + " " : "") + escaped(f.text) +
             "</li>\n";
  const std::string title =
      join("audit: ", plural(judged, "node"), ", ",
           bad ? join(int64_t(bad), bad == 1 ? " is wrong" : " are wrong")
               : std::string("no wrong derivative"),
           v.findings->empty() ? "" : "; " + plural(v.findings->size(), "finding") + " more");
  return section(title, "<ul id=\"findings\">" + items + "</ul>\n", !items.empty());
}

std::string ops_table(const GraphView& v) {
  std::string text =
      "<table id=\"ops\"><thead><tr><th>op<th>nodes<th>forward µs<th>backward µs<th>flops<th>bytes"
      "<th>backward bytes<th>saved</tr></thead><tbody>\n";
  for (const CostLine& l : cost_of_ops(v)) {
    size_t saved = 0;
    for (const Node& n : v.nodes)
      if (n.op->name == l.op) saved += n.saved_bytes;
    text += "<tr><td>" + escaped(l.op) + number(true, l.count) + micros(l.forward.ns) +
            micros(l.backward.ns) + number(l.forward.flops >= 0, l.forward.flops) +
            bytes(l.forward.bytes) + bytes(l.backward.bytes) + bytes(double(saved)) + "</tr>\n";
  }
  return section("table of ops", text + "</tbody></table>\n");
}

// A column that is there only if something is known of it.
struct Column {
  const char* title;
  std::function<std::string(const Node&)> cell;  // "<td>" if that node has none
};

std::vector<Column> columns(const GraphView& v) {
  const auto part = [&v](const PassCost& c) {
    const double p = v.peaks ? c.of_peak(*v.peaks) : -1;
    char text[48];
    snprintf(text, sizeof text, "%.0f %%", 100 * p);
    return cell(p >= 0, p, text);
  };
  const auto norm = [](const TensorStats& s) { return number(s.count > 0, s.norm); };
  return {{"flops", [](const Node& n) { return number(n.flops >= 0, n.flops); }},
          {"bytes", [](const Node& n) { return bytes(n.bytes); }},
          {"forward µs", [](const Node& n) { return micros(n.forward_ns); }},
          {"of peak",
           [part](const Node& n) {
             return part({n.flops, n.bytes, n.forward_ns});
           }},
          {"backward µs", [](const Node& n) { return micros(n.backward_ns); }},
          {"of peak",
           [part](const Node& n) {
             return part({n.backward_flops, n.backward_bytes, n.backward_ns});
           }},
          {"norm", [norm](const Node& n) { return norm(n.outputs[0].stats); }},
          {"norm of gradient", [norm](const Node& n) { return norm(n.outputs[0].gradient); }},
          {"verdict",
           [](const Node& n) { return n.verdict ? "<td>" + escaped(n.verdict->verdict) : "<td>"; }},
          {"error",
           [](const Node& n) { return number(!!n.verdict, n.verdict ? n.verdict->error : 0); }},
          {"allowed", [](const Node& n) {
             return number(!!n.verdict, n.verdict ? n.verdict->tolerance : 0);
           }}};
}

std::string nodes_table(const GraphView& v) {
  std::vector<Column> known = columns(v);
  std::erase_if(known, [&](const Column& c) {
    return std::all_of(v.nodes.begin(), v.nodes.end(),
                       [&](const Node& n) { return c.cell(n) == "<td>"; });
  });
  std::string text =
      "<table id=\"nodes\"><thead><tr><th>node<th>op<th>type<th>module<th>from<th>saved";
  for (const Column& c : known) text += join("<th>", c.title);
  text += "</tr></thead><tbody>\n";
  for (size_t i = 0; i < v.nodes.size(); ++i) {
    const Node& n = v.nodes[i];
    std::string from;
    for (const Source& s : n.inputs) from += (from.empty() ? "" : ", ") + name_of(v, s);
    text += join("<tr><td data-v=\"", int64_t(i), "\">", node_link(int(i), ""), "<td>",
                 escaped(n.note.empty() ? n.op->name : n.op->name + ": " + n.note), "<td>",
                 type_text(n.outputs[0]), "<td>", escaped(module_of(n)), "<td>", escaped(from),
                 bytes(double(n.saved_bytes)));
    for (const Column& c : known) text += c.cell(n);
    text += "</tr>\n";
  }
  return section("table of nodes", text + "</tbody></table>\n");
}

std::string ledger(const GraphView& v) {
  std::vector<std::pair<int, const SavedTensor*>> rows;
  for (size_t i = 0; i < v.nodes.size(); ++i)
    for (const SavedTensor& s : v.nodes[i].saved) rows.emplace_back(int(i), &s);
  const auto held = [](const SavedTensor& s) { return s.counted ? s.bytes : 0; };
  std::stable_sort(rows.begin(), rows.end(),
                   [&](const auto& a, const auto& b) { return held(*a.second) > held(*b.second); });
  const std::vector<int> holders = holders_of(v);
  std::string text;
  if (rows.size() > kMostRows)
    text += join("<p>The largest ", int64_t(kMostRows), " of ", int64_t(rows.size()), ".</p>\n");
  rows.resize(std::min(rows.size(), kMostRows));
  text +=
      "<table id=\"saved\"><thead><tr><th>node<th>op<th>saves<th>type<th>bytes<th>why</tr></thead>"
      "<tbody>\n";
  for (const auto& [i, s] : rows) {
    const Node& n = v.nodes[size_t(i)];
    text += join("<tr><td data-v=\"", i, "\">", node_link(i, ""), "<td>", escaped(n.op->name),
                 "<td>", escaped(s->what), "<td>", type_text({s->sizes, s->dtype, {}, {}}),
                 s->counted ? bytes(double(s->bytes)) : std::string("<td>"), "<td>",
                 escaped(reason_of(n, *s, holders)), "</tr>\n");
  }
  text += "</tbody></table>\n";
  std::vector<CheckpointSaving> savings = checkpoint_savings(v);
  savings.resize(std::min(savings.size(), kMostRows));
  if (!savings.empty()) {
    text +=
        "<h3>a checkpoint would save</h3><table id=\"checkpoints\"><thead><tr><th>module<th>bytes"
        "<th>flops again<th>nodes</tr></thead><tbody>\n";
    for (const CheckpointSaving& c : savings)
      text += "<tr><td>" + escaped(c.module) + bytes(double(c.bytes)) +
              number(c.flops >= 0, c.flops) + "<td>" + node_link(c.first, "") + " to " +
              node_link(c.last - 1, "") + "</tr>\n";
    text += "</tbody></table>\n";
  }
  return section("what is kept for backward, and why", text);
}

}  // namespace

std::string page_tables(const GraphView& v) {
  return findings(v) + ops_table(v) + ledger(v) + nodes_table(v);
}

}  // namespace gradus::audit
