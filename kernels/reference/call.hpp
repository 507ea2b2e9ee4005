// Call: a gd_call whose every access is checked, so that a slot can be written as plain mathematics
// and a call that breaks the contract becomes a status with a text, never a crash. guarded() is the
// one place where exceptions end and the C interface begins.
#pragma once
#include "kernels/reference/layout.hpp"

#include <exception>
#include <new>

namespace gradus::inline v1::reference {

// Thrown by Call::refuse, caught by guarded().
struct Refusal {
  gd_status code;
  char text[sizeof(gd_error::text)];
};

class Call {
 public:
  Call(const gd_call& raw, const char* slot);

  // What the slot was asked for ("sigmoid", "argmax"); texts say it after the slot.
  void named(const char* what) { what_ = what; }

  // Refuses unless there are exactly these many views and at least these many numbers.
  void expect(int n_in, int n_out, int n_doubles, int n_ints) const;

  const gd_call& raw() const { return raw_; }
  int32_t op() const { return raw_.op; }
  int n_in() const { return raw_.n_in; }
  int n_out() const { return raw_.n_out; }
  int n_ints() const { return raw_.n_ints; }
  double number(int k) const { return raw_.doubles[k]; }
  const double* numbers() const { return raw_.doubles; }
  int64_t integer(int k) const { return raw_.ints[k]; }

  bool has_in(int k) const { return raw_.in[k].data != nullptr; }
  bool has_out(int k) const { return raw_.out[k].data != nullptr; }
  // An operand that must be there: its view is checked. Outputs must not repeat an element.
  Layout in(int k) const;
  Layout out(int k) const;

  // ints[k] as an axis of v.
  int axis(int k, const Layout& v) const;
  void expect_sizes(const char* whose, const Layout& v, const Sizes& wanted) const;
  void expect_dtype(const char* whose, const Layout& v, DType wanted) const;

  // "reference SLOT WHAT: ..." in the manner of printf.
  [[noreturn]] void refuse(gd_status code, const char* format, ...) const
      __attribute__((format(printf, 3, 4)));

 private:
  Layout checked(const char* side, int k, const gd_view& v) const;

  const gd_call& raw_;
  const char* slot_;
  const char* what_ = "";
};

void fill_error(gd_error* error, gd_status code, const char* text);

// Runs f() for an entry of the table: its exceptions become statuses.
template <class F>
gd_status guarded(gd_error* error, F&& f) noexcept {
  try {
    f();
    return GD_OK;
  } catch (const Refusal& r) {
    fill_error(error, r.code, r.text);
    return r.code;
  } catch (const std::bad_alloc&) {
    fill_error(error, GD_OOM, "reference: out of host memory");
    return GD_OOM;
  } catch (const std::exception& e) {
    fill_error(error, GD_INTERNAL, e.what());
  } catch (...) {
    fill_error(error, GD_INTERNAL, "reference: unknown failure");
  }
  return GD_INTERNAL;
}

}  // namespace gradus::reference
