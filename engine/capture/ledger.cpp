#include "engine/capture/ledger.hpp"

#include "engine/abi/dtype.hpp"
#include "engine/base/error.hpp"
#include "engine/config/tuning.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace gradus::inline v1 {

double view_bytes(const gd_view& v) {
  if (!v.data) return 0;
  double n = double(itemsize(DType(v.dtype)));
  for (int32_t i = 0; i < v.rank; ++i)
    if (v.strides[i] != 0 || v.sizes[i] == 0) n *= double(v.sizes[i]);
  return n;
}

namespace {
const char* op_name() { return *current_op() ? current_op() : "data"; }
}  // namespace

gd_status Ledger::call(const gd_call& call, Next next, gd_error& error) {
  const auto start = std::chrono::steady_clock::now();
  gd_call asked = call;
  int32_t way = -1;
  asked.way = &way;
  const gd_status status = next(asked, error);
  if (call.way) *call.way = way;
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  LedgerLine& line = lines_[way < 0 ? op_name() : join(op_name(), " (", way_text(way), ")")];
  ++line.calls;
  line.seconds += spent.count();
  for (int32_t i = 0; i < call.n_in; ++i) line.bytes += view_bytes(call.in[i]);
  for (int32_t i = 0; i < call.n_out; ++i) line.bytes += view_bytes(call.out[i]);
  return status;
}

void Ledger::allocated(uint64_t buffer, size_t bytes, const char* op) {
  LedgerLine& line = lines_[*op ? op : "data"];
  ++line.allocations;
  line.allocated_bytes += bytes;
  buffers_[buffer] = bytes;
  live_ += bytes;
  peak_ = std::max(peak_, live_);
}

void Ledger::released(uint64_t buffer, size_t bytes) {
  if (buffers_.erase(buffer)) live_ -= bytes;
}

LedgerLine Ledger::total() const {
  LedgerLine sum;
  for (const auto& [op, line] : lines_) {
    sum.calls += line.calls;
    sum.seconds += line.seconds;
    sum.bytes += line.bytes;
    sum.allocations += line.allocations;
    sum.allocated_bytes += line.allocated_bytes;
  }
  return sum;
}

std::string Ledger::to_string() const {
  std::vector<std::pair<std::string, LedgerLine>> rows(lines_.begin(), lines_.end());
  std::sort(rows.begin(), rows.end(),
            [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  rows.push_back({"total", total()});
  char text[160];
  std::snprintf(text, sizeof text, "%-20s %9s %12s %12s %12s\n", "op", "calls", "us", "KiB moved",
                "KiB new");
  std::string s = text;
  for (const auto& [op, l] : rows) {
    std::snprintf(text, sizeof text, "%-20s %9llu %12.1f %12.1f %12.1f\n", op.c_str(),
                  static_cast<unsigned long long>(l.calls), l.seconds * 1e6, l.bytes / 1024,
                  double(l.allocated_bytes) / 1024);
    s += text;
  }
  return s;
}

}  // namespace gradus
