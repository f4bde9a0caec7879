// Operations whose result elements depend on many elements along axes, as plain loops: reductions,
// positions of extremes, scans and sorts.
#include "codegen/emit/generic.h"

#include <string.h>

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
  const Expr
      *until;  // where the terms of an iteration of the innermost loop end, if it takes several
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

// Opens the innermost loop over terms, which takes `together` of them in an iteration.
static const Expr *open_terms(CWriter *w, Reduced *r, const char *base, const char *first,
                              const char *end, int together) {
  Gen *g = w->g;
  const char *k = unique_name(&w->names, base);
  r->loops++;
  if (together == 1) {
    open_block(w, "for (int64_t %s = %s; %s < %s; %s++)", k, first, k, end, k);
    return symbol(g, k);
  }
  const char *until = unique_name(&w->names, "until");
  open_block(w, "for (int64_t %s = %s; %s < %s; %s += %d)", k, first, k, end, k, together);
  line(w, "const int64_t %s = pk_idx_min(%s + %d, %s);", until, k, together, end);
  r->until = symbol(g, until);
  return symbol(g, k);
}

static const Expr *open_part(CWriter *w, Reduced *r, const char *base, const Expr *end,
                             int together) {
  Gen *g = w->g;
  const char *part = unique_name(&w->names, "part"), *last = unique_name(&w->names, "end");
  open_block(w, "for (int64_t %s = 0; %s < %s; %s += %d)", part, part, expr_text(end), part,
             SUM_TERMS);
  line(w, "const int64_t %s = pk_idx_min(%s + %d, %s);", last, part, SUM_TERMS, expr_text(end));
  r->count = text(g, "%s - %s", last, part);
  r->loops++;
  return open_terms(w, r, base, part, last, together);
}

// Opens the loops over the reduced axes, with a counter of terms if sums are divided into parts.
// An iteration of the innermost loop takes `together` terms.
static Reduced open_reduced(CWriter *w, const Instr *v, const Expr **at, int together) {
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
    if (v->ival >> (i + 1) == 0) {
      at[i] = r.terms ? open_part(w, &r, base, end, together)
                      : open_terms(w, &r, base, "0", expr_text(end), together);
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

void emit_reduce(CWriter *w, Instr *v) {
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
  const Reduced r = open_reduced(w, v, at, 1);
  line(w, "%s = %s;", sum->name, expr_text(reduced(g, v, sum, read_element(g, from, at))));
  close_reduced(w, &r, text(g, "%s += %s;", total, sum->name),
                text(g, "%s = %s;", sum->name, start));
  if (parts) sum = combine(g, "add", "f32", symbol(g, total), sum);
  write_element(w, v, loops.at, wrapped(g, t, sum));
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
  const char *lane = of->lane, *pre = of->prefix, *type = dtype_info[v->type.dtype].name,
             *element = dtype_info[p->element].name, *sum = unique_name(&w->names, "sum"),
             *u = unique_name(&w->names, "u"), *ahead = text(g, " + %s * %d", u, of->lanes);
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
  const Reduced r = open_reduced(w, v, at, 1);
  const char *place = text(g, "%s%s", address(g, p, from->type.rank, at), ahead),
             *value = left ? text(g, "pk_loadn_%s(%s, %s)", element, place, left)
                           : text(g, "pk_%sload_%s(%s)", pre, element, place);
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

static void put_vectors(CWriter *w, Instr *v, const RowVector *of, const char *column,
                        const char *end, const Place *p, const char *sum_at,
                        const Expr *const *row) {
  put_rows_by(w, v, of, ROW_SUMS, column, end, p, sum_at, row);
  if (*of->prefix) put_rows_by(w, v, of, 1, column, end, p, sum_at, row);
}

// ---- strips of columns. Their sums are on the stack, and a few rows at a time are added to them:
// a long piece of each of these rows is read, as hardware prefetchers expect.

typedef struct {
  const RowVector *of;
  const char *column, *vectors;  // C: the first column, the number of vectors
  const char *sum, *total;       // arrays of vectors; no total: NULL
} Strip;

// The head of a loop over the vectors of a strip.
static const char *each_vector(Gen *g, const Strip *s, const char *u) {
  return text(g, "for (int64_t %s = 0; %s < %s; %s++) ", u, u, s->vectors, u);
}

static void declare_vectors(CWriter *w, const Strip *s, const char *name, const char *start) {
  const char *u = unique_name(&w->names, "u");
  line(w, "%s %s[%d];", s->of->type, name, COLUMN_STRIP_VECTORS);
  line(w, "%s%s[%s] = %s;", each_vector(w->g, s, u), name, u, start);
}

// Adds the rows of an iteration to the sums from vector `u` on, `count` vectors at a time, which
// are in registers meanwhile.
static void put_strip_terms(CWriter *w, const Instr *v, const Strip *s, const Place *p,
                            const Expr *const *first, const Reduced *r, const char *u, int count) {
  Gen *g = w->g;
  const Instr *from = v->args[0];
  const int last = from->type.rank - 1;
  int axis = last;
  while (!((v->ival >> axis) & 1)) axis--;
  const char *sum = unique_name(&w->names, "part"), *i = unique_name(&w->names, "i"),
             *k = unique_name(&w->names, "k"),
             *each = text(g, "PK_UNROLL for (int %s = 0; %s < %d; %s++) ", i, i, count, i),
             *pre = s->of->prefix;
  const Expr *at[MAX_RANK];
  memcpy(at, first, sizeof at);
  at[axis] = symbol(g, k);
  at[last] = expr_code(&g->exprs, text(g, "%s + (%s + %s) * %d", s->column, u, i, s->of->lanes));
  open_block(w, "for (; %s + %d <= %s; %s += %d)", u, count, s->vectors, u, count);
  line(w, "%s %s[%d];", s->of->type, sum, count);
  line(w, "%s%s[%s] = %s[%s + %s];", each, sum, i, s->sum, u, i);
  open_block(w, "for (int64_t %s = %s; %s < %s; %s++)", k, expr_text(first[axis]), k,
             expr_text(r->until), k);
  line(w, "%s%s[%s] = pk_%s%s_%s(%s[%s], pk_%sload_%s(%s));", each, sum, i, pre,
       reduce_operation(v), s->of->lane, sum, i, pre, dtype_info[p->element].name,
       address(g, p, from->type.rank, at));
  close_block(w);
  line(w, "%s%s[%s + %s] = %s[%s];", each, s->sum, u, i, sum, i);
  close_block(w);
}

static void put_strip(CWriter *w, Instr *v, const Strip *s, const Place *p, const char *sum_at,
                      const Expr *const *row) {
  Gen *g = w->g;
  const char *pre = s->of->prefix, *u = unique_name(&w->names, "u"),
             *start = text(g, "pk_%ssplat_%s(%s)", pre, s->of->lane, reduce_identity(g, v)),
             *each = each_vector(g, s, u), *sum = text(g, "%s[%s]", s->sum, u), *add = "",
             *clear = text(g, "%s%s = %s;", each, sum, start);
  const Expr *at[MAX_RANK];
  memcpy(at, row, sizeof at);
  declare_vectors(w, s, s->sum, start);
  if (s->total) {
    const char *total = text(g, "%s[%s]", s->total, u);
    declare_vectors(w, s, s->total, start);
    sum = text(g, "pk_%s%s_%s(%s, %s)", pre, reduce_operation(v), s->of->lane, total, sum);
    add = text(g, "%s%s = %s;", each, total, sum);
  }
  const Reduced r = open_reduced(w, v, at, COLUMN_STRIP_ROWS);
  const char *first = unique_name(&w->names, "v");
  line(w, "int64_t %s = 0;", first);
  put_strip_terms(w, v, s, p, at, &r, first, ROW_SUMS);
  put_strip_terms(w, v, s, p, at, &r, first, 1);
  close_reduced(w, &r, add, clear);
  line(w, "%spk_%sstore_%s(%s + %s * %d, %s);", each, pre, dtype_info[v->type.dtype].name, sum_at,
       u, s->of->lanes, sum);
}

// The strips of all whole vectors of columns.
static void put_strips(CWriter *w, Instr *v, const RowVector *of, const char *column,
                       const char *end, const Place *p, const char *sum_at,
                       const Expr *const *row) {
  const bool parts = adds_in_parts(v) && has_many_terms(v);
  Strip s = {of, column, unique_name(&w->names, "vectors"), unique_name(&w->names, "sum"),
             parts ? unique_name(&w->names, "total") : NULL};
  open_block(w, "while (%s + %d <= %s)", column, of->lanes, end);
  line(w, "const int64_t %s = pk_idx_min((%s - %s) / %d, %d);", s.vectors, end, column, of->lanes,
       COLUMN_STRIP_VECTORS);
  put_strip(w, v, &s, p, sum_at, row);
  line(w, "%s += %s * %d;", column, s.vectors, of->lanes);
  close_block(w);
}

// Reduces leading axes. `put_whole` writes the loops over whole vectors of columns.
static void reduce_rows(CWriter *w, Instr *v,
                        void (*put_whole)(CWriter *, Instr *, const RowVector *, const char *,
                                          const char *, const Place *, const char *,
                                          const Expr *const *)) {
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
  const int bits = packed_row_bits(v);
  const RowVector plain = plain_rows(g, v), whole = bits ? packed_rows(g, v, bits) : plain;
  line(w, "int64_t %s = 0;", column);
  put_whole(w, v, &whole, column, n, &p, sum_at, at);
  open_block(w, "for (; %s < %s; %s += %d)", column, n, column, g->lanes);
  const char *left = unique_name(&w->names, "left");
  line(w, "const int64_t %s = %s - %s;", left, n, column);
  put_row_sums(w, v, &plain, &p, sum_at, at, 1, left);
  close_block(w);
  close_loops(w, &loops);
}

void emit_reduce_rows(CWriter *w, Instr *v) { reduce_rows(w, v, put_vectors); }

void emit_reduce_strips(CWriter *w, Instr *v) { reduce_rows(w, v, put_strips); }

// A search over no elements fails.
static void require_elements(CWriter *w, const Instr *v) {
  const Dim extent = v->args[0]->type.dim[v->ival];
  if (dim_is_const(extent)) return;
  reading(w->g, "worker");
  line(w, "if (%s == 0) pk_fail(worker, \"line %d: %s over an axis of no elements\");",
       extent_text(w->g, extent), line_of(w->g, v->span), op_info[v->op].name);
}

void emit_arg_rows(CWriter *w, Instr *v) {
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

void emit_arg_lines(CWriter *w, Instr *v) {
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
  write_element(w, v, loops.at, expr_code(&g->exprs, found));
  close_loops(w, &loops);
}

// The position of the extreme along an axis, one element at a time.
void emit_arg_reduce(CWriter *w, Instr *v) {
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
  const char *n = extent_text(g, extent), *first = expr_text(read_element(g, from, at));
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
  line(w, "const %s %s = %s;", scalar_type(t), here, expr_text(read_element(g, from, at)));
  const char *better = text(g, "%s %s %s", here, sign, value);
  if (is_float(t))
    better = text(g, "(%s || %s != %s) && %s == %s", better, here, here, value, value);
  open_block(w, "if (%s)", better);
  line(w, "%s = %s;", best, k);
  line(w, "%s = %s;", value, here);
  close_block(w);
  close_block(w);
  write_element(w, v, loops.at, expr_cast(&g->exprs, DT_I32, symbol(g, best)));
  close_loops(w, &loops);
}

// A scan along an axis, one element at a time.
void emit_scan(CWriter *w, Instr *v) {
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
  const Expr *value = read_element(g, from, at),
             *next = wrapped(
                 g, t, combine(g, op_info[fold_operation[v->op]].name, scalar_lane(v), sum, value));
  line(w, "%s = %s == 0 ? %s : %s;", sum->name, step, expr_text(value), expr_text(next));
  write_element(w, v, at, sum);
  close_block(w);
  close_loops(w, &loops);
}

// Each row reads back the row before it, which is in L1. So rows are read and written in order.
void emit_scan_rows(CWriter *w, Instr *v) {
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

void emit_scan_lines(CWriter *w, Instr *v) {
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
  const char *key = sort_key(g, v, read_element(g, from, at)), *each,
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

void emit_sort(CWriter *w, Instr *v) {
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
  write_element(
      w, v, to,
      v->op == OP_ARGSORT ? expr_cast(&g->exprs, DT_I32, at[axis]) : read_element(g, from, at));
  close_block(w);
  close_loops(w, &loops);
}

static const char *sort_kind(DType t) {
  return is_float(t) ? "FLOAT" : t == DT_U32 || t == DT_U64 ? "UNSIGNED" : "SIGNED";
}

// Sorts along an axis, several lines at a time by the runtime's networks.
void emit_sort_lines(CWriter *w, Instr *v) {
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
