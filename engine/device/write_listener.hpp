// Who wants to know of writes in place, per thread; null: nobody.
#pragma once
#include <functional>
#include <string>

namespace gradus {
class GradFn;
class Storage;
struct Saved;
// Told of every write into a storage, after its version went up.
using WriteListener = std::function<void(Storage& storage, const char* op)>;
inline constinit thread_local WriteListener* write_listener = nullptr;
// Asked for the end of the message when a saved tensor was changed.
using StaleStory = std::function<std::string(const GradFn& node, const Saved& saved)>;
inline constinit thread_local StaleStory* stale_story = nullptr;
}  // namespace gradus
