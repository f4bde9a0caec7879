// A region as groups of loops.
//
// A group runs over rows (all axes except the last). Inside a row it runs a sequence of steps:
// dots, and column loops that compute vectors, reduce them to row scalars and store. An operation
// joins a group if its row r needs only row r of what the group computes; nothing is written to
// memory between the operations of one step. The order of effects on each ref is preserved: a load
// is evaluated where its value is used; if its ref changes before that, its value is copied at the
// load's position.
#include "codegen/loops/loops.h"

#include <string.h>

// Stores of a group to one ref, and their combined extent along each axis, if known.
typedef struct {
  LIST(const Instr *) stores;
  int64_t first[MAX_RANK], end[MAX_RANK];
  bool known[MAX_RANK];
  bool same;  // all have the same window
} Stored;

// The last members of a group that access a ref, and when its contents are available afterwards.
typedef struct {
  const Group *group;  // NULL: a free slot
  int ref;
  Stored *by;               // its stores, or NULL: none
  int stored;               // the step from which on it may be read; 0: no member stores to it
  int member, dot, scalar;  // step of the last vector and dot that read it, -1: none; after which
                            // step the last scalar does, -2: none
} Touch;

typedef struct {
  Touch *at;  // a hash table
  int count, capacity;
} TouchTable;

typedef struct {
  Gen *g;
  Schedule *s;
  Region *region;
  int hoisted;      // scalars that depend on no group come before the groups, in this order
  int *last_store;  // by Ref.id: index of the last group that stores to it, -1: none
  int *last_read;   // by Ref.id: index of the last group that reads it
  const Instr *
      *last_window;  // by Ref.id: a read of that group, if all its reads have this window; or NULL
  int *last_skewed;  // by Ref.id: the last group that reads in one row elements that a store may
                     // write in another
  int *last_open;  // by Ref.id: the last group that stores to a window that may leave the ref, and
                   // so in one row or column what belongs to another
  TouchTable touches;
} Scheduler;

// ---- what an instruction depends on

typedef struct {
  int at;
  bool strict;
} Need;  // run in group `at` or later; strict: later

static void need_group(Need *n, int group, bool strict) {
  if (group > n->at)
    *n = (Need){group, strict};
  else if (group == n->at && strict)
    n->strict = true;
}

static void mark_read(Scheduler *d, const Instr *load, int group, bool aligned) {
  int ref = load->ref->id;
  const Instr **window = &d->last_window[ref];
  if (d->last_read[ref] < group)
    *window = load;
  else if (d->last_read[ref] == group && *window && !windows_are_same(*window, load))
    *window = NULL;
  if (d->last_read[ref] < group) d->last_read[ref] = group;
  if (!aligned && d->last_skewed[ref] < group) d->last_skewed[ref] = group;
}

static void mark_reads(Scheduler *d, const Instr *arg, int group, bool aligned) {
  if (arg->op == OP_LOAD && (is_transparent(arg) || val(arg)->group == NULL))
    mark_read(d, arg, group, aligned);
  if (!is_transparent(arg) && !feeds_only_dots(arg)) return;
  aligned = aligned && !moves_elements(arg) && !(arg->op == OP_BROADCAST && stretches_rows(arg));
  for (int i = 0; i < arg->nargs; i++) mark_reads(d, arg->args[i], group, aligned);
}

// ---- notes on how the members of a group have used a ref so far

static Touch *slot_of(const TouchTable *t, const Group *group, int ref) {
  size_t at = ((uintptr_t)group / 16 * 31 + (size_t)ref) * 0x9E3779B97F4A7C15u >> 20;
  for (;; at++) {
    Touch *touch = &t->at[at % (size_t)t->capacity];
    if (!touch->group || (touch->group == group && touch->ref == ref)) return touch;
  }
}

static void grow_touches(Scheduler *d) {
  TouchTable old = d->touches;
  d->touches.capacity = old.capacity ? 2 * old.capacity : 64;
  d->touches.at = NEW_ARRAY(d->g->arena, Touch, d->touches.capacity);
  for (int i = 0; i < old.capacity; i++)
    if (old.at[i].group) *slot_of(&d->touches, old.at[i].group, old.at[i].ref) = old.at[i];
}

static Touch *touch_of(Scheduler *d, const Group *group, const Ref *ref) {
  if (2 * d->touches.count >= d->touches.capacity) grow_touches(d);
  Touch *t = slot_of(&d->touches, group, ref->id);
  if (!t->group) {
    *t = (Touch){.group = group, .ref = ref->id, .member = -1, .dot = -1, .scalar = -2};
    d->touches.count++;
  }
  return t;
}

static void note_store(Scheduler *d, Touch *t, const Instr *store) {
  bool new = !t->by;
  if (new) t->by = NEW(d->g->arena, Stored);
  Stored *by = t->by;
  LIST_PUSH(d->g->arena, &by->stores, store);
  by->same = (new || by->same) && windows_are_same(by->stores.at[0], store);
  for (int k = 0; k < store->ref->type.rank; k++) {
    int64_t first = 0, end = 0;
    by->known[k] = window_span(store, k, &first, &end) && (new || by->known[k]);
    if (new || first < by->first[k]) by->first[k] = first;
    if (new || end > by->end[k]) by->end[k] = end;
  }
}

static bool is_past(const Stored *by, const Instr *v) {
  for (int k = 0; k < v->ref->type.rank; k++) {
    int64_t first, end;
    bool known = by->known[k] && window_span(v, k, &first, &end);
    if (known && (end <= by->first[k] || first >= by->end[k])) return true;
  }
  return false;
}

// May a group store to elements that v accesses?
static bool stores_there(Scheduler *d, const Group *group, const Instr *v) {
  enum { MOST_COMPARED = 1024 };  // so that the time is linear in the number of stores
  if (group->kind != GROUP_ROWS) return true;
  const Stored *by = touch_of(d, group, v->ref)->by;
  if (!by || is_past(by, v)) return false;
  for (int i = 0; i < by->stores.count; i++)
    if (i == MOST_COMPARED || !windows_are_apart(by->stores.at[i], v)) return true;
  return false;
}

// Does the group store only to the window of the load, so that row r stores what the load reads in
// row r?
static bool stores_same(Scheduler *d, const Group *group, const Instr *load) {
  if (group->kind != GROUP_ROWS) return false;
  const Stored *by = touch_of(d, group, load->ref)->by;
  return by && by->same && windows_are_same(by->stores.at[0], load);
}

static bool reads_what_is_stored(Scheduler *d, const Instr *load) {
  int last = d->last_store[load->ref->id];
  return ir_window_is_full(load) || (last >= 0 && stores_same(d, d->s->groups.at[last], load));
}

static void need_of_argument(Scheduler *d, Need *n, const Instr *arg, bool aligned) {
  if (arg->op == OP_BROADCAST && is_transparent(arg)) {
    need_of_argument(d, n, arg->args[0], aligned && !stretches_rows(arg));
  } else if (arg->op == OP_CAST && is_transparent(arg)) {
    need_of_argument(d, n, arg->args[0], aligned);
  } else if (moves_elements(arg) && is_transparent(arg)) {
    need_of_argument(d, n, arg->args[0], false);
  } else if (arg->op == OP_LOAD && is_transparent(arg)) {
    need_group(n, d->last_store[arg->ref->id], !(aligned && reads_what_is_stored(d, arg)));
    need_group(n, d->last_open[arg->ref->id], true);
    for (int i = 0; i < arg->nargs; i++) need_of_argument(d, n, arg->args[i], false);
  } else if (val(arg)->group && val(arg)->group->region == d->region) {
    const Group *group = val(arg)->group;
    need_group(n, group->index, !aligned || group->kind != GROUP_ROWS);
  }
}

// The latest group after which an instruction can be placed, and whether it can join that group.
static Need needs(Scheduler *d, const Instr *v) {
  Need n = {-1, false};
  DotShape dot = v->op == OP_DOT ? dot_shape(v) : (DotShape){0};
  if (v->op == OP_DOT && dot.plain) {
    need_of_argument(d, &n, dot.a, reads_left_by_rows(d->g, v));
    need_of_argument(d, &n, dot.b, false);
    return n;
  }
  bool reads_aligned = is_fusable(v) && !moves_elements(v);
  for (int i = first_read(v); i < v->nargs; i++) need_of_argument(d, &n, v->args[i], reads_aligned);
  if (v->op != OP_LOAD && v->op != OP_STORE) return n;
  int ref = v->ref->id, last = d->last_store[ref];
  bool apart = v->op == OP_STORE && last >= 0 && !stores_there(d, d->s->groups.at[last], v);
  need_group(&n, last, !apart && !reads_what_is_stored(d, v));
  need_group(&n, d->last_open[ref], true);
  if (v->op == OP_STORE) {
    const Instr *read = d->last_window[ref];
    need_group(&n, d->last_read[ref], !read || !windows_are_same(read, v));
    need_group(&n, d->last_skewed[ref], true);
  }
  return n;
}

// ---- adding groups

static Group *insert_group(Scheduler *d, GroupKind kind, Instr *instr, int at) {
  Group *group = NEW(d->g->arena, Group);
  group->kind = kind;
  group->instr = instr;
  group->region = d->region;
  LIST_PUSH(d->g->arena, &d->s->groups, group);
  group->index = at;
  if (at == d->s->groups.count - 1) return group;
  for (int i = d->s->groups.count - 1; i > at; i--) d->s->groups.at[i] = d->s->groups.at[i - 1];
  d->s->groups.at[at] = group;
  for (int i = at; i < d->s->groups.count; i++) d->s->groups.at[i]->index = i;
  for (int i = 0; i < d->g->k->refs.count; i++) {
    if (d->last_store[i] >= at) d->last_store[i]++;
    if (d->last_read[i] >= at) d->last_read[i]++;
    if (d->last_skewed[i] >= at) d->last_skewed[i]++;
    if (d->last_open[i] >= at) d->last_open[i]++;
  }
  return group;
}

static void note_effects(Scheduler *d, Instr *v, Group *group) {
  val(v)->group = group;
  bool left = v->op == OP_DOT && dot_shape(v).plain && reads_left_by_rows(d->g, v);
  for (int i = first_read(v); i < v->nargs; i++) {
    bool aligned = v->op == OP_DOT ? left && v->args[i] == dot_shape(v).a : !moves_elements(v);
    mark_reads(d, v->args[i], group->index, aligned);
  }
  if (v->op == OP_LOAD) mark_read(d, v, group->index, true);
  if (v->op != OP_STORE) return;
  int ref = v->ref->id;
  if (d->last_store[ref] < group->index) d->last_store[ref] = group->index;
  if (ir_may_leave(v) && d->last_open[ref] < group->index) d->last_open[ref] = group->index;
}

static void place_alone(Scheduler *d, GroupKind kind, Instr *v) {
  Need n = needs(d, v);
  int at = d->s->groups.count;
  if (kind == GROUP_SCALAR && n.at < d->hoisted && v->op != OP_STORE) at = d->hoisted++;
  note_effects(d, v, insert_group(d, kind, v, at));
}

static void touch_everything(Instr *v, void *context) {
  Scheduler *d = context;
  int last = d->s->groups.count - 1;
  if (v->op == OP_STORE || v->op == OP_FETCH) d->last_store[v->ref->id] = last;
  if (v->op == OP_LOAD || v->op == OP_WRITEBACK) d->last_read[v->ref->id] = last;
}

// Nothing moves across control flow: what precedes it stays before it, what follows stays after it.
static void place_control(Scheduler *d, Instr *v) {
  val(v)->group = insert_group(d, GROUP_CONTROL, v, d->s->groups.count);
  for (int r = 0; r < 2; r++)
    if (v->regions[r]) ir_walk(v->regions[r], touch_everything, d);
  for (int i = 0; i < d->g->k->refs.count && v->op != OP_FETCH && v->op != OP_WRITEBACK; i++)
    d->last_store[i] = d->last_read[i] = d->s->groups.count - 1;
  if (v->op == OP_FETCH || v->op == OP_WRITEBACK) touch_everything(v, d);
  d->hoisted = d->s->groups.count;
}

// ---- joining a group

static bool same_rows(const Group *group, const Instr *v) {
  const Type *t = &loop_shape(v)->type;
  if (group->kind != GROUP_ROWS || group->leads != t->rank - 1) return false;
  for (int i = 0; i < group->leads; i++)
    if (group->lead[i] != t->dim[i] || group->lead_demand[i] != loop_demand(v)[i]) return false;
  return true;
}

static Demand last_demand(const Instr *v) { return val(v)->demand[v->type.rank - 1]; }

// ---- how the members of a group have used a ref so far

static void raise(int *most, int value) {
  if (value > *most) *most = value;
}

static bool is_between(const Instr *v) {
  return is_row_scalar(v) && v->op != OP_DOT && op_info[v->op].class != OPC_REDUCE;
}

static void note_touch(Scheduler *d, const Group *group, const Instr *v, const Instr *load) {
  Touch *t = touch_of(d, group, load->ref);
  if (v->op == OP_DOT)
    raise(&t->dot, val(v)->step);
  else if (is_between(v))
    raise(&t->scalar, val(v)->after);
  else
    raise(&t->member, val(v)->step);
}

static void note_touches(Scheduler *d, const Group *group, const Instr *v) {
  if (v->op == OP_STORE) {
    Touch *t = touch_of(d, group, v->ref);
    raise(&t->stored, is_between(v) ? val(v)->after + 1 : val(v)->step);
    note_store(d, t, v);
  }
  if (v->op == OP_LOAD) note_touch(d, group, v, v);
  for (int i = 0; i < v->nargs; i++) {
    const Instr *load = load_behind(v->args[i]);
    if (load) note_touch(d, group, v, load);
  }
}

static int after_store(Scheduler *d, const Group *group, const Ref *ref) {
  return touch_of(d, group, ref)->stored;
}

// The earliest step in which an argument can be used. Vectors of column steps are known within
// their step, those of dots after it.
static int ready_step(Scheduler *d, const Group *group, const Instr *arg) {
  if ((arg->op == OP_BROADCAST || arg->op == OP_CAST) && is_transparent(arg))
    return ready_step(d, group, arg->args[0]);
  if (arg->op == OP_LOAD && is_transparent(arg)) return after_store(d, group, arg->ref);
  const Val *info = val(arg);
  if (info->group != group) return 0;
  if (is_row_scalar(arg)) return info->after + 1;
  return is_dot(&group->steps.at[info->step]) ? info->step + 1 : info->step;
}

// A store waits for every earlier reader and writer of its ref. A store of row scalars follows
// the loop and the scalars that read the ref; any other store is a member of that loop.
static int store_ready(Scheduler *d, const Group *group, const Instr *store) {
  const Touch *t = touch_of(d, group, store->ref);
  int ready = t->stored, behind = is_row_scalar(store);
  if (t->member >= 0) raise(&ready, t->member + behind);
  if (t->dot >= 0) raise(&ready, t->dot + 1);
  raise(&ready, t->scalar + behind);
  return ready;
}

static int find_step(Gen *g, Group *group, int from, Dim columns, Demand demand) {
  for (int s = from; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (!is_dot(step) && step->columns == columns && step->demand == demand) return s;
  }
  Step step = {.columns = columns, .demand = demand};
  LIST_PUSH(g->arena, &group->steps, step);
  return group->steps.count - 1;
}

static void join_dot(Gen *g, Group *group, Instr *v) {
  Step step = {
      .columns = v->type.dim[v->type.rank - 1], .demand = last_demand(v), .product.dot = v};
  LIST_PUSH(g->arena, &group->steps, step);
  val(v)->step = group->steps.count - 1;
  group->has_dot = true;
}

// Adds an instruction to a group, at the first step in which its operands are available.
static void join(Scheduler *d, Group *group, Instr *v) {
  Gen *g = d->g;
  if (v->op == OP_DOT) {
    join_dot(g, group, v);
    return;
  }
  int ready = v->op == OP_STORE ? store_ready(d, group, v) : 0;
  if (v->op == OP_LOAD) ready = after_store(d, group, v->ref);
  for (int i = 0; i < v->nargs; i++) {
    int r = ready_step(d, group, v->args[i]);
    if (r > ready) ready = r;
  }
  bool reduces = op_info[v->op].class == OPC_REDUCE;
  const Instr *shape = loop_shape(v);
  if (!reduces && is_row_scalar(v)) {
    val(v)->after = ready - 1;
    LIST_PUSH(g->arena, &group->scalars, v);
    return;
  }
  int s = find_step(g, group, ready, shape->type.dim[shape->type.rank - 1],
                    loop_demand(v)[shape->type.rank - 1]);
  LIST_PUSH(g->arena, &group->steps.at[s].members, v);
  val(v)->step = s;
  if (reduces) val(v)->after = s;
}

// The time of a C compiler grows faster than the number of operations in a loop, and a region of
// many operations is one that was unrolled. Its groups are limited: a long group accepts only
// operations that read its values, or are read together with them; the longest accepts none. A
// group with a dot has no limit, because its loops share what is in the cache.
enum { LONG_REGION = 800, LONG_GROUP = 64, LONGEST_GROUP = 192 };

// Does a reader of v read a value of the group too?
static bool is_read_together(const Group *group, const Instr *v) {
  bool found = false;
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    for (int k = 0; k < user->nargs; k++) found |= val(user->args[k])->group == group;
  }
  return found;
}

static bool may_grow(const Scheduler *d, const Group *group, const Instr *v, const Need *n) {
  if (d->region->instrs.count < LONG_REGION) return true;
  int members = group->scalars.count;
  for (int i = 0; i < group->steps.count; i++) members += group->steps.at[i].members.count;
  if (group->has_dot || members < LONG_GROUP) return true;
  return members < LONGEST_GROUP && (n->at == group->index || is_read_together(group, v));
}

static void place_fused(Scheduler *d, Instr *v) {
  const Instr *shape = loop_shape(v);
  Need n = needs(d, v);
  int from = n.strict ? n.at + 1 : n.at;
  Group *group = NULL;
  for (int i = d->s->groups.count - 1; i >= from && i >= 0 && !group; i--)
    if (same_rows(d->s->groups.at[i], v) && may_grow(d, d->s->groups.at[i], v, &n))
      group = d->s->groups.at[i];
  if (!group) {
    group = insert_group(d, GROUP_ROWS, v, d->s->groups.count);
    group->leads = shape->type.rank - 1;
    memcpy(group->lead, shape->type.dim, sizeof group->lead);
    memcpy(group->lead_demand, loop_demand(v), sizeof group->lead_demand);
  }
  join(d, group, v);
  note_touches(d, group, v);
  note_effects(d, v, group);
}

static bool is_empty(const Group *group) {
  if (group->kind != GROUP_ROWS || group->has_dot || group->scalars.count) return false;
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].members.count) return false;
  return true;
}

void drop_empty(Schedule *s) {
  int kept = 0;
  for (int i = 0; i < s->groups.count; i++)
    if (!is_empty(s->groups.at[i])) s->groups.at[kept++] = s->groups.at[i];
  s->groups.count = kept;
  for (int i = 0; i < kept; i++) s->groups.at[i]->index = i;
}

static bool is_control(const Instr *v) {
  return op_info[v->op].class == OPC_CONTROL || v->op == OP_FETCH || v->op == OP_WRITEBACK ||
         op_is_dma(v->op);
}

// Assigns the instructions of a region to groups of loops.
Schedule *schedule_region(Gen *g, Region *region) {
  int refs = g->k->refs.count;
  Scheduler d = {.g = g, .s = NEW(g->arena, Schedule), .region = region};
  d.last_store = NEW_ARRAY(g->arena, int, refs + 1);
  d.last_read = NEW_ARRAY(g->arena, int, refs + 1);
  d.last_window = NEW_ARRAY(g->arena, const Instr *, refs + 1);
  d.last_skewed = NEW_ARRAY(g->arena, int, refs + 1);
  d.last_open = NEW_ARRAY(g->arena, int, refs + 1);
  for (int i = 0; i < refs; i++)
    d.last_store[i] = d.last_read[i] = d.last_skewed[i] = d.last_open[i] = -1;
  mark_snapshots(g, region);
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (is_control(v))
      place_control(&d, v);
    else if (v->op == OP_CONST || v->op == OP_SIZE || v->op == OP_AXIS || v->op == OP_EXTENT ||
             v->op == OP_DEVICE || v->op == OP_ARG)
      continue;
    else if (is_transparent(v) || feeds_only_dots(v))
      continue;
    else if (is_fusable(v))
      place_fused(&d, v);
    else if (is_generic(v))
      place_alone(&d, GROUP_GENERIC, v);
    else
      place_alone(&d, GROUP_SCALAR, v);
  }
  for (int i = 0; i < d.s->groups.count; i++) {
    if (d.s->groups.at[i]->kind == GROUP_ROWS) finish_group(g, d.s->groups.at[i]);
    if (d.s->groups.at[i]->kind == GROUP_GENERIC) store_at_once(g, d.s->groups.at[i]);
  }
  drop_empty(d.s);
  return d.s;
}
