// The commands of `gradus step`: a line in, text (or JSON objects, one per line) out.
#pragma once
#include "ops/audit/step/stepper.hpp"

#include <functional>
#include <iosfwd>

namespace gradus::inline v1::cli {

class Debugger {
 public:
  // Both must outlive it.
  Debugger(audit::Stepper& stepper, bool json, std::ostream& out);
  void begin(const std::string& title);
  // One command; false: quit. Error(value) for what is no command, or no such node, op, leaf.
  bool run(const std::string& line);
  // The norms of the leaves' gradients so far. Throws what ended the walk, if it came to that.
  void end();
  // Whole lines that begin as `begun`.
  std::vector<std::string> complete(const std::string& begun) const;
  // Does an empty line after this one mean the same again?
  static bool repeats(const std::string& line);

 private:
  using Words = std::vector<std::string>;
  struct Command;
  static const std::vector<Command>& commands();
  static const Command& find(const std::string& name);

  // ---- what there is, in words
  std::string sum_text(const audit::Place& p) const;   // "g1 + g2"
  std::string origin(const audit::Delivery& d) const;  // "%8 operand 0"
  // Of a place where nothing has come: will it?
  const char* none_text(const audit::Place& p) const;

  // ---- what is said
  void say_next();
  void say_turn(const audit::Turn& turn, size_t number);
  void stopped(const std::string& why, int breakpoint);
  void go(const std::vector<audit::Breakpoint>& until);

  void next(const Words& w);
  void back(const Words& w);
  void until(const Words& w);
  void add_break(const Words& w);
  void list_breaks();
  void remove_break(const Words& w);
  void show_next();
  void show_node(int node);
  void show_leaf(int leaf);
  void list(int around);
  void print(const audit::Place& p);
  void set(const Words& w);
  void unset(const Words& w);
  void gradients();
  void help(const Words& w);

  audit::Stepper& s_;
  bool json_;
  std::ostream& out_;
  std::vector<std::pair<int, audit::Breakpoint>> breaks_;  // with their numbers
  int last_break_ = 0;
  bool failed_ = false;
};

}  // namespace gradus::cli
