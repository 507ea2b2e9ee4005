// Matching nodes, and comparing their numbers.
#include "ops/audit/step/diff.hpp"

#include "ops/audit/watch/names.hpp"
#include "ops/audit/watch/run.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace gradus::inline v1::audit {

namespace {

// Floats of any width in the order of their values, as integers without a gap.
template <class Bits>
int64_t rank_of(Bits bits) {
  constexpr Bits sign = Bits(1) << (8 * sizeof(Bits) - 1);
  return bits & sign ? -int64_t(bits & Bits(~sign)) : int64_t(bits);
}

template <class Bits>
std::vector<int64_t> ranks_as(const std::vector<char>& bytes) {
  std::vector<int64_t> out(bytes.size() / sizeof(Bits));
  for (size_t i = 0; i < out.size(); ++i) {
    Bits bits;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    out[i] = rank_of(bits);
  }
  return out;
}

// Places of the parts among all floats of this dtype.
std::vector<int64_t> ranks(const Tensor& t) {
  std::vector<char> bytes(t.bytes());
  t.copy_to_host(bytes.data());
  switch (itemsize(t.dtype()) / (is_complex(t.dtype()) ? 2 : 1)) {
    case 2:
      return ranks_as<uint16_t>(bytes);
    case 4:
      return ranks_as<uint32_t>(bytes);
    default:
      return ranks_as<uint64_t>(bytes);
  }
}

double gap(int64_t a, int64_t b) { return std::abs(double(a) - double(b)); }

// ---- structure

// What makes nodes alike before their neighbours are looked at. Dtypes do not: an f64 run of an f32
// network is the same network.
std::string key_of(const RecordedNode& n) {
  std::string key = n.op->name + " # " + n.where;
  for (const RecordedOutput& o : n.outputs) key += join(" ", o.sizes);
  return key;
}

// Pairs of a longest common subsequence of keys[0] and keys[1].
std::vector<std::pair<int, int>> common(const std::vector<std::string>& a,
                                        const std::vector<std::string>& b) {
  int begin = 0, end_a = int(a.size()), end_b = int(b.size());
  std::vector<std::pair<int, int>> pairs, tail;
  for (; begin < end_a && begin < end_b && a[size_t(begin)] == b[size_t(begin)]; ++begin)
    pairs.emplace_back(begin, begin);
  for (; end_a > begin && end_b > begin && a[size_t(end_a - 1)] == b[size_t(end_b - 1)];)
    tail.emplace_back(--end_a, --end_b);
  const int rows = end_a - begin, columns = end_b - begin;
  constexpr int64_t kMostCells = 25'000'000;
  if (int64_t(rows) * columns > kMostCells)
    fail(ErrorKind::value, "diff", "the steps have ", rows, " and ", columns,
         " nodes between their common beginning and end: too many to match");
  std::vector<std::vector<int>> longest(size_t(rows) + 1, std::vector<int>(size_t(columns) + 1));
  for (int i = rows; i-- > 0;)
    for (int j = columns; j-- > 0;)
      longest[size_t(i)][size_t(j)] =
          a[size_t(begin + i)] == b[size_t(begin + j)]
              ? longest[size_t(i) + 1][size_t(j) + 1] + 1
              : std::max(longest[size_t(i) + 1][size_t(j)], longest[size_t(i)][size_t(j) + 1]);
  for (int i = 0, j = 0; i < rows && j < columns;) {
    if (a[size_t(begin + i)] == b[size_t(begin + j)])
      pairs.emplace_back(begin + i++, begin + j++);
    else if (longest[size_t(i) + 1][size_t(j)] >= longest[size_t(i)][size_t(j) + 1])
      ++i;
    else
      ++j;
  }
  pairs.insert(pairs.end(), tail.rbegin(), tail.rend());
  return pairs;
}

class Differ {
 public:
  Differ(const RecordedStep& a, const RecordedStep& b) : a_(a), b_(b) {}

  StepDifference diff() {
    match();
    match_dtypes();
    leaves();
    for (NodeDifference& d : out_.nodes) compare_nodes(d);
    count();
    return std::move(out_);
  }

 private:
  // The pairs of the longest common subsequence; between two of them, nodes of one op that stand
  // in the same order are one node, changed.
  void match() {
    std::vector<std::string> keys_a, keys_b;
    for (const RecordedNode& n : a_.nodes) keys_a.push_back(key_of(n));
    for (const RecordedNode& n : b_.nodes) keys_b.push_back(key_of(n));
    std::vector<std::pair<int, int>> pairs = common(keys_a, keys_b);
    pairs.emplace_back(int(a_.nodes.size()), int(b_.nodes.size()));
    int i = 0, j = 0;
    const auto up_to = [&](int a, int b) {
      while (i < a) add(NodeDifference::Kind::removed, i++, -1);
      while (j < b) add(NodeDifference::Kind::inserted, -1, j++);
      if (i < int(a_.nodes.size()) && j < int(b_.nodes.size()))
        add(NodeDifference::Kind::same, i++, j++);
    };
    for (const auto& [to_a, to_b] : pairs) {
      for (int next = j; next < to_b; ++next) {
        int k = i;
        while (k < to_a && a_.nodes[size_t(k)].op != b_.nodes[size_t(next)].op) ++k;
        if (k < to_a) up_to(k, next);
      }
      up_to(to_a, to_b);
    }
  }
  // An f32 network in f64: said once, not of every node.
  void match_dtypes() {
    std::map<DType, std::set<DType>> became;
    for (const auto& [a, b] : node_of_) {
      const auto &x = a_.nodes[size_t(a)].outputs, &y = b_.nodes[size_t(b)].outputs;
      for (size_t k = 0; k < std::min(x.size(), y.size()); ++k)
        became[x[k].dtype].insert(y[k].dtype);
    }
    for (const auto& [from, to] : became)
      if (to.size() > 1) return;
    for (const auto& [from, to] : became)
      if (from != *to.begin()) say(out_.dtypes, join(from, " -> ", *to.begin()));
  }
  void add(NodeDifference::Kind kind, int a, int b) {
    if (kind == NodeDifference::Kind::same) node_of_[a] = b;
    NodeDifference d;
    d.kind = kind;
    d.a = a;
    d.b = b;
    out_.nodes.push_back(std::move(d));
  }

  static void say(std::string& what, const std::string& text) {
    what += (what.empty() ? "" : ", ") + text;
  }

  // Operand of a, as b would name it if nothing had changed.
  bool same_source(const Source& a, const Source& b) const {
    if (a.kind != b.kind || a.output != b.output) return false;
    if (a.kind == Source::Kind::node) {
      const auto at = node_of_.find(a.id);
      return at != node_of_.end() && at->second == b.id;
    }
    if (a.kind == Source::Kind::leaf)
      return a_.leaves[size_t(a.id)].name == b_.leaves[size_t(b.id)].name;
    return true;
  }

  void compare_nodes(NodeDifference& d) {
    if (d.a < 0 || d.b < 0) return;
    const RecordedNode &x = a_.nodes[size_t(d.a)], &y = b_.nodes[size_t(d.b)];
    for (size_t i = 0; i < std::max(x.attrs.size(), y.attrs.size()); ++i) {
      const std::string before = i < x.attrs.size() ? to_text(x.attrs[i]) : "none",
                        after = i < y.attrs.size() ? to_text(y.attrs[i]) : "none";
      const bool dtype = i < x.attrs.size() && x.attrs[i].type == AttrValue::Type::dtype;
      if (before != after && !(dtype && !out_.dtypes.empty()))
        say(d.what, join(i < x.op->attrs.size() ? x.op->attrs[i].name : join("attribute ", i), " ",
                         before, " -> ", after));
    }
    if (x.where != y.where) say(d.what, "place " + x.where + " -> " + y.where);
    if (x.inputs.size() != y.inputs.size())
      say(d.what, join(x.inputs.size(), " -> ", y.inputs.size(), " operands"));
    for (size_t k = 0; k < std::min(x.inputs.size(), y.inputs.size()); ++k) {
      if (!same_source(x.inputs[k], y.inputs[k])) say(d.what, join("another operand ", k));
      constant(d, x.inputs[k], y.inputs[k], k);
    }
    for (size_t k = 0; k < std::min(x.outputs.size(), y.outputs.size()); ++k) {
      const RecordedOutput &u = x.outputs[k], &v = y.outputs[k];
      if (!(u.sizes == v.sizes)) {
        say(d.what, join("shape ", u.sizes, " -> ", v.sizes));
        continue;
      }
      if (u.dtype != v.dtype && out_.dtypes.empty())
        say(d.what, join("dtype ", u.dtype, " -> ", v.dtype));
      worse(d.value, u.value, v.value);
      worse(d.cotangent, u.cotangent, v.cotangent);
    }
    if (!d.what.empty()) d.kind = NodeDifference::Kind::changed;
  }
  // A constant has no node of its own to be compared at.
  void constant(NodeDifference& d, const Source& x, const Source& y, size_t k) {
    if (x.kind != Source::Kind::constant || y.kind != Source::Kind::constant) return;
    const Tensor &u = a_.constants[size_t(x.id)], &v = b_.constants[size_t(y.id)];
    if (u.is_number() || v.is_number()) {
      if (u.is_number() && v.is_number() && u.item() == v.item()) return;
      return say(d.what, join("number in operand ", k));
    }
    if (!(u.sizes() == v.sizes())) return say(d.what, join("shape of operand ", k));
    if (const Numbers n = compare(u, v); !n.same())
      say(d.what, join("constant in operand ", k, ": ", n.text()));
  }
  static void worse(std::optional<Numbers>& known, const Tensor& a, const Tensor& b) {
    if (!a.defined() || !b.defined() || !(a.sizes() == b.sizes())) return;
    const Numbers n = compare(a, b);
    if (!known || (known->same() && !n.same())) known = n;
  }

  void leaves() {
    std::map<std::string, const RecordedLeaf*> before;
    for (const RecordedLeaf& l : a_.leaves) before[l.name] = &l;
    for (const RecordedLeaf& l : b_.leaves) {
      LeafDifference d{l.name, "", {}, {}};
      const auto at = before.find(l.name);
      if (at == before.end()) {
        d.what = "only in b";
      } else {
        const RecordedLeaf& x = *at->second;
        if (!(x.value.sizes() == l.value.sizes()))
          d.what = join("shape ", x.value.sizes(), " -> ", l.value.sizes());
        worse(d.value, x.value, l.value);
        if (x.gradient.defined() != l.gradient.defined())
          say(d.what, join("gradient only in ", l.gradient.defined() ? "b" : "a"));
        worse(d.gradient, x.gradient, l.gradient);
        before.erase(at);
      }
      out_.leaves.push_back(std::move(d));
    }
    for (const RecordedLeaf& l : a_.leaves)
      if (before.contains(l.name)) out_.leaves.push_back({l.name, "only in a", {}, {}});
  }

  void count() {
    const auto differs = [](const std::optional<Numbers>& n) { return n && !n->same(); };
    for (size_t i = 0; i < out_.nodes.size(); ++i) {
      const NodeDifference& d = out_.nodes[i];
      out_.structural += d.kind != NodeDifference::Kind::same;
      out_.values += differs(d.value);
      out_.cotangents += differs(d.cotangent);
      if (differs(d.value) && out_.first_value < 0) out_.first_value = int(i);
      if (differs(d.cotangent)) out_.first_cotangent = int(i);  // backward ends where forward began
    }
    for (const LeafDifference& d : out_.leaves) {
      out_.structural += !d.what.empty();
      out_.operands += differs(d.value);
      out_.gradients += differs(d.gradient);
    }
  }

  const RecordedStep &a_, &b_;
  std::map<int, int> node_of_;
  StepDifference out_;
};

std::string source_text(const RecordedStep& step, const Source& s) {
  switch (s.kind) {
    case Source::Kind::node:
      return output_name("%", s.id, s.output, step.nodes[size_t(s.id)].outputs.size());
    case Source::Kind::leaf:
      return step.leaves[size_t(s.id)].name;
    case Source::Kind::constant: {
      const Tensor& c = step.constants[size_t(s.id)];
      if (c.numel() == 1 && is_floating(c.dtype()) && !is_complex(c.dtype())) return join(c.item());
      return join(c.dtype(), c.sizes());
    }
    default:
      return "none";
  }
}

}  // namespace

std::string node_text(const RecordedStep& step, size_t node) {
  const RecordedNode& n = step.nodes[node];
  std::string s = join("%", node, " ", n.op->name, "(");
  for (size_t k = 0; k < n.inputs.size(); ++k)
    s += (k ? ", " : "") + source_text(step, n.inputs[k]);
  return s + ")" + (n.where.empty() ? "" : "  # " + n.where);
}

std::string Numbers::text() const {
  if (same()) return "the same bits";
  return join(differing, " of ", count, " elements, ",
              ulps >= 0 ? "up to " + digits(ulps, 3) + " ulp, " : std::string(), "relative ",
              digits(relative, 2), "; element ", element, " is ", digits(a, 9), " and ",
              digits(b, 9));
}

Numbers compare(const Tensor& a, const Tensor& b) {
  if (!(a.sizes() == b.sizes()))
    fail(ErrorKind::shape, "compare", "one tensor is ", a.sizes(), ", the other ", b.sizes());
  Numbers n;
  const Parts x = parts_of(a), y = parts_of(b);
  const bool one_dtype = a.dtype() == b.dtype(), floats = one_dtype && is_floating(a.dtype());
  std::vector<int64_t> rx, ry;
  if (floats) rx = ranks(a), ry = ranks(b);
  n.count = int64_t(x.size());
  double largest = 0, magnitude = 0;
  bool unbounded = !one_dtype;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if (std::isfinite(x[i])) magnitude = std::max(magnitude, std::abs(x[i]));
    // Zeros of two signs are two values, as bits are.
    const bool equal = std::isnan(x[i]) || std::isnan(y[i]) ? std::isnan(x[i]) && std::isnan(y[i])
                       : floats ? rx[i] == ry[i] && std::signbit(x[i]) == std::signbit(y[i])
                                : x[i] == y[i];
    if (equal) continue;
    if (n.differing++ == 0) {
      n.element = index_of(a, i);
      n.a = x[i];
      n.b = y[i];
    }
    if (!std::isfinite(x[i]) || !std::isfinite(y[i]))
      unbounded = true, largest = HUGE_VAL;
    else
      largest = std::max(largest, std::abs(x[i] - y[i]));
    if (!one_dtype || !std::isfinite(x[i]) || !std::isfinite(y[i])) continue;
    const double ulps = floats ? gap(rx[i], ry[i]) : std::abs(x[i] - y[i]);
    if (ulps < 1) continue;  // zeros of two signs
    const auto k = size_t(std::ilogb(ulps));
    if (n.ulp_histogram.size() <= k) n.ulp_histogram.resize(k + 1);
    ++n.ulp_histogram[k];
    n.ulps = std::max(n.ulps, ulps);
  }
  if (n.differing == 0) return n;
  n.relative = magnitude > 0 ? largest / magnitude : HUGE_VAL;
  if (unbounded) n.ulps = -1;
  return n;
}

StepDifference diff(const RecordedStep& a, const RecordedStep& b) { return Differ(a, b).diff(); }

std::string first_difference(const RecordedStep& step, const StepDifference& d) {
  for (const NodeDifference& n : d.nodes)
    if (n.kind != NodeDifference::Kind::same)
      return n.a >= 0 ? node_text(step, size_t(n.a)) + ": " + n.what : "a node more: " + n.what;
  if (d.first_value >= 0) {
    const NodeDifference& n = d.nodes[size_t(d.first_value)];
    return node_text(step, size_t(n.a)) + ": " + n.value->text();
  }
  if (d.first_cotangent >= 0) {
    const NodeDifference& n = d.nodes[size_t(d.first_cotangent)];
    return "cotangent of " + node_text(step, size_t(n.a)) + ": " + n.cotangent->text();
  }
  for (const LeafDifference& l : d.leaves) {
    if (!l.what.empty()) return l.name + ": " + l.what;
    if (l.gradient && !l.gradient->same())
      return "gradient of " + l.name + ": " + l.gradient->text();
  }
  return "";
}

void save_trace(const std::string& file, const RecordedStep& step, Device& device) {
  const Unwatched quiet;
  const StepDifference d = diff(step, run_again(step, device));
  if (!d.same())
    fail(ErrorKind::autograd, "record",
         "run again, the step gives other numbers, so no file could ",
         "repeat it (was an intermediate tensor written without a record?): ",
         first_difference(step, d));
  write_trace(file, step);
}

}  // namespace gradus::audit
