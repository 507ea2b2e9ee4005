// One run of a schedule: the tensors bound to their values, the tasks done one after another, those
// in the loop once for each slice.
#include "engine/kernel_call.hpp"
#include "ops/contract/schedule.hpp"
#include "ops/pointwise/pointwise.hpp"

#include <exception>
#include <system_error>
#include <thread>

namespace gradus::inline v1 {

class ContractionRun {
 public:
  using Schedule = ContractionSchedule;
  using Program = ContractionProgram;

  ContractionRun(const Schedule& s, Operands inputs, Device& device, const Tensor& before)
      : s_(s), device_(device), before_(before) {
    const Program& p = s.program_;
    bound_.resize(p.inputs.size() + p.outputs.size());
    outputs_.reserve(p.outputs.size());
    for (size_t k = 0; k < p.inputs.size(); ++k) bind(p.inputs[k], inputs[k], bound_[k]);
    for (size_t k = 0; k < p.outputs.size(); ++k) {
      outputs_.push_back(Tensor::empty(p.sizes(p.outputs[k]), s.dtype_, device));
      if (s.zeroed_[k]) fill_values(outputs_.back(), 0, 0);
      bind(p.outputs[k], outputs_.back(), bound_[p.inputs.size() + k]);
    }
    if (s.arena_ > 0) arena_ = Tensor::empty({s.arena_}, s.dtype_, device);
    if (s.needs_one()) one_ = Tensor::full({}, 1, s.dtype_, device);
  }

  void run() {
    carry_out(run_branches(), s_.first_looped_);
    if (s_.slices() == 0) return;
    SmallVector<int64_t, 6> at(s_.sliced_.size(), 0);
    for (;;) {
      carry_out(s_.first_looped_, s_.tasks_.size());
      size_t k = at.size();  // the next slice: the last label runs fastest
      for (; k > 0; --k) {
        const int label = s_.sliced_[k - 1];
        const bool wraps = ++at[k - 1] == s_.program_.extents[size_t(label)];
        move(label, wraps ? 1 - at[k - 1] : 1);
        if (!wraps) break;
        at[k - 1] = 0;
      }
      if (k == 0) return;
    }
  }
  Tensors take_outputs() { return std::move(outputs_); }
  const Tensor& arena() const { return arena_; }

 private:
  // A tensor as the value of a port: strides by the value's labels, those of diagonals summed.
  struct Bound {
    const Tensor* tensor = nullptr;
    int64_t offset = 0;
    Shape strides{};
    const Program::Axes* labels = nullptr;
  };
  void bind(const Program::Port& port, const Tensor& t, Bound& b) const {
    b.tensor = &t;
    b.offset = t.offset();
    b.labels = &s_.program_.values[size_t(port.value)];
    for (const int l : *b.labels) {
      int64_t stride = 0;
      for (size_t axis = 0; axis < port.axes.size(); ++axis)
        if (port.axes[axis] == l) stride += t.strides()[axis];
      b.strides.push_back(stride);
    }
  }
  void move(int label, int64_t by) {
    for (Bound& b : bound_)
      for (size_t i = 0; i < b.labels->size(); ++i)
        if ((*b.labels)[i] == label) b.offset += by * b.strides[i];
  }

  struct Located {
    const Tensor* tensor;
    int64_t offset;
    Shape strides;
  };
  Located locate(const Schedule::View& view) const {
    const Schedule::Place& place = s_.places_[size_t(view.value)];
    using Home = Schedule::Home;
    if (place.home == Home::arena) return {&arena_, place.offset, view.strides};
    if (place.home == Home::before) return {&before_, place.offset, view.strides};
    const size_t ports = place.home == Home::output ? s_.program_.inputs.size() : 0;
    const Bound& b = bound_[ports + size_t(place.port)];
    Located found{b.tensor, b.offset, {}};
    for (const int at : view.at) found.strides.push_back(at < 0 ? 0 : b.strides[size_t(at)]);
    return found;
  }
  // The one on a thread of its own, the other on this one; the first task after them.
  size_t run_branches() const {
    const auto [first, second] = s_.branches_;
    if (second == 0 || !shares_out()) return 0;
    std::exception_ptr error;
    std::thread other;
    try {
      other = std::thread([&, first = first] {
        try {
          carry_out(0, first);
        } catch (...) {
          error = std::current_exception();
        }
      });
    } catch (const std::system_error&) {
      return 0;  // the system gives no more threads
    }
    try {
      carry_out(first, second);
    } catch (...) {
      other.join();
      throw;
    }
    other.join();
    if (error) std::rethrow_exception(error);
    return second;
  }
  // Who watches this thread's calls would miss another's.
  bool shares_out() const {
    const gd_table& t = device_.table();
    return t.capabilities && (t.capabilities(device_.handle()) & GD_CAP_THREADS) &&
           device_.wrappers().empty();
  }
  void carry_out(size_t begin, size_t end) const {
    for (size_t i = begin; i < end; ++i) carry_out(s_.tasks_[i]);
  }
  void carry_out(const Schedule::Task& t) const {
    using Kind = Schedule::Task::Kind;
    if (numel_of(t.out_sizes) == 0) return;
    static const int multiply = get_op("mul").statement;
    KernelCall call(t.kind == Kind::contract   ? GD_CONTRACT
                    : t.kind == Kind::multiply ? GD_POINTWISE
                    : t.kind == Kind::reduce   ? GD_REDUCE
                                               : GD_COPY,
                    t.kind == Kind::multiply ? multiply
                    : t.kind == Kind::reduce ? int(GD_SUM)
                                             : 0);
    const Located a = locate(t.a), out = locate(t.out);
    call.in(*a.tensor, t.sizes, a.strides).at(a.offset);
    if (t.b.value >= 0) {
      const Located b = locate(t.b);
      call.in(*b.tensor, t.sizes, b.strides).at(b.offset);
    } else if (t.kind == Kind::contract) {
      call.in(one_, t.sizes, Shape(t.sizes.size(), 0));
    }
    if (t.kind == Kind::contract) {
      call.integer(int64_t(t.out_sizes.size())).integer(GD_STANDARD);
      call.integer(t.conj_a).integer(t.conj_b);
      call.number(1).number(0).number(t.add).number(0);
    }
    call.out(*out.tensor, t.out_sizes, out.strides).at(out.offset);
    call.run();
  }

  const Schedule& s_;
  Device& device_;
  const Tensor& before_;
  std::vector<Bound> bound_;  // inputs, then outputs
  Tensors outputs_;
  Tensor arena_, one_;
};

Tensors ContractionSchedule::run(Operands inputs, Device& device, Tensor* arena,
                                 const Tensor& before) const {
  ContractionRun run(*this, inputs, device, before);
  run.run();
  if (arena) *arena = run.arena();
  return run.take_outputs();
}

}  // namespace gradus
