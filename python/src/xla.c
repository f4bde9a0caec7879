/* Kernels as custom calls of XLA on CPUs: one handler, to which the attribute `kernel` says which
 * kernel it is. Compiled by pkc/jax.py with the headers of the installed jaxlib. Version 0.1 of
 * XLA's interface is answered, which every jaxlib from 0.5 takes. */
#include <pk/rt.h>
#include <stdlib.h>
#include <string.h>
#include <xla/ffi/api/c_api.h>

enum { MOST_OPERANDS = 64 };

/* The kernels of this process. An address from elsewhere, say from a serialised program, is refused
 * and not called. */
typedef struct Known Known;
struct Known {
  const pk_kernel *kernel;
  Known *next;
};
static Known *known;

static bool is_known(const pk_kernel *kernel) {
  for (const Known *k = __atomic_load_n(&known, __ATOMIC_ACQUIRE); k; k = k->next)
    if (k->kernel == kernel) return true;
  return false;
}

/* Under Python's lock. */
static int add(const pk_kernel *kernel) {
  if (is_known(kernel)) return 1;
  Known *k = malloc(sizeof *k);
  if (!k) return 0;
  *k = (Known){kernel, known};
  __atomic_store_n(&known, k, __ATOMIC_RELEASE);
  return 1;
}

static DLDataType dtype_of(XLA_FFI_DataType type) {
#define ROW(id, name, numpy, bytes, code, bits, xla) {xla, {code, bits, 1}},
  static const struct {
    int type;
    DLDataType dlpack;
  } rows[] = {PK_DTYPES(ROW)};
#undef ROW
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

/* ---- the handler */

static XLA_FFI_Error *answer_metadata(XLA_FFI_CallFrame *frame, bool *answered) {
  for (XLA_FFI_Extension_Base *e = frame->extension_start; e; e = e->next) {
    if (e->type != XLA_FFI_Extension_Metadata) continue;
    XLA_FFI_Api_Version *version = &((XLA_FFI_Metadata_Extension *)e)->metadata->api_version;
    version->major_version = 0;
    version->minor_version = 1;
    *answered = true;
  }
  return NULL;
}

static XLA_FFI_Error *run(XLA_FFI_CallFrame *frame, const pk_kernel *kernel, int threads) {
  DLTensor tensor[MOST_OPERANDS], *tensors[MOST_OPERANDS];
  for (int64_t i = 0; i < kernel->operands; i++) {
    const XLA_FFI_Buffer *b =
        i < kernel->inputs ? frame->args.args[i] : frame->rets.rets[i - kernel->inputs];
    tensor[i] = (DLTensor){.data = b->data,
                           .device = {kDLCPU, 0},
                           .ndim = (int)b->rank,
                           .dtype = dtype_of(b->dtype),
                           .shape = b->dims};
    tensors[i] = &tensor[i];
  }
  if (threads > 1) {
    pk_context_set_threads(NULL, threads);
    pk_context_set_pool(NULL, schedule, frame);
  } else {
    pk_context_set_threads(NULL, 1);
  }
  pk_status status = pk_call_kernel(NULL, kernel, tensors);
  XLA_FFI_Error *error = status == PK_OK
                             ? NULL
                             : refuse(frame,
                                      status == PK_NO_MEMORY ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED
                                      : status == PK_FAILED  ? XLA_FFI_Error_Code_INTERNAL
                                                             : XLA_FFI_Error_Code_INVALID_ARGUMENT,
                                      pk_message(NULL));
  pk_context_set_pool(NULL, NULL, NULL);
  pk_context_set_threads(NULL, 0);
  return error;
}

static XLA_FFI_Error *call(XLA_FFI_CallFrame *frame) {
  bool answered = false;
  answer_metadata(frame, &answered);
  if (answered) return NULL;
  const pk_kernel *kernel = (const pk_kernel *)(uintptr_t)attribute(frame, "kernel");
  if (!is_known(kernel))
    return refuse(frame, XLA_FFI_Error_Code_FAILED_PRECONDITION,
                  "pkc: the kernel belongs to another process: programs with kernels are not "
                  "loaded from elsewhere");
  if (kernel->operands > MOST_OPERANDS || frame->args.size != kernel->inputs ||
      frame->rets.size != kernel->operands - kernel->inputs)
    return refuse(frame, XLA_FFI_Error_Code_INVALID_ARGUMENT,
                  "pkc: the numbers of arguments and results are not those of the kernel");
  return run(frame, kernel, (int)attribute(frame, "threads"));
}

const struct {
  XLA_FFI_Error *(*call)(XLA_FFI_CallFrame *);
  int (*add)(const pk_kernel *);
} pk_xla = {call, add};
