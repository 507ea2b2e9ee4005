// Contraction orders of published networks against the best that is known of each and against what
// planners for Python find, in as much time as ours takes. The networks lie beside the repository
// (../shared/cases/networks.json); without them this part is left out. And how the time of planning
// grows with the network: of the command, and of the greedy search alone.
#include "benches/bench.hpp"
#include "benches/peers.hpp"
#include "engine/config/options.hpp"
#include "engine/files/file.hpp"
#include "ops/contract/plan/portfolio.hpp"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

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

// A network of labels of extent 2, each held by two tensors, from pairs of tensors.
plan::Network network_of(int tensors, const std::vector<std::pair<int, int>>& pairs) {
  plan::Network net;
  net.tensors.resize(size_t(tensors));
  for (const auto& [a, b] : pairs) {
    if (a == b) continue;
    for (const int t : {a, b}) net.tensors[size_t(t)].push_back(int(net.open.size()));
    net.log2_extent.push_back(1);
    net.open.push_back(false);
  }
  return net;
}
plan::Network chain(int tensors) {
  std::vector<std::pair<int, int>> pairs;
  for (int k = 1; k < tensors; ++k) pairs.emplace_back(k - 1, k);
  return network_of(tensors, pairs);
}
plan::Network grid(int tensors) {
  const int side = int(std::sqrt(tensors));
  std::vector<std::pair<int, int>> pairs;
  for (int k = 0; k < side * side; ++k) {
    if (k % side) pairs.emplace_back(k - 1, k);
    if (k >= side) pairs.emplace_back(k - side, k);
  }
  return network_of(side * side, pairs);
}
// A random graph in which each tensor has three neighbours, most of them: nothing is near.
plan::Network expander(int tensors) {
  plan::Random random(2);
  std::vector<int> ends;
  for (int k = 0; k < 3 * tensors; ++k) ends.push_back(k / 3);
  for (size_t i = ends.size() - 1; i > 0; --i)
    std::swap(ends[i], ends[size_t(random.below(int(i + 1)))]);
  std::vector<std::pair<int, int>> pairs;
  for (size_t i = 0; i + 1 < ends.size(); i += 2) pairs.emplace_back(ends[i], ends[i + 1]);
  return network_of(tensors, pairs);
}

// A file that `gradus contract --network` reads; gone with this.
class NetworkFile {
 public:
  explicit NetworkFile(const plan::Network& net) {
    Json sizes = Json::object();
    for (size_t l = 0; l < net.open.size(); ++l) sizes[std::to_string(l)] = 2;
    write_file_atomically(
        path_, Json{{"labels", net.tensors}, {"sizes", sizes}, {"output", Json::array()}}.dump());
  }
  NetworkFile(const NetworkFile&) = delete;
  ~NetworkFile() { std::filesystem::remove(path_); }
  // Plans it, from the file to the order.
  auto planned(const char* path) const {
    return [this, path] {
      run_program(
          {GRADUS_BENCH_PROGRAM, "contract", "--network", path_, "--plan-only", "--path", path});
    };
  }

 private:
  static inline int made_ = 0;
  std::string path_ = (std::filesystem::temp_directory_path() /
                       fmt::format("gradus_network_{}_{}.json", getpid(), made_++))
                          .string();
};

void growth(Run& run) {
  const struct {
    const char* name;
    plan::Network (*of)(int);
  } families[] = {{"chain", chain}, {"grid", grid}, {"3-regular graph", expander}};
  for (const auto& family : families) {
    const std::string name = fmt::format("plan of a {}, 100000 tensors", family.name);
    if (!run.wants(name) || !std::filesystem::exists(GRADUS_BENCH_PROGRAM)) continue;
    const NetworkFile small(family.of(10'000)), large(family.of(100'000));
    run.compare({name + ", greedy"}, large.planned("greedy"),
                {peer("10 x 10000", small.planned("greedy"), at_most_time(1.2), 0.1)});
    const double start = seconds();
    large.planned("auto")();
    run.add({name + ", auto"}, seconds() - start, "10 s", 10, at_least(1));
  }
  for (const auto& family : families)
    for (const int n : {1'000, 10'000}) {
      const std::string name = fmt::format("greedy order of a {}, {} tensors", family.name, 10 * n);
      if (!run.wants(name)) continue;
      const plan::Network small = family.of(n), large = family.of(10 * n);
      const auto of = [](const plan::Network& net) {
        return [&net] { plan::find_order(net, plan::Family::greedy, 0, 1e9); };
      };
      run.compare({name, 1}, of(large),
                  {peer(fmt::format("10 x {}", n), of(small), at_most_time(1.2), 0.1)});
    }
}

void published(Run& run) {
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

}  // namespace

void orders(Run& run) {
  growth(run);
  published(run);
}

}  // namespace gradus::bench
