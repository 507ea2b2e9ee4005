// The experiment "mlp" as a config: its option table, the typed values behind it, and the data and
// network that they name. Knows JSON and layers; nothing of training, run folders or devices'
// insides.
#pragma once
#include "cli/data/dataset.hpp"
#include "engine/io/options.hpp"
#include "ops/nn/loss.hpp"
#include "ops/nn/module.hpp"
#include "ops/optim/optimizer.hpp"
#include "ops/optim/schedule.hpp"

#include <string>
#include <vector>

namespace gradus::cli {

struct LayerConfig {
  std::string kind;  // "linear", "dropout", "flatten", "softmax", "log_softmax" or an op's name
  int64_t out = 0;
  int64_t in = 0;  // 0: what the layer before gives
  bool bias = true;
  double p = 0;
  Attrs attrs;  // of an op
};

struct DataConfig {
  std::string idx;              // folder of IDX files; "" for the generated digits
  int64_t train = 0, test = 0;  // samples; of idx the first ones, 0 for all
  uint64_t seed = 0;            // of the generated digits
};

struct Experiment {
  uint64_t seed = 1;
  DataConfig data;
  std::vector<LayerConfig> layers;
  nn::Loss loss = nn::Loss::cross_entropy;
  optim::Rule rule;
  optim::Schedule schedule;  // total_steps is set by who knows the number of batches
  double clip_norm = 0;      // 0: none
  int64_t epochs = 5, batch_size = 64;
  bool shuffle = true;
  int64_t log_every = 100;       // steps; 0: epochs only
  int64_t checkpoint_every = 0;  // steps; 0: after each epoch
};

// The option table. Activations are whatever pointwise ops are registered, so call gradus::init()
// first.
Spec mlp_spec();
// A config that mlp_spec() has checked and filled in. Error(config) for what a table cannot say.
Experiment read_experiment(const Json& config, const std::string& file);

// Outputs of the network: those of its last linear layer.
int64_t output_count(const Experiment& experiment);
// Reads or draws the data. Error(io) for files that do not fit, Error(config) for a network with
// fewer outputs than the data has classes.
Dataset load_data(const Experiment& experiment);
// Draws the initial parameters from the thread's generator.
nn::Sequential build_network(const Experiment& experiment, int64_t features, Device& device);

}  // namespace gradus::cli
