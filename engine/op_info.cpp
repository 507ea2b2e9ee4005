#include "engine/op_info.hpp"

#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace gradus::inline v1 {

namespace {
struct OpList {
  std::deque<OpInfo> ops;
  std::unordered_map<std::string_view, OpInfo*> by_name;
};
OpList& op_list() {
  static OpList* list = new OpList;
  return *list;
}
}  // namespace

const char* intern(std::string_view text) {
  static std::mutex mutex;
  static auto* texts = new std::unordered_set<std::string>;
  std::lock_guard lock(mutex);
  return texts->emplace(text).first->c_str();
}

AttrValue::AttrValue(std::string_view v) : type(Type::text), text(intern(v)) {}

std::string to_text(const AttrValue& v) {
  using Type = AttrValue::Type;
  if (v.type == Type::none) return "none";
  if (v.type == Type::integer) return join(v.integer);
  if (v.type == Type::number) return join(v.number);
  if (v.type == Type::boolean) return v.integer ? "true" : "false";
  if (v.type == Type::text) return v.text;
  if (v.type == Type::dtype) return dtype_name(v.dtype());
  std::string s = "[";
  for (size_t i = 0; i < v.integers.size(); ++i) s += join(i ? ", " : "", v.integers[i]);
  return s + "]";
}

int OpInfo::attr_index(std::string_view attr) const {
  for (size_t i = 0; i < attrs.size(); ++i)
    if (attrs[i].name == attr) return int(i);
  return -1;
}

size_t OpInfo::least_operands() const {
  size_t n = 0;
  while (n < operands.size() && !operands[n].optional) ++n;
  return n;
}

Attrs OpInfo::completed(Attrs given) const {
  for (size_t i = given.size(); i < attrs.size(); ++i) given.push_back(attrs[i].default_value);
  return given;
}

OpInfo& add_op(OpInfo op) {
  OpList& list = op_list();
  if (list.by_name.contains(op.name))
    fail(ErrorKind::internal, "add_op", "an op named ", op.name, " is there already");
  list.ops.push_back(std::move(op));
  OpInfo& added = list.ops.back();
  list.by_name.emplace(added.name, &added);
  return added;
}

const OpInfo* find_op(std::string_view name) {
  const auto it = op_list().by_name.find(name);
  return it == op_list().by_name.end() ? nullptr : it->second;
}

const OpInfo& get_op(std::string_view name) {
  if (const OpInfo* op = find_op(name)) return *op;
  std::vector<std::string> names;
  for (const OpInfo& op : all_ops()) names.push_back(op.name);
  fail(ErrorKind::value, "op", "there is no op \"", name, "\"", did_you_mean(name, names),
       "; `gradus ops` lists them all");
}

const std::deque<OpInfo>& all_ops() { return op_list().ops; }

}  // namespace gradus
