/* rt.h: the interface between generated C and the runtime. Users include pk.h instead. */
#ifndef PK_RT_H
#define PK_RT_H

#include <pk/dtypes.h>
#include <pk/pk.h>
#include <stdbool.h>

#ifdef __FAST_MATH__
#error "pk kernels mean what they say: compile without -ffast-math"
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __GNUC__
#pragma GCC visibility push(default)
#endif

enum { PK_MAX_RANK = 8, PK_MAX_GRID = 8 };
enum { PK_WINDOW_RANK = PK_MAX_RANK + 1 }; /* the parts of elements may be an axis too */

/* A parameter that some implementations of pk_kernel's functions ignore. */
#define PK_UNUSED __attribute__((unused))
#define PK_PIECE __attribute__((noinline)) /* a piece of a long function */

/* An operand's array as a kernel sees it: strides in elements. */
typedef struct {
  char *data;
  int64_t dim[PK_MAX_RANK], stride[PK_MAX_RANK];
  int packed; /* bits of an element if several share a byte, the first in the lowest bits; otherwise
                 0 */
} pk_array;

/* An operand as declared. */
typedef struct {
  const char *name;
  pk_dtype dtype;
  int rank;
  bool output;
  int alias;                  /* the operand whose memory it may share, or -1 */
  int64_t shape[PK_MAX_RANK]; /* by axis: a constant >= 0, or -1 - (index of a size) */
} pk_operand;

typedef struct {
  int64_t cells;         /* combinations of the parallel axes */
  int64_t steps;         /* grid steps in all */
  int64_t vmem_bytes;    /* VMEM of the program: blocks (tile-padded, times buffers) and scratch */
  int64_t arena_bytes;   /* memory of one worker: VMEM, packed copies, temporaries */
  int64_t clear_bytes;   /* bytes at the start of the arena that are zeroed before a worker's first
                            cell of a call */
  int64_t operand_bytes; /* of all arrays of the call; set by the runtime */
  double work; /* rough number of operations of one cell, which decides whether threads pay */
  /* If cells may be divided into parts, each with some rows of a block: the rows of a cell (0:
   * never divided), and the minimum of a part. `parts` is 1 unless the runtime sets it. */
  int64_t split_rows, least_rows, parts;
  double split_work; /* `work` of a cell, without elements outside the arrays */
} pk_plan;

/* One call, read-only while its cells run. */
typedef struct {
  const pk_kernel *kernel;
  const pk_array *array; /* operands */
  const int64_t *size;   /* run-time sizes */
  const pk_plan *plan;
  pk_context *context;
} pk_call;

enum { PK_MESH_AXES = 4, PK_MAX_DEVICES = 1024 };

/* For each axis of an operand, the mesh axes that divide it, the slowest first, as 1 + the axis;
 * 0 ends the list. */
typedef int8_t pk_shard[PK_MAX_RANK][PK_MESH_AXES];

/* The devices that run a kernel, each on its own part of the operands, numbered in row-major
 * order of their indices. */
typedef struct {
  int axes;
  int64_t extent[PK_MESH_AXES];
  const char *name[PK_MESH_AXES];
  const pk_shard *shard; /* by operand; for a program then by temporary */
} pk_mesh;

/* A device of a call, as its own thread sees it. The runtime holds the rest in `all`. */
typedef struct {
  int64_t index[PK_MESH_AXES];
  struct pk_devices *all;
} pk_device;

/* One thread of a call, with its own arena (aligned to 4096 bytes). */
typedef struct {
  char *arena;
  int thread;
  const char *failure; /* set by pk_fail: the first message */
  void *trace;         /* NULL unless tracing */
  pk_device *device;   /* NULL: there is one */
} pk_worker;

/* A pointer to elements of the given type, `offset` bytes into the arena. */
#define PK_AT(type, worker, offset) ((type *)(void *)((worker)->arena + (offset)))

/* An array of a program that exists during a call only; its shape is written like an operand's.
 * It is in use from step `first` to step `last`. */
typedef struct {
  const char *name;
  pk_dtype dtype;
  int rank;
  int64_t shape[PK_MAX_RANK];
  int first, last;
} pk_temporary;

/* A call of a program: the arrays of its operands, then those of its temporaries. The program
 * runs twice; the first time, with `checking`, it checks the calls of kernels and writes
 * nothing. */
typedef struct {
  const pk_kernel *kernel;
  pk_array *array;
  const int64_t *size;
  bool checking;
  pk_status status; /* of the first call that was refused */
  pk_context *context;
} pk_flow;

/* Calls a kernel, from line `line` of the program, unless an earlier call was refused. Returns
 * false if one was. */
bool pk_flow_call(pk_flow *flow, int line, const pk_kernel *kernel, const pk_array *arrays);
/* The part of an array at `index` along its first `leading` axes. An index out of bounds refuses
 * the call. */
pk_array pk_flow_part(pk_flow *flow, int array, int leading, const int64_t *index);
/* A part of an array with the same elements in another shape. If its strides, which are
 * arbitrary for operands, do not permit that, the call is refused. */
pk_array pk_flow_reshape(pk_flow *flow, int array, pk_array part, int part_rank, int rank,
                         const int64_t *shape);
/* Exchanges an array and its spare, after a call has written the spare instead of the array. */
static inline void pk_flow_exchange(pk_flow *flow, int array, int spare) {
  const pk_array written = flow->array[spare];
  flow->array[spare] = flow->array[array];
  flow->array[array] = written;
}

/* The same kernel, compiled for one kind of processor. */
typedef struct {
  const char *target;
  unsigned needs; /* features, as in <pk/cpu.h> */
  const pk_kernel *kernel;
} pk_variant;

struct pk_kernel {
  int abi; /* PK_ABI of the compiler that wrote it */
  const char *name;
  const char *signature; /* as in the source: "add(x: f32[M, N], y: f32[M, N]) -> (o: f32[M, N])" */
  const char *statics;   /* "BM=256 BN=512" */
  int operands, inputs;
  const pk_operand *operand;
  int sizes;
  const char *const *size_name;
  int bound;    /* sizes [0, bound) are taken from operands; `prepare` derives the rest */
  bool one_row; /* elementwise on operands of one shape, which may become [1, .., elements] if none
                   has gaps */
  int64_t vmem_limit; /* 0: default */
  /* Computes derived sizes, requirements, grid and memory. Writes size[bound..) and the plan;
   * returns NULL or the requirement that does not hold. */
  const char *(*prepare)(int64_t *size, pk_plan *plan);
  void (*cell)(const pk_call *call, pk_worker *worker, int64_t cell);
  /* If not NULL, called instead of `prepare`: for a grid or requirement that depends on
   * prefetched scalars, which it reads from the operands' arrays (innermost stride 1, as cells
   * see them). */
  const char *(*prepare_from)(const pk_array *array, int64_t *size, pk_plan *plan);
  /* For a program: called instead of `cell`. */
  void (*program)(pk_flow *flow);
  const pk_temporary *temporary;
  int temporaries;
  /* If not NULL: a list that ends with a NULL kernel. The first variant that this processor
   * supports is called instead of this kernel, which has no functions. */
  const pk_variant *variant;
  const pk_mesh *mesh; /* NULL: one device */
  /* By operand: do elements of fewer than 8 bits share bytes? NULL: no operand is packed. */
  const bool *packed;
  /* In nanoseconds, from `pkc calibrate`: the work that pays for a thread, and the time by which a
   * thread lengthens a call. 0: the runtime's estimates. */
  int64_t worth_ns, thread_ns;
};
enum { PK_ABI = 10 };

/* Saturating arithmetic on non-negative numbers of bytes and steps. INT64_MAX means "too much",
 * and remains so even times 0. */
static inline int64_t pk_sat_mul(int64_t a, int64_t b) {
  int64_t r;
  return a == INT64_MAX || b == INT64_MAX || __builtin_mul_overflow(a, b, &r) ? INT64_MAX : r;
}
/* Bytes of the elements of an array, `element` bytes each. */
static inline int64_t pk_array_bytes(const pk_array *array, int rank, int64_t element) {
  int64_t bytes = element;
  for (int i = 0; i < rank; i++) bytes = pk_sat_mul(bytes, array->dim[i]);
  return bytes;
}
/* Half, rounded up. */
static inline int64_t pk_sat_half(int64_t a) { return a == INT64_MAX ? a : a / 2 + a % 2; }
static inline int64_t pk_sat_add(int64_t a, int64_t b) {
  int64_t r;
  return __builtin_add_overflow(a, b, &r) ? INT64_MAX : r;
}

/* Index arithmetic of the language (docs/language.md): it wraps; x / 0 = -1, x % 0 = x; floordiv
 * and mod round down. */
static inline int64_t pk_idx_add(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a + (uint64_t)b);
}
static inline int64_t pk_idx_sub(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a - (uint64_t)b);
}
static inline int64_t pk_idx_mul(int64_t a, int64_t b) {
  return (int64_t)((uint64_t)a * (uint64_t)b);
}
static inline int64_t pk_idx_neg(int64_t a) { return (int64_t)(0 - (uint64_t)a); }
static inline int64_t pk_idx_div(int64_t a, int64_t b) {
  return b == 0 ? -1 : b == -1 ? pk_idx_neg(a) : a / b;
}
static inline int64_t pk_idx_rem(int64_t a, int64_t b) { return b == 0 ? a : b == -1 ? 0 : a % b; }
static inline int64_t pk_idx_floordiv(int64_t a, int64_t b) {
  int64_t q = pk_idx_div(a, b);
  return b != 0 && b != -1 && a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}
static inline int64_t pk_idx_mod(int64_t a, int64_t b) {
  int64_t r = pk_idx_rem(a, b);
  return b != 0 && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
static inline int64_t pk_idx_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t pk_idx_max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t pk_idx_clamp(int64_t a, int64_t lo, int64_t hi) {
  return a < lo ? lo : a > hi ? hi : a;
}

/* The runtime's DMA engine. A block of `rank` axes has block[k] elements along axis k, starting
 * at element start[k] of the array; it may be partly or entirely out of bounds. In VMEM, element
 * (i..) is at sum i_k * vmem_stride[k] elements. pk_dma_in fills elements out of bounds with the
 * element at `pad` (NULL: leaves them unchanged); pk_dma_out ignores them. */
typedef struct {
  int rank;
  int64_t start[PK_MAX_RANK], block[PK_MAX_RANK], vmem_stride[PK_MAX_RANK];
} pk_block;
void pk_dma_in(pk_worker *worker, const pk_array *array, pk_dtype dtype, const pk_block *block,
               void *vmem, const void *pad);
void pk_dma_out(pk_worker *worker, const pk_array *array, pk_dtype dtype, const pk_block *block,
                const void *vmem);

/* One end of an explicit copy: a window of an array or a buffer of `rank` axes, whose extents
 * and strides (in elements) are `dim` and `stride`. The window has size[k] elements along axis
 * k, from start[k], step[k] >= 1 apart, and may be partly or entirely out of bounds. Both ends
 * have the same shape, except for axes of size 1. pk_copy_start copies the elements that are in
 * bounds at both ends at once, and adds the bytes of the whole window to *semaphore (unless
 * NULL). If the source is out of bounds, the target gets the element at `other` (NULL: remains
 * unchanged). */
typedef struct {
  char *data;
  int rank;
  const int64_t *dim, *stride;
  int64_t start[PK_WINDOW_RANK], size[PK_WINDOW_RANK], step[PK_WINDOW_RANK];
} pk_window;
void pk_copy_start(pk_worker *worker, pk_dtype dtype, const pk_window *from, const pk_window *to,
                   const void *other, int64_t *semaphore);
/* The same if one or both ends are windows of arrays whose elements share bytes: `packed` of
 * each array, 0 for an ordinary end. */
void pk_copy_packed(pk_worker *worker, pk_dtype dtype, const pk_window *from, int from_packed,
                    const pk_window *to, int to_packed, const void *other, int64_t *semaphore);

/* A copy of views, as a loop nest of digits, the last of which moves fastest. A digit runs over
 * `extent` values, and adds step[end] times its value to place[end] of each end (0: source, 1:
 * target). A place is a sum of digits: an axis of the array, from `start` on, with `bound`
 * elements `stride` bytes apart; or bytes of an element; or an index that is split into
 * `digits`, the slowest first, which are added to earlier places. Elements out of bounds are
 * ignored. pk_copy_view moves `part` bytes at a time, and adds `bytes` to *semaphore (unless
 * NULL). */
typedef struct {
  int64_t extent, step[2];
  int place[2];
} pk_move_digit;
typedef struct {
  int64_t extent, step;
  int place;
} pk_view_digit;
typedef struct {
  int64_t start, bound, stride;
  int digits;
  const pk_view_digit *digit;
} pk_view_place;
/* `packed`: bits of an element if elements share bytes, otherwise 0. If not 0, strides are in
 * elements. */
typedef struct {
  char *data;
  int packed, places;
  const pk_view_place *place;
} pk_seen;
void pk_copy_view(pk_worker *worker, int64_t part, int digits, const pk_move_digit *digit,
                  const pk_seen *from, const pk_seen *to, int64_t bytes, int64_t *semaphore);

/* Communication between devices. `to` is a window of this device's array of `operand`, or of its
 * arena if `operand` is -1; the copy goes to the same place of the other device, and `arrived`
 * is a semaphore of the other device too. `device` is its index along each axis of the mesh; if
 * it is out of bounds, the call fails with `outside`. */
void pk_remote_copy(pk_worker *worker, pk_dtype dtype, const pk_window *from, const pk_window *to,
                    int operand, int64_t *sent, int64_t *arrived, const int64_t *device,
                    const char *outside);
/* The same for views. The target has `axes` axes: those of its array and, if `part` is not 0, a
 * last one for the parts of an element, which have this many bits. Each byte that the semaphores
 * count is `each` parts. */
typedef struct {
  int axes, part, each, operand;
  int64_t *sent, *arrived;
} pk_remote_end;
void pk_remote_view(pk_worker *worker, int64_t part, int digits, const pk_move_digit *digit,
                    const pk_seen *from, const pk_seen *to, int64_t bytes,
                    const pk_remote_end *remote, const int64_t *device, const char *outside);
void pk_remote_signal(pk_worker *worker, int64_t *semaphore, int64_t amount, const int64_t *device,
                      const char *outside);
/* Semaphores of this device, which others may signal. A deadlocked wait fails the call with
 * `message`. */
void pk_device_signal(pk_worker *worker, int64_t *semaphore, int64_t amount);
void pk_device_wait(pk_worker *worker, int64_t *semaphore, int64_t amount, const char *message);
int64_t pk_device_read(pk_worker *worker, const int64_t *semaphore);

/* Does the processor have a matrix unit (AMX) that the system lets this process use? */
bool pk_has_amx(void);

/* Reports a failed `assert` or a deadlocked wait. The cell continues; the call returns PK_FAILED
 * with the first message. */
void pk_fail(pk_worker *worker, const char *message);
/* `print`: text with one {} per value. */
typedef struct {
  enum { PK_PRINT_FLOAT, PK_PRINT_SIGNED, PK_PRINT_UNSIGNED, PK_PRINT_TEXT } kind;
  union {
    double f;
    int64_t i;
    uint64_t u;
    const char *text;
  } as;
} pk_printed;
void pk_print(pk_worker *worker, const char *format, int count, const pk_printed *values);
/* Begins and ends a `region`, which appears in traces; regions nest. `name` must remain valid until
 * the trace ends. Without a recording the cost is negligible. */
void pk_trace_begin(pk_worker *worker, const char *name);
void pk_trace_end(pk_worker *worker);
/* A transfer that the kernel's own code makes: pk_trace_start returns its begin time, and
 * pk_trace_moved records it with `bytes` bytes. `what` must remain valid until the trace ends. */
int64_t pk_trace_start(const pk_worker *worker);
void pk_trace_moved(pk_worker *worker, const char *what, int64_t begun, int64_t bytes);

#ifdef __GNUC__
#pragma GCC visibility pop
#endif

#ifdef __cplusplus
}
#endif
#endif
