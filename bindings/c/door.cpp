// Errors, callbacks, handles: what the other files of the door share.
#include "bindings/c/door.hpp"

#include <mutex>

using namespace gradus;
using namespace gradus::c;

namespace {

// Without a destructor: calls of handlers at exit may fail, too, and say so.
struct LastError {
  gradus_status status;
  char op[128], text[2048];  // cut, and terminated
  uint64_t count;            // of errors of this thread
};
constinit thread_local LastError last{};

constexpr const char* kStatus[] = {"ok",       "shape",       "dtype",    "value",  "index",
                                   "autograd", "config",      "io",       "device", "memory",
                                   "numeric",  "interrupted", "internal", "handle", "null pointer"};
static_assert(std::size(kStatus) == GRADUS_NULL + 1);
static_assert(int(ErrorKind::internal) + 1 == GRADUS_INTERNAL);

template <size_t N>
void keep(char (&to)[N], std::string_view text) {
  to[text.copy(to, N - 1)] = 0;
}
gradus_status set_last(gradus_status status, std::string_view op, std::string_view text) {
  ++last.count;
  last.status = status;
  keep(last.op, op);
  keep(last.text, text);
  return status;
}

struct Log {
  std::mutex mutex;
  gradus_log_fn log = nullptr;
  std::shared_ptr<User> user;
};
Log& the_log() {
  static Log* const log = new Log;
  return *log;
}

}  // namespace

namespace gradus::inline v1::c {

gradus_status report(const char* function) noexcept {
  try {
    try {
      throw;
    } catch (const Refusal& e) {
      return set_last(e.status, function, join(function, ": ", e.message));
    } catch (const Error& e) {
      return set_last(int32_t(e.kind()) + 1, e.op(), e.what());
    } catch (const std::bad_alloc&) {
      return set_last(GRADUS_MEMORY, function, join(function, ": the host has no memory left"));
    } catch (const std::length_error&) {
      return set_last(GRADUS_MEMORY, function, join(function, ": more than memory can hold"));
    } catch (const std::exception& e) {
      return set_last(GRADUS_INTERNAL, function, join(function, ": ", e.what()));
    }
  } catch (...) {  // no room for the text, or nothing of the standard library's
    return set_last(GRADUS_INTERNAL, function, "an exception of an unknown type");
  }
}

void notice(const std::string& text) {
  if (text.empty()) return;
  gradus_log_fn log;
  std::shared_ptr<User> user;
  {
    const std::lock_guard lock(the_log().mutex);
    log = the_log().log;
    user = the_log().user;
  }
  if (log) log(user->user, text.c_str());
}

DType dtype_at(int32_t code) {
  if (code < 0 || code >= GD_DTYPE_COUNT)
    throw Refusal{GRADUS_DTYPE,
                  join("dtype ", code, " is none; expected GRADUS_F32 ... GRADUS_BF16")};
  return DType(code);
}

Tensors tensors_at(const gradus_tensor* handles, size_t n, const char* name) {
  Tensors out;
  for (size_t i = 0; const gradus_tensor h : array(handles, n, name))
    out.push_back(tensor_of(h, {name, i++}));
  return out;
}

void give(std::span<const Tensor> tensors, gradus_tensor* out) {
  for (size_t i = 0; i < tensors.size(); ++i) out[i] = 0;
  try {
    for (size_t i = 0; i < tensors.size(); ++i) out[i] = handle_of(tensors[i]);
  } catch (...) {
    for (size_t i = 0; i < tensors.size(); ++i) gradus_free(std::exchange(out[i], 0));
    throw;
  }
}

void drop(gradus_tensor handle) noexcept {
  try {
    free_handle(handle);
  } catch (const Refusal&) {  // it is gone
  }
}

LentList::LentList(std::span<const Tensor> tensors) {
  handles_.resize(tensors.size());
  give(tensors, handles_.data());
}
LentList::~LentList() {
  for (const gradus_tensor h : handles_) drop(h);
}

void call_back(const char* who, const std::function<gradus_status()>& callback) {
  const uint64_t before = last.count;
  const gradus_status status = callback();
  if (status == GRADUS_OK) return;
  const ErrorKind kind =
      status > GRADUS_OK && status <= GRADUS_INTERNAL ? ErrorKind(status - 1) : ErrorKind::value;
  fail(kind, who, last.count > before ? last.text : join("a callback returned status ", status));
}

}  // namespace gradus::c

// ---- the functions of errors and handles

int32_t gradus_abi_version(void) { return GRADUS_ABI_VERSION; }
const char* gradus_version(void) { return version(); }

gradus_status gradus_last_error(gradus_error* out) {
  return door("gradus_last_error", [&] {
    give_struct(out, {0, last.status, last.op, last.text}, "gradus_error");
  });
}
const char* gradus_last_error_text(void) { return last.text; }
const char* gradus_status_text(gradus_status code) {
  return code >= 0 && code <= GRADUS_NULL ? kStatus[code] : "unknown";
}
gradus_status gradus_fail(gradus_status code, const char* text) {
  return set_last(code == GRADUS_OK ? GRADUS_VALUE : code, "", text ? text : "");
}

gradus_status gradus_set_log(gradus_log_fn log, void* user, gradus_destroy_fn destroy) {
  return door("gradus_set_log", [&] {
    std::shared_ptr<User> owned = user_of(user, destroy);  // the one before, in the end
    owned->ours = true;
    const std::lock_guard lock(the_log().mutex);
    the_log().log = log;
    the_log().user.swap(owned);
  });
}

gradus_status gradus_retain(int64_t handle) {
  return door("gradus_retain", [&] { retain_handle(handle); });
}
gradus_status gradus_free(int64_t handle) {
  return door("gradus_free", [&] { free_handle(handle); });
}
gradus_status gradus_live_handles(int64_t* out) {
  return result("gradus_live_handles", out, [&] { return live_handles(); });
}
