// The slot chain: pointwise calls in a row, each block of elements through all of them while it
// lies in the first cache. A plan says how each view enters and leaves, and where results stay
// between steps; it knows no addresses. Blocks are padded as in pointwise.cpp, so an element meets
// the same block functions with the same values as in the calls one by one: the same bits.
#include "kernels/cpu/slots.hpp"
#include "kernels/cpu/statements_scalar.hpp"
#include "kernels/cpu/walk.hpp"

#include <cstdlib>

namespace gradus::inline v1::cpu {
namespace {

constexpr const char* kSlot = "chain";
constexpr int kMost = GD_CHAIN_MOST, kArguments = 5;
constexpr int64_t kEach[kArguments] = {1, 1, 1, 1, 1};  // no argument is one number for a block
constexpr int64_t kRoom = 24 << 10;  // bytes of blocks: they should stay in the first cache

// How a view enters or leaves blocks: as it lies; one value; a row again and again; by its strides.
enum class Way : uint8_t { direct, scalar, rows, strided };
struct Port {
  Way way;
  int32_t item;
  int32_t walk;    // strided: which of the plan's
  int64_t period;  // rows: elements of one
};
struct Step {
  BlockFn fn;
  ConvertFn convert;  // copy between dtypes; null: the same dtype
  int32_t arguments, argument[kArguments];
  int32_t first_double, out, place, item;
};
struct Plan {
  int64_t count, block;
  int32_t ins, outs, steps, places;
  int64_t place_bytes;
  Step step[kMost];
  Port port[kMost];  // ins, then outs
  int32_t walks;
  Walk walk[kMost];  // as many as there are; each call sets their bases
};
// Blocks of the widest chain: those of all views and results, of the shortest length.
constexpr int64_t kWidest = 2 * kMost * 4 * kPad * 16;

int64_t padded(int64_t n) { return (n + kPad - 1) / kPad * kPad; }

const Block* find_block(const gd_device* d, int32_t op, int32_t dtype) {
  if (dtype == GD_F32) return d->kernels->f32(op);
  if (dtype == GD_F64) return d->kernels->f64(op);
  return scalar_block(op, dtype);
}

void plan_port(Plan& plan, Port& port, const gd_view& v, bool in) {
  Walk& w = plan.walk[plan.walks];
  w.views = w.rank = 0;
  add_view(w, v);
  merge_axes(w);
  port.item = int32_t(w.item[0]);
  port.period = 0;
  if (w.contiguous(0)) {
    port.way = Way::direct;
  } else if (in && w.scalar(0)) {
    port.way = Way::scalar;
  } else if (in && w.rank == 2 && w.stride[0][0] == 0 && w.stride[0][1] == w.item[0]) {
    port.way = Way::rows;
    port.period = w.size[1];
  } else {
    port.way = Way::strided;
    port.walk = plan.walks++;
  }
}

// The next of the call's ints, or a refusal at the end of them.
class Ints {
 public:
  explicit Ints(const gd_call* c) : c_(c) {}
  int64_t next() {
    if (at_ < c_->n_ints) return c_->ints[at_++];
    ended_ = true;
    return 0;
  }
  bool ended() const { return ended_; }

 private:
  const gd_call* c_;
  int at_ = 0;
  bool ended_ = false;
};

class Planner {
 public:
  Planner(gd_device* d, const gd_call* c, Plan& p, gd_error* e) : d_(d), c_(c), p_(p), e_(e) {}

  gd_status plan() {
    if (gd_status s = check_call(e_, kSlot, c_, {0, kMost, 1, kMost, 0, 1})) return s;
    p_.ins = c_->n_in;
    p_.outs = c_->n_out;
    p_.walks = 0;
    if (p_.ins + p_.outs > kMost) return refuse(e_, GD_INVALID, kSlot, "too many views");
    for (int k = 0; k < p_.ins + p_.outs; ++k) {
      const gd_view& v = k < p_.ins ? c_->in[k] : c_->out[k - p_.ins];
      if (!same_sizes(v, c_->out[0]))
        return refuse(e_, GD_INVALID, kSlot, "view %d has other sizes than output 0", k);
      if (is_half(dtype_of_view(v)))
        return refuse(e_, GD_UNSUPPORTED, kSlot, "16-bit floats round between calls");
      plan_port(p_, p_.port[k], v, k < p_.ins);
      if (k < p_.ins) dtype_[k] = v.dtype;
    }
    p_.count = count_of(c_->out[0]);
    const int64_t steps = ints_.next();
    if (steps < 1 || steps > kMost) return refuse(e_, GD_INVALID, kSlot, "1 to %d steps", kMost);
    p_.steps = int32_t(steps);
    for (int k = 0; k < p_.steps; ++k)
      if (gd_status s = plan_step(k, p_.step[k])) return s;
    place_results();
    return GD_OK;
  }

 private:
  gd_status broken(int step) {
    return refuse(e_, GD_INVALID, kSlot, "step %d breaks the contract", step);
  }

  gd_status plan_step(int k, Step& s) {
    const auto slot = int32_t(ints_.next()), op = int32_t(ints_.next());
    const int64_t operand = ints_.next(), doubles = ints_.next(), arguments = ints_.next();
    if (doubles < 0 || doubles > c_->n_doubles - doubles_ || arguments < 1 ||
        arguments > kArguments)
      return broken(k);
    s = {};
    s.first_double = doubles_;
    doubles_ += int32_t(doubles);
    s.arguments = int32_t(arguments);
    for (int a = 0; a < s.arguments; ++a) {
      const int64_t v = ints_.next();
      if (v < -1 || v >= p_.ins + k || (v == -1 && slot != GD_POINTWISE_VJP)) return broken(k);
      s.argument[a] = int32_t(v);
    }
    const auto dtype = int32_t(ints_.next());
    const int64_t out = ints_.next();
    if (ints_.ended() || out < -1 || out >= p_.outs) return broken(k);
    if (out >= 0 && c_->out[out].dtype != dtype) return broken(k);
    if (dtype < 0 || dtype >= GD_DTYPE_COUNT || is_half(DType(dtype))) return broken(k);
    s.out = int32_t(out);
    s.item = int32_t(itemsize(DType(dtype)));
    dtype_[p_.ins + k] = dtype;
    if (slot == GD_COPY) {
      if (s.arguments != 1) return broken(k);
      const int32_t from = dtype_[s.argument[0]];
      s.convert = from == dtype ? nullptr : d_->convert(from, dtype);
      return GD_OK;
    }
    if (slot != GD_POINTWISE && slot != GD_POINTWISE_VJP) return broken(k);
    return plan_statement(k, s, slot == GD_POINTWISE_VJP, op, operand, int(doubles), dtype);
  }

  gd_status plan_statement(int k, Step& s, bool vjp, int32_t op, int64_t operand, int doubles,
                           int32_t dtype) {
    const StatementShape shape = statement_shape(op);
    const int key = vjp ? 0 : s.arguments - 1;  // whose dtype the statement reads
    if (s.argument[key] < 0) return broken(k);
    const int32_t reads = dtype_[s.argument[key]];
    for (int a = 0; a < s.arguments; ++a) {
      const bool mask = shape.select && a == (vjp ? 1 : 0);
      if (s.argument[a] >= 0 && dtype_[s.argument[a]] != (mask ? int32_t(GD_BOOL) : reads))
        return broken(k);
    }
    const Block* block = find_block(d_, op, reads);
    if (vjp ? !block || operand < 0 || operand > 2 || !block->vjp[operand]
            : !block || !block->value)
      return refuse(e_, GD_UNSUPPORTED, kSlot, "statement %d has no kernel for %s", op,
                    dtype_name(DType(reads)));
    if (s.arguments != shape.arity + (vjp ? 2 : 0) || doubles < shape.params ||
        dtype != (vjp ? reads : block->out_dtype))
      return broken(k);
    s.fn = vjp ? block->vjp[operand] : block->value;
    return GD_OK;
  }

  // Blocks for what enters, then for results, each until its last reader is done.
  void place_results() {
    int last[kMost];
    int64_t widest = 1;
    for (int v = 0; v < p_.ins; ++v) widest = widest < p_.port[v].item ? p_.port[v].item : widest;
    for (int k = 0; k < p_.steps; ++k) {
      last[k] = k;
      widest = widest < p_.step[k].item ? p_.step[k].item : widest;
      for (int a = 0; a < p_.step[k].arguments; ++a)
        if (p_.step[k].argument[a] >= p_.ins) last[p_.step[k].argument[a] - p_.ins] = k;
    }
    int until[kMost] = {};  // the step that frees place i
    int results = 0;
    for (int k = 0; k < p_.steps; ++k) {
      int place = 0;
      while (place < results && until[place] >= k) ++place;
      if (place == results) ++results;
      until[place] = last[k];
      p_.step[k].place = p_.ins + place;
    }
    p_.places = p_.ins + results;
    p_.block = kRoom / (p_.places * widest) / kPad * kPad;
    if (p_.block > kBlock) p_.block = kBlock;
    if (p_.block < 4 * kPad) p_.block = 4 * kPad;
    if (p_.block > padded(p_.count)) p_.block = padded(p_.count);
    p_.place_bytes = p_.block * widest;
  }

  gd_device* d_;
  const gd_call* c_;
  Plan& p_;
  gd_error* e_;
  Ints ints_{c_};
  int32_t dtype_[2 * kMost], doubles_ = 0;
};

alignas(64) const char kZeros[kBlock * 16] = {};

// n elements, the one value at p.
void repeat(char* block, const char* p, int64_t n, int64_t item) {
  memcpy(block, p, size_t(item));
  for (int64_t have = item, all = n * item; have < all; have *= 2)
    memcpy(block + have, block, size_t(have < all - have ? have : all - have));
}
void run_range(const Plan& p, const gd_call* c, int64_t begin, int64_t end) {
  alignas(64) char room[kWidest > kRoom ? kWidest : kRoom];
  const void* value[2 * kMost];
  char* base[kMost];
  for (int v = 0; v < p.ins + p.outs; ++v)
    base[v] = start_of(v < p.ins ? c->in[v] : c->out[v - p.ins]);
  for (int v = 0; v < p.ins; ++v)
    if (p.port[v].way == Way::scalar) {
      char* const block = room + v * p.place_bytes;
      const int64_t n = padded(end - begin);
      repeat(block, base[v], n < p.block ? n : p.block, p.port[v].item);
      value[v] = block;
    }
  for (int64_t i = begin; i < end; i += p.block) {
    const int64_t n = end - i < p.block ? end - i : p.block, full = padded(n);
    for (int v = 0; v < p.ins; ++v) {
      const Port& port = p.port[v];
      if (port.way == Way::scalar) continue;
      const int64_t item = port.item;
      char* const from = base[v] + i * item;
      if (port.way == Way::direct && n == full) {
        value[v] = from;
        continue;
      }
      char* const block = room + v * p.place_bytes;
      if (port.way == Way::direct) {
        memcpy(block, from, size_t(n * item));
      } else if (port.way == Way::rows) {
        repeat_rows(block, base[v], i, n, port.period, item);
      } else {
        gather_block(p.walk[port.walk], 0, i, n, block);
      }
      if (n != full) repeat(block + n * item, block + (n - 1) * item, full - n, item);
      value[v] = block;
    }
    for (int k = 0; k < p.steps; ++k) {
      const Step& s = p.step[k];
      const void* in[kArguments];
      for (int a = 0; a < s.arguments; ++a)
        in[a] = s.argument[a] < 0 ? kZeros : value[s.argument[a]];
      const int o = p.ins + s.out;
      const bool direct = s.out >= 0 && p.port[o].way == Way::direct;
      char* const memory = direct ? base[o] + i * s.item : nullptr;
      char* const to = direct && n == full ? memory : room + s.place * p.place_bytes;
      if (s.fn)
        s.fn(in, kEach, to, full, c->doubles + s.first_double);
      else if (s.convert)
        s.convert(in[0], to, full);
      else if (to != in[0])
        memcpy(to, in[0], size_t(full * s.item));
      value[p.ins + k] = to;
      if (s.out < 0 || to == memory) continue;
      if (direct)
        memcpy(memory, to, size_t(n * s.item));
      else
        scatter_block(p.walk[p.port[o].walk], 0, i, n, to);
    }
  }
}

}  // namespace

gd_status prepare_chain(gd_device* d, const gd_call* c, void** plan, gd_error* e) {
  auto* p = static_cast<Plan*>(std::malloc(sizeof(Plan)));
  if (!p) return out_of_memory(e, kSlot, sizeof(Plan));
  const gd_status s = Planner(d, c, *p, e).plan();
  if (s == GD_OK) {
    void* const fitted = std::realloc(p, offsetof(Plan, walk) + size_t(p->walks) * sizeof(Walk));
    *plan = fitted ? fitted : p;
  } else {
    std::free(p);
  }
  return s;
}

gd_status slot_chain(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  void* made = nullptr;
  if (!c->plan)
    if (gd_status s = prepare_chain(d, c, &made, e)) return s;
  Plan& p = *static_cast<Plan*>(made ? made : c->plan);
  for (int v = 0; p.walks > 0 && v < p.ins + p.outs; ++v)
    if (p.port[v].way == Way::strided)
      p.walk[p.port[v].walk].base[0] = start_of(v < p.ins ? c->in[v] : c->out[v - p.ins]);
  if (p.count <= kGrain)
    run_range(p, c, 0, p.count);
  else
    parallel_range(d, p.count, kGrain,
                   [&](int64_t begin, int64_t end) { run_range(p, c, begin, end); });
  std::free(made);
  return GD_OK;
}

}  // namespace gradus::cpu
