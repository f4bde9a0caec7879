/* pk.h: the public face of compiled kernels. C11 and C++.
 *
 * A kernel `add` compiled by pkc is a function
 *
 *     pk_status add(pk_context *context, const DLTensor *x, const DLTensor *y, DLTensor *o);
 *
 * on DLPack tensors in CPU memory. Strides (in elements, any sign, NULL for row-major) and
 * byte_offset are honoured. It returns PK_OK, or a status and a message (pk_message); a call that
 * is refused has written nothing. A context serves one call at a time, from any thread; calls on
 * different contexts may run at the same time. A child of fork may use its parent's contexts.
 */
#ifndef PK_PK_H
#define PK_PK_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

/* Codes newer than DLPack 0.6, which Debian ships. An f8 has 8 bits; i4, u4, i2 and u2
 * are kDLInt and kDLUInt of 4 and 2 bits, each element in the low bits of a byte of its own (what
 * later DLPack calls padded). */
enum {
  PK_DL_BOOL = 6,
  PK_DL_FLOAT8_E4M3B11FNUZ = 9,
  PK_DL_FLOAT8_E4M3FN = 10,
  PK_DL_FLOAT8_E4M3FNUZ = 11,
  PK_DL_FLOAT8_E5M2 = 12,
  PK_DL_FLOAT8_E5M2FNUZ = 13,
  PK_DL_FLOAT8_E8M0FNU = 14
};

typedef enum {
  PK_OK = 0,
  PK_BAD_ARGUMENT, /* a NULL tensor, a dtype, rank, device or stride that does not fit the kernel */
  PK_BAD_SIZE,     /* sizes that disagree, are negative or too large */
  PK_REQUIREMENT,  /* a `require` of the kernel does not hold */
  PK_OVERLAP,      /* an output overlaps another operand or itself */
  PK_VMEM_EXCEEDED, /* the kernel's blocks need more VMEM than the limit */
  PK_NO_MEMORY,     /* the machine has no more memory */
  PK_FAILED,        /* an `assert` of the kernel failed, or a wait could not end */
  PK_BUSY           /* another call is using the context; its message is that call's */
} pk_status;

/* Threads, memory and messages of a series of calls. A NULL context stands for a context of the
 * calling thread. */
typedef struct pk_context pk_context;
pk_context *pk_context_new(void); /* NULL when memory is out */
void pk_context_free(pk_context *context);
/* Threads for parallel grid axes; 0: $PK_THREADS, else 1. */
void pk_context_set_threads(pk_context *context, int threads);
/* How many processors the process may use: its affinity mask. */
int pk_processors(void);
/* Threads of the host's in place of the context's own: `run` arranges for task(argument) to be
 * called `count` times, on any threads, now or later, and returns how many of the calls it has
 * arranged, 0 to count. It may make them itself, and wait for them or not. The kernel's call never
 * waits for a task to begin: it does alone what no task takes from it, so a pool that is busy
 * cannot hang it, and a task that begins later returns at once. What has been arranged must happen
 * before the library is unloaded. run NULL: the context's own threads again. `count` is the
 * context's number of threads without the calling one. */
typedef int pk_run(void *pool, int count, void (*task)(void *argument), void *argument);
void pk_context_set_pool(pk_context *context, pk_run *run, void *pool);
/* Bytes of VMEM a launch may hold; 0: $PK_VMEM_LIMIT, else the kernel's own limit or 128 MiB. */
void pk_context_set_vmem_limit(pk_context *context, int64_t bytes);
/* Where `print` of kernels goes, in all of the process: `line` is called with each line, on any
 * thread and on several at once; NULL: standard error again. */
typedef void pk_line(const char *text);
void pk_set_print(pk_line *line);
/* The message of the last call that failed on this context (NULL: the calling thread's); "" when
 * none did. Valid until the next call. */
const char *pk_message(const pk_context *context);
/* From now on the calls of this context are recorded: cells, DMAs, regions. The recording so far,
 * if any, is written to the file it was begun with, in Chrome's trace format; path NULL only ends
 * it, and so does pk_context_free. */
pk_status pk_context_trace(pk_context *context, const char *path);
/* On: from now on the kernels of this context's calls are timed, those of a program one by one, and
 * earlier rows are forgotten. Off: no more, and the rows stay. */
pk_status pk_context_profile(pk_context *context, int on);
typedef struct {
  const char *name; /* valid until the next call */
  int64_t calls;
  double seconds;
} pk_kernel_time;
/* Row 0, 1, .. of what was timed, in the order of first calls; 0 when there is no such row. */
int pk_profile_row(const pk_context *context, int index, pk_kernel_time *time);
const char *pk_status_name(pk_status status);
const char *pk_version(void);

/* What a loader needs to know of a compiled kernel: each is exported as `const pk_kernel
 * NAME_kernel`. */
typedef struct pk_kernel pk_kernel;
/* The target (of `pkc --targets`) that a kernel compiled for several of them is run for here: the
 * first that this processor supports. NULL: it supports none, and calls are refused. "" for a
 * kernel that was compiled for one. */
const char *pk_kernel_target(const pk_kernel *kernel);
/* Calls any kernel: tensors in the order of its signature. */
pk_status pk_call_kernel(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors);
/* Bytes that the temporaries of a program take in a call with these tensors; a kernel has none. The
 * context keeps them for later calls. -1: the call would be refused, and pk_message says why. */
int64_t pk_temporary_bytes(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors);
/* The shapes that the outputs of a call with these inputs have, one row an output: what a caller
 * who allocates them has to know. The inputs are the first of the kernel's tensors, and are checked
 * as in a call; nothing runs. sizes NULL, or one number for each size that is taken from arrays,
 * -1 where the inputs say it. */
pk_status pk_output_shapes(pk_context *context, const pk_kernel *kernel, DLTensor *const *inputs,
                           const int64_t *sizes, int64_t (*shapes)[8]);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
