/* SPDX-License-Identifier: MIT */
/* The second half of gradus.h, which includes it: devices and their memory, streams, captured
 * steps, files, optimisers, networks, data sets and training. Conventions stand at the head of
 * gradus.h. */
#ifndef GRADUS_RUN_H
#define GRADUS_RUN_H

#include "gradus.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- devices. A number stands for one: below 0 the CPU, N the N-th GPU, counted over CUDA's
 * first, then HIP's; from GRADUS_OTHER_DEVICE on those that gradus_find_device() gave a number to
 * (the reference device, the emulator's). */
enum { GRADUS_CPU = -1, GRADUS_OTHER_DEVICE = 0x10000 };
enum { GRADUS_TYPE_CPU = 0, GRADUS_TYPE_CUDA = 1, GRADUS_TYPE_ROCM = 2, GRADUS_TYPE_OTHER = 3 };
/* For new tensors of all threads from now on: a name ("cpu", "cuda:1", "auto"), a number, a path
 * that ends in .json, or a JSON object ({"device": "cuda", "fallback": "error", "memory_limit":
 * "4GiB"}). A device that is not there is replaced by the CPU, with a notice, unless fallback is
 * "error". */
GRADUS_API gradus_status gradus_use_device(const char* config);
/* As the program gradus chooses: GRADUS_DEVICE, then gradus.json in the working folder, then
 * "auto". */
GRADUS_API gradus_status gradus_use_default_device(void);
GRADUS_API gradus_status gradus_current_device(int32_t* out);
GRADUS_API gradus_status gradus_device_count(int32_t* out); /* GPUs that can be used */
GRADUS_API gradus_status gradus_find_device(const char* name, int32_t* out); /* opens it */
GRADUS_API gradus_status gradus_device_type(int32_t device, int32_t* out);
/* "cuda:1"; of the library, for ever */
GRADUS_API gradus_status gradus_device_name(int32_t device, const char** out);
/* 1 or 0; where it is 0 gradus_last_error_text() says why. */
GRADUS_API gradus_status gradus_available(const char* device, int32_t* out);
GRADUS_API gradus_status gradus_cuda_available(int32_t* out);
/* A kernel module by its path; without it modules are looked for beside this library, in
 * lib/gradus, and in GRADUS_MODULE_PATH, never in the working folder. */
GRADUS_API gradus_status gradus_load_module(const char* path);
GRADUS_API gradus_status gradus_to_device(gradus_tensor t, int32_t device, gradus_tensor* out);
GRADUS_API gradus_status gradus_cpu(gradus_tensor t, gradus_tensor* out);
GRADUS_API gradus_status gradus_cuda(gradus_tensor t,
                                     gradus_tensor* out); /* the first CUDA device */
GRADUS_API gradus_status gradus_synchronize(int32_t device);

/* Functions of a LAPACK or a BLAS that the program has, to do what such a library does that a
 * device config names ("libraries": {"blas": FILE}), where it names none. key: "lapack" or "blas".
 * "blas" has cblas_sgemm, cblas_dgemm, cblas_cgemm, cblas_zgemm and cblas_dscal, with integers of
 * 32 bits. "lapack", by Fortran's interface with integers of 32 bits and lengths of texts (size_t)
 * at the end: of s, d, c and z each potrf_, getrf_, getrs_, trtrs_, geqrf_, orgqr_, syevd_, gesdd_
 * and geev_ (spotrf_, dpotrf_, ...), where c and z call two of them ungqr_ and heevd_. Either may
 * bring openblas_set_num_threads, which is told 1, openblas_get_config and ilaver_. Before the
 * first tensor: once the CPU is in use it is GRADUS_DEVICE. GRADUS_VALUE if a function is missing
 * or computes something else. Names and text are copied; the functions stay for as long as the
 * program. Several threads call them at once; they should begin none, so that bits don't depend on
 * their number. With n_functions 0 the CPU does all by itself again. */
typedef void (*gradus_any_function)(void); /* cast from its own type */
typedef struct gradus_library {
  uint32_t struct_size;
  uint32_t n_functions;
  const char* const* names; /* as many as functions */
  const gradus_any_function* functions;
  const char* text; /* who made it, which version; may be NULL */
} gradus_library;
GRADUS_API gradus_status gradus_give_library(const char* key, const gradus_library* library);

typedef struct gradus_memory {
  uint32_t struct_size;
  uint32_t unused;
  uint64_t live, cached, peak, limit; /* bytes: in tensors, kept for reuse, most at once, 0: none */
} gradus_memory;
GRADUS_API gradus_status gradus_memory_stats(int32_t device, gradus_memory* out);
GRADUS_API gradus_status gradus_memory_limit(int32_t device, uint64_t bytes); /* 0: none */
GRADUS_API gradus_status gradus_memory_trim(int32_t device);

/* ---- streams. Each thread's ops on a device run on the device's default stream, or on the one
 * that the thread uses. Memory that meets another stream than the one it was last touched on is
 * waited for, on the device, by itself; reading on the host waits, too. A device without streams
 * (the CPU) has done its work when a call returns: there all of this works, and waits for nothing.
 */
GRADUS_API gradus_status gradus_stream_new(int32_t device, gradus_stream* out);
GRADUS_API gradus_status gradus_stream_use(gradus_stream stream);
GRADUS_API gradus_status gradus_stream_use_default(int32_t device);
GRADUS_API gradus_status gradus_stream_synchronize(gradus_stream stream);
GRADUS_API gradus_status gradus_event_new(int32_t device, gradus_event* out);
/* After all that was asked of the stream so far; 0 is the device's default stream. */
GRADUS_API gradus_status gradus_event_record(gradus_event event, gradus_stream stream);
/* What the stream (of yours, not 0) is told from now on waits for the event. */
GRADUS_API gradus_status gradus_stream_wait(gradus_stream stream, gradus_event event);
GRADUS_API gradus_status gradus_event_done(gradus_event event, int32_t* out);
GRADUS_API gradus_status gradus_event_synchronize(gradus_event event);
/* A CPU tensor of zeros in memory that a GPU copies from and to without the host's waiting. */
GRADUS_API gradus_status gradus_pinned(const int64_t* shape, size_t ndim, int32_t dtype,
                                       int32_t device, gradus_tensor* out);
/* On the current stream; the host does not wait where its side is pinned and row-major. */
GRADUS_API gradus_status gradus_to_device_async(gradus_tensor t, int32_t device,
                                                gradus_tensor* out);
GRADUS_API gradus_status gradus_copy_async(gradus_tensor to, gradus_tensor from);

/* ---- captured steps: what a function does on a device, written down while it runs once, and
 * repeated without graph or allocation, with the same bits. It reads and writes the tensors that it
 * read and wrote then (gradus_copy() gives them new numbers; gradus_optimizer_prepare() the next
 * rate). The function is called once, in earnest, and writes up to `capacity` (64) outputs (holds
 * that are given over), and their number. Where a step can't be repeated (it reads values on the
 * host) gradus_step_why_not() says why, else it gives "". One thread at a time replays a step. */
typedef gradus_status (*gradus_step_fn)(void* user, gradus_tensor* outputs, size_t capacity,
                                        size_t* n_outputs);
GRADUS_API gradus_status gradus_capture(int32_t device, gradus_step_fn step, void* user,
                                        gradus_step* out);
GRADUS_API gradus_status gradus_step_why_not(gradus_step step, const char** out);
GRADUS_API gradus_status gradus_step_replay(gradus_step step);
/* Tensors that every replay fills anew. */
GRADUS_API gradus_status gradus_step_output(gradus_step step, size_t index, gradus_tensor* out);

/* ---- tensors by name, and files. Names are of the list, for as long as it lives. */
GRADUS_API gradus_status gradus_tensors_new(gradus_tensors* out);
GRADUS_API gradus_status gradus_tensors_add(gradus_tensors list, const char* name, gradus_tensor t);
GRADUS_API gradus_status gradus_tensors_count(gradus_tensors list, size_t* out);
GRADUS_API gradus_status gradus_tensors_at(gradus_tensors list, size_t index, const char** name,
                                           gradus_tensor* out); /* either may be NULL */
GRADUS_API gradus_status gradus_tensors_find(gradus_tensors list, const char* name,
                                             gradus_tensor* out);
GRADUS_API gradus_status gradus_read_safetensors(const char* path, gradus_tensors* out);
GRADUS_API gradus_status gradus_write_safetensors(const char* path, gradus_tensors list);
GRADUS_API gradus_status gradus_read_npy(const char* path, gradus_tensor* out);
GRADUS_API gradus_status gradus_write_npy(const char* path, gradus_tensor t);

/* ---- optimisers, by the JSON that configs have for them: "adam", or {"name": "sgd", "lr": 0.1,
 * "momentum": 0.9}. Parameters are leaves. step() takes the rate of the config if lr is below 0,
 * and scales gradients so that all together have at most the norm max_norm, if that is above 0.
 * prepare and apply are its halves: what the host writes, and what the device does (for captured
 * steps). */
GRADUS_API gradus_status gradus_optimizer_new(const char* config, gradus_tensors parameters,
                                              gradus_optimizer* out);
GRADUS_API gradus_status gradus_optimizer_step(gradus_optimizer optimizer, double lr,
                                               double max_norm);
GRADUS_API gradus_status gradus_optimizer_prepare(gradus_optimizer optimizer, double lr);
GRADUS_API gradus_status gradus_optimizer_apply(gradus_optimizer optimizer, double max_norm);
GRADUS_API gradus_status gradus_zero_grad(gradus_optimizer optimizer);
/* The optimiser's own tensors (moments); the same handles, not copies. */
GRADUS_API gradus_status gradus_optimizer_state(gradus_optimizer optimizer, gradus_tensors* out);

/* ---- block-sparse tensors: a description, and as its numbers a plain tensor of one axis, whose
 * gradient has the same description. An element may differ from 0 where the sum over the legs of
 * arrow * charge is the charge of the tensor; all blocks that this allows are there, packed,
 * row-major, in lexicographic order of their sectors. mods: 0 is U(1), n is Z_n, one charge each.
 * parity: the charges whose sum makes a leg odd (fermions), or none. */
typedef struct gradus_leg {
  uint32_t struct_size;
  int32_t arrow; /* 1 or -1 */
  size_t n_sectors;
  const int64_t* charges; /* of each sector n_mods */
  const int64_t* sizes;   /* of each sector */
} gradus_leg;
GRADUS_API gradus_status gradus_blocks_new(const int64_t* mods, size_t n_mods,
                                           const int64_t* parity, size_t n_parity,
                                           const gradus_leg* legs, size_t n_legs,
                                           const int64_t* charge, gradus_blocks* out);
typedef struct gradus_blocks_info {
  uint32_t struct_size;
  uint32_t n_legs;
  uint64_t n_blocks;
  int64_t elements; /* of the tensor of numbers */
} gradus_blocks_info;
GRADUS_API gradus_status gradus_blocks_describe(gradus_blocks blocks, gradus_blocks_info* out);
/* Sector and size by leg of block `block`, and where it begins; sectors and sizes may be NULL. */
GRADUS_API gradus_status gradus_blocks_block(gradus_blocks blocks, size_t block, int64_t* sectors,
                                             int64_t* sizes, int64_t* offset);
/* A leg of it, of results too: arrow and how many sectors; of each sector its charges (as many as
 * mods) and its size, each NULL or with room for all sectors. */
GRADUS_API gradus_status gradus_blocks_leg(gradus_blocks blocks, size_t leg, int32_t* arrow,
                                           size_t* n_sectors, int64_t* charges, int64_t* sizes);
GRADUS_API gradus_status gradus_blocks_charge(gradus_blocks blocks, int64_t* charge); /* n_mods */
/* Legs in another order, of fermions with their signs. Complex conjugate with arrows and charge
 * turned, of fermions so that its contraction with x over all legs is the sum of |x|^2. */
GRADUS_API gradus_status gradus_blocks_permute(gradus_blocks blocks, gradus_tensor numbers,
                                               const int64_t* dims, size_t n_dims,
                                               gradus_blocks* out_blocks, gradus_tensor* out);
GRADUS_API gradus_status gradus_blocks_conj(gradus_blocks blocks, gradus_tensor numbers,
                                            gradus_blocks* out_blocks, gradus_tensor* out);
/* The n legs from dim on as one, with this arrow; split is the inverse, of a leg that fuse made. */
GRADUS_API gradus_status gradus_blocks_fuse(gradus_blocks blocks, gradus_tensor numbers,
                                            int64_t dim, int64_t n, int32_t arrow,
                                            gradus_blocks* out_blocks, gradus_tensor* out);
GRADUS_API gradus_status gradus_blocks_split(gradus_blocks blocks, gradus_tensor numbers,
                                             int64_t dim, gradus_blocks* out_blocks,
                                             gradus_tensor* out);
GRADUS_API gradus_status gradus_blocks_to_dense(gradus_blocks blocks, gradus_tensor numbers,
                                                gradus_tensor* out);
/* GRADUS_VALUE if an element outside of the blocks is larger than tolerance. */
GRADUS_API gradus_status gradus_blocks_from_dense(gradus_blocks blocks, gradus_tensor dense,
                                                  double tolerance, gradus_tensor* out);
/* By gradus_einsum's equations; the description and the numbers of the result. */
GRADUS_API gradus_status gradus_blocks_einsum(const char* equation, const gradus_blocks* blocks,
                                              const gradus_tensor* numbers, size_t n,
                                              gradus_blocks* out_blocks, gradus_tensor* out);
/* x = left diag(values) right: the legs `rows` against the others, sector by sector, at most `rank`
 * values (0: all; of equal ones those of the lower charges), none up to cutoff * the largest. The
 * charge of x goes to `right`. */
GRADUS_API gradus_status gradus_blocks_svd(gradus_blocks blocks, gradus_tensor numbers,
                                           const int64_t* rows, size_t n_rows, int64_t rank,
                                           double cutoff, gradus_blocks out_blocks[2],
                                           gradus_tensor out[3]); /* left, values, right */
/* x = q r: q has orthonormal columns, r a diagonal that is not negative and the charge of x. */
GRADUS_API gradus_status gradus_blocks_qr(gradus_blocks blocks, gradus_tensor numbers,
                                          const int64_t* rows, size_t n_rows,
                                          gradus_blocks out_blocks[2],
                                          gradus_tensor out[2]); /* q, r */
/* x = left diag(values) right of a Hermitian map of charge 0, whose columns' legs are the rows'
 * turned: right is the adjoint of left; values ascend in each sector. */
GRADUS_API gradus_status gradus_blocks_eigh(gradus_blocks blocks, gradus_tensor numbers,
                                            const int64_t* rows, size_t n_rows,
                                            gradus_blocks out_blocks[2],
                                            gradus_tensor out[3]); /* left, values, right */
/* n of them as one .safetensors file (see ops/blocks/file.hpp), and one of it by its name: legs,
 * blocks and numbers come back bit for bit. GRADUS_IO where a file has other blocks than its legs
 * allow. */
GRADUS_API gradus_status gradus_blocks_write(const char* path, const char* const* names,
                                             const gradus_blocks* blocks,
                                             const gradus_tensor* numbers, size_t n);
GRADUS_API gradus_status gradus_blocks_read(const char* path, const char* name,
                                            gradus_blocks* out_blocks, gradus_tensor* out);

/* ---- networks, by the JSON of model.layers: [{"linear": 128}, "relu", {"linear": 10}], for inputs
 * of this shape and dtype (a batch of one). Initial numbers come from this thread's generator. */
GRADUS_API gradus_status gradus_network_new(const char* layers, const int64_t* shape, size_t ndim,
                                            int32_t dtype, gradus_network* out);
GRADUS_API gradus_status gradus_network_forward(gradus_network network, gradus_tensor x,
                                                gradus_tensor* out);
GRADUS_API gradus_status gradus_network_train(gradus_network network,
                                              int32_t on); /* else evaluate */
GRADUS_API gradus_status gradus_network_parameters(gradus_network network, gradus_tensors* out);
GRADUS_API gradus_status gradus_network_state(gradus_network network, gradus_tensors* out);
/* Overwrites the state by tensors of the same names, all or nothing. */
GRADUS_API gradus_status gradus_network_load(gradus_network network, gradus_tensors state);

/* ---- data sets, by the JSON of a config's "data": {"name": "digits", "train": 6000, "test":
 * 1000},
 * {"idx": "DIR"}, a table. Gives train_inputs, train_targets, test_inputs, test_targets. */
GRADUS_API gradus_status gradus_read_data(const char* data, gradus_tensors* out);
/* The order in which training takes its n samples in an epoch: a permutation, made from the seed.
 */
GRADUS_API gradus_status gradus_epoch_order(int64_t n, uint64_t seed, int64_t epoch,
                                            int64_t* order);

/* ---- training as `gradus train` does, by the whole config as JSON text: the same losses, bit for
 * bit. Nothing is written to disk. One thread at a time. */
GRADUS_API gradus_status gradus_trainer_new(const char* config, gradus_trainer* out);
/* One step; *epoch_done is 1 after the last batch of an epoch. Then finish_epoch gives its mean
 * loss and moves on. */
GRADUS_API gradus_status gradus_trainer_step(gradus_trainer trainer, int32_t* epoch_done);
GRADUS_API gradus_status gradus_trainer_finish_epoch(gradus_trainer trainer, double* mean_loss);
/* On the test set; accuracy is NaN where numbers are told. Either may be NULL. */
GRADUS_API gradus_status gradus_trainer_test(gradus_trainer trainer, double* loss,
                                             double* accuracy);
/* The network's and the optimiser's tensors: "model.layers.0.weight", "optimizer....m". */
GRADUS_API gradus_status gradus_trainer_state(gradus_trainer trainer, gradus_tensors* out);

#ifdef __cplusplus
}
#endif
#endif
