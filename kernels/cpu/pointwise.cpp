// The slots pointwise and pointwise_vjp: one driver for all statements, dtypes and strides. It cuts
// the elements into blocks, gathers what is not contiguous, widens f16 and bf16 to f32, and calls
// the statement's block function. Blocks whose length is no multiple of kPad are padded, so an
// element meets the same batch code at any position. Must not know any statement.
#include "kernels/cpu/slots.hpp"

#include "kernels/cpu/statements_scalar.hpp"
#include "kernels/cpu/walk.hpp"

#include <cstdlib>

namespace gradus::cpu {
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
  bool direct, scalar, absent;
};

constexpr int64_t kBlockBytes = kBlock * 16;

struct Job {
  Walk walk;  // inputs, then the output
  Port port[kMaxViews];
  int inputs;
  BlockFn fn;
  const double* params;
};

// Fills the whole block with the operand's one value.
void fill_scalar(const Job& job, int v, char* block) {
  const Port& p = job.port[v];
  if (p.absent) {
    memset(block, 0, size_t(kBlock * p.width));
    return;
  }
  if (p.convert)
    p.convert(job.walk.base[v], block, 1);
  else
    memcpy(block, job.walk.base[v], size_t(p.width));
  copy_row(block + p.width, p.width, block, 0, kBlock - 1, p.width);
}

// The block of input v for elements [start, start + n), padded by copies of its last element.
const void* load(const Job& job, int v, int64_t start, int64_t n, char* block, char* narrow) {
  const Port& p = job.port[v];
  if (p.scalar) return block;
  const bool padded = n % kPad != 0;
  char* const source = job.walk.base[v] + start * p.item;
  if (p.direct && !p.convert && !padded) return source;
  if (p.convert) {
    const void* from = source;
    if (!p.direct) {
      gather_block(job.walk, v, start, n, narrow);
      from = narrow;
    }
    p.convert(from, block, n);
  } else if (p.direct) {
    memcpy(block, source, size_t(n * p.width));
  } else {
    gather_block(job.walk, v, start, n, block);
  }
  if (padded)
    copy_row(block + n * p.width, p.width, block + (n - 1) * p.width, 0, kPad - n % kPad, p.width);
  return block;
}

// At most kBlock elements, or any multiple of kPad if every view that is not scalar is direct.
void run_block(const Job& job, int64_t start, int64_t n, char (*blocks)[kBlockBytes],
               char* narrow) {
  const void* in[kMaxViews];
  for (int v = 0; v < job.inputs; ++v) in[v] = load(job, v, start, n, blocks[v], narrow);
  const int o = job.inputs;
  const Port& p = job.port[o];
  char* const target = job.walk.base[o] + start * p.item;
  const bool straight = p.direct && !p.convert && n % kPad == 0;
  char* const result = straight ? target : blocks[o];
  job.fn(in, result, (n + kPad - 1) / kPad * kPad, job.params);
  if (straight) return;
  const char* from = result;
  if (p.convert) {
    p.convert(result, p.direct ? target : narrow, n);
    if (p.direct) return;
    from = narrow;
  }
  if (p.direct)
    memcpy(target, from, size_t(n * p.item));
  else
    scatter_block(job.walk, o, start, n, from);
}

void run_range(const Job& job, int64_t begin, int64_t end) {
  alignas(64) char blocks[kMaxViews][kBlockBytes];
  alignas(64) char narrow[kBlock * 2];
  bool whole = true;  // no view needs a block of its own, but for scalars and tails
  for (int v = 0; v <= job.inputs; ++v) {
    const Port& p = job.port[v];
    if (p.scalar) {
      if (v < job.inputs) fill_scalar(job, v, blocks[v]);
      whole = false;
    }
    whole = whole && p.direct && !p.convert;
  }
  if (whole) {
    const int64_t full = (end - begin) / kPad * kPad;
    if (full > 0) run_block(job, begin, full, blocks, narrow);
    if (begin + full < end) run_block(job, begin + full, end - begin - full, blocks, narrow);
    return;
  }
  for (int64_t i = begin; i < end; i += kBlock)
    run_block(job, i, end - i < kBlock ? end - i : kBlock, blocks, narrow);
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

gd_status run(gd_device* d, Job& job, const gd_view* const* views, const char* slot, gd_error* e) {
  const int o = job.inputs;
  for (int v = 0; v <= o; ++v)
    if (views[v]->data && !same_sizes(*views[v], *views[o]))
      return refuse(e, GD_INVALID, slot, "input %d has other sizes than the output", v);
  for (int v = 0; v <= o; ++v) {
    if (views[v]->data) {
      add_view(job.walk, *views[v]);
    } else {
      gd_view absent = *views[o];
      absent.data = nullptr;
      absent.dtype = views[0]->dtype;
      add_view(job.walk, absent);
    }
  }
  const int64_t n = job.walk.count();
  if (n == 0) return GD_OK;
  sort_axes(job.walk, o);
  Straightened copies;
  for (int v = 0; v < o; ++v) copies.straighten(d, job.walk, v, o);
  merge_axes(job.walk);
  for (int v = 0; v <= o; ++v) {
    Port& p = job.port[v];
    const int32_t t = views[v]->data ? views[v]->dtype : views[0]->dtype, to = working(t);
    p.absent = !views[v]->data;
    p.item = int64_t(itemsize(DType(t)));
    p.width = int64_t(itemsize(DType(to)));
    p.convert = t == to ? nullptr : v < o ? d->convert(t, to) : d->convert(to, t);
    p.scalar = v < o && (p.absent || (n > 1 && job.walk.scalar(v)));
    p.direct = !p.absent && job.walk.contiguous(v);
  }
  parallel_range(d, n, kGrain, [&](int64_t begin, int64_t end) { run_range(job, begin, end); });
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
