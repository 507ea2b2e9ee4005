/* SPDX-License-Identifier: MIT */
/* gradus from C: tensors, ops, autograd, contraction, devices and training, for C99, C11, C++11 and
 * every language that can call C. Installed as <gradus/gradus.h>; link with `pkg-config gradus-c`
 * or CMake's gradus::c.
 *
 *   gradus_tensor x, y, loss, slope;
 *   const double numbers[3] = {0.5, -1, 2};
 *   const int64_t shape[1] = {3};
 *   gradus_from_data(numbers, GRADUS_F64, shape, 1, &x);
 *   gradus_set_requires_grad(x, 1);
 *   gradus_sigmoid(x, &y);
 *   gradus_sum(y, NULL, 0, 0, &loss);
 *   gradus_backward(&loss, NULL, 1, 0);
 *   gradus_grad(x, &slope);      at each number; then gradus_free() for each handle
 *
 * Status. Every function that can fail returns GRADUS_OK (0) or says why not by its status, and
 * gradus_last_error() of the same thread tells op and text. Results go through pointers; on an
 * error nothing is written there but where a function says so. A NULL where a pointer is needed is
 * GRADUS_NULL, never a crash; pointers that lead nowhere can't be told.
 *
 * Handles are 64-bit numbers above 0. Each names one thing of one kind, is never given out twice,
 * and is checked at every call: 0, negative, freed, made up or of another kind is GRADUS_HANDLE.
 * Whoever gets a handle through a pointer owns one hold on it and gives it back with gradus_free();
 * gradus_retain() takes one more. What a tensor needs (its history, its memory) it keeps itself.
 *
 * Callbacks run on the calling thread (release and destroy callbacks: on any), may call gradus
 * again, and return a status: `return gradus_fail(GRADUS_VALUE, "why")` makes the call that is
 * under way fail with that text. `user` is handed to them as it is; `destroy`, if not NULL, is
 * called with it once, when it is needed no more. Where a function with a callback fails, `destroy`
 * and `release` are not called: user is still yours. Handles given to a callback are lent for the
 * call.
 *
 * Threads: everything may be called from any thread. Handles may be shared; concurrent reads are
 * fine, a tensor that is written to is nobody else's meanwhile. Gradient mode, forward levels, the
 * stream, the seed and the last error are each thread's own. After fork() the child may go on, on
 * the CPU, if no other thread was inside gradus. While a program ends (atexit, static destructors)
 * gradus_free() alone may be called. gradus installs no signal handler and prints nothing: notices
 * go to gradus_set_log().
 *
 * Text is UTF-8. Shapes and strides count elements; axes may be negative, from the end. Names,
 * argument order and meaning of ops are PyTorch's. Structs begin with their size, set by the
 * caller.
 */
#ifndef GRADUS_H
#define GRADUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define GRADUS_API __attribute__((visibility("default")))
#else
#define GRADUS_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version. The library's SONAME carries the ABI version; text such as "0.1.0". */
#define GRADUS_ABI_VERSION 1
GRADUS_API int32_t gradus_abi_version(void);
GRADUS_API const char* gradus_version(void);

/* ---- status and errors */
typedef int32_t gradus_status;
enum {
  GRADUS_OK = 0,
  GRADUS_SHAPE, /* shapes that do not fit */
  GRADUS_DTYPE,
  GRADUS_VALUE,
  GRADUS_INDEX,
  GRADUS_AUTOGRAD,
  GRADUS_CONFIG, /* a wrong option or file of options */
  GRADUS_IO,     /* a file that can't be read, written or trusted */
  GRADUS_DEVICE, /* a device or module that is not there */
  GRADUS_MEMORY,
  GRADUS_NUMERIC, /* a NaN, a limit */
  GRADUS_INTERRUPTED,
  GRADUS_INTERNAL,
  GRADUS_HANDLE, /* no handle, or not of this kind */
  GRADUS_NULL    /* NULL where a pointer is needed */
};

/* The last error of this thread; its texts hold until the thread's next call that fails. */
typedef struct gradus_error {
  uint32_t struct_size;
  gradus_status status;
  const char* op;   /* "matmul", or the file, or the function of this header */
  const char* text; /* "matmul: inner sizes differ: ..." */
} gradus_error;
GRADUS_API gradus_status gradus_last_error(gradus_error* out);
GRADUS_API const char* gradus_last_error_text(void);           /* "" if there was none */
GRADUS_API const char* gradus_status_text(gradus_status code); /* "value", ...; never NULL */
/* For callbacks: makes this the thread's last error and returns code (GRADUS_VALUE for an OK). The
 * call under way adds its own name before the text. */
GRADUS_API gradus_status gradus_fail(gradus_status code, const char* text);

/* Notices (another device than the one that was asked for, a file that was ignored), a line each,
 * on the thread that caused them. NULL: nobody hears them, as at first. */
typedef void (*gradus_log_fn)(void* user, const char* text);
typedef void (*gradus_destroy_fn)(void* user);
GRADUS_API gradus_status gradus_set_log(gradus_log_fn log, void* user, gradus_destroy_fn destroy);

/* ---- handles */
typedef int64_t gradus_tensor;
typedef int64_t gradus_op; /* what can be called: an op of the op list, or a function of yours */
typedef int64_t gradus_hook;
typedef int64_t gradus_plan; /* an order of contraction */
typedef int64_t gradus_operation;
typedef int64_t gradus_stream;
typedef int64_t gradus_event;
typedef int64_t gradus_step; /* a captured step */
typedef int64_t gradus_optimizer;
typedef int64_t gradus_tensors; /* tensors by name: a file, a network's state, a data set */
typedef int64_t gradus_network;
typedef int64_t gradus_blocks; /* how the numbers of a block-sparse tensor lie */
typedef int64_t gradus_trainer;

GRADUS_API gradus_status gradus_retain(int64_t handle);
GRADUS_API gradus_status gradus_free(int64_t handle); /* of any kind; 0 is nothing, and fine */
GRADUS_API gradus_status gradus_live_handles(int64_t* out);

/* ---- dtypes. f16 and bf16 are stored as such and computed in f32. */
enum {
  GRADUS_F32 = 0,
  GRADUS_F64 = 1,
  GRADUS_C64 = 2, /* two f32: real, imaginary */
  GRADUS_C128 = 3,
  GRADUS_I32 = 4,
  GRADUS_I64 = 5,
  GRADUS_U8 = 6,
  GRADUS_BOOL = 7, /* one byte, 0 or 1 */
  GRADUS_F16 = 8,
  GRADUS_BF16 = 9
};
enum { GRADUS_MAX_DIMS = 64 };

/* ---- tensors from memory and to memory. New tensors lie on the default device
 * (gradus_use_device). from_data copies numbers that lie row-major; lend copies nothing: the
 * tensor's elements are those of `data`, which must stay until release(user), and may be written
 * while no op reads them. release may be NULL. Bools are 0 or 1. strides NULL: row-major; strides
 * and offset must stay within `bytes`. CPU devices alone. */
GRADUS_API gradus_status gradus_from_data(const void* data, int32_t dtype, const int64_t* shape,
                                          size_t ndim, gradus_tensor* out);
GRADUS_API gradus_status gradus_lend(void* data, size_t bytes, int32_t dtype, const int64_t* shape,
                                     const int64_t* strides, size_t ndim, int64_t offset,
                                     gradus_destroy_fn release, void* user, gradus_tensor* out);
/* All elements, row-major, to host memory of `bytes` = numel times the dtype's size. Waits. */
GRADUS_API gradus_status gradus_to_data(gradus_tensor t, void* to, size_t bytes);
/* Where the first element lies, on a CPU device: good until t is freed or written through gradus.
 * Reading it follows gradus_strides(). */
GRADUS_API gradus_status gradus_data(gradus_tensor t, const void** out);
GRADUS_API gradus_status gradus_item(gradus_tensor t, double* out); /* of one real element */
/* A number without a dtype of its own: it takes that of the tensors it meets (PyTorch's rule). */
GRADUS_API gradus_status gradus_number(double value, gradus_tensor* out);
GRADUS_API gradus_status gradus_zeros(const int64_t* shape, size_t ndim, int32_t dtype,
                                      gradus_tensor* out);
GRADUS_API gradus_status gradus_ones(const int64_t* shape, size_t ndim, int32_t dtype,
                                     gradus_tensor* out);
GRADUS_API gradus_status gradus_full(const int64_t* shape, size_t ndim, double value, int32_t dtype,
                                     gradus_tensor* out);
GRADUS_API gradus_status gradus_arange(double start, double end, double step, int32_t dtype,
                                       gradus_tensor* out);
/* Normal numbers of mean 0 and variance 1, from this thread's generator (Philox4x32-10): the same
 * seed gives the same bits on every device. Each thread begins with seed 0. */
GRADUS_API gradus_status gradus_randn(const int64_t* shape, size_t ndim, int32_t dtype,
                                      gradus_tensor* out);
GRADUS_API gradus_status gradus_manual_seed(uint64_t seed);

/* ---- what a tensor is. shape and strides write at most `capacity` numbers and the rank to *ndim;
 * a smaller capacity is GRADUS_VALUE, with *ndim written. */
GRADUS_API gradus_status gradus_shape(gradus_tensor t, int64_t* sizes, size_t capacity,
                                      size_t* ndim);
GRADUS_API gradus_status gradus_strides(gradus_tensor t, int64_t* strides, size_t capacity,
                                        size_t* ndim);
GRADUS_API gradus_status gradus_ndim(gradus_tensor t, size_t* out);
GRADUS_API gradus_status gradus_numel(gradus_tensor t, int64_t* out);
GRADUS_API gradus_status gradus_dtype(gradus_tensor t, int32_t* out);
GRADUS_API gradus_status gradus_device(gradus_tensor t, int32_t* out); /* see devices */
GRADUS_API gradus_status gradus_is_cuda(gradus_tensor t, int32_t* out);
/* As a person reads it, into text, cut to capacity and terminated; *length, if length is not NULL,
 * is what it would take. */
GRADUS_API gradus_status gradus_text(gradus_tensor t, char* text, size_t capacity, size_t* length);

/* ---- functions of tensors: the common ones, typed; recorded where a derivative can be asked for.
 * All other ops: gradus_op_find(). Views share their tensor's memory. */
GRADUS_API gradus_status gradus_add(gradus_tensor a, gradus_tensor b, gradus_tensor* out);
GRADUS_API gradus_status gradus_sub(gradus_tensor a, gradus_tensor b, gradus_tensor* out);
GRADUS_API gradus_status gradus_mul(gradus_tensor a, gradus_tensor b, gradus_tensor* out);
GRADUS_API gradus_status gradus_div(gradus_tensor a, gradus_tensor b, gradus_tensor* out);
GRADUS_API gradus_status gradus_matmul(gradus_tensor a, gradus_tensor b, gradus_tensor* out);
GRADUS_API gradus_status gradus_neg(gradus_tensor x, gradus_tensor* out);
GRADUS_API gradus_status gradus_exp(gradus_tensor x, gradus_tensor* out);
GRADUS_API gradus_status gradus_log(gradus_tensor x, gradus_tensor* out);
GRADUS_API gradus_status gradus_sqrt(gradus_tensor x, gradus_tensor* out);
GRADUS_API gradus_status gradus_relu(gradus_tensor x, gradus_tensor* out);
GRADUS_API gradus_status gradus_sigmoid(gradus_tensor x, gradus_tensor* out);
GRADUS_API gradus_status gradus_tanh(gradus_tensor x, gradus_tensor* out);
GRADUS_API gradus_status gradus_softmax(gradus_tensor x, int64_t dim, gradus_tensor* out);
/* Over these axes, or over all (dims NULL, n_dims 0); keepdim leaves them with size 1. */
GRADUS_API gradus_status gradus_sum(gradus_tensor x, const int64_t* dims, size_t n_dims,
                                    int32_t keepdim, gradus_tensor* out);
GRADUS_API gradus_status gradus_mean(gradus_tensor x, const int64_t* dims, size_t n_dims,
                                     int32_t keepdim, gradus_tensor* out);
/* One size may be -1. A view where the strides allow it. */
GRADUS_API gradus_status gradus_reshape(gradus_tensor x, const int64_t* shape, size_t ndim,
                                        gradus_tensor* out);
GRADUS_API gradus_status gradus_transpose(gradus_tensor x, int64_t dim0, int64_t dim1,
                                          gradus_tensor* out);
GRADUS_API gradus_status gradus_permute(gradus_tensor x, const int64_t* dims, size_t n_dims,
                                        gradus_tensor* out);
GRADUS_API gradus_status gradus_expand(gradus_tensor x, const int64_t* shape, size_t ndim,
                                       gradus_tensor* out);
GRADUS_API gradus_status gradus_select(gradus_tensor x, int64_t dim, int64_t index,
                                       gradus_tensor* out);
/* Elements start, start + step, ... below end; the step may be negative. */
GRADUS_API gradus_status gradus_slice(gradus_tensor x, int64_t dim, int64_t start, int64_t end,
                                      int64_t step, gradus_tensor* out);
GRADUS_API gradus_status gradus_cast(gradus_tensor x, int32_t dtype, gradus_tensor* out);
GRADUS_API gradus_status gradus_clone(gradus_tensor x, gradus_tensor* out);
GRADUS_API gradus_status gradus_copy(gradus_tensor to,
                                     gradus_tensor from); /* in place; broadcasts */

/* ---- every op of the op list, by name: look it up once, call it often. `gradus ops NAME` of the
 * program prints what it takes. An op added to gradus is found here without a change. */
enum {
  GRADUS_ATTR_NONE = 0, /* left out, where an attribute is optional */
  GRADUS_ATTR_INTEGER,
  GRADUS_ATTR_NUMBER,
  GRADUS_ATTR_BOOLEAN,
  GRADUS_ATTR_INTEGERS,
  GRADUS_ATTR_TEXT,
  GRADUS_ATTR_DTYPE
};
typedef struct gradus_attr {
  uint32_t struct_size;
  int32_t type;
  const char* name; /* "dim", "keepdim", ... */
  int64_t integer;  /* INTEGER, BOOLEAN, DTYPE */
  double number;
  const char* text;
  const int64_t* integers;
  size_t n_integers;
} gradus_attr;
GRADUS_API gradus_status gradus_op_count(size_t* out);
GRADUS_API gradus_status gradus_op_at(size_t index, gradus_op* out);
GRADUS_API gradus_status gradus_op_find(const char* name, gradus_op* out);
typedef struct gradus_op_info {
  uint32_t struct_size;
  int32_t least_operands, operands; /* operands -1: any number */
  int32_t attrs, differentiable;
  const char *name, *doc, *formula, *group; /* of the library, for ever */
} gradus_op_info;
GRADUS_API gradus_status gradus_op_describe(gradus_op op, gradus_op_info* out);
/* Name, type and documentation of attribute `index`; any pointer may be NULL. */
GRADUS_API gradus_status gradus_op_attr(gradus_op op, size_t index, const char** name,
                                        int32_t* type, const char** doc);
/* An operand that is optional may be left out as 0. Attributes in any order; those not given take
 * their defaults. Up to `capacity` outputs; *n_outputs (may be NULL) is how many there are, written
 * also where there are more (GRADUS_VALUE). */
GRADUS_API gradus_status gradus_call(gradus_op op, const gradus_tensor* operands, size_t n_operands,
                                     const gradus_attr* attrs, size_t n_attrs,
                                     gradus_tensor* outputs, size_t capacity, size_t* n_outputs);
/* operands[0] is overwritten by the result: add_, clamp_, ... of any op that keeps its shape. */
GRADUS_API gradus_status gradus_call_in_place(gradus_op op, const gradus_tensor* operands,
                                              size_t n_operands, const gradus_attr* attrs,
                                              size_t n_attrs);

/* ---- autograd */
enum {
  GRADUS_RETAIN_GRAPH = 1,
  GRADUS_CREATE_GRAPH = 2,     /* gradients can be differentiated again */
  GRADUS_ALLOW_UNUSED = 4,     /* gradients(): 0 for an input that does not take part */
  GRADUS_MATERIALIZE_GRADS = 8 /* ... or zeros */
};
GRADUS_API gradus_status gradus_set_requires_grad(gradus_tensor leaf, int32_t on);
GRADUS_API gradus_status gradus_requires_grad(gradus_tensor t, int32_t* out);
GRADUS_API gradus_status gradus_retain_grad(gradus_tensor t); /* .grad of what is no leaf, too */
GRADUS_API gradus_status gradus_detach(gradus_tensor t, gradus_tensor* out);
/* .grad of a leaf: 0 before the first backward. Setting 0 forgets it. */
GRADUS_API gradus_status gradus_grad(gradus_tensor leaf, gradus_tensor* out);
GRADUS_API gradus_status gradus_set_grad(gradus_tensor leaf, gradus_tensor grad);
/* Adds d(sum of <seed, root>)/d(leaf) to .grad of every leaf. A seed of 0, or seeds NULL, is 1 and
 * needs a root of one element. */
GRADUS_API gradus_status gradus_backward(const gradus_tensor* roots, const gradus_tensor* seeds,
                                         size_t n, uint32_t flags);
/* The same with respect to `inputs`, n_inputs tensors that go to grads; .grad stays as it is. */
GRADUS_API gradus_status gradus_gradients(const gradus_tensor* outputs, const gradus_tensor* seeds,
                                          size_t n_outputs, const gradus_tensor* inputs,
                                          size_t n_inputs, uint32_t flags, gradus_tensor* grads);
/* Is anything recorded in this thread? `before`, if not NULL, gets what held: no_grad scopes. */
GRADUS_API gradus_status gradus_set_grad_enabled(int32_t on, int32_t* before);
/* Called with the gradient of t as it passes; *replacement, if set (a hold that is given over),
 * takes its place. Freeing the handle leaves the hook; removing it takes the hook away. */
typedef gradus_status (*gradus_hook_fn)(void* user, gradus_tensor grad, gradus_tensor* replacement);
GRADUS_API gradus_status gradus_register_hook(gradus_tensor t, gradus_hook_fn hook, void* user,
                                              gradus_destroy_fn destroy, gradus_hook* out);
/* Called with the leaf once its .grad has been added to. */
typedef gradus_status (*gradus_leaf_hook_fn)(void* user, gradus_tensor leaf);
GRADUS_API gradus_status gradus_register_accumulate_hook(gradus_tensor leaf,
                                                         gradus_leaf_hook_fn hook, void* user,
                                                         gradus_destroy_fn destroy,
                                                         gradus_hook* out);
GRADUS_API gradus_status gradus_remove_hook(gradus_hook hook);

/* Forward mode, one level at a time in each thread: tangents are given by hand and pushed through
 * every op until the level ends. gradus_tangent gives 0 where there is none. */
GRADUS_API gradus_status gradus_forward_begin(void);
GRADUS_API gradus_status gradus_forward_end(void);
GRADUS_API gradus_status gradus_set_tangent(gradus_tensor x, gradus_tensor tangent);
GRADUS_API gradus_status gradus_tangent(gradus_tensor y, gradus_tensor* out);

/* A function of your own. forward fills outputs[0 .. n_outputs), unrecorded. vjp gives the
 * cotangent of one operand, jvp the tangent of one output (0 where there is none); cotangents and
 * tangents that are 0 mean zero, and so do inputs and outputs that were not kept: bit k of
 * keep_inputs and keep_outputs keeps input or output k for them. What vjp and jvp compute by
 * gradus's ops can be differentiated again; otherwise set once_differentiable. Handles that
 * callbacks write are given over. The handle is kept for as long as graphs with the function shall
 * be walked. Begin with `gradus_function f = {sizeof f}` or {.struct_size = sizeof f}. */
typedef struct gradus_function {
  uint32_t struct_size;
  int32_t once_differentiable;
  const char* name;
  size_t n_inputs, n_outputs; /* at most 64 each */
  uint64_t keep_inputs, keep_outputs;
  gradus_status (*forward)(void* user, const gradus_tensor* inputs, gradus_tensor* outputs);
  gradus_status (*vjp)(void* user, size_t input, const gradus_tensor* inputs,
                       const gradus_tensor* outputs, const gradus_tensor* cotangents,
                       gradus_tensor* cotangent); /* may be NULL, as jvp */
  gradus_status (*jvp)(void* user, size_t output, const gradus_tensor* inputs,
                       const gradus_tensor* outputs, const gradus_tensor* tangents,
                       gradus_tensor* tangent);
  void* user;
  gradus_destroy_fn destroy;
} gradus_function;
GRADUS_API gradus_status gradus_function_new(const gradus_function* function, gradus_op* out);

/* ---- contraction: out = sum over all labels that it lacks of the product of the operands. Labels
 * are any int32 numbers, one for each axis: labels[k] has ndim(operands[k]) of them. A label twice
 * in an operand walks its diagonal; sizes of 1 broadcast. The vjp and jvp are single calls: a
 * cotangent or tangent of 0 (or tangents NULL) means zero. operand -1 asks for all, and grads gets
 * n handles; else for one, and grads gets one. Their results have no history. A
 * contraction of one operand may be a view of it. Tropical algebras put max or min in the place of
 * the sum, + or * in that of the product; a derivative goes to the first winner. MAX_TIMES and
 * MIN_TIMES of several operands are meant for positive factors: with negative ones their value
 * depends on the order. LOG_SUM_EXP, of real numbers, is the logarithm of a sum of exponentials of
 * sums. BOOLEAN, of bool, is an or of ands; MODULO(p), of i32 and i64, counts modulo p, 2 or more:
 * neither has a derivative. An algebra that was added in C++ goes by the number it got there. */
enum {
  GRADUS_SUM_PRODUCT = 0,
  GRADUS_MAX_PLUS,
  GRADUS_MIN_PLUS,
  GRADUS_MAX_TIMES,
  GRADUS_MIN_TIMES,
  GRADUS_LOG_SUM_EXP,
  GRADUS_BOOLEAN
};
#define GRADUS_MODULO(p) (-(p))
GRADUS_API gradus_status gradus_contract(const gradus_tensor* operands,
                                         const int32_t* const* labels, size_t n,
                                         const int32_t* out_labels, size_t n_out, int32_t algebra,
                                         gradus_tensor* out);
GRADUS_API gradus_status gradus_contract_vjp(const gradus_tensor* operands,
                                             const int32_t* const* labels, size_t n,
                                             const int32_t* out_labels, size_t n_out,
                                             int32_t algebra, gradus_tensor cotangent,
                                             int32_t operand, gradus_tensor* grads);
GRADUS_API gradus_status gradus_contract_jvp(const gradus_tensor* operands,
                                             const int32_t* const* labels, size_t n,
                                             const int32_t* out_labels, size_t n_out,
                                             int32_t algebra, const gradus_tensor* tangents,
                                             gradus_tensor* out);
GRADUS_API gradus_status gradus_einsum(const char* equation, const gradus_tensor* operands,
                                       size_t n, gradus_tensor* out);
/* An order of contraction for operands of these shapes, searched once. path: "auto" (or NULL),
 * "optimal", "greedy", "left" or another search's name (`gradus contract --help`); the same
 * operands get the same order. The equation's syntax is numpy's. */
GRADUS_API gradus_status gradus_plan_equation(const char* equation, const int64_t* const* shapes,
                                              const size_t* ndims, size_t n, const char* path,
                                              int32_t algebra, gradus_plan* out);
GRADUS_API gradus_status gradus_plan_labels(const int32_t* const* labels,
                                            const int64_t* const* shapes, const size_t* ndims,
                                            size_t n, const int32_t* out_labels, size_t n_out,
                                            const char* path, int32_t algebra, gradus_plan* out);
typedef struct gradus_plan_info {
  uint32_t struct_size;
  uint32_t steps; /* products of two */
  double flops;   /* of all of it */
  double largest; /* elements of the largest intermediate, the output among them */
} gradus_plan_info;
GRADUS_API gradus_status gradus_plan_describe(gradus_plan plan, gradus_plan_info* out);
/* Which two of the operands that are left step `step` takes; its result is appended to them. */
GRADUS_API gradus_status gradus_plan_step(gradus_plan plan, size_t step, int32_t pair[2]);
GRADUS_API gradus_status gradus_plan_execute(gradus_plan plan, const gradus_tensor* operands,
                                             size_t n, gradus_tensor* out);
GRADUS_API gradus_status gradus_plan_vjp(gradus_plan plan, const gradus_tensor* operands, size_t n,
                                         gradus_tensor cotangent, int32_t operand,
                                         gradus_tensor* grads);
GRADUS_API gradus_status gradus_plan_jvp(gradus_plan plan, const gradus_tensor* operands, size_t n,
                                         const gradus_tensor* tangents, gradus_tensor* out);

/* ---- operations of five kinds, planned once and carried out often on the device that was the
 * default one. x and y are statements of two operands ("add", "mul", "maximum", ...), op "conj" or
 * one of a single operand ("relu", "exp", ...; `gradus ops`); NULL is the identity:
 *
 *   CONTRACTION   D = alpha op(A) op(B) + beta op(C)     modes that D lacks are summed
 *   REDUCTION     D = alpha reduce(op(A)) + beta op(C)   "sum", "prod", "max" or "min"
 *   PERMUTATION   D = alpha op(A)
 *   BINARY        D = alpha op(A) x gamma op(C)
 *   TRINARY       D = (alpha op(A) x beta op(B)) y gamma op(C)
 *
 * C of the first two may be left out. Modes are numbers for axes, as labels of a contraction; a
 * mode of D that an operand lacks broadcasts it, extents are equal. `after` is put over all of D.
 * Values alone: an operand whose derivative would be asked for is GRADUS_AUTOGRAD. */
enum {
  GRADUS_CONTRACTION = 0,
  GRADUS_REDUCTION,
  GRADUS_PERMUTATION,
  GRADUS_BINARY,
  GRADUS_TRINARY
};
typedef struct gradus_operand {
  uint32_t struct_size;
  int32_t dtype; /* the same for all */
  const int32_t* modes;
  const int64_t* sizes;
  size_t ndim;
  const char* op;
  const double* parameters; /* the op's; n_parameters 0: its defaults */
  size_t n_parameters;
} gradus_operand;
typedef struct gradus_operation_desc {
  uint32_t struct_size;
  int32_t kind;
  const gradus_operand* operands; /* in the order of the formula */
  size_t n_operands;
  const int32_t* modes; /* of D */
  size_t n_modes;
  const char* combine;        /* x, or the reduction */
  const char* combine_second; /* y */
  const char* after;
} gradus_operation_desc;
GRADUS_API gradus_status gradus_operation_create(const gradus_operation_desc* desc,
                                                 gradus_operation* out);
typedef struct gradus_operation_info {
  uint32_t struct_size;
  int32_t dtype;
  uint64_t workspace_bytes;
  int64_t workspace_elements; /* a workspace is a tensor of dtype with one axis of so many */
} gradus_operation_info;
GRADUS_API gradus_status gradus_operation_describe(gradus_operation operation,
                                                   gradus_operation_info* out);
/* factors: alpha, beta and gamma, each as its real and its imaginary part; NULL: all 1. An operand
 * whose factor is 0 is not read and may be 0. D is written into `into` and *out stays as it is (out
 * may be NULL); into 0: D is new. into may be the very view of an operand. workspace 0: from the
 * device's memory; no two calls use one at a time. */
GRADUS_API gradus_status gradus_operation_execute(gradus_operation operation,
                                                  const gradus_tensor* operands, size_t n,
                                                  const double* factors, gradus_tensor workspace,
                                                  gradus_tensor into, gradus_tensor* out);

#ifdef __cplusplus
}
#endif

#include "gradus_run.h"
#endif
