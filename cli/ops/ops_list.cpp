// OpInfo and the statement's own text give the words; the rest is observed: the op runs once on its
// test row, recorded, under a wrapper that notes the slots, and the nodes that appear are named.
#include "cli/frame/events.hpp"
#include "cli/ops/ops_list.hpp"

#include "cli/frame/literal.hpp"
#include "cli/ops/op_example.hpp"
#include "cli/frame/session.hpp"
#include "cli/frame/terminal.hpp"
#include "engine/device/device.hpp"
#include "engine/graph.hpp"
#include "ops/audit/watch/names.hpp"
#include "ops/audit/watch/vjp_text.hpp"
#include "ops/audit/watch/watch.hpp"
#include "ops/def/fingerprint.hpp"
#include "ops/check/check.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

using Json = nlohmann::json;
using Names = std::vector<std::string>;

void add_once(Names& names, const std::string& name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
}

std::string joined(const Names& names) {
  std::string text;
  for (const std::string& n : names) text += (text.empty() ? "" : ", ") + n;
  return text;
}

// What was seen of one op.
struct Portrait {
  Names derivatives;  // formulas
  std::string here;   // the sizes and attributes that they hold for; "" for all
  audit::VjpText vjp;
  Names saves;    // names of operands, "y", or what its ops save
  Names made_of;  // a composition's nodes
  Names slots;    // of the forward call
  std::vector<std::pair<std::string, bool>> devices;  // has all kernels?
};

// Notes which slots are called.
class SlotSpy : public KernelWrapper {
 public:
  gd_status call(const gd_call& call, Next next, gd_error& error) override {
    seen_[call.slot] = true;
    return next(error);
  }
  bool seen(int slot) const { return seen_[slot]; }

 private:
  bool seen_[GD_SLOT_COUNT] = {};
};

std::string saved_name(const GradFn& node, const Saved& saved) {
  if (saved.role == Saved::Role::output) return "y";
  if (saved.role == Saved::Role::extra) return "a tensor of its own";
  return node.op().operands.empty() ? "an operand" : audit::operand_name(node.op(), saved.index);
}

Names wirtinger_derivatives(const OpInfo& op) {
  if (op.statement < 0) return {};
  const def::StatementText& s = def::statement_info(op.statement);
  if (s.wirtinger.size() != 2) return {};
  return {"on complex z: y = " + s.complex_value, "dy/dz = " + s.wirtinger[0],
          "dy/dz* = " + s.wirtinger[1]};
}

constexpr size_t kWidth = 96;  // columns of a page

// Words on lines of at most kWidth columns, or the terminal's, all but the first below `indent`.
std::string wrapped(const std::string& text, size_t indent, const std::ostream& to) {
  const size_t width = columns_for(to, kWidth);
  std::string out, line;
  size_t begin = 0;
  while (begin <= text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!line.empty() && indent + line.size() + 1 + word.size() > width) {
      out += line + "\n" + std::string(indent, ' ');
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return out + line;
}

// Runs the op on the first case of its row, recorded, and looks at the graph and the kernels.
void observe(const OpInfo& op, Portrait& p) {
  const rows::Row& row = rows::row_of(op.name);
  const auto has = [&](unsigned dtypes) { return (row.dtypes & dtypes) != 0; };
  const DType dtype = row.dtypes == 0 || has(def::kReal) ? DType::f64
                      : has(def::kComplex)               ? DType::c128
                                                         : DType::i64;
  Device& device = default_device();
  Tensors inputs = rows::draw_inputs(row, 0, dtype, device);
  for (Tensor& t : inputs)
    if (op.differentiable && is_floating(t.dtype())) t.set_requires_grad();
  SlotSpy spy;
  Tensors outputs;
  {
    const WrapperScope scope(device, spy);
    outputs = rows::evaluate(op, inputs, rows::attrs_of(op, row.cases[0].attrs), true);
  }
  for (int slot = 0; slot < GD_SLOT_COUNT; ++slot)
    if (spy.seen(slot)) p.slots.push_back(gd_slot_name(slot));

  for (const Ref<GradFn>& node : audit::nodes_behind(outputs)) {
    if (!op.primitive) add_once(p.made_of, node->op().name);
    for (const Saved& s : node->saved())
      add_once(p.saves, op.primitive ? saved_name(*node, s)
                                     : saved_name(*node, s) + " of " + node->op().name);
  }
}

// The derivative of the example, so that its numbers are those of the formulas.
void derive(const OpInfo& op, const OpExample& e, Portrait& p) {
  const Attrs attrs = rows::attrs_of(op, e.attrs);
  Tensors operands;
  for (const auto& [name, t] : e.inputs) operands.push_back(t);
  p.vjp = audit::vjp_text(op, operands, attrs);
  p.derivatives = p.vjp.lines;
  for (std::string& d : wirtinger_derivatives(op)) p.derivatives.push_back(std::move(d));
  // What stands still on real numbers may move on complex ones.
  const rows::Row& row = rows::row_of(op.name);
  const auto zero = [](const std::string& d) { return d.ends_with(" = 0"); };
  if (op.statement < 0 && (row.dtypes & def::kComplex) && !p.derivatives.empty() &&
      std::all_of(p.derivatives.begin(), p.derivatives.end(), zero)) {
    const Tensors z = rows::draw_inputs(row, 0, DType::c128, default_device());
    p.derivatives.push_back("on complex numbers:");
    for (std::string& d : audit::vjp_text(op, z, attrs).words())
      p.derivatives.push_back(std::move(d));
  }
  if (op.statement >= 0 || !op.differentiable) return;
  for (const auto& [name, t] : e.inputs)
    p.here += (p.here.empty() ? "" : ", ") + name + " " + to_text(t.sizes());
  const char* separator = "; ";
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (attrs[i].is_none()) continue;
    p.here += join(separator, op.attrs[i].name, "=", to_text(attrs[i]));
    separator = ", ";
  }
}

Portrait portrait_of(const OpInfo& op, const OpExample& e) {
  Portrait p;
  derive(op, e, p);
  observe(op, p);
  for (const KnownKind& kind : known_kinds()) {
    if (kind.devices == 0 || kind.score < 0) continue;  // the last are opened where they are named
    const Device& device = open_device(kind.kind);
    bool all = true;
    for (int slot = 0; slot < GD_SLOT_COUNT; ++slot)
      if (std::find(p.slots.begin(), p.slots.end(), gd_slot_name(slot)) != p.slots.end())
        all &= device.offers(gd_slot(slot));
    p.devices.emplace_back(kind.kind, all);
  }
  return p;
}

std::string signature(const OpInfo& op) {
  std::string text = op.name + "(";
  for (size_t k = 0; k < op.operands.size(); ++k)
    text += (k ? ", " : "") + op.operands[k].name +
            (op.operands[k].variadic   ? "..."
             : op.operands[k].optional ? "?"
                                       : "");
  for (size_t k = 0; k < op.attrs.size(); ++k) {
    const AttrSpec& a = op.attrs[k];
    const bool required = a.default_value.is_none() && !a.optional;
    text += (k == 0 ? (op.operands.empty() ? "" : "; ") : ", ") + a.name;
    if (!required) text += "=" + to_text(a.default_value);
  }
  return text + ")";
}

const char* type_name(AttrValue::Type type) {
  constexpr const char* names[] = {"none",     "integer", "number", "boolean",
                                   "integers", "text",    "dtype"};
  return names[int(type)];
}

Names dtype_names(const OpInfo& op) {
  Names names;
  for (const DType t : rows::dtypes_of(rows::row_of(op.name))) names.push_back(dtype_name(t));
  return names;
}

Json to_json(const OpInfo& op, const Portrait& p) {
  Json j{{"event", "op"},
         {"name", op.name},
         {"group", op.group},
         {"doc", op.doc},
         {"formula", op.formula},
         {"primitive", op.primitive},
         {"differentiable", op.differentiable},
         {"view", op.is_view},
         {"derivatives", p.derivatives},
         {"derivatives_here", p.here},
         {"saves", p.saves},
         {"made_of", p.made_of},
         {"vjp_made_of", Json::object()},
         {"dtypes", dtype_names(op)},
         {"slots", p.slots},
         {"operands", Json::array()},
         {"attrs", Json::array()},
         {"devices", Json::object()}};
  for (const auto& [name, times] : p.vjp.ops) j["vjp_made_of"][name] = times;
  for (const OperandSpec& o : op.operands)
    j["operands"].push_back({{"name", o.name}, {"variadic", o.variadic}, {"optional", o.optional}});
  for (const AttrSpec& a : op.attrs)
    j["attrs"].push_back({{"name", a.name},
                          {"type", type_name(a.type)},
                          {"doc", a.doc},
                          {"required", a.default_value.is_none() && !a.optional},
                          {"default", to_text(a.default_value)}});
  for (const auto& [kind, has] : p.devices) j["devices"][kind] = has;
  return j;
}

constexpr size_t kKey = 14;  // columns before the text of a line

void print_key(const std::string& key, std::ostream& out) {
  out << "  " << key << std::string(key.size() + 3 < kKey ? kKey - 2 - key.size() : 1, ' ');
}
void print_line(const std::string& key, const std::string& text, std::ostream& out) {
  if (text.empty()) return;
  print_key(key, out);
  out << wrapped(text, kKey, out) << "\n";
}

void print(const OpInfo& op, const Portrait& p, const std::vector<std::string>& shapes,
           std::ostream& out) {
  out << heading(wrapped(signature(op), 6, out)) << "\n  " << wrapped(op.doc, 2, out) << "\n\n";
  print_line("formula", op.formula, out);
  for (const std::string& d : p.derivatives)
    print_line(&d == &p.derivatives.front() ? "derivative" : "", d, out);
  if (!op.differentiable) {
    print_line("derivative", "none", out);
  } else if (op.statement < 0) {
    if (p.derivatives.empty())
      print_line("derivative", "longer than anybody would read: see what its vjp runs", out);
    print_line("", "here " + p.here + ", as in the example below", out);
    print_line("vjp runs", p.vjp.ops.empty() ? "nothing" : p.vjp.ops_text(), out);
  }
  for (const std::string& s : shapes) print_line(&s == &shapes.front() ? "shapes" : "", s, out);
  print_line("saves", p.saves.empty() ? "nothing" : joined(p.saves), out);
  print_line("made of", joined(p.made_of), out);
  print_line("dtypes", joined(dtype_names(op)), out);
  for (const AttrSpec& a : op.attrs)
    print_line("--attr", join(a.name, " (", type_name(a.type), "): ", a.doc), out);
  Names kinds;
  for (const auto& [kind, has] : p.devices)
    if (has) kinds.push_back(kind);
  print_line("devices", joined(kinds) + (p.slots.empty() ? "" : " (" + joined(p.slots) + ")"), out);
}

// ---- what is computed for the page of one op

struct Page {
  std::vector<std::string> shapes;
  OpExample example;
  rows::CheckResult check;
};

Page page_of(const OpInfo& op, OpExample example, Device& device) {
  return {shapes_of(op, 3, device), std::move(example),
          rows::check_op(op.name, device, &open_device("reference"))};
}

// Against what a mode compares.
std::string against(const std::string& mode) {
  if (mode == "value") return "the reference device";
  if (mode == "repeat") return "itself, run again";
  if (mode == "layout") return "itself, on strided, reversed and broadcast operands";
  if (mode == "vjp" || mode == "jvp") return "central differences in f64";
  if (mode == "dot") return "each other: <w, J v> = <J' w, v>";
  if (mode == "second") return "differences of the vjp, and forward over reverse";
  return "the distribution: mean and variance in standard errors";
}

Json tensors_json(const NamedTensors& tensors) {
  Json list = Json::array();
  for (const auto& [name, t] : tensors)
    list.push_back({{"name", name},
                    {"dtype", dtype_name(t.dtype())},
                    {"shape", std::vector<int64_t>(t.sizes().begin(), t.sizes().end())},
                    {"values", to_lists(t)}});
  return list;
}

Json to_json(const Page& page) {
  const OpExample& e = page.example;
  Json attrs = Json::object(), modes = Json::object();
  for (const auto& [name, value] : e.attrs) attrs[name] = to_text(value);
  for (const rows::ModeResult& m : page.check.modes)
    modes[m.mode] = {{"error", to_lists(Tensor::full({}, m.worst.error, DType::f64))},
                     {"tolerance", m.worst.tolerance},
                     {"runs", m.ran},
                     {"ok", m.worst.ok()}};
  return {{"shapes", page.shapes},
          {"example",
           {{"inputs", tensors_json(e.inputs)},
            {"attrs", attrs},
            {"outputs", tensors_json(e.outputs)},
            {"cotangents", tensors_json(e.cotangents)},
            {"gradients", tensors_json(e.gradients)},
            {"shell", e.shell},
            {"lua", e.lua}}},
          {"check", modes}};
}

// A name and its tensor, whose rows stand below each other.
void print_tensor(const std::string& name, const Tensor& t, std::ostream& out) {
  std::string text = t.to_string();
  for (size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += kKey + 1)
    text.insert(at + 1, kKey, ' ');
  print_key(name, out);
  out << text << "\n";
}

void print(const Page& page, Device& device, std::ostream& out) {
  const OpExample& e = page.example;
  out << "\n" << heading("Example") << ", computed now on " << device.name() << "\n";
  for (const auto& [name, value] : e.attrs) print_line(name, to_text(value), out);
  for (const NamedTensors* tensors : {&e.inputs, &e.outputs, &e.cotangents, &e.gradients})
    for (const auto& [name, t] : *tensors) print_tensor(name, t, out);
  out << "\n  " << e.shell << "\n";
  if (!e.lua.empty()) out << "  " << e.lua << "\n";
  out << "\n"
      << heading("Check") << ", run now on " << device.name()
      << ": the worst error, and what is allowed\n";
  for (const rows::ModeResult& m : page.check.modes) {
    char numbers[80];
    if (m.worst.tolerance == 0 && m.worst.error == 0)
      snprintf(numbers, sizeof numbers, "%-20s", "the same bits");
    else
      snprintf(numbers, sizeof numbers, "%.1e of %.1e  ", m.worst.error, m.worst.tolerance);
    print_line(m.mode,
               (m.worst.ok() ? "" : "FAILS ") + std::string(numbers) + "against " + against(m.mode),
               out);
    if (!m.worst.ok()) print_line("", m.worst.where, out);
  }
}

}  // namespace

int run_ops(const OpsOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.name.empty()) {
    const OpInfo& op = get_op(options.name);  // the error names the nearest
    const Session session(options.device, false, err);
    OpExample example = example_of(op, session.device());
    const Portrait p = portrait_of(op, example);
    const Page page = page_of(op, std::move(example), session.device());
    if (!options.json) {
      print(op, p, page.shapes, out);
      print(page, session.device(), out);
      return 0;
    }
    Json j = to_json(op, p);
    j.update(to_json(page));
    j["device"] = session.device().name();
    emit(out, j);
    return 0;
  }
  for (const OpInfo& op : all_ops())
    if (options.json)
      emit(out, to_json(op, portrait_of(op, example_of(op, default_device()))));
    else
      out << op.name << std::string(op.name.size() < 16 ? 16 - op.name.size() : 1, ' ')
          << op.formula << "\n";
  if (!options.json)
    out << "\n" << all_ops().size() << " ops; `gradus ops NAME` says more of one.\n";
  return 0;
}

}  // namespace gradus::cli
