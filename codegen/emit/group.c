// A group of loops as C: rows, strips of rows, the column loops inside a row, and dots.
#include "codegen/ir/array.h"
#include "codegen/emit/internal.h"

#include <stdlib.h>
#include <string.h>

static const char *member_name(CWriter *w, const Instr *v) {
  Gen *g = w->g;
  return v->text && op_info[v->op].class != OPC_CONTROL
             ? unique_name(&w->names, v->text)
             : unique_name(&w->names, text(g, "v%d", v->id));
}

// ---- reductions

const char *reduce_operation(const Instr *v) { return op_info[fold_operation[v->op]].name; }

// Sums and products of integers are the same bits signed or not.
const char *reduce_lanes(const Instr *v) {
  DType t = v->args[0]->type.dtype;
  if (t == DT_BOOL) return "mask";
  bool sign_matters = v->op == OP_REDUCE_MAX || v->op == OP_REDUCE_MIN || v->op == OP_REDUCE_AND;
  if (is_wide(t)) return t == DT_U64 && !sign_matters ? "i64" : lane_type(t);
  return is_float(t) ? "f32" : sign_matters ? lane_type(t) : "i32";
}

const char *reduce_identity(Gen *g, const Instr *v) {
  DType t = v->args[0]->type.dtype;
  switch (v->op) {
    case OP_REDUCE_SUM:
      return is_float(t) ? "0.0f" : "0";
    case OP_REDUCE_PROD:
      return is_float(t) ? "1.0f" : "1";
    case OP_REDUCE_OR:
    case OP_REDUCE_XOR:
      return t == DT_BOOL ? "false" : "0";
    case OP_REDUCE_AND:
      if (t == DT_BOOL) return "true";
      if (dtype_info[t].class == CLASS_SIGNED) return "-1";
      break;
    default:
      break;
  }
  bool greatest = v->op == OP_REDUCE_MIN || v->op == OP_REDUCE_AND;
  if (is_float(t)) return f32_text(g, greatest ? dtype_top(t) : dtype_bottom(t));
  if (is_wide(t))
    return t == DT_U64 ? greatest ? "UINT64_MAX" : "0" : greatest ? "INT64_MAX" : "INT64_MIN";
  if (t == DT_U32 && greatest) return "UINT32_MAX";
  if (t == DT_I32 && !greatest) return "INT32_MIN";
  return text(g, "%lld", (long long)(greatest ? dtype_max(t) : dtype_min(t)));
}

typedef struct {
  const Instr *v;
  const char *name;
} Sum;
typedef LIST(Sum) SumList;

static const char *identity_vector(Gen *g, const Instr *v) {
  return text(g, "pk_splat_%s(%s)", reduce_lanes(v), reduce_identity(g, v));
}

// Greatest and least floats are kept with a note of the NaNs met, which costs less than watching
// for them each time.
static bool is_extreme(const Instr *v) {
  return (v->op == OP_REDUCE_MAX || v->op == OP_REDUCE_MIN) && is_float(v->args[0]->type.dtype) &&
         dtype_has_inf(v->args[0]->type.dtype) && !is_wide(v->args[0]->type.dtype);
}

static void declare_sums(Context *x, const Step *step, SumList *sums) {
  Gen *g = x->g;
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m];
    if (op_info[v->op].class != OPC_REDUCE) continue;
    Sum sum = {v,
               unique_name(&x->w->names, text(g, "%s_%s", v->text ? v->text : text(g, "v%d", v->id),
                                              reduce_operation(v)))};
    LIST_PUSH(g->arena, sums, sum);
    const char *start =
        is_extreme(v) ? text(g, "pk_%s_start_f32()", reduce_operation(v)) : identity_vector(g, v);
    const char *type = is_extreme(v) ? "pk_extreme_f32" : vector_type(v->args[0]->type.dtype);
    const char *starts = start;
    for (int k = 1; k < step->loop.vectors; k++) starts = text(g, "%s, %s", starts, start);
    line(x->w, "%s %s[%d] = {%s};", type, sum.name, step->loop.vectors, starts);
  }
}

static void add_to_sum(Context *x, const Sum *sum, const char *slot, const char *value) {
  const char *lane = reduce_lanes(sum->v), *select = bits_lane(sum->v->args[0]->type.dtype),
             *verb = reduce_operation(sum->v);
  const char *place = text(x->g, "%s[%s]", sum->name, slot);
  if (x->left)
    value = text(x->g, "pk_select_%s(pk_mask_first(%s), %s, %s)", select, expr_text(lanes_left(x)),
                 value, identity_vector(x->g, sum->v));
  line(x->w, "%s = pk_%s%s_%s(%s, %s);", place, verb, is_extreme(sum->v) ? "_step" : "", lane,
       place, value);
}

// A row scalar that is needed outside its row.
static void keep_row_scalar(Context *x, const Instr *v, const char *name) {
  const Val *info = val(v);
  if (!info->buffer) return;
  Place p;
  REQUIRE(place_of(x->g, v, &p));
  const char *at = info->row_local
                       ? pointer_text(x->g, p.base, expr_add(&x->g->exprs, p.offset, x->strip_row))
                       : address(x->g, &p, v->type.rank, x->index);
  line(x->w, "pks_store_%s(%s, %s);", dtype_info[p.element].name, at, name);
}

// The sums of a reduction as one vector: by halves, so that no chain is longer than it has to be.
static const char *joined_sums(Gen *g, const Sum *sum, int from, int count) {
  const Instr *v = sum->v;
  const char *verb = reduce_operation(v), *part = text(g, "%s[%d]", sum->name, from);
  if (count == 1) return is_extreme(v) ? text(g, "pk_%s_finish_f32(%s)", verb, part) : part;
  int half = (count + 1) / 2;
  return text(g, "pk_%s_%s(%s, %s)", verb, reduce_lanes(v), joined_sums(g, sum, from, half),
              joined_sums(g, sum, from + half, count - half));
}

static void finish_sums(Context *x, const Step *step, const SumList *sums) {
  Gen *g = x->g;
  for (int i = 0; i < sums->count; i++) {
    const Instr *v = sums->at[i].v;
    const char *verb = reduce_operation(v), *lane = reduce_lanes(v),
               *all = joined_sums(g, &sums->at[i], 0, step->loop.vectors);
    const char *result = v->args[0]->type.dtype == DT_BOOL
                             ? text(g, "pk_%s(%s)", v->op == OP_REDUCE_AND ? "all" : "any", all)
                             : text(g, "pk_reduce_%s_%s(%s)", verb, lane, all);
    DType t = v->type.dtype;
    if (is_narrow_float(t))
      result = text(g, "pks_round_%s(%s)", dtype_info[t].name, result);
    else if (is_narrow_integer(t))
      result = text(g, "pks_wrap_%s(%s)", dtype_info[t].name, result);
    else if (t == DT_U32 || t == DT_U64)
      result = text(g, "(%s)%s", scalar_type(t), result);
    const char *name = member_name(x->w, v);
    line(x->w, "const %s %s = %s;", scalar_type(t), name, result);
    know(x, v, name, false);
    x->index[x->group->leads] = number(g, 0);
    keep_row_scalar(x, v, name);
  }
}

// ---- members of a column loop

static Place member_place(Context *x, const Instr *v) {
  Place p;
  REQUIRE(place_of(x->g, v, &p));
  const Type *t = v->op == OP_STORE ? &ir_store_value(v)->type : &v->type;
  if (v->op != OP_STORE && val(v)->row_local) {
    const Expr *two[2] = {x->strip_row, x->index[t->rank - 1]};
    return place_at(x->g, &p, 2, two);
  }
  return place_at(x->g, &p, t->rank, x->index);
}

// ---- stores that may go past the caches

// What says whether a store goes past the caches now, or NULL: it never does.
static const char *past_caches(const Context *x, const Instr *store) {
  for (int i = 0; i < x->streams.count; i++)
    if (x->streams.at[i].store == store) return x->streams.at[i].now;
  return NULL;
}

static Place start_of_row(Context *x, const Instr *store) {
  x->index[x->group->leads] = number(x->g, 0);
  return member_place(x, store);
}

static void declare_stream(Context *x, const Instr *store, const Expr *second) {
  Gen *g = x->g;
  const RefGen *r = &g->refs[store->ref->id];
  const char *streams = expr_text(streams_expr(g, r));
  Place p = start_of_row(x, store);
  Stream stream = {store, unique_name(&x->w->names, text(g, "%s_now", r->stem)), NULL};
  if (second) {
    stream.turned = unique_name(&x->w->names, text(g, "%s_turned", r->stem));
    p.offset = expr_add(&g->exprs, p.offset, second);
    line(x->w, "const bool %s = pk_turned(%s, %s);", stream.turned, place_text(g, &p), streams);
    line(x->w, "bool %s = %s && %s == %d;", stream.now, stream.turned, second->name, g->lanes);
  } else {
    line(x->w, "const bool %s = pk_turned(%s, %s);", stream.now, place_text(g, &p), streams);
  }
  LIST_PUSH(g->arena, &x->streams, stream);
}

// Declares, for each streamed store, whether it goes past the caches: at the start of the row, and
// from the second turn on. Returns where that begins, which the first such store decides, or NULL
// when turns are not aligned.
static const Expr *declare_streams(Context *x, const ColumnLoop *loop) {
  Gen *g = x->g;
  const Expr *second = NULL;
  x->streams.count = 0;
  for (int i = 0; i < loop->streamed.count; i++) {
    const Instr *store = loop->streamed.at[i];
    if (loop->aligned && !second) {
      const RefGen *r = &g->refs[store->ref->id];
      const Place p = start_of_row(x, store);
      second = expr_symbol(&g->exprs, unique_name(&x->w->names, "first"));
      line(x->w, "const int64_t %s = pk_first_turn(%s, %s);", second->name, place_text(g, &p),
           expr_text(streams_expr(g, r)));
    }
    declare_stream(x, store, second);
  }
  return second;
}

static void emit_store(Context *x, const Instr *v) {
  const Place p = member_place(x, v);
  const char *at = place_text(x->g, &p), *t = dtype_info[p.element].name,
             *value = expr_text(argument_at(x, ir_store_value(v), true)),
             *left = x->left ? expr_text(lanes_left(x)) : NULL;
  const Instr *mask = ir_mask(v);
  if (mask) {
    const char *m = expr_text(argument_at(x, mask, true));
    if (left) m = text(x->g, "pk_and_mask(%s, pk_mask_first(%s))", m, left);
    line(x->w, "pk_storem_%s(%s, %s, %s);", t, at, value, m);
  } else if (left) {
    line(x->w, "pk_storen_%s(%s, %s, %s);", t, at, value, left);
  } else if (past_caches(x, v)) {
    line(x->w, "pk_put_f32(%s, %s, %s);", at, value, past_caches(x, v));
  } else {
    line(x->w, "pk_store_%s(%s, %s);", t, at, value);
  }
}

static void emit_member(Context *x, const Instr *v, const SumList *sums, const char *slot) {
  Gen *g = x->g;
  if (v->op == OP_STORE) {
    emit_store(x, v);
    return;
  }
  if (op_info[v->op].class == OPC_REDUCE) {
    for (int i = 0; i < sums->count; i++)
      if (sums->at[i].v == v)
        add_to_sum(x, &sums->at[i], slot, expr_text(argument_at(x, v->args[0], true)));
    return;
  }
  if (v->op == OP_CAST && is_transparent(v))
    return;  // only compared with a scalar: the comparison reads its operand
  const char *name = member_name(x->w, v);
  line(x->w, "const %s %s = %s;", vector_type(v->type.dtype), name, vector_at(x, v));
  know(x, v, name, true);
  if (!val(v)->buffer) return;
  const Place p = member_place(x, v);
  const char *value = v->type.dtype == DT_BOOL && p.element != DT_BOOL
                          ? text(g, "pk_cast_mask_i32(%s)", name)
                          : name;
  line(x->w, "pk_store_%s(%s, %s);", dtype_info[p.element].name, place_text(g, &p), value);
}

// ---- turns

// How many columns the rows before `end` want, of `all`.
static const Expr *bound_expr(Gen *g, const StripBound *b, const Expr *end, const Expr *all) {
  ExprPool *pool = &g->exprs;
  if (b->row_start) end = expr_add(pool, scalar_expr(g, b->row_start), end);
  if (b->col_start) end = expr_sub(pool, end, scalar_expr(g, b->col_start));
  if (!b->inclusive) end = expr_sub(pool, end, number(g, 1));
  return expr_call(pool, "pk_idx_clamp", end, number(g, 0), all);
}

static void emit_members(Context *x, const Step *step, const SumList *sums, const char *slot,
                         const Expr *column, const Expr *left) {
  int known = x->known.count,
      taken = x->w->names.taken.count;  // names of this scope may be used again after it
  x->index[x->group->leads] = column;
  x->left = left;
  for (int m = 0; m < step->members.count; m++)
    if (!x->holds || val(step->members.at[m])->only_for != x->holds)
      emit_member(x, step->members.at[m], sums, slot);
  x->left = NULL;
  x->known.count = known;
  x->w->names.taken.count = taken;
}

static void prefetch_next_row(Context *x, const ColumnLoop *loop, const Expr *column) {
  const Expr *at[MAX_RANK];
  int row = x->group->leads - 1;
  if (!loop->ahead.count) return;
  memcpy(at, x->index, sizeof at);
  at[row] = expr_add(&x->g->exprs, at[row], number(x->g, 1));
  at[row + 1] = column;
  for (int i = 0; i < loop->ahead.count; i++) {
    const Instr *v = loop->ahead.at[i];
    Place p;
    REQUIRE(place_of(x->g, v, &p));
    line(x->w, "pk_prefetch_l2(%s);", address(x->g, &p, v->type.rank, at));
  }
}

static const char *declare_unmasked(Context *x, const StripBound *b, const Expr *all) {
  Gen *g = x->g;
  ExprPool *pool = &g->exprs;
  const Expr *row = x->index[x->group->leads - 1];
  const char *name = unique_name(&x->w->names, "unmasked");
  if (g->batch && g->batch->inside == x->group->lead_demand[x->group->leads - 1])
    row = expr_call(pool, "pk_own_row", row, g->batch->own, NULL);
  const Expr *end = bound_expr(g, b, expr_add(pool, row, number(g, 1)), all);
  line(x->w, "const int64_t %s = %s;", name, expr_text(end));
  return name;
}

// A turn of whole vectors.
static void emit_turn_members(Context *x, const Step *step, const SumList *sums,
                              const Expr *column) {
  Gen *g = x->g;
  if (step->loop.vectors == 1) {
    prefetch_next_row(x, &step->loop, column);
    emit_members(x, step, sums, "0", column, NULL);
    return;
  }
  const char *turn_name = unique_name(&x->w->names, "u");
  const Expr *ahead = expr_mul(&g->exprs, expr_symbol(&g->exprs, turn_name), number(g, g->lanes)),
             *here = expr_add(&g->exprs, column, ahead);
  line(x->w, "PK_UNROLL");
  open_block(x->w, "for (int %s = 0; %s < %d; %s++)", turn_name, turn_name, step->loop.vectors,
             turn_name);
  prefetch_next_row(x, &step->loop, here);
  emit_members(x, step, sums, turn_name, here, NULL);
  close_block(x->w);
}

// What is left of a row after the turns, a vector at a time.
static void emit_rest(Context *x, const Step *step, const SumList *sums, const Expr *all,
                      const Expr *column) {
  Gen *g = x->g;
  const char *n = expr_text(all), *at = column->name;
  open_block(x->w, "for (; %s < %s; %s += %d)", at, n, at, g->lanes);
  const Expr *left =
      step->loop.partial ? expr_symbol(&g->exprs, unique_name(&x->w->names, "left")) : NULL;
  Buf body = {0}, *outer = x->w->c;
  x->w->c = &body;
  x->reads_left = false;
  emit_members(x, step, sums, "0", column, left);
  x->w->c = outer;
  if (x->reads_left)
    line(x->w, "const int64_t %s = %s;", left->name, expr_text(expr_sub(&g->exprs, all, column)));
  if (body.length) buf_add(x->w->c, body.text, body.length);
  buf_free(&body);
  close_block(x->w);
}

// The variables of a column loop, and how it advances after a turn. `second`: where the second turn
// begins, or NULL: as the others do.
static const char *declare_column(Context *x, const ColumnLoop *loop, const char *column,
                                  const Expr *second) {
  Gen *g = x->g;
  const int turn = loop->vectors * g->lanes;
  if (!second) {
    if (loop->rest) line(x->w, "int64_t %s = 0;", column);
    return text(g, "%s += %d", column, turn);
  }
  const char *by = unique_name(&x->w->names, "turn");
  line(x->w, "int64_t %s = 0, %s = %s;", column, by, second->name);
  const char *advance = text(g, "%s += %s, %s = %d", column, by, by, turn);
  for (int i = 0; i < x->streams.count; i++)
    advance = text(g, "%s, %s = %s", advance, x->streams.at[i].now, x->streams.at[i].turned);
  return advance;
}

static void emit_turns(Context *x, const Step *step, const SumList *sums, const Expr *column,
                       const char *begin, const char *end, const char *advance) {
  Gen *g = x->g;
  open_block(x->w, "for (%s; %s + %d <= %s; %s)", begin, column->name,
             step->loop.vectors * g->lanes, end, advance);
  emit_turn_members(x, step, sums, column);
  close_block(x->w);
}

static void emit_column_step(Context *x, const Step *step) {
  Gen *g = x->g;
  const ColumnLoop *loop = &step->loop;
  if (step->members.count == 0) return;
  show_sources(x->w, step->members.at, step->members.count);
  SumList sums = {0};
  declare_sums(x, step, &sums);
  const Expr *all = demand_expr(g, step->demand, step->columns);
  const char *n = expr_text(all), *column = unique_name(&x->w->names, "col");
  const Expr *here = expr_symbol(&g->exprs, column), *second = declare_streams(x, loop);
  const char *advance = declare_column(x, loop, column, second);
  if (loop->unmasked) {
    const char *end = declare_unmasked(x, loop->unmasked, all);
    x->holds = loop->unmasked->mask;
    emit_turns(x, step, &sums, here, "", end, advance);
    x->holds = NULL;
  }
  if (loop->turns)
    emit_turns(x, step, &sums, here, loop->rest ? "" : text(g, "int64_t %s = 0", column), n,
               advance);
  if (loop->rest) emit_rest(x, step, &sums, all, here);
  finish_sums(x, step, &sums);
}

// ---- row scalars

static void emit_row_scalar(Context *x, const Instr *v) {
  Gen *g = x->g;
  show_source(x->w, v->span);
  x->index[x->group->leads] = number(g, 0);
  if (v->op == OP_STORE) {
    const Place p = member_place(x, v);
    const Expr *value = argument_at(x, ir_store_value(v), false);
    const Instr *mask = ir_mask(v);
    line(x->w, "%spks_store_%s(%s, %s);",
         mask ? text(g, "if (%s) ", expr_text(argument_at(x, mask, false))) : "",
         dtype_info[p.element].name, place_text(g, &p), expr_text(value));
    return;
  }
  const char *name = member_name(x->w, v);
  line(x->w, "const %s %s = %s;", scalar_type(v->type.dtype), name, expr_text(element_at(x, v)));
  know(x, v, name, false);
  keep_row_scalar(x, v, name);
}

static bool scalars_follow(const Group *group, int step) {
  for (int i = 0; i < group->scalars.count; i++)
    if (val(group->scalars.at[i])->after == step) return true;
  return false;
}

static void emit_scalars_after(Context *x, int step) {
  for (int i = 0; i < x->group->scalars.count; i++)
    if (val(x->group->scalars.at[i])->after == step) emit_row_scalar(x, x->group->scalars.at[i]);
}

// ---- dots

// How much of an operand there is along an axis: the rest of a block may lie past its array.
static const char *wanted_text(Gen *g, const Instr *v, int axis) {
  return demand_text(g, demand_outside(g, val(v)->demand[axis]), v->type.dim[axis]);
}

static void pack_operands(CWriter *w, const Instr *dot) {
  Gen *g = w->g;
  DotShape s = dot_shape(dot);
  const DotKind *kind = val(dot)->kind;
  Place p;
  if (val(dot)->left) {
    const Buffer *b = val(dot)->left;
    int m = s.a_transposed;
    REQUIRE(place_of(g, s.a, &p));
    const char *packed = expr_text(b->stride[0]);
    line(w, "%s(%s, %s, %s, %s, %s, %s, %s, %s, 0);",
         pack_rows_text(g, kind, p.element, s.a_transposed), reading(g, b->name), packed,
         place_text(g, &p), expr_text(p.stride[0]), wanted_text(g, s.a, m),
         wanted_text(g, s.a, 1 - m), extent_text(g, s.a->type.dim[m]), packed);
  }
  if (val(dot)->panels) {
    const Buffer *b = val(dot)->panels;
    int n = s.b_transposed;
    REQUIRE(place_of(g, s.b, &p));
    const char *depth = expr_text(val(dot)->depth);
    line(w, "%s(%s, %s, %s, %s, %s, %s, %s, 0);",
         pack_panels_text(g, kind, p.element, s.b_transposed), reading(g, b->name), depth,
         place_text(g, &p), expr_text(p.stride[0]), wanted_text(g, s.b, n),
         wanted_text(g, s.b, 1 - n), extent_text(g, s.b->type.dim[1 - n]));
  }
}

typedef struct {
  const Expr *pointer;
  const Expr *stride;  // of rows, in elements
} Matrix;

static Matrix rows_from(Gen *g, const char *base, const Expr *offset, const Expr *row,
                        const Expr *stride) {
  offset = expr_add(&g->exprs, offset, expr_mul(&g->exprs, row, stride));
  return (Matrix){pointer_expr(g, base, offset), stride};
}

static Matrix buffer_rows(Gen *g, const Buffer *b, const Expr *row) {
  return rows_from(g, b->name, number(g, 0), row, b->stride[0]);
}

static Matrix left_operand(Gen *g, const Instr *dot, const Group *group, const Expr *row) {
  DotShape s = dot_shape(dot);
  if (val(dot)->left) return buffer_rows(g, val(dot)->left, row);
  if (val(s.a)->buffer && val(s.a)->row_local && val(s.a)->group == group)
    return buffer_rows(g, val(s.a)->buffer, number(g, 0));
  Place p;
  REQUIRE(place_of(g, s.a, &p));
  return rows_from(g, p.base, p.offset, row,
                   s.a_transposed ? g->refs[s.a->ref->id].stride[0] : p.stride[0]);
}

static Matrix stored_rows(Gen *g, const Instr *store, const Expr *row) {
  const RefGen *r = &g->refs[store->ref->id];
  return rows_from(g, r->name, number(g, 0), row, r->stride[0]);
}

static Matrix result_place(Gen *g, const Step *step, const Expr *row) {
  if (step->into) return stored_rows(g, step->into, row);
  return buffer_rows(g, val(step->dot)->buffer, val(step->dot)->row_local ? number(g, 0) : row);
}

static const char *bytes_of(Gen *g, DType element, const Expr *stride) {
  return expr_text(expr_mul(&g->exprs, number(g, dtype_bytes(element)), stride));
}

// Where the sums go, and what they are added to.
static void put_result(CWriter *w, const Step *step, const Expr *row) {
  Gen *g = w->g;
  Matrix to = result_place(g, step, row);
  const char *stride = bytes_of(g, DT_F32, to.stride);
  bool direct = step->into && g->refs[step->into->ref->id].form == FORM_DIRECT;
  const Expr *from = to.pointer;
  if (step->fresh)
    from = expr_choose(&g->exprs, scalar_expr(g, step->fresh), expr_code(&g->exprs, "NULL"), from);
  if (step->into && !step->set) line(w, "  .from = %s, .ldfrom = %s,", expr_text(from), stride);
  if (!step->result) {
    line(w, "  .to = %s, .ldto = %s, .padded = %s,", expr_text(to.pointer), stride,
         direct ? "false" : "true");
    return;
  }
  Matrix last = stored_rows(g, step->result, row);
  const Expr *when = scalar_expr(g, step->last);
  const char *when_text = expr_text(when);
  line(w, "  .to = %s ? %s : %s, .ldto = %s ? %s : %s, .padded = %s,", when_text,
       expr_text(last.pointer), expr_text(to.pointer), when_text, bytes_of(g, DT_F32, last.stride),
       stride, expr_text(expr_not(&g->exprs, when)));
}

// When the right operand is read where it lies in HBM: always, or by the first rows alone.
static const Expr *reads_source(Gen *g, const RefGen *b, const Expr *row) {
  ExprPool *pool = &g->exprs;
  const Expr *source = source_of_panels(g, b), *few = few_rows(g, b);
  if (!b->filled_by || expr_is(row, 0)) return source;
  const Expr *first = expr_operator(pool, EXPR_EQ, row, number(g, 0));
  return expr_and(pool, source, expr_or(pool, few, first));
}

static void emit_dot(CWriter *w, const Group *group, const Step *step, const Expr *row,
                     const Expr *rows) {
  Gen *g = w->g;
  const Instr *dot = step->dot;
  DotShape s = dot_shape(dot);
  const DotKind *kind = val(dot)->kind;
  Matrix a = left_operand(g, dot, group, row);
  Dim k = dot_depth(dot);
  const char *panels =
                 reading(g, val(dot)->panels ? val(dot)->panels->name : g->refs[s.b->ref->id].name),
             *depth = expr_text(val(dot)->depth), *along = demand_text(g, step->along, k),
             *product = unique_name(&w->names, "product");
  const RefGen *b = step->source;
  show_source(w, dot->span);
  line(w, "const pk_dot_product %s = {", product);
  line(w, "  .rows = %s, .cols = %s, .k = %s,", expr_text(rows),
       demand_text(g, step->demand, step->columns), along);
  line(w, "  .a = %s, .lda = %s,", expr_text(a.pointer),
       bytes_of(g, dot_element(kind, s.a->type.dtype), a.stride));
  line(w, "  .panels = %s, .depth = %s,", panels, depth);
  if (b)
    line(w, "  .source = %s ? %s_hbm : NULL, .ldsource = %s,", expr_text(reads_source(g, b, row)),
         b->stem, bytes_of(g, b->ref->array.dtype, hbm_row_stride(g, b->ref)));
  put_result(w, step, row);
  line(w, "};");
  const char *otherwise = "";
  if (b) {
    line(w, "if (%s_few)", b->stem);
    line(w, "  %s(&%s);", few_rows_text(g, kind, b->ref->array.dtype, s.b_transposed), product);
    otherwise = "else ";
  }
  if (val(dot)->odd) {
    line(w, "%sif (pk_dot_odd_columns(&%s))", otherwise, product);
    line(w, "  pk_dot_odd_f32(&%s);", product);
    otherwise = "else ";
  }
  if (*otherwise) line(w, "else");
  line(w, "%spk_dot_product_%s(&%s);", *otherwise ? "  " : "", kind->name, product);
}

// ---- the group

static const Expr *open_row_loop(CWriter *w, const Expr *from, const Expr *to) {
  Gen *g = w->g;
  const char *row = unique_name(&w->names, "row");
  open_block(w, "for (int64_t %s = %s; %s < %s; %s++)", row, expr_text(from), row, expr_text(to),
             row);
  return expr_symbol(&g->exprs, row);
}

// How many columns the rows before `end` want, for the masks that tell rows apart.
static void declare_bounds(Context *x, const Expr *end) {
  Gen *g = x->g;
  const Expr *all = extent_expr(g, x->group->lead[x->group->leads - 1]);
  if (g->batch && g->batch->inside == x->group->lead_demand[x->group->leads - 1]) {
    all = g->batch->own;
    end = expr_min(&g->exprs, end, all);
  }
  for (int i = 0; i < x->group->bounds.count; i++) {
    const StripBound *b = x->group->bounds.at[i];
    line(x->w, "const int64_t %s = %s;", b->end->name,
         expr_text(bound_expr(g, b, b->shared ? all : end, demand_expr(g, b->base, b->columns))));
  }
}

// The rows [first, end) of a strip, in as many loops as its steps are cut into.
typedef struct {
  const Expr *first, *end;
  int known, taken;  // names before the open loop
} RowLoops;

static void leave_loop(Context *x, const RowLoops *rows) {
  if (x->loop < 0) return;
  close_block(x->w);
  x->loop = -1;
  x->known.count = rows->known;
  x->w->names.taken.count = rows->taken;
}

static void enter_loop(Context *x, RowLoops *rows, int loop) {
  if (x->loop == loop) return;
  leave_loop(x, rows);
  rows->known = x->known.count;
  rows->taken = x->w->names.taken.count;
  const Expr *row = open_row_loop(x->w, rows->first, rows->end);
  x->w->source_line = 0;  // each loop says what it computes
  x->index[x->group->leads - 1] = row;
  x->strip_row = expr_sub(&x->g->exprs, row, rows->first);
  x->loop = loop;
}

static void emit_loops(Context *x, const Expr *first, const Expr *end) {
  Group *group = x->group;
  RowLoops rows = {.first = first, .end = end};
  x->loop = -1;
  for (int s = -1; s < group->steps.count; s++) {
    const Step *step = s >= 0 ? &group->steps.at[s] : NULL;
    if (step && step->kind == STEP_DOT) {
      leave_loop(x, &rows);
      emit_dot(x->w, group, step, first, expr_sub(&x->g->exprs, end, first));
    } else if (step && step->members.count) {
      enter_loop(x, &rows, loop_of_step(group, s));
      emit_column_step(x, step);
    }
    if (!scalars_follow(group, s)) continue;
    enter_loop(x, &rows, loop_after(group, s));
    emit_scalars_after(x, s);
  }
  leave_loop(x, &rows);
}

static void emit_strips(Context *x) {
  Gen *g = x->g;
  Group *group = x->group;
  const Expr *all = demand_expr(g, group->lead_demand[0], group->lead[0]);
  if (group->one_strip) {
    line(x->w, "{");
    x->w->indent++;
    declare_bounds(x, all);
    emit_loops(x, number(g, 0), all);
    close_block(x->w);
    return;
  }
  const char *rows = expr_text(all);
  const char *first = unique_name(&x->w->names, "strip"),
             *end = unique_name(&x->w->names, "strip_end"), *height = text(g, "%d", group->strip);
  const char *choice = "";  // of the loop's own: the next group may use the name again
  if (group->room > group->strip) {
    height = unique_name(&x->w->names, "strip_rows");
    choice =
        text(g, ", %s = %s <= %d ? %d : %d", height, rows, group->room, group->room, group->strip);
  }
  open_block(x->w, "for (int64_t %s = 0%s; %s < %s; %s += %s)", first, choice, first, rows, first,
             height);
  line(x->w, "const int64_t %s = pk_idx_min(%s + %s, %s);", end, first, height, rows);
  declare_bounds(x, expr_symbol(&g->exprs, end));
  emit_loops(x, expr_symbol(&g->exprs, first), expr_symbol(&g->exprs, end));
  close_block(x->w);
}

static void emit_plain_rows(Context *x) {
  Gen *g = x->g;
  Group *group = x->group;
  int opened = 0;
  for (int i = 0; i < group->leads; i++) {
    if (group->lead[i] == 1) {
      x->index[i] = number(g, 0);
      continue;
    }
    x->index[i] =
        open_row_loop(x->w, number(g, 0), demand_expr(g, group->lead_demand[i], group->lead[i]));
    opened++;
  }
  x->strip_row = number(g, 0);
  if (!opened) {
    line(x->w, "{");
    x->w->indent++;
  }
  if (group->bounds.count)
    declare_bounds(x, expr_add(&g->exprs, x->index[group->leads - 1], number(g, 1)));
  emit_scalars_after(x, -1);
  for (int s = 0; s < group->steps.count; s++) {
    emit_column_step(x, &group->steps.at[s]);
    emit_scalars_after(x, s);
  }
  for (int i = 0; i < (opened ? opened : 1); i++) close_block(x->w);
}

void emit_rows(CWriter *w, Group *group) {
  Gen *g = w->g;
  Context x = {.g = g, .w = w, .group = group};
  int taken = w->names.taken.count;
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].dot) pack_operands(w, group->steps.at[s].dot);
  if (group->has_dot)
    emit_strips(&x);
  else
    emit_plain_rows(&x);
  w->names.taken.count = taken;
}
