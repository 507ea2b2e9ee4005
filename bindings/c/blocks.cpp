// Block-sparse tensors: descriptions as handles, numbers as tensors.
#include "ops/blocks/contraction.hpp"
#include "ops/blocks/factors.hpp"
#include "ops/blocks/file.hpp"

#include "bindings/c/door.hpp"

#include <algorithm>

using namespace gradus;
using namespace gradus::c;

namespace {

constexpr size_t kMostSectors = 1 << 20, kMostOperands = 1 << 10;

struct Described : Object {
  explicit Described(BlockStructure s) : structure(std::move(s)) {}
  BlockStructure structure;
};

gradus_blocks new_blocks(BlockStructure s) {
  return new_handle(Kind::blocks, std::make_shared<Described>(std::move(s)));
}
const BlockStructure structure_at(gradus_blocks blocks) {
  return object_at<Described>(Kind::blocks, blocks)->structure;
}
template <class List>
List list_at(const int64_t* numbers, size_t n, const char* name) {
  const auto all = array(numbers, n, name, kMostSectors);
  return List(all.begin(), all.end());
}

Leg leg_at(const Symmetry& g, const gradus_leg* given, size_t k) {
  const gradus_leg leg = struct_at(given + k, "gradus_leg");
  const size_t each = g.mods.size();
  const auto sizes = array(leg.sizes, leg.n_sectors, "legs[k].sizes", kMostSectors);
  const auto charges = array(leg.charges, leg.n_sectors * each, "legs[k].charges", kMostSectors);
  std::vector<Sector> sectors;
  for (size_t i = 0; i < leg.n_sectors; ++i)
    sectors.push_back(
        {Charge(charges.begin() + int64_t(i * each), charges.begin() + int64_t((i + 1) * each)),
         sizes[i]});
  return Leg(g, leg.arrow, sectors);
}

BlockTensor blocks_at(gradus_blocks blocks, gradus_tensor numbers, Argument argument) {
  BlockTensor x{tensor_of(numbers, argument), structure_at(blocks)};
  if (!(x.data.sizes() == Shape{x.structure.elements()}))
    throw Refusal{GRADUS_SHAPE, join("the numbers have shape ", to_text(x.data.sizes()),
                                     ", the blocks have ", x.structure.elements(), " elements")};
  return x;
}

// A block tensor as the handle of its numbers; that of its description goes to *out_blocks.
gradus_tensor numbers_of(BlockTensor y, gradus_blocks* out_blocks) {
  const gradus_tensor made = handle_of(std::move(y.data));
  *out_blocks = new_blocks(std::move(y.structure));
  return made;
}
// Description and numbers in, description and numbers out.
template <class F>
gradus_status moved(const char* name, gradus_blocks blocks, gradus_tensor numbers,
                    gradus_blocks* out_blocks, gradus_tensor* out, F move) {
  return result(name, out, [&] {
    need(out_blocks, "out_blocks");
    return numbers_of(move(blocks_at(blocks, numbers, "numbers")), out_blocks);
  });
}
template <bool WithValues = true, class F>
gradus_status factored(const char* name, gradus_blocks blocks, gradus_tensor numbers,
                       const int64_t* rows, size_t n_rows, gradus_blocks* out_blocks,
                       gradus_tensor* out, F factors) {
  return door(name, [&] {
    need(out_blocks, "out_blocks");
    need(out, "out");
    const BlockFactors f =
        factors(blocks_at(blocks, numbers, "numbers"), list_at<Ints>(rows, n_rows, "rows"));
    std::vector<Tensor> found{f.left.data};
    if (WithValues) found.push_back(f.values);
    found.push_back(f.right.data);
    give(found, out);
    out_blocks[0] = new_blocks(f.left.structure);
    out_blocks[1] = new_blocks(f.right.structure);
  });
}

}  // namespace

gradus_status gradus_blocks_new(const int64_t* mods, size_t n_mods, const int64_t* parity,
                                size_t n_parity, const gradus_leg* legs, size_t n_legs,
                                const int64_t* charge, gradus_blocks* out) {
  return result("gradus_blocks_new", out, [&] {
    const Symmetry g{list_at<Ints>(mods, n_mods, "mods"),
                     list_at<Ints>(parity, n_parity, "parity")};
    g.check("blocks");
    Legs all;
    for (size_t k = 0; k < array(legs, n_legs, "legs", GRADUS_MAX_DIMS).size(); ++k)
      all.push_back(leg_at(g, legs, k));
    return new_blocks(BlockStructure(g, all, list_at<Charge>(charge, n_mods, "charge")));
  });
}

gradus_status gradus_blocks_describe(gradus_blocks blocks, gradus_blocks_info* out) {
  return door("gradus_blocks_describe", [&] {
    const BlockStructure s = structure_at(blocks);
    gradus_blocks_info info{};
    info.n_legs = uint32_t(s.rank());
    info.n_blocks = s.count();
    info.elements = s.elements();
    give_struct(out, info, "gradus_blocks_info");
  });
}

gradus_status gradus_blocks_block(gradus_blocks blocks, size_t block, int64_t* sectors,
                                  int64_t* sizes, int64_t* offset) {
  return door("gradus_blocks_block", [&] {
    const BlockStructure s = structure_at(blocks);
    need(offset, "offset");
    if (block >= s.count()) throw Refusal{GRADUS_INDEX, join("block ", block, " of ", s.count())};
    for (size_t i = 0; i < s.rank(); ++i) {
      if (sectors) sectors[i] = s.at(block)[i];
      if (sizes) sizes[i] = s.sizes(block)[i];
    }
    *offset = s.offset(block);
  });
}

gradus_status gradus_blocks_leg(gradus_blocks blocks, size_t leg, int32_t* arrow, size_t* n_sectors,
                                int64_t* charges, int64_t* sizes) {
  return door("gradus_blocks_leg", [&] {
    const BlockStructure s = structure_at(blocks);
    need(arrow, "arrow");
    need(n_sectors, "n_sectors");
    if (leg >= s.rank()) throw Refusal{GRADUS_INDEX, join("leg ", leg, " of ", s.rank())};
    const Leg& of = s.legs()[leg];
    for (const Sector& sector : of.sectors()) {
      if (charges) charges = std::copy(sector.charge.begin(), sector.charge.end(), charges);
      if (sizes) *sizes++ = sector.size;
    }
    *arrow = of.arrow();
    *n_sectors = of.count();
  });
}

gradus_status gradus_blocks_charge(gradus_blocks blocks, int64_t* charge) {
  return door("gradus_blocks_charge", [&] {
    const BlockStructure s = structure_at(blocks);
    std::copy(s.charge().begin(), s.charge().end(), &need(charge, "charge"));
  });
}

gradus_status gradus_blocks_permute(gradus_blocks blocks, gradus_tensor numbers,
                                    const int64_t* dims, size_t n_dims, gradus_blocks* out_blocks,
                                    gradus_tensor* out) {
  return moved("gradus_blocks_permute", blocks, numbers, out_blocks, out, [&](BlockTensor x) {
    return permute(x, list_at<Ints>(dims, n_dims, "dims"), Crossing::signs);
  });
}

gradus_status gradus_blocks_conj(gradus_blocks blocks, gradus_tensor numbers,
                                 gradus_blocks* out_blocks, gradus_tensor* out) {
  return moved("gradus_blocks_conj", blocks, numbers, out_blocks, out,
               [](BlockTensor x) { return conj(x); });
}

gradus_status gradus_blocks_fuse(gradus_blocks blocks, gradus_tensor numbers, int64_t dim,
                                 int64_t n, int32_t arrow, gradus_blocks* out_blocks,
                                 gradus_tensor* out) {
  return moved("gradus_blocks_fuse", blocks, numbers, out_blocks, out,
               [&](BlockTensor x) { return fuse(x, dim, n, arrow); });
}

gradus_status gradus_blocks_split(gradus_blocks blocks, gradus_tensor numbers, int64_t dim,
                                  gradus_blocks* out_blocks, gradus_tensor* out) {
  return moved("gradus_blocks_split", blocks, numbers, out_blocks, out,
               [&](BlockTensor x) { return split(x, dim); });
}

gradus_status gradus_blocks_to_dense(gradus_blocks blocks, gradus_tensor numbers,
                                     gradus_tensor* out) {
  return result("gradus_blocks_to_dense", out,
                [&] { return handle_of(to_dense(blocks_at(blocks, numbers, "numbers"))); });
}

gradus_status gradus_blocks_from_dense(gradus_blocks blocks, gradus_tensor dense, double tolerance,
                                       gradus_tensor* out) {
  return result("gradus_blocks_from_dense", out, [&] {
    return handle_of(from_dense(tensor_of(dense, "dense"), structure_at(blocks), tolerance).data);
  });
}

gradus_status gradus_blocks_einsum(const char* equation, const gradus_blocks* blocks,
                                   const gradus_tensor* numbers, size_t n,
                                   gradus_blocks* out_blocks, gradus_tensor* out) {
  return result("gradus_blocks_einsum", out, [&] {
    need(out_blocks, "out_blocks");
    const auto described = array(blocks, n, "blocks", kMostOperands);
    const auto given = array(numbers, n, "numbers", kMostOperands);
    std::vector<BlockTensor> operands;
    for (size_t k = 0; k < n; ++k)
      operands.push_back(blocks_at(described[k], given[k], {"numbers", k}));
    return numbers_of(einsum(&need(equation, "equation"), operands), out_blocks);
  });
}

gradus_status gradus_blocks_svd(gradus_blocks blocks, gradus_tensor numbers, const int64_t* rows,
                                size_t n_rows, int64_t rank, double cutoff,
                                gradus_blocks out_blocks[2], gradus_tensor out[3]) {
  return factored("gradus_blocks_svd", blocks, numbers, rows, n_rows, out_blocks, out,
                  [&](const BlockTensor& x, const Ints& left) {
                    Truncation cut;
                    cut.rank = rank;
                    cut.rtol = cutoff;
                    cut.whole_multiplets = false;
                    return svd(x, left, cut, TakesCharge::right);
                  });
}

gradus_status gradus_blocks_qr(gradus_blocks blocks, gradus_tensor numbers, const int64_t* rows,
                               size_t n_rows, gradus_blocks out_blocks[2], gradus_tensor out[2]) {
  return factored<false>(
      "gradus_blocks_qr", blocks, numbers, rows, n_rows, out_blocks, out,
      [](const BlockTensor& x, const Ints& left) { return qr(x, left, true, TakesCharge::right); });
}

gradus_status gradus_blocks_eigh(gradus_blocks blocks, gradus_tensor numbers, const int64_t* rows,
                                 size_t n_rows, gradus_blocks out_blocks[2], gradus_tensor out[3]) {
  return factored("gradus_blocks_eigh", blocks, numbers, rows, n_rows, out_blocks, out,
                  [](const BlockTensor& x, const Ints& left) { return eigh(x, left); });
}

gradus_status gradus_blocks_write(const char* path, const char* const* names,
                                  const gradus_blocks* blocks, const gradus_tensor* numbers,
                                  size_t n) {
  return door("gradus_blocks_write", [&] {
    const auto named = array(names, n, "names", kMostOperands);
    const auto described = array(blocks, n, "blocks", kMostOperands);
    const auto given = array(numbers, n, "numbers", kMostOperands);
    std::vector<NamedBlocks> all;
    for (size_t k = 0; k < n; ++k)
      all.push_back(
          {&need(named[k], "names[k]"), blocks_at(described[k], given[k], {"numbers", k})});
    write_blocks(&need(path, "path"), all);
  });
}

gradus_status gradus_blocks_read(const char* path, const char* name, gradus_blocks* out_blocks,
                                 gradus_tensor* out) {
  return result("gradus_blocks_read", out, [&] {
    need(out_blocks, "out_blocks");
    const std::string wanted = &need(name, "name");
    std::vector<std::string> names;
    for (NamedBlocks& one : read_blocks(&need(path, "path"))) {
      if (one.name == wanted) return numbers_of(std::move(one.tensor), out_blocks);
      names.push_back(one.name);
    }
    throw Refusal{GRADUS_VALUE, join(path, ": there is no block tensor \"", wanted, "\"",
                                     did_you_mean(wanted, names))};
  });
}
