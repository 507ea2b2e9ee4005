// Data sets, networks from a config, and the trainer: the program's own, so a run from Python has
// the program's numbers.
#include "bindings/python/src/python.hpp"
#include "bindings/cpp/start.hpp"
#include "engine/config/device_config.hpp"
#include "engine/files/file.hpp"
#include "ops/train/trainer.hpp"

#include <nlohmann/json.hpp>

namespace gradus::inline v1::py {

using namespace training;

namespace {

// A dict or a list of Python, by its own json; a file; a text as it is.
Json json_of(nb::handle o, const char* name) {
  if (!PyUnicode_Check(o.ptr()))
    return parse_json(nb::cast<std::string>(nb::module_::import_("json").attr("dumps")(o)), name);
  const std::string text = nb::cast<std::string>(o);
  if (text.ends_with(".json")) return parse_json(read_file(text), text);
  return !text.empty() && (text[0] == '{' || text[0] == '[') ? parse_json(text, name) : Json(text);
}

struct Network {
  explicit Network(nn::Sequential l) : layers(std::move(l)) {}
  Network(const Network&) = delete;
  nn::Sequential layers;
};
struct Training {
  Training() = default;
  Training(const Training&) = delete;
  Experiment experiment;
  Dataset data;
  std::optional<Trainer> trainer;
};

}  // namespace

void open_train(nb::module_& m) {
  m.def("_read_data", [](nb::handle data) {
    const Dataset set = load_data(read_data(check(data_spec(), json_of(data, "data"), "data")));
    const auto train = whole_set(set, set.train, default_device());
    const auto test = whole_set(set, set.test, default_device());
    return nb::make_tuple(train.inputs, train.targets, test.inputs, test.targets);
  });
  m.def(
      "epoch_order",
      [](int64_t n, uint64_t seed, int64_t epoch) {
        const std::vector<int64_t> order = epoch_order(n, seed, epoch);
        return Tensor::from(order, {n}, open_device("cpu"));
      },
      nb::arg("n"), nb::arg("seed"), nb::arg("epoch"),
      "In which order the program's trainer visits n samples.");

  nb::class_<Network>(m, "Network", "Layers built from a config, as `gradus train` builds them.")
      .def(
          "__init__",
          [](Network* self, nb::handle layers, const Shape& probe, DType dtype) {
            const Spec spec = Spec::array(Spec::reference("layer", layer_spec), "layers").length(1);
            const Json checked = check(spec, json_of(layers, "layers"), "layers");
            Tensor x = Tensor::zeros(probe, dtype);
            new (self) Network(build_layers(read_layers(checked), x, "layers"));
          },
          nb::arg("layers"), nb::arg("shape"), nb::arg("dtype") = DType::f32)
      .def("__call__",
           [](Network& n, const Tensor& x) {
             const PythonLine line;
             return n.layers.forward(x);
           })
      .def(
          "train", [](Network& n, bool on) { n.layers.set_training(on); }, nb::arg("mode") = true)
      .def("named_parameters", [](const Network& n) { return n.layers.parameters(); })
      .def("state", [](const Network& n) { return n.layers.state(); })
      .def("load", [](Network& n, const NamedTensors& state) { n.layers.load(state, "load"); });

  nb::class_<Training>(m, "Trainer",
                       "Trains as `gradus train CONFIG` does: the same steps, the same bits.")
      .def(
          "__init__",
          [](Training* self, nb::handle config) {
            const Json checked = check(network_spec(), json_of(config, "config"), "config");
            Device* device = &default_device();
            if (checked.contains("device"))
              device = open_configured(parse_device_config(checked["device"], "config")).device;
            new (self) Training;
            self->experiment = read_experiment(checked, "config");
            self->data = load_data(self->experiment.data);
            self->trainer.emplace(self->experiment, self->data, *device);
          },
          nb::arg("config"))
      .def(
          "step",
          [](Training& t) {
            if (t.trainer->epoch_done())
              fail(ErrorKind::value, "step", "the epoch is done; call finish_epoch()");
            const Unlocked unlocked;
            return t.trainer->step();
          },
          "One optimiser step on the next batch of the epoch.")
      .def(
          "finish_epoch",
          [](Training& t) {
            if (!t.trainer->epoch_done())
              fail(ErrorKind::value, "finish_epoch", "the epoch has batches left; call step()");
            return t.trainer->finish_epoch();
          },
          "The mean loss of the epoch that is done; moves to the next.")
      .def(
          "test",
          [](Training& t) {
            const Unlocked unlocked;
            const Score s = t.trainer->test();
            return std::make_pair(s.loss, s.accuracy);
          },
          "Loss and accuracy of the test set.")
      .def_prop_ro("epoch_done", [](const Training& t) { return t.trainer->epoch_done(); })
      .def_prop_ro("epoch", [](const Training& t) { return t.trainer->epoch(); })
      .def_prop_ro("epochs", [](const Training& t) { return t.experiment.epochs; })
      .def_prop_ro("steps", [](const Training& t) { return t.trainer->steps(); })
      .def_prop_ro("last_loss",
                   [](Training& t) {
                     t.trainer->read_losses();
                     return t.trainer->last_loss();
                   })
      .def("state", [](Training& t) { return t.trainer->tensors(); });
}

}  // namespace gradus::py
