// Numbers as they are in JSON, rounded in text.
#include "cli/train/health.hpp"

#include "cli/frame/debugger_text.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <ostream>

namespace gradus::inline v1::cli {

namespace {

double share(int64_t part, int64_t all) { return all > 0 ? double(part) / double(all) : 0; }
double largest(const audit::TensorStats& s) {
  return std::isfinite(s.norm) ? std::max(std::abs(s.min), std::abs(s.max)) : s.norm;
}
std::string name_of(const audit::NodeHealth& n) {
  return n.where.empty() ? fmt::format("%{} {}", n.node, n.op->name)
                         : fmt::format("%{} {} ({})", n.node, n.op->name, n.where);
}
std::string percents(double x) { return x < 0 ? "-" : fmt::format("{:.1f} %", 100 * x); }

std::string numbers_of(const audit::LeafHealth& l, double largest) {
  if (l.sign == "not finite")
    return fmt::format("{} NaN, {} infinite of {}", l.gradient.nans, l.gradient.infs,
                       l.gradient.count);
  if (l.sign == "vanishing")
    return fmt::format("rms of the gradient {:.1e}, the largest is {:.1e}", l.rms(), largest);
  if (l.sign == "exploding")
    return fmt::format("norm of the gradient {:.1e}, its own {:.1e}", l.gradient.norm,
                       l.value.norm);
  if (l.sign == "leaps" || l.sign == "stands still")
    return fmt::format("an update moved it by {:.1e} of its norm", l.moved);
  return "";
}

}  // namespace

Event health_event(const audit::Health& health) {
  Event parameters = Event::array(), activations = Event::array();
  for (const audit::LeafHealth& l : health.leaves) {
    Event e{{"name", l.name}, {"value_norm", number_event(l.value.norm)}};
    const bool has = l.gradient.count > 0;
    e["norm"] = has ? number_event(l.gradient.norm) : Event();
    e["rms"] = has ? number_event(l.rms()) : Event();
    e["max"] = has ? number_event(largest(l.gradient)) : Event();
    e["mean"] = has ? Event(l.gradient.mean) : Event();
    e["zeros"] = has ? Event(share(l.gradient.zeros, l.gradient.count)) : Event();
    e["moved"] = l.moved < 0 ? Event() : number_event(l.moved);
    e["sign"] = l.sign;
    parameters.push_back(std::move(e));
  }
  for (const audit::NodeHealth& n : health.nodes)
    activations.push_back({{"node", n.node},
                           {"op", n.op->name},
                           {"where", n.where},
                           {"zero", n.zero},
                           {"flat", n.flat < 0 ? Event() : Event(n.flat)},
                           {"units", n.units},
                           {"dead", n.dead},
                           {"sign", n.sign}});
  return {{"event", "health"},
          {"gradient_norm", number_event(health.gradient_norm)},
          {"parameters", std::move(parameters)},
          {"activations", std::move(activations)}};
}

std::string health_table(const audit::Health& health) {
  size_t width = 9;
  for (const audit::LeafHealth& l : health.leaves) width = std::max(width, l.name.size());
  std::string text = fmt::format("{:<{}} {:>9} {:>9} {:>9} {:>9} {:>8}\n", "gradient of", width,
                                 "norm", "rms", "largest", "/ |leaf|", "zeros");
  for (const audit::LeafHealth& l : health.leaves) {
    const audit::TensorStats& g = l.gradient;
    text += fmt::format("{:<{}} ", l.name, width);
    if (g.count == 0)
      text += fmt::format("{:>9} {:>9} {:>9} {:>9} {:>8}", "-", "-", "-", "-", "-");
    else
      text += fmt::format("{:>9.2e} {:>9.2e} {:>9.2e} {:>9} {:>8}", g.norm, l.rms(), largest(g),
                          l.value.norm > 0 ? fmt::format("{:.2e}", g.norm / l.value.norm) : "-",
                          percents(share(g.zeros, g.count)));
    text += l.sign.empty() ? "\n" : "  " + l.sign + "\n";
  }
  if (!health.nodes.empty()) {
    size_t wide = 10;
    for (const audit::NodeHealth& n : health.nodes) wide = std::max(wide, name_of(n).size());
    text += fmt::format("\n{:<{}} {:>10} {:>10} {:>14}\n", "activation", wide, "slope is 0",
                        fmt::format("< {}", audit::kFlat), "dead units");
    for (const audit::NodeHealth& n : health.nodes)
      text += fmt::format("{:<{}} {:>10} {:>10} {:>14}{}\n", name_of(n), wide, percents(n.zero),
                          percents(n.flat),
                          n.units > 0 ? fmt::format("{} of {}", n.dead, n.units) : "-",
                          n.sign.empty() ? "" : "  " + n.sign);
  }
  return text;
}

std::vector<Sign> signs_of(const audit::Health& health) {
  std::vector<Sign> out;
  for (const audit::LeafHealth& l : health.leaves)
    if (!l.sign.empty()) out.push_back({l.name + ": " + l.sign, numbers_of(l, health.largest_rms)});
  for (const audit::NodeHealth& n : health.nodes)
    if (!n.sign.empty())
      out.push_back({name_of(n) + ": " + n.sign,
                     n.sign == "saturated" ? fmt::format("{} of its slopes are below {}",
                                                         percents(n.flat), audit::kFlat)
                     : n.units > 0         ? fmt::format("{} of {} units", n.dead, n.units)
                                           : "every slope is 0"});
  return out;
}

}  // namespace gradus::cli
