// The verifier of the loop IR reports every planted violation by the name of its rule. Also the
// order of the decisions.
#include "codegen/loops/loops.h"
#include "codegen/lower/lower.h"
#include "codegen/passes/pass.h"
#include "codegen/emit/emit.h"
#include "check.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Two products with a softmax between them, in strips; a scratch that is stored twice, a block that
// is copied; a transposition, an `if`, and a loop that changes what it reads.
static const char kernel[] =
    "kernel k(q: bf16[M, 64], k: bf16[64, 64], v: f32[64, 64], b: bf16[64, 64])\n"
    "    -> (o: f32[M, 64], p: f32[64, 64], r: f32[64, 64], s: f32[64, 64], u: f32[64, 64]) {\n"
    "  grid (i in cdiv(M, 64) arbitrary);\n"
    "  block q: [64, 64] at (i, 0);\n"
    "  block o: [64, 64] at (i, 0);\n"
    "  scratch t: vmem f32[64, 64];\n"
    "  let d = dot(q[...], k[...].T);\n"
    "  let e = exp(d - reduce_max(d, axis = 1, keep = true));\n"
    "  let n = reduce_sum(e, axis = 1, keep = true);\n"
    "  o[...] = dot(e, v[...]) / (n + sqrt(n));\n"
    "  t[...] = 2;\n"
    "  p[...] = t[...] + 1;\n"
    "  t[...] = v[...];\n"
    "  r[...] = t[...] * 3;\n"
    "  t[0:63, :] = t[1:64, :];\n"
    "  if i == 0 { s[...] = cumsum(cast(b[...], f32), axis = 0); }\n"
    "  for n in 0..2 {\n"
    "    u[...] = t[...] + 1;\n"
    "    t[...] = v[...] * 2;\n"
    "  }\n"
    "}\n";

// The first kernel of a text, or the named one, after the passes.
static Kernel *kernel_of(Arena *arena, const char *text, const char *name) {
  Source *source = NEW(arena, Source);
  *source = (Source){.path = "test.pk", .text = text, .length = strlen(text)};
  source_index_lines(arena, source);
  Diag *diag = diag_new(arena, source);
  Kernel *k = lower(arena, source, parse(arena, source, diag), name, &(LowerOptions){0}, diag);
  Buf messages = {0};
  if (!k) diag_print(diag, &messages, DIAG_TEXT);
  if (!check(k != NULL, "lower", "%s", messages.text)) exit(check_end());
  Buf notes = {0};
  run_passes(k, &notes, NULL, NULL);
  buf_free(&notes);
  return k;
}

static Gen *build_text(Arena *arena, const char *text, bool literal_dma) {
  return build_loops(kernel_of(arena, text, "k"),
                     &(EmitOptions){.target = target_find("x86-64-v3"), .literal_dma = literal_dma},
                     NULL);
}

static Gen *build(Arena *arena) { return build_text(arena, kernel, true); }

// ---- navigation in the tree

static Group *find_group(Schedule *s, bool (*wanted)(const Group *)) {
  Group *found = NULL;
  for (int i = 0; i < s->groups.count && !found; i++) {
    Group *group = s->groups.at[i];
    if (wanted(group)) found = group;
    for (int r = 0; r < 2 && !found; r++)
      if (group->inner[r]) found = find_group(group->inner[r], wanted);
  }
  return found;
}

static bool has_strips(const Group *group) { return group->strips.rows > 0; }
static bool has_loops_of_its_own(const Group *group) { return group->kind == GROUP_GENERIC; }

static bool stores_twice(const Group *group) {
  return group->kind == GROUP_ROWS && !group->has_dot && group->steps.count &&
         group->steps.at[0].members.count > 3;
}

static bool stores_itself(const Group *group) {
  return group->kind == GROUP_ROWS && group->lead[0] == 63;
}

static int store_of(const Step *step, const char *ref, int nth);

static bool stores_in_loop(const Group *group) {
  return group->kind == GROUP_ROWS && group->steps.count &&
         store_of(&group->steps.at[0], "u", 0) >= 0;
}

static Group *strips(Gen *g) { return find_group(g->body, has_strips); }
static Group *generic(Gen *g) { return find_group(g->body, has_loops_of_its_own); }
static Step *stores(Gen *g) { return &find_group(g->body, stores_twice)->steps.at[0]; }

static Step *dot_step(Gen *g) {
  Group *group = strips(g);
  int s = 0;
  while (!group->steps.at[s].product.dot) s++;
  return &group->steps.at[s];
}

static Instr *member(Gen *g, Op op) {
  Group *group = strips(g);
  for (int s = 0; s < group->steps.count; s++)
    for (int m = 0; m < group->steps.at[s].members.count; m++)
      if (group->steps.at[s].members.at[m]->op == op) return group->steps.at[s].members.at[m];
  return NULL;
}

// The store of a ref among the members of a step.
static int store_of(const Step *step, const char *ref, int nth) {
  for (int m = 0; m < step->members.count; m++)
    if (step->members.at[m]->op == OP_STORE && strcmp(step->members.at[m]->ref->name, ref) == 0 &&
        nth-- == 0)
      return m;
  return -1;
}

static void swap(Instr **a, Instr **b) {
  Instr *kept = *a;
  *a = *b;
  *b = kept;
}

// ---- violations of the rules

static void place_twice(Gen *g) {
  LIST_PUSH(g->arena, &stores(g)->members, stores(g)->members.at[0]);
}
static void place_nowhere(Gen *g) { stores(g)->members.count--; }
static void place_of_operand(Gen *g) { strips(g)->scalars.count--; }
static void place_in_note(Gen *g) { val(member(g, OP_EXP))->step++; }

static void place_of_group(Gen *g) { strips(g)->index++; }

static void order_of_scalars(Gen *g) {
  Group *group = strips(g);
  for (int i = 0; i + 1 < group->scalars.count; i++)
    if (group->scalars.at[i]->op == OP_SQRT) swap(&group->scalars.at[i], &group->scalars.at[i + 1]);
}

static void order_of_groups(Gen *g) {
  Schedule *s = g->body;
  int at = 0;
  while (s->groups.at[at]->instr->op != OP_IF) at++;
  Group *group = s->groups.at[at];
  for (int i = at; i > 0; i--) s->groups.at[i] = s->groups.at[i - 1];
  s->groups.at[0] = group;
  for (int i = 0; i <= at; i++) s->groups.at[i]->index = i;
}

static void kept_nowhere(Gen *g) { val(member(g, OP_REDUCE_SUM))->buffer = NULL; }
static void kept_by_strip(Gen *g) {
  Instr *cast = generic(g)->instr->args[0];
  val(cast)->row_local = true;
}
static void kept_by_two(Gen *g) {
  Group *group = strips(g);
  Instr *first = NULL;
  for (int s = 0; s < group->steps.count; s++)
    for (int m = 0; m < group->steps.at[s].members.count; m++)
      if (op_info[group->steps.at[s].members.at[m]->op].class == OPC_REDUCE)
        first = group->steps.at[s].members.at[m];
  val(first)->buffer = val(dot_step(g)->product.dot)->buffer;
  val(first)->row_local = true;
}

static void extent_of_rows(Gen *g) { strips(g)->lead_demand[0] = NULL; }
static void extent_of_columns(Gen *g) { stores(g)->columns = 63; }
static void demand_of_ref(Gen *g) { g->refs[0].demand[0] = NULL; }
static void fetch_never(Gen *g) { g->body->fetches.count--; }
static void fetch_twice(Gen *g) { LIST_PUSH(g->arena, &g->body->fetches, g->body->fetches.at[0]); }
static void dot_right(Gen *g) { val(dot_step(g)->product.dot)->dot.panels = NULL; }
static void dot_left(Gen *g) { val(dot_step(g)->product.dot)->dot.left = NULL; }
static void dot_sums(Gen *g) { val(dot_step(g)->product.dot)->buffer = NULL; }
static void memory_too_small(Gen *g) {
  Buffer *b = val(member(g, OP_EXP))->buffer;
  b->bytes = number(g, 64);
}
static void memory_not_listed(Gen *g) { val(generic(g)->instr->args[0])->buffer->id++; }
static void memory_for_strips(Gen *g) {
  strips(g)->strips.buffer_rows = strips(g)->strips.rows - 1;
}
static void memory_of_ref(Gen *g) { g->refs[0].buffer->bytes = number(g, 4); }
static void memory_of_panels(Gen *g) {
  val(dot_step(g)->product.dot)->dot.panels->bytes = number(g, 4);
}

// The column loop of the strips that reduces, and the one that stores.
static ColumnLoop *reducing(Gen *g) {
  return &strips(g)->steps.at[val(member(g, OP_EXP))->step].loop;
}
static void columns_left_over(Gen *g) { stores(g)->loop.vectors = 3; }
static void columns_of_no_vector(Gen *g) { stores(g)->loop.vectors = 0; }
static void columns_in_half_iterations(Gen *g) { reducing(g)->part += g->lanes; }
static void columns_aligned(Gen *g) { reducing(g)->aligned = true; }
static void columns_streamed(Gen *g) {
  LIST_PUSH(g->arena, &reducing(g)->streamed, member(g, OP_EXP));
}
static void columns_masked(Gen *g) { val(member(g, OP_EXP))->only_for = member(g, OP_EXP); }
static void columns_together(Gen *g) { strips(g)->jammed = 2; }
static void columns_ahead(Gen *g) { LIST_PUSH(g->arena, &reducing(g)->ahead, member(g, OP_EXP)); }
static void strips_of_more(Gen *g) { strips(g)->strips.one = true; }

static void hazard_of_stores(Gen *g) {
  Step *step = stores(g);
  swap(&step->members.at[store_of(step, "t", 0)], &step->members.at[store_of(step, "t", 1)]);
}
static void hazard_of_read(Gen *g) {
  Step *step = stores(g);
  int add = store_of(step, "p", 0) - 1;
  swap(&step->members.at[store_of(step, "t", 0)], &step->members.at[add]);
}
static void hazard_of_write(Gen *g) {
  Step *step = stores(g);
  int add = store_of(step, "p", 0) - 1;
  for (int i = store_of(step, "t", 1); i > add; i--)
    swap(&step->members.at[i], &step->members.at[i - 1]);
}
static void hazard_of_window(Gen *g) {
  Instr *store = find_group(g->body, stores_itself)->steps.at[0].members.at[0],
        *load = ir_store_value(store);
  swap(&store->args[0], &load->args[0]);
}

// The load that a store adds to.
static Instr *load_of(const Step *step, const char *ref) {
  Instr *sum = ir_store_value(step->members.at[store_of(step, ref, 0)]);
  return sum->args[sum->args[0]->op != OP_LOAD];
}
static void hazard_of_rows(Gen *g) { load_of(stores(g), "p")->window.stride[0] = 2; }
static void hazard_of_loop(Gen *g) {
  Step *step = &find_group(g->body, stores_in_loop)->steps.at[0];
  val(load_of(step, "u"))->region = g->k->body;
}

static const struct {
  const char *name, *rule, *what;
  void (*change)(Gen *g);
} changes[] = {
    {"an instruction twice", "place: ", "", place_twice},
    {"a store nowhere", "place: ", "", place_nowhere},
    {"an operand nowhere", "place: ", "", place_of_operand},
    {"a note of another step", "place: ", "its note", place_in_note},
    {"a group of another index", "place: ", "its group", place_of_group},
    {"scalars exchanged", "order: ", "", order_of_scalars},
    {"groups exchanged", "order: ", "", order_of_groups},
    {"a value between steps not in memory", "kept: ", "", kept_nowhere},
    {"a value of another loop in one strip's memory", "kept: ", "", kept_by_strip},
    {"a place taken too early", "kept: ", "", kept_by_two},
    {"rows that end elsewhere", "extent: ", "", extent_of_rows},
    {"columns that end elsewhere", "extent: ", "", extent_of_columns},
    {"less computed than read", "demand: ", "", demand_of_ref},
    {"no fetch", "fetch: ", "", fetch_never},
    {"two fetches", "fetch: ", "", fetch_twice},
    {"no panels", "dot: ", "its right", dot_right},
    {"no rows", "dot: ", "its left", dot_left},
    {"no sums", "dot: ", "its sums", dot_sums},
    {"a small buffer", "memory: ", "", memory_too_small},
    {"a buffer outside the arena", "memory: ", "", memory_not_listed},
    {"buffers of less than a strip", "memory: ", "", memory_for_strips},
    {"a small block", "memory: ", "", memory_of_ref},
    {"small panels", "memory: ", "", memory_of_panels},
    {"columns after the turns", "columns: ", "columns are left", columns_left_over},
    {"no iterations", "columns: ", "has no iterations", columns_of_no_vector},
    {"a sum that ends within an iteration", "columns: ", "its sums are",
     columns_in_half_iterations},
    {"sums in aligned iterations", "columns: ", "", columns_aligned},
    {"a value past the caches", "columns: ", "it cannot", columns_streamed},
    {"a value left out with a mask", "columns: ", "it does not serve", columns_masked},
    {"rows of sums together", "columns: ", "rows go together", columns_together},
    {"a value ahead", "columns: ", "its next row", columns_ahead},
    {"one strip for all rows", "strips: ", "", strips_of_more},
    {"stores exchanged", "hazard: ", "", hazard_of_stores},
    {"a read before its store", "hazard: ", "", hazard_of_read},
    {"a store before the read of what it replaces", "hazard: ", "", hazard_of_write},
    {"a store ahead of the load of its ref", "hazard: ", "", hazard_of_window},
    {"a read of other rows", "hazard: ", "", hazard_of_rows},
    {"a load before the loop that changes what it reads", "hazard: ", "", hazard_of_loop},
};

// A block is fetched in the innermost group that contains all its readers, but not in each
// iteration of a loop.
static void test_fetches(void) {
  static const char text[] =
      "kernel k(x: f32[M, 32], y: f32[M, 32]) -> (o: f32[M, 32]) {\n"
      "  grid (i in cdiv(M, 8) arbitrary);\n"
      "  block x, y, o: [8, 32] at (i, 0);\n"
      "  o[...] = 0;\n"
      "  for n in 0..2 { o[...] += cumsum(x[0:8:2, :], axis = 0)[0:1, :]; }\n"
      "  if i == 0 { o[...] = o[...] + cumsum(y[0:8:2, :], axis = 0)[0:1, :]; }\n"
      "}\n";
  Arena *arena = arena_new();
  Gen *g = build_text(arena, text, false);
  for (int i = 0; i < 2; i++) {
    const RefGen *r = &g->refs[i];
    check(r->form != FORM_DIRECT, r->ref->name, "is read in place, so that nothing is tested");
    bool outside = r->fetch_at == g->k->body;
    check(outside == (i == 0), r->ref->name, "is fetched %s", outside ? "always" : "in a region");
  }
  arena_free(arena);
}

static Step *with_parts(const Group *group) {
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].product.parts.count == 4) return &group->steps.at[s];
  return NULL;
}
static bool has_parts(const Group *group) { return with_parts(group) != NULL; }

static bool adds_long_rows(const Group *group) {
  return group->steps.count && group->steps.at[0].loop.part > 0;
}

static void test_long_sums(void) {
  static const char text[] =
      "kernel k(x: f32[M, N]) -> (o: f32[M, 1]) {\n"
      "  o[...] = reduce_sum(x[...], axis = 1);\n"
      "}\n";
  Arena *arena = arena_new();
  Gen *g = build_text(arena, text, false);
  Group *group = find_group(g->body, adds_long_rows);
  if (check(group != NULL, "long sums", "a row is one sum")) {
    group->steps.at[0].loop.part = 0;
    const char *message = verify_loops(g);
    check(message && strstr(message, "it adds too many"), "long sums", "got %s",
          message ? message : "nothing");
  }
  arena_free(arena);
}

// The products of windows with moved operands are joined into one.
static void test_parts(void) {
  static const char text[] =
      "kernel k(x: f32[1, 8, 8, 16], w: f32[2, 2, 16, 16]) -> (o: f32[1, 7, 7, 16]) {\n"
      "  o[...] = conv(x[...], w[...]);\n"
      "}\n";
  Arena *arena = arena_new();
  Gen *g = build_text(arena, text, false);
  Group *group = find_group(g->body, has_parts);
  if (check(group != NULL, "parts", "no products go as one")) {
    with_parts(group)->product.depth++;
    const char *message = verify_loops(g);
    check(message && strstr(message, "its parts"), "parts", "got %s",
          message ? message : "nothing");
  }
  arena_free(arena);
}

// Windows that are read in place.
static void test_windows(void) {
  static const char text[] =
      "kernel k(x: f32[1, 9, 9, 16], w: f32[2, 2, 16, 16]) -> (o: f32[1, 8, 8, 16]) {\n"
      "  o[...] = conv(x[...], w[...]);\n"
      "}\n";
  Arena *arena = arena_new();
  Gen *g = build_text(arena, text, false);
  Group *group = find_group(g->body, has_parts);
  if (check(group && group->strips.line == 8, "windows", "no windows are read in place")) {
    group->strips.line = 0;
    const char *message = verify_loops(g);
    check(message && strstr(message, "lines"), "windows", "got %s", message ? message : "nothing");
  }
  arena_free(arena);
}

static void other_axis(Gen *g) { g->k->grid.at[g->split->axis].parallel = false; }
static void other_rows(Gen *g) { g->split->rows = 3; }
static void is_skinny_flag(Gen *g) { g->split->least = (int)g->split->block; }
static void no_rows(Gen *g) { g->split->inside = NULL; }
static void rows_twice(Gen *g) { g->refs[0].inside[1] = g->split->inside; }

// Cells that are divided into parts of rows.
static void test_split(void) {
  static const char text[] =
      "kernel k(x: f32[M, 64]) -> (o: f32[M, 64]) {\n"
      "  grid (i in cdiv(M, 64) parallel);\n"
      "  block x, o: [64, 64] at (i, 0);\n"
      "  o[...] = x[...] + 1;\n"
      "}\n";
  static const struct {
    const char *what;
    void (*change)(Gen *g);
  } broken[] = {{"not computed apart", other_axis},
                {"other rows", other_rows},
                {"one of them", is_skinny_flag},
                {"none of the rows", no_rows},
                {"x has the rows twice", rows_twice}};
  for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
    Arena *arena = arena_new();
    Gen *g = build_text(arena, text, false);
    if (check(g->split != NULL, "split", "its cells are whole")) {
      broken[i].change(g);
      const char *message = verify_loops(g);
      check(message && strstr(message, broken[i].what), broken[i].what, "got %s",
            message ? message : "nothing");
    }
    arena_free(arena);
  }
}

// ---- decisions.def: a decision must follow those that it needs, and no others

// Kernels that together show every dependency.
static const struct {
  const char *path, *kernel;
} ordered[] = {{"kernels/add.pk", "add"},
               {"kernels/matmul.pk", "matmul"},
               {"kernels/flash_attn.pk", "flash_attn"},
               {"kernels/attention/biased.pk", "biases"},
               {"kernels/images/conv2d.pk", "conv2d"},
               {"tests/cases/kernels/conv2d.pk", "conv2d"},
               {"kernels/matmul/weights.pk", "i8_columns"},
               {"kernels/matmul/by_q8.pk", "q4_0_by_q8"},
               {"kernels/train/embedding_backward.pk", NULL},
               {"kernels/train/linear_cross_entropy.pk", "blocks"},
               {"kernels/collectives/matmul_scatter.pk", NULL}};
enum { ORDERED = sizeof ordered / sizeof *ordered, MOST_DECISIONS = 32 };

// The C of a kernel with the decisions in this order.
static Buf c_of(int n, const int *order, const int *region_order) {
  Arena *arena = arena_new();
  size_t length;
  const char *path = ordered[n].path, *text = read_file(arena, path, &length);
  if (!check(text != NULL, path, "cannot be read")) exit(check_end());
  EmitOptions options = {
      .target = target_find("zen5"), .order = order, .region_order = region_order};
  Buf c = {0}, h = {0};
  emit_kernel(kernel_of(arena, text, ordered[n].kernel), &options, &c, &h, NULL, NULL);
  buf_free(&h);
  arena_free(arena);
  return c;
}

// Whether the C of all kernels is unchanged. It runs in a separate process, because a wrong order
// may end in an internal error.
static bool same_c(const Buf *expected, const int *order, bool in_region) {
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(2);
    bool same = true;
    for (int i = 0; i < ORDERED && same; i++) {
      Buf c = c_of(i, in_region ? NULL : order, in_region ? order : NULL);
      same = c.length == expected[i].length && memcmp(c.text, expected[i].text, c.length) == 0;
    }
    _exit(!same);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

// The order with row `moved` directly before row `to`.
static const int *moved_before(int count, int moved, int to) {
  static int order[MOST_DECISIONS];
  for (int i = 0; i < count; i++) order[i] = i > to && i <= moved ? i - 1 : i;
  order[to] = moved;
  return order;
}

static int latest_need(const Decision *row) {
  int latest = -1;
  for (int i = 0; i < MOST_DECISIONS; i++)
    if (row->needs >> i & 1) latest = i;
  return latest;
}

static void test_needs(const Decision *rows, int count, bool in_region) {
  Buf expected[ORDERED];
  for (int i = 0; i < ORDERED; i++) expected[i] = c_of(i, NULL, NULL);
  check(count <= MOST_DECISIONS, "needs", "there are %d rows", count);
  for (int i = 0; i < count; i++) {
    int need = latest_need(&rows[i]);
    check(need < i, rows[i].name, "it needs what comes after it");
    check(same_c(expected, moved_before(count, i, need + 1), in_region), rows[i].name,
          "it depends on a decision that it does not list");
    if (need >= 0)
      check(!same_c(expected, moved_before(count, i, need), in_region), rows[i].name,
            "the C does not depend on %s", rows[need].name);
  }
  for (int i = 0; i < ORDERED; i++) buf_free(&expected[i]);
}

int main(void) {
  test_needs(decisions, decision_count, false);
  test_needs(region_decisions, region_decision_count, true);
  test_fetches();
  test_parts();
  test_long_sums();
  test_split();
  test_windows();
  for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
    Arena *arena = arena_new();
    Gen *g = build(arena);
    const char *before = verify_loops(g);
    check(!before, changes[i].name, "broken before: %s", before ? before : "");
    changes[i].change(g);
    const char *message = verify_loops(g);
    bool reported = message && strncmp(message, changes[i].rule, strlen(changes[i].rule)) == 0 &&
                    strstr(message, changes[i].what);
    check(reported, changes[i].name, "expected `%s..%s`, got %s", changes[i].rule, changes[i].what,
          message ? message : "nothing");
    arena_free(arena);
  }
  return check_end();
}
