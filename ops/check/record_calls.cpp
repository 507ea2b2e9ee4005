// Calls that another program wrote down, run and recorded: tests/peers/sweep_torch.py asks so.
#include "ops/base/dtypes.hpp"
#include "ops/check/check.hpp"
#include "ops/check/recorder.hpp"

#include <cmath>
#include <limits>
#include <map>

namespace gradus::inline v1::rows {

namespace {

// The calls of a file, as its metadata holds them. What is wrong there is told by path.
Spec calls_spec() {
  const Spec named_number =
      Spec::object("what JSON has no number for")
          .with("number", Spec::string("its name").one_of({"nan", "inf", "-inf"}));
  const Spec dtype = Spec::object("a dtype").with("dtype", Spec::string("its name"));
  const Spec integers = Spec::array(Spec::integer("one of them"), "integers");
  const Spec tensor =
      Spec::object("a view of a tensor of the file, row-major if no strides are given")
          .with("tensor", Spec::string("its name"))
          .maybe("size", integers)
          .maybe("stride", integers)
          .maybe("offset", Spec::integer("elements before the first").otherwise("0"))
          .maybe("constant", Spec::boolean("no derivative by it").otherwise("false"));
  const Spec number = Spec::number("a number");
  const Spec flag = Spec::boolean("true or false");
  const Spec value =
      Spec::any_of({number, flag, Spec::string("a word"), integers, named_number, dtype},
                   "the value of an attribute");
  const Spec operand = Spec::any_of({number, flag, named_number, tensor}, "an operand");
  return Spec::array(
      Spec::object("a call")
          .with("op", Spec::string("its name"))
          .with("in", Spec::array(operand, "operands"))
          .maybe("attrs",
                 Spec::map(value, "attributes, others have their defaults").otherwise("{}"))
          .maybe("slopes", Spec::boolean("first derivatives").otherwise("false"))
          .maybe("higher", Spec::boolean("second order and jvp").otherwise("false")),
      "calls");
}

double named_number(const std::string& name) {
  if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
  return name == "inf" ? HUGE_VAL : -HUGE_VAL;
}

AttrValue attr_of(const Json& j) {
  if (j.is_boolean()) return j.get<bool>();
  if (j.is_number_integer()) return j.get<int64_t>();
  if (j.is_number()) return j.get<double>();
  if (j.is_string()) return std::string_view(j.get_ref<const std::string&>());
  if (j.is_array()) {
    Ints list;
    for (const Json& x : j) list.push_back(x.get<int64_t>());
    return list;
  }
  if (j.contains("dtype")) return parse_dtype(j["dtype"].get<std::string>());
  return named_number(j["number"].get<std::string>());
}

Shape shape_of(const Json& j) {
  Shape shape;
  for (const Json& x : j) shape.push_back(x.get<int64_t>());
  return shape;
}

// The elements of a c128 tensor lie in pairs of f64.
Tensor joined_pairs(const Tensor& pairs, Device& device) {
  std::vector<unsigned char> bytes(pairs.bytes() + 1);
  pairs.copy_to_host(bytes.data());
  Shape sizes = pairs.sizes();
  if (sizes.empty() || sizes.back() != 2 || pairs.dtype() != DType::f64)
    fail(ErrorKind::value, "record", "a tensor .c128 is f64 with a last axis of 2, got ",
         pairs.dtype(), " ", sizes);
  sizes.pop_back();
  return Tensor::from_host(bytes.data(), sizes, DType::c128, device);
}

Tensor call_op(const char* name, const Tensor& x, const NamedAttrs& attrs) {
  const OpInfo& op = get_op(name);
  return evaluate(op, {x}, attrs_of(op, attrs))[0];
}

// The view that a call names. An axis of stride 0 is one element, repeated.
Tensor view_of(const Tensor& memory, const Json& j) {
  if (!j.contains("stride") && !j.contains("size")) return memory;
  if (!j.contains("stride") || !j.contains("size") || j["stride"].size() != j["size"].size())
    fail(ErrorKind::value, "record", "a view has a size and a stride for each axis, got ",
         j.dump());
  const Shape size = shape_of(j["size"]);
  Ints stored, stride, full;
  for (size_t d = 0; d < size.size(); ++d) {
    stride.push_back(j["stride"].at(d).get<int64_t>());
    stored.push_back(stride[d] == 0 && size[d] > 0 ? 1 : size[d]);
    full.push_back(size[d]);
  }
  const Tensor view =
      call_op("as_strided", memory,
              {{"size", stored}, {"stride", stride}, {"offset", j["offset"].get<int64_t>()}});
  return stored == full ? view : call_op("expand", view, {{"size", full}});
}

class Calls {
 public:
  Calls(const std::string& file, Device& device) : recorder_(device) {
    Safetensors read = read_safetensors(file, device);
    const auto text = read.metadata.find("calls");
    if (text == read.metadata.end())
      fail(ErrorKind::value, "record", file, ": has no metadata \"calls\"");
    calls_ = check(calls_spec(), parse_json(text->second, file), file);
    for (auto& [name, t] : read.tensors)
      tensors_[name] = name.ends_with(".c128") ? joined_pairs(t, device) : t;
  }

  Recording run() {
    for (const Json& c : calls_) run_one(c);
    return recorder_.finish(Json::array());
  }

 private:
  Tensor operand(const Json& j, std::vector<bool>& constants);
  void run_one(const Json& c);

  CaseRecorder recorder_;
  std::map<std::string, Tensor> tensors_;
  Json calls_;
};

Tensor Calls::operand(const Json& j, std::vector<bool>& constants) {
  constants.push_back(!j.is_object() || j.value("constant", false));
  if (j.is_boolean()) return Tensor(j.get<bool>());
  if (j.is_number_integer()) return Tensor(j.get<int64_t>());
  if (j.is_number()) return Tensor(j.get<double>());
  if (j.contains("number")) return Tensor(named_number(j["number"].get<std::string>()));
  const auto found = tensors_.find(j["tensor"].get<std::string>());
  if (found == tensors_.end())
    fail(ErrorKind::value, "record", "there is no tensor \"", j["tensor"].get<std::string>(), "\"");
  return view_of(found->second, j);
}

void Calls::run_one(const Json& c) {
  const OpInfo& op = get_op(c["op"].get<std::string>());
  NamedAttrs named;
  for (const auto& [name, value] : c["attrs"].items()) named.emplace_back(name, attr_of(value));
  std::vector<bool> constants;
  Tensors in;
  for (const Json& j : c["in"]) in.push_back(operand(j, constants));
  Attrs attrs;
  try {
    attrs = attrs_of(op, named);
  } catch (const Error& e) {  // an attribute of a type that the op does not take
    return recorder_.refuse(op, in, "given", e.what());
  }
  recorder_.run(
      {op, attrs, in, "given", c["slopes"].get<bool>(), c["higher"].get<bool>(), true, constants});
}

}  // namespace

Recording record_calls(const std::string& file, Device& device) {
  const DeviceScope scope(device);
  return Calls(file, device).run();
}

}  // namespace gradus::rows
