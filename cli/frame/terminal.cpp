// Folding, and a stream buffer that does it line by line.
#include "cli/frame/terminal.hpp"

#include "engine/base/error.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>
#include <vector>

namespace gradus::inline v1::cli {

namespace {

constexpr size_t kLeastColumns = 20, kTableIndent = 8;
constexpr const char* kCodes[] = {"\033[32m", "\033[1;31m", "\033[33m", "\033[1m", "\033[2m"};
constexpr const char* kPlain = "\033[0m";

int colour_flag() {
  static const int index = std::ios_base::xalloc();
  return index;
}

std::string_view variable(const char* name) {
  const char* v = std::getenv(name);
  return v ? v : "";
}

// Where the escape sequence at `at` ends, or `at`.
size_t past_escape(const std::string& text, size_t at) {
  if (text[at] != '\033' || at + 1 >= text.size() || text[at + 1] != '[') return at;
  size_t end = at + 2;
  while (end < text.size() && (text[end] < '@' || text[end] > '~')) ++end;
  return std::min(end + 1, text.size());
}

struct Cell {
  size_t column;  // where it begins in the whole line
  std::string text;
};

// What two spaces or more hold apart.
std::vector<Cell> cells_of(const std::string& line) {
  std::vector<Cell> cells;
  size_t at = line.find_first_not_of(' ');
  while (at != std::string::npos) {
    const size_t end = std::min(line.find("  ", at), line.size());
    cells.push_back({columns_of(line.substr(0, at)), line.substr(at, end - at)});
    at = line.find_first_not_of(' ', end);
  }
  return cells;
}

// Words of a cell; one that is wider than `room` in parts that end with a comma, if it has any.
std::vector<std::string> words_of_cell(const std::string& cell, size_t room) {
  std::vector<std::string> words;
  for (size_t at = 0; at < cell.size();) {
    const size_t end = std::min(cell.find(' ', at), cell.size());
    words.push_back(cell.substr(at, end - at));
    at = end + 1;
    if (columns_of(words.back()) <= room) words.back() += ' ';
    while (columns_of(words.back()) > room + 1) {
      const std::string word = words.back();
      const size_t comma = word.rfind(',', room - 1);
      if (comma == std::string::npos || comma + 1 == word.size()) break;
      words.back() = word.substr(0, comma + 1);
      words.push_back(word.substr(comma + 1));
    }
    if (words.back().back() != ' ') words.back() += ' ';
  }
  return words;
}

class Folder {
 public:
  Folder(size_t width, size_t hang) : width_(width), hang_(hang) {}
  size_t column() const { return column_; }
  void next_line(size_t indent) {
    out_.erase(out_.find_last_not_of(' ') + 1);
    out_ += "\n" + std::string(indent, ' ');
    column_ = indent;
    fresh_ = true;
  }
  void pad(size_t spaces) {
    out_.append(spaces, ' ');
    column_ += spaces;
  }
  // With its space behind it, which does not count at the edge.
  void word(const std::string& w) {
    const size_t wide = columns_of(w) - (w.back() == ' ');
    if (column_ + wide > width_ && !fresh_) next_line(hang_ + wide <= width_ ? hang_ : 0);
    out_ += w;
    column_ += columns_of(w);
    fresh_ = false;
  }
  void cell(const std::string& text) {
    for (const std::string& w : words_of_cell(text, width_ - hang_)) word(w);
    out_.pop_back();
    --column_;
  }
  std::string take() && { return std::move(out_); }

 private:
  size_t width_, hang_, column_ = 0;
  bool fresh_ = true;  // nothing but spaces stands on this line
  std::string out_;
};

// A shell takes "\" at the end of a line for nothing, within double quotes as well; so a word may
// be cut anywhere, if the line that follows begins at once.
std::string folded_command(const std::string& line, size_t indent, size_t width) {
  std::string out(indent, ' ');
  size_t column = indent;
  std::vector<std::string> words;
  char quote = 0;
  for (size_t at = indent, begin = indent; at <= line.size(); ++at) {
    const char c = at < line.size() ? line[at] : ' ';
    if ((c == '"' || c == '\'') && (!quote || quote == c)) quote = quote ? char(0) : c;
    if ((c == ' ' && !quote) || at == line.size()) {
      words.push_back(line.substr(begin, at - begin));
      begin = at + 1;
    }
  }
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const size_t spare = i + 1 < words.size() ? 2 : 0;  // for " \"
    const size_t wide = columns_of(word);
    size_t together = wide;  // an option stands with its value
    if (word.starts_with("-") && i + 1 < words.size() && !words[i + 1].starts_with("-"))
      together += 1 + columns_of(words[i + 1]);
    if (indent + 4 + together + 2 > width) together = wide;
    if (i > 0 && column + 1 + together + spare > width) {
      out += " \\\n" + std::string(indent + 4, ' ');
      column = indent + 4;
    } else if (i > 0) {
      out += ' ';
      ++column;
    }
    size_t from = 0;
    while (word.find('\'') == std::string::npos && column + (word.size() - from) + spare > width) {
      size_t n = width - 1 - column;
      while (n > 1 && word[from + n - 1] == '\\') --n;
      out += word.substr(from, n) + "\\\n";
      from += n;
      column = 0;
    }
    out += word.substr(from);
    column += columns_of(word.substr(from));
  }
  return out;
}

}  // namespace

int terminal_of(const std::ostream& to) {
  const int fd = &to == &std::cerr ? STDERR_FILENO : &to == &std::cout ? STDOUT_FILENO : -1;
  return fd >= 0 && ::isatty(fd) ? fd : -1;
}

size_t terminal_columns(int descriptor) {
  winsize size{};
  const long typed = std::atol(std::string(variable("COLUMNS")).c_str());
  if (typed > 0) return std::max(kLeastColumns, size_t(typed));
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return std::max<size_t>(kLeastColumns, size.ws_col);
}

size_t columns_for(const std::ostream& to, size_t most) {
  const int fd = terminal_of(to);
  return fd < 0 ? most : std::min(most, terminal_columns(fd));
}

bool redraws(int descriptor) {
  return descriptor >= 0 && !variable("TERM").empty() && variable("TERM") != "dumb";
}

bool has_colours(std::ostream& to) { return to.iword(colour_flag()) != 0; }

std::ostream& operator<<(std::ostream& out, const Toned& t) {
  if (!has_colours(out) || t.text.empty()) return out << t.text;
  return out << kCodes[size_t(t.tone)] << t.text << kPlain;
}

void write_tables(std::ostream& to, const std::string& text) {
  std::istringstream lines(text);
  bool first = true;
  for (std::string line; std::getline(lines, line); first = line.empty()) {
    if (first)
      to << heading(line) << "\n";
    else
      to << line << "\n";
  }
}

void write_notice(std::ostream& to, const std::string& line, Tone tone) {
  constexpr std::string_view kName = "gradus:";
  if (!line.starts_with(kName)) {
    to << line << std::endl;
    return;
  }
  to << Toned{tone, std::string(kName)} << line.substr(kName.size()) << std::endl;
}

size_t columns_of(const std::string& text) {
  size_t n = 0;
  for (size_t at = 0; at < text.size();) {
    if (const size_t end = past_escape(text, at); end > at) {
      at = end;
      continue;
    }
    n += (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;  // no byte within a letter
    ++at;
  }
  return n;
}

std::string folded(const std::string& line, size_t width) {
  if (columns_of(line) <= width) return line;
  const std::vector<Cell> cells = cells_of(line);
  if (cells.empty()) return "";
  const size_t indent = std::min(cells[0].column, width / 2);
  if (cells.size() == 1 && cells[0].text.starts_with("gradus "))
    return folded_command(line, indent, width);
  // Deep in a table the column is kept; elsewhere what goes on stands in from where it began.
  const size_t in = indent == 0 ? 2 : indent < kTableIndent ? indent + 4 : indent;
  const size_t hang = cells.size() > 1 && cells[1].column <= width / 2 ? cells[1].column : in;
  Folder out(width, hang);
  out.pad(indent);
  for (size_t i = 0; i < cells.size(); ++i) {
    const size_t wide = columns_of(cells[i].text);
    if (i > 0) {
      const size_t gap = cells[i].column - cells[i - 1].column - columns_of(cells[i - 1].text);
      const bool fits = out.column() + gap + wide <= width;
      const bool begins = hang + wide > width && out.column() + gap <= width / 2;
      if (fits || begins)
        out.pad(gap);
      else
        out.next_line(hang);
    }
    out.cell(cells[i].text);
  }
  return std::move(out).take();
}

// Whole lines are folded on their way to the terminal. What is flushed before its end (a prompt, a
// bar that is drawn anew) goes through as it is.
class Screens::Screen : public std::streambuf {
 public:
  Screen(std::streambuf* to, int descriptor) : to_(to), descriptor_(descriptor) {}
  ~Screen() override { flush_line(); }
  int verbatim = 0;
  void flush_line() {
    if (line_.empty()) return;
    to_->sputn(line_.data(), std::streamsize(line_.size()));
    const size_t start = line_.rfind('\r');
    if (start != std::string::npos) begun_ = 0;
    begun_ += columns_of(start == std::string::npos ? line_ : line_.substr(start + 1));
    line_.clear();
  }

 protected:
  int_type overflow(int_type c) override {
    if (c == traits_type::eof()) return traits_type::not_eof(c);
    const char letter = char(c);
    return xsputn(&letter, 1) == 1 ? c : traits_type::eof();
  }
  std::streamsize xsputn(const char* text, std::streamsize n) override {
    if (verbatim > 0) return to_->sputn(text, n);
    for (const char* const end = text + n; text < end;) {
      const char* const stop = std::find(text, end, '\n');
      line_.append(text, stop);
      if (stop == end) break;
      const std::string shown =
          (begun_ > 0 ? line_ : folded(line_, terminal_columns(descriptor_))) + "\n";
      begun_ = 0;
      line_.clear();
      if (to_->sputn(shown.data(), std::streamsize(shown.size())) != std::streamsize(shown.size()))
        return 0;
      text = stop + 1;
    }
    return n;
  }
  int sync() override {
    flush_line();
    return to_->pubsync();
  }

 private:
  std::streambuf* to_;
  int descriptor_;
  std::string line_;
  size_t begun_ = 0;  // columns of this line that the terminal has already
};

Screens::Screens(std::ostream& out, std::ostream& err) {
  std::ostream* const streams[] = {&out, &err};
  for (size_t i = 0; i < 2; ++i) {
    sides_[i].stream = streams[i];
    const int fd = terminal_of(*streams[i]);
    if (fd < 0) continue;
    sides_[i].before = streams[i]->rdbuf();
    sides_[i].screen = std::make_unique<Screen>(sides_[i].before, fd);
    streams[i]->rdbuf(sides_[i].screen.get());
    // Standard error would be flushed within its lines, before they can be folded.
    sides_[i].flushes = (streams[i]->flags() & std::ios_base::unitbuf) != 0;
    streams[i]->unsetf(std::ios_base::unitbuf);
  }
  colour("auto");
}

Screens::~Screens() {
  for (Side& side : sides_) {
    side.stream->iword(colour_flag()) = 0;
    if (!side.screen) continue;
    side.stream->rdbuf(side.before);
    if (side.flushes) side.stream->setf(std::ios_base::unitbuf);
  }
}

void Screens::colour(const std::string& when) {
  const std::vector<std::string> known{"auto", "always", "never"};
  if (std::find(known.begin(), known.end(), when) == known.end())
    fail(ErrorKind::config, "--color", "expected auto, always or never, got \"", when, "\"",
         did_you_mean(when, known));
  for (Side& side : sides_) {
    const bool wanted = redraws(terminal_of(*side.stream)) && variable("NO_COLOR").empty();
    side.stream->iword(colour_flag()) = when == "always" || (when == "auto" && wanted);
  }
}

Verbatim::Verbatim(std::ostream& to, bool wanted)
    : screen_(wanted ? dynamic_cast<Screens::Screen*>(to.rdbuf()) : nullptr) {
  if (!screen_) return;
  screen_->flush_line();
  ++screen_->verbatim;
}

Verbatim::~Verbatim() {
  if (screen_) --screen_->verbatim;
}

}  // namespace gradus::cli
