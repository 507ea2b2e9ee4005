// Recorded steps in files. The tensors are called leaf.NAME, gradient.NAME, constant.K, seed.K,
// node.I.OUTPUT and cotangent.I.OUTPUT; the metadata hold "format" and, as JSON text, "step":
//
//   {"title": "...", "device": "cpu", "arch": "avx2", "build": "...",
//    "leaves": [{"name": "w", "dtype": "f32", "sizes": [2, 3]}],
//    "constants": [{"dtype": "f32", "sizes": [3, 2], "strides": [1, 3]}, {"number": 0.5}],
//    "nodes": [{"op": "sum", "attrs": {"dim": [0], "keepdim": false}, "inputs": [["leaf", 0]],
//               "outputs": [{"dtype": "f32", "sizes": [3]}], "where": "layers[0]"}],
//    "roots": [["node", 0, 0]]}
//
// Strides are there where a tensor is not row-major. A c128 is kept as f64 with one axis more.
#include "ops/audit/step/trace.hpp"

#include "engine/kernel_call.hpp"
#include "engine/config/device_config.hpp"
#include "engine/files/file.hpp"
#include "engine/config/options.hpp"
#include "engine/files/safetensors.hpp"
#include "engine/base/text.hpp"
#include "ops/check/user.hpp"

#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace gradus::inline v1::audit {

namespace {

using Ordered = nlohmann::ordered_json;

constexpr const char* kFormat = "gradus.trace/1";

std::vector<int64_t> list_of(const Shape& s) { return {s.begin(), s.end()}; }

// ---- values with a dtype that the format lacks, or strides of their own

Tensor reals_of(const Tensor& z) {
  if (z.dtype() != DType::c128) return z;
  std::vector<char> bytes(z.bytes());
  z.copy_to_host(bytes.data());
  Shape sizes = z.sizes();
  sizes.push_back(2);
  return Tensor::from_host(bytes.data(), sizes, DType::f64, z.device());
}

Tensor complex_of(const Tensor& t) {
  std::vector<char> bytes(t.bytes());
  t.copy_to_host(bytes.data());
  const Shape sizes(t.sizes().begin(), t.sizes().end() - 1);
  return Tensor::from_host(bytes.data(), sizes, DType::c128, t.device());
}

// The same values at these strides; axes of stride 0 hold one element.
Tensor at_strides(const Tensor& packed, const Shape& strides) {
  const Shape& sizes = packed.sizes();
  int64_t low = 0, high = 0;
  Shape once = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t reach = (sizes[d] - 1) * strides[d];
    (reach < 0 ? low : high) += reach;
    if (strides[d] == 0) once[d] = 1;
  }
  const Tensor memory = Tensor::empty({high - low + 1}, packed.dtype(), packed.device());
  copy_values(packed.alias(once, packed.strides(), packed.offset()),
              memory.alias(once, strides, -low));
  return memory.alias(sizes, strides, -low);
}

// May a file say these strides? Not where elements meet, nor where they lie so far apart that
// memory would be wasted: a file may come from anywhere.
bool suit(const Shape& sizes, const Shape& strides) {
  if (sizes.size() != strides.size()) return false;
  __extension__ typedef __int128 Wide;
  Wide reach = 0;
  Shape own, steps;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (strides[d] == 0) continue;
    reach += Wide(sizes[d] - 1) * (strides[d] < 0 ? -Wide(strides[d]) : strides[d]);
    own.push_back(sizes[d]);
    steps.push_back(strides[d]);
  }
  return reach <= 64 * (Wide(numel_of(sizes)) + 1024) && !overlaps_itself(own, steps);
}

bool keeps_strides(const Tensor& t) {
  return !t.is_contiguous() && t.numel() > 0 && suit(t.sizes(), t.strides());
}

// ---- writing

Ordered to_json(const AttrValue& v) {
  switch (v.type) {
    case AttrValue::Type::none:
      return nullptr;
    case AttrValue::Type::integer:
      return v.integer;
    case AttrValue::Type::number:
      if (std::isfinite(v.number)) return v.number;
      return {{"number", std::isnan(v.number) ? "nan" : v.number > 0 ? "inf" : "-inf"}};
    case AttrValue::Type::boolean:
      return v.integer != 0;
    case AttrValue::Type::integers:
      return std::vector<int64_t>(v.integers.begin(), v.integers.end());
    case AttrValue::Type::text:
      return v.text;
    case AttrValue::Type::dtype:
      return {{"dtype", dtype_name(v.dtype())}};
  }
  return nullptr;
}

Ordered to_json(const Source& s) {
  switch (s.kind) {
    case Source::Kind::node:
      return Ordered::array({"node", s.id, s.output});
    case Source::Kind::leaf:
      return Ordered::array({"leaf", s.id});
    case Source::Kind::constant:
      return Ordered::array({"constant", s.id});
    default:
      return nullptr;
  }
}

class Writer {
 public:
  explicit Writer(const RecordedStep& step) : step_(step) {}
  std::string bytes(const std::string& name) {
    for (size_t i = 0; i < step_.nodes.size(); ++i)
      if (const RecordedNode& n = step_.nodes[i]; is_local(*n.op))
        fail(ErrorKind::autograd, "record", "%", i, " ", n.op->name,
             n.where.empty() ? "" : " at " + n.where,
             " is an op that a script made (gradus.op): no other program has it, so nobody could ",
             "run the file; an op of a library (--load) can be recorded");
    Ordered j{{"title", step_.title},       {"device", step_.device},
              {"arch", step_.arch},         {"build", step_.build},
              {"leaves", Ordered::array()}, {"constants", Ordered::array()},
              {"nodes", Ordered::array()},  {"roots", Ordered::array()}};
    for (const RecordedLeaf& l : step_.leaves) {
      Ordered leaf{{"name", l.name}};
      leaf.update(type_of(l.value));
      j["leaves"].push_back(std::move(leaf));
      add("leaf." + l.name, l.value);
      add("gradient." + l.name, l.gradient);
    }
    for (size_t k = 0; k < step_.constants.size(); ++k) {
      const Tensor& c = step_.constants[k];
      if (c.is_number()) {
        j["constants"].push_back(number(c));
        continue;
      }
      j["constants"].push_back(type_of(c));
      add(join("constant.", k), c);
    }
    for (size_t i = 0; i < step_.nodes.size(); ++i) j["nodes"].push_back(node(i));
    for (const Source& r : step_.roots) j["roots"].push_back(to_json(r));
    for (size_t k = 0; k < step_.seeds.size(); ++k) add(join("seed.", k), step_.seeds[k]);
    return safetensors_bytes(
        tensors_,
        {{"format", kFormat}, {"step", j.dump(-1, ' ', false, Ordered::error_handler_t::replace)}},
        name);
  }

 private:
  void add(const std::string& name, const Tensor& t) {
    if (t.defined()) tensors_.emplace_back(name, reals_of(t));
  }
  static Ordered type_of(const Tensor& t) {
    Ordered j{{"dtype", dtype_name(t.dtype())}, {"sizes", list_of(t.sizes())}};
    if (keeps_strides(t)) j["strides"] = list_of(t.strides());
    return j;
  }
  static Ordered number(const Tensor& c) {
    if (c.dtype() == DType::bool_) return {{"number", c.body()->number.integer != 0}};
    if (is_integer(c.dtype())) return {{"number", c.body()->number.integer}};
    return {{"number", to_json(AttrValue(c.body()->number.value))}};
  }
  Ordered node(size_t i) {
    const RecordedNode& n = step_.nodes[i];
    Ordered j{{"op", n.op->name}};
    for (size_t a = 0; a < n.attrs.size(); ++a)
      j["attrs"][a < n.op->attrs.size() ? n.op->attrs[a].name : join("#", a)] = to_json(n.attrs[a]);
    j["inputs"] = Ordered::array();
    for (const Source& s : n.inputs) j["inputs"].push_back(to_json(s));
    for (size_t k = 0; k < n.outputs.size(); ++k) {
      const RecordedOutput& o = n.outputs[k];
      j["outputs"].push_back({{"dtype", dtype_name(o.dtype)}, {"sizes", list_of(o.sizes)}});
      add(join("node.", i, ".", k), o.value);
      add(join("cotangent.", i, ".", k), o.cotangent);
    }
    if (!n.where.empty()) j["where"] = n.where;
    return j;
  }

  const RecordedStep& step_;
  NamedTensors tensors_;
};

// ---- reading

class Reader {
 public:
  Reader(Safetensors s, const std::string& file) : file_(file) {
    const auto format = s.metadata.find("format");
    if (format != s.metadata.end() && format->second == kFormat && !s.metadata.contains("step"))
      fail(ErrorKind::io, file, "is damaged: its metadata lack the entry \"step\"");
    if (format == s.metadata.end() || format->second != kFormat)
      fail(ErrorKind::io, file, "is no recorded step: format ",
           format == s.metadata.end() ? "is missing" : '"' + format->second + '"', ", expected \"",
           kFormat, "\"");
    for (auto& [name, t] : s.tensors) tensors_.emplace(name, t);
    json_ = parse_json(s.metadata["step"], file + ": step", false, ErrorKind::io);
  }

  RecordedStep read() {
    RecordedStep step;
    step.file = file_;
    place_ = "step";
    step.title = name(json_, "title");
    step.device = name(json_, "device");
    step.arch = name(json_, "arch");
    step.build = name(json_, "build");
    leaves(step);
    const Json& constants = list(json_, "constants");
    for (size_t k = 0; k < constants.size(); ++k) {
      place_ = join("constants[", k, "]");
      step.constants.push_back(constants[k].contains("number")
                                   ? number(constants[k]["number"])
                                   : typed(constants[k], join("constant.", k)));
    }
    step_ = &step;
    const Json& nodes = list(json_, "nodes");
    for (size_t i = 0; i < nodes.size(); ++i) {
      place_ = join("nodes[", i, "]");
      step.nodes.push_back(node(nodes[i], i));
    }
    place_ = "step";
    const Json& roots = list(json_, "roots");
    if (roots.empty()) bad("roots: there is none");
    for (size_t k = 0; k < roots.size(); ++k) {
      place_ = join("roots[", k, "]");
      const Source r = source(roots[k], step.nodes.size());
      if (r.kind != Source::Kind::node)
        bad("expected [\"node\", ID, OUTPUT], got ", shown(roots[k]));
      step.roots.push_back(r);
      const RecordedOutput& o = step.nodes[size_t(r.id)].outputs[size_t(r.output)];
      step.seeds.push_back(optional(join("seed.", k), o.sizes, o.dtype));
    }
    if (!tensors_.empty())
      fail(ErrorKind::io, file_, "tensor \"", tensors_.begin()->first, "\" belongs to nothing");
    return step;
  }

 private:
  template <class... P>
  [[noreturn]] void bad(const P&... parts) const {
    fail(ErrorKind::io, file_, place_, ": ", parts...);
  }
  const Json& at(const Json& j, const char* key) const {
    if (!j.is_object() || !j.contains(key)) bad("key \"", key, "\" is missing");
    return j[key];
  }
  std::string text(const Json& j, const char* key) const {
    const Json& v = at(j, key);
    if (!v.is_string()) bad(key, ": expected a text, got ", shown(v));
    return v.get<std::string>();
  }
  // What is shown, perhaps on a terminal.
  std::string name(const Json& j, const char* key) const { return printable(text(j, key), ""); }
  const Json& list(const Json& j, const char* key) const {
    const Json& v = at(j, key);
    if (!v.is_array()) bad(key, ": expected a list, got ", shown(v));
    return v;
  }
  int64_t integer(const Json& v, const char* what) const {
    if (!v.is_number_integer() ||
        (v.is_number_unsigned() && v.get<uint64_t>() > uint64_t(INT64_MAX)))
      bad(what, ": expected a whole number, got ", shown(v));
    return v.get<int64_t>();
  }
  Shape integers(const Json& v, const char* what) const {
    if (!v.is_array()) bad(what, ": expected a list of whole numbers, got ", shown(v));
    Shape s;
    for (const Json& n : v) s.push_back(integer(n, what));
    return s;
  }
  DType dtype(const Json& v) const {
    static constexpr DType kAll[] = {DType::f32, DType::f64, DType::c64, DType::c128,
                                     DType::i32, DType::i64, DType::u8,  DType::bool_,
                                     DType::f16, DType::bf16};
    for (const DType t : kAll)
      if (v.is_string() && v.get<std::string>() == dtype_name(t)) return t;
    bad("dtype ", shown(v), " is not known");
  }
  double real(const Json& v) const {
    if (v.is_number()) return v.get<double>();
    for (const double x : {double(NAN), HUGE_VAL, -HUGE_VAL})
      if (v.is_object() && v == Json(to_json(AttrValue(x)))) return x;
    bad("expected a number, got ", shown(v));
  }
  Tensor number(const Json& v) const {
    if (v.is_boolean()) return Tensor(v.get<bool>());
    if (v.is_number_integer()) return Tensor(integer(v, "number"));
    return Tensor(real(v));
  }

  // Takes a tensor out; what is left at the end belongs to nothing.
  Tensor optional(const std::string& name, const Shape& sizes, DType dtype) {
    const auto at = tensors_.find(name);
    if (at == tensors_.end()) return {};
    Tensor t = at->second;
    tensors_.erase(at);
    const bool pairs =
        dtype == DType::c128 && t.dtype() == DType::f64 && t.rank() > 0 && t.size(-1) == 2;
    if (pairs) t = complex_of(t);
    if (!(t.sizes() == sizes) || t.dtype() != dtype)
      bad("tensor \"", name, "\" is ", t.dtype(), " ", t.sizes(), ", expected ", dtype, " ", sizes);
    return t;
  }
  Tensor typed(const Json& j, const std::string& name) {
    const Shape sizes = integers(at(j, "sizes"), "sizes");
    Tensor t = optional(name, sizes, dtype(at(j, "dtype")));
    if (!t.defined()) bad("tensor \"", name, "\" is missing");
    if (!j.contains("strides") || t.numel() == 0) return t;
    const Shape strides = integers(j["strides"], "strides");
    if (!suit(sizes, strides)) bad("strides ", strides, " do not suit sizes ", sizes);
    return at_strides(t, strides);
  }

  void leaves(RecordedStep& step) {
    std::set<std::string> names;
    const Json& leaves = list(json_, "leaves");
    for (size_t k = 0; k < leaves.size(); ++k) {
      place_ = join("leaves[", k, "]");
      RecordedLeaf leaf;
      leaf.name = text(leaves[k], "name");
      if (!names.insert(leaf.name).second) bad("two leaves are called \"", leaf.name, "\"");
      leaf.value = typed(leaves[k], "leaf." + leaf.name);
      if (!is_differentiable(leaf.value.dtype()))
        bad("a leaf of ", leaf.value.dtype(), " has no gradient");
      leaf.gradient = optional("gradient." + leaf.name, leaf.value.sizes(), leaf.value.dtype());
      leaf.name = printable(leaf.name, "");
      step.leaves.push_back(std::move(leaf));
    }
  }

  Source source(const Json& v, size_t nodes) const {
    if (v.is_null()) return {};
    const bool list = v.is_array() && v.size() >= 2 && v[0].is_string();
    const std::string kind = list ? v[0].get<std::string>() : "";
    const bool node = kind == "node";
    if ((!node && kind != "leaf" && kind != "constant") || v.size() != (node ? 3u : 2u))
      bad("expected [\"node\", ID, OUTPUT], [\"leaf\", ID], [\"constant\", ID] or null, got ",
          shown(v));
    const int64_t id = integer(v[1], "ID"), output = node ? integer(v[2], "OUTPUT") : 0;
    const size_t count = node             ? nodes
                         : kind == "leaf" ? step_->leaves.size()
                                          : step_->constants.size();
    if (id < 0 || size_t(id) >= count)
      bad(kind, " ", id, node ? " is not an earlier node" : join(": there are ", count));
    if (node && (output < 0 || size_t(output) >= step_->nodes[size_t(id)].outputs.size()))
      bad("node ", id, " has no output ", output);
    return {node             ? Source::Kind::node
            : kind == "leaf" ? Source::Kind::leaf
                             : Source::Kind::constant,
            int(id), int(output)};
  }

  AttrValue attr(const Json& v) const {
    if (v.is_null()) return {};
    if (v.is_boolean()) return v.get<bool>();
    if (v.is_number_integer()) return integer(v, "attrs");
    if (v.is_string()) return std::string_view(printable(v.get_ref<const std::string&>(), ""));
    if (v.is_array()) return integers(v, "attrs");
    if (v.is_object() && v.contains("dtype")) return dtype(v["dtype"]);
    return real(v);
  }

  void attrs(const Json& j, RecordedNode& n) const {
    const std::vector<AttrSpec>& specs = n.op->attrs;
    const Json none = Json::object();
    const Json& given = j.contains("attrs") ? j["attrs"] : none;
    if (!given.is_object()) bad("attrs: expected an object, got ", shown(given));
    for (const auto& [name, value] : given.items()) {
      const int k = n.op->attr_index(name);
      if (k < 0) bad(n.op->name, " has no attribute \"", name, "\"");
    }
    for (const AttrSpec& s : specs) {
      if (!given.contains(s.name)) bad(n.op->name, " needs the attribute \"", s.name, "\"");
      AttrValue v = attr(given[s.name]);
      if (v.type != s.type && !(v.is_none() && s.optional))
        bad("attribute \"", s.name, "\" of ", n.op->name, " can't be ", shown(given[s.name]));
      n.attrs.push_back(std::move(v));
    }
  }

  RecordedNode node(const Json& j, size_t i) {
    RecordedNode n;
    const std::string op = text(j, "op");
    n.op = find_op(op);
    if (!n.op || !n.op->primitive)
      bad("there is no op \"", op, "\"; if it is one of your own, load its library with --load");
    attrs(j, n);
    for (const Json& s : list(j, "inputs")) n.inputs.push_back(source(s, i));
    const std::vector<OperandSpec>& operands = n.op->operands;
    const bool variadic = !operands.empty() && operands.back().variadic;
    if (n.inputs.size() < n.op->least_operands() ||
        (!variadic && n.inputs.size() > operands.size()))
      bad(n.op->name, " takes ", operands.size(), " operands, got ", n.inputs.size());
    for (size_t k = 0; k < n.inputs.size(); ++k)
      if (n.inputs[k].kind == Source::Kind::absent &&
          !operands[std::min(k, operands.size() - 1)].optional)
        bad(n.op->name, " needs operand ", k);
    if (j.contains("where")) n.where = name(j, "where");
    const Json& outputs = list(j, "outputs");
    for (size_t k = 0; k < outputs.size(); ++k) {
      RecordedOutput o;
      o.dtype = dtype(at(outputs[k], "dtype"));
      o.sizes = integers(at(outputs[k], "sizes"), "sizes");
      o.value = optional(join("node.", i, ".", k), o.sizes, o.dtype);
      o.cotangent = optional(join("cotangent.", i, ".", k), o.sizes, o.dtype);
      n.outputs.push_back(std::move(o));
    }
    return n;
  }

  const std::string& file_;
  Json json_;
  std::map<std::string, Tensor> tensors_;
  RecordedStep* step_ = nullptr;
  std::string place_;
};

}  // namespace

std::string trace_bytes(const RecordedStep& step, const std::string& name) {
  return Writer(step).bytes(name);
}
void write_trace(const std::string& path, const RecordedStep& step) {
  write_file_atomically(path, trace_bytes(step, path));
}
RecordedStep parse_trace(std::string_view bytes, const std::string& name, Device& device) {
  return Reader(parse_safetensors(bytes, name, device), name).read();
}
RecordedStep read_trace(const std::string& path, Device& device) {
  return Reader(read_safetensors(path, device), path).read();
}

bool is_trace(const std::string& path) {
  // Eight bytes of a header's length, then the header's "{". As a length, the first eight bytes of
  // any text are too large.
  std::ifstream in(path, std::ios::binary);
  char head[9] = {};
  uint64_t length = 0;
  if (!in.read(head, 9) || head[8] != '{') return false;
  std::memcpy(&length, head, 8);
  return length < uint64_t(1) << 32;
}

std::string device_of_trace(const std::string& path) {
  const Metadata metadata = read_safetensors_metadata(path);
  const auto step = metadata.find("step");
  if (step == metadata.end())
    fail(ErrorKind::io, path, "is no recorded step: expected format \"", kFormat, "\"");
  const Json s = parse_json(step->second, path + ": step", false, ErrorKind::io);
  if (!s.is_object() || !s.contains("device"))
    fail(ErrorKind::io, path, "step: device: expected a text");
  check_found_device(s["device"], path + ": step");
  return s["device"].get<std::string>();
}

}  // namespace gradus::audit
