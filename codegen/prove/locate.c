// Locates the instruction at which a kernel and its reference part. Both run again with one draw,
// and a table of functions records the arithmetic of the kernel.
//
// Inputs are drawn anew, one index along one axis at a time. If that changes an element of the
// reference but not the kernel's, the instruction is named at which the kernel loses the input:
// its operands change, its result does not. Otherwise it is an instruction whose operands occur in
// the reference, but whose result does not.
#include "codegen/prove/arithmetic.h"
#include "codegen/prove/internal.h"
#include "codegen/prove/prover.h"

#include <string.h>

enum { MOST_PLANES = 256, MOST_LOST = 16, MOST_RIGHT = 8, DRAWN_ANEW = 1 << 16 };
static const double locate_seconds = 4;

// ---- maps of words to places

typedef struct {
  uint64_t *keys;  // 0: free
  int *places;
  int count, capacity;
} Map;

static int map_slot(const Map *map, uint64_t key) {
  int slot = (int)((key * 0x9e3779b97f4a7c15 >> 32) & (uint64_t)(map->capacity - 1));
  while (map->keys[slot] && map->keys[slot] != key) slot = (slot + 1) & (map->capacity - 1);
  return slot;
}

static int map_find(const Map *map, uint64_t key) {
  int slot = map->capacity ? map_slot(map, key) : 0;
  return map->capacity && map->keys[slot] ? map->places[slot] : -1;
}

static void map_put(Arena *arena, Map *map, uint64_t key, int place) {
  if (map->count * 2 >= map->capacity) {
    Map old = *map;
    map->capacity = old.capacity ? old.capacity * 2 : 256;
    map->keys = NEW_ARRAY(arena, uint64_t, map->capacity);
    map->places = NEW_ARRAY(arena, int, map->capacity);
    map->count = 0;
    for (int i = 0; i < old.capacity; i++)
      if (old.keys[i]) map_put(arena, map, old.keys[i], old.places[i]);
  }
  int slot = map_slot(map, key);
  map->count += map->keys[slot] == 0;
  map->keys[slot] = key;
  map->places[slot] = place;
}

// ---- recorded definitions and events

// How a number of the kernel was computed first.
typedef struct {
  const Instr *instr;
  int first, count;  // its operands
} Definition;

// An instruction that ran, with a hash of each operand.
typedef struct {
  const Instr *instr;
  int first;
} Event;

typedef struct {
  LIST(Event) events;
  LIST(uint64_t) hashes;
} Events;

typedef struct {
  Arena *arena;
  Prover *t;
  Proof *p;
  int output;
  int64_t element;
  int side;
  bool defines;  // definitions and terms are recorded
  LIST(Definition) definitions;
  LIST(Id) operands;
  Map defined;            // 1 + a number: its definition
  Map names;              // of the numbers of the reference
  Map terms;              // names of what the reference's sums add
  Map compared;           // names of what its maxima compare
  Events *events;         // or NULL
  const int64_t *stored;  // the cell that a store is sought for, or NULL
  const Instr *store;
} Locator;

static uint64_t name_of(const Proof *p, Id id) {
  Key key = number_key(p, id);
  Draw h = draw_start(0, 0);
  draw_key(&h, &key);
  return draw_element(&h, UINT64_C(1) << 61);
}

static Id id_of_cell(const Proof *p, DType dtype, int64_t cell) {
  if (is_float(dtype)) return number_is(p, cell) ? (Id)cell : -1;
  return cell_is_open(cell) ? open_id(cell) : -1;
}

static void define(Locator *l, const Instr *instr, Id id, const Id *operands, int64_t count) {
  if (id < ID_PRESET || l->side || map_find(&l->defined, (uint64_t)id + 1) >= 0) return;
  Definition definition = {instr, l->operands.count, 0};
  for (int64_t i = 0; i < count; i++) {
    if (operands[i] == id) return;  // a move
    if (operands[i] >= 0) LIST_PUSH(l->arena, &l->operands, operands[i]);
  }
  definition.count = l->operands.count - definition.first;
  map_put(l->arena, &l->defined, (uint64_t)id + 1, l->definitions.count);
  LIST_PUSH(l->arena, &l->definitions, definition);
}

static void add_name(Locator *l, Map *map, Id id) {
  if (l->side && id >= 0) map_put(l->arena, map, name_of(l->p, id), 0);
}

// ---- the table

static int64_t follow_constant(void *context, DType dtype, const Instr *instr) {
  return proof_arithmetic.constant(((Locator *)context)->p, dtype, instr);
}

static int64_t follow_index(void *context, DType dtype, int64_t index) {
  return proof_arithmetic.index(((Locator *)context)->p, dtype, index);
}

static void follow_elementwise(void *context, const Instr *instr, Value *out,
                               const Value *const *arg) {
  Locator *l = context;
  proof_arithmetic.elementwise(l->p, instr, out, arg);
  for (int64_t e = 0; e < out->count && l->defines; e++) {
    Id operands[3];
    int count = instr->nargs < 3 ? instr->nargs : 3;
    for (int i = 0; i < count; i++) operands[i] = id_of_cell(l->p, arg[i]->dtype, arg[i]->i[e]);
    define(l, instr, id_of_cell(l->p, out->dtype, out->i[e]), operands, count);
  }
}

static int64_t follow_blend(void *context, const Instr *instr, int64_t condition, int64_t a,
                            int64_t b) {
  Locator *l = context;
  DType t = instr->type.dtype;
  int64_t cell = proof_arithmetic.blend(l->p, instr, condition, a, b);
  Id operands[3] = {open_id(condition), id_of_cell(l->p, t, a), id_of_cell(l->p, t, b)};
  if (l->defines) define(l, instr, id_of_cell(l->p, t, cell), operands, 3);
  return cell;
}

static int64_t follow_fold(void *context, const Instr *instr, DType dtype, const int64_t *cells,
                           int64_t count) {
  Locator *l = context;
  int64_t cell = proof_arithmetic.fold(l->p, instr, dtype, cells, count);
  if (!l->defines) return cell;
  Id *operands = NEW_ARRAY(l->arena, Id, count + 1);
  for (int64_t e = 0; e < count; e++) {
    operands[e] = id_of_cell(l->p, dtype, cells[e]);
    if (instr->op == OP_REDUCE_SUM) add_name(l, &l->terms, operands[e]);
    if (instr->op == OP_REDUCE_MAX) add_name(l, &l->compared, operands[e]);
  }
  define(l, instr, id_of_cell(l->p, dtype, cell), operands, count);
  return cell;
}

static void follow_scan(void *context, const Instr *instr, Value *out, const Value *a,
                        const int64_t *order, int64_t count) {
  Locator *l = context;
  proof_arithmetic.scan(l->p, instr, out, a, order, count);
  for (int64_t i = 0; i < count && l->defines; i++) {
    Id operands[2] = {id_of_cell(l->p, a->dtype, a->i[order[i]]),
                      i ? id_of_cell(l->p, a->dtype, out->i[order[i - 1]]) : -1};
    define(l, instr, id_of_cell(l->p, a->dtype, out->i[order[i]]), operands, 2);
  }
}

static int64_t follow_best(void *context, const Instr *instr, const Value *a, const Lane *lane) {
  return proof_arithmetic.best(((Locator *)context)->p, instr, a, lane);
}

static void follow_sort(void *context, const Instr *instr, Value *out, const Value *a,
                        const Lane *lane, int64_t *order) {
  proof_arithmetic.sort(((Locator *)context)->p, instr, out, a, lane, order);
}

static int64_t follow_take(void *context, const Instr *instr, const Value *a, const Lane *lane,
                           int64_t index) {
  return proof_arithmetic.take(((Locator *)context)->p, instr, a, lane, index);
}

// The operands of a dot are pairs of factors; its terms are their products.
static int64_t follow_dot(void *context, const Instr *instr, const int64_t *a, const int64_t *b,
                          int64_t count) {
  Locator *l = context;
  int64_t cell = proof_arithmetic.dot(l->p, instr, a, b, count);
  DType left = instr->args[0]->type.dtype, right = instr->args[1]->type.dtype;
  if (!l->defines || !is_float(left) || !is_float(right)) return cell;
  Id *operands = NEW_ARRAY(l->arena, Id, count * 2 + 1);
  for (int64_t e = 0; e < count; e++) {
    Id x = operands[2 * e] = id_of_cell(l->p, left, a[e]);
    Id y = operands[2 * e + 1] = id_of_cell(l->p, right, b[e]);
    if (l->side && x >= 0 && y >= 0) add_name(l, &l->terms, number_mul(l->p, x, y));
  }
  define(l, instr, id_of_cell(l->p, instr->type.dtype, cell), operands, 2 * count);
  return cell;
}

static int64_t follow_join(void *context, DType dtype, CellPart *parts, int count) {
  return proof_arithmetic.join(((Locator *)context)->p, dtype, parts, count);
}

static bool follow_knows(void *context, int64_t cell) {
  return proof_arithmetic.knows(((Locator *)context)->p, cell);
}

static uint64_t hash_of(const Value *v) {
  uint64_t h = (uint64_t)v->count;
  for (int64_t e = 0; e < v->count; e++) {
    bool poison = v->poisoned && v->poison[e];
    h = (h ^ (poison ? 0 : (uint64_t)v->i[e])) * 0xd6e8feb86659fd93;
    h ^= h >> 32;
  }
  return h;
}

static void record_event(Locator *l, const Instr *instr, const Value *values) {
  LIST_PUSH(l->arena, &l->events->events, ((Event){instr, l->events->hashes.count}));
  for (int i = 0; i < instr->nargs; i++)
    LIST_PUSH(l->arena, &l->events->hashes, hash_of(&values[instr->args[i]->id]));
}

static void seek_store(Locator *l, const Instr *instr, const Value *values) {
  int masked = instr->flags & INSTR_MASKED ? 1 : 0;
  const Instr *arg = instr->args[instr->nargs - 1 - masked];
  const Value *v = &values[arg->id];
  for (int64_t e = 0; e < v->count; e++)
    if (v->i[e] == *l->stored) l->store = instr;
}

static bool follow_admits(void *context, const Instr *instr, const Value *values) {
  Locator *l = context;
  if (!proof_arithmetic.admits(l->p, instr, values)) return false;
  if (l->events && !l->side) record_event(l, instr, values);
  if (l->stored && !l->side && instr->op == OP_STORE) seek_store(l, instr, values);
  return true;
}

static const Arithmetic following = {.opens = true,
                                     .constant = follow_constant,
                                     .index = follow_index,
                                     .elementwise = follow_elementwise,
                                     .blend = follow_blend,
                                     .fold = follow_fold,
                                     .scan = follow_scan,
                                     .best = follow_best,
                                     .sort = follow_sort,
                                     .take = follow_take,
                                     .dot = follow_dot,
                                     .join = follow_join,
                                     .knows = follow_knows,
                                     .admits = follow_admits};

// ---- runs

static bool run(Locator *l, int side) {
  l->side = side;
  return prover_run(l->t, side);
}

static int64_t result_cell(const Locator *l, int side, int64_t element) {
  return ((int64_t *)l->t->operands[side][l->t->k->inputs + l->output].data)[element];
}

static DType result_dtype(const Locator *l) {
  return l->t->task->operands[l->t->k->inputs + l->output].dtype;
}

static bool is_same(const Locator *l, int64_t a, int64_t b) {
  unsigned lost;
  return prover_same(l->t, result_dtype(l), a, b, &lost);
}

static bool is_right(const Locator *l, int64_t element) {
  return is_same(l, result_cell(l, 0, element), result_cell(l, 1, element));
}

// Both sides, with one draw.
static bool run_both(Locator *l) {
  proof_restart(l->p, l->t->task->seed, BY_ATOMS);
  for (int i = 0; i < l->t->k->inputs; i++) prover_fill(l->t, i);
  return run(l, 1) && run(l, 0);
}

// ---- inputs that the kernel loses

// The elements of an input with one index along one axis.
typedef struct {
  int operand, axis;
  int64_t index, inner, extent, elements;  // inner: number of elements of one index
} Plane;
typedef LIST(Plane) Planes;

static void add_planes(Locator *l, int operand, Planes *planes) {
  const HostArray *array = &l->t->task->operands[operand];
  int64_t elements, inner = 1;
  array_elements(array, &elements);
  for (int axis = array->rank - 1; axis >= 0; axis--) {
    for (int64_t i = 0; i < array->dim[axis]; i++)
      LIST_PUSH(l->arena, planes, ((Plane){operand, axis, i, inner, array->dim[axis], elements}));
    inner *= array->dim[axis];
  }
}

typedef int64_t NewCell(Locator *l, int operand, int64_t element, int64_t old);

static int64_t drawn_cell(Locator *l, int operand, int64_t element, int64_t old) {
  return old == ID_ZERO ? old : number_input(l->p, operand + DRAWN_ANEW, element, 0);
}

static int64_t zero_cell(Locator *l, int operand, int64_t element, int64_t old) {
  (void)l, (void)operand, (void)element, (void)old;
  return ID_ZERO;
}

// Draws the elements of a plane again; `kept` receives the previous ones.
static void change(Locator *l, const Plane *plane, NewCell *cell, int64_t *kept) {
  int64_t *cells = l->t->inputs[plane->operand];
  memcpy(kept, cells, (size_t)plane->elements * sizeof *cells);
  for (int64_t e = 0; e < plane->elements; e++)
    if (e / plane->inner % plane->extent == plane->index)
      cells[e] = cell(l, plane->operand, e, cells[e]);
}

static void restore(Locator *l, const Plane *plane, const int64_t *kept) {
  memcpy(l->t->inputs[plane->operand], kept, (size_t)plane->elements * sizeof *kept);
}

// Which of the two results change with a plane: bit 0 for the kernel's, bit 1 for the reference's;
// -1: a run failed.
static int changes(Locator *l, const Plane *plane, const int64_t *before) {
  int64_t *kept = NEW_ARRAY(l->arena, int64_t, plane->elements + 1);
  change(l, plane, drawn_cell, kept);
  int changed = 0;
  for (int side = 0; side < 2 && changed >= 0; side++)
    changed = !run(l, side)                                                ? -1
              : is_same(l, result_cell(l, side, l->element), before[side]) ? changed
                                                                           : changed | 1 << side;
  restore(l, plane, kept);
  return changed;
}

static void note_results(const Locator *l, int64_t *cells) {
  for (int side = 0; side < 2; side++) cells[side] = result_cell(l, side, l->element);
}

// The planes that the reference's element depends on, but not the kernel's. All that neither
// depends on become 0.
static bool find_lost(Locator *l, Planes *lost) {
  Planes all = {0}, idle = {0};
  int64_t before[2];
  for (int i = 0; i < l->t->k->inputs; i++)
    if (is_float(l->t->task->operands[i].dtype)) add_planes(l, i, &all);
  if (all.count > MOST_PLANES || !run_both(l)) return false;
  note_results(l, before);
  for (int i = 0; i < all.count; i++) {
    int changed = changes(l, &all.at[i], before);
    if (changed < 0) return false;
    if (changed == 0) LIST_PUSH(l->arena, &idle, all.at[i]);
    if (changed == 2 && lost->count < MOST_LOST) LIST_PUSH(l->arena, lost, all.at[i]);
  }
  for (int i = 0; i < idle.count && lost->count; i++) {
    int64_t *kept = NEW_ARRAY(l->arena, int64_t, idle.at[i].elements + 1);
    change(l, &idle.at[i], zero_cell, kept);
  }
  return lost->count > 0;
}

// A product with 0 does not lose the other factor, and the results of a loop are computed inside
// it.
static bool may_lose(const Instr *instr) {
  return instr->op != OP_MUL && op_info[instr->op].class != OPC_DOT &&
         op_info[instr->op].class != OPC_CONTROL;
}

// The last event whose operands differ between two runs, but not its result; -1: none.
static int last_loss(Locator *l, const Events *a, const Events *b) {
  Map latest = {0};  // by instruction: its last event
  int loss = -1;
  bool *differs = NEW_ARRAY(l->arena, bool, a->events.count + 1);
  if (a->events.count != b->events.count) return -1;
  for (int i = 0; i < a->events.count; i++) {
    const Event *event = &a->events.at[i];
    if (event->instr != b->events.at[i].instr) return -1;
    for (int k = 0; k < event->instr->nargs; k++) {
      bool changed = a->hashes.at[event->first + k] != b->hashes.at[event->first + k];
      int source = map_find(&latest, (uint64_t)(uintptr_t)event->instr->args[k]);
      differs[i] |= changed;
      if (source > loss && !changed && differs[source] && may_lose(event->instr->args[k]))
        loss = source;
    }
    map_put(l->arena, &latest, (uint64_t)(uintptr_t)event->instr, i);
  }
  return loss;
}

static bool run_recorded(Locator *l, Events *events) {
  l->events = events;
  bool ran = run(l, 0);
  l->events = NULL;
  return ran;
}

static const char *lost_text(const Locator *l, const Plane *plane) {
  return arena_printf(
      l->t->arena, "the reference depends on index %lld along axis %d of `%s`, which is lost here",
      (long long)plane->index, plane->axis, l->t->k->refs.at[plane->operand]->name);
}

// The first of the instructions that lose one of the planes.
static Parting where_lost(Locator *l, const Planes *lost) {
  Events first = {0};
  int64_t before[2];
  int earliest = -1;
  const Plane *which = NULL;
  if (!run(l, 1) || !run_recorded(l, &first)) return (Parting){0};
  note_results(l, before);
  for (int i = 0; i < lost->count; i++) {
    const Plane *plane = &lost->at[i];
    int64_t *kept = NEW_ARRAY(l->arena, int64_t, plane->elements + 1);
    Events again = {0};
    if (changes(l, plane, before) != 2) continue;
    change(l, plane, drawn_cell, kept);
    int loss = run_recorded(l, &again) ? last_loss(l, &first, &again) : -1;
    restore(l, plane, kept);
    if (loss >= 0 && (earliest < 0 || loss < earliest)) earliest = loss, which = plane;
  }
  if (!which) return (Parting){0};
  return (Parting){first.events.at[earliest].instr, lost_text(l, which)};
}

// ---- results that the reference does not have

static bool is_name(const Locator *l, Id id) { return map_find(&l->names, name_of(l->p, id)) >= 0; }

// Does the reference have the number, its negative or its inverse? Constants agree.
static bool occurs(Locator *l, Id id) {
  const Number *n = number_at(l->p, id);
  if (n->kind != FINITE || n->mask != 0 || n->below || is_name(l, id)) return true;
  return is_name(l, number_neg(l->p, id)) || is_name(l, number_div(l->p, ID_ONE, id));
}

static const Definition *definition_of(const Locator *l, Id id) {
  int place = map_find(&l->defined, (uint64_t)id + 1);
  return place < 0 ? NULL : &l->definitions.at[place];
}

static bool is_term(const Locator *l, Id id) {
  return id == ID_ZERO || map_find(&l->terms, name_of(l->p, id)) >= 0;
}

// Is the number a sum of some of the terms that the reference adds, as that of a block is?
static bool is_partial(Locator *l, Id id) {
  const Definition *d = definition_of(l, id);
  bool partial = id == ID_ZERO || d;
  if (!d) return partial;
  const Id *operands = &l->operands.at[d->first];
  bool dot = op_info[d->instr->op].class == OPC_DOT;
  if (!dot && d->instr->op != OP_REDUCE_SUM && d->instr->op != OP_ADD) return false;
  for (int i = 0; i < d->count && partial; i += 1 + dot)
    partial = dot                      ? is_term(l, number_mul(l->p, operands[i], operands[i + 1]))
              : d->instr->op == OP_ADD ? is_partial(l, operands[i])
                                       : is_term(l, operands[i]);
  return partial;
}

// Is the number the greatest of some of those that the reference has, as that of a block is?
static bool is_part_of_maximum(const Locator *l, Id id) {
  int set = number_at(l->p, id)->set;
  const LeafSet *leaves = set > 0 ? &l->p->sets.at[set - 1] : NULL;
  for (int i = 0; leaves && i < leaves->count; i++)
    if (map_find(&l->compared, name_of(l->p, leaves->at[i])) < 0) return false;
  return leaves != NULL;
}

static bool agrees(Locator *l, Id id) {
  return !definition_of(l, id) || occurs(l, id) || is_partial(l, id) || is_part_of_maximum(l, id);
}

typedef LIST(int) Places;

// The definitions on which `root` depends whose operands agree with the reference, but not their
// results.
static void find_partings(Locator *l, Id root, Places *partings) {
  Map seen = {0};
  LIST(Id) open = {0};
  LIST_PUSH(l->arena, &open, root);
  while (open.count) {
    Id id = open.at[--open.count];
    const Definition *found = definition_of(l, id);
    if (!found || map_find(&seen, (uint64_t)id + 1) >= 0) continue;
    Definition d = *found;
    bool agree = true;
    map_put(l->arena, &seen, (uint64_t)id + 1, 0);
    for (int i = 0; i < d.count; i++) {
      Id operand = l->operands.at[d.first + i];
      if (agrees(l, operand)) continue;
      agree = false;
      LIST_PUSH(l->arena, &open, operand);
    }
    if (agree) LIST_PUSH(l->arena, partings, map_find(&l->defined, (uint64_t)id + 1));
  }
}

static Id result_id(const Locator *l, int64_t element) {
  return id_of_cell(l->p, result_dtype(l), result_cell(l, 0, element));
}

// If the kernel parts from the reference although the results agree, it computes them in another
// way.
static void find_other_ways(Locator *l, Places *partings) {
  int64_t elements;
  array_elements(&l->t->operands[0][l->t->k->inputs + l->output], &elements);
  int64_t step = elements / MOST_RIGHT + 1;
  for (int64_t e = 0; e < elements; e += step)
    if (is_right(l, e) && result_id(l, e) >= 0) find_partings(l, result_id(l, e), partings);
}

static bool is_among_ways(const Locator *l, const Places *ways, const Instr *instr) {
  for (int i = 0; i < ways->count; i++)
    if (l->definitions.at[ways->at[i]].instr == instr) return true;
  return false;
}

static void name_numbers(Locator *l) {
  for (Id id = 0; id < number_count(l->p); id++) map_put(l->arena, &l->names, name_of(l->p, id), 0);
}

// Both sides again, with a record of what they compute. `level`: the greatest of data is 0.
static bool compute_again(Locator *l, bool level) {
  l->p->level = level;
  l->names = l->terms = l->compared = l->defined = (Map){0};
  l->definitions.count = l->operands.count = 0;
  proof_restart(l->p, l->t->task->seed, BY_ATOMS);
  for (int i = 0; i < l->t->k->inputs; i++) prover_fill(l->t, i);
  l->defines = true;
  bool ran = run(l, 1);
  if (ran) name_numbers(l);
  ran = ran && run(l, 0);
  l->defines = false;
  return ran && !is_right(l, l->element);
}

// A wrong number that the reference also has is stored at a wrong position.
static const Instr *where_stored(Locator *l) {
  int64_t cell = result_cell(l, 0, l->element);
  l->stored = &cell;
  run(l, 0);
  l->stored = NULL;
  return l->store;
}

// Does the kernel compute maxima of blocks?
static bool has_partial_maxima(Locator *l) {
  for (int i = 0; i < l->defined.capacity; i++)
    if (l->defined.keys[i] && !occurs(l, (Id)l->defined.keys[i] - 1) &&
        is_part_of_maximum(l, (Id)l->defined.keys[i] - 1))
      return true;
  return false;
}

// Without maxima, exponentials of blocks are those of the reference.
static bool compute_parts(Locator *l) {
  if (!compute_again(l, false)) return false;
  return !has_partial_maxima(l) || compute_again(l, true) || compute_again(l, false);
}

static const Instr *where_parted(Locator *l) {
  Places partings = {0}, ways = {0};
  if (!compute_parts(l)) return NULL;
  Id root = result_id(l, l->element);
  if (root < 0 || !definition_of(l, root)) return where_stored(l);
  find_partings(l, root, &partings);
  find_other_ways(l, &ways);
  int first = -1;
  for (int other = 0; other < 2 && first < 0; other++)
    for (int i = 0; i < partings.count; i++) {
      int at = partings.at[i];
      bool counts = other || !is_among_ways(l, &ways, l->definitions.at[at].instr);
      if (counts && (first < 0 || at < first)) first = at;
    }
  return first < 0 ? NULL : l->definitions.at[first].instr;
}

// Searches for the first instruction at which the kernel loses what the reference keeps, or first
// differs from it.
Parting prove_locate(Arena *arena, const ProveTask *task, uint64_t known, int output,
                     int64_t element) {
  ProveTask limited = *task;
  if (limited.seconds > locate_seconds) limited.seconds = locate_seconds;
  ProveResult result = {.known = known};
  Locator l = {.arena = arena_new(), .output = output, .element = element};
  l.t = prover_new(arena, &limited, false);
  l.p = l.t->proof;
  l.t->result = &result;
  l.t->arithmetic = &following;
  l.t->context = &l;
  Planes lost = {0};
  Parting found = find_lost(&l, &lost) ? where_lost(&l, &lost) : (Parting){0};
  proof_resume(l.p);
  if (!found.instr)
    found =
        (Parting){where_parted(&l),
                  "here the kernel first has a result that differs from those of the reference"};
  prover_end(l.t);
  arena_free(l.arena);
  return found;
}
