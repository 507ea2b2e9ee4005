// libtorch as a device, where LIBTORCH says where one is; and what is said where there is none.
#include "gradus_paths.hpp"
#include "engine/config/device_config.hpp"
#include "engine/config/loader.hpp"
#include "ops/contract/einsum.hpp"
#include "tests/helpers/kinds.hpp"
#include "tests/helpers/helpers.hpp"
#include "tests/helpers/program_helpers.hpp"
#include "tests/helpers/texts.hpp"

#include <cstdlib>
#include <filesystem>

using namespace gradus;
using namespace gradus::testing;
using gradus::test::check_has;
using gradus::test::Copies;
using gradus::test::TempFolder;

namespace {

bool built() {
  const bool there = std::filesystem::exists(std::string(GRADUS_LIB_DIR) + "/gradus_torch.so");
  if (!there) MESSAGE("skipped: gradus_torch.so was not built");
  return there;
}

Device* torch_device() {
  if (!built()) return nullptr;
  if (!std::getenv("LIBTORCH")) {
    MESSAGE("skipped: LIBTORCH names no libtorch");
    return nullptr;
  }
  return open_configured(parse_device_config(R"({"device": "torch", "fallback": "error"})")).device;
}

// Numbers of a dtype, by a rule.
Tensor numbers(Shape sizes, DType dtype, int seed, Device& device) {
  std::vector<double> out(size_t(numel_of(sizes)));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = double((int64_t(i) * 37 + seed * 11) % 23 - 11) / 8;
  const NoGrad off;
  Tensor x = Tensor::from(out, sizes);
  if (is_complex(dtype)) x = mul(x, Tensor::full({}, {1, 0.5}, DType::c128));
  return to_device(cast(x, dtype), device);
}

void check_near(const Tensor& got, const Tensor& wanted, double tolerance) {
  REQUIRE(got.sizes() == wanted.sizes());
  REQUIRE(got.dtype() == wanted.dtype());
  Device& host = open_device("reference");
  const NoGrad off;
  const Tensor difference = abs(sub(cast(to_device(got.detach(), host), DType::c128),
                                    cast(to_device(wanted.detach(), host), DType::c128)));
  CHECK(values(amax(difference))[0] <= tolerance);
}

}  // namespace

TEST_CASE("torch: contractions of every dtype and their gradients, against the reference") {
  Device* const torch = torch_device();
  if (!torch) return;
  Device& reference = open_device("reference");
  check_has(torch->libraries(), "libtorch 2.");
  const std::pair<DType, double> dtypes[] = {{DType::f32, 1e-5},  {DType::f64, 1e-13},
                                             {DType::c64, 1e-5},  {DType::c128, 1e-13},
                                             {DType::bf16, 0.04}, {DType::f16, 0.01}};
  for (const char* equation :
       {"ij,jk->ik", "bij,bjk->bik", "ij,jk->ki", "ij,ij->", "i,j->ij", "ijk,jl->il", "ij,k->i"})
    for (const auto& [of, tolerance] : dtypes) {
      const DType dtype = of;  // clang lets no lambda capture a structured binding
      CAPTURE(equation);
      CAPTURE(dtype_name(dtype));
      const auto run = [&](Device& d, Tensors& grads) {
        const std::string text = equation;
        const size_t comma = text.find(','), arrow = text.find("->");
        const Tensor a = leaf(numbers(Shape(comma, 4), dtype, 1, d)),
                     b = leaf(numbers(Shape(arrow - comma - 1, 4), dtype, 2, d));
        const Tensor y = einsum(equation, {a, b});
        backward({y}, {numbers(y.sizes(), dtype, 3, d)});
        grads = {a.grad(), b.grad()};
        return y;
      };
      Tensors got, wanted;
      const Tensor y = run(*torch, got), z = run(reference, wanted);
      CHECK(&y.device() == torch);
      check_near(y, z, tolerance);
      for (size_t k = 0; k < 2; ++k) check_near(got[k], wanted[k], 4 * tolerance);
    }
}

TEST_CASE("torch: alpha, beta, bias, conjugates and a statement in one call; reversed views") {
  Device* const torch = torch_device();
  if (!torch) return;
  for (const DType dtype : {DType::f64, DType::c128}) {
    const auto run = [&](Device& d) {
      const Tensor a = numbers({3, 4}, dtype, 1, d), b = numbers({4, 5}, dtype, 2, d),
                   bias = numbers({5}, dtype, 3, d), c = numbers({3, 5}, dtype, 4, d);
      // The second operand and the output run downwards along their last axis.
      const int64_t sizes[] = {3, 5, 4}, of_a[] = {4, 0, 1}, of_b[] = {0, -1, 5}, of_c[] = {5, -1},
                    of_bias[] = {0, 1};
      const auto view = [](const Tensor& t, int rank, int64_t offset, const int64_t* n,
                           const int64_t* strides) {
        return gd_view{t.storage().buffer_id(),
                       t.storage().data(),
                       int32_t(t.dtype()),
                       rank,
                       offset,
                       n,
                       strides};
      };
      const gd_view in[] = {view(a, 3, 0, sizes, of_a), view(b, 3, 4, sizes, of_b),
                            view(bias, 2, 0, sizes, of_bias)},
                    out = view(c, 2, 4, sizes, of_c);
      const bool complex = is_complex(dtype);
      const double doubles[] = {0.5, complex ? 2.0 : 0, -1, complex ? 0.25 : 0};
      const int64_t ints[] = {2, GD_STANDARD, 1, 0, get_op("tanh").statement};
      gd_call call{};
      call.struct_size = sizeof call;
      call.slot = GD_CONTRACT;
      call.n_in = 3;
      call.n_out = 1;
      call.n_doubles = 4;
      call.n_ints = 5;
      call.in = in;
      call.out = &out;
      call.doubles = doubles;
      call.ints = ints;
      d.run(call);
      return c;
    };
    check_near(run(*torch), run(open_device("reference")), 1e-12);
  }
}

TEST_CASE("torch: native and torch tensors meet in a contraction, at most a copy for each native") {
  Device* const torch = torch_device();
  if (!torch) return;
  Device& native = default_device();
  const Tensor a = leaf(numbers({4, 6}, DType::f32, 1, native)),
               far_a = leaf(numbers({4, 6}, DType::f32, 1, *torch)),
               b = leaf(numbers({6, 3}, DType::f32, 2, *torch));
  const auto copies_of = [&](const Tensor& x, const Tensor& y) {
    const Copies copies(*torch, native);
    CHECK(&matmul(x, y).device() == torch);
    return copies.count();
  };
  CHECK(copies_of(far_a, b) == 0);
  CHECK(copies_of(far_a, transpose(transpose(b, 0, 1), 0, 1)) == 0);
  CHECK(copies_of(a, b) == 1);
  CHECK(copies_of(transpose(b, 0, 1), transpose(a, 0, 1)) == 1);
  backward(sum(matmul(a, b)));
  backward(sum(matmul(far_a, b)));
  CHECK(&a.grad().device() == &native);
  check_near(a.grad(), far_a.grad(), 1e-5);
  check_has(error_of([&] { add(a, far_a); }), "operands live on ");
}

TEST_CASE("torch: where no libtorch is, it says where it looked and how to name one") {
  if (!built()) return;
  const TempFolder folder;
  const auto said = [&](const std::string& device, const std::string& environment) {
    const auto r = gradus::test::run(folder, "check --op add --device " + device, environment);
    CHECK(r.code != 0);
    return r.out + r.err;
  };
  const std::string none = said("torch:0", "-u LIBTORCH");
  check_has(none, "found no libtorch: the process has no libtorch_cpu.so");
  check_has(none, "\"libraries\": {\"torch\": PATH}");
  check_has(none, "LIBTORCH is not set");
  check_has(said("torch", "LIBTORCH=/no/where"), "LIBTORCH: /no/where: cannot open");
  check_has(said("'{\"device\": \"torch\", \"libraries\": {\"torch\": \"lib/x\"}}'", "-u LIBTORCH"),
            "libraries.torch: " + folder.path() + "/lib/x: cannot open");
  check_has(said("'{\"device\": \"torch\", \"libraries\": {\"torch\": \"off\"}}'", ""),
            "write \"auto\" or a path");
  // A library that is another one.
  check_has(said("torch", "LIBTORCH=" + std::string(GRADUS_LIB_DIR) + "/gradus_reference.so"),
            "which libtorch has since 2.11");
  CHECK(gradus::test::run(folder, "devices", "-u LIBTORCH").code == 0);
}
