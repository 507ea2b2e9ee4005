// Rows of a table as samples: a column is told, the others come in.
#include "ops/train/data/own.hpp"
#include "ops/train/data/table.hpp"
#include "engine/base/error.hpp"

#include <algorithm>
#include <memory>

namespace gradus::inline v1::training {

namespace {

std::string list_of(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

size_t column_of(const Table& t, const Column& c, const char* key) {
  if (!c.name.empty()) {
    const auto at = std::find(t.header.begin(), t.header.end(), c.name);
    if (at != t.header.end()) return size_t(at - t.header.begin());
    if (t.header.empty())
      fail(ErrorKind::config, t.name, key, ": the table has no header, so none of its ",
           t.columns(), " columns is called \"", c.name,
           "\"; number them from 1, or say \"header\": true");
    const std::string near = did_you_mean(c.name, t.header);
    fail(ErrorKind::config, t.name, key, ": there is no column \"", c.name, "\"", near,
         near.empty() ? "; there are " + list_of(t.header) : "");
  }
  if (c.number > int64_t(t.columns()))
    fail(ErrorKind::config, t.name, key, ": there is no column ", c.number, ", the table has ",
         t.columns());
  return size_t(c.number - 1);
}

struct Layout {
  std::vector<size_t> inputs;
  std::optional<size_t> target;
};

// As the config of a run says it.
Layout configured(const Table& t, const OwnData& config) {
  Layout out;
  out.target = column_of(t, config.target, "data.target");
  std::vector<bool> left_out(t.columns());
  left_out[*out.target] = true;
  for (const Column& c : config.ignored) left_out[column_of(t, c, "data.ignore")] = true;
  for (size_t c = 0; c < t.columns(); ++c)
    if (!left_out[c]) out.inputs.push_back(c);
  if (out.inputs.empty())
    fail(ErrorKind::config, t.name, "no column comes in: all of its ", t.columns(),
         " are told or ignored");
  return out;
}

// Columns by the names that the run knows them by, in whatever order they stand.
Layout by_names(const Table& t, const Form& like, bool target) {
  Layout out;
  for (const std::string& name : like.columns) {
    if (name.empty())
      fail(ErrorKind::io, t.name, "a column that the network takes has no name in the header, so ",
           "it can't be found here; name it in the table that the run learns from, and train anew");
    const auto at = std::find(t.header.begin(), t.header.end(), name);
    if (at == t.header.end())
      fail(ErrorKind::io, t.name, "there is no column \"", name, "\"", did_you_mean(name, t.header),
           "; the network takes ", list_of(like.columns));
    out.inputs.push_back(size_t(at - t.header.begin()));
  }
  const auto told = like.target.empty() ? t.header.end()
                                        : std::find(t.header.begin(), t.header.end(), like.target);
  if (told != t.header.end()) out.target = size_t(told - t.header.begin());
  if (target && !out.target)
    fail(ErrorKind::io, t.name, "there is no column \"", like.target, "\", which is to be told");
  return out;
}

Layout layout_of(const Table& t, const OwnData& config, const Form* like, bool target) {
  if (!like) return configured(t, config);
  if (!like->columns.empty() && !t.header.empty()) return by_names(t, *like, target);
  const auto inputs = size_t(like->inputs_each());
  if (!target && t.columns() == inputs) {
    Layout out;
    for (size_t c = 0; c < inputs; ++c) out.inputs.push_back(c);
    return out;
  }
  const bool same = config.format == OwnData::Format::csv &&
                    t.columns() == inputs + 1 + config.ignored.size() &&
                    (config.target.name.empty() || !t.header.empty());
  if (!same)
    fail(ErrorKind::io, t.name, "has ", t.columns(), t.columns() == 1 ? " column" : " columns",
         ", the network takes ", inputs,
         like->columns.empty() ? "" : ": " + list_of(like->columns));
  return configured(t, config);
}

// Why a field is no number.
std::string complaint(const Table& t, size_t row, size_t column) {
  const std::string& text = t.rows[row][column];
  if (text.empty()) return "is empty, expected a number; leave such rows out";
  std::string point = text;
  std::replace(point.begin(), point.end(), ',', '.');
  std::string out =
      "\"" + text + "\" is no " +
      (text.find_first_of("nNiI") != std::string::npos &&
               (text.find("an") != std::string::npos || text.find("AN") != std::string::npos ||
                text.find("inf") != std::string::npos)
           ? "finite number"
           : "number");
  if (number_in(point)) return out + "; decimals are written with a point";
  const bool all = std::none_of(t.rows.begin(), t.rows.end(),
                                [&](const auto& r) { return number_in(r[column]); });
  if (all && t.rows.size() > 1)
    out += join("; \"ignore\": [", column < t.header.size() ? t.title(column) : join(column + 1),
                "] leaves the column out");
  else if (row == 0 && t.header.empty())
    out += "; \"header\": true takes the line for names";
  return out;
}

double number_at(const Table& t, size_t row, size_t column) {
  const std::optional<double> x = number_in(t.rows[row][column]);
  if (!x) fail(ErrorKind::io, t.name, t.place(row, column), ": ", complaint(t, row, column));
  return *x;
}

// Whole numbers, numbers or names, by what all of the column is.
void add_told(Raw& raw, const Table& t, size_t column, const std::string& task) {
  size_t whole = 0, numbers = 0, first_other = t.rows.size();
  for (size_t r = 0; r < t.rows.size(); ++r) {
    const std::string& text = t.rows[r][column];
    if (text.empty())
      fail(ErrorKind::io, t.name, t.place(r, column), ": is empty, but it is to be told");
    whole += whole_number_in(text).has_value();
    if (number_in(text))
      ++numbers;
    else
      first_other = std::min(first_other, r);
  }
  const size_t n = t.rows.size();
  if (whole == n) {
    auto& out = raw.targets.emplace<std::vector<int64_t>>();
    for (const auto& row : t.rows) out.push_back(*whole_number_in(row[column]));
  } else if (task == "regress" || (task.empty() && numbers == n)) {
    auto& out = raw.targets.emplace<std::vector<double>>();
    for (size_t r = 0; r < n; ++r) out.push_back(number_at(t, r, column));
  } else if (task.empty() && 2 * numbers > n) {
    fail(ErrorKind::io, t.name, t.place(first_other, column), ": \"", t.rows[first_other][column],
         "\" is no number, as most of the column are; \"task\": \"classify\" takes all of them for "
         "names of classes");
  } else {
    auto& out = raw.targets.emplace<std::vector<std::string>>();
    for (const auto& row : t.rows) out.push_back(row[column]);
  }
}

}  // namespace

Raw read_csv(const OwnData& config, const std::string& file, const Form* like, bool target) {
  const auto table = std::make_shared<Table>(read_table(file, config.header));
  const Table& t = *table;
  if (t.rows.empty()) fail(ErrorKind::io, file, "holds names of columns, and no row");
  const Layout layout = layout_of(t, config, like, target);
  Raw raw;
  raw.name = file;
  raw.count = int64_t(t.rows.size());
  raw.sizes = {int64_t(layout.inputs.size())};
  auto& numbers = raw.inputs.emplace<std::vector<double>>();
  numbers.reserve(t.rows.size() * layout.inputs.size());
  for (size_t r = 0; r < t.rows.size(); ++r)
    for (const size_t c : layout.inputs) numbers.push_back(number_at(t, r, c));
  if (!t.header.empty())
    for (const size_t c : layout.inputs) raw.columns.push_back(t.header[c]);
  raw.place = [lines = t.lines](int64_t i) { return join("line ", lines[size_t(i)]); };
  if (!layout.target) return raw;
  const size_t told = *layout.target;
  raw.target = told < t.header.size() ? t.header[told] : t.title(told);
  const std::string task = !like ? config.task : like->classifies() ? "classify" : "regress";
  if (target) add_told(raw, t, told, task);
  return raw;
}

}  // namespace gradus::training
