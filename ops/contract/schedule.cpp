#include "ops/contract/schedule.hpp"

#include "ops/contract/layout.hpp"
#include "ops/contract/plan.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace gradus::inline v1 {

namespace {

using Program = ContractionProgram;
using Axes = Program::Axes;

bool contains(const Axes& axes, int label) {
  return std::find(axes.begin(), axes.end(), label) != axes.end();
}
bool repeats(const Axes& axes) {
  for (size_t i = 1; i < axes.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (axes[i] == axes[j] && axes[i] != Program::kNone) return true;
  return false;
}

constexpr double kMostForBranches = 1 << 20;  // more bytes of the arena than work in turn takes
constexpr double kLeastOfBranch = 1e-4;       // seconds: a thread takes a third of that to start

// Memory that is given out and taken back, lowest fitting place first, in elements.
class FreeList {
 public:
  explicit FreeList(int64_t grain) : grain_(grain) {}
  int64_t take(int64_t n) {
    n = rounded(n);
    auto best = holes_.end();
    for (auto it = holes_.begin(); it != holes_.end(); ++it)
      if (it->second >= n && (best == holes_.end() || it->second < best->second)) best = it;
    if (best == holes_.end()) {
      // The last hole may reach to the end: it grows.
      int64_t at = end_;
      if (const auto top = holes_.empty() ? holes_.end() : std::prev(holes_.end());
          top != holes_.end() && top->first + top->second == end_) {
        at = top->first;
        holes_.erase(top);
      }
      end_ = at + n;
      return at;
    }
    const auto [at, size] = *best;
    holes_.erase(best);
    if (size > n) holes_.emplace(at + n, size - n);
    return at;
  }
  void give_back(int64_t at, int64_t n) {
    auto it = holes_.emplace(at, rounded(n)).first;
    if (const auto next = std::next(it); next != holes_.end() && at + it->second == next->first) {
      it->second += next->second;
      holes_.erase(next);
    }
    if (it == holes_.begin()) return;
    if (const auto before = std::prev(it); before->first + before->second == at) {
      before->second += it->second;
      holes_.erase(it);
    }
  }
  int64_t end() const { return end_; }
  // Holes that are set aside are not given out until they are taken back.
  void set_aside() { aside_.swap(holes_); }
  void take_back() {
    for (const auto& [at, n] : std::exchange(aside_, {})) give_back(at, n);
  }

 private:
  int64_t rounded(int64_t n) const { return (n + grain_ - 1) / grain_ * grain_; }
  const int64_t grain_;
  std::map<int64_t, int64_t> holes_, aside_;  // place -> size
  int64_t end_ = 0;
};

}  // namespace

ContractionSchedule::ContractionSchedule(Program program, DType dtype, std::vector<int> sliced,
                                         const Chosen& kept)
    : program_(std::move(program)), dtype_(dtype), sliced_(std::move(sliced)) {
  place(kept);
}

ContractionSchedule::ContractionSchedule(Program program, const ContractionSchedule& before)
    : program_(std::move(program)), dtype_(before.dtype_), before_(&before) {
  place({});
}

double ContractionSchedule::slices() const {
  double n = 1;
  for (const int l : sliced_) n *= double(program_.extents[size_t(l)]);
  return n;
}

double ContractionSchedule::peak_bytes() const {
  double n = pool_bytes(double(arena_), dtype_) + (needs_one() ? pool_bytes(1, dtype_) : 0);
  for (const auto* ports : {&program_.inputs, &program_.outputs})
    for (const Program::Port& port : *ports)
      n += pool_bytes(double(numel_of(program_.sizes(port))), dtype_);
  return n;
}

double ContractionSchedule::flops() const {
  double once = 0, each = 0;
  for (size_t i = 0; i < tasks_.size(); ++i) {
    const Task& t = tasks_[i];
    const bool sums = t.kind == Task::Kind::contract && t.sizes.size() > t.out_sizes.size();
    const double products = t.kind == Task::Kind::copy ? 0 : double(numel_of(t.sizes));
    (i < first_looped_ ? once : each) += products * (sums || t.add ? 2 : 1);
  }
  return once + each * slices();
}

bool ContractionSchedule::needs_one() const {
  return std::any_of(tasks_.begin(), tasks_.end(),
                     [](const Task& t) { return t.kind == Task::Kind::contract && t.b.value < 0; });
}

bool ContractionSchedule::is_sliced(int label) const {
  return std::find(sliced_.begin(), sliced_.end(), label) != sliced_.end();
}

Axes ContractionSchedule::axes_of(int value) const {
  const Axes& all = program_.values[size_t(value)];
  if (sliced_.empty()) return all;
  Axes axes;
  for (const int l : all)
    if (!is_sliced(l)) axes.push_back(l);
  return axes;
}

// Is the output a sum over slices?
bool ContractionSchedule::accumulates(const Program::Port& port) const {
  return std::any_of(sliced_.begin(), sliced_.end(),
                     [&](int l) { return !contains(port.axes, l); });
}

// Gives each output a value that nothing else has and no step reads, so that it can be made in its
// place.
void ContractionSchedule::separate_outputs() {
  Chosen taken(program_.values.size(), 0);
  for (const Program::Port& port : program_.inputs) taken[size_t(port.value)] = 1;
  for (const Program::Step& s : program_.steps)
    for (const Program::Factor& f : {s.a, s.b})
      if (f.value >= 0) taken[size_t(f.value)] = 1;
  for (Program::Port& port : program_.outputs) {
    if (!std::exchange(taken[size_t(port.value)], 1)) continue;
    const Axes labels = program_.values[size_t(port.value)];
    program_.values.push_back(labels);
    const int own = int(program_.values.size()) - 1;
    program_.steps.push_back({{port.value, false}, {}, own});
    port.value = own;
  }
}

void ContractionSchedule::place(const Chosen& kept) {
  separate_outputs();
  places_.resize(program_.values.size());
  if (before_)
    for (size_t v = 0; v < before_->places_.size(); ++v)
      if (before_->places_[v].home == Home::arena) {
        places_[v] = before_->places_[v];
        places_[v].home = Home::before;
        program_.values[v] = before_->program_.values[v];
      }
  const auto reads_slices = [&](const Axes& axes) {
    return std::any_of(axes.begin(), axes.end(), [&](int l) { return is_sliced(l); });
  };
  for (size_t k = 0; k < program_.inputs.size(); ++k) {
    const Program::Port& port = program_.inputs[k];
    places_[size_t(port.value)] = {Home::input, int(k), 0, {}, reads_slices(port.axes)};
  }
  for (size_t k = 0; k < program_.outputs.size(); ++k)
    places_[size_t(program_.outputs[k].value)] = {Home::output, int(k), 0, {}, false};
  // What a value depends on decides where it is made.
  for (const Program::Step& s : program_.steps) {
    Place& out = places_[size_t(s.out)];
    out.looped |= places_[size_t(s.a.value)].looped || reads_slices(program_.values[size_t(s.out)]);
    if (s.b.value >= 0) out.looped |= places_[size_t(s.b.value)].looped;
  }
  order_labels();
  std::stable_partition(program_.steps.begin(), program_.steps.end(),
                        [&](const Program::Step& s) { return !places_[size_t(s.out)].looped; });
  give_out_arena(kept);
  find_branches(kept);
  write_tasks();
}

void ContractionSchedule::order_labels() {
  Program p = program_;
  Chosen free(p.values.size());
  for (size_t v = 0; v < p.values.size(); ++v) {
    p.values[v] = axes_of(int(v));
    free[v] = places_[v].home == Home::nowhere;
  }
  std::vector<double> times;
  for (const Program::Step& s : p.steps)
    times.push_back(places_[size_t(s.out)].looped ? slices() : 1);
  std::vector<Axes> orders = choose_orders(p, free, times);
  for (size_t v = 0; v < p.values.size(); ++v) {
    if (!free[v]) continue;
    for (const int l : program_.values[v])
      if (is_sliced(l)) orders[v].push_back(l);
    program_.values[v] = std::move(orders[v]);
  }
}

// Work at once needs memory for both: not where that is much.
void ContractionSchedule::find_branches(const Chosen& kept) {
  const std::vector<Program::Step> steps = program_.steps;
  const std::vector<Place> places = places_;
  const int64_t arena = arena_;
  if (!sort_by_branches()) return;
  for (Place& p : places_)
    if (p.home == Home::arena) p.home = Home::nowhere;
  give_out_arena(kept);
  if (double(arena_ - arena) * double(itemsize(dtype_)) <= kMostForBranches) return;
  program_.steps = steps;
  places_ = places;
  arena_ = arena;
  branches_ = {0, 0};
}

// Of a step that a device's threads do not share; else 0.
double ContractionSchedule::seconds_alone(const Program::Step& step) const {
  constexpr double kShared = 1 << 18, kRate = 5e9, kOverhead = 7e-7;
  double products = 1;
  const auto count = [&](int value, std::initializer_list<int> before) {
    if (value < 0) return;
    for (const int l : program_.values[size_t(value)])
      if (std::none_of(before.begin(), before.end(),
                       [&](int v) { return v >= 0 && contains(program_.values[size_t(v)], l); }))
        products *= double(program_.extents[size_t(l)]);
  };
  count(step.a.value, {});
  count(step.b.value, {step.a.value});
  count(step.out, {step.a.value, step.b.value});
  return products < kShared ? kOverhead + products / kRate : 0;
}

// The step between whose operands the work is halved best: the steps that the one depends on come
// first, then those of the other.
bool ContractionSchedule::sort_by_branches() {
  if (!sliced_.empty()) return false;
  std::vector<Program::Step>& steps = program_.steps;
  std::vector<std::vector<size_t>> into(program_.values.size());
  std::vector<double> seconds(program_.values.size(), 0);  // of all that a value depends on
  double most = kLeastOfBranch;
  size_t best = steps.size();
  for (size_t i = 0; i < steps.size(); ++i) {
    const Program::Step& s = steps[i];
    into[size_t(s.out)].push_back(i);
    double& all = seconds[size_t(s.out)];
    all += seconds_alone(s) + seconds[size_t(s.a.value)];
    if (s.b.value < 0) continue;
    all += seconds[size_t(s.b.value)];
    const double shorter = std::min(seconds[size_t(s.a.value)], seconds[size_t(s.b.value)]);
    if (shorter > most) most = shorter, best = i;
  }
  if (best == steps.size()) return false;
  constexpr char kRest = 2;
  std::vector<char> of_step(steps.size(), kRest), of_value(program_.values.size(), kRest);
  for (const char side : {0, 1}) {
    std::vector<int> open = {side == 0 ? steps[best].a.value : steps[best].b.value};
    while (!open.empty()) {
      const auto value = size_t(open.back());
      open.pop_back();
      if (into[value].empty() || of_value[value] == side) continue;
      if (of_value[value] != kRest) return false;  // both depend on it
      of_value[value] = side;
      for (const size_t i : into[value]) {
        of_step[i] = side;
        for (const Program::Factor& f : {steps[i].a, steps[i].b})
          if (f.value >= 0) open.push_back(f.value);
      }
    }
  }
  std::vector<Program::Step> sorted;
  for (const char side : {0, 1, 2}) {
    for (size_t i = 0; i < steps.size(); ++i)
      if (of_step[i] == side) sorted.push_back(steps[i]);
    if (side == 0) branches_.first = sorted.size();
    if (side == 1) branches_.second = sorted.size();
  }
  steps = std::move(sorted);
  return true;
}

void ContractionSchedule::give_out_arena(const Chosen& kept) {
  const std::vector<Program::Step>& steps = program_.steps;
  constexpr size_t kForever = SIZE_MAX;
  std::vector<size_t> last(program_.values.size(), 0);  // step that reads it last
  for (size_t i = 0; i < steps.size(); ++i)
    for (const int v : {steps[i].a.value, steps[i].b.value, steps[i].out}) {
      if (v < 0) continue;
      const bool lasts = (size_t(v) < kept.size() && kept[size_t(v)]) ||
                         (!places_[size_t(v)].looped && places_[size_t(steps[i].out)].looped);
      last[size_t(v)] = lasts || last[size_t(v)] == kForever ? kForever : i;
    }
  FreeList memory(std::max<int64_t>(1, 64 / int64_t(itemsize(dtype_))));
  const auto size_of = [&](int v) {
    int64_t n = 1;
    for (const int l : axes_of(v)) n *= program_.extents[size_t(l)];
    return n;
  };
  for (size_t i = 0; i < steps.size(); ++i) {
    if (branches_.second > 0 && i == branches_.first) memory.set_aside();
    if (branches_.second > 0 && i == branches_.second) memory.take_back();
    Place& out = places_[size_t(steps[i].out)];
    if (out.home == Home::nowhere) {
      out.home = Home::arena;
      out.offset = memory.take(size_of(steps[i].out));
      out.strides = contiguous_strides([&] {
        Shape sizes;
        for (const int l : axes_of(steps[i].out)) sizes.push_back(program_.extents[size_t(l)]);
        return sizes;
      }());
    }
    int freed = -1;
    for (const int v : {steps[i].a.value, steps[i].b.value, steps[i].out}) {
      if (v < 0 || v == freed || last[size_t(v)] != i || places_[size_t(v)].home != Home::arena)
        continue;
      memory.give_back(places_[size_t(v)].offset, size_of(v));
      freed = v;
    }
  }
  arena_ = memory.end();
  for (const Place& p : places_)  // one that holds nothing is there all the same
    if (p.home == Home::arena) arena_ = std::max<int64_t>(arena_, 1);
}

void ContractionSchedule::write_tasks() {
  Chosen set(program_.values.size(), 0);
  for (const Program::Port& port : program_.outputs) {
    const bool zero = repeats(port.axes) || accumulates(port);
    zeroed_.push_back(zero);
    set[size_t(port.value)] = zero && accumulates(port);
  }
  for (const Program::Step& s : program_.steps) {
    if (!places_[size_t(s.out)].looped) ++first_looped_;
    tasks_.push_back(task_of(s, !std::exchange(set[size_t(s.out)], 1)));
  }
  // An output that no step sets is 0.
  for (size_t k = 0; k < program_.outputs.size(); ++k)
    if (!set[size_t(program_.outputs[k].value)]) zeroed_[k] = 1;
}

ContractionSchedule::View ContractionSchedule::view_of(int value, const Axes& axes) const {
  View view;
  view.value = value;
  if (value < 0) return view;
  const Axes& labels = program_.values[size_t(value)];
  const Axes own = axes_of(value);
  const Place& place = places_[size_t(value)];
  const bool fixed = place.home == Home::arena || place.home == Home::before;
  for (const int l : axes) {
    const Axes& names = fixed ? own : labels;
    const auto it = std::find(names.begin(), names.end(), l);
    const int at = it == names.end() ? -1 : int(it - names.begin());
    if (fixed)
      view.strides.push_back(at < 0 ? 0 : place.strides[size_t(at)]);
    else
      view.at.push_back(at);
  }
  return view;
}

ContractionSchedule::Task ContractionSchedule::task_of(const Program::Step& step,
                                                       bool first) const {
  const Axes a = axes_of(step.a.value), out = axes_of(step.out);
  const bool one = step.b.value < 0, complex = is_complex(dtype_);
  Axes joint = out, summed;
  for (const int l : a)
    if (!contains(out, l)) summed.push_back(l);
  if (!one)
    for (const int l : axes_of(step.b.value))
      if (!contains(out, l) && !contains(a, l)) summed.push_back(l);
  bool broader = false;  // is a repeated?
  for (const int l : out) broader |= !contains(a, l);
  Task t{};
  t.add = !first;
  t.conj_a = complex && step.a.conj;
  t.conj_b = complex && step.b.conj;
  using Kind = Task::Kind;
  const bool plain = !t.add && !t.conj_a && !t.conj_b;
  t.kind = !plain                            ? Kind::contract
           : !one                            ? summed.empty() ? Kind::multiply : Kind::contract
           : summed.empty()                  ? Kind::copy
           : !broader && !is_integer(dtype_) ? Kind::reduce
                                             : Kind::contract;
  if (t.kind == Kind::reduce)
    joint = a;  // the axes of a in their order
  else
    for (const int l : summed) joint.push_back(l);
  for (const int l : joint) t.sizes.push_back(program_.extents[size_t(l)]);
  if (t.kind == Kind::reduce)
    for (const int l : a) t.out_sizes.push_back(contains(out, l) ? program_.extents[size_t(l)] : 1);
  else
    t.out_sizes = Shape(t.sizes.begin(), t.sizes.begin() + out.size());
  t.a = view_of(step.a.value, joint);
  t.b = view_of(step.b.value, joint);
  t.out = view_of(step.out, t.kind == Kind::reduce ? joint : out);
  return t;
}

}  // namespace gradus
