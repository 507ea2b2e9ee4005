#include "ops/contract/cost_file.hpp"

#include "engine/files/file.hpp"

#include <cmath>
#include <nlohmann/json.hpp>

namespace gradus::inline v1 {

namespace {

constexpr const char* kFormat = "gradus.cost/1";

// f(name, member, may it be 0?).
template <class Time, class F>
void each_number(Time& time, F&& f) {
  f("flops", time.flops, false);
  f("bytes", time.bytes, false);
  f("overhead", time.overhead, true);
  f("half_k", time.half_k, true);
  f("half_mn", time.half_mn, true);
}

}  // namespace

Json step_time_json(const plan::StepTime& time) {
  Json out = Json::object();
  each_number(time, [&](const char* name, double value, bool) { out[name] = value; });
  return out;
}

std::string cost_text(const plan::StepTime& time, DType dtype, const std::string& device) {
  Json out = step_time_json(time);
  out["format"] = kFormat;
  out["device"] = device;
  out["dtype"] = dtype_name(dtype);
  return out.dump(2) + "\n";
}

plan::StepTime read_cost(const std::string& file, DType dtype) {
  const Json json = parse_json(read_text(file), file);
  if (!json.is_object() || json.value("format", Json()) != kFormat)
    fail(ErrorKind::config, file, "expected what a step costs, {\"format\": \"", kFormat,
         "\", ...}, as `gradus tune --cost FILE` writes it");
  plan::StepTime time;
  each_number(time, [&](const char* name, double& value, bool zero) {
    const Json given = json.value(name, Json());
    value = given.is_number() ? given.get<double>() : -1;
    if (!std::isfinite(value) || value < 0 || (value == 0 && !zero))
      fail(ErrorKind::config, file, name, ": expected a number ", zero ? "from" : "above",
           " 0, got ", shown(given));
  });
  const Json measured = json.value("dtype", Json());
  if (measured != dtype_name(dtype))
    fail(ErrorKind::config, file, "was measured for ", shown(measured), ", the contraction is ",
         dtype, "; `gradus tune --cost FILE --dtype ", dtype, "` measures that");
  time.element = double(itemsize(dtype));
  return time;
}

}  // namespace gradus
