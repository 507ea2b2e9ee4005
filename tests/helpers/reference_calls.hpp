// A view and the memory under it, and one call of a slot of the reference device's table.
#pragma once
#include "engine/abi/dtype.hpp"
#include "kernels/reference/reference.hpp"
#include "ops/def/statements.hpp"

#include <string>
#include <type_traits>
#include <vector>

namespace gradus::inline v1::test {

// A view and the memory under it. bool is kept in bytes.
template <class T>
struct Array {
  using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
  std::vector<Stored> data;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;

  Array(std::vector<int64_t> n, std::vector<Stored> x) : data(std::move(x)), sizes(std::move(n)) {
    strides.resize(sizes.size());
    int64_t step = 1;
    for (size_t d = sizes.size(); d-- > 0; step *= sizes[d]) strides[d] = step;
    if (data.empty()) data.resize(size_t(step));
  }
  Array laid(std::vector<int64_t> n, std::vector<int64_t> s, int64_t o) const {
    Array v = *this;
    v.sizes = std::move(n);
    v.strides = std::move(s);
    v.offset = o;
    return v;
  }
  operator gd_view() {
    return {1,      data.data(),  int32_t(dtype_of<T>), int32_t(sizes.size()),
            offset, sizes.data(), strides.data()};
  }
};
template <class T = float>
Array<T> array(std::vector<int64_t> sizes, std::vector<typename Array<T>::Stored> x = {}) {
  return Array<T>(std::move(sizes), std::move(x));
}

inline gd_view absent() { return gd_view{}; }

struct Result {
  gd_status code;
  std::string text;  // empty if all is well
};

inline Result run(gd_slot slot, int op, std::vector<gd_view> in, std::vector<gd_view> out,
                  std::vector<double> doubles = {}, std::vector<int64_t> ints = {}) {
  gd_call call{};
  call.struct_size = sizeof call;
  call.slot = slot;
  call.op = op;
  call.n_in = int32_t(in.size());
  call.n_out = int32_t(out.size());
  call.n_doubles = int32_t(doubles.size());
  call.n_ints = int32_t(ints.size());
  call.in = in.data();
  call.out = out.data();
  call.doubles = doubles.data();
  call.ints = ints.data();
  gd_error error{};
  const gd_status code = reference::table()->slot[slot](nullptr, nullptr, &call, &error);
  return {code, error.text};
}
template <class S>
int id() {
  return def::id_of<S>();
}

}  // namespace gradus::test
