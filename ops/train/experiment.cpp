// The option table of the experiment "network", and its values.
#include "ops/train/experiment.hpp"

#include "ops/base/dtypes.hpp"
#include "engine/config/device_config.hpp"

#include <map>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::training {

namespace {

Spec schedule_spec() {
  const auto named = [](const char* name, const char* doc) {
    return Spec::object(doc)
        .with("name", Spec::string("name of the schedule").one_of({name}))
        .maybe("warmup_steps",
               Spec::integer("steps of linear growth from 0").at_least(0).otherwise("0"));
  };
  const Spec last =
      Spec::number("the last rate over the first").at_least(0).at_most(1).otherwise("0");
  const auto factor = [](const char* value) {
    return Spec::number("what the rate is multiplied with").above(0).at_most(1).otherwise(value);
  };
  const Spec unit =
      Spec::string("what is counted").one_of({"epoch", "step"}).otherwise("\"epoch\"");
  return Spec::any_of(
             {Spec::string("name of the schedule")
                  .one_of({"constant", "cosine", "linear", "step", "exponential"}),
              named("constant", "the same rate throughout"),
              named("cosine", "falls along half a cosine over the whole run, step by step")
                  .maybe("final_factor", last),
              named("linear", "falls along a line over the whole run, step by step")
                  .maybe("final_factor", last),
              named("step", "falls by a factor every so often")
                  .maybe("step_size", Spec::integer("epochs (or steps) from one fall to the next")
                                          .at_least(1)
                                          .otherwise("1"))
                  .maybe("gamma", factor("0.1"))
                  .maybe("unit", unit),
              named("multistep", "falls by a factor at given times")
                  .with("milestones",
                        Spec::array(Spec::integer("epochs (or steps) before a fall").at_least(1),
                                    "when it falls"))
                  .maybe("gamma", factor("0.1"))
                  .maybe("unit", unit),
              named("exponential", "falls by a factor after each epoch (or step)")
                  .maybe("gamma", factor("0.9"))
                  .maybe("unit", unit)},
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

}  // namespace

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

namespace {

Spec loss_spec() {
  const auto named = [](const char* name, const char* doc) {
    return Spec::object(doc).with("name", Spec::string("name of the loss").one_of({name}));
  };
  return Spec::any_of(
             {Spec::string("name of the loss").one_of(nn::loss_names()),
              named("cross_entropy", "of logits, for each sample or each token")
                  .maybe("label_smoothing", Spec::number("share that all classes have of a label")
                                                .at_least(0)
                                                .below(1)
                                                .otherwise("0")),
              named("smooth_l1", "a parabola, then a line")
                  .maybe("beta", Spec::number("where the line begins").above(0).otherwise("1")),
              named("huber", "smooth_l1 times delta")
                  .maybe("delta", Spec::number("where the line begins").above(0).otherwise("1"))},
             "what is made small")
      .short_for("name")
      .otherwise("\"cross_entropy\"");
}

Spec precision_spec() {
  return Spec::object("mixed precision: a network that computes in 16 bits, with parameters in f32")
      .maybe("compute", Spec::string("what the network computes in")
                            .one_of({"f32", "bf16", "f16"})
                            .otherwise("\"f32\""))
      .maybe("loss_scale",
             Spec::any_of({Spec::number("a factor that stays").above(0),
                           Spec::string("65536, halved by an overflow, doubled after 2000 steps "
                                        "without one")
                               .one_of({"dynamic"})},
                          "what backward begins with, so that small gradients are not lost; a step "
                          "whose gradients overflow is skipped; by default dynamic for f16, else "
                          "1"));
}

Precision read_precision(const Json& v) {
  Precision p;
  const DType compute = parse_dtype(v["compute"].get<std::string>());
  if (is_half(compute)) p.compute = compute;
  if (p.compute || v.contains("loss_scale")) p.loss_scale.emplace();
  const bool dynamic =
      v.contains("loss_scale") ? v["loss_scale"].is_string() : compute == DType::f16;
  if (!p.loss_scale || dynamic) return p;
  p.loss_scale->dynamic = false;
  p.loss_scale->scale = v.value("loss_scale", 1.0);
  return p;
}

}  // namespace

optim::Rule read_rule(const Json& v) {
  if (v["name"] == "sgd")
    return optim::Sgd{v["momentum"].get<double>(), v["dampening"].get<double>(),
                      v["weight_decay"].get<double>(), v["nesterov"].get<bool>()};
  return optim::Adam{v["betas"][0].get<double>(), v["betas"][1].get<double>(),
                     v["eps"].get<double>(), v["weight_decay"].get<double>(), v["name"] == "adamw"};
}

namespace {

optim::Schedule read_schedule(const Json& optimizer) {
  using Kind = optim::Schedule::Kind;
  static const std::map<std::string, Kind> kinds{
      {"constant", Kind::constant},   {"cosine", Kind::cosine},
      {"linear", Kind::linear},       {"step", Kind::step},
      {"multistep", Kind::multistep}, {"exponential", Kind::exponential}};
  Json v = optimizer["schedule"];
  if (v.is_string()) v = check(schedule_spec(), Json{{"name", v}}, "schedule");
  optim::Schedule s;
  s.lr = optimizer["lr"].get<double>();
  s.kind = kinds.at(v["name"].get<std::string>());
  s.warmup_steps = v["warmup_steps"].get<int64_t>();
  s.final_factor = v.value("final_factor", 0.0);
  s.gamma = v.value("gamma", 1.0);
  s.step_size = v.value("step_size", int64_t(1));
  s.milestones = v.value("milestones", std::vector<int64_t>());
  s.unit = v.value("unit", "") == "epoch" ? 0 : 1;
  return s;
}

nn::Loss read_loss(const Json& v) {
  nn::Loss loss;
  loss.kind = nn::loss_named(v.is_string() ? v.get<std::string>() : v["name"].get<std::string>());
  if (!v.is_object()) return loss;
  loss.label_smoothing = v.value("label_smoothing", 0.0);
  loss.beta = v.value("beta", 1.0);
  loss.delta = v.value("delta", 1.0);
  return loss;
}

}  // namespace

Spec network_spec() {
  return Spec::object("trains a network on images, sequences or numbers")
      .with("experiment", Spec::string("the kind of experiment; mlp is the same as network")
                              .one_of({"network", "mlp"}))
      .maybe("device", device_spec())
      .maybe("seed",
             Spec::integer("seed of the parameters, of dropout and of the order of the data")
                 .at_least(0)
                 .otherwise("1"))
      .maybe("data", data_spec().otherwise("{\"name\": \"digits\"}"))
      .with("model", Spec::object("the network")
                         .with("layers", Spec::array(Spec::reference("layer", layer_spec),
                                                     "its layers; images come in as one row of "
                                                     "pixels, sequences as tokens")
                                             .length(1)))
      .maybe("loss", loss_spec())
      .maybe("optimizer", optimizer_spec())
      .maybe("clip_norm", Spec::number("bound of the norm of all gradients together").above(0))
      .maybe("precision", precision_spec())
      .maybe("epochs", Spec::integer("passes over the training set").at_least(1).otherwise("5"))
      .maybe("batch_size",
             Spec::integer("samples in one step").at_least(1).at_most(1 << 20).otherwise("64"))
      .maybe("shuffle", Spec::boolean("a new order in each epoch").otherwise("true"))
      .maybe("capture", Spec::string("record a training step once and replay it, with the same "
                                     "results; auto: where it can be done, on: else it is an error")
                            .one_of({"auto", "on", "off"})
                            .otherwise("\"auto\""))
      .maybe("log_every", Spec::integer("steps between two lines of metrics.jsonl; 0: epochs only; "
                                        "by default a tenth of an epoch, from 10 to 100")
                              .at_least(0))
      .maybe("report",
             Spec::boolean("curves.svg and report.html in the run folder").otherwise("true"))
      .maybe("checkpoint_every", Spec::integer("steps between checkpoints; 0: after each epoch")
                                     .at_least(0)
                                     .otherwise("0"))
      .maybe("health",
             Spec::integer("steps from one look at gradients and activations, the first at "
                           "step 1, to the next, for metrics.jsonl and the report; 0: none")
                 .at_least(0)
                 .otherwise("0"))
      .maybe(
          "provenance",
          Spec::boolean("when a loss is not finite, repeat the run from its last checkpoint, and "
                        "say which node made it so")
              .otherwise("true"));
}

Experiment read_experiment(const Json& config, const std::string& file) {
  Experiment e;
  e.kind = config["experiment"].get<std::string>();
  e.seed = config["seed"].get<uint64_t>();
  e.data = read_data(config["data"]);
  e.layers = read_layers(config["model"]["layers"]);
  e.loss = read_loss(config["loss"]);
  e.rule = read_rule(config["optimizer"]);
  e.schedule = read_schedule(config["optimizer"]);
  e.clip_norm = config.value("clip_norm", 0.0);
  if (config.contains("precision")) e.precision = read_precision(config["precision"]);
  e.epochs = config["epochs"].get<int64_t>();
  e.batch_size = config["batch_size"].get<int64_t>();
  e.shuffle = config["shuffle"].get<bool>();
  const auto capture = config["capture"].get<std::string>();
  e.capture = capture == "on" ? Capture::on : capture == "off" ? Capture::off : Capture::automatic;
  e.report = config["report"].get<bool>();
  e.log_every = config.value("log_every", int64_t(-1));
  e.checkpoint_every = config["checkpoint_every"].get<int64_t>();
  e.provenance = config["provenance"].get<bool>();
  e.health = config["health"].get<int64_t>();
  if (e.data.name == "copy" && e.data.drawn() && !nn::takes_sequences(e.loss.kind))
    fail(ErrorKind::config, file, "loss: ", nn::loss_names()[size_t(e.loss.kind)],
         " takes one label for each sample; for sequences there are cross_entropy and nll");
  return e;
}

namespace {

// What comes into the first layer.
std::string given_by(const Form& form) {
  constexpr const char* kinds[] = {"pixels", "numbers", "tokens"};
  const int64_t n = form.inputs_each();
  std::string out = join("the data set ", form.name, " gives ", n, " ", kinds[int(form.kind)]);
  if (n == 1) out.pop_back();
  return out + (form.sizes.size() > 1 ? " (" + sizes_text(form.sizes) + ")" : "") + " for a sample";
}

void check_loss(const nn::Loss& loss, const Form& form) {
  const std::string& name = nn::loss_names()[size_t(loss.kind)];
  if (!form.classifies() && !nn::compares_numbers(loss.kind))
    fail(ErrorKind::config, "loss", name, " tells classes apart, but ", form.name, " tells numbers",
         form.target.empty() ? "" : " (" + form.target + ")",
         ": \"loss\": \"mse\", or l1, smooth_l1, huber; for classes \"task\": \"classify\" in data",
         form.targets_each() > 1 ? ", and of one-hot rows the argmax" : "");
  if (form.classifies() && !form.target_sizes.empty() && !nn::takes_sequences(loss.kind))
    fail(ErrorKind::config, "loss", name,
         " takes one label for each sample; for sequences there are cross_entropy and nll");
}

// Do the network's outputs fit what is told?
void check_outputs(const Form& form, const Tensor& probe) {
  const Shape& out = probe.sizes();
  const int64_t last = probe.rank() > 0 ? probe.size(-1) : 0, needed = form.targets_each();
  if (!form.classifies()) {
    if (probe.numel() == needed) return;
    fail(ErrorKind::config, "model.layers", "the network gives ", out, " for one sample, the data ",
         "set ", form.name, " tells ", needed, needed == 1 ? " number" : " numbers",
         form.target.empty() ? "" : " (" + form.target + ")", ": end with {\"linear\": ", needed,
         "}");
  }
  if (probe.rank() > 0 && probe.numel() == needed * last && last >= form.classes) return;
  fail(ErrorKind::config, "model.layers", "the network gives ", out, " for one sample, the data ",
       "set ", form.name, " needs ",
       form.target_sizes.empty() ? std::string() : join(needed, " x "), "at least ", form.classes,
       " classes: ",
       !form.target_sizes.empty() || out.size() == 2
           ? ""
           : "put \"flatten\" before the first linear, and ",
       "end with {\"linear\": ", form.classes, "}",
       last == 1 ? "; if its target is a number to predict, say \"task\": \"regress\" in its data"
                 : "");
}

}  // namespace

nn::Sequential build_network(const Experiment& experiment, const Form& form, Device& device) {
  check_loss(experiment.loss, form);
  const Shape one{1, form.inputs_each()};
  Tensor probe = Tensor::zeros(one, form.sequences() ? DType::i64 : DType::f32, device);
  nn::Sequential network;
  try {
    network = build_layers(experiment.layers, probe, "layers");
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::shape && e.kind() != ErrorKind::value) throw;
    fail(e.kind(), e.op(), e.message(), "; ", given_by(form));
  }
  if (experiment.precision.compute) network.set_compute(*experiment.precision.compute);
  check_outputs(form, probe);
  return network;
}

}  // namespace gradus::training
