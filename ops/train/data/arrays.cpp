// Arrays as samples: the first axis counts them.
#include "ops/train/data/npz.hpp"
#include "ops/train/data/own.hpp"
#include "engine/abi/half.hpp"
#include "engine/files/npy.hpp"

#include <cmath>

namespace gradus::inline v1::training {

namespace {

template <class To, class From>
std::vector<To> converted(const Tensor& t) {
  std::vector<To> out;
  const auto values = t.to_vector<From>();
  out.reserve(values.size());
  for (const auto& v : values) {
    if constexpr (std::is_same_v<From, Half>)
      out.push_back(To(float(v)));
    else
      out.push_back(To(v));
  }
  return out;
}

template <class To>
std::vector<To> values_of(const Tensor& t, const std::string& name) {
  switch (t.dtype()) {
    case DType::bool_:
      return converted<To, bool>(t);
    case DType::u8:
      return converted<To, uint8_t>(t);
    case DType::i32:
      return converted<To, int32_t>(t);
    case DType::i64:
      return converted<To, int64_t>(t);
    case DType::f16:
      return converted<To, Half>(t);
    case DType::f32:
      return converted<To, float>(t);
    case DType::f64:
      return converted<To, double>(t);
    default:
      fail(ErrorKind::io, name, "holds ", t.dtype(), ", expected real numbers");
  }
}

std::string place_in(const Shape& sizes, size_t flat) {
  std::vector<int64_t> at(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    at[axis] = int64_t(flat) % sizes[axis];
    flat /= size_t(sizes[axis]);
  }
  std::string out = join("sample ", at[0]);
  for (size_t axis = 1; axis < at.size(); ++axis)
    out += join(axis == 1 ? ", element (" : ", ", at[axis]);
  return out + (at.size() > 1 ? ")" : "");
}

std::vector<double> finite_values(const Tensor& t, const std::string& name) {
  std::vector<double> out = values_of<double>(t, name);
  for (size_t i = 0; i < out.size(); ++i)
    if (!std::isfinite(out[i]))
      fail(ErrorKind::io, name, place_in(t.sizes(), i), ": is ", out[i],
           ", expected a finite number; leave such samples out");
  return out;
}

bool is_whole(DType t) {
  return t == DType::bool_ || t == DType::u8 || t == DType::i32 || t == DType::i64;
}

std::vector<int64_t> without_first(const Shape& sizes) { return {sizes.begin() + 1, sizes.end()}; }

void check_rank(const Tensor& t, const std::string& name) {
  if (t.rank() == 0) fail(ErrorKind::io, name, "is one number, expected one for each sample");
  if (t.size(0) == 0) fail(ErrorKind::io, name, "holds no sample: its shape is ", t.sizes());
}

// Whole numbers within bounds, whatever type they came as.
template <class To>
std::vector<To> bounded(const Tensor& x, const std::string& name, double high, const char* what) {
  const auto values = values_of<double>(x, name);
  std::vector<To> out;
  out.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(values[i] >= 0 && values[i] <= high && values[i] == std::trunc(values[i])))
      fail(ErrorKind::io, name, place_in(x.sizes(), i), ": is ", values[i], ", expected ", what);
    out.push_back(To(values[i]));
  }
  return out;
}

// A run knows what it takes; else the type says whether these can be meant.
Tokens tokens_of(const Tensor& x, const std::string& name, bool known) {
  if (x.rank() != 2 || (!known && !is_whole(x.dtype())))
    fail(ErrorKind::io, name, "is ", x.dtype(), " ", x.sizes(),
         ", expected tokens: whole numbers (samples, length)");
  return bounded<int32_t>(x, name, INT32_MAX, "a token: a whole number from 0");
}

Pixels pixels_of(const Tensor& x, const std::string& name, bool known) {
  if (x.dtype() == DType::u8) return x.to_vector<uint8_t>();
  if (!known)
    fail(ErrorKind::io, name, "is ", x.dtype(),
         ", expected pixels: bytes from 0 to 255 (u1 to NumPy)");
  return bounded<uint8_t>(x, name, 255, "a pixel: a whole number from 0 to 255");
}

void add_targets(Raw& raw, const Tensor& y, const std::string& name, const std::string& inputs) {
  check_rank(y, name);
  if (y.size(0) != raw.count)
    fail(ErrorKind::io, name, "tells of ", y.size(0), " samples, ", inputs, " has ", raw.count);
  raw.target_sizes = without_first(y.sizes());
  if (raw.target_sizes == std::vector<int64_t>{1}) raw.target_sizes.clear();
  if (is_whole(y.dtype()))
    raw.targets = values_of<int64_t>(y, name);
  else
    raw.targets = finite_values(y, name);
}

}  // namespace

Raw raw_of(const Tensor& x, const std::string& name, const std::string& wanted, const Form* like) {
  check_rank(x, name);
  Raw raw;
  raw.name = name;
  raw.count = x.size(0);
  raw.sizes = without_first(x.sizes());
  if (raw.sizes.empty()) raw.sizes = {1};
  raw.place = [](int64_t i) { return join("sample ", i); };
  constexpr const char* kinds[] = {"pixels", "numbers", "tokens"};
  const std::string kind = like                     ? kinds[int(like->kind)]
                           : !wanted.empty()        ? wanted
                           : x.dtype() == DType::u8 ? "pixels"
                                                    : "numbers";
  if (kind == "tokens")
    raw.inputs = tokens_of(x, name, like != nullptr);
  else if (kind == "pixels")
    raw.inputs = pixels_of(x, name, like != nullptr);
  else
    raw.inputs = finite_values(x, name);
  return raw;
}

Raw read_arrays(const OwnData& config, const OwnData::Files& files, const Form* like) {
  Device& host = open_device("cpu");
  const bool zip = config.format == OwnData::Format::npz;
  const std::string x_name = zip ? files.file + ": " + files.x : files.file;
  const std::string y_name = zip ? files.file + ": " + files.y : files.y;
  const Tensor x = zip ? read_npz(files.file, files.x, host) : read_npy(files.file, host);
  Raw raw = raw_of(x, x_name, config.inputs, like);
  const Tensor y = zip ? read_npz(files.file, files.y, host) : read_npy(files.y, host);
  add_targets(raw, y, y_name, x_name);
  raw.name = files.file;
  raw.target = zip ? files.y : "";
  return raw;
}

}  // namespace gradus::training
