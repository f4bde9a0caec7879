// Walks over a reference: finds the values with a gradient, then goes backwards for gradients or
// forwards for tangents.
#include "codegen/grad/algebra.h"

#include <string.h>

// ---- values that depend on the chosen inputs, and values that outputs depend on

typedef struct {
  Grad *g;
  const bool *wrt;
  bool *varies, *useful;  // by id
  bool *cancels;          // by id: no result depends on it
  bool *state_varies, *state_useful;
  bool changed;
} Flow;

static void set(Flow *f, bool *flag) {
  f->changed = f->changed || !*flag;
  *flag = true;
}

static bool any_varies(const Flow *f, const Instr *v) {
  bool any = v->op == OP_ARRAY && f->wrt[v->ref->id];
  if (v->op == OP_LOAD) any = f->state_varies[v->ref->id];
  for (int i = 0; v->op != OP_LOAD && i < v->nargs; i++) any = any || f->varies[v->args[i]->id];
  for (int r = 0; v->op == OP_IF && has_result(v) && r < 2; r++)
    any = any || f->varies[ir_yielded(v->regions[r], 0)->id];
  return any && !f->cancels[v->id] && derivatives[v->op].kind != KIND_NOTHING;
}

static void see_varies(Flow *f, const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    f->g->home[v->id] = (Region *)region;
    for (int r = 0; r < 2; r++) see_varies(f, v->regions[r]);
    if (v->op == OP_STORE && f->varies[ir_store_value(v)->id]) set(f, &f->state_varies[v->ref->id]);
    bool has = has_result(v) && is_float(v->type.dtype);
    if (has && any_varies(f, v)) set(f, &f->varies[v->id]);
  }
}

static void see_useful(Flow *f, const Region *region) {
  for (int i = region ? region->instrs.count - 1 : -1; i >= 0; i--) {
    const Instr *v = region->instrs.at[i];
    bool has = has_result(v) && f->useful[v->id] && derivatives[v->op].kind != KIND_NOTHING;
    has = has && !f->cancels[v->id];
    bool kept = v->op == OP_STORE && f->state_useful[v->ref->id];
    if (v->op == OP_LOAD && has) set(f, &f->state_useful[v->ref->id]);
    if (kept) set(f, &f->useful[ir_store_value(v)->id]);
    for (int a = 0; has && v->op != OP_LOAD && a < v->nargs; a++)
      set(f, &f->useful[v->args[a]->id]);
    for (int r = 0; r < 2; r++) {
      if (has && v->op == OP_IF) set(f, &f->useful[ir_yielded(v->regions[r], 0)->id]);
      see_useful(f, v->regions[r]);
    }
  }
}

// Finds the values that depend on the inputs, and those that results depend on.
static void see_flow(Flow *f, const Instr *yield, int states) {
  memset(f->varies, 0, (size_t)f->g->count * sizeof(bool));
  memset(f->useful, 0, (size_t)f->g->count * sizeof(bool));
  memset(f->state_varies, 0, (size_t)states * sizeof(bool));
  memset(f->state_useful, 0, (size_t)states * sizeof(bool));
  for (int i = 0; i < yield->nargs; i++) f->useful[yield->args[i]->id] = true;
  do {
    f->changed = false;
    see_varies(f, f->g->top);
    see_useful(f, f->g->top);
  } while (f->changed);
}

// Those whose gradients compare or count elements.
static bool is_extreme(Op op) {
  return op == OP_MAX || op == OP_MIN || op == OP_REDUCE_MAX || op == OP_REDUCE_MIN ||
         op == OP_CUMMAX || op == OP_CUMMIN || op == OP_SELECT;
}

// For example, a maximum that is subtracted before an exponential does not change a quotient of
// exponentials.
static void see_extremes(Flow *f, Algebra *a, const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int r = 0; r < 2; r++) see_extremes(f, a, v->regions[r]);
    if (is_extreme(v->op) && f->varies[v->id] && f->useful[v->id])
      f->cancels[v->id] = moves_nothing(a, f->g->count, f->g->top, v);
  }
}

void find_active(Grad *g, const bool *wrt) {
  const int states = g->k->states.count + 1;
  Flow f = {.g = g,
            .wrt = wrt,
            .varies = NEW_ARRAY(g->arena, bool, g->count),
            .useful = NEW_ARRAY(g->arena, bool, g->count),
            .cancels = NEW_ARRAY(g->arena, bool, g->count),
            .state_varies = NEW_ARRAY(g->arena, bool, states),
            .state_useful = NEW_ARRAY(g->arena, bool, states)};
  const Instr *yield = g->top->instrs.at[g->top->instrs.count - 1];
  Algebra a = new_algebra(g->k);
  see_flow(&f, yield, states);
  see_extremes(&f, &a, g->top);
  see_flow(&f, yield, states);
  g->cancels = f.cancels;
  for (int i = 0; i < g->count; i++) g->active[i] = f.varies[i] && f.useful[i];
  for (int i = 0; i < states; i++) g->state_active[i] = f.state_varies[i] && f.state_useful[i];
}

// ---- gradients that loops, choices and parts add to

static const char *name_of_sum(Grad *g, const Instr *v) {
  const char *name = v->op == OP_ARRAY ? v->ref->name : v->text;
  return name ? arena_printf(g->arena, "d%s", name) : "sum";
}

static void see_sums(Grad *g, const Region *region) {
  for (int i = 0; region && i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    for (int a = 0; a < v->nargs; a++) {
      Instr *arg = v->args[a];
      bool apart = g->home[arg->id] != region || (a == 0 && gives_parts(v));
      if (!apart || !g->active[arg->id] || g->sum[arg->id].value) continue;
      g->sum[arg->id] = new_sum(g, name_of_sum(g, arg), arg->type);
    }
    for (int r = 0; r < 2; r++) see_sums(g, v->regions[r]);
  }
}

void find_states(Grad *g) {
  const int states = g->k->states.count;
  for (int i = 0; i < states; i++) {
    const Ref *ref = g->k->states.at[i];
    if (!g->state_active[i]) continue;
    g->state[i] = new_sum(g, arena_printf(g->arena, "d%s", ref->name), ref->type);
  }
}

void find_sums(Grad *g) {
  find_states(g);
  see_sums(g, g->top);
}

// ---- both ways

static bool refuse(Grad *g, const Instr *v, const char *why) {
  diag_error(g->diag, v->span, ERR_NO_DERIVATIVE, "`%s` has no derivative: %s", op_info[v->op].name,
             why);
  return false;
}

// The window of v's var, of a var that has its gradient or tangent, or the mask of it.
static Instr *access(Grad *g, const Instr *v, Ref *ref, Instr *value) {
  Instr *copy = ir_copy(g->k, v);
  const int rank = v->ref->type.rank;
  copy->ref = ref;
  copy->text = NULL;
  for (int i = 0; i < rank; i++) copy->args[i] = value_of(g, v->args[i]);
  Instr **args = NEW_ARRAY(g->arena, Instr *, rank + 1);
  for (int i = 0; i < rank; i++) args[i] = copy->args[i];
  args[rank] = value;
  copy->args = args;
  copy->nargs = rank + (value != NULL);
  copy->op = value ? OP_STORE : OP_LOAD;
  const Type kept = v->op == OP_STORE ? ir_store_value(v)->type : v->type;
  copy->type = value ? (Type){.dtype = DT_COUNT} : type_as(kept, ref->type.dtype);
  return ir_append(g->k, g->out, copy);
}

static Instr *derived_name(Grad *g, const Instr *v, Instr *d) {
  if (d && v->text && !d->text && op_info[d->op].class != OPC_LEAF)
    d->text = arena_printf(g->arena, "d%s", v->text);
  return d;
}

// ---- backwards

Adjoint finished(Grad *g, Instr *v) {
  if (!wants(g, v)) return (Adjoint){0};
  const Sum *sum = &g->sum[v->id];
  if (sum->value) {
    Instr *value = put_load(g, sum->value);
    return (Adjoint){value, sum->full ? NULL : put_load(g, sum->mask), true};
  }
  Adjoint d = g->adjoint[v->id];
  derived_name(g, v, d.value);
  return d;
}

static void reverse_store(Grad *g, Instr *v) {
  if (!g->state_active[v->ref->id]) return;
  if (v->flags & INSTR_MASKED) {
    refuse(g, v, "it is masked");
    return;
  }
  const Sum *sum = &g->state[v->ref->id];
  const Adjoint d = {access(g, v, sum->value, NULL), access(g, v, sum->mask, NULL), true};
  access(g, v, sum->value, put_number(g, 0, d.value->type));
  access(g, v, sum->mask, put_truth(g, false, d.mask->type));
  give(g, ir_store_value(v), d);
}

static void reverse_load(Grad *g, Instr *v, Adjoint d) {
  const Sum *sum = &g->state[v->ref->id];
  Instr *value = settled(g, d), *old = access(g, v, sum->value, NULL), *mask = mask_of(g, d);
  access(g, v, sum->value, put_pair(g, OP_ADD, old, value));
  if (d.mask) mask = put_pair(g, OP_OR, access(g, v, sum->mask, NULL), mask);
  access(g, v, sum->mask, mask);
}

// One iteration of a loop: its values again, and their gradients.
static void reverse_inside(Grad *g, const Region *region) {
  compute_again(g, region);
  start_sums(g, region);
  reverse_region(g, region);
}

// The loop from its last iteration to its first.
static void reverse_for(Grad *g, Instr *v) {
  Region *outer = g->out, *forth = v->regions[0];
  const Enclosing enclosing = {g->enclosing, v, NULL};
  if (has_segments(g, v)) {
    Again *again = begin_segments(g, v);
    reverse_inside(g, forth);
    end_segments(again);
    return;
  }
  Instr *from = value_of(g, v->args[0]), *to = value_of(g, v->args[1]);
  Instr *ends = ir_is_const(from, 0) ? to : put_pair(g, OP_ADD, from, to);
  Region *body = ir_region(g->k);
  body->arg = ir_new(g->k, OP_ARG, type_scalar(DT_I64), g->span, 0, NULL);
  g->out = body;
  g->enclosing = &enclosing;
  Instr *last = put_pair(g, OP_SUB, ends, put_index(g, 1));
  g->image[forth->arg->id] = put_pair(g, OP_SUB, last, body->arg);
  reverse_inside(g, forth);
  g->enclosing = enclosing.around;
  g->out = outer;
  Instr *loop = put(g, OP_FOR, v->type, 2, from, to);
  loop->regions[0] = body;
}

static void reverse_if(Grad *g, Instr *v, Adjoint d) {
  Region *outer = g->out;
  static const Type none = {.dtype = DT_COUNT};
  Instr *choice = ir_new(g->k, OP_IF, none, g->span, 1, (Instr *[]){value_of(g, v->args[0])});
  for (int r = 0; r < 2; r++) {
    Region *forth = v->regions[r];
    if (!forth) continue;
    choice->regions[r] = g->out = ir_region(g->k);
    compute_again(g, forth);
    start_sums(g, forth);
    if (d.value) give(g, ir_yielded(forth, 0), d);
    reverse_region(g, forth);
  }
  g->out = outer;
  ir_append(g->k, g->out, choice);
}

static void reverse_value(Grad *g, Instr *v) {
  const Derivative *row = &derivatives[v->op];
  if (v->op == OP_ARRAY) return;
  Adjoint d = finished(g, v);
  if (!d.value) return;
  if (v->op == OP_LOAD) reverse_load(g, v, d);
  if (v->op == OP_IF) reverse_if(g, v, d);
  if (row->kind == KIND_REFUSED) refuse(g, v, row->why);
  if (row->give) row->give(g, v, d);
  for (int i = 0; row->kind == KIND_SMOOTH && i < v->nargs; i++)
    if (wants(g, v->args[i])) give(g, v->args[i], smooth_term(g, v, i, d));
}

static void reverse_instr(Grad *g, Instr *v) {
  g->span = v->span;
  if (v->op == OP_STORE)
    reverse_store(g, v);
  else if (v->op == OP_FOR)
    reverse_for(g, v);
  else if (v->op == OP_IF && !has_result(v))
    reverse_if(g, v, (Adjoint){0});
  else if (v->op == OP_WHILE || v->op == OP_BREAK)
    refuse(g, v, derivatives[v->op].why);
  else if (wants(g, v))
    reverse_value(g, v);
}

void start_sums(Grad *g, const Region *region) {
  const Region old = *region;
  for (int i = 0; i < old.instrs.count; i++) {
    const Instr *v = old.instrs.at[i];
    if (v->id < g->count) start_sum(g, &g->sum[v->id]);
  }
}

void reverse_region(Grad *g, const Region *region) {
  const int count = region->instrs.count;
  const Region *around = g->region;
  Instr **list = NEW_ARRAY(g->arena, Instr *, count + 1);
  g->region = region;
  for (int i = 0; i < count; i++) list[i] = region->instrs.at[i];
  for (int i = count - 1; i >= 0; i--)
    if (list[i]->id < g->count) reverse_instr(g, list[i]);
  g->region = around;
}

// ---- forwards

static void forward_instr(Grad *g, Instr *v);

static void forward_inside(Grad *g, Instr *v) {
  Region *outer = g->out;
  for (int r = 0; r < 2; r++)
    if (v->regions[r]) forward_region(g, v->regions[r]);
  g->out = outer;
}

static Adjoint smooth_tangent(Grad *g, Instr *v) {
  Adjoint sum = {0};
  for (int i = 0; i < v->nargs; i++) {
    Adjoint t = tangent_of(g, v->args[i]);
    if (t.value) sum = added(g, sum, smooth_term(g, v, i, t));
  }
  return sum;
}

static void forward_store(Grad *g, Instr *v) {
  if (!g->state_active[v->ref->id]) return;
  const Adjoint t = tangent_of(g, ir_store_value(v));
  const Type type = working(ir_store_value(v)->type);
  const Sum *sum = &g->state[v->ref->id];
  if (v->flags & INSTR_MASKED) {
    refuse(g, v, "it is masked");
    return;
  }
  access(g, v, sum->value, t.value ? settled(g, t) : put_number(g, 0, type));
  access(g, v, sum->mask, t.value ? mask_of(g, t) : put_truth(g, false, type));
}

static Adjoint forward_load(Grad *g, const Instr *v) {
  const Sum *sum = &g->state[v->ref->id];
  return (Adjoint){access(g, v, sum->value, NULL), access(g, v, sum->mask, NULL), true};
}

// The tangent of a branch is another branch.
static Adjoint forward_choice(Grad *g, Instr *v) {
  Instr *choice = ir_copy(g->k, v);
  Region *outer = g->out;
  choice->text = NULL;
  choice->type = working(v->type);
  for (int r = 0; r < 2; r++) {
    Region *from = v->regions[r], *to = choice->regions[r] = ir_region(g->k);
    g->out = to;
    for (int i = 0; i < from->instrs.count; i++) {
      Instr *inner = from->instrs.at[i];
      if (inner->op == OP_YIELD) {
        Adjoint t = tangent_of(g, inner->args[0]);
        Instr *value = t.value ? settled(g, t) : put_number(g, 0, choice->type);
        put(g, OP_YIELD, inner->type, 1, value);
        continue;
      }
      ir_append(g->k, to, inner);
      forward_instr(g, inner);
    }
  }
  g->out = outer;
  return plain(ir_append(g->k, g->out, choice));
}

static void forward_instr(Grad *g, Instr *v) {
  const Derivative *row = &derivatives[v->op];
  Adjoint t = {0};
  g->span = v->span;
  if (v->op == OP_STORE) forward_store(g, v);
  if (v->op == OP_FOR || (v->op == OP_IF && !has_result(v))) forward_inside(g, v);
  if (v->op == OP_WHILE || v->op == OP_BREAK) refuse(g, v, row->why);
  if (!has_result(v) || !wants(g, v) || v->op == OP_ARRAY) return;
  if (row->kind == KIND_REFUSED) refuse(g, v, row->why);
  if (v->op == OP_LOAD) t = forward_load(g, v);
  if (v->op == OP_IF) t = forward_choice(g, v);
  if (row->kind == KIND_SMOOTH) t = smooth_tangent(g, v);
  if (row->tangent) t = row->tangent(g, v);
  derived_name(g, v, t.value);
  g->adjoint[v->id] = t;
}

void forward_region(Grad *g, Region *region) {
  const Region old = *region;
  region->instrs.at = NULL;
  region->instrs.count = region->instrs.capacity = 0;
  g->out = region;
  for (int i = 0; i < old.instrs.count; i++) {
    ir_append(g->k, region, old.instrs.at[i]);
    forward_instr(g, old.instrs.at[i]);
    g->out = region;
  }
}
