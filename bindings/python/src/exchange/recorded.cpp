// A captured step as a function of another library's arrays: those that lie where they lay are read
// in place, the others are copied into fixed ones; the results are arrays again. One call for all.
#include "bindings/python/src/exchange/exchange.hpp"
#include "engine/capture/capture.hpp"
#include "engine/random.hpp"
#include "engine/streams/stream.hpp"

namespace gradus::inline v1::py {

namespace {

class Recorded {
 public:
  Recorded(nb::object step, nb::handle device, nb::object type, nb::list results, nb::list fixed,
           nb::list moved, nb::list into, nb::handle arrays, bool held)
      : step_(std::move(step)),
        captured_(captured_in(step_)),
        device_(device_at(device.ptr())),
        type_(std::move(type)),
        table_(foreign_table(type_)),
        into_(std::move(into)),
        held_(held),
        busy_(held) {
    for (const nb::handle r : results) {
      Result& made = results_.emplace_back();
      made.shared = !held;
      if (PyLong_CheckExact(r.ptr()))
        made.input = nb::cast<Py_ssize_t>(r);
      else if (!r.is_none())
        made.tensor = self_in(r);
    }
    for (const nb::handle i : moved) moved_.push_back(nb::cast<Py_ssize_t>(i));
    if (moved_.size() != into_.size())
      fail(ErrorKind::value, "_Recorded", int64_t(moved_.size()), " tensors into ",
           int64_t(into_.size()));
    const nb::object all = sequence(arrays);
    for (const nb::handle i : fixed) {
      const auto at = nb::cast<Py_ssize_t>(i);
      fixed_.emplace_back(at, place_of(item(all, at)));
    }
  }

  // None: an input lies elsewhere, or the step is in use.
  nb::object run(nb::handle arrays) {
    if (!take()) return nb::none();
    std::unique_ptr<Recorded, void (*)(Recorded*)> mine(this, [](Recorded* r) { r->release(); });
    const nb::object all = sequence(arrays);
    for (const auto& [i, place] : fixed_)
      if (place_of(item(all, i)) != place) return nb::none();
    for (size_t k = 0; k < moved_.size(); ++k) copy_into(into_[k], item(all, moved_[k]));
    if (!device_.host_memory())  // for what was copied, or written in place
      wait_for_foreign(device_, working_stream(table_, device_of(device_)));
    default_generator().begin_step();
    {
      const Unlocked unlocked;
      captured_.replay();
    }
    nb::object out = results(all);
    if (held_) mine.release();
    return out;
  }

  // Arrays over the memory of the step, which leaves it at its next run where one of them lives.
  // Who keeps an array once is likely to do so again: then it is copied from there on, so that the
  // others stay where they are.
  nb::object results(nb::handle arrays) {
    const nb::object all = sequence(arrays);
    nb::object out = checked(PyList_New(Py_ssize_t(results_.size())));
    for (size_t k = 0; k < results_.size(); ++k) {
      Result& r = results_[k];
      nb::object made = nb::none();
      if (r.input >= 0) {
        made = nb::borrow(item(all, r.input));
      } else if (r.tensor.defined()) {
        void* const place = r.tensor.storage().data();
        r.shared = r.shared && (!r.place || r.place == place);
        r.place = place;
        made = values_out(r.tensor, table_, r.shared);
      }
      PyList_SET_ITEM(out.ptr(), Py_ssize_t(k), made.release().ptr());
    }
    if (!device_.host_memory()) foreign_waits(device_, working_stream(table_, device_of(device_)));
    return out;
  }

  bool take() { return !busy_.exchange(true, std::memory_order_acquire); }
  void release() { busy_.store(false, std::memory_order_release); }

 private:
  struct Result {
    Tensor tensor;
    Py_ssize_t input = -1;  // that is passed on
    void* place = nullptr;  // where the tensor was when it was last handed out
    bool shared = true;
  };
  static nb::object sequence(nb::handle arrays) {
    return checked(PySequence_Fast(arrays.ptr(), "expected a list of tensors"));
  }
  static nb::handle item(const nb::object& all, Py_ssize_t i) {
    if (i < 0 || i >= PySequence_Fast_GET_SIZE(all.ptr())) throw nb::index_error();
    return PySequence_Fast_GET_ITEM(all.ptr(), i);
  }

  nb::object step_;
  Captured& captured_;
  Device& device_;
  nb::object type_;
  const dl::ExchangeTable& table_;
  std::vector<Result> results_;
  std::vector<std::pair<Py_ssize_t, void*>> fixed_;  // inputs, and where they lie
  std::vector<Py_ssize_t> moved_;                    // inputs, and what they are copied into
  nb::list into_;
  const bool held_;
  std::atomic<bool> busy_;
};

}  // namespace

void open_recorded(nb::module_& m) {
  nb::class_<Recorded>(
      m, "_Recorded",
      "A captured step as a function of arrays of that type: (arrays) -> list of results, or "
      "None.\n"
      "results: tensors, None, or the number of an input that is passed on. fixed: the inputs "
      "that\n"
      "have to lie where those of `arrays` lie; moved: those that are copied, `into` these. held:\n"
      "the results are copies, and after a run the step is in use until release().")
      .def(nb::init<nb::object, nb::handle, nb::object, nb::list, nb::list, nb::list, nb::list,
                    nb::handle, bool>(),
           nb::arg("step"), nb::arg("device").none(), nb::arg("type"), nb::arg("results"),
           nb::arg("fixed"), nb::arg("moved"), nb::arg("into"), nb::arg("arrays"),
           nb::arg("held") = false)
      .def("__call__", &Recorded::run)
      .def("results", &Recorded::results)
      .def("take", &Recorded::take)
      .def("release", &Recorded::release);
}

}  // namespace gradus::py
