// What this thread's latest calls have worked out, by a key of integers and text, so that a loop
// works it out once.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace gradus::inline v1 {

// One key is written at a time, from its constructor to recent().
class CallKey {
 public:
  CallKey() : text_(memory()) { text_.clear(); }
  void add(int64_t n) { text_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  void add(const auto& list) {
    add(int64_t(list.size()));
    text_.append(reinterpret_cast<const char*>(list.data()), list.size() * sizeof *list.data());
  }
  const std::string& text() const { return text_; }

 private:
  static std::string& memory() {
    static thread_local std::string text;  // it keeps its memory
    return text;
  }
  std::string& text_;
};

// Each place of call keeps what it made, up to 128 of them, and then begins anew.
template <class T, class Make>
std::shared_ptr<const T> recent(const CallKey& key, Make&& make) {
  using Known = std::unordered_map<std::string, std::shared_ptr<const T>>;
  thread_local const auto kept = std::make_unique<Known>();
  Known& known = *kept;
  if (const auto it = known.find(key.text()); it != known.end()) return it->second;
  std::string text = key.text();  // of this call, whatever make() does
  auto made = std::make_shared<const T>(make());
  if (known.size() >= 128) known.clear();
  known.emplace(std::move(text), made);
  return made;
}

}  // namespace gradus
