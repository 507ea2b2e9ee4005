#include "ops/blocks/block_tensor.hpp"

#include "engine/arithmetic.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/shape.hpp"
#include "ops/blocks/block_copy.hpp"
#include "ops/blocks/moves.hpp"
#include "ops/contract/contraction.hpp"
#include "ops/index/indexing.hpp"
#include "ops/pointwise/pointwise.hpp"
#include "ops/reduce/reductions.hpp"
#include "ops/reduce/norms.hpp"
#include "ops/shape/join.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <cmath>
#include <map>
#include <mutex>

namespace gradus::inline v1 {

// ---- to and from numbers

BlockTensor with_data(const BlockTensor& x, Tensor data) { return {std::move(data), x.structure}; }

BlockTensor zeros_of(const BlockStructure& structure, DType dtype, Device& device) {
  return {Tensor::zeros({structure.elements()}, dtype, device), structure};
}

void check_buffer(const char* op, const BlockTensor& x) {
  if (x.data.rank() != 1 || x.data.numel() != x.structure.elements())
    fail(ErrorKind::shape, op, "the numbers of a block tensor have shape ", x.data.sizes(),
         ", its structure takes ", Shape{x.structure.elements()});
}

namespace {

// Blocks of a packed buffer and where they lie in the dense tensor.
MovedRef dense_moves(const BlockStructure& s) {
  return moves("to_dense", s, {}, [&] {
    std::vector<StridedBlock> list;
    const Shape dense = contiguous_strides(s.dense_sizes());
    for (size_t b = 0; b < s.count(); ++b) {
      StridedBlock block{1, s.offset(b), 0, s.sizes(b), contiguous_strides(s.sizes(b)), dense};
      for (size_t i = 0; i < s.rank(); ++i)
        block.to += s.legs()[i].start(size_t(s.at(b)[i])) * dense[i];
      list.push_back(std::move(block));
    }
    const int64_t size = numel_of(s.dense_sizes());
    return Moved{s, BlockCopies("to_dense", list, {s, Covers::all},
                                {size, size == s.elements() ? Covers::all : Covers::some})};
  });
}

std::string charge_text(const BlockStructure& s) { return to_text(s.charge()); }

// The last leg of which another sector makes `at` a block: "; leg 1 would fit with sector 0 ...".
std::string nearest_fit(const BlockStructure& s, const Coordinates& at) {
  for (size_t i = s.rank(); i-- > 0;) {
    Coordinates other = at;
    const auto& sectors = s.legs()[i].sectors();
    for (size_t k = 0; k < sectors.size(); ++k) {
      other[i] = int32_t(k);
      if (s.find(other) >= 0)
        return join("; leg ", i, ", in its sector ", at[i], " of charge ",
                    to_text(sectors[size_t(at[i])].charge), ", would fit in sector ", k,
                    " of charge ", to_text(sectors[k].charge));
    }
  }
  return "; no other sector of one leg would fit";
}

void refuse_forbidden(const Tensor& x, const BlockStructure& s, double tolerance) {
  NoGrad off;
  if (!(tolerance >= 0))
    fail(ErrorKind::value, "from_dense", "the tolerance is ", tolerance, ", expected 0 or more");
  if (x.numel() == 0) return;
  const Tensor inside = to_dense({Tensor::full({s.elements()}, 1, DType::bool_, x.device()), s});
  const DType wide = is_complex(x.dtype()) ? DType::c128 : DType::f64;
  const Tensor rest =
      abs(cast(where(inside, Tensor::zeros({}, x.dtype(), x.device()), x.detach()), wide));
  const double largest = amax(rest).item();
  if (largest <= tolerance) return;
  int64_t at = argmax(reshape(rest, {-1})).item_integer();
  Shape index(s.rank(), 0);
  Coordinates sectors(s.rank(), 0);
  for (size_t i = s.rank(); i-- > 0; at /= s.legs()[i].size()) {
    index[i] = at % s.legs()[i].size();
    while (index[i] >=
           s.legs()[i].start(size_t(sectors[i])) + s.legs()[i].sectors()[size_t(sectors[i])].size)
      ++sectors[i];
  }
  fail(ErrorKind::value, "from_dense", "element ", index, " is ", largest,
       " in absolute value, but its charge is ", to_text(charge_at(s, sectors)),
       " and the tensor's is ", charge_text(s), nearest_fit(s, sectors),
       largest > 0 && tolerance == 0 ? "; a tolerance lets it be dropped" : "");
}

}  // namespace

Tensor to_dense(const BlockTensor& x) {
  return reshape(dense_moves(x.structure)->copies(x.data), x.structure.dense_sizes());
}

BlockTensor from_dense(const Tensor& x, const BlockStructure& structure, double tolerance) {
  if (!(x.sizes() == structure.dense_sizes()))
    fail(ErrorKind::shape, "from_dense", "x has shape ", x.sizes(), ", the legs have ",
         structure.dense_sizes());
  refuse_forbidden(x, structure, tolerance);
  return {dense_moves(structure)->copies.transposed(reshape(x, {-1})), structure};
}

size_t block_at(const char* op, const BlockStructure& s, const Coordinates& at) {
  if (at.size() != s.rank())
    fail(ErrorKind::index, op, at.size(), " sector numbers for a tensor with ", s.rank(), " legs");
  for (size_t i = 0; i < at.size(); ++i)
    if (at[i] < 0 || size_t(at[i]) >= s.legs()[i].count())
      fail(ErrorKind::index, op, "leg ", i, " has no sector ", at[i], ": it is ",
           s.legs()[i].text());
  const int64_t b = s.find(at);
  if (b < 0)
    fail(ErrorKind::value, op, "the charges of this block sum to ", to_text(charge_at(s, at)),
         ", the tensor's charge is ", charge_text(s), nearest_fit(s, at));
  return size_t(b);
}

Tensor get_block(const BlockTensor& x, const Coordinates& at) {
  const BlockStructure& s = x.structure;
  const size_t b = block_at("block", s, at);
  return reshape(slice(x.data, 0, s.offset(b), s.offset(b + 1)), s.sizes(b));
}

BlockTensor set_block(const BlockTensor& x, const Coordinates& at, const Tensor& block) {
  const BlockStructure& s = x.structure;
  const size_t b = block_at("set_block", s, at);
  if (!(block.sizes() == s.sizes(b)))
    fail(ErrorKind::shape, "set_block", "the block has shape ", block.sizes(),
         ", its sectors have ", s.sizes(b));
  const Tensor both[] = {x.data, block};
  if (result_dtype(both) != x.data.dtype())
    fail(ErrorKind::dtype, "set_block", "the block is ", block.dtype(),
         ", which does not fit into ", x.data.dtype());
  return with_data(
      x, cat({slice(x.data, 0, 0, s.offset(b)), cast(reshape(block, {-1}), x.data.dtype()),
              slice(x.data, 0, s.offset(b + 1), s.elements())},
             0));
}

// ---- number by number

namespace {

void check_alike(const char* op, const BlockTensor& x, const BlockTensor& y) {
  const BlockStructure &a = x.structure, &b = y.structure;
  for (const BlockTensor* t : {&x, &y}) check_buffer(op, *t);
  if (a == b) return;
  if (!(a.symmetry() == b.symmetry()))
    fail(ErrorKind::value, op, "tensors of ", a.symmetry().text(), " and of ", b.symmetry().text());
  if (a.rank() != b.rank())
    fail(ErrorKind::shape, op, "tensors with ", a.rank(), " and ", b.rank(), " legs");
  for (size_t i = 0; i < a.rank(); ++i) {
    const Leg &p = a.legs()[i], &q = b.legs()[i];
    if (p.arrow() != q.arrow() && !(p.is_neutral() && q.is_neutral()))
      fail(ErrorKind::value, op, "axis ", i, " has arrow ", p.arrow(), " in one and ", q.arrow(),
           " in the other");
    if (!p.parts().empty() && !q.parts().empty() && !(p == q) && p.has_sectors_of(q))
      fail(ErrorKind::value, op, "axis ", i,
           " was fused of other legs in one tensor than in the other: ", parts_text(p), " and ",
           parts_text(q));
    if (!p.has_sectors_of(q))
      fail(ErrorKind::shape, op, "axis ", i, " is ", p.text(), " and ", q.text());
  }
  if (!(a.charge() == b.charge()))
    fail(ErrorKind::value, op, "charges ", to_text(a.charge()), " and ", to_text(b.charge()),
         ": the sum would have two");
}

}  // namespace

BlockTensor add(const BlockTensor& x, const BlockTensor& y) {
  check_alike("add", x, y);
  return with_data(x, add(x.data, y.data));
}
BlockTensor sub(const BlockTensor& x, const BlockTensor& y) {
  check_alike("sub", x, y);
  return with_data(x, sub(x.data, y.data));
}
BlockTensor mul(const BlockTensor& x, const Tensor& number) {
  if (number.numel() != 1)
    fail(ErrorKind::shape, "mul", "a block tensor is multiplied by one number, got shape ",
         number.sizes(), " (scale multiplies along a leg)");
  return with_data(x, mul(x.data, number.rank() == 0 ? number : reshape(number, {1})));
}
BlockTensor neg(const BlockTensor& x) { return with_data(x, neg(x.data)); }

namespace {

// In absolute value. Known from the second time on, so that a step that is being recorded reads
// nothing.
double value_at_zero(const OpInfo& op, const Tensor& like) {
  static std::mutex mutex;
  static auto& known = *new std::map<const OpInfo*, double>;
  if (!op.user) {
    const std::lock_guard lock(mutex);
    if (const auto at = known.find(&op); at != known.end()) return at->second;
  }
  const NoGrad off;
  const Tensor zero[] = {Tensor::zeros({1}, like.dtype(), like.device())};
  const Tensor image = op.call(zero, op.completed({}))[0];
  const double value = cast(abs(image), DType::f64).item();
  if (op.user) return value;
  const std::lock_guard lock(mutex);
  return known.emplace(&op, value).first->second;
}

}  // namespace

BlockTensor map(const char* op, const BlockTensor& x) {
  const OpInfo& info = get_op(op);
  if (info.group != "pointwise" || info.least_operands() != 1)
    fail(ErrorKind::value, op, "only pointwise ops of one tensor go over blocks");
  if (const double at_zero = value_at_zero(info, x.data); at_zero != 0)
    fail(ErrorKind::value, op, op, "(0) is ", at_zero,
         ", so the result is dense; to_dense() makes the tensor dense, explicitly");
  const Tensor in[] = {x.data};
  return with_data(x, info.call(in, info.completed({}))[0]);
}

Tensor norm(const BlockTensor& x) { return norm(x.data); }
Tensor inner(const BlockTensor& x, const BlockTensor& y) {
  check_alike("inner", x, y);
  return sum(mul(conj(x.data), y.data));
}

BlockTensor scale(const BlockTensor& x, int64_t dim, const Tensor& numbers) {
  const BlockStructure& s = x.structure;
  const auto axis = size_t(normal_axis("scale", dim, int64_t(s.rank())));
  if (!(numbers.sizes() == Shape{s.legs()[axis].size()}))
    fail(ErrorKind::shape, "scale", "numbers have shape ", numbers.sizes(), ", axis ", axis,
         " has ", s.legs()[axis].size(), " indices");
  const MovedRef spread = moves("scale", s, {int64_t(axis)}, [&] {
    std::vector<StridedBlock> list;
    for (size_t b = 0; b < s.count(); ++b) {
      Shape from(s.rank(), 0);
      from[axis] = 1;
      list.push_back({1, s.legs()[axis].start(size_t(s.at(b)[axis])), s.offset(b), s.sizes(b), from,
                      contiguous_strides(s.sizes(b))});
    }
    return Moved{
        s, BlockCopies("scale", list, {s.legs()[axis].size(), Covers::several}, {s, Covers::all})};
  });
  return with_data(x, mul(x.data, spread->copies(numbers)));
}

// ---- texts

std::string summary(const BlockTensor& x, int64_t first) {
  return join(x.structure.text(first), "\n  ", x.data.dtype(), " on ", x.data.device().name());
}

std::string to_string(const BlockTensor& x, int64_t first) {
  const BlockStructure& s = x.structure;
  std::string text = summary(x, first);
  constexpr size_t kShown = 8;
  NoGrad off;
  for (size_t b = 0; b < s.count(); ++b) {
    if (s.count() > kShown && b == kShown / 2) {
      text += join("\n... ", s.count() - kShown, " more blocks");
      b = s.count() - kShown / 2;
    }
    text += "\nblock (";
    for (size_t i = 0; i < s.rank(); ++i)
      text += join(i ? ", " : "", to_text(s.legs()[i].sectors()[size_t(s.at(b)[i])].charge));
    text += join(")\n", get_block({x.data.detach(), s}, s.at(b)).to_string());
  }
  return text;
}

}  // namespace gradus
