// Users' ops: a statement without a kernel and a function with its own derivatives behave as
// built-in ops do, and what is missing or wrong in them is said in words. Libraries of ops as the
// program loads them.
#include "gradus_paths.hpp"
#include "ops/check/check.hpp"
#include "ops/check/user.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/io_helpers.hpp"

#include "engine/forward.hpp"
#include "ops/transforms/vmap.hpp"
#include "engine/files/npy.hpp"

#include <cstdlib>
#include <fstream>
#include <sys/wait.h>

using namespace gradus;
using gradus::test::TempFolder;
using gradus::testing::close;
using gradus::testing::error_of;
using gradus::testing::f64;
using gradus::testing::leaf;
using gradus::testing::values;

namespace {

struct bump : def::Unary {
  double height = 2;
  static constexpr def::Meta meta{
      "test_bump", "height / (1 + x^2)", def::kReal | def::kComplex, {"height"}};
  template <class T>
  T value(T x) const {
    return T(height) / (T(1) + x * x);
  }
  template <class T>
  T slope(T x, T y) const {
    return T(-2) * x * y / (T(1) + x * x);
  }
};
struct mix : def::Binary {
  static constexpr def::Meta meta{"test_mix", "a * exp(b)", def::kReal};
  template <class T>
  T value(T a, T b) const {
    return a * w::exp(b);
  }
  template <class T>
  T slope_a(T, T b, T) const {
    return w::exp(b);
  }
  template <class T>
  T slope_b(T, T, T y) const {
    return y;
  }
};
struct same : def::Unary {
  static constexpr def::Meta meta{"test_same", "x", def::kNumbers};
  template <class T>
  T value(T x) const {
    return x;
  }
  template <class T>
  T slope(T, T) const {
    return T(1);
  }
};
struct above : def::Comparison {
  static constexpr def::Meta meta{"test_above", "a > b + 1", def::kReal};
  template <class T>
  Mask<T> value(T a, T b) const {
    return w::gt(a, b + T(1));
  }
};
struct square_abs : def::NonHolomorphic {
  static constexpr def::Meta meta{"test_square_abs", "|z|^2", def::kReal | def::kComplex};
  template <class T>
  T value(T x) const {
    return x * x;
  }
  template <class T>
  T slope(T x, T) const {
    return T(2) * x;
  }
  template <class T>
  real_reader<T> cvalue(T z) const {
    return w::real(z) * w::real(z) + w::imag(z) * w::imag(z);
  }
  template <class T>
  T dz(T z) const {
    return w::conj(z);
  }
  template <class T>
  T dzbar(T z) const {
    return z;
  }
};

rows::Row row_for(size_t operands, unsigned dtypes) {
  rows::Row row{"", {rows::between(-1.5, 1.5)}, dtypes, {}, {64, true, 8, "a chain of ops"}};
  row.operands.resize(operands, row.operands[0]);
  for (const Shape& s : {Shape{3, 5}, Shape{}, Shape{0}, Shape{2, 3, 7}})
    row.cases.push_back({std::vector<Shape>(operands, s)});
  if (operands == 2) row.cases.push_back({{{4, 1, 3}, {2, 1}}});
  return row;
}

// y = x^3, and what is saved for it.
void cube_forward(OpContext& ctx) {
  const Tensor& x = ctx.inputs[0];
  ctx.outputs.push_back(mul(mul(x, x), x));
  ctx.save_input(0);
}
Tensor cube_vjp(GradFn& node, size_t, std::span<const Tensor> g) {
  return mul(g[0], mul(3.0, square(node.input(0))));
}
Tensor cube_jvp(GradFn& node, size_t, std::span<const Tensor> t) {
  return mul(t[0], mul(3.0, square(node.input(0))));
}

UserFunction function(const char* name) {
  UserFunction f;
  f.name = name;
  f.doc = "third power";
  f.formula = "y = x^3";
  f.operands = {{"x"}};
  f.forward = cube_forward;
  f.vjp = cube_vjp;
  f.jvp = cube_jvp;
  return f;
}

struct Ops {
  const OpInfo &bump, &mix, &same, &above, &square_abs, &cube, &bare, &once;
};
// Registered when first asked for, so that tests of the built-in list alone may run before.
const Ops& ops() {
  static const Ops all = [] {
    const unsigned real = def::kReal, any = def::kReal | def::kComplex;
    UserFunction bare = function("test_bare"), once = function("test_once");
    bare.vjp = nullptr;
    bare.jvp = nullptr;
    once.once_differentiable = true;
    rows::Row no_slopes = row_for(1, real);
    for (rows::Case& c : no_slopes.cases) c.slopes = false;
    return Ops{add_statement<::bump>(row_for(1, any)),
               add_statement<::mix>(row_for(2, real)),
               add_statement<::same>(row_for(1, def::kNumbers)),
               add_statement<::above>(row_for(2, real)),
               add_statement<::square_abs>(row_for(1, any)),
               add_function(function("test_cube"), row_for(1, real)),
               add_function(bare, no_slopes),
               add_function(once, no_slopes)};
  }();
  return all;
}
Tensor run(const OpInfo& op, const Tensors& in, const Attrs& attrs = {}) {
  return op.call(in, attrs)[0];
}

struct Run {
  int code;
  std::string out, err;
};
Run program(const TempFolder& folder, const std::string& arguments) {
  const auto slurp = [](const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(in), {});
  };
  const std::string out = folder / ".out", err = folder / ".err";
  const int status =
      std::system(("cd '" + folder.path() + "' && env -u GRADUS_DEVICE '" + GRADUS_PROGRAM + "' " +
                   arguments + " >'" + out + "' 2>'" + err + "'")
                      .c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(out), slurp(err)};
}
std::string library(const char* name) {
  return std::string(GRADUS_BUILD_DIR) + "/user_ops/" + name + ".so";
}

}  // namespace

TEST_CASE("user ops: all modes of the op table, on the devices that are here") {
  for (const OpInfo* op : {&ops().bump, &ops().mix, &ops().same, &ops().above, &ops().square_abs,
                           &ops().cube, &ops().bare, &ops().once})
    for (const char* device : {"cpu", "reference"})
      for (const rows::ModeResult& m :
           rows::check_op(op->name, open_device(device), &open_device("reference")).modes)
        CHECK_MESSAGE(m.worst.ok(), join(op->name, " on ", device, ", ", m.mode, ": ",
                                         m.worst.where, " (", m.worst.error, ")"));
}

TEST_CASE("user statement: value, parameter, promotion, dtypes, derivatives to the fourth order") {
  const Tensor x = leaf(f64({0.5, -1, 2}, {3}));
  const Tensor y = run(ops().bump, {x});
  CHECK(close(values(y), {1.6, 1, 0.4}));  // the parameter's default is 2
  CHECK(close(values(run(ops().bump, {x}, {5.0})), {4, 2.5, 1}));
  CHECK(y.grad_fn()->op().name == "test_bump");
  CHECK(run(ops().bump, {Tensor::from(std::vector<int64_t>{3}, {1})}).dtype() == DType::f32);
  CHECK(run(ops().mix, {f64({2, 3}, {2, 1}), f64({0, 0, 0}, {3})}).sizes() == Shape{2, 3});
  const Tensor mask = run(ops().above, {f64({1, 2.5}, {2}), f64({1, 1}, {2})});
  CHECK(mask.dtype() == DType::bool_);
  CHECK(values(mask) == std::vector<double>{0, 1});
  CHECK(error_of([&] {
          run(ops().mix, {cast(x.detach(), DType::c128), x});
        }) ==
        "test_mix: is not defined for c128; it takes real numbers; take abs(), real() or imag() "
        "first");
  // exp(b)'s derivatives with respect to b are all a exp(b)
  const Tensor b = leaf(f64({0.3}, {1}));
  Tensor d = run(ops().mix, {f64({2}, {1}), b});
  for (int order = 0; order < 4; ++order) d = grad({d}, {b}, {}, {.create_graph = true})[0];
  CHECK(close(values(d), {2 * std::exp(0.3)}));
}

TEST_CASE("user statement: formula and saved tensors are read from it, its id is no module's") {
  const OpInfo& op = ops().bump;
  CHECK(op.formula == "y = height / (1 + x * x)");
  CHECK(op.statement >= def::statement_count());
  CHECK(op.user);
  CHECK(def::statement_info(op.statement).slopes[0] == "-2 * x * y / (1 + x * x)");
  const Tensor a = leaf(f64({2}, {1})), b = leaf(f64({1}, {1}));
  const Tensor y = run(ops().mix, {a, b});
  REQUIRE(y.grad_fn()->saved().size() == 2);  // b for slope_a, y for slope_b; never a
  CHECK(y.grad_fn()->saved()[0].role == Saved::Role::input);
  CHECK(y.grad_fn()->saved()[0].index == 1);
  CHECK(y.grad_fn()->saved()[1].role == Saved::Role::output);
  CHECK(run(ops().mix, {a, b.detach()}).grad_fn()->saved().size() == 1);
  CHECK(run(ops().same, {a}).grad_fn()->saved().empty());
}

TEST_CASE("user ops: what a forward returns is never its operand") {
  const Tensor x = leaf(f64({1, 2}, {2}));
  const Tensor y = run(ops().same, {x});
  CHECK_FALSE(y.same_body(x));
  CHECK(x.is_leaf());
  {
    const NoGrad off;
    copy_(y, 7.0);
  }
  CHECK(values(x) == std::vector<double>{1, 2});

  UserFunction f = function("test_returned");
  f.forward = [](OpContext& ctx) { ctx.outputs.push_back(ctx.inputs[0]); };
  f.vjp = [](GradFn&, size_t, std::span<const Tensor> g) { return mul(g[0], 10.0); };
  rows::Row row = row_for(1, def::kReal);
  for (rows::Case& c : row.cases) c.slopes = false;
  const Tensor z = run(add_function(f, row), {x});
  CHECK(x.is_leaf());
  CHECK(z.grad_fn()->op().user);
  CHECK(values(grad({sum(z)}, {x})[0]) == std::vector<double>{10, 10});
}

TEST_CASE("user function: its own derivatives are used, to any order, forward ops unrecorded") {
  const Tensor x = leaf(f64({2, -1}, {2}));
  const Tensor y = run(ops().cube, {x});
  CHECK(values(y) == std::vector<double>{8, -1});
  CHECK(y.grad_fn()->op().name == "test_cube");
  CHECK(y.grad_fn()->inputs()[0].leaf);  // one node, and no mul behind it
  const Tensor dx = grad({sum(y)}, {x}, {}, {.create_graph = true})[0];
  CHECK(values(dx) == std::vector<double>{12, 3});
  CHECK(values(grad({sum(dx)}, {x})[0]) == std::vector<double>{12, -6});
  ForwardLevel level;
  const Tensor p = f64({2, -1}, {2});
  level.set_tangent(p, f64({1, 10}, {2}));
  CHECK(values(run(ops().cube, {p}).tangent()) == std::vector<double>{12, 30});
}

TEST_CASE("user function: vmap runs it by its own rule, else example by example") {
  static int calls;
  UserFunction twice;
  twice.name = "test_twice";
  twice.operands = {{"x"}};
  twice.forward = [](OpContext& ctx) {
    ++calls;
    ctx.outputs.push_back(ctx.inputs[0] * 2.0);
  };
  const Tensor x = f64({1, 2, 3, 4}, {2, 2});
  for (const bool own : {false, true}) {
    if (own) twice.batch = [](const BatchCall& c) { return apply(c.op, c.in, c.attrs); };
    const OpInfo& op = unlisted_function(twice);
    calls = 0;
    const auto y = func::vmap([&](const Tensors& in) { return Tensors(op.call(in, {})); })({x});
    CHECK(values(y[0]) == std::vector<double>{2, 4, 6, 8});
    CHECK(calls == (own ? 1 : 2));
  }
}

TEST_CASE("user function: a derivative that is missing is an error when it is asked for") {
  const Tensor x = leaf(f64({2}, {1}));
  const Tensor y = run(ops().bare, {x});
  CHECK(values(y) == std::vector<double>{8});
  CHECK(error_of([&] { backward(y); }) ==
        "test_bare: the derivative is not implemented: it was added without a vjp");
  ForwardLevel level;
  const Tensor p = f64({2}, {1});
  level.set_tangent(p, f64({1}, {1}));
  CHECK(error_of([&] { run(ops().bare, {p}); }) ==
        "test_bare: forward mode is not implemented: it was added without a jvp");
}

TEST_CASE(
    "user function: once_differentiable refuses the second derivative, however it is asked for") {
  const Tensor x = leaf(f64({2}, {1}));
  const std::string words =
      "test_once: differentiated twice, but it was added as once_differentiable";
  CHECK(values(grad({run(ops().once, {x})}, {x})[0]) == std::vector<double>{12});
  const Tensor dx = grad({run(ops().once, {x})}, {x}, {}, {.create_graph = true})[0];
  CHECK(values(dx) == std::vector<double>{12});
  CHECK(error_of([&] { grad({dx}, {x}, {}, {.allow_unused = true}); }).starts_with(words));
  // through a seed alone, and through x that is no leaf
  const Tensor g = leaf(f64({1}, {1})), u = mul(x, 1.0);
  const Tensor by_seed = grad({run(ops().once, {x})}, {x}, {g}, {.create_graph = true})[0];
  CHECK(error_of([&] { grad({by_seed}, {g}); }).starts_with(words));
  const Tensor du = grad({run(ops().once, {u})}, {u}, {}, {.create_graph = true})[0];
  CHECK(error_of([&] { grad({du}, {x}, {}, {.allow_unused = true}); }).starts_with(words));
  // forward over reverse
  ForwardLevel level;
  const Tensor p = leaf(f64({2}, {1}));
  level.set_tangent(p, f64({1}, {1}));
  CHECK(error_of([&] { grad({run(ops().once, {p})}, {p}); }).starts_with(words));
}

TEST_CASE("user ops: names and rows are checked") {
  UserFunction taken = function("exp");
  CHECK(error_of([&] { add_function(taken, row_for(1, def::kReal)); }) ==
        "exp: an op of this name is there already");
  CHECK(error_of([&] { rows::add_row(rows::row_of("test_cube")); }) ==
        "test_cube: has a row already");
  CHECK(error_of([&] { run(ops().cube, {}); }) == "test_cube: takes 1 operands, got 0");
}

TEST_CASE("user ops: gradus --load shows, checks and runs a library's ops") {
  const TempFolder folder;
  const std::string load = "--load " + library("example") + " ";
  Run r = program(folder, load + "ops gaussian");
  CHECK(r.code == 0);
  CHECK(r.out.find("y = exp(-(x * x) / (2 * width * width))") != std::string::npos);
  CHECK(r.out.find("dy/dx = -(x * y) / (width * width)") != std::string::npos);
  CHECK(r.out.find("saves       x, y") != std::string::npos);
  CHECK(program(folder, load + "check --op gaussian").code == 0);
  CHECK(program(folder, load + "check --op cube").code == 0);
  r = program(folder, load + "check --op wrong_cube");
  CHECK(r.code == 5);
  CHECK(r.out.find("FAIL  wrong_cube") != std::string::npos);
  CHECK(r.out.find("vjp: case 0") != std::string::npos);

  write_npy(folder / "x.npy", f64({1, 2, -1}, {3}));
  write_npy(folder / "g.npy", f64({1, 1, 10}, {3}));
  r = program(folder, load +
                          "op cube --in x.npy --out y.npy --cotangent g.npy --grads dx.npy "
                          "--tangents g.npy --jvp jy.npy");
  CHECK_MESSAGE(r.code == 0, r.err);
  CHECK(values(read_npy(folder / "y.npy")) == std::vector<double>{1, 8, -1});
  CHECK(values(read_npy(folder / "dx.npy")) == std::vector<double>{3, 12, 30});
  CHECK(values(read_npy(folder / "jy.npy")) == std::vector<double>{3, 12, 30});
  CHECK(program(folder, "ops gaussian").code == 2);  // not without the library
}

TEST_CASE("user ops: libraries that can't be used are refused in words, with exit code 4") {
  const TempFolder folder;
  const auto refused = [&](const std::string& path, const char* part) {
    const Run r = program(folder, "--load '" + path + "' ops");
    CHECK(r.code == 4);
    CHECK(r.out == "");
    CHECK_MESSAGE(r.err.find(part) != std::string::npos, r.err);
    CHECK(r.err.find(path) != std::string::npos);
  };
  refused("missing.so", "No such file");
  refused(library("old"), "version 999 of the interface for users' ops, this program has 3");
  refused(std::string(GRADUS_LIB_DIR) + "/gradus_reference.so",
          "it has no symbol gradus_ops_stamp");
  std::ofstream(folder / "text.so") << "not a library";
  refused(folder / "text.so", "cannot be opened");
}

TEST_CASE("user ops: gradus check --exact proves ops by ==") {
  const TempFolder folder;
  Run r = program(folder, "check --exact --op matmul");
  CHECK(r.code == 0);
  CHECK(r.out.find("exact     matmul              modint    6 cases") != std::string::npos);
  CHECK(r.out.find("1 ops proven exactly") != std::string::npos);
  // a derivative that is wrong is found here too
  r = program(folder, "--load " + library("example") + " check --exact --op wrong_cube");
  CHECK(r.code == 5);
  CHECK(r.out.find("WRONG     wrong_cube") != std::string::npos);
  r = program(folder, "check --exact --op exp");
  CHECK(r.out.find("dtype modint has no function exp") != std::string::npos);
}
