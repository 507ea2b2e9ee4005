#include "cli/events.hpp"

#include <ostream>

namespace gradus::cli {

std::string line_of(const Event& e) {
  return e.dump(-1, ' ', false, Event::error_handler_t::replace);
}

void emit(std::ostream& out, const Event& e) { out << line_of(e) << std::endl; }

}  // namespace gradus::cli
