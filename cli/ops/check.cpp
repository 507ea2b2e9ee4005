// The checking is done by ops/check/check; this prints it.
#include "cli/ops/check.hpp"
#include "cli/frame/events.hpp"
#include "cli/frame/session.hpp"
#include "cli/frame/terminal.hpp"

#include "ops/check/check.hpp"
#include "ops/check/record.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>

namespace gradus::inline v1::cli {

namespace {

std::string scientific(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", x);
  return text;
}

std::string counted(int n, const char* what) { return join(n, " ", what, n == 1 ? "" : "s"); }

Json error_json(double x) { return std::isfinite(x) ? Json(x) : Json("Infinity"); }

Json to_json(const rows::CheckResult& result) {
  Json j{{"event", "check"}, {"op", result.op}, {"ok", result.ok()}, {"modes", Json::object()}};
  if (!result.skipped.empty()) j["skipped"] = result.skipped;
  for (const rows::ModeResult& m : result.modes)
    j["modes"][m.mode] = {{"error", error_json(m.worst.error)},
                          {"tolerance", m.worst.tolerance},
                          {"runs", m.ran},
                          {"ok", m.worst.ok()},
                          {"where", m.worst.where}};
  return j;
}

void print(const rows::CheckResult& result, std::ostream& out) {
  if (!result.skipped.empty()) {
    out << "skip  " << result.op << ": " << result.skipped << "\n";
    return;
  }
  const rows::ModeResult& worst = result.worst();
  const std::string pad(result.op.size() < 18 ? 18 - result.op.size() : 1, ' ');
  out << verdict(result.ok(), result.ok() ? "ok" : "FAIL") << (result.ok() ? "    " : "  ")
      << result.op << pad << "worst " << scientific(worst.worst.error) << " of "
      << scientific(worst.worst.tolerance) << " (" << worst.mode << ")\n";
  for (const rows::ModeResult& m : result.modes)
    if (!m.worst.ok()) out << "      " << m.mode << ": " << m.worst.where << "\n";
}

rows::CheckResult check_one(const OpInfo& op, Device& device, Device* oracle) {
  try {
    return rows::check_op(op.name, device, oracle);
  } catch (const Error& e) {
    rows::ModeResult failed{"row", {}, 1};
    failed.worst.error = HUGE_VAL;
    failed.worst.where = e.what();
    return {op.name, {failed}};
  }
}

int run_record(const CheckOptions& options, Device& device, std::ostream& out) {
  const rows::Recording made =
      !options.calls.empty()
          ? rows::record_calls(options.calls, device)
          : rows::record({options.op, uint64_t(options.seed), int(options.cases)}, device);
  write_safetensors(options.record, made.tensors, made.metadata);
  const Json all = Json::parse(made.metadata.at("cases"));
  std::set<std::string> names;
  for (const Json& c : all) names.insert(c["op"]);
  const size_t ops = names.size(), cases = all.size();
  if (options.json)
    out << Json{{"event", "record"}, {"file", options.record}, {"ops", ops}, {"cases", cases}}
               .dump()
        << "\n";
  else
    out << ops << " ops, " << cases << " cases -> " << options.record << "\n";
  return 0;
}

}  // namespace

int run_check(const CheckOptions& options, std::ostream& out, std::ostream& err) {
  if (!options.op.empty()) get_op(options.op);  // the error names the nearest
  const Session session(options.device, false, err, nullptr, "", MissingDevice::is_an_error);
  Device& device = session.device();
  if (!options.calls.empty() && options.record.empty())
    fail(ErrorKind::config, "check",
         "--calls names what to run; --record FILE takes what it gives");
  if (!options.record.empty()) return run_record(options, device, out);
  Device& reference = open_device("reference");
  int ops = 0, primitives = 0, failed = 0, skipped = 0;
  const auto start = std::chrono::steady_clock::now();
  for (const OpInfo& op : all_ops()) {
    if (!options.op.empty() && op.name != options.op) continue;
    const rows::CheckResult result = check_one(op, device, &reference);
    ++ops;
    primitives += op.primitive;
    failed += !result.ok();
    skipped += !result.skipped.empty();
    if (options.json)
      emit(out, to_json(result));
    else
      print(result, out);
    out.flush();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  if (options.json) {
    out << Json{{"event", "result"},        {"ops", ops},
                {"primitives", primitives}, {"compositions", ops - primitives},
                {"failed", failed},         {"skipped", skipped},
                {"device", device.name()},  {"seconds", took.count()}}
               .dump()
        << "\n";
  } else {
    out << "\n"
        << (ops == 1 ? "1 op" : join(ops, " ops")) << " (" << counted(primitives, "primitive")
        << ", " << counted(ops - primitives, "composition") << ") on " << device.name() << ": "
        << verdict(failed == 0, failed == 0 ? std::string("all passed") : join(failed, " failed"))
        << (skipped > 0 ? join(", ", skipped, " skipped") : "") << "\n";
  }
  return failed == 0 ? 0 : kFailed;
}

}  // namespace gradus::cli
