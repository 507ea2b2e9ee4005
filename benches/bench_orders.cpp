// Contraction orders of published networks against the best that is known of each and against what
// planners for Python find, in as much time as ours takes. The networks lie beside the repository
// (../shared/cases/networks.json); without them nothing is measured.
#include "benches/bench.hpp"
#include "benches/peers.hpp"
#include "engine/config/options.hpp"
#include "engine/files/file.hpp"
#include "ops/contract/plan/portfolio.hpp"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

plan::Network network_of(const Json& instance) {
  plan::Network net;
  for (const Json& n : instance["sizes"]) net.log2_extent.push_back(std::log2(n.get<double>()));
  net.open.assign(net.log2_extent.size(), false);
  for (const Json& l : instance["output"]) net.open[l.get<size_t>()] = true;
  for (const Json& tensor : instance["inputs"]) {
    plan::LabelSet& labels = net.tensors.emplace_back(tensor.get<plan::LabelSet>());
    std::sort(labels.begin(), labels.end());
    labels.erase(std::unique(labels.begin(), labels.end()), labels.end());
  }
  return net;
}

}  // namespace

void orders(Run& run) {
  const std::string file = GRADUS_BENCHES_DIR "/../../shared/cases/networks.json";
  if (!std::filesystem::exists(file)) return run.note("not there: " + file);
  run.note(fmt::format("{:46} {:>11} {:>10} {:>7}   {}", "log2 of multiplications", "found",
                       "best known", "more", "found by"));
  const Json networks = parse_json(read_file(file), file);
  int known = 0, near = 0;
  for (const Json& instance : networks["instances"]) {
    const auto name = instance["name"].get<std::string>();
    if (!run.wants(name)) continue;
    const plan::Network net = network_of(instance);
    const double start = seconds(), budget = run.options().quick ? 1e5 : 1e7;
    const plan::Order order = plan::find_order(net, plan::Family::portfolio, 0, budget);
    const double took = seconds() - start, found = order.cost.log2_mults;
    const Json& best = instance["best_known_log2_mults"];
    std::string more = "-", bar = "-";
    if (best.is_number()) {
      ++known;
      near += found <= best.get<double>() + 0.05;
      bar = fmt::format("{:.3f}", best.get<double>());
      more = fmt::format("{:+.3f}", found - best.get<double>());
    }
    run.note(fmt::format("{:46} {:11.3f} {:>10} {:>7}   {}, {:.2f} s", name, found, bar, more,
                         plan::kFamilies[size_t(order.family)], took));
    for (const PeerOrder& peer : peer_orders(instance, run.options().quick ? 0 : took))
      run.note(fmt::format("{:46} {:11.3f} {:>10} {:+7.3f}   {:.2f} s", "  " + peer.peer,
                           peer.log2_mults, "", peer.log2_mults - found, peer.seconds));
  }
  run.note(fmt::format("{} of {} within 0.05 of the best known", near, known));
}

}  // namespace gradus::bench
