/* Declarations shared by the runtime's files. Generated code uses include/pk/rt.h instead. */
#ifndef RUNTIME_RUNTIME_H
#define RUNTIME_RUNTIME_H

#include <pk/link.h>
#include <pk/rt.h>

#pragma GCC visibility push(hidden)

enum { PK_MAX_THREADS = 1024, PK_MESSAGE_BYTES = PK_LINK_MESSAGE };
#define PK_DEFAULT_VMEM_LIMIT ((int64_t)128 << 20)

/* The alignment, in bytes, of data that different threads write. Processors fetch cache lines of 64
 * bytes in pairs. */
#define PK_APART 128

/* Memory that grows and is kept from call to call: arena.c. */
typedef struct {
  void *data;
  int64_t bytes;
} pk_memory;

/* Reserves `bytes` bytes, aligned to 4096; the contents are lost if the memory grows. False: no
 * memory; the contents are unchanged. */
bool pk_memory_reserve(pk_memory *memory, int64_t bytes);
void pk_memory_free(pk_memory *memory);

/* An operand in the caller's memory. */
typedef struct {
  pk_array caller; /* extents below 2 have row-major strides */
  uintptr_t low;   /* address of the lowest byte */
  int64_t span;    /* bytes from there to the end of the highest element; 0: no elements */
  int64_t elements;
  int64_t
      stage; /* offset of its contiguous copy in the context's staging memory; -1: used in place */
} pk_view;

typedef struct pk_trace pk_trace;
typedef struct pk_profile pk_profile;
typedef struct pk_pool pk_pool;
typedef struct pk_guests pk_guests;

struct pk_context {
  unsigned holder;   /* 0: no call is in progress; else pk_forks() + 1 of the process that called */
  unsigned forks;    /* pk_forks() when its threads and its trace were started */
  pk_context *spare; /* of a default context: for calls from within a call on the same thread */
  int threads;
  bool automatic;           /* `threads` are all processors, which the calls in progress share */
  int most_threads;         /* limits an automatic number; 0: no limit */
  int64_t vmem_limit;       /* 0: none set */
  const char *limit_origin; /* who set it */
  const char *bad_threads,
      *bad_limit; /* why the setting is invalid, with which calls are refused; NULL: it is valid */
  char message[PK_MESSAGE_BYTES];
  pk_memory tables;       /* array, view and size of the current call */
  pk_memory inner_tables; /* the same for a call that a program makes */
  pk_memory temporaries;  /* of a program: its tables, then the arrays themselves */
  pk_memory stage;        /* contiguous copies of operands */
  pk_memory workers;      /* pk_worker[] */
  pk_memory arenas;       /* pk_memory[PK_MAX_THREADS] once any is used */
  pk_trace *trace;
  pk_profile *profile; /* NULL: not used yet */
  bool profiling;
  pk_pool *pool;     /* its own threads; NULL: not needed yet */
  pk_guests *guests; /* the state that tasks on the host's threads refer to */
  pk_run *host_run;  /* NULL: its own threads are used */
  void *host_pool;
  pk_link *link; /* NULL: devices are threads of this process */
};

/* The state of a call: bind.c fills it, launch.c runs it. */
typedef struct {
  pk_context *context;
  const pk_kernel *kernel;
  bool inputs_only; /* the outputs are not known yet */
  const int64_t
      *sizes;      /* sizes that are already known, -1 for those that operands determine; or NULL */
  int operands;    /* those that pk_bind has bound */
  pk_array *array; /* the arrays as the kernel sees them */
  pk_view *view;
  int64_t *size;
  int64_t stage_bytes;
  pk_plan plan;
  pk_memory *tables; /* where array, view and size are */
} pk_launch;

/* launch.c: a call of a kernel by a program, on arrays that need no copies; `checking`: without
 * running the cells. */
/* variant.c: the kernel itself, or the variant of it that this processor runs */
const pk_kernel *pk_variant_to_run(const pk_kernel *kernel);
/* Refuses a call if no variant runs on this processor. */
pk_status pk_refuse_processor(pk_context *context, const pk_kernel *kernel);

pk_status pk_launch_inner(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors,
                          bool checking);
/* mesh.c: the number of devices of a kernel */
int pk_device_count(const pk_kernel *kernel);
/* Makes the calling thread's non-temporal stores visible before its later stores. */
void pk_order_streams(void);
/* The number of a device; -1: the call has failed with `outside`. */
int pk_find_device(pk_worker *worker, const int64_t *index, const char *outside);
/* mesh_threads.c: runs each device on its own thread, with workers on separate cache lines. NULL,
 * or why the call failed; *device: which device failed, -1: no particular one. */
const char *pk_run_devices(const pk_call *call, pk_worker *const *workers, int *device);
/* program.c: the bytes of all temporaries of a program whose launch is bound and prepared. */
int64_t pk_place_temporaries(const pk_launch *launch);
pk_status pk_check_program(const pk_launch *launch); /* writes nothing */
pk_status pk_run_program(const pk_launch *launch);   /* after pk_check_program */

/* status.c: sets the context's message, prefixed with the kernel's name when there is one, and
 * returns `status`. */
pk_status pk_refuse(pk_context *context, const pk_kernel *kernel, pk_status status,
                    const char *format, ...) __attribute__((format(printf, 4, 5)));

/* context.c: the calling thread's own context; NULL: no memory. */
pk_context *pk_default_context(void);
/* Acquires the context, which one call at a time may hold; false if another call holds it. State of
 * the parent's calls that remains after a fork is discarded. */
bool pk_hold(pk_context *context);
void pk_release(pk_context *context);

/* pool.c: calls share(run, 0) on the calling thread and concurrently share(run, i), 0 < i <
 * threads, on the available other threads. Each share runs at most once; only share 0 is certain to
 * run. */
typedef void pk_share(void *run, int place);
void pk_run_shared(pk_context *context, int threads, pk_share *share, void *run);
/* context.c: the threads that a call on this context may use. */
int pk_allowed_threads(const pk_context *context);
/* threads.c: the number of threads, at most `allowed`, that shorten a call of `cells` cells, each
 * of `work` operations. */
#define PK_WORK_PER_MICROSECOND 1e4 /* of a core, approximately */
double pk_thread_cost(
    const pk_kernel *kernel); /* nanoseconds by which each thread lengthens a call */
int pk_threads_worth(const pk_kernel *kernel, int64_t cells, double work, int allowed);
/* pool.c: the number of threads for a call that could use `wanted`. If no number was set, the calls
 * of a process together use at most as many threads as there are processors, and each call at least
 * one. */
int pk_begin_work(const pk_context *context, int wanted);
void pk_end_work(int threads);
/* processors.c: the number of processors in the quota of the control groups that a file like
 * /proc/self/cgroup lists; `folder` is their mount point. PK_MAX_THREADS: no limit. */
int pk_cpu_quota(const char *groups, const char *mount);
void pk_free_threads(pk_context *context);
void pk_forget_threads(pk_context *context); /* in a child of fork, which does not have them */
bool pk_watch_forks(void);                   /* false: no memory */
unsigned pk_forks(
    void); /* the number of forks between the process that loaded the library and this one */

/* bind.c: checks the tensors and fills the launch's tables; pk_bind_derived then checks the axes
 * that depend on derived sizes. */
pk_status pk_bind(pk_launch *launch, DLTensor *const *tensors);
pk_status pk_bind_derived(const pk_launch *launch);
/* The number of parts into which an axis of an operand is divided; the call receives one part. */
int64_t pk_parts_here(const pk_launch *launch, int index, int axis);

/* launch.c: the plan of a call, and the number of threads that it would use with its context.
 * Nothing runs. Not for programs. */
pk_status pk_plan_call(pk_context *context, const pk_kernel *kernel, DLTensor *const *tensors,
                       pk_plan *plan, int *threads);

/* stage.c: operands whose innermost stride is not 1 are given contiguous copies. */
pk_status pk_stage_plan(pk_launch *launch); /* decides and reserves memory */
void pk_stage_in(const pk_launch *launch);
void pk_stage_out(const pk_launch *launch);

/* overlap.c: exact, or true if the search would take too long. */
bool pk_view_overlaps_itself(const pk_view *view, int rank, int64_t element_bytes);
bool pk_views_overlap(const pk_view *a, int a_rank, int64_t a_bytes, const pk_view *b, int b_rank,
                      int64_t b_bytes);

/* dma.c: a nest of loops that moves elements; strides in bytes. */
typedef struct {
  int rank;
  int64_t count[PK_WINDOW_RANK], from_stride[PK_WINDOW_RANK], to_stride[PK_WINDOW_RANK];
} pk_nest;
void pk_copy_nest(pk_nest nest, int64_t element_bytes, const char *from, char *to);
/* By end: the bits of an element if elements share bytes, otherwise 0. In VMEM these elements have
 * a byte each, so offsets and strides are in elements. */
typedef struct {
  int from, to;
} pk_packing;
/* The same for ends that may share memory: then element by element, in order. */
void pk_move_nest(const pk_nest *nest, int64_t bytes, pk_packing packed, const char *from,
                  int64_t from_at, char *to, int64_t to_at);

/* packed.c: element number `at` of an array at `data`, with 8, 4 or 2 bits per element; and a nest
 * of loops over such elements, with strides in elements. Neighbours of a target are preserved, even
 * while other threads write them. */
typedef struct {
  char *data;
  int64_t at;
  int bits;
} pk_bits;
void pk_copy_packed_nest(const pk_nest *nest, pk_bits from, pk_bits to);
static inline bool pk_is_packed(const pk_kernel *kernel, int operand) {
  return kernel->packed && kernel->packed[operand];
}

/* status.c */
const char *pk_dtype_name(pk_dtype dtype);

/* trace.c: recording of the calls of a context. */
void pk_trace_free(pk_trace *trace);
void pk_trace_discard(pk_trace *trace); /* without writing the file */
bool pk_trace_reserve(pk_trace *trace, int thread);
void *pk_trace_worker(pk_trace *trace, int thread);
int64_t pk_trace_now(void);
/* `kind` is a literal; `value` is shown with the unit `unit`. */
void pk_trace_record(void *worker_trace, const char *name, const char *kind, int64_t start,
                     const char *unit, int64_t value);

/* profile.c: time by kernel. */
void pk_profile_free(pk_profile *profile);
void pk_profile_add(pk_profile *profile, const char *name, int64_t nanoseconds);

#pragma GCC visibility pop
#endif
