// The terminal behind standard output and standard error: is it one, how wide is it, may it be
// coloured. On a terminal, lines are folded to its width and words have colours; a pipe, a file and
// --json get every line as it was written. Commands know neither: they write lines, and name tones.
#pragma once
#include <cstddef>
#include <memory>
#include <ostream>
#include <string>

namespace gradus::inline v1::cli {

// The descriptor of the terminal behind std::cout or std::cerr, or -1.
int terminal_of(const std::ostream& to);
// COLUMNS, or what the terminal says, or 80.
size_t terminal_columns(int descriptor);
// Columns for text that is filled: those of the terminal behind a stream, but no more than `most`.
size_t columns_for(const std::ostream& to, size_t most);
// Can lines be drawn anew on it?
bool redraws(int descriptor);

enum class Tone { good, bad, warning, heading, soft };
struct Toned {
  Tone tone;
  std::string text;
};
// In its colour where the stream has colours, else the text alone.
std::ostream& operator<<(std::ostream& out, const Toned& t);
inline Toned good(std::string text) { return {Tone::good, std::move(text)}; }
inline Toned bad(std::string text) { return {Tone::bad, std::move(text)}; }
inline Toned verdict(bool ok, std::string text) {
  return {ok ? Tone::good : Tone::bad, std::move(text)};
}
inline Toned warning(std::string text) { return {Tone::warning, std::move(text)}; }
inline Toned heading(std::string text) { return {Tone::heading, std::move(text)}; }
inline Toned soft(std::string text) { return {Tone::soft, std::move(text)}; }
bool has_colours(std::ostream& to);
// Tables with empty lines between them: the first line of each is a heading.
void write_tables(std::ostream& to, const std::string& text);
// A line for people that begins "gradus: ", that word in a tone.
void write_notice(std::ostream& to, const std::string& line, Tone tone = Tone::warning);

// Columns that UTF-8 text with colours takes.
size_t columns_of(const std::string& text);
// A line in lines of at most `width` columns. It is cut between its cells (two spaces or more),
// else between words; what goes on stands below the second cell. A shell command goes on behind "
// \". A word that is wider stays whole.
std::string folded(const std::string& line, size_t width);

// While it lives, the two streams fold and colour what is written, if they are terminals.
class Screens {
 public:
  Screens(std::ostream& out, std::ostream& err);
  ~Screens();
  Screens(const Screens&) = delete;
  Screens& operator=(const Screens&) = delete;
  // "auto": on a terminal, without NO_COLOR and TERM=dumb; "always", "never".
  void colour(const std::string& when);

 private:
  class Screen;
  struct Side {
    std::ostream* stream = nullptr;
    std::streambuf* before = nullptr;
    std::unique_ptr<Screen> screen{};
    bool flushes = false;
  };
  friend class Verbatim;
  Side sides_[2];
};

// While it lives, lines written to `to` stay as they are: what they say is data, or a program's
// own.
class Verbatim {
 public:
  explicit Verbatim(std::ostream& to, bool wanted = true);
  ~Verbatim();
  Verbatim(const Verbatim&) = delete;
  Verbatim& operator=(const Verbatim&) = delete;

 private:
  Screens::Screen* screen_;
};

}  // namespace gradus::cli
