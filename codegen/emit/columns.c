// A loop over columns as C: reductions, stores, iterations of whole vectors and the columns left
// after them.
#include "codegen/emit/internal.h"
#include "codegen/ir/array.h"

#include <inttypes.h>
#include <string.h>

const char *member_name(CWriter *w, const Instr *v) {
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
  Op op = fold_operation[v->op];
  bool sign_matters = op == OP_MAX || op == OP_MIN || op == OP_AND;
  if (is_wide(t)) return t == DT_U64 && !sign_matters ? "i64" : lane_type(t);
  return is_float(t) ? "f32" : sign_matters ? lane_type(t) : "i32";
}

// The initial value of a reduction, as C.
const char *reduce_identity(Gen *g, const Instr *v) {
  DType t = v->args[0]->type.dtype;
  switch (v->op) {
    case OP_REDUCE_SUM:
      return t == DT_F64 ? "0.0" : is_float(t) ? "0.0f" : "0";
    case OP_REDUCE_PROD:
      return t == DT_F64 ? "1.0" : is_float(t) ? "1.0f" : "1";
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
  if (is_float(t))
    return literal_text(t == DT_F64 ? t : DT_F32, 0, greatest ? dtype_top(t) : dtype_bottom(t));
  if (is_wide(t))
    return t == DT_U64 ? greatest ? "UINT64_MAX" : "0" : greatest ? "INT64_MAX" : "INT64_MIN";
  if (t == DT_U32 && greatest) return "UINT32_MAX";
  if (t == DT_I32 && !greatest) return "INT32_MIN";
  return text(g, "%lld", (long long)(greatest ? dtype_max(t) : dtype_min(t)));
}

typedef struct {
  const Instr *v;
  const char *name;
  const char *total;   // what was set aside of it, or NULL
  const char *packed;  // the sums of packed vectors, or NULL
} Sum;
typedef LIST(Sum) SumList;

static const char *identity_vector(Gen *g, const Instr *v) {
  return text(g, "pk_splat_%s(%s)", reduce_lanes(v), reduce_identity(g, v));
}

// Declares the C variables of a step's row reductions, with their initial values.
static void declare_sums(Context *x, const Step *step, SumList *sums) {
  Gen *g = x->g;
  for (int m = 0; m < step->members.count; m++) {
    const Instr *v = step->members.at[m];
    if (op_info[v->op].class != OPC_REDUCE) continue;
    Sum sum = {.v = v,
               .name = unique_name(&x->w->names,
                                   text(g, "%s_%s", v->text ? v->text : text(g, "v%d", v->id),
                                        reduce_operation(v)))};
    if (step->loop.part && adds_in_parts(v))
      sum.total = unique_name(&x->w->names, text(g, "%s_total", sum.name));
    LIST_PUSH(g->arena, sums, sum);
    const char *start =
        notes_nans(v) ? text(g, "pk_%s_start_f32()", reduce_operation(v)) : identity_vector(g, v);
    const char *type = notes_nans(v) ? "pk_extreme_f32" : vector_type(v->args[0]->type.dtype);
    const char *starts = start;
    for (int k = 1; k < step->loop.vectors; k++) starts = text(g, "%s, %s", starts, start);
    line(x->w, "%s %s[%d] = {%s};", type, sum.name, step->loop.vectors, starts);
    if (sum.total) line(x->w, "%s %s = %s;", type, sum.total, start);
  }
}

static const char *packed_operand_lane(const Context *x, const Instr *reduce) {
  return packed_lane(reduce->args[0]->type.dtype, x->packed);
}

// The packed sums of a step's reductions, which join the others after its packed vectors.
static void declare_packed_sums(Context *x, SumList *sums) {
  Gen *g = x->g;
  for (int i = 0; i < sums->count; i++) {
    Sum *sum = &sums->at[i];
    sum->packed = unique_name(&x->w->names, text(g, "%s_packed", sum->name));
    line(x->w, "pk_packed%d %s = pk_packed_splat_%s(%s);", x->packed, sum->packed,
         packed_operand_lane(x, sum->v), reduce_identity(g, sum->v));
  }
}

static void join_packed_sums(Context *x, const SumList *sums) {
  for (int i = 0; i < sums->count; i++) {
    const Sum *sum = &sums->at[i];
    line(x->w, "%s[0] = pk_packed_join_%s_%s(%s[0], %s);", sum->name, reduce_operation(sum->v),
         packed_operand_lane(x, sum->v), sum->name, sum->packed);
  }
}

static void add_to_sum(Context *x, const Sum *sum, const char *slot, const char *value) {
  if (x->packed) {
    line(x->w, "%s = pk_packed_%s_%s(%s, %s);", sum->packed, reduce_operation(sum->v),
         packed_operand_lane(x, sum->v), sum->packed, value);
    return;
  }
  const char *lane = reduce_lanes(sum->v), *select = bits_lane(sum->v->args[0]->type.dtype),
             *verb = reduce_operation(sum->v);
  const char *place = text(x->g, "%s[%s]", sum->name, slot);
  if (x->left)
    value = text(x->g, "pk_select_%s(pk_mask_first(%s), %s, %s)", select, expr_text(lanes_left(x)),
                 value, identity_vector(x->g, sum->v));
  line(x->w, "%s = pk_%s%s_%s(%s, %s);", place, verb, notes_nans(sum->v) ? "_step" : "", lane,
       place, value);
}

// A row scalar that is used outside its row.
void keep_row_scalar(Context *x, const Instr *v, const char *name) {
  const Val *info = val(v);
  if (!info->buffer) return;
  Place p;
  REQUIRE(place_of(x->g, v, &p));
  const char *at = info->row_local
                       ? pointer_text(x->g, p.base, expr_add(&x->g->exprs, p.offset, x->strip_row))
                       : address(x->g, &p, v->type.rank, x->index);
  line(x->w, "pks_store_%s(%s, %s);", dtype_info[p.element].name, at, name);
}

// The sums of a reduction as one vector, added pairwise so that the dependency chain is short.
static const char *joined_sums(Gen *g, const Sum *sum, int from, int count) {
  const Instr *v = sum->v;
  const char *verb = reduce_operation(v), *part = text(g, "%s[%d]", sum->name, from);
  if (count == 1) return notes_nans(v) ? text(g, "pk_%s_finish_f32(%s)", verb, part) : part;
  int half = (count + 1) / 2;
  return text(g, "pk_%s_%s(%s, %s)", verb, reduce_lanes(v), joined_sums(g, sum, from, half),
              joined_sums(g, sum, from + half, count - half));
}

static const char *total_sum(Gen *g, const Sum *sum, int count) {
  const char *sums = joined_sums(g, sum, 0, count);
  return sum->total ? text(g, "pk_add_%s(%s, %s)", reduce_lanes(sum->v), sum->total, sums) : sums;
}

static void set_aside(Context *x, const Step *step, const SumList *sums) {
  Gen *g = x->g;
  for (int i = 0; i < sums->count; i++) {
    const Sum *sum = &sums->at[i];
    if (!sum->total) continue;
    const char *u = unique_name(&x->w->names, "u");
    line(x->w, "%s = %s;", sum->total, total_sum(g, sum, step->loop.vectors));
    line(x->w, "PK_UNROLL");
    line(x->w, "for (int %s = 0; %s < %d; %s++) %s[%s] = %s;", u, u, step->loop.vectors, u,
         sum->name, u, identity_vector(g, sum->v));
  }
}

// After a column loop: reduces the vectors of each sum to a scalar of its dtype.
static void finish_sums(Context *x, const Step *step, const SumList *sums) {
  Gen *g = x->g;
  for (int i = 0; i < sums->count; i++) {
    const Instr *v = sums->at[i].v;
    const char *verb = reduce_operation(v), *lane = reduce_lanes(v),
               *all = total_sum(g, &sums->at[i], step->loop.vectors);
    const char *result = text(g, "pk_reduce_%s_%s(%s)", verb, lane, all);
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

Place member_place(Context *x, const Instr *v) {
  Place p;
  REQUIRE(place_of(x->g, v, &p));
  const Type *t = v->op == OP_STORE ? &ir_store_value(v)->type : &v->type;
  if (v->op != OP_STORE && val(v)->row_local) {
    const Expr *two[2] = {x->strip_row, x->index[t->rank - 1]};
    return place_at(x->g, &p, 2, two);
  }
  if (val(v)->divided) {
    const Expr *at[MAX_RANK];
    divided_index(x->g, v, x->index, at);
    return place_at(x->g, &p, val(v)->divided->type.rank, at);
  }
  return place_at(x->g, &p, t->rank, x->index);
}

// ---- stores that may be non-temporal

// The condition under which a store is non-temporal, or NULL: never.
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
    stream.later = unique_name(&x->w->names, text(g, "%s_aligned", r->stem));
    p.offset = expr_add(&g->exprs, p.offset, second);
    line(x->w, "const bool %s = pk_stream_aligned(%s, %s);", stream.later, place_text(g, &p),
         streams);
    line(x->w, "bool %s = %s && %s == %d;", stream.now, stream.later, second->name, g->lanes);
  } else {
    line(x->w, "const bool %s = pk_stream_aligned(%s, %s);", stream.now, place_text(g, &p),
         streams);
  }
  LIST_PUSH(g->arena, &x->streams, stream);
}

// For each streamed store, declares a flag: non-temporal from the start of the row, or from the
// first aligned vector on. Returns where that vector begins, which the first such store decides, or
// NULL if vectors are not aligned.
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
      line(x->w, "const int64_t %s = pk_stream_head(%s, %s);", second->name, place_text(g, &p),
           expr_text(streams_expr(g, r)));
    }
    declare_stream(x, store, second);
  }
  return second;
}

// Is a vector of bf16 rounded before it is stored? Then its upper halves are stored as they are.
static bool holds_bf16(const Context *x, const Instr *value, DType element) {
  return element == DT_BF16 && value->type.dtype == DT_BF16 && !x->packed &&
         !val(value)->narrowed_by_stores;
}

// Writes a line that stores.
static void store_line(Context *x, const char *text) {
  Buf *outer = x->w->c;
  if (x->stores) x->w->c = x->stores;
  line(x->w, "%s;", text);
  x->w->c = outer;
}

// Stores a vector of a store's value: masked, strided, partial, non-temporal or plain.
static void emit_store(Context *x, const Instr *v) {
  const Place p = member_place(x, v);
  const char *at = place_text(x->g, &p), *t = dtype_info[p.element].name,
             *value = expr_text(argument_at(x, ir_store_value(v), true)),
             *left = x->left ? expr_text(lanes_left(x)) : NULL;
  if (holds_bf16(x, ir_store_value(v), p.element)) {
    value = text(x->g, "pk_rounded_bits_bf16(%s)", value);
    t = "u16";
  }
  const Instr *mask = ir_mask(v);
  if (mask) {
    const char *m = expr_text(argument_at(x, mask, true));
    if (left) m = text(x->g, "pk_and_mask(%s, pk_mask_first(%s))", m, left);
    store_line(x, text(x->g, "pk_storem_%s(%s, %s, %s)", t, at, value, m));
  } else if (lane_step(v) > 1) {
    store_line(x, text(x->g, "pk_store_apart_%s(%s, %s, %lld, %s)", t, at, value,
                       (long long)lane_step(v), left ? left : text(x->g, "%d", x->g->lanes)));
  } else if (left) {
    store_line(x, text(x->g, "pk_storen_%s(%s, %s, %s)", t, at, value, left));
  } else if (x->packed) {
    store_line(x, text(x->g, "pk_packed_store_%s(%s, %s)", packed_element(p.element), at, value));
  } else if (past_caches(x, v)) {
    store_line(x, text(x->g, "pk_put_f32(%s, %s, %s)", at, value, past_caches(x, v)));
  } else {
    store_line(x, text(x->g, "pk_store_%s(%s, %s)", t, at, value));
  }
}

// Writes one member of a step for the current vector of columns.
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
  x->stored = val(v)->narrowed_by_stores && !x->in_registers ? v : NULL;
  const char *name = member_name(x->w, v),
             *value = x->unrounded && rounds_for_dots(v)
                          ? expr_text(argument_at(x, v->args[0], true))
                          : vector_at(x, v);
  const char *type = x->packed ? text(g, "pk_packed%d", x->packed) : vector_type(v->type.dtype);
  line(x->w, "const %s %s = %s;", type, name, value);
  know(x, v, name, true);
  if (!val(v)->buffer || x->in_registers) return;
  const Place p = member_place(x, v);
  if (v->type.dtype == DT_BOOL && p.element != DT_BOOL)
    name = text(g, "pk_cast_mask_i32(%s)", name);
  store_line(x,
             text(g, "pk_store_%s(%s, %s)", dtype_info[p.element].name, place_text(g, &p), name));
}

// ---- iterations

// The number of columns that the rows before `end` need, of `all`.
const Expr *bound_expr(Gen *g, const StripBound *b, const Expr *end, const Expr *all) {
  ExprPool *pool = &g->exprs;
  if (b->row_start) end = expr_add(pool, scalar_expr(g, b->row_start), end);
  if (b->col_start) end = expr_sub(pool, end, scalar_expr(g, b->col_start));
  if (!b->inclusive) end = expr_sub(pool, end, number(g, 1));
  return expr_call(pool, "pk_idx_clamp", end, number(g, 0), all);
}

// ---- interleaved stores

static bool stores_every_second(const Instr *v) {
  return v->op == OP_STORE && !ir_mask(v) && lane_step(v) == 2;
}

// Does the window of `second` begin one element after that of `first`, in the same rows?
static bool begins_next(const Instr *first, const Instr *second) {
  const int last = first->ref->type.rank - 1;
  for (int k = 0; k <= last; k++) {
    const Instr *a = first->args[k], *b = second->args[k];
    const bool both = a->op == OP_CONST && b->op == OP_CONST;
    if (first->window.size[k] != second->window.size[k] ||
        first->window.stride[k] != second->window.stride[k] ||
        first->window.squeeze[k] != second->window.squeeze[k])
      return false;
    if (k == last ? !both || b->ival <= 0 || b->ival - 1 != a->ival
                  : a != b && !(both && a->ival == b->ival))
      return false;
  }
  return true;
}

// The member that stores the elements between those that member m stores, if nothing between the
// two reads or writes their targets; else 0.
static int fills_between(Context *x, const Step *step, int m, const bool *spared) {
  const Instr *first = step->members.at[m];
  if (!stores_every_second(first) || x->holds || shares_memory(x->g, first->ref)) return 0;
  for (int k = m + 1; k < step->members.count; k++) {
    const Instr *v = step->members.at[k];
    if (spared[k]) continue;
    if (v->op != OP_STORE && !instr_reads(v, first->ref)) continue;
    const bool alike =
        v->op == OP_STORE && v->ref == first->ref && ir_access_dtype(v) == ir_access_dtype(first);
    return alike && stores_every_second(v) && begins_next(first, v) ? k : 0;
  }
  return 0;
}

static void emit_pairs(Context *x, const Instr *first, const Instr *second) {
  const Place p = member_place(x, first);
  line(x->w, "pk_store_pairs_%s(%s, %s, %s, %s);", dtype_info[p.element].name, place_text(x->g, &p),
       expr_text(argument_at(x, ir_store_value(first), true)),
       expr_text(argument_at(x, ir_store_value(second), true)),
       x->left ? expr_text(lanes_left(x)) : text(x->g, "%d", x->g->lanes));
}

static void emit_members_of_row(Context *x, const Step *step, const SumList *sums,
                                const char *slot) {
  const bool *spared = spared_members(x->g, x->group, step, x->index);
  int waits = -1, with = 0;
  for (int m = 0; m < step->members.count; m++) {
    Instr *v = step->members.at[m];
    if (spared[m] || (x->holds && val(v)->only_for == x->holds)) continue;
    if (waits >= 0 && m == with) {
      emit_pairs(x, step->members.at[waits], v);
      waits = -1;
    } else if (waits < 0 && (with = fills_between(x, step, m, spared)) > 0) {
      waits = m;
    } else {
      emit_member(x, v, sums, slot);
    }
  }
}

// A member of one of the rows or vectors that are processed together.
static void emit_member_of_several(Context *x, const Step *step, const bool *spared, int m) {
  Instr *v = step->members.at[m];
  if (spared[m] || is_constant_here(x, v) || is_skipped_here(x, v)) return;
  emit_member(x, v, NULL, "0");
}

// With several rows or vectors all stores come last, so that the C compiler sees which loads are
// the same.
static void emit_members_of_several(Context *x, const Step *step) {
  const int count = x->jammed ? x->jammed : x->together, axis = x->group->leads - (x->jammed != 0),
            lanes = x->packed ? packed_lanes(x->g, x->packed) : x->g->lanes;
  const Expr *first = x->index[axis];
  Buf stores = {0};
  x->stores = &stores;
  for (int k = 0; k < count; k++) {
    const int known = x->known.count;
    x->index[axis] = expr_add(&x->g->exprs, first, number(x->g, x->jammed ? k : k * lanes));
    *(x->jammed ? &x->row : &x->vector) = k;
    const bool *spared = spared_members(x->g, x->group, step, x->index);
    for (int m = 0; m < step->members.count; m++) emit_member_of_several(x, step, spared, m);
    x->known.count = known;
  }
  x->stores = NULL;
  x->index[axis] = first;
  if (stores.length) buf_add(x->w->c, stores.text, stores.length);
  buf_free(&stores);
}

static void emit_members(Context *x, const Step *step, const SumList *sums, const char *slot,
                         const Expr *column, const Expr *left) {
  int known = x->known.count,
      taken = open_names(&x->w->names);  // names of this scope may be used again after it
  x->index[x->group->leads] = column;
  x->left = left;
  if (x->jammed || x->together)
    emit_members_of_several(x, step);
  else
    emit_members_of_row(x, step, sums, slot);
  x->left = NULL;
  x->known.count = known;
  close_names(&x->w->names, taken);
}

void emit_vectors(Context *x, const Step *step, const Expr *column, const Expr *left) {
  x->index[x->group->leads] = column;
  x->left = left;
  x->in_registers = true;
  const bool *spared = spared_members(x->g, x->group, step, x->index);
  for (int m = 0; m < step->members.count; m++)
    if (!spared[m]) emit_member(x, step->members.at[m], NULL, "0");
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

// An iteration over whole vectors.
static void emit_unrolled_members(Context *x, const Step *step, const SumList *sums,
                                  const Expr *column) {
  Gen *g = x->g;
  if (step->loop.vectors == 1) {
    prefetch_next_row(x, &step->loop, column);
    emit_members(x, step, sums, "0", column, NULL);
    return;
  }
  const char *vector_name = unique_name(&x->w->names, "u");
  const Expr *ahead = expr_mul(&g->exprs, expr_symbol(&g->exprs, vector_name), number(g, g->lanes)),
             *here = expr_add(&g->exprs, column, ahead);
  line(x->w, "PK_UNROLL");
  open_block(x->w, "for (int %s = 0; %s < %d; %s++)", vector_name, vector_name, step->loop.vectors,
             vector_name);
  prefetch_next_row(x, &step->loop, here);
  emit_members(x, step, sums, vector_name, here, NULL);
  close_block(x->w);
}

// The columns of a row after the whole iterations, a vector at a time.
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

// Is the column a variable of several loops?
static bool is_begun(const ColumnLoop *loop) {
  return loop->rest || loop->part || loop->packed || loop->together;
}

// The variables of a column loop, and its increment. `second`: where the second iteration begins,
// if the first one is not aligned; else NULL.
static const char *declare_column(Context *x, const ColumnLoop *loop, const char *column,
                                  const Expr *second) {
  Gen *g = x->g;
  const int iteration = loop->vectors * g->lanes;
  if (!second) {
    if (is_begun(loop)) line(x->w, "int64_t %s = 0;", column);
    return text(g, "%s += %d", column, iteration);
  }
  const char *by = unique_name(&x->w->names, "advance");
  line(x->w, "int64_t %s = 0, %s = %s;", column, by, second->name);
  const char *advance = text(g, "%s += %s, %s = %d", column, by, by, iteration);
  for (int i = 0; i < x->streams.count; i++)
    advance = text(g, "%s, %s = %s", advance, x->streams.at[i].now, x->streams.at[i].later);
  return advance;
}

// The iterations that come first: packed vectors, or several vectors whose words are joined.
static void emit_first(Context *x, const Step *step, SumList *sums, const Expr *column,
                       const char *end) {
  const int lanes = first_lanes(x->g, &step->loop);
  const char *at = column->name;
  x->packed = step->loop.packed;
  x->together = step->loop.together;
  x->first = column;
  if (x->packed) declare_packed_sums(x, sums);
  open_block(x->w, "for (; %s + %d <= %s; %s += %d)", at, lanes, end, at, lanes);
  emit_members(x, step, sums, "0", column, NULL);
  close_block(x->w);
  if (x->packed) join_packed_sums(x, sums);
  x->packed = x->together = 0;
}

// Rows that share words take these apart only where they go together.
static bool comes_first(const Context *x, const ColumnLoop *loop) {
  return (loop->packed || loop->together) && (x->jammed || !x->group->by_words);
}

static void emit_iterations(Context *x, const Step *step, const SumList *sums, const Expr *column,
                            const char *begin, const char *end, const char *advance) {
  Gen *g = x->g;
  const char *iteration = step->loop.rest
                              ? text(g, "%s + %d <=", column->name, step->loop.vectors * g->lanes)
                              : text(g, "%s <", column->name);
  open_block(x->w, "for (%s; %s %s; %s)", begin, iteration, end, advance);
  emit_unrolled_members(x, step, sums, column);
  close_block(x->w);
}

// The iterations of a row, without its masks up to `unmasked`, if that is not NULL. Float sums are
// set aside at the end of each part that whole iterations follow. Most rows have one part, and the
// C says so: otherwise gcc merges the two loops into one whose iterations take up to 10 % longer.
static void emit_all_iterations(Context *x, const Step *step, const SumList *sums, const char *n,
                                const Expr *column, const char *unmasked, const char *advance) {
  Gen *g = x->g;
  const ColumnLoop *loop = &step->loop;
  const char *end = n, *part = unique_name(&x->w->names, "part");
  if (loop->part) {
    open_block(x->w, "for (int64_t %s = %" PRId64 ";; %s += %" PRId64 ")", part, loop->part, part,
               loop->part);
    end = unique_name(&x->w->names, "end");
    line(x->w, "const int64_t %s = pk_idx_min(%s, %s);", end, part, n);
  }
  if (unmasked) {
    x->holds = loop->unmasked->mask;
    emit_iterations(x, step, sums, column, "",
                    loop->part ? text(g, "pk_idx_min(%s, %s)", unmasked, end) : unmasked, advance);
    x->holds = NULL;
  }
  emit_iterations(x, step, sums, column,
                  is_begun(loop) ? "" : text(g, "int64_t %s = 0", column->name), end, advance);
  if (!loop->part) return;
  line(x->w, "if (PK_MOSTLY(%s - %s < %d)) break;", n, column->name, loop->vectors * g->lanes);
  set_aside(x, step, sums);
  close_block(x->w);
}

void emit_column_step(Context *x, const Step *step) {
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
  const char *unmasked = loop->unmasked ? declare_unmasked(x, loop->unmasked, all) : NULL;
  if (comes_first(x, loop)) emit_first(x, step, &sums, here, n);
  if (loop->whole) emit_all_iterations(x, step, &sums, n, here, unmasked, advance);
  if (loop->rest) emit_rest(x, step, &sums, all, here);
  finish_sums(x, step, &sums);
}
