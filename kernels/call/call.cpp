// The checks of a call, and the texts of refusals.
#include "kernels/call/call.hpp"

#include <cstdarg>

namespace gradus::inline v1::calls {

void refuse(gd_status code, int32_t native, const char* format, ...) {
  Refusal r{code, {}, native};
  va_list args;
  va_start(args, format);
  std::vsnprintf(r.text, sizeof r.text, format, args);
  va_end(args);
  throw r;
}

Call::Call(const gd_call& raw, const Device& device, const char* slot)
    : raw_(raw), device_(device), slot_(slot) {
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
  const int used = std::snprintf(r.text, sizeof r.text, "%s %s%s%s: ", device_.name, slot_,
                                 *what_ ? " " : "", what_);
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

const gd_view& Call::checked(const char* side, int k, const gd_view& v, bool writes) const {
  const bool known = v.dtype >= 0 && v.dtype < GD_DTYPE_COUNT;
  if (!known && !(v.dtype >= 0 && device_.has_user_type && device_.has_user_type(DType(v.dtype))))
    refuse(GD_UNSUPPORTED, "%s %d has dtype code %d, which has no kernel here", side, k, v.dtype);
  if (v.rank < 0 || (v.rank > 0 && (!v.sizes || !v.strides)))
    refuse(GD_INVALID, "%s %d has rank %d without sizes and strides", side, k, v.rank);
  if (v.rank > device_.most_axes)
    refuse(GD_UNSUPPORTED, "%s %d has rank %d, this device takes %d", side, k, v.rank,
           device_.most_axes);
  for (int d = 0; d < v.rank; ++d)
    if (v.sizes[d] < 0)
      refuse(GD_INVALID, "%s %d has a negative size: %s", side, k, SizesText(v).text);
  if (count_of(v) == 0) return v;
  if (!v.data) refuse(GD_INVALID, "%s %d is left out", side, k);
  for (int d = 0; writes && d < v.rank; ++d)
    if (v.strides[d] == 0 && v.sizes[d] > 1)
      refuse(GD_INVALID, "output %d overlaps itself: stride 0 on axis %d of %s", k, d,
             SizesText(v).text);
  return v;
}

int Call::axis(int k, const gd_view& v) const {
  const int64_t axis = integer(k);
  if (axis < 0 || axis >= v.rank)
    refuse(GD_INVALID, "axis %lld is not an axis of %s", static_cast<long long>(axis),
           SizesText(v).text);
  return int(axis);
}

void Call::expect_sizes(const char* whose, const gd_view& v, const gd_view& wanted) const {
  if (!same_sizes(v, wanted))
    refuse(GD_INVALID, "%s should have sizes %s, got %s", whose, SizesText(wanted).text,
           SizesText(v).text);
}

void Call::expect_dtype(const char* whose, const gd_view& v, DType wanted) const {
  if (v.dtype != int32_t(wanted))
    refuse(GD_INVALID, "%s should have dtype %s, got %s", whose, dtype_name(wanted),
           dtype_name(DType(v.dtype)));
}

int64_t count_of(const gd_view& v) {
  int64_t n = 1;
  for (int d = 0; d < v.rank; ++d) n *= v.sizes[d];
  return n;
}

bool same_sizes(const gd_view& a, const gd_view& b) {
  if (a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d)
    if (a.sizes[d] != b.sizes[d]) return false;
  return true;
}

SizesText::SizesText(const gd_view& v) {
  size_t at = 0;
  const auto add = [&](const char* format, long long x) {
    const int n = std::snprintf(text + at, sizeof text - at, format, x);
    at = n < 0 ? at : at + size_t(n) < sizeof text ? at + size_t(n) : sizeof text - 1;
  };
  add("(", 0);
  for (int d = 0; d < v.rank; ++d)
    add(d == 0 ? "%lld" : ", %lld", static_cast<long long>(v.sizes[d]));
  add(v.rank == 1 ? ",)" : ")", 0);
}

}  // namespace gradus::calls
