// The tour's three stops. All it shows is what the other commands do; it has no numbers of its own.
#include "cli/teach/demo.hpp"

#include "cli/contract/contract.hpp"
#include "cli/train/train_loop.hpp"
#include "cli/frame/session.hpp"
#include "cli/frame/terminal.hpp"
#include "ops/def/fingerprint.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

// The network of configs/mlp/digits.json, here too so that the demo works from any folder.
constexpr const char* kNetwork = R"({
  "experiment": "mlp",
  "seed": 1,
  "data": {"name": "digits", "train": 6000, "test": 1000},
  "model": {"layers": [{"linear": 128}, "relu", {"linear": 10}]},
  "loss": "cross_entropy",
  "optimizer": {"name": "adam", "lr": 2e-3},
  "epochs": 5, "batch_size": 64, "log_every": 0
})";

// One image as text, two characters to a pixel of half the size.
std::string drawing(const uint8_t* pixels, int64_t rows, int64_t cols) {
  constexpr char shades[] = " .:-=+*#%@";
  std::string out;
  for (int64_t r = 0; r + 1 < rows; r += 2) {
    std::string line = "     ";
    for (int64_t c = 0; c + 1 < cols; c += 2) {
      const uint8_t* p = pixels + r * cols + c;
      const int mean = (p[0] + p[1] + p[cols] + p[cols + 1]) / 4;
      line += std::string(2, shades[mean * 9 / 255]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    if (!line.empty() || !out.empty()) out += line + "\n";
  }
  out.erase(out.find_last_not_of('\n') + 1);
  return out + "\n";
}

// Shows a test image with what the network makes of it.
void show_guess(Trainer& trainer, const Dataset& data, Device& device, std::ostream& out) {
  const NoGrad no_grad;
  Batches batches(data, data.test, device);
  const auto five = std::find(data.test.labels().begin(), data.test.labels().end(), 5);
  const int64_t shown[] = {five == data.test.labels().end() ? 0
                                                            : five - data.test.labels().begin()};
  trainer.network().set_training(false);
  const Tensor p = softmax(trainer.network().forward(batches.fill(shown).inputs), -1);
  trainer.network().set_training(true);
  const int64_t guess = argmax(p).item_integer();
  out << "   A test image, drawn as " << data.test.labels()[size_t(shown[0])] << ":\n\n"
      << drawing(data.test.pixels().data() + shown[0] * data.inputs_each(), data.rows(),
                 data.cols())
      << "\n   The network says " << guess << ", and is " << percent(amax(p).item())
      << " sure.\n\n";
}

void learn(Device& device, Reporter& reporter, std::ostream& out) {
  const Json config = check(network_spec(), parse_json(kNetwork, "demo"), "demo");
  const Experiment experiment = read_experiment(config, "demo");
  if (!reporter.json())
    out << heading("1. A network learns to read digits")
        << "\n\n"
           "   784 pixels -> 128 relu -> 10 classes; the program draws the digits itself.\n\n";
  const Dataset data = load_data(experiment.data);
  Trainer trainer(experiment, data, device);
  TrainLoop loop(trainer, experiment, device, reporter, nullptr);
  reporter.start({device.name(), "", nn::count(trainer.network().parameters()), data.train.count,
                  data.test.count, experiment.epochs, trainer.batches_per_epoch(), -1,
                  experiment.kind});
  reporter.result(loop.run());
  if (reporter.json()) return;
  out << "\n";
  show_guess(trainer, data, device, out);
}

void contract_three(const DemoOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.json)
    out << heading("2. A contraction of three tensors, and its gradient")
        << "\n\n"
           "   Left to right, ij,jk,kl->il would begin with a 400 x 300 by 300 x 500 product.\n"
           "   gradus finds the cheaper order, checks the value against the plain loops of the\n"
           "   reference device, and the gradients against forward mode and differences.\n\n";
  ContractOptions contraction;
  contraction.einsum = "ij,jk,kl->il";
  contraction.sizes = "i=400,j=300,k=500,l=2";
  contraction.verify = true;
  contraction.device = options.device;
  contraction.json = options.json;
  run_contract(contraction, out, options.json ? err : out);
  if (!options.json) out << "\n";
}

void show_statement(const std::string& name, bool json, std::ostream& out) {
  const def::StatementText& s = def::statement_info(def::statement_id(name));
  if (json) {
    out << nlohmann::ordered_json{{"event", "statement"},
                                  {"name", s.name},
                                  {"value", s.value},
                                  {"slope", s.slopes.at(0)}}
               .dump()
        << std::endl;
    return;
  }
  const bool keeps_y = s.saves.at(0) & def::kSavesY, keeps_x = s.saves.at(0) & 1u;
  out << heading("3. A derivative, printed from the code that runs") << "\n\n"
      << "   " << s.name << ":  y = " << s.value << "\n"
      << "   " << std::string(s.name.size(), ' ') << "   dy/dx = " << s.slopes.at(0) << "\n\n"
      << "   One statement is all there is of " << s.name
      << ". The loop on the device, the gradient, its\n"
      << "   own derivative and these two lines are read from it. Its slope needs "
      << (keeps_y && keeps_x ? "x and y"
          : keeps_y          ? "y alone"
          : keeps_x          ? "x alone"
                             : "neither x nor y")
      << ",\n   so that is what the forward pass keeps.\n\n";
}

}  // namespace

int run_demo(const DemoOptions& options, std::ostream& out, std::ostream& err) {
  const auto begin = std::chrono::steady_clock::now();
  Reporter reporter(out, options.json ? err : out, options.json);
  const Session session(options.device, false, err);

  learn(session.device(), reporter, out);
  contract_three(options, out, err);
  show_statement("sigmoid", options.json, out);
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (options.json) {
    out << nlohmann::ordered_json{{"event", "done"},
                                  {"seconds", seconds},
                                  {"device", session.device().name()}}
               .dump()
        << std::endl;
    return 0;
  }
  out << "That took " << duration(seconds) << " on " << session.device().name()
      << ". Go on with\n\n"
      << "   gradus ops sigmoid                          any op: formula, derivative, what it "
         "keeps\n"
      << "   gradus train configs/mlp/digits.json        the same training, with a run folder\n"
      << "   gradus contract --einsum \"ij,jk->ik\" --sizes i=256,j=256,k=256 --verify\n"
      << "   gradus check                                every op against its derivative\n"
      << "   gradus devices                              what else could run this\n";
  return 0;
}

}  // namespace gradus::cli
