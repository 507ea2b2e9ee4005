#include "cli/frame/events.hpp"

#include "engine/base/error.hpp"

#include <cmath>
#include <ostream>

namespace gradus::inline v1::cli {

std::string line_of(const Event& e) {
  return e.dump(-1, ' ', false, Event::error_handler_t::replace);
}

void emit(std::ostream& out, const Event& e) { out << line_of(e) << std::endl; }

Event number_event(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
}

std::string provenance_text(const Event& e) {
  const auto where = e.at("where").get<std::string>();
  return join("step ", e.at("step").get<int64_t>(), ": ", e.at("text").get<std::string>(),
              where.empty() ? "" : ", at " + where,
              e.contains("sample") ? join(", for training sample ", e["sample"].get<int64_t>())
                                   : std::string());
}

}  // namespace gradus::cli
