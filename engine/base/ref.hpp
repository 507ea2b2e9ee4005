// Intrusive, atomic reference counting: RefCounted is the base, Ref<T> the handle. Handles may be
// copied and dropped from any thread; the object itself is no more thread-safe than its own
// contract.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace gradus::inline v1 {

// live_objects(): how many RefCounted objects exist now; back to its old value when all is freed.
// They live on the heap, always.
int64_t live_objects();

class RefCounted {
 public:
  RefCounted() = default;
  static void* operator new(size_t bytes);
  static void operator delete(void* p, size_t bytes);
  RefCounted(const RefCounted&) = delete;
  RefCounted& operator=(const RefCounted&) = delete;
  void start() const { count_.store(1, std::memory_order_relaxed); }  // the first handle
  void retain() const { count_.fetch_add(1, std::memory_order_relaxed); }
  // True when this was the last handle; the caller then destroys the object. Who holds the only
  // one needs no locked instruction to find that out.
  bool drop() const {
    return use_count() == 1 || count_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  }
  int32_t use_count() const { return count_.load(std::memory_order_acquire); }

 protected:
  ~RefCounted() = default;

 private:
  mutable std::atomic<int32_t> count_{0};
};

// How an object dies once its last handle is gone. GradFn overloads it to die without recursion.
template <class T>
void destroy(const T* p) {
  delete p;
}

template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}
  explicit Ref(T* p) : p_(p) {
    if (p_) p_->retain();
  }
  // Takes over a handle that is counted already, or will never be dropped.
  static Ref adopt(T* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  Ref(const Ref& o) : Ref(o.p_) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_ && p_->drop()) destroy(p_);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  T* p_ = nullptr;
};

template <class T, class... A>
Ref<T> make_ref(A&&... args) {
  T* made = nullptr;
  if constexpr (sizeof...(A) == 0)
    made = new T;  // new T() would zero all of it first
  else
    made = new T(std::forward<A>(args)...);
  static_cast<const RefCounted*>(made)->start();
  return Ref<T>::adopt(made);
}

}  // namespace gradus
