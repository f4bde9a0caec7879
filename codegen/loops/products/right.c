// Right operands of `dot` that loops compute.
//
// A skinny dot reads its right operand once. If loops over the operand's rows compute it, and these
// loops serve nothing else, they run inside the dot: some rows at a time are computed, stay in L1
// and are multiplied. So weights of 8 or 4 bits are read from memory once, unconverted. With more
// rows than PK_DOT_SKINNY the whole operand is computed before the dot and packed into panels, like
// any other.
#include "codegen/loops/loops.h"

// May the rows of this dot be multiplied by some rows of its right operand at a time, before
// anything else in its group?
static bool takes_parts(Gen *g, const Group *group, int step) {
  const Step *s = &group->steps.at[step];
  if (!is_dot(s) || group->leads != 1) return false;
  const DotShape shape = dot_shape(s->product.dot);
  const DotKind *kind = val(s->product.dot)->dot.kind;
  bool skinny = may_be_skinny(group->lead[0]) || group->lead_demand[0] != DEMAND_FULL;
  bool has_kernel = has_skinny_kernel(kind, shape.b->type.dtype);
  bool left_before = shape.a->op == OP_LOAD || val(shape.a)->group != group;
  return skinny && has_kernel && left_before && !strip_bound(g, s->demand) &&
         !strip_bound(g, contracted_demand(g, s->product.dot)) &&
         !strip_bound(g, group->lead_demand[0]);
}

// The loops that compute its right operand; NULL: there are none, or they are not plain loops over
// its rows.
static Group *producer_of(const Group *group, const Step *step) {
  const Instr *b = dot_shape(step->product.dot).b;
  if (b->op == OP_LOAD || is_transparent(b)) return NULL;
  Group *producer = val(b)->group;
  bool plain = producer && producer != group && producer->kind == GROUP_ROWS &&
               producer->region == group->region && producer->leads == 1 && !producer->has_dot;
  return plain ? producer : NULL;
}

// Is it computed by a group, looking through reshapes and transposes?
static bool is_made_by(const Instr *v, const Group *producer) {
  while (v->op != OP_LOAD && v->nargs > 0 && (is_transparent(v) || feeds_only_dots(v)))
    v = v->args[0];
  return val(v)->group == producer;
}

// Is v read by its own group and, as right operand, by these first dots of `reader` alone?
static bool serves_only(const Instr *v, const Group *producer, const Group *reader, int dots) {
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    if (is_transparent(user) || feeds_only_dots(user)) {
      if (!serves_only(user, producer, reader, dots)) return false;
    } else if (user->op == OP_DOT) {
      if (val(user)->group != reader || val(user)->step >= dots ||
          is_made_by(dot_shape(user).a, producer))
        return false;
    } else if (val(user)->group != producer) {
      return false;
    }
  }
  return true;
}

static bool makes_only(const Group *producer, const Group *reader, int dots) {
  for (int i = 0; i < producer->scalars.count; i++)
    if (producer->scalars.at[i]->op == OP_STORE ||
        !serves_only(producer->scalars.at[i], producer, reader, dots))
      return false;
  for (int s = 0; s < producer->steps.count; s++)
    for (int m = 0; m < producer->steps.at[s].members.count; m++) {
      const Instr *v = producer->steps.at[s].members.at[m];
      if (v->op == OP_STORE || !serves_only(v, producer, reader, dots)) return false;
    }
  return true;
}

static bool reads(const Group *group, const Ref *ref) {
  for (int i = 0; i < group->scalars.count; i++)
    if (instr_reads(group->scalars.at[i], ref)) return true;
  for (int s = 0; s < group->steps.count; s++)
    for (int m = 0; m < group->steps.at[s].members.count; m++)
      if (instr_reads(group->steps.at[s].members.at[m], ref)) return true;
  return false;
}

static bool reads_stored(const Group *producer, const Instr *store) {
  return store && store->op == OP_STORE && reads(producer, store->ref);
}

static bool is_read_by(const Instr *store, const void *producer) {
  return reads_stored(producer, store);
}

// Does a group write what `producer` reads, so that this cannot run after it?
static bool writes_for(const Group *group, const Group *producer) {
  if (group->kind == GROUP_CONTROL) return true;
  if (any_store(group, is_read_by, producer)) return true;
  const Instr *v = group->instr;
  return group->kind != GROUP_ROWS &&
         (reads_stored(producer, v) ||
          (has_result(v) && reads_stored(producer, val(v)->stored_by)));
}

static bool may_run_later(const Schedule *s, const Group *producer, const Group *reader) {
  for (int i = producer->index + 1; i <= reader->index; i++)
    if (writes_for(s->groups.at[i], producer)) return false;
  return true;
}

// Sums that another of these dots adds to, or reads, must be complete.
static bool are_apart(const Group *group, int step) {
  const Step *s = &group->steps.at[step];
  if (s->product.onto) return false;
  for (int e = 0; e <= step; e++) {
    const Step *other = &group->steps.at[e];
    const Instr *stores[] = {other->product.into, other->product.result};
    for (int i = 0; i < 2; i++) {
      if (!stores[i]) continue;
      if (instr_reads(s->product.dot, stores[i]->ref)) return false;
      if (e < step && s->product.into && s->product.into->ref == stores[i]->ref) return false;
      if (e < step && s->product.result && s->product.result->ref == stores[i]->ref) return false;
    }
  }
  return true;
}

static bool stores_scalars(const Group *group) {
  for (int i = 0; i < group->scalars.count; i++)
    if (group->scalars.at[i]->op == OP_STORE) return true;
  return false;
}

// Lets the first dots of a group read their right operands in parts, as many of them as can.
static void join_producers(Gen *g, const Schedule *s, Group *group) {
  int dots = 0;
  while (dots < group->steps.count && takes_parts(g, group, dots) &&
         producer_of(group, &group->steps.at[dots]) && are_apart(group, dots))
    dots++;
  for (; dots > 0; dots--) {
    bool all = true;
    for (int i = 0; all && i < dots; i++) {
      const Group *producer = producer_of(group, &group->steps.at[i]);
      all = makes_only(producer, group, dots) && may_run_later(s, producer, group);
    }
    if (all) break;
  }
  for (int i = 0; i < dots; i++) {
    Step *step = &group->steps.at[i];
    step->product.right = producer_of(group, step);
    step->product.right->feeds.dots = group;
  }
}

void join_right_operands(Gen *g, Schedule *s) {
  for (int i = 0; i < s->groups.count; i++) {
    Group *group = s->groups.at[i];
    if (group->kind == GROUP_ROWS && group->has_dot && !stores_scalars(group))
      join_producers(g, s, group);
  }
}

// ---- how they are executed, once all values have their addresses

// The few rows of a dot that take a right operand.
static int rows_of_part(const Gen *g, const Step *step) {
  if (dot_shape(step->product.dot).b_transposed) return g->lanes;
  return val(step->product.dot)->dot.kind->element == DT_F32 ? PART_ROWS : 2 * PART_ROWS;
}

// Does it consist of vectors that the micro-kernels for operands in registers multiply?
static bool multiplies_vectors(const Step *step) {
  const DotKind *kind = val(step->product.dot)->dot.kind;
  return kind->element == DT_F32 ||
         (kind->id == DOT_BF16 && dot_shape(step->product.dot).b->type.dtype == DT_BF16);
}

// Are its row scalars used at the start of each vector of a row, and nowhere else?
static bool begins_with_scalars(const Group *producer) {
  for (int i = 0; i < producer->scalars.count; i++)
    if (val(producer->scalars.at[i])->after >= 0 || val(producer->scalars.at[i])->buffer)
      return false;
  return true;
}

// Does a loop of plain vectors compute it, and are the vectors multiplied before they are stored?
static bool stays_in_registers(const Step *step) {
  const Group *producer = step->product.right;
  if (!multiplies_vectors(step)) return false;
  if (producer->steps.count != 1 || !begins_with_scalars(producer) || producer->strips.bounds.count)
    return false;
  const Step *loop = &producer->steps.at[0];
  for (int m = 0; m < loop->members.count; m++)
    if (op_info[loop->members.at[m]->op].class == OPC_REDUCE) return false;
  if (dot_shape(step->product.dot).b_transposed)
    return loop->columns == dot_depth(step->product.dot);
  return loop->columns == step->columns && loop->demand == step->demand;
}

const Instr *made_dot(const Group *producer) {
  const Group *reader = producer->feeds.dots;
  for (int s = 0; s < reader->steps.count; s++)
    if (reader->steps.at[s].product.right == producer) return reader->steps.at[s].product.dot;
  return NULL;
}

static bool goes_like(const Instr *dot, const Instr *other) {
  return val(dot)->dot.kind == val(other)->dot.kind &&
         dot_shape(dot).b_transposed == dot_shape(other).b_transposed;
}

static bool serves_dots(const Instr *v) {
  for (int i = 0; i < val(v)->users.count; i++) {
    const Instr *user = val(v)->users.at[i];
    if (user->op != OP_DOT &&
        !((is_transparent(user) || feeds_only_dots(user)) && serves_dots(user)))
      return false;
  }
  return true;
}

// Is v an f32 rounded to bf16 that nothing but dots read?
bool rounds_for_dots(const Instr *v) {
  if (v->op != OP_CAST || v->type.dtype != DT_BF16 || v->args[0]->type.dtype != DT_F32)
    return false;
  return serves_dots(v);
}

// The rows of an operand in HBM that the loops read for v, one row for each row of v.
static void look_ahead(Gen *g, Group *producer, const Instr *v) {
  Place p;
  if (v->op == OP_BROADCAST && !stretches_rows(v)) v = v->args[0];
  for (bool pieces = reads_pieces(v); pieces && v->op != OP_LOAD && v->nargs;) v = v->args[0];
  bool row = v->op == OP_LOAD && is_transparent(v) && v->type.rank >= 2 && !is_row_scalar(v) &&
             v->type.dim[0] == producer->lead[0] && may_lie_in_hbm(&g->refs[v->ref->id]);
  for (int i = 1; i + 1 < v->type.rank; i++) row &= dim_is_const(v->type.dim[i]);
  for (int i = 0; i < producer->feeds.ahead.count; i++)
    row &= producer->feeds.ahead.at[i]->ref != v->ref;
  if (row && producer->feeds.ahead.count < MOST_AHEAD && layout_of(g, v, &p))
    LIST_PUSH(g->arena, &producer->feeds.ahead, v);
}

// Half of the registers hold them.
static int vectors_in_registers(const Gen *g, int dots) {
  const int sums = g->target->dot_rows * g->target->dot_vectors,
            registers = sums >= MOST_RIGHT ? MOST_RIGHT : MOST_RIGHT / 2,
            vectors = registers / STEPS_IN_REGISTERS / dots;
  return vectors > 0 ? vectors : 1;
}

// The largest number of left rows that are multiplied in registers. A transposed operand in f32 is
// computed for 8 of them at a time: q8_0 by 4096 x 4096 takes 3.4 ms for 8 rows and 4.3 through L1;
// for 24 rows 10.3 and 9.8.
static int rows_in_registers(const Instr *dot) {
  return dot_shape(dot).b_transposed && val(dot)->dot.kind->element == DT_F32
             ? MORE_ROWS_IN_REGISTERS
             : PK_DOT_SKINNY;
}

// Sums of few rows are in memory while a right operand is computed: those of a part of k, which are
// added to the others at its end. Lanes of a transposed operand share the terms, and integers have
// no parts.
static Buffer *sums_of_part(Gen *g, const Step *step) {
  const DotKind *kind = val(step->product.dot)->dot.kind;
  const Dim depth = dot_depth(step->product.dot), dims[2] = {PK_DOT_SKINNY, step->columns};
  if (dot_shape(step->product.dot).b_transposed || !is_float(kind->element)) return NULL;
  if (dim_is_const(depth) && depth < PK_DOT_APART * kind->group) return NULL;
  return buffer_new(g, "part_sums", DT_F32, 2, dims, "sums of a part of a product of few rows");
}

// Decides how a group that computes a right operand is executed: in registers, or part by part.
static void plan_producer(Gen *g, Group *producer) {
  const Group *reader = producer->feeds.dots;
  if (!reader) return;
  int dots = 0;
  bool in_registers = true;
  for (int s = 0; s < reader->steps.count; s++) {
    Step *step = &reader->steps.at[s];
    if (step->product.right != producer) continue;
    step->product.aside = sums_of_part(g, step);
    if (rows_of_part(g, step) > producer->feeds.rows) producer->feeds.rows = rows_of_part(g, step);
    in_registers = in_registers && stays_in_registers(step) &&
                   goes_like(step->product.dot, made_dot(producer));
    dots++;
  }
  producer->feeds.in_registers = in_registers ? rows_in_registers(made_dot(producer)) : 0;
  producer->feeds.vectors = vectors_in_registers(g, dots);
  for (int s = 0; s < producer->steps.count; s++)
    for (int m = 0; m < producer->steps.at[s].members.count; m++) {
      const Instr *v = producer->steps.at[s].members.at[m];
      for (int i = 0; i < v->nargs; i++) look_ahead(g, producer, v->args[i]);
    }
}

void plan_parts(Gen *g) { visit_groups(g, g->body, plan_producer); }
