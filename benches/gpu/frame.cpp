// Rows of gradus_bench_gpu: timed, shown, written down.
#include "benches/gpu/frame.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace gradus::inline v1::bench::gpu {

namespace {

// What the device's table or its libraries do not have, or not for these dtypes: no failure of the
// bench.
bool not_offered(const Error& e) {
  const auto says = [&](const char* words) { return e.message().find(words) != std::string::npos; };
  return e.kind() == ErrorKind::dtype ||
         (e.kind() == ErrorKind::device &&
          (says("has no kernel for slot") || says("name another as libraries.solver")));
}

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

Extents::Extents(bool emulated, bool quick)
    : small(emulated),
      side(emulated ? 24 : 8192),
      line(emulated ? 40 : 4096),
      parameters(emulated ? 500 : 100'000'000),
      products(emulated ? std::vector<int64_t>{20}
               : quick  ? std::vector<int64_t>{1024, 4096}
                        : std::vector<int64_t>{1024, 2048, 4096, 8192}),
      matrices(emulated ? std::vector<int64_t>{6}
               : quick  ? std::vector<int64_t>{512}
                        : std::vector<int64_t>{512, 2048}) {}

Bench::Bench(Device& device, const Options& options)
    : device_(device), options_(options), sizes(emulated(), options.quick) {
  if (!options.json.empty()) {
    file_ = std::fopen(options.json.c_str(), "w");
    if (!file_) fail(ErrorKind::io, "bench", options.json, " can't be written");
  }
  const gd_info info = device.info();
  write({{"event", "machine"},
         {"device", device.name()},
         {"hardware", info.name},
         {"arch", info.arch},
         {"build", device.table().build},
         {"emulated", emulated()}});
  std::printf("%s: %s, %s\n", device.name().c_str(), info.name, info.arch);
}

Bench::~Bench() {
  if (file_) std::fclose(file_);
}

void Bench::row(const std::string& name, const Json& what, double bytes, double flops,
                const std::function<Call()>& make) {
  if (name.find(options_.filter) == std::string::npos) return;
  Json line{{"name", name}};
  line.update(what);
  line["bytes"] = bytes;
  line["flops"] = flops;
  std::string shown;
  timed_ = &device_;
  try {
    const Call call = make();
    const double seconds = measure(call);
    line["seconds"] = seconds;
    shown = fmt::format("{:>10.2f} us", seconds * 1e6);
    if (bytes > 0) shown += fmt::format("{:>10.1f} GB/s", bytes / seconds * 1e-9);
    if (flops > 0) shown += fmt::format("{:>10.2f} TFLOP/s", flops / seconds * 1e-12);
  } catch (const NotOffered& e) {
    line["not_offered"] = shown = e.what();
  } catch (const Error& e) {
    line[not_offered(e) ? "not_offered" : "failed"] = e.what();
    shown = (not_offered(e) ? "" : "FAILED: ") + std::string(e.what());
    failures_ += !not_offered(e);
  }
  std::printf("%-52s %s\n", name.c_str(), shown.c_str());
  std::fflush(stdout);
  write(line);
  device_.pool().trim();
}

bool Bench::emulated() const {
  const gd_table& t = device_.table();
  return t.capabilities && (t.capabilities(device_.handle()) & GD_CAP_EMULATED);
}

double Bench::batch(const Call& call, int64_t calls) {
  timed_->synchronize();
  const double start = now();
  for (int64_t i = 0; i < calls; ++i) call();
  timed_->synchronize();
  return (now() - start) / double(calls);
}

// Median seconds of one call over batches. The first calls bring memory, modules and graphs.
double Bench::measure(const Call& call) {
  const bool brief = options_.quick || sizes.small;
  const double slice = brief ? 5e-3 : 3e-2, most = brief ? 0.3 : 2;
  double one = batch(call, 1);
  if (one < 0.3) batch(call, 3), one = batch(call, 1);
  const auto calls = [&] { return std::clamp<int64_t>(int64_t(slice / one), 1, 100000); };
  one = batch(call, calls());  // one call alone mostly waits
  std::vector<double> samples;
  const double end = now() + most;
  while (samples.size() < 9 && (samples.size() < 3 || now() < end))
    samples.push_back(batch(call, calls()));
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

void Bench::write(const Json& line) {
  if (!file_) return;
  std::fputs((line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), file_);
  std::fflush(file_);
}

}  // namespace gradus::bench::gpu
