#include "ops/contract/program.hpp"

#include <algorithm>

namespace gradus::inline v1 {

namespace {

using Factor = ContractionProgram::Factor;

// A program that goes on where another ended: cotangents or tangents of its values, by value.
class Derivative {
 public:
  explicit Derivative(const ContractionProgram& p)
      : p_(p), out_(p), derived_(p.values.size(), -1), given_(p.values.size(), 0) {
    out_.outputs.clear();
  }
  // A new input that is the derivative of a port's value.
  void take(const ContractionProgram::Port& port) {
    const int value = new_value(port.value);
    out_.inputs.push_back({value, port.axes});
    if (has(port.value)) return add(port.value, {value, false}, {});
    derived_[size_t(port.value)] = value;
    given_[size_t(port.value)] = 1;
  }
  bool has(int value) const { return derived_[size_t(value)] >= 0; }
  int of(int value) const { return derived_[size_t(value)]; }
  // The derivative of `value` += SUM a * b.
  void add(int value, Factor a, Factor b) {
    int& known = derived_[size_t(value)];
    if (known < 0) {
      known = new_value(value);
    } else if (given_[size_t(value)]) {  // and not ours to add to
      const int sum = new_value(value);
      out_.steps.push_back({{known, false}, {}, sum});
      known = sum;
      given_[size_t(value)] = 0;
    }
    out_.steps.push_back({a, b, known});
  }
  void give(const ContractionProgram::Port& port) {
    int& value = derived_[size_t(port.value)];
    if (value < 0) value = new_value(port.value);  // no step sets it: zeros
    out_.outputs.push_back({value, port.axes});
  }
  ContractionProgram finish() {
    prune(out_);
    return std::move(out_);
  }

 private:
  int new_value(int like) {
    out_.values.push_back(p_.values[size_t(like)]);
    return int(out_.values.size()) - 1;
  }
  const ContractionProgram& p_;
  ContractionProgram out_;
  std::vector<int> derived_;  // -1: none yet
  Chosen given_;              // is it an input?
};

}  // namespace

Shape ContractionProgram::sizes(const Port& port) const {
  Shape sizes;
  for (const int l : port.axes) sizes.push_back(l == kNone ? 1 : extents[size_t(l)]);
  return sizes;
}

double ContractionProgram::elements(int value) const {
  double n = 1;
  for (const int l : values[size_t(value)]) n *= double(extents[size_t(l)]);
  return n;
}

ContractionProgram vjp_program(const ContractionProgram& p, const Chosen& wanted,
                               const Chosen& given) {
  // The values on the way from wanted inputs.
  Chosen on_way(p.values.size(), 0);
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (wanted[k]) on_way[size_t(p.inputs[k].value)] = 1;
  const auto leads = [&](Factor f) { return f.value >= 0 && on_way[size_t(f.value)]; };
  for (const ContractionProgram::Step& s : p.steps)
    if (leads(s.a) || leads(s.b)) on_way[size_t(s.out)] = 1;

  Derivative d(p);
  for (size_t j = 0; j < p.outputs.size(); ++j)
    if (given[j]) d.take(p.outputs[j]);
  // y += a^ * b^, where ^ conjugates or not: the cotangent of a^ is g * conj(b^), that of a its
  // conjugate where ^ conjugates.
  const auto cotangent = [](int g, Factor a) { return Factor{g, a.conj}; };
  const auto partner = [](Factor a, Factor b) {
    return b.value < 0 ? b : Factor{b.value, a.conj == b.conj};
  };
  for (auto s = p.steps.rbegin(); s != p.steps.rend(); ++s) {
    if (!d.has(s->out)) continue;
    const int g = d.of(s->out);
    if (leads(s->a)) d.add(s->a.value, cotangent(g, s->a), partner(s->a, s->b));
    if (leads(s->b)) d.add(s->b.value, partner(s->b, s->a), cotangent(g, s->b));
  }
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (wanted[k]) d.give(p.inputs[k]);
  return d.finish();
}

ContractionProgram jvp_program(const ContractionProgram& p, int out, const Chosen& given) {
  Derivative d(p);
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (given[k]) d.take(p.inputs[k]);
  for (const ContractionProgram::Step& s : p.steps) {
    if (d.has(s.a.value)) d.add(s.out, {d.of(s.a.value), s.a.conj}, s.b);
    if (s.b.value >= 0 && d.has(s.b.value)) d.add(s.out, s.a, {d.of(s.b.value), s.b.conj});
  }
  d.give(p.outputs[size_t(out)]);
  return d.finish();
}

ContractionProgram mapped_program(ContractionProgram p, int64_t size, const Chosen& batched) {
  const int label = size == 1 ? ContractionProgram::kNone : int(p.extents.size());
  if (size != 1) p.extents.push_back(size);
  Chosen has(p.values.size(), 0);
  const auto give = [&](int value) {
    if (!std::exchange(has[size_t(value)], 1) && size != 1)
      p.values[size_t(value)].insert(0, label);
  };
  for (size_t k = 0; k < p.inputs.size(); ++k)
    if (batched[k]) {
      p.inputs[k].axes.insert(0, label);
      give(p.inputs[k].value);
    }
  for (const ContractionProgram::Step& s : p.steps)
    if (has[size_t(s.a.value)] || (s.b.value >= 0 && has[size_t(s.b.value)])) give(s.out);
  for (ContractionProgram::Port& port : p.outputs) {
    port.axes.insert(0, label);
    if (has[size_t(port.value)] || size == 1) continue;
    // The same for all examples.
    ContractionProgram::Axes labels = p.values[size_t(port.value)];
    labels.insert(0, label);
    p.values.push_back(std::move(labels));
    const int each = int(p.values.size()) - 1;
    p.steps.push_back({{port.value, false}, {}, each});
    port.value = each;
  }
  return p;
}

Chosen needed_values(const ContractionProgram& p) {
  Chosen needed(p.values.size(), 0);
  for (const ContractionProgram::Port& port : p.outputs) needed[size_t(port.value)] = 1;
  for (auto s = p.steps.rbegin(); s != p.steps.rend(); ++s) {
    if (!needed[size_t(s->out)]) continue;
    needed[size_t(s->a.value)] = 1;
    if (s->b.value >= 0) needed[size_t(s->b.value)] = 1;
  }
  return needed;
}

void prune(ContractionProgram& p) {
  const Chosen needed = needed_values(p);
  std::erase_if(p.steps, [&](const ContractionProgram::Step& s) { return !needed[size_t(s.out)]; });
}

}  // namespace gradus
