// The checks of a call, and the texts of refusals.
#include "kernels/reference/call.hpp"

#include "kernels/reference/user.hpp"

#include <cstdarg>
#include <cstdio>

namespace gradus::inline v1::reference {

Call::Call(const gd_call& raw, const char* slot) : raw_(raw), slot_(slot) {
  if (raw.struct_size < sizeof(gd_call))
    refuse(GD_INVALID, "the call has %u bytes, this table needs %zu", raw.struct_size,
           sizeof(gd_call));
  if (raw.n_in < 0 || raw.n_out < 0 || raw.n_doubles < 0 || raw.n_ints < 0 ||
      (raw.n_in > 0 && !raw.in) || (raw.n_out > 0 && !raw.out) ||
      (raw.n_doubles > 0 && !raw.doubles) || (raw.n_ints > 0 && !raw.ints))
    refuse(GD_INVALID, "a count is negative or its array is missing");
}

void Call::refuse(gd_status code, const char* format, ...) const {
  Refusal r{code, {}};
  const int used =
      std::snprintf(r.text, sizeof r.text, "reference %s%s%s: ", slot_, *what_ ? " " : "", what_);
  const size_t at = used < 0 ? 0 : size_t(used) < sizeof r.text ? size_t(used) : sizeof r.text - 1;
  va_list args;
  va_start(args, format);
  std::vsnprintf(r.text + at, sizeof r.text - at, format, args);
  va_end(args);
  throw r;
}

void Call::expect(int n_in, int n_out, int n_doubles, int n_ints) const {
  if (raw_.n_in != n_in || raw_.n_out != n_out)
    refuse(GD_INVALID, "expected %d inputs and %d outputs, got %d and %d", n_in, n_out, raw_.n_in,
           raw_.n_out);
  if (raw_.n_doubles < n_doubles || raw_.n_ints < n_ints)
    refuse(GD_INVALID, "expected %d doubles and %d ints, got %d and %d", n_doubles, n_ints,
           raw_.n_doubles, raw_.n_ints);
}

Layout Call::checked(const char* side, int k, const gd_view& v) const {
  if (v.dtype < 0 || (v.dtype >= GD_DTYPE_COUNT && !find_user_kernels(DType(v.dtype))))
    refuse(GD_UNSUPPORTED, "%s %d has dtype code %d, which has no kernel here", side, k, v.dtype);
  if (v.rank < 0 || (v.rank > 0 && (!v.sizes || !v.strides)))
    refuse(GD_INVALID, "%s %d has rank %d without sizes and strides", side, k, v.rank);
  Layout layout{DType(v.dtype), v.data, v.offset, Sizes(v.sizes, v.sizes + v.rank),
                Sizes(v.strides, v.strides + v.rank)};
  for (int64_t n : layout.sizes)
    if (n < 0)
      refuse(GD_INVALID, "%s %d has a negative size: %s", side, k, text(layout.sizes).c_str());
  if (!v.data && layout.count() > 0) refuse(GD_INVALID, "%s %d is left out", side, k);
  return layout;
}

Layout Call::in(int k) const { return checked("input", k, raw_.in[k]); }

Layout Call::out(int k) const {
  Layout v = checked("output", k, raw_.out[k]);
  for (int d = 0; d < v.rank(); ++d)
    if (v.strides[size_t(d)] == 0 && v.sizes[size_t(d)] > 1 && v.count() > 0)
      refuse(GD_INVALID, "output %d overlaps itself: stride 0 on axis %d of %s", k, d,
             text(v.sizes).c_str());
  return v;
}

int Call::axis(int k, const Layout& v) const {
  const int64_t axis = integer(k);
  if (axis < 0 || axis >= v.rank())
    refuse(GD_INVALID, "axis %lld is not an axis of %s", static_cast<long long>(axis),
           text(v.sizes).c_str());
  return int(axis);
}

void Call::expect_sizes(const char* whose, const Layout& v, const Sizes& wanted) const {
  if (v.sizes != wanted)
    refuse(GD_INVALID, "%s should have sizes %s, got %s", whose, text(wanted).c_str(),
           text(v.sizes).c_str());
}

void Call::expect_dtype(const char* whose, const Layout& v, DType wanted) const {
  if (v.dtype != wanted)
    refuse(GD_INVALID, "%s should have dtype %s, got %s", whose, dtype_name(wanted),
           dtype_name(v.dtype));
}

void fill_error(gd_error* error, gd_status code, const char* text) {
  error->code = code;
  error->native = 0;
  std::snprintf(error->text, sizeof error->text, "%s", text);
}

}  // namespace gradus::reference
