// Which values are stored in memory, and where in the arena.
//
// The arena of a worker holds the tags of block caches (cleared at launch), then blocks and
// scratch, then the values and temporaries that do not fit in registers.
#include "codegen/loops/loops.h"

#include <stdlib.h>
#include <string.h>

// ---- shapes in memory

static const Expr *padded_extent(Gen *g, Dim d, int64_t at_least) {
  const Expr *extent = extent_expr(g, d);
  return at_least ? expr_max(&g->exprs, extent, number(g, at_least)) : extent;
}

static const Expr *run_time_row(Gen *g, DType element, const Expr *extent, int64_t to) {
  const Expr *length =
      quantity(g, FN_ROW_LENGTH, extent, number(g, to), number(g, dtype_bytes(element)));
  for (int i = 0; i < g->rows.count; i++)
    if (g->rows.at[i]->definition == length) return g->rows.at[i];
  const char *base = extent->kind == EXPR_SYMBOL ? text(g, "%s_row", extent->name) : "row_length";
  const Expr *row = expr_declared(&g->exprs, lasting_name(&g->names, base), length);
  LIST_PUSH(g->arena, &g->rows, row);
  return row;
}

static const Expr *row_length(Gen *g, DType element, Dim columns, int64_t at_least) {
  int64_t to = dtype_bytes(element) >= 4 ? g->panel : g->lanes * 2;
  if (!dim_is_const(columns))
    return run_time_row(g, element, padded_extent(g, columns, at_least), to);
  int64_t padded = (columns + to - 1) / to * to;
  if (columns > 1 && padded * dtype_bytes(element) % ROW_ALIAS == 0) padded += g->lanes;
  return number(g, columns == 1 ? 1 : padded);
}

// Creates a buffer, with at least some elements along each axis.
static Buffer *padded_buffer(Gen *g, const char *base, DType element, int rank, const Dim *dims,
                             const int64_t *at_least, const char *purpose) {
  Buffer *b = NEW(g->arena, Buffer);
  b->id = g->buffers.count;
  b->name = lasting_name(&g->names, base);
  b->element = element;
  b->rank = rank;
  b->purpose = purpose;
  const Expr *stride = number(g, 1);
  b->bytes = number(g, dtype_bytes(element));
  for (int i = rank - 1; i >= 0; i--) {
    const Expr *extent = i == rank - 1 ? row_length(g, element, dims[i], at_least[i])
                                       : padded_extent(g, dims[i], at_least[i]);
    b->dim[i] = dims[i];
    b->stride[i] = stride;
    stride = expr_mul(&g->exprs, extent, stride);
    b->bytes = expr_sat_mul(&g->exprs, b->bytes, extent);
  }
  LIST_PUSH(g->arena, &g->buffers, b);
  return b;
}

Buffer *buffer_new(Gen *g, const char *base, DType element, int rank, const Dim *dims,
                   const char *purpose) {
  static const int64_t none[MAX_RANK] = {0};
  return padded_buffer(g, base, element, rank, dims, none, purpose);
}

// ---- operands and scratch

// The rows of a panel that hold `demand` of the operand, in whole groups.
const Expr *panel_depth(Gen *g, const DotKind *kind, Demand demand, Dim k) {
  return expr_round_up(&g->exprs, demand_expr(g, demand, k), kind->group);
}

Buffer *panels_buffer(Gen *g, const char *base, const DotKind *kind, DType operand, Dim k, Dim n,
                      const char *purpose) {
  DType element = dot_element(kind, operand);
  Dim one = 1;
  Buffer *b = buffer_new(g, base, element, 1, &one, purpose);
  const Expr *depth = panel_depth(g, kind, DEMAND_FULL, k);
  const Expr *count =
      expr_sat_mul(&g->exprs, expr_round_up(&g->exprs, extent_expr(g, n), g->panel), depth);
  b->bytes = expr_sat_mul(&g->exprs, count, number(g, dtype_bytes(element)));
  return b;
}

static bool map_uses_axis(const Ref *ref, int axis) {
  for (int k = 0; k < ref->array.rank; k++)
    if (ir_uses_axis(ir_yielded(ref->index_map, k), axis)) return true;
  return false;
}

// The blocks that are revisited: when the grid steps through an axis that the map ignores, all
// indices of the axes inside it.
static void find_revisits(Gen *g, RefGen *r) {
  ExprPool *pool = &g->exprs;
  const Expr *inside = NULL, *one = number(g, 1);
  for (int a = g->k->grid.count - 1; a >= 0; a--) {
    const Instr *extent = ir_yielded(g->k->grid.at[a].extent, 0);
    if (extent->op == OP_CONST && extent->ival <= 1) continue;
    const Expr *n = grid_extent(g, a);
    if (map_uses_axis(r->ref, a)) {
      inside = inside ? expr_sat_mul(pool, n, inside) : n;
    } else if (inside) {
      r->revisited.count = expr_choose(pool, expr_operator(pool, EXPR_GT, n, one), inside,
                                       r->revisited.count ? r->revisited.count : one);
      r->revisited.most = inside;
    }
  }
}

static void input_buffer(Gen *g, RefGen *r) {
  const Ref *ref = r->ref;
  const char *base = text(g, "%s_blocks", r->stem);
  Dim dims[MAX_RANK];
  memcpy(dims, ref->type.dim, sizeof dims);
  if (r->form == FORM_PANELS) {
    r->buffer = panels_buffer(g, base, r->kind, ref->type.dtype, dims[r->transposed],
                              dims[1 - r->transposed], "panels for dot");
    r->depth = panel_depth(g, r->kind, r->demand[r->transposed], dims[r->transposed]);
  } else if (r->form == FORM_ROWS) {
    if (r->transposed) {
      dims[0] = ref->type.dim[1];
      dims[1] = ref->type.dim[0];
    }
    r->buffer = buffer_new(g, base, r->element, 2, dims, "rows for dot");
  } else {
    r->buffer = padded_buffer(g, base, r->element, ref->type.rank, dims, r->at_least, "block");
  }
  if (!g->options->literal_dma && !shares_memory(g, ref)) find_revisits(g, r);
}

// The stride of axis k of an array that is read in place. The last axis has no gaps.
static const Expr *direct_stride(Gen *g, const RefGen *r, int k) {
  if (k == r->ref->array.rank - 1) return number(g, 1);
  return expr_symbol(&g->exprs, lasting_name(&g->names, text(g, "%s_s%d", r->stem, k)));
}

// The strides of an array that is read in place in some steps.
static void strides_by_place(Gen *g, RefGen *r) {
  for (int k = 0, axis = 0; k < r->ref->array.rank; k++)
    if (!r->ref->squeeze[k]) r->stride[axis++] = direct_stride(g, r, k);
}

// Creates the buffers of refs, and sets the places of refs that are read in place.
void ref_buffers(Gen *g) {
  for (int i = 0; i < g->k->refs.count; i++) {
    RefGen *r = &g->refs[i];
    const Ref *ref = r->ref;
    if (r->form == FORM_DIRECT) {
      r->name = lasting_name(&g->names, ref->name);
      for (int k = 0, axis = 0; k < ref->array.rank; k++)
        if (!ref->squeeze[k]) r->stride[axis++] = direct_stride(g, r, k);
      continue;
    }
    if (ref->space == SPACE_SEM) {
      r->element = DT_I64;
      r->buffer = buffer_new(g, ref->name, DT_I64, ref->type.rank, ref->type.dim, "semaphores");
    } else if (ref->role == REF_INPUT)
      input_buffer(g, r);
    else
      r->buffer = padded_buffer(g, r->in_place.when ? text(g, "%s_blocks", r->stem) : ref->name,
                                r->element, ref->type.rank, ref->type.dim, r->at_least,
                                ref->role == REF_OUTPUT ? "block"
                                : ref->role == REF_VAR  ? "variable"
                                                        : "scratch");
    if (ref->role != REF_INPUT && is_adjacent_ref(g, ref)) widen_for_adjacent(g, r->buffer);
    if (r->in_place.always)
      r->buffer->bytes = expr_choose(&g->exprs, r->in_place.always, number(g, 0), r->buffer->bytes);
    r->name = ref->role == REF_INPUT || r->in_place.when ? lasting_name(&g->names, ref->name)
                                                         : r->buffer->name;
    if (r->form == FORM_PANELS) continue;
    memcpy(r->stride, r->buffer->stride, sizeof r->stride);
    if (r->in_place.when) strides_by_place(g, r);
  }
}

// ---- values

typedef struct {
  bool whole, row;
  DType element;
  int last_step;
} Wants;

static int defined_in_run(const Group *group, const Instr *v) {
  return run_of_step(group, is_row_scalar(v) ? val(v)->after + 1 : val(v)->step);
}

// Records how a user reads a value: as a whole, row by row, or element by element.
static void want(Wants *w, const Instr *v, const Instr *user, bool moved) {
  const Group *group = val(v)->group;
  if (val(user)->group != group || moved) {
    w->whole = true;
    return;
  }
  if (user->op == OP_DOT) {
    w->row = true;
    const bool sums = group->steps.at[val(user)->step].product.onto == v;
    w->element = sums ? v->type.dtype : dot_element(val(user)->dot.kind, v->type.dtype);
    if (val(user)->step > w->last_step) w->last_step = val(user)->step;
    return;
  }
  if (is_row_scalar(v)) {
    bool by_vector = group->has_dot && group->recomputes &&
                     !is_row_scalar(user);  // which may be computed again elsewhere
    if (by_vector || loop_of(group, v) != loop_of(group, user)) w->row = true;
    return;
  }
  if (val(user)->step > w->last_step) w->last_step = val(user)->step;
  if (val(user)->step != val(v)->step || v->op == OP_DOT) w->row = true;
}

static void want_users(Wants *w, const Instr *v, const Instr *through, bool moved) {
  for (int i = 0; i < val(through)->users.count; i++) {
    const Instr *user = val(through)->users.at[i];
    if (is_transparent(user))
      want_users(w, v, user, moved || moves_elements(user));
    else if (feeds_only_dots(user))
      want_users(w, v, user, true);
    else
      want(w, v, user, moved || moves_elements(user));
  }
}

static bool is_cheap(Op op) {
  OpClass class = op_info[op].class;
  return op_has(op, CHEAP) || class == OPC_COMPARE || class == OPC_SELECT || op == OP_CAST;
}

static bool stored_in(const Group *group, const Ref *ref) {
  for (int s = 0; s < group->steps.count; s++) {
    if (group->steps.at[s].product.into && group->steps.at[s].product.into->ref == ref) return true;
    for (int m = 0; m < group->steps.at[s].members.count; m++) {
      const Instr *v = group->steps.at[s].members.at[m];
      if (v->op == OP_STORE && v->ref == ref) return true;
    }
  }
  for (int i = 0; i < group->scalars.count; i++)
    if (group->scalars.at[i]->op == OP_STORE && group->scalars.at[i]->ref == ref) return true;
  return false;
}

// The number of operations that recompute a vector from memory and scalars.
static int cost_again(Gen *g, const Group *group, const Instr *v, int home_run) {
  if (v->type.rank == 0) return 0;
  if (v->op == OP_LOAD && is_transparent(v)) return stored_in(group, v->ref) ? 100 : 0;
  if ((v->op == OP_BROADCAST || v->op == OP_CAST) && is_transparent(v))
    return cost_again(g, group, v->args[0], home_run);
  if (is_transparent(v)) return v->op == OP_IOTA ? 1 : 0;
  if (val(v)->group != group || val(v)->buffer || v->op == OP_DOT) return 0;
  if (is_row_scalar(v)) return defined_in_run(group, v) == home_run ? 0 : 100;
  if (!is_cheap(v->op)) return 100;
  if (is_narrow_float(v->type.dtype) && v->op == OP_CAST) return CHEAP_OPS + 1;  // rounds
  int cost = v->op != OP_CAST || !is_float(v->type.dtype);
  for (int i = 0; i < v->nargs && cost <= CHEAP_OPS; i++)
    cost += cost_again(g, group, v->args[i], home_run);
  return cost;
}

static Buffer *row_buffer(Gen *g, const Group *group, const Instr *v, DType element) {
  Dim dims[2] = {group->strips.rows ? group->strips.buffer_rows : 1, v->type.dim[v->type.rank - 1]};
  if (group->has_dot && !group->strips.rows) dims[0] = group->lead[0];
  return buffer_new(g, v->text ? v->text : text(g, "t%d", v->id), element, 2, dims,
                    group->strips.rows ? "a strip of rows" : "one row");
}

static bool read_after(const Group *group, const Instr *kept, const Instr *v);

// Is a vector that is not in memory among those that are recomputed after v?
static bool again_after(const Group *group, const Instr *part, const Instr *v) {
  if (val(part)->memo.not_again == v) return false;  // visited already
  for (int i = 0; i < val(part)->users.count; i++) {
    const Instr *user = val(part)->users.at[i];
    const Val *info = val(user);
    if (info->group != group || info->buffer) continue;
    if (info->recompute ? read_after(group, user, v) : again_after(group, user, v)) return true;
  }
  val(part)->memo.not_again = v;
  return false;
}

// Is a vector in memory read after v is computed? A value that is recomputed at each use reads it
// there, and so does every operand of that value that is not in memory.
static bool read_after(const Group *group, const Instr *kept, const Instr *v) {
  if (val(kept)->memo.read_before == v) return false;  // visited already, on another path from v
  for (int i = 0; i < val(kept)->users.count; i++) {
    const Instr *user = val(kept)->users.at[i];
    const Val *info = val(user);
    if (is_transparent(user) || feeds_only_dots(user) ||
        (info->recompute && info->group == group)) {
      if (read_after(group, user, v)) return true;
      continue;
    }
    if (info->group != group || (is_row_scalar(user) && op_info[user->op].class != OPC_REDUCE))
      return true;
    if (info->step > val(v)->step ||
        (info->step == val(v)->step && info->position > val(v)->position))
      return true;
    if (!info->buffer && again_after(group, user, v)) return true;
  }
  val(kept)->memo.read_before = v;
  return false;
}

// The last reader of a vector can reuse that vector's memory.
static Buffer *reusable(const Group *group, const Instr *v, const Instr *user, DType element) {
  for (int i = 0; i < user->nargs; i++) {
    const Instr *arg = user->args[i];
    while (arg->op == OP_BROADCAST && type_same_shape(&arg->type, &arg->args[0]->type))
      arg = arg->args[0];  // a mask that was dropped
    Val *info = val(arg);
    if (info->group != group || info->memo.not_reusable == v ||
        !type_same_shape(&arg->type, &v->type))
      continue;
    info->memo.not_reusable = v;
    if (info->buffer && info->row_local && info->buffer->element == element) {
      Wants w = {.last_step = -1};
      want_users(&w, arg, arg, false);
      if (!w.whole && !read_after(group, arg, v)) return info->buffer;
    }
    bool here = !info->buffer && (info->recompute || info->step == val(v)->step);
    Buffer *further = here ? reusable(group, v, arg, element) : NULL;
    if (further) return further;
  }
  return NULL;
}

// Creates the buffer of a value, if its users require one.
static void place_member(Gen *g, Group *group, Instr *v) {
  if (v->op == OP_STORE) return;
  Wants w = {.element = v->type.dtype, .last_step = -1};
  if (v->op == OP_DOT) w.row = true;
  want_users(&w, v, v, false);
  if (val(v)->snapshot) w.row = true;
  if (w.whole) {
    StripBound *bound = strip_bound(g, val(v)->demand[v->type.rank - 1]);
    if (bound) bound->shared = true;
    val(v)->buffer = buffer_new(g, v->text ? v->text : text(g, "t%d", v->id), w.element,
                                v->type.rank, v->type.dim, "value");
    if (is_adjacent_value(g, v)) widen_for_adjacent(g, val(v)->buffer);
    val(v)->row_local = group->feeds.dots != NULL;  // parts of it are at the beginning
    return;
  }
  if (!w.row) return;
  bool by_dot =
      w.element != v->type.dtype || (w.last_step >= 0 && is_dot(&group->steps.at[w.last_step]));
  if (!is_row_scalar(v) && !by_dot && v->op != OP_DOT && !val(v)->snapshot) {
    int run = run_of_step(group, w.last_step);
    if (run == run_of_step(group, val(v)->step) && cost_again(g, group, v, run) <= CHEAP_OPS) {
      val(v)->recompute = group->recomputes = true;
      return;
    }
  }
  val(v)->row_local = true;
  const Instr *onto = v->op == OP_DOT ? group->steps.at[val(v)->step].product.onto : NULL;
  if (onto && val(onto)->row_local) {
    val(v)->buffer = val(onto)->buffer;
    return;
  }
  val(v)->buffer = is_row_scalar(v) || v->op == OP_DOT ? NULL : reusable(group, v, v, w.element);
  if (val(v)->buffer) return;
  val(v)->buffer = row_buffer(g, group, v, w.element);
  if (is_adjacent_value(g, v) && !is_row_scalar(v)) widen_for_adjacent(g, val(v)->buffer);
}

// ---- operands of dots

// Are neighbours along a row of the window neighbours in its ref?
static bool has_dense_rows(const RefGen *r, const Instr *load) {
  int last = load->ref->type.rank - 1;
  while (load->window.squeeze[last]) last--;
  return load->window.stride[last] == 1 && expr_is(r->stride[last], 1);
}

bool at_hand_left(Gen *g, const Instr *dot, DotShape s) {
  DType element = dot_element(val(dot)->dot.kind, s.a->type.dtype);
  const Val *info = val(s.a);
  if (val(dot)->group->steps.at[val(dot)->step].product.window) return true;
  if (s.a->op == OP_LOAD && is_transparent(s.a)) {
    const RefGen *r = &g->refs[s.a->ref->id];
    if (r->form == FORM_ROWS) return true;
    return !s.a_transposed && r->element == element && has_dense_rows(r, s.a);
  }
  return !s.a_transposed && info->buffer && info->buffer->element == element;
}

static bool goes_to(const Instr *store, const void *ref) { return store->ref == ref; }

// Is the right operand in memory, in rows that a skinny product reads in place, and do its loops
// leave it unchanged? Filling panels would take longer than multiplying.
static bool reads_right_in_place(Gen *g, const Group *group, const Step *step) {
  const Instr *b = dot_shape(step->product.dot).b;
  const bool skinny = group->leads == 1 && is_skinny(group->lead[0]);
  Place p;
  if (!skinny || step->product.right) return false;
  const Instr *access = val(b)->stored_by ? val(b)->stored_by : load_behind(b);
  if (access && (g->refs[access->ref->id].form == FORM_PANELS || shares_memory(g, access->ref) ||
                 any_store(group, goes_to, access->ref)))
    return false;
  return layout_of(g, b, &p) && expr_is(p.stride[1], 1) &&
         has_skinny_kernel(val(step->product.dot)->dot.kind, p.element);
}

// Creates the buffers of a dot's operands and result.
static void place_dot(Gen *g, Step *step) {
  Instr *dot = step->product.dot;
  DotShape s = dot_shape(dot);
  const DotKind *kind = val(dot)->dot.kind;
  int m = s.a_transposed, n = s.b_transposed;
  if (!at_hand_left(g, dot, s)) {
    Dim dims[2] = {s.a->type.dim[m], s.a->type.dim[1 - m]};
    val(dot)->dot.left =
        buffer_new(g, text(g, "left%d", dot->id), dot_element(kind, s.a->type.dtype), 2, dims,
                   "left operand of dot");
  }
  Dim k = step->product.depth ? step->product.depth : s.b->type.dim[n],
      columns = s.b->type.dim[1 - n];
  step->product.along = contracted_demand(g, dot);
  if (step->joined) return;
  RefGen *b = s.b->op == OP_LOAD && is_transparent(s.b) ? &g->refs[s.b->ref->id] : NULL;
  bool packed = b && b->form == FORM_PANELS;
  if (!packed && !step->product.in_place)
    val(dot)->dot.panels = panels_buffer(g, text(g, "panels%d", dot->id), kind, s.b->type.dtype, k,
                                         columns, "right operand of dot");
  val(dot)->dot.depth = packed ? b->depth : panel_depth(g, kind, DEMAND_FULL, k);
  val(dot)->dot.tail_columns = !step->product.in_place && may_have_tail(g, dot);
  step->product.source = packed && b->in_place.dot_rows ? b : NULL;
  for (int i = 0; i < step->product.parts.count; i++) {
    val(step->product.parts.at[i])->dot.panels = val(dot)->dot.panels;
    val(step->product.parts.at[i])->dot.depth = val(dot)->dot.depth;
  }
}

// Does a step that recomputes v read it where it is computed first?
static bool read_at_home(const Instr *v, const Instr *through) {
  for (int i = 0; i < val(through)->users.count; i++) {
    const Instr *user = val(through)->users.at[i];
    const Val *info = val(user);
    bool here = info->group == val(v)->group && info->step == val(v)->step && !info->elsewhere;
    if (is_transparent(user) ? read_at_home(v, user) : here) return true;
  }
  return false;
}

// Vectors that every reader recomputes are not computed where they are defined.
static void drop_unread(Step *step) {
  for (int m = step->members.count - 1; m >= 0; m--) {
    Instr *v = step->members.at[m];
    if (val(v)->recompute) val(v)->elsewhere = !read_at_home(v, v);
  }
  int kept = 0;
  for (int m = 0; m < step->members.count; m++)
    if (!val(step->members.at[m])->elsewhere) step->members.at[kept++] = step->members.at[m];
  step->members.count = kept;
}

static void place_group(Gen *g, Group *group) {
  for (int s = 0; s < group->steps.count; s++) {
    Step *step = &group->steps.at[s];
    step->product.in_place = is_dot(step) && reads_right_in_place(g, group, step);
  }
  choose_strips(g, group);
  for (int s = 0; s < group->steps.count; s++) {
    Step *step = &group->steps.at[s];
    if (is_dot(step) && !step->product.into) place_member(g, group, step->product.dot);
    for (int m = 0; m < step->members.count; m++) place_member(g, group, step->members.at[m]);
  }
  for (int i = 0; i < group->scalars.count; i++) place_member(g, group, group->scalars.at[i]);
  for (int s = 0; s < group->steps.count; s++) drop_unread(&group->steps.at[s]);
}

void place_values(Gen *g, Schedule *s) {
  for (int i = 0; i < s->groups.count; i++) {
    Group *group = s->groups.at[i];
    if (group->kind == GROUP_ROWS) place_group(g, group);
    if (group->kind == GROUP_GENERIC && has_result(group->instr) && !val(group->instr)->stored_by) {
      Instr *v = group->instr;
      val(v)->buffer = buffer_new(g, v->text ? v->text : text(g, "t%d", v->id), v->type.dtype,
                                  v->type.rank, v->type.dim, "value");
    }
    if (group->kind == GROUP_CONTROL && has_result(group->instr) && group->instr->type.rank > 0) {
      Instr *v = group->instr;
      val(v)->buffer =
          buffer_new(g, text(g, "t%d", v->id), v->type.dtype, v->type.rank, v->type.dim, "value");
    }
  }
  for (int i = 0; i < s->groups.count; i++)
    if (s->groups.at[i]->kind == GROUP_GENERIC) keep_parts_inside(g, s->groups.at[i]->instr);
}

void place_dots(Gen *g, Schedule *s) {
  for (int i = 0; i < s->groups.count; i++)
    for (int k = 0; s->groups.at[i]->kind == GROUP_ROWS && k < s->groups.at[i]->steps.count; k++)
      if (is_dot(&s->groups.at[i]->steps.at[k])) place_dot(g, &s->groups.at[i]->steps.at[k]);
}
