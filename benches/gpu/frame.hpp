// The frame of gradus_bench_gpu: a device, the sizes of its works, and a row for each.
#pragma once
#include "engine/base/error.hpp"
#include "engine/device/device.hpp"

#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench::gpu {

using Json = nlohmann::ordered_json;
using Call = std::function<void()>;

struct Options {
  std::string device = "cuda:0", json, filter;
  bool quick = false;
};

// Real sizes fill a large GPU, those of an emulated device only show that all of it runs.
struct Extents {
  Extents(bool emulated, bool quick);
  bool small;
  int64_t side, line, parameters;
  std::vector<int64_t> products, matrices;
};

struct NotOffered : std::exception {
  explicit NotOffered(std::string why) : why(std::move(why)) {}
  const char* what() const noexcept override { return why.c_str(); }
  std::string why;
};

class Bench {
 public:
  Bench(Device& device, const Options& options);
  ~Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Device& device() const { return device_; }
  int failures() const { return failures_; }
  // For a `make` whose operands live elsewhere: whom the clock waits for in this row.
  void wait_for(Device& other) { timed_ = &other; }

  // A row: `make` builds the operands and returns the call to repeat. `what` names the work for the
  // peer: {"work", "dtype", "sizes", ...}; `bytes` and `flops` are what one call must move and do.
  void row(const std::string& name, const Json& what, double bytes, double flops,
           const std::function<Call()>& make);

 private:
  bool emulated() const;
  double batch(const Call& call, int64_t calls);
  double measure(const Call& call);
  void write(const Json& line);

  Device& device_;
  Device* timed_ = nullptr;
  Options options_;
  std::FILE* file_ = nullptr;
  int failures_ = 0;

 public:
  const Extents sizes;
};

// benches/gpu/matrices.cpp
void factors(Bench& b);  // and spectra of matrices
void block_tensors(Bench& b);

}  // namespace gradus::bench::gpu
