// gradus_bench_gpu: how fast one device is at the works of networks and contractions.
//   gradus_bench_gpu [--device cuda:0] [--json FILE] [--filter TEXT] [--quick]
// One JSON object per row says what was done, so that peer.py can do the same with PyTorch, and
// table.py sets the two side by side. Calls follow each other without waiting, as in a training
// loop; the clock stops when the device has done them all. An emulated device gets tiny sizes.
#include "benches/cases.hpp"
#include "engine/graph.hpp"
#include "engine/config/device_config.hpp"
#include "engine/random.hpp"
#include "engine/capture/capture.hpp"
#include "kernels/cpu/cpu.hpp"
#include "ops/contract/einsum.hpp"
#include "ops/init.hpp"
#include "ops/ops.hpp"
#include "ops/nn/layers.hpp"
#include "ops/optim/optimizer.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace gradus::inline v1::bench {
namespace {

using Json = nlohmann::ordered_json;
using Call = std::function<void()>;

struct Options {
  std::string device = "cuda:0", json, filter;
  bool quick = false;
};

// Sizes of the works: real ones fill a large GPU, those of an emulated device only show that all of
// it runs.
struct Sizes {
  explicit Sizes(bool emulated, bool quick)
      : small(emulated),
        side(emulated ? 24 : 8192),
        line(emulated ? 40 : 4096),
        parameters(emulated ? 500 : 100'000'000),
        products(emulated ? std::vector<int64_t>{20}
                 : quick  ? std::vector<int64_t>{1024, 4096}
                          : std::vector<int64_t>{1024, 2048, 4096, 8192}) {}
  bool small;
  int64_t side, line, parameters;
  std::vector<int64_t> products;
};

struct NotOffered : std::exception {
  explicit NotOffered(std::string why) : why(std::move(why)) {}
  const char* what() const noexcept override { return why.c_str(); }
  std::string why;
};

// A kernel that the device's table does not have, or not for these dtypes: no failure of the bench.
bool not_offered(const Error& e) {
  return e.kind() == ErrorKind::dtype ||
         (e.kind() == ErrorKind::device &&
          e.message().find("has no kernel for slot") != std::string::npos);
}

double now() {
  using namespace std::chrono;
  return duration<double>(steady_clock::now().time_since_epoch()).count();
}

class Bench {
 public:
  Bench(Device& device, const Options& options)
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
  ~Bench() {
    if (file_) std::fclose(file_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  Device& device() const { return device_; }
  int failures() const { return failures_; }
  // For a `make` whose operands live elsewhere: whom the clock waits for in this row.
  void wait_for(Device& other) { timed_ = &other; }

  // A row: `make` builds the operands and returns the call to repeat. `what` names the work for the
  // peer: {"work", "dtype", "sizes", ...}; `bytes` and `flops` are what one call must move and do.
  void row(const std::string& name, Json what, double bytes, double flops,
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

 private:
  bool emulated() const {
    const gd_table& t = device_.table();
    return t.capabilities && (t.capabilities(device_.handle()) & GD_CAP_EMULATED);
  }
  double batch(const Call& call, int64_t calls) {
    timed_->synchronize();
    const double start = now();
    for (int64_t i = 0; i < calls; ++i) call();
    timed_->synchronize();
    return (now() - start) / double(calls);
  }
  // Median seconds of one call over batches. The first calls bring memory, modules and graphs.
  double measure(const Call& call) {
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
  void write(const Json& line) {
    if (!file_) return;
    std::fputs((line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n").c_str(), file_);
    std::fflush(file_);
  }

  Device& device_;
  Device* timed_ = nullptr;
  Options options_;
  std::FILE* file_ = nullptr;
  int failures_ = 0;

 public:
  const Sizes sizes;
};

// ---- memory

// The driver's own copy: the speed that all works bound by memory are compared with.
void copies(Bench& b) {
  const int64_t n = b.sizes.side;
  const double bytes = double(n * n) * 4;
  b.row("copy", {{"work", "copy"}, {"sizes", {n, n}}}, 2 * bytes, 0, [&]() -> Call {
    const Tensor from = uniform({n, n}), to = zeros({n, n});
    void* const source = from.storage().data();
    void* const target = to.storage().data();
    return [from, to, source, target, &d = b.device()] {
      gd_error error{};
      if (d.table().copy(d.handle(), nullptr, target, source, from.bytes(), GD_ON_DEVICE, &error))
        fail(ErrorKind::device, "copy", error.text);
    };
  });
}

struct Pointwise {
  const char* name;
  double passes;  // over 4 n^2 bytes
  Tensor (*call)(const Tensor& x, const Tensor& y);
  const char* group = "pointwise";
  bool row_of_y = false, column_of_y = false, wide = false;  // else both operands are n by n
};
const Pointwise kPointwise[] = {
    {"add", 3, [](const Tensor& x, const Tensor& y) { return x + y; }},
    {"mul", 3, [](const Tensor& x, const Tensor& y) { return x * y; }},
    {"exp", 2, [](const Tensor& x, const Tensor&) { return exp(x); }},
    {"gelu", 2, [](const Tensor& x, const Tensor&) { return gelu(x); }},
    {"add row", 2, [](const Tensor& x, const Tensor& y) { return x + y; }, "strided", true},
    {"add column", 2, [](const Tensor& x, const Tensor& y) { return x + y; }, "strided", false,
     true},
    {"exp of half of each row", 2, [](const Tensor& x, const Tensor&) { return exp(x); }, "strided",
     false, false, true},
    {"sum", 1, [](const Tensor& x, const Tensor&) { return sum(x); }, "reduction"},
    {"sum of rows", 1, [](const Tensor& x, const Tensor&) { return sum(x, {1}); }, "reduction"},
    {"sum of columns", 1, [](const Tensor& x, const Tensor&) { return sum(x, {0}); }, "reduction"},
    {"transpose", 2, [](const Tensor& x, const Tensor&) { return contiguous(transpose(x, 0, 1)); },
     "permute"},
};

void pointwise(Bench& b) {
  const int64_t n = b.sizes.side;
  for (const Pointwise& p : kPointwise)
    b.row(p.name, {{"work", p.name}, {"group", p.group}, {"sizes", {n, n}}},
          p.passes * double(n * n) * 4, 0, [&]() -> Call {
            const Tensor x =
                p.wide ? slice(uniform({n, 2 * n}, -1, 1), 1, 0, n) : uniform({n, n}, -1, 1);
            const Tensor y = uniform({p.row_of_y ? 1 : n, p.column_of_y ? 1 : n}, -1, 1);
            return [x, y, call = p.call] { call(x, y); };
          });
  const Shape cube = b.sizes.small ? Shape{6, 8, 12} : Shape{256, 512, 512};
  b.row("permute 2 0 1",
        {{"work", "permute"}, {"group", "permute"}, {"sizes", {cube[0], cube[1], cube[2]}}},
        8.0 * double(numel_of(cube)), 0, [&]() -> Call {
          return [x = uniform(cube)] { contiguous(permute(x, {2, 0, 1})); };
        });
}

void lines(Bench& b) {
  const int64_t n = 4 * b.sizes.line, k = b.sizes.line;
  const double bytes = 8.0 * double(n * k);
  b.row("softmax", {{"work", "softmax"}, {"group", "lines"}, {"sizes", {n, k}}}, bytes, 0,
        [&]() -> Call {
          return [x = uniform({n, k}, -1, 1)] { softmax(x, 1); };
        });
  b.row("layer_norm", {{"work", "layer_norm"}, {"group", "lines"}, {"sizes", {n, k}}}, bytes, 0,
        [&]() -> Call {
          return [x = uniform({n, k}, -1, 1), w = uniform({k}), v = uniform({k}), k] {
            layer_norm(x, {k}, w, v);
          };
        });
}

void adam(Bench& b) {
  const int64_t n = b.sizes.parameters;
  b.row("adam", {{"work", "adam"}, {"group", "adam"}, {"sizes", Json::array({n})}},
        28.0 * double(n), 0, [&]() -> Call {
          Tensor p = uniform({n}, -1, 1);
          p.set_requires_grad();
          p.set_grad(uniform({n}, -1, 1));
          const auto rule =
              std::make_shared<optim::Optimizer>(nn::NamedTensors{{"p", p}}, optim::Adam{});
          return [rule] { rule->step(1e-6); };
        });
}

// ---- contractions

// The same device, opened again to multiply f32 in tf32; nullptr where f32 stays f32, as a product
// of n by n shows.
Device* with_tf32(Device& device, int64_t n) {
  gd_device* handle = nullptr;
  gd_error error{};
  const gd_table& t = device.table();
  if (t.open(device.index(), "{\"tf32\": true}", &handle, &error) != GD_OK) return nullptr;
  // Devices live for ever.
  auto* const other = new Device(&t, device.index(), handle, device.name() + " with tf32");
  std::vector<float> values;
  for (int64_t i = 0; i < n * n; ++i) values.push_back(float(i % 1009) / 1009);
  const auto square = [&](Device& d) {
    const Tensor x = Tensor::from(values, {n, n}, d);
    return matmul(x, x).to_vector<float>();
  };
  return square(device) == square(*other) ? nullptr : other;
}

void products(Bench& b) {
  struct Kind {
    const char* name;
    DType dtype;
  };
  Device* rounding = nullptr;
  bool asked = false;
  for (const Kind kind :
       {Kind{"f32", DType::f32}, Kind{"tf32", DType::f32}, Kind{"bf16", DType::bf16},
        Kind{"f16", DType::f16}, Kind{"f64", DType::f64}})
    for (const int64_t n : b.sizes.products) {
      const bool tf32 = kind.name[0] == 't';
      b.row(fmt::format("gemm {} {}", kind.name, n),
            {{"work", "gemm"},
             {"group", std::string("gemm ") + kind.name},
             {"dtype", kind.name},
             {"sizes", {n, n, n}}},
            0, 2.0 * double(n) * double(n) * double(n), [&]() -> Call {
              if (tf32 && !asked) rounding = with_tf32(b.device(), n), asked = true;
              if (tf32 && !rounding) throw NotOffered("the device multiplies f32 as f32");
              Device& d = tf32 ? *rounding : b.device();
              b.wait_for(d);
              const bool wide = kind.dtype == DType::f64;
              const DType drawn = wide ? DType::f64 : DType::f32;
              const Tensor x = cast(uniform({n, n}, -1, 1, drawn, d), kind.dtype),
                           y = cast(uniform({n, n}, -1, 1, drawn, d), kind.dtype);
              return [x, y] { matmul(x, y); };
            });
    }
}

void contractions(Bench& b, bool quick) {
  for (const bool single : {true, false}) {
    if (quick && !single) continue;
    for (const Contraction& c : tccg()) {
      const std::string equation = c.equation, type = single ? "f32" : "f64";
      auto extents = c.extents(single, 1e18);
      if (b.sizes.small)
        for (auto& [label, n] : extents) n = 2 + (label - 'a') % 3;
      double flops = 2;
      for (const auto& [label, n] : extents) flops *= double(n);
      std::vector<Shape> shapes(2);
      Json sizes = Json::object();
      for (const auto& [label, n] : extents) sizes[std::string(1, label)] = n;
      size_t k = 0;
      for (const char label : equation.substr(0, equation.find('-')))
        if (label == ',')
          ++k;
        else
          shapes[k].push_back(extents.at(label));
      b.row(fmt::format("tccg {} {}", type, equation),
            {{"work", "einsum"},
             {"group", "tccg " + type},
             {"dtype", type},
             {"equation", equation},
             {"sizes", sizes}},
            0, flops, [&]() -> Call {
              const DType t = single ? DType::f32 : DType::f64;
              const Tensors in{uniform(shapes[0], -1, 1, t), uniform(shapes[1], -1, 1, t)};
              return [in, equation] { einsum(equation, in); };
            });
    }
  }
}

// ---- training steps

// A network with a batch that stays the same, and a learning rate so small that it stays as it is.
struct Training {
  nn::Sequential network;
  std::unique_ptr<optim::Optimizer> adam;
  Tensor x, y;
  Captured captured{};
  static constexpr double kLr = 1e-6;

  Training(const std::vector<int64_t>& sizes, int64_t batch) {
    manual_seed(1);
    for (size_t i = 0; i + 1 < sizes.size(); ++i) {
      if (i > 0) network.add(std::make_unique<nn::OpLayer>("relu"));
      network.add(std::make_unique<nn::Linear>(sizes[i], sizes[i + 1]));
    }
    adam = std::make_unique<optim::Optimizer>(network.parameters(), optim::Adam{});
    x = uniform({batch, sizes.front()});
    std::vector<int64_t> labels;
    for (int64_t i = 0; i < batch; ++i) labels.push_back(i * 7 % sizes.back());
    y = Tensor::from(labels, {batch});
  }
  Tensor work() {
    adam->zero_grad();
    const Tensor loss = cross_entropy(network.forward(x), y);
    backward(loss);
    adam->apply();
    return loss.detach();
  }
  void eager() {
    adam->prepare(kLr);
    work();
  }
  // Recorded at the first call, repeated at later ones: as a graph of the device where it has them.
  void replayed() {
    adam->prepare(kLr);
    if (captured) {
      captured.replay();
      return;
    }
    captured = capture(x.device(), [this] { return Tensors{work()}; });
    if (!captured) throw NotOffered("no capture: " + captured.why_not());
  }
};

void steps(Bench& b) {
  struct Net {
    std::vector<int64_t> sizes;
    int64_t batch;
  };
  const std::vector<Net> nets =
      b.sizes.small ? std::vector<Net>{{{16, 8, 4}, 6}}
                    : std::vector<Net>{{{784, 128, 10}, 64}, {{784, 256, 256, 10}, 128}};
  for (const Net& net : nets)
    for (const bool captured : {false, true})
      b.row(fmt::format("mlp {} batch {}, {}", fmt::join(net.sizes, "-"), net.batch,
                        captured ? "captured" : "eager"),
            {{"work", captured ? "mlp captured" : "mlp eager"},
             {"group", "mlp"},
             {"sizes", net.sizes},
             {"batch", net.batch}},
            0, 0, [&]() -> Call {
              const auto t = std::make_shared<Training>(net.sizes, net.batch);
              for (int i = 0; i < 2; ++i) t->eager();  // the state of adam is there
              if (captured) return [t] { t->replayed(); };
              return [t] { t->eager(); };
            });
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Times works on one device; benches/gpu/table.py compares them with PyTorch's."};
  app.add_option("--device", options.device, "cuda[:N], hip[:N], emu[:N], cpu, a file.json")
      ->take_last();
  app.add_option("--json", options.json, "one JSON object per row into this file")->take_last();
  app.add_option("--filter", options.filter, "only rows whose name contains this")->take_last();
  app.add_flag("--quick", options.quick, "fewer rows and shorter ones, for a first look");
  CLI11_PARSE(app, argc, argv);
  init();
  register_table(cpu::table(), "built in");
  DeviceConfig config = parse_device_config(options.device);
  config.fallback = DeviceConfig::Fallback::error;
  Device& device = *open_configured(config).device;
  const DeviceScope scope(device);
  manual_seed(1);
  Bench bench(device, options);
  copies(bench);
  pointwise(bench);
  lines(bench);
  adam(bench);
  products(bench);
  steps(bench);
  contractions(bench, options.quick);
  return bench.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gradus::bench

int main(int argc, char** argv) {
  try {
    return gradus::bench::run(argc, argv);
  } catch (const gradus::Error& e) {
    std::fprintf(stderr, "gradus_bench_gpu: %s\n", e.what());
    return e.kind() == gradus::ErrorKind::device ? 4 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gradus_bench_gpu: %s\n", e.what());
    return 1;
  }
}
