#include "ops/train/data/table.hpp"

#include "engine/base/error.hpp"
#include "engine/files/file.hpp"
#include "engine/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <string_view>

#ifdef GRADUS_CSV
#include <csv.h>
#endif

namespace gradus::inline v1::training {

namespace {

template <class Number>
std::optional<Number> parsed(const std::string& text) {
  const char* begin = text.data() + (text.starts_with("+") ? 1 : 0);
  const char* const end = text.data() + text.size();
  Number x{};
  const auto [stop, error] = std::from_chars(begin, end, x);
  if (begin == end || *begin == '+' || (begin != text.data() && *begin == '-') || stop != end ||
      error != std::errc())
    return std::nullopt;
  return x;
}

}  // namespace

std::optional<double> number_in(const std::string& text) {
  const std::optional<double> x = parsed<double>(text);
  return x && std::isfinite(*x) ? x : std::nullopt;
}
std::optional<int64_t> whole_number_in(const std::string& text) { return parsed<int64_t>(text); }

std::string Table::title(size_t column) const {
  return column < header.size() ? "\"" + header[column] + "\"" : join("column ", column + 1);
}

std::string Table::place(size_t row, size_t column) const {
  return join("line ", lines[row], ", column ", column + 1,
              column < header.size() ? " (\"" + header[column] + "\")" : std::string());
}

#ifdef GRADUS_CSV
namespace {

constexpr uint64_t kLargestTable = uint64_t(1) << 32;

// What libcsv calls back, line by line, so that each row knows its line.
class Rows {
 public:
  Rows(Table& table, char separator) : table_(table) {
    if (csv_init(&parser_, CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
    csv_set_delim(&parser_, static_cast<unsigned char>(separator));
  }
  ~Rows() { csv_free(&parser_); }
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  void line(std::string_view text) {
    ++line_;
    if (!open_ && text.find_first_not_of(" \t\r\n") == std::string_view::npos) return;
    if (!open_) begun_ = line_;
    open_ = true;
    if (csv_parse(&parser_, text.data(), text.size(), field, row, this) != text.size()) bad();
  }
  void end() {
    if (csv_fini(&parser_, field, row, this) != 0) bad();
  }

 private:
  static void field(void* text, size_t size, void* self) {
    static_cast<Rows*>(self)->fields_.emplace_back(text ? static_cast<const char*>(text) : "",
                                                   size);
  }
  static void row(int, void* self) { static_cast<Rows*>(self)->finish(); }
  void finish() {
    open_ = false;
    std::vector<std::string> fields = std::move(fields_);
    fields_.clear();
    if (std::all_of(fields.begin(), fields.end(), [](const auto& f) { return f.empty(); })) return;
    if (!table_.rows.empty() && fields.size() != table_.rows[0].size())
      fail(ErrorKind::io, table_.name, "line ", begun_, ": has ", fields.size(),
           fields.size() == 1 ? " column" : " columns", ", expected ", table_.rows[0].size(),
           " as in the first line");
    for (std::string& f : fields) f = printable(f, "");
    table_.rows.push_back(std::move(fields));
    table_.lines.push_back(begun_);
  }
  [[noreturn]] void bad() {
    if (csv_error(&parser_) == CSV_ENOMEM) throw std::bad_alloc();
    fail(ErrorKind::io, table_.name, "line ", begun_,
         ": a quote stands within a field, or is never closed; in a quoted field a quote is "
         "written twice");
  }

  Table& table_;
  csv_parser parser_{};
  std::vector<std::string> fields_;
  int64_t line_ = 0, begun_ = 0;
  bool open_ = false;  // is a row begun?
};

// Counted in the first line that says anything, outside quotes.
char separator_of(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of("\r\n"), text.size()));
  constexpr std::string_view kinds = ",;\t";
  int64_t counts[3] = {};
  bool quoted = false;
  for (const char c : text) {
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n' || c == '\r') break;
    if (const size_t k = kinds.find(c); k != std::string_view::npos) ++counts[k];
  }
  return kinds[size_t(std::max_element(counts, counts + 3) - counts)];
}

void take_header(Table& table, std::optional<bool> wanted) {
  const auto& first = table.rows[0];
  const bool no_number =
      std::none_of(first.begin(), first.end(), [](const auto& f) { return number_in(f); });
  if (!wanted.value_or(no_number)) return;
  table.header = first;
  std::set<std::string> seen;
  for (const std::string& name : table.header)
    if (!name.empty() && !seen.insert(name).second)
      fail(ErrorKind::io, table.name, "line ", table.lines[0], ": two columns are called \"", name,
           "\"");
  table.rows.erase(table.rows.begin());
  table.lines.erase(table.lines.begin());
}

}  // namespace

Table read_table(const std::string& path, std::optional<bool> header) {
  const std::string bytes = read_file(path, kLargestTable);
  std::string_view text = bytes;
  if (const size_t at = text.find('\0'); at != std::string_view::npos)
    fail(ErrorKind::io, path, "is no CSV: byte ", at, " is 0",
         text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")
             ? "; it is UTF-16, save it as UTF-8"
             : "");
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  Table table;
  table.name = path;
  Rows rows(table, separator_of(text));
  while (!text.empty()) {
    // Old programs end lines with \r alone.
    size_t end = text.find_first_of("\r\n");
    end =
        end == std::string_view::npos ? text.size() : end + (text.substr(end, 2) == "\r\n" ? 2 : 1);
    rows.line(text.substr(0, end));
    text.remove_prefix(end);
  }
  rows.end();
  if (table.rows.empty()) fail(ErrorKind::io, path, "is empty: it holds no row");
  take_header(table, header);
  return table;
}

#else
Table read_table(const std::string& path, std::optional<bool>) {
  fail(ErrorKind::config, path,
       "this gradus was built without libcsv and reads no CSV; install libcsv-dev and build it "
       "again, or save the table as arrays: \"npy\": [X.npy, Y.npy]");
}
#endif

}  // namespace gradus::training
