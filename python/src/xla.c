/* Kernels as custom calls of XLA on CPUs: one handler, to which the attribute `kernel` says which
 * kernel it is. Compiled by pkc/jax.py with the headers of the installed jaxlib. Version 0.1 of
 * XLA's interface is answered, which every jaxlib from 0.5 takes. */
#include <pk/rt.h>
#include <stdlib.h>
#include <string.h>
#include <xla/ffi/api/c_api.h>

enum { MOST_OPERANDS = 64, MOST_AXES = 64, BUCKETS = 1024 };

/* The kernels of this process, by a hash of their C: a program of another process, such as one from
 * XLA's cache, finds the kernels that this process has loaded too. */
typedef struct Known Known;
struct Known {
  int64_t key;
  const pk_kernel *kernel;
  Known *next;
};
static Known *bucket[BUCKETS];

static const pk_kernel *find(int64_t key) {
  const Known *k = __atomic_load_n(&bucket[(uint64_t)key % BUCKETS], __ATOMIC_ACQUIRE);
  while (k && k->key != key) k = k->next;
  return k ? k->kernel : NULL;
}

/* Under Python's lock. */
static int add(int64_t key, const pk_kernel *kernel) {
  if (find(key)) return 1;
  Known *k = malloc(sizeof *k), **head = &bucket[(uint64_t)key % BUCKETS];
  if (!k) return 0;
  *k = (Known){key, kernel, *head};
  __atomic_store_n(head, k, __ATOMIC_RELEASE);
  return 1;
}

/* XLA passes elements that it packs several to a byte as whole bytes. */
static bool is_widened(const DLDataType *wanted, XLA_FFI_DataType type) {
  return wanted->bits < 8 &&
         type == (wanted->code == kDLInt ? XLA_FFI_DataType_S8 : XLA_FFI_DataType_U8);
}

static DLDataType dtype_of(XLA_FFI_DataType type, pk_dtype wanted) {
#define ROW(id, name, numpy, bytes, code, bits, xla) {xla, {code, bits, 1}},
  static const struct {
    int type;
    DLDataType dlpack;
  } rows[] = {PK_DTYPES(ROW)};
#undef ROW
  if (is_widened(&rows[wanted].dlpack, type)) return rows[wanted].dlpack;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    if (type != 0 && rows[i].type == (int)type) return rows[i].dlpack;
  return (DLDataType){255, 0, 1};
}

static XLA_FFI_Error *refuse(const XLA_FFI_CallFrame *frame, XLA_FFI_Error_Code code,
                             const char *message) {
  XLA_FFI_Error_Create_Args args = {
      .struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE, .message = message, .errc = code};
  return frame->api->XLA_FFI_Error_Create(&args);
}

/* A number among the attributes, or 0. */
static int64_t attribute(const XLA_FFI_CallFrame *frame, const char *name) {
  for (int64_t i = 0; i < frame->attrs.size; i++) {
    const XLA_FFI_ByteSpan *span = frame->attrs.names[i];
    if (span->len != strlen(name) || memcmp(span->ptr, name, span->len) != 0) continue;
    if (frame->attrs.types[i] != XLA_FFI_AttrType_SCALAR) return 0;
    const XLA_FFI_Scalar *scalar = frame->attrs.attrs[i];
    return scalar->dtype == XLA_FFI_DataType_S64 ? *(const int64_t *)scalar->value : 0;
  }
  return 0;
}

/* ---- XLA's threads */

typedef struct {
  void (*task)(void *);
  void *argument;
} Task;

static void run_task(void *data) {
  Task task = *(Task *)data;
  free(data);
  task.task(task.argument);
}

/* Hands `count` tasks to the thread pool of XLA. Returns how many it accepted. */
static int schedule(void *pool, int count, void (*task)(void *), void *argument) {
  const XLA_FFI_CallFrame *frame = pool;
  for (int i = 0; i < count; i++) {
    Task *one = malloc(sizeof *one);
    if (!one) return i;
    *one = (Task){task, argument};
    XLA_FFI_ThreadPool_Schedule_Args args = {
        .struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE,
        .ctx = frame->ctx,
        .task = run_task,
        .data = one};
    XLA_FFI_Error *error = frame->api->XLA_FFI_ThreadPool_Schedule(&args);
    if (!error) continue;
    XLA_FFI_Error_Destroy_Args destroy = {.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE,
                                          .error = error};
    frame->api->XLA_FFI_Error_Destroy(&destroy);
    free(one);
    return i;
  }
  return count;
}

/* All of them; of an API without the question, the processors. */
static int threads_of_pool(const XLA_FFI_CallFrame *frame) {
  int64_t count = 0;
  XLA_FFI_ThreadPool_NumThreads_Args args = {
      .struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE,
      .ctx = frame->ctx,
      .num_threads = &count};
  XLA_FFI_Error *error = frame->api->XLA_FFI_ThreadPool_NumThreads(&args);
  if (!error) return count < 1 ? 1 : count > 1024 ? 1024 : (int)count;
  XLA_FFI_Error_Destroy_Args destroy = {.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE,
                                        .error = error};
  frame->api->XLA_FFI_Error_Destroy(&destroy);
  return pk_processors();
}

/* ---- the handler */

static XLA_FFI_Error *answer_metadata(XLA_FFI_CallFrame *frame, bool *answered) {
  /* The type of an extension has another name in each version of the header. */
  for (__typeof__(frame->extension_start) e = frame->extension_start; e; e = e->next) {
    if (e->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Api_Version *version = &((XLA_FFI_Metadata_Extension *)e)->metadata->api_version;
    version->major_version = 0;
    version->minor_version = 1;
    *answered = true;
  }
  return NULL;
}

static const XLA_FFI_Buffer *buffer_of(const XLA_FFI_CallFrame *frame, const pk_kernel *kernel,
                                       int i) {
  return i < kernel->inputs ? frame->args.args[i] : frame->rets.rets[i - kernel->inputs];
}

/* The operands of call number `call` of a batch, whose `axes` axes precede those of the kernel.
 * An operand with an extent of 1 along such an axis is the same for all. */
static void set_tensors(const XLA_FFI_CallFrame *frame, const pk_kernel *kernel, int axes,
                        const int64_t *batch, int64_t call, DLTensor *tensor) {
  for (int i = 0; i < kernel->operands; i++) {
    const XLA_FFI_Buffer *b = buffer_of(frame, kernel, i);
    tensor[i] = (DLTensor){.data = b->data,
                           .device = {kDLCPU, 0},
                           .ndim = (int)b->rank - axes,
                           .dtype = dtype_of(b->dtype, kernel->operand[i].dtype),
                           .shape = b->dims + axes};
    int64_t stride = (tensor[i].dtype.bits + 7) / 8, left = call, offset = 0;
    for (int k = 0; k < tensor[i].ndim; k++) stride *= tensor[i].shape[k];
    for (int k = axes - 1; k >= 0; k--) {
      if (b->dims[k] != 1) offset += left % batch[k] * stride;
      stride *= b->dims[k];
      left /= batch[k];
    }
    tensor[i].byte_offset = (uint64_t)offset;
    if (kernel->packed && kernel->packed[i]) tensor[i].dtype.bits = 8; /* a byte an element */
  }
}

/* How many axes of a batch precede those of the kernel, and their extents; -1: ranks or extents
 * do not agree. */
static int batch_axes(const XLA_FFI_CallFrame *frame, const pk_kernel *kernel, int64_t *batch) {
  int64_t axes = kernel->operands ? buffer_of(frame, kernel, 0)->rank - kernel->operand[0].rank : 0;
  if (axes < 0 || axes > MOST_AXES) return -1;
  for (int k = 0; k < axes; k++) batch[k] = 1;
  for (int i = 0; i < kernel->operands; i++) {
    const XLA_FFI_Buffer *b = buffer_of(frame, kernel, i);
    if (b->rank - kernel->operand[i].rank != axes) return -1;
    for (int k = 0; k < axes; k++) {
      if (b->dims[k] == 1) continue;
      if (batch[k] != 1 && batch[k] != b->dims[k]) return -1;
      batch[k] = b->dims[k];
    }
  }
  return (int)axes;
}

static pk_status run_all(const XLA_FFI_CallFrame *frame, const pk_kernel *kernel, int axes,
                         const int64_t *batch) {
  DLTensor tensor[MOST_OPERANDS], *tensors[MOST_OPERANDS];
  int64_t calls = 1;
  for (int k = 0; k < axes; k++) calls *= batch[k];
  for (int i = 0; i < kernel->operands; i++) tensors[i] = &tensor[i];
  pk_status status = PK_OK;
  for (int64_t call = 0; call < calls && status == PK_OK; call++) {
    set_tensors(frame, kernel, axes, batch, call, tensor);
    status = pk_call_kernel(NULL, kernel, tensors);
  }
  return status;
}

/* Calls the kernel once for each element of the batch, with as many threads as asked or as the pool
 * of XLA has. */
static XLA_FFI_Error *run(const XLA_FFI_CallFrame *frame, const pk_kernel *kernel, int threads) {
  int64_t batch[MOST_AXES];
  const int axes = batch_axes(frame, kernel, batch);
  if (axes < 0)
    return refuse(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                  "pkc: the ranks of arguments and results are not those of the kernel");
  if (threads > 0)
    pk_context_set_threads(NULL, threads);
  else
    pk_context_limit_threads(NULL, threads_of_pool(frame));
  if (threads != 1) pk_context_set_pool(NULL, schedule, (void *)(uintptr_t)frame);
  pk_status status = run_all(frame, kernel, axes, batch);
  XLA_FFI_Error *error = status == PK_OK
                             ? NULL
                             : refuse(frame,
                                      status == PK_NO_MEMORY ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED
                                      : status == PK_FAILED  ? XLA_FFI_Error_Code_INTERNAL
                                                             : XLA_FFI_Error_Code_INVALID_ARGUMENT,
                                      pk_message(NULL));
  pk_context_set_pool(NULL, NULL, NULL);
  if (threads > 0) pk_context_set_threads(NULL, 0);
  pk_context_limit_threads(NULL, 0);
  return error;
}

/* The kernel that an attribute names, whose call has `more` arguments in addition to its own; NULL:
 * the call is refused. */
static const pk_kernel *called(const XLA_FFI_CallFrame *frame, int more, XLA_FFI_Error **error) {
  const pk_kernel *kernel = find(attribute(frame, "kernel"));
  if (!kernel) {
    *error =
        refuse(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION,
               "pkc: the program comes from another process, and its kernel is not loaded in this "
               "one: call pkc.jax.prepare(kernel, x, ..) first, or lower the function that has "
               "the Pallas kernel");
    return NULL;
  }
  if (kernel->operands <= MOST_OPERANDS && frame->args.size == kernel->inputs + more &&
      frame->rets.size == kernel->operands - kernel->inputs)
    return kernel;
  *error = refuse(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                  "pkc: the numbers of arguments and results are not those of the kernel");
  return NULL;
}

static XLA_FFI_Error *call(XLA_FFI_CallFrame *frame) {
  bool answered = false;
  XLA_FFI_Error *error = NULL;
  answer_metadata(frame, &answered);
  if (answered) return NULL;
  const pk_kernel *kernel = called(frame, 0, &error);
  return kernel ? run(frame, kernel, (int)attribute(frame, "threads")) : error;
}

const struct {
  XLA_FFI_Error *(*call)(XLA_FFI_CallFrame *);
  int (*add)(int64_t, const pk_kernel *);
} pk_xla = {call, add};

#ifdef PKC_MESH /* it takes a newer jaxlib */
#include "xla_mesh.h"
#endif
