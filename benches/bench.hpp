// The frame of the benches: times ours and each peer turn by turn, and prints one row for each
// pair. A row is a ratio of speeds within one run (above 1: gradus is faster), since machines are
// noisy and absolute times are not comparable. Knows no op: a bench brings the functions.
#pragma once
#include "engine/device/device.hpp"
#include "engine/abi/dtype.hpp"

#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace gradus::inline v1::bench {

struct Options {
  bool quick = false;        // a quarter of the time, for a first look
  std::string filter;        // only works whose name contains it
  std::vector<int> threads;  // empty: 1 and all processors
  std::string json;          // file for one JSON object per row; empty: none
};

// What a ratio should reach. 0: nothing is asked.
struct Target {
  double ratio = 0;
  std::string text{};
};
Target at_least(double ratio);
Target at_most_time(double factor);  // ours may take this many times the peer's time

// Seconds of one call: samples taken within about this many seconds, at least one; none from a peer
// that is gone.
using Sampler = std::function<std::vector<double>(double seconds)>;
// Of a function in this process; `calls` of its own work are done by one call of it. Short ones are
// timed in bunches of a millisecond.
Sampler sampler(std::function<void()> call, double calls = 1);
// The same in the time that this thread itself ran, plus `more` seconds: a bunch of calls is long
// enough to be interrupted on a busy machine.
Sampler own_time(std::function<void()> bunch, double calls, double more = 0);

struct Peer {
  std::string name;
  Sampler sample;
  Target target{};
};
inline Peer peer(std::string name, std::function<void()> call, Target target = {},
                 double calls = 1) {
  return {std::move(name), sampler(std::move(call), calls), std::move(target)};
}
// A bound rather than a competitor: a time that stands still (a peak, a limit in seconds).
Peer bound(std::string name, double seconds, Target target = at_least(1));

// What is measured. `amount` (flops or bytes) with `unit` ("GFLOP/s", "GB/s") turns seconds into a
// rate for the table; without them the table shows times. Rows of one `group` can be summed up.
struct Work {
  std::string name;
  int threads = 1;
  double amount = 0;
  std::string unit{};
  std::string group{};
};

struct Row {
  std::string bench;
  Work work;
  std::string peer;
  double ours = 0, ours_best = 0, theirs = 0,
         theirs_best = 0;  // medians and best: seconds, or bytes
  double ratio = 0;        // theirs / ours: the median of the rounds
  Target target;
};

// Bytes per second, counting what the loop reads and writes, arrays well beyond the caches.
struct Bandwidth {
  double read = 0, copy = 0, triad = 0;  // sum(a); b = a; c = a + s * b
};

class Run {
 public:
  explicit Run(Options options);
  ~Run();

  const Options& options() const { return options_; }
  const std::vector<int>& threads() const { return options_.threads; }
  // The cpu device with this many threads; lives for ever.
  Device& device(int threads);
  // Measured once in this run. Flops of multiply-adds held in registers, on the device's
  // instruction set; f32 and f64.
  double peak_flops(DType dtype, int threads);
  const Bandwidth& bandwidth(int threads);

  // Does the filter let this work through? Ask before an expensive set-up.
  bool wants(const std::string& work) const;
  // Times ours and the peers in turns and prints a row for each peer (one row if there is none).
  // Returns our median in seconds, 0 if the filter leaves it out.
  double compare(const Work& work, const Sampler& ours, const std::vector<Peer>& peers);
  double compare(const Work& work, std::function<void()> ours, const std::vector<Peer>& peers) {
    return compare(work, sampler(std::move(ours)), peers);
  }
  // A row that needs no timing. For bytes, work.unit is "MiB".
  void add(const Work& work, double ours, const std::string& peer, double theirs, Target target);
  // A row with the geometric mean of the ratios of a group, for each peer and thread count.
  void geometric_mean(const std::string& group, Target target, const std::string& peer = "");
  void note(const std::string& line);  // for people, between the rows

  void begin(const std::string& bench);
  void summary() const;  // how many targets were met, and which were missed
  const std::vector<Row>& rows() const { return rows_; }

 private:
  void print(const Row& row);
  Options options_;
  std::string bench_;
  std::vector<Row> rows_;
  std::map<int, Device*> devices_;
  std::map<std::pair<int, int>, double> peaks_;
  std::map<int, Bandwidth> bandwidths_;
  std::FILE* json_ = nullptr;
};

// A cpu device of its own; lives for ever.
Device& open_cpu(const std::string& options, const std::string& name);

// Runs a program to its end, without what it prints. Error(io) if it fails.
void run_program(const std::vector<std::string>& words);

double seconds();  // of a steady clock

// Memory as the cpu device gives it: bounds and peers in this process meet the same pages as ours.
class Memory {
 public:
  explicit Memory(size_t bytes);
  char* bytes() const { return data_.get(); }
  float* floats() const { return reinterpret_cast<float*>(data_.get()); }

 private:
  std::unique_ptr<char, void (*)(char*)> data_;
};

// benches/peaks.cpp
double measure_fma(DType dtype, int threads, const std::string& isa);  // flops per second
double measure_add_max(DType dtype, int threads, const std::string& isa);
Bandwidth measure_bandwidth(int threads);

}  // namespace gradus::bench
