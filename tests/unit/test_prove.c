// A proof finds faults of passes: after each pass a kernel is equal to its lowered form, and with
// one changed instruction it is not.
#include "codegen/lower/lower.h"
#include "codegen/ir/array.h"
#include "codegen/passes/pass.h"
#include "codegen/prove/prove.h"
#include "check.h"

#include <math.h>

static const char text[] =
    "kernel k(x: f32[9, 6], y: f32[9, 6], n: i32[9, 6]) -> (o: f32[9, 6]) {\n"
    "  grid (i in cdiv(9, 4));\n"
    "  block x: [4, 6] at (i, 0); block y: [4, 6] at (i, 0); block n: [4, 6] at (i, 0);\n"
    "  block o: [4, 6] at (i, 0);\n"
    "  let row = i * 4 + iota([4, 6], axis = 0);\n"
    "  let seen = where(row < 9, x[...], 0.0) + where(x[...] > 0.0, 7.0, 2.0);\n"
    "  let high = max(seen - y[...], y[...] * 0.25);\n"
    "  o[...] = exp(high - reduce_max(high, axis = 1)) / 3.0 + cast(n[...] * 3, f32);\n"
    "}\n";

static Kernel *lowered(Arena *arena) {
  Source *source = NEW(arena, Source);
  *source = (Source){.path = "k.pk", .text = text, .length = sizeof text - 1};
  Diag *diag = diag_new(arena, source);
  Kernel *k = lower(arena, source, parse(arena, source, diag), NULL, &(LowerOptions){0}, diag);
  Buf said = {0};
  if (!k) diag_print(diag, &said, DIAG_TEXT);
  check(k != NULL, "lowering", "%s", said.text);
  buf_free(&said);
  return k;
}

static ProveTask task_of(Arena *arena, Kernel *after, Kernel *before) {
  static const int64_t no_sizes[1];
  HostArray *operands = NEW_ARRAY(arena, HostArray, 4);
  for (int i = 0; i < after->inputs + after->outputs; i++) {
    operand_shape(before, before->refs.at[i], no_sizes, &operands[i]);
    operands[i].data = NEW_ARRAY(arena, int64_t, 9 * 6);
    for (int e = 0; e < 9 * 6; e++) array_set(&operands[i], e, e + 1);
  }
  return (ProveTask){.kernel = after,
                     .other = before,
                     .refines = true,
                     .sizes = no_sizes,
                     .operands = operands,
                     .seconds = 60,
                     .bytes = 1 << 28};
}

static ProveResult proof_of(Arena *arena, Kernel *after, Kernel *before) {
  ProveTask task = task_of(arena, after, before);
  ProveResult result;
  prove(arena, &task, &result);
  return result;
}

// ---- faults: the `nth` instruction of a kernel to which the fault applies is changed

typedef struct {
  const char *name;
  bool (*change)(Instr *v);
} Fault;

static bool change_op(Instr *v, Op from, Op to) {
  if (v->op != from || !is_float(v->type.dtype)) return false;
  v->op = to;
  return true;
}
static bool adds(Instr *v) { return change_op(v, OP_SUB, OP_ADD); }
static bool subtracts(Instr *v) { return change_op(v, OP_ADD, OP_SUB); }
static bool takes_least(Instr *v) { return change_op(v, OP_MAX, OP_MIN); }
static bool sums(Instr *v) { return change_op(v, OP_REDUCE_MAX, OP_REDUCE_SUM); }
static bool multiplies(Instr *v) { return change_op(v, OP_DIV, OP_MUL); }
static bool forgets_exp(Instr *v) { return change_op(v, OP_EXP, OP_NEG); }
static bool swaps(Instr *v) {
  if ((v->op != OP_SUB && v->op != OP_DIV) || !is_float(v->type.dtype)) return false;
  Instr *first = v->args[0];
  v->args[0] = v->args[1], v->args[1] = first;
  return true;
}
static bool other_constant(Instr *v) {
  if (v->op != OP_CONST || !is_float(v->type.dtype) || v->fval == 0) return false;
  v->fval *= 1 + 1e-6;
  return true;
}
static bool other_integer(Instr *v) {
  if (v->op != OP_CONST || v->type.dtype != DT_I32 || v->ival != 3) return false;
  v->ival += 1;
  return true;
}
static const Fault faults[] = {
    {"a difference adds", adds},           {"a sum subtracts", subtracts},
    {"the least is taken", takes_least},   {"a row is summed", sums},
    {"a quotient multiplies", multiplies}, {"exp is forgotten", forgets_exp},
    {"operands are swapped", swaps},       {"a constant is off", other_constant},
    {"an integer is off", other_integer},
};

typedef struct {
  const Fault *fault;
  int wanted, seen;
  bool made;
} Planting;

static void plant(Instr *v, void *context) {
  Planting *p = context;
  Instr saved = *v;
  if (p->made || !p->fault->change(v)) return;
  if (p->seen++ == p->wanted)
    p->made = true;
  else if (p->fault->change == swaps)
    swaps(v);
  else
    *v = saved;
}

// Each fault at all its places, and the number of places.
static int plant_all(Arena *arena, Kernel *before, const Fault *fault) {
  for (int nth = 0;; nth++) {
    Kernel *after = lowered(arena);
    Buf notes = {0};
    Planting planting = {.fault = fault, .wanted = nth};
    run_passes(after, &notes, NULL, NULL);
    buf_free(&notes);
    ir_walk(after->body, plant, &planting);
    if (!planting.made) return nth;
    ProveResult r = proof_of(arena, after, before);
    check(r.verdict == UNDECIDED && r.differs, fault->name, "place %d: %s%s%s", nth,
          verdict_names[r.verdict], r.reason ? ": " : "", r.reason ? r.reason : "");
  }
}

static void after_pass(const Pass *pass, Kernel *k, bool changed, void *prover) {
  Arena *arena = arena_new();
  ProveResult r;
  (void)k, (void)changed;
  prover_prove(prover, arena, &r);
  check(r.verdict == PROVED, pass->name, "%s: %s", verdict_names[r.verdict],
        r.reason ? r.reason : "");
  arena_free(arena);
}

static void seven_becomes(Instr *v, void *value) {
  if (v->op == OP_CONST && is_float(v->type.dtype) && (v->fval == 7 || isinf(v->fval)))
    v->fval = *(double *)value;
}

// No rule decides an infinity in data, but only in the run in which it occurs.
static void test_bits(Arena *arena, Kernel *before) {
  Kernel *after = lowered(arena);
  ProveTask task = task_of(arena, after, before);
  Prover *prover = prover_start(arena, &task);
  static const struct {
    double value;
    Verdict verdict;
    bool differs;
  } steps[] = {{INFINITY, UNDECIDED, false}, {8, UNDECIDED, true}};
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    double value = steps[i].value;
    ProveResult r;
    ir_walk(after->body, seven_becomes, &value);
    prover_prove(prover, arena, &r);
    check(r.verdict == steps[i].verdict && r.differs == steps[i].differs, "bits of one run",
          "%g: %s, differs: %d", value, verdict_names[r.verdict], r.differs);
  }
  prover_end(prover);
}

static void count_changes(Instr *v, void *count) { *(int *)count += other_integer(v); }

// A kernel that is changed between two proofs; its reference runs once.
static void test_prover(Arena *arena, Kernel *before) {
  Kernel *after = lowered(arena);
  ProveTask task = task_of(arena, after, before);
  Prover *prover = prover_start(arena, &task);
  Buf notes = {0};
  run_passes(after, &notes, after_pass, prover);
  buf_free(&notes);
  ProveResult r;
  int changes = 0;
  ir_walk(after->body, count_changes, &changes);
  prover_prove(prover, arena, &r);
  check(changes == 1 && r.verdict == UNDECIDED && r.differs, "a changed integer", "%s",
        verdict_names[r.verdict]);
  prover_end(prover);
}

int main(void) {
  Arena *arena = arena_new();
  Kernel *before = lowered(arena);
  test_prover(arena, before);
  test_bits(arena, before);
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
    check(plant_all(arena, before, &faults[i]) > 0, faults[i].name, "it has no place");
  arena_free(arena);
  return check_end();
}
