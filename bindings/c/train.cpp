// Captured steps, optimisers, networks, data sets, training.
#include "bindings/c/door.hpp"
#include "engine/capture/capture.hpp"
#include "engine/config/device_config.hpp"
#include "engine/random.hpp"
#include "ops/train/trainer.hpp"

#include <cmath>
#include <atomic>
#include <mutex>
#include <thread>
#include <nlohmann/json.hpp>

using namespace gradus;
using namespace gradus::c;
using namespace gradus::training;

namespace {

// A thing that one thread at a time may use; another one waits. A callback of the call under way
// may not use it once more.
struct Exclusive : Object {
  std::mutex mutex;
  std::atomic<std::thread::id> user{};
};
template <class T>
struct Held {
  Held(Kind kind, int64_t handle) : object(object_at<T>(kind, handle)) {
    if (object->user == std::this_thread::get_id())
      throw Refusal{GRADUS_VALUE, "it is in use by the call that is under way in this thread"};
    lock = std::unique_lock(object->mutex);
    object->user = std::this_thread::get_id();
  }
  ~Held() {
    if (lock) object->user = std::thread::id();
  }
  T* operator->() const { return object.get(); }
  std::shared_ptr<T> object;
  std::unique_lock<std::mutex> lock;
};

struct Step : Exclusive {
  Captured captured;
};
struct Optimizer : Exclusive {
  Optimizer(NamedTensors p, const optim::Rule& rule, double rate)
      : parameters(p), lr(rate), optimizer(std::move(p), rule) {}
  double rate(double asked) const {
    if (std::isnan(asked) || std::isinf(asked))
      throw Refusal{GRADUS_VALUE,
                    join("lr is ", asked, ", expected 0 or more, or below 0 for ", lr)};
    return asked < 0 ? lr : asked;
  }
  Tensor gain(double max_norm) const {
    return max_norm > 0 ? optim::clip_gain(parameters, max_norm) : Tensor();
  }
  NamedTensors parameters;
  double lr;
  optim::Optimizer optimizer;
};
struct Network : Exclusive {
  nn::Sequential network;
};
struct TrainerObject : Exclusive {
  Experiment experiment;
  Dataset data;
  std::optional<Trainer> trainer;
};
using HeldStep = Held<Step>;
using HeldOptimizer = Held<Optimizer>;
using HeldNetwork = Held<Network>;
using HeldTrainer = Held<TrainerObject>;

// JSON, or a bare word that stands for it.
Json json_at(const char* text, const char* name) {
  const std::string given = &need(text, name);
  const size_t start = given.find_first_not_of(" \t\n");
  const bool json = start != std::string::npos &&
                    std::string_view("{[\"").find(given[start]) != std::string_view::npos;
  return json ? parse_json(given, name) : Json(given);
}

}  // namespace

gradus_status gradus_capture(int32_t device, gradus_step_fn step, void* user, gradus_step* out) {
  return result("gradus_capture", out, [&] {
    need(step, "step");
    auto made = std::make_shared<Step>();
    made->captured = capture(device_at(device), [&] {
      Written handles(64);
      size_t n = 0;
      call_back("capture", [&] { return step(user, handles.data(), 64, &n); });
      if (n > 64) throw Refusal{GRADUS_VALUE, join("the step says it has ", n, " outputs of 64")};
      Tensors outputs;
      for (size_t i = 0; i < n; ++i)
        outputs.push_back(tensor_of(handles[i], {"the step's outputs", i}).detach());
      return outputs;
    });
    return new_handle(Kind::step, std::move(made));
  });
}
gradus_status gradus_step_why_not(gradus_step step, const char** out) {
  return result("gradus_step_why_not", out,
                [&] { return HeldStep(Kind::step, step)->captured.why_not().c_str(); });
}
gradus_status gradus_step_replay(gradus_step step) {
  return door("gradus_step_replay", [&] {
    const HeldStep s(Kind::step, step);
    default_generator().begin_step();
    s->captured.replay();
  });
}
gradus_status gradus_step_output(gradus_step step, size_t index, gradus_tensor* out) {
  return result("gradus_step_output", out, [&] {
    const HeldStep s(Kind::step, step);
    const Tensors& all = s->captured.outputs();
    if (index >= all.size())
      throw Refusal{GRADUS_INDEX, join("index ", index, ", the step has ", all.size(), " outputs")};
    return handle_of(all[index]);
  });
}

gradus_status gradus_optimizer_new(const char* config, gradus_tensors parameters,
                                   gradus_optimizer* out) {
  return result("gradus_optimizer_new", out, [&] {
    Json given = json_at(config, "optimizer");
    if (given.is_string()) given = Json{{"name", given}};
    const Json checked = check(optimizer_spec(), given, "optimizer");
    return new_handle(Kind::optimizer,
                      std::make_shared<Optimizer>(named_at(parameters), read_rule(checked),
                                                  checked["lr"].get<double>()));
  });
}
gradus_status gradus_optimizer_step(gradus_optimizer optimizer, double lr, double max_norm) {
  return door("gradus_optimizer_step", [&] {
    const HeldOptimizer o(Kind::optimizer, optimizer);
    o->optimizer.step(o->rate(lr), o->gain(max_norm));
  });
}
gradus_status gradus_optimizer_prepare(gradus_optimizer optimizer, double lr) {
  return door("gradus_optimizer_prepare", [&] {
    const HeldOptimizer o(Kind::optimizer, optimizer);
    o->optimizer.prepare(o->rate(lr));
  });
}
gradus_status gradus_optimizer_apply(gradus_optimizer optimizer, double max_norm) {
  return door("gradus_optimizer_apply", [&] {
    const HeldOptimizer o(Kind::optimizer, optimizer);
    o->optimizer.apply(o->gain(max_norm));
  });
}
gradus_status gradus_zero_grad(gradus_optimizer optimizer) {
  return door("gradus_zero_grad",
              [&] { HeldOptimizer(Kind::optimizer, optimizer)->optimizer.zero_grad(); });
}
gradus_status gradus_optimizer_state(gradus_optimizer optimizer, gradus_tensors* out) {
  return result("gradus_optimizer_state", out, [&] {
    return new_list(HeldOptimizer(Kind::optimizer, optimizer)->optimizer.state());
  });
}

gradus_status gradus_network_new(const char* layers, const int64_t* shape, size_t ndim,
                                 int32_t dtype, gradus_network* out) {
  return result("gradus_network_new", out, [&] {
    const Spec spec = Spec::array(Spec::reference("layer", layer_spec), "layers").length(1);
    const Json checked = check(spec, json_at(layers, "layers"), "layers");
    Tensor probe = Tensor::zeros(shape_at(shape, ndim), dtype_at(dtype));
    auto made = std::make_shared<Network>();
    made->network = build_layers(read_layers(checked), probe, "layers");
    return new_handle(Kind::network, std::move(made));
  });
}
gradus_status gradus_network_forward(gradus_network network, gradus_tensor x, gradus_tensor* out) {
  return result("gradus_network_forward", out, [&] {
    return handle_of(HeldNetwork(Kind::network, network)->network.forward(tensor_of(x, "x")));
  });
}
gradus_status gradus_network_train(gradus_network network, int32_t on) {
  return door("gradus_network_train",
              [&] { HeldNetwork(Kind::network, network)->network.set_training(on != 0); });
}
gradus_status gradus_network_parameters(gradus_network network, gradus_tensors* out) {
  return result("gradus_network_parameters", out, [&] {
    return new_list(HeldNetwork(Kind::network, network)->network.parameters());
  });
}
gradus_status gradus_network_state(gradus_network network, gradus_tensors* out) {
  return result("gradus_network_state", out,
                [&] { return new_list(HeldNetwork(Kind::network, network)->network.state()); });
}
gradus_status gradus_network_load(gradus_network network, gradus_tensors state) {
  return door("gradus_network_load", [&] {
    HeldNetwork(Kind::network, network)->network.load(named_at(state), "gradus_network_load");
  });
}

gradus_status gradus_read_data(const char* data, gradus_tensors* out) {
  return result("gradus_read_data", out, [&] {
    const Dataset set = load_data(read_data(check(data_spec(), json_at(data, "data"), "data")));
    const auto train = whole_set(set, set.train, default_device());
    const auto test = whole_set(set, set.test, default_device());
    return new_list({{"train_inputs", train.inputs},
                     {"train_targets", train.targets},
                     {"test_inputs", test.inputs},
                     {"test_targets", test.targets}});
  });
}
gradus_status gradus_epoch_order(int64_t n, uint64_t seed, int64_t epoch, int64_t* order) {
  return door("gradus_epoch_order", [&] {
    if (n < 0 || n > int64_t(1) << 40 || epoch < 0)
      throw Refusal{GRADUS_VALUE, join("n is ", n, ", expected 0 to 2^40; epoch is ", epoch,
                                       ", expected 0 or more")};
    if (n > 0) need(order, "order");
    std::ranges::copy(epoch_order(n, seed, epoch), order);
  });
}

gradus_status gradus_trainer_new(const char* config, gradus_trainer* out) {
  return result("gradus_trainer_new", out, [&] {
    const Json checked = check(network_spec(), json_at(config, "config"), "config");
    Device* device = &default_device();
    if (checked.contains("device")) {
      const OpenedDevice opened = open_configured(parse_device_config(checked["device"], "config"));
      notice(opened.notice);
      device = opened.device;
    }
    auto made = std::make_shared<TrainerObject>();
    made->experiment = read_experiment(checked, "config");
    made->data = load_data(made->experiment.data);
    made->trainer.emplace(made->experiment, made->data, *device);
    return new_handle(Kind::trainer, std::move(made));
  });
}
gradus_status gradus_trainer_step(gradus_trainer trainer, int32_t* epoch_done) {
  return door("gradus_trainer_step", [&] {
    need(epoch_done, "epoch_done");
    const HeldTrainer t(Kind::trainer, trainer);
    if (t->trainer->epoch_done())
      throw Refusal{GRADUS_VALUE, "the epoch is done; call gradus_trainer_finish_epoch()"};
    t->trainer->step();
    *epoch_done = t->trainer->epoch_done();
  });
}
gradus_status gradus_trainer_finish_epoch(gradus_trainer trainer, double* mean_loss) {
  return door("gradus_trainer_finish_epoch", [&] {
    need(mean_loss, "mean_loss");
    const HeldTrainer t(Kind::trainer, trainer);
    if (!t->trainer->epoch_done())
      throw Refusal{GRADUS_VALUE, "the epoch has batches left; call gradus_trainer_step()"};
    *mean_loss = t->trainer->finish_epoch();
  });
}
gradus_status gradus_trainer_test(gradus_trainer trainer, double* loss, double* accuracy) {
  return door("gradus_trainer_test", [&] {
    const HeldTrainer t(Kind::trainer, trainer);
    const Score score = t->trainer->test();
    if (loss) *loss = score.loss;
    if (accuracy) *accuracy = score.of_numbers ? NAN : score.accuracy;
  });
}
gradus_status gradus_trainer_state(gradus_trainer trainer, gradus_tensors* out) {
  return result("gradus_trainer_state", out,
                [&] { return new_list(HeldTrainer(Kind::trainer, trainer)->trainer->tensors()); });
}
