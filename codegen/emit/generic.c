// Operations that are not loops over rows, as plain loops over elements: moves of whole values,
// scans, sorts, contractions of more than two axes, strided and masked accesses, reductions over
// other axes than the last.
#include "codegen/emit/internal.h"

#include <string.h>

typedef struct {
  const Expr *at[MAX_RANK];
  int opened;
} Loops;

static const Expr *symbol(Gen *g, const char *name) { return expr_symbol(&g->exprs, name); }

// `for` over an index of its own, from 0.
static const Expr *open_loop(CWriter *w, const char *base, const Expr *end) {
  Gen *g = w->g;
  const char *i = unique_name(&w->names, base);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s++)", i, i, expr_text(end), i);
  return symbol(g, i);
}

static Loops open_loops(CWriter *w, const Instr *v, unsigned skip) {
  Gen *g = w->g;
  Loops loops = {.opened = 0};
  const Instr *shape = v->op == OP_STORE ? ir_store_value(v) : v;
  for (int i = 0; i < shape->type.rank; i++) {
    loops.at[i] = number(g, 0);
    if ((skip >> i) & 1) continue;
    loops.at[i] =
        open_loop(w, text(g, "i%d", i), demand_expr(g, val(v)->demand[i], shape->type.dim[i]));
    loops.opened++;
  }
  return loops;
}

static void close_loops(CWriter *w, const Loops *loops) {
  for (int i = 0; i < loops->opened; i++) close_block(w);
}

static const Expr *read(Gen *g, const Instr *v, const Expr *const *index) {
  Context x = {.g = g};
  memcpy(x.index, index, (size_t)v->type.rank * sizeof *index);
  return argument_at(&x, v, false);
}

static void write(CWriter *w, const Instr *v, const Expr *const *index, const Expr *value) {
  Gen *g = w->g;
  Place p;
  REQUIRE(place_of(g, v, &p));
  int rank = v->op == OP_STORE ? ir_store_value(v)->type.rank : v->type.rank;
  line(w, "pks_store_%s(%s, %s);", dtype_info[p.element].name, address(g, &p, rank, index),
       expr_text(value));
}

// ---- moves: result element (i..) is the operand's element at another index

// A variable for an expression that is more than a name or a number.
static const Expr *named(CWriter *w, const char *base, const Expr *e) {
  Gen *g = w->g;
  if (e->kind == EXPR_SYMBOL || e->kind == EXPR_CONST) return e;
  const char *name = unique_name(&w->names, base);
  line(w, "const int64_t %s = %s;", name, expr_text(e));
  return symbol(g, name);
}

static void index_of_reshape(CWriter *w, const Instr *v, const Expr *const *at, const Expr **from) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  const Expr *linear = number(g, 0), *below = number(g, 1);
  for (int i = 0; i < v->type.rank; i++)
    linear = expr_add(pool, expr_mul(pool, linear, extent_expr(g, v->type.dim[i])), at[i]);
  const Expr *n = named(w, "n", linear);
  const Type *t = &v->args[0]->type;
  for (int i = t->rank - 1; i >= 0; i--) {
    const Expr *extent = extent_expr(g, t->dim[i]);
    from[i] = expr_operator(pool, EXPR_DIV, n, below);
    if (i) from[i] = expr_operator(pool, EXPR_REM, from[i], extent);
    below = expr_mul(pool, below, extent);
  }
}

// An index in a variable of its own, clamped to an axis.
static const Expr *taken_index(Gen *g, const Instr *which, const Expr *const *at, Dim extent) {
  const Expr *index = expr_cast(&g->exprs, DT_I64, read(g, which, at)),
             *last = expr_sub(&g->exprs, extent_expr(g, extent), number(g, 1));
  return expr_call(&g->exprs, "pk_start", index, last, NULL);
}

static void gathered_index(Gen *g, const Instr *v, const Expr *const *at, const Expr **from) {
  int axes[MAX_RANK];
  const int count = ir_indexed_axes(v, axes);
  const Type *table = &v->args[0]->type;
  for (int k = 0; k < table->rank; k++) {
    const int to = ir_gathered_axis(v, k);
    if (to >= 0) from[k] = at[to];
  }
  for (int i = 0; i < count; i++)
    from[axes[i]] = taken_index(g, v->args[1 + i], &at[axes[0]], table->dim[axes[i]]);
}

static const Expr *rolled_index(Gen *g, const Instr *v, const Expr *at, const Expr *extent) {
  ExprPool *pool = &g->exprs;
  const Expr *by = expr_call(pool, "pk_idx_mod", scalar_expr(g, v->args[1]), extent, NULL);
  return expr_call(pool, "pk_idx_mod", expr_call(pool, "pk_idx_sub", at, by, NULL), extent, NULL);
}

static void index_of_move(CWriter *w, const Instr *v, const Expr *const *at, const Expr **from) {
  Gen *g = w->g;
  AxisMap map;
  int axis = (int)v->ival;
  memcpy(from, at, sizeof(const Expr *) * MAX_RANK);
  if (ir_axis_map(v, &map))
    operand_index(g, v, &map, at, from);
  else if (v->op == OP_RESHAPE)
    index_of_reshape(w, v, at, from);
  else if (v->op == OP_ROLL)
    from[axis] = rolled_index(g, v, at[axis], extent_expr(g, v->args[0]->type.dim[axis]));
  else if (v->op == OP_GATHER)
    gathered_index(g, v, at, from);
  else
    from[axis] =
        taken_index(g, v->args[1], v->op == OP_TAKE ? &at[axis] : at, v->args[0]->type.dim[axis]);
}

static void emit_move(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Loops loops = open_loops(w, v, 0);
  const Expr *from[MAX_RANK] = {0};
  index_of_move(w, v, loops.at, from);
  for (int i = 0; i < v->args[0]->type.rank; i++) from[i] = named(w, "from", from[i]);
  write(w, v, loops.at, read(g, v->args[0], from));
  close_loops(w, &loops);
}

static void emit_transpose(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Place from, to;
  REQUIRE(place_of(g, v->args[0], &from) && place_of(g, v, &to));
  const RefGen *r = val(v)->stored_by ? &g->refs[val(v)->stored_by->ref->id] : NULL;
  bool streams = r && may_stream(g, val(v)->stored_by);
  const char *kind = streams ? "f32" : text(g, "b%d", dtype_bytes(to.element));
  line(w, "pk_transpose_block_%s(%s, %s, %s, %s, %s, %s%s);", kind, place_text(g, &to),
       expr_text(to.stride[0]), place_text(g, &from), expr_text(from.stride[0]),
       demand_text(g, val(v)->demand[1], v->type.dim[1]),
       demand_text(g, val(v)->demand[0], v->type.dim[0]),
       streams ? text(g, ", %s", expr_text(streams_expr(g, r))) : "");
}

// Copies each part of a concatenation that is not computed in place.
static void emit_concatenate(CWriter *w, Instr *v) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  for (int a = 0; a < v->nargs; a++) {
    if (is_inside(v, a)) continue;
    const Instr *part = v->args[a];
    const Expr *offset = part_offset(g, v, a);
    Loops loops = {.opened = 0};
    const Expr *to[MAX_RANK] = {0};
    for (int i = 0; i < v->type.rank; i++) {
      Demand demand = val(v)->demand[i];
      const Expr *end = i == v->ival ? extent_expr(g, part->type.dim[i])
                                     : demand_expr(g, demand, part->type.dim[i]);
      if (i == v->ival && demand != DEMAND_FULL)
        end = expr_min(pool, end, expr_sub(pool, demand_expr(g, demand, v->type.dim[i]), offset));
      loops.at[i] = open_loop(w, text(g, "i%d", i), end);
      loops.opened++;
      to[i] = i == v->ival ? expr_add(pool, loops.at[i], offset) : loops.at[i];
    }
    write(w, v, to, read(g, part, loops.at));
    close_loops(w, &loops);
  }
}

static void emit_pad(CWriter *w, Instr *v) {
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  Loops loops = open_loops(w, v, 0);
  const Expr *from[MAX_RANK] = {0}, *inside = NULL, *zero = number(g, 0);
  index_of_move(w, v, loops.at, from);
  for (int i = 0; i < v->type.rank; i++) {
    const Expr *extent = extent_expr(g, v->args[0]->type.dim[i]);
    inside = expr_and(pool, inside, expr_operator(pool, EXPR_GE, from[i], zero));
    inside = expr_and(pool, inside, expr_operator(pool, EXPR_LT, from[i], extent));
  }
  const Expr *value = read(g, v->args[0], from), *pad = scalar_expr(g, v->args[1]);
  write(w, v, loops.at, inside ? expr_choose(pool, inside, value, pad) : value);
  close_loops(w, &loops);
}

// ---- one element from many

static const char *scalar_lane(const Instr *v) {
  DType t = v->args[0]->type.dtype;
  return t == DT_BOOL ? "mask" : lane_type(t);
}

static const Expr *combine(Gen *g, const char *verb, const char *lane, const Expr *a,
                           const Expr *b) {
  return expr_call(&g->exprs, text(g, "pks_%s_%s", verb, lane), a, b, NULL);
}

static const Expr *reduced(Gen *g, const Instr *v, const Expr *a, const Expr *b) {
  if (v->args[0]->type.dtype != DT_BOOL)
    return combine(g, reduce_operation(v), scalar_lane(v), a, b);
  ExprKind kind = v->op == OP_REDUCE_AND ? EXPR_AND : v->op == OP_REDUCE_OR ? EXPR_OR : EXPR_NE;
  return expr_operator(&g->exprs, kind, a, b);
}

static const Expr *wrapped(Gen *g, DType t, const Expr *value) {
  if (!is_narrow_integer(t)) return value;
  return expr_call(&g->exprs, text(g, "pks_wrap_%s", dtype_info[t].name), value, NULL, NULL);
}

// The open loops over reduced axes. Float sums of many terms are divided into parts of SUM_TERMS
// terms at fixed positions: multiples of SUM_TERMS along the innermost axis, or the ends of its
// lines if these are shorter.
typedef struct {
  int loops;
  const char
      *terms;  // C variable: the number of terms of the current part; NULL: there is one part
  const char *count;  // the terms added by the innermost loop
} Reduced;

static bool has_many_terms(const Instr *v) {
  const Type *t = &v->args[0]->type;
  int64_t terms = 1;
  for (int i = 0; i < t->rank; i++) {
    if (!((v->ival >> i) & 1)) continue;
    if (!dim_is_const(t->dim[i]) || !mul_i64(terms, t->dim[i], &terms)) return true;
  }
  return terms > SUM_TERMS;
}

static const Expr *open_part(CWriter *w, Reduced *r, const char *base, const Expr *end) {
  Gen *g = w->g;
  const char *part = unique_name(&w->names, "part"), *last = unique_name(&w->names, "end"),
             *k = unique_name(&w->names, base);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s += %d)", part, part, expr_text(end), part,
             SUM_TERMS);
  line(w, "const int64_t %s = pk_idx_min(%s + %d, %s);", last, part, SUM_TERMS, expr_text(end));
  open_block(w, "for (int64_t %s = %s; %s < %s; %s++)", k, part, k, last, k);
  r->count = text(g, "%s - %s", last, part);
  r->loops += 2;
  return symbol(g, k);
}

// Opens the loops over the reduced axes, with a counter of terms if sums are divided into parts.
static Reduced open_reduced(CWriter *w, const Instr *v, const Expr **at) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  Reduced r = {0};
  if (adds_in_parts(v) && has_many_terms(v)) {
    r.terms = unique_name(&w->names, "terms");
    line(w, "int64_t %s = 0;", r.terms);
  }
  for (int i = 0; i < from->type.rank; i++) {
    if (!((v->ival >> i) & 1)) continue;
    const char *base = text(g, "k%d", i);
    const Expr *end = demand_expr(g, val(from)->demand[i], from->type.dim[i]);
    if (r.terms && v->ival >> (i + 1) == 0) {
      at[i] = open_part(w, &r, base, end);
    } else {
      at[i] = open_loop(w, base, end);
      r.loops++;
    }
  }
  return r;
}

// `add` and `clear`: statements that set sums aside.
static void close_reduced(CWriter *w, const Reduced *r, const char *add, const char *clear) {
  close_block(w);
  if (r->terms) {
    line(w, "%s += %s;", r->terms, r->count);
    open_block(w, "if (%s >= %d)", r->terms, SUM_TERMS);
    line(w, "%s", add);
    line(w, "%s", clear);
    line(w, "%s = 0;", r->terms);
    close_block(w);
  }
  for (int i = 1; i < r->loops; i++) close_block(w);
}

static void emit_reduce(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  Loops loops = open_loops(w, v, (unsigned)v->ival);
  const Expr *at[MAX_RANK], *sum = symbol(g, unique_name(&w->names, "sum"));
  DType t = from->type.dtype;
  const char *start = reduce_identity(g, v), *total = unique_name(&w->names, "total");
  line(w, "%s %s = %s;", scalar_type(t), sum->name, start);
  memcpy(at, loops.at, sizeof at);
  const bool parts = adds_in_parts(v) && has_many_terms(v);
  if (parts) line(w, "float %s = %s;", total, start);
  const Reduced r = open_reduced(w, v, at);
  line(w, "%s = %s;", sum->name, expr_text(reduced(g, v, sum, read(g, from, at))));
  close_reduced(w, &r, text(g, "%s += %s;", total, sum->name),
                text(g, "%s = %s;", sum->name, start));
  if (parts) sum = combine(g, "add", "f32", symbol(g, total), sum);
  write(w, v, loops.at, wrapped(g, t, sum));
  close_loops(w, &loops);
}

// The vectors in which rows are reduced to one.
typedef struct {
  const char *prefix;  // of the names of their operations
  const char *type, *lane;
  int lanes;
} RowVector;

static RowVector plain_rows(Gen *g, const Instr *v) {
  return (RowVector){"", vector_type(v->args[0]->type.dtype), reduce_lanes(v), g->lanes};
}

static RowVector packed_rows(Gen *g, const Instr *v, int bits) {
  return (RowVector){"packed_", text(g, "pk_packed%d", bits),
                     packed_lane(v->args[0]->type.dtype, bits), packed_lanes(g, bits)};
}

// Vectors of sums from `column` on, of the rows that become the row at `at`: this many vectors, or
// the first `left` elements of one.
static void put_row_sums(CWriter *w, Instr *v, const RowVector *of, const Place *p,
                         const char *sum_at, const Expr *const *row, int vectors,
                         const char *left) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  const char *lane = of->lane, *pre = of->prefix, *type = dtype_info[from->type.dtype].name,
             *sum = unique_name(&w->names, "sum"), *u = unique_name(&w->names, "u"),
             *ahead = text(g, " + %s * %d", u, of->lanes);
  const Expr *at[MAX_RANK];
  memcpy(at, row, sizeof at);
  const char *each = text(g, "PK_UNROLL for (int %s = 0; %s < %d; %s++) ", u, u, vectors, u),
             *here = left ? sum : text(g, "%s[%s]", sum, u),
             *start = text(g, "pk_%ssplat_%s(%s)", pre, lane, reduce_identity(g, v)),
             *vector = of->type;
  const bool parts = adds_in_parts(v) && has_many_terms(v);
  const char *total = parts ? unique_name(&w->names, "total") : sum,
             *aside = left ? total : text(g, "%s[%s]", total, u),
             *several = left ? "" : text(g, "[%d]", vectors);
  if (left) each = ahead = "";
  line(w, "%s %s%s;", vector, sum, several);
  line(w, "%s%s = %s;", each, here, start);
  if (parts) line(w, "%s %s%s;", vector, total, several);
  if (parts) line(w, "%s%s = %s;", each, aside, start);
  const Reduced r = open_reduced(w, v, at);
  const char *place = text(g, "%s%s", address(g, p, from->type.rank, at), ahead),
             *value = left ? text(g, "pk_loadn_%s(%s, %s)", type, place, left)
                           : text(g, "pk_%sload_%s(%s)", pre, type, place);
  line(w, "%s%s = pk_%s%s_%s(%s, %s);", each, here, pre, reduce_operation(v), lane, here, value);
  const char *both = text(g, "pk_%s%s_%s(%s, %s)", pre, reduce_operation(v), lane, aside, here);
  close_reduced(w, &r, text(g, "%s%s = %s;", each, aside, both),
                text(g, "%s%s = %s;", each, here, start));
  if (parts) line(w, "%s%s = %s;", each, here, both);
  if (left)
    line(w, "pk_storen_%s(%s, %s, %s);", type, sum_at, sum, left);
  else
    line(w, "%spk_%sstore_%s(%s%s, %s);", each, pre, type, sum_at, ahead, here);
}

// Loops over the columns by `vectors` vectors at a time, while as many remain.
static void put_rows_by(CWriter *w, Instr *v, const RowVector *of, int vectors, const char *column,
                        const char *end, const Place *p, const char *sum_at,
                        const Expr *const *row) {
  const int columns = vectors * of->lanes;
  open_block(w, "for (; %s + %d <= %s; %s += %d)", column, columns, end, column, columns);
  put_row_sums(w, v, of, p, sum_at, row, vectors, NULL);
  close_block(w);
}

// Reduces leading axes: vectors of columns are added row by row.
static void emit_reduce_rows(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  Place p, to;
  int last = from->type.rank - 1;
  REQUIRE(place_of(g, from, &p) && place_of(g, v, &to));
  Loops loops = open_loops(w, v, (unsigned)v->ival | 1u << last);
  const char *n = demand_text(g, val(v)->demand[last], v->type.dim[last]),
             *column = unique_name(&w->names, "col");
  const Expr *at[MAX_RANK];
  memcpy(at, loops.at, sizeof at);
  at[last] = symbol(g, column);
  const char *sum_at = address(g, &to, v->type.rank, at);
  const RowVector plain = plain_rows(g, v);
  const int bits = packed_row_bits(v);
  line(w, "int64_t %s = 0;", column);
  if (bits) {
    const RowVector packed = packed_rows(g, v, bits);
    put_rows_by(w, v, &packed, ROW_SUMS, column, n, &p, sum_at, at);
    put_rows_by(w, v, &packed, 1, column, n, &p, sum_at, at);
  } else {
    put_rows_by(w, v, &plain, ROW_SUMS, column, n, &p, sum_at, at);
  }
  open_block(w, "for (; %s < %s; %s += %d)", column, n, column, g->lanes);
  const char *left = unique_name(&w->names, "left");
  line(w, "const int64_t %s = %s - %s;", left, n, column);
  put_row_sums(w, v, &plain, &p, sum_at, at, 1, left);
  close_block(w);
  close_loops(w, &loops);
}

// A search over no elements fails.
static void require_elements(CWriter *w, const Instr *v) {
  const Dim extent = v->args[0]->type.dim[v->ival];
  if (dim_is_const(extent)) return;
  reading(w->g, "worker");
  line(w, "if (%s == 0) pk_fail(worker, \"line %d: %s over an axis of no elements\");",
       extent_text(w->g, extent), line_of(w->g, v->span), op_info[v->op].name);
}

static void emit_arg_rows(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  const int axis = (int)v->ival, last = from->type.rank - 1;
  Place p, to;
  REQUIRE(place_of(g, from, &p) && place_of(g, v, &to));
  Loops loops = open_loops(w, v, 1u << axis | 1u << last);
  require_elements(w, v);
  line(w, "pk_search_columns_%s(%s, %s, %s, %s, %s, %s);", dtype_info[from->type.dtype].name,
       address(g, &to, v->type.rank, loops.at), address(g, &p, from->type.rank, loops.at),
       expr_text(p.stride[axis]), extent_text(g, from->type.dim[axis]),
       demand_text(g, val(v)->demand[last], v->type.dim[last]),
       v->op == OP_ARGMIN ? "true" : "false");
  close_loops(w, &loops);
}

static void emit_arg_lines(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  const int axis = (int)v->ival;
  Place p;
  REQUIRE(place_of(g, from, &p));
  Loops loops = open_loops(w, v, 1u << axis);
  require_elements(w, v);
  const char *found =
      text(g, "pk_search_line_%s(%s, %s, %s)", dtype_info[from->type.dtype].name,
           address(g, &p, from->type.rank, loops.at), extent_text(g, from->type.dim[axis]),
           v->op == OP_ARGMIN ? "true" : "false");
  write(w, v, loops.at, expr_code(&g->exprs, found));
  close_loops(w, &loops);
}

// The position of the extreme along an axis, one element at a time.
static void emit_arg_reduce(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  int axis = (int)v->ival;
  Loops loops = open_loops(w, v, 1u << axis);
  const char *best = unique_name(&w->names, "best"), *value = unique_name(&w->names, "value"),
             *k = unique_name(&w->names, "k");
  const Expr *at[MAX_RANK];
  memcpy(at, loops.at, sizeof at);
  DType t = from->type.dtype;
  Dim extent = from->type.dim[axis];
  const char *n = extent_text(g, extent), *first = expr_text(read(g, from, at));
  line(w, "int64_t %s = 0;", best);
  require_elements(w, v);
  if (dim_is_const(extent))
    line(w, "%s %s = %s;", scalar_type(t), value, first);
  else
    line(w, "%s %s = %s > 0 ? %s : 0;", scalar_type(t), value, n, first);
  at[axis] = symbol(g, k);
  open_block(w, "for (int64_t %s = 1; %s < %s; %s++)", k, k, extent_text(g, from->type.dim[axis]),
             k);
  const char *here = unique_name(&w->names, "here"), *sign = v->op == OP_ARGMAX ? ">" : "<";
  line(w, "const %s %s = %s;", scalar_type(t), here, expr_text(read(g, from, at)));
  const char *better = text(g, "%s %s %s", here, sign, value);
  if (is_float(t))
    better = text(g, "(%s || %s != %s) && %s == %s", better, here, here, value, value);
  open_block(w, "if (%s)", better);
  line(w, "%s = %s;", best, k);
  line(w, "%s = %s;", value, here);
  close_block(w);
  close_block(w);
  write(w, v, loops.at, expr_cast(&g->exprs, DT_I32, symbol(g, best)));
  close_loops(w, &loops);
}

// A scan along an axis, one element at a time.
static void emit_scan(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  int axis = (int)v->ival;
  Loops loops = open_loops(w, v, 1u << axis);
  DType t = v->type.dtype;
  const Expr *sum = symbol(g, unique_name(&w->names, "sum")), *at[MAX_RANK];
  const char *step = unique_name(&w->names, "k"), *k = unique_name(&w->names, "at"),
             *n = extent_text(g, v->type.dim[axis]);
  memcpy(at, loops.at, sizeof at);
  at[axis] = symbol(g, k);
  line(w, "%s %s = 0;", scalar_type(t), sum->name);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s++)", step, step, n, step);
  line(w, "const int64_t %s = %s;", k,
       v->flags & INSTR_REVERSE ? text(g, "%s - 1 - %s", n, step) : step);
  const Expr *value = read(g, from, at),
             *next = wrapped(
                 g, t, combine(g, op_info[fold_operation[v->op]].name, scalar_lane(v), sum, value));
  line(w, "%s = %s == 0 ? %s : %s;", sum->name, step, expr_text(value), expr_text(next));
  write(w, v, at, sum);
  close_block(w);
  close_loops(w, &loops);
}

// Each row reads back the row before it, which is in L1. So rows are read and written in order.
static void emit_scan_rows(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  Place p, to;
  int axis = (int)v->ival, last = v->type.rank - 1;
  DType t = v->type.dtype;
  REQUIRE(place_of(g, from, &p) && place_of(g, v, &to));
  Loops loops = open_loops(w, v, 1u << axis | 1u << last);
  const char *step = unique_name(&w->names, "k"), *k = unique_name(&w->names, "at"),
             *n = extent_text(g, v->type.dim[axis]), *column = unique_name(&w->names, "col"),
             *columns = demand_text(g, val(v)->demand[last], v->type.dim[last]),
             *left = unique_name(&w->names, "left"), *sum = unique_name(&w->names, "sum"),
             *type = dtype_info[t].name;
  bool reverse = v->flags & INSTR_REVERSE;
  const Expr *at[MAX_RANK], *before[MAX_RANK], *one = number(g, 1);
  memcpy(at, loops.at, sizeof at);
  at[axis] = symbol(g, k);
  at[last] = symbol(g, column);
  memcpy(before, at, sizeof before);
  before[axis] = reverse ? expr_add(&g->exprs, at[axis], one) : expr_sub(&g->exprs, at[axis], one);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s++)", step, step, n, step);
  line(w, "const int64_t %s = %s;", k, reverse ? text(g, "%s - 1 - %s", n, step) : step);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s += %d)", column, column, columns, column,
             g->lanes);
  line(w, "const int64_t %s = %s - %s;", left, columns, column);
  line(w, "%s %s = pk_loadn_%s(%s, %s);", vector_type(t), sum, type,
       address(g, &p, v->type.rank, at), left);
  line(w, "if (%s > 0) %s = pk_%s_%s(pk_loadn_%s(%s, %s), %s);", step, sum, reduce_operation(v),
       reduce_lanes(v), type, address(g, &to, v->type.rank, before), left, sum);
  line(w, "pk_storen_%s(%s, %s, %s);", type, address(g, &to, v->type.rank, at), sum, left);
  close_block(w);
  close_block(w);
  close_loops(w, &loops);
}

static void emit_scan_lines(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  Place p, to;
  int line_axis = v->type.rank - 2;
  REQUIRE(place_of(g, from, &p) && place_of(g, v, &to));
  Loops loops = open_loops(w, v, 3u << line_axis);
  line(w, "pk_scan_lines_%s_%s(%s, %s, %s, %s, %s, %s, %s);", reduce_operation(v),
       dtype_info[v->type.dtype].name, address(g, &to, v->type.rank, loops.at),
       expr_text(to.stride[line_axis]), address(g, &p, v->type.rank, loops.at),
       expr_text(p.stride[line_axis]),
       demand_text(g, val(v)->demand[line_axis], v->type.dim[line_axis]),
       extent_text(g, v->type.dim[v->ival]), v->flags & INSTR_REVERSE ? "true" : "false");
  close_loops(w, &loops);
}

static const char *sort_key(Gen *g, const Instr *v, const Expr *element) {
  DType t = v->args[0]->type.dtype;
  const char *descends = v->flags & INSTR_REVERSE ? "true" : "false";
  if (t == DT_U64) return text(g, "pk_sort_key_u64(%s)", expr_text(element));
  if (t == DT_I64) return expr_text(element);
  const char *kind = is_float(t) ? lane_type(t) : t == DT_U32 ? "u32" : "i32";
  if (!is_float(t) && t != DT_U32) element = expr_cast(&g->exprs, DT_I32, element);
  return text(g, "pk_sort_key_%s(%s, %s)", kind, expr_text(element), descends);
}

// The keys of the line at index `at`, and the variable `order` of its elements. Keys of 32 bits are
// sorted together with their positions; longer ones are compared in place.
static void emit_order(CWriter *w, const Instr *v, const Expr **at, const char *order) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  const Buffer *scratch = val(v)->scratch;
  const char *k = unique_name(&w->names, "k"), *keys = reading(g, scratch->name),
             *extent = extent_text(g, from->type.dim[v->ival]),
             *stride = expr_text(scratch->stride[0]), *sorted;
  at[v->ival] = symbol(g, k);
  const char *key = sort_key(g, v, read(g, from, at)), *each,
             *descends = v->flags & INSTR_REVERSE ? "true" : "false";
  if (is_wide(from->type.dtype)) {
    each = text(g, "%s[%s] = %s", keys, k, key);
    sorted = text(g, "pk_argsort(%s, %s, %s, %lld, %s)", keys, stride, extent,
                  (long long)val(v)->first, descends);
  } else if (val(v)->first) {
    const char *first = unique_name(&w->names, "first");
    line(w, "pk_sort_first %s = pk_sort_first_of(%s, %s + 2 * %s, %lld, %s);", first, keys, keys,
         stride, (long long)val(v)->first, extent);
    each = text(g, "pk_sort_offer(&%s, pk_sort_placed(%s, %s))", first, key, k);
    sorted = text(g, "pk_sort_chosen(&%s)", first);
  } else {
    each = text(g, "%s[%s] = pk_sort_placed(%s, %s)", keys, k, key, k);
    sorted = text(g, "pk_sort_keys_64(%s, %s + 2 * %s, %s)", keys, keys, stride, extent);
  }
  line(w, "for (int64_t %s = 0; %s < %s; %s++) %s;", k, k, extent, k, each);
  line(w, "const int64_t *const %s = %s;", order, sorted);
}

static void emit_sort(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  int axis = (int)v->ival;
  Loops loops = open_loops(w, v, 1u << axis);
  const Expr *at[MAX_RANK], *to[MAX_RANK];
  memcpy(at, loops.at, sizeof at);
  const char *order = unique_name(&w->names, "order");
  emit_order(w, v, at, order);
  const char *extent = extent_text(g, from->type.dim[axis]);
  if (val(v)->first) extent = text(g, "pk_idx_min(%lld, %s)", (long long)val(v)->first, extent);
  memcpy(to, at, sizeof to);
  to[axis] = open_loop(w, "k", expr_code(&g->exprs, extent));
  const char *form = is_wide(from->type.dtype) ? "%s[%s]" : "pk_sort_place(%s[%s])";
  at[axis] = expr_code(&g->exprs, text(g, form, order, expr_text(to[axis])));
  write(w, v, to, v->op == OP_ARGSORT ? expr_cast(&g->exprs, DT_I32, at[axis]) : read(g, from, at));
  close_block(w);
  close_loops(w, &loops);
}

static const char *sort_kind(DType t) {
  return is_float(t) ? "FLOAT" : t == DT_U32 || t == DT_U64 ? "UNSIGNED" : "SIGNED";
}

// Sorts along an axis, several lines at a time by the runtime's networks.
static void emit_sort_lines(CWriter *w, Instr *v) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  const int axis = (int)v->ival, side = sorted_side_by_side(g, v),
            bits = dtype_info[from->type.dtype].bits;
  const Buffer *scratch = val(v)->scratch;
  const Expr *zero = number(g, 0);
  Place p, to;
  REQUIRE(place_of(g, from, &p) && place_of(g, v, &to));
  Loops loops = open_loops(w, v, 1u << axis | (side < 0 ? 0 : 1u << side));
  const char *job = unique_name(&w->names, "lines");
  line(w, "const pk_sort_job_%d %s = {", bits, job);
  line(w, "  .to = (void *)(%s), .to_step = %s, .to_line = %s,",
       address(g, &to, v->type.rank, loops.at), expr_text(to.stride[axis]),
       expr_text(side < 0 ? zero : to.stride[side]));
  line(w, "  .from = (const void *)(%s), .step = %s, .line = %s,",
       address(g, &p, from->type.rank, loops.at), expr_text(p.stride[axis]),
       expr_text(side < 0 ? zero : p.stride[side]));
  line(w, "  .n = %s, .lines = %s,", extent_text(g, from->type.dim[axis]),
       side < 0 ? "1" : demand_text(g, val(v)->demand[side], v->type.dim[side]));
  line(w, "  .kind = PK_SORT_%s, .descending = %s,", sort_kind(from->type.dtype),
       v->flags & INSTR_REVERSE ? "true" : "false");
  line(w, "  .scratch = %s, .stride = %s,", reading(g, scratch->name),
       expr_text(scratch->stride[0]));
  line(w, "};");
  if (v->op == OP_SORT)
    line(w, "pk_sort_lines_%d(&%s);", bits, job);
  else
    line(w, "pk_order_lines(&%s, %lld);", job, (long long)val(v)->first);
  close_loops(w, &loops);
}

// ---- contractions

static void label_indices(const Type *t, const int8_t *labels, const Expr *const *of_label,
                          const Expr **at) {
  for (int i = 0; i < t->rank; i++) at[i] = of_label[labels[i]];
}

static const Expr *product(Gen *g, const Instr *v, const Expr *a, const Expr *b) {
  ExprPool *pool = &g->exprs;
  if (is_float(v->args[0]->type.dtype)) return expr_mul(pool, a, b);
  if (is_wide(v->type.dtype))
    return expr_call(pool, "pk_idx_mul", expr_cast(pool, DT_I64, a), expr_cast(pool, DT_I64, b),
                     NULL);
  return expr_call(pool, "pks_mul_i32", expr_cast(pool, DT_I32, a), expr_cast(pool, DT_I32, b),
                   NULL);
}

// Declares `sum` and adds up all terms of one result element.
static void emit_contraction(CWriter *w, const Instr *v, const Expr **of_label, const Expr *sum) {
  Gen *g = w->g;
  bool floats = is_float(v->args[0]->type.dtype), wide = is_wide(v->type.dtype);
  line(w, "%s %s = 0;",
       floats ? wide ? "double" : "float"
       : wide ? "int64_t"
              : "int32_t",
       sum->name);
  int inner = 0;
  for (int side = 0; side < 2; side++)
    for (int i = 0; i < v->args[side]->type.rank; i++) {
      int label = side ? v->labels.b[i] : v->labels.a[i];
      if (of_label[label]) continue;
      of_label[label] =
          open_loop(w, text(g, "k%d", label), extent_expr(g, v->args[side]->type.dim[i]));
      inner++;
    }
  const Expr *a_at[MAX_RANK] = {0}, *b_at[MAX_RANK] = {0};
  label_indices(&v->args[0]->type, v->labels.a, of_label, a_at);
  label_indices(&v->args[1]->type, v->labels.b, of_label, b_at);
  const Expr *term = product(g, v, read(g, v->args[0], a_at), read(g, v->args[1], b_at));
  if (floats)
    line(w, "%s += %s;", sum->name, expr_text(term));
  else
    line(w, "%s = %s;", sum->name,
         expr_text(expr_call(&g->exprs, wide ? "pk_idx_add" : "pks_add_i32", sum, term, NULL)));
  while (inner--) close_block(w);
}

// A product for each index of the leading axes, by micro-kernels.
static void emit_products(CWriter *w, Instr *v) {
  Gen *g = w->g;
  ProductShape s = product_shape(v);
  int n = v->type.rank, batch = n - 2, m_axis = n - 2 + s.a_transposed, k_axis = 2 * n - 3 - m_axis;
  const Instr *a = v->args[0];
  const DotKind *kind = val(v)->dot.kind;
  const char *m = demand_text(g, val(v)->demand[n - 2], v->type.dim[n - 2]),
             *cols = demand_text(g, val(v)->demand[n - 1], v->type.dim[n - 1]);
  Dim k = a->type.dim[k_axis];
  const Buffer *panels = val(v)->dot.panels, *left = val(v)->dot.left;
  DType element = dot_element(kind, a->type.dtype);
  Place from_a, from_b, to;
  REQUIRE(place_of(g, a, &from_a) && place_of(g, v->args[1], &from_b) && place_of(g, v, &to));
  Loops loops = open_loops(w, v, 3u << (n - 2));
  const char *a_at = address(g, &from_a, batch, loops.at);
  const Expr *ld = from_a.stride[n - 2];
  if (left) {
    const char *packed = expr_text(left->stride[0]);
    line(w, "%s(%s, %s, %s, %s, %s, %s, %s, %s, 0);",
         pack_rows_text(g, kind, from_a.element, s.a_transposed), reading(g, left->name), packed,
         a_at, expr_text(ld), m, extent_text(g, k), m, packed);
    a_at = reading(g, left->name);
    ld = left->stride[0];
  }
  const char *depth = expr_text(val(v)->dot.depth);
  line(w, "%s(%s, %s, %s, %s, %s, %s, %s, 0);",
       pack_panels_text(g, kind, from_b.element, s.b_transposed), reading(g, panels->name), depth,
       address(g, &from_b, batch, loops.at), expr_text(from_b.stride[n - 2]), extent_text(g, k),
       cols, cols);
  const char *product = unique_name(&w->names, "product");
  line(w, "const pk_dot_product %s = {", product);
  line(w, "  .rows = %s, .cols = %s, .k = %s,", m, cols, extent_text(g, k));
  line(w, "  .a = %s, .lda = %s, .panels = %s, .depth = %s,", a_at,
       expr_text(expr_mul(&g->exprs, number(g, dtype_bytes(element)), ld)), panels->name, depth);
  put_scratch(w, v);
  line(w, "  .to = %s, .ldto = %s, .padded = %s,", address(g, &to, batch, loops.at),
       expr_text(expr_mul(&g->exprs, number(g, 4), to.stride[n - 2])),
       expr_is(to.stride[n - 2], 1) ? "false" : "true");
  line(w, "};");
  line(w, "pk_dot_product_%s(&%s);", micro_kernel_name(kind), product);
  close_loops(w, &loops);
}

// The address of the matrix of an operand (or of the result) at the leading index of `loops`.
static const char *matrix_address(CWriter *w, const Instr *v, const Place *place, const Type *t,
                                  const int8_t *labels, const Loops *loops) {
  const Expr *at[MAX_RANK];
  for (int i = 0; i < t->rank; i++) {
    int axis = label_axis(v->labels.out, v->type.rank - 2, labels[i]);
    at[i] = axis < 0 ? number(w->g, 0) : loops->at[axis];
  }
  return address(w->g, place, t->rank, at);
}

// Products of two matrices for each leading index: where they are, and the loops.
typedef struct {
  MatrixProduct s;
  Place a, b, to;
  Loops loops;
} Matrices;

// Opens loops over all axes of the result but the last `inner` ones, and states the extents.
static Matrices open_matrices(CWriter *w, Instr *v, int inner, const char *type, const char *name) {
  Gen *g = w->g;
  Matrices x = {.s = matrix_product(v)};
  const int n = v->type.rank;
  REQUIRE(place_of(g, x.s.a, &x.a) && place_of(g, x.s.b, &x.b) && place_of(g, v, &x.to));
  x.loops = open_loops(w, v, ((1u << inner) - 1) << (n - inner));
  line(w, "const %s %s = {", type, name);
  line(w, "  .rows = %s, .cols = %s, .k = %s,",
       demand_text(g, val(v)->demand[n - 2], v->type.dim[n - 2]),
       demand_text(g, val(v)->demand[n - 1], v->type.dim[n - 1]),
       extent_text(g, x.s.a->type.dim[x.s.k]));
  return x;
}

// The same for elements of 64 bits.
static void emit_wide_products(CWriter *w, Instr *v) {
  const int n = v->type.rank;
  const char *product = unique_name(&w->names, "product");
  const Matrices x = open_matrices(w, v, 2, "pk_dot_wide", product);
  const MatrixProduct *s = &x.s;
  line(w, "  .a = %s, .a_row = %s, .a_k = %s,",
       matrix_address(w, v, &x.a, &s->a->type, s->a_labels, &x.loops), expr_text(x.a.stride[s->m]),
       expr_text(x.a.stride[s->k]));
  line(w, "  .b = %s, .b_k = %s, .b_col = %s,",
       matrix_address(w, v, &x.b, &s->b->type, s->b_labels, &x.loops), expr_text(x.b.stride[s->k2]),
       expr_text(x.b.stride[s->n]));
  line(w, "  .to = %s, .to_row = %s, .to_col = %s,",
       matrix_address(w, v, &x.to, &v->type, v->labels.out, &x.loops),
       expr_text(x.to.stride[n - 2]), expr_text(x.to.stride[n - 1]));
  line(w, "};");
  line(w, "pk_dot_wide_%s(&%s);", micro_kernel_name(val(v)->dot.kind), product);
  close_loops(w, &x.loops);
}

// The distance in memory between indices of axis `axis` of the result, in elements.
static const char *batch_stride(const Instr *v, const Place *p, const Type *t, const int8_t *labels,
                                int axis) {
  const int at = label_axis(labels, t->rank, v->labels.out[axis]);
  return at < 0 ? "0" : expr_text(p->stride[at]);
}

static void put_fields(CWriter *w, const Fields *f, DType left, const char *lines) {
  const char *fields = unique_name(&w->names, "fields");
  line(w, "const pk_dot_fields %s = {", fields);
  line(w, "  .fields = %d, .bits = %d, .first = %d, .flip = %lld, .bias = %lld,", f->fields,
       f->bits, f->first, (long long)f->flip, (long long)f->bias);
  line(w, "  .k_first = %lld, .k_byte = %lld, .k_field = %lld,", (long long)f->k_first,
       (long long)f->k_byte, (long long)f->k_field);
  line(w, "};");
  line(w, "pk_dot_fields_%s(&%s, &%s);", dtype_info[left].name, lines, fields);
}

// The same for bytes: the last of the leading axes is that of the micro-kernel.
static void emit_byte_products(CWriter *w, Instr *v) {
  const int n = v->type.rank;
  const char *lines = unique_name(&w->names, "lines");
  const Matrices x = open_matrices(w, v, 3, "pk_dot_lines", lines);
  const MatrixProduct *s = &x.s;
  line(w, "  .batches = %s,", demand_text(w->g, val(v)->demand[n - 3], v->type.dim[n - 3]));
  line(w, "  .a = %s, .a_batch = %s, .a_row = %s,",
       matrix_address(w, v, &x.a, &s->a->type, s->a_labels, &x.loops),
       batch_stride(v, &x.a, &s->a->type, s->a_labels, n - 3), expr_text(x.a.stride[s->m]));
  line(w, "  .b = %s, .b_batch = %s, .b_row = %s,",
       matrix_address(w, v, &x.b, &s->b->type, s->b_labels, &x.loops),
       batch_stride(v, &x.b, &s->b->type, s->b_labels, n - 3), expr_text(x.b.stride[s->n]));
  line(w, "  .to = (void *)(%s), .to_batch = %s, .to_row = %s,",
       matrix_address(w, v, &x.to, &v->type, v->labels.out, &x.loops),
       expr_text(x.to.stride[n - 3]), expr_text(x.to.stride[n - 2]));
  line(w, "};");
  if (val(v)->dot.fields)
    put_fields(w, val(v)->dot.fields, s->a->type.dtype, lines);
  else
    line(w, "pk_dot_lines_%s(&%s);", micro_kernel_name(val(v)->dot.kind), lines);
  close_loops(w, &x.loops);
}

static void emit_contractions(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Loops loops = open_loops(w, v, 0);
  const Expr *of_label[DOT_LABELS] = {0}, *sum = symbol(g, unique_name(&w->names, "sum"));
  for (int i = 0; i < v->type.rank; i++) of_label[v->labels.out[i]] = loops.at[i];
  emit_contraction(w, v, of_label, sum);
  DType t = v->type.dtype;
  bool is_unsigned = t == DT_U32 || t == DT_U64;
  write(w, v, loops.at, is_unsigned ? expr_cast(&g->exprs, t, sum) : sum);
  close_loops(w, &loops);
}

// ---- strided and masked accesses, elementwise operations of 64-bit integers

static void emit_elements(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Loops loops = open_loops(w, v, 0);
  Context x = {.g = g, .w = w};
  memcpy(x.index, loops.at, sizeof x.index);
  if (v->op == OP_STORE) {
    const Instr *mask = ir_mask(v);
    if (mask) open_block(w, "if (%s)", expr_text(read(g, mask, loops.at)));
    write(w, v, loops.at, read(g, ir_store_value(v), loops.at));
    if (mask) close_block(w);
  } else {
    write(w, v, loops.at, element_at(&x, v));
  }
  close_loops(w, &loops);
}

// Writes a group that is not a loop over rows, by its method.
void emit_generic(CWriter *w, const Group *group) {
  static void (*const emit[METHOD_COUNT])(CWriter *, Instr *) = {
      [METHOD_ELEMENTS] = emit_elements,
      [METHOD_MOVE] = emit_move,
      [METHOD_TRANSPOSE] = emit_transpose,
      [METHOD_CONCATENATE] = emit_concatenate,
      [METHOD_PAD] = emit_pad,
      [METHOD_REDUCE] = emit_reduce,
      [METHOD_REDUCE_ROWS] = emit_reduce_rows,
      [METHOD_ARG_REDUCE] = emit_arg_reduce,
      [METHOD_ARG_ROWS] = emit_arg_rows,
      [METHOD_ARG_LINES] = emit_arg_lines,
      [METHOD_SCAN] = emit_scan,
      [METHOD_SCAN_ROWS] = emit_scan_rows,
      [METHOD_SCAN_LINES] = emit_scan_lines,
      [METHOD_SORT] = emit_sort,
      [METHOD_SORT_LINES] = emit_sort_lines,
      [METHOD_CONTRACT] = emit_contractions,
      [METHOD_PRODUCTS] = emit_products,
      [METHOD_WIDE_PRODUCTS] = emit_wide_products,
      [METHOD_BYTE_PRODUCTS] = emit_byte_products,
  };
  if (group->method == METHOD_DONE) return;
  int taken = open_names(&w->names);
  line(w, "{ /* %s */", op_info[group->instr->op].name);
  w->indent++;
  if (group->nests.count)
    emit_nests(w, group);
  else
    emit[group->method](w, group->instr);
  close_block(w);
  close_names(&w->names, taken);
}

// ---- rank 0

// Writes the computation of a rank-0 value, or a store of one.
void emit_scalar(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Place p;
  if (v->op == OP_STORE) {
    REQUIRE(place_of(g, v, &p));
    const Instr *mask = ir_mask(v);
    line(w, "%spks_store_%s(%s, %s);", mask ? text(g, "if (%s) ", scalar_text(g, mask)) : "",
         dtype_info[p.element].name, place_text(g, &p), scalar_text(g, ir_store_value(v)));
    return;
  }
  const char *name = unique_name(&w->names, v->text && op_info[v->op].class != OPC_CONTROL
                                                ? v->text
                                                : text(g, "v%d", v->id)),
             *value;
  if (v->op == OP_DOT) {
    const Expr *of_label[DOT_LABELS] = {0}, *sum = symbol(g, unique_name(&w->names, "sum"));
    emit_contraction(w, v, of_label, sum);
    value = sum->name;
  } else if (v->op == OP_LOAD && ir_may_leave(v)) {
    value = expr_text(element_at(&(Context){.g = g, .w = w}, v));
  } else if (v->op == OP_LOAD) {
    REQUIRE(place_of(g, v, &p));
    value = text(g, "pks_load_%s(%s)", dtype_info[p.element].name, place_text(g, &p));
  } else if (v->nargs && v->args[0]->type.rank > 0) {
    REQUIRE(v->op == OP_RESHAPE);
    const Expr *zeros[MAX_RANK];
    for (int i = 0; i < MAX_RANK; i++) zeros[i] = number(g, 0);
    value = expr_text(read(g, v->args[0], zeros));
  } else {
    value = expr_text(scalar_value(g, v));
  }
  line(w, "const %s %s = %s;", scalar_type(v->type.dtype), name, value);
  expr_name(val(v)->scalar, name);
}
