// Pointwise statements through the C table: words on arrays held in L2 against PyTorch and numpy,
// add, mul and sums beyond the caches against the bandwidth of this run, broadcast operands, short
// rows, small calls.
#include "benches/peers.hpp"
#include "engine/abi/dtype.hpp"
#include "engine/random.hpp"
#include "ops/def/statements.hpp"
#include "ops/ops.hpp"

#include <functional>
#include <string>
#include <vector>

namespace gradus::inline v1::bench {
namespace {

using Integers = std::vector<int64_t>;

int32_t statement(const std::string& name) {
  int32_t found = -1;
  def::for_each(def::Statements{}, [&]<class S>(int id) {
    if (name == S::meta.name) found = id;
  });
  return found;
}

// One call of the slot `pointwise`, ready to be repeated.
struct Call {
  int32_t op;
  Integers sizes;
  std::vector<Integers> strides;  // inputs, then the output
  std::vector<Memory> data;
  std::vector<gd_view> views;

  Call(const std::string& name, Integers s, std::vector<Integers> each)
      : op(statement(name)), sizes(std::move(s)), strides(std::move(each)) {
    int64_t n = 1;
    for (const int64_t k : sizes) n *= k;
    for (size_t v = 0; v < strides.size(); ++v) {
      data.emplace_back(size_t(n) * sizeof(float));
      float* const x = data[v].floats();
      for (int64_t i = 0; i < n; ++i) x[i] = float(i * 37 % 4001) / 500 + 0.01F;
    }
    for (size_t v = 0; v < strides.size(); ++v)
      views.push_back({v + 1, data[v].bytes(), GD_F32, int32_t(sizes.size()), 0, sizes.data(),
                       strides[v].data()});
  }
  void run(Device& device) const {
    const gd_call call{sizeof(gd_call),
                       GD_POINTWISE,
                       op,
                       int32_t(views.size()) - 1,
                       1,
                       0,
                       0,
                       views.data(),
                       &views.back(),
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr,
                       0,
                       nullptr};
    device.run(call);
  }
};

void compare(Run& run, const Work& work, const Call& call, const std::vector<Peer>& peers) {
  run.compare(
      work, [&] { call.run(run.device(work.threads)); }, peers);
}
Target asked(double ratio) { return ratio > 0 ? at_least(ratio) : Target{}; }
void append(std::vector<Peer>& to, std::vector<Peer> more) {
  for (Peer& p : more) to.push_back(std::move(p));
}

struct OfL2 {
  const char *name, *torch, *numpy;
  double debian = 0, pypi = 0;
};
const OfL2 kWords[] = {
    {"exp", "torch.exp(a, out=y)", "np.exp(a, out=y)", 1.5, 1},
    {"gelu", "torch._C._nn.gelu(a, out=y)", "", 1.5, 1},
    {"tanh", "torch.tanh(a, out=y)", "np.tanh(a, out=y)", 3, 1.2},
    {"sigmoid", "torch.sigmoid(a, out=y)", ""},
    {"expm1", "torch.expm1(a, out=y)", "np.expm1(a, out=y)"},
    {"log", "torch.log(a, out=y)", "np.log(a, out=y)"},
    {"log1p", "torch.log1p(a, out=y)", "np.log1p(a, out=y)"},
    {"erf", "torch.erf(a, out=y)", ""},
    {"erfc", "torch.erfc(a, out=y)", ""},
    {"sin", "torch.sin(a, out=y)", "np.sin(a, out=y)"},
    {"cos", "torch.cos(a, out=y)", "np.cos(a, out=y)"},
    {"tan", "torch.tan(a, out=y)", "np.tan(a, out=y)"},
    {"cbrt", "", "np.cbrt(a, out=y)"},
    {"pow", "torch.pow(a, a, out=y)", "np.power(a, a, out=y)"},
};

void words(Run& run) {
  constexpr int64_t n = 65536;  // 256 KiB
  for (const OfL2& word : kWords) {
    const Work work{std::string(word.name) + " of 64 Ki f32", 1, 8.0 * n, "GB/s", "words"};
    if (!run.wants(work.name)) continue;
    const bool two = std::string(word.name) == "pow";
    const Call call(word.name, {n},
                    two ? std::vector<Integers>{{1}, {1}, {1}} : std::vector<Integers>{{1}, {1}});
    std::vector<Peer> peers;
    const std::string numbers = "(np.arange(65536) * 37 % 4001 / 500 + 0.01).astype(np.float32)";
    if (*word.torch)
      append(peers, torch_peers(1, "a = torch.from_numpy(" + numbers + ")\ny = torch.empty(65536)",
                                word.torch, {asked(word.debian), asked(word.pypi)}));
    if (*word.numpy)
      append(peers, numpy_peers("a = " + numbers + "\ny = np.empty_like(a)", word.numpy));
    compare(run, work, call, peers);
  }
}

void beyond_caches(Run& run, int threads) {
  constexpr int64_t n = int64_t(1) << 25;
  for (const char* name : {"add", "mul"}) {
    const double bytes = 12.0 * n;
    const Work work{std::string(name) + " of 32 Mi f32", threads, bytes, "GB/s"};
    if (!run.wants(work.name)) continue;
    const Call call(name, {n}, {{1}, {1}, {1}});
    std::vector<Peer> peers{
        bound("bandwidth", bytes / run.bandwidth(threads).triad, at_least(0.9))};
    const std::string setup =
        "a = torch.ones(1 << 25)\nb = torch.ones(1 << 25)\ny = torch.empty(1 << 25)";
    append(peers, torch_peers(threads, setup, std::string("torch.") + name + "(a, b, out=y)"));
    compare(run, work, call, peers);
  }
}

void sums(Run& run, int threads) {
  const Tensor x = Tensor::full({4096, 8192}, 0.5, DType::f32, run.device(threads));
  const double bytes = double(x.bytes());
  const struct {
    const char* name;
    Ints dims;
    const char* torch;
  } kinds[] = {{"all", {}, "a.sum()"}, {"rows", {1}, "a.sum(1)"}, {"columns", {0}, "a.sum(0)"}};
  for (const auto& kind : kinds) {
    const Work work{std::string("sum of 4096 x 8192 f32, ") + kind.name, threads, bytes, "GB/s"};
    if (!run.wants(work.name)) continue;
    std::vector<Peer> peers{bound("bandwidth", bytes / run.bandwidth(threads).read, at_least(0.9))};
    append(peers, torch_peers(threads, "a = torch.full((4096, 8192), 0.5)", kind.torch));
    run.compare(
        work, [&] { sum(x, kind.dims); }, peers);
  }
}

void broadcast(Run& run) {
  const struct {
    const char *name, *torch;
    Integers strides;
  } operands[] = {{"matrix", "b", {512, 1}},
                  {"scalar", "b[0, 0]", {0, 0}},
                  {"row", "b[:1]", {0, 1}},
                  {"column", "b[:, :1]", {1, 0}},
                  {"transposed", "b.t()", {1, 512}}};
  for (const auto& o : operands) {
    const Work work{std::string("add 512 x 512, ") + o.name, 1, 12.0 * 512 * 512, "GB/s"};
    if (!run.wants(work.name)) continue;
    const Call call("add", {512, 512}, {{512, 1}, o.strides, {512, 1}});
    const std::string setup =
        "a = torch.ones(512, 512)\nb = torch.ones(512, 512)\ny = torch.empty(512, 512)\nc = ";
    compare(run, work, call, torch_peers(1, setup + o.torch, "torch.add(a, c, out=y)"));
  }
}

// Batches of small matrices: rows too short for a loop of their own.
void short_rows(Run& run) {
  const DeviceScope scope(run.device(1));
  const Shape shape{10000, 4, 4};
  const Tensor x = uniform(shape, -1, 1, DType::f64), y = uniform(shape, -1, 1, DType::f64);
  const Tensor mask = lt(x, y), columns = uniform({10000, 4}, -1, 1, DType::f64);
  const struct {
    const char *name, *torch;
    std::function<void()> ours;
  } kinds[] = {{"sum of rows", "a.sum(-1)", [&] { sum(x, {-1}); }},
               {"amax of columns", "a.amax(-2)", [&] { amax(x, {-2}); }},
               {"where", "torch.where(m, a, b)", [&] { where(mask, x, y); }},
               {"lt", "a < b", [&] { lt(x, y); }},
               {"add its transpose", "a + a.mT", [&] { add(x, transpose(x, -2, -1)); }},
               {"times columns", "a * c.unsqueeze(-2)", [&] { mul(x, unsqueeze(columns, -2)); }}};
  const std::string setup =
      "a, b = (torch.rand(10000, 4, 4, dtype=torch.float64) * 2 - 1 for _ in range(2))\n"
      "m = a < b\nc = torch.rand(10000, 4, dtype=torch.float64)";
  for (const auto& kind : kinds) {
    const Work work{std::string(kind.name) + ", 10000x4x4 f64"};
    if (run.wants(work.name)) run.compare(work, kind.ours, torch_peers(1, setup, kind.torch));
  }
}

}  // namespace

void pointwise(Run& run) {
  words(run);
  run.geometric_mean("words", {});
  for (const int threads : run.threads()) {
    beyond_caches(run, threads);
    sums(run, threads);
  }
  broadcast(run);
  short_rows(run);
  const Work small{"add of 16 f32, the slot"};
  if (run.wants(small.name))
    compare(run, small, Call("add", {16}, {{1}, {1}, {1}}), {bound("limit", 40e-9)});
}

}  // namespace gradus::bench
