// Captured steps, files, optimisers, networks, data sets and training through the C door.
#include "engine/device/device.hpp"
#include "ops/train/trainer.hpp"
#include "tests/helpers/c_door.hpp"
#include "tests/helpers/io_helpers.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

namespace c_door {

namespace {

using gradus::test::TempFolder;

Own list_of(const std::vector<std::pair<const char*, gradus_tensor>>& tensors) {
  Own list;
  ok(gradus_tensors_new(list.out()));
  for (const auto& [name, t] : tensors) ok(gradus_tensors_add(list, name, t));
  return list;
}
Own found(gradus_tensors list, const char* name, Place at = Place::current()) {
  Own t;
  ok(gradus_tensors_find(list, name, t.out()), at);
  return t;
}
// Names and bits, in the list's order.
std::vector<std::pair<std::string, Bits>> all_of(gradus_tensors list) {
  size_t n = 0;
  ok(gradus_tensors_count(list, &n));
  std::vector<std::pair<std::string, Bits>> out;
  for (size_t i = 0; i < n; ++i) {
    const char* name = nullptr;
    Own t;
    ok(gradus_tensors_at(list, i, &name, t.out()));
    out.emplace_back(name, bits(t));
  }
  return out;
}
Own new_optimizer(const char* config, gradus_tensors parameters) {
  Own o;
  ok(gradus_optimizer_new(config, parameters, o.out()));
  return o;
}

// A step of a small fit: y = x w, and the mean of its square, followed by w's optimiser.
struct Fit : Counted {
  Fit(const Doubles& start, const char* rule)
      : x(tensor({1, 2, 3, 4, 5, 6}, {3, 2})),
        w(leaf(start, {2, 1})),
        optimizer(new_optimizer(rule, list_of({{"w", w}}))) {}
  gradus_status work(gradus_tensor* loss) {
    ++calls;
    Own y, square;
    gradus_status s = gradus_zero_grad(optimizer);
    if (!s) s = gradus_matmul(x, w, y.out());
    if (!s) s = gradus_mul(y, y, square.out());
    if (!s) s = gradus_mean(square, nullptr, 0, 0, loss);
    if (!s && reads) s = gradus_item(*loss, &read);
    if (!s) s = gradus_backward(loss, nullptr, 1, 0);
    if (!s) s = gradus_optimizer_apply(optimizer, 1.0);
    return s;
  }
  static gradus_status step(void* user, gradus_tensor* outputs, size_t capacity, size_t* n) {
    if (capacity < 1) return gradus_fail(GRADUS_VALUE, "no room");
    *n = 1;
    return static_cast<Fit*>(user)->work(outputs);
  }
  Own x, w, optimizer;
  bool reads = false;
  double read = 0;
};

}  // namespace

TEST_CASE("c steps: a replayed step has the bits of an eager one") {
  const Balance balance;
  for (const char* rule : {R"({"name": "sgd", "lr": 0.05, "momentum": 0.9})", "adam"}) {
    Fit eager({0.5, -1}, rule), replayed({0.5, -1}, rule);
    Own step, loss;
    std::vector<Bits> wanted, got;
    for (int i = 0; i < 5; ++i) {
      const Own next = tensor({1.0 + i, 2, 3, 4.5, 5, 6.0 - i}, {3, 2});
      ok(gradus_copy(eager.x, next));
      ok(gradus_copy(replayed.x, next));
      const double lr = 0.1 / (i + 1);
      ok(gradus_optimizer_prepare(eager.optimizer, lr));
      ok(gradus_optimizer_prepare(replayed.optimizer, lr));
      Own eager_loss;
      ok(eager.work(eager_loss.out()));
      if (i == 0)
        ok(gradus_capture(GRADUS_CPU, Fit::step, &replayed, step.out()));
      else
        ok(gradus_step_replay(step));
      if (i == 0) ok(gradus_step_output(step, 0, loss.out()));
      wanted.insert(wanted.end(), {bits(eager_loss), bits(eager.w)});
      got.insert(got.end(), {bits(loss), bits(replayed.w)});
    }
    CHECK(got == wanted);
    CHECK_FALSE(wanted[1] == wanted[3]);
    CHECK(replayed.calls == 1);
    const char* why = nullptr;
    ok(gradus_step_why_not(step, &why));
    CHECK(std::string(why) == "");
    Own none;
    refused(gradus_step_output(step, 1, none.out()), GRADUS_INDEX,
            "gradus_step_output: index 1, the step has 1 outputs");
  }
}

TEST_CASE("c steps: one that reads values says why it can't be repeated; one that fails says so") {
  const Balance balance;
  Fit fit({0.5, -1}, "sgd");
  fit.reads = true;
  Own step;
  ok(gradus_optimizer_prepare(fit.optimizer, -1));
  ok(gradus_capture(GRADUS_CPU, Fit::step, &fit, step.out()));
  const char* why = nullptr;
  ok(gradus_step_why_not(step, &why));
  CHECK(std::string(why).find("values are read on the host") != std::string::npos);
  CHECK(gradus_step_replay(step) == GRADUS_VALUE);
  gradus_step out = 77;
  const auto failing = [](void*, gradus_tensor* outputs, size_t, size_t* n) {
    *outputs = tensor({1}, {}).given_over();  // given back all the same
    *n = 1;
    return gradus_fail(GRADUS_NUMERIC, "diverged");
  };
  refused(gradus_capture(GRADUS_CPU, failing, nullptr, &out), GRADUS_NUMERIC, "capture: diverged");
  const auto boasting = [](void*, gradus_tensor*, size_t, size_t* n) {
    *n = 65;
    return gradus_status(GRADUS_OK);
  };
  refused(gradus_capture(GRADUS_CPU, boasting, nullptr, &out), GRADUS_VALUE,
          "gradus_capture: the step says it has 65 outputs of 64");
  const auto empty = [](void*, gradus_tensor*, size_t, size_t* n) {
    *n = 1;
    return gradus_status(GRADUS_OK);
  };
  refused(gradus_capture(GRADUS_CPU, empty, nullptr, &out), GRADUS_HANDLE,
          "gradus_capture: the step's outputs[0]: expected the handle of a tensor, got 0");
  refused(gradus_capture(GRADUS_CPU, nullptr, nullptr, &out), GRADUS_NULL,
          "gradus_capture: step is NULL");
  CHECK(out == 77);
}

TEST_CASE("c files: tensors by name") {
  const Balance balance;
  const Own a = tensor({1, 2}, {2}), b = tensor({3}, {}), list = list_of({{"a", a}, {"b.c", b}});
  CHECK(values(found(list, "b.c")) == Doubles{3});
  const char* name = nullptr;
  ok(gradus_tensors_at(list, 0, &name, nullptr));
  CHECK(std::string(name) == "a");
  for (int i = 0; i < 100; ++i)  // names stay where they are
    ok(gradus_tensors_add(list, ("x" + std::to_string(i)).c_str(), b));
  const char* again = nullptr;
  ok(gradus_tensors_at(list, 0, &again, nullptr));
  CHECK(again == name);
  size_t n = 0;
  ok(gradus_tensors_count(list, &n));
  CHECK(n == 102);
  refused(gradus_tensors_add(list, "a", b), GRADUS_VALUE,
          "gradus_tensors_add: there is a tensor \"a\" already");
  Own none;
  refused(gradus_tensors_at(list, 102, &name, none.out()), GRADUS_INDEX,
          "gradus_tensors_at: index 102, the list has 102");
  refused(gradus_tensors_find(list, "b.d", none.out()), GRADUS_VALUE,
          "gradus_tensors_find: there is no tensor \"b.d\"; did you mean \"b.c\"?");
}

TEST_CASE("c files: safetensors and NPY, there and back; damaged ones are refused by name") {
  const Balance balance;
  const TempFolder folder;
  const std::string file = folder / "a.safetensors", npy = folder / "a.npy";
  const Own a = tensor({1, -2.5, 3, 4, 5, 6}, {2, 3});
  Own half, whole, turned;
  ok(gradus_cast(a, GRADUS_BF16, half.out()));
  ok(gradus_cast(a, GRADUS_I32, whole.out()));
  ok(gradus_transpose(a, 0, 1, turned.out()));
  const Own list = list_of({{"a", a}, {"half", half}, {"deep.whole", whole}, {"turned", turned}});
  ok(gradus_write_safetensors(file.c_str(), list));
  Own back;
  ok(gradus_read_safetensors(file.c_str(), back.out()));
  auto written = all_of(list), read = all_of(back);
  const auto by_name = [](const auto& x, const auto& y) { return x.first < y.first; };
  std::sort(written.begin(), written.end(), by_name);
  std::sort(read.begin(), read.end(), by_name);
  CHECK(read == written);
  for (const gradus_tensor t : {int64_t(a), int64_t(whole), int64_t(turned)}) {
    ok(gradus_write_npy(npy.c_str(), t));
    ok(gradus_read_npy(npy.c_str(), back.out()));
    CHECK(bits(back) == bits(t));
  }
  std::filesystem::resize_file(npy, std::filesystem::file_size(npy) - 1);
  refused_with(gradus_read_npy(npy.c_str(), back.out()), GRADUS_IO, npy + ": truncated");
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  refused_with(gradus_read_safetensors(file.c_str(), back.out()), GRADUS_IO, file + ": truncated");
  gradus_error e{sizeof e, 0, nullptr, nullptr};
  ok(gradus_last_error(&e));
  CHECK(file == e.op);
  const std::string absent = folder / "none/a.npy";
  refused_with(gradus_write_npy(absent.c_str(), a), GRADUS_IO, absent);
  refused_with(gradus_read_safetensors(absent.c_str(), back.out()), GRADUS_IO, absent);
  CHECK(back == 0);
}

TEST_CASE("c optimizers: by a bare word or by JSON; steps by hand") {
  const Balance balance;
  const Own w = leaf({1, 2}, {2}), list = list_of({{"w", w}});
  const Own sgd = new_optimizer(R"({"name": "sgd", "lr": 0.5, "momentum": 0.5})", list);
  const auto step = [&](gradus_optimizer o, Doubles g, double lr, double max_norm) {
    ok(gradus_set_grad(w, tensor(g, {2})));
    ok(gradus_optimizer_step(o, lr, max_norm));
    return values(w);
  };
  CHECK(step(sgd, {1, -2}, -1, 0) == Doubles{0.5, 3});  // the config's rate
  CHECK(step(sgd, {1, 0}, 1, 0) == Doubles{-1, 4});     // velocities 1.5 and -1
  Own state;
  ok(gradus_optimizer_state(sgd, state.out()));
  CHECK(values(found(state, "w.velocity")) == Doubles{1.5, -1});
  ok(gradus_copy(found(state, "w.velocity"), tensor({0}, {})));  // the same tensors, no copies
  // A gradient of norm 5 scaled to 1, as far as the constant of PyTorch allows.
  CHECK(near(step(sgd, {3, 4}, 1, 1), {-1.6, 3.2}, 1e-6));
  ok(gradus_zero_grad(sgd));
  Own grad;
  ok(gradus_grad(w, grad.out()));
  CHECK(grad == 0);
  const double lr[] = {NAN, INFINITY};
  for (const double bad : lr)
    refused_with(gradus_optimizer_step(sgd, bad, 0), GRADUS_VALUE, "gradus_optimizer_step: lr is ");
  // Adam's first step is the rate, whatever the gradient.
  const Own v = leaf({1, 1}, {2}), adam = new_optimizer("adam", list_of({{"v", v}}));
  ok(gradus_set_grad(v, tensor({1e-3, -7}, {2})));
  ok(gradus_optimizer_step(adam, 0.25, 0));
  CHECK(near(values(v), {0.75, 1.25}, 1e-4));

  Own none;
  const auto make = [&](const char* config) {
    return gradus_optimizer_new(config, list, none.out());
  };
  refused_with(make(R"({"name": "sgd", "momentun": 0.9})"), GRADUS_CONFIG,
               "did you mean \"momentum\"?");
  refused_with(make("adan"), GRADUS_CONFIG, "did you mean \"adam\"?");
  refused_with(make("{\"name\": "), GRADUS_CONFIG, "optimizer");
  refused(make(nullptr), GRADUS_NULL, "gradus_optimizer_new: optimizer is NULL");
  const Own plain = tensor({1}, {1}), wrong = list_of({{"p", plain}});
  refused_with(gradus_optimizer_new("sgd", wrong, none.out()), GRADUS_VALUE, "leaf");
}

TEST_CASE("c networks: layers from JSON, their parameters, state, and modes") {
  const Balance balance;
  const char* const layers = R"([{"linear": 3}, "relu", {"dropout": 0.5}, {"linear": 1}])";
  const int64_t shape[2] = {1, 2};
  Own net, twin, y, z, parameters, state;
  ok(gradus_manual_seed(5));
  ok(gradus_network_new(layers, shape, 2, GRADUS_F32, net.out()));
  ok(gradus_manual_seed(6));
  ok(gradus_network_new(layers, shape, 2, GRADUS_F32, twin.out()));
  ok(gradus_network_parameters(net, parameters.out()));
  const auto named = all_of(parameters);
  REQUIRE(named.size() == 4);
  CHECK(named[0].first == "layers.0.weight");
  CHECK(named[0].second.shape == Shape64{3, 2});
  CHECK(named[3].first == "layers.3.bias");
  const Own wide = tensor({1, 2, 3, 4}, {2, 2});
  Own x;
  ok(gradus_cast(wide, GRADUS_F32, x.out()));
  ok(gradus_network_train(net, 0));
  ok(gradus_network_train(twin, 0));
  ok(gradus_network_forward(net, x, y.out()));
  CHECK(shape_of(y) == Shape64{2, 1});
  // By hand: x W^T + b, what is above 0 of it, and again.
  const auto weights = [&](const char* name) { return values(found(parameters, name)); };
  const Doubles w = weights("layers.0.weight"), b = weights("layers.0.bias"),
                v = weights("layers.3.weight"), c = weights("layers.3.bias");
  Doubles wanted;
  for (const auto& [p, q] : {std::pair{1.0, 2.0}, std::pair{3.0, 4.0}}) {
    wanted.push_back(c[0]);
    for (size_t i = 0; i < 3; ++i)
      wanted.back() += v[i] * std::max(0.0, w[2 * i] * p + w[2 * i + 1] * q + b[i]);
  }
  CHECK(near(values(y), wanted, 1e-6));
  // The state goes to the twin, whose dropout is then the only difference.
  ok(gradus_network_forward(twin, x, z.out()));
  CHECK_FALSE(bits(z) == bits(y));
  ok(gradus_network_state(net, state.out()));
  ok(gradus_network_load(twin, state));
  ok(gradus_network_forward(twin, x, z.out()));
  CHECK(bits(z) == bits(y));
  ok(gradus_network_train(twin, 1));
  bool dropped = false;
  for (int i = 0; i < 8; ++i) {
    ok(gradus_network_forward(twin, x, z.out()));
    dropped |= !(bits(z) == bits(y));
  }
  CHECK(dropped);
  // Its parameters are leaves that an optimiser may have.
  const Own sgd = new_optimizer(R"({"name": "sgd", "lr": 1})", parameters);
  Own loss;
  ok(gradus_sum(y, nullptr, 0, 0, loss.out()));
  const gradus_tensor root[1] = {loss};
  ok(gradus_backward(root, nullptr, 1, 0));
  ok(gradus_optimizer_step(sgd, -1, 0));
  CHECK(near(weights("layers.3.bias"), {c[0] - 2}, 1e-6));
  // All or nothing.
  const auto before = all_of(parameters);
  const Own part = list_of({{"layers.0.weight", x}});
  refused_with(gradus_network_load(net, part), GRADUS_IO, "gradus_network_load: ");
  CHECK(all_of(parameters) == before);
  Own none;
  const auto make = [&](const char* text, const int64_t* sizes) {
    return gradus_network_new(text, sizes, 2, GRADUS_F32, none.out());
  };
  refused_with(make(R"([{"linaer": 3}])", shape), GRADUS_CONFIG, "did you mean \"linear\"?");
  refused_with(make("[]", shape), GRADUS_CONFIG, "layers");
  refused(make(nullptr, shape), GRADUS_NULL, "gradus_network_new: layers is NULL");
  refused(make(layers, nullptr), GRADUS_NULL, "gradus_network_new: shape is NULL");
  refused_with(gradus_network_forward(net, part, none.out()), GRADUS_HANDLE,
               "x: expected the handle of a tensor, got that of a list of tensors");
}

TEST_CASE("c data: sets by their JSON, and the order of an epoch") {
  const Balance balance;
  Own data, again;
  const char* const digits = R"({"name": "digits", "train": 20, "test": 10})";
  ok(gradus_read_data(digits, data.out()));
  const auto all = all_of(data);
  REQUIRE(all.size() == 4);
  CHECK(all[0].first == "train_inputs");
  CHECK(all[0].second.shape[0] == 20);
  CHECK(all[1].first == "train_targets");
  CHECK(all[1].second.shape == Shape64{20});
  CHECK(all[1].second.dtype == GRADUS_I64);
  CHECK(all[2].first == "test_inputs");
  CHECK(all[3].second.shape == Shape64{10});
  const Doubles pixels = values(found(data, "train_inputs"));
  CHECK(*std::min_element(pixels.begin(), pixels.end()) == 0);
  CHECK(*std::max_element(pixels.begin(), pixels.end()) <= 1);
  ok(gradus_read_data(digits, again.out()));
  CHECK(all_of(again) == all);
  refused_with(gradus_read_data(R"({"name": "digitz"})", again.out()), GRADUS_CONFIG, "digits");
  refused_with(gradus_read_data(R"({"idx": "/no/such"})", again.out()), GRADUS_IO, "/no/such");

  std::vector<int64_t> order(100), same(100), other(100);
  ok(gradus_epoch_order(100, 1, 0, order.data()));
  ok(gradus_epoch_order(100, 1, 0, same.data()));
  ok(gradus_epoch_order(100, 1, 1, other.data()));
  CHECK(order == same);
  CHECK(order != other);
  CHECK(order == gradus::training::epoch_order(100, 1, 0));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < 100; ++i) CHECK(order[size_t(i)] == i);
  ok(gradus_epoch_order(0, 1, 0, nullptr));
  refused(gradus_epoch_order(3, 1, 0, nullptr), GRADUS_NULL, "gradus_epoch_order: order is NULL");
  refused_with(gradus_epoch_order(-1, 1, 0, order.data()), GRADUS_VALUE,
               "gradus_epoch_order: n is -1, ");
  refused_with(gradus_epoch_order(1, 1, -2, order.data()), GRADUS_VALUE, "epoch is -2");
}

TEST_CASE("c trainer: the losses and tensors of the C++ trainer, bit for bit") {
  const Balance balance;
  const char* const config = R"({
    "experiment": "network", "data": {"name": "digits", "train": 50, "test": 20},
    "model": {"layers": [{"linear": 16}, "relu", {"linear": 10}]}, "loss": "cross_entropy",
    "optimizer": {"name": "adam", "lr": 1e-2}, "epochs": 2, "batch_size": 16, "seed": 3})";
  using namespace gradus::training;
  const Experiment experiment = read_experiment(
      gradus::check(network_spec(), gradus::parse_json(config, "config"), "config"), "config");
  const Dataset data = load_data(experiment.data);
  Trainer wanted(experiment, data, gradus::open_device("cpu"));
  struct Epoch {
    double mean, loss, accuracy;
    bool operator==(const Epoch&) const = default;
  };
  std::vector<Epoch> right, got;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (!wanted.epoch_done()) wanted.step();
    const double mean = wanted.finish_epoch();
    const Score score = wanted.test();
    right.push_back({mean, score.loss, score.accuracy});
  }
  Own trainer, state;
  ok(gradus_trainer_new(config, trainer.out()));
  for (int epoch = 0; epoch < 2; ++epoch) {
    int32_t done = 0, steps = 0;
    Epoch e{};
    refused(gradus_trainer_finish_epoch(trainer, &e.mean), GRADUS_VALUE,
            "gradus_trainer_finish_epoch: the epoch has batches left; call gradus_trainer_step()");
    for (; !done; ++steps) ok(gradus_trainer_step(trainer, &done));
    CHECK(steps == 4);
    refused(gradus_trainer_step(trainer, &done), GRADUS_VALUE,
            "gradus_trainer_step: the epoch is done; call gradus_trainer_finish_epoch()");
    ok(gradus_trainer_finish_epoch(trainer, &e.mean));
    ok(gradus_trainer_test(trainer, &e.loss, &e.accuracy));
    got.push_back(e);
  }
  CHECK(got == right);
  CHECK(got[1].mean < got[0].mean);
  ok(gradus_trainer_state(trainer, state.out()));
  const gradus::NamedTensors tensors = wanted.tensors();
  size_t n = 0;
  ok(gradus_tensors_count(state, &n));
  REQUIRE(n == tensors.size());
  for (const auto& one : tensors) {
    const std::string& name = one.first;
    const gradus::Tensor& t = one.second;
    std::string bytes(t.bytes(), 0);
    t.copy_to_host(bytes.data());
    CHECK_MESSAGE(bits(found(state, name.c_str())).bytes == bytes, name);
  }
  ok(gradus_trainer_test(trainer, nullptr, nullptr));
  Own none;
  refused_with(gradus_trainer_new(R"({"experiment": "network", "epoch": 1})", none.out()),
               GRADUS_CONFIG, "epochs");
  refused_with(gradus_trainer_new("{", none.out()), GRADUS_CONFIG, "config");
}

}  // namespace c_door
