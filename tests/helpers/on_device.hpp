// Arrays of the host as a device sees them that has memory of its own: what the views of a call
// reach is copied there, and what was written comes back. Around each piece lie bytes that nobody
// may touch.
#pragma once
#include "engine/abi/dtype.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <doctest/doctest.h>

namespace gradus::inline v1::test {

class OnDevice {
 public:
  std::vector<gd_view> in, out;  // for the call

  OnDevice(const gd_table& table, gd_device* device, const std::vector<gd_view>& inputs,
           const std::vector<gd_view>& outputs)
      : in(inputs), out(outputs), table_(table), device_(device) {
    if (table.capabilities && (table.capabilities(device) & GD_CAP_HOST_MEMORY)) return;
    for (const auto* list : {&in, &out})
      for (const gd_view& v : *list)
        if (const Piece p = reach(v); p.begin < p.end) pieces_.push_back(p);
    join_pieces();
    gd_error e{};
    for (Piece& p : pieces_) {
      std::vector<char> bytes(p.bytes() + 2 * kGuard, kMark);
      std::memcpy(bytes.data() + kGuard, reinterpret_cast<const void*>(p.begin), p.bytes());
      REQUIRE_MESSAGE(table.alloc(device, bytes.size() + kGuard, &p.memory, &e) == GD_OK, e.text);
      // As far from a multiple of kGuard as on the host, so that kernels see the same alignment.
      p.there = static_cast<char*>(p.memory) + p.begin % kGuard;
      REQUIRE_MESSAGE(table.copy(device, nullptr, p.there, bytes.data(), bytes.size(),
                                 GD_HOST_TO_DEVICE, &e) == GD_OK,
                      e.text);
    }
    for (auto* list : {&in, &out})
      for (gd_view& v : *list)
        for (const Piece& p : pieces_)
          if (const Piece own = reach(v);
              p.begin <= own.begin && own.begin < own.end && own.end <= p.end) {
            v.data = reinterpret_cast<void*>(uintptr_t(p.there) + kGuard +
                                             (uintptr_t(v.data) - p.begin));
            break;
          }
  }
  ~OnDevice() {
    for (const Piece& p : pieces_) table_.free(device_, p.memory);
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  // Waits, and copies all back; a complaint of the call's kernel comes here.
  gd_status bring_back(gd_error& e) const {
    for (const Piece& p : pieces_) {
      std::vector<char> bytes(p.bytes() + 2 * kGuard);
      if (const gd_status s = table_.copy(device_, nullptr, bytes.data(), p.there, bytes.size(),
                                          GD_DEVICE_TO_HOST, &e);
          s != GD_OK)
        return s;
      const auto untouched = [&](size_t from) {
        return std::all_of(bytes.begin() + ptrdiff_t(from),
                           bytes.begin() + ptrdiff_t(from + kGuard),
                           [](char c) { return c == kMark; });
      };
      CHECK_MESSAGE(untouched(0), "written in front of a view");
      CHECK_MESSAGE(untouched(kGuard + p.bytes()), "written behind a view");
      std::memcpy(reinterpret_cast<void*>(p.begin), bytes.data() + kGuard, p.bytes());
    }
    return GD_OK;
  }

 private:
  static constexpr size_t kGuard = 256;
  static constexpr char kMark = 0x5a;
  struct Piece {
    uintptr_t begin = 0, end = 0;
    void* memory = nullptr;
    char* there = nullptr;
    size_t bytes() const { return end - begin; }
  };

  // From the first element of a view to its last; nothing of one that is refused or empty.
  static Piece reach(const gd_view& v) {
    const int64_t size = v.dtype >= 0 && v.dtype < 64 ? int64_t(itemsize(DType(v.dtype))) : 0;
    if (!v.data || size == 0 || v.rank < 0 || v.rank > 64) return {};
    int64_t low = v.offset, high = v.offset;
    for (int32_t d = 0; d < v.rank; ++d) {
      if (v.sizes[d] <= 0) return {};
      const int64_t far = (v.sizes[d] - 1) * v.strides[d];
      (far < 0 ? low : high) += far;
    }
    const auto at = uintptr_t(v.data);
    return {at + uintptr_t(low * size), at + uintptr_t((high + 1) * size)};
  }
  // What overlaps becomes one, so that an output that is an input is so there too.
  void join_pieces() {
    std::sort(pieces_.begin(), pieces_.end(),
              [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
    std::vector<Piece> joined;
    for (const Piece& p : pieces_)
      if (!joined.empty() && p.begin < joined.back().end)
        joined.back().end = std::max(joined.back().end, p.end);
      else
        joined.push_back(p);
    pieces_ = joined;
  }

  const gd_table& table_;
  gd_device* device_;
  std::vector<Piece> pieces_{};
};

}  // namespace gradus::test
