// Drawing of inputs from Philox numbers, and the way of host numbers to and from tensors.
#include "engine/abi/philox.hpp"
#include "ops/check/rows.hpp"
#include "engine/modes.hpp"
#include "ops/pointwise/pointwise.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gradus::inline v1::rows {

namespace {

uint64_t hash_of(std::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

// A stream of uniform numbers of its own for each (name, case, operand).
class Stream {
 public:
  Stream(std::string_view name, uint64_t id) : seed_(hash_of(name) ^ (id * 0x9E3779B97F4A7C15u)) {}
  double next() { return uniform(random_bits(seed_, at_++)); }

 private:
  uint64_t seed_, at_ = 0;
};

bool near_kink(const Domain& d, double x) {
  return std::any_of(d.avoid.begin(), d.avoid.end(),
                     [&](double kink) { return std::fabs(x - kink) < d.margin; });
}

double draw_real(const Domain& d, Stream& stream) {
  for (;;) {
    const double x = d.low + stream.next() * (d.high - d.low);
    if (!near_kink(d, x)) return x;
  }
}

double draw_integer(const Domain& d, DType dtype, Stream& stream) {
  const bool is_unsigned = dtype == DType::u8 || dtype == DType::bool_;
  const double low = std::ceil(is_unsigned ? std::max(d.low, 0.0) : d.low);
  const double high = dtype == DType::bool_ ? 1.0 : std::max(std::floor(d.high), low);
  for (;;) {
    const double x = std::min(high, std::floor(low + stream.next() * (high - low + 1)));
    if (low == high || dtype == DType::bool_ || !near_kink(d, x)) return x;
  }
}

// Element i of operand k is low + (p(i) + (k + 1/2) / 4) step with a permutation p: any two of any
// operand differ by at least step / 4. `largest` is the element count of the largest operand.
Numbers draw_lattice(const Domain& d, size_t operand, size_t count, size_t largest,
                     Stream& stream) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t(0));
  for (size_t i = count; i > 1; --i)
    std::swap(order[i - 1], order[std::min(i - 1, size_t(stream.next() * double(i)))]);
  const double step = (d.high - d.low) / double(std::max<size_t>(largest, 1));
  Numbers out(count);
  for (size_t i = 0; i < count; ++i)
    out[i] = d.low + (double(order[i]) + (double(operand) + 0.5) / 4) * step;
  return out;
}

void add_diagonal(const Domain& d, const Shape& shape, Numbers& x) {
  const int64_t rows = shape[shape.size() - 2], columns = shape.back();
  for (size_t at = 0; at < x.size(); at += size_t(rows * columns))
    for (int64_t i = 0; i < std::min(rows, columns); ++i)
      x[at + size_t((d.reversed ? rows - 1 - i : i) * columns + i)] += d.gap * double(i + 1);
}

const Domain& domain_of(const Row& row, size_t operand) {
  return row.operands[std::min(operand, row.operands.size() - 1)];
}

}  // namespace

Domain between(double low, double high) { return {Domain::Kind::range, low, high}; }
Domain away_from(std::vector<double> kinks, double low, double high) {
  return {Domain::Kind::range, low, high, std::move(kinks)};
}
Domain lattice(double low, double high) { return {Domain::Kind::lattice, low, high}; }
Domain indices() { return {Domain::Kind::index}; }
Domain masks() { return {Domain::Kind::mask}; }
Domain signs() { return {Domain::Kind::sign}; }
Domain matrices(double gap) { return {Domain::Kind::matrix, -0.5, 0.5, {}, 0, gap}; }
Domain reversed_matrices(double gap) {
  Domain d = matrices(gap);
  d.reversed = true;
  return d;
}

DType operand_dtype(const Row& row, size_t k, DType dtype) {
  switch (domain_of(row, k).kind) {
    case Domain::Kind::index:
    case Domain::Kind::sign:
      return DType::i64;
    case Domain::Kind::mask:
      return DType::bool_;
    default:
      return dtype;
  }
}

Numbers draw(const Row& row, size_t which_case, size_t operand, DType run_dtype) {
  const Domain& domain = domain_of(row, operand);
  const Case& c = row.cases[which_case];
  const DType dtype = operand_dtype(row, operand, run_dtype);
  const size_t count = size_t(numel_of(c.shapes[operand]));
  Stream stream(row.name, which_case * 16 + operand + 1);
  if (domain.kind == Domain::Kind::lattice && is_floating(dtype)) {
    int64_t largest = 1;
    for (const Shape& shape : c.shapes) largest = std::max(largest, numel_of(shape));
    return draw_lattice(domain, operand, count, size_t(largest), stream);
  }
  Numbers out(count);
  for (std::complex<double>& x : out) {
    if (domain.kind == Domain::Kind::index)
      x = std::floor(stream.next() * double(c.extent));
    else if (domain.kind == Domain::Kind::mask)
      x = stream.next() < 0.5 ? 0.0 : 1.0;
    else if (domain.kind == Domain::Kind::sign)
      x = stream.next() < 0.5 ? -1.0 : 1.0;
    else if (is_integer(dtype))
      x = draw_integer(domain, dtype, stream);
    else
      x = draw_real(domain, stream);
    if (is_complex(dtype))
      x.imag(domain.kind == Domain::Kind::matrix ? draw_real(domain, stream)
                                                 : 3 * stream.next() - 1.5);
  }
  if (domain.kind == Domain::Kind::matrix) add_diagonal(domain, c.shapes[operand], out);
  return out;
}

Numbers draw_direction(std::string_view name, uint64_t stream_id, int64_t count, bool complex) {
  Stream stream(name, 0x1000 + stream_id);
  Numbers out(static_cast<size_t>(count));
  for (std::complex<double>& x : out) {
    x = 2 * stream.next() - 1;
    if (complex) x.imag(2 * stream.next() - 1);
  }
  return out;
}

Tensor cotangent_of(const Row& row, const Tensor& y, const Tensor& g) {
  const NoGrad values;
  return row.seen && is_complex(y.dtype()) ? mul(y.detach(), real(g)) : g;
}

Tensors draw_inputs(const Row& row, size_t which_case, DType dtype, Device& device) {
  Tensors inputs;
  const Case& c = row.cases[which_case];
  for (size_t k = 0; k < c.shapes.size(); ++k)
    inputs.push_back(
        upload(draw(row, which_case, k, dtype), c.shapes[k], operand_dtype(row, k, dtype), device));
  return inputs;
}

Tensor upload(const Numbers& numbers, const Shape& shape, DType dtype, Device& device) {
  std::vector<unsigned char> bytes(numbers.size() * itemsize(dtype) + 1);
  visit_dtype(int32_t(dtype), [&]<class T>(T) {
    for (size_t i = 0; i < numbers.size(); ++i) {
      T value;
      if constexpr (is_complex_v<T>)
        value = T(real_of<T>(numbers[i].real()), real_of<T>(numbers[i].imag()));
      else if constexpr (sizeof(T) == 2)
        value = T(float(numbers[i].real()));
      else
        value = T(numbers[i].real());
      memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
  });
  return Tensor::from_host(bytes.data(), shape, dtype, device);
}

Numbers download(const Tensor& t) {
  Numbers out(static_cast<size_t>(t.numel()));
  std::vector<unsigned char> bytes(t.bytes() + 1);
  t.copy_to_host(bytes.data());
  visit_dtype(int32_t(t.dtype()), [&]<class T>(T) {
    for (size_t i = 0; i < out.size(); ++i) {
      T value;
      memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      if constexpr (is_complex_v<T>)
        out[i] = {double(value.re), double(value.im)};
      else if constexpr (sizeof(T) == 2)
        out[i] = double(float(value));
      else
        out[i] = double(value);
    }
  });
  return out;
}

}  // namespace gradus::rows
