// Ledger: a wrapper that counts. For every op it keeps the number of kernel calls, the time in
// them, the bytes that their views cover, and what was allocated on its behalf. On a device that
// has several ways of contracting, an op counts for each apart: "matmul (gemm-library)".
#pragma once
#include "engine/device/device.hpp"

#include <map>
#include <string>

namespace gradus::inline v1 {

// What a view covers; axes of stride 0 are read from the same place.
double view_bytes(const gd_view& v);

struct LedgerLine {
  uint64_t calls = 0;
  double seconds = 0;
  double bytes = 0;  // read and written, each view once
  uint64_t allocations = 0;
  size_t allocated_bytes = 0;
};

// Stands around one device's calls from its making to its end. One thread at a time.
class Ledger : public KernelWrapper {
 public:
  explicit Ledger(Device& device) : device_(device) { device_.push(this); }
  ~Ledger() override { device_.pop(this); }
  Ledger(const Ledger&) = delete;
  Ledger& operator=(const Ledger&) = delete;

  const std::map<std::string, LedgerLine>& by_op() const { return lines_; }
  LedgerLine total() const;
  size_t live_bytes() const { return live_; }
  size_t peak_bytes() const { return peak_; }
  // A table for people, largest time first.
  std::string to_string() const;

  gd_status call(const gd_call& call, Next next, gd_error& error) override;
  void allocated(uint64_t buffer, size_t bytes, const char* op) override;
  void released(uint64_t buffer, size_t bytes) override;

 private:
  Device& device_;
  std::map<std::string, LedgerLine> lines_;
  std::map<uint64_t, size_t> buffers_;  // allocated since this ledger began
  size_t live_ = 0, peak_ = 0;
};

}  // namespace gradus
