// How a program of contractions is carried out: where each value lies, in which kernel call a step
// is done, and which labels are looped over outside. Values that are neither given nor asked for
// share one piece of memory, the arena, whose places are given out by their times of life.
#pragma once
#include "engine/tensor.hpp"
#include "ops/contract/program.hpp"

namespace gradus::inline v1 {

class ContractionSchedule {
 public:
  // `sliced`: labels to loop over. `kept`: values that stay in the arena to the end of the run, by
  // value; empty: none. Immutable from here on: any threads may run it at once.
  ContractionSchedule(ContractionProgram program, DType dtype, std::vector<int> sliced = {},
                      const Chosen& kept = {});
  // Of a derivative: `before` has run, and its arena holds the values that it kept, under their
  // numbers. `program` may read them.
  ContractionSchedule(ContractionProgram program, const ContractionSchedule& before);

  const ContractionProgram& program() const { return program_; }
  DType dtype() const { return dtype_; }
  const std::vector<int>& sliced() const { return sliced_; }
  double slices() const;
  // Steps before the first number and those from there to the second need nothing of each other and
  // may be done at once; 0 and 0: there are no such.
  std::pair<size_t, size_t> branches() const { return branches_; }
  double arena_bytes() const { return double(arena_) * double(itemsize(dtype_)); }
  // Of inputs, outputs and arena, as the pool gives them out.
  double peak_bytes() const;
  // Of all slices, of real numbers: 2 for a product that is added to others, 1 for one that is not,
  // 1 for an element that is summed alone.
  double flops() const;

  // Inputs: of the program's dtype and sizes, any strides, all on one device. The outputs are new.
  // `arena`: receives that of this run. `before`: the arena of a run of the schedule before.
  Tensors run(Operands inputs, Device& device, Tensor* arena = nullptr,
              const Tensor& before = {}) const;

 private:
  friend class ContractionRun;
  using Axes = ContractionProgram::Axes;
  enum class Home : uint8_t { nowhere, input, output, arena, before };
  struct Place {
    Home home = Home::nowhere;
    int port = 0;         // of inputs or outputs
    int64_t offset = 0;   // in elements, of arenas
    Shape strides{};      // by label; of arenas
    bool looped = false;  // is it made in the loop over slices?
  };
  // A view of a value over the axes of a task.
  struct View {
    int value = -1;
    Shape strides{};           // where it lies in an arena
    SmallVector<int, 6> at{};  // else by axis: which of its labels; -1: it has none there
  };
  struct Task {
    enum class Kind : uint8_t { copy, reduce, multiply, contract } kind;
    bool add, conj_a, conj_b;
    Shape sizes, out_sizes;  // of the joint space of a and b: the axes of out, then those summed
    View a, b, out;          // b.value = -1: the number 1
  };

  void separate_outputs();
  void place(const Chosen& kept);
  void order_labels();
  void find_branches(const Chosen& kept);
  bool sort_by_branches();
  double seconds_alone(const ContractionProgram::Step& step) const;
  void give_out_arena(const Chosen& kept);
  void write_tasks();
  Task task_of(const ContractionProgram::Step& step, bool first) const;
  View view_of(int value, const Axes& axes) const;
  Axes axes_of(int value) const;  // without what is sliced
  bool is_sliced(int label) const;
  bool needs_one() const;  // does a task read the number 1?
  bool accumulates(const ContractionProgram::Port& port) const;

  ContractionProgram program_;
  DType dtype_;
  std::vector<int> sliced_;
  const ContractionSchedule* before_ = nullptr;
  std::vector<Place> places_;  // by value
  std::vector<Task> tasks_;
  size_t first_looped_ = 0;  // of tasks_
  std::pair<size_t, size_t> branches_;
  Chosen zeroed_;      // outputs that begin as 0
  int64_t arena_ = 0;  // elements
};

}  // namespace gradus
