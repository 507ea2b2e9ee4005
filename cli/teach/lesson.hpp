// `gradus lesson [N]`: thirteen short lessons, from the chain rule to a network that reads and the
// order of products. A lesson is a Lua script of configs/lessons/, built into the program: its
// comments are the text, its code is shown and run, and what it prints stands below.
#pragma once
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

struct Lesson {
  std::string name;    // "chain_rule"
  std::string file;    // "01_chain_rule"
  std::string title;   // the first line of its text
  std::string source;  // the file
};
// In their order; lesson N is element N - 1.
const std::vector<Lesson>& lessons();

struct LessonOptions {
  // Number, name, file or title, or a beginning that no other has; "" for all of them, one after
  // the other.
  std::string which;
  bool list = false;    // names and titles alone
  bool source = false;  // the script, to keep and change
  std::string html;     // a page of the graph that the lesson walks first; "" for none
  std::string device;
  bool json = false;
};
// 0, also for a reader who stops before the end. Throws Error as run_script does; Error(value) for
// a lesson that there is not.
int run_lesson(const LessonOptions& options, std::ostream& out, std::ostream& err);

}  // namespace gradus::cli
