// Line charts as SVG. No C++ library for this is packaged (gnuplot would be a program to install
// and to run), and what is needed is small: nice ticks, a logarithmic axis, gaps, a legend. Colours
// are Okabe and Ito's, safe for the colour-blind, and every curve has a stroke or a mark of its own
// too.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace gradus::inline v1::cli {

// A y that is not finite breaks the line, and is marked at the upper edge.
struct Curve {
  enum class Style { thin, dots, squares };
  std::string name;
  Style style = Style::thin;
  std::vector<std::pair<double, double>> points{};  // by rising x, from 0
};

struct Chart {
  std::string title, x_label;
  std::vector<Curve> curves;
  std::string event;                // what happened at `events`, for the legend
  std::vector<double> events = {};  // marked on the x axis
  bool percent = false;             // y is a share
};

// The charts below each other over one range of x; y is logarithmic in a chart whose values are all
// above 0 and span more than a decade and a half. Curves without points are left out, charts too.
// The same text for the same charts; it follows the reader's dark or light mode on a screen.
std::string to_svg(std::vector<Chart> charts);

// Round numbers in [low, high], about `count` of them; for axes. REQUIRES low < high.
std::vector<double> ticks(double low, double high, int count);

}  // namespace gradus::cli
