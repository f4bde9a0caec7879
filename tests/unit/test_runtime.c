/* Calls: refused and accepted arguments; memory, threads, failures, traces. */
#define _GNU_SOURCE
#include "runtime/runtime.h"
#include "check.h"
#include "data.h"

#include <inttypes.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Allocations, counted if the C library permits it. */

static volatile int64_t allocations;
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(SANITIZED)
/* Failed allocations are part of the test. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) { return "allocator_may_return_null=1"; }
#elif defined(__GLIBC__)
#define COUNTS_ALLOCATIONS 1
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void *malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
  ++allocations;
  return __libc_realloc(old, bytes);
}
int posix_memalign(void **result, size_t alignment, size_t bytes) {
  ++allocations;
  *result = __libc_memalign(alignment, bytes);
  return *result ? 0 : 12;
}
#endif

/* ---- Tensors. */

typedef struct {
  DLTensor tensor;
  int64_t shape[8], strides[8];
} tensor;

static void tensor_init(tensor *t, void *data, int rank, const int64_t *shape,
                        const int64_t *strides) {
  memset(t, 0, sizeof *t);
  for (int k = 0; k < rank; ++k) {
    t->shape[k] = shape[k];
    t->strides[k] = strides ? strides[k] : 0;
  }
  t->tensor = (DLTensor){.data = data,
                         .device = {kDLCPU, 0},
                         .ndim = rank,
                         .dtype = {kDLFloat, 32, 1},
                         .shape = t->shape};
  t->tensor.strides = strides ? t->strides : NULL;
}
static void matrix(tensor *t, void *data, int64_t m, int64_t n, int64_t row, int64_t column) {
  tensor_init(t, data, 2, (int64_t[]){m, n}, (int64_t[]){row, column});
}

/* ---- add(x: f32[M, N], y: f32[M, N]) -> (o: f32[M, N]) with literal DMAs, as the generator writes
 * them. */

enum { BM = 4, BN = 8 };
static const char *const add_sizes[] = {"M", "N"};
static const pk_operand add_operands[] = {
    {"x", PK_F32, 2, false, -1, {-1, -2}},
    {"y", PK_F32, 2, false, -1, {-1, -2}},
    {"o", PK_F32, 2, true, -1, {-1, -2}},
};
static int64_t declared_vmem = 3 * BM * BN * 4, declared_arena = 3 * BM * BN * 4, declared_clear;
static double declared_work = 1e9; /* so that threads are used */

static int64_t blocks(int64_t extent, int64_t block) { return (extent + block - 1) / block; }

static const char *add_prepare(int64_t *size, pk_plan *plan) {
  plan->cells = blocks(size[0], BM);
  plan->steps = plan->cells * blocks(size[1], BN);
  plan->vmem_bytes = declared_vmem;
  plan->arena_bytes = declared_arena;
  plan->clear_bytes = declared_clear;
  plan->work = declared_work;
  return size[0] == 13 ? "M must not be 13" : NULL;
}

static void add_cell(const pk_call *call, pk_worker *worker, int64_t i) {
  float *x = (void *)worker->arena, *y = x + BM * BN, *o = y + BM * BN;
  const float pad = -1;
  for (int64_t j = 0; j < blocks(call->size[1], BN); ++j) {
    pk_block block = {2, {i * BM, j * BN}, {BM, BN}, {BN, 1}};
    pk_trace_begin(worker, "fetch");
    pk_dma_in(worker, &call->array[0], PK_F32, &block, x, &pad);
    pk_dma_in(worker, &call->array[1], PK_F32, &block, y, NULL);
    pk_trace_end(worker);
    for (int k = 0; k < BM * BN; ++k) o[k] = x[k] + y[k];
    pk_dma_out(worker, &call->array[2], PK_F32, &block, o);
  }
}

static const pk_kernel add = {.abi = PK_ABI,
                              .name = "add",
                              .operands = 3,
                              .inputs = 2,
                              .operand = add_operands,
                              .sizes = 2,
                              .size_name = add_sizes,
                              .bound = 2,
                              .prepare = add_prepare,
                              .cell = add_cell};

static pk_status call_add(pk_context *context, tensor *x, tensor *y, tensor *o) {
  return pk_call_kernel(context, &add,
                        (DLTensor *[]){x ? &x->tensor : NULL, &y->tensor, &o->tensor});
}

/* The status, and a message that holds the text. */
static bool refused(pk_status got, pk_status want, const char *text) {
  const char *message = pk_message(NULL);
  if (got == want && strstr(message, text) && strncmp(message, "add: ", 5) == 0) return true;
  printf("  got %s \"%s\"\n", pk_status_name(got), message);
  return false;
}
#define REFUSED(call, status, text) \
  check(refused(call, status, text), __FILE__ ":" CHECK_LINE(__LINE__), "%s", #call ": " text)

static float buffer_x[4096], buffer_y[4096], buffer_o[4096];
static tensor x, y, o;

static void reset(int64_t m, int64_t n) {
  for (int i = 0; i < 4096; ++i) {
    buffer_x[i] = (float)i;
    buffer_y[i] = (float)(i % 7) * 100;
    buffer_o[i] = -7;
  }
  matrix(&x, buffer_x, m, n, n, 1);
  matrix(&y, buffer_y, m, n, n, 1);
  matrix(&o, buffer_o, m, n, n, 1);
}

static bool untouched(void) {
  for (int i = 0; i < 4096; ++i) {
    if (buffer_o[i] != -7) return false;
  }
  return true;
}

static float at(const tensor *t, int64_t i, int64_t j) {
  const char *data = (const char *)t->tensor.data + t->tensor.byte_offset;
  const int64_t *s = t->tensor.strides;
  return ((const float *)(const void *)data)[s ? i * s[0] + j * s[1] : i * t->shape[1] + j];
}
static bool added(void) {
  for (int64_t i = 0; i < o.shape[0]; ++i) {
    for (int64_t j = 0; j < o.shape[1]; ++j) {
      if (at(&o, i, j) != at(&x, i, j) + at(&y, i, j)) return false;
    }
  }
  return true;
}
static int written(void) {
  int count = 0;
  for (int i = 0; i < 4096; ++i) count += buffer_o[i] != -7;
  return count;
}

static void test_kinds_refused(void) {
  reset(5, 9);
  REFUSED(call_add(NULL, NULL, &y, &o), PK_BAD_ARGUMENT,
          "operand x: expected a tensor, found NULL");
  EXPECT(pk_call_kernel(NULL, &add, NULL) == PK_BAD_ARGUMENT &&
         pk_call_kernel(NULL, NULL, NULL) == PK_BAD_ARGUMENT);
  x.tensor.device.device_type = kDLCUDA;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT,
          "operand x: expected CPU memory, found DLPack device type 2");
  x.tensor.device.device_type = kDLCUDAHost;
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK);
  reset(5, 9);
  y.tensor.dtype.bits = 64;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "operand y: expected f32, found f64");
  y.tensor.dtype.bits = 24;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT,
          "operand y: expected f32, found DLPack type code 2, 24 bits, 1 lanes");
  y.tensor.dtype = (DLDataType){kDLInt, 32, 1};
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "operand y: expected f32, found i32");
  y.tensor.dtype = (DLDataType){kDLFloat, 32, 4};
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "4 lanes");
  reset(5, 9);
  y.tensor.ndim = 3;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "operand y: expected 2 axes, found 3");
  y.tensor.ndim = -1;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "found -1");
  reset(5, 9);
  y.tensor.shape = NULL;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "operand y: shape is NULL");
  reset(5, 9);
  y.tensor.data = NULL;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "operand y: data is NULL");
  reset(5, 9);
  y.tensor.byte_offset = 2;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "operand y: data is not aligned");
  y.tensor.byte_offset = UINT64_MAX;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_ARGUMENT, "byte_offset");
  pk_kernel other = add;
  other.abi = PK_ABI + 1;
  EXPECT(pk_call_kernel(NULL, &other, (DLTensor *[]){&x.tensor, &y.tensor, &o.tensor}) ==
         PK_BAD_ARGUMENT);
  EXPECT(untouched());
}

static void test_sizes_refused(void) {
  reset(5, 9);
  y.shape[1] = 8;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_SIZE,
          "operand y: axis 1: expected 9 (N, axis 1 of x), found 8");
  y.shape[1] = -1;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_SIZE,
          "operand y: axis 1: expected an extent from 0 to 2147483647, found -1");
  x.shape[0] = INT64_C(1) << 31;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_SIZE, "operand x: axis 0: expected an extent");
  reset(13, 9);
  REFUSED(call_add(NULL, &x, &y, &o), PK_REQUIREMENT, "M must not be 13");
  const int64_t hostile[] = {INT64_MAX,      INT64_MIN,        INT64_MAX / 16,
                             INT64_MIN / 16, INT64_C(1) << 60, -(INT64_C(1) << 58)};
  for (size_t i = 0; i < sizeof hostile / sizeof *hostile; ++i) {
    reset(5, 9);
    x.strides[0] = hostile[i];
    REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_SIZE, "operand x: extents and strides");
    x.shape[0] = y.shape[0] = o.shape[0] = 2;
    x.strides[1] = hostile[i];
    REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_SIZE, "operand x: extents and strides");
  }
  reset(5, 9);
  x.shape[0] = x.shape[1] = y.shape[0] = y.shape[1] = o.shape[0] = o.shape[1] = INT32_MAX;
  x.tensor.strides = NULL;
  REFUSED(call_add(NULL, &x, &y, &o), PK_BAD_SIZE, "operand x");
  EXPECT(untouched());
}

static void test_strides_accepted(void) {
  reset(5, 9);
  x.tensor.strides = y.tensor.strides = o.tensor.strides = NULL;
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added() && written() == 45);
  EXPECT(*pk_message(NULL) == '\0');
  reset(5, 9); /* transposed */
  matrix(&x, buffer_x, 5, 9, 1, 5);
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added() && written() == 45);
  reset(5, 9); /* reversed both ways, with gaps */
  matrix(&x, buffer_x + 1000, 5, 9, -100, -3);
  matrix(&o, buffer_o + 1000, 5, 9, -100, -3);
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added() && written() == 45);
  reset(5, 9); /* offset */
  x.tensor.byte_offset = 44;
  o.tensor.byte_offset = 400;
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added() && written() == 45);
  reset(5, 9); /* a broadcast row, a broadcast column, one number */
  matrix(&x, buffer_x, 5, 9, 0, 1);
  matrix(&y, buffer_y + 3, 5, 9, 1, 0);
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added());
  matrix(&y, buffer_y + 3, 5, 9, 0, 0);
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added());
  reset(5, 1); /* strides of extents below 2 mean nothing */
  matrix(&x, buffer_x, 5, 1, 2, INT64_MAX);
  matrix(&o, buffer_o, 5, 1, 1, INT64_MIN);
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && buffer_o[4] == buffer_x[8] + buffer_y[4]);
  reset(0, 9);
  x.tensor.data = y.tensor.data = o.tensor.data = NULL;
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK);
  reset(9, 0);
  x.strides[0] = INT64_MIN;
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && untouched());
  for (int round = 0; round < 200; ++round) {
    int64_t m = random_between(1, 12), n = random_between(1, 20);
    reset(m, n);
    bool swap = random_between(0, 1);
    int64_t column = random_between(1, 3), row = n * column + random_between(0, 5);
    if (swap) column = (row = random_between(1, 3)) * m + random_between(0, 5);
    if (random_between(0, 1)) row = -row;
    if (random_between(0, 1)) column = -column;
    matrix(&o, buffer_o + 2048, m, n, row, column);
    if (!EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added() && written() == m * n)) break;
  }
}

static void test_overlap(void) {
  reset(4, 6);
  matrix(&o, buffer_x, 4, 6, 6, 1);
  REFUSED(call_add(NULL, &x, &y, &o), PK_OVERLAP, "operand o overlaps operand x");
  matrix(&o, buffer_x + 23, 4, 6, 6, 1);
  REFUSED(call_add(NULL, &x, &y, &o), PK_OVERLAP, "operand o overlaps operand x");
  matrix(&o, buffer_x + 24, 4, 6, 6, 1);
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added());
  for (int64_t width = 12; width < 15; ++width) { /* x[:, 0::2] and x[:, 1::2]; the same, the other
                                                     way round; left and right halves */
    matrix(&x, buffer_x, 4, 6, width, 2);
    matrix(&o, buffer_x + 1, 4, 6, width, 2);
    EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added());
    matrix(&o, buffer_x + 1 + 3 * width + 10, 4, 6, -width, -2);
    EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added());
    matrix(&o, buffer_x + 2, 4, 6, width, 2);
    EXPECT(call_add(NULL, &x, &y, &o) == PK_OVERLAP);
    matrix(&x, buffer_x, 4, 6, width, 1);
    matrix(&o, buffer_x + 6, 4, 6, width, 1);
    EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added());
    matrix(&o, buffer_x + 5, 4, 6, width, 1);
    EXPECT(call_add(NULL, &x, &y, &o) == PK_OVERLAP);
  }
  reset(4, 6);
  const int64_t bad[][2] = {{0, 1}, {1, 0}, {1, 1}, {5, 1}, {1, 3}, {-5, 1}, {2, -3}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    matrix(&o, buffer_o + 100, 4, 6, bad[i][0], bad[i][1]);
    REFUSED(call_add(NULL, &x, &y, &o), PK_OVERLAP, "operand o: an output, but its strides");
  }
  reset(2, 3); /* 0 2 4, 3 5 7: neither nested nor overlapping */
  matrix(&o, buffer_o, 2, 3, 3, 2);
  EXPECT(call_add(NULL, &x, &y, &o) == PK_OK && added());
}

/* ---- Kernels of other kinds. */

static const char *one_cell(int64_t *size, pk_plan *plan) {
  (void)size;
  *plan = (pk_plan){.cells = 1, .steps = 1};
  return NULL;
}

/* first(x: f32[M, N]) -> (o: f32[M, N] = x): adds 1 to the first element of each row and leaves the
 * rest alone. */
static void first_cell(const pk_call *call, pk_worker *worker, int64_t cell) {
  (void)worker;
  (void)cell;
  const pk_array *out = &call->array[call->kernel->inputs];
  for (int64_t i = 0; i < out->dim[0]; ++i)
    *(float *)(void *)(out->data + i * out->stride[0] * 4) += 1;
}

/* A kernel of one cell, with one input. */
static pk_kernel one_cell_kernel(const pk_operand *operand, int operands, const char *const *sizes,
                                 int count, void (*cell)(const pk_call *, pk_worker *, int64_t)) {
  return (pk_kernel){.abi = PK_ABI,
                     .name = "add",
                     .operands = operands,
                     .inputs = 1,
                     .operand = operand,
                     .sizes = count,
                     .size_name = sizes,
                     .bound = count,
                     .prepare = one_cell,
                     .cell = cell};
}

static void test_alias_and_rest_kept(void) {
  pk_operand operand[] = {{"x", PK_F32, 2, false, -1, {-1, -2}},
                          {"o", PK_F32, 2, true, 0, {-1, -2}}};
  pk_kernel kernel = one_cell_kernel(operand, 2, add_sizes, 2, first_cell);
  DLTensor *both[] = {&x.tensor, &o.tensor};
  reset(3, 4);
  REFUSED(pk_call_kernel(NULL, &kernel, both), PK_OVERLAP,
          "operand o: expected the memory and strides of x");
  for (int64_t column = 1; column < 3; ++column) { /* in place, and staged */
    reset(3, 4);
    matrix(&x, buffer_o, 3, 4, 20, column);
    matrix(&o, buffer_o, 3, 4, 20, column);
    EXPECT(pk_call_kernel(NULL, &kernel, both) == PK_OK);
    EXPECT(written() == 3 && buffer_o[0] == -6 && buffer_o[20] == -6 && buffer_o[40] == -6);
    o.strides[0] = 19;
    EXPECT(pk_call_kernel(NULL, &kernel, both) == PK_OVERLAP);
  }
  operand[1].alias = -1;
  reset(3, 4);
  matrix(&o, buffer_o, 3, 4, 20, 2); /* staged, and unchanged elements are kept */
  for (int i = 0; i < 4096; ++i) buffer_o[i] = (float)i;
  EXPECT(pk_call_kernel(NULL, &kernel, both) == PK_OK);
  bool kept = true;
  for (int i = 0; i < 4096; ++i)
    kept &= buffer_o[i] == (float)i + (i == 0 || i == 20 || i == 40 ? 1 : 0);
  EXPECT(kept);
}

/* An elementwise kernel gets arrays without gaps as one row, and others unchanged. */
static int64_t seen_rows, seen_columns;
static const char *watching_prepare(int64_t *size, pk_plan *plan) {
  seen_rows = size[0];
  seen_columns = size[1];
  return add_prepare(size, plan);
}
static void test_one_row(void) {
  pk_kernel kernel = add;
  kernel.one_row = true;
  kernel.prepare = watching_prepare;
  DLTensor *all[] = {&x.tensor, &y.tensor, &o.tensor};
  reset(5, 9);
  EXPECT(pk_call_kernel(NULL, &kernel, all) == PK_OK && added() && written() == 45);
  EXPECT(seen_rows == 1 && seen_columns == 45);
  reset(5, 9);
  matrix(&y, buffer_y, 5, 9, 10, 1); /* a gap */
  EXPECT(pk_call_kernel(NULL, &kernel, all) == PK_OK && added() && written() == 45);
  EXPECT(seen_rows == 5 && seen_columns == 9);
  reset(5, 9);
  matrix(&y, buffer_y, 5, 9, 1, 5); /* transposed, and staged */
  EXPECT(pk_call_kernel(NULL, &kernel, all) == PK_OK && added() && written() == 45);
  reset(0, 9);
  EXPECT(pk_call_kernel(NULL, &kernel, all) == PK_OK && untouched());
  reset(13, 9); /* the requirement is tested on the original sizes */
  EXPECT(pk_call_kernel(NULL, &kernel, all) == PK_REQUIREMENT && untouched());
}

/* segments(off: i32[E + 1], x: f32[E], k: f32[3]) -> (o: f32[]) */
static const char *derived_prepare(int64_t *size, pk_plan *plan) {
  size[1] = size[0] + 1;
  return one_cell(size, plan);
}
static void store_one(const pk_call *call, pk_worker *worker, int64_t cell) {
  (void)cell;
  *(float *)(void *)call->array[3].data = (float)call->size[1];
  EXPECT((uintptr_t)worker->arena % 4096 == 0);
}

static void test_derived_and_constant(void) {
  static const char *const names[] = {"E", "E + 1"};
  static const pk_operand operand[] = {{"off", PK_I32, 1, false, -1, {-2}},
                                       {"x", PK_F32, 1, false, -1, {-1}},
                                       {"k", PK_F32, 1, false, -1, {3}},
                                       {"o", PK_F32, 0, true, -1, {0}}};
  const pk_kernel kernel = {.abi = PK_ABI,
                            .name = "add",
                            .operands = 4,
                            .inputs = 3,
                            .operand = operand,
                            .sizes = 2,
                            .size_name = names,
                            .bound = 1,
                            .prepare = derived_prepare,
                            .cell = store_one};
  tensor off, k, out;
  float value = 0;
  int32_t offsets[8] = {0};
  tensor_init(&off, offsets, 1, (int64_t[]){6}, NULL);
  off.tensor.dtype = (DLDataType){kDLInt, 32, 1};
  tensor_init(&x, buffer_x, 1, (int64_t[]){5}, NULL);
  tensor_init(&k, buffer_x, 1, (int64_t[]){3}, NULL);
  tensor_init(&out, &value, 0, NULL, NULL);
  DLTensor *tensors[] = {&off.tensor, &x.tensor, &k.tensor, &out.tensor};
  EXPECT(pk_call_kernel(NULL, &kernel, tensors) == PK_OK && value == 6);
  off.shape[0] = 5;
  REFUSED(pk_call_kernel(NULL, &kernel, tensors), PK_BAD_SIZE,
          "operand off: axis 0: expected 6 (E + 1), found 5");
  k.shape[0] = 2;
  REFUSED(pk_call_kernel(NULL, &kernel, tensors), PK_BAD_SIZE,
          "operand k: axis 0: expected 3, found 2");
}

/* fill(x: f32[E]) -> (o: f32[E + 1], p: f32[F, 3]) */
static const char *fill_prepare(int64_t *size, pk_plan *plan) {
  size[2] = size[0] + 1;
  *plan = (pk_plan){.cells = 1, .steps = 1};
  return size[0] == 13 ? "E is 13" : NULL;
}

static void test_output_shapes(void) {
  static const char *const names[] = {"E", "F", "E + 1"};
  static const pk_operand operand[] = {{"x", PK_F32, 1, false, -1, {-1}},
                                       {"o", PK_F32, 1, true, -1, {-3}},
                                       {"p", PK_F32, 2, true, -1, {-2, 3}}};
  pk_kernel kernel = {.abi = PK_ABI,
                      .name = "add",
                      .operands = 3,
                      .inputs = 1,
                      .operand = operand,
                      .sizes = 3,
                      .size_name = names,
                      .bound = 2,
                      .prepare = fill_prepare};
  int64_t shapes[2][8] = {{0}}, sizes[] = {-1, 7};
  tensor_init(&x, buffer_x, 1, (int64_t[]){5}, NULL);
  DLTensor *inputs[] = {&x.tensor};
  EXPECT(pk_output_shapes(NULL, &kernel, inputs, sizes, shapes) == PK_OK);
  EXPECT(shapes[0][0] == 6 && shapes[1][0] == 7 && shapes[1][1] == 3);
  REFUSED(pk_output_shapes(NULL, &kernel, inputs, NULL, shapes), PK_BAD_SIZE,
          "no operand says what F is: pass it as a size");
  sizes[1] = (int64_t)1 << 31;
  REFUSED(pk_output_shapes(NULL, &kernel, inputs, sizes, shapes), PK_BAD_SIZE,
          "F: expected a size from 0 to 2147483647, found 2147483648");
  sizes[0] = 4, sizes[1] = 0;
  REFUSED(pk_output_shapes(NULL, &kernel, inputs, sizes, shapes), PK_BAD_SIZE,
          "operand x: axis 0: expected 4 (E), found 5");
  x.shape[0] = 13;
  sizes[0] = -1;
  REFUSED(pk_output_shapes(NULL, &kernel, inputs, sizes, shapes), PK_REQUIREMENT, "E is 13");
  x.tensor.dtype.bits = 64;
  REFUSED(pk_output_shapes(NULL, &kernel, inputs, sizes, shapes), PK_BAD_ARGUMENT,
          "operand x: expected f32");
  kernel.abi = 0;
  EXPECT(pk_output_shapes(NULL, &kernel, inputs, sizes, shapes) == PK_BAD_ARGUMENT);
  EXPECT(pk_output_shapes(NULL, NULL, inputs, sizes, shapes) == PK_BAD_ARGUMENT);
}

/* sum_first(n: i32[1], x: f32[N]): as many cells as the prefetched n says. */
static const char *data_prepare(const pk_array *array, int64_t *size, pk_plan *plan) {
  const int32_t *n = (const void *)array[0].data;
  *plan = (pk_plan){.cells = n[0] + n[array[0].stride[0]], .steps = 1};
  return size[0] == 5 ? NULL : "N is not 5";
}
static int data_cells;
static void data_cell(const pk_call *call, pk_worker *worker, int64_t cell) {
  (void)worker;
  data_cells += (int)cell + (int)((const int32_t *)(const void *)call->array[0].data)[1];
}

static void test_prefetched(void) {
  static const char *const names[] = {"N"};
  static const pk_operand operand[] = {{"n", PK_I32, 1, false, -1, {2}},
                                       {"x", PK_F32, 1, false, -1, {-1}}};
  const pk_kernel kernel = {.abi = PK_ABI,
                            .name = "add",
                            .operands = 2,
                            .inputs = 2,
                            .operand = operand,
                            .sizes = 1,
                            .size_name = names,
                            .bound = 1,
                            .prepare_from = data_prepare,
                            .cell = data_cell};
  int32_t counts[4] = {1, 1000, 1000, 2};
  tensor n;
  tensor_init(&n, counts, 1, (int64_t[]){2}, (int64_t[]){3});
  n.tensor.dtype = (DLDataType){kDLInt, 32, 1};
  tensor_init(&x, buffer_x, 1, (int64_t[]){5}, NULL);
  EXPECT(pk_call_kernel(NULL, &kernel, (DLTensor *[]){&n.tensor, &x.tensor}) == PK_OK &&
         data_cells == 0 + 1 + 2 + 3 * 2);
  x.shape[0] = 4;
  REFUSED(pk_call_kernel(NULL, &kernel, (DLTensor *[]){&n.tensor, &x.tensor}), PK_REQUIREMENT,
          "N is not 5");
}

/* Every dtype is accepted only as itself. */
static void copy_cell(const pk_call *call, pk_worker *worker, int64_t cell) {
  (void)cell;
  pk_block block = {1, {0}, {5}, {1}};
  char vmem[64];
  pk_dtype dtype = call->kernel->operand[0].dtype;
  pk_dma_in(worker, &call->array[0], dtype, &block, vmem, NULL);
  pk_dma_out(worker, &call->array[1], dtype, &block, vmem);
}

static void test_dtypes(void) {
  static const char *const names[] = {"N"};
  static uint64_t from[16], to[16];
  for (int i = 0; i < 16; ++i) from[i] = random_word();
  for (int d = PK_BOOL; d <= PK_F32; ++d) {
    pk_operand operand[] = {{"x", (pk_dtype)d, 1, false, -1, {-1}},
                            {"o", (pk_dtype)d, 1, true, -1, {-1}}};
    pk_kernel kernel = one_cell_kernel(operand, 2, names, 1, copy_cell);
    for (int e = PK_BOOL; e <= PK_F32; ++e) {
      for (int64_t step = -2; step <= 2; ++step) {
        size_t bytes = (size_t)pk_dtype_bytes((pk_dtype)d);
        if (step == 0) continue;
        tensor_init(&x, (char *)from + (step < 0 ? 8 * bytes : 0), 1, (int64_t[]){5},
                    (int64_t[]){step});
        tensor_init(&o, to, 1, (int64_t[]){5}, NULL);
        x.tensor.dtype = o.tensor.dtype = pk_dtype_dlpack((pk_dtype)e);
        pk_status status = pk_call_kernel(NULL, &kernel, (DLTensor *[]){&x.tensor, &o.tensor});
        EXPECT(status == (d == e ? PK_OK : PK_BAD_ARGUMENT));
        if (d != e) continue;
        bool equal = true;
        for (int64_t i = 0; i < 5; ++i) {
          equal &= memcmp((char *)to + i * (int64_t)bytes,
                          (char *)x.tensor.data + i * step * (int64_t)bytes, bytes) == 0;
        }
        EXPECT(equal);
      }
    }
  }
}

/* ---- Limits, memory, threads, failures. */

static void test_vmem_and_memory(void) {
  pk_context *context = pk_context_new();
  reset(5, 9);
  declared_vmem = 1000;
  pk_context_set_vmem_limit(context, 999);
  EXPECT(call_add(context, &x, &y, &o) == PK_VMEM_EXCEEDED);
  EXPECT(strstr(pk_message(context), "1000 bytes") && strstr(pk_message(context), "limit is 999"));
  pk_context_set_vmem_limit(context, 1000);
  EXPECT(call_add(context, &x, &y, &o) == PK_OK && added());
  pk_context_set_vmem_limit(context, 0);
  declared_vmem = PK_DEFAULT_VMEM_LIMIT + 1;
  reset(5, 9);
  EXPECT(call_add(context, &x, &y, &o) == PK_VMEM_EXCEEDED && untouched());
  pk_kernel wide = add;
  wide.vmem_limit = declared_vmem;
  EXPECT(pk_call_kernel(context, &wide, (DLTensor *[]){&x.tensor, &y.tensor, &o.tensor}) == PK_OK &&
         added());
  declared_vmem =
      pk_sat_mul(0, pk_sat_mul(INT64_MAX / 2,
                               3)); /* saturated: refused by every limit, also if multiplied by 0 */
  pk_context_set_vmem_limit(context, INT64_MAX);
  reset(5, 9);
  EXPECT(call_add(context, &x, &y, &o) == PK_VMEM_EXCEEDED && untouched() &&
         strstr(pk_message(context), "more than"));
  EXPECT(pk_sat_half(INT64_MAX) == INT64_MAX && pk_sat_half(7) == 4 &&
         pk_sat_half(INT64_MAX - 1) == INT64_MAX / 2);
  pk_context_set_vmem_limit(context, -5);
  EXPECT(call_add(context, &x, &y, &o) == PK_BAD_ARGUMENT &&
         strstr(pk_message(context), "pk_context_set_vmem_limit"));
  pk_context_set_vmem_limit(context, 0);
  declared_vmem = 3 * BM * BN * 4;
  reset(5, 9);
  const int64_t much[] = {INT64_MAX, INT64_MAX - 1, INT64_C(1) << 60};
  for (int i = 0; i < 3; ++i) {
    declared_arena = much[i];
    EXPECT(call_add(context, &x, &y, &o) == PK_NO_MEMORY && untouched());
  }
  declared_arena = 3 * BM * BN * 4;
  /* A copy larger than any memory: one number, broadcast. */
  matrix(&x, buffer_x, INT32_MAX, 1 << 27, 0, 0);
  pk_operand operand[] = {{"x", PK_F32, 2, false, -1, {-1, -2}}};
  pk_kernel kernel = one_cell_kernel(operand, 1, add_sizes, 2, first_cell);
  REFUSED(pk_call_kernel(NULL, &kernel, (DLTensor *[]){&x.tensor}), PK_NO_MEMORY,
          "innermost stride");
  reset(5, 9);
  EXPECT(call_add(context, &x, &y, &o) == PK_OK && added()); /* the context still works */
  pk_context_free(context);
}

static void test_environment(void) {
  static const char *const bad[] = {"0", "-1", "1025", "two", "2x", " 2", "99999999999999999999"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    setenv("PK_THREADS", bad[i], 1);
    pk_context *context = pk_context_new();
    reset(5, 9);
    EXPECT(call_add(context, &x, &y, &o) == PK_BAD_ARGUMENT &&
           strstr(pk_message(context), "PK_THREADS"));
    pk_context_set_threads(context, 2);
    EXPECT(call_add(context, &x, &y, &o) == PK_OK && added());
    pk_context_set_threads(context, -2);
    EXPECT(call_add(context, &x, &y, &o) == PK_BAD_ARGUMENT);
    pk_context_free(context);
  }
  setenv("PK_THREADS", "2", 1);
  setenv("PK_VMEM_LIMIT", "10K", 1);
  pk_context *context = pk_context_new();
  EXPECT(context->threads == 2 && context->vmem_limit == 10240);
  pk_context_free(context);
  static const char *const bad_limit[] = {"0", "-5", "1T", "K", "9999999999999G"};
  for (size_t i = 0; i < sizeof bad_limit / sizeof *bad_limit; ++i) {
    setenv("PK_VMEM_LIMIT", bad_limit[i], 1);
    context = pk_context_new();
    EXPECT(call_add(context, &x, &y, &o) == PK_BAD_ARGUMENT &&
           strstr(pk_message(context), "PK_VMEM_LIMIT"));
    pk_context_free(context);
  }
  unsetenv("PK_THREADS");
  unsetenv("PK_VMEM_LIMIT");
}

/* Calls without a chosen number of threads share the processors; others use their number. */
static void test_default_threads(void) {
  pk_context *one = pk_context_new(), *other = pk_context_new();
  EXPECT(one->automatic && one->threads == pk_processors());
  one->threads = other->threads = 8; /* as if there were 8 */
  EXPECT(pk_begin_work(one, 6) == 6);
  EXPECT(pk_begin_work(other, 6) == 2 && pk_begin_work(other, 6) == 1);
  pk_context_set_threads(other, 6);
  EXPECT(!other->automatic && pk_begin_work(other, 6) == 6);
  pk_context_set_threads(other, 0);
  EXPECT(other->automatic && other->threads == pk_processors());
  pk_end_work(6 + 2 + 1 + 6);
  pk_context_limit_threads(one, 4); /* the threads of a host, which calls share too */
  EXPECT(one->automatic && pk_allowed_threads(one) == 4);
  EXPECT(pk_begin_work(one, 4) == 4 && pk_begin_work(one, 4) == 1);
  pk_end_work(4 + 1);
  pk_context_set_threads(one, 6); /* a chosen number is not limited */
  EXPECT(pk_allowed_threads(one) == 6);
  pk_context_set_threads(one, 0);
  pk_context_limit_threads(one, 0);
  EXPECT(pk_allowed_threads(one) == pk_processors());
  one->threads = 8;
  EXPECT(pk_begin_work(one, 8) == 8);
  pk_end_work(8);
  pk_context_free(one);
  pk_context_free(other);
}

/* Cells, microseconds of each, permitted threads: the number of threads that pays; by estimates, or
 * by what was measured. */
static void test_threads_worth(void) {
  static const struct {
    int64_t cells;
    double microseconds;
    int allowed, worth;
    int64_t worth_ns, thread_ns;
  } row[] = {
      {100, 0.1, 64, 1, 0, 0}, /* too little to wake any */
      {100, 0.49, 64, 1, 0, 0},
      {100, 0.51, 64, 2, 0, 0},
      {100, 1, 64, 4, 0, 0},
      {100, 10, 8, 8, 0, 0},
      {3, 1000, 64, 3, 0, 0}, /* no more than there are cells */
      {1, 1e6, 64, 1, 0, 0},
      {0, 1e6, 64, 1, 0, 0},
      {1 << 20, 0.01, 192, 102, 0, 0}, /* entering and leaving would take longer than it saves */
      {1 << 20, 1, 192, 192, 0, 0},
      {INT64_MAX, 1e300, 1024, 1024, 0, 0},
      {100, 0.51, 64, 10, 5000, 300}, /* threads that wake fast */
      {100, 1, 64, 1, 60000, 300},    /* and slowly */
      {1 << 20, 0.01, 192, 51, 5000, 4000},
      {INT64_MAX, 1e300, 1024, 1024, INT64_MAX, INT64_MAX},
  };
  for (size_t i = 0; i < sizeof row / sizeof *row; ++i) {
    const pk_kernel kernel = {.worth_ns = row[i].worth_ns, .thread_ns = row[i].thread_ns};
    EXPECT(pk_threads_worth(&kernel, row[i].cells, row[i].microseconds * PK_WORK_PER_MICROSECOND,
                            row[i].allowed) == row[i].worth);
  }
}

static void write_text(const char *folder, const char *name, const char *text) {
  char path[256];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "w");
  EXPECT(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* The least quota of a group and its ancestors, for both versions. */
static void test_quota(void) {
  char root[] = "/tmp/pk_quota_XXXXXX", groups[64], inner[64], outer[64], old[64], command[96];
  EXPECT(mkdtemp(root) != NULL);
  (void)snprintf(groups, sizeof groups, "%s/groups", root);
  (void)snprintf(outer, sizeof outer, "%s/a", root);
  (void)snprintf(inner, sizeof inner, "%s/a/b", root);
  (void)snprintf(old, sizeof old, "%s/cpu", root);
  EXPECT(mkdir(outer, 0700) == 0 && mkdir(inner, 0700) == 0 && mkdir(old, 0700) == 0);
  EXPECT(pk_cpu_quota(groups, root) == PK_MAX_THREADS); /* no such file */
  write_text(root, "groups", "0::/a/b\n");
  EXPECT(pk_cpu_quota(groups, root) == PK_MAX_THREADS); /* no quota */
  write_text(inner, "cpu.max", "max 100000\n");
  EXPECT(pk_cpu_quota(groups, root) == PK_MAX_THREADS);
  write_text(outer, "cpu.max", "250000 100000\n");
  EXPECT(pk_cpu_quota(groups, root) == 3); /* two and a half */
  write_text(inner, "cpu.max", "50000 100000\n");
  EXPECT(pk_cpu_quota(groups, root) == 1);
  write_text(root, "groups", "3:cpuset:/a\n4:cpu,cpuacct:/\n");
  write_text(old, "cpu.cfs_period_us", "100000\n");
  write_text(old, "cpu.cfs_quota_us", "-1\n");
  EXPECT(pk_cpu_quota(groups, root) == PK_MAX_THREADS);
  write_text(old, "cpu.cfs_quota_us", "400000\n");
  EXPECT(pk_cpu_quota(groups, root) == 4);
  write_text(root, "groups", "3:cpuset:/a\n");
  EXPECT(pk_cpu_quota(groups, root) == PK_MAX_THREADS);
  (void)snprintf(command, sizeof command, "rm -r %s", root);
  EXPECT(system(command) == 0);
}

static void test_no_allocation(void) {
  for (int threads = 1; threads <= 2; ++threads) {
    pk_context *context = pk_context_new();
    pk_context_set_threads(context, threads);
    reset(40, 20);
    matrix(&o, buffer_o, 40, 20, 60, 3);
    EXPECT(call_add(context, &x, &y, &o) == PK_OK && added());
    int64_t before = allocations;
#ifdef COUNTS_ALLOCATIONS
    EXPECT(before > 0);
#endif
    for (int i = 0; i < 10; ++i) EXPECT(call_add(context, &x, &y, &o) == PK_OK);
    if (!EXPECT(allocations == before))
      printf("  %" PRId64 " allocations with %d threads\n", allocations - before, threads);
    pk_context_free(context);
  }
}

static int cells_run[1000], workers_seen[PK_MAX_THREADS];
static int64_t fail_from;
static char fail_message[1000][16];

static const char *count_prepare(int64_t *size, pk_plan *plan) {
  *plan = (pk_plan){
      .cells = size[0], .steps = size[0], .arena_bytes = 64, .clear_bytes = 64, .work = 1e7};
  return NULL;
}
static void count_cell(const pk_call *call, pk_worker *worker, int64_t cell) {
  int64_t *mine = (void *)worker->arena; /* zero at the worker's first cell */
  (void)call;
  ++*mine;
  __atomic_add_fetch(&cells_run[cell], 1, __ATOMIC_RELAXED);
  __atomic_store_n(&workers_seen[worker->thread], (int)*mine, __ATOMIC_RELAXED);
  for (volatile int i = 0; i < 20000; ++i) {}
  if (cell >= fail_from) pk_fail(worker, fail_message[cell]);
  if (cell >= fail_from) pk_fail(worker, "a later message");
}

static void test_threads_and_failures(void) {
  static const char *const names[] = {"N"};
  static const pk_operand operand[] = {{"x", PK_F32, 1, false, -1, {-1}}};
  const pk_kernel kernel = {.abi = PK_ABI,
                            .name = "add",
                            .operands = 1,
                            .inputs = 1,
                            .operand = operand,
                            .sizes = 1,
                            .size_name = names,
                            .bound = 1,
                            .prepare = count_prepare,
                            .cell = count_cell};
  for (int i = 0; i < 1000; ++i)
    (void)snprintf(fail_message[i], sizeof fail_message[i], "cell %d", i);
  tensor_init(&x, buffer_x, 1, (int64_t[]){1000}, NULL);
  for (int threads = 1; threads <= 3; ++threads) {
    pk_context *context = pk_context_new();
    pk_context_set_threads(context, threads);
    fail_from = INT64_MAX;
    for (int round = 1; round <= 2; ++round) {
      memset(cells_run, 0, sizeof cells_run);
      memset(workers_seen, 0, sizeof workers_seen);
      EXPECT(pk_call_kernel(context, &kernel, (DLTensor *[]){&x.tensor}) == PK_OK);
      int sum = 0;
      bool once = true;
      for (int i = 0; i < 1000; ++i) once &= cells_run[i] == 1;
      for (int i = 0; i < PK_MAX_THREADS; ++i) sum += workers_seen[i];
      EXPECT(once && sum == 1000);
    }
    for (fail_from = 0; fail_from < 1000; fail_from += 37) {
      EXPECT(pk_call_kernel(context, &kernel, (DLTensor *[]){&x.tensor}) == PK_FAILED);
      char want[32];
      (void)snprintf(want, sizeof want, "add: cell %d", (int)fail_from);
      EXPECT(strcmp(pk_message(context), want) == 0);
    }
    pk_context_free(context);
  }
}

static void *add_many(void *unused) {
  (void)unused;
  static _Thread_local float a[60], b[60], c[60];
  tensor ta, tb, tc;
  matrix(&ta, a, 6, 10, 10, 1);
  matrix(&tb, b, 6, 10, 1, 6);
  matrix(&tc, c, 6, 10, 10, 1);
  for (int i = 0; i < 60; ++i) a[i] = (float)i;
  for (int round = 0; round < 500; ++round) {
    if (call_add(NULL, &ta, &tb, &tc) != PK_OK || c[59] != 59) return NULL;
    ta.shape[0] = 5;
    if (call_add(NULL, &ta, &tb, &tc) != PK_BAD_SIZE || !strstr(pk_message(NULL), "expected 5"))
      return NULL;
    ta.shape[0] = 6;
  }
  return fail_message;
}

static void test_default_contexts(void) {
  pthread_t thread[2];
  for (int i = 0; i < 2; ++i) EXPECT(pthread_create(&thread[i], NULL, add_many, NULL) == 0);
  for (int i = 0; i < 2; ++i) {
    void *result = NULL;
    EXPECT(pthread_join(thread[i], &result) == 0 && result);
  }
}

static void test_staged_failure(void) {
  reset(5, 9); /* a failed call's staged outputs are not copied back */
  matrix(&o, buffer_o, 5, 9, 20, 2);
  pk_operand operand[] = {{"x", PK_F32, 2, false, -1, {-1, -2}},
                          {"o", PK_F32, 2, true, -1, {-1, -2}}};
  pk_kernel kernel = {.abi = PK_ABI,
                      .name = "add",
                      .operands = 2,
                      .inputs = 1,
                      .operand = operand,
                      .sizes = 2,
                      .size_name = add_sizes,
                      .bound = 2,
                      .prepare = count_prepare,
                      .cell = count_cell};
  fail_from = 0;
  REFUSED(pk_call_kernel(NULL, &kernel, (DLTensor *[]){&x.tensor, &o.tensor}), PK_FAILED, "cell 0");
  EXPECT(untouched());
}

static void test_trace(void) {
  char path[] = "/tmp/pk_traceXXXXXX";
  int fd = mkstemp(path);
  if (!EXPECT(fd >= 0)) return;
  pk_context *context = pk_context_new();
  pk_context_set_threads(context, 2);
  EXPECT(pk_context_trace(context, path) == PK_OK);
  reset(40, 20);
  matrix(&o, buffer_o, 40, 20, 1, 40); /* staged */
  EXPECT(call_add(context, &x, &y, &o) == PK_OK && added());
  EXPECT(pk_context_trace(context, NULL) == PK_OK);
  FILE *file = fopen(path, "r");
  static char text[1 << 17];
  size_t length = file ? fread(text, 1, sizeof text - 1, file) : 0;
  if (file) (void)fclose(file);
  text[length] = '\0';
  int dmas = 0, cells = 0, regions = 0;
  for (const char *p = text; (p = strstr(p, "\"cat\":\"")); p += 7) {
    dmas += p[7] == 'd';
    cells += p[7] == 'c';
    regions += p[7] == 'r';
  }
  EXPECT(cells == 10 && dmas == 10 * 3 * 3 + 2 && regions == 10 * 3);
  EXPECT(strstr(text, "\"stage in\"") && strstr(text, "\"stage out\"") &&
         strstr(text, "\"bytes\":3200}")); /* 40 x 20 elements */
  EXPECT(strstr(text, "\"dropped\":0") && text[0] == '{');
  EXPECT(pk_context_trace(context, "/nonexistent/trace.json") == PK_OK);
  EXPECT(pk_context_trace(context, NULL) == PK_FAILED &&
         strstr(pk_message(context), "/nonexistent"));
  pk_context_free(context);
  (void)remove(path);
}

static void test_profile(void) {
  pk_kernel_time row;
  pk_context *context = pk_context_new();
  reset(40, 20);
  EXPECT(call_add(context, &x, &y, &o) == PK_OK && !pk_profile_row(context, 0, &row));
  EXPECT(pk_context_profile(context, 1) == PK_OK && !pk_profile_row(context, 0, &row));
  for (int i = 0; i < 3; i++) EXPECT(call_add(context, &x, &y, &o) == PK_OK);
  EXPECT(pk_context_profile(context, 0) == PK_OK && call_add(context, &x, &y, &o) == PK_OK);
  EXPECT(pk_profile_row(context, 0, &row) && strcmp(row.name, "add") == 0 && row.calls == 3);
  EXPECT(row.seconds > 0 && row.seconds < 60);
  EXPECT(!pk_profile_row(context, 1, &row) && !pk_profile_row(context, -1, &row));
  EXPECT(pk_context_profile(context, 1) == PK_OK && !pk_profile_row(context, 0, &row));
  pk_context_free(context);
}

int main(void) {
  test_environment();
  test_default_threads();
  test_threads_worth();
  test_quota();
  test_kinds_refused();
  test_sizes_refused();
  test_strides_accepted();
  test_overlap();
  test_alias_and_rest_kept();
  test_one_row();
  test_derived_and_constant();
  test_output_shapes();
  test_prefetched();
  test_dtypes();
  test_vmem_and_memory();
  test_no_allocation();
  test_threads_and_failures();
  test_default_contexts();
  test_staged_failure();
  test_trace();
  test_profile();
  EXPECT(strcmp(pk_status_name(PK_OVERLAP), "PK_OVERLAP") == 0 && *pk_version());
  EXPECT(strcmp(pk_status_name((pk_status)99), "unknown status") == 0);
  return check_end();
}
