// Right operands that loops compute, as C: either all rows before the dots, or, if the left operand
// has few rows, some at a time, which are multiplied at once, in registers or through L1.
#include "codegen/emit/internal.h"

#include <inttypes.h>

// The bytes of a row that the loops read of an array. Rows that consist of rows are mostly
// contiguous.
static const char *row_bytes(Gen *g, const Instr *v, const Place *p) {
  const int last = v->type.rank - 1;
  int64_t bytes = dtype_bytes(p->element);
  for (int k = 1; k < last; k++) bytes *= v->type.dim[k];
  return text(g, "%s * %" PRId64, demand_text(g, val(v)->demand[last], v->type.dim[last]), bytes);
}

static const char *row_address(Gen *g, const Instr *v, const Place *p, const Expr *row) {
  const Expr *at[MAX_RANK];
  at[0] = row;
  for (int k = 1; k < MAX_RANK; k++) at[k] = number(g, 0);
  return address(g, p, v->type.rank, at);
}

// Prefetches into L2 what the loops read for a row.
static void prefetch_row(CWriter *w, const Group *producer, const Expr *row) {
  Gen *g = w->g;
  for (int i = 0; i < producer->feeds.ahead.count; i++) {
    const Instr *v = producer->feeds.ahead.at[i];
    Place p;
    REQUIRE(place_of(g, v, &p));
    line(w, "pk_prefetch_row(%s, %s);", row_address(g, v, &p, row), row_bytes(g, v, &p));
  }
}

static void prefetch_rows(CWriter *w, const Group *producer, const char *row, const char *distance,
                          int height) {
  if (!producer->feeds.ahead.count) return;
  const char *ahead = unique_name(&w->names, "ahead"), *end = unique_name(&w->names, "ahead_end");
  open_block(w, "for (int64_t %s = %s + %s, %s = %s + %d; %s < %s; %s++)", ahead, row, distance,
             end, ahead, height, ahead, end, ahead);
  prefetch_row(w, producer, expr_symbol(&w->g->exprs, ahead));
  close_block(w);
}

// The rows from `first` to `end`; those that are stored are at the beginning of the buffer.
static void emit_rows_from(CWriter *w, Group *group, const Expr *first, const Expr *end) {
  Gen *g = w->g;
  Context x = {.g = g, .w = w, .group = group};
  int taken = open_names(&w->names);
  const Expr *row = open_row_loop(w, first, end);
  x.index[0] = row;
  x.strip_row = expr_sub(&g->exprs, row, first);
  prefetch_row(w, group, expr_add(&g->exprs, row, number(g, group->feeds.rows)));
  emit_row(&x);
  close_block(w);
  close_names(&w->names, taken);
}

// ---- in registers

typedef struct {
  CWriter *w;
  Group *producer;
  const Group *reader;
  const char **products, **right;  // C variables, by step of the reader
  const char **parts;              // by step: the part of the product being computed, or NULL
  const Expr *rows;                // of the right operand
  const char *kind;                // of product
  int unit;                        // elements along k that are multiplied together
} Registers;

static bool is_made(const Registers *o, int step) {
  return o->reader->steps.at[step].product.right == o->producer;
}

static void start_sums(const Registers *o) {
  for (int s = 0; s < o->reader->steps.count; s++)
    if (is_made(o, s)) line(o->w, "pk_dot_skinny_start(&%s);", o->products[s]);
}

// For a product whose long sums consist of parts: the C variable of the current part, or NULL.
static const char *declare_part(CWriter *w, const Step *step, const char *product) {
  if (!step->product.aside) return NULL;
  const char *part = unique_name(&w->names, "sums");
  line(w, "pk_dot_product %s = %s;", part, product);
  return part;
}

// At element `at` of k, where a part may begin.
static void begin_part(CWriter *w, const Step *step, const char *product, const char *part,
                       const char *at, int unit) {
  const char *length = unit == 1 ? "PK_DOT_LONG" : text(w->g, "(%d * PK_DOT_LONG)", unit);
  if (!part) return;
  line(w, "if (%s %% %s == 0) pk_dot_right_begin(&%s, &%s, %s, %s, %s, %d);", at, length, product,
       part, reading(w->g, step->product.aside->name), expr_text(step->product.aside->stride[0]),
       at, unit);
}

static void end_part(CWriter *w, const char *product, const char *part) {
  if (part) line(w, "pk_dot_right_end(&%s, &%s);", product, part);
}

static void declare_parts(Registers *o) {
  for (int s = 0; s < o->reader->steps.count; s++)
    if (is_made(o, s)) o->parts[s] = declare_part(o->w, &o->reader->steps.at[s], o->products[s]);
}

static void begin_parts(const Registers *o, const char *at) {
  for (int s = 0; s < o->reader->steps.count; s++)
    if (is_made(o, s))
      begin_part(o->w, &o->reader->steps.at[s], o->products[s], o->parts[s], at, o->unit);
}

static void end_parts(const Registers *o) {
  for (int s = 0; s < o->reader->steps.count; s++)
    if (is_made(o, s)) end_part(o->w, o->products[s], o->parts[s]);
}

// C variables of all that is computed: `type` NAME, or an array of this many.
static void declare_right(const Registers *o, const char *name, int count) {
  for (int s = 0; s < o->reader->steps.count; s++) {
    if (!is_made(o, s)) continue;
    o->right[s] = unique_name(&o->w->names, name);
    line(o->w, "pk_f32v %s[%d];", o->right[s], count);
  }
}

// Starts a new array of the names of computed values. Returns the old one.
static const char **replace_right(Registers *o) {
  const char **old = o->right;
  o->right = NEW_ARRAY(o->w->g->arena, const char *, o->reader->steps.count);
  return old;
}

// A vector of each value at a position in the loops: element `at` of its array. `inside` is a
// condition, if any: where it is false the vector is zero. Lanes past `zeros`, if any, are zero
// too.
static void put_right(const Registers *o, const Expr *row, const Expr *column, const Expr *left,
                      const char *at, const char *inside, const Expr *zeros) {
  CWriter *w = o->w;
  Gen *g = w->g;
  Context x = {.g = g, .w = w, .group = o->producer, .unrounded = o->unit > 1};
  x.index[0] = row;
  x.strip_row = number(g, 0);
  emit_scalars(&x);
  emit_vectors(&x, &o->producer->steps.at[0], column, left);
  for (int s = 0; s < o->reader->steps.count; s++) {
    if (!is_made(o, s)) continue;
    const char *value =
        expr_text(argument_at(&x, dot_shape(o->reader->steps.at[s].product.dot).b, true));
    if (zeros)
      value = text(g, "pk_select_f32(pk_mask_first(%s), %s, pk_splat_f32(0))", zeros->name, value);
    if (inside) value = text(g, "%s ? %s : pk_splat_f32(0)", inside, value);
    line(w, "%s[%s] = %s;", o->right[s], at, value);
  }
}

// ---- by rows: vectors of columns of some rows, which are added to the sums of all left rows

// The vector of `unit` rows from `row` on. With `left`, it is the last one and may have fewer rows.
static void put_unit(Registers *o, const Expr *row, const Expr *column, const Expr *left,
                     const char *at) {
  CWriter *w = o->w;
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  line(w, "{");
  w->indent++;
  if (o->unit == 1) {
    put_right(o, row, column, left, at, NULL, NULL);
  } else {
    const char **right = replace_right(o);
    declare_right(o, "pair", o->unit);
    for (int h = 0; h < o->unit; h++) {
      const Expr *one = expr_add(pool, row, number(g, h));
      const char *inside = NULL;
      if (left) {
        inside = text(g, "%s < %s", expr_text(one), expr_text(o->rows));
        one = expr_min(pool, one, expr_sub(pool, o->rows, number(g, 1)));
      }
      line(w, "{");
      w->indent++;
      put_right(o, one, column, left, text(g, "%d", h), inside, NULL);
      close_block(w);
    }
    for (int s = 0; s < o->reader->steps.count; s++)
      if (is_made(o, s))
        line(w, "%s[%s] = pk_dot_pair_%s(%s[0], %s[1]);", right[s], at, o->kind, o->right[s],
             o->right[s]);
    o->right = right;
  }
  close_block(w);
}

// `count`: the least number of rows of the right operand from there on that are multiplied here.
static void add_right(const Registers *o, const char *lines, const Expr *row, const Expr *count,
                      int steps, int vectors, const Expr *column, const char *lanes) {
  for (int s = 0; s < o->reader->steps.count; s++)
    if (is_made(o, s))
      line(o->w, "pk_dot_right_%s(&%s, %s, %s, %s, %s, %d, %d, %s, %s);", o->kind,
           o->parts[s] ? o->parts[s] : o->products[s],
           lines ? lines : text(o->w->g, "%s.rows", o->products[s]), expr_text(row),
           expr_text(count), o->right[s], steps, vectors, column->name, lanes);
}

// Whole vectors of all rows of a part. Each row is a multiple of a number plus a number, so that
// the C compiler sees what several rows share, such as a scale.
static void add_part(Registers *o, const char *lines, const Expr *part, const Expr *column,
                     int steps, int vectors) {
  CWriter *w = o->w;
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  declare_right(o, "right", steps * vectors);
  for (int r = 0; r < steps; r++)
    for (int v = 0; v < vectors; v++)
      put_unit(o, expr_add(pool, part, number(g, r * o->unit)),
               expr_add(pool, column, number(g, v * g->lanes)), NULL,
               text(g, "%d", r * vectors + v));
  add_right(o, lines, part, number(g, steps * o->unit), steps, vectors, column,
            text(g, "%d", g->lanes));
}

// A partial vector, or a vector of fewer rows: each row separately.
static void add_rest(Registers *o, const char *lines, const Expr *part, const char *count,
                     const Expr *column, const Expr *left) {
  CWriter *w = o->w;
  ExprPool *pool = &w->g->exprs;
  const char *r = unique_name(&w->names, "r");
  const Expr *row = expr_add(pool, part, expr_symbol(pool, r));
  open_block(w, "for (int %s = 0; %s < %s; %s += %d)", r, r, count, r, o->unit);
  declare_right(o, "right", 1);
  put_unit(o, row, column, left, "0");
  add_right(o, lines, row, expr_sub(pool, o->rows, row), 1, 1, column, left->name);
  close_block(w);
}

// The columns from `column` on that are not in whole parts.
static void add_columns(Registers *o, const char *lines, const Expr *row, const char *count,
                        const char *column, const char *all) {
  CWriter *w = o->w;
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  const char *left = unique_name(&w->names, "left");
  open_block(w, "for (; %s < %s; %s += %d)", column, all, column, g->lanes);
  line(w, "const int64_t %s = %s - %s;", left, all, column);
  add_rest(o, lines, row, count, expr_symbol(pool, column), expr_symbol(pool, left));
  close_block(w);
}

// `lines`: the number of rows of the left operand, a constant or NULL. Whole parts of rows have a
// loop of their own: gcc optimises one without a count better.
static void emit_by_rows(Registers *o, const char *lines, int steps, int vectors) {
  CWriter *w = o->w;
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  const Step *step = &o->producer->steps.at[0];
  const int height = steps * o->unit, width = vectors * g->lanes;
  const char *all = expr_text(demand_expr(g, step->demand, step->columns)),
             *rows = expr_text(o->rows), *column = unique_name(&w->names, "col"),
             *part = unique_name(&w->names, "row"),
             *iteration = unique_name(&w->names, "iteration");
  const Expr *row = expr_symbol(pool, part),
             *first = expr_mul(pool, expr_symbol(pool, iteration), number(g, height));
  start_sums(o);
  declare_parts(o);
  line(w, "int64_t %s = 0;", part);
  open_block(w, "for (int64_t %s = 0; %s + %d <= %s; %s++, %s += %d)", iteration, part, height,
             rows, iteration, part, height);
  prefetch_rows(w, o->producer, part, text(g, "%d", height), height);
  begin_parts(o, part);
  line(w, "int64_t %s = 0;", column);
  open_block(w, "for (; %s + %d <= %s; %s += %d)", column, width, all, column, width);
  add_part(o, lines, first, expr_symbol(pool, column), steps, vectors);
  close_block(w);
  add_columns(o, lines, row, text(g, "%d", height), column, all);
  close_block(w);
  int64_t constant;
  if (expr_is_const(o->rows, &constant) && constant % height == 0) {
    end_parts(o);
    return;
  }
  open_block(w, "if (%s < %s)", part, rows);
  begin_parts(o, part);
  const char *count = unique_name(&w->names, "count"), *at = unique_name(&w->names, "col");
  line(w, "const int %s = (int)(%s - %s);", count, rows, part);
  line(w, "int64_t %s = 0;", at);
  add_columns(o, lines, row, count, at, all);
  close_block(w);
  end_parts(o);
}

// ---- a transposed operand: sums for some of its rows, and for `lines` of the left one, stay in
// registers along the whole of k; computed vectors are multiplied by vectors

typedef struct {
  Registers *o;
  int lines, height;
  const char *line;            // the first of these lines, or NULL: 0
  const char *row;             // the first of these rows of the right operand
  const char **sum, **factor;  // by step of the reader
} TransposedTile;

static const char *left_row(const TransposedTile *t, const char *m) {
  return t->line ? text(t->o->w->g, "%s + %s", t->line, m) : m;
}

static void declare_transposed_sums(const TransposedTile *t) {
  CWriter *w = t->o->w;
  for (int s = 0; s < t->o->reader->steps.count; s++) {
    if (!is_made(t->o, s)) continue;
    const char *i = unique_name(&w->names, "i");
    t->sum[s] = unique_name(&w->names, "sum");
    line(w, "pk_f32v %s[%d];", t->sum[s], t->lines * t->height);
    line(w, "PK_UNROLL");
    line(w, "for (int %s = 0; %s < %d; %s++) %s[%s] = pk_splat_f32(0);", i, i, t->lines * t->height,
         i, t->sum[s], i);
  }
}

// Vectors of the left rows; past the last row, that row is used again.
static void load_factors(const TransposedTile *t, const Expr *column, const Expr *left) {
  CWriter *w = t->o->w;
  Gen *g = w->g;
  for (int s = 0; s < t->o->reader->steps.count; s++) {
    if (!is_made(t->o, s)) continue;
    const char *product = t->o->products[s], *m = unique_name(&w->names, "m");
    const char *row =
        t->lines == 1 ? "0" : text(g, "pk_idx_min(%s, %s.rows - 1)", left_row(t, m), product);
    t->factor[s] = unique_name(&w->names, "factor");
    line(w, "pk_f32v %s[%d];", t->factor[s], t->lines);
    line(w, "PK_UNROLL");
    line(w, "for (int %s = 0; %s < %d; %s++) %s[%s] = pk_dot_%sfactors_%s(&%s, %s, %s%s);", m, m,
         t->lines, m, t->factor[s], m, left ? "some_" : "", t->o->kind, product, row,
         expr_text(column), left ? text(g, ", %s", left->name) : "");
  }
}

static void add_products(const TransposedTile *t, const char *r) {
  CWriter *w = t->o->w;
  const Registers *o = t->o;
  for (int s = 0; s < o->reader->steps.count; s++) {
    if (!is_made(o, s)) continue;
    const char *m = unique_name(&w->names, "m"), *right = o->right[s],
               *value = o->unit == 1
                            ? text(w->g, "%s[0]", right)
                            : text(w->g, "pk_dot_run_%s(%s[0], %s[1])", o->kind, right, right),
               *sum = text(w->g, "%s[%s * %d + %s]", t->sum[s], m, t->height, r);
    line(w, "PK_UNROLL");
    line(w, "for (int %s = 0; %s < %d; %s++) %s = pk_dot_madd_%s(%s[%s], %s, %s);", m, m, t->lines,
         m, sum, o->kind, t->factor[s], m, value, sum);
  }
}

// `unit` vectors of each current row from `column` on, or one vector with `left` lanes.
static void add_transposed(const TransposedTile *t, const Expr *column, const Expr *left) {
  Registers *o = t->o;
  CWriter *w = o->w;
  Gen *g = w->g;
  const char *r = unique_name(&w->names, "r"), *at = unique_name(&w->names, "at");
  load_factors(t, column, left);
  line(w, "PK_UNROLL");
  open_block(w, "for (int %s = 0; %s < %d; %s++)", r, r, t->height, r);
  line(w, "const int64_t %s = pk_idx_min(%s + %s, %s - 1);", at, t->row, r, expr_text(o->rows));
  declare_right(o, "right", o->unit);
  for (int v = 0; v < (left ? 1 : o->unit); v++) {
    line(w, "{");
    w->indent++;
    put_right(o, expr_symbol(&g->exprs, at), expr_add(&g->exprs, column, number(g, v * g->lanes)),
              left, text(g, "%d", v), NULL, left);
    close_block(w);
  }
  for (int s = 0; left && o->unit > 1 && s < o->reader->steps.count; s++)
    if (is_made(o, s)) line(w, "%s[1] = pk_splat_f32(0);", o->right[s]);
  add_products(t, r);
  close_block(w);
}

static void put_transposed_sums(const TransposedTile *t) {
  const Registers *o = t->o;
  for (int s = 0; s < o->reader->steps.count; s++)
    if (is_made(o, s))
      line(o->w, "pk_dot_put_transposed(&%s, %s, %d, %d, %s, %s, %s);", o->products[s], t->sum[s],
           t->lines, t->height, t->line ? t->line : "0", t->row, expr_text(o->rows));
}

static const char *depth_text(const Registers *o) {
  for (int s = 0;; s++)
    if (is_made(o, s)) return text(o->w->g, "%s.k", o->products[s]);
}

// The whole of k, in blocks of constant length, so that the C compiler sees what their vectors
// share.
static void add_along(const TransposedTile *t) {
  CWriter *w = t->o->w;
  Gen *g = w->g;
  ExprPool *pool = &g->exprs;
  const char *depth = depth_text(t->o), *left = unique_name(&w->names, "left"),
             *iteration = unique_name(&w->names, "depth"), *block = unique_name(&w->names, "block");
  const Expr *first = expr_mul(pool, expr_symbol(pool, block), number(g, TRANSPOSED_COLUMNS));
  line(w, "int64_t %s = 0;", iteration);
  open_block(w, "for (int64_t %s = 0; %s + %d <= %s; %s++, %s += %d)", block, iteration,
             TRANSPOSED_COLUMNS, depth, block, iteration, TRANSPOSED_COLUMNS);
  for (int v = 0; v < TRANSPOSED_COLUMNS / g->lanes; v += t->o->unit) {
    line(w, "{");
    w->indent++;
    add_transposed(t, expr_add(pool, first, number(g, v * g->lanes)), NULL);
    close_block(w);
  }
  close_block(w);
  open_block(w, "for (; %s < %s; %s += %d)", iteration, depth, iteration, g->lanes);
  line(w, "const int64_t %s = pk_idx_min(%d, %s - %s);", left, g->lanes, depth, iteration);
  add_transposed(t, expr_symbol(pool, iteration), expr_symbol(pool, left));
  close_block(w);
}

// The distance in rows at which rows are prefetched: a C variable, or NULL.
static const char *declare_distance(CWriter *w, const Group *producer, int height) {
  Gen *g = w->g;
  if (!producer->feeds.ahead.count) return NULL;
  const char *distance = unique_name(&w->names, "distance");
  const Instr *v = producer->feeds.ahead.at[0];
  Place p;
  REQUIRE(place_of(g, v, &p));
  line(w, "const int64_t %s = pk_rows_ahead(%d, %s, %s, %s);", distance, height,
       row_bytes(g, v, &p), row_address(g, v, &p, number(g, 0)),
       row_address(g, v, &p, number(g, 1)));
  return distance;
}

// Writes products with a transposed computed operand, whose sums stay in registers.
static void emit_transposed(Registers *o, int lines, int height, bool more) {
  CWriter *w = o->w;
  Gen *g = w->g;
  const char **names = NEW_ARRAY(g->arena, const char *, 2 * o->reader->steps.count),
             *distance = declare_distance(w, o->producer, height),
             *row = unique_name(&w->names, "row"),
             *first = more ? unique_name(&w->names, "line") : NULL;
  const TransposedTile t = {o, lines, height, first, row, names, names + o->reader->steps.count};
  start_sums(o);
  open_block(w, "for (int64_t %s = 0; %s < %s; %s += %d)", row, row, expr_text(o->rows), row,
             height);
  prefetch_rows(w, o->producer, row, distance, height);
  if (more)
    open_block(w, "for (int64_t %s = 0; %s < %s; %s += %d)", first, first,
               expr_text(demand_expr(g, o->reader->lead_demand[0], o->reader->lead[0])), first,
               lines);
  declare_transposed_sums(&t);
  add_along(&t);
  put_transposed_sums(&t);
  if (more) close_block(w);
  close_block(w);
}

// ---- any number of rows on the left

// Tiles of rows on the left by rows of a transposed operand.
static const struct {
  int lines, height;
} transposed_tiles[] = {{1, TRANSPOSED_ROWS_FOR_ONE},
                        {ROWS_IN_REGISTERS, TRANSPOSED_ROWS_FOR_SEVERAL},
                        {MORE_ROWS_IN_REGISTERS, TRANSPOSED_ROWS_FOR_MORE}};
enum { TRANSPOSED_TILES = sizeof transposed_tiles / sizeof *transposed_tiles };

// One row, then a few. The code after the last `if` handles the largest number that fits in
// registers.
static void emit_in_registers(Registers *o, const char *skinny) {
  CWriter *w = o->w;
  const int most = o->producer->feeds.in_registers;
  const char *lines = expr_text(demand_expr(w->g, o->reader->lead_demand[0], o->reader->lead[0]));
  const bool transposed = dot_shape(made_dot(o->producer)).b_transposed;
  for (int i = 0; i < TRANSPOSED_TILES; i++) {
    const bool last = i == TRANSPOSED_TILES - 1;
    const int upto = last ? most : transposed_tiles[i].lines;
    if (!transposed && i && !last) continue;
    int taken = open_names(&w->names);
    open_block(w, "%sif (%s)", i ? "else " : "",
               i == 0                  ? text(w->g, "%s == 1", lines)
               : upto >= PK_DOT_SKINNY ? skinny
                                       : text(w->g, "%s > 0 && %s <= %d", lines, lines, upto));
    if (transposed)
      emit_transposed(o, transposed_tiles[i].lines, transposed_tiles[i].height,
                      upto > transposed_tiles[i].lines);
    else
      emit_by_rows(o, i ? NULL : "1", STEPS_IN_REGISTERS, o->producer->feeds.vectors);
    close_block(w);
    close_names(&w->names, taken);
  }
  open_block(w, "else");
}

// ---- the loops of one group, and the dots of `group` whose right operand it computes

// Computes all rows, or, if the left operand has few, some at a time, through L1.
static void emit_by_parts(CWriter *w, const Group *group, Group *producer, const char **products,
                          const char *skinny) {
  Gen *g = w->g;
  const char *part = unique_name(&w->names, "part"), *end = unique_name(&w->names, "part_end"),
             *rows = expr_text(demand_expr(g, producer->lead_demand[0], producer->lead[0]));
  const char **sums = NEW_ARRAY(g->arena, const char *, group->steps.count);
  for (int s = 0; s < group->steps.count; s++) {
    if (group->steps.at[s].product.right != producer) continue;
    sums[s] = declare_part(w, &group->steps.at[s], products[s]);
    if (sums[s]) line(w, "if (%s) pk_dot_skinny_start(&%s);", skinny, products[s]);
  }
  line(w, "int64_t %s = 0;", part);
  open_block(w, "do");
  line(w, "const int64_t %s = %s ? pk_idx_min(%s + %d, %s) : %s;", end, skinny, part,
       producer->feeds.rows, rows, rows);
  emit_rows_from(w, producer, expr_symbol(&g->exprs, part), expr_symbol(&g->exprs, end));
  open_block(w, "if (%s)", skinny);
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].product.right == producer) {
      lap(w, (Instr *const *)&group->steps.at[s].product.dot, 1, "dot");
      begin_part(w, &group->steps.at[s], products[s], sums[s], part,
                 val(group->steps.at[s].product.dot)->dot.kind->group);
      emit_part_of_product(w, &group->steps.at[s], sums[s] ? sums[s] : products[s], part,
                           text(g, "%s - %s", end, part));
    }
  close_block(w);
  line(w, "%s = %s;", part, end);
  w->indent--;
  line(w, "} while (%s < %s);", part, rows);
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].product.right == producer && sums[s])
      line(w, "if (%s) pk_dot_right_end(&%s, &%s);", skinny, products[s], sums[s]);
}

// Writes the loops that compute a right operand, and the products with it.
static void emit_producer(CWriter *w, const Group *group, Group *producer, const char *skinny) {
  Gen *g = w->g;
  const char **products = NEW_ARRAY(g->arena, const char *, group->steps.count);
  const Expr *rows = demand_expr(g, producer->lead_demand[0], producer->lead[0]);
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].product.right == producer)
      products[s] = emit_whole_product(w, group, &group->steps.at[s]);
  if (producer->feeds.in_registers) {
    const DotKind *kind = val(made_dot(producer))->dot.kind;
    Registers o = {.w = w,
                   .producer = producer,
                   .reader = group,
                   .products = products,
                   .rows = rows,
                   .kind = micro_kernel_name(kind),
                   .unit = kind->group};
    o.parts = NEW_ARRAY(g->arena, const char *, group->steps.count);
    o.right = NEW_ARRAY(g->arena, const char *, group->steps.count);
    emit_in_registers(&o, skinny);
  }
  if (producer->feeds.in_registers >= PK_DOT_SKINNY)
    emit_rows_from(w, producer, number(g, 0), rows);
  else
    emit_by_parts(w, group, producer, products, skinny);
  if (producer->feeds.in_registers) close_block(w);
}

static bool is_first(const Group *group, int step) {
  for (int s = 0; s < step; s++)
    if (group->steps.at[s].product.right == group->steps.at[step].product.right) return false;
  return group->steps.at[step].product.right;
}

const char *emit_right_operands(CWriter *w, const Group *group) {
  Gen *g = w->g;
  const char *skinny = NULL;
  for (int s = 0; s < group->steps.count; s++) {
    const Step *step = &group->steps.at[s];
    if (!is_first(group, s)) continue;
    if (!skinny) {
      skinny = unique_name(&w->names, "skinny");
      line(w, "const bool %s = %s <= PK_DOT_SKINNY;", skinny,
           expr_text(demand_expr(g, group->lead_demand[0], group->lead[0])));
    }
    emit_producer(w, group, step->product.right, skinny);
  }
  if (!skinny) return NULL;
  open_block(w, "if (!%s)", skinny);
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].product.right) pack_panels(w, &group->steps.at[s]);
  close_block(w);
  return skinny;
}

bool has_right_operands(const Group *group) {
  for (int s = 0; s < group->steps.count; s++)
    if (group->steps.at[s].product.right) return true;
  return false;
}
