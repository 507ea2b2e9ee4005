// The slot chain: pointwise calls in a row, in one launch. The kernel is an interpreter: a thread
// loads what comes in of one element, goes through the steps, and writes what goes out. Steps call
// the statements as the kernels in pointwise.hpp do: the same bits. What the interpreter doesn't
// take (complex numbers, many axes) goes step by step, with results in scratch memory.
#include "kernels/gpu/pointwise.hpp"

namespace gradus::inline v1::gpu {
namespace {

constexpr int kMost = GD_CHAIN_MOST, kAxes = 6, kLayouts = 12, kNumbers = 64;

// The bits of a value: those of a float or a double, or of a whole number as an i64 (bool: 0, 1).
using Bits = uint64_t;

template <class T>
__device__ inline T from_bits(Bits x) {
  if constexpr (std::is_same_v<T, float>) {
    return detail::bits_float(uint32_t(x));
  } else if constexpr (std::is_same_v<T, double>) {
    double y;
    memcpy(&y, &x, sizeof y);
    return y;
  } else {
    return T(x);
  }
}
// Of a value of this dtype: whole numbers are cut to what it holds.
template <class T>
__device__ inline Bits to_bits(T x, int32_t dtype) {
  if constexpr (std::is_same_v<T, float>) {
    return detail::float_bits(x);
  } else if constexpr (std::is_same_v<T, double>) {
    Bits y;
    memcpy(&y, &x, sizeof y);
    return y;
  } else if constexpr (std::is_same_v<T, int64_t>) {
    return dtype == GD_I32  ? Bits(int64_t(int32_t(x)))
           : dtype == GD_U8 ? Bits(uint8_t(x))
                            : Bits(x);
  } else {
    return Bits(int64_t(x));
  }
}

// A step in three words of four bytes: constant memory gives a word as fast as a byte. Places are
// those of values: what is left out (always 0), what comes in, results until they are read.
enum Kind : uint32_t { kCast, kValue, kSlope };  // kSlope + k: by operand k
struct Step {
  uint32_t what;  // kind, op, dtype that is read, dtype of the result
  uint32_t from;  // places of m, a, b, and, of a slope, g
  uint32_t to;    // places of y and of the result, the first of its parameters, output
};
GRADUS_HD inline uint32_t byte(uint32_t word, int k) { return word >> 8 * k & 255; }
inline uint32_t word_of(uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  return a | b << 8 | c << 16 | d << 24;
}
constexpr uint32_t kNowhere = 255;  // no output; no parameters

struct Port {
  char* data;  // of element (0, 0, ...)
  uint8_t dtype, layout;
};
struct Program {
  uint32_t count;
  int32_t rank, ins, steps, places;
  Divisor sizes[kAxes];  // the last axis first
  int64_t strides[kLayouts][kAxes];
  Port port[kMost];  // what comes in, then what goes out
  Step step[kMost];
  double number[kNumbers + 4];  // four are read from anywhere
};
static_assert(def::Statements::size <= 256 &&
              sizeof(Program) < 3072);  // kernels take less than 4 KiB

// Where element i of the chain lies in a view.
__device__ inline int64_t place(const Program& p, int layout, uint32_t i) {
  int64_t at = 0;
  GPU_UNROLL
  for (int d = 0; d < kAxes; ++d) {
    if (d >= p.rank) break;
    const uint32_t rest = d + 1 < p.rank ? p.sizes[d].quotient(i) : 0;
    at += int64_t(i - rest * p.sizes[d].divisor) * p.strides[layout][d];
    i = rest;
  }
  return at;
}

// Of an i32 without its sign.
__device__ inline Bits load_bits(const char* data, int64_t at, int32_t dtype) {
  if (dtype == GD_F32 || dtype == GD_I32) return reinterpret_cast<const Bits32*>(data)[at];
  if (dtype == GD_F64 || dtype == GD_I64) {
    using Bits64 = uint64_t __attribute__((may_alias));
    return reinterpret_cast<const Bits64*>(data)[at];
  }
  return reinterpret_cast<const unsigned char*>(data)[at];
}
__device__ inline void store_bits(char* data, int64_t at, int32_t dtype, Bits x) {
  if (dtype == GD_F32 || dtype == GD_I32) {
    reinterpret_cast<Bits32*>(data)[at] = uint32_t(x);
  } else if (dtype == GD_F64 || dtype == GD_I64) {
    using Bits64 = uint64_t __attribute__((may_alias));
    reinterpret_cast<Bits64*>(data)[at] = x;
  } else {
    reinterpret_cast<unsigned char*>(data)[at] = uint8_t(x);
  }
}

template <class T>
__device__ inline Bits cast_value(T x, int32_t dtype) {
  Bits y = 0;
  at_any(dtype, [&](auto s) {
    using S = decltype(s);
    if constexpr (std::is_integral_v<S> && !std::is_same_v<S, bool>)
      y = to_bits(int64_t(cast_to<S>(x)), GD_I64);
    else if constexpr (!is_complex_v<S> && std::is_same_v<S, computing<S>>)
      y = to_bits(cast_to<S>(x), GD_BOOL);
  });
  return y;
}
GPU_NOINLINE __device__ Bits cast_bits(Bits x, int32_t from, int32_t to) {
  if (from == GD_F32) return cast_value(from_bits<float>(x), to);
  if (from == GD_F64) return cast_value(from_bits<double>(x), to);
  return cast_value(from_bits<int64_t>(x), to);
}

// ---- steps

template <int K, class Statements>
struct At;
template <int K, class First, class... Rest>
struct At<K, def::List<First, Rest...>> : At<K - 1, def::List<Rest...>> {};
template <class First, class... Rest>
struct At<0, def::List<First, Rest...>> {
  using Type = First;
};

template <class S, class T>
constexpr bool kReads = def::reads<S, T>();
template <int K, class S, class T>
constexpr bool kHasSlope = def::has_slope<K, S, T>();

// The values of a block in shared memory: of each place those of its elements, of which a thread
// has n, as many apart as there are threads. No thread looks at another's.
constexpr int kElements = 4, kRoom = 5120;
static_assert(64 * (2 * kMost + 1) <= kRoom);
__device__ inline Bits* room() {
  GPU_SHARED(Bits, values, kRoom);
  return values;
}
__device__ inline Bits* values_at(uint32_t place, int n) {
  return room() + place * uint32_t(n) * uint32_t(block_threads()) + uint32_t(thread());
}

// A step over the first `here` of a thread's n elements. K < 0: the value; else the slope of
// operand K.
template <class S, class T, int K>
__device__ inline void apply(Step step, const Params& params, int n, int here) {
  const int32_t dtype = int32_t(byte(step.what, 3));
  const Bits *m = values_at(byte(step.from, 0), n), *a = values_at(byte(step.from, 1), n),
             *b = values_at(byte(step.from, 2), n), *g = values_at(byte(step.from, 3), n),
             *y = values_at(byte(step.to, 0), n);
  Bits* const to = values_at(byte(step.to, 1), n);
  const S s = def::make<S>(params.values);
  const int apart = block_threads();
  GPU_ROLLED
  for (int k = 0; k < here * apart; k += apart) {
    const T x = from_bits<T>(a[k]);
    if constexpr (K < 0) {
      T other{};
      bool mask = false;
      if constexpr (S::arity > 1) other = from_bits<T>(b[k]);
      if constexpr (S::arity > 2) mask = m[k] != 0;
      to[k] = to_bits(value_of<S, T>(s, mask, x, other), dtype);
    } else {
      const T out = from_bits<T>(y[k]);
      T slope;
      if constexpr (S::arity == 1)
        slope = def::slope<K>(s, x, out);
      else if constexpr (S::arity == 2)
        slope = def::slope<K>(s, x, from_bits<T>(b[k]), out);
      else
        slope = def::slope<K>(s, m[k] != 0, x, from_bits<T>(b[k]), out);
      to[k] = to_bits(from_bits<T>(g[k]) * slope, dtype);
    }
  }
}
template <class T, int K, int Id>
__device__ inline void apply_if(Step step, const Params& params, int n, int here) {
  if constexpr (Id < def::Statements::size) {
    using S = typename At<Id, def::Statements>::Type;
    if constexpr (K < 0 ? kReads<S, T> : kReads<S, T> && kHasSlope<(K < 0 ? 0 : K), S, T>)
      apply<S, T, K>(step, params, n, here);
  }
}
// A function for each type and kind, which is less work for compilers than one for all; and a
// switch: of as many ifs nvcc makes code that takes 128 registers in place of 80.
template <class T, int K>
GPU_NOINLINE __device__ void choose(Step step, Params params, int n, int here) {
  static_assert(def::Statements::size <= 128);
#define GPU_CASE(id)                           \
  case id:                                     \
    apply_if<T, K, id>(step, params, n, here); \
    break;
#define GPU_CASES_4(id) GPU_CASE(id) GPU_CASE(id + 1) GPU_CASE(id + 2) GPU_CASE(id + 3)
#define GPU_CASES_16(id) \
  GPU_CASES_4(id) GPU_CASES_4(id + 4) GPU_CASES_4(id + 8) GPU_CASES_4(id + 12)
  switch (byte(step.what, 1)) {
    GPU_CASES_16(0)
    GPU_CASES_16(16)
    GPU_CASES_16(32)
    GPU_CASES_16(48)
    GPU_CASES_16(64)
    GPU_CASES_16(80)
    GPU_CASES_16(96)
    GPU_CASES_16(112)
  }
#undef GPU_CASES_16
#undef GPU_CASES_4
#undef GPU_CASE
}
template <class T>
__device__ inline void statement_step(Step step, const Params& params, int n, int here) {
  const uint32_t kind = byte(step.what, 0);
  if (kind == kValue) return choose<T, -1>(step, params, n, here);
  if constexpr (std::is_floating_point_v<T>) {
    if (kind == kSlope) return choose<T, 0>(step, params, n, here);
    if (kind == kSlope + 1) return choose<T, 1>(step, params, n, here);
    choose<T, 2>(step, params, n, here);
  }
}

// What comes in, of elements from `first` on.
__device__ inline void load_values(const Program& p, uint32_t first, int n, int here) {
  constexpr int kTogether = 4;  // loads of a thread on their way
  GPU_ROLLED
  for (int k = 0; k < here; ++k) {
    const uint32_t i = first + uint32_t(k * block_threads());
    values_at(0, n)[k * block_threads()] = 0;
    GPU_ROLLED
    for (int v = 0; v < p.ins; v += kTogether) {
      Bits x[kTogether] = {};
      GPU_UNROLL
      for (int j = 0; j < kTogether; ++j)
        if (v + j < p.ins) {
          const Port& port = p.port[v + j];
          x[j] = load_bits(port.data, place(p, port.layout, i), port.dtype);
        }
      GPU_UNROLL
      for (int j = 0; j < kTogether; ++j)
        if (v + j < p.ins)
          values_at(uint32_t(1 + v + j), n)[k * block_threads()] =
              p.port[v + j].dtype == GD_I32 ? Bits(int64_t(int32_t(x[j]))) : x[j];
    }
  }
}
__device__ inline void store_values(const Program& p, const Port& port, const Bits* values,
                                    uint32_t first, int here) {
  GPU_ROLLED
  for (int k = 0; k < here; ++k)
    store_bits(port.data, place(p, port.layout, first + uint32_t(k * block_threads())), port.dtype,
               values[k * block_threads()]);
}

GPU_KERNEL chain_elements(Program p, int32_t n) {
  const uint32_t of_block = uint32_t(block_threads() * n);
  for (uint32_t begin = uint32_t(block()) * of_block; begin < p.count;
       begin += uint32_t(blocks()) * of_block) {
    const uint32_t first = begin + uint32_t(thread());
    if (first >= p.count) break;
    const uint32_t more = (p.count - 1 - first) / uint32_t(block_threads());
    const int here = more < uint32_t(n) ? int(more) + 1 : n;
    load_values(p, first, n, here);
    GPU_ROLLED
    for (int s = 0; s < p.steps; ++s) {
      const Step step = p.step[s];
      const uint32_t reads = byte(step.what, 2), number = byte(step.to, 2), out = byte(step.to, 3);
      Bits* const to = values_at(byte(step.to, 1), n);
      Params params{};
      if (number != kNowhere)
        for (int k = 0; k < 4; ++k) params.values[k] = p.number[number + uint32_t(k)];
      if (byte(step.what, 0) == kCast) {
        const Bits* const from = values_at(byte(step.from, 1), n);
        GPU_ROLLED
        for (int k = 0; k < here * block_threads(); k += block_threads())
          to[k] = cast_bits(from[k], int32_t(reads), int32_t(byte(step.what, 3)));
      } else if (reads == GD_F32) {
        statement_step<float>(step, params, n, here);
      } else if (reads == GD_F64) {
        statement_step<double>(step, params, n, here);
      } else if (reads == GD_BOOL) {
        statement_step<bool>(step, params, n, here);
      } else {
        statement_step<int64_t>(step, params, n, here);
      }
      if (out != kNowhere) store_values(p, p.port[out], to, first, here);
    }
  }
}

// ---- on the host

// The last step that reads the result of each step, or that step itself.
void last_readers(const ChainCall& c, int (&last)[kMost]) {
  for (int k = 0; k < c.steps; ++k) {
    last[k] = k;
    for (int a = 0; a < c.step[k].operands; ++a)
      if (c.step[k].operand[a] >= c.ins) last[c.step[k].operand[a] - c.ins] = k;
  }
}
// Places for the results that `stays` names, each until its last reader is done. Returns how many.
template <class Stays>
int place_results(const ChainCall& c, int (&place)[kMost], Stays&& stays) {
  int last[kMost], until[kMost], places = 0;
  last_readers(c, last);
  for (int k = 0; k < c.steps; ++k) {
    if (!stays(k)) continue;
    int at = 0;
    while (at < places && until[at] >= k) ++at;
    if (at == places) ++places;
    until[at] = last[k];
    place[k] = at;
  }
  return places;
}

// Refuses steps that the single calls would refuse.
void expect_read(const Call& call, const ChainCall& c) {
  for (int k = 0; k < c.steps; ++k) {
    const ChainCall::Step& s = c.step[k];
    if (s.slot == GD_COPY) continue;
    const DType reads = c.dtype[s.operand[s.key()]];
    const Entry e = entry_of(s.op, reads);
    const bool vjp = s.slot == GD_POINTWISE_VJP;
    if (vjp ? !e.vjp[s.which] : !e.value)
      call.refuse(GD_UNSUPPORTED, "step %d: statement %d has no kernel for %s", k, s.op,
                  dtype_name(reads));
    if (c.dtype[c.ins + k] != (vjp || e.y == computing_dtype(reads) ? reads : e.y))
      call.refuse(GD_INVALID, "step %d breaks the contract", k);
  }
}

// The axes of all views, joined where every view allows it; false if they are too many.
bool plan_axes(const ChainCall& c, const Call& call, Program& p) {
  const int views = c.ins + c.outs;
  const auto view = [&](int v) -> const gd_view& {
    return v < c.ins ? call.in(v) : call.out(v - c.ins);
  };
  int64_t strides[kMost][kAxes] = {}, sizes[kAxes];
  const gd_view& shape = view(c.ins);
  p.rank = 0;
  for (int d = shape.rank - 1; d >= 0; --d) {
    if (shape.sizes[d] == 1) continue;
    bool joins = p.rank > 0;
    for (int v = 0; joins && v < views; ++v)
      joins = view(v).strides[d] == strides[v][p.rank - 1] * sizes[p.rank - 1];
    if (joins) {
      sizes[p.rank - 1] *= shape.sizes[d];
      continue;
    }
    if (p.rank == kAxes) return false;
    sizes[p.rank] = shape.sizes[d];
    for (int v = 0; v < views; ++v) strides[v][p.rank] = view(v).strides[d];
    ++p.rank;
  }
  for (int d = 0; d < p.rank; ++d) p.sizes[d] = Divisor(uint32_t(sizes[d]));
  int layouts = 0;
  for (int v = 0; v < views; ++v) {
    int l = 0;
    while (l < layouts && memcmp(p.strides[l], strides[v], sizeof strides[v]) != 0) ++l;
    if (l == kLayouts) return false;
    if (l == layouts) memcpy(p.strides[layouts++], strides[v], sizeof strides[v]);
    p.port[v] = {start_of(view(v)), uint8_t(view(v).dtype), uint8_t(l)};
  }
  return true;
}

// The program, or false if the interpreter does not take it.
bool plan(const ChainCall& c, const Call& call, Program& p) {
  const int64_t count = count_of(call.out(0));
  if (count > kMostElements || c.steps < 2) return false;
  for (int v = 0; v < c.ins + c.steps; ++v)
    if (is_complex(c.dtype[v])) return false;
  p.count = uint32_t(count);
  p.ins = c.ins;
  p.steps = c.steps;
  if (!plan_axes(c, call, p)) return false;
  int result[kMost], numbers = 0;
  p.places = 1 + c.ins + place_results(c, result, [](int) { return true; });
  const auto at = [&](int v) {
    return uint32_t(v < 0 ? 0 : 1 + (v < c.ins ? v : c.ins + result[v - c.ins]));
  };
  for (int k = 0; k < c.steps; ++k) {
    const ChainCall::Step& s = c.step[k];
    const bool copy = s.slot == GD_COPY, vjp = s.slot == GD_POINTWISE_VJP;
    const Statement known = copy ? Statement{"copy", 1, 0, false} : statement(s.op);
    const int* operand = s.operand;
    const uint32_t g = vjp ? at(*operand++) : 0, m = known.has_mask ? at(*operand++) : 0,
                   a = at(*operand++), b = known.arity > 1 ? at(*operand++) : 0,
                   y = vjp ? at(*operand) : 0;
    if (numbers + known.params > kNumbers) return false;
    p.step[k] = {word_of(copy  ? kCast
                         : vjp ? kSlope + uint32_t(s.which)
                               : kValue,
                         uint32_t(s.op) & 255, uint32_t(c.dtype[s.operand[s.key()]]),
                         uint32_t(c.dtype[c.ins + k])),
                 word_of(m, a, b, g),
                 word_of(y, at(c.ins + k), known.params > 0 ? uint32_t(numbers) : kNowhere,
                         s.out < 0 ? kNowhere : uint32_t(c.ins + s.out))};
    for (int n = 0; n < known.params; ++n) p.number[numbers++] = call.number(s.first_double + n);
  }
  return true;
}

// Each step as the call that it stands for.
void step_by_step(Run& run, const ChainCall& c) {
  Call& call = run.call;
  const gd_view& shape = call.out(0);
  int result[kMost];
  int64_t widest = 1, strides[kMaxViewRank], step = 1;
  for (int k = 0; k < c.steps; ++k)
    widest = std::max(widest, int64_t(itemsize(c.dtype[c.ins + k])));
  for (int d = shape.rank - 1; d >= 0; --d) {
    strides[d] = step;
    step *= shape.sizes[d];
  }
  const int places = place_results(c, result, [&](int k) { return c.step[k].out < 0; });
  const int64_t bytes = int64_t(Run::Scratch::whole(size_t(step * widest)));
  char* const room = Run::Scratch(run, size_t(places * bytes)).take<char>(places * bytes);
  gd_view value[2 * kMost];
  for (int v = 0; v < c.ins; ++v) value[v] = call.in(v);
  for (int k = 0; k < c.steps; ++k) {
    const ChainCall::Step& s = c.step[k];
    gd_view& y = value[c.ins + k];
    y = s.out >= 0 ? call.out(s.out) : gd_view{shape.buffer,
                                               room + result[k] * bytes,
                                               int32_t(c.dtype[c.ins + k]),
                                               shape.rank,
                                               0,
                                               shape.sizes,
                                               strides};
    gd_view in[ChainCall::kOperands] = {};
    for (int a = 0; a < s.operands; ++a)
      if (s.operand[a] >= 0) in[a] = value[s.operand[a]];
    gd_call raw{};
    raw.struct_size = sizeof raw;
    raw.slot = s.slot;
    raw.op = s.op;
    raw.n_in = s.operands;
    raw.n_out = 1;
    raw.n_doubles = call.raw().n_doubles - s.first_double;
    raw.n_ints = s.slot == GD_POINTWISE_VJP;
    raw.in = in;
    raw.out = &y;
    raw.doubles = call.numbers() + s.first_double;
    raw.ints = &s.which;
    Call single(raw, call.device(), gd_slot_name(GD_CHAIN));
    Run inner{run.device, run.stream, single};
    (s.slot == GD_COPY ? copy : s.slot == GD_POINTWISE ? pointwise : pointwise_vjp)(inner);
  }
}

}  // namespace

void chain(Run& run) {
  const ChainCall c = expect_chain(run.call);
  expect_read(run.call, c);
  if (count_of(run.call.out(0)) == 0) return;
  Program p{};
  if (!plan(c, run.call, p)) return step_by_step(run, c);
  // Few elements need all the threads; and the values of a block must have room.
  int n = p.count < run.full() ? 1 : kElements, threads = p.count < run.full() / 8 ? 64 : 128;
  while (p.places * n * threads > kRoom) (n > 1 ? n : threads) /= 2;
  run.grid(Threads::apart, run.blocks_for((p.count + n - 1) / n, threads), threads,
           kernel<chain_elements>(), p, n);
}

}  // namespace gradus::gpu
