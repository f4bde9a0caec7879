// The interpreter on kernels in text form (tests/cases/ir/*.ir), each interpreted again after every
// pass, and on single operations.
//
// Directives of a case, in comments: `// sizes: M=7 N=5`, `// finds: text` (a finding contains it;
// all findings must be named), `// prints: text`, `// refused: text`, `// output o: 1 2 3` (the
// first elements), `// wrong: text` (the verifier reports it).
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "codegen/check/internal.h"
#include "codegen/passes/pass.h"
#include "check.h"

static const char *subject = "interpreter";  // the file or operation under test

static void expect(bool ok, const char *format, ...) PRINTF_LIKE(2, 3);
static void expect(bool ok, const char *format, ...) {
  char text[2000];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  check(ok, subject, "%s", text);
}

// ---- running a kernel

static Kernel *parse(Arena *arena, const char *path, const char *text) {
  Source *source = NEW(arena, Source);
  *source = (Source){.path = path, .text = text, .length = strlen(text)};
  Diag *diag = diag_new(arena, source);
  Kernel *k = ir_parse(arena, source, diag);
  if (k) return k;
  Buf out = {0};
  diag_print(diag, &out, DIAG_TEXT);
  expect(false, "%s does not parse: %s", path, out.text);
  buf_free(&out);
  return NULL;
}

// Repeatable: small integers, floats with a few bits.
static void fill(HostArray *array, int64_t count, uint64_t seed) {
  uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (int64_t i = 0; i < count; i++) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    int64_t value = (int64_t)(state >> 40 & 15) - 8;
    array_set(array, i,
              array->dtype == DT_BOOL  ? (double)(value & 1)
              : is_float(array->dtype) ? (double)value / 4
                                       : (double)value);
  }
}

static HostArray *make_operands(Arena *arena, Kernel *k, const int64_t *sizes) {
  HostArray *operands = NEW_ARRAY(arena, HostArray, k->refs.count + 1);
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    int64_t count;
    bool fits = operand_shape(k, k->refs.at[i], sizes, &operands[i]) &&
                array_elements(&operands[i], &count);
    expect(fits, "operand %d does not fit", i);
    operands[i].data = arena_alloc(arena, (size_t)(count * 8 + 8));
    if (i < k->inputs) fill(&operands[i], count, (uint64_t)i + 1);
  }
  return operands;
}

static const char *dump(Arena *arena, const Kernel *k) {
  Buf out = {0};
  ir_print(k, &out);
  const char *text = arena_strndup(arena, out.text, out.length);
  buf_free(&out);
  return text;
}

// ---- cases in files

typedef struct {
  const char *path;
  Arena *arena;
  int64_t *sizes;
  HostArray *before;
  int findings;
} Case;

static const char *directive(const char *line, const char *name) {
  size_t length = strlen(name);
  return strncmp(line, "// ", 3) == 0 && strncmp(line + 3, name, length) == 0 ? line + 3 + length
                                                                              : NULL;
}

static void read_sizes(Kernel *k, const char *list, int64_t *sizes) {
  for (int i = 0; i < k->sizes.count; i++) {
    char name[80];
    snprintf(name, sizeof name, " %s=", k->sizes.at[i].name);
    const char *at = strstr(list, name);
    if (at) sizes[i] = strtoll(at + strlen(name), NULL, 10);
  }
}

// Compares bit for bit, but takes all NaNs as equal, because simplify may move a constant NaN.
static bool same_elements(const HostArray *a, const HostArray *b) {
  int64_t count;
  array_elements(a, &count);
  for (int64_t e = 0; e < count; e++) {
    double x = array_get(a, e), y = array_get(b, e);
    if (!(x == y && signbit(x) == signbit(y)) && !(isnan(x) && isnan(y))) return false;
  }
  return true;
}

static void after_pass(const Pass *pass, Kernel *k, bool changed, void *context) {
  Case *c = context;
  if (!changed) return;
  CheckReport report = {.arena = c->arena};
  HostArray *operands = make_operands(c->arena, k, c->sizes);
  interpret(k, c->sizes, operands, &(CheckOptions){0}, &report);
  if (c->findings) return;  // an unspecified element may become anything
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    expect(same_elements(&operands[i], &c->before[i]), "%s: `%s` differs after %s:\n%s", c->path,
           k->refs.at[i]->name, pass->name, dump(c->arena, k));
  expect(report.findings.count == 0, "%s: %s brings a finding: %s", c->path, pass->name,
         report.findings.count ? report.findings.at[0].text : "");
}

static void compare_reference(Case *c, Kernel *k, HostArray *got) {
  CheckReport report = {.arena = c->arena};
  HostArray *want = make_operands(c->arena, k, c->sizes);
  interpret_reference(k, c->sizes, want, &(CheckOptions){0}, &report);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    int64_t count, bad = -1;
    array_elements(&want[i], &count);
    for (int64_t e = 0; e < count && bad < 0; e++) {
      double x = array_get(&got[i], e), y = array_get(&want[i], e),
             bound = is_float(want[i].dtype) ? 1e-2 + 1e-2 * fabs(y) : 0;
      if (want[i].dtype == DT_F32) bound = 1e-4 + 1e-4 * fabs(y);
      if (!(x == y || fabs(x - y) <= bound || (isnan(x) && isnan(y)))) bad = e;
    }
    expect(bad < 0, "%s: `%s`[%lld] is %g, the reference says %g", c->path, k->refs.at[i]->name,
           (long long)bad, bad < 0 ? 0 : array_get(&got[i], bad),
           bad < 0 ? 0 : array_get(&want[i], bad));
  }
}

static void check_output(Case *c, Kernel *k, const HostArray *operands, const char *text) {
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) {
    size_t length = strlen(k->refs.at[i]->name);
    if (strncmp(text, k->refs.at[i]->name, length) != 0 || text[length] != ':') continue;
    const char *at = text + length + 1;
    int64_t count;
    array_elements(&operands[i], &count);
    for (int64_t e = 0; e < count; e++) {
      char *end;
      double want = strtod(at, &end), got = array_get(&operands[i], e);
      if (end == at || strcspn(at, "\n") < (size_t)(end - at)) return;
      bool same = (got == want && signbit(got) == signbit(want)) || (isnan(got) && isnan(want));
      expect(same, "%s: %s[%lld] is %.9g, not %.9g", c->path, k->refs.at[i]->name, (long long)e,
             got, want);
      at = end;
    }
    return;
  }
  expect(false, "%s: no output is named in `%.20s`", c->path, text);
}

static bool finds_text(const CheckReport *report, const char *text) {
  for (int i = 0; i < report->findings.count; i++)
    if (strstr(report->findings.at[i].text, text)) return true;
  return false;
}

static bool prints_text(const CheckReport *report, const char *text) {
  for (int i = 0; i < report->printed.count; i++)
    if (strstr(report->printed.at[i], text)) return true;
  return false;
}

static void check_directives(Case *c, Kernel *k, const char *text, const CheckReport *report,
                             const HostArray *operands) {
  int named = 0;
  for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    const char *finds = directive(line, "finds: "), *prints = directive(line, "prints: "),
               *output = directive(line, "output ");
    const char *expected = finds ? finds : prints;
    if (output) check_output(c, k, operands, output);
    if (!expected) continue;
    char *want = arena_strndup(c->arena, expected, strcspn(expected, "\n"));
    if (finds)
      expect(finds_text(report, want), "%s: nothing found with `%s`", c->path, want);
    else
      expect(prints_text(report, want), "%s: `%s` is not printed", c->path, want);
    named += finds != NULL;
  }
  if (named != report->findings.count) {
    expect(false, "%s: %d findings, %d expected", c->path, report->findings.count, named);
    for (int i = 0; i < report->findings.count; i++)
      fprintf(stderr, "%s\n", report->findings.at[i].text);
  }
}

static const char *find_directive(Arena *arena, const char *text, const char *name) {
  for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
    const char *value = directive(line, name);
    if (value) return arena_strndup(arena, value, strcspn(value, "\n"));
  }
  return NULL;
}

static void run_case(Arena *arena, const char *path) {
  size_t length;
  const char *text = read_file(arena, path, &length);
  subject = path;
  Kernel *k = text ? parse(arena, path, text) : NULL;
  if (!k) return expect(false, "%s cannot be read", path);
  const char *wrong = find_directive(arena, text, "wrong: "), *message = ir_verify(k),
             *refused = find_directive(arena, text, "refused: ");
  if (wrong || message)
    return expect(wrong && message && strstr(message, wrong), "%s: the verifier says `%s`", path,
                  message ? message : "nothing");
  Case c = {.path = path, .arena = arena, .sizes = NEW_ARRAY(arena, int64_t, k->sizes.count + 1)};
  const char *sizes = find_directive(arena, text, "sizes:");
  if (sizes) read_sizes(k, sizes, c.sizes);
  message = check_sizes(k, c.sizes);
  if (refused || message)
    return expect(refused && message && strstr(message, refused), "%s: refused with `%s`", path,
                  message ? message : "nothing");
  CheckReport report = {.arena = arena};
  c.before = make_operands(arena, k, c.sizes);
  interpret(k, c.sizes, c.before, &(CheckOptions){0}, &report);
  c.findings = report.findings.count;
  check_directives(&c, k, text, &report, c.before);
  if (k->reference && c.findings == 0) compare_reference(&c, k, c.before);
  Buf notes = {0};
  run_passes(k, &notes, after_pass, &c);
  buf_free(&notes);
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void run_cases(const char *folder) {
  Arena *names = arena_new();
  LIST(const char *) paths = {0};
  DIR *dir = opendir(folder);
  for (struct dirent *entry; dir && (entry = readdir(dir));)
    if (strstr(entry->d_name, ".ir"))
      LIST_PUSH(names, &paths, arena_printf(names, "%s/%s", folder, entry->d_name));
  if (dir) closedir(dir);
  expect(paths.count > 0, "no cases in %s", folder);
  if (paths.count > 0) qsort((void *)paths.at, (size_t)paths.count, sizeof *paths.at, by_name);
  for (int i = 0; i < paths.count; i++) {
    Arena *arena = arena_new();
    run_case(arena, paths.at[i]);
    arena_free(arena);
  }
  arena_free(names);
}

// ---- 16-bit floats, all of them

static void test_halves(const char *name, float (*widen)(uint16_t), uint16_t (*narrow)(float),
                        DType dtype) {
  subject = name;
  int wrong = 0;
  for (uint32_t bits = 0; bits < 65536; bits++) {
    float value = widen((uint16_t)bits);
    if (isnan(value)) {
      wrong += !isnan(widen(narrow(value)));
      continue;
    }
    wrong += narrow(value) != bits;
    wrong += dtype_round(dtype, (double)value) != (double)value;
    float next = widen((uint16_t)(bits + 1));
    if (isnan(next) || isinf(value) || (bits & 0x7fff) == 0x7fff || isinf(next)) continue;
    // The midpoint is rounded to the even neighbour; numbers close to it are rounded to the
    // nearest.
    double middle = ((double)value + (double)next) / 2, even = (double)(bits & 1 ? next : value);
    double inwards = nextafter(middle, (double)value), outwards = nextafter(middle, (double)next);
    wrong += dtype_round(dtype, middle) != even || (double)widen(narrow((float)middle)) != even;
    wrong += dtype_round(dtype, inwards) != (double)value ||
             dtype_round(dtype, outwards) != (double)next;
  }
  expect(wrong == 0, "%s: %d conversions are wrong", name, wrong);
  expect(isinf(widen(narrow(INFINITY))) && isinf(dtype_round(dtype, 1e300)), "%s: infinity", name);
}

// ---- single operations

// Runs `%r: result = op %a, %b` on one block; returns the output.
static HostArray run_op(Arena *arena, const char *op, DType dtype, DType result, int count,
                        const double *a, const double *b) {
  const char *t = dtype_info[dtype].name, *r = dtype_info[result].name;
  subject = arena_printf(arena, "%s on %s", op, t);
  char second[400] = "", args[16] = "%1";
  if (b) {
    snprintf(
        second, sizeof second,
        "input $b: %s[%d] vmem of %s[%d] blocks [%d] at block { %%6: i64 = const 0 yield %%6 }", t,
        count, t, count, count);
    snprintf(args, sizeof args, "%%1, %%2");
  }
  const char *text = arena_printf(
      arena,
      "kernel t input $a: %s[%d] vmem of %s[%d] blocks [%d] at block { %%5: i64 = const 0 yield "
      "%%5 } %s"
      "output $o: %s[%d] vmem of %s[%d] blocks [%d] at block { %%7: i64 = const 0 yield %%7 } body "
      "{ fetch $a %s "
      "%%0: i64 = const 0 "
      "%%1: %s[%d] = load $a[%%0 : %d] %s %%3: %s[%d] = %s %s store $o[%%0 : %d], %%3 writeback $o "
      "}",
      t, count, t, count, count, second, r, count, r, count, count, b ? "fetch $b" : "", t, count,
      count, b ? arena_printf(arena, "%%2: %s[%d] = load $b[%%0 : %d]", t, count, count) : "", r,
      count, op, args, count);
  Kernel *k = parse(arena, op, text);
  HostArray none = {0};
  if (!k) return none;
  const char *message = ir_verify(k);
  expect(!message, "%s on %s: %s", op, t, message ? message : "");
  if (message) return none;
  HostArray *operands = make_operands(arena, k, NULL);
  for (int i = 0; i < count; i++) {
    array_set(&operands[0], i, a[i]);
    if (b) array_set(&operands[1], i, b[i]);
  }
  CheckReport report = {.arena = arena};
  interpret(k, NULL, operands, &(CheckOptions){0}, &report);
  expect(report.findings.count == 0, "%s on %s: %s", op, t,
         report.findings.count ? report.findings.at[0].text : "");
  return operands[b ? 2 : 1];
}

typedef struct {
  const char *op;
  DType dtype, result;
  int count;
  double a[4], b[4], want[4];
  bool binary;
} OpCase;

static const OpCase op_cases[] = {
    {"div",
     DT_I32,
     DT_I32,
     4,
     {7, -7, 5, -2147483648.0},
     {2, 2, 0, -1},
     {3, -3, -1, -2147483648.0},
     true},
    {"rem", DT_I32, DT_I32, 4, {7, -7, 5, -2147483648.0}, {2, 2, 0, -1}, {1, -1, 5, 0}, true},
    {"floordiv", DT_I8, DT_I8, 4, {7, -7, 5, -128}, {-2, 2, 0, -1}, {-4, -4, -1, -128}, true},
    {"mod", DT_I8, DT_I8, 4, {7, -7, 5, -128}, {-2, 2, 0, -1}, {-1, 1, 5, 0}, true},
    {"div", DT_U8, DT_U8, 2, {200, 9}, {3, 0}, {66, 255}, true},
    {"add", DT_U8, DT_U8, 2, {200, 255}, {100, 1}, {44, 0}, true},
    {"mul", DT_I16, DT_I16, 2, {300, -32768}, {300, -1}, {24464, -32768}, true},
    {"shl",
     DT_I32,
     DT_I32,
     4,
     {1, 1, 1, 3},
     {31, 32, -1, 30},
     {-2147483648.0, 0, 0, -1073741824.0},
     true},
    {"shr", DT_I32, DT_I32, 4, {-8, -8, 8, 8}, {1, 32, 40, -1}, {-4, -1, 0, 0}, true},
    {"ushr", DT_I8, DT_I8, 3, {-1, -1, -128}, {4, 8, 7}, {15, 0, 1}, true},
    {"shr", DT_U8, DT_U8, 2, {255, 255}, {4, 9}, {15, 0}, true},
    {"pow", DT_I32, DT_I32, 4, {3, -1, 0, 2}, {4, -3, 0, -1}, {81, -1, 1, 0}, true},
    {"max",
     DT_F32,
     DT_F32,
     4,
     {NAN, 1, -0.0, 0.0},
     {1, NAN, 0.0, -0.0},
     {NAN, NAN, 0.0, 0.0},
     true},
    {"min",
     DT_F32,
     DT_F32,
     4,
     {NAN, 1, -0.0, 0.0},
     {1, NAN, 0.0, -0.0},
     {NAN, NAN, -0.0, -0.0},
     true},
    {"mod", DT_F32, DT_F32, 3, {7.5, -7.5, 6}, {2, 2, -4}, {1.5, 0.5, -2}, true},
    {"rem", DT_F32, DT_F32, 2, {7.5, -7.5}, {2, 2}, {1.5, -1.5}, true},
    {"add", DT_BF16, DT_BF16, 3, {256, 256, 1}, {1, 3, 0.00390625}, {256, 260, 1}, true},
    {"add", DT_F16, DT_F16, 2, {2048, 65504}, {1, 65504}, {2048, INFINITY}, true},
    {"eq", DT_F32, DT_BOOL, 3, {NAN, 1, -0.0}, {NAN, 1, 0}, {0, 1, 1}, true},
    {"ne", DT_F32, DT_BOOL, 2, {NAN, 1}, {NAN, 1}, {1, 0}, true},
    {"round", DT_F32, DT_F32, 4, {0.5, 1.5, -2.5, -0.25}, {0}, {0, 2, -2, -0.0}, false},
    {"sign", DT_F32, DT_F32, 4, {-3, -0.0, NAN, INFINITY}, {0}, {-1, -0.0, NAN, 1}, false},
    {"abs", DT_I8, DT_I8, 2, {-128, -5}, {0}, {-128, 5}, false},
    {"not", DT_U8, DT_U8, 2, {0, 15}, {0}, {255, 240}, false},
    {"clz", DT_I16, DT_I16, 3, {0, 1, -1}, {0}, {16, 15, 0}, false},
    {"population_count", DT_I8, DT_I8, 2, {-1, 5}, {0}, {8, 2}, false},
    {"cast", DT_F32, DT_I8, 4, {300, -300, NAN, -1.75}, {0}, {127, -128, 0, -1}, false},
    {"cast", DT_F32, DT_U32, 3, {-1, 5e9, 2.9}, {0}, {0, 4294967295.0, 2}, false},
    {"cast", DT_I32, DT_I8, 3, {300, 128, -129}, {0}, {44, -128, 127}, false},
    {"cast", DT_F32, DT_BOOL, 4, {0.5, 0, -0.0, NAN}, {0}, {1, 0, 0, 1}, false},
    {"cast", DT_F32, DT_BF16, 2, {1.00390625, 1.01171875}, {0}, {1, 1.015625}, false},
    {"bitcast", DT_F32, DT_I32, 2, {1, -0.0}, {0}, {1065353216.0, -2147483648.0}, false},
    {"bitcast", DT_I16, DT_BF16, 2, {0x3f80, -32768}, {0}, {1, -0.0}, false},
    {NULL, DT_COUNT, DT_COUNT, 0, {0}, {0}, {0}, false},
};

static void test_ops(void) {
  for (const OpCase *c = op_cases; c->dtype != DT_COUNT; c++) {
    Arena *arena = arena_new();
    HostArray out =
        run_op(arena, c->op, c->dtype, c->result, c->count, c->a, c->binary ? c->b : NULL);
    for (int i = 0; out.data && i < c->count; i++) {
      double got = array_get(&out, i), want = c->want[i];
      bool same = (got == want && (!is_float(c->result) || signbit(got) == signbit(want))) ||
                  (isnan(got) && isnan(want));
      expect(same, "%s on %s, element %d: %g, not %g", c->op, dtype_info[c->dtype].name, i, got,
             want);
    }
    arena_free(arena);
  }
}

// ---- the elements that two boxes share, against a test of each element

static int64_t draw(uint64_t *state, int64_t low, int64_t high) {
  return low + (int64_t)(random_bits(state) % (uint64_t)(high - low + 1));
}

static Box random_box(uint64_t *state, const Ref *ref, const void *memory) {
  Box box = {.ref = ref, .memory = memory, .rank = ref->type.rank};
  for (int i = 0; i < box.rank; i++) {
    box.dim[i] = 6 + i;
    box.start[i] = draw(state, -2, 7);
    box.extent[i] = draw(state, 0, 4);
    box.stride[i] = draw(state, 1, 3);
  }
  return box;
}

// Whether the box contains an element of its memory, and the mask selects it.
static bool holds(const Box *box, const int64_t *index, const Value *mask) {
  int64_t number = 0;
  for (int i = 0; i < box->rank; i++) {
    int64_t offset = index[i] - box->start[i];
    if (offset < 0 || offset % box->stride[i] || offset / box->stride[i] >= box->extent[i])
      return false;
    number = number * box->extent[i] + offset / box->stride[i];
  }
  return !mask || mask->i[number];
}

static void check_boxes(void) {
  Arena *arena = arena_new();
  uint64_t state = 7;
  Instr start = {.op = OP_COPY_START}, load = {.op = OP_LOAD};
  Ref ref = {.name = "r", .type = {.rank = 2}}, semaphore = {.name = "s", .id = 1};
  Kernel k = {.arena = arena, .name = "k"};
  LIST_PUSH(arena, &k.refs, &ref);
  LIST_PUSH(arena, &k.refs, &semaphore);
  SemaphoreState free_semaphore = {0};
  RefState states[2] = {[1] = {.semaphores = &free_semaphore}};
  int64_t bits[25];
  subject = "boxes";
  for (int n = 0; n < 20000; n++) {
    CheckReport report = {.arena = arena};
    Interp in = {.k = &k, .report = &report, .refs = states, .words = arena};
    bool masked = n % 3 == 0, shared = false;
    Value mask = {.i = bits};
    for (int i = 0; i < 25; i++) bits[i] = draw(&state, 0, 1);
    Box box = random_box(&state, &ref, states);
    Transfer *t = add_transfer(&in);
    t->instr = &start;
    t->semaphore = &semaphore;
    t->moved = true;
    t->to = random_box(&state, &ref, states);
    t->from = random_box(&state, &ref, NULL);
    for (int64_t at = 0; at < 42; at++)
      shared = shared || (holds(&box, (int64_t[]){at / 7, at % 7}, masked ? &mask : NULL) &&
                          holds(&t->to, (int64_t[]){at / 7, at % 7}, NULL));
    check_access(&in, &load, &box, masked ? &mask : NULL, false, "read");
    expect((in.findings.count > 0) == shared, "boxes %d: %d findings, %s element in common", n,
           in.findings.count, shared ? "an" : "no");
    free(in.transfers);
  }
  arena_free(arena);
}

static int64_t draw_far(uint64_t *state) {
  static const int64_t far[] = {INT64_MIN, INT64_MIN + 1, -((int64_t)1 << 48), INT64_MAX};
  return draw(state, 0, 4) ? draw(state, -20, 20) : far[draw(state, 0, 3)];
}

// box_inside against each element that may be within the memory.
static void check_inside(void) {
  uint64_t state = 11;
  subject = "the elements of a box that are within its memory";
  for (int n = 0; n < 20000; n++) {
    Box box = {.rank = 1,
               .dim = {draw(&state, 0, 9)},
               .start = {draw_far(&state)},
               .extent = {draw_far(&state)},
               .stride = {draw(&state, 0, 9) ? draw(&state, 1, 5) : (int64_t)1 << 31}};
    int64_t first, end, inside = 0;
    box_inside(&box, 0, &first, &end);
    for (int64_t at = 0; at < box.dim[0]; at++) {
      if (at < box.start[0]) continue;
      const uint64_t apart = (uint64_t)at - (uint64_t)box.start[0];
      const uint64_t e = apart / (uint64_t)box.stride[0];
      if (apart % (uint64_t)box.stride[0] || box.extent[0] <= 0 || e >= (uint64_t)box.extent[0])
        continue;
      inside++;
      expect(first <= (int64_t)e && (int64_t)e < end, "box %d: element %lld is left out", n,
             (long long)e);
    }
    expect(first <= end && end - first == inside, "box %d: %lld elements, but %lld are inside", n,
           (long long)(end - first), (long long)inside);
  }
}

// A loop that copies takes no more memory the longer it runs: neither for views nor for findings.
static void check_memory(void) {
  static const char text[] =
      "kernel k from \"loop\"\n"
      "  input $x: i32[8, 128] any of i32[8, 128] blocks [8, 128] whole buffers 1 at block {\n"
      "    %0: i64 = const 0\n    %1: i64 = const 0\n    yield %0, %1\n  }\n"
      "  output $o: i16[16, 128] any of i16[16, 128] blocks [16, 128] whole buffers 1 at block {\n"
      "    %5: i64 = const 0\n    %6: i64 = const 0\n    yield %5, %6\n  }\n"
      "  scratch $s: i32 sem dma\n"
      "  body {\n"
      "    %11: i64 = const 0\n    %14: i64 = const 40000\n"
      "    for %15 in %11, %14 {\n"
      "      %16: i64 = const 0\n      %18: i64 = const 16\n"
      "      copy_start $x bitcast i16[16, 128] [%16 : 1, %16 : 1] to $o[%18 : 1, %16 : 1] on "
      "$s[]\n"
      "      copy_wait $x bitcast i16[16, 128] [%16 : 1, %16 : 1] to $o[%18 : 1, %16 : 1] on $s[]\n"
      "    }\n  }\n";
  struct rusage before, after;
  Arena *arena = arena_new();
  int64_t sizes[1] = {0};
  subject = "the memory of a loop of copies";
  Kernel *k = parse(arena, "loop.ir", text);
  if (k) {
    CheckReport report = {.arena = arena};
    HostArray *operands = make_operands(arena, k, sizes);
    getrusage(RUSAGE_SELF, &before);
    interpret(k, sizes, operands, &(CheckOptions){0}, &report);
    getrusage(RUSAGE_SELF, &after);
    expect(report.findings.count > 0, "the copy is out of range, but nothing is found");
    const long grown = after.ru_maxrss - before.ru_maxrss;
    expect(grown < 16 << 10, "it took %ld KB", grown);
  }
  arena_free(arena);
}

int main(int argc, char **argv) {
  if (argc > 1) {  // one case, for debugging
    Arena *arena = arena_new();
    for (int i = 1; i < argc; i++) run_case(arena, argv[i]);
    arena_free(arena);
  } else {
    test_halves("bf16", bf16_to_float, float_to_bf16, DT_BF16);
    test_halves("f16", f16_to_float, float_to_f16, DT_F16);
    test_ops();
    check_memory();
    check_boxes();
    check_inside();
    run_cases("tests/cases/ir");
  }
  return check_end();
}
