// grouped: work on many blocks of whole buffers. Products stand in contract/block_products.cu.
// Copies travel as kernel parameters, so that a captured graph holds them; a thread makes one
// element of out, adding up all that its block gives to it. What blocks add to the same elements
// goes into launches that follow each other.
#include "kernels/gpu/walk.hpp"

#include <algorithm>
#include <vector>

namespace gradus::inline v1::gpu {
namespace {

struct Axis {
  Divisor divisor;  // of its size
  uint32_t from, to;
};
// First the axes that name elements of out, then those that are summed over; the last one first.
struct Block {
  int64_t from, to;
  uint32_t first;  // the number of its first element of out, in all of the launch
  uint32_t terms;  // of one element
  uint16_t axis, named, summed;
  int16_t sign;
};
constexpr int kMostBlocks = 40, kMostAxes = 128;
struct Blocks {
  Block at[kMostBlocks];
  Axis axes[kMostAxes];
  char *from, *to;
  uint32_t elements;
  int32_t count, used, dtype;
  bool add;

  __device__ const Block& block_of(uint32_t element) const {
    int b = 0;
    while (b + 1 < count && at[b + 1].first <= element) ++b;
    return at[b];
  }
  __device__ void places(uint32_t i, int first, int n, int64_t& from_at, int64_t& to_at) const {
    for (int d = first; d < first + n; ++d) {
      const uint32_t rest = axes[d].divisor.quotient(i), k = i - rest * axes[d].divisor.divisor;
      from_at += int64_t(k) * axes[d].from;
      to_at += int64_t(k) * axes[d].to;
      i = rest;
    }
  }
};

template <class E>
GPU_KERNEL move_blocks(Blocks blocks) {
  for (int64_t i = first_index(); i < blocks.elements; i += index_step()) {
    const Block& b = blocks.block_of(uint32_t(i));
    int64_t from = b.from, to = b.to;
    blocks.places(uint32_t(i) - b.first, b.axis, b.named, from, to);
    E* const out = reinterpret_cast<E*>(blocks.to) + to;
    if (b.sign != 0)
      *out = reinterpret_cast<const E*>(blocks.from)[from];
    else
      *out = E{};
  }
}

// T computes.
template <class T>
GPU_KERNEL add_blocks(Blocks blocks) {
  for (int64_t i = first_index(); i < blocks.elements; i += index_step()) {
    const Block& b = blocks.block_of(uint32_t(i));
    int64_t from = b.from, to = b.to;
    blocks.places(uint32_t(i) - b.first, b.axis, b.named, from, to);
    for (uint32_t k = 0; k < b.terms; ++k) {
      int64_t term = from, same = to;
      blocks.places(k, b.axis + b.named, b.summed, term, same);
      T x(0);
      if (b.sign != 0) x = load_near<T>(blocks.from, term, blocks.dtype);
      if (b.sign < 0) x = -x;
      if (blocks.add) x = load_near<T>(blocks.to, to, blocks.dtype) + x;
      store_near(blocks.to, to, blocks.dtype, x);
    }
  }
}

// A block on the host.
struct Plan {
  Block block{};
  std::vector<Axis> axes{};
  int64_t elements = 1;
  int64_t first = 0, last = 0;  // of what it writes

  Plan(const Call& call, const GroupedCall& g, int64_t job) {
    const BlockCopy c = g.copy(job);
    block.from = c.in;
    block.to = first = last = c.out;
    block.sign = int16_t(c.sign);
    std::vector<int> order;
    for (int d = g.rank - 1; d >= 0; --d) {
      elements *= c.sizes[d];
      last += (c.sizes[d] - 1) * c.out_by[d];
      if (c.sizes[d] != 1) order.push_back(d);
    }
    if (elements == 0) return;
    if (elements > kMostElements)
      call.refuse(GD_UNSUPPORTED, "job %lld: more than %lld elements", static_cast<long long>(job),
                  static_cast<long long>(kMostElements));
    // Neighbours in out are neighbouring threads; what is summed keeps its order.
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) {
      const int64_t a = c.out_by[x], b = c.out_by[y];
      return a != 0 && (b == 0 || a < b);
    });
    int64_t terms = 1;
    for (const int d : order) {
      const int64_t from = c.sign == 0 ? 0 : c.in_by[d], to = c.out_by[d];
      if (from > kMostElements || to > kMostElements)
        call.refuse(GD_UNSUPPORTED, "job %lld: a stride above %lld", static_cast<long long>(job),
                    static_cast<long long>(kMostElements));
      if (to == 0) terms *= c.sizes[d];
      const bool joins = !axes.empty() && (to == 0) == (axes.back().to == 0) &&
                         from == int64_t(axes.back().from) * axes.back().divisor.divisor &&
                         to == int64_t(axes.back().to) * axes.back().divisor.divisor;
      if (joins) {
        axes.back().divisor = Divisor(axes.back().divisor.divisor * uint32_t(c.sizes[d]));
        continue;
      }
      axes.push_back({Divisor(uint32_t(c.sizes[d])), uint32_t(from), uint32_t(to)});
      ++(to == 0 ? block.summed : block.named);
    }
    if (axes.size() > size_t(kMaxAxes))
      call.refuse(GD_UNSUPPORTED, "more than %d axes that can't be joined", kMaxAxes);
    block.terms = uint32_t(terms);
    elements /= terms;
  }
};

// The blocks of one launch.
class Launch {
 public:
  Launch(const Run& run, const GroupedCall& g) : run_(run) {
    blocks_.from = start_of(g.a);
    blocks_.to = start_of(g.out);
    blocks_.dtype = g.out.dtype;
    blocks_.add = g.add;
    for (int64_t job = 0; job < g.jobs; ++job) adds_ |= g.add || g.copy(job).sign < 0;
  }
  void take(const Plan& p) {
    if (!fits(p)) finish();
    Block& b = blocks_.at[blocks_.count];
    b = p.block;
    b.first = blocks_.elements;
    b.axis = uint16_t(blocks_.used);
    for (const Axis& axis : p.axes) blocks_.axes[blocks_.used++] = axis;
    reach_[blocks_.count++] = {p.first, p.last};
    blocks_.elements += uint32_t(p.elements);
  }
  void finish() {
    if (blocks_.count > 0) adds_ ? add() : move();
    blocks_.count = blocks_.used = 0;
    blocks_.elements = 0;
  }

 private:
  bool fits(const Plan& p) const {
    bool apart = true;  // in out
    for (int b = 0; b < blocks_.count && blocks_.add; ++b)
      apart = apart && (p.last < reach_[b].first || reach_[b].last < p.first);
    return apart && blocks_.count < kMostBlocks && blocks_.used + int(p.axes.size()) <= kMostAxes &&
           int64_t(blocks_.elements) + p.elements <= kMostElements;
  }
  template <class F>
  void grid(F* function) {
    run_.grid(Threads::apart, run_.blocks_for(blocks_.elements, 256), 256, function, blocks_);
  }
  void move() {
    switch (itemsize(DType(blocks_.dtype))) {
      case 1:
        return grid(kernel<move_blocks<Element<1>>>());
      case 2:
        return grid(kernel<move_blocks<Element<2>>>());
      case 4:
        return grid(kernel<move_blocks<Element<4>>>());
      case 8:
        return grid(kernel<move_blocks<Element<8>>>());
      default:
        return grid(kernel<move_blocks<Element<16>>>());
    }
  }
  void add() {
    switch (DType(blocks_.dtype)) {
      case DType::f64:
        return grid(kernel<add_blocks<double>>());
      case DType::c64:
        return grid(kernel<add_blocks<c64>>());
      case DType::c128:
        return grid(kernel<add_blocks<c128>>());
      case DType::f32:
      case DType::f16:
      case DType::bf16:
        return grid(kernel<add_blocks<float>>());
      default:
        return grid(kernel<add_blocks<int64_t>>());
    }
  }

  const Run& run_;
  bool adds_ = false;  // or changes signs
  Blocks blocks_{};
  struct Reach {
    int64_t first, last;
  } reach_[kMostBlocks];
};

}  // namespace

void grouped(Run& run) {
  const GroupedCall g = expect_grouped(run.call);
  if (g.products) return block_products(run, g);
  static_assert(sizeof(Blocks) <= 4096 - 64, "kernel parameters");
  std::vector<Plan> plans;
  for (int64_t job = 0; job < g.jobs; ++job) {
    Plan p(run.call, g, job);
    if (p.elements > 0 && !(g.add && p.block.sign == 0)) plans.push_back(std::move(p));
  }
  Launch launch(run, g);
  for (const Plan& p : plans) launch.take(p);
  launch.finish();
}

}  // namespace gradus::gpu
