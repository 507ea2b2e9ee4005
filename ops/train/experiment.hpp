// The experiment "network" as a config: its option table, the typed values behind it, and the data
// and network that they name. Knows JSON; nothing of training, run folders or devices' insides.
#pragma once
#include "ops/train/data_config.hpp"
#include "ops/train/layers.hpp"
#include "ops/nn/loss.hpp"
#include "ops/optim/loss_scale.hpp"
#include "ops/optim/optimizer.hpp"
#include "ops/optim/schedule.hpp"

#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1::training {

// Are training steps recorded and replayed? `automatic`: where they can be.
enum class Capture { automatic, on, off };

// Neither: the network computes in f32, and no gradient is looked at.
struct Precision {
  std::optional<DType> compute;                      // f16 or bf16, with f32 parameters
  std::optional<optim::LossScale::Rule> loss_scale;  // steps with overflows are skipped
};

struct Experiment {
  std::string kind;  // "network", or "mlp", which is the same
  uint64_t seed = 1;
  DataConfig data;
  std::vector<LayerMaker> layers;
  nn::Loss loss;
  optim::Rule rule;
  // total_steps, and unit where it counts epochs (unit 0), are set by who knows the number of
  // batches.
  optim::Schedule schedule;
  double clip_norm = 0;  // 0: none
  Precision precision;
  int64_t epochs = 5, batch_size = 64;
  bool shuffle = true;
  Capture capture = Capture::automatic;
  bool report = true;
  int64_t log_every = -1;        // steps; 0: epochs only; -1: a tenth of an epoch
  int64_t checkpoint_every = 0;  // steps; 0: after each epoch
  bool provenance = true;        // of a loss that is not finite
  int64_t health = 0;            // steps between two looks at gradients; 0: none
};

// The option table. Layers are also the ops that are registered, so call gradus::init() first.
Spec network_spec();
// A config that network_spec() has checked and filled in. Error(config) for what a table cannot
// say.
Experiment read_experiment(const Json& config, const std::string& file);

// The option table of "optimizer", and the rule that a checked value says; its "lr" is beside it.
Spec optimizer_spec();
optim::Rule read_rule(const Json& checked);

// Draws the initial parameters from the thread's generator. Error(config) for a network or a loss
// that does not fit what the data tells.
nn::Sequential build_network(const Experiment& experiment, const Form& form, Device& device);

}  // namespace gradus::training
