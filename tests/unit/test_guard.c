/* Overruns planted in a kernel: each is found, and its message names the position. */
#define _DEFAULT_SOURCE
#define PK_FENCES
#include <pk/step.h>
#include <sys/wait.h>

#include "runtime/guard.c"

#include "check.h"

enum { ROWS = 3, COLUMNS = 5, ELEMENTS = ROWS * COLUMNS };

/* ---- A kernel that accesses one address, relative to a base. */

typedef enum { NOTHING, ARRAY, FIRST_BUFFER, SECOND_BUFFER } plant_base;
typedef struct {
  const char *name;
  pk_guard_place place;
  plant_base base;
  bool reads;
  int64_t at; /* an element */
  const char *message;
} plant;
static const plant *planted;
static volatile float seen;

typedef struct {
  int64_t bytes, first, second;
} arena;

static arena layout(void) {
  arena a = {0};
  pk_reserve(&a.bytes, &a.first, 40);
  pk_reserve(&a.bytes, &a.second, 64);
  return a;
}

static const char *prepare(int64_t *size, pk_plan *plan) {
  (void)size;
  plan->cells = plan->steps = 1;
  plan->arena_bytes = layout().bytes;
  return NULL;
}

static void run_cell(const pk_call *call, pk_worker *worker, int64_t number) {
  (void)number;
  const arena a = layout();
  float *base = (float *)(void *)call->array[0].data;
  if (planted->base == FIRST_BUFFER) base = PK_AT(float, worker, a.first);
  if (planted->base == SECOND_BUFFER) base = PK_AT(float, worker, a.second);
  if (planted->base == NOTHING) return;
  if (planted->reads)
    seen = base[planted->at];
  else
    base[planted->at] = 1;
}

static const pk_operand operand = {
    .name = "o", .dtype = PK_F32, .rank = 2, .output = true, .alias = -1, .shape = {ROWS, COLUMNS}};
static const pk_kernel kernel = {.abi = PK_ABI,
                                 .name = "probe",
                                 .signature = "probe() -> (o: f32[3, 5])",
                                 .statics = "",
                                 .operands = 1,
                                 .operand = &operand,
                                 .prepare = prepare,
                                 .cell = run_cell};

/* ---- The output of a call in a separate process. */

static int answer;

static _Noreturn void say(const char *text) { _exit(write(answer, text, strlen(text)) < 0); }

static _Noreturn void call_probe(void) {
  int64_t shape[] = {ROWS, COLUMNS};
  DLTensor tensor = {.device = {kDLCPU, 0}, .ndim = 2, .dtype = {kDLFloat, 32, 1}, .shape = shape},
           *tensors[] = {&tensor};
  pk_guarded guarded;
  pk_guard_catch(say);
  if (!pk_guard_open(&guarded, "o", planted->place, &tensor, ELEMENTS * sizeof(float),
                     sizeof(float)))
    say("no memory");
  if (pk_call_kernel(NULL, pk_fenced(&kernel), tensors) != PK_OK) say(pk_message(NULL));
  const char *broken = pk_guard_broken();
  say(broken ? broken : "");
}

static void try(const plant *p) {
  int ends[2];
  char said[MESSAGE] = "";
  planted = p;
  if (pipe(ends) != 0) exit(2);
  answer = ends[1];
  (void)fflush(stdout);
  const pid_t child = fork();
  if (child == 0) call_probe();
  (void)close(ends[1]);
  ssize_t got, length = 0;
  while ((got = read(ends[0], said + length, sizeof said - 1 - (size_t)length)) > 0) length += got;
  int status;
  (void)waitpid(child, &status, 0);
  (void)close(ends[0]);
#ifdef PK_POISONS
  if (p->base >= FIRST_BUFFER && *p->message) { /* the sanitizer reports poison */
    check(!WIFEXITED(status) || WEXITSTATUS(status) != 0, p->name, "not found");
    return;
  }
#endif
  check(strcmp(said, p->message) == 0, p->name, "said \"%s\", not \"%s\"", said, p->message);
}

/* ---- Elements are the same with gaps between rows. */

static void test_gaps(void) {
  int64_t shape[] = {2, 2, COLUMNS};
  float dense[2 * 2 * COLUMNS], back[2 * 2 * COLUMNS];
  DLTensor tensor = {.ndim = 3, .shape = shape};
  pk_guarded g;
  for (int i = 0; i < 2 * 2 * COLUMNS; ++i) dense[i] = (float)i;
  if (!EXPECT(pk_guard_open(&g, "x", PK_GUARD_BEGIN, &tensor, sizeof dense, sizeof *dense))) return;
  pk_guard_put(&g, (const char *)dense);
  pk_guard_get(&g, (char *)back);
  EXPECT(memcmp(dense, back, sizeof dense) == 0);
  EXPECT(tensor.strides[1] > COLUMNS && tensor.strides[0] == 2 * tensor.strides[1]);
  const float *at = tensor.data;
  EXPECT(at[tensor.strides[0] + tensor.strides[1] + 2] == (float)(3 * COLUMNS + 2));
  EXPECT(!pk_guard_broken());
}

int main(void) {
#define WROTE "the compiled kernel wrote "
#define TOUCHES "the compiled kernel reads or writes "
  static const plant plants[] = {
      {"nothing, at the end", PK_GUARD_END, NOTHING, false, 0, ""},
      {"nothing, at the beginning", PK_GUARD_BEGIN, NOTHING, false, 0, ""},
      {"the last element", PK_GUARD_END, ARRAY, false, ELEMENTS - 1, ""},
      {"a store past the end", PK_GUARD_END, ARRAY, false, ELEMENTS,
       TOUCHES "1 byte past the end of `o`"},
      {"a load past the end", PK_GUARD_END, ARRAY, true, ELEMENTS + 2,
       TOUCHES "9 bytes past the end of `o`"},
      {"a store before an array at its end", PK_GUARD_END, ARRAY, false, -1,
       WROTE "4 bytes before the beginning of `o`"},
      {"a load far before it", PK_GUARD_END, ARRAY, true, -2048,
       TOUCHES "8192 bytes before the beginning of `o`"},
      {"a store before the beginning", PK_GUARD_BEGIN, ARRAY, false, -1,
       TOUCHES "4 bytes before the beginning of `o`"},
      {"a load before the beginning", PK_GUARD_BEGIN, ARRAY, true, -1,
       TOUCHES "4 bytes before the beginning of `o`"},
      {"a store past a row", PK_GUARD_BEGIN, ARRAY, false, COLUMNS,
       WROTE "1 byte past the end of a row of `o`, which has a gap there"},
      {"a store past the last row", PK_GUARD_BEGIN, ARRAY, false, ELEMENTS + 2 * GAP,
       WROTE "1 byte past the end of `o`"},
      {"the second row", PK_GUARD_BEGIN, ARRAY, false, COLUMNS + GAP, ""},
      {"a buffer's last element", PK_GUARD_END, FIRST_BUFFER, false, 9, ""},
      {"a store past a buffer", PK_GUARD_END, FIRST_BUFFER, false, 10,
       WROTE "1 byte past the end of buffer `first`"},
      {"a store past the last buffer", PK_GUARD_END, SECOND_BUFFER, false, 17,
       WROTE "5 bytes past the end of buffer `second`"},
      {"a store before the first buffer", PK_GUARD_END, FIRST_BUFFER, false, -2,
       WROTE "8 bytes before the beginning of buffer `first`"},
      {"a store before the second buffer", PK_GUARD_END, SECOND_BUFFER, false, -1,
       WROTE "85 bytes past the end of buffer `first`"},
  };
  for (size_t i = 0; i < sizeof plants / sizeof *plants; ++i) try(&plants[i]);
  test_gaps();
  return check_end();
}
