// Call: a gd_call whose every access is checked, so that a slot is written as plain work and a call
// that breaks its contract becomes a status with a text. guarded() is the one place where
// exceptions end and the C interface begins. Host side only.
#pragma once
#include "engine/abi/dtype.hpp"

#include <climits>
#include <cstdio>
#include <exception>
#include <new>

namespace gradus::inline v1::calls {

// Ends a slot; caught by guarded().
struct Refusal {
  gd_status code;
  char text[sizeof(gd_error::text)];
  int32_t native = 0;  // the vendor's own number
};

// Ends a slot that has too little scratch memory.
struct ScratchWanted {
  int64_t bytes;
};

// Throws a Refusal, with a text in the manner of printf that is cut to its room.
[[noreturn]] void refuse(gd_status code, int32_t native, const char* format, ...)
    __attribute__((format(printf, 3, 4), noinline));

// What a call has to know of its device.
struct Device {
  const char* name;                        // begins every text: "cuda:0 gather: ..."
  int most_axes = INT_MAX;                 // of a view
  bool (*has_user_type)(DType) = nullptr;  // null: it has none
};

class Call {
 public:
  // Checks the call's own fields.
  Call(const gd_call& raw, const Device& device, const char* slot);

  // What the slot was asked for ("sigmoid", "argmax"); texts say it after the slot.
  void named(const char* what) { what_ = what; }
  // Refuses unless there are exactly these many views and at least these many numbers.
  void expect(int n_in, int n_out, int n_doubles, int n_ints) const;

  const gd_call& raw() const { return raw_; }
  const Device& device() const { return device_; }
  int32_t op() const { return raw_.op; }
  int n_in() const { return raw_.n_in; }
  int n_out() const { return raw_.n_out; }
  int n_ints() const { return raw_.n_ints; }
  double number(int k) const { return raw_.doubles[k]; }
  const double* numbers() const { return raw_.doubles; }
  int64_t integer(int k) const { return raw_.ints[k]; }

  bool has_in(int k) const { return raw_.in[k].data != nullptr; }
  bool has_out(int k) const { return raw_.out[k].data != nullptr; }
  // A view that must be there, checked. Outputs must not repeat an element.
  const gd_view& in(int k) const { return checked("input", k, raw_.in[k], false); }
  const gd_view& out(int k) const { return checked("output", k, raw_.out[k], true); }

  int axis(int k, const gd_view& v) const;  // ints[k] as an axis of v
  void expect_sizes(const char* whose, const gd_view& v, const gd_view& wanted) const;
  void expect_dtype(const char* whose, const gd_view& v, DType wanted) const;

  // "DEVICE SLOT WHAT: ..." in the manner of printf.
  [[noreturn]] void refuse(gd_status code, const char* format, ...) const
      __attribute__((format(printf, 3, 4)));

 private:
  const gd_view& checked(const char* side, int k, const gd_view& v, bool writes) const;

  const gd_call& raw_;
  const Device device_;
  const char* slot_;
  const char* what_ = "";
};

int64_t count_of(const gd_view& v);
bool same_sizes(const gd_view& a, const gd_view& b);
// Element (0, 0, ...) of v.
inline char* start_of(const gd_view& v) {
  return static_cast<char*>(v.data) + v.offset * int64_t(itemsize(DType(v.dtype)));
}
// "(3, 4)"
struct SizesText {
  explicit SizesText(const gd_view& v);
  char text[sizeof(gd_error::text)];
};

inline gd_status fill_error(gd_error* error, gd_status code, int32_t native, const char* text) {
  error->code = code;
  error->native = native;
  std::snprintf(error->text, sizeof error->text, "%s", text);
  return code;
}

// Runs f() for an entry of the table of `device`: what it throws becomes a status.
template <class F>
gd_status guarded(const char* device, gd_error* error, F&& f) noexcept {
  const auto fail = [&](gd_status code, const char* what) {
    char text[sizeof(gd_error::text)];
    std::snprintf(text, sizeof text, "%s: %s", device, what);
    return fill_error(error, code, 0, text);
  };
  try {
    f();
    return GD_OK;
  } catch (const ScratchWanted& w) {
    error->wanted = w.bytes;
    return fill_error(error, GD_SCRATCH, 0, "the call wants scratch memory");
  } catch (const Refusal& r) {
    return fill_error(error, r.code, r.native, r.text);
  } catch (const std::bad_alloc&) {
    return fail(GD_OOM, "out of host memory");
  } catch (const std::exception& e) {
    return fill_error(error, GD_INTERNAL, 0, e.what());
  } catch (...) {
    return fail(GD_INTERNAL, "unknown failure");
  }
}

}  // namespace gradus::calls
