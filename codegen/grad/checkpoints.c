// Checkpoints: a loop that keeps the values of one segment of its iterations at a time, because
// those of all take too much memory. Forwards, the tape ends with the values of the last segment,
// and the vars are kept before each of the other segments. In reverse, each of these begins with
// its vars, and computes its iterations again to fill the tape.
#include "codegen/grad/internal.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/rewrite.h"

static const Type no_type = {.dtype = DT_COUNT};

// ---- loops

static bool is_in_reference(const Grad *g, const Instr *v) {
  for (int i = 0; i < g->top->instrs.count; i++)
    if (g->top->instrs.at[i] == v) return true;
  return false;
}

bool has_segments(const Grad *g, const Instr *loop) {
  const GradResult *which = g->options->segmented;
  bool any = false;
  for (int i = 0; which && i < which->kept_in.count; i++)
    any = any || which->kept_in.at[i].start == loop->span.start;
  return any && is_in_reference(g, loop) && is_extent((Grad *)g, loop->args[0]) &&
         is_extent((Grad *)g, loop->args[1]);
}

// ---- vars

typedef struct {
  bool *read, *stored;  // by state
  bool *own;            // an iteration stores all of it before it reads it
  bool *later;          // something after the loop stores it
  int count;
} Vars;

static void see_region(Vars *vars, const Region *region, bool always) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++) see_region(vars, v->regions[r], false);
    if (v->op == OP_LOAD) vars->read[v->ref->id] = true;
    if (v->op != OP_STORE) continue;
    if (always && !v->flags && ir_window_is_full(v) && !vars->read[v->ref->id])
      vars->own[v->ref->id] = true;
    vars->stored[v->ref->id] = true;
  }
}

static Vars vars_of(const Grad *g, const Instr *loop) {
  const int count = g->k->states.count, room = count + 1;
  bool *unused = NEW_ARRAY(g->arena, bool, room);
  Vars vars = {.read = NEW_ARRAY(g->arena, bool, room),
               .stored = NEW_ARRAY(g->arena, bool, room),
               .own = NEW_ARRAY(g->arena, bool, room),
               .later = NEW_ARRAY(g->arena, bool, room),
               .count = count};
  see_region(&vars, loop->regions[0], true);
  Vars rest = {.read = unused, .stored = vars.later, .own = unused};
  bool after = false;
  for (int i = 0; i < g->top->instrs.count; i++) {
    Instr *v = g->top->instrs.at[i];
    const Region one = {.instrs = {.at = &v, .count = 1}};
    if (after && v->id < g->count) see_region(&rest, &one, false);
    after = after || v == loop;
  }
  return vars;
}

// ---- one loop

struct Again {
  Grad *g;
  Instr *loop;
  Segments *of;
  Vars vars;
  Ref **by;      // by state: the var that has its contents in reverse, or NULL
  Ref **kept;    // by state: its contents before segments
  Instr *keeps;  // the condition that keeps the vars
  // The reversed loop over segments: its region, and that of the iterations of a segment.
  Region *outer, *body, *turn;
  Instr *segments, *at, *first, *count;  // of a segment: its number, and its iterations
  Enclosing enclosing;
};

static Instr *pair(Grad *g, Op op, Instr *a, Instr *b) {
  int64_t x, y;
  if ((op == OP_ADD || op == OP_SUB) && known_number(b, &y) && !y) return a;
  if (op == OP_MUL && known_number(a, &x) && x == 1) return b;
  return put(g, op, type_scalar(DT_I64), 2, a, b);
}

static Instr *at_least(Grad *g, int64_t least, Instr *v) {
  int64_t x;
  if (known_number(v, &x)) return put_index(g, x > least ? x : least);
  return pair(g, OP_MAX, put_index(g, least), v);
}

// The number of iterations, as an index.
static Instr *iterations(Grad *g, const Instr *loop) {
  Instr *to = copied(g, loop->args[1]);
  const Instr *least =
      to->op == OP_ADD && to->args[1]->op == OP_CONST && to->args[1]->ival >= 0 ? to->args[0] : to;
  if (least->op == OP_SIZE && ir_is_const(loop->args[0], 0)) return to;
  return at_least(g, 0, pair(g, OP_SUB, to, copied(g, loop->args[0])));
}

// The extent of an index that is made at no place.
static Dim extent_of(Grad *g, Instr *(*make)(Grad *, const void *), const void *of) {
  Region scratch = {0}, *outer = g->out;
  g->out = &scratch;
  const Instr *v = make(g, of);
  g->out = outer;
  return extent_named(g, v);
}

static Instr *make_count(Grad *g, const void *loop) { return iterations(g, loop); }

static bool is_size(const Kernel *k, const char *name) {
  for (int i = 0; i < k->sizes.count; i++)
    if (k->sizes.at[i].name == name) return true;
  return ir_operand(k, name) >= 0;
}

static Dim new_size(Grad *g, const char *base) {
  const char *name = intern(base);
  for (int i = 2; is_size(g->k, name); i++) name = intern_printf("%s%d", base, i);
  LIST_PUSH(g->arena, &g->k->sizes, ((Size){.name = name, .span = g->span}));
  return dim_of_size(g->k->sizes.count - 1);
}

static Segments *new_segments(Grad *g, const Instr *loop) {
  Segments *s = NEW(g->arena, Segments);
  s->steps = new_size(g, "segment");
  s->segments = new_size(g, "segments");
  s->count = extent_of(g, make_count, loop);
  LIST_PUSH(g->arena, &g->segments, s);
  return s;
}

// A var that begins with zeros.
static Ref *new_var(Grad *g, const char *before, const char *name, Type type) {
  Region start = {0}, *outer = g->out;
  Ref *ref = new_state(g, arena_printf(g->arena, "%s%s", before, name), type);
  g->out = &start;
  put_store(g, ref, type.dtype == DT_BOOL ? put_truth(g, false, type) : put_zero(g, type));
  g->out = outer;
  insert_first(g, g->top, &start);
  return ref;
}

static Type slots(Dim count, Type type) {
  Type all = {.dtype = type.dtype, .rank = type.rank + 1, .dim = {count}};
  for (int i = 0; i < type.rank; i++) all.dim[i + 1] = type.dim[i];
  return all;
}

static void new_vars(Again *a) {
  Grad *g = a->g;
  const Dim kept = dim_plus(g, a->of->segments, -1);
  for (int i = 0; i < a->vars.count; i++) {
    const Ref *ref = g->k->states.at[i];
    const bool carries = a->vars.read[i] && a->vars.stored[i] && !a->vars.own[i];
    if (a->vars.stored[i]) a->by[i] = new_var(g, "again_", ref->name, ref->type);
    if (carries) {
      a->kept[i] = new_var(g, TAPE_PREFIX "before_", ref->name, slots(kept, ref->type));
      LIST_PUSH(g->arena, &a->of->checkpoints, a->kept[i]);
    } else if (a->vars.read[i] && !a->vars.stored[i] && a->vars.later[i]) {
      a->by[i] = new_var(g, TAPE_PREFIX, ref->name, ref->type);
    }
  }
}

// Before the loop: what is stored again after it.
static void keep_others(Again *a) {
  Grad *g = a->g;
  Region added = {0}, *outer = g->out;
  const Region old = *g->top;
  g->out = &added;
  for (int i = 0; i < a->vars.count; i++)
    if (a->by[i] && !a->vars.stored[i]) put_store(g, a->by[i], put_load(g, g->k->states.at[i]));
  g->out = outer;
  g->top->instrs.at = NULL;
  g->top->instrs.count = g->top->instrs.capacity = 0;
  for (int i = 0; i < old.instrs.count; i++) {
    for (int j = 0; old.instrs.at[i] == a->loop && j < added.instrs.count; j++)
      ir_append(g->k, g->top, added.instrs.at[j]);
    ir_append(g->k, g->top, old.instrs.at[i]);
  }
}

static Instr *put_if(Grad *g, Instr *condition, Region *body) {
  Instr *v = put(g, OP_IF, no_type, 1, condition);
  v->regions[0] = body;
  return v;
}

// At the start of an iteration: the vars before a segment that is computed again.
static void keep_vars(Again *a) {
  Grad *g = a->g;
  Region added = {0}, *outer = g->out, *forth = a->loop->regions[0], *body = ir_region(g->k);
  g->out = &added;
  Instr *steps = put_extent(g, a->of->steps);
  Instr *done = pair(g, OP_SUB, forth->arg, copied(g, a->loop->args[0]));
  Instr *at = pair(g, OP_DIV, done, steps);
  a->of->forth = pair(g, OP_REM, done, steps);
  Instr *first = put_test(g, OP_EQ, a->of->forth, put_index(g, 0));
  Instr *last = pair(g, OP_SUB, put_extent(g, a->of->segments), put_index(g, 1));
  Instr *condition = put_pair(g, OP_AND, first, put_test(g, OP_LT, at, last));
  g->out = body;
  for (int i = 0; i < a->vars.count; i++)
    if (a->kept[i])
      access_slot(g, a->kept[i], &at, g->k->states.at[i]->type, put_load(g, g->k->states.at[i]));
  g->out = &added;
  a->keeps = put_if(g, condition, body);
  g->out = outer;
  insert_first(g, forth, &added);
}

// ---- an iteration again

static Instr *put_loop(Grad *g, Instr *count, Region *body) {
  Instr *v = put(g, OP_FOR, no_type, 2, put_index(g, 0), count);
  v->regions[0] = body;
  return v;
}

static Region *loop_body(Grad *g) {
  Region *body = ir_region(g->k);
  body->arg = ir_new(g->k, OP_ARG, type_scalar(DT_I64), g->span, 0, NULL);
  return body;
}

// The vars before the segment, and its iterations without their gradients.
static Region *compute_segment(Again *a) {
  Grad *g = a->g;
  Region *outer = g->out, *body = ir_region(g->k), *turn = loop_body(g);
  g->out = body;
  for (int i = 0; i < a->vars.count; i++) {
    const Type type = g->k->states.at[i]->type;
    if (a->kept[i]) put_store(g, a->by[i], access_slot(g, a->kept[i], &a->at, type, NULL));
  }
  const Copies copies = {NEW_ARRAY(g->arena, Instr *, g->k->next_id), a->keeps, a->by,
                         a->vars.count};
  g->out = turn;
  copies.image[a->loop->regions[0]->arg->id] = pair(g, OP_ADD, a->first, turn->arg);
  copies.image[a->of->forth->id] = turn->arg;
  copy_region(g, a->loop->regions[0], &copies);
  g->out = body;
  put_loop(g, a->count, turn);
  g->out = outer;
  return body;
}

Again *begin_segments(Grad *g, Instr *loop) {
  const int room = g->k->states.count + 1;
  Again *a = NEW(g->arena, Again);
  *a = (Again){.g = g,
               .loop = loop,
               .of = new_segments(g, loop),
               .vars = vars_of(g, loop),
               .by = NEW_ARRAY(g->arena, Ref *, room),
               .kept = NEW_ARRAY(g->arena, Ref *, room),
               .outer = g->out,
               .body = loop_body(g),
               .turn = loop_body(g)};
  new_vars(a);
  keep_others(a);
  keep_vars(a);
  Instr *one = put_index(g, 1);
  a->segments = put_extent(g, a->of->segments);
  g->out = a->body;
  a->at = pair(g, OP_SUB, pair(g, OP_SUB, a->segments, one), a->body->arg);
  Instr *steps = put_extent(g, a->of->steps), *from = copied(g, loop->args[0]);
  Instr *done = pair(g, OP_MUL, a->at, steps);
  a->count = pair(g, OP_MIN, steps, pair(g, OP_SUB, put_extent(g, a->of->count), done));
  a->first = pair(g, OP_ADD, done, from);
  g->out = a->turn;
  a->of->back = pair(g, OP_SUB, pair(g, OP_SUB, a->count, one), a->turn->arg);
  g->image[loop->regions[0]->arg->id] = pair(g, OP_ADD, a->first, a->of->back);
  a->enclosing = (Enclosing){NULL, loop, a->of};
  g->enclosing = &a->enclosing;
  return a;
}

void end_segments(Again *a) {
  Grad *g = a->g;
  g->enclosing = NULL;
  g->out = a->body;
  Region *again = compute_segment(a);
  put_if(g, put_test(g, OP_GT, a->body->arg, put_index(g, 0)), again);
  put_loop(g, a->count, a->turn);
  g->out = a->outer;
  put_loop(g, a->segments, a->body);
}

// ---- the lengths of segments

// The bytes of parts of vars, as multiples of sizes.
typedef struct {
  Type shape;  // of the sizes alone
  int64_t bytes;
} Bytes;
typedef struct {
  LIST(Bytes) terms;
} Parts;

// Adds the bytes of the var without its first axis.
static void add_part(Grad *g, Parts *parts, const Ref *ref) {
  Bytes term = {.bytes = (dtype_info[ref->type.dtype].bits + 7) / 8};
  if (ref->id < 0 || !ref->type.rank) return;
  for (int i = 1; i < ref->type.rank; i++) {
    const Dim dim = ref->type.dim[i];
    if (dim_is_const(dim))
      term.bytes *= dim;
    else
      term.shape.dim[term.shape.rank++] = dim;
  }
  for (int i = 0; i < parts->terms.count; i++)
    if (type_same_shape(&parts->terms.at[i].shape, &term.shape)) {
      parts->terms.at[i].bytes += term.bytes;
      return;
    }
  LIST_PUSH(g->arena, &parts->terms, term);
}

// NULL: there are none.
static Instr *bytes_of(Grad *g, const Parts *parts) {
  Instr *sum = NULL;
  for (int i = 0; i < parts->terms.count; i++) {
    const Bytes *term = &parts->terms.at[i];
    Instr *v = put_index(g, term->bytes);
    for (int n = 0; n < term->shape.rank; n++)
      v = pair(g, OP_MUL, v, put_extent(g, term->shape.dim[n]));
    sum = sum ? pair(g, OP_ADD, sum, v) : v;
  }
  return sum;
}

// All iterations if their bytes fit, otherwise the number for which the bytes of a segment and of
// the checkpoints are the fewest that hold the most iterations: half of the memory for either.
static Instr *steps_of(Grad *g, const Segments *s) {
  Parts values = {0}, vars = {0};
  for (int i = 0; i < g->tapes.count; i++) {
    const Type *type = &g->tapes.at[i]->type;
    if (type->rank && type->dim[0] == s->steps) add_part(g, &values, g->tapes.at[i]);
  }
  for (int i = 0; i < s->checkpoints.count; i++) add_part(g, &vars, s->checkpoints.at[i]);
  Instr *tape = bytes_of(g, &values), *kept = bytes_of(g, &vars);
  Instr *count = put_extent(g, s->count), *all = at_least(g, 1, count);
  if (!tape) return all;
  Instr *room = put_index(g, g->options->memory / g->segments.count);
  Instr *fits = put_test(g, OP_LE, pair(g, OP_MUL, tape, count), room);
  Instr *most = kept ? pair(g, OP_ADD, room, kept) : room;
  Instr *bytes = at_least(g, 1, tape);
  if (kept) bytes = pair(g, OP_MUL, put_index(g, 2), bytes);
  Instr *steps = at_least(g, 1, pair(g, OP_MIN, count, pair(g, OP_DIV, most, bytes)));
  return put_choice(g, fits, all, steps);
}

// The number of segments: one, even without iterations.
static Instr *segments_of(Grad *g, const Segments *s) {
  Instr *steps = put_extent(g, s->steps), *more = pair(g, OP_SUB, steps, put_index(g, 1));
  Instr *count = pair(g, OP_ADD, put_extent(g, s->count), more);
  return at_least(g, 1, pair(g, OP_DIV, count, steps));
}

// The requirement that determines a size.
static void require_size(Grad *g, Dim dim, Instr *(*make)(Grad *, const Segments *),
                         const Segments *s) {
  Region *outer = g->out, *condition = g->out = ir_region(g->k);
  Instr *test = put_test(g, OP_EQ, put_extent(g, dim), make(g, s));
  put(g, OP_YIELD, no_type, 1, test);
  g->out = outer;
  LIST_PUSH(g->arena, &g->k->requires, ((Requirement){.span = g->k->span, .condition = condition}));
}

void choose_segments(Grad *g) {
  for (int i = 0; i < g->segments.count; i++) {
    require_size(g, g->segments.at[i]->steps, steps_of, g->segments.at[i]);
    require_size(g, g->segments.at[i]->segments, segments_of, g->segments.at[i]);
  }
}
