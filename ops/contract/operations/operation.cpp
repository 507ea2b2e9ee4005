// Plans are made here: names become statements, modes become places in a joint index space (D's
// axes, then those that are summed), and the workspace is counted with the largest of programs.
#include "ops/contract/operations/operation.hpp"

#include "ops/base/dtypes.hpp"
#include "ops/contract/primitive.hpp"
#include "ops/def/fingerprint.hpp"

#include <algorithm>
#include <unordered_map>

namespace gradus::inline v1 {

namespace {

using Kind = OperationKind;

constexpr std::string_view kReductions[] = {"sum", "prod", "max", "min"};  // as gd_reduction

bool repeats(const Ints& modes) {
  for (size_t i = 0; i < modes.size(); ++i)
    if (place(modes, modes[i]) < i) return true;
  return false;
}
std::string mode_text(int64_t m) {
  if ((m >= 'a' && m <= 'z') || (m >= 'A' && m <= 'Z')) return std::string(1, char(m));
  return join(m);
}

bool reads(const def::StatementText& s, DType t) {
  return s.dtypes & unsigned(t == DType::bool_ ? def::kBool
                             : is_complex(t)   ? def::kComplex
                             : is_integer(t)   ? def::kInteger
                                               : def::kReal);
}
// The statement of a name, of T -> T or (T, T) -> T; `whose` begins messages.
Statement statement_of(const char* kind, const std::string& whose, const Operator& op, int arity,
                       DType dtype) {
  if (arity == 1 && (op.name.empty() || op.name == "identity")) return {};
  const int id = def::statement_id(op.name);
  const char* const wanted = arity == 1 ? "one operand" : "two operands";
  if (id < 0) {
    std::vector<std::string> known;
    for (int k = 0; k < def::statement_count(); ++k)
      if (def::statement_info(k).arity == arity) known.push_back(def::statement_info(k).name);
    fail(ErrorKind::value, kind, whose, ": no statement \"", op.name, "\" of ", wanted,
         did_you_mean(op.name, known));
  }
  const def::StatementText& s = def::statement_info(id);
  if (id >= def::statement_count())
    fail(ErrorKind::value, kind, whose, ": ", op.name, " is a user's statement; no device has it");
  if (s.arity != arity || s.kind == def::Kind::comparison || s.kind == def::Kind::select)
    fail(ErrorKind::value, kind, whose, ": ", op.name, " is no function of ", wanted,
         " whose value has their dtype");
  if (op.name == "conj" && !is_complex(dtype)) return {};
  if (!reads(s, dtype) ||
      (s.kind == def::Kind::non_holomorphic && is_complex(dtype) && op.name != "conj"))
    fail(ErrorKind::dtype, kind, whose, ": ", op.name, " gives no ", dtype, " of ", dtype);
  if (!op.parameters.empty() && op.parameters.size() != s.params.size())
    fail(ErrorKind::value, kind, whose, ": ", op.name, " has ", s.params.size(),
         " parameters, got ", op.parameters.size());
  Statement out{id, op.parameters};
  if (op.parameters.empty()) out.parameters.append(s.defaults.data(), s.defaults.size());
  return out;
}

}  // namespace

const OperationKindInfo& kind_info(OperationKind kind) {
  static constexpr OperationKindInfo all[] = {{"contraction", 2, 3, {"A", "B", "C"}},
                                              {"reduction", 1, 2, {"A", "C"}},
                                              {"permutation", 1, 1, {"A"}},
                                              {"binary", 2, 2, {"A", "C"}},
                                              {"trinary", 3, 3, {"A", "B", "C"}}};
  return all[size_t(kind)];
}

Operation::Operation(const OperationDesc& desc, Device& device)
    : kind_(desc.kind), dtype_(DType::f32), device_(&device) {
  check_modes(desc);
  read_statements(desc);
  place_modes(desc);
  workspace_ = planned_workspace();
}

void Operation::check_modes(const OperationDesc& desc) {
  const auto& [name, least, most, letters] = kind_info(kind_);
  const size_t n = desc.operands.size();
  if (n < least || n > most)
    fail(ErrorKind::value, name, "takes ", least, least < most ? join(" or ", most) : "",
         " operands, got ", n);
  dtype_ = desc.operands[0].dtype;
  for (size_t k = 0; k < n; ++k) {
    const OperandModes& x = desc.operands[k];
    numel_of(x.sizes);  // refuses negative sizes and what overflows
    if (x.modes.size() != x.sizes.size())
      fail(ErrorKind::shape, name, letters[k], " has ", x.modes.size(), " modes for the shape ",
           x.sizes);
    if (x.dtype != dtype_)
      fail(ErrorKind::dtype, name, letters[k], " is ", x.dtype, ", A is ", dtype_,
           "; all are of one dtype");
    for (size_t i = 0; i < x.modes.size(); ++i)
      for (size_t j = 0; j <= k; ++j) {
        const OperandModes& y = desc.operands[j];
        const size_t at = place(y.modes, x.modes[i]);
        if (at < y.modes.size() && y.sizes[at] != x.sizes[i])
          fail(ErrorKind::shape, name, "mode ", mode_text(x.modes[i]), " is ", y.sizes[at], " in ",
               letters[j], " and ", x.sizes[i], " in ", letters[k]);
      }
    // Summed are modes of a contraction's A and B and of a reduction's A.
    const bool sums = (kind_ == Kind::contraction && k < 2) || (kind_ == Kind::reduction && k < 1);
    for (const int64_t m : x.modes)
      if (!sums && !has(desc.modes, m))
        fail(ErrorKind::value, name, "mode ", mode_text(m), " of ", letters[k], " is not in D");
  }
  for (const int64_t m : desc.modes) {
    const size_t among = kind_ == Kind::reduction ? 1 : n;
    const auto in = [&](const OperandModes& x) { return has(x.modes, m); };
    if (std::none_of(desc.operands.begin(), desc.operands.begin() + ptrdiff_t(among), in))
      fail(ErrorKind::value, name, "mode ", mode_text(m), " of D is in no operand",
           among < n ? " that is reduced" : "");
  }
  if (repeats(desc.modes)) fail(ErrorKind::value, name, "a mode of D is repeated");
  if (is_user(dtype_)) fail(ErrorKind::dtype, name, "operands are ", dtype_, ", a user's dtype");
}

void Operation::read_statements(const OperationDesc& desc) {
  const auto& [name, least, most, letters] = kind_info(kind_);
  for (size_t k = 0; k < desc.operands.size(); ++k) {
    Operand o;
    o.sizes = desc.operands[k].sizes;
    Statement s = statement_of(name, letters[k], desc.operands[k].op, 1, dtype_);
    const bool conj = s.id >= 0 && s.id == def::statement_id("conj");
    if (kind_ == Kind::contraction && k < 2) {
      o.conj = conj;
      if (!conj) o.staged = std::move(s);
    } else if (kind_ == Kind::reduction && k == 0 && !conj) {
      o.staged = std::move(s);
    } else {
      o.op = std::move(s);  // of a reduction: a sum's conjugate is the sum of conjugates
    }
    operands_.push_back(std::move(o));
  }
  after_ = statement_of(name, "D", desc.after, 1, dtype_);
  if (kind_ == Kind::binary || kind_ == Kind::trinary)
    combine_ = statement_of(name, "x", desc.combine, 2, dtype_);
  if (kind_ == Kind::trinary)
    combine_second_ = statement_of(name, "y", desc.combine_second, 2, dtype_);
  if (kind_ == Kind::contraction && dtype_ == DType::bool_)
    refuse_dtype(name, dtype_, def::kNumbers);
  if (kind_ == Kind::reduction) read_reduction(desc.combine.name);
}

void Operation::read_reduction(const std::string& reduction) {
  const auto at = std::find(std::begin(kReductions), std::end(kReductions), reduction);
  if (at == std::end(kReductions))
    fail(ErrorKind::value, "reduction", "no reduction \"", reduction,
         "\"; expected sum, prod, max or min", did_you_mean(reduction, kReductions));
  reduction_ = int(at - std::begin(kReductions));
  const bool orders = reduction_ == GD_MAX || reduction_ == GD_MIN;
  if (orders && is_complex(dtype_)) refuse_unordered("reduction", dtype_, reduction);
  if (dtype_ == DType::bool_ || (!orders && is_integer(dtype_) && dtype_ != DType::i64))
    fail(ErrorKind::dtype, "reduction", "A is ", dtype_, ", whose ", reduction,
         " leaves it; cast it to i64");
}

void Operation::place_modes(const OperationDesc& desc) {
  Ints all = desc.modes;  // of the joint index space
  const size_t summing = kind_ == Kind::contraction ? 2 : kind_ == Kind::reduction ? 1 : 0;
  for (size_t k = 0; k < summing; ++k) {
    const Ints& own = desc.operands[k].modes;
    // Summed before they meet the other operand, unless the sum would be rounded or leave the
    // dtype.
    const bool alone = kind_ == Kind::contraction && !repeats(own) &&
                       ((is_floating(dtype_) && !is_half(dtype_)) || dtype_ == DType::i64);
    for (const int64_t m : own)
      if (has(all, m))
        continue;
      else if (alone && !has(desc.operands[1 - k].modes, m))
        operands_[k].sums_alone = true;
      else
        all.push_back(m);
  }
  joint_ = Shape(all.size(), 1);
  for (size_t k = 0; k < operands_.size(); ++k)
    for (size_t i = 0; i < desc.operands[k].modes.size(); ++i) {
      const size_t at = place(all, desc.operands[k].modes[i]);
      operands_[k].places.push_back(at < all.size() ? int64_t(at) : -1);
      if (at < all.size()) joint_[at] = operands_[k].sizes[i];
    }
  sizes_ = Shape(joint_.begin(), joint_.begin() + desc.modes.size());
  numel_of(sizes_);
  const bool empty = std::find(joint_.begin() + sizes_.size(), joint_.end(), 0) != joint_.end();
  if (kind_ == Kind::reduction && empty && (reduction_ == GD_MAX || reduction_ == GD_MIN))
    fail(ErrorKind::value, "reduction", "no ", kReductions[reduction_], " of nothing: A has shape ",
         operands_[0].sizes);
}

Shape Operation::Operand::summed_sizes() const {
  Shape out = sizes;
  for (size_t i = 0; i < out.size(); ++i)
    if (places[i] < 0) out[i] = 1;
  return out;
}

int64_t Operation::planned_workspace() const {
  int64_t n = 0;
  const auto piece = [&](const Shape& sizes) { n += Scratch::rounded(numel_of(sizes), dtype_); };
  for (const Operand& o : operands_) {
    if (o.staged.id >= 0) piece(o.sizes);
    if (o.sums_alone) piece(o.summed_sizes());
  }
  if (kind_ == Kind::contraction) return n;
  if (kind_ == Kind::reduction && operands_.size() == 2) piece(sizes_);
  piece({int64_t(kMostOperands)});  // the factors
  if (!chains())
    for (int k = program({Scale::other, Scale::other, Scale::other}).waiting(); k > 0; --k)
      piece(sizes_);
  return n;
}

bool Operation::chains() const { return device_->offers(GD_CHAIN) && !is_half(dtype_); }

int Operation::term(Program& p, size_t k, Scale scale) const {
  static const Statement product{def::statement_id("mul")};
  const int factor = Program::kFactors + int(k);
  if (scale == Scale::zero) return factor;
  const int value = p.apply(operands_[k].op, int(k));
  return scale == Scale::one ? value : p.apply(product, value, factor);
}

Program Operation::program(const Scale (&scales)[kMostOperands]) const {
  static const Statement sum{def::statement_id("add")};
  Program p;
  int value = term(p, 0, scales[0]);
  if (kind_ == Kind::reduction) {
    if (operands_.size() == 2 && scales[1] != Scale::zero)
      value = p.apply(sum, value, term(p, 1, scales[1]));
  } else if (kind_ != Kind::permutation) {
    value = p.apply(combine_, value, term(p, 1, scales[1]));
    if (kind_ == Kind::trinary) value = p.apply(combine_second_, value, term(p, 2, scales[2]));
  }
  p.give(p.apply(after_, value));
  return p;
}

namespace {

std::string key_of(const OperationDesc& d, const Device& device) {
  std::string key;
  const auto list = [&](const auto& l) {
    const size_t n = l.size();
    key.append(reinterpret_cast<const char*>(&n), sizeof n);
    key.append(reinterpret_cast<const char*>(l.data()), n * sizeof *l.data());
  };
  const auto add_operator = [&](const Operator& op) {
    list(op.name);
    list(op.parameters);
  };
  list(device.name());
  list(Ints{int64_t(d.kind), int64_t(d.operands.size())});
  for (const OperandModes& x : d.operands) {
    list(x.modes);
    list(x.sizes);
    list(Ints{int64_t(x.dtype)});
    add_operator(x.op);
  }
  list(d.modes);
  for (const Operator* op : {&d.combine, &d.combine_second, &d.after}) add_operator(*op);
  return key;
}

}  // namespace

std::shared_ptr<const Operation> operation(const OperationDesc& desc, Device& device) {
  constexpr size_t kMost = 128;
  thread_local std::unordered_map<std::string, std::shared_ptr<const Operation>> made;
  std::string key = key_of(desc, device);
  if (const auto it = made.find(key); it != made.end()) return it->second;
  auto plan = std::make_shared<const Operation>(desc, device);
  if (made.size() >= kMost) made.clear();
  made.emplace(std::move(key), plan);
  return plan;
}

}  // namespace gradus
