// einsum against ../shared/cases/einsum.json: exact integers from a brute-force evaluator, in every
// algebra, forwards and backwards, on every built-in device. Then refusals by their text, views,
// and the program from files to files.
#include "gradus_paths.hpp"
#include "engine/forward.hpp"
#include "engine/device/device.hpp"
#include "engine/files/file.hpp"
#include "engine/files/npy.hpp"
#include "engine/config/options.hpp"
#include "ops/contract/einsum.hpp"
#include "tests/helpers/sizes.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

namespace {

using namespace gradus;

const std::string kCases = GRADUS_SOURCE_DIR "/../shared/cases/einsum.json";

// The cases, or null where the file does not stand beside the sources.
Json read_cases() {
  if (!std::filesystem::exists(kCases)) {
    MESSAGE("skipped: ", kCases, " is not there");
    return nullptr;
  }
  return parse_json(read_file(kCases), kCases);
}

std::vector<Device*> devices() { return {&open_device("cpu"), &open_device("reference")}; }

Shape shape_of(const Json& list) {
  Shape shape;
  for (const Json& n : list) shape.push_back(n.get<int64_t>());
  return shape;
}
std::vector<Shape> shapes_of(const Json& c) {
  std::vector<Shape> shapes;
  for (const Json& s : c["shapes"]) shapes.push_back(shape_of(s));
  return shapes;
}

int64_t fill_value(int64_t p, int64_t k) { return (7 * p + 3 * k + 1) % 5 - 2; }

// fill(k), or fill(k) + i fill(k + 5) for complex numbers.
Tensor fill(int64_t k, const Shape& shape, DType dtype, Device& device) {
  const int64_t n = numel_of(shape);
  if (is_complex(dtype)) {
    std::vector<c128> v;
    for (int64_t p = 0; p < n; ++p)
      v.push_back({double(fill_value(p, k)), double(fill_value(p, k + 5))});
    return cast(Tensor::from(v, shape, device), dtype);
  }
  std::vector<int64_t> v;
  for (int64_t p = 0; p < n; ++p) v.push_back(fill_value(p, k));
  return cast(Tensor::from(v, shape, device), dtype);
}
Tensors operands(const Json& c, DType dtype, Device& device, int64_t offset = 0) {
  Tensors out;
  for (const Shape& s : shapes_of(c))
    out.push_back(fill(int64_t(out.size()) + offset, s, dtype, device));
  return out;
}

std::vector<c128> elements(const Tensor& x) {
  if (is_complex(x.dtype())) return x.detach().to_vector<c128>();
  std::vector<c128> out;
  if (x.dtype() == DType::i64)
    for (int64_t v : x.detach().to_vector<int64_t>()) out.push_back({double(v), 0});
  else
    for (double v : x.detach().to_vector<double>()) out.push_back({v, 0});
  return out;
}
c128 weighted_sum(const Tensor& x, bool weighted = true) {
  c128 sum{0, 0};
  double q = 0;
  for (const c128& v : elements(x)) {
    const double w = weighted ? std::fmod(q, 97) + 1 : 1;
    sum = sum + c128{w * v.re, w * v.im};
    q += 1;
  }
  return sum;
}
// Re sum(conj(a) b)
double inner_product(const Tensor& a, const Tensor& b) {
  const auto x = elements(a), y = elements(b);
  REQUIRE(x.size() == y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i) sum += x[i].re * y[i].re + x[i].im * y[i].im;
  return sum;
}

struct Derivatives {
  Tensor value, cotangent, tangent;
  Tensors grads, directions;
  double dot_forward() const { return inner_product(cotangent, tangent); }
  double dot_reverse() const {
    double sum = 0;
    for (size_t k = 0; k < grads.size(); ++k) sum += inner_product(grads[k], directions[k]);
    return sum;
  }
};

Derivatives differentiate(const std::string& equation, const Tensors& given,
                          const Tensors& directions, Algebra algebra) {
  Derivatives d;
  d.directions = directions;
  Tensors leaves;
  for (const Tensor& x : given) leaves.push_back(x.detach().set_requires_grad());
  d.value = einsum(equation, leaves, algebra);
  d.cotangent = fill(int64_t(given.size()), d.value.sizes(), d.value.dtype(), d.value.device());
  d.grads = grad({d.value}, leaves, {d.cotangent});
  ForwardLevel level;
  Tensors dual;
  for (size_t k = 0; k < given.size(); ++k) {
    dual.push_back(given[k].detach());
    level.set_tangent(dual[k], directions[k]);
  }
  d.tangent = einsum(equation, dual, algebra).tangent();
  return d;
}

bool same(const c128& x, const Json& pair) { return x.re == pair[0] && x.im == pair[1]; }

void check_standard(const Json& c, const Derivatives& d) {
  CHECK(d.value.sizes() == shape_of(c["output_shape"]));
  CHECK(weighted_sum(d.value, false).re == c["sum"]);
  CHECK(weighted_sum(d.value).re == c["weighted_sum"]);
  for (size_t k = 0; k < d.grads.size(); ++k) {
    CHECK(d.grads[k].sizes() == shape_of(c["shapes"][k]));
    CHECK(weighted_sum(d.grads[k], false).re == c["grad_sum"][k]);
    CHECK(weighted_sum(d.grads[k]).re == c["grad_weighted_sum"][k]);
  }
  CHECK(weighted_sum(d.tangent).re == c["jvp_weighted_sum"]);
  CHECK(d.dot_forward() == c["dot"]);
  CHECK(d.dot_reverse() == c["dot"]);
}

void check_complex(const Json& c, const Derivatives& d) {
  CHECK(same(weighted_sum(d.value), c["weighted_sum"]));
  for (size_t k = 0; k < d.grads.size(); ++k)
    CHECK(same(weighted_sum(d.grads[k]), c["grad_weighted_sum"][k]));
  CHECK(same(weighted_sum(d.tangent), c["jvp_weighted_sum"]));
  CHECK(d.dot_forward() == c["re_dot"]);
  CHECK(d.dot_reverse() == c["re_dot"]);
}

template <class F>
void for_each_case(F&& f) {
  const Json file = read_cases();
  if (file.is_null()) return;
  for (Device* device : devices())
    for (const Json& c : file["cases"]) {
      if (test::small_sizes() && c["id"].get<int>() % 4 != 1) continue;
      const std::string equation = c["equation"];
      INFO(device->name(), " case ", c["id"].dump(), " \"", equation, "\" ", c["shapes"].dump());
      f(c, equation, *device);
    }
}

std::string refusal(const std::string& equation, const std::vector<Shape>& shapes) {
  Tensors xs;
  for (const Shape& s : shapes) xs.push_back(Tensor::zeros(s, DType::f64));
  try {
    einsum(equation, xs);
  } catch (const Error& e) {
    CHECK(e.op() == "einsum");
    CHECK((e.kind() == ErrorKind::value || e.kind() == ErrorKind::shape));
    return e.what();
  }
  return "not refused";
}

void check_contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("einsum cases: values and derivatives, exactly") {
  for_each_case([](const Json& c, const std::string& equation, Device& device) {
    check_standard(c, differentiate(equation, operands(c, DType::f64, device),
                                    operands(c, DType::f64, device, 10), Algebra::standard));
    check_complex(c["complex"],
                  differentiate(equation, operands(c, DType::c128, device),
                                operands(c, DType::c128, device, 10), Algebra::standard));
  });
}

TEST_CASE("einsum cases: integers") {
  for_each_case([](const Json& c, const std::string& equation, Device& device) {
    const Tensor y = einsum(equation, operands(c, DType::i64, device));
    CHECK(y.dtype() == DType::i64);
    CHECK(weighted_sum(y).re == c["weighted_sum"]);
    CHECK(einsum(equation, operands(c, DType::i32, device)).dtype() == DType::i32);
  });
}

TEST_CASE("einsum cases: tropical algebras, values and the dot identity, exactly") {
  for_each_case([](const Json& c, const std::string& equation, Device& device) {
    for (const Algebra algebra :
         {Algebra::max_plus, Algebra::min_plus, Algebra::max_times, Algebra::min_times}) {
      const std::string key = algebra == Algebra::max_plus   ? "maxplus_weighted_sum"
                              : algebra == Algebra::min_plus ? "minplus_weighted_sum"
                                                             : "";
      INFO(algebra_name(algebra));
      Tensors in = operands(c, DType::f64, device);
      if (!sums_alone(algebra))  // of more than two a negative one is refused
        for (Tensor& x : in) x = abs(x);
      const Derivatives d =
          differentiate(equation, in, operands(c, DType::f64, device, 10), algebra);
      if (c.contains(key)) {
        CHECK(weighted_sum(d.value).re == c[key]);
        CHECK(weighted_sum(einsum(equation, operands(c, DType::i64, device), algebra)).re ==
              c[key]);
      }
      CHECK(d.dot_forward() == d.dot_reverse());
    }
  });
}

TEST_CASE("einsum: what must be refused, each by name") {
  // The file's reasons, and what our message says.
  const std::map<std::string, std::string> expected{
      {"no operands", "no operands"},
      {"more operands than terms", "more operands than terms"},
      {"more subscripts than dimensions", "operand 0 of shape (2,) has 1 axis, but its subscripts"},
      {"malformed ellipsis", "malformed ellipsis: expected \"...\" (position 0"},
      {"malformed ellipsis in the output", "malformed ellipsis: expected \"...\" (position 3"},
      {"stray dot after an ellipsis in the output",
       "malformed ellipsis: expected \"...\" (position 7"},
      {"invalid character", "invalid character '$'; labels are letters (position 4"},
      {"invalid subscript at index 0", "invalid character '1'; labels are letters (position 0"},
      {"output label not in any input", "output label \"j\" is in no input (position 4"},
      {"output label repeated", "output label \"a\" is repeated (position 4"},
      {"repeated label with different sizes", "label \"i\" is 2 and 3 within operand 0"},
      {"label b is 4 and 6: the message must name b, not c (numpy gh-11221)",
       "label \"b\" is 4 and 6 within operand 0 (axes 2 and 4"},
      {"label a is 2 and 3", "label \"a\" is 2 in operand 0 and 3 in operand 1"},
      {"zero subscripts for a rank-1 operand and no ellipsis", "add \"...\" for the others"},
      {"two subscripts and an ellipsis for a rank-1 operand",
       "has 1 axis, but its subscripts \"ai...\""},
  };
  const Json file = read_cases();
  if (!file.is_null())
    for (const Json& c : file["must_be_rejected"]) {
      INFO(c.dump());
      const auto it = expected.find(c["reason"]);
      check_contains(refusal(c["equation"], shapes_of(c)), it == expected.end() ? "?" : it->second);
    }
  check_contains(refusal("ij,jk->ik", {{2, 3}}), "fewer operands than terms");
  check_contains(refusal("i->i->i", {{2}}), "a second arrow (position 4");
  check_contains(refusal("i-i", {{2}}), "malformed arrow: expected \"->\" (position 1");
  check_contains(refusal("...i...", {{2}}), "a second ellipsis in one term (position 4");
  check_contains(refusal("i->i,", {{2}}), "a comma in the output (position 4");
  check_contains(refusal("i\xc3", {{2}}), "invalid character byte 0xc3");
  check_contains(refusal("ii", {{1, 3}}), "label \"i\" is 1 and 3 within operand 0");
  check_contains(refusal("...,...", {{2, 3}, {4, 3}}),
                 "axis -2 of the ellipsis is 2 in operand 0 and 4 in operand 1");
}

TEST_CASE("einsum: without a sum one operand gives a view") {
  for (Device* device : devices()) {
    const std::vector<std::pair<std::string, Shape>> cases{{"ij", {2, 3}},
                                                           {"ji", {2, 3}},
                                                           {"ii->i", {3, 3}},
                                                           {"...ii->...i", {2, 3, 3}},
                                                           {"jii->ij", {2, 3, 3}},
                                                           {"iii->i", {3, 3, 3}},
                                                           {"ijk->jik", {2, 3, 4}},
                                                           {"...", {2, 3}},
                                                           {"i...j->j...i", {2, 1, 3}},
                                                           {"ab->ba", {1, 4}},
                                                           {"iijj->ij", {2, 2, 3, 3}},
                                                           {"", {}},
                                                           {"ij->ji", {0, 3}}};
    for (const auto& c : cases) {
      const auto& [equation, shape] = c;
      INFO(c.first);
      const Tensor x = fill(0, shape, DType::f32, *device);
      const Tensor y = einsum(equation, {x});
      CHECK(&y.storage() == &x.storage());
      CHECK_FALSE(y.same_body(x));
    }
    const Tensor x = fill(0, {2, 3, 3}, DType::f64, *device);
    CHECK(einsum("jii->ij", {x}).strides() == Shape{4, 9});
    CHECK(&einsum("ij->i", {fill(0, {2, 1}, DType::f64, *device)}).storage() != &x.storage());
  }
}

TEST_CASE("einsum: broadcasting of extents 1, numbers, promotion") {
  for (Device* device : devices()) {
    DeviceScope scope(*device);
    const Tensor a = Tensor::from<double>({1, 2, 3}, {3, 1}),
                 b = Tensor::from<double>({1, 10}, {1, 2});
    CHECK(einsum("ij,ij->ij", {a, b}).to_vector<double>() ==
          std::vector<double>{1, 10, 2, 20, 3, 30});
    CHECK(einsum("ij,ij->", {a, b}).item() == 66);
    CHECK(einsum("ij,ij->i", {a, b}).sizes() == Shape{3});
    CHECK(einsum("i,->i", {Tensor::from<float>({1, 2}, {2}), Tensor(3.0)}).dtype() == DType::f32);
    CHECK(einsum("i,i->", {Tensor::from<int64_t>({1, 2}, {2}), Tensor::from<float>({2, 2}, {2})})
              .item() == 6);
  }
}

TEST_CASE("einsum: empty sums are the algebra's zero, and their derivatives exist") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::pair<Algebra, double> zeros[] = {{Algebra::standard, 0},
                                              {Algebra::max_plus, -inf},
                                              {Algebra::min_plus, inf},
                                              {Algebra::max_times, 0},
                                              {Algebra::min_times, inf}};
  for (Device* device : devices())
    for (const auto& pair : zeros) {
      const auto& [algebra, zero] = pair;
      INFO(algebra_name(pair.first));
      const Tensor x = Tensor::zeros({2, 0}, DType::f64, *device).set_requires_grad();
      const Tensor y = Tensor::zeros({0, 3}, DType::f64, *device).set_requires_grad();
      const Tensor n = Tensor::zeros({2, 0}, DType::i64, *device);
      CHECK(einsum("ij->i", {n}, algebra).to_vector<int64_t>() ==
            std::vector<int64_t>(2, zero == inf    ? INT64_MAX
                                    : zero == -inf ? INT64_MIN
                                                   : 0));
      CHECK(einsum("ij->i", {x}, algebra).to_vector<double>() == std::vector<double>(2, zero));
      const Tensor z = einsum("ij,jk->ik", {x, y}, algebra);
      CHECK(z.to_vector<double>() == std::vector<double>(6, zero));
      const Tensors g = grad({z}, {x, y}, {Tensor::full({2, 3}, 1, DType::f64, *device)});
      CHECK(g[0].sizes() == Shape{2, 0});
      CHECK(g[1].sizes() == Shape{0, 3});
      CHECK(einsum("ij,kl->jl", {x, x}, algebra).numel() == 0);
    }
}

TEST_CASE(
    "einsum: max-times over two operands with negative factors is the maximum over all terms") {
  for (Device* device : devices()) {
    const Tensor a = Tensor::from<double>({-3, 2}, {2}, *device);
    const Tensor b = Tensor::from<double>({-5, 1}, {2}, *device);
    CHECK(einsum("i,j->", {a, b}, Algebra::max_times).item() == 15);
    CHECK(einsum("i,j->j", {a, b}, Algebra::max_times).to_vector<double>() ==
          std::vector<double>{15, 2});
  }
}

TEST_CASE("einsum: ties go to the first winner") {
  for (Device* device : devices()) {
    Tensor x = Tensor::from<double>({1, 4, 4, 4}, {4}, *device);
    x.set_requires_grad();
    const Tensors g = grad({einsum("i->", {x}, Algebra::max_plus)}, {x});
    CHECK(g[0].to_vector<double>() == std::vector<double>{0, 1, 0, 0});
  }
}

TEST_CASE("einsum: second derivatives") {
  for (Device* device : devices()) {
    Tensor a = fill(0, {2, 3}, DType::f64, *device), b = fill(1, {3, 2}, DType::f64, *device);
    a.set_requires_grad();
    b.set_requires_grad();
    const Tensor y = einsum("ij,jk,kl->il", {a, b, a});
    const Tensors g = grad({sum(y)}, {a}, {}, {.create_graph = true});
    const Tensors h = grad({sum(mul(g[0], a))}, {b});
    // sum(y) is of degree 2 in a and 1 in b, so <grad_a, a> = 2 sum(y), and its slope in b is twice
    // y's.
    const Tensors direct = grad({sum(einsum("ij,jk,kl->il", {a, b, a}))}, {b});
    CHECK(sum(mul(g[0], a)).item() == 2 * sum(y).item());
    CHECK(h[0].to_vector<double>() == mul(direct[0], 2.0).to_vector<double>());
  }
}

TEST_CASE("einsum is an op of the list") {
  const OpInfo& op = get_op("einsum");
  CHECK(op.group == "contraction");
  CHECK_FALSE(op.primitive);
  const Tensor a = Tensor::from<double>({1, 2, 3, 4}, {2, 2});
  CHECK(op.call(Tensors{a, a}, {"ij,jk->", "standard"})[0].item() == 54);
  CHECK(op.call(Tensors{a, a}, {"ij,jk->", "max-plus"})[0].item() == 8);
  CHECK_THROWS_WITH_AS(op.call(Tensors{a}, {"ij->", "maxplus"}),
                       join("einsum: unknown algebra \"maxplus\"; write ", algebra_words(),
                            "; did you mean \"max-plus\"?")
                           .c_str(),
                       Error);
}

TEST_CASE("the program: from files to files") {
  const Json file = read_cases();
  if (file.is_null()) return;
  const auto folder =
      std::filesystem::temp_directory_path() / ("gradus_einsum_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto name = [&](const std::string& stem) { return (folder / (stem + ".npy")).string(); };
  const std::set<int> chosen{1, 27, 61, 97, 259};
  int ran = 0;
  for (const Json& c : file["cases"]) {
    if (!chosen.count(c["id"].get<int>())) continue;
    INFO(c["equation"].dump());
    Device& device = open_device("cpu");
    const Tensors xs = operands(c, DType::f64, device);
    std::string command = std::string(GRADUS_PROGRAM) + " contract --device cpu --json --einsum " +
                          c["equation"].dump() + " --in";
    std::string grads = " --grads";
    for (size_t k = 0; k < xs.size(); ++k) {
      write_npy(name(join("x", k)), xs[k]);
      command += " " + name(join("x", k));
      grads += " " + name(join("d", k));
    }
    write_npy(name("g"), fill(int64_t(xs.size()), shape_of(c["output_shape"]), DType::f64, device));
    command +=
        " --out " + name("y") + " --cotangent " + name("g") + grads + " > " + name("log") + " 2>&1";
    const int status = std::system(command.c_str());
    const std::string log = read_file(name("log"));
    INFO(command, "\n", log);
    CHECK(status == 0);
    Derivatives d;
    d.value = read_npy(name("y"));
    CHECK(d.value.sizes() == shape_of(c["output_shape"]));
    CHECK(weighted_sum(d.value).re == c["weighted_sum"]);
    for (size_t k = 0; k < xs.size(); ++k)
      CHECK(weighted_sum(read_npy(name(join("d", k)))).re == c["grad_weighted_sum"][k]);
    const size_t last = log.rfind("\n", log.size() - 2);
    const Json result = parse_json(log.substr(last == std::string::npos ? 0 : last + 1), "result");
    CHECK(result["event"] == "result");
    CHECK(result["expression"] == c["equation"]);
    CHECK(result["device"] == "cpu");
    CHECK(result["path"].size() == xs.size() - 1);
    ++ran;
  }
  CHECK(ran > 0);
  std::filesystem::remove_all(folder);
}
