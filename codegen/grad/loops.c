// Values of loops and branches in the reverse part. Computed values are recomputed. The contents of
// vars and the results of branches are kept for each iteration on a tape, a var that the forward
// part fills.
#include "codegen/grad/internal.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/rewrite.h"

// ---- the number of iterations

static const char *index_text(Grad *g, const Instr *v);

static const char *pair_text(Grad *g, const Instr *v, const char *format) {
  const char *a = index_text(g, v->args[0]), *b = index_text(g, v->args[1]);
  if (!a || !b) return NULL;
  const char *text = fill_template(g->arena, format, (const char *const[]){a, b}, NULL, NULL);
  return intern(text);
}

// The text of an index that consists of sizes and constants; NULL: it contains something else.
static const char *index_text(Grad *g, const Instr *v) {
  if (v->op == OP_CONST) return intern_printf("%lld", (long long)v->ival);
  if (v->op == OP_SIZE) {
    const char *name = g->k->sizes.at[v->ival].name;
    bool word = true;
    for (const char *c = name; *c; c++) word = word && *c != ' ';
    return word ? name : intern_printf("(%s)", name);
  }
  switch (v->op) {
    case OP_ADD:
      return pair_text(g, v, "($0 + $1)");
    case OP_SUB:
      return pair_text(g, v, "($0 - $1)");
    case OP_MUL:
      return pair_text(g, v, "($0 * $1)");
    case OP_DIV:
      return pair_text(g, v, "($0 / $1)");
    case OP_REM:
      return pair_text(g, v, "($0 % $1)");
    case OP_MAX:
      return pair_text(g, v, "max($0, $1)");
    case OP_MIN:
      return pair_text(g, v, "min($0, $1)");
    case OP_FLOORDIV:
      return pair_text(g, v, "floordiv($0, $1)");
    default:
      return NULL;
  }
}

Instr *copied(Grad *g, const Instr *v) {
  Instr *copy = ir_copy(g->k, v);
  for (int i = 0; i < v->nargs; i++) copy->args[i] = copied(g, v->args[i]);
  return ir_append(g->k, g->out, copy);
}

static const Instr *greatest(Grad *g, const Instr *v, const Enclosing *enclosing);

static const Instr *greatest_pair(Grad *g, Op op, const Instr *a, const Instr *b) {
  int64_t number;
  if (!a || !b) return NULL;
  Instr *v = put_pair(g, op, (Instr *)a, (Instr *)b);
  return known_number(v, &number) ? put_index(g, number) : v;
}

// Is the index at least 0?
static bool is_natural(const Instr *v, const Enclosing *enclosing) {
  if (v->op == OP_CONST) return v->ival >= 0;
  if (v->op == OP_CAST && !is_float(v->args[0]->type.dtype))
    return is_natural(v->args[0], enclosing);
  for (const Enclosing *t = enclosing; t; t = t->around)
    if (v == t->loop->regions[0]->arg) return is_natural(t->loop->args[0], t->around);
  const bool grows = v->op == OP_ADD || v->op == OP_MUL || v->op == OP_DIV ||
                     v->op == OP_FLOORDIV || v->op == OP_MIN || v->op == OP_MAX;
  return v->op == OP_SIZE ||
         (grows && is_natural(v->args[0], enclosing) && is_natural(v->args[1], enclosing));
}

static bool is_same(const Instr *a, const Instr *b) {
  if (a == b) return true;
  const bool plain = a->nargs > 0 || a->op == OP_CONST || a->op == OP_SIZE;
  if (a->op != b->op || a->nargs != b->nargs || a->ival != b->ival || a->op == OP_LOAD ||
      a->op == OP_IF || !plain || a->type.rank)
    return false;
  for (int i = 0; i < a->nargs; i++)
    if (!is_same(a->args[i], b->args[i])) return false;
  return !is_float(a->type.dtype);
}

static const Instr *without_cast(const Instr *v) {
  while (v->op == OP_CAST && !is_float(v->args[0]->type.dtype)) v = v->args[0];
  return v;
}

// The greatest difference of two indices, of which the second one may vary; NULL: unknown.
static const Instr *greatest_difference(Grad *g, const Instr *a, const Instr *b,
                                        const Enclosing *enclosing) {
  a = without_cast(a);
  b = without_cast(b);
  if (is_same(a, b)) return put_index(g, 0);
  if (a->op == OP_MIN) {
    const Instr *x = greatest_difference(g, a->args[0], b, enclosing);
    const Instr *y = greatest_difference(g, a->args[1], b, enclosing);
    return x && y ? greatest_pair(g, OP_MIN, x, y) : x ? x : y;
  }
  for (int i = 0; a->op == OP_ADD && i < 2; i++)
    if (is_same(without_cast(a->args[i]), b)) return greatest(g, a->args[1 - i], enclosing);
  return is_natural(b, enclosing) ? greatest(g, a, enclosing) : NULL;
}

// The greatest result of an operation that is monotone in its operands that are not constants.
static const Instr *greatest_result(Grad *g, const Instr *v, const Enclosing *enclosing) {
  const bool many = v->nargs == 2, known = many && v->args[1]->op == OP_CONST;
  const Instr *a = v->nargs ? greatest(g, v->args[0], enclosing) : NULL;
  const Instr *b = many ? greatest(g, v->args[1], enclosing) : NULL;
  switch (v->op) {
    case OP_CAST:
      return a;
    case OP_ADD:
    case OP_MAX:
      return greatest_pair(g, v->op, a, b);
    case OP_MIN:
      return a && b ? greatest_pair(g, v->op, a, b) : a ? a : b;
    case OP_SUB:
      return known ? greatest_pair(g, v->op, a, b)
                   : greatest_difference(g, v->args[0], v->args[1], enclosing);
    case OP_MUL:
      if (many && v->args[0]->op == OP_CONST && v->args[0]->ival >= 0)
        return greatest_pair(g, v->op, a, b);
      return known && v->args[1]->ival >= 0 ? greatest_pair(g, v->op, a, b) : NULL;
    case OP_DIV:
    case OP_FLOORDIV:
      return known && v->args[1]->ival > 0 ? greatest_pair(g, v->op, a, b) : NULL;
    default:
      return NULL;
  }
}

// The maximum of an index at the current position, in terms of sizes; NULL: unknown.
static const Instr *greatest(Grad *g, const Instr *v, const Enclosing *enclosing) {
  if (is_float(v->type.dtype) || v->type.rank) return NULL;
  if (v->op == OP_CONST) return put_index(g, v->ival);
  if (v->type.dtype == DT_I64 && index_text(g, v)) return v;
  for (const Enclosing *t = enclosing; t; t = t->around)
    if (v == t->loop->regions[0]->arg)
      return greatest_pair(g, OP_SUB, greatest(g, t->loop->args[1], t->around), put_index(g, 1));
  return greatest_result(g, v, enclosing);
}

bool is_extent(Grad *g, const Instr *v) { return index_text(g, v) != NULL; }

Dim extent_named(Grad *g, const Instr *v) {
  if (v->op == OP_CONST) return v->ival > 0 ? v->ival : 0;
  if (v->op == OP_SIZE) return dim_of_size((int)v->ival);
  const char *name = index_text(g, v);
  for (int i = 0; i < g->k->sizes.count; i++)
    if (g->k->sizes.at[i].name == name) return dim_of_size(i);
  static const Type none = {.dtype = DT_COUNT};
  Region *outer = g->out, *value = g->out = ir_region(g->k);
  put(g, OP_YIELD, none, 1, copied(g, v));
  g->out = outer;
  LIST_PUSH(g->arena, &g->k->sizes, ((Size){.name = name, .span = g->span, .value = value}));
  return dim_of_size(g->k->sizes.count - 1);
}

// An extent that includes all iterations of a loop, which begins at 0 or later; false: none is
// known.
static bool iterations_of(Grad *g, const Enclosing *enclosing, Dim *out) {
  Region scratch = {0}, *outer = g->out;
  const Instr *from = enclosing->loop->args[0];
  if (from->op != OP_SIZE && (from->op != OP_CONST || from->ival < 0)) return false;
  g->out = &scratch;
  const Instr *to = greatest(g, enclosing->loop->args[1], enclosing->around);
  g->out = outer;
  if (!to) return false;
  *out = extent_named(g, to);
  // The first index is an element, even in a loop without iterations: constant ones are checked.
  if (dim_is_const(*out) && from->op == OP_CONST && *out <= from->ival) *out = from->ival + 1;
  return true;
}

// ---- tapes

static Ref *new_tape(Grad *g, const Instr *v, const char *name) {
  Type type = {.dtype = v->type.dtype};
  Span unbounded = {0, 0};
  Dim dims[MAX_RANK];
  int depth = 0;
  const Instr *outermost = NULL;
  for (const Enclosing *t = g->enclosing; t; t = t->around, depth++) {
    outermost = t->loop;
    if (t->segments && depth < MAX_RANK)
      dims[depth] = t->segments->steps;
    else if (depth >= MAX_RANK || !iterations_of(g, t, &dims[depth])) {
      dims[depth < MAX_RANK ? depth : 0] = 1;
      unbounded = t->loop->span;
    }
  }
  if (depth + v->type.rank > MAX_RANK) unbounded = v->span;
  type.rank = depth + v->type.rank > MAX_RANK ? 0 : depth + v->type.rank;
  for (int i = 0; i < type.rank; i++)
    type.dim[i] = i < depth ? dims[depth - 1 - i] : v->type.dim[i - depth];
  Ref *tape = new_state(g, name, type);
  LIST_PUSH(g->arena, &g->tapes, tape);
  LIST_PUSH(g->arena, &g->tape_spans, unbounded);
  LIST_PUSH(g->arena, &g->tape_loops, outermost);
  return tape;
}

Instr *access_slot(Grad *g, Ref *tape, Instr *const *at, Type type, Instr *value) {
  Instr *args[MAX_RANK + 1];
  static const Type none = {.dtype = DT_COUNT};
  const int rank = tape->type.rank, depth = rank - type.rank;
  for (int i = 0; i < rank; i++) args[i] = i < depth ? at[i] : put_index(g, 0);
  args[rank] = value;
  Instr *access = ir_new(g->k, value ? OP_STORE : OP_LOAD, value ? none : type, g->span,
                         rank + (value != NULL), args);
  access->ref = tape;
  for (int i = 0; i < rank; i++) {
    access->window.size[i] = i < depth ? 1 : tape->type.dim[i];
    access->window.stride[i] = 1;
    access->window.squeeze[i] = i < depth;
  }
  return ir_append(g->k, g->out, access);
}

// The position of an iteration in a tape: its axes precede those of the value; back: in the reverse
// part.
static Instr *access_tape(Grad *g, Ref *tape, const Instr *v, Instr *value, bool back) {
  Instr *at[MAX_RANK];
  int depth = tape->type.rank - v->type.rank;
  for (const Enclosing *t = g->enclosing; t && depth > 0; t = t->around) {
    Instr *arg = t->loop->regions[0]->arg;
    at[--depth] = t->segments ? (back ? t->segments->back : t->segments->forth)
                  : back      ? value_of(g, arg)
                              : arg;
  }
  return access_slot(g, tape, at, v->type, value);
}

// Inserts the new instructions after v in its region.
static void insert_behind(Grad *g, const Instr *v, const Region *added) {
  const Instr *last = v;
  for (int i = 0; i < added->instrs.count; i++) {
    ir_insert_after(g->k, g->home[v->id], last, added->instrs.at[i]);
    last = added->instrs.at[i];
  }
}

void insert_first(Grad *g, Region *region, const Region *added) {
  const Region rest = *region;
  region->instrs.at = NULL;
  region->instrs.count = region->instrs.capacity = 0;
  int arrays = 0;
  while (arrays < rest.instrs.count && rest.instrs.at[arrays]->op == OP_ARRAY)
    ir_append(g->k, region, rest.instrs.at[arrays++]);
  for (int i = 0; i < added->instrs.count; i++) ir_append(g->k, region, added->instrs.at[i]);
  for (int i = arrays; i < rest.instrs.count; i++) ir_append(g->k, region, rest.instrs.at[i]);
}

Instr *again(Grad *g, Instr *v) {
  Region *outer = g->out;
  const char *name = v->text ? v->text : v->op == OP_LOAD ? v->ref->name : "chosen";
  Ref *tape = new_tape(g, v, arena_printf(g->arena, TAPE_PREFIX "%s", name));
  Region start = {0}, keep = {0};
  g->out = &start;
  put_store(g, tape, put_zero(g, tape->type));
  g->out = &keep;
  access_tape(g, tape, v, v, false);
  g->out = outer;
  insert_behind(g, v, &keep);
  insert_first(g, g->top, &start);
  return access_tape(g, tape, v, NULL, true);
}

// The region's values in this iteration, as instructions at the current position.
void compute_again(Grad *g, const Region *region) {
  const Region old = *region;
  Instr **list = NEW_ARRAY(g->arena, Instr *, old.instrs.count + 1);
  for (int i = 0; i < old.instrs.count; i++) list[i] = old.instrs.at[i];
  for (int i = 0; i < old.instrs.count; i++) {
    Instr *v = list[i];
    if (v->id >= g->count || !has_result(v)) continue;
    if (v->op == OP_LOAD || v->op == OP_IF) {
      g->image[v->id] = again(g, v);
      continue;
    }
    g->image[v->id] = put_again(g, v);
  }
}
