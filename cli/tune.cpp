// Collecting contractions, measuring ways, the table.
#include "cli/tune.hpp"

#include "cli/contract/contract.hpp"
#include "cli/contract/contract_verify.hpp"
#include "cli/frame/events.hpp"
#include "cli/frame/session.hpp"
#include "cli/runs/run_files.hpp"
#include "cli/tune_cost.hpp"
#include "ops/train/trainer.hpp"
#include "engine/config/tuning.hpp"
#include "ops/ops.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>

namespace gradus::inline v1::cli {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kWorthIt = 1.03;  // times faster than the device's own choice
constexpr double kSeconds = 5e-3;  // of one measurement, if the call is not longer
constexpr int kMeasurements = 3;   // of which the best counts
constexpr double kHopeless = 3;    // a first run this much slower than the best ends it
constexpr int kMostParts = 7;      // sums are cut into 1, 2, .. 64 parts

// A contraction as it was called, without its memory.
struct ContractionCall {
  struct View {
    int32_t dtype = 0;
    bool there = false, aligned = false;  // at 16 bytes
    Shape sizes{}, strides{};
  };
  std::vector<View> in{}, out{};
  std::vector<double> doubles{};
  std::vector<int64_t> ints{};
  double work = 0;  // multiply-adds
  int64_t count = 0;

  explicit ContractionCall(const gd_call& c)
      : doubles(c.doubles, c.doubles + c.n_doubles), ints(c.ints, c.ints + c.n_ints) {
    for (int k = 0; k < c.n_in; ++k) in.push_back(view(c.in[k]));
    for (int k = 0; k < c.n_out; ++k) out.push_back(view(c.out[k]));
    work = work_of(c);
  }
  static double work_of(const gd_call& c) {
    double n = 1;
    for (int d = 0; d < c.in[0].rank; ++d) n *= double(c.in[0].sizes[d]);
    return n;
  }

 private:
  static View view(const gd_view& v) {
    if (!v.data) return {};
    const size_t at =
        reinterpret_cast<size_t>(v.data) + size_t(v.offset) * itemsize(DType(v.dtype));
    return {v.dtype, true, at % 16 == 0, Shape(v.sizes, v.sizes + v.rank),
            Shape(v.strides, v.strides + v.rank)};
  }
};

// Keeps the largest contraction of each class that runs on a device.
class Collector : public KernelWrapper {
 public:
  std::map<ContractionClass, ContractionCall> calls;

  gd_status call(const gd_call& c, Next next, gd_error& error) override {
    if (c.slot == GD_CONTRACT && ContractionCall::work_of(c) > 0) {
      const auto [it, fresh] = calls.try_emplace(class_of(c), c);
      const int64_t count = it->second.count + 1;
      if (!fresh && ContractionCall::work_of(c) > it->second.work) it->second = ContractionCall(c);
      it->second.count = count;
    }
    return next(error);
  }
};

// A call with memory of its own, filled with random numbers.
class Trial {
 public:
  Trial(const ContractionCall& call, Device& device) : device_(device), call_(call) {
    for (const ContractionCall::View& v : call.in) add(v);
    for (const ContractionCall::View& v : call.out) add(v);
  }

  // Runs it once on a fresh output; false if the device can't do it in this way. Error(device).
  bool run(int32_t op) {
    fill_(result(), 0);  // may move it, away from a clone
    views_[call_.in.size()].data = result().storage().data();
    return try_once(op);
  }
  Tensor result() const { return memory_[call_.in.size()]; }

  // Seconds of one call; infinity if there is no hope of less than `best`.
  double seconds(int32_t op, double best) {
    const auto timed = [&](int64_t n) {
      device_.synchronize();
      const auto begin = Clock::now();
      for (int64_t i = 0; i < n; ++i) try_once(op);
      device_.synchronize();
      return std::chrono::duration<double>(Clock::now() - begin).count() / double(n);
    };
    const double first = std::min(timed(1), timed(1));  // one may have been interrupted
    if (first > kHopeless * best) return INFINITY;
    const auto n = int64_t(std::clamp(kSeconds / first, 1.0, 1000.0));
    double least = first;
    for (int i = 0; i < kMeasurements; ++i) least = std::min(least, timed(n));
    return least;
  }

 private:
  void add(const ContractionCall::View& v) {
    if (!v.there) {
      memory_.emplace_back();
      views_.push_back({0, nullptr, 0, 0, 0, nullptr, nullptr});
      return;
    }
    int64_t low = 0, high = 0;
    for (size_t d = 0; d < v.sizes.size(); ++d)
      (v.strides[d] < 0 ? low : high) += (v.sizes[d] - 1) * v.strides[d];
    const int64_t run = 16 / int64_t(itemsize(DType(v.dtype)));  // elements; 0 for c128 is 1
    const int64_t offset =
        (-low + run) / std::max<int64_t>(run, 1) * std::max<int64_t>(run, 1) + (v.aligned ? 0 : 1);
    memory_.push_back(random_operand({offset + high + 1}, DType(v.dtype), device_));
    const Storage& storage = memory_.back().storage();
    views_.push_back({storage.buffer_id(), storage.data(), v.dtype, int32_t(v.sizes.size()), offset,
                      v.sizes.data(), v.strides.data()});
  }
  bool try_once(int32_t op) {
    const gd_call c{sizeof(gd_call),
                    GD_CONTRACT,
                    op,
                    int32_t(call_.in.size()),
                    int32_t(call_.out.size()),
                    int32_t(call_.doubles.size()),
                    int32_t(call_.ints.size()),
                    views_.data(),
                    views_.data() + call_.in.size(),
                    call_.doubles.data(),
                    call_.ints.data(),
                    nullptr,
                    nullptr,
                    0,
                    nullptr};
    gd_error error{};
    const gd_status s = device_.call_slot(c, error);
    if (s == GD_UNSUPPORTED && op != GD_WAY_OWN) return false;
    if (s != GD_OK) fail(ErrorKind::device, "tune", error.text);
    return true;
  }

  Device& device_;
  const ContractionCall& call_;
  Tensors memory_;
  std::vector<gd_view> views_;
};

// The largest difference of two results, relative to the larger of 1 and the largest number.
double difference(const Tensor& a, const Tensor& b) {
  const auto wide = [](const Tensor& x) {
    return abs(cast(x, is_complex(x.dtype()) ? DType::c128 : DType::f64));
  };
  const DType t = is_complex(a.dtype()) ? DType::c128 : DType::f64;
  const double scale = std::max(1.0, amax(wide(b)).item());
  return amax(abs(sub(cast(a, t), cast(b, t)))).item() / scale;
}

// How far two orders of a sum of random numbers may lie apart, relative to the largest.
double tolerance(DType t, int64_t terms) {
  if (is_integer(t)) return 0;
  const bool wide = t == DType::f64 || t == DType::c128;
  const double step = t == DType::bf16 ? 0x1p-8 : wide ? 0x1p-50 : 0x1p-10;  // f32 may be tf32
  return step * (4 + std::sqrt(double(terms)));
}

struct Measured {
  TunedWay best{};
  std::vector<std::pair<int32_t, double>> all{};  // ways with their seconds
  std::vector<int32_t> wrong{};                   // ways that give other numbers
};

Measured measure(const ContractionCall& call, Device& device) {
  Trial trial(call, device);
  trial.run(GD_WAY_OWN);
  const Tensor right = clone(trial.result());
  const double own = trial.seconds(GD_WAY_OWN, INFINITY);
  int64_t terms = 1;
  for (size_t d = size_t(call.ints[0]); d < call.in[0].sizes.size(); ++d)
    terms *= call.in[0].sizes[d];
  Measured m;
  double least = own;
  int32_t best = GD_WAY_OWN;
  const auto consider = [&](int32_t op) {
    if (!trial.run(op | GD_WAY_ONLY)) return;
    if (!(difference(trial.result(), right) <= tolerance(right.dtype(), terms)))
      return m.wrong.push_back(op);
    const double s = trial.seconds(op | GD_WAY_ONLY, least);
    m.all.emplace_back(op, s);
    if (s < least) {
      least = s;
      best = op;
    }
  };
  for (int32_t way = GD_WAY_OWN + 1; way < GD_WAY_COUNT; ++way) consider(way);
  // The parts of a sum are tried for the best of the ways that know them.
  std::sort(m.all.begin(), m.all.end(), [](auto a, auto b) { return a.second < b.second; });
  for (const auto& [op, s] : std::vector(m.all)) {
    if (op == GD_WAY_DIRECT || op >= GD_WAY_GEMM_LIBRARY || !std::isfinite(s)) continue;
    for (int k = 0; k < kMostParts && int64_t(32) << k <= terms; ++k) consider(op + 256 * (1 + k));
    break;
  }
  m.best = own / least >= kWorthIt ? TunedWay{best, least * 1e6, own * 1e6}
                                   : TunedWay{GD_WAY_OWN, own * 1e6, own * 1e6};
  return m;
}

// Runs what the config describes, as far as its contractions are concerned.
void run_once(const TuneOptions& o, bool network, Device& device) {
  if (!network) {
    std::ostringstream nowhere;
    ContractOptions contraction;
    contraction.config = o.config;
    contraction.device = o.device;
    contraction.repeat = 1;
    run_contract(contraction, nowhere, nowhere);
    return;
  }
  Experiment experiment = read_experiment(layered_network(o.config, o.set).resolve(), o.config);
  experiment.capture = Capture::off;
  const Dataset data = load_data(experiment.data);
  Trainer(experiment, data, device).step();
}

}  // namespace

int run_tune(const TuneOptions& o, std::ostream& out, std::ostream& err) {
  if (!o.cost.empty()) return run_tune_cost(o, out, err);
  if (!o.dtype.empty()) fail(ErrorKind::config, "--dtype", "belongs to --cost FILE");
  if (o.config.empty())
    fail(ErrorKind::config, "tune", "needs a CONFIG file or --cost FILE; see gradus tune --help");
  const Json config = read_config(o.config);
  const bool network = !config.is_object() || config.value("experiment", Json()) != "contraction";
  if (!network && !o.set.empty())
    fail(ErrorKind::config, "--set", "belongs to configs of networks; ", o.config,
         " is a contraction");
  const std::string file = o.file.empty() ? default_tuning_file() : o.file;
  if (file.empty())
    fail(ErrorKind::io, "tune", "there is no HOME to keep a tuning file in; name one with --file");
  const Json resolved = network ? layered_network(o.config, o.set).resolve() : config;
  Session session(o.device, false, err, resolved.contains("device") ? &resolved["device"] : nullptr,
                  o.config, MissingDevice::is_an_error);
  Device& device = session.device();
  session.tune({});
  read_tuning(file, tuning_name(device));  // a file that is another thing is said before the work

  Collector seen;
  {
    const WrapperScope scope(device, seen);
    run_once(o, network, device);
  }
  const NoGrad no_grad;
  Tuning tuning;
  bool any = false, wrong = false;
  if (!o.json)
    out << fmt::format("{} on {}: {} classes of contractions\n", o.config, tuning_name(device),
                       seen.calls.size());
  for (const auto& [key, call] : seen.calls) {
    const Measured m = measure(call, device);
    any = any || !m.all.empty();
    tuning.ways[key] = m.best;
    for (const int32_t op : m.wrong) {
      wrong = true;
      err << "gradus: " << to_text(key) << ": way " << way_text(op)
          << " gives other numbers than the device's own choice; not used\n";
    }
    if (o.json) {
      Event ways = Event::object();
      for (const auto& [op, s] : m.all)
        if (std::isfinite(s)) ways[way_text(op)] = s * 1e6;
      out << Event{{"event", "class"},
                   {"class", to_text(key)},
                   {"calls", call.count},
                   {"way", way_text(m.best.op)},
                   {"us", m.best.microseconds},
                   {"own_us", m.best.own},
                   {"ways_us", ways}}
                 .dump()
          << std::endl;
    } else {
      out << fmt::format("  {:<46} {:3} x  own {:9.1f} us   {:<16} {:9.1f} us  {:5.2f} x\n",
                         to_text(key), call.count, m.best.own, way_text(m.best.op),
                         m.best.microseconds, m.best.own / m.best.microseconds)
          << std::flush;
    }
  }
  if (any) update_tuning(file, tuning_name(device), tuning);
  if (o.json)
    out << Event{{"event", "result"},
                 {"device", tuning_name(device)},
                 {"classes", tuning.ways.size()},
                 {"faster", tuning.changes()},
                 {"file", any ? Event(file) : Event()}}
               .dump()
        << std::endl;
  else if (any)
    out << fmt::format("{} of {} have a faster way than the device's own choice; kept in {}\n",
                       tuning.changes(), tuning.ways.size(), file);
  else if (seen.calls.empty())
    out << o.config << " has no contractions; there is nothing to tune\n";
  else
    out << device.name() << " has one way of contracting; there is nothing to tune\n";
  if (wrong)
    fail(ErrorKind::numeric, "tune", "a way of contracting gives wrong numbers on ", device.name());
  return 0;
}

}  // namespace gradus::cli
