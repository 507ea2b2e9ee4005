// SmallVector<T, N>: a vector that keeps up to N elements inside itself, so that shapes and edge
// lists of everyday size need no heap. T is any copyable type.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace gradus::inline v1 {

template <class T, size_t N>
class SmallVector {
 public:
  using value_type = T;
  SmallVector() {}  // written out, since {} would else zero the buffer first
  explicit SmallVector(size_t n, const T& value = T()) { resize(n, value); }
  SmallVector(std::initializer_list<T> list) : SmallVector(list.begin(), list.end()) {}
  template <class It>
  requires requires(It it) {
    *it;
    ++it;
  }
  SmallVector(It first, It last) {
    if constexpr (std::is_convertible_v<It, const T*>)
      append(first, size_t(last - first));
    else
      for (; first != last; ++first) push_back(*first);
  }
  SmallVector(const SmallVector& o) { copy(o); }
  SmallVector(SmallVector&& o) noexcept { take(o); }
  SmallVector& operator=(const SmallVector& o) {
    if (this != &o) {
      clear();
      copy(o);
    }
    return *this;
  }
  SmallVector& operator=(SmallVector&& o) noexcept {
    if (this != &o) {
      release();
      take(o);
    }
    return *this;
  }
  ~SmallVector() {
    clear();
    free_heap();
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }

  void reserve(size_t n) {
    if (n > capacity_) grow(n);
  }
  void push_back(T x) { emplace_back(std::move(x)); }
  template <class... A>
  void emplace_back(A&&... args) {
    if (size_ == capacity_) [[unlikely]]
      grow(2 * size());
    new (data_ + size_++) T{std::forward<A>(args)...};
  }
  void append(const T* from, size_t n) {
    reserve(size_ + n);
    if constexpr (std::is_trivially_copyable_v<T>) {
      if (n) std::memcpy(data_ + size_, from, n * sizeof(T));
    } else {
      for (size_t i = 0; i < n; ++i) new (data_ + size_ + i) T(from[i]);
    }
    size_ += uint32_t(n);
  }
  void pop_back() { data_[--size_].~T(); }
  void resize(size_t n, const T& value = T()) {
    while (size_ > n) pop_back();
    reserve(n);
    while (size_ < n) push_back(value);
  }
  void clear() {
    if constexpr (!std::is_trivially_destructible_v<T>)
      while (size_) pop_back();
    size_ = 0;
  }
  // Inserts before / erases position i.
  void insert(size_t i, T x) {
    push_back(std::move(x));
    for (size_t k = size_ - 1; k > i; --k) std::swap(data_[k], data_[k - 1]);
  }
  void erase(size_t i) {
    for (; i + 1 < size_; ++i) data_[i] = std::move(data_[i + 1]);
    pop_back();
  }
  friend bool operator==(const SmallVector& a, const SmallVector& b) {
    if (a.size_ != b.size_) return false;
    for (size_t i = 0; i < a.size_; ++i)
      if (!(a.data_[i] == b.data_[i])) return false;
    return true;
  }

 private:
  T* inline_data() { return std::launder(reinterpret_cast<T*>(buffer_)); }
  void copy(const SmallVector& o) {  // into an empty one; a few elements without a call
    constexpr bool plain = std::is_trivially_copyable_v<T> && sizeof buffer_ <= 64;
    if (!plain || o.size_ > N) return append(o.data_, o.size_);
    std::memcpy(static_cast<void*>(data_), o.data_, sizeof buffer_);
    size_ = o.size_;
  }
  [[gnu::noinline, gnu::cold]] void grow(size_t n) {
    T* to = static_cast<T*>(::operator new(n * sizeof(T), std::align_val_t(alignof(T))));
    for (size_t i = 0; i < size_; ++i) {
      new (to + i) T(std::move(data_[i]));
      data_[i].~T();
    }
    free_heap();
    data_ = to;
    capacity_ = uint32_t(n);
  }
  void free_heap() {
    if (capacity_ > N) ::operator delete(data_, std::align_val_t(alignof(T)));
  }
  void release() {
    clear();
    free_heap();
    data_ = inline_data();
    capacity_ = N;
  }
  void take(SmallVector& o) {
    if (o.capacity_ > N) {
      data_ = o.data_;
      size_ = o.size_;
      capacity_ = o.capacity_;
      o.data_ = o.inline_data();
      o.size_ = 0;
      o.capacity_ = N;
    } else {
      if constexpr (std::is_trivially_copyable_v<T>)
        copy(o);
      else
        for (T& x : o) push_back(std::move(x));
      o.clear();
    }
  }

  alignas(T) unsigned char buffer_[N * sizeof(T)];
  T* data_ = inline_data();
  uint32_t size_ = 0, capacity_ = N;  // of 32 bits: a Shape is one line of the cache
};

}  // namespace gradus
