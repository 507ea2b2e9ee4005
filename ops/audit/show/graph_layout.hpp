// Where the boxes of a graph stand, in pixels. Nodes that were recorded in one module, one after
// the other, are a group; groups stand in a column in the order of recording, so edges between them
// lead down, and each is laid out by itself: layers by longest path, crossings made few by
// barycentres. The same graph gives the same picture.
#pragma once
#include "ops/audit/step/graph_view.hpp"

namespace gradus::inline v1::audit {

struct Box {
  Source what;                                 // node, leaf or constant
  double x = 0, y = 0, width = 0, height = 0;  // left upper corner, within its group
};

struct Wire {
  int from = 0, to = 0;  // places in Group::boxes
  std::vector<std::pair<double, double>> bends;
};

// An edge on its way in from an older group, or out to younger ones, past the boxes of its own.
struct Passage {
  int node = 0;  // of the other group; out: of this one
  int box = 0;   // of this group
  std::vector<std::pair<double, double>> bends;
};

struct Group {
  std::string name;  // of the module
  std::vector<std::string> path;
  int first = 0, last = 0;  // nodes first .. last - 1
  std::vector<Box> boxes;
  std::vector<Wire> wires;  // within the group
  std::vector<Passage> in, out;
  double width = 0, height = 0;
};

// Equal groups, one after the other: `count` times the `period` groups from `first` on.
struct Repeat {
  int first = 0, period = 1, count = 2;
};

struct Layout {
  std::vector<Group> groups;
  std::vector<int> group_of;  // by node
  std::vector<Repeat> repeats;
};

// With `hide_trivial`, edges go past nodes that are trivial(), roots apart; the groups are the
// same, some may be empty.
Layout lay_out(const GraphView& view, bool hide_trivial = false);

}  // namespace gradus::audit
