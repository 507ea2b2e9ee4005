#include "ops/blocks/block_copy.hpp"

#include "engine/batch.hpp"
#include "engine/kernel_call.hpp"
#include "ops/base/dtypes.hpp"
#include "ops/base/registry.hpp"
#include "ops/blocks/plan_cache.hpp"
#include "ops/def/grouped.h"
#include "ops/pointwise/pointwise.hpp"
#include "ops/shape/memory.hpp"
#include "ops/shape/views.hpp"

#include <algorithm>
#include <memory>

namespace gradus::inline v1 {

namespace {

const OpInfo* copy_info;
enum { kSize, kTable, kFrom, kTo, kWhat };

// The table, as the slot takes it: {add, rank, then each block}.
constexpr size_t kHead = 2;
size_t entry_size(int64_t rank) { return size_t(3 + 3 * rank); }

Ints table_of(const std::vector<StridedBlock>& blocks, Covers to) {
  const int64_t rank = blocks.empty() ? 0 : int64_t(blocks[0].sizes.size());
  Ints t;
  t.reserve(kHead + blocks.size() * entry_size(rank));
  t.push_back(to == Covers::several);
  t.push_back(rank);
  for (const StridedBlock& b : blocks) {
    t.push_back(b.sign);
    t.push_back(b.from);
    t.push_back(b.to);
    for (const Shape* s : {&b.sizes, &b.from_strides, &b.to_strides})
      t.append(s->data(), s->size());
  }
  return t;
}

// ---- shorter lists

// Without axes of one index; neighbours that step as one in both buffers are one.
StridedBlock joined(const StridedBlock& b) {
  StridedBlock j{b.sign, b.from, b.to, {}, {}, {}};
  for (size_t d = 0; d < b.sizes.size(); ++d) {
    if (b.sizes[d] == 1) continue;
    const size_t last = j.sizes.size() - 1;  // of none: not looked at
    if (!j.sizes.empty() && j.from_strides[last] == b.from_strides[d] * b.sizes[d] &&
        j.to_strides[last] == b.to_strides[d] * b.sizes[d]) {
      j.sizes[last] *= b.sizes[d];
      j.from_strides[last] = b.from_strides[d];
      j.to_strides[last] = b.to_strides[d];
    } else {
      j.sizes.push_back(b.sizes[d]);
      j.from_strides.push_back(b.from_strides[d]);
      j.to_strides.push_back(b.to_strides[d]);
    }
  }
  return j;
}

// Runs of blocks that are alike and evenly apart become blocks with one more axis.
std::vector<StridedBlock> with_runs_joined(const std::vector<StridedBlock>& blocks) {
  std::vector<StridedBlock> out;
  for (size_t i = 0; i < blocks.size();) {
    const StridedBlock& b = blocks[i];
    const auto alike = [&](const StridedBlock& o) {
      return o.sign == b.sign && o.sizes == b.sizes && o.from_strides == b.from_strides &&
             o.to_strides == b.to_strides;
    };
    int64_t from = 0, to = 0;
    size_t end = i + 1;
    for (; end < blocks.size() && alike(blocks[end]); ++end) {
      const int64_t by = blocks[end].from - blocks[end - 1].from,
                    by_to = blocks[end].to - blocks[end - 1].to;
      if (by < 0 || by_to < 0 || (end > i + 1 && (by != from || by_to != to))) break;
      from = by;
      to = by_to;
    }
    out.push_back(b);
    if (end > i + 1) {
      out.back().sizes.insert(0, int64_t(end - i));
      out.back().from_strides.insert(0, from);
      out.back().to_strides.insert(0, to);
      out.back() = joined(out.back());
    }
    i = end;
  }
  return out;
}

// The same copies in fewer blocks, all of one rank. Lists that add keep their order.
std::vector<StridedBlock> shortened(std::vector<StridedBlock> blocks, bool adds) {
  std::erase_if(blocks, [](const StridedBlock& b) { return numel_of(b.sizes) == 0; });
  for (StridedBlock& b : blocks) {
    if (b.sign == 0) {
      b.from = 0;
      b.from_strides = Shape(b.sizes.size(), 0);
    }
    b = joined(b);
  }
  if (!adds)
    std::stable_sort(blocks.begin(), blocks.end(),
                     [](const StridedBlock& a, const StridedBlock& b) { return a.to < b.to; });
  for (size_t before = blocks.size() + 1; blocks.size() < before;) {
    before = blocks.size();
    blocks = with_runs_joined(blocks);
  }
  size_t rank = 0;
  for (const StridedBlock& b : blocks) rank = std::max(rank, b.sizes.size());
  for (StridedBlock& b : blocks)
    while (b.sizes.size() < rank) {
      b.sizes.insert(0, 1);
      b.from_strides.insert(0, 0);
      b.to_strides.insert(0, 0);
    }
  return blocks;
}

// What a list is the other way round.
const char* reversed_name(std::string_view what) {
  constexpr const char* kPairs[][2] = {
      {"fuse", "split"}, {"to_dense", "from_dense"}, {"pack", "unpack"}};
  for (const auto& [one, other] : kPairs) {
    if (what == one) return other;
    if (what == other) return one;
  }
  return nullptr;
}

// Attributes of the list the other way round. Blocks of zeros have nothing to give back.
Attrs reversed(const Attrs& attrs, int64_t from_size) {
  const Ints& t = attrs[kTable].integers;
  const auto rank = size_t(t[1]), each = entry_size(t[1]);
  Ints r;
  r.reserve(t.size());
  r.push_back(attrs[kFrom].integer == int64_t(Covers::several));
  r.push_back(t[1]);
  bool zeros = false;
  for (size_t i = kHead; i < t.size(); i += each) {
    const int64_t* const e = t.data() + i;
    if (e[0] == 0) {
      zeros = true;
      continue;
    }
    for (const int64_t x : {e[0], e[2], e[1]}) r.push_back(x);
    r.append(e + 3, rank);
    r.append(e + 3 + 2 * rank, rank);
    r.append(e + 3 + rank, rank);
  }
  const bool whole = attrs[kTo].integer == int64_t(Covers::all);
  const char* const name = reversed_name(attrs[kWhat].text);
  return {from_size, std::move(r),
          AttrValue(zeros && whole ? int64_t(Covers::some) : attrs[kTo].integer), attrs[kFrom],
          name ? AttrValue(name) : attrs[kWhat]};
}

SharedAttrs kept_reverse(const SharedAttrs& attrs, int64_t from_size) {
  thread_local const auto kept = std::make_unique<DerivedAttrs>();
  return kept->get(attrs, from_size, [](const SharedAttrs& of, int64_t size) {
    const Structures s = Noted::of(of);
    return Noted::attrs(reversed(*of, size), {s[1], s[0]});
  });
}

// One copy for each block, where the device has no slot for all.
void copy_one_by_one(const Tensor& x, const Tensor& y, const Ints& t) {
  const auto rank = size_t(t[1]);
  for (size_t i = kHead; i < t.size(); i += entry_size(t[1])) {
    const int64_t* const e = t.data() + i;
    const Shape sizes(e + 3, e + 3 + rank), from(e + 3 + rank, e + 3 + 2 * rank),
        to(e + 3 + 2 * rank, e + 3 + 3 * rank);
    if (numel_of(sizes) == 0) continue;
    const Tensor source = x.alias(sizes, from, x.offset() + e[1]);
    const Tensor block = e[0] < 0 ? neg(source) : source;
    if (t[0]) {  // sums over strides of 0: element by element of them
      Shape kept = sizes, summed;
      std::vector<size_t> axes;
      for (size_t d = 0; d < rank; ++d)
        if (to[d] == 0 && sizes[d] > 1) {
          axes.push_back(d);
          summed.push_back(sizes[d]);
          kept[d] = 1;
        }
      for (int64_t n = 0; n < numel_of(summed); ++n) {
        int64_t at = block.offset(), left = n;
        for (size_t d = axes.size(); d-- > 0; left /= summed[d])
          at += left % summed[d] * block.strides()[axes[d]];
        const Tensor part = block.alias(kept, block.strides(), at);
        const Tensor into = y.alias(kept, to, y.offset() + e[2]);
        copy_values(add(into, part), into);
      }
    } else if (e[0] == 0) {
      fill_values(y.alias(sizes, to, y.offset() + e[2]), 0, 0);
    } else {
      copy_values(block, y.alias(sizes, to, y.offset() + e[2]));
    }
  }
}

void forward(OpContext& ctx) {
  // Ledger and errors say what it is for: "to_dense", "permute".
  const char* const what = ctx.attrs[kWhat].text;
  const CurrentOp now(*what ? what : ctx.op.name.c_str());
  const Tensor& x = ctx.inputs[0];
  const Ints& table = ctx.attrs[kTable].integers;
  const int64_t size = ctx.attrs[kSize].integer;
  const bool whole = ctx.attrs[kTo].integer == int64_t(Covers::all);
  const Tensor y = whole ? Tensor::empty({size}, x.dtype(), x.device())
                         : Tensor::zeros({size}, x.dtype(), x.device());
  if (table.size() > kHead && size > 0) {
    if (x.device().offers(GD_GROUPED)) {
      KernelCall(GD_GROUPED, GD_BLOCK_COPIES)
          .integers({table.data(), table.size()})
          .in(x)
          .out(y)
          .run();
    } else {
      NoGrad off;
      copy_one_by_one(x.detach(), y, table);
    }
  }
  ctx.outputs.push_back(y);
}

Tensor call(const Tensor& x, const SharedAttrs& attrs) {
  return apply(*copy_info, {&x, 1}, *attrs, &attrs)[0];
}

Cost cost(const OpContext& ctx) {
  const Ints& t = ctx.attrs[kTable].integers;
  double n = 0;
  for (size_t i = kHead; i < t.size(); i += entry_size(t[1])) {
    double block = 1;
    for (int64_t d = 0; d < t[1]; ++d) block *= double(t[i + 3 + size_t(d)]);
    n += block;
  }
  return {0, 2 * n * double(itemsize(ctx.inputs[0].dtype()))};
}

// Of a list that somebody else wrote.
void check_table(const Tensor& x, const Attrs& a) {
  const char* const op = "block_copy";
  const Ints& t = a[kTable].integers;
  if (x.rank() != 1) fail(ErrorKind::shape, op, "x has shape ", x.sizes(), ", expected one axis");
  if (a[kSize].integer < 0) fail(ErrorKind::value, op, "size is ", a[kSize].integer);
  for (const int k : {kFrom, kTo})
    if (a[size_t(k)].integer < 0 || a[size_t(k)].integer > 2)
      fail(ErrorKind::value, op, k == kFrom ? "covers_x" : "covers_y", " is ", a[size_t(k)].integer,
           ", expected 0 (all elements), 1 (some) or 2 (some several times)");
  if (t.size() < kHead || t[1] < 0 || t[1] > 64 || (t.size() - kHead) % entry_size(t[1]))
    fail(ErrorKind::value, op,
         "blocks is {add, rank, then for each block sign, offsets in x and y, sizes, strides in x "
         "and in y}");
  const auto rank = size_t(t[1]);
  if ((t[0] == 1) != (a[kTo].integer == int64_t(Covers::several)) || (t[0] | 1) != 1)
    fail(ErrorKind::value, op, "add is ", t[0], "; it is 1 where covers_y is 2, else 0");
  for (size_t i = kHead; i < t.size(); i += entry_size(t[1])) {
    const int64_t* const e = t.data() + i;
    __extension__ typedef __int128 Wide;
    Wide last[2] = {e[1], e[2]};
    bool empty = false;
    for (size_t d = 0; d < rank; ++d) {
      const int64_t n = e[3 + d];
      empty |= n == 0;
      for (size_t side = 0; side < 2; ++side) {
        const int64_t stride = e[3 + (1 + side) * rank + d];
        if (n < 0 || stride < 0)
          fail(ErrorKind::value, op, "block ", (i - kHead) / entry_size(t[1]),
               " has a negative size or stride");
        last[side] += Wide(stride) * (n - 1);
      }
    }
    if (e[0] < -1 || e[0] > 1) fail(ErrorKind::value, op, "a sign is ", e[0]);
    if (!empty && (e[1] < 0 || e[2] < 0 || last[0] >= x.numel() || last[1] >= a[kSize].integer))
      fail(ErrorKind::index, op, "block ", (i - kHead) / entry_size(t[1]), " leaves x (", x.numel(),
           " elements) or y (", a[kSize].integer, ")");
  }
}

// How blocks of a user's list cover a buffer: side 0 x, 1 y. The engine's own lists know it.
Covers coverage(const Ints& t, int64_t size, size_t side) {
  const auto rank = size_t(t[1]);
  std::vector<uint8_t> named(size_t(size), 0);
  bool several = false;
  double work = 0;
  for (size_t i = kHead; i < t.size(); i += entry_size(t[1])) {
    const int64_t* const e = t.data() + i;
    if (side == 0 && e[0] == 0) continue;
    const Shape sizes(e + 3, e + 3 + rank);
    double n = 1;
    for (const int64_t s : sizes) n *= double(s);
    if ((work += n) > 1e9)
      fail(ErrorKind::memory, "block_copy", "the blocks name more than 1e9 elements");
    Shape at(rank, 0);
    for (int64_t left = int64_t(n); left > 0; --left) {
      int64_t place = e[1 + side];
      for (size_t d = 0; d < rank; ++d) place += at[d] * e[3 + (1 + side) * rank + d];
      several |= named[size_t(place)]++ > 0;
      for (size_t d = rank; d-- > 0 && ++at[d] == sizes[d];) at[d] = 0;
    }
  }
  if (several) return Covers::several;
  return std::find(named.begin(), named.end(), 0) == named.end() ? Covers::all : Covers::some;
}
// A user's call, with the coverage counted.
Attrs counted(const Tensor& x, Attrs a) {
  check_table(x, a);
  const Ints& t = a[kTable].integers;
  const Covers from = coverage(t, x.numel(), 0), to = coverage(t, a[kSize].integer, 1);
  if (to == Covers::several && t[0] == 0)
    fail(ErrorKind::value, "block_copy", "blocks name an element of y twice; add = 1 sums them");
  a[kFrom] = int64_t(from);
  a[kTo] = int64_t(t[0] ? Covers::several : to);
  return a;
}

// All examples at once: each block has the batch as its first axis.
Outputs batch(const BatchCall& c) {
  const Tensor& x = c.in[0];
  const int64_t examples = x.size(0), n = x.size(1), size = c.attrs[kSize].integer;
  const Ints& t = c.attrs[kTable].integers;
  const auto rank = size_t(t[1]);
  Ints all;
  all.push_back(t[0]);
  all.push_back(t[1] + 1);
  for (size_t i = kHead; i < t.size(); i += entry_size(t[1])) {
    const int64_t* const e = t.data() + i;
    all.append(e, 3);
    all.push_back(examples);
    all.append(e + 3, rank);
    all.push_back(e[0] == 0 ? 0 : n);
    all.append(e + 3 + rank, rank);
    all.push_back(size);
    all.append(e + 3 + 2 * rank, rank);
  }
  const Tensor y =
      apply1(*copy_info, {contiguous(reshape(x, {examples * n}))},
             {examples * size, std::move(all), c.attrs[kFrom], c.attrs[kTo], c.attrs[kWhat]});
  return reshape(y, {examples, size});
}

}  // namespace

BlockCopies::BlockCopies(std::string_view what, const std::vector<StridedBlock>& blocks,
                         const Side& from, const Side& to)
    : from_size_(from.size),
      attrs_(Noted::attrs(
          Attrs{to.size, table_of(shortened(blocks, to.covers == Covers::several), to.covers),
                int64_t(from.covers), int64_t(to.covers), AttrValue(what)},
          {to.structure, from.structure})) {}

Tensor BlockCopies::operator()(const Tensor& x) const { return call(contiguous(x), attrs_); }
Tensor BlockCopies::transposed(const Tensor& y) const {
  return call(contiguous(y), kept_reverse(attrs_, from_size_));
}

void register_block_copy() {
  OpInfo o = new_op(
      "block_copy", "blocks", "strided blocks of x, put into a buffer of zeros",
      "y = 0; for each block: y[offset_y + i * strides_y] (+)= sign * x[offset_x + i * strides_x]",
      {{"x"}},
      {int_attr("size", "elements of y"),
       ints_attr("blocks",
                 "add, rank; of each block: sign, offset in x, in y, sizes, strides in x, in y"),
       int_attr("covers_x", 1,
                "0: blocks name each element of x once, 1: some, 2: some several times"),
       int_attr("covers_y", 1, "the same of y; 2: sums"), text_attr("what", "", "what it is for")});
  o.forward = forward;
  o.vjp = [](GradFn& node, size_t, std::span<const Tensor> g) {
    return call(contiguous(g[0]),
                kept_reverse(node.shared_attrs(), node.input_metas()[0].sizes[0]));
  };
  o.jvp = [](GradFn& node, size_t, std::span<const Tensor> t) {
    return call(contiguous(t[0]), node.shared_attrs());
  };
  o.cost = cost;
  o.batch = batch;
  o.call = [](Operands in, const Attrs& a) {
    return apply1(*copy_info, {contiguous(in[0])}, counted(in[0], a));
  };
  copy_info = &add_op(std::move(o));
}

}  // namespace gradus
