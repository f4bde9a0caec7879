/* pk.h: the public interface of compiled kernels, for C11 and C++.
 *
 * A kernel `add` compiled by pkc is a function
 *
 *     pk_status add(pk_context *context, const DLTensor *x, const DLTensor *y, DLTensor *o);
 *
 * on DLPack tensors in CPU memory. Strides (in elements, any sign, NULL for row-major) and
 * byte_offset are honoured. It returns PK_OK, or another status, for which pk_message
 * gives the reason; a refused call writes nothing. A context serves one call at a time, from any
 * thread; calls on different contexts may run at the same time. A child process may use the
 * contexts that it inherits through fork.
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

/* Codes newer than DLPack 0.6, the version in Debian. f8 dtypes have 8 bits; i4, u4, i2 and u2
 * are kDLInt and kDLUInt of 4 and 2 bits, each element in the low bits of its own byte (later
 * versions of DLPack call that padded). */
enum {
  PK_DL_BOOL = 6,
  PK_DL_FLOAT8_E4M3B11FNUZ = 9,
  PK_DL_FLOAT8_E4M3FN = 10,
  PK_DL_FLOAT8_E4M3FNUZ = 11,
  PK_DL_FLOAT8_E5M2 = 12,
  PK_DL_FLOAT8_E5M2FNUZ = 13,
  PK_DL_FLOAT8_E8M0FNU = 14,
  PK_DL_FLOAT4_E2M1FN = 17
};

typedef enum {
  PK_OK = 0,
  PK_BAD_ARGUMENT,  /* a NULL tensor, or a dtype, rank, device or stride that the kernel does not
                       accept */
  PK_BAD_SIZE,      /* sizes that disagree, are negative or too large */
  PK_REQUIREMENT,   /* a `require` of the kernel does not hold */
  PK_OVERLAP,       /* an output overlaps another operand or itself */
  PK_VMEM_EXCEEDED, /* the kernel's blocks need more VMEM than the limit */
  PK_NO_MEMORY,     /* the machine has no more memory */
  PK_FAILED,        /* an `assert` of the kernel failed, or a wait could not end */
  PK_BUSY           /* another call is using the context; its message is that call's */
} pk_status;

/* The threads, memory and messages of a series of calls. NULL means the calling thread's own
 * context; pk_context_free(NULL) does nothing. */
typedef struct pk_context pk_context;
pk_context *pk_context_new(void); /* NULL if there is no memory */
void pk_context_free(pk_context *context);
/* Sets the number of threads for parallel grid axes. 0, the default, means $PK_THREADS, or
 * pk_processors() if that is not set. */
void pk_context_set_threads(pk_context *context, int threads);
/* Limits that default: without a chosen number and without $PK_THREADS the context uses at most
 * `threads`, say the threads of a host's pool, which calls in progress still share. 0: no limit. */
void pk_context_limit_threads(pk_context *context, int threads);
/* The number of processors that the process may use: its affinity mask and CPU quota. */
int pk_processors(void);
/* Uses the host's threads instead of the context's own. `run` schedules `count` calls of
 * task(argument), on any threads, now or later, and returns the number of calls it has
 * scheduled, 0 to count. It may make calls itself, and may wait for calls or return before they
 * begin. A kernel's call never waits for a task to begin: the calling thread does the work that
 * no task takes, so a busy pool cannot block it, and a task that begins later returns at once.
 * Scheduled calls must happen before the library is unloaded. `count` is the context's number of
 * threads minus the calling one. If `run` is NULL, the context uses its own threads again. */
typedef int pk_run(void *pool, int count, void (*task)(void *argument), void *argument);
void pk_context_set_pool(pk_context *context, pk_run *run, void *pool);
/* Sets the maximum VMEM of a call, in bytes. 0, the default, means $PK_VMEM_LIMIT, or the kernel's
 * own limit or 128 MiB if that is not set. */
void pk_context_set_vmem_limit(pk_context *context, int64_t bytes);
/* Redirects the output of `print` for the whole process: `line` is called with each line, on any
 * thread and concurrently. NULL: standard error. */
typedef void pk_line(const char *text);
void pk_set_print(pk_line *line);
/* The message of the last call that failed on this context (NULL: the calling thread's), or "".
 * Valid until the next call. */
const char *pk_message(const pk_context *context);
/* Starts to record this context's calls (cells, DMAs, regions) for the file `path`, in Chrome's
 * trace format. An earlier recording is ended and written to its file first; a NULL path does only
 * that. pk_context_free also ends a recording. */
pk_status pk_context_trace(pk_context *context, const char *path);
/* Starts (on != 0) or stops timing the kernels of this context's calls, one row for each kernel;
 * the kernels of a program have rows of their own. Starting deletes earlier rows, stopping keeps
 * them. Returns PK_BUSY during a call, PK_NO_MEMORY without memory. */
pk_status pk_context_profile(pk_context *context, int on);
typedef struct {
  const char *name; /* valid until the next call */
  int64_t calls;
  double seconds;
} pk_kernel_time;
/* Writes row `index` (from 0, in the order of first calls) to *time and returns 1, or returns 0 if
 * there are fewer rows. */
int pk_profile_row(const pk_context *context, int index, pk_kernel_time *time);
const char *pk_status_name(pk_status status);
const char *pk_version(void);

/* A compiled kernel, as a loader sees it: each is exported as `const pk_kernel NAME_kernel`. */
typedef struct pk_kernel pk_kernel;
/* For a kernel compiled for several targets (of `pkc --targets`): the first that this processor
 * supports, or NULL if it supports none, so that calls are refused. "" for a kernel compiled for
 * a single target. */
const char *pk_kernel_target(const pk_kernel *kernel);
/* Calls a kernel with tensors in the order of its signature, inputs first. Returns what the
 * kernel's own function would. */
pk_status pk_call_kernel(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors);
/* Bytes that a program's temporaries require in a call with these tensors; 0 for a kernel. The
 * context keeps the memory for later calls. -1 if the call would be refused; pk_message then
 * gives the reason. */
int64_t pk_temporary_bytes(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors);
/* Computes the shapes of the outputs of a call with these inputs, one row per output, for
 * callers who allocate outputs. The inputs are the first tensors of the kernel, and are checked
 * as in a call; nothing runs. `sizes` is NULL, or has one number for each size that is taken
 * from arrays, -1 for those that the inputs determine. */
pk_status pk_output_shapes(pk_context *context, const pk_kernel *kernel, DLTensor *const *inputs,
                           const int64_t *sizes, int64_t (*shapes)[8]);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
