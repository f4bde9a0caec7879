// Runs a kernel and its reference, or another kernel, over numbers of finite fields, and compares
// the outputs.
#include "codegen/prove/prover.h"
#include "codegen/prove/arithmetic.h"
#include "codegen/prove/constants.h"
#include "codegen/ir/array.h"
#include "codegen/ir/flow.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  ORDERS_DRAWN = 5,
  ROOT_AGREEMENTS = 64,  // in each field
  MOST_ROOT_RUNS = 512,
  FIRST_ROOT_RUNS = 32,  // after this many runs, elements with many roots are known
  MOST_REDRAWS = 64      // of one run
};

const char *const verdict_names[VERDICTS] = {"proved", "equal on drawn orders", "undecided",
                                             "refuted"};

// ---- arrays of cells

static int operand_count(const Kernel *k) { return k->inputs + k->outputs; }

static void make_arrays(Prover *t, int side) {
  int count = operand_count(t->k);
  t->operands[side] = NEW_ARRAY(t->arena, HostArray, count);
  for (int i = 0; i < count; i++) {
    HostArray *array = &t->operands[side][i];
    int64_t elements;
    *array = t->task->operands[i];
    array->dtype = DT_I64;
    array_elements(array, &elements);
    array->data = array_cells(array);
    const bool computed = side == 0
                              ? !t->gradient || has_gradient(t->gradient, t->k->refs.at[i]->name)
                              : t->task->other != NULL;
    if (i >= t->k->inputs && computed)
      t->specified[side][i - t->k->inputs] = NEW_ARRAY(t->arena, uint8_t, elements + 1);
  }
}

static void free_arrays(Prover *t) {
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < operand_count(t->k); i++) free(t->operands[side][i].data);
  for (int i = 0; i < t->k->inputs; i++) free(t->inputs[i]);
}

static uint64_t operand_bit(int operand) { return UINT64_C(1) << (operand < 63 ? operand : 63); }

// Must the walk know the operand's integers from the start?
static bool is_known_operand(const Prover *t, int operand) {
  const Ref *ref = t->k->refs.at[operand];
  DType dtype = ref->array.dtype;
  return ref->prefetch || dtype == DT_BOOL || is_scale(dtype) || t->mode == BY_ORDER ||
         (t->result->known & operand_bit(operand));
}

// Binary64 data for a run by order, independent of the elements of fields.
static double drawn_shadow(const Prover *t, int operand, int64_t element) {
  Draw h = draw_start(t->seed, 0x0bde);
  draw_add(&h, (uint64_t)operand);
  draw_add(&h, (uint64_t)element);
  double sum = 0;
  for (int i = 0; i < 4; i++) sum += (double)draw_element(&h, UINT64_C(1) << 53) * 0x1p-53;
  return (sum - 2) * 1.7;
}

// The index of an operand's first element among those of all inputs.
static int64_t first_element(const Prover *t, int operand) {
  int64_t first = 0, elements;
  for (int i = 0; i < operand; i++) {
    array_elements(&t->task->operands[i], &elements);
    first += elements;
  }
  return first;
}

static Id draw_input(Prover *t, int operand, int64_t element, int64_t at) {
  const Redraw *r = t->redraw;
  if (t->mode != BY_ROOTS || !r || at >= INT32_MAX)
    return number_input(t->proof, operand, element, drawn_shadow(t, operand, element));
  return number_input_again(t->proof, operand, element, (int)at + 1,
                            (int[PRIMES]){r->salt[0][at], r->salt[1][at]}, &r->causes[at]);
}

void prover_fill(Prover *t, int operand) {
  const HostArray *given = &t->task->operands[operand];
  int64_t *cells = t->inputs[operand], elements;
  array_elements(given, &elements);
  bool known = is_known_operand(t, operand);
  int64_t first = first_element(t, operand);
  if (!is_float(given->dtype) && known) t->result->known |= operand_bit(operand);
  for (int64_t e = 0; e < elements; e++) {
    if (is_scale(given->dtype))
      cells[e] = number_as_scale(t->proof, draw_input(t, operand, e, first + e));
    else if (is_float(given->dtype))
      cells[e] = draw_input(t, operand, e, first + e);
    else if (known)
      cells[e] = integer_known(t->proof, array_get_int(given, e));
    else
      cells[e] = open_cell(number_input_integer(t->proof, operand, e, given->dtype));
  }
}

// ---- a run

static void undecided(Prover *t, Span span, const char *reason) {
  if (t->result->reason) return;
  t->result->reason = reason;
  t->result->span = span;
}

static const char *where_text(const Prover *t, const Instr *instr) {
  return arena_printf(t->arena, "`%s` in line %d", op_info[instr->op].name,
                      ir_line(t->k, instr->span));
}

// Where numbers differ, a limit that a later run reaches does not matter.
static void note_limit(Prover *t) {
  if (t->result->output >= 0) return;
  t->result->limited = true;
  t->result->span = (Span){0};
  t->result->reason =
      arena_printf(t->arena, "the limit of %s is reached", proof_limit_text(t->proof));
}

static void note_end(Prover *t, const CheckReport *report) {
  const Instr *why;
  if (proof_limit_text(t->proof))
    note_limit(t);
  else if (proof_stopped(t->proof, &why))
    undecided(t, why ? why->span : (Span){0},
              why ? arena_printf(t->arena, "%s depends on data", where_text(t, why))
                  : "what a kernel prefetches depends on data");
  else if (report->findings.count)
    undecided(t, report->findings.at[0].span,
              arena_printf(t->arena, "`pkc check` finds: %s", report->findings.at[0].message));
}

static void copy_input(Prover *t, int side, int operand) {
  HostArray *array = &t->operands[side][operand];
  int64_t elements;
  array_elements(array, &elements);
  memcpy(array->data, t->inputs[operand], (size_t)elements * sizeof(int64_t));
  if (!t->gradient || takes_input(t->gradient, t->k->refs.at[operand]->name)) return;
  for (int64_t e = 0; e < elements; e++) ((int64_t *)array->data)[e] = ID_ZERO;
}

static void run_side(Prover *t, int side, CheckReport *report) {
  CheckOptions options = {.arithmetic = t->arithmetic, .context = t->context, .exact = true};
  Kernel *runs = side == 0 ? t->k : t->task->other;
  if (t->gradient && side == 0) {
    gradient_run_backward(t->gradient, t->k, t->operands[0], t->specified[0], &options, report);
    return;
  }
  if (runs) options.specified = t->specified[side];
  if (runs)
    interpret(runs, t->task->sizes, t->operands[side], &options, report);
  else
    interpret_reference(t->k, t->task->sizes, t->operands[1], &options, report);
  if (t->gradient) gradient_take_others(t->gradient, t->k, t->operands[1], t->operands[0]);
}

bool prover_run(Prover *t, int side) {
  CheckReport report = {.arena = t->arena};
  proof_side(t->proof, side);
  for (int i = 0; i < t->k->inputs; i++) copy_input(t, side, i);
  run_side(t, side, &report);
  if (proof_wanted(t->proof)) return false;
  const Instr *why;
  if (proof_is_over(t->proof) || proof_stopped(t->proof, &why) || report.findings.count) {
    note_end(t, &report);
    return false;
  }
  return true;
}

static bool has_kept(const Prover *t) {
  const ReferenceRun *kept = &t->kept;
  return kept->ran && kept->mode == t->mode && kept->seed == t->seed &&
         kept->known == t->result->known;
}

// Draws all numbers, and runs both sides.
static bool run_sides(Prover *t) {
  proof_restart(t->proof, t->seed, t->mode);
  for (int i = 0; i < t->k->inputs; i++) prover_fill(t, i);
  if (!t->keeps) return prover_run(t, 0) && prover_run(t, 1);
  t->kept.ran = false;
  if (!prover_run(t, 1)) return false;
  t->kept = (ReferenceRun){true, t->mode, t->seed, t->result->known};
  return prover_run(t, 0);
}

// Integers that must be known are fixed to their drawn values, and everything runs again.
static bool run_both(Prover *t, uint64_t seed, ProofMode mode) {
  t->mode = mode;
  t->seed = seed;
  for (;;) {
    bool ran = has_kept(t) ? prover_run(t, 0) : run_sides(t);
    if (!t->kept.ran) t->wanted_by_reference |= proof_wanted(t->proof);
    uint64_t wanted = proof_wanted(t->proof);
    if (!(wanted & ~t->result->known)) return ran;
    t->result->known |= wanted;
  }
}

// ---- outputs

static Id cell_number(const Prover *t, int64_t cell) {
  if (cell_is_open(cell)) return open_id(cell);
  return number_is(t->proof, cell) ? (Id)cell : ID_UNKNOWN;
}

bool prover_same(const Prover *t, DType dtype, int64_t a, int64_t b, unsigned *lost) {
  *lost = 0;
  if (!is_float(dtype) && !cell_is_open(a) && !cell_is_open(b)) return a == b;
  if (is_float(dtype)) return number_same(t->proof, cell_number(t, a), cell_number(t, b), lost);
  return number_same(t->proof, cell_is_open(a) ? open_id(a) : integer_id(t->proof, a),
                     cell_is_open(b) ? open_id(b) : integer_id(t->proof, b), lost);
}

static void note_difference(Prover *t, int output, int64_t element, int64_t a, int64_t b) {
  int64_t cells[2] = {a, b};
  DType dtype = t->task->operands[t->k->inputs + output].dtype;
  if (t->result->reason) return;
  t->result->output = output;
  t->result->element = element;
  for (int side = 0; side < 2; side++) {
    bool numbered = is_float(dtype) || cell_is_open(cells[side]);
    const Number *n = numbered ? number_at(t->proof, cell_number(t, cells[side])) : NULL;
    if (!n || n->kind != UNKNOWN) continue;
    const Instr *why = n->why;
    undecided(t, why ? why->span : (Span){0},
              why ? arena_printf(t->arena, "no rule decides %s%s", where_text(t, why),
                                 side ? " of the reference" : "")
                  : "an element is unspecified");
    return;
  }
  t->result->differs = !proof_has_bits(t->proof);
  undecided(t, (Span){0}, "the numbers differ, but not at the floats that were tried");
}

static bool is_open_to_kernel(const Prover *t, int output, int64_t element) {
  return t->task->refines && !t->specified[1][output][element];
}

static bool is_specified(Prover *t, int output, int64_t element) {
  bool specified = true;
  for (int side = 0; side < 2; side++)
    specified &= !t->specified[side][output] || t->specified[side][output][element];
  if (!specified) undecided(t, (Span){0}, "an element is unspecified");
  return specified;
}

// An element on both sides: the kernel's, and the reference's.
typedef struct {
  int output;
  int64_t element, at;  // at: its number among the elements of all outputs
  bool floats;
  int64_t cells[2];
  Id ids[2];
} Pair;
typedef bool PairCheck(Prover *t, void *context, const Pair *pair);

static Pair pair_at(const Prover *t, int output, int64_t element, int64_t at) {
  Pair pair = {.output = output,
               .element = element,
               .at = at,
               .floats = is_float(t->task->operands[t->k->inputs + output].dtype)};
  for (int side = 0; side < 2; side++) {
    const int64_t *cells = t->operands[side][t->k->inputs + output].data;
    pair.cells[side] = cells[element];
    pair.ids[side] = pair.floats ? cell_number(t, cells[element]) : ID_UNKNOWN;
  }
  return pair;
}

// Calls `check` with each pair until it returns false.
static bool each_pair(Prover *t, PairCheck *check, void *context) {
  int64_t at = 0, elements;
  for (int i = 0; i < t->k->outputs; i++) {
    array_elements(&t->operands[0][t->k->inputs + i], &elements);
    for (int64_t e = 0; e < elements; e++, at++) {
      const Pair pair = pair_at(t, i, e, at);
      if (is_open_to_kernel(t, i, e)) continue;
      if (!is_specified(t, i, e) || !check(t, context, &pair)) return false;
    }
  }
  return true;
}

static bool is_equal(Prover *t, void *context, const Pair *pair) {
  (void)context;
  unsigned lost;
  const DType dtype = t->task->operands[t->k->inputs + pair->output].dtype;
  if (prover_same(t, dtype, pair->cells[0], pair->cells[1], &lost)) return true;
  note_difference(t, pair->output, pair->element, pair->cells[0], pair->cells[1]);
  return false;
}

// ---- roots that are elements

// How often the elements of all outputs have agreed.
typedef struct {
  int *agreed[PRIMES];
  bool *open;   // they do not agree by atoms
  int *output;  // of which they are
  int64_t count;
} Agreement;

static bool note_open(Prover *t, void *context, const Pair *pair) {
  unsigned lost;
  bool *open = &((Agreement *)context)->open[pair->at];
  *open = !prover_same(t, pair->floats ? DT_F32 : DT_I64, pair->cells[0], pair->cells[1], &lost);
  return !*open || pair->floats;
}

// The element of a number that lost a root in a field has no meaning there.
static bool agree_in(const Number *a, const Number *b, int f) {
  return a->kind == FINITE && b->kind == FINITE && a->mask == b->mask && a->v[f] == b->v[f];
}

// False: they differ, or depend on roots that neither needs.
static bool count_pair(Prover *t, void *context, const Pair *pair) {
  Agreement *all = context;
  const int64_t at = pair->at;
  if (!all->open[at]) return true;
  unsigned lost;
  const Number *a = number_at(t->proof, pair->ids[0]), *b = number_at(t->proof, pair->ids[1]);
  bool same = number_same(t->proof, pair->ids[0], pair->ids[1], &lost);
  if (!same && (a->kind != FINITE || b->kind != FINITE)) return false;
  bool defined = roots_defined(t->proof, pair->ids[0], pair->ids[1]);
  if (!defined && !t->redraw->drawn) return false;
  for (int f = 0; f < PRIMES; f++) {
    bool counts = defined && !(lost >> f & 1);
    if (counts && !same && !agree_in(a, b, f)) return false;
    all->agreed[f][at] += counts;
  }
  return true;
}

static int agreements(const Agreement *all, int64_t at) {
  int least = ROOT_AGREEMENTS;
  for (int f = 0; f < PRIMES && all->open[at]; f++)
    if (all->agreed[f][at] < least) least = all->agreed[f][at];
  return least;
}

// The element that has agreed least.
static int64_t weakest(const Agreement *all) {
  int64_t weakest = 0;
  for (int64_t at = 1; at < all->count; at++)
    if (agreements(all, at) < agreements(all, weakest)) weakest = at;
  return weakest;
}

static Redraw *new_redraw(Prover *t) {
  Redraw *r = NEW(t->arena, Redraw);
  *r = (Redraw){.count = first_element(t, t->k->inputs)};
  r->causes = NEW_ARRAY(t->arena, Roots, r->count + 1);
  for (int f = 0; f < PRIMES; f++) {
    r->salt[f] = NEW_ARRAY(t->arena, int, r->count + 1);
    r->best[f] = NEW_ARRAY(t->arena, int, r->count + 1);
  }
  return r;
}

static void copy_salts(const Redraw *r, int *const *to, int *const *from) {
  for (int f = 0; f < PRIMES; f++) memcpy(to[f], from[f], (size_t)r->count * sizeof(int));
}

static bool is_in(const RootSet *roots, int root) {
  int low = 0, high = roots->count;
  while (low < high) {
    int middle = (low + high) / 2;
    if (roots->at[middle] < root)
      low = middle + 1;
    else
      high = middle;
  }
  return low < roots->count && roots->at[low] == root;
}

static void note_cause(Prover *t, int64_t element, int root) {
  Roots *causes = &t->redraw->causes[element];
  for (int i = 0; i < causes->count; i++)
    if (causes->at[i] == root) return;
  if (root) LIST_PUSH(t->arena, causes, root);
}

// Selects an input of each lost root, of kind `kind` if there is one; false if there is none.
static bool draw_lost_again(Prover *t, int kind) {
  Redraw *r = t->redraw;
  bool drawn = false;
  for (int i = 0; i < r->lost.count; i++) {
    const LostRoot *root = &r->lost.at[i];
    int source = 0;
    for (int k = 0; k < SOURCES && !source; k++) source = root->source[(kind + k) % SOURCES];
    if (!source) continue;
    r->salt[root->field][source - 1] = ++r->draws;
    note_cause(t, source - 1, root->name);
    r->drawn = drawn = true;
  }
  return drawn;
}

// Those of the wanted roots that this run lost.
static LostRoots wanted_lost(Prover *t) {
  const LostRoots *lost = proof_lost_roots(t->proof);
  LostRoots wanted = {0};
  for (int i = 0; i < lost->count; i++)
    if (!lost->at[i].name || is_in(&t->redraw->wanted, lost->at[i].name))
      LIST_PUSH(proof_run_arena(t->proof), &wanted, lost->at[i]);
  return wanted;
}

static void keep_best(Prover *t, const LostRoots *lost) {
  Redraw *r = t->redraw;
  copy_salts(r, r->best, r->salt);
  r->lost.count = 0;
  for (int i = 0; i < lost->count; i++) LIST_PUSH(t->arena, &r->lost, lost->at[i]);
}

// Inputs are drawn again for the roots that elements need which have not agreed often enough: for
// those of one output, or of all if it is -1. They restrict what the run says of other elements.
static void choose_wanted(Prover *t, const Agreement *all, int output) {
  int set = 0;
  int64_t at = 0, elements;
  for (int i = 0; i < t->k->outputs; i++) {
    array_elements(&t->operands[0][t->k->inputs + i], &elements);
    for (int64_t e = 0; e < elements; e++, at++) {
      if (agreements(all, at) == ROOT_AGREEMENTS || (output >= 0 && i != output)) continue;
      Pair pair = pair_at(t, i, e, at);
      set = roots_needed(t->proof, set, pair.ids[0], pair.ids[1]);
    }
  }
  RootSet chosen = roots_in(t->proof, set);
  t->redraw->wanted = (RootSet){NEW_ARRAY(t->arena, int, chosen.count + 1), chosen.count};
  for (int i = 0; i < chosen.count; i++) t->redraw->wanted.at[i] = chosen.at[i];
}

// Runs both sides, and draws the inputs of lost roots again while fewer are lost. *all: none is
// lost.
static bool run_until_roots(Prover *t, uint64_t seed, int most, const Agreement *agreed, int output,
                            bool *all) {
  Redraw *r = t->redraw;
  int kind = 0;
  for (int f = 0; f < PRIMES; f++) memset(r->salt[f], 0, (size_t)r->count * sizeof(int));
  memset(r->causes, 0, (size_t)(r->count + 1) * sizeof *r->causes);
  *all = r->drawn = false;
  for (int draw = 0;; draw++) {
    t->kept.ran = false;
    if (!run_both(t, seed, BY_ROOTS)) return false;
    if (draw == 0) choose_wanted(t, agreed, output);
    const LostRoots lost = wanted_lost(t);
    bool better = draw == 0 || lost.count < r->lost.count;
    *all = lost.count == 0;
    if (better)
      keep_best(t, &lost);
    else
      copy_salts(r, r->salt, r->best), kind++;
    if (*all || draw + 1 == most || !draw_lost_again(t, kind)) break;
  }
  return true;
}

// Have too few runs tested some element?
static bool is_slow(const Agreement *all, int run) {
  return run == FIRST_ROOT_RUNS &&
         agreements(all, weakest(all)) * MOST_ROOT_RUNS < 2 * ROOT_AGREEMENTS * run;
}

// Finds the elements that agree by atoms, and names the roots for all later runs.
static bool start_by_roots(Prover *t, Agreement *all) {
  int64_t elements;
  *all = (Agreement){0};
  for (int i = 0; i < t->k->outputs; i++) {
    array_elements(&t->operands[0][t->k->inputs + i], &elements);
    all->count += elements;
  }
  all->output = NEW_ARRAY(t->arena, int, all->count + 1);
  for (int64_t i = 0, at = 0; i < t->k->outputs; i++) {
    array_elements(&t->operands[0][t->k->inputs + i], &elements);
    for (int64_t e = 0; e < elements; e++) all->output[at++] = (int)i;
  }
  for (int f = 0; f < PRIMES; f++) all->agreed[f] = NEW_ARRAY(t->arena, int, all->count + 1);
  all->open = NEW_ARRAY(t->arena, bool, all->count + 1);
  t->redraw = new_redraw(t);
  t->kept.ran = false;
  proof_name_roots(t->proof, true);
  bool ran = run_both(t, t->task->seed, BY_ATOMS);
  proof_name_roots(t->proof, false);
  return ran && each_pair(t, note_open, all);
}

// Do all elements agree in enough runs in which the inputs have roots? False: some element differs,
// or too few runs could test it.
static bool agree_by_roots(Prover *t) {
  Agreement all;
  bool redraws = false, found;
  if (!start_by_roots(t, &all)) return false;
  for (int run = 0; run < MOST_ROOT_RUNS; run++) {
    bool apart = run % 2;
    redraws |= is_slow(&all, run);
    if (!run_until_roots(t, t->task->seed + 1000 + (uint64_t)run, redraws ? MOST_REDRAWS : 1, &all,
                         apart ? all.output[weakest(&all)] : -1, &found))
      return false;
    redraws &= found || !apart || run <= FIRST_ROOT_RUNS;
    if (!each_pair(t, count_pair, &all)) return false;
    t->result->runs = run + 1;
    if (agreements(&all, weakest(&all)) == ROOT_AGREEMENTS) return true;
  }
  return false;
}

// ---- verdicts

static bool agree_on_orders(Prover *t) {
  for (int order = 0; order < ORDERS_DRAWN; order++)
    if (!run_both(t, t->task->seed + 5000 + (uint64_t)order, BY_ORDER) ||
        !each_pair(t, is_equal, NULL))
      return false;
  t->result->orders = ORDERS_DRAWN;
  return true;
}

static void take_notes(Prover *t) {
  for (int i = 0; i < proof_note_count(t->proof); i++)
    LIST_PUSH(t->arena, &t->result->notes, *proof_note(t->proof, i));
}

static bool agree_by_atoms(Prover *t) {
  bool ran = run_both(t, t->task->seed, BY_ATOMS);
  t->result->numbers = number_count(t->proof);
  return ran && each_pair(t, is_equal, NULL);
}

// Control flow may depend on a condition on data. The proof then runs both sides with the condition
// true, and with it false. Every input belongs to one of these cases. A proof that knows nothing
// else of the condition holds for all inputs of its case.
static bool agree_in_cases(Prover *t) {
  Case split;
  bool agrees = true;
  if (agree_by_atoms(t)) return true;
  if (proof_limit_text(t->proof) || !proof_split(t->proof, &split)) return false;
  for (int value = 1; value >= 0 && agrees; value--) {
    t->kept.ran = false;
    proof_begin_case(t->proof, &split, value);
    agrees = agree_in_cases(t);
    proof_end_case(t->proof);
  }
  t->kept.ran = false;
  return agrees;
}

// The same with the given integers.
static bool agree_for_given(Prover *t) {
  uint64_t known = t->result->known;
  if (!(t->task->given & ~known) || proof_limit_text(t->proof)) return false;
  t->result->known |= t->task->given;
  if (agree_in_cases(t)) return true;
  t->result->known = known;
  return false;
}

static Verdict decide(Prover *t) {
  if (agree_in_cases(t) || agree_for_given(t)) return PROVED;
  bool limited = t->result->limited = proof_limit_text(t->proof) != NULL;
  if (!limited && proof_has_roots(t->proof) && agree_by_roots(t)) return PROVED;
  uint64_t known = t->result->known;
  if (!limited && agree_on_orders(t)) return EQUAL_ON_ORDERS;
  t->result->known = known;
  return UNDECIDED;
}

Prover *prover_new(Arena *arena, const ProveTask *task, bool keeps) {
  Prover *t = NEW(arena, Prover);
  *t = (Prover){.arena = arena, .task = task, .k = task->kernel, .keeps = keeps};
  t->proof = proof_start(arena, task->seed, task->seconds, task->bytes);
  t->arithmetic = &proof_arithmetic;
  t->context = t->proof;
  if (task->gradient) t->gradient = gradient_runs_new(arena, task->gradient);
  if (task->gradient)
    note_constants_of_gradient(t->proof, task->gradient->backward, task->gradient->forward, t->k);
  else
    note_constants(t->proof, t->k, task->other);
  t->inputs = NEW_ARRAY(arena, int64_t *, t->k->inputs + 1);
  for (int i = 0; i < t->k->inputs; i++) t->inputs[i] = array_cells(&task->operands[i]);
  for (int side = 0; side < 2; side++) {
    t->specified[side] = NEW_ARRAY(arena, uint8_t *, t->k->outputs + 1);
    make_arrays(t, side);
  }
  return t;
}

Prover *prover_start(Arena *arena, const ProveTask *task) { return prover_new(arena, task, true); }

void prover_prove(Prover *t, Arena *arena, ProveResult *result) {
  t->arena = arena;
  t->result = result;
  *result = (ProveResult){.output = -1, .known = t->wanted_by_reference};
  proof_resume(t->proof);
  result->verdict = decide(t);
  if (result->verdict == PROVED) result->reason = NULL, result->output = -1;
  take_notes(t);
}

void prover_end(Prover *t) {
  free_arrays(t);
  if (t->gradient) gradient_runs_free(t->gradient);
  proof_free(t->proof);
}

void prove(Arena *arena, const ProveTask *task, ProveResult *result) {
  Prover *t = prover_new(arena, task, false);
  prover_prove(t, arena, result);
  prover_end(t);
}

// ---- notes

static const char *side_text(unsigned sides) {
  return sides == 1 ? "the kernel alone" : sides == 2 ? "the reference alone" : "both";
}

const char *note_text(Arena *arena, const Kernel *k, const Kernel *other, const Note *note) {
  int line = note->instr ? ir_line(note->side && other ? other : k, note->instr->span) : 0;
  switch (note->kind) {
    case NOTE_MASK:
      return arena_printf(arena, "line %d: %s is a mask, taken as infinite", line, note->text);
    case NOTE_CONSTANT:
      return arena_printf(arena, "line %d: %s", line, note->text);
    case NOTE_EQUAL:
      return arena_printf(arena, "line %d: a comparison for equality is false (%s)", line,
                          side_text(note->sides));
    case NOTE_FINITE:
      return arena_printf(arena, "line %d: no number here is infinite or NaN (%s)", line,
                          side_text(note->sides));
    case NOTE_DEFINED:
      return arena_printf(arena,
                          "line %d: operands of comparisons and conversions are defined (%s)", line,
                          side_text(note->sides));
    case NOTE_ROUNDING:
      return arena_printf(arena, "line %d: the rounding to %s is ignored (%s)", line, note->text,
                          side_text(note->sides));
    case NOTE_DIVISOR:
      return arena_printf(arena, "line %d: a divisor is not 0 (%s)", line, side_text(note->sides));
    case NOTE_LOG:
      return arena_printf(arena, "line %d: the operand of a logarithm is positive (%s)", line,
                          side_text(note->sides));
    case NOTE_EXP:
      return arena_printf(arena, "line %d: the operand of `exp` has no known bound (%s)", line,
                          side_text(note->sides));
    default:
      return arena_printf(arena, "line %d: the operand of a root is at least 0 (%s)", line,
                          side_text(note->sides));
  }
}
