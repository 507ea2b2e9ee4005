// The option table of the experiment "mlp", and its values.
#include "cli/experiment.hpp"

#include "cli/data/digits.hpp"
#include "cli/data/idx.hpp"
#include "engine/io/device_config.hpp"
#include "ops/nn/layers.hpp"

#include <nlohmann/json.hpp>

namespace gradus::cli {

namespace {

Spec attribute_spec(const AttrSpec& attr) {
  switch (attr.type) {
    case AttrValue::Type::integer:
      return Spec::integer(attr.doc);
    case AttrValue::Type::boolean:
      return Spec::boolean(attr.doc);
    case AttrValue::Type::text:
      return Spec::string(attr.doc);
    default:
      return Spec::number(attr.doc);
  }
}

AttrValue attribute_value(const AttrSpec& attr, const Json& v) {
  switch (attr.type) {
    case AttrValue::Type::integer:
      return v.get<int64_t>();
    case AttrValue::Type::boolean:
      return v.get<bool>();
    case AttrValue::Type::text:
      return std::string_view(v.get_ref<const std::string&>());
    default:
      return v.get<double>();
  }
}

Spec linear_spec() {
  const Spec out = Spec::integer("features out").at_least(1).at_most(1 << 24);
  return Spec::any_of(
             {out,
              Spec::object("a linear layer")
                  .with("out", out)
                  .maybe("in", Spec::integer("features in; by default what comes in").at_least(1))
                  .maybe("bias", Spec::boolean("adds a bias").otherwise("true"))},
             "features out, or {\"out\", \"in\", \"bias\"}")
      .short_for("out");
}

Spec layer_spec() {
  std::vector<std::string> names{"flatten", "softmax", "log_softmax"};
  std::vector<Spec> forms{
      Spec::object("a linear layer").with("linear", linear_spec()),
      Spec::object("zeroes numbers at random while training")
          .with("dropout", Spec::number("probability of a zero").at_least(0).below(1))};
  for (const OpInfo& op : all_ops()) {
    if (!nn::Activation::accepts(op)) continue;
    names.push_back(op.name);
    if (op.attrs.empty()) continue;
    Spec attrs = Spec::object("attributes of " + op.name);
    for (const AttrSpec& a : op.attrs) attrs = attrs.maybe(a.name, attribute_spec(a));
    forms.push_back(Spec::object(op.doc).with(op.name, attrs));
  }
  forms.insert(forms.begin(), Spec::string("an activation, by the name of its op").one_of(names));
  return Spec::any_of(forms, "a layer");
}

Spec data_spec() {
  const Spec limit = Spec::integer("samples used; by default all").at_least(1);
  return Spec::any_of(
      {Spec::object("digits drawn by the program, 28 x 28")
           .with("name", Spec::string("name of the data set").one_of({"digits"}))
           .maybe("train",
                  Spec::integer("training images").at_least(1).at_most(1e7).otherwise("6000"))
           .maybe("test", Spec::integer("test images").at_least(1).at_most(1e7).otherwise("1000"))
           .maybe("seed", Spec::integer("seed of the drawing").at_least(0).otherwise("0")),
       Spec::object("files of the MNIST family, plain or .gz")
           .with("idx", Spec::string("their folder, relative to the working folder"))
           .maybe("train", limit)
           .maybe("test", limit)},
      "the data set");
}

Spec schedule_spec() {
  return Spec::any_of(
             {Spec::string("name of the schedule").one_of({"constant", "cosine"}),
              Spec::object("how the learning rate moves")
                  .with("name", Spec::string("name of the schedule").one_of({"constant", "cosine"}))
                  .maybe("warmup_steps",
                         Spec::integer("steps of linear growth from 0").at_least(0).otherwise("0"))
                  .maybe("final_factor", Spec::number("cosine: the last rate over the first")
                                             .at_least(0)
                                             .at_most(1)
                                             .otherwise("0"))},
             "the learning rate's schedule")
      .short_for("name")
      .otherwise("\"constant\"");
}

Spec adam_spec(const char* name, const char* weight_decay) {
  return Spec::object(name)
      .with("name", Spec::string("name of the optimiser").one_of({name}))
      .maybe("lr", Spec::number("learning rate").at_least(0).otherwise("1e-3"))
      .maybe("betas", Spec::array(Spec::number("decay of a moment").at_least(0).below(1),
                                  "decays of the two moments")
                          .length(2, 2)
                          .otherwise("[0.9, 0.999]"))
      .maybe("eps",
             Spec::number("added to the root of the second moment").at_least(0).otherwise("1e-8"))
      .maybe("weight_decay", Spec::number("weight decay").at_least(0).otherwise(weight_decay))
      .maybe("schedule", schedule_spec());
}

Spec optimizer_spec() {
  const Spec sgd =
      Spec::object("stochastic gradient descent")
          .with("name", Spec::string("name of the optimiser").one_of({"sgd"}))
          .maybe("lr", Spec::number("learning rate").at_least(0).otherwise("1e-2"))
          .maybe("momentum", Spec::number("momentum").at_least(0).otherwise("0"))
          .maybe("dampening", Spec::number("dampening of the momentum").otherwise("0"))
          .maybe("weight_decay", Spec::number("weight decay").at_least(0).otherwise("0"))
          .maybe("nesterov", Spec::boolean("Nesterov's momentum").otherwise("false"))
          .maybe("schedule", schedule_spec());
  return Spec::any_of({sgd, adam_spec("adam", "0"), adam_spec("adamw", "0.01")}, "the optimiser")
      .short_for("name")
      .otherwise("{\"name\": \"adam\"}");
}

LayerConfig read_layer(const Json& v) {
  LayerConfig layer;
  if (v.is_string()) {
    layer.kind = v.get<std::string>();
    return layer;
  }
  layer.kind = v.begin().key();
  const Json& value = v.begin().value();
  if (layer.kind == "linear") {
    layer.out = value.is_object() ? value["out"].get<int64_t>() : value.get<int64_t>();
    if (value.is_object()) {
      layer.in = value.value("in", int64_t(0));
      layer.bias = value["bias"].get<bool>();
    }
  } else if (layer.kind == "dropout") {
    layer.p = value.get<double>();
  } else {
    for (const AttrSpec& a : get_op(layer.kind).attrs)
      layer.attrs.push_back(value.contains(a.name) ? attribute_value(a, value[a.name])
                                                   : a.default_value);
  }
  return layer;
}

optim::Rule read_rule(const Json& v) {
  if (v["name"] == "sgd")
    return optim::Sgd{v["momentum"].get<double>(), v["dampening"].get<double>(),
                      v["weight_decay"].get<double>(), v["nesterov"].get<bool>()};
  return optim::Adam{v["betas"][0].get<double>(), v["betas"][1].get<double>(),
                     v["eps"].get<double>(), v["weight_decay"].get<double>(), v["name"] == "adamw"};
}

optim::Schedule read_schedule(const Json& optimizer) {
  const Json& v = optimizer["schedule"];
  const bool object = v.is_object();
  optim::Schedule s;
  s.lr = optimizer["lr"].get<double>();
  s.kind = (object ? v["name"] : v) == "cosine" ? optim::Schedule::Kind::cosine
                                                : optim::Schedule::Kind::constant;
  if (object) {
    s.warmup_steps = v["warmup_steps"].get<int64_t>();
    s.final_factor = v["final_factor"].get<double>();
  }
  return s;
}

void limit(ImageSet& set, int64_t count, int64_t pixels) {
  if (count == 0 || count >= set.count) return;
  set.count = count;
  set.images.resize(size_t(count * pixels));
  set.labels.resize(size_t(count));
}

}  // namespace

Spec mlp_spec() {
  return Spec::object("trains a multi-layer perceptron on images")
      .with("experiment", Spec::string("the kind of experiment").one_of({"mlp"}))
      .maybe("device", device_spec())
      .maybe("seed",
             Spec::integer("seed of the parameters, of dropout and of the order of the data")
                 .at_least(0)
                 .otherwise("1"))
      .maybe("data", data_spec().otherwise("{\"name\": \"digits\"}"))
      .with("model", Spec::object("the network")
                         .with("layers", Spec::array(layer_spec(), "its layers").length(1)))
      .maybe("loss", Spec::string("what is made small")
                         .one_of({"cross_entropy", "nll", "mse"})
                         .otherwise("\"cross_entropy\""))
      .maybe("optimizer", optimizer_spec())
      .maybe("clip_norm", Spec::number("bound of the norm of all gradients together").above(0))
      .maybe("epochs", Spec::integer("passes over the training set").at_least(1).otherwise("5"))
      .maybe("batch_size",
             Spec::integer("images in one step").at_least(1).at_most(1 << 20).otherwise("64"))
      .maybe("shuffle", Spec::boolean("a new order in each epoch").otherwise("true"))
      .maybe("log_every", Spec::integer("steps between two lines of metrics.jsonl; 0: epochs only")
                              .at_least(0)
                              .otherwise("100"))
      .maybe("checkpoint_every", Spec::integer("steps between checkpoints; 0: after each epoch")
                                     .at_least(0)
                                     .otherwise("0"));
}

Experiment read_experiment(const Json& config, const std::string& file) {
  Experiment e;
  e.seed = config["seed"].get<uint64_t>();
  const Json& data = config["data"];
  e.data.idx = data.value("idx", "");
  e.data.train = data.value("train", int64_t(0));
  e.data.test = data.value("test", int64_t(0));
  e.data.seed = data.value("seed", uint64_t(0));
  for (const Json& layer : config["model"]["layers"]) e.layers.push_back(read_layer(layer));
  e.loss = nn::loss_named(config["loss"].get<std::string>());
  e.rule = read_rule(config["optimizer"]);
  e.schedule = read_schedule(config["optimizer"]);
  e.clip_norm = config.value("clip_norm", 0.0);
  e.epochs = config["epochs"].get<int64_t>();
  e.batch_size = config["batch_size"].get<int64_t>();
  e.shuffle = config["shuffle"].get<bool>();
  e.log_every = config["log_every"].get<int64_t>();
  e.checkpoint_every = config["checkpoint_every"].get<int64_t>();
  if (output_count(e) == 0)
    fail(ErrorKind::config, file, "model.layers: at least one {\"linear\": N} is needed");
  return e;
}

int64_t output_count(const Experiment& experiment) {
  int64_t n = 0;
  for (const LayerConfig& layer : experiment.layers)
    if (layer.kind == "linear") n = layer.out;
  return n;
}

Dataset load_data(const Experiment& experiment) {
  const DataConfig& config = experiment.data;
  const int64_t classes = output_count(experiment);
  if (config.idx.empty()) {
    Dataset data = make_digits(config.train, config.test, config.seed);
    if (data.classes > classes)
      fail(ErrorKind::config, "model.layers", "the last linear layer gives ", classes,
           " outputs, the data set ", data.name, " has ", data.classes, " classes");
    return data;
  }
  Dataset data = load_idx(config.idx, classes);
  if (data.train.count == 0 || data.test.count == 0)
    fail(ErrorKind::io, config.idx, "the ", data.train.count == 0 ? "training" : "test",
         " set holds no images");
  limit(data.train, config.train, data.rows * data.cols);
  limit(data.test, config.test, data.rows * data.cols);
  return data;
}

nn::Sequential build_network(const Experiment& experiment, int64_t features, Device& device) {
  nn::Sequential network;
  for (const LayerConfig& layer : experiment.layers) {
    if (layer.kind == "linear") {
      network.add(std::make_unique<nn::Linear>(layer.in ? layer.in : features, layer.out,
                                               layer.bias, DType::f32, device));
      features = layer.out;
    } else if (layer.kind == "dropout") {
      network.add(std::make_unique<nn::Dropout>(layer.p));
    } else if (layer.kind == "flatten") {
      network.add(std::make_unique<nn::Flatten>());
    } else if (layer.kind == "softmax" || layer.kind == "log_softmax") {
      network.add(std::make_unique<nn::Softmax>(layer.kind == "log_softmax"));
    } else {
      network.add(std::make_unique<nn::Activation>(layer.kind, layer.attrs));
    }
  }
  return network;
}

}  // namespace gradus::cli
