/* The kernel table: the whole contract between gradus and a device, in plain C11.
 *
 * A device is a table of kernels. The CPU's is linked in; a GPU's is a shared library that exports
 * one symbol, gradus_device_module. No C++ type and no exception crosses this header. Every work
 * slot has one signature, so a table can be wrapped (recorded, counted, compared) by a function
 * that knows nothing of the work.
 *
 * Growth: fields are appended and GD_MINOR rises; any other change raises GD_MAJOR.
 */
#ifndef GRADUS_KERNEL_TABLE_H
#define GRADUS_KERNEL_TABLE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GD_MAGIC 0x73756461u /* "adus" */
#define GD_MAJOR 3u
#define GD_MINOR 1u

/* ---- dtypes. Codes from 64 up are users' types, and their bits from 12 up hold the
 * size of an element. The reference has kernels for those registered with it, other tables none. */
enum {
  GD_F32 = 0,
  GD_F64 = 1,
  GD_C64 = 2,
  GD_C128 = 3,
  GD_I32 = 4,
  GD_I64 = 5,
  GD_U8 = 6,
  GD_BOOL = 7, /* one byte, 0 or 1 */
  GD_F16 = 8,
  GD_BF16 = 9,
  GD_DTYPE_COUNT = 10,
  GD_USER_DTYPE = 64
};

/* ---- status. GD_OK, or the reason; gd_error says it in words. */
typedef int32_t gd_status;
enum {
  GD_OK = 0,
  GD_NO_DRIVER,
  GD_NO_DEVICE,
  GD_BAD_DEVICE,
  GD_OOM,
  GD_INVALID, /* the call breaks the slot's contract */
  GD_NOT_READY,
  GD_UNSUPPORTED, /* contract kept, but this dtype or size has no kernel here */
  GD_NO_KERNEL_IMAGE,
  GD_CAPTURE,
  GD_DEVICE_LOST,
  GD_INTERNAL,
  GD_SCRATCH /* nothing was done: the call wants gd_error.wanted bytes of scratch memory */
};

typedef struct gd_error {
  gd_status code;
  int32_t native; /* the vendor's own number, 0 if none */
  int64_t wanted; /* GD_SCRATCH: bytes */
  char text[240]; /* always terminated */
} gd_error;

/* ---- views. Element (i0, i1, ...) of a view lies at
 *   (char*)data + (offset + i0*strides[0] + i1*strides[1] + ...) * itemsize.
 * offset and strides count elements; strides may be 0 (inputs only) or negative. rank 0 is one
 * element, a size of 0 is none. That all lies in the allocation is the caller's care. What a call
 * points to is the caller's, for the call only; but data stays until the stream's work is done. */
typedef struct gd_view {
  uint64_t buffer; /* id of the allocation, for wrappers */
  void* data;      /* start of the allocation; NULL for an operand that is left out */
  int32_t dtype;
  int32_t rank;
  int64_t offset;
  const int64_t* sizes;
  const int64_t* strides;
} gd_view;

/* ---- work slots. The three lines of each: what views and numbers mean / aliasing / determinism.
 * Everywhere: results never depend on the thread count; an output never overlaps itself. "out may
 * be in" means the very same view; any other overlap of an output with an input is the caller's
 * fault. A dtype that is not read is GD_UNSUPPORTED. After an error outputs hold anything. */
typedef enum gd_slot {
  /* out[i] = cast(in[i]); equal sizes, any two dtypes. complex -> real keeps the real part; float
   * -> integer truncates; x -> bool is x != 0 (NaN is true). f16/bf16 round to nearest even. out
   * may be in. Deterministic. */
  GD_COPY = 0,
  /* out[i] = value, cast as by GD_COPY. doubles = {re, im}; for i32/i64 outputs ints = {value}. No
   * inputs. Deterministic. */
  GD_FILL,
  /* out[i] = statement `op` of (in[0][i], in[1][i], in[2][i]); all views have out's sizes (operands
   * broadcast by stride 0). doubles = the statement's parameters. Dtypes: T->T, (T,T)->T or bool,
   * (bool,T,T)->T, complex->real.
   * out may be any in of its own dtype. The same element gives the same bits at any position. */
  GD_POINTWISE,
  /* The cotangent of operand ints[0] of statement `op`, in one pass:
   *   out[i] = in[0][i] * conj(slope_k(x..., y)[i]),  in = {g, x0 .. x(arity-1), y}.
   * Views whose data is NULL are not read by the slope. doubles = parameters. Holomorphic and real
   * statements only.  out may be g. As GD_POINTWISE. */
  GD_POINTWISE_VJP,
  /* op = gd_reduction over the axes where out's size is 1 and in's may be anything; equal rank.
   * sum, prod: out dtype as in's (i64 for integers and bool; f16/bf16 add in f32). max/min: NaN
   * wins; an empty extent is GD_INVALID. argmax/argmin: i64, ints = {axis}, the one that is
   * reduced; first winner, NaN wins. any/all: bool out. Complex numbers have no order. out overlaps
   * nothing. One fixed order per instruction set: partials of fixed size, fixed tree. */
  GD_REDUCE,
  /* Inclusive scan along axis ints[0] (rank 0: a line of one), op = sum, prod, max or min; ints[1]
   * = 1 runs from the end. Equal sizes and dtypes. out may be in. One order for each length. */
  GD_SCAN,
  /* out = alpha * SUM_k a*b + beta * out (+ bias): views a = in[0], b = in[1] stand over one joint
   * index space of equal rank and sizes: first ints[0] axes that out has too, then the axes summed
   * over; an operand without an axis has stride 0 there. out = out[0] has rank ints[0].
   * ints = {n_out_axes, algebra (gd_algebra), conj_a, conj_b}; doubles = {alpha.re, alpha.im,
   * beta.re, beta.im}. in[2], if n_in is 3, is a bias over out's axes (stride 0 where it has none),
   * standard algebra only. ints[4], if there are five, is a unary statement T->T that each finished
   * element, as out would hold it, is put through; doubles[4..] are its parameters; standard
   * algebra only. beta = 0 does not read out. out[1], if n_out is 2, is an i64 view with
   * out's sizes that receives the winner: row-major index over the summed axes, the first on ties,
   * -1 if the sum is empty or no term beats -inf / +inf. The tropical algebras (all but the
   * standard one) take alpha = 1, beta = 0 and real or integer dtypes; over an empty sum they give
   * -inf / +inf (INT_MIN / INT_MAX: sums saturate there), max-times 0. That zero of max-plus,
   * min-plus and min-times swallows: its term is the zero again, unless the other factor is NaN; in
   * min-times factors are meant to be positive. a and b may overlap; out overlaps neither. The
   * order of the sum depends only on the sizes and on which axes have stride 0, never on threads or
   * positions; complex factors may change places by the same rule, so an expanded view and its
   * dense copy may differ in the last bits. op wishes for a way of doing it (gd_way); each way is
   * an order of its own, and that of a vendor's library may depend on strides and alignment too. A
   * device with several ways says in *way which one it took. a, b, out, bias: one dtype. */
  GD_CONTRACT,
  /* out[i..] = in[0][i.., index[i..] along axis ints[0], ..]: in[1] = index (i64 or i32) with out's
   * sizes; in[0] has the sizes of out on the other axes (stride 0 is fine), and out's dtype. An
   * index outside [0, size) is GD_INVALID, and the text names it: at once, or at the next wait for
   * the stream. No overlap. Deterministic. */
  GD_GATHER,
  /* out[.., index[i..], ..] += in[1][i..] along axis ints[0]: in[0] = index, as in GD_GATHER, in[1]
   * = source, of equal sizes; out is read and written, its other sizes are the source's. No
   * overlap. Contributions are added in row-major order of the source, those of f16/bf16 in f32. */
  GD_SCATTER_ADD,
  /* Philox4x32-10 numbers (engine/abi/philox.hpp), op = gd_random. in[0] = {seed, base} (i64, one
   * axis), ints = {relative}; row-major element i of out uses number base + relative + i. doubles:
   * uniform {low, high} and normal {mean, std} of real floats, bernoulli {p} of all but complex
   * numbers. Same bits on every device. */
  GD_RANDOM,
  /* Softmax along axis ints[0] (rank 0: a line of one); ints[1] = 1 gives its logarithm. Equal
   * sizes, f32 f64 f16 bf16. out may be in. Max and sum in the fixed order of GD_REDUCE. */
  GD_SOFTMAX,
  GD_NORMALIZE, /* lines brought to mean 0 and variance 1: ops/def/normalize.h */
  /* One optimiser update, op = gd_optimizer, in place. in = {grad, hyper, gain}; out = {param,
   * state...}; all contiguous or alike. hyper and gain are f64 or f32, of one axis or none: hyper
   * has the step's values, sgd {lr}, adam/adamw {lr, 1 - beta1^t, 1 - beta2^t}; gain is one number
   * that multiplies the gradient. Several parameters by one rule: in and out repeated (sgd then has
   * two outs each). sgd: doubles {momentum, dampening, weight_decay, nesterov}, out = {param,
   * velocity} (NULL when momentum = 0), ints = {first step}. adam/adamw: doubles {beta1, beta2,
   * eps, weight_decay}, out = {param, m, v}. Formulas: ops/optim/optimizer.hpp. Deterministic. */
  GD_OPTIMIZER_STEP,
  GD_LINALG, /* factors and spectra of matrices, solving: ops/def/linalg.h */
  /* Sorts each line of in[0] along axis ints[0]; ints[1] = 1: from the largest. out[0] = the values
   * (in's dtype; may be NULL), out[1] = where they stood in the line (i64). Equal sizes; no complex
   * numbers. No overlap. Stable, also downwards; NaN counts as the largest, -0 equals 0. */
  GD_SORT,
  /* Pointwise calls in a row, block by block through all of them: GD_POINTWISE, GD_POINTWISE_VJP
   * and GD_COPY, each as its own slot says, but not of f16 and bf16; all views have the same sizes,
   * at most GD_CHAIN_MOST in all. doubles: those of the steps, one after the other. ints = {steps
   * (at most GD_CHAIN_MOST), then for each {slot, op, operand (vjp), doubles, operands, those
   * operands, dtype of the result, out view to write it to or -1}}. Operand v < n_in is in[v], n_in
   * + k is the result of step k, -1 is left out. An out view may be the very view of an in that no
   * later step reads. The same bits as the calls one by one. */
  GD_CHAIN,
  GD_GROUPED, /* blocks of whole buffers, copied or multiplied: ops/def/grouped.h */
  GD_SLOT_COUNT
} gd_slot;

enum { GD_CHAIN_MOST = 32 };

/* A slot's name, as texts say it. */
static inline const char* gd_slot_name(int32_t slot) {
  static const char* const names[GD_SLOT_COUNT] = {
      "copy",           "fill",   "pointwise",   "pointwise_vjp", "reduce",  "scan",
      "contract",       "gather", "scatter_add", "random",        "softmax", "normalize",
      "optimizer_step", "linalg", "sort",        "chain",         "grouped"};
  return slot >= 0 && slot < GD_SLOT_COUNT ? names[slot] : "unknown";
}

typedef enum gd_reduction {
  GD_SUM = 0,
  GD_PROD,
  GD_MAX,
  GD_MIN,
  GD_ARGMAX,
  GD_ARGMIN,
  GD_ANY,
  GD_ALL
} gd_reduction;
typedef enum gd_algebra {
  GD_STANDARD = 0,
  GD_MAX_PLUS,
  GD_MIN_PLUS,
  GD_MAX_TIMES,
  GD_MIN_TIMES,
  GD_ALGEBRA_COUNT
} gd_algebra;
/* How a contraction may be done, in op: one of these, + 256 * (1 + k) for a sum that is cut into
 * 2^k parts. A device that can't do the call in that way takes its own choice, or with GD_WAY_ONLY
 * refuses as GD_UNSUPPORTED. */
typedef enum gd_way {
  GD_WAY_OWN = 0,        /* the device's choice, by the sizes */
  GD_WAY_DIRECT,         /* a thread makes an element */
  GD_WAY_DOTS,           /* a block makes an element */
  GD_WAY_THIN,           /* a block makes a tile: of few columns, ... */
  GD_WAY_SMALL,          /* of 32 x 32 elements, ... */
  GD_WAY_SQUARE,         /* of 64 x 64, ... */
  GD_WAY_LARGE,          /* of 128 x 128 */
  GD_WAY_MATRIX,         /* matrix units, tiles of 64 x 64 */
  GD_WAY_MATRIX_LARGE,   /* matrix units, tiles of 128 x 128 */
  GD_WAY_GEMM_LIBRARY,   /* a vendor's library of matrix products */
  GD_WAY_TENSOR_LIBRARY, /* a vendor's library of contractions */
  GD_WAY_COUNT,
  GD_WAY_ONLY = 0x10000
} gd_way;
typedef enum gd_random { GD_UNIFORM = 0, GD_NORMAL, GD_BERNOULLI } gd_random;
typedef enum gd_optimizer { GD_SGD = 0, GD_ADAM, GD_ADAMW } gd_optimizer;

typedef struct gd_call {
  uint32_t struct_size; /* sizeof(gd_call) of the caller */
  int32_t slot;         /* gd_slot */
  int32_t op;           /* statement id, or the slot's own enum */
  int32_t n_in, n_out, n_doubles, n_ints;
  const gd_view* in;
  const gd_view* out;
  const double* doubles;
  const int64_t* ints;
  void* plan; /* from prepare(), or NULL */
  /* Memory of the device, from its alloc, that the call may use until the work it starts has ended.
   * A call that needs more does nothing and returns GD_SCRATCH. A captured graph uses it again. */
  void* scratch;
  uint64_t scratch_bytes;
  int32_t* way; /* where GD_CONTRACT may write the gd_way it took, or NULL */
} gd_call;

typedef struct gd_device gd_device; /* the module's own */
typedef struct gd_stream gd_stream; /* NULL: the module's default one; else the vendor's handle */
#define GD_VENDORS_STREAM ((gd_stream*)1) /* the vendor's default one: other libraries' work */
typedef struct gd_event gd_event;

typedef struct gd_info {
  char name[128];
  char arch[64];
  int64_t total_bytes, free_bytes; /* -1 if unknown */
  int32_t units;                   /* threads or multiprocessors */
  int32_t wave;                    /* lanes of one vector or wave */
} gd_info;

/* Copies, in the order of the stream. From and to the host they have done with it when they return,
 * GD_FROM_PEER with its source, which another device of the same table has finished writing. With
 * PINNED they return at once: the host's side is of alloc_pinned and stays till their end. */
enum { GD_HOST_TO_DEVICE = 0, GD_DEVICE_TO_HOST = 1, GD_ON_DEVICE = 2, GD_FROM_PEER = 3 };
enum { GD_PINNED_TO_DEVICE = 4, GD_DEVICE_TO_PINNED = 5 };
/* THREADS: several cores, so that calls from several threads at once end sooner. GATHERS: a
 * contraction that has one operand here has the others brought here. ROUNDS_BY_LAYOUT: against what
 * the slots say, the last bits depend on strides and positions. */
enum {
  GD_CAP_GRAPH = 1,
  GD_CAP_HOST_MEMORY = 2,
  GD_CAP_THREADS = 4,
  GD_CAP_EMULATED = 32,
  GD_CAP_GATHERS = 64,
  GD_CAP_ROUNDS_BY_LAYOUT = 128
};

/* The table. What is not marked "required" may be NULL: not offered. Functions return a status and
 * fill *error (never NULL) unless it is GD_OK; none throws, prints or exits. Any thread calls. */
typedef struct gd_table {
  uint32_t magic, major, minor, struct_size;
  uint64_t statements; /* hash over all built-in statements, see statement_text */
  const char* kind;    /* "cpu", "cuda", ... : the name people type. required */
  const char* build;   /* compiler, flags, version. required */
  int32_t score;       /* `auto` takes the highest kind with a device */
  int32_t statement_count;
  const char* (*statement_text)(int32_t id); /* "name(arity; params): value; slopes". required */

  gd_status (*probe)(int32_t* count, gd_error*); /* required; none: the text says why */
  gd_status (*info)(int32_t index, gd_info*, gd_error*);
  /* json: the device's config. GD_OK with a text: what the device does without. */
  gd_status (*open)(int32_t index, const char* json, gd_device**, gd_error*); /* required */
  void (*close)(gd_device*);
  uint32_t (*capabilities)(gd_device*);
  /* Vendors' libraries, a line each: name, version, file, or why not. Opens them. Cut to `size`. */
  gd_status (*libraries)(gd_device*, char* text, size_t size, gd_error*);

  /* Raw memory, 64-byte aligned, also of 0 bytes; free waits for what uses it. required */
  gd_status (*alloc)(gd_device*, size_t bytes, void** out, gd_error*);
  void (*free)(gd_device*, void*);
  gd_status (*copy)(gd_device*, gd_stream*, void* to, const void* from, size_t bytes, int32_t way,
                    gd_error*);
  /* Page-locked memory of the host, 64-byte aligned; it may be freed when no copy uses it. */
  gd_status (*alloc_pinned)(gd_device*, size_t bytes, void** out, gd_error*);
  void (*free_pinned)(gd_device*, void*);

  gd_status (*stream_new)(gd_device*, gd_stream**, gd_error*);
  void (*stream_del)(gd_device*, gd_stream*);
  gd_status (*stream_sync)(gd_device*, gd_stream*, gd_error*);
  gd_status (*event_new)(gd_device*, gd_event**, gd_error*);
  void (*event_del)(gd_device*, gd_event*);
  gd_status (*event_record)(gd_device*, gd_stream*, gd_event*, gd_error*);
  gd_status (*event_wait)(gd_device*, gd_stream*, gd_event*, gd_error*);
  gd_status (*event_query)(gd_device*, gd_event*, gd_error*); /* GD_NOT_READY: not yet */
  gd_status (*event_sync)(gd_device*, gd_event*, gd_error*);  /* waits on the host */

  gd_status (*capture_begin)(gd_device*, gd_stream*, gd_error*);
  gd_status (*capture_end)(gd_device*, gd_stream*, void** graph, gd_error*);
  gd_status (*graph_launch)(gd_device*, gd_stream*, void* graph, gd_error*);
  void (*graph_del)(gd_device*, void* graph);

  /* Analysis of a call, done once; freed by unprepare. Calls that carry the plan have the same
   * slot, op, ints, dtypes, sizes and strides; data, offsets and doubles may differ. NULL: none. */
  gd_status (*prepare)(gd_device*, const gd_call*, void** plan, gd_error*);
  void (*unprepare)(gd_device*, void* plan);

  gd_status (*slot[GD_SLOT_COUNT])(gd_device*, gd_stream*, const gd_call*, gd_error*);
} gd_table;

/* The one symbol a module exports. Returns NULL if it does not speak host_major. */
typedef const gd_table* (*gd_module_entry)(uint32_t host_major, uint32_t host_minor);
#define GD_ENTRY_SYMBOL "gradus_device_module"

#ifdef __cplusplus
}
#endif
#endif
