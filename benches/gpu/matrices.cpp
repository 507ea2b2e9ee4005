// Factors and spectra of matrices, block-sparse tensors. PyTorch's side of blocks is the
// contraction of dense tensors, and the products of their sectors one by one.
#include "benches/block_chains.hpp"
#include "benches/gpu/frame.hpp"
#include "engine/random.hpp"
#include "ops/blocks/contraction.hpp"
#include "ops/ops.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace gradus::inline v1::bench::gpu {

namespace {

struct Factor {
  const char* name;
  void (*call)(const Tensor& a);
  bool batched = true;
};
constexpr Factor kFactors[] = {
    {"cholesky", [](const Tensor& a) { cholesky(a); }},
    {"lu_factor", [](const Tensor& a) { lu_factor(a); }},
    {"solve", [](const Tensor& a) { solve(a, a); }},
    {"qr", [](const Tensor& a) { qr(a); }},
    {"eigh", [](const Tensor& a) { eigh(a); }},
    {"svd", [](const Tensor& a) { svd(a, false); }},
};

// Symmetric, positive definite.
Tensor regular(const Shape& shape, DType dtype) {
  const Tensor x = uniform(shape, -1, 1, dtype);
  const auto n = double(shape.back());
  return matmul(x, transpose(x, -2, -1)) + diag(arange(1, n + 1, 1, dtype));
}

void factor(Bench& b, const Factor& f, const char* type, const Shape& shape) {
  const DType dtype = std::string_view(type) == "f32" ? DType::f32 : DType::f64;
  const std::vector<int64_t> sizes(shape.begin(), shape.end());
  b.row(fmt::format("{} {} {}", f.name, type, fmt::join(sizes, "x")),
        {{"work", f.name},
         {"group", std::string("linalg ") + (shape.size() > 2 ? "batches" : type)},
         {"dtype", type},
         {"sizes", sizes}},
        0, 0, [&]() -> Call { return [a = regular(shape, dtype), call = f.call] { call(a); }; });
}

BlockTensor drawn(const std::vector<Leg>& legs) {
  const BlockStructure structure = structure_of(legs);
  return {uniform({structure.elements()}, -1, 1, DType::f64), structure};
}
Sectors widened(Sectors sectors, int64_t factor) {
  for (Sector& s : sectors) s.size *= factor;
  return sectors;
}

}  // namespace

void factors(Bench& b) {
  for (const char* type : {"f32", "f64"})
    for (const int64_t n : b.sizes.matrices)
      for (const Factor& f : kFactors) factor(b, f, type, {n, n});
  for (const Factor& f : kFactors) {
    factor(b, f, "f64", b.sizes.small ? Shape{3, 4, 4} : Shape{200, 8, 8});
    factor(b, f, "f64", b.sizes.small ? Shape{2, 5, 5} : Shape{200, 32, 32});
  }
}

// Two sites of a chain of spins, made one.
void block_tensors(Bench& b) {
  for (const int64_t factor :
       b.sizes.small ? std::vector<int64_t>{1} : std::vector<int64_t>{1, 4}) {
    const Bonds& bonds = b.sizes.small ? kBonds[0] : kBonds[3];
    const Sectors left = widened(bonds.left, factor), middle = widened(bonds.middle, factor),
                  right = widened(bonds.right, factor);
    const std::vector<Leg> of_x{{left, 1}, {kSpin, 1}, {middle, -1}},
        of_y{{middle, 1}, {kSpin, 1}, {right, -1}};
    const Theta theta(left, middle, right);
    Json products = Json::array();
    for (const gd_block_product& p : theta.table) products.push_back({p.m, p.n, p.k});
    const std::string name = fmt::format("theta, bond {}", states_of(left));
    const auto make = [&]() -> Call {
      return [x = drawn(of_x), y = drawn(of_y)] {
        contract(x, {0, 1, 2}, y, {2, 3, 4}, {0, 1, 3, 4});
      };
    };
    b.row(name + ", dense",
          {{"work", "einsum"},
           {"group", "blocks against dense"},
           {"dtype", "f64"},
           {"equation", "apb,bqc->apqc"},
           {"sizes",
            {{"a", states_of(left)},
             {"p", 2},
             {"b", states_of(middle)},
             {"q", 2},
             {"c", states_of(right)}}}},
          0, theta.table.flops, make);
    b.row(name + ", by sector",
          {{"work", "products"},
           {"group", "blocks against sectors"},
           {"dtype", "f64"},
           {"sizes", products}},
          0, theta.table.flops, make);
  }
}

}  // namespace gradus::bench::gpu
