// Block-sparse tensors through the C door.
#include "tests/helpers/c_door.hpp"
#include "tests/helpers/program_helpers.hpp"

#include <algorithm>
#include <array>
#include <doctest/doctest.h>
#include <numeric>

namespace c_door {

TEST_CASE("c blocks: a contraction, its gradient and a decomposition, beside the dense tensors") {
  const std::vector<int64_t> u1{0}, charges{-1, 0, 1}, sizes{1, 2, 1};
  const gradus_leg out_leg{sizeof(gradus_leg), 1, 3, charges.data(), sizes.data()},
      in_leg{sizeof(gradus_leg), -1, 3, charges.data(), sizes.data()};
  const gradus_leg legs[] = {out_leg, in_leg};
  const int64_t neutral = 0;
  Own blocks;
  ok(gradus_blocks_new(u1.data(), 1, nullptr, 0, legs, 2, &neutral, blocks.out()));
  gradus_blocks_info info{sizeof info, 0, 0, 0};
  ok(gradus_blocks_describe(blocks, &info));
  CHECK(info.n_legs == 2);
  CHECK(info.n_blocks == 3);
  CHECK(info.elements == 6);
  int64_t sectors[2], extents[2], offset = -1;
  ok(gradus_blocks_block(blocks, 1, sectors, extents, &offset));
  CHECK(sectors[0] == 1);
  CHECK(extents[1] == 2);
  CHECK(offset == 1);

  const Own a = leaf({2, 1, 2, 3, 4, 5}, {6}), b = tensor({1, 0, 1, 1, 0, 2}, {6});
  const gradus_blocks both[] = {blocks, blocks};
  const gradus_tensor numbers[] = {a, b};
  Own c_blocks, c, dense, back, sum;
  ok(gradus_blocks_einsum("ij,jk->ik", both, numbers, 2, c_blocks.out(), c.out()));
  CHECK(values(c) == Doubles{2, 2, 1, 4, 3, 10});
  ok(gradus_blocks_to_dense(c_blocks, c, dense.out()));
  CHECK(values(dense) == Doubles{2, 0, 0, 0, 0, 2, 1, 0, 0, 4, 3, 0, 0, 0, 0, 10});
  ok(gradus_blocks_from_dense(c_blocks, dense, 0, back.out()));
  CHECK(values(back) == values(c));
  ok(gradus_sum(c, nullptr, 0, 0, sum.out()));
  const gradus_tensor roots[] = {sum};
  ok(gradus_backward(roots, nullptr, 1, 0));
  Own g;
  ok(gradus_grad(a, g.out()));
  CHECK(values(g) == Doubles{1, 1, 1, 1, 1, 2});

  const int64_t rows = 0;
  gradus_blocks of[2] = {0, 0};
  gradus_tensor factors[3] = {0, 0, 0};
  ok(gradus_blocks_svd(blocks, b, &rows, 1, 2, 0, of, factors));
  const Own left_blocks(of[0]), right_blocks(of[1]), left(factors[0]), kept(factors[1]),
      right(factors[2]);
  CHECK(shape_of(kept) == Shape64{2});
  // The bond that the cut left: b's largest two values, 2 of charge 1 and 1 of charge 0 or -1.
  int32_t arrow = 0;
  size_t n_sectors = 0;
  ok(gradus_blocks_leg(right_blocks, 0, &arrow, &n_sectors, nullptr, nullptr));
  CHECK(arrow == 1);
  std::vector<int64_t> bond(n_sectors), kept_sizes(n_sectors);
  ok(gradus_blocks_leg(right_blocks, 0, &arrow, &n_sectors, bond.data(), kept_sizes.data()));
  CHECK(std::accumulate(kept_sizes.begin(), kept_sizes.end(), int64_t(0)) == 2);
  CHECK(std::find(bond.begin(), bond.end(), 1) != bond.end());
  CHECK(gradus_blocks_leg(right_blocks, 2, &arrow, &n_sectors, nullptr, nullptr) == GRADUS_INDEX);
  int64_t total = 7;
  ok(gradus_blocks_charge(right_blocks, &total));
  CHECK(total == 0);

  // conj and permute: <b|b>, and the transpose.
  Own bra_blocks, bra, norm_blocks, norm, turned_blocks, turned;
  ok(gradus_blocks_conj(blocks, b, bra_blocks.out(), bra.out()));
  const gradus_blocks bra_ket[] = {bra_blocks, blocks};
  const gradus_tensor bra_ket_numbers[] = {bra, b};
  ok(gradus_blocks_einsum("ij,ij->", bra_ket, bra_ket_numbers, 2, norm_blocks.out(), norm.out()));
  CHECK(values(norm) == Doubles{7});
  const int64_t turn[] = {1, 0};
  ok(gradus_blocks_permute(blocks, a, turn, 2, turned_blocks.out(), turned.out()));
  CHECK(values(turned) == Doubles{2, 1, 3, 2, 4, 5});
  ok(gradus_blocks_leg(turned_blocks, 0, &arrow, &n_sectors, nullptr, nullptr));
  CHECK(arrow == -1);
  CHECK(n_sectors == 3);
  const int64_t wrong[] = {0, 0};
  CHECK(gradus_blocks_permute(blocks, a, wrong, 2, turned_blocks.out(), turned.out()) != GRADUS_OK);
  CHECK(gradus_blocks_to_dense(blocks, kept, dense.out()) == GRADUS_SHAPE);
  const std::string why = gradus_last_error_text();
  CHECK(why.find("have 6 elements") != std::string::npos);
}

TEST_CASE("c blocks: legs fused and split, factors by sector, files") {
  const std::vector<int64_t> u1{0}, charges{0, 1}, sizes{1, 2};
  const gradus_leg ket{sizeof(gradus_leg), 1, 2, charges.data(), sizes.data()},
      bra{sizeof(gradus_leg), -1, 2, charges.data(), sizes.data()};
  const gradus_leg legs[] = {ket, bra};
  const int64_t neutral = 0, rows = 0;
  Own blocks;
  ok(gradus_blocks_new(u1.data(), 1, nullptr, 0, legs, 2, &neutral, blocks.out()));
  const Own h = tensor({7, 2, 1, 1, 2}, {5});  // 7, and [[2, 1], [1, 2]] in charge 1

  Own one_blocks, one, two_blocks, two;
  ok(gradus_blocks_fuse(blocks, h, 0, 2, -1, one_blocks.out(), one.out()));
  gradus_blocks_info info{sizeof info, 0, 0, 0};
  ok(gradus_blocks_describe(one_blocks, &info));
  CHECK(info.n_legs == 1);
  CHECK(info.elements == 5);
  ok(gradus_blocks_split(one_blocks, one, 0, two_blocks.out(), two.out()));
  CHECK(values(two) == values(h));
  CHECK(gradus_blocks_split(blocks, h, 0, two_blocks.out(), two.out()) == GRADUS_VALUE);
  CHECK(gradus_blocks_fuse(blocks, h, 1, 2, 1, two_blocks.out(), two.out()) != GRADUS_OK);

  gradus_blocks of[2] = {0, 0};
  gradus_tensor factors[3] = {0, 0, 0};
  ok(gradus_blocks_eigh(blocks, h, &rows, 1, of, factors));
  {
    const Own left_blocks(of[0]), right_blocks(of[1]), left(factors[0]), found(factors[1]),
        right(factors[2]);
    const Doubles eigenvalues = values(found);
    REQUIRE(eigenvalues.size() == 3);
    for (size_t k = 0; k < 3; ++k)
      CHECK(eigenvalues[k] == doctest::Approx(std::array{7.0, 1.0, 3.0}[k]));
  }
  ok(gradus_blocks_qr(blocks, h, &rows, 1, of, factors));
  const Own q_blocks(of[0]), r_blocks(of[1]), q(factors[0]), r(factors[1]);
  const gradus_blocks both[] = {q_blocks, r_blocks};
  const gradus_tensor numbers[] = {q, r};
  Own back_blocks, back;
  ok(gradus_blocks_einsum("ij,jk->ik", both, numbers, 2, back_blocks.out(), back.out()));
  for (size_t k = 0; k < 5; ++k) CHECK(values(back)[k] == doctest::Approx(values(h)[k]));
  const int64_t twice[] = {0, 0};
  CHECK(gradus_blocks_qr(blocks, h, twice, 2, of, factors) != GRADUS_OK);

  const gradus::test::TempFolder folder;
  const std::string path = folder.path() + "/both.safetensors";
  const char* const names[] = {"q", "h"};
  const gradus_blocks described[] = {q_blocks, blocks};
  const gradus_tensor written[] = {q, h};
  ok(gradus_blocks_write(path.c_str(), names, described, written, 2));
  Own read_blocks, read;
  ok(gradus_blocks_read(path.c_str(), "h", read_blocks.out(), read.out()));
  CHECK(values(read) == values(h));
  int32_t arrow = 0;
  size_t n_sectors = 0;
  ok(gradus_blocks_leg(read_blocks, 1, &arrow, &n_sectors, nullptr, nullptr));
  CHECK(arrow == -1);
  refused_with(gradus_blocks_read(path.c_str(), "g", read_blocks.out(), read.out()), GRADUS_VALUE,
               "there is no block tensor \"g\"");
  refused_with(gradus_blocks_read((path + "x").c_str(), "g", read_blocks.out(), read.out()),
               GRADUS_IO, path);
  const char* const same[] = {"h", "h"};
  CHECK(gradus_blocks_write(path.c_str(), same, described, written, 2) != GRADUS_OK);
  ok(gradus_blocks_read(path.c_str(), "q", read_blocks.out(), read.out()));  // as it was
}

}  // namespace c_door
