#include "cli/events.hpp"

#include <cmath>
#include <ostream>

namespace gradus::cli {

std::string line_of(const Event& e) {
  return e.dump(-1, ' ', false, Event::error_handler_t::replace);
}

void emit(std::ostream& out, const Event& e) { out << line_of(e) << std::endl; }

Event number_event(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "NaN" : x > 0 ? "Infinity" : "-Infinity";
}

}  // namespace gradus::cli
