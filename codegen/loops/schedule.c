// A region as groups of loops.
//
// A group runs over rows (all axes but the last). Inside a row it runs a sequence of steps: column
// loops that compute vectors, reduce them to row scalars and store, and dots. Operations join a
// group when row r of them needs only row r of what the group computes; nothing is written to
// memory between the operations of one step. The order of effects on each ref is kept: a load is
// evaluated where its value is used, and one whose ref changes before that is copied where it
// stands.
#include "codegen/loops/loops.h"

#include <string.h>

typedef struct {
  Gen *g;
  Schedule *s;
  Region *region;
  int hoisted;       // scalars that depend on no group stand before the groups, in this order
  int *last_store;   // by Ref.id: index of the last group that stores to it, -1: none
  int *last_read;    // by Ref.id: index of the last group that reads it
  int *last_skewed;  // by Ref.id: .. that reads in one row what a store may write in another
  int *last_open;    // by Ref.id: .. that stores to a window that may leave the ref, and so in one
                     // row or column what belongs to another
} Scheduler;

// ---- kinds of instructions

static bool unit_reshape(const Instr *v) {
  if (v->op != OP_RESHAPE) return false;
  const Type *a = &v->args[0]->type, *b = &v->type;
  int i = 0, j = 0;
  while (i < a->rank || j < b->rank) {
    if (i < a->rank && a->dim[i] == 1)
      i++;
    else if (j < b->rank && b->dim[j] == 1)
      j++;
    else if (i < a->rank && j < b->rank && a->dim[i] == b->dim[j])
      i++, j++;
    else
      return false;
  }
  return true;
}

// A window whose last axis is contiguous in the ref, or a single column.
bool load_is_vector(const Instr *v) {
  int rank = v->ref->type.rank;
  if (v->op == OP_LOAD && v->nargs > rank) return false;
  if (rank == 0) return true;
  const Type *t = v->op == OP_LOAD ? &v->type : &v->args[rank]->type;
  if (t->rank && t->dim[t->rank - 1] == 1) return true;
  return !v->window.squeeze[rank - 1] && v->window.stride[rank - 1] == 1;
}

static bool only_compared_with_index(const Instr *v) {
  if (v->op != OP_CAST || v->type.dtype != DT_I64 || v->args[0]->type.dtype != DT_I32) return false;
  for (int i = 0; i < val(v)->users.count; i++)
    if (!compares_with_index(val(v)->users.at[i])) return false;
  return true;
}

// Evaluated where it is used: costs nothing by itself.
bool is_transparent(const Instr *v) {
  if (val(v)->snapshot) return false;
  switch (v->op) {
    case OP_CONST:
    case OP_IOTA:
    case OP_BROADCAST:
      return true;
    case OP_LOAD:
      return v->type.rank > 0 && load_is_vector(v) && !ir_may_leave(v);
    case OP_RESHAPE:
      return v->type.rank > 0 && unit_reshape(v);
    case OP_CAST:
      return v->type.rank > 0 && only_compared_with_index(v);
    default:
      return false;
  }
}

bool is_row_scalar(const Instr *v) {
  const Type *t = v->op == OP_STORE ? &ir_store_value(v)->type : &v->type;
  return t->rank > 0 && t->dim[t->rank - 1] == 1;
}

static bool reduces_last_axis(const Instr *v) {
  if (op_info[v->op].class != OPC_REDUCE) return false;
  const Instr *x = v->args[0];
  if (x->type.rank == 0 || v->ival != (INT64_C(1) << (x->type.rank - 1)) || x->type.dtype == DT_I64)
    return false;
  bool bits = v->op == OP_REDUCE_AND || v->op == OP_REDUCE_OR || v->op == OP_REDUCE_XOR;
  return !bits || (x->type.dtype == DT_BOOL && v->op != OP_REDUCE_XOR);
}

// cast(x: i32, i64) compared with a scalar: vec.h compares lanes with a 64-bit scalar.
bool compares_with_index(const Instr *v) {
  if (op_info[v->op].class != OPC_COMPARE || v->args[0]->type.dtype != DT_I64) return false;
  const Instr *x = v->args[0], *s = v->args[1];
  return x->op == OP_CAST && x->args[0]->type.dtype == DT_I32 && s->op == OP_BROADCAST &&
         s->args[0]->type.rank == 0;
}

bool has_i64_lanes(const Instr *v) {
  if (v->type.dtype == DT_I64) return true;
  for (int i = 0; i < v->nargs; i++)
    if (v->args[i]->type.dtype == DT_I64 && v->args[i]->type.rank > 0)
      return !compares_with_index(v);
  return false;
}

static bool is_fusable(const Instr *v) {
  if (v->op == OP_STORE)
    return ir_store_value(v)->type.rank > 0 && load_is_vector(v) &&
           ir_store_value(v)->type.dtype != DT_I64;
  if (v->type.rank == 0 || !has_result(v)) return false;
  if (v->op == OP_DOT) return dot_shape(v).plain;
  if (val(v)->snapshot) return v->type.dtype != DT_I64 && (v->op != OP_LOAD || load_is_vector(v));
  if (has_i64_lanes(v)) return false;
  if (v->op == OP_LOAD) return load_is_vector(v);
  return op_is_elementwise(v->op) || reduces_last_axis(v);
}

// The shape a fusable instruction's loops run over.
const Instr *loop_shape(const Instr *v) {
  if (v->op == OP_STORE) return ir_store_value(v);
  return op_info[v->op].class == OPC_REDUCE ? v->args[0] : v;
}

bool feeds_only_dots(const Instr *v) {
  if (v->op != OP_TRANSPOSE || v->type.rank != 2) return false;
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    if (user->op == OP_DOT ? !dot_shape(user).plain : !feeds_only_dots(user)) return false;
  }
  return true;
}

// How far they run: a store may show less of its value than others want of it.
const Demand *loop_demand(const Instr *v) {
  return v->op == OP_STORE ? val(v)->demand : val(loop_shape(v))->demand;
}

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

bool stretches_rows(const Instr *broadcast) {
  const Type *a = &broadcast->args[0]->type, *b = &broadcast->type;
  if (a->rank != b->rank) return true;
  for (int i = 0; i + 1 < a->rank; i++)
    if (a->dim[i] != b->dim[i]) return true;
  return false;
}

static void need_of_argument(Scheduler *d, Need *n, const Instr *arg, bool aligned) {
  if (arg->op == OP_BROADCAST && is_transparent(arg)) {
    need_of_argument(d, n, arg->args[0], aligned && !stretches_rows(arg));
  } else if (arg->op == OP_CAST && is_transparent(arg)) {
    need_of_argument(d, n, arg->args[0], aligned);
  } else if (arg->op == OP_RESHAPE && is_transparent(arg)) {
    need_of_argument(d, n, arg->args[0], false);
  } else if (arg->op == OP_LOAD && is_transparent(arg)) {
    need_group(n, d->last_store[arg->ref->id], !(aligned && ir_window_is_full(arg)));
    need_group(n, d->last_open[arg->ref->id], true);
    for (int i = 0; i < arg->nargs; i++) need_of_argument(d, n, arg->args[i], false);
  } else if (val(arg)->group && val(arg)->group->region == d->region) {
    const Group *group = val(arg)->group;
    need_group(n, group->index, !aligned || group->kind != GROUP_ROWS);
  }
}

static void mark_read(Scheduler *d, const Instr *load, int group, bool aligned) {
  int ref = load->ref->id;
  if (d->last_read[ref] < group) d->last_read[ref] = group;
  if (!(aligned && ir_window_is_full(load)) && d->last_skewed[ref] < group)
    d->last_skewed[ref] = group;
}

static void mark_reads(Scheduler *d, const Instr *arg, int group, bool aligned) {
  if (arg->op == OP_LOAD && (is_transparent(arg) || val(arg)->group == NULL))
    mark_read(d, arg, group, aligned);
  if (!is_transparent(arg) && !feeds_only_dots(arg)) return;
  aligned = aligned && arg->op != OP_RESHAPE && !(arg->op == OP_BROADCAST && stretches_rows(arg));
  for (int i = 0; i < arg->nargs; i++) mark_reads(d, arg->args[i], group, aligned);
}

// Is the left operand read as the loop over rows runs? One that is packed is read before that loop.
bool reads_left_by_rows(Gen *g, const Instr *dot) {
  DotShape s = dot_shape(dot);
  if (s.a_transposed) return false;
  if (s.a->op != OP_LOAD || !is_transparent(s.a)) return true;
  return ir_window_is_full(s.a) &&
         g->refs[s.a->ref->id].element == dot_element(val(dot)->kind, s.a->type.dtype);
}

static Need needs(Scheduler *d, const Instr *v) {
  Need n = {-1, false};
  DotShape dot = v->op == OP_DOT ? dot_shape(v) : (DotShape){0};
  if (v->op == OP_DOT && dot.plain) {
    need_of_argument(d, &n, dot.a, reads_left_by_rows(d->g, v));
    need_of_argument(d, &n, dot.b, false);
    return n;
  }
  for (int i = 0; i < v->nargs; i++) need_of_argument(d, &n, v->args[i], is_fusable(v));
  if (v->op != OP_LOAD && v->op != OP_STORE) return n;
  bool full = ir_window_is_full(v);
  need_group(&n, d->last_store[v->ref->id], !full);
  need_group(&n, d->last_open[v->ref->id], true);
  if (v->op == OP_STORE) {
    need_group(&n, d->last_read[v->ref->id], !full);
    need_group(&n, d->last_skewed[v->ref->id], true);
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
  for (int i = 0; i < v->nargs; i++) mark_reads(d, v->args[i], group->index, true);
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

// Control flow is a wall: everything before it stays before it, everything after it after.
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

static int after_store(const Group *group, const Ref *ref) {
  int ready = 0;
  for (int s = 0; s < group->steps.count; s++)
    for (int m = 0; m < group->steps.at[s].members.count; m++) {
      const Instr *v = group->steps.at[s].members.at[m];
      if (v->op == OP_STORE && v->ref == ref) ready = s;
    }
  for (int i = 0; i < group->scalars.count; i++) {
    const Instr *v = group->scalars.at[i];
    if (v->op == OP_STORE && v->ref == ref && val(v)->after + 1 > ready) ready = val(v)->after + 1;
  }
  return ready;
}

// The earliest step in which an argument can be used. Vectors of column steps are known within
// their step, those of dots after it.
static int ready_step(const Group *group, const Instr *arg) {
  if ((arg->op == OP_BROADCAST || arg->op == OP_CAST) && is_transparent(arg))
    return ready_step(group, arg->args[0]);
  if (arg->op == OP_LOAD && is_transparent(arg)) return after_store(group, arg->ref);
  const Val *info = val(arg);
  if (info->group != group) return 0;
  if (is_row_scalar(arg)) return info->after + 1;
  return group->steps.at[info->step].kind == STEP_DOT ? info->step + 1 : info->step;
}

static bool reads_ref(const Instr *arg, const Ref *ref) {
  if (arg->op == OP_LOAD) return arg->ref == ref;
  if (arg->op == OP_BROADCAST || arg->op == OP_RESHAPE || is_transparent(arg))
    return arg->nargs > 0 && reads_ref(arg->args[0], ref);
  return false;
}

bool instr_reads(const Instr *v, const Ref *ref) {
  for (int i = 0; i < v->nargs; i++)
    if (reads_ref(v->args[i], ref)) return true;
  return v->op == OP_LOAD && v->ref == ref;
}

// A store waits for every earlier reader and writer of its ref. One of row scalars comes after the
// loop that reads, and after the scalars that do; else it is a member of that loop.
static int store_ready(const Group *group, const Instr *store) {
  int ready = after_store(group, store->ref), behind = is_row_scalar(store);
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    for (int m = 0; m < step->members.count; m++)
      if (instr_reads(step->members.at[m], store->ref) && s + behind > ready) ready = s + behind;
    if (step->dot && instr_reads(step->dot, store->ref) && s + 1 > ready) ready = s + 1;
  }
  for (int i = 0; i < group->scalars.count; i++) {
    int after = val(group->scalars.at[i])->after;
    if (instr_reads(group->scalars.at[i], store->ref) && after + behind > ready)
      ready = after + behind;
  }
  return ready;
}

static int find_step(Gen *g, Group *group, int from, Dim columns, Demand demand) {
  for (int s = from; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (step->kind == STEP_COLUMNS && step->columns == columns && step->demand == demand) return s;
  }
  Step step = {.kind = STEP_COLUMNS, .columns = columns, .demand = demand};
  LIST_PUSH(g->arena, &group->steps, step);
  return group->steps.count - 1;
}

static void join_dot(Gen *g, Group *group, Instr *v) {
  Step step = {.kind = STEP_DOT,
               .columns = v->type.dim[v->type.rank - 1],
               .demand = last_demand(v),
               .dot = v};
  LIST_PUSH(g->arena, &group->steps, step);
  val(v)->step = group->steps.count - 1;
  group->has_dot = true;
}

static void join(Gen *g, Group *group, Instr *v) {
  if (v->op == OP_DOT) {
    join_dot(g, group, v);
    return;
  }
  int ready = v->op == OP_STORE ? store_ready(group, v) : 0;
  if (v->op == OP_LOAD) ready = after_store(group, v->ref);
  for (int i = 0; i < v->nargs; i++) {
    int r = ready_step(group, v->args[i]);
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

static void place_fused(Scheduler *d, Instr *v) {
  const Instr *shape = loop_shape(v);
  Need n = needs(d, v);
  int from = n.strict ? n.at + 1 : n.at;
  Group *group = NULL;
  for (int i = d->s->groups.count - 1; i >= from && i >= 0 && !group; i--)
    if (same_rows(d->s->groups.at[i], v)) group = d->s->groups.at[i];
  if (!group) {
    group = insert_group(d, GROUP_ROWS, v, d->s->groups.count);
    group->leads = shape->type.rank - 1;
    memcpy(group->lead, shape->type.dim, sizeof group->lead);
    memcpy(group->lead_demand, loop_demand(v), sizeof group->lead_demand);
  }
  join(d->g, group, v);
  note_effects(d, v, group);
}

// ---- snapshots: loads whose ref changes between the load and the last use of the value

static int last_use(const Instr *v) {
  int last = val(v)->position;
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    bool passes_on = user->op == OP_BROADCAST || user->op == OP_RESHAPE ||
                     only_compared_with_index(user) || feeds_only_dots(user);
    int at = passes_on ? last_use(user) : val(user)->position;
    if (val(user)->region != val(v)->region && at > last)
      at = INT32_MAX;  // used inside a nested region, perhaps in a loop
    if (at > last) last = at;
  }
  return last;
}

// ---- a store whose value is the bare window of its own ref: read element by element as it is
// written

static bool same_start(const Instr *a, const Instr *b) {
  return a == b || (a->op == OP_CONST && b->op == OP_CONST && a->ival == b->ival);
}

// Where a window starts along an axis, when that is known and all of the window lies inside the
// ref.
static bool known_start(const Instr *access, int axis, int64_t *start) {
  Dim extent = access->ref->type.dim[axis], size = access->window.size[axis];
  const Instr *at = access->args[axis];
  if (at->op != OP_CONST || !dim_is_const(extent) || !dim_is_const(size)) return false;
  *start = at->ival;
  return *start >= 0 && *start + (size - 1) * access->window.stride[axis] < extent;
}

// Is element (i..) of the load's window the one of the store's window, or everywhere the same
// distance behind it in memory? Loops run upwards: each element is read before it is written.
static bool reads_ahead(const Instr *load, const Instr *store) {
  const Window *from = &load->window, *to = &store->window;
  bool ahead = false;
  for (int k = 0; k < load->ref->type.rank; k++) {
    int64_t a, b;
    if (from->size[k] != to->size[k] || from->stride[k] != to->stride[k] ||
        from->squeeze[k] != to->squeeze[k])
      return false;
    if (ahead || same_start(load->args[k], store->args[k])) continue;
    if (!known_start(load, k, &a) || !known_start(store, k, &b) || a < b) return false;
    ahead = true;
  }
  return true;
}

// Are the windows sure to have no element in common?
static bool are_apart(const Instr *load, const Instr *store) {
  for (int k = 0; k < load->ref->type.rank; k++) {
    const Instr *first = load, *second = store;
    int64_t a, b;
    if (!known_start(first, k, &a) || !known_start(second, k, &b)) continue;
    if (a > b) {
      int64_t later = a;
      a = b;
      b = later;
      first = store;
      second = load;
    }
    int64_t step = first->window.stride[k];
    if (a + (first->window.size[k] - 1) * step < b) return true;
    if (step == second->window.stride[k] && (b - a) % step != 0) return true;
  }
  return false;
}

static bool reaches(const Instr *v, const Instr *load) {
  return v == load || (v->nargs && is_transparent(v) && reaches(v->args[0], load));
}

static bool is_bare(const Instr *v, const Instr *load) {
  while (v->op == OP_BROADCAST && type_same_shape(&v->type, &v->args[0]->type)) v = v->args[0];
  return v == load;
}

// Would the store write elements of the load's window before it has read them?
bool store_overtakes(const Instr *store, const Instr *load) {
  if (are_apart(load, store)) return false;
  if (!reads_ahead(load, store)) return true;
  for (int i = store->ref->type.rank; i < store->nargs; i++)
    if (reaches(store->args[i], load) && !is_bare(store->args[i], load)) return true;
  return false;
}

typedef struct {
  const Instr *load;
  int from, to;
  bool found;
} StoreSearch;

static void find_store(Instr *v, void *context) {
  StoreSearch *search = context;
  const Ref *written = v->op == OP_STORE ? v->ref : v->op == OP_COPY_START ? v->target : NULL;
  if (written != search->load->ref || val(v)->position <= search->from ||
      val(v)->position > search->to)
    return;
  if (val(v)->position < search->to || store_overtakes(v, search->load)) search->found = true;
}

static void mark_snapshots(Gen *g, Region *region) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (v->op != OP_LOAD || v->type.rank == 0 || !g->refs[v->ref->id].stored) continue;
    StoreSearch search = {v, val(v)->position, last_use(v), false};
    ir_walk(g->k->body, find_store, &search);
    val(v)->snapshot = search.found;
  }
}

// Operations that are not loops over rows read their operands from memory: what lives nowhere is
// written out first.
static bool is_addressable(const Instr *v) { return !is_transparent(v) || v->op == OP_LOAD; }

static void force(Instr *v) {
  if (v->type.rank > 0 && !is_addressable(v)) val(v)->snapshot = true;
}

static bool is_generic(const Instr *v) {
  if (feeds_only_dots(v)) return false;
  return (has_result(v) || v->op == OP_STORE) && op_info[v->op].class != OPC_CONTROL &&
         !is_transparent(v) && !is_fusable(v) &&
         (v->op == OP_STORE ? ir_store_value(v)->type.rank > 0 : v->type.rank > 0);
}

static void mark_forced(Region *region) {
  for (int i = region->instrs.count - 1; i >= 0; i--) {
    Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) mark_forced(v->regions[r]);
    bool to_scalar =
        v->type.rank == 0 && (v->op == OP_RESHAPE || op_info[v->op].class == OPC_REDUCE ||
                              op_info[v->op].class == OPC_ARGREDUCE || v->op == OP_DOT);
    if (is_generic(v) || v->op == OP_YIELD || to_scalar)
      for (int a = 0; a < v->nargs; a++) force(v->args[a]);
    if (v->op == OP_DOT && dot_shape(v).plain) {
      force(dot_shape(v).a);
      force(dot_shape(v).b);
    }
    if (v->type.rank > 0 && unit_reshape(v)) {
      Instr *from = v->args[0];
      bool turns_rows_to_lanes = from->op == OP_LOAD && is_row_scalar(from) && !is_row_scalar(v);
      if (turns_rows_to_lanes) val(from)->snapshot = true;
      force(from);
    }
  }
}

static bool is_empty(const Group *group) {
  if (group->kind != GROUP_ROWS || group->has_dot || group->scalars.count) return false;
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].members.count) return false;
  return true;
}

static void drop_empty(Schedule *s) {
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

Schedule *schedule_region(Gen *g, Region *region) {
  int refs = g->k->refs.count;
  Scheduler d = {.g = g, .s = NEW(g->arena, Schedule), .region = region};
  d.last_store = NEW_ARRAY(g->arena, int, refs + 1);
  d.last_read = NEW_ARRAY(g->arena, int, refs + 1);
  d.last_skewed = NEW_ARRAY(g->arena, int, refs + 1);
  d.last_open = NEW_ARRAY(g->arena, int, refs + 1);
  for (int i = 0; i < refs; i++)
    d.last_store[i] = d.last_read[i] = d.last_skewed[i] = d.last_open[i] = -1;
  mark_snapshots(g, region);
  mark_forced(region);
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (is_control(v))
      place_control(&d, v);
    else if (v->op == OP_CONST || v->op == OP_SIZE || v->op == OP_AXIS || v->op == OP_EXTENT ||
             v->op == OP_ARG)
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
