// The slots pointwise and pointwise_vjp: one driver for all statements, dtypes and strides. Where
// all views are dense or one number, along all elements or along rows, the statement's block
// function runs where they lie; else elements are gathered into blocks, and f16 and bf16 widened to
// f32. Blocks whose length is no multiple of kPad are padded, so an element meets the same batch
// code at any position. Must not know any statement.
#include "kernels/cpu/slots.hpp"

#include "kernels/cpu/statements_scalar.hpp"
#include "kernels/cpu/stream.hpp"
#include "kernels/cpu/walk.hpp"

#include <cstdlib>

namespace gradus::inline v1::cpu {
namespace {

const Block* find_block(const gd_device* d, int32_t op, int32_t dtype) {
  if (dtype == GD_F32) return d->kernels->f32(op);
  if (dtype == GD_F64) return d->kernels->f64(op);
  return scalar_block(op, dtype);
}

// How one view enters or leaves the block function.
struct Port {
  int64_t item;       // bytes per element in the view
  int64_t width;      // bytes per element in the block
  ConvertFn convert;  // null: the same
  char* base;         // null: absent, read as zeros
  bool dense;         // in the order of the elements, without gaps
  bool repeated;      // one number for all elements
  int64_t period;     // elements of a row that comes again and again; 0: not so
};

constexpr int64_t kBlockBytes = kBlock * 16;
constexpr int64_t kPadBytes = kPad * 16;
constexpr int64_t kRow = 64;  // elements of a row that is worth a call of its own

struct Job {
  const Walk* walk = nullptr;  // inputs, then the output; only read if some view is not dense
  Port port[kMaxViews];
  int inputs;
  BlockFn fn;
  const double* params;
  bool rows = false;
  bool streamed = false;
};

// kPad times the number at `one`, as the block function wants it.
void repeat(const Port& p, const char* one, char* block) {
  if (!p.base) {
    memset(block, 0, size_t(kPadBytes));
  } else if (p.convert) {
    p.convert(one, block, 1);
    copy_row(block + p.width, p.width, block, 0, kPad - 1, p.width);
  } else {
    copy_row(block, p.width, one, 0, kPad, p.width);
  }
}

// Bytes of results on their way past the caches. Longer blocks would keep the reads waiting.
constexpr int64_t kStage = 256;

void run_streamed(const Job& job, const void* const* in, const int64_t* step, char* out,
                  int64_t n) {
  alignas(64) char stage[kStage];
  const int64_t width = job.port[job.inputs].width, most = kStage / width;
  const void* at[kMaxViews];
  for (int64_t i = 0; i < n; i += most) {
    const int64_t m = n - i < most ? n - i : most;
    for (int v = 0; v < job.inputs; ++v)
      at[v] = static_cast<const char*>(in[v]) + i * step[v] * job.port[v].width;
    job.fn(at, step, stage, m, job.params);
    stream_run(out + i * width, stage, m * width);
  }
}

// n elements where they lie: in[v] as the block function takes it. The last ones, if they are no
// multiple of kPad, go through padded blocks.
void run_direct(const Job& job, const void** in, const int64_t* step, char* out, int64_t n) {
  const int64_t full = n / kPad * kPad, rest = n - full, width = job.port[job.inputs].width;
  if (job.streamed)
    run_streamed(job, in, step, out, full);
  else if (full > 0)
    job.fn(in, step, out, full, job.params);
  if (rest == 0) return;
  alignas(64) char pads[kMaxViews][kPadBytes];
  for (int v = 0; v < job.inputs; ++v) {
    if (step[v] == 0) continue;
    const int64_t w = job.port[v].width;
    memcpy(pads[v], static_cast<const char*>(in[v]) + full * w, size_t(rest * w));
    copy_row(pads[v] + rest * w, w, pads[v] + (rest - 1) * w, 0, kPad - rest, w);
    in[v] = pads[v];
  }
  job.fn(in, step, pads[job.inputs], kPad, job.params);
  memcpy(out + full * width, pads[job.inputs], size_t(rest * width));
}

// Whole ranges: every view is dense or repeated, and of the working dtype.
void run_whole(const Job& job, int64_t begin, int64_t end) {
  alignas(64) char numbers[kMaxViews][kPadBytes];
  const Port& o = job.port[job.inputs];
  const void* in[kMaxViews];
  int64_t step[kMaxViews];
  for (int v = 0; v < job.inputs; ++v) {
    const Port& p = job.port[v];
    step[v] = p.repeated ? 0 : 1;
    in[v] = p.repeated ? numbers[v] : p.base + begin * p.item;
    if (p.repeated) repeat(p, p.base, numbers[v]);
  }
  run_direct(job, in, step, o.base + begin * o.item, end - begin);
  if (job.streamed) end_streams();
}

// Row by row: along the last axis every view is dense or one number.
void run_rows(const Job& job, int64_t begin, int64_t end) {
  alignas(64) char numbers[kMaxViews][kPadBytes];
  const Walk& w = *job.walk;
  const int last = w.rank > 0 ? w.rank - 1 : 0;
  for_all_rows(w, begin, end - begin, [&](char* const* p, int64_t n) {
    const void* in[kMaxViews];
    int64_t step[kMaxViews];
    for (int v = 0; v < job.inputs; ++v) {
      step[v] = w.stride[v][last] == 0 ? 0 : 1;
      in[v] = step[v] ? p[v] : numbers[v];
      if (step[v] == 0) repeat(job.port[v], p[v], numbers[v]);
    }
    run_direct(job, in, step, p[job.inputs], n);
  });
  if (job.streamed) end_streams();
}

// The block of input v for elements [start, start + n), padded by copies of its last element.
const void* load(const Job& job, int v, int64_t start, int64_t n, char* block, char* narrow) {
  const Port& p = job.port[v];
  if (p.repeated) return block;
  const bool padded = n % kPad != 0;
  char* const source = p.base + start * p.item;
  if (p.dense && !p.convert && !padded) return source;
  const void* from = source;
  if (!p.dense) {
    char* const to = p.convert ? narrow : block;
    from = to;
    if (p.period > 0)
      repeat_rows(to, p.base, start, n, p.period, p.item);
    else
      gather_block(*job.walk, v, start, n, to);
  }
  if (p.convert)
    p.convert(from, block, n);
  else if (p.dense)
    memcpy(block, source, size_t(n * p.width));
  if (padded)
    copy_row(block + n * p.width, p.width, block + (n - 1) * p.width, 0, kPad - n % kPad, p.width);
  return block;
}

// At most kBlock elements, through blocks.
void run_block(const Job& job, const int64_t* step, int64_t start, int64_t n,
               char (*blocks)[kBlockBytes], char* narrow) {
  const void* in[kMaxViews];
  for (int v = 0; v < job.inputs; ++v) in[v] = load(job, v, start, n, blocks[v], narrow);
  const int o = job.inputs;
  const Port& p = job.port[o];
  char* const target = p.base + start * p.item;
  const bool straight = p.dense && !p.convert && n % kPad == 0;
  char* const result = straight ? target : blocks[o];
  job.fn(in, step, result, (n + kPad - 1) / kPad * kPad, job.params);
  if (straight) return;
  const char* from = result;
  if (p.convert) {
    p.convert(result, p.dense ? target : narrow, n);
    if (p.dense) return;
    from = narrow;
  }
  if (p.dense)
    memcpy(target, from, size_t(n * p.item));
  else
    scatter_block(*job.walk, o, start, n, from);
}
void run_blocks(const Job& job, int64_t begin, int64_t end) {
  alignas(64) char blocks[kMaxViews][kBlockBytes];
  alignas(64) char narrow[kBlock * 2];
  int64_t step[kMaxViews];
  for (int v = 0; v < job.inputs; ++v) {
    step[v] = job.port[v].repeated ? 0 : 1;
    if (step[v] == 0) repeat(job.port[v], job.port[v].base, blocks[v]);
  }
  for (int64_t i = begin; i < end; i += kBlock)
    run_block(job, step, i, end - i < kBlock ? end - i : kBlock, blocks, narrow);
}

// The dtype in which a statement works on views of dtype t.
int32_t working(int32_t t) { return t == GD_F16 || t == GD_BF16 ? int32_t(GD_F32) : t; }

// Dense copies of operands that lie across the output's order (transposed ones): made by tiles,
// they cost far less than gathering element by element. Without memory for one, gathering it is.
class Straightened {
 public:
  ~Straightened() {
    for (void* p : made_) std::free(p);
  }
  void straighten(gd_device* d, Walk& w, int v, int out) {
    const int64_t n = w.count();
    const int last = w.rank - 1;
    if (n < 16 * kBlock || w.rank < 2) return;
    if (w.stride[v][last] == 0 || std::llabs(w.stride[v][last]) < 16 * w.item[v]) return;
    if (w.stride[out][last] != w.item[out]) return;
    made_[v] = std::malloc(size_t(n * w.item[v]));
    if (!made_[v]) return;
    copy_dense(d, w, v, static_cast<char*>(made_[v]));
    int64_t step = w.item[v];
    for (int k = last; k >= 0; --k) {
      w.stride[v][k] = step;
      step *= w.size[k];
    }
    w.base[v] = static_cast<char*>(made_[v]);
  }

 private:
  void* made_[kMaxViews] = {};
};

// itemsize as a table: a small call is made of little else.
struct Items {
  int64_t bytes[GD_DTYPE_COUNT];
};
constexpr Items kItems = [] {
  Items t{};
  for (int32_t i = 0; i < GD_DTYPE_COUNT; ++i) t.bytes[i] = int64_t(itemsize(DType(i)));
  return t;
}();

// Row-major without gaps? Then the elements need no walk.
bool dense(const gd_view& v) {
  int64_t step = 1;
  for (int k = v.rank - 1; k >= 0; --k) {
    if (v.strides[k] != step && v.sizes[k] != 1) return false;
    step *= v.sizes[k];
  }
  return true;
}
bool repeated(const gd_view& v) {
  for (int k = 0; k < v.rank; ++k)
    if (v.strides[k] != 0 && v.sizes[k] != 1) return false;
  return true;
}

// The elements of one row, where a view is that row again and again; else 0.
int64_t period_of(const Walk& w, int v) {
  int64_t period = 1;
  int k = w.rank - 1;
  for (; k >= 0 && w.stride[v][k] == period * w.item[v]; --k) period *= w.size[k];
  for (; k >= 0; --k)
    if (w.stride[v][k] != 0) return 0;
  return period > 1 ? period : 0;
}

// Views that are not all dense or repeated: as a walk in the output's order.
gd_status run_walk(gd_device* d, Job& job, const gd_view* const* views, int64_t n) {
  const int o = job.inputs;
  Walk w;
  for (int v = 0; v <= o; ++v) {
    gd_view view = *views[views[v]->data ? v : o];
    if (!views[v]->data) {
      view.data = nullptr;
      view.dtype = views[0]->dtype;
    }
    add_view(w, view);
  }
  sort_axes(w, o);
  Straightened copies;
  for (int v = 0; v < o; ++v) copies.straighten(d, w, v, o);
  merge_axes(w);
  job.walk = &w;
  bool whole = true;
  const int last = w.rank - 1;
  job.rows = w.rank > 1 && w.size[last] >= kRow;
  for (int v = 0; v <= o; ++v) {
    Port& p = job.port[v];
    p.base = w.base[v];
    p.dense = p.base && w.contiguous(v);
    p.repeated = v < o && w.scalar(v);
    p.period = v < o && p.base ? period_of(w, v) : 0;
    whole = whole && !p.convert && (p.dense || p.repeated);
    const int64_t step = last < 0 ? 0 : w.stride[v][last];
    job.rows = job.rows && !(p.convert && step != 0) && (step == w.item[v] || (step == 0 && v < o));
  }
  if (!whole && job.rows && w.size[last] * w.item[o] < 4 * kStage) job.streamed = false;
  parallel_range(d, n, kGrain, [&](int64_t begin, int64_t end) {
    if (whole)
      run_whole(job, begin, end);
    else if (job.rows)
      run_rows(job, begin, end);
    else
      run_blocks(job, begin, end);
  });
  return GD_OK;
}

// Most calls: few elements, in dense views of equal sizes that the block function takes as they
// are. They cost less than finding out what else they might be. False: nothing was done.
bool run_small(Job& job, const gd_view* const* views, int64_t n) {
  if (n > kGrain) return false;
  const void* in[kMaxViews];
  int64_t step[kMaxViews];
  for (int v = 0; v <= job.inputs; ++v) {
    const gd_view& view = *views[v];
    if (!view.data || working(view.dtype) != view.dtype || !same_sizes(view, *views[job.inputs]) ||
        !dense(view))
      return false;
    job.port[v].width = kItems.bytes[view.dtype];
    in[v] = static_cast<char*>(view.data) + view.offset * job.port[v].width;
    step[v] = 1;
  }
  run_direct(job, in, step, static_cast<char*>(const_cast<void*>(in[job.inputs])), n);
  return true;
}

gd_status run(gd_device* d, Job& job, const gd_view* const* views, const char* slot, gd_error* e) {
  const int o = job.inputs;
  const gd_view& out = *views[o];
  const int64_t n = count_of(out);
  if (run_small(job, views, n)) return GD_OK;
  bool simple = true, whole = true;  // no walk is needed; nor blocks
  for (int v = 0; v <= o; ++v) {
    const gd_view& view = *views[v];
    if (view.data && v < o && !same_sizes(view, out))
      return refuse(e, GD_INVALID, slot, "input %d has other sizes than the output", v);
    Port& p = job.port[v];
    const int32_t t = view.data ? view.dtype : views[0]->dtype, to = working(t);
    p.item = kItems.bytes[t];
    p.width = kItems.bytes[to];
    p.convert = t == to ? nullptr : v < o ? d->convert(t, to) : d->convert(to, t);
    p.base = view.data ? static_cast<char*>(view.data) + view.offset * p.item : nullptr;
    p.dense = p.base && dense(view);
    p.repeated = v < o && !(p.dense && n > 1) && (!p.base || repeated(view));
    p.period = 0;
    simple = simple && (p.dense || p.repeated);
    whole = whole && !p.convert;
  }
  if (n == 0) return GD_OK;
  // In place the lines have been read anyway.
  job.streamed = n * job.port[o].item >= kStreamed;
  for (int v = 0; v < o; ++v) job.streamed = job.streamed && job.port[v].base != job.port[o].base;
  if (!simple) return run_walk(d, job, views, n);
  if (n <= kGrain) {
    whole ? run_whole(job, 0, n) : run_blocks(job, 0, n);
    return GD_OK;
  }
  parallel_range(d, n, kGrain, [&](int64_t begin, int64_t end) {
    whole ? run_whole(job, begin, end) : run_blocks(job, begin, end);
  });
  return GD_OK;
}

gd_status no_statement(gd_error* e, const char* slot, int32_t op, int32_t dtype) {
  return refuse(e, GD_UNSUPPORTED, slot, "statement %d (%s) has no kernel for %s", op,
                op >= 0 && op < statement_count() ? statement_name(op) : "unknown",
                dtype_name(DType(dtype)));
}

}  // namespace

gd_status slot_pointwise(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  const char* slot = "pointwise";
  if (gd_status s = check_call(e, slot, c, {1, 3, 1, 1, 0, 0})) return s;
  const int32_t dtype = c->in[c->n_in - 1].dtype;  // where's mask comes first
  const StatementShape shape = statement_shape(c->op);
  const Block* block = find_block(d, c->op, working(dtype));
  if (!block || !block->value) return no_statement(e, slot, c->op, dtype);
  if (c->n_in != shape.arity || c->n_doubles < shape.params || (shape.params > 0 && !c->doubles))
    return refuse(e, GD_INVALID, slot, "%s takes %d operands and %d parameters, got %d and %d",
                  statement_name(c->op), shape.arity, shape.params, c->n_in, c->n_doubles);
  Job job;
  const gd_view* views[kMaxViews];
  job.inputs = c->n_in;
  for (int v = 0; v < c->n_in; ++v) {
    const int32_t wanted = shape.select && v == 0 ? int32_t(GD_BOOL) : dtype;
    if (c->in[v].dtype != wanted)
      return refuse(e, GD_INVALID, slot, "%s: operand %d should be %s, got %s",
                    statement_name(c->op), v, dtype_name(DType(wanted)),
                    dtype_name(DType(c->in[v].dtype)));
    views[v] = &c->in[v];
  }
  const int32_t out = block->out_dtype == working(dtype) ? dtype : block->out_dtype;
  if (c->out[0].dtype != out)
    return refuse(e, GD_INVALID, slot, "%s of %s gives %s, the output is %s", statement_name(c->op),
                  dtype_name(DType(dtype)), dtype_name(DType(out)),
                  dtype_name(DType(c->out[0].dtype)));
  views[c->n_in] = &c->out[0];
  job.fn = block->value;
  job.params = c->doubles;
  return run(d, job, views, slot, e);
}

gd_status slot_pointwise_vjp(gd_device* d, gd_stream*, const gd_call* c, gd_error* e) {
  const char* slot = "pointwise_vjp";
  if (gd_status s = check_call(e, slot, c, {3, 5, 1, 1, 0, 1, ~1u, 0})) return s;
  const int32_t dtype = c->in[0].dtype;
  const StatementShape shape = statement_shape(c->op);
  const Block* block = find_block(d, c->op, working(dtype));
  const int64_t operand = c->ints[0];
  if (operand < 0 || operand > 2 || !block || !block->vjp[operand])
    return refuse(e, GD_UNSUPPORTED, slot, "no slope of statement %d (%s), operand %lld, for %s",
                  c->op,
                  c->op >= 0 && c->op < statement_count() ? statement_name(c->op) : "unknown",
                  static_cast<long long>(operand), dtype_name(DType(dtype)));
  if (c->n_in != shape.arity + 2 || c->n_doubles < shape.params ||
      (shape.params > 0 && !c->doubles))
    return refuse(e, GD_INVALID, slot, "%s takes %d views and %d parameters, got %d and %d",
                  statement_name(c->op), shape.arity + 2, shape.params, c->n_in, c->n_doubles);
  Job job;
  const gd_view* views[kMaxViews];
  job.inputs = c->n_in;
  for (int v = 0; v <= c->n_in; ++v) {
    views[v] = v < c->n_in ? &c->in[v] : &c->out[0];
    const int32_t wanted = shape.select && v == 1 ? int32_t(GD_BOOL) : dtype;
    if (views[v]->data && views[v]->dtype != wanted)
      return refuse(e, GD_INVALID, slot, "%s: view %d should be %s, got %s", statement_name(c->op),
                    v, dtype_name(DType(wanted)), dtype_name(DType(views[v]->dtype)));
  }
  job.fn = block->vjp[operand];
  job.params = c->doubles;
  return run(d, job, views, slot, e);
}

}  // namespace gradus::cpu
