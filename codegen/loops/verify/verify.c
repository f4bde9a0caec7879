// The rules of the loop IR. Each has a name, which the message of a broken one begins with.
//
//   place    an instruction that acts, or that a placed one reads, has exactly one place in the
//            tree, and its note says which
//   order    what an instruction reads is computed before it, in a region around it
//   kept     a value that is read beyond the loop that computes it is in memory while it is read
//   extent   the extents of a value are those of the rows and columns of its loop
//   columns  the iterations of a column loop cover its columns; nothing else depends on lanes that
//            an iteration omits or repeats (columns.c)
//   strips   a group knows the bounds at which its loops end, and has no more rows than strips
//   demand   all elements of a value that are read are computed
//   fetch    an input that is not read in place is fetched once, around all its reads
//   dot      the operands of a dot are where the micro-kernel reads them
//   memory   every buffer is in the arena's list and, where sizes are known, large enough
//            (memory.c)
//   parts    a cell that is cut into parts has the same rows, once, in all operands that move with
//            it (split.c)
//   hazard   reads and writes of one ref keep the order of the program (hazard.c)
#include "codegen/loops/verify/verify.h"

// ---- the walk: every placed instruction, in the order in which they run

static void visit_after(Verifier *x, const Group *group, int after, Visit visit) {
  for (int i = 0; i < group->scalars.count; i++)
    if (val(group->scalars.at[i])->after == after) {
      x->clock++;
      visit(x, group->scalars.at[i], group, after);
    }
}

static void visit_rows(Verifier *x, const Group *group, Visit visit) {
  x->begun = x->clock;
  visit_after(x, group, -1, visit);
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    x->clock += is_dot(step);
    if (is_dot(step)) visit(x, step->product.dot, group, s);
    for (int m = 0; m < step->members.count; m++) {
      x->clock++;
      visit(x, step->members.at[m], group, s);
    }
    visit_after(x, group, s, visit);
  }
}

static void visit_region(Verifier *x, const Schedule *s, Visit visit);

static void visit_inner(Verifier *x, const Group *group, int r, Visit visit) {
  Op op = group->instr->op;
  int outer = x->frame;
  if (!group->inner[r]) return;
  if (x->opened == x->frames.count) LIST_PUSH(x->g->arena, &x->frames, (Frame){0});
  x->frame = x->opened++;
  Frame *f = &x->frames.at[x->frame];
  *f = (Frame){group->instr->regions[r], outer, op == OP_FOR || op == OP_WHILE, f->last};
  visit_region(x, group->inner[r], visit);
  x->frames.at[x->frame].last = x->clock + 1;
  x->frame = outer;
}

static void visit_region(Verifier *x, const Schedule *s, Visit visit) {
  if (x->begin) x->begin(x, s);
  for (int i = 0; i < s->groups.count; i++) {
    const Group *group = s->groups.at[i];
    if (group->index != i) broken_rule(x, "place", group->instr, "its group has another index");
    if (group->kind == GROUP_ROWS) {
      visit_rows(x, group, visit);
      continue;
    }
    x->clock++;
    visit(x, group->instr, group, -1);
    for (int r = 0; r < 2; r++) visit_inner(x, group, r, visit);
  }
}

static void walk_tree(Verifier *x, Visit visit) {
  x->clock = 0;
  x->frame = 0;
  x->opened = 1;
  visit_region(x, x->g->body, visit);
}

// ---- place

static void place(Verifier *x, const Instr *v) {
  if (x->at[v->id]) broken_rule(x, "place", v, "it has two places");
  x->at[v->id] = x->clock;
}

static bool note_agrees(const Instr *v, const Group *group, int step) {
  const Val *info = val(v);
  if (info->group != group) return false;
  if (group->kind != GROUP_ROWS) return true;
  bool between = is_row_scalar(v) && op_info[v->op].class != OPC_REDUCE && v->op != OP_DOT;
  return between ? info->after == step : info->step == step;
}

static void see_place(Verifier *x, const Instr *v, const Group *group, int step) {
  place(x, v);
  LIST_PUSH(x->g->arena, &x->placed, v);
  if (x->broken) return;
  if (!note_agrees(v, group, step)) broken_rule(x, "place", v, "its note names another place");
  if (val(v)->stored_by) place(x, val(v)->stored_by);
  if (group->kind != GROUP_ROWS || v->op != OP_DOT) return;
  const Step *s = &group->steps.at[step];
  if (s->product.into) place(x, s->product.into);
  if (s->product.result) place(x, s->product.result);
}

static void see_unplaced(Instr *v, void *context) {
  Verifier *x = context;
  if (op_acts(v->op) && v->op != OP_IF && !x->at[v->id])
    broken_rule(x, "place", v, "it has an effect and no place");
}

// ---- what a use requires: order, kept

typedef struct {
  const Instr *user;
  const Group *group;
  bool again;  // what it reads is computed again for it, from its operands
} Use;

static bool needs_no_place(Op op) {
  return op == OP_CONST || op == OP_SIZE || op == OP_AXIS || op == OP_EXTENT || op == OP_DEVICE ||
         op == OP_ARG;
}

static void check_order(Verifier *x, const Use *u, const Instr *v) {
  if (!x->at[v->id])
    broken_rule(x, "place", u->user, text(x->g, "%%%d, which it reads, has no place", v->id));
  else if (x->at[v->id] >= x->clock)
    broken_rule(x, "order", u->user, text(x->g, "it precedes %%%d, which it reads", v->id));
  else if (!is_around(x, val(v)->region))
    broken_rule(x, "order", u->user,
                text(x->g, "it is outside the region of %%%d, which it reads", v->id));
}

static bool is_kept(const Use *u, const Instr *v, bool moved) {
  const Val *info = val(v);
  bool by_parts = info->group->feeds.dots == u->group && u->user->op == OP_DOT;
  if (info->group != u->group || moved) return info->buffer && (!info->row_local || by_parts);
  if (info->buffer || u->group->kind != GROUP_ROWS) return info->buffer;
  if (u->user->op == OP_DOT) return false;
  if (is_row_scalar(v)) return loop_of(u->group, v) == loop_of(u->group, u->user);
  bool here = info->step == val(u->user)->step && v->op != OP_DOT;
  return here || info->recompute || (u->again && op_is_elementwise(v->op));
}

static void use(Verifier *x, const Use *u, const Instr *arg, bool aligned, bool moved);

static void use_all(Verifier *x, const Use *u, const Instr *v, bool aligned, bool moved) {
  for (int i = first_read(v); i < v->nargs; i++) use(x, u, v->args[i], aligned, moved);
}

static void use_in_place(Verifier *x, const Use *u, const Instr *v, bool aligned, bool moved) {
  if (v->op == OP_LOAD) {
    note_read(x, v, u->user, u->group, aligned);
    use_all(x, u, v, false, false);
    return;
  }
  bool stretched = v->op == OP_BROADCAST && stretches_rows(v);
  use_all(x, u, v, aligned && !moves_elements(v) && !stretched, moved || moves_elements(v));
}

// Checks a use of a value: it must be available, and in a form that the use can read.
static void use(Verifier *x, const Use *u, const Instr *arg, bool aligned, bool moved) {
  if (needs_no_place(arg->op)) return;
  if (is_transparent(arg)) {
    use_in_place(x, u, arg, aligned, moved);
    return;
  }
  if (feeds_only_dots(arg)) {
    use_all(x, u, arg, false, true);
    return;
  }
  if (val(arg)->elsewhere) {
    use_all(x, &(Use){u->user, u->group, true}, arg, aligned, false);
    return;
  }
  check_order(x, u, arg);
  if (x->last_use[arg->id] < x->clock) x->last_use[arg->id] = x->clock;
  if (arg->type.rank == 0 || x->broken) return;
  if (!is_kept(u, arg, moved))
    broken_rule(x, "kept", u->user,
                text(x->g, "%%%d, which it reads, is not in memory here", arg->id));
  bool again = val(arg)->group == u->group && !val(arg)->buffer && op_is_elementwise(arg->op);
  if (again && !is_row_scalar(arg) && val(arg)->step != val(u->user)->step)
    use_all(x, &(Use){u->user, u->group, true}, arg, aligned, false);
}

static void use_dot(Verifier *x, const Use *u) {
  const Instr *dot = u->user;
  DotShape s = dot_shape(dot);
  x->packs = val(dot)->dot.left != NULL;
  use(x, u, s.a, reads_left_by_rows(x->g, dot), x->packs);
  x->packs = val(dot)->dot.panels != NULL;
  use(x, u, s.b, false, true);
  x->packs = false;
  const Step *step = &u->group->steps.at[val(dot)->step];
  if (step->product.onto) use(x, u, step->product.onto, true, false);
}

static void see_uses(Verifier *x, const Instr *v, const Group *group, int step) {
  Use u = {.user = v, .group = group};
  if (v->op == OP_DOT && group->kind == GROUP_ROWS)
    use_dot(x, &u);
  else
    use_all(x, &u, v, group->kind == GROUP_ROWS && !moves_elements(v), moves_elements(v));
  note_accesses(x, v, group, step);
}

// Values that share memory: the value that reuses the memory is the last reader of the first.
static void check_reuse(Verifier *x) {
  const Instr **holder = NEW_ARRAY(x->g->arena, const Instr *, x->g->buffers.count + 1);
  for (int i = 0; i < x->placed.count; i++) {
    const Instr *v = x->placed.at[i];
    const Buffer *b = val(v)->buffer;
    if (!b || b->id < 0 || b->id >= x->g->buffers.count) continue;
    const Instr *before = holder[b->id];
    if (before && x->last_use[before->id] > x->at[v->id])
      broken_rule(x, "kept", v,
                  text(x->g, "it takes the place of %%%d, which is read later", before->id));
    holder[b->id] = v;
  }
}

// ---- fetch

static void see_fetches(Verifier *x, const Schedule *s) {
  for (int i = 0; i < s->fetches.count; i++) {
    int ref = s->fetches.at[i]->ref->id;
    if (x->fetched[ref])
      broken_rule(x, "fetch", NULL, text(x->g, "%s is fetched twice", x->g->refs[ref].ref->name));
    x->fetched[ref] = x->frames.at[x->frame].region;
  }
}

// ---- extent

static void check_extent(Verifier *x, const Instr *v, const Group *group, int step) {
  if (group->kind != GROUP_ROWS) return;
  const Type *t = &loop_shape(v)->type;
  const Demand *demand = loop_demand(v);
  bool same = t->rank == group->leads + 1;
  for (int i = 0; same && i < group->leads; i++)
    same = t->dim[i] == group->lead[i] && demand[i] == group->lead_demand[i];
  if (!same) broken_rule(x, "extent", v, "its rows are not those of its group");
  bool between = is_row_scalar(v) && op_info[v->op].class != OPC_REDUCE && v->op != OP_DOT;
  if (!same || between) return;
  const Step *s = &group->steps.at[step];
  if (t->dim[group->leads] != s->columns || demand[group->leads] != s->demand)
    broken_rule(x, "extent", v, "its columns are not those of its step");
  const StripBound *bound = strip_bound(x->g, s->demand);
  if (bound && (group->leads != 1 || group->lead[0] != bound->mask->type.dim[0]))
    broken_rule(x, "extent", v, "its columns end at a mask of other rows");
}

// ---- dot

static bool is_right_at_hand(Gen *g, const Instr *dot, const Step *at, const DotShape *s) {
  Place p;
  if (val(dot)->dot.panels) return true;
  if (at->product.in_place)
    return layout_of(g, s->b, &p) && has_skinny_kernel(val(dot)->dot.kind, p.element);
  if (s->b->op != OP_LOAD || !is_transparent(s->b)) return false;
  const RefGen *r = &g->refs[s->b->ref->id];
  return r->form == FORM_PANELS && r->kind == val(dot)->dot.kind &&
         r->transposed == s->b_transposed;
}

static void check_dot(Verifier *x, const Instr *v, const Group *group, int step) {
  if (v->op != OP_DOT || group->kind != GROUP_ROWS) return;
  DotShape s = dot_shape(v);
  const Step *at = &group->steps.at[step];
  if (!s.plain || !val(v)->dot.kind || !is_dot(at)) {
    broken_rule(x, "dot", v, "it is not a product of two matrices");
  } else if (!is_right_at_hand(x->g, v, at, &s)) {
    broken_rule(x, "dot", v, "its right operand is neither in panels nor read in place");
  } else if (!val(v)->dot.left && !at_hand_left(x->g, v, s)) {
    broken_rule(x, "dot", v, "its left operand is not in rows of its kind");
  } else if (at->product.window && (!group->strips.line || !group->strips.rows)) {
    broken_rule(x, "dot", v, "its strips do not end where lines of its windows do");
  } else if (!at->product.into && !val(v)->buffer) {
    broken_rule(x, "dot", v, "its sums have no place");
  }
}

// Operands of one product are adjacent, in order.
static void check_parts(Verifier *x, const Instr *v, const Group *group, int step) {
  if (v->op != OP_DOT || group->kind != GROUP_ROWS) return;
  const Step *at = &group->steps.at[step];
  int64_t before = 0;
  for (int i = 0; i < at->product.parts.count; i++) {
    const DotShape s = dot_shape(at->product.parts.at[i]);
    const Buffer *a = val(s.a)->buffer, *b = val(s.b)->buffer;
    int64_t offset;
    const bool rows = at->product.window || (a->inside && expr_is_const(a->offset, &offset) &&
                                             offset == before * dtype_bytes(a->element)),
               contiguous = rows && b->inside;
    if (!contiguous) broken_rule(x, "dot", v, "its parts are not contiguous");
    before += dot_depth(at->product.parts.at[i]);
  }
  if (before != at->product.depth) broken_rule(x, "dot", v, "its parts have other terms");
}

static void check_group(Verifier *x, const Instr *v, const Group *group, int step) {
  check_extent(x, v, group, step);
  check_dot(x, v, group, step);
  check_parts(x, v, group, step);
  check_buffers(x, v, group);
}

static void check_loops(Verifier *x, const Schedule *s) {
  for (int i = 0; i < s->groups.count; i++) {
    check_columns(x, s->groups.at[i]);
    for (int r = 0; r < 2; r++)
      if (s->groups.at[i]->inner[r]) check_loops(x, s->groups.at[i]->inner[r]);
  }
}

const char *verify_loops(Gen *g) {
  Verifier x = {.g = g};
  x.at = NEW_ARRAY(g->arena, int, g->k->next_id + 1);
  x.last_use = NEW_ARRAY(g->arena, int, g->k->next_id + 1);
  x.fetched = NEW_ARRAY(g->arena, const Region *, g->k->refs.count + 1);
  x.accesses = NEW_ARRAY(g->arena, AccessList, g->k->refs.count + 1);
  LIST_PUSH(g->arena, &x.frames, ((Frame){g->k->body, -1, false, 0}));
  walk_tree(&x, see_place);
  ir_walk(g->k->body, see_unplaced, &x);
  if (!x.broken) walk_tree(&x, check_group);
  x.begin = see_fetches;
  if (!x.broken) walk_tree(&x, see_uses);
  if (!x.broken) check_loops(&x, g->body);
  if (!x.broken) check_reuse(&x);
  if (!x.broken) check_refs(&x);
  if (!x.broken) check_split(&x);
  if (!x.broken) check_hazards(&x);
  if (!x.broken && !demand_is_met(g))
    broken_rule(&x, "demand", NULL, "more is read than is computed");
  return x.broken;
}
