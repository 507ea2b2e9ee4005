// Timing in turns, the table and its JSON lines.
#include "benches/bench.hpp"
#include "engine/base/error.hpp"
#include "kernels/cpu/cpu.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

// Sides take short turns, and a ratio is the median of the ratios of single rounds: what slows a
// machine down for a while slows both sides of a round.
constexpr int kRounds = 24, kFewest = 4;
constexpr double kSlice = 0.005;  // seconds of one side in one round
constexpr double kEnough = 0.25;  // seconds of one side in all, where calls are long
constexpr double kBunch = 1e-3;   // short calls are timed together
constexpr double kLong = 0.02;    // calls from here on need no warming

double median(std::vector<double> v) {
  const size_t middle = v.size() / 2;
  std::nth_element(v.begin(), v.begin() + std::ptrdiff_t(middle), v.end());
  return v[middle];
}

std::string show(double value, const Work& work) {
  if (work.unit == "MiB" && value < 1e5) return fmt::format("{:.2f} KiB", value / 1024);
  if (work.unit == "MiB") return fmt::format("{:.2f} MiB", value / 1048576);
  if (work.amount > 0) return fmt::format("{:.1f} {}", work.amount / value * 1e-9, work.unit);
  if (value < 1e-6) return fmt::format("{:.1f} ns", value * 1e9);
  if (value < 1e-3) return fmt::format("{:.2f} us", value * 1e6);
  return fmt::format("{:.2f} ms", value * 1e3);
}

const char* verdict(const Row& row) {
  if (row.target.ratio == 0) return "";
  return row.ratio >= row.target.ratio ? "met" : "MISSED";
}

}  // namespace

Memory::Memory(size_t bytes) : data_(nullptr, [](char* p) { cpu::table()->free(nullptr, p); }) {
  void* data = nullptr;
  gd_error error{};
  if (cpu::table()->alloc(nullptr, bytes, &data, &error) != GD_OK)
    fail(ErrorKind::memory, "bench", error.text);
  data_.reset(static_cast<char*>(data));
}

double seconds() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

Target at_least(double ratio) { return {ratio, fmt::format(">= {:g}", ratio)}; }
Target at_most_time(double factor) {
  return {1 / factor, fmt::format(">= {:.2f} (time <= {:g} x)", 1 / factor, factor)};
}

static double processor_seconds() {
  timespec t{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

Sampler own_time(std::function<void()> bunch, double calls, double more) {
  return [bunch = std::move(bunch), calls, more](double limit) {
    std::vector<double> times;
    const double end = seconds() + limit;
    do {
      const double begin = processor_seconds();
      bunch();
      times.push_back((processor_seconds() - begin) / calls + more);
    } while (seconds() < end);
    return times;
  };
}

Sampler sampler(std::function<void()> call, double calls) {
  return [call = std::move(call), calls, bunch = int64_t(0), one = 0.0](double budget) mutable {
    if (one < kLong) call();  // first touches; later the other side had the caches
    if (bunch == 0) {
      const double t = seconds();
      call();
      one = seconds() - t;
      bunch = std::clamp<int64_t>(int64_t(kBunch / std::max(one, 1e-9)), 1, 1000000);
    }
    std::vector<double> out;
    const double end = seconds() + budget;
    double now = seconds();
    do {
      for (int64_t i = 0; i < bunch; ++i) call();
      const double after = seconds();
      out.push_back((after - now) / double(bunch) / calls);
      now = after;
    } while (now < end);
    return out;
  };
}

Peer bound(std::string name, double value, Target target) {
  return {std::move(name), [value](double) { return std::vector{value}; }, std::move(target)};
}

Run::Run(Options options) : options_(std::move(options)) {
  if (options_.threads.empty()) {
    options_.threads = {1};
    if (const int all = int(std::thread::hardware_concurrency()); all > 1)
      options_.threads.push_back(all);
  }
  const gd_info info = device(1).info();
  std::puts(fmt::format("{}, {}", info.name, info.arch).c_str());
  if (options_.json.empty()) return;
  json_ = std::fopen(options_.json.c_str(), "w");
  if (!json_) fail(ErrorKind::io, "bench", options_.json, " can't be written");
  const nlohmann::json machine{{"event", "machine"},
                               {"processor", info.name},
                               {"isa", info.arch},
                               {"processors", std::thread::hardware_concurrency()}};
  std::fputs((machine.dump() + "\n").c_str(), json_);
}

Run::~Run() {
  if (json_) std::fclose(json_);
}

Device& open_cpu(const std::string& options, const std::string& name) {
  const gd_table* table = cpu::table();
  gd_device* handle = nullptr;
  gd_error e{};
  if (table->open(0, options.c_str(), &handle, &e) != GD_OK)
    fail(ErrorKind::device, "bench", e.text);
  return *new Device(table, 0, handle, name);
}

Device& Run::device(int threads) {
  Device*& slot = devices_[threads];
  if (!slot)
    slot = &open_cpu(fmt::format("{{\"threads\": {}}}", threads),
                     fmt::format("cpu with {} threads", threads));
  return *slot;
}

double Run::peak_flops(DType dtype, int threads) {
  double& peak = peaks_[{int(dtype), threads}];
  if (peak == 0) {
    peak = measure_fma(dtype, threads, device(threads).info().arch);
    note(fmt::format("peak of multiply-adds, {}, {} threads: {:.1f} GFLOP/s", dtype_name(dtype),
                     threads, peak * 1e-9));
  }
  return peak;
}

const Bandwidth& Run::bandwidth(int threads) {
  Bandwidth& b = bandwidths_[threads];
  if (b.read == 0) {
    b = measure_bandwidth(threads);
    note(fmt::format("memory, {} threads: read {:.1f}, copy {:.1f}, triad {:.1f} GB/s", threads,
                     b.read * 1e-9, b.copy * 1e-9, b.triad * 1e-9));
  }
  return b;
}

bool Run::wants(const std::string& work) const {
  return work.find(options_.filter) != std::string::npos;
}

double Run::compare(const Work& work, const Sampler& ours, const std::vector<Peer>& peers) {
  if (!wants(work.name)) return 0;
  // Threads that have just worked still spin: OpenBLAS's for tens of milliseconds, others shortly.
  const auto settle = [&](bool before_ours) {
    if (work.threads > 1 && !peers.empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(before_ours ? 30 : 5));
  };
  const size_t sides = peers.size() + 1;
  std::vector<std::vector<double>> times(sides), ratios(sides);
  // Threads that were left to sleep are slow at first: longer turns, fewer of them.
  const int longer = work.threads > 1 ? 4 : 1,
            rounds = std::max(3, (options_.quick ? kRounds / 4 : kRounds) / longer);
  const double start = seconds();
  for (int round = 0; round < rounds; ++round) {
    double ours_now = 0;
    for (size_t i = 0; i < sides; ++i) {
      settle(i == 0);
      const std::vector<double> samples = (i == 0 ? ours : peers[i - 1].sample)(kSlice * longer);
      if (samples.empty()) continue;
      times[i].insert(times[i].end(), samples.begin(), samples.end());
      if (i == 0) ours_now = median(samples);
      ratios[i].push_back(median(samples) / ours_now);
    }
    const double spent = seconds() - start;
    if ((round + 1 >= kFewest && spent > kEnough * double(sides)) || (round >= 1 && spent > 4))
      break;
  }
  const auto best = [](const std::vector<double>& v) {
    return *std::min_element(v.begin(), v.end());
  };
  Row row{bench_, work, "", median(times[0]), best(times[0]), 0, 0, 0, {}};
  if (peers.empty()) print(row);
  for (size_t i = 0; i < peers.size(); ++i) {
    row.peer = peers[i].name;
    if (times[i + 1].empty()) {
      note(row.peer + " has stopped answering");
      continue;
    }
    row.theirs = median(times[i + 1]);
    row.theirs_best = best(times[i + 1]);
    row.ratio = median(ratios[i + 1]);
    row.target = peers[i].target;
    print(row);
  }
  return row.ours;
}

void Run::add(const Work& work, double ours, const std::string& peer, double theirs,
              Target target) {
  if (wants(work.name))
    print({bench_, work, peer, ours, ours, theirs, theirs, theirs / ours, std::move(target)});
}

void Run::geometric_mean(const std::string& group, Target target, const std::string& peer) {
  std::map<std::pair<std::string, int>, std::pair<double, int>> sums;
  for (const Row& row : rows_)
    if (row.work.group == group && row.bench == bench_ && row.ratio > 0 &&
        (peer.empty() || row.peer == peer)) {
      auto& [sum, n] = sums[{row.peer, row.work.threads}];
      sum += std::log(row.ratio);
      ++n;
    }
  for (const auto& [key, sum] : sums) {
    Row row{bench_, {group + ": geometric mean", key.second}, key.first, 0, 0, 0,
            0,      std::exp(sum.first / sum.second),         target};
    print(row);
  }
}

void Run::note(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

void Run::begin(const std::string& bench) {
  bench_ = bench;
  std::puts(fmt::format("\n{:<44} {:>3} {:>15} {:>15}  {:<22} {:>7}  {}", bench, "thr", "gradus",
                        "peer's", "peer", "ratio", "target")
                .c_str());
}

void Run::print(const Row& row) {
  const Work& w = row.work;
  // The peers of one work stand below each other; ours is said once.
  const bool again = !rows_.empty() && rows_.back().work.name == w.name &&
                     rows_.back().work.threads == w.threads && rows_.back().ours == row.ours;
  rows_.push_back(row);
  std::puts(fmt::format("{:<44} {:>3} {:>15} {:>15}  {:<22} {:>7}  {:<22} {}", again ? "" : w.name,
                        again ? "" : std::to_string(w.threads),
                        row.ours > 0 && !again ? show(row.ours, w) : "",
                        row.theirs > 0 ? show(row.theirs, w) : "", row.peer,
                        row.ratio > 0 ? fmt::format("{:.2f}", row.ratio) : "", row.target.text,
                        verdict(row))
                .c_str());
  std::fflush(stdout);
  if (!json_) return;
  nlohmann::json j{{"bench", row.bench}, {"work", w.name}, {"threads", w.threads}};
  if (row.ours > 0) {
    const bool bytes = w.unit == "MiB";
    j[bytes ? "bytes" : "seconds"] = row.ours;
    if (!bytes) j["best_seconds"] = row.ours_best;
    if (w.amount > 0) j["amount"] = w.amount, j["unit"] = w.unit;
  }
  if (!row.peer.empty()) {
    j["peer"] = row.peer;
    j["ratio"] = row.ratio;
    if (row.theirs > 0) j["theirs"] = row.theirs, j["theirs_best"] = row.theirs_best;
  }
  if (row.target.ratio > 0)
    j["target"] = row.target.ratio, j["met"] = row.ratio >= row.target.ratio;
  std::fputs((j.dump() + "\n").c_str(), json_);
  std::fflush(json_);
}

void Run::summary() const {
  int asked = 0, met = 0;
  for (const Row& row : rows_)
    if (row.target.ratio > 0) ++asked, met += row.ratio >= row.target.ratio;
  std::puts(fmt::format("\n{} of {} targets met", met, asked).c_str());
  for (const Row& row : rows_)
    if (row.target.ratio > 0 && row.ratio < row.target.ratio)
      std::puts(fmt::format("missed: {}, {} threads, against {}: {:.2f}, asked {}", row.work.name,
                            row.work.threads, row.peer, row.ratio, row.target.text)
                    .c_str());
}

}  // namespace gradus::bench
