/* Runs many kernels on data: harness FILE [FIRST [COUNT]].
 *
 * FILE holds calls, one after the other: int32 kernel, threads, operands; for each operand int32
 * rank, int64 shape.., int64 bytes and the bytes. The output file, FILE.out, has for each call
 * int32 status and then the bytes of all operands. Each call runs in a process of its own, which a
 * signal, an alarm or a limit of its time may end: status 1000 + signal. Each operand ends at a
 * page that cannot be touched. Then the kernel is called again, by operands that begin at one and
 * have gaps between their rows. Status 200: not the bits of one thread; 201: not the same bits with
 * gaps; 202: something beside an operand or a buffer was touched. `kernels` and `kernel_count` are
 * in the file that is compiled with this one, and so is runtime/guard.c. */
#define _DEFAULT_SOURCE
#include <pk/fence.h>
#include <pk/link.h>
#include <pk/rt.h>

#include "runtime/guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern const pk_kernel *const kernels[];

enum {
  MOST_OPERANDS = 32,
  CPU_SECONDS = 20,
  SECONDS = 150,
  OTHER_BITS = 200,
  OTHER_BITS_APART = 201,
  BESIDE = 202,
  DIED = 1000
};

typedef struct {
  int64_t shape[PK_MAX_RANK], bytes;
  DLTensor tensor, apart_tensor;
  pk_guarded memory, apart;
} operand;

static const pk_kernel *original;

/* Threads are used, and cells divided for them, for any amount of work. */
static const char *prepare_much_work(int64_t *size, pk_plan *plan) {
  const char *wrong = original->prepare(size, plan);
  plan->work = plan->split_work = 1e15;
  return wrong;
}

static const char *prepare_much_work_from(const pk_array *array, int64_t *size, pk_plan *plan) {
  const char *wrong = original->prepare_from(array, size, plan);
  plan->work = plan->split_work = 1e15;
  return wrong;
}

static void fail(const char *what) {
  perror(what);
  exit(2);
}

static void take(FILE *file, void *to, size_t bytes) {
  if (bytes && fread(to, 1, bytes, file) != bytes) fail("read");
}

/* An output that shares the memory of an input has no other memory. */
static operand *holder(const pk_kernel *kernel, operand *operands, int place) {
  const int alias = kernel->operand[place].alias;
  return &operands[alias >= 0 ? alias : place];
}

static int call(const pk_kernel *kernel, int threads, operand *operands, int count, bool apart) {
  DLTensor tensors[MOST_OPERANDS], *pointers[MOST_OPERANDS];
  static pk_kernel eager; /* pk_fenced keeps its address: a process calls one kernel */
  pk_context *context = pk_context_new();
  pk_context_set_threads(context, threads);
  original = kernel;
  eager = *kernel;
  eager.prepare = prepare_much_work;
  if (kernel->prepare_from) eager.prepare_from = prepare_much_work_from;
  for (int i = 0; i < count; i++) {
    operand *o = holder(kernel, operands, i);
    tensors[i] = apart ? o->apart_tensor : o->tensor;
    pointers[i] = &tensors[i];
  }
  const pk_kernel *called = threads > 1 && !kernel->program && !kernel->mesh ? &eager : kernel;
  pk_status status = pk_call_kernel(context, pk_fenced(called), pointers);
  if (status != PK_OK) fprintf(stderr, "%s: %s\n", kernel->name, pk_message(context));
  pk_context_free(context);
  return (int)status;
}

static bool is_result(const pk_kernel *kernel, int count, int place) {
  bool result = kernel->operand[place].output;
  for (int i = 0; i < count; i++) result |= kernel->operand[i].alias == place;
  return result;
}

static char *copy_of(const void *data, int64_t bytes) {
  char *copy = malloc((size_t)bytes + 1);
  if (!copy) fail("malloc");
  if (bytes) memcpy(copy, data, (size_t)bytes);
  return copy;
}

/* Calls it on one thread first, and puts the operands back. */
static int call_twice(const pk_kernel *kernel, int threads, operand *operands, int count) {
  char *before[MOST_OPERANDS], *one[MOST_OPERANDS];
  for (int i = 0; i < count; i++) before[i] = copy_of(operands[i].memory.data, operands[i].bytes);
  int status = call(kernel, 1, operands, count, false);
  if (status != PK_OK) return status;
  for (int i = 0; i < count; i++) {
    one[i] = copy_of(operands[i].memory.data, operands[i].bytes);
    pk_guard_put(&operands[i].memory, before[i]);
  }
  status = call(kernel, threads, operands, count, false);
  for (int i = 0; i < count && status == PK_OK; i++)
    if (is_result(kernel, count, i) &&
        memcmp(one[i], operands[i].memory.data, (size_t)operands[i].bytes))
      status = OTHER_BITS;
  return status;
}

/* The operands in other places, as they are before a call. A program may have to reshape its
 * operands, whose rows then lie together. */
static void lay_apart(const pk_kernel *kernel, operand *operands, int count) {
  for (int i = 0; i < count; i++) {
    operand *o = &operands[i];
    const pk_operand *declared = &kernel->operand[i];
    const bool gaps = !kernel->program && !(kernel->packed && kernel->packed[i]);
    o->apart_tensor = o->tensor;
    if (!pk_guard_open(&o->apart, declared->name, PK_GUARD_BEGIN, &o->apart_tensor, o->bytes,
                       gaps ? pk_dtype_bytes(declared->dtype) : 0))
      fail("mmap");
    pk_guard_put(&o->apart, o->memory.data);
  }
}

static int call_on_gaps(const pk_kernel *kernel, int threads, operand *operands, int count) {
  int status = call(kernel, threads, operands, count, true);
  for (int i = 0; i < count && status == PK_OK; i++) {
    operand *o = &operands[i];
    char *found = copy_of(o->memory.data, o->bytes);
    pk_guard_get(&o->apart, found);
    if (is_result(kernel, count, i) && memcmp(found, o->memory.data, (size_t)o->bytes))
      status = OTHER_BITS_APART;
    free(found);
  }
  return status;
}

static const char *called; /* the kernel's name */

static _Noreturn void end_beside(const char *message) {
  const char *const texts[] = {called, ": ", message, "\n"};
  for (int i = 0; i < 4; i++)
    if (write(STDERR_FILENO, texts[i], strlen(texts[i])) < 0) break;
  _exit(BESIDE);
}

static int call_all(const pk_kernel *kernel, int threads, operand *operands, int count) {
  called = kernel->name;
  pk_guard_catch(end_beside);
  lay_apart(kernel, operands, count);
  int status = threads > 1 ? call_twice(kernel, threads, operands, count)
                           : call(kernel, threads, operands, count, false);
  if (status == PK_OK) status = call_on_gaps(kernel, threads, operands, count);
  const char *broken = pk_guard_broken();
  if (broken) end_beside(broken);
  return status;
}

static int call_apart(const pk_kernel *kernel, int threads, operand *operands, int count) {
  fflush(stderr);
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS + 5});
    alarm(SECONDS);
    _exit(call_all(kernel, threads, operands, count));
  }
  int status;
  if (waitpid(child, &status, 0) < 0) fail("waitpid");
  return WIFSIGNALED(status) ? DIED + WTERMSIG(status) : WEXITSTATUS(status);
}

static void one(FILE *in, FILE *out, const int32_t *head) {
  operand operands[MOST_OPERANDS];
  const pk_kernel *kernel = kernels[head[0]];
  for (int i = 0; i < head[2]; i++) {
    operand *o = &operands[i];
    int32_t rank;
    take(in, &rank, sizeof rank);
    take(in, o->shape, (size_t)rank * sizeof(int64_t));
    take(in, &o->bytes, sizeof(int64_t));
    o->tensor = (DLTensor){.device = {kDLCPU, 0},
                           .ndim = rank,
                           .shape = o->shape,
                           .dtype = pk_dtype_dlpack(kernel->operand[i].dtype)};
    if (!pk_guard_open(&o->memory, kernel->operand[i].name, PK_GUARD_END, &o->tensor, o->bytes, 0))
      fail("mmap");
    take(in, o->memory.data, (size_t)o->bytes);
  }
  int32_t status = call_apart(kernel, head[1], operands, head[2]);
  fwrite(&status, sizeof status, 1, out);
  for (int i = 0; i < head[2]; i++)
    fwrite(operands[i].memory.data, 1, (size_t)operands[i].bytes, out);
  pk_guard_close_all();
}

int main(int argc, char **argv) {
  char path[4096];
  if (argc < 2) return 2;
  snprintf(path, sizeof path, "%s.out", argv[1]);
  FILE *in = fopen(argv[1], "rb"), *out = fopen(path, "wb");
  if (!in || !out) fail("open");
  for (int32_t head[3]; fread(head, sizeof head, 1, in) == 1;) one(in, out, head);
  return fclose(out) ? 2 : 0;
}
