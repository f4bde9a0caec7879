/* Runs many kernels on data: harness FILE [FIRST [COUNT]].
 *
 * FILE holds calls, one after the other: int32 kernel, threads, operands; for each operand int32
 * rank, int64 shape.., int64 bytes and the bytes. The output file, FILE.out, has for each call
 * int32 status and then the bytes of all operands. Each operand ends at a page that cannot be
 * touched, and each call runs in a process of its own, which a signal, an alarm or a limit of its
 * time may end: status 1000 + signal; status 200: not the bits of one thread. `kernels` and
 * `kernel_count` are in the file that is compiled with this one. */
#define _DEFAULT_SOURCE
#include <pk/rt.h>

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
  PAGE = 4096,
  CPU_SECONDS = 20,
  SECONDS = 150,
  OTHER_BITS = 200,
  DIED = 1000
};

typedef struct {
  int rank;
  int64_t shape[PK_MAX_RANK], bytes;
  char *data;
} operand;

static const pk_kernel *original;

/* Threads are used, and cells cut into parts for them, however little there is to do. */
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

/* Memory shared with the child, at whose end an access faults. */
static char *guarded(int64_t bytes, char **base, size_t *length) {
  size_t room = ((size_t)bytes + PAGE - 1) / PAGE * PAGE;
  *length = room + PAGE;
  *base = mmap(NULL, *length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (*base == MAP_FAILED || mprotect(*base + room, PAGE, PROT_NONE)) fail("mmap");
  return *base + room - bytes;
}

static int call(const pk_kernel *kernel, int threads, operand *operands, int count) {
  DLTensor tensors[MOST_OPERANDS], *pointers[MOST_OPERANDS];
  pk_kernel eager = *kernel;
  pk_context *context = pk_context_new();
  pk_context_set_threads(context, threads);
  original = kernel;
  eager.prepare = prepare_much_work;
  if (kernel->prepare_from) eager.prepare_from = prepare_much_work_from;
  for (int i = 0; i < count; i++) {
    static const DLDataType types[] = {
#define DL_TYPE(id, name, numpy, bytes, code, bits, xla) [PK_##id] = {code, bits, 1},
        PK_DTYPES(DL_TYPE)
#undef DL_TYPE
    };
    tensors[i] =
        (DLTensor){.data = operands[i].data, .ndim = operands[i].rank, .shape = operands[i].shape};
    tensors[i].device.device_type = kDLCPU;
    tensors[i].dtype = types[kernel->operand[i].dtype];
    pointers[i] = &tensors[i];
  }
  /* An output that shares an input's memory has none of its own. */
  for (int i = 0; i < count; i++)
    if (kernel->operand[i].alias >= 0) tensors[i].data = tensors[kernel->operand[i].alias].data;
  pk_status status = pk_call_kernel(
      context, threads > 1 && !kernel->program && !kernel->mesh ? &eager : kernel, pointers);
  if (status != PK_OK) fprintf(stderr, "%s: %s\n", kernel->name, pk_message(context));
  pk_context_free(context);
  return (int)status;
}

static bool is_result(const pk_kernel *kernel, int count, int place) {
  bool result = kernel->operand[place].output;
  for (int i = 0; i < count; i++) result |= kernel->operand[i].alias == place;
  return result;
}

/* Calls it on one thread first, and puts the operands back. */
static int call_twice(const pk_kernel *kernel, int threads, operand *operands, int count) {
  char *before[MOST_OPERANDS], *one[MOST_OPERANDS];
  for (int i = 0; i < count; i++) {
    const size_t bytes = (size_t)operands[i].bytes;
    before[i] = malloc(bytes + 1), one[i] = malloc(bytes + 1);
    if (!before[i] || !one[i]) fail("malloc");
    memcpy(before[i], operands[i].data, bytes);
  }
  int status = call(kernel, 1, operands, count);
  if (status != PK_OK) return status;
  for (int i = 0; i < count; i++) {
    memcpy(one[i], operands[i].data, (size_t)operands[i].bytes);
    memcpy(operands[i].data, before[i], (size_t)operands[i].bytes);
  }
  status = call(kernel, threads, operands, count);
  for (int i = 0; i < count && status == PK_OK; i++)
    if (is_result(kernel, count, i) && memcmp(one[i], operands[i].data, (size_t)operands[i].bytes))
      status = OTHER_BITS;
  return status;
}

static int call_apart(const pk_kernel *kernel, int threads, operand *operands, int count) {
  fflush(stderr);
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    setrlimit(RLIMIT_CPU, &(struct rlimit){CPU_SECONDS, CPU_SECONDS + 5});
    alarm(SECONDS);
    _exit((threads > 1 ? call_twice : call)(kernel, threads, operands, count));
  }
  int status;
  if (waitpid(child, &status, 0) < 0) fail("waitpid");
  return WIFSIGNALED(status) ? DIED + WTERMSIG(status) : WEXITSTATUS(status);
}

static void one(FILE *in, FILE *out, const int32_t *head) {
  operand operands[MOST_OPERANDS];
  char *base[MOST_OPERANDS];
  size_t length[MOST_OPERANDS];
  for (int i = 0; i < head[2]; i++) {
    int32_t rank;
    take(in, &rank, sizeof rank);
    operands[i].rank = rank;
    take(in, operands[i].shape, (size_t)rank * sizeof(int64_t));
    take(in, &operands[i].bytes, sizeof(int64_t));
    operands[i].data = guarded(operands[i].bytes, &base[i], &length[i]);
    take(in, operands[i].data, (size_t)operands[i].bytes);
  }
  int32_t status = call_apart(kernels[head[0]], head[1], operands, head[2]);
  fwrite(&status, sizeof status, 1, out);
  for (int i = 0; i < head[2]; i++) {
    fwrite(operands[i].data, 1, (size_t)operands[i].bytes, out);
    munmap(base[i], length[i]);
  }
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
