// Lines of a prompt: from a person with history and completion (libedit), or as they come from a
// pipe. One at a time in a process, of which a person's sets LC_CTYPE.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace gradus::inline v1::cli {

class Lines {
 public:
  // Whole lines that begin as `line` does.
  using Completer = std::function<std::vector<std::string>(const std::string& line)>;
  // `history`: name of the file of a person's earlier lines, in XDG_STATE_HOME/gradus.
  Lines(const std::string& history, Completer complete);
  ~Lines();
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;
  bool person() const { return person_; }
  enum class Typed { line, dropped, end };
  // A prompt is shown to a person only, who drops a line by Ctrl-C. Each line is kept in the
  // history at once.
  Typed next(const char* prompt, std::string& line);

 private:
  bool person_;
  std::string history_;
};

}  // namespace gradus::cli
