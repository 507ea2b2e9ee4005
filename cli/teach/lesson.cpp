// Comments at the beginning of a line become prints of a mark, so text, code and output come in
// turn, and the script keeps its locals and its line numbers.
#include "cli/teach/lesson.hpp"

#include "cli/look/graph.hpp"
#include "cli/teach/lesson_files.hpp"
#include "cli/script/script.hpp"
#include "cli/frame/terminal.hpp"
#include "engine/base/error.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unistd.h>

namespace gradus::inline v1::cli {

namespace {

constexpr size_t kWidth = 80;
constexpr char kMark = '\1';  // begins a line that names the next section
constexpr const char* kAfterLast =
    "gradus repl is a prompt, gradus train --help trains from a file";
constexpr const char* kEnd = "--[==[ prints";

struct Section {
  std::vector<std::string> text, code;
};

// A lesson's script with marks for its comments, and what they stand for.
struct Marked {
  std::string script;
  std::vector<Section> sections;
};

void trim(std::vector<std::string>& lines) {
  while (!lines.empty() && lines.front().empty()) lines.erase(lines.begin());
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
}

Marked mark(const std::string& source) {
  Marked out;
  std::istringstream in(source);
  bool in_text = false;
  for (std::string line; std::getline(in, line) && line != kEnd; out.script += '\n') {
    const bool text = line.starts_with("--");
    if (text && !in_text) {
      out.script += join("print('\\001", out.sections.size(), "')");
      out.sections.emplace_back();
    }
    in_text = text;
    if (text)
      out.sections.back().text.push_back(line.substr(line.size() > 2 ? 3 : 2));
    else
      out.sections.back().code.push_back(line);
    if (!text) out.script += line;
  }
  for (Section& s : out.sections) trim(s.code);
  return out;
}

// What people read, line by line; with json collected instead.
class Page {
 public:
  Page(std::ostream& out, bool json) : out_(out), json_(json), colour_(has_colours(out)) {}
  void title(const std::string& text) { print(text, "1", ""); }
  void blank() { print("", nullptr, ""); }
  void section(const Section& s, bool first) {
    if (!first) blank();
    for (size_t i = first ? 2 : 0; i < s.text.size(); ++i) add_text(s.text[i]);
    end_paragraph();
    if (s.code.empty()) return;
    blank();
    for (const std::string& line : s.code) add("code", line, "36", "    ");
    said_ = false;
  }
  void output(const std::string& line) {
    if (!said_) blank();
    said_ = true;
    add("output", line, "32", "  > ");
  }
  const nlohmann::json& lines() const { return lines_; }

 private:
  // Prose is filled anew to kWidth columns, paragraph by paragraph.
  void add_text(const std::string& line) {
    if (json_) return add("text", line, nullptr, "");
    if (line.empty()) {
      end_paragraph();
      return blank();
    }
    std::istringstream words(line);
    for (std::string word; words >> word;) {
      if (!filled_.empty() && filled_.size() + 1 + word.size() > kWidth) end_paragraph();
      filled_ += (filled_.empty() ? "" : " ") + word;
    }
  }
  void end_paragraph() {
    if (!filled_.empty()) print(filled_, nullptr, "");
    filled_.clear();
  }
  void add(const char* kind, const std::string& line, const char* colour, const char* indent) {
    if (json_)
      lines_.push_back({{"kind", kind}, {"text", line}});
    else
      print(line, colour, indent);
  }
  void print(const std::string& line, const char* colour, const char* indent) {
    if (json_) return;
    if (line.empty())
      out_ << "\n";
    else if (colour && colour_)
      out_ << indent << "\033[" << colour << "m" << line << "\033[0m\n";
    else
      out_ << indent << line << "\n";
    out_.flush();
  }
  std::ostream& out_;
  bool json_, colour_, said_ = false;
  std::string filled_;
  nlohmann::json lines_ = nlohmann::json::array();
};

// Takes what the script prints, line by line: a mark brings the next section.
class LineBuffer : public std::streambuf {
 public:
  LineBuffer(Page& page, const std::vector<Section>& sections) : page_(page), sections_(sections) {}

 protected:
  int overflow(int c) override {
    if (c == '\n')
      end_line();
    else if (c != EOF)
      line_ += char(c);
    return 0;
  }

 private:
  void end_line() {
    if (!line_.empty() && line_[0] == kMark) {
      const auto k = size_t(std::atoi(line_.c_str() + 1));
      page_.section(sections_.at(k), k == 0);
    } else {
      page_.output(line_);
    }
    line_.clear();
  }
  Page& page_;
  const std::vector<Section>& sections_;
  std::string line_;
};

// Where a reader goes on.
void name_next(size_t n, std::ostream& out) {
  const Lesson& lesson = lessons()[n];
  out << "\nTo change it:  gradus lesson " << lesson.name << " --source >" << lesson.name
      << ".lua, then gradus script " << lesson.name << ".lua\n";
  if (n + 1 < lessons().size())
    out << "Next:          gradus lesson " << lessons()[n + 1].name << ", "
        << lessons()[n + 1].title << "\n";
  else
    out << "Next:          " << kAfterLast << "\n";
}

void run_one(size_t n, const LessonOptions& options, std::ostream& out, std::ostream& err) {
  const Lesson& lesson = lessons()[n];
  const Marked marked = mark(lesson.source);
  Page page(out, options.json);
  page.title(join(n + 1, ". ", lesson.title));
  page.blank();
  LineBuffer lines(page, marked.sections);
  std::ostream shown(&lines);
  ScriptRun run;
  run.code = marked.script;
  run.device = options.device;
  run_script(run, shown, err);
  if (options.json)
    out << nlohmann::json{{"event", "lesson"},
                          {"number", n + 1},
                          {"name", lesson.name},
                          {"title", lesson.title},
                          {"lines", page.lines()},
                          {"next", n + 1 < lessons().size() ? lessons()[n + 1].name : ""}}
               .dump()
        << std::endl;
}

// The lesson once more, up to its first backward().
void write_page(const Lesson& lesson, const LessonOptions& options, std::ostream& out,
                std::ostream& err) {
  GraphOptions graph;
  graph.file = lesson.name + ".lua";
  graph.device = options.device;
  graph.html = options.html;
  graph.script.code = lesson.source;
  graph.script.quiet = true;
  run_graph(graph, out, err);
}

void list(const LessonOptions& options, std::ostream& out) {
  for (size_t n = 0; n < lessons().size(); ++n) {
    const Lesson& lesson = lessons()[n];
    if (options.json)
      out << nlohmann::json{{"event", "lesson"},
                            {"number", n + 1},
                            {"name", lesson.name},
                            {"title", lesson.title}}
                 .dump()
          << "\n";
    else
      out << (n < 9 ? " " : "") << n + 1 << "  " << lesson.name
          << std::string(14 - std::min<size_t>(13, lesson.name.size()), ' ') << lesson.title
          << "\n";
  }
}

// Waits for Enter; false: the reader has had enough.
bool goes_on(size_t next, std::ostream& err) {
  err << "\nEnter for lesson " << next + 1 << ", " << lessons()[next].title << "; q to stop: ";
  err.flush();
  std::string line;
  return std::getline(std::cin, line) && line != "q";
}

// As it is looked for: "The chain rule" and "the_chain-rule" are one.
std::string plain(const std::string& name) {
  std::string text;
  for (const char c : name)
    text += c == ' ' || c == '-' ? '_' : char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

size_t find(const std::string& which) {
  size_t number = 0;
  const char* const end = which.data() + which.size();
  const bool numeral = std::from_chars(which.data(), end, number).ptr == end;
  const std::string wanted = plain(which);
  std::vector<size_t> begin;  // those with a name that begins like this
  for (size_t n = 0; n < lessons().size(); ++n) {
    const Lesson& l = lessons()[n];
    if (numeral && number == n + 1) return n;
    bool begins = false;
    for (const std::string& name : {l.name, l.file + ".lua", l.file, l.title}) {
      if (plain(name) == wanted) return n;
      begins |= !numeral && plain(name).starts_with(wanted);
    }
    if (begins) begin.push_back(n);
  }
  if (begin.size() == 1) return begin[0];
  std::string several;
  for (const size_t n : begin) several += join(several.empty() ? "" : ", ", lessons()[n].name);
  if (!several.empty())
    fail(ErrorKind::value, "lesson", "\"", which, "\" may be ", several, "; write more of it");
  fail(ErrorKind::value, "lesson", "there is no lesson \"", which, "\"; they are 1 to ",
       lessons().size(), ", see gradus lesson --list");
}

}  // namespace

const std::vector<Lesson>& lessons() {
  static const std::vector<Lesson> all = [] {
    std::vector<Lesson> made;
    for (const auto& [file, source] : kLessonFiles) {
      const std::string text = source, name = file;
      made.push_back(
          {name.substr(name.find('_') + 1), name, text.substr(3, text.find('\n') - 3), text});
    }
    return made;
  }();
  return all;
}

int run_lesson(const LessonOptions& options, std::ostream& out, std::ostream& err) {
  if (options.which.empty() && (options.source || !options.html.empty()))
    fail(ErrorKind::config, "lesson", options.source ? "--source" : "--html",
         " needs the N of a lesson");
  if (options.list) return list(options, out), 0;
  if (!options.which.empty()) {
    const size_t n = find(options.which);
    if (options.source) {
      const Verbatim as_is(out);
      out << lessons()[n].source;
    } else {
      run_one(n, options, out, err);
    }
    if (!options.source && !options.json) name_next(n, out);
    if (!options.html.empty()) write_page(lessons()[n], options, out, err);
    return 0;
  }
  const bool person = &out == &std::cout && ::isatty(0) && ::isatty(1) && !options.json;
  if (person) list(options, out);
  for (size_t n = 0; n < lessons().size(); ++n) {
    if (person && !goes_on(n, err)) break;
    if (!options.json && (person || n > 0)) out << "\n";
    run_one(n, options, out, err);
  }
  return 0;
}

}  // namespace gradus::cli
