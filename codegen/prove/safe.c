// Facts of a kernel for all sizes, by sets of sizes, grid steps and elements that violate them.
#include "codegen/prove/safe.h"

#ifdef PKC_ISL
#include "codegen/prove/sets.h"

#include <stdio.h>
#include <string.h>

enum {
  MOST_OPERATIONS = 20000000,  // of libisl, for one fact
  MOST_WALKS = 64,             // one for each device
  MOST_WRITTEN_OUT = 4096      // iterations of nested loops on all devices
};

// Elements of an operand's array that grid steps of one device write or read: a set of sizes, grid
// axes, "element k", and "device a", the index along mesh axis a of the device that has the array.
typedef struct {
  const Ref *ref, *root;  // the operand; the one whose memory it has
  int device;             // whose grid steps
  bool writes;
  bool replaced;  // by the area of its block
  Span span;
  Sets set;
  const Instr *why;  // a term of it that is not known
} Area;

typedef struct {
  Safe s;
  SafeReport *report;
  Sets path;            // the sizes, steps and loop iterations that reach this point
  int device;           // the device of this walk
  int64_t written_out;  // iterations of the loops around the walk, and of its devices
  const Instr *doubt;   // a condition on the way here that is not known
  LIST(Area) areas;
  LIST(const char *) loops;  // variables of loops and elements, in use anywhere
} Check;

// ---- facts

static const Instr *why_not(const Check *c) { return c->s.why ? c->s.why : c->doubt; }

static const char *place_text(const Check *c, const Instr *why) {
  if (!why) return "it is too complex";
  return arena_printf(c->s.arena, "`%s` in line %d", op_info[why->op].name,
                      ir_line(c->s.k, why->span));
}

static isl_space *add_name(const Check *c, isl_space *space, isl_set *set, const char *name) {
  if (isl.set_find_dim_by_name(set, isl_dim_param, name) < 0) return space;
  return isl.space_add_param_id(space, isl.id_alloc(c->s.ctx, name, NULL));
}

static const char *device_name(const Check *c, int axis) {
  return arena_printf(c->s.arena, "device %s", c->s.k->mesh.at[axis].name);
}

// Sizes first, then the grid's axes and the device, so that these are small.
static isl_space *order_of_names(const Check *c, isl_set *set, int *sizes) {
  isl_space *space = isl.space_params_alloc(c->s.ctx, 0);
  for (int i = 0; i < c->s.k->sizes.count; i++) {
    const char *name = c->s.k->sizes.at[i].name;
    *sizes += isl.set_find_dim_by_name(set, isl_dim_param, name) >= 0;
    space = add_name(c, space, set, name);
  }
  for (int i = 0; i < c->s.k->grid.count; i++)
    space = add_name(c, space, set, c->s.k->grid.at[i].name);
  for (int i = 0; i < c->s.k->mesh.count; i++) space = add_name(c, space, set, device_name(c, i));
  return space;
}

static isl_point *least_point(isl_set *set) {
  isl_set *least = isl.set_lexmin(isl.set_copy(set));
  bool bounded = least && isl.set_is_empty(least) == isl_bool_false;
  isl_point *point = isl.set_sample_point(bounded ? isl.set_copy(least) : isl.set_copy(set));
  isl.set_free(least);
  return point;
}

// Is it the size of an expression, such as "M / 4", which other sizes give?
static bool is_expression(const char *name) { return strpbrk(name, "+-*/%(") != NULL; }

// "M=1 N=0, i=2" of an element of a set, which is taken.
static const char *witness_text(const Check *c, isl_set *set) {
  int sizes = 0;
  set = isl.set_align_params(set, order_of_names(c, set, &sizes));
  int count = isl.set_dim(set, isl_dim_param);
  const char **names = NEW_ARRAY(c->s.arena, const char *, count + 1);
  for (int i = 0; i < count; i++)
    names[i] =
        arena_printf(c->s.arena, "%s", isl.set_get_dim_name(set, isl_dim_param, (unsigned)i));
  set = isl.set_move_dims(isl.set_from_params(set), isl_dim_set, 0, isl_dim_param, 0,
                          (unsigned)count);
  isl_point *point = least_point(set);
  isl.set_free(set);
  Buf text = {0};
  for (int i = 0; i < count && point; i++) {
    if (i < sizes && is_expression(names[i])) continue;
    isl_val *value = isl.point_get_coordinate_val(point, isl_dim_set, i);
    buf_printf(&text, "%s%s=%ld", text.length ? i == sizes ? ", " : " " : "", names[i],
               isl.val_get_num_si(value));
    isl.val_free(value);
  }
  isl.point_free(point);
  return text.length ? arena_take(c->s.arena, &text) : "for some sizes";
}

static bool is_empty(const Sets *a, const Sets *given, bool may) {
  isl_set *both = may ? isl.set_intersect(isl.set_copy(a->may), isl.set_copy(given->may))
                      : isl.set_intersect(isl.set_copy(a->must), isl.set_copy(given->must));
  isl_bool empty = isl.set_is_empty(both);
  isl.set_free(both);
  return may ? empty == isl_bool_true : empty != isl_bool_false;
}

// The worst verdict counts, over all combinations of quotients and all visits of one position.
static void add_fact(Check *c, const SafeFact *fact) {
  for (int i = 0; i < c->report->facts.count; i++) {
    SafeFact *known = &c->report->facts.at[i];
    if (known->span.start != fact->span.start || strcmp(known->what, fact->what) != 0) continue;
    if (fact->verdict > known->verdict) *known = *fact;
    return;
  }
  LIST_PUSH(c->s.arena, &c->report->facts, *fact);
}

// The violations of a fact, which are taken.
static void decide(Check *c, Span span, const char *what, Sets bad) {
  SafeFact fact = {.span = span, .what = what, .verdict = SAFE_UNKNOWN};
  const Instr *why = why_not(c);
  isl.ctx_reset_operations(c->s.ctx);
  if (is_empty(&bad, &c->s.given, true))
    fact.verdict = SAFE_PROVED;
  else if (!is_empty(&bad, &c->s.given, false))
    fact.verdict = SAFE_REFUTED;
  if (fact.verdict == SAFE_UNKNOWN) fact.where = place_text(c, why);
  if (fact.verdict == SAFE_REFUTED)
    fact.where =
        witness_text(c, isl.set_intersect(isl.set_copy(bad.must), isl.set_copy(c->s.given.must)));
  isl.ctx_reset_operations(c->s.ctx);
  sets_free(&bad);
  c->s.why = NULL;
  add_fact(c, &fact);
}

static void assume(Check *c, const char *text) {
  for (int i = 0; i < c->report->assumed.count; i++)
    if (strcmp(c->report->assumed.at[i], text) == 0) return;
  LIST_PUSH(c->s.arena, &c->report->assumed, text);
}

// ---- variables

static const char *numbered(const Check *c, const char *name, int number) {
  return arena_printf(c->s.arena, "%s %d", name, number);
}

static isl_set *without(isl_set *set, const char *name) {
  int at = isl.set_find_dim_by_name(set, isl_dim_param, name);
  return at < 0 ? set : isl.set_project_out(set, isl_dim_param, (unsigned)at, 1);
}

static isl_set *renamed(const Check *c, isl_set *set, const char *from, const char *to) {
  int at = isl.set_find_dim_by_name(set, isl_dim_param, from);
  return at < 0 ? set
                : isl.set_set_dim_id(set, isl_dim_param, (unsigned)at,
                                     isl.id_alloc(c->s.ctx, to, NULL));
}

// Eliminating a variable from the lower bound gives a lower bound, because both operations are
// exact.
static Sets sets_without(Sets a, const char *name) {
  return (Sets){without(a.may, name), without(a.must, name)};
}

static isl_pw_aff *copy_term(isl_pw_aff *a) { return a ? isl.pw_aff_copy(a) : NULL; }

static isl_pw_aff *add_terms(isl_pw_aff *a, isl_pw_aff *b) {
  if (a && b) return isl.pw_aff_add(a, b);
  isl.pw_aff_free(a);
  isl.pw_aff_free(b);
  return NULL;
}

// One of them must be a constant.
static isl_pw_aff *multiply_terms(isl_pw_aff *a, isl_pw_aff *b) {
  if (a && b && (isl.pw_aff_is_cst(a) || isl.pw_aff_is_cst(b))) return isl.pw_aff_mul(a, b);
  isl.pw_aff_free(a);
  isl.pw_aff_free(b);
  return NULL;
}

// ---- devices

static Sets this_device(Check *c) {
  Sets all = sets_all(&c->s);
  for (int i = 0; i < c->s.k->mesh.count; i++)
    all = sets_and(all,
                   sets_compare(&c->s, isl.pw_aff_eq_set, term_variable(&c->s, device_name(c, i)),
                                term_number(&c->s, c->s.device[i])));
  return all;
}

// ---- windows

// A window of a ref: along axis k, "lane k" of `size[k]` is at `position[k]`.
typedef struct {
  const Ref *ref;
  int rank;
  isl_pw_aff *position[MAX_RANK], *extent[MAX_RANK];
  Sets lanes;  // the path, where all lanes are in range
} Lanes;

static isl_pw_aff *window_size(Check *c, const Instr *v, const Window *w, int axis) {
  const Instr *length = op_info[v->op].attribute == ATTR_COPY ? ir_length(v, w, axis) : NULL;
  return length ? term_of(&c->s, length, NULL) : term_extent(&c->s, w->size[axis]);
}

static Lanes lanes_of(Check *c, const Instr *v, const Ref *ref, const Window *w,
                      Instr *const *starts) {
  Lanes l = {.ref = ref, .rank = ref->type.rank, .lanes = sets_copy(&c->path)};
  for (int i = 0; i < l.rank; i++) {
    const char *lane = numbered(c, "lane", i);
    isl_pw_aff *along =
        isl.pw_aff_mul(term_variable(&c->s, lane), term_number(&c->s, w->stride[i]));
    l.position[i] = add_terms(term_of(&c->s, starts[i], NULL), along);
    l.extent[i] = term_extent(&c->s, ref->type.dim[i]);
    l.lanes = sets_and(l.lanes, sets_range(&c->s, lane, window_size(c, v, w, i)));
  }
  return l;
}

static void free_lanes(Lanes *l) {
  for (int i = 0; i < l->rank; i++) {
    isl.pw_aff_free(l->position[i]);
    isl.pw_aff_free(l->extent[i]);
  }
  sets_free(&l->lanes);
}

static Sets outside(Check *c, const Lanes *l, int axis) {
  Sets below =
      sets_compare(&c->s, isl.pw_aff_lt_set, copy_term(l->position[axis]), term_number(&c->s, 0));
  Sets above = sets_compare(&c->s, isl.pw_aff_ge_set, copy_term(l->position[axis]),
                            copy_term(l->extent[axis]));
  return sets_or(below, above);
}

// The lanes of an access for which its mask is true. The value lacks squeezed axes.
static Sets masked_lanes(Check *c, const Instr *v, const Lanes *l) {
  const Instr *mask = v->flags & INSTR_MASKED ? ir_mask(v) : NULL;
  if (!mask) return sets_copy(&l->lanes);
  isl_pw_aff *index[MAX_RANK];
  int rank = 0;
  for (int i = 0; i < l->rank; i++)
    if (!v->window.squeeze[i]) index[rank++] = term_variable(&c->s, numbered(c, "lane", i));
  Sets lanes = sets_and(sets_copy(&l->lanes), truth_of(&c->s, mask, index));
  for (int i = 0; i < rank; i++) isl.pw_aff_free(index[i]);
  return lanes;
}

static void check_inside(Check *c, const Instr *v, const Lanes *l, const char *which) {
  const char *what = arena_printf(c->s.arena, "%s `%s` is inside it", which, l->ref->name);
  Sets lanes = op_info[v->op].attribute == ATTR_COPY ? sets_copy(&l->lanes) : masked_lanes(c, v, l);
  Sets bad = sets_none(&c->s);
  for (int i = 0; i < l->rank; i++) bad = sets_or(bad, outside(c, l, i));
  decide(c, v->span, what, sets_and(lanes, bad));
}

// ---- where elements of a block are in the array

static isl_pw_aff *block_index(Check *c, const Ref *ref, int axis) {
  return ref->index_map ? term_of(&c->s, ir_yielded(ref->index_map, axis), NULL) : NULL;
}

// The first element of the block along an array axis.
static isl_pw_aff *block_start(Check *c, const Ref *ref, int axis) {
  if (ref->whole || ref->space == SPACE_ANY || !ref->index_map) return term_number(&c->s, 0);
  isl_pw_aff *index = block_index(c, ref, axis);
  if (ref->at != AT_BLOCK) return index;
  return multiply_terms(index, term_extent(&c->s, ref->block[axis]));
}

static Sets in_array(Check *c, const Ref *ref) {
  Sets all = sets_all(&c->s);
  for (int i = 0; i < ref->array.rank; i++)
    all = sets_and(
        all, sets_range(&c->s, numbered(c, "element", i), term_extent(&c->s, ref->array.dim[i])));
  return all;
}

static const Ref *root_of(const Ref *ref) { return ref->alias ? ref->alias : ref; }

// The device that has an array is another one, whose indices are terms.
static Sets on_device(Check *c, Sets set, Instr *const *index) {
  for (int i = 0; i < c->s.k->mesh.count; i++) {
    const char *name = device_name(c, i);
    set = sets_without(set, name);
    set = sets_and(set, sets_compare(&c->s, isl.pw_aff_eq_set, term_variable(&c->s, name),
                                     term_of(&c->s, index[i], NULL)));
  }
  return set;
}

static Area *area_of(Check *c, const Ref *ref, bool writes, Span span) {
  for (int i = 0; i < c->areas.count; i++) {
    Area *a = &c->areas.at[i];
    if (a->ref == ref && a->device == c->device && a->writes == writes && !a->replaced &&
        a->span.start == span.start && a->span.end == span.end)
      return a;
  }
  return NULL;
}

static void add_area(Check *c, const Ref *ref, bool writes, Span span, Sets set) {
  Area *known = area_of(c, ref, writes, span);
  set = sets_and(set, in_array(c, ref));
  if (!known) {
    Area area = {ref, root_of(ref), c->device, writes, false, span, set, why_not(c)};
    LIST_PUSH(c->s.arena, &c->areas, area);
    return;
  }
  known->set = sets_or(known->set, set);
  if (!known->why) known->why = why_not(c);
}

// The elements of the array that a store writes, without lanes and loops.
static void add_store(Check *c, const Instr *v, const Lanes *l, bool writes) {
  Sets set = masked_lanes(c, v, l);
  int k = 0;
  bool apart = l->ref->space != SPACE_ANY && !l->ref->whole && l->ref->index_map;
  for (int i = 0; i < l->ref->array.rank; i++) {
    bool squeezed = apart && l->ref->squeeze[i];
    isl_pw_aff *at = squeezed ? block_start(c, l->ref, i)
                              : add_terms(block_start(c, l->ref, i), copy_term(l->position[k]));
    k += !squeezed;
    isl_pw_aff *element = term_variable(&c->s, numbered(c, "element", i));
    set = sets_and(set, sets_compare(&c->s, isl.pw_aff_eq_set, element, at));
  }
  for (int i = 0; i < l->rank; i++) set = sets_without(set, numbered(c, "lane", i));
  for (int i = 0; i < c->loops.count; i++) set = sets_without(set, c->loops.at[i]);
  if (writes && v->op == OP_REMOTE_START) set = on_device(c, set, ir_device_index(v));
  add_area(c, l->ref, writes, v->span, set);
}

// ---- the walk

static void see_access(Check *c, const Instr *v) {
  bool writes = v->op == OP_STORE, unclamped = v->flags & INSTR_OPEN;
  if (v->ref->role == REF_VAR || v->ref->space == SPACE_SEM) return;
  Lanes l = lanes_of(c, v, v->ref, &v->window, v->args);
  if (!unclamped && l.rank) check_inside(c, v, &l, writes ? "a store to" : "a load from");
  bool direct = v->ref->space == SPACE_ANY;
  if (ref_is_operand(v->ref) && !v->ref->prefetch && (writes || direct))
    add_store(c, v, &l, writes);
  free_lanes(&l);
}

static Sets may_be_here(const Check *c) {
  Sets none = sets_none(&c->s);
  isl.set_free(none.may);
  return (Sets){isl.set_copy(c->path.may), none.must};
}

static void see_view(Check *c, const Instr *v, const Ref *ref, bool target) {
  Sets set = may_be_here(c);
  c->s.why = v;
  decide(c, v->span, arena_printf(c->s.arena, "a copy of a view of `%s` is inside it", ref->name),
         may_be_here(c));
  if (target && v->op == OP_REMOTE_START) set = on_device(c, set, ir_device_index(v));
  c->s.why = v;
  if (ref_is_operand(ref))
    add_area(c, ref, target, v->span, set);
  else
    sets_free(&set);
}

static void see_end(Check *c, const Instr *v, bool target) {
  const Ref *ref = target ? v->target : v->ref;
  if (target ? v->target_chain : v->chain) return see_view(c, v, ref, target);
  Lanes l = lanes_of(c, v, ref, target ? &v->target_window : &v->window, ir_starts(v, target));
  if (!(v->flags & INSTR_EDGE) && l.rank)
    check_inside(c, v, &l, target ? "a copy to" : "a copy from");
  if (ref_is_operand(ref)) add_store(c, v, &l, target);
  free_lanes(&l);
}

static void see_device(Check *c, const Instr *v) {
  Instr *const *index = ir_device_index(v);
  Sets bad = sets_none(&c->s);
  for (int i = 0; i < c->s.k->mesh.count; i++) {
    isl_pw_aff *at = term_of(&c->s, index[i], NULL);
    isl_pw_aff *extent = term_number(&c->s, c->s.k->mesh.at[i].extent);
    bad =
        sets_or(bad, sets_compare(&c->s, isl.pw_aff_lt_set, copy_term(at), term_number(&c->s, 0)));
    bad = sets_or(bad, sets_compare(&c->s, isl.pw_aff_ge_set, at, extent));
  }
  decide(c, v->span, "the named device is in the mesh", sets_and(sets_copy(&c->path), bad));
}

static void walk(Check *c, const Region *region);

static void walk_under(Check *c, const Region *region, Sets when) {
  Sets outer = c->path;
  const Instr *doubt = c->doubt;
  if (!region) {
    sets_free(&when);
    return;
  }
  c->doubt = why_not(c);
  c->s.why = NULL;
  c->path = sets_and(sets_copy(&outer), when);
  walk(c, region);
  sets_free(&c->path);
  c->path = outer;
  c->doubt = doubt;
}

static void see_break(Instr *v, void *context) { *(bool *)context |= v->op == OP_BREAK; }

// After a break, later iterations may not run.
static Sets iterations(Check *c, const Instr *v, const char *name) {
  isl_pw_aff *from = term_of(&c->s, v->args[0], NULL), *to = term_of(&c->s, v->args[1], NULL);
  Sets low = sets_compare(&c->s, isl.pw_aff_ge_set, term_variable(&c->s, name), from);
  Sets high = sets_compare(&c->s, isl.pw_aff_lt_set, term_variable(&c->s, name), to);
  Sets all = sets_and(low, high);
  bool breaks = false;
  ir_walk(v->regions[0], see_break, &breaks);
  if (!breaks) return all;
  Sets none = sets_none(&c->s);
  isl.set_free(all.must);
  isl.set_free(none.may);
  return (Sets){all.may, none.must};
}

// A device multiplies the variable by sizes, as in `i * (M / 4)`, which needs its value.
static bool is_written_out(const Check *c, const Instr *v) {
  const Instr *from = v->args[0], *to = v->args[1];
  bool breaks = false;
  if (!c->s.k->mesh.count || from->op != OP_CONST || to->op != OP_CONST) return false;
  ir_walk(v->regions[0], see_break, &breaks);
  uint64_t count = (uint64_t)to->ival - (uint64_t)from->ival;
  return !breaks && from->ival < to->ival && count <= (uint64_t)(MOST_WRITTEN_OUT / c->written_out);
}

static void walk_iterations(Check *c, const Instr *v) {
  int64_t outer = c->written_out;
  c->written_out *= v->args[1]->ival - v->args[0]->ival;
  for (int64_t i = v->args[0]->ival; i < v->args[1]->ival; i++) {
    Fixed fixed = {v->regions[0]->arg, i};
    LIST_PUSH(c->s.arena, &c->s.fixed, fixed);
    walk_under(c, v->regions[0], sets_all(&c->s));
    c->s.fixed.count--;
  }
  c->written_out = outer;
}

static void see_loop(Check *c, const Instr *v) {
  if (is_written_out(c, v)) return walk_iterations(c, v);
  const char *name = loop_name(&c->s, v->regions[0]->arg);
  LIST_PUSH(c->s.arena, &c->loops, name);
  walk_under(c, v->regions[0], iterations(c, v, name));
}

static Sets maybe(Check *c, const Instr *v) {
  Sets all = sets_all(&c->s), none = sets_none(&c->s);
  if (!c->s.why) c->s.why = v;
  isl.set_free(all.must);
  isl.set_free(none.may);
  return (Sets){all.may, none.must};
}

// Checks the facts of one instruction, then those of its regions under their conditions.
static void see(Check *c, const Instr *v) {
  switch (v->op) {
    case OP_LOAD:
    case OP_STORE:
      return see_access(c, v);
    case OP_REMOTE_START:
      see_device(c, v);
      see_end(c, v, false);
      return see_end(c, v, true);
    case OP_REMOTE_SIGNAL:
      return see_device(c, v);
    case OP_MOVE:
    case OP_COPY_START:
      see_end(c, v, false);
      return see_end(c, v, true);
    case OP_IF:
      walk_under(c, v->regions[0], truth_of(&c->s, v->args[0], NULL));
      return walk_under(c, v->regions[1], sets_not(&c->s, truth_of(&c->s, v->args[0], NULL)));
    case OP_FOR:
      return see_loop(c, v);
    case OP_WHILE:
    case OP_SCOPED:
    case OP_NAMED:
      for (int i = 0; i < 2; i++)
        if (v->regions[i])
          walk_under(c, v->regions[i], v->op == OP_WHILE ? maybe(c, v) : sets_all(&c->s));
      return;
    default:
      return;
  }
}

static void walk(Check *c, const Region *region) {
  for (int i = 0; i < region->instrs.count; i++) see(c, region->instrs.at[i]);
}

// ---- blocks

static void see_prefetched(Instr *v, void *context) {
  *(bool *)context |= v->op == OP_LOAD && v->ref->prefetch;
}

// Index maps of prefetched elements: `pkc check` looks at what they are.
static bool is_prefetched(Check *c, const Ref *ref) {
  bool reads = false;
  ir_walk(ref->index_map, see_prefetched, &reads);
  if (reads)
    assume(c, arena_printf(c->s.arena,
                           "the blocks of `%s`, by prefetched elements, begin in its array",
                           ref->name));
  return reads;
}

// Block 0 always is one.
static Sets outside_blocks(Check *c, const Ref *ref, int axis) {
  isl_pw_aff *index = block_index(c, ref, axis);
  Sets below = sets_compare(&c->s, isl.pw_aff_lt_set, copy_term(index), term_number(&c->s, 0));
  Sets later = sets_compare(&c->s, isl.pw_aff_ge_set, copy_term(index), term_number(&c->s, 1));
  isl_pw_aff *start = multiply_terms(index, term_extent(&c->s, ref->block[axis]));
  Sets past =
      sets_compare(&c->s, isl.pw_aff_ge_set, start, term_extent(&c->s, ref->array.dim[axis]));
  return sets_or(below, sets_and(later, past));
}

static Sets outside_halo(Check *c, const Ref *ref, int axis) {
  const int64_t *halo = ref->halo[axis];
  Sets bad = sets_none(&c->s);
  if (halo[0] >= 0)
    bad = sets_or(bad, sets_compare(&c->s, isl.pw_aff_lt_set, block_index(c, ref, axis),
                                    term_number(&c->s, -halo[0])));
  if (halo[1] < 0) return bad;
  isl_pw_aff *end = add_terms(block_index(c, ref, axis), term_extent(&c->s, ref->block[axis]));
  isl_pw_aff *most =
      add_terms(term_extent(&c->s, ref->array.dim[axis]), term_number(&c->s, halo[1]));
  return sets_or(bad, sets_compare(&c->s, isl.pw_aff_gt_set, end, most));
}

static void check_blocks(Check *c, const Ref *ref) {
  if (ref->whole || ref->space == SPACE_ANY || !ref->index_map || ref->prefetch) return;
  walk(c, ref->index_map);
  if (is_prefetched(c, ref)) return;
  Sets bad = sets_none(&c->s);
  for (int i = 0; i < ref->array.rank; i++)
    bad = sets_or(bad, ref->at == AT_BLOCK ? outside_blocks(c, ref, i) : outside_halo(c, ref, i));
  decide(c, ref->map_span,
         arena_printf(c->s.arena, "the blocks of `%s` begin in its array", ref->name),
         sets_and(sets_copy(&c->path), bad));
}

// ---- outputs are stored completely

static Sets without_grid(Check *c, Sets set) {
  for (int i = 0; i < c->s.k->grid.count; i++) set = sets_without(set, c->s.k->grid.at[i].name);
  return set;
}

static void add_stored(Check *c, const Area *area, Sets *stored) {
  Sets here = sets_and(sets_copy(&area->set), this_device(c));
  *stored = sets_or(*stored, without_grid(c, here));
  if (!c->s.why) c->s.why = area->why;
}

static void check_stored(Check *c, const Ref *output) {
  if (output->alias) return;
  Sets stored = sets_none(&c->s);
  for (int i = 0; i < c->areas.count; i++)
    if (c->areas.at[i].ref == output && c->areas.at[i].writes)
      add_stored(c, &c->areas.at[i], &stored);
  Sets missing = sets_and(sets_and(in_array(c, output), this_device(c)), sets_not(&c->s, stored));
  decide(c, output->span, arena_printf(c->s.arena, "`%s` is stored completely", output->name),
         missing);
}

// ---- parallel cells

static isl_set *of_other_cell(const Check *c, isl_set *set) {
  for (int i = 0; i < c->s.k->grid.count; i++) {
    const char *name = c->s.k->grid.at[i].name;
    set = renamed(c, set, name, arena_printf(c->s.arena, "%s'", name));
  }
  return set;
}

// Two cells that differ in a parallel axis, those aside that the blocks of both do not follow.
static Sets cells_differ(Check *c, const Ref *ref) {
  const Kernel *k = c->s.k;
  Sets differ = sets_none(&c->s);
  for (int i = 0; i < k->grid.count; i++) {
    const char *name = k->grid.at[i].name;
    if (!k->grid.at[i].parallel || ir_ignores_axis(k, ref, i)) continue;
    isl_pw_aff *a = term_variable(&c->s, name),
               *b = term_variable(&c->s, arena_printf(c->s.arena, "%s'", name));
    differ = sets_or(differ, sets_compare(&c->s, isl.pw_aff_ne_set, a, b));
  }
  return differ;
}

static void check_pair(Check *c, const Area *a, const Area *b) {
  c->s.why = a->why ? a->why : b->why;
  Sets first = sets_copy(&a->set), second = sets_copy(&b->set);
  Sets other = {of_other_cell(c, second.may), of_other_cell(c, second.must)};
  const char *what =
      a->writes && b->writes
          ? arena_printf(c->s.arena, "parallel cells write different elements of `%s`",
                         a->ref->name)
          : arena_printf(c->s.arena, "parallel cells read no elements of `%s` that others write",
                         a->ref->name);
  decide(c, a->span, what, sets_and(sets_and(first, other), cells_differ(c, a->ref)));
}

// The whole of a block is written back, and fetched.
static void add_blocks(Check *c, const Ref *ref) {
  Sets set = sets_copy(&c->path);
  for (int i = 0; i < ref->array.rank; i++) {
    isl_pw_aff *element = term_variable(&c->s, numbered(c, "element", i));
    isl_pw_aff *end = add_terms(block_start(c, ref, i), term_extent(&c->s, ref->block[i]));
    set = sets_and(
        set, sets_compare(&c->s, isl.pw_aff_ge_set, copy_term(element), block_start(c, ref, i)));
    set = sets_and(set, sets_compare(&c->s, isl.pw_aff_lt_set, element, end));
  }
  add_area(c, ref, ref->role == REF_OUTPUT, ref->map_span, set);
}

// If each cell has its own copy of a block and the last copy is written back, all cells must store
// the same elements and values.
static void note_shared_block(Check *c, const Ref *output) {
  if (!ir_ignores_any_axis(c->s.k, output)) return;
  SafeFact fact = {.span = output->span, .verdict = SAFE_UNKNOWN, .where = "their values"};
  fact.what = arena_printf(c->s.arena, "parallel cells store equal values in a block of `%s`",
                           output->name);
  add_fact(c, &fact);
}

static bool is_in_blocks(const Ref *ref) {
  return ref->space != SPACE_ANY && !ref->whole && ref->index_map && !ref->prefetch;
}

static bool is_compared(const Check *c, const Area *a) {
  return a->device == c->device && !a->replaced;
}

static void check_parallel(Check *c) {
  const Kernel *k = c->s.k;
  for (int i = 0; i < c->areas.count; i++)
    if (is_in_blocks(c->areas.at[i].ref))
      c->areas.at[i].replaced |= c->areas.at[i].device == c->device;
  for (int i = 0; i < k->inputs + k->outputs; i++)
    if (is_in_blocks(k->refs.at[i])) add_blocks(c, k->refs.at[i]);
  for (int i = 0; i < c->areas.count; i++)
    for (int j = i; j < c->areas.count; j++) {
      const Area *a = &c->areas.at[i], *b = &c->areas.at[j];
      if (is_compared(c, a) && is_compared(c, b) && a->root == b->root && (a->writes || b->writes))
        check_pair(c, a, b);
    }
}

// ---- blocks are not revisited

enum { LATER_STEPS = 3 };

static const char *step_name(const Check *c, int axis, int step) {
  const GridAxis *a = &c->s.k->grid.at[axis];
  return a->parallel || !step ? a->name
                              : arena_printf(c->s.arena, "%s%s", a->name, step == 1 ? "'" : "''");
}

static Sets of_step(Check *c, const Sets *set, int step) {
  Sets copy = sets_copy(set);
  for (int i = 0; i < c->s.k->grid.count; i++) {
    const char *from = c->s.k->grid.at[i].name, *to = step_name(c, i, step);
    copy = (Sets){renamed(c, copy.may, from, to), renamed(c, copy.must, from, to)};
  }
  return copy;
}

// Step a comes before step b of the same cell.
static Sets comes_before(Check *c, int a, int b) {
  Sets before = sets_none(&c->s);
  for (int i = c->s.k->grid.count - 1; i >= 0; i--) {
    if (c->s.k->grid.at[i].parallel) continue;
    isl_pw_aff *x = term_variable(&c->s, step_name(c, i, a)),
               *y = term_variable(&c->s, step_name(c, i, b));
    Sets same = sets_compare(&c->s, isl.pw_aff_eq_set, copy_term(x), copy_term(y));
    before = sets_or(sets_compare(&c->s, isl.pw_aff_lt_set, x, y), sets_and(same, before));
  }
  return before;
}

// "block k" is the index along axis k.
static Sets block_of_step(Check *c, const Ref *ref) {
  Sets set = sets_copy(&c->path);
  for (int i = 0; i < ref->array.rank; i++)
    set = sets_and(
        set, sets_compare(&c->s, isl.pw_aff_eq_set, term_variable(&c->s, numbered(c, "block", i)),
                          block_index(c, ref, i)));
  return set;
}

static void check_order(Check *c, const Ref *output) {
  bool steps = false;
  for (int i = 0; i < c->s.k->grid.count; i++) steps |= !c->s.k->grid.at[i].parallel;
  if (!steps || output->revisit || output->at != AT_BLOCK || !is_in_blocks(output)) return;
  Sets block = block_of_step(c, output), step[LATER_STEPS], other = sets_none(&c->s);
  for (int i = 0; i < LATER_STEPS; i++) step[i] = of_step(c, &block, i);
  for (int i = 0; i < output->array.rank; i++) {
    const char *name = numbered(c, "block", i), *apart = numbered(c, "other block", i);
    step[1] = (Sets){renamed(c, step[1].may, name, apart), renamed(c, step[1].must, name, apart)};
    other = sets_or(other, sets_compare(&c->s, isl.pw_aff_ne_set, term_variable(&c->s, name),
                                        term_variable(&c->s, apart)));
  }
  Sets bad = sets_and(sets_and(step[0], step[1]), sets_and(step[2], other));
  bad = sets_and(bad, sets_and(comes_before(c, 0, 1), comes_before(c, 1, 2)));
  bad = sets_and(bad, in_array(c, output));
  sets_free(&block);
  decide(c, output->map_span,
         arena_printf(c->s.arena, "no block of `%s` is revisited", output->name), bad);
}

// ---- what is given

static void give_size(Check *c, int i) {
  Safe *s = &c->s;
  const Size *size = &s->k->sizes.at[i];
  Sets known = sets_compare(s, isl.pw_aff_ge_set, term_variable(s, size->name), term_number(s, 0));
  isl_pw_aff *value = size->value ? term_of(s, ir_yielded(size->value, 0), NULL) : NULL;
  if (size->value)
    known =
        sets_and(known, sets_compare(s, isl.pw_aff_eq_set, term_variable(s, size->name), value));
  if (size->solved) {
    isl_pw_aff *of = term_variable(s, s->k->sizes.at[size->solved - 1].name);
    value = isl.pw_aff_add(isl.pw_aff_mul(of, term_number(s, size->factor)),
                           term_number(s, size->constant));
    known =
        sets_and(known, sets_compare(s, isl.pw_aff_eq_set, term_variable(s, size->name), value));
  }
  s->given = sets_and(s->given, known);
}

// a = ratio * b + rest with 0 <= rest < b.
static void give_ratio(Check *c, int i) {
  Safe *s = &c->s;
  isl_pw_aff *b = term_extent(s, -1 - s->ratio[i].size[1]),
             *a = term_extent(s, -1 - s->ratio[i].size[0]);
  isl_pw_aff *part = isl.pw_aff_mul(isl.pw_aff_copy(b), term_number(s, s->ratio[i].value));
  isl_pw_aff *end = isl.pw_aff_add(isl.pw_aff_copy(part), b);
  Sets known = sets_compare(s, isl.pw_aff_ge_set, isl.pw_aff_copy(a), part);
  s->given = sets_and(s->given, sets_and(known, sets_compare(s, isl.pw_aff_lt_set, a, end)));
}

static void give(Check *c) {
  Safe *s = &c->s;
  s->given = sets_all(s);
  for (int i = 0; i < s->k->sizes.count; i++) give_size(c, i);
  for (int i = 0; i < s->ratios; i++)
    if (s->ratio[i].value) give_ratio(c, i);
  for (int i = 0; i < s->k->requires.count; i++)
    s->given = sets_and(s->given, truth_of(s, ir_yielded(s->k->requires.at[i].condition, 0), NULL));
  s->why = NULL;
}

static Sets grid_steps(Check *c) {
  Sets all = sets_all(&c->s);
  for (int i = 0; i < c->s.k->grid.count; i++) {
    const GridAxis *a = &c->s.k->grid.at[i];
    all = sets_and(all, sets_range(&c->s, a->name, term_of(&c->s, ir_yielded(a->extent, 0), NULL)));
  }
  return all;
}

// ---- the whole

// The walk is one of that device.
static void take_device(Check *c, int device) {
  const Kernel *k = c->s.k;
  c->device = device;
  for (int i = k->mesh.count - 1; i >= 0; i--) {
    c->s.device[i] = device % (int)k->mesh.at[i].extent;
    device /= (int)k->mesh.at[i].extent;
  }
  sets_free(&c->path);
  c->path = sets_and(grid_steps(c), this_device(c));
}

static void check_accesses(Check *c) {
  Kernel *k = c->s.k;
  for (int i = 0; i < k->inputs + k->outputs; i++) check_blocks(c, k->refs.at[i]);
  walk(c, k->body);
  c->s.why = NULL;
}

static void check_steps(Check *c) {
  Kernel *k = c->s.k;
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) check_stored(c, k->refs.at[i]);
  check_parallel(c);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) note_shared_block(c, k->refs.at[i]);
  for (int i = k->inputs; i < k->inputs + k->outputs; i++) check_order(c, k->refs.at[i]);
}

static void check_all(Check *c) {
  Kernel *k = c->s.k;
  int count = (int)ir_device_count(k);
  c->written_out = count;
  give(c);
  for (int device = 0; device < count; device++) {
    take_device(c, device);
    check_accesses(c);
  }
  for (int device = 0; device < count; device++) {
    take_device(c, device);
    check_steps(c);
  }
  for (int i = 0; i < c->areas.count; i++) sets_free(&c->areas.at[i].set);
  sets_free(&c->path);
  sets_free(&c->s.given);
  c->areas.count = 0;
  c->loops.count = 0;
}

// A first pass finds the quotients of sizes; each combination of them is looked at.
static void check_ratios(Check *c) {
  SafeReport found = *c->report;
  int ratios = c->s.ratios, each[MOST_RATIOS] = {1, 1};
  check_all(c);
  ratios = c->s.ratios;
  if (!ratios) return;
  *c->report = found;
  for (;;) {
    for (int i = 0; i < ratios; i++) c->s.ratio[i].value = each[i];
    check_all(c);
    int i = 0;
    while (i < ratios && ++each[i] > MOST_RATIO) each[i++] = 1;
    if (i == ratios) break;
  }
  for (int i = 0; i < ratios; i++)
    assume(c, arena_printf(c->s.arena, "%s / %s is between 1 and %d",
                           c->s.k->sizes.at[c->s.ratio[i].size[0]].name,
                           c->s.k->sizes.at[c->s.ratio[i].size[1]].name, MOST_RATIO));
}

const char *const safe_names[SAFE_VERDICTS] = {"proved", "unknown", "refuted"};

const char *prove_safe(Arena *arena, Kernel *k, SafeReport *report) {
  if (k->flow) return "a program is safe where its kernels are: name one with -k";
  if (ir_device_count(k) > MOST_WALKS) return "meshes of more than 64 devices are not supported";
  if (!isl_load()) return "libisl is missing; try `apt-get install libisl23`";
  ir_expand_pipelines(k);
  ir_take_parts(k);
  Check c = {.s = {.arena = arena, .k = k, .ctx = isl.ctx_alloc()}, .report = report};
  isl.options_set_on_error(c.s.ctx, ISL_ON_ERROR_CONTINUE);
  isl.ctx_set_max_operations(c.s.ctx, MOST_OPERATIONS);
  check_ratios(&c);
  isl.ctx_free(c.s.ctx);
  return NULL;
}

#else
const char *const safe_names[SAFE_VERDICTS] = {"proved", "unknown", "refuted"};

const char *prove_safe(Arena *arena, Kernel *k, SafeReport *report) {
  (void)arena, (void)k, (void)report;
  return "pkc was built without libisl; try `apt-get install libisl-dev`, and build it again";
}
#endif
