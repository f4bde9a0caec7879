// Work that a loop takes over from its neighbours after the groups are formed: sums that a dot adds
// to its accumulator, stores or starts from zero, vectors that are computed where they are read,
// and results that are written to their destination directly.
#include "codegen/ir/rewrite.h"
#include "codegen/loops/loops.h"

#include <math.h>

// Does v store to the ref of `store`, before it and after `load`, if there is a load?
static bool stores_before(const Instr *v, const Instr *load, const Instr *store) {
  return v->op == OP_STORE && v->ref == store->ref &&
         (!load || val(v)->position > val(load)->position) &&
         val(v)->position < val(store)->position;
}

static bool store_moves_past(const Instr *v, int step, int dot, const Instr *load,
                             const Instr *store) {
  return stores_before(v, load, store) || (step >= dot && stores_before(v, NULL, store));
}

// Between load and store, does anything write their ref, or does anything after step `dot`, when
// the sum would already be there, read or write it?
static bool looks_on(const Group *group, int dot, const Instr *add, const Instr *load,
                     const Instr *store) {
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (is_dot(step) && s >= dot && instr_reads(step->product.dot, store->ref) &&
        val(step->product.dot)->position < val(store)->position)
      return true;
    for (int m = 0; m < step->members.count; m++) {
      const Instr *v = step->members.at[m];
      bool early = s > dot && v != add && instr_reads(v, store->ref) &&
                   val(v)->position < val(store)->position;
      if (early || store_moves_past(v, s, dot, load, store)) return true;
    }
  }
  for (int i = 0; i < group->scalars.count; i++) {
    const Instr *v = group->scalars.at[i];
    bool early = val(v)->after >= dot && instr_reads(v, store->ref) &&
                 val(v)->position < val(store)->position;
    if (early || store_moves_past(v, val(v)->after, dot, load, store)) return true;
  }
  return false;
}

// If nothing else reads the sum, `acc = acc + dot(..)` becomes an accumulation: the micro-kernel
// adds into acc itself.
static void absorb_accumulation(Gen *g, Group *group, Step *step) {
  Instr *dot = step->product.dot;
  if (val(dot)->users.count != 1) return;
  Instr *add = val(dot)->users.at[0];
  if (add->op != OP_ADD || val(add)->group != group || val(add)->users.count != 1) return;
  Instr *other = add->args[add->args[0] == dot], *store = val(add)->users.at[0];
  if (other->op != OP_LOAD || store->op != OP_STORE || other->ref != store->ref ||
      val(store)->group != group)
    return;
  if (!ir_window_is_full(other) || !ir_window_is_full(store) || ir_mask(store) ||
      val(other)->users.count != 1)
    return;
  if (val(other)->snapshot || looks_on(group, val(dot)->step, add, other, store)) return;
  const RefGen *r = &g->refs[store->ref->id];
  if (r->form == FORM_DIRECT || (r->element != DT_F32 && r->element != DT_I32) ||
      store->ref->type.rank != 2)
    return;
  step->product.into = store;
  take_out(group, add);
  take_out(group, store);
}

// If nothing else reads the result, the micro-kernel of `o = dot(..)` stores into o itself.
static void absorb_store(Gen *g, Group *group, Step *step) {
  const Instr *dot = step->product.dot;
  if (step->product.into || val(dot)->users.count != 1) return;
  Instr *store = val(dot)->users.at[0];
  if (store->op != OP_STORE || val(store)->group != group || !ir_window_is_full(store) ||
      ir_mask(store))
    return;
  if (ir_store_value(store) != dot || val(store)->demand[1] != step->demand) return;
  const RefGen *r = &g->refs[store->ref->id];
  if (store->ref->type.rank != 2 || (r->element != DT_F32 && r->element != DT_I32)) return;
  if (looks_on(group, val(dot)->step, NULL, dot, store)) return;
  step->product.into = store;
  step->product.set = true;
  take_out(group, store);
}

// ---- a vector that only later steps of the same columns read is computed there, and need not be
// stored

static int first_use(const Group *group, const Instr *v, const Step *home) {
  int first = INT32_MAX;
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    const Val *info = val(user);
    if (info->group != group || user->op == OP_DOT ||
        (is_row_scalar(user) && op_info[user->op].class != OPC_REDUCE))
      return -1;
    if (is_transparent(user)) return -1;
    const Step *step = &group->steps.at[info->step];
    if (is_dot(step) || step->columns != home->columns || step->demand != home->demand) return -1;
    if (info->step < first) first = info->step;
  }
  return first == INT32_MAX ? -1 : first;
}

// Would reading its operands in step `to` instead still read the same memory?
static bool reads_survive(const Group *group, const Instr *v, int to) {
  for (int i = 0; i < v->nargs; i++) {
    const Instr *arg = v->args[i];
    while ((arg->op == OP_BROADCAST || arg->op == OP_CAST) && is_transparent(arg))
      arg = arg->args[0];
    if (arg->op != OP_LOAD || !is_transparent(arg)) continue;
    for (int s = val(v)->step; s < to; s++) {
      if (group->steps.at[s].product.into && group->steps.at[s].product.into->ref == arg->ref)
        return false;
      for (int m = 0; m < group->steps.at[s].members.count; m++)
        if (group->steps.at[s].members.at[m]->op == OP_STORE &&
            group->steps.at[s].members.at[m]->ref == arg->ref)
          return false;
    }
    for (int m = 0; m < group->scalars.count; m++)
      if (group->scalars.at[m]->op == OP_STORE && group->scalars.at[m]->ref == arg->ref)
        return false;
  }
  return true;
}

static void move_member(Gen *g, Group *group, int from, int at, int to) {
  Step *source = &group->steps.at[from], *target = &group->steps.at[to];
  Instr *v = source->members.at[at];
  for (int m = at; m + 1 < source->members.count; m++)
    source->members.at[m] = source->members.at[m + 1];
  source->members.count--;
  LIST_PUSH(g->arena, &target->members, v);
  int place = target->members.count - 1;
  while (place > 0 && val(target->members.at[place - 1])->position > val(v)->position) {
    target->members.at[place] = target->members.at[place - 1];
    place--;
  }
  target->members.at[place] = v;
  val(v)->step = to;
}

static void sink_members(Gen *g, Group *group) {
  for (int s = group->steps.count - 1; s >= 0; s--)
    for (int m = group->steps.at[s].members.count - 1; m >= 0; m--) {
      const Instr *v = group->steps.at[s].members.at[m];
      if (!op_is_elementwise(v->op) || val(v)->snapshot) continue;
      int to = first_use(group, v, &group->steps.at[s]);
      if (to > s && reads_survive(group, v, to)) move_member(g, group, s, m, to);
    }
}

// ---- `when first { acc = 0; }` just before `acc += dot(..)`: the micro-kernel starts its sums at
// zero then

static bool is_zero(const Instr *v) {
  const Instr *c = ir_filling(v);
  return c && (is_float(c->type.dtype) ? c->fval == 0 && !signbit(c->fval) : c->ival == 0);
}

typedef struct {
  const Ref *ref;
  int found;
} RefCount;

static void count_access(Instr *v, void *context) {
  RefCount *count = context;
  if ((v->op == OP_STORE || v->op == OP_LOAD) && v->ref == count->ref) count->found++;
  if (op_starts_copy(v->op) && (v->ref == count->ref || v->target == count->ref)) count->found++;
}

static int accesses(Instr *v, const Ref *ref) {
  RefCount count = {ref, 0};
  count_access(v, &count);
  for (int r = 0; r < 2; r++)
    if (v->regions[r]) ir_walk(v->regions[r], count_access, &count);
  return count.found;
}

// The index of the region's only access of the ref, if it sets the whole ref to zero; else -1.
static int find_clear(Region *region, const Ref *ref) {
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (!accesses(v, ref)) continue;
    return v->op == OP_STORE && v->ref == ref && ir_window_is_full(v) && !ir_mask(v) &&
                   is_zero(ir_store_value(v))
               ? i
               : -1;
  }
  return -1;
}

static void count_break(Instr *v, void *context) { *(int *)context += v->op == OP_BREAK; }

// May the instructions after v in its region be left out?
static bool may_leave(Instr *v) {
  int breaks = 0;
  count_break(v, &breaks);
  for (int r = 0; r < 2; r++)
    if (v->regions[r]) ir_walk(v->regions[r], count_break, &breaks);
  return breaks > 0;
}

// The value to which an accumulating step adds its sums.
const Instr *added_to(const Step *step) {
  const Instr *add = ir_store_value(step->product.into);
  return add->args[add->args[0] == step->product.dot];
}

// Removes a store from the program.
static void forget_store(Gen *g, const Instr *store) {
  RefGen *r = &g->refs[store->ref->id];
  int kept = 0;
  for (int i = 0; i < r->writers.count; i++)
    if (r->writers.at[i] != store) r->writers.at[kept++] = r->writers.at[i];
  r->writers.count = kept;
}

static void absorb_clear(Gen *g, Region *region, Step *step) {
  const Ref *ref = step->product.into->ref;
  for (int i = region->instrs.count - 1; i >= 0; i--) {
    Instr *v = region->instrs.at[i];
    bool later = val(v)->position > val(step->product.into)->position,
         own = v->op != OP_IF && val(v)->position >= val(step->product.into)->position;
    if (later || own || v == added_to(step)) continue;
    if (may_leave(v)) return;
    int found = accesses(v, ref);
    if (!found) continue;
    if (found != 1 || v->op != OP_IF || has_result(v)) return;
    int at = find_clear(v->regions[0], ref);
    if (at < 0) return;
    step->product.fresh = v->args[0];
    Region *arm = v->regions[0];
    forget_store(g, arm->instrs.at[at]);
    ir_remove(arm, at);
    return;
  }
}

// ---- `when last { o = acc; }` right after them: the last sums are written to o instead of acc,
// which nothing reads any more

int sequential_axis(const Gen *g) {
  int axis = g->k->grid.count - 1;
  while (axis >= 0 && g->k->grid.at[axis].parallel) axis--;
  return axis;
}

bool is_end_step(const Gen *g, const Instr *condition, bool last) {
  const int axis = sequential_axis(g);
  if (axis < 0 || condition->op != OP_EQ) return false;
  const Instr *a = condition->args[0], *b = condition->args[1];
  if (b->op == OP_AXIS) {
    const Instr *other = a;
    a = b;
    b = other;
  }
  if (a->op != OP_AXIS || a->ival != axis) return false;
  if (!last) return b->op == OP_CONST && b->ival == 0;
  return b->op == OP_SUB && b->args[0]->op == OP_EXTENT && b->args[0]->ival == axis &&
         b->args[1]->op == OP_CONST && b->args[1]->ival == 1;
}

static Instr *find_copy(Gen *g, Region *arm, const Ref *ref, const Step *step) {
  for (int i = 0; i < arm->instrs.count; i++) {
    Instr *v = arm->instrs.at[i];
    if (v->op != OP_STORE || ir_store_value(v)->op != OP_LOAD || ir_store_value(v)->ref != ref)
      continue;
    const Instr *load = ir_store_value(v);
    const RefGen *r = &g->refs[v->ref->id];
    bool whole = ir_window_is_full(v) && !ir_mask(v) && ir_window_is_full(load) &&
                 val(load)->users.count == 1;
    bool alone = r->form == FORM_DIRECT && r->stores == 1 && !r->loaded && v->ref->type.rank == 2 &&
                 r->element == load->type.dtype;
    bool wanted = val(v)->demand[1] == step->demand &&
                  val(v)->demand[0] == val(step->product.into)->demand[0];
    return whole && alone && wanted ? v : NULL;
  }
  return NULL;
}

// Lets the last product write its sums to the output itself, instead of to scratch that is copied
// later.
static void absorb_result(Gen *g, const Group *group, Step *step) {
  const Ref *ref = step->product.into->ref;
  if (!step->product.fresh || !is_end_step(g, step->product.fresh, false) || ref_is_operand(ref))
    return;
  RefCount all = {ref, 0};
  ir_walk(g->k->body, count_access, &all);
  if (all.found != 3) return;
  for (int i = 0; i < group->region->instrs.count; i++) {
    Instr *v = group->region->instrs.at[i];
    if (val(v)->position < val(step->product.into)->position) continue;
    if (may_leave(v)) return;
    if (v->op != OP_IF || has_result(v) || !is_end_step(g, v->args[0], true)) continue;
    const Group *known = val(v->args[0])->group;
    Instr *store = find_copy(g, v->regions[0], ref, step);
    if (!store || !known || known->region != group->region || known->index > group->index) continue;
    step->product.result = store;
    step->product.last = v->args[0];
    Region *arm = v->regions[0];
    forget_store(g, store);
    for (int j = arm->instrs.count - 1; j >= 0; j--)
      if (arm->instrs.at[j] == store || arm->instrs.at[j] == ir_store_value(store))
        ir_remove(arm, j);
    return;
  }
}

void finish_group(Gen *g, Group *group) {
  for (int s = 0; s < group->steps.count; s++) {
    Step *step = &group->steps.at[s];
    if (!is_dot(step)) continue;
    continue_sum(g, group, step);
    if (!step->product.onto) absorb_accumulation(g, group, step);
    if (step->product.into) absorb_clear(g, group->region, step);
    if (step->product.into) absorb_result(g, group, step);
    absorb_store(g, group, step);
  }
  sink_members(g, group);
}

// ---- elementwise operations whose only users are stores write to the window themselves

static bool leaves_between(const Instr *from, const Instr *to) {
  const Region *region = val(from)->region;
  for (int i = 0; i < region->instrs.count; i++) {
    Instr *v = region->instrs.at[i];
    if (val(v)->position > val(from)->position && val(v)->position < val(to)->position &&
        may_leave(v))
      return true;
  }
  return false;
}

// A value that is only read by a reshape which adds or drops axes of 1 is stored as that.
// Its lanes must stay adjacent: the rows of an operand may have gaps.
static const Instr *stored_as(const Instr *v) {
  const Instr *user = val(v)->users.count == 1 ? val(v)->users.at[0] : v;
  const Type *t = &v->type, *as = &user->type;
  if (!ir_moves_unit_axes(user) || !is_transparent(user)) return v;
  bool side_by_side = t->rank == 0 || t->dim[t->rank - 1] == 1 ||
                      (as->rank > 0 && as->dim[as->rank - 1] == t->dim[t->rank - 1]);
  return side_by_side ? user : v;
}

// Products by panels write whole panels.
static bool writes_past_rows(const Instr *v) { return v->op == OP_DOT && product_shape(v).plain; }

typedef struct {
  const Instr *store;
  bool found;
} ReadSearch;

static void find_read_before(Instr *v, void *context) {
  ReadSearch *search = context;
  const Ref *ref = search->store->ref;
  const bool reads = (v->op == OP_LOAD && v->ref == ref) ||
                     (op_starts_copy(v->op) && (v->ref == ref || v->target == ref));
  search->found |= reads && val(v)->position < val(search->store)->position;
}

// May anything read the ref of a store between two of its values? In program order nothing before
// the store reads it, and no other operand or device has its memory.
static bool is_read_before(Gen *g, const Instr *store) {
  ReadSearch search = {store, ref_is_operand(store->ref) || g->refs[store->ref->id].reached};
  ir_walk(g->k->body, find_read_before, &search);
  return search.found;
}

static Instr *only_store(Gen *g, const Instr *v) {
  const Instr *stored = stored_as(v);
  if (writes_past_rows(v) || val(v)->users.count != 1 || val(stored)->users.count != 1) return NULL;
  if (op_info[v->op].class == OPC_SCAN && val(v)->demand[v->ival] != DEMAND_FULL)
    return NULL;  // such moves write whole lines
  Instr *store = val(stored)->users.at[0];
  bool plain = store->op == OP_STORE && ir_store_value(store) == stored &&
               ir_window_is_full(store) && !ir_mask(store);
  if (!plain || val(store)->region != val(v)->region || !val(store)->group ||
      val(store)->group->kind != GROUP_ROWS)
    return NULL;
  const RefGen *r = &g->refs[store->ref->id];
  bool early =
      r->stores == 1 && !leaves_between(v, store) && (!r->loaded || !is_read_before(g, store));
  return early ? store : NULL;
}

void store_at_once(Gen *g, Group *generic) {
  if (!has_result(generic->instr)) return;
  const Instr *store = only_store(g, generic->instr);
  if (!store) return;
  val(generic->instr)->stored_by = store;
  take_out(val(store)->group, store);
}
