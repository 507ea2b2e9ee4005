// A vendor's shared library that is opened when it is first needed. Why it can't be used is kept as
// a text that names every place; it is never closed. Host side only: nothing of CUDA or HIP here.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

struct gd_device;

namespace gradus::inline v1::gpu {

// Where a library is looked for.
struct LibrarySearch {
  std::string setting = "auto";           // of the device config: "auto", "off", or the only path
  std::string none;                       // why "auto" means off here; "" if it does not
  const char* variable = "";              // of the environment: the only path, if it is set
  std::vector<std::string> names = {};    // as the system's loader finds them, ...
  std::vector<std::string> folders = {};  // ... and in these folders
  std::vector<std::string> wheels = {};   // ... and in these, of Python's packages
};
// Every path that is tried, in order.
std::vector<std::string> library_paths(const LibrarySearch&);

class Library {
 public:
  // `title` begins why().
  Library(const char* title, const LibrarySearch&);
  // "" if it is open and has all that was asked of it.
  const std::string& why() const { return why_; }
  // A line for people: title, version as the vendor counts and file, or why().
  std::string text(const char* version_symbol) const;
  std::string text(size_t version) const;  // 0: it is not known
  bool has(const char* symbol) const { return symbol_at(symbol) != nullptr; }
  // What is missing becomes why().
  void refuse(const std::string& why);
  template <class F>
  void get(F& into, const std::string& symbol) {
    into = reinterpret_cast<F>(symbol_at(symbol.c_str()));
    if (!into) refuse("it has no " + symbol);
  }

 private:
  void open(const std::vector<std::string>& paths);
  void* symbol_at(const char* symbol) const;

  std::string title_, path_, why_;
  void* handle_ = nullptr;
};

// Opens those that the device config names by a path: why they can't be used, "" if they all can.
std::string named_libraries_lack(gd_device&);
// Opens all and says of each which it is, a line each.
std::string libraries_text(gd_device&);

// cuBLASLt, cuTENSOR and hipTensor share their status numbers: "NOT_SUPPORTED (15)".
std::string status_text(int status);
// Was the call refused before anything was done?
bool did_nothing(int status);

// What a plan of either library has.
struct LibraryPlan {
  std::string why;        // the library can't do this; "" if it can
  size_t workspace = 0;   // bytes
  bool in_graph = false;  // a captured graph may refer to it, so it stays
};

// Plans by all that they depend on. The one that was not used for longest makes room.
template <class Plan>
class PlanCache {
 public:
  using Key = std::vector<int64_t>;
  static constexpr size_t kMost = 256;

  Plan* find(const Key& key) {
    const auto at = plans_.find(key);
    if (at == plans_.end()) return nullptr;
    at->second.used = ++clock_;
    return at->second.plan.get();
  }
  Plan* add(const Key& key, std::unique_ptr<Plan> plan) {
    if (plans_.size() >= kMost) {
      auto oldest = plans_.end();
      for (auto at = plans_.begin(); at != plans_.end(); ++at)
        if (!at->second.plan->in_graph &&
            (oldest == plans_.end() || at->second.used < oldest->second.used))
          oldest = at;
      if (oldest != plans_.end()) plans_.erase(oldest);
    }
    return (plans_[key] = {std::move(plan), ++clock_}).plan.get();
  }

 private:
  struct Entry {
    std::unique_ptr<Plan> plan;
    uint64_t used = 0;
  };
  std::map<Key, Entry> plans_;
  uint64_t clock_ = 0;
};

// The largest power of two up to `most` that divides an address.
int64_t alignment_of(const void* address, int64_t most);

}  // namespace gradus::gpu
