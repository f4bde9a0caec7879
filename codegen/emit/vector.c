// One vector of a value, or one element of it, at a position in the loops, as a C expression.
#include "codegen/emit/internal.h"

#include <string.h>

static const Expr *code(Context *x, const char *c) { return expr_code(&x->g->exprs, c); }
static const Expr *call(Context *x, const char *function, const Expr *a, const Expr *b) {
  return expr_call(&x->g->exprs, function, a, b, NULL);
}

const Expr *lanes_left(Context *x) {
  x->reads_left |= x->left != NULL;
  return x->left;
}

void know(Context *x, const Instr *v, const char *name, bool lanes) {
  LIST_PUSH(x->g->arena, &x->known, ((Known){v, name, lanes}));
}

static const char *known_name(const Context *x, const Instr *v, bool lanes) {
  for (int i = x->known.count - 1; i >= 0; i--)
    if (x->known.at[i].v == v && x->known.at[i].lanes == lanes) return x->known.at[i].name;
  return NULL;
}

Place place_at(Gen *g, const Place *p, int rank, const Expr *const *index) {
  Place at = *p;
  for (int i = 0; i < rank; i++)
    at.offset = expr_add(&g->exprs, at.offset, expr_mul(&g->exprs, index[i], p->stride[i]));
  return at;
}

const char *place_text(Gen *g, const Place *p) { return pointer_text(g, p->base, p->offset); }

const char *address(Gen *g, const Place *p, int rank, const Expr *const *index) {
  const Place at = place_at(g, p, rank, index);
  return place_text(g, &at);
}

// ---- reading

// The width in bits of the words that are joined, or of the elements of packed vectors.
static int word_bits(const Context *x) { return x->packed ? x->packed : 32; }

bool is_skipped_here(const Context *x, const Instr *v) {
  return (x->packed || x->together) && serves_words(x->g, x->group, v, word_bits(x));
}

static const Expr *splat(Context *x, DType t, const Expr *s) {
  if (x->packed)
    return call(x, text(x->g, "pk_packed_splat_%s", packed_lane(t, x->packed)), s, NULL);
  const char *lane = t == DT_BOOL ? "mask" : lane_type(t);
  return call(x, text(x->g, "pk_splat_%s", lane), s, NULL);
}

static const Expr *load_element(Context *x, const Place *at) {
  if (at->element == DT_F32)
    return code(x, text(x->g, "%s[%s]", reading(x->g, at->base), expr_text(at->offset)));
  return code(x, text(x->g, "pks_load_%s(%s)", dtype_info[at->element].name, place_text(x->g, at)));
}

static const Expr *load(Context *x, const Instr *v, const Place *p, const Expr *const *index,
                        bool lanes, bool padded) {
  const Place at = place_at(x->g, p, v->type.rank, index);
  if (!lanes) return load_element(x, &at);
  if (x->address) return code(x, place_text(x->g, &at));
  if (x->packed)
    return code(
        x, text(x->g, "pk_packed_load_%s(%s)", packed_element(p->element), place_text(x->g, &at)));
  const bool in_byte = x->any_bits && dtype_info[p->element].bits < 8;
  const char *t = dtype_info[in_byte ? DT_U8 : p->element].name, *pointer = place_text(x->g, &at);
  const Expr *step = v->op == OP_LOAD ? p->stride[v->type.rank - 1] : NULL;
  if (step && lane_step(v) > 1 && !expr_is(step, 1))
    return code(x, text(x->g, "pk_load_apart_%s(%s, %s, %s)", t, pointer, expr_text(step),
                        expr_text(x->left ? lanes_left(x) : number(x->g, x->g->lanes))));
  return code(x, x->left && !padded
                     ? text(x->g, "pk_loadn_%s(%s, %s)", t, pointer, expr_text(lanes_left(x)))
                     : text(x->g, "pk_load_%s(%s)", t, pointer));
}

// ---- windows that may leave their ref: elements outside read as zero

typedef struct {
  Place row;          // the first element of a row of the ref
  const Expr *at;     // where in that row
  const Expr *guard;  // indices along the axes before lie inside; NULL: they always do
} RowPlace;

// The position of element `index` of a window; if `by_row`, `at` along the last axis is separate.
static RowPlace row_place(Gen *g, const Instr *v, const Expr *const *index, bool by_row) {
  ExprPool *pool = &g->exprs;
  const RefGen *r = &g->refs[v->ref->id];
  const Expr *zero = number(g, 0);
  RowPlace p = {{.base = r->name, .offset = zero, .element = element_of(g, v)}, zero, NULL};
  int last = v->ref->type.rank - 1;
  for (int k = 0, axis = 0; k <= last; k++) {
    const Expr *step = number(g, v->window.stride[k]),
               *lane = v->window.squeeze[k] ? zero : expr_mul(pool, index[axis++], step),
               *at = expr_add(pool, start_expr(g, v, k), lane);
    if (by_row && k == last) {
      p.at = at;
      break;
    }
    p.row.offset = expr_add(pool, p.row.offset, expr_mul(pool, at, r->stride[k]));
    if (ir_axis_is_inside(v, k)) continue;
    const Expr *extent = extent_expr(g, v->ref->type.dim[k]);
    p.guard = expr_and(pool, p.guard, expr_call(pool, "pk_is_index", at, extent, NULL));
  }
  return p;
}

// A row that is provably in bounds ends where the loop ends; its memory may end there too.
static const Expr *open_load(Context *x, const Instr *v, const Expr *const *index, bool lanes) {
  Gen *g = x->g;
  ExprPool *pool = &g->exprs;
  const RowPlace p = row_place(g, v, index, lanes);
  const char *t = dtype_info[p.row.element].name, *row = place_text(g, &p.row);
  const Expr *zero = number(g, 0);
  int last = v->ref->type.rank - 1;
  if (!lanes) return expr_choose(pool, p.guard, code(x, text(g, "pks_load_%s(%s)", t, row)), zero);
  const Expr *end = ir_axis_is_inside(v, last)
                        ? expr_add(pool, p.at, x->left ? lanes_left(x) : number(g, g->lanes))
                        : extent_expr(g, v->ref->type.dim[last]);
  if (p.guard) end = expr_choose(pool, p.guard, end, zero);
  return code(x, text(g, "pk_window_%s(%s, %s, %s)", t, row, expr_text(p.at), expr_text(end)));
}

static const Expr *at_index(Context *x, const Instr *v, const Expr *const *index, bool lanes);

// In lanes of 64 bits: elements from `at` on, or element `at` in each lane.
static const Expr *wide_iota(Context *x, DType t, const Expr *at, bool varies) {
  const Expr *ints = splat(x, DT_I64, at);
  if (varies) ints = call(x, "pk_add_i64", ints, code(x, "pk_lane_i64()"));
  return is_float(t) ? call(x, "pk_cast_i64_f64", ints, NULL) : ints;
}

static DType int_type(DType t) { return is_float(t) && !is_wide(t) ? DT_I32 : t; }

static const Expr *iota(Context *x, const Instr *v, const Expr *const *index, bool lanes) {
  ExprPool *pool = &x->g->exprs;
  DType t = v->type.dtype;
  const Expr *at = index[v->ival];
  if (is_row_index(v, x->g->batch)) at = call(x, "pk_own_row", at, x->g->batch->own);
  bool varies = lanes && v->ival == v->type.rank - 1;
  if (lanes && is_wide(t)) return wide_iota(x, t, varies ? index[v->ival] : at, varies);
  const Expr *ints = expr_cast(pool, lanes ? DT_I32 : int_type(t), varies ? index[v->ival] : at);
  if (lanes) ints = splat(x, DT_I32, ints);
  if (varies) ints = call(x, "pk_add_i32", ints, code(x, "pk_lane_i32()"));
  if (is_float(t) && !is_wide(t))
    ints = lanes ? call(x, "pk_cast_i32_f32", ints, NULL) : expr_cast(pool, DT_F32, ints);
  if (!lanes) return expr_narrow(pool, t, ints);
  bool narrow = is_narrow_float(t) || is_narrow_integer(t);
  return narrow ? code(x, narrowed(true, t, expr_text(ints))) : ints;
}

// The index in the operand of a broadcast or a view of one of its elements, or of a vector's first
// lane.
static void index_in_operand(Gen *g, const Instr *v, const Expr *const *index, const Expr **from) {
  AxisMap map;
  REQUIRE(ir_axis_map(v, &map));
  operand_index(g, v, &map, index, from);
}

static const Expr *broadcast(Context *x, const Instr *v, const Expr *const *index, bool lanes) {
  const Expr *inner[MAX_RANK];
  index_in_operand(x->g, v, index, inner);
  return at_index(x, v->args[0], inner, lanes);
}

// Its vectors may start anywhere in the operand's rows, so they may not read past the end of a row.
static const Expr *through_view(Context *x, const Instr *v, const Expr *const *index, bool lanes) {
  const Expr *from[MAX_RANK];
  bool moved = x->moved;
  index_in_operand(x->g, v, index, from);
  x->moved = true;
  const Expr *value = at_index(x, v->args[0], from, lanes);
  x->moved = moved;
  return value;
}

static const Expr *from_memory(Context *x, const Instr *v, const Expr *const *index, bool lanes) {
  Place p;
  REQUIRE(place_of(x->g, v, &p));
  const Val *info = val(v);
  if (info->buffer && info->row_local) {
    memcpy(p.stride, info->buffer->stride, 2 * sizeof *p.stride);
    const Expr *two[2] = {x->strip_row, index[v->type.rank - 1]};
    return code(x, text(x->g, "%s_load_%s(%s)", lanes ? "pk" : "pks", dtype_info[p.element].name,
                        address(x->g, &p, 2, two)));
  }
  return load(x, v, &p, index, lanes, !x->moved && may_read_past_rows(x->g, v));
}

static bool is_here(const Context *x, const Instr *v, bool lanes) {
  return x->group && val(v)->group == x->group && !val(v)->buffer && lanes &&
         op_is_elementwise(v->op);
}

// i32 lanes against an i64 scalar.
static const Expr *compare_with_index(Context *x, const Instr *v, const Expr *const *index,
                                      bool lanes) {
  const Expr *a = at_index(x, v->args[0]->args[0], index, lanes),
             *b = scalar_expr(x->g, v->args[1]->args[0]);
  if (lanes) return call(x, text(x->g, "pk_%s_i32_i64", op_info[v->op].name), a, b);
  const Expr *two[2] = {expr_cast(&x->g->exprs, DT_I64, a), b};
  return scalar_op(x->g, v, two);
}

// The C variable of a table with these elements.
static const char *table_name(Gen *g, const Table *t) {
  int n = 0;
  while (n < g->tables.count && memcmp(g->tables.at[n].value, t->value, sizeof t->value) != 0) n++;
  if (n == g->tables.count) LIST_PUSH(g->arena, &g->tables, *t);
  return text(g, "%s_table%d", g->k->symbol, n);
}

static const Expr *from_table(Context *x, const Table *t, const Expr *const *index) {
  x->any_bits = t->in_byte;
  const char *at = expr_text(at_index(x, t->index, index, true));
  x->any_bits = false;
  return code(x, text(x->g, "pk_table_f32(%s, %s)", table_name(x->g, t), at));
}

// Rows that share words have different constants of the same operations: shifts, in the first row
// by 0.
static bool is_known_here(const Context *x, const Instr *v, const Expr *const *index,
                          int64_t *value) {
  return x->jammed && x->group->by_words && known_integer(x->g, x->group, v, index, value);
}

static bool shifts_by_0(const Context *x, const Instr *v, const Expr *const *index) {
  int64_t count;
  return (v->op == OP_USHR || v->op == OP_SHR || v->op == OP_SHL) &&
         dtype_info[v->type.dtype].bits == 32 && is_known_here(x, v->args[1], index, &count) &&
         count == 0;
}

// ---- words and their parts in memory

static const char *address_at(Context *x, const Instr *v, const Expr *const *index) {
  x->address = true;
  const char *address = expr_text(at_index(x, v, index, true));
  x->address = false;
  return address;
}

// A vector of the words that v makes of its parts, or NULL.
static const char *joined_words(Context *x, const Instr *v) {
  const Instr *part[WORD_PARTS];
  const Expr *index[MAX_RANK];
  const int bits = word_bits(x), n = parts_joined(x->g, x->group, v, bits, part);
  if (!n) return NULL;
  const char *all = text(x->g, "%s_%d_%d(%d", x->packed ? "pk_packed_join" : "pk_join", bits / n,
                         bits, x->vector);
  memcpy(index, x->index, sizeof index);
  index[x->group->leads] = x->first;
  for (int i = 0; i < n; i++) all = text(x->g, "%s, %s", all, address_at(x, part[i], index));
  return text(x->g, "%s)", all);
}

// The part of words that v is in this row, or NULL.
static const char *part_of_words(Context *x, const Instr *v, const Expr *const *index) {
  const Instr *words = words_of(x->g, x->group, v, x->packed);
  if (!words) return NULL;
  const int bits = dtype_info[words->type.dtype].bits;
  return text(x->g, "pk_packed_part_%d_%d(%s, %d)", bits, x->packed, address_at(x, words, index),
              x->row % (bits / x->packed));
}

static const Expr *compute(Context *x, const Instr *v, const Expr *const *index, bool lanes) {
  Table table;
  const char *words = lanes && x->together              ? joined_words(x, v)
                      : lanes && x->packed && x->jammed ? part_of_words(x, v, index)
                                                        : NULL;
  if (words) return code(x, words);
  if (lanes && shifts_by_0(x, v, index)) return at_index(x, v->args[0], index, true);
  if (lanes && x->group && table_of(x->g, x->group, v, index, &table))
    return from_table(x, &table, index);
  if (x->holds && v->op == OP_SELECT && v->args[0] == x->holds)
    return at_index(x, v->args[1], index, lanes);
  if (compares_with_index(v)) return compare_with_index(x, v, index, lanes);
  const Expr *args[4] = {0};
  const char *texts[4] = {0};
  for (int i = 0; i < v->nargs; i++) args[i] = at_index(x, v->args[i], index, lanes);
  if (!lanes) return scalar_op(x->g, v, args);
  for (int i = 0; i < v->nargs; i++) texts[i] = expr_text(args[i]);
  return code(x, x->packed ? packed_op_text(v, texts, x->packed)
                           : vector_op_text(v, texts, x->stored == v));
}

// An instruction's value at an index, as a vector or as one element.
static const Expr *at_index(Context *x, const Instr *v, const Expr *const *index, bool lanes) {
  if (v->type.rank == 0)
    return lanes ? splat(x, v->type.dtype, scalar_expr(x->g, v)) : scalar_expr(x->g, v);
  int last = v->type.rank - 1;
  if (lanes && v->type.dim[last] == 1) {
    const Expr *inner[MAX_RANK];
    memcpy(inner, index, (size_t)last * sizeof *inner);
    inner[last] = number(x->g, 0);
    return splat(x, v->type.dtype, at_index(x, v, inner, false));
  }
  int64_t integer;
  if (lanes && is_known_here(x, v, index, &integer))
    return splat(x, v->type.dtype, number(x->g, integer));
  const char *name =
      val(v)->group == x->group || (x->group == NULL) ? known_name(x, v, lanes) : NULL;
  if (name) return expr_symbol(&x->g->exprs, name);
  if (!val(v)->snapshot || !val(v)->buffer) {
    if (v->op == OP_IOTA) return iota(x, v, index, lanes);
    if (v->op == OP_BROADCAST) return broadcast(x, v, index, lanes);
    if ((ir_keeps_lanes(v) || reads_pieces(v)) && is_transparent(v))
      return through_view(x, v, index, lanes);
  }
  if (is_here(x, v, lanes)) return compute(x, v, index, lanes);
  return from_memory(x, v, index, lanes);
}

// The operands of a gather: an index for each axis along which it has indices, its last element
// there, and the axis of the table.
typedef struct {
  int count, axis[MAX_RANK];
  const Expr *which[MAX_RANK], *last[MAX_RANK], *from[MAX_RANK];
} Picked;

// Adds the columns of the lanes, from that of the first one, if the indices are of another axis.
static void add_columns(Context *x, const Type *table, Picked *p) {
  Gen *g = x->g;
  const int last = table->rank - 1;
  const Expr *end = expr_sub(&g->exprs, extent_expr(g, table->dim[last]), number(g, 1));
  p->axis[p->count] = last;
  p->which[p->count] = code(x, "pk_lane_i32()");
  p->last[p->count++] = expr_sub(&g->exprs, end, p->from[last]);
}

// The operands of gather `v` for the element, or the vector of elements, at `index`.
static Picked picked_by(Context *x, const Instr *v, const Expr *const *index, bool by_lanes) {
  Gen *g = x->g;
  ExprPool *pool = &g->exprs;
  const Type *table = &v->args[0]->type;
  Picked p;
  p.count = ir_indexed_axes(v, p.axis);
  for (int k = 0; k < table->rank; k++) {
    const int to = ir_gathered_axis(v, k);
    p.from[k] = to < 0 ? number(g, 0) : index[to];
  }
  for (int i = 0; i < p.count; i++) {
    const Expr *inner[MAX_RANK];
    memcpy(inner, index, (size_t)v->type.rank * sizeof *inner);
    if (v->op != OP_TAKE_ALONG) inner[0] = index[p.axis[0]];
    p.which[i] = at_index(x, v->args[1 + i], inner, by_lanes);
    p.last[i] = expr_sub(pool, extent_expr(g, table->dim[p.axis[i]]), number(g, 1));
    if (!by_lanes)
      p.from[p.axis[i]] =
          expr_call(pool, "pk_start", expr_cast(pool, DT_I64, p.which[i]), p.last[i], NULL);
  }
  if (by_lanes && v->op == OP_TAKE_ALONG && p.axis[0] < table->rank - 1) add_columns(x, table, &p);
  return p;
}

static const char *list_text(Gen *g, const char *type, const Expr *const *e, int count) {
  const char *all = text(g, "(const %s[]){", type);
  for (int i = 0; i < count; i++) all = text(g, "%s%s%s", all, i ? ", " : "", expr_text(e[i]));
  return text(g, "%s}", all);
}

// One element for each lane of the indices.
static const Expr *picked_lanes(Context *x, const Picked *p, const Place *place,
                                const char *pointer) {
  Gen *g = x->g;
  const char *t = dtype_info[place->element].name;
  const Expr *step[MAX_RANK];
  for (int i = 0; i < p->count; i++) step[i] = place->stride[p->axis[i]];
  if (p->count == 1)
    return code(x, text(g, "pk_pick_%s(%s, %s, %s, %s)", t, pointer, expr_text(p->which[0]),
                        expr_text(p->last[0]), expr_text(step[0])));
  return code(
      x, text(g, "pk_gather_%s(%s, %d, %s, %s, %s)", t, pointer, p->count,
              list_text(g, "pk_i32v", p->which, p->count),
              list_text(g, "int64_t", p->last, p->count), list_text(g, "int64_t", step, p->count)));
}

// Elements of a table by index: the row that the index selects, or one element for each lane.
static const Expr *picked(Context *x, const Instr *v, const Expr *const *index, bool lanes) {
  Gen *g = x->g;
  const bool by_lanes = lanes && gathers_lanes(v);
  const Expr *inner[MAX_RANK];
  Picked picks = picked_by(x, v, index, by_lanes);
  const Instr *table = v->args[0], *in_memory = gathered_from(v);
  for (; table != in_memory; table = table->args[0]) {
    index_in_operand(g, table, picks.from, inner);
    for (int i = 0; i < picks.count; i++) picks.axis[i] = ir_operand_axis(table, picks.axis[i]);
    memcpy(picks.from, inner, (size_t)table->args[0]->type.rank * sizeof *inner);
  }
  Place p;
  REQUIRE(place_of(g, table, &p));
  const Place at = place_at(g, &p, table->type.rank, picks.from);
  if (!lanes) return load_element(x, &at);
  const char *t = dtype_info[p.element].name, *pointer = place_text(g, &at);
  if (by_lanes) return picked_lanes(x, &picks, &p, pointer);
  return code(x, x->left ? text(g, "pk_loadn_%s(%s, %s)", t, pointer, expr_text(lanes_left(x)))
                         : text(g, "pk_load_%s(%s)", t, pointer));
}

// The right-hand side of a member's own variable: its computation, whatever has been stored of it.
static const Expr *member_expr(Context *x, const Instr *v, bool lanes) {
  const Expr *const *index = x->index;
  if (v->op == OP_IOTA) return iota(x, v, index, lanes);
  if (v->op == OP_BROADCAST) return broadcast(x, v, index, lanes);
  if (v->op == OP_LOAD && ir_may_leave(v)) return open_load(x, v, index, lanes);
  if (is_gather(v)) return picked(x, v, index, lanes);
  if (v->op == OP_LOAD) {
    Place p = {0};
    place_of_access(x->g, v, &p);
    return load(x, v, &p, index, lanes,
                !may_lie_in_hbm(&x->g->refs[v->ref->id]) && ir_window_is_full(v));
  }
  if (ir_keeps_lanes(v) || reads_pieces(v)) return through_view(x, v, index, lanes);
  if (v->op == OP_RESHAPE) {
    Place from, to;
    REQUIRE(place_of(x->g, v->args[0], &from));
    to = from;
    place_of_split_axes(x->g, v, &from, &to);
    return load(x, v, &to, index, lanes, false);
  }
  return compute(x, v, index, lanes);
}

bool is_constant_here(const Context *x, const Instr *v) {
  int64_t value;
  return v->op != OP_STORE && is_known_here(x, v, x->index, &value);
}

const char *vector_at(Context *x, const Instr *v) { return expr_text(member_expr(x, v, true)); }
const Expr *element_at(Context *x, const Instr *v) { return member_expr(x, v, false); }

const Expr *argument_at(Context *x, const Instr *v, bool lanes) {
  return at_index(x, v, x->index, lanes);
}
