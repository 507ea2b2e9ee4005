// What the tests of the slot linalg share: calls on the reference and the cpu device, and naive
// products to check definitions with.
#pragma once
#include "ops/def/linalg.h"
#include "kernels/reference/reference.hpp"
#include "tests/helpers/cpu_device.hpp"

#include <unistd.h>

namespace linalg_test {

using namespace gradus;
using cpu_test::Array;
using cpu_test::Index;
using cpu_test::kAbsent;
using cpu_test::Layout;
using gradus::test::has;

struct Machine {
  std::string name;
  const gd_table* table;
  gd_device* device;
  int threads = 1;
  bool lapack = false;
  bool another_set = false;  // the one before, but for its instruction set: small matrices tell
};
// A LAPACK of this machine, "" if it has none where Debian puts it.
inline const std::string& lapack_file() {
  static const std::string file = [] {
    for (const char* path :
         {"/usr/lib/x86_64-linux-gnu/liblapack.so.3", "/usr/lib/x86_64-linux-gnu/libopenblas.so.0"})
      if (::access(path, R_OK) == 0) return path;
    MESSAGE("there is no LAPACK here: `apt-get install libopenblas0-pthread`");
    return "";
  }();
  return file;
}
// The reference, the cpu with one thread and with three, and with both by LAPACK if it is there.
inline const std::vector<Machine>& machines() {
  static const auto list = [] {
    std::vector<Machine> all{{"reference", reference::table(), nullptr}};
    int k = 0;
    for (const auto& d : cpu_test::devices()) {
      all.push_back({d->name, cpu::table(), d->d, k % 2 == 0 ? 1 : 3, false, k > 1});
      ++k;
    }
    if (lapack_file().empty()) return all;
    static std::vector<std::unique_ptr<cpu_test::Device>> opened;
    for (int threads : {1, 3}) {
      const std::string isa = all[1].name.substr(0, all[1].name.find('/'));
      opened.push_back(std::make_unique<cpu_test::Device>(
          isa, threads, ", \"libraries\": {\"lapack\": \"" + lapack_file() + "\"}"));
      if (opened.back()->d)  // else it is one of another processor
        all.push_back(
            {opened.back()->name + " LAPACK", cpu::table(), opened.back()->d, threads, true});
    }
    return all;
  }();
  return list;
}
inline gd_status try_linalg(const Machine& m, int op, const std::vector<gd_view>& in,
                            const std::vector<gd_view>& out, const Index& ints, gd_error& e) {
  return cpu_test::try_call(*m.table, m.device, GD_LINALG, op, in, out, {}, ints, e);
}
inline void linalg(const Machine& m, int op, const std::vector<gd_view>& in,
                   const std::vector<gd_view>& out, const Index& ints = {}) {
  gd_error e{};
  const gd_status s = try_linalg(m, op, in, out, ints, e);
  INFO(m.name << ": " << e.text);
  REQUIRE(s == GD_OK);
}

// ---- dense matrices

template <class T>
struct Dense {
  int64_t m = 0, n = 0;
  std::vector<T> x;

  Dense(int64_t rows, int64_t cols) : m(rows), n(cols), x(size_t(rows * cols)) {}
  T& operator()(int64_t i, int64_t j) { return x[size_t(i * n + j)]; }
  const T& operator()(int64_t i, int64_t j) const { return x[size_t(i * n + j)]; }
};
template <class T>
Dense<T> identity(int64_t n) {
  Dense<T> a(n, n);
  for (int64_t i = 0; i < n; ++i) a(i, i) = T(1);
  return a;
}
template <class T>
Dense<T> operator*(const Dense<T>& a, const Dense<T>& b) {
  Dense<T> c(a.m, b.n);
  for (int64_t i = 0; i < a.m; ++i)
    for (int64_t k = 0; k < a.n; ++k) {
      const T by = a(i, k), *from = b.x.data() + k * b.n;
      T* to = c.x.data() + i * b.n;
      for (int64_t j = 0; j < b.n; ++j) to[j] = to[j] + by * from[j];
    }
  return c;
}
template <class T>
Dense<T> adjoint(const Dense<T>& a, bool conj = true) {
  Dense<T> b(a.n, a.m);
  for (int64_t i = 0; i < a.m; ++i)
    for (int64_t j = 0; j < a.n; ++j) b(j, i) = conj ? conj_of(a(i, j)) : a(i, j);
  return b;
}
// a's columns times numbers of its own or the real type.
template <class T, class S>
Dense<T> scaled(Dense<T> a, const Dense<S>& by) {
  for (int64_t i = 0; i < a.m; ++i)
    for (int64_t j = 0; j < a.n; ++j) a(i, j) = a(i, j) * T(by(j, 0));
  return a;
}
template <class T>
c128 number(T x) {
  if constexpr (is_complex_v<T>)
    return c128(x);
  else
    return c128(double(x));
}
template <class T>
double size(T x) {
  return std::hypot(number(x).re, number(x).im);
}
// The Frobenius norm of a - b, or of a.
template <class T>
double norm(const Dense<T>& a, const Dense<T>* b = nullptr) {
  double most = 0, sum = 0;
  for (size_t i = 0; i < a.x.size(); ++i) {
    const double d = size(b ? a.x[i] - b->x[i] : a.x[i]);
    if (!(d <= most)) most = d;
  }
  if (most == 0 || !std::isfinite(most)) return most;
  for (size_t i = 0; i < a.x.size(); ++i) {
    const double d = size(b ? a.x[i] - b->x[i] : a.x[i]) / most;
    sum += d * d;
  }
  return most * std::sqrt(sum);
}

// Backward errors of Householder's and Gauss's methods are bounded by eps times a small power of
// the size, and are about 2 eps sqrt(n) in practice: 8 eps n is four times that at n = 1, and
// catches each error that is not rounding.
template <class T>
double tolerance(int64_t m, int64_t n) {
  return 8 * double(std::numeric_limits<real_of<T>>::epsilon()) *
         double(std::max<int64_t>({m, n, 1}));
}
template <class T>
void check_close(const char* what, const Dense<T>& got, const Dense<T>& want, double scale) {
  const double off = norm(got, &want), most = tolerance<T>(got.m, got.n) * scale;
  INFO(what << ": off by " << off << ", may be off by " << most);
  CHECK(off <= most);
}
// Columns of norm 1 at right angles: a^H a = 1.
template <class T>
void check_unitary(const char* what, const Dense<T>& a) {
  check_close(what, adjoint(a) * a, identity<T>(a.n),
              std::sqrt(double(a.n)) * double(a.m) / double(std::max<int64_t>(a.n, 1)));
}
// The largest entry of column k is real and positive, or one that is as large but for rounding.
template <class T>
void check_phase(const Dense<T>& a, int64_t k) {
  double most = 0;
  for (int64_t i = 0; i < a.m; ++i) most = std::max(most, size(a(i, k)));
  bool found = most == 0;
  const double enough = most * (1 - 512 * double(std::numeric_limits<real_of<T>>::epsilon()));
  for (int64_t i = 0; i < a.m; ++i) {
    const c128 x = number(a(i, k));
    found |= size(x) >= enough && x.re > 0 && x.im == 0;
  }
  CHECK(found);
}

// ---- batches

// The matrix or, of one axis beyond the batch, the column of element `at` of the batch.
template <class T>
Dense<T> matrix(const Array<T>& a, const Index& at) {
  const size_t axes = a.sizes.size() - at.size();
  Dense<T> d(axes > 0 ? a.sizes[at.size()] : 1, axes > 1 ? a.sizes.back() : 1);
  Index i = at;
  i.resize(a.sizes.size());
  for (int64_t r = 0; r < d.m; ++r)
    for (int64_t c = 0; c < d.n; ++c) {
      if (axes > 0) i[at.size()] = r;
      if (axes > 1) i[at.size() + 1] = c;
      d(r, c) = a.at(i);
    }
  return d;
}
inline Index with(Index batch, std::initializer_list<int64_t> last) {
  batch.insert(batch.end(), last);
  return batch;
}
template <class T>
T random_number() {
  std::normal_distribution<double> normal;
  if constexpr (is_complex_v<T>) {
    const auto re = real_of<T>(normal(cpu_test::rng()));
    return T(re, real_of<T>(normal(cpu_test::rng())));
  } else {
    return T(normal(cpu_test::rng()));
  }
}
template <class T>
Array<T> random_array(Index sizes, Layout layout = cpu_test::kPlain) {
  Array<T> a(std::move(sizes), layout);
  a.fill(random_number<T>);
  return a;
}
template <class T>
Array<T> from(const Dense<T>& d) {
  Array<T> a({d.m, d.n});
  for (int64_t i = 0; i < d.m; ++i)
    for (int64_t j = 0; j < d.n; ++j) a.at({i, j}) = d(i, j);
  return a;
}

// Calls f(T{}) for the dtypes that the slot reads.
template <class F>
void for_dtypes(F&& f) {
  f(float{});
  f(double{});
  f(c64{});
  f(c128{});
}

// Shapes and memory layouts of inputs; the batch stands before the matrix.
struct Shape {
  Index batch;
  int64_t m, n;
  Layout layout = cpu_test::kPlain;
};
inline const std::vector<Shape>& square_shapes() {
  using namespace cpu_test;
  static const std::vector<Shape> list{{{}, 0, 0},
                                       {{}, 1, 1},
                                       {{}, 5, 5},
                                       {{}, 33, 33},
                                       {{}, 70, 70},
                                       {{3}, 40, 40, kPermuted},
                                       {{2, 3}, 4, 4},
                                       {{0}, 3, 3},
                                       {{2}, 0, 0},
                                       {{19}, 6, 6},  // groups of lanes, the last not full
                                       {{2, 5}, 16, 16, kPermuted},
                                       {{9}, 17, 17},
                                       {{2}, 5, 5, kPermuted},
                                       {{3}, 5, 5, kNegative},
                                       {{2}, 4, 4, kGaps},
                                       {{2}, 3, 3, kBroadcast}};
  return list;
}
inline const std::vector<Shape>& all_shapes() {
  static const auto list = [] {
    auto all = square_shapes();
    for (auto [m, n] :
         {std::pair{7, 4}, {4, 7}, {40, 3}, {3, 40}, {0, 3}, {3, 0}, {40, 0}, {60, 40}, {40, 60}})
      all.push_back({{}, m, n});
    all.push_back({{2}, 7, 4, cpu_test::kPermuted});
    all.push_back({{21}, 16, 11});
    all.push_back({{21}, 2, 9, cpu_test::kGaps});
    all.push_back({{2, 2}, 3, 5, cpu_test::kNegative});
    return all;
  }();
  return list;
}

// Calls f(T{}, machine, shape) for all of them.
template <class F>
void for_all(const std::vector<Shape>& shapes, F&& f) {
  for (const Machine& machine : machines())
    for_dtypes([&](auto t) {
      for (const Shape& s : shapes) {
        // Threads share a batch alone; large matrices cost these naive loops much time.
        if (s.m > 50 && machine.threads > 1) continue;
        if (std::max(s.m, s.n) > 17 && machine.another_set) continue;
        INFO(machine.name << ", " << dtype_name(dtype_of<decltype(t)>) << ", " << s.m << " x "
                          << s.n << ", layout " << int(s.layout));
        f(t, machine, s);
      }
    });
}

}  // namespace linalg_test
