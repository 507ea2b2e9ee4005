// Devices, random numbers, files, captured steps, optimisers.
#include "bindings/python/src/python.hpp"
#include "bindings/cpp/start.hpp"
#include "engine/capture/capture.hpp"
#include "engine/config/device_config.hpp"
#include "engine/files/npy.hpp"
#include "engine/files/safetensors.hpp"
#include "engine/random.hpp"
#include "ops/optim/optimizer.hpp"
#include "ops/random/sampling.hpp"

namespace gradus::inline v1::py {

namespace {

struct Step {
  std::unique_ptr<Captured> captured;
};

optim::Rule rule_of(const nb::dict& d) {
  const auto number = [&](const char* key, double otherwise) {
    return d.contains(key) ? nb::cast<double>(d[key]) : otherwise;
  };
  const auto flag = [&](const char* key) { return d.contains(key) && nb::cast<bool>(d[key]); };
  const std::string name = nb::cast<std::string>(d["name"]);
  if (name == "sgd")
    return optim::Sgd{number("momentum", 0), number("dampening", 0), number("weight_decay", 0),
                      flag("nesterov")};
  if (name != "adam" && name != "adamw")
    fail(ErrorKind::value, "Optimizer", "\"", name, "\" is no rule; there are sgd, adam, adamw");
  optim::Adam a;
  if (d.contains("betas"))
    std::tie(a.beta1, a.beta2) = nb::cast<std::pair<double, double>>(d["betas"]);
  a.eps = number("eps", 1e-8);
  a.weight_decay = number("weight_decay", name == "adamw" ? 0.01 : 0);
  a.decoupled = name == "adamw";
  return a;
}

}  // namespace

Captured& captured_in(nb::handle step) { return *nb::cast<Step&>(step).captured; }

void open_run(nb::module_& m) {
  m.def(
      "manual_seed", [](uint64_t seed) { manual_seed(seed); }, nb::arg("seed"),
      "Restarts this thread's generator of random numbers.");
  m.def("_is_complex", [](nb::handle dtype) {
    DType t;
    return dtype_at(dtype.ptr(), t) && is_complex(t);
  });
  m.def(
      "_random_complex",
      [](const Shape& size, bool normal, DType dtype, nb::handle device) {
        const PythonLine line;
        Device& on = device_at(device.ptr());
        return normal ? randn(size, dtype, on) : rand(size, dtype, on);
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("_generator_state",
        [] { return std::make_pair(default_generator().seed(), default_generator().position()); });
  m.def("_set_generator_state",
        [](uint64_t seed, uint64_t position) { default_generator().set(seed, position); });
  m.def(
      "_uniform_parameter",
      [](const Shape& size, double bound, DType dtype, nb::handle device) {
        return uniform(size, -bound, bound, dtype, device_at(device.ptr()));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());

  m.def(
      "devices",
      [] {
        nb::list out;
        for (const KnownKind& k : known_kinds())
          out.append(nb::make_tuple(k.kind, k.devices, k.source, k.missing));
        return out;
      },
      "The kinds of device that are known: (kind, how many, where it comes from, why there is "
      "none).");
  m.def(
      "set_default_device",
      [](const std::string& name) {
        std::string notice;
        Device& before = default_device();
        use_device(name, &notice);
        if (!notice.empty() && PyErr_WarnEx(PyExc_UserWarning, notice.c_str(), 1) != 0) {
          set_default_device(before);
          throw nb::python_error();
        }
        return notice;
      },
      nb::arg("name"),
      "The device for new tensors, of all threads: a name, a path to a JSON device config, or the "
      "JSON\n"
      "itself. Where another one is opened, a warning says so, and a line is given, else an empty "
      "text.");
  m.def("get_default_device", [] { return default_device().name(); });
  m.def(
      "synchronize",
      [](nb::handle device) {
        Device& d = device_at(device.ptr());
        const Unlocked unlocked;
        d.synchronize();
      },
      nb::arg("device") = nb::none());

  m.def("_write_safetensors", [](const std::string& path, const NamedTensors& tensors,
                                 const std::vector<std::pair<std::string, std::string>>& metadata) {
    write_safetensors(path, tensors, Metadata(metadata.begin(), metadata.end()));
  });
  m.def(
      "_read_safetensors",
      [](const std::string& path, nb::handle device) {
        Safetensors file = read_safetensors(path, device_at(device.ptr()));
        return nb::make_tuple(file.tensors, std::vector<std::pair<std::string, std::string>>(
                                                file.metadata.begin(), file.metadata.end()));
      },
      nb::arg(), nb::arg().none());
  m.def(
      "_read_npy",
      [](const std::string& path, nb::handle device) {
        return read_npy(path, device_at(device.ptr()));
      },
      nb::arg(), nb::arg().none());
  m.def("_write_npy", [](const std::string& path, const Tensor& t) { write_npy(path, t); });

  nb::class_<Step>(m, "_Step", "A captured step.")
      .def("replay",
           [](Step& s) {
             default_generator().begin_step();
             const Unlocked unlocked;
             s.captured->replay();
           })
      .def_prop_ro("outputs", [](const Step& s) { return s.captured->outputs(); })
      .def_prop_ro("why_not", [](const Step& s) { return s.captured->why_not(); })
      .def_prop_ro("calls", [](const Step& s) { return s.captured->calls(); });
  m.def(
      "_capture",
      [](nb::handle f, nb::handle device) {
        Step step{std::make_unique<Captured>()};
        *step.captured = capture(device_at(device.ptr()), [&] {
          Tensors out = tensors_of(f(), "compile");
          for (Tensor& t : out) t = t.detach();
          return out;
        });
        return step;
      },
      nb::arg(), nb::arg().none());

  nb::class_<optim::Optimizer>(
      m, "Optimizer",
      "The engine's optimiser: sgd, adam, adamw, one kernel call for each parameter.")
      .def(
          "__init__",
          [](optim::Optimizer* self, const NamedTensors& parameters, const nb::dict& rule) {
            new (self) optim::Optimizer(parameters, rule_of(rule));
          },
          nb::arg("parameters"), nb::arg("rule"))
      .def(
          "step", [](optim::Optimizer& o, double lr, const Tensor& gain) { o.step(lr, gain); },
          nb::arg("lr"), nb::arg("gain") = nb::none())
      .def("prepare", &optim::Optimizer::prepare, nb::arg("lr"))
      .def(
          "apply", [](optim::Optimizer& o, const Tensor& gain) { o.apply(gain); },
          nb::arg("gain") = nb::none())
      .def("zero_grad", &optim::Optimizer::zero_grad)
      .def_prop_ro("steps", &optim::Optimizer::steps)
      .def("state", [](const optim::Optimizer& o) { return o.state(); })
      .def("load", [](optim::Optimizer& o, const NamedTensors& state, int64_t steps) {
        o.load(state, steps, "state");
      });
  m.def("_clip_gain", [](const NamedTensors& parameters, double max_norm) {
    return optim::clip_gain(parameters, max_norm);
  });
}

}  // namespace gradus::py
