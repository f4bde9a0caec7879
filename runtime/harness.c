/* The program that `pkc run` and `pkc bench` build from a kernel and run on data:
 *
 *     harness FD [key=value ...]
 *
 * FD is a file that both sides map: the bytes of the operands, then the outputs as other kernels
 * compute them. The macro PK_KERNEL and, if they are linked, PK_JUDGE (the expected results and
 * their error bounds) and PK_NAIVE (the naive reference in f32) name the `const pk_kernel`s. Prints
 * key=value lines on standard output.
 *
 *     mode=run|bench|profile|plan|measure  threads=N  vmem_limit=BYTES
 *     judge=0|1  naive=0|1  checked=0|1  min_time=S  max_time=S  progress=0|1  trace=PATH
 *     counters=0|1
 *     peak=f32|f64|bf16|i8                                   also measure the peak rates of the
 * machine shape.K=AxBxC  offset.K=BYTES  naive_offset.K=BYTES expected_offset.K=BYTES
 * allowed_offset.K=BYTES        of operand K of the signature
 *
 * With the macro PK_WORLD mpirun starts several of these programs, one for each device of the
 * kernel's mesh. Every process has all data in its file and passes its part; the first one receives
 * all outputs in its file.
 *
 * With checked=1 the kernel is called again, with arrays at other places in their memory and with
 * gaps between their rows. The memory around the arrays of both calls, and with the macro PK_FENCES
 * around the buffers of the arena, must not change.
 *
 * Exit status: 0 done, 1 the call was refused (status= and message= say why), 2 wrong use of the
 * harness, 3 the kernel accessed memory outside an array or a buffer (message=). Compiled together
 * with cpu.c, guard.c, laps.c and measure.c. */
#define _DEFAULT_SOURCE
#include "cpu.h"
#include "guard.h"
#include "laps.h"
#include "platform.h"
#include "runtime.h"

#ifdef PK_WORLD
#include "world.h"
#endif
#include <pk/fence.h>
#include <pk/link.h>
#include <pk/profile.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern const pk_kernel PK_KERNEL;
#ifdef PK_NAIVE
extern const pk_kernel PK_NAIVE;
static const pk_kernel *const reference = &PK_NAIVE;
#else
static const pk_kernel *const reference = NULL;
#endif
#ifdef PK_JUDGE
extern const pk_kernel PK_JUDGE;
static const pk_kernel *const judge = &PK_JUDGE;
#else
static const pk_kernel *const judge = NULL;
#endif
static const pk_kernel *kernel =
    &PK_KERNEL; /* no name here ends in _kernel: those are the generated ones */

enum { MAX_RUNS = 1 << 16, ALIGNMENT = 64, MOST_GUARDED = 1 << 24, OVERRUN = 3 };
static const double poor_naive_seconds = 1.0; /* a naive run longer than this runs once */
static const double sample_seconds =
    100e-6; /* calls shorter than this are timed several at a time */

static const char *const modes[] = {"run", "bench", "profile", "plan", "measure"};
typedef enum { RUN, BENCH, PROFILE, PLAN, MEASURE, MODES } mode;

typedef struct {
  mode mode;
  bool judge, naive, progress, counters, checked;
  pk_rate rate;
  int threads;
  int64_t vmem_limit;
  double min_time, max_time;
  const char *trace;
} settings;

/* An operand: its bytes in the file, and the memory that the kernel and the naive reference work
 * on. */
typedef struct {
  bool given;
  int64_t shape[PK_MAX_RANK], bytes, offset, naive_offset, expected_offset, allowed_offset;
  char *memory, *naive_memory;
  char *packed;   /* where elements share bytes, the memory of the kernel; else NULL */
  char *original; /* of an input that an output is an alias of: in the file the output takes its
                     place */
  pk_guarded guarded, apart; /* the memory of the kernel, and that of its second call */
  DLTensor tensor, naive_tensor, judge_tensor, allowed_tensor, apart_tensor;
  pk_array part; /* of the tensor, where other processes have the rest */
} operand;

static settings set = {.rate = PK_RATES, .threads = 1, .min_time = 0.3, .max_time = 10};
static operand *operands;  /* as many as the kernel has */
static DLTensor **tensors; /* of a call: two for each operand at most */
static char *file;
static int64_t file_bytes;
static pk_context *context;

static void wrong_use(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
static void wrong_use(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  (void)fputs("harness: ", stderr);
  (void)vfprintf(stderr, format, arguments);
  (void)fputc('\n', stderr);
  va_end(arguments);
  exit(2);
}

static double seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- The command line. */

static int64_t whole(const char *text, const char *word) {
  char *end = NULL;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  if (errno || end == text || *end || value < 0) wrong_use("%s: expected a whole number", word);
  return value;
}

static double real(const char *text, const char *word) {
  char *end = NULL;
  double value = strtod(text, &end);
  if (end == text || *end || !(value >= 0)) wrong_use("%s: expected a number of seconds", word);
  return value;
}

static void read_shape(int index, const char *text, const char *word) {
  operand *o = &operands[index];
  int rank = 0;
  o->given = true;
  while (*text) {
    char *end = NULL;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || value < 0 || rank == PK_MAX_RANK || (*end && *end != 'x'))
      wrong_use("%s: expected a shape", word);
    o->shape[rank++] = value;
    text = *end ? end + 1 : end;
  }
  if (rank != kernel->operand[index].rank)
    wrong_use("%s: expected %d axes", word, kernel->operand[index].rank);
}

static pk_rate rate_named(const char *value, const char *word) {
  for (int rate = 0; rate < PK_RATES; ++rate)
    if (strcmp(value, pk_rate_names[rate]) == 0) return (pk_rate)rate;
  wrong_use("%s: unknown arithmetic", word);
}

/* shape.K, offset.K, .. */
static bool read_operand(const char *key, const char *value, const char *word) {
  const char *dot = strchr(key, '.');
  if (!dot) return false;
  char number[16] = "";
  (void)snprintf(number, sizeof number, "%.*s", (int)strcspn(dot + 1, "="), dot + 1);
  int64_t index = whole(number, word);
  if (index >= kernel->operands)
    wrong_use("%s: the kernel has %d operands", word, kernel->operands);
  if (strncmp(key, "shape.", 6) == 0)
    read_shape((int)index, value, word);
  else if (strncmp(key, "offset.", 7) == 0)
    operands[index].offset = whole(value, word);
  else if (strncmp(key, "naive_offset.", 13) == 0)
    operands[index].naive_offset = whole(value, word);
  else if (strncmp(key, "expected_offset.", 16) == 0)
    operands[index].expected_offset = whole(value, word);
  else if (strncmp(key, "allowed_offset.", 15) == 0)
    operands[index].allowed_offset = whole(value, word);
  else
    return false;
  return true;
}

static mode mode_named(const char *name, const char *word) {
  int which = 0;
  while (which < MODES && strcmp(name, modes[which]) != 0) ++which;
  if (which == MODES) wrong_use("%s: not a mode", word);
  return (mode)which;
}

/* Reads one key=value word of the command line. */
static void read_word(const char *word) {
  const char *equals = strchr(word, '=');
  if (!equals) wrong_use("%s: expected key=value", word);
  const char *value = equals + 1;
  size_t length = (size_t)(equals - word);
#define KEY(name) (length == sizeof name - 1 && memcmp(word, name, length) == 0)
  if (KEY("mode")) {
    set.mode = mode_named(value, word);
  } else if (KEY("threads")) {
    int64_t threads = whole(value, word);
    set.threads = threads > INT32_MAX ? INT32_MAX : (int)threads;
  } else if (KEY("vmem_limit")) {
    set.vmem_limit = whole(value, word);
  } else if (KEY("judge")) {
    set.judge = whole(value, word) != 0;
  } else if (KEY("checked")) {
    set.checked = whole(value, word) != 0;
  } else if (KEY("naive")) {
    set.naive = whole(value, word) != 0;
  } else if (KEY("progress")) {
    set.progress = whole(value, word) != 0;
  } else if (KEY("min_time")) {
    set.min_time = real(value, word);
  } else if (KEY("max_time")) {
    set.max_time = real(value, word);
  } else if (KEY("peak")) {
    set.rate = rate_named(value, word);
  } else if (KEY("counters")) {
    set.counters = whole(value, word) != 0;
  } else if (KEY("trace")) {
    set.trace = value;
  } else if (!read_operand(word, value, word)) {
    wrong_use("%s: unknown key", word);
  }
#undef KEY
}

/* ---- Operands. */

static void check_range(int index, int64_t offset, int64_t bytes, const char *what) {
  if (offset > file_bytes || bytes > file_bytes - offset)
    wrong_use("%s.%d: beyond the end of the file", what, index);
}

static _Noreturn void refuse_memory(void) {
  (void)printf("status=PK_NO_MEMORY\nmessage=%s: no memory for the operands\n", kernel->name);
  exit(1);
}

static char *private_memory(int64_t bytes) {
  const size_t alignment = bytes >= (int64_t)PK_HUGE_PAGE ? PK_HUGE_PAGE : ALIGNMENT;
  char *memory = pk_allocate_aligned(bytes > 0 ? (size_t)bytes : 1, alignment);
  if (!memory) refuse_memory();
  return memory;
}

/* An operand of the kernel ends at a page that must not be accessed. */
static char *guarded_memory(int index, int64_t bytes) {
  DLTensor whole = {0};
  pk_guarded *guarded = &operands[index].guarded;
  if (set.mode != BENCH && (bytes <= MOST_GUARDED || set.checked) &&
      pk_guard_open(guarded, kernel->operand[index].name, PK_GUARD_END, &whole, bytes, 0))
    return guarded->data;
  return private_memory(bytes);
}

/* The operand whose memory this one is, itself if it has its own. The naive reference may see
 * aliases or not. */
static int alias_of(const pk_kernel *which, int index) {
  int alias = which->operand[index].alias;
  return alias >= 0 && alias < which->operands ? alias : index;
}

static DLTensor tensor_of(operand *o, int index, char *memory) {
  const pk_operand *declared = &kernel->operand[index];
  return (DLTensor){.data = memory,
                    .device = {kDLCPU, 0},
                    .ndim = declared->rank,
                    .dtype = pk_dtype_dlpack(declared->dtype),
                    .shape = o->shape};
}

/* ---- Elements that share bytes, the first in the lowest bits; in the file they have bytes of
 * their own. */

static int bits_of(int index) { return pk_dtype_dlpack(kernel->operand[index].dtype).bits; }

static int64_t packed_bytes(const operand *o, int index) {
  const int64_t each = 8 / bits_of(index);
  return (o->bytes + each - 1) / each;
}

static void pack(const operand *o, int index, const char *from) {
  const int bits = bits_of(index), mask = (1 << bits) - 1;
  memset(o->packed, 0, (size_t)packed_bytes(o, index));
  for (int64_t i = 0; i < o->bytes; ++i)
    o->packed[i * bits / 8] |= (char)((from[i] & mask) << i * bits % 8);
}

static void unpack(const operand *o, int index, char *to) {
  const int bits = bits_of(index), mask = (1 << bits) - 1;
  for (int64_t i = 0; i < o->bytes; ++i)
    to[i] = (char)((unsigned char)o->packed[i * bits / 8] >> i * bits % 8 & mask);
}

/* Maps the memory of an operand. */
static void open_operand(int index) {
  operand *o = &operands[index];
  const pk_operand *declared = &kernel->operand[index];
  if (!o->given) wrong_use("shape.%d is missing", index);
  o->bytes = pk_dtype_bytes(declared->dtype);
  for (int k = 0; k < declared->rank; ++k) o->bytes = pk_sat_mul(o->bytes, o->shape[k]);
  check_range(index, o->offset, o->bytes, "offset");
  int alias = alias_of(kernel, index);
  operand *source = &operands[alias];
  const bool packed = kernel->packed && kernel->packed[index];
  if (o != source)
    o->memory = source->memory;
  else
    o->memory = packed ? private_memory(o->bytes) : guarded_memory(index, o->bytes);
  if (packed)
    o->packed = o == source ? guarded_memory(index, packed_bytes(o, index)) : source->packed;
  o->naive_memory = o->memory;
  if (o != source && !source->original) {
    source->original = private_memory(source->bytes);
    memcpy(source->original, file + source->offset, (size_t)source->bytes);
  }
  if (!set.naive || !declared->output) return;
  check_range(index, o->naive_offset, o->bytes, "naive_offset");
  o->naive_memory = private_memory(o->bytes);
  if (o == source) return;
  source->naive_memory =
      alias_of(reference, index) == alias ? o->naive_memory : private_memory(source->bytes);
}

/* The judge's arguments: the original inputs; its outputs and error bounds go directly to the file.
 */
static void open_judged(int index) {
  operand *o = &operands[index];
  const pk_operand *declared = &kernel->operand[index];
  o->judge_tensor = tensor_of(o, index, o->original ? o->original : o->memory);
  if (!declared->output) return;
  const int64_t allowed_bytes =
      pk_sat_mul(o->bytes / pk_dtype_bytes(declared->dtype), (int64_t)sizeof(double));
  check_range(index, o->expected_offset, o->bytes, "expected_offset");
  check_range(index, o->allowed_offset, allowed_bytes, "allowed_offset");
  o->judge_tensor = tensor_of(o, index, file + o->expected_offset);
  o->allowed_tensor = tensor_of(o, index, file + o->allowed_offset);
  o->allowed_tensor.dtype = pk_dtype_dlpack(PK_F64);
}

/* Loads inputs from the file and fills outputs with the poison pattern. An aliased output is its
 * input. */
static void fill_operands(bool naive) {
  const pk_kernel *which = naive ? reference : kernel;
  for (int i = 0; i < kernel->operands; ++i) {
    operand *o = &operands[i];
    char *memory = naive ? o->naive_memory : o->memory;
    const char *given = o->original ? o->original : file + o->offset;
    if (!kernel->operand[i].output) {
      if (!naive || memory != o->memory) memcpy(memory, given, (size_t)o->bytes);
      if (!naive && o->packed) pack(o, i, given);
    } else if (alias_of(which, i) == i) {
      memset(memory, 0xff, (size_t)o->bytes);
      if (!naive && o->packed) memset(o->packed, 0xff, (size_t)packed_bytes(o, i));
    }
  }
}

static bool any_alias(void) {
  for (int i = 0; i < kernel->operands; ++i) {
    if (alias_of(kernel, i) != i) return true;
  }
  return false;
}

static void keep_outputs(bool naive) {
  for (int i = 0; i < kernel->operands; ++i) {
    operand *o = &operands[i];
    if (!kernel->operand[i].output) continue;
    if (!naive && o->packed) {
      unpack(o, i, file + o->offset);
      continue;
    }
    memcpy(file + (naive ? o->naive_offset : o->offset), naive ? o->naive_memory : o->memory,
           (size_t)o->bytes);
  }
}

/* ---- Calls. */

static volatile sig_atomic_t runs_done, naive_running, progress_shown, ticks;

static void end_world(void) {
#ifdef PK_WORLD
  pk_world_close();
#endif
}

static _Noreturn void fail(pk_status status, const char *message) {
  (void)printf("status=%s\nmessage=", pk_status_name(status));
  for (const char *at = message; *at; ++at) (void)putchar(*at == '\n' ? ' ' : *at);
  (void)putchar('\n');
  (void)fflush(stdout);
  pk_context_free(context);
  end_world();
  exit(1);
}

static void call_with(const pk_kernel *which, DLTensor **tensors) {
  pk_status status = pk_call_kernel(context, which, tensors);
  if (status != PK_OK) fail(status, pk_message(context));
}

static void call(const pk_kernel *which, bool naive) {
  for (int i = 0; i < kernel->operands; ++i)
    tensors[i] = naive ? &operands[i].naive_tensor : &operands[i].tensor;
  call_with(which, tensors);
}

static void call_judge(void) {
  int count = 0;
  for (int i = 0; i < kernel->operands; ++i) tensors[count++] = &operands[i].judge_tensor;
  for (int i = 0; i < kernel->operands; ++i) {
    if (kernel->operand[i].output) tensors[count++] = &operands[i].allowed_tensor;
  }
  naive_running = 1;
  call_with(judge, tensors);
  naive_running = 0;
}

/* ---- The memory around arrays and buffers. */

/* May be called from a signal handler. */
static _Noreturn void end_overrun(const char *message) {
  const char *const texts[] = {"message=", message, "\n"};
  for (int i = 0; i < 3; ++i)
    if (write(STDOUT_FILENO, texts[i], strlen(texts[i])) < 0) break;
  _exit(OVERRUN);
}

static void check_guards(void) {
  const char *broken = pk_guard_broken();
  (void)fflush(stdout);
  if (broken) end_overrun(broken);
}

/* The memory of the kernel's operand; its elements may share bytes. */
static char *own_memory(const operand *o) { return o->packed ? o->packed : o->memory; }

static int64_t own_bytes(int index) {
  const operand *o = &operands[index];
  return o->packed ? packed_bytes(o, index) : o->bytes;
}

/* Copies the operands to other places. If a program may reshape its operands, their rows are
 * contiguous. */
static void lay_apart(void) {
  for (int i = 0; i < kernel->operands; ++i) {
    operand *o = &operands[i], *source = &operands[alias_of(kernel, i)];
    const bool gaps = !o->packed && !kernel->program;
    o->apart_tensor = o->tensor;
    if (o != source) {
      o->apart_tensor.data = source->apart.data;
      o->apart_tensor.strides = source->apart_tensor.strides;
    } else if (!pk_guard_open(&o->apart, kernel->operand[i].name, PK_GUARD_BEGIN, &o->apart_tensor,
                              own_bytes(i), gaps ? pk_dtype_bytes(kernel->operand[i].dtype) : 0)) {
      refuse_memory();
    }
    if (o == source) pk_guard_put(&o->apart, own_memory(o));
  }
}

static void compare_apart(int index) {
  operand *o = &operands[index];
  const int64_t bytes = own_bytes(index);
  char *results = private_memory(bytes), message[256];
  pk_guard_get(&operands[alias_of(kernel, index)].apart, results);
  const bool same = memcmp(results, own_memory(o), (size_t)bytes) == 0;
  free(results);
  if (same) return;
  (void)snprintf(message, sizeof message,
                 "the compiled kernel computes another `%s` where rows of operands have gaps",
                 kernel->operand[index].name);
  (void)fflush(stdout);
  end_overrun(message);
}

/* Calls the kernel again, without its prints, and compares the arrays of both calls. */
static void call_apart(void) {
  const int seen = dup(STDERR_FILENO), nowhere = open("/dev/null", O_WRONLY);
  for (int i = 0; i < kernel->operands; ++i) tensors[i] = &operands[i].apart_tensor;
  if (nowhere >= 0) (void)dup2(nowhere, STDERR_FILENO);
  call_with(kernel, tensors);
  if (seen >= 0) (void)dup2(seen, STDERR_FILENO);
  (void)close(seen);
  (void)close(nowhere);
  check_guards();
  for (int i = 0; i < kernel->operands; ++i)
    if (kernel->operand[i].output) compare_apart(i);
}

/* ---- A line of progress, every half second from the third on, also while a call runs long. */

/* Called by a timer: shows the number of runs. Async-signal-safe. */
static void show_progress(int signal_number) {
  (void)signal_number;
  if (++ticks < 4) return;
  char line[64] = "\r\033[K", digits[12];
  size_t used = 4;
  const char *what = naive_running ? "naive reference, " : "kernel, ";
  for (; *what; ++what) line[used++] = *what;
  int number = (int)runs_done, count = 0;
  do digits[count++] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  while (count > 0) line[used++] = digits[--count];
  for (what = " runs, "; *what; ++what) line[used++] = *what;
  number = (int)ticks / 2;
  do digits[count++] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  while (count > 0) line[used++] = digits[--count];
  line[used++] = ' ';
  line[used++] = 's';
  progress_shown = 1;
  if (write(STDERR_FILENO, line, used) < 0) progress_shown = 0;
}

static void start_progress(void) {
  struct sigaction action = {.sa_handler = show_progress, .sa_flags = SA_RESTART};
  const struct itimerval half = {{0, 500000}, {0, 500000}};
  (void)sigaction(SIGALRM, &action, NULL);
  (void)setitimer(ITIMER_REAL, &half, NULL);
}

static void end_progress(void) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  (void)setitimer(ITIMER_REAL, &never, NULL);
  if (progress_shown) (void)fputs("\r\033[K", stderr);
}

/* ---- Timing. */

typedef struct {
  int runs;
  double total, best[3]; /* the smallest, in order */
  double time[MAX_RUNS];
} timing;

static void add_time(timing *t, double time) {
  t->total += time;
  t->time[t->runs++] = time;
  for (int k = 0; k < 3; ++k) {
    if (t->runs > k + 1 ? time >= t->best[k] : k + 1 < t->runs) continue;
    for (int m = 2; m > k; --m) t->best[m] = t->best[m - 1];
    t->best[k] = time;
    return;
  }
}

static bool settled(const timing *t) {
  return t->runs >= 5 && t->total >= set.min_time && t->best[2] <= t->best[0] * 1.01;
}

static timing kernel_timing, naive_timing;

/* One sample: enough calls for the resolution of the clock. If an output is an input, each call
 * begins with fresh data. */
static double sample(timing *t, bool naive, int calls, bool restore) {
  naive_running = naive;
  if (restore) fill_operands(naive);
  double start = seconds();
  for (int i = 0; i < calls; ++i) call(naive ? reference : kernel, naive);
  double time = (seconds() - start) / calls;
  add_time(t, time);
  t->total += time * (calls - 1);
  naive_running = 0;
  return time;
}

static int calls_per_sample(double one, bool restore) {
  return restore || one >= sample_seconds ? 1
                                          : (int)(sample_seconds / (one > 1e-9 ? one : 1e-9)) + 1;
}

static const char *prepare_little(const pk_array *array, int64_t *size, pk_plan *plan) {
  const char *requirement =
      kernel->prepare_from ? kernel->prepare_from(array, size, plan) : kernel->prepare(size, plan);
  plan->clear_bytes = 0;
  if (plan->cells > 1) plan->cells = 1;
  plan->split_rows = 0;
  return requirement;
}
static void no_cell(const pk_call *unused_call, pk_worker *worker, int64_t cell) {
  (void)unused_call;
  (void)worker;
  (void)cell;
}

/* The cost of a call apart from its cells: binding, checks, copies of operands. */
static double measure_overhead(void) {
  pk_kernel empty = *kernel;
  empty.prepare_from = prepare_little;
  empty.cell = no_cell;
  empty.program = NULL;
  double best = 1e30;
  for (int round = 0; round < 5; ++round) {
    double start = seconds();
    for (int i = 0; i < 100; ++i) call(&empty, false);
    double taken = (seconds() - start) / 100;
    if (taken < best) best = taken;
  }
  return best;
}

/* Kernel and naive reference alternately, until the kernel's best times agree or the time is over.
 */
static void measure_times(void) {
  bool restore = any_alias(), poor_naive = naive_timing.best[0] > poor_naive_seconds;
  double begun = seconds();
  int calls = calls_per_sample(sample(&kernel_timing, false, 1, restore), restore), naive_calls = 1;
  memset(&kernel_timing, 0, sizeof kernel_timing); /* that was the warm-up */
  if (set.naive && !poor_naive)
    naive_calls = calls_per_sample(sample(&naive_timing, true, 1, restore), restore);
  while (kernel_timing.runs < MAX_RUNS) {
    if (kernel_timing.runs > 0 && (settled(&kernel_timing) || seconds() - begun > set.max_time))
      break;
    (void)sample(&kernel_timing, false, calls, restore);
    runs_done = runs_done + 1;
    if (!set.naive || poor_naive || naive_timing.runs == MAX_RUNS) continue;
    if (naive_timing.runs < 4 || naive_timing.total < kernel_timing.total)
      (void)sample(&naive_timing, true, naive_calls, restore);
  }
}

/* One call with recording and counters, if requested. */
static void watched_call(void) {
  pk_counters counters;
  bool counts = set.counters && pk_counters_start(&counters);
  if (set.trace) (void)pk_context_trace(context, set.trace);
  call(kernel, false);
  if (set.counters && !counts) (void)printf("counters=%s\n", strerror(errno));
  if (counts) pk_counters_print(&counters);
  if (!set.trace || pk_context_trace(context, NULL) == PK_OK) return;
  (void)printf("status=PK_FAILED\nmessage=%s\n", pk_message(context));
  (void)fflush(stdout);
  exit(1);
}

/* ---- The processes of a mesh. */

#ifdef PK_WORLD
static int process, processes;

static pk_window whole_window(const pk_array *array, int rank) {
  pk_window window = {
      .data = array->data, .rank = rank, .dim = array->dim, .stride = array->stride};
  for (int k = 0; k < rank; ++k) {
    window.size[k] = array->dim[k];
    window.step[k] = 1;
  }
  return window;
}

/* The part of operand `index` that a process has; false if an earlier process has the same part. */
static bool take_part(int index, int of, pk_array *part) {
  const int rank = kernel->operand[index].rank;
  int64_t place[PK_MESH_AXES], dense = 1;
  part->data = operands[index].memory;
  for (int k = rank - 1; k >= 0; --k) {
    part->dim[k] = operands[index].shape[k];
    part->stride[k] = dense;
    dense *= part->dim[k];
  }
  pk_device_index(kernel->mesh, of, place);
  return pk_take_part(kernel->mesh, kernel, index, place, part);
}

/* Starts MPI and gives this process the parts of its device. */
static void open_world(void) {
  char message[160];
  int64_t devices = 1;
  if (pk_world_open(context, &process, &processes) != PK_OK) fail(PK_FAILED, "MPI does not start");
  for (int i = 0; kernel->mesh && i < kernel->mesh->axes; ++i) devices *= kernel->mesh->extent[i];
  (void)snprintf(message, sizeof message,
                 "the mesh has %" PRId64 " devices, and %d processes run it", devices, processes);
  if (!kernel->mesh || devices != processes)
    fail(PK_BAD_ARGUMENT, kernel->mesh ? message : "a kernel without a mesh runs on one process");
  for (int i = 0; i < kernel->operands; ++i) {
    operand *o = &operands[i];
    for (int k = 0; k < kernel->operand[i].rank; ++k) {
      const int64_t parts = pk_parts(kernel->mesh, i, k);
      (void)snprintf(message, sizeof message,
                     "operand %s: axis %d: %" PRId64 " elements do not divide into %" PRId64
                     " parts",
                     kernel->operand[i].name, k, o->shape[k], parts);
      if (o->shape[k] % parts != 0) fail(PK_BAD_SIZE, message);
    }
    (void)take_part(i, process, &o->part);
    o->tensor.data = o->part.data;
    o->tensor.shape = o->part.dim;
    o->tensor.strides = o->part.stride;
  }
}

static char *part_memory(int64_t bytes) {
  char *memory = malloc(bytes > 0 ? (size_t)bytes : 1);
  if (!memory) fail(PK_NO_MEMORY, "no memory for the outputs of a device");
  return memory;
}

static void send_output(int index) {
  const pk_operand *declared = &kernel->operand[index];
  const pk_window from = whole_window(&operands[index].part, declared->rank);
  const int64_t bytes = pk_window_bytes(&from, declared->dtype);
  pk_array packed = {.data = part_memory(bytes)};
  int64_t dense = 1;
  for (int k = declared->rank - 1; k >= 0; --k) {
    packed.dim[k] = from.size[k];
    packed.stride[k] = dense;
    dense *= from.size[k];
  }
  const pk_window to = whole_window(&packed, declared->rank);
  pk_copy_start(NULL, declared->dtype, &from, &to, NULL, NULL);
  pk_world_send(packed.data, bytes);
  free(packed.data);
}

/* If the first process has it too, both must be equal. */
static bool receive_output(int index, int from_process) {
  const pk_operand *declared = &kernel->operand[index];
  pk_array there;
  const bool first = take_part(index, from_process, &there);
  const pk_window to = whole_window(&there, declared->rank);
  const int64_t bytes = pk_window_bytes(&to, declared->dtype);
  pk_array packed = {.data = part_memory(bytes)}, held = {.data = part_memory(bytes)};
  int64_t dense = 1;
  for (int k = declared->rank - 1; k >= 0; --k) {
    packed.dim[k] = held.dim[k] = to.size[k];
    packed.stride[k] = held.stride[k] = dense;
    dense *= to.size[k];
  }
  pk_world_receive(from_process, packed.data, bytes);
  const pk_window come = whole_window(&packed, declared->rank),
                  own = whole_window(&held, declared->rank);
  pk_copy_start(NULL, declared->dtype, first ? &come : &to, first ? &to : &own, NULL, NULL);
  const bool same = first || memcmp(held.data, packed.data, (size_t)bytes) == 0;
  free(packed.data);
  free(held.data);
  return same;
}

/* Sends all outputs to the first process. */
static void collect(void) {
  char message[160] = "";
  for (int i = kernel->inputs; i < kernel->operands; ++i) {
    if (process > 0) send_output(i);
    for (int from = 1; process == 0 && from < processes; ++from)
      if (!receive_output(i, from))
        (void)snprintf(message, sizeof message,
                       "%s: device %d has other values than an earlier one",
                       kernel->operand[i].name, from);
  }
  if (*message) fail(PK_FAILED, message);
}
#else
static void open_world(void) {}
static void collect(void) {}
#endif

static void run_once(void) {
  fill_operands(false);
  if (set.checked) lay_apart();
  double start = seconds();
  if (set.mode != RUN)
    call(kernel, false);
  else
    watched_call();
  double first = seconds() - start;
  collect();
  check_guards();
  keep_outputs(false);
  if (set.judge) call_judge();
  (void)printf("first_call_ms=%.6g\n", first * 1e3);
  if (set.checked) call_apart();
  if (!set.naive) return;
  (void)sample(&naive_timing, true, 1, true);
  keep_outputs(true);
}

/* The bytes of all arrays of a call. */
static double array_bytes(void) {
  double bytes = 0;
  for (int i = 0; i < kernel->operands; ++i)
    if (alias_of(kernel, i) == i)
      bytes += (double)(operands[i].packed ? packed_bytes(&operands[i], i) : operands[i].bytes);
  return bytes;
}

/* ---- How many threads calls would take. */

static void plan_for(int allowed) {
  pk_plan plan = {0};
  int taken = 0;
  pk_context_set_threads(context, allowed);
  for (int i = 0; i < kernel->operands; ++i) tensors[i] = &operands[i].tensor;
  pk_status status = pk_plan_call(context, kernel, tensors, &plan, &taken);
  if (status != PK_OK) fail(status, pk_message(context));
  (void)printf("plan=%d %d %" PRId64 " %" PRId64 " %.9g\n", allowed, taken, plan.cells, plan.parts,
               plan.work / PK_WORK_PER_MICROSECOND);
}

/* Prints lines plan=ALLOWED TAKEN CELLS PARTS MICROSECONDS (of a cell) for 1, 2, 4 .. threads up to
 * the number that is set, then the bytes of the arrays and the rates of memory. */
static void plan(void) {
  const double bytes = array_bytes();
  const int processors = pk_processors();
  fill_operands(false); /* the grid may depend on them */
  for (int allowed = 1; allowed < set.threads; allowed *= 2) plan_for(allowed);
  plan_for(set.threads);
  (void)printf("thread_ns=%.9g\n", pk_thread_cost(kernel));
  (void)printf("bytes=%.9g\nprocessors=%d\n", bytes, processors);
  (void)printf("gbytes=%.6g\n", pk_measure_gbytes(bytes, 1));
  (void)printf("gbytes_all=%.6g\n", pk_measure_gbytes(bytes, processors));
}

static void print_timing(void) {
  (void)printf("best_ms=%.6g\nmedian_ms=%.6g\nruns=%d\n", kernel_timing.best[0] * 1e3,
               pk_median(kernel_timing.time, kernel_timing.runs) * 1e3, kernel_timing.runs);
  if (set.rate == PK_RATES) return;
  (void)printf("peak_gflops=%.6g\npeak_gbytes=%.6g\n", pk_measure_gflops(set.rate, set.threads),
               pk_measure_gbytes(array_bytes(), set.threads));
}

/* ---- Profiles. */

/* Times laps: makes several calls, and reports the fastest. */
static void profile(void) {
  bool restore = any_alias();
  int calls = 0;
  double lap_ticks = pk_laps_cost(), best = 1e30, inside = 0, start = seconds();
  uint64_t first_tick = pk_ticks();
  while (calls < 3 || (inside < set.min_time && seconds() - start < set.max_time)) {
    if (restore) fill_operands(false);
    pk_laps_clear();
    double begun = seconds();
    call(kernel, false);
    double taken = seconds() - begun;
    if (taken < best) {
      best = taken;
      if (!pk_laps_keep()) wrong_use("no memory for the profile");
    }
    inside += taken;
    ++calls;
  }
  double tick_ns = (seconds() - start) * 1e9 / (double)(pk_ticks() - first_tick);
  (void)printf("calls=%d\ncall_ms=%.6g\nlap_ns=%.4g\n", calls, best * 1e3, lap_ticks * tick_ns);
  pk_laps_print(tick_ns);
  if (!set.trace) return;
  pk_laps_record();
  call(kernel, false);
  pk_laps_write(set.trace, tick_ns);
}

/* ---- The whole. */

static void open_file(const char *word) {
  int64_t fd = whole(word, word);
  struct stat about;
  if (fd > INT32_MAX || fstat((int)fd, &about) != 0) wrong_use("%s: not an open file", word);
  file_bytes = about.st_size;
  if (file_bytes == 0) return;
  file = mmap(NULL, (size_t)file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, (int)fd, 0);
  if (file == MAP_FAILED) wrong_use("%s: cannot be mapped", word);
}

static void make_operands(void) {
  const size_t count = (size_t)kernel->operands + 1;
  operands = calloc(count, sizeof *operands);
  tensors = calloc(2 * count, sizeof *tensors);
  if (!operands || !tensors) wrong_use("no memory for operands");
}

static void open_context(void) {
  context = pk_context_new();
  if (!context) wrong_use("no memory for a context");
  if (set.threads > 0) pk_context_set_threads(context, set.threads);
  if (set.vmem_limit > 0) pk_context_set_vmem_limit(context, set.vmem_limit);
}

/* Reads the operands and words of the command, binds the arrays, and runs, measures or plans. */
int main(int count, char **words) {
  if (count < 2) wrong_use("expected a file descriptor");
  if (reference && reference->operands != kernel->operands)
    wrong_use("the naive reference has other operands");
  make_operands();
  open_file(words[1]);
  for (int i = 2; i < count; ++i) read_word(words[i]);
  if (judge && judge->operands != kernel->operands + (kernel->operands - kernel->inputs))
    wrong_use("the judging reference has other operands");
  set.naive = set.naive && reference;
  set.judge = set.judge && judge;
  for (int i = 0; i < kernel->operands; ++i) open_operand(i);
  for (int i = 0; i < kernel->operands; ++i) {
    operands[i].tensor =
        tensor_of(&operands[i], i, operands[i].packed ? operands[i].packed : operands[i].memory);
    operands[i].naive_tensor = tensor_of(&operands[i], i, operands[i].naive_memory);
    if (set.judge) open_judged(i);
  }
#ifdef PK_FENCES
  kernel = pk_fenced(kernel);
#endif
  pk_guard_catch(end_overrun);
  pk_laps_begin(kernel->mesh);
  open_context();
  open_world();
  if (set.progress) start_progress();
  if (set.mode == PLAN)
    plan();
  else if (set.mode == MEASURE)
    pk_measure_machine();
  else
    run_once();
  if (set.mode == PROFILE) profile();
  if (set.mode == BENCH) {
    measure_times();
    print_timing();
    if (set.trace || set.counters) {
      fill_operands(false);
      watched_call();
    }
    (void)printf("call_overhead=%.6g\n", measure_overhead() * 1e3);
  }
  if (set.naive)
    (void)printf("naive_ms=%.6g\nnaive_runs=%d\n", naive_timing.best[0] * 1e3, naive_timing.runs);
  if (set.progress) end_progress();
  (void)printf("status=PK_OK\nmessage=\n");
  pk_context_free(context);
  end_world();
  return fflush(stdout) == 0 ? 0 : 1;
}
