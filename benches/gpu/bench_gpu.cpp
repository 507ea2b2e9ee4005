// gradus_bench_gpu: how fast one device is at the works of networks and contractions.
//   gradus_bench_gpu [--device cuda:0] [--json FILE] [--filter TEXT] [--quick]
// One JSON object per row says what was done, so that peer.py can do the same with PyTorch, and
// table.py sets the two side by side. Calls follow each other without waiting, as in a training
// loop; the clock stops when the device has done them all. An emulated device gets tiny sizes.
#include "benches/cases.hpp"
#include "benches/gpu/frame.hpp"
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

#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradus::inline v1::bench::gpu {
namespace {

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
  factors(bench);
  block_tensors(bench);
  contractions(bench, options.quick);
  return bench.failures() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gradus::bench::gpu

int main(int argc, char** argv) {
  try {
    return gradus::bench::gpu::run(argc, argv);
  } catch (const gradus::Error& e) {
    std::fprintf(stderr, "gradus_bench_gpu: %s\n", e.what());
    return e.kind() == gradus::ErrorKind::device ? 4 : 1;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "gradus_bench_gpu: %s\n", e.what());
    return 1;
  }
}
