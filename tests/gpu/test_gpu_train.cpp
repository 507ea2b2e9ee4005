// Training on a GPU module: the emulator gives the CPU's losses, captured steps and graphs
// included.
#include "engine/config/loader.hpp"
#include "gradus_paths.hpp"
#include "tests/helpers/sizes.hpp"
#include "tests/helpers/train_helpers.hpp"

#include <cmath>

using namespace gradus;
using gradus::test::TempFolder;

namespace {

// Of ten steps each. Under sanitizers a step on the emulator takes half a second.
int epochs() { return gradus::test::small_sizes() ? 1 : 5; }

// Training and test loss after each epoch.
std::vector<double> losses_on(const std::string& device) {
  const TempFolder folder;
  cli::TrainOptions o;
  o.config = GRADUS_SOURCE_DIR "/configs/mlp/digits.json";
  o.set = {"data.train=640", "data.test=64", "epochs=" + std::to_string(epochs())};
  o.device = device;
  o.out = folder / "run";
  o.json = true;
  const gradus::test::Run run = gradus::test::train(o);
  std::vector<double> losses;
  for (const Json& e : run.events)
    if (e["event"] == "epoch") {
      losses.push_back(e["train_loss"]);
      losses.push_back(e["loss"]);
    }
  CHECK(run.events.back()["steps"] == 10 * epochs());
  return losses;
}

}  // namespace

TEST_CASE("gpu train: fifty steps on the emulator give the CPU's losses") {
  const std::vector<double> cpu = losses_on("cpu");
  REQUIRE(int(cpu.size()) == 2 * epochs());
  for (const char* device :
       {"emu:0", "emu:3", R"({"device": "emu:1", "graph": false, "precision": {"tf32": false}})"}) {
    CAPTURE(device);
    const std::vector<double> emulated = losses_on(device);
    REQUIRE(emulated.size() == cpu.size());
    for (size_t k = 0; k < cpu.size(); ++k)
      CHECK(std::fabs(emulated[k] - cpu[k]) <= 1e-5 * std::fabs(cpu[k]));
  }
}
