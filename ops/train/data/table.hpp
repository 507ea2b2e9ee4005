// Tables of text: CSV by libcsv (RFC 4180, and what people write), where gradus was built with it.
// Separated by commas, semicolons or tabs, whichever the first line has most of; quoted fields,
// CRLF and a byte order mark are understood, empty lines left out.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gradus::inline v1::training {

struct Table {
  std::string name;                 // of the file
  std::vector<std::string> header;  // names of the columns, or none
  std::vector<std::vector<std::string>> rows;
  std::vector<int64_t> lines;  // at which each begins, from 1
  size_t columns() const { return rows.empty() ? header.size() : rows[0].size(); }

  // "line 7, column 3 (\"petal\")"; column from 0.
  std::string place(size_t row, size_t column) const;
  std::string title(size_t column) const;  // its name, or "column 3"
};
// A first line without any number is a header, unless `header` says what it is. Error(io) for a
// file that is no table, with rows of different lengths or open quotes.
Table read_table(const std::string& path, std::optional<bool> header = {});

// A finite number in full, or none.
std::optional<double> number_in(const std::string& text);
std::optional<int64_t> whole_number_in(const std::string& text);

}  // namespace gradus::training
