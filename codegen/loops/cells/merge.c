// Merges the steps of a sum.
//
// A block cuts rows into pieces. If a product has few rows or columns, the other operand is read
// once, in place, and pieces of rows are slower to read than whole rows, because the hardware
// prefetchers start again at each piece. Therefore all steps of the innermost axis are merged into
// one, as if the block spanned the whole array. The result must be the same: the axis only moves
// the operands of `acc += dot(a, b)` along the contracted axis, and selects the first and the last
// step. Whether steps are merged is decided at run time, by the sizes.
#include "codegen/ir/independence.h"
#include "codegen/loops/loops.h"

typedef struct {
  Gen *g;
  int axis;
  int sums;  // the number of sums found so far
  bool ended, fits;
  const Expr *when;
} MergeSearch;

// ---- operands

static bool moves(const MergeSearch *s, const Ref *ref) {
  return ref_is_operand(ref) && ir_uses_grid(ir_grid_use(ref, s->axis));
}

// The grid's axis moves this axis of the block and no other axis.
static bool moves_along(const MergeSearch *s, const Ref *ref, int axis) {
  if (ref->role != REF_INPUT || ref->at != AT_BLOCK || ref->space != SPACE_VMEM) return false;
  const GridUse use = ir_grid_use(ref, s->axis);
  const int k = ir_array_axis(ref, axis);
  return use.axis == k && !use.other && dim_is_const(ref->block[k]);
}

static bool is_whole_load(const Instr *v) {
  return v->op == OP_LOAD && v->ref->type.rank == 2 && ir_window_is_full(v) &&
         v->nargs == v->ref->type.rank;
}

// Rows or columns of a product, as many as its array has.
static const Expr *are_skinny(const MergeSearch *s, const Ref *ref, int axis) {
  const Expr *all = extent_expr(s->g, ref->array.dim[ir_array_axis(ref, axis)]);
  return expr_operator(&s->g->exprs, EXPR_LE, all,
                       number(s->g, s->g->target->core->lines_followed));
}

// Elements that are multiplied as they are stored.
static bool reads_lines(const Instr *dot, const Ref *a, const Ref *b) {
  const DType left = a->array.dtype, right = b->array.dtype;
  const bool pairs = val(dot)->dot.kind->id == DOT_BF16 && dot_shape(dot).b_transposed;
  return left == right && (left == DT_F32 || (left == DT_BF16 && pairs));
}

// Both are read in place if there are few of them.
static bool takes_dot(MergeSearch *s, const Instr *dot) {
  const DotShape shape = dot_shape(dot);
  if (!shape.plain || shape.a_transposed || !is_whole_load(shape.a) || !is_whole_load(shape.b))
    return false;
  const RefGen *a = &s->g->refs[shape.a->ref->id], *b = &s->g->refs[shape.b->ref->id];
  const bool in_place = a->form == FORM_DIRECT && b->form == FORM_PANELS && b->in_place.dot_rows &&
                        !b->in_place.whole && reads_lines(dot, a->ref, b->ref);
  const Demand along = contracted_demand(s->g, dot);
  if (!in_place || !moves_along(s, a->ref, 1) || !moves_along(s, b->ref, shape.b_transposed) ||
      along == DEMAND_FULL || a->inside[1] != along || b->inside[shape.b_transposed] != along)
    return false;
  const Expr *skinny = NULL;
  if (shape.b_transposed)
    skinny = are_skinny(s, a->ref, 0);
  else if (b->in_place.filled_by && val(b->in_place.filled_by)->dot.tail_columns)
    skinny = are_skinny(s, b->ref, 1);
  if (skinny != s->when) s->when = expr_and(&s->g->exprs, s->when, skinny);
  return skinny;
}

// ---- the body

// `acc += dot(a, b)`, where the micro-kernel itself adds to acc.
static bool is_sum(MergeSearch *s, const Instr *store) {
  const Instr *sum = ir_store_value(store);
  for (int i = 0; sum->op == OP_ADD && i < 2; i++) {
    const Instr *dot = sum->args[i];
    if (dot->op != OP_DOT || !val(dot)->group || val(dot)->group->kind != GROUP_ROWS) continue;
    const Step *step = &val(dot)->group->steps.at[val(dot)->step];
    if (step->product.dot == dot && step->product.into == store && !step->product.set &&
        !step->joined && !step->product.parts.count && takes_dot(s, dot))
      return true;
  }
  return false;
}

static bool leads_to_dots(const Instr *v) {
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    const bool transposed = user->op == OP_TRANSPOSE && leads_to_dots(user);
    if (!transposed && (user->op != OP_DOT || user->type.rank != 2)) return false;
  }
  return true;
}

// Do its users only compute the conditions of the first and the last step?
static bool tests_end_steps(const MergeSearch *s, const Instr *v) {
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    const bool end = is_end_step(s->g, user, false) || is_end_step(s->g, user, true);
    if (user->op == OP_IF ? !is_end_step(s->g, v, false) && !is_end_step(s->g, v, true)
                          : !(end || user->op == OP_SUB) || !tests_end_steps(s, user))
      return false;
  }
  return true;
}

static void look_inside(Instr *v, void *context) {
  MergeSearch *s = context;
  const bool reads = v->op == OP_LOAD && moves(s, v->ref),
             tells = (v->op == OP_AXIS || v->op == OP_EXTENT) && v->ival == s->axis,
             asks = v->nargs &&
                    (is_end_step(s->g, v->args[0], false) || is_end_step(s->g, v->args[0], true));
  if (reads || tells || asks || v->op == OP_BREAK) s->fits = false;
}

static bool takes_if(MergeSearch *s, const Instr *v) {
  const bool first = is_end_step(s->g, v->args[0], false),
             last = is_end_step(s->g, v->args[0], true);
  if (has_result(v) || (!first && !last) || (first && s->sums)) return false;
  s->ended |= last;
  for (int r = 0; r < 2; r++) {
    if (r && v->regions[r] && v->regions[r]->instrs.count) return false;
    if (v->regions[r]) ir_walk(v->regions[r], look_inside, s);
  }
  return s->fits;
}

// Only the sums read and store an accumulator, except in the first and the last step.
static bool reads_for_sum(const Instr *v) {
  return val(v)->users.count == 1 && val(v)->users.at[0]->op == OP_ADD;
}

static bool takes(MergeSearch *s, const Instr *v) {
  if (v->op == OP_IF) return takes_if(s, v);
  if (v->op == OP_STORE) {
    s->sums++;
    return !s->ended && !ref_is_operand(v->ref) && is_sum(s, v);
  }
  if (v->op == OP_LOAD)
    return moves(s, v->ref) ? leads_to_dots(v) : ref_is_operand(v->ref) || reads_for_sum(v);
  if ((v->op == OP_AXIS || v->op == OP_EXTENT) && v->ival == s->axis) return tests_end_steps(s, v);
  return v->op == OP_FETCH || v->op == OP_WRITEBACK || v->op == OP_YIELD ||
         (has_result(v) && op_info[v->op].class != OPC_CONTROL);
}

// Every sum has its own accumulator.
static bool are_apart(const Region *body) {
  for (int i = 0; i < body->instrs.count; i++)
    for (int j = 0; j < i; j++) {
      const Instr *a = body->instrs.at[i], *b = body->instrs.at[j];
      if (a->op == OP_STORE && b->op == OP_STORE && a->ref == b->ref) return false;
    }
  return true;
}

void find_merge(Gen *g) {
  const Kernel *k = g->k;
  const Region *body = k->body;
  MergeSearch s = {.g = g, .axis = sequential_axis(g), .fits = true};
  if (s.axis < 0 || !g->target->core->lines_followed || g->options->literal_dma || !are_apart(body))
    return;
  for (int i = 0; i < k->refs.count; i++)
    if (k->refs.at[i]->role == REF_OUTPUT && moves(&s, k->refs.at[i])) return;
  for (int i = 0; i < body->instrs.count; i++)
    if (!takes(&s, body->instrs.at[i])) return;
  if (!s.sums) return;
  g->merge = NEW(g->arena, Merge);
  *g->merge = (Merge){
      .axis = s.axis,
      .when = s.when,
      .together = expr_symbol(
          &g->exprs, lasting_name(&g->names, text(g, "%s_together", g->c_name.axis[s.axis])))};
}

bool is_merged(const Gen *g, const RefGen *r, int k) {
  return g->merge && r->ref->role == REF_INPUT && r->ref->at == AT_BLOCK &&
         ir_uses_axis(ir_yielded(r->ref->index_map, k), g->merge->axis);
}

void explain_merge(Gen *g) {
  explain(g,
          "  %-12s all steps are merged, with whole arrays as blocks, when %s: inputs are read "
          "along their rows",
          "", expr_plain(g->merge->when));
}
