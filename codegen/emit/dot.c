// A product of two matrices as C: its operands are packed, or read in place.
#include "codegen/emit/internal.h"

// The in-bounds extent of an operand along an axis: the rest of a block may be past its array.
static const char *wanted_text(Gen *g, const Instr *v, int axis) {
  return demand_text(g, demand_outside(g, val(v)->demand[axis]), v->type.dim[axis]);
}

void pack_left(CWriter *w, const Instr *dot) {
  Gen *g = w->g;
  DotShape s = dot_shape(dot);
  const Buffer *b = val(dot)->dot.left;
  int m = s.a_transposed;
  Place p;
  if (!b) return;
  REQUIRE(place_of(g, s.a, &p));
  const char *packed = expr_text(b->stride[0]);
  line(w, "%s(%s, %s, %s, %s, %s, %s, %s, %s, 0);",
       pack_rows_text(g, val(dot)->dot.kind, p.element, s.a_transposed), reading(g, b->name),
       packed, place_text(g, &p), expr_text(p.stride[0]), wanted_text(g, s.a, m),
       wanted_text(g, s.a, 1 - m), extent_text(g, s.a->type.dim[m]), packed);
}

void pack_panels(CWriter *w, const Step *step) {
  Gen *g = w->g;
  const Instr *dot = step->product.dot;
  DotShape s = dot_shape(step->product.parts.count ? step->product.parts.at[0] : dot);
  const Buffer *b = val(dot)->dot.panels;
  int n = s.b_transposed;
  Place p;
  if (!b || step->joined) return;
  REQUIRE(place_of(g, s.b, &p));
  const char *depth = expr_text(val(dot)->dot.depth),
             *rows = step->product.depth ? depth : wanted_text(g, s.b, n);
  line(w, "%s(%s, %s, %s, %s, %s, %s, %s, 0);",
       pack_panels_text(g, val(dot)->dot.kind, p.element, s.b_transposed), reading(g, b->name),
       depth, place_text(g, &p), expr_text(p.stride[0]), rows, wanted_text(g, s.b, 1 - n),
       extent_text(g, s.b->type.dim[1 - n]));
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
  if (group->steps.at[val(dot)->step].product.window) {
    Place window;
    place_of_window(g, s.a, row, &window);
    return (Matrix){pointer_expr(g, window.base, window.offset), window.stride[0]};
  }
  if (val(dot)->dot.left) return buffer_rows(g, val(dot)->dot.left, row);
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

static Matrix sums_of(Gen *g, const Instr *dot, const Expr *row) {
  return buffer_rows(g, val(dot)->buffer, val(dot)->row_local ? number(g, 0) : row);
}

static Matrix result_place(Gen *g, const Step *step, const Expr *row) {
  return step->product.into ? stored_rows(g, step->product.into, row)
                            : sums_of(g, step->product.dot, row);
}

static const char *bytes_of(Gen *g, DType element, const Expr *stride) {
  return expr_text(expr_mul(&g->exprs, number(g, dtype_bytes(element)), stride));
}

// The destination of the sums, and the values to which they are added.
static void put_result(CWriter *w, const Step *step, const Expr *row, bool goes_on) {
  Gen *g = w->g;
  Matrix to = result_place(g, step, row);
  const char *stride = bytes_of(g, DT_F32, to.stride);
  bool direct = step->product.into && may_lie_in_hbm(&g->refs[step->product.into->ref->id]);
  const Expr *from = to.pointer;
  if (step->product.fresh)
    from = expr_choose(&g->exprs, scalar_expr(g, step->product.fresh), expr_code(&g->exprs, "NULL"),
                       from);
  if (goes_on) {
    line(w, "  .from = %s, .ldfrom = %s,", expr_text(to.pointer), stride);
  } else if (step->product.onto && !step->product.parts.count) {
    const Matrix before = sums_of(g, step->product.onto, row);
    line(w, "  .from = %s, .ldfrom = %s,", expr_text(before.pointer),
         bytes_of(g, DT_F32, before.stride));
  } else if (step->product.into && !step->product.set)
    line(w, "  .from = %s, .ldfrom = %s,", expr_text(from), stride);
  if (!step->product.result) {
    line(w, "  .to = %s, .ldto = %s, .padded = %s,", expr_text(to.pointer), stride,
         direct ? "false" : "true");
    return;
  }
  Matrix last = stored_rows(g, step->product.result, row);
  const Expr *when = scalar_expr(g, step->product.last);
  const char *when_text = expr_text(when);
  line(w, "  .to = %s ? %s : %s, .ldto = %s ? %s : %s, .padded = %s,", when_text,
       expr_text(last.pointer), expr_text(to.pointer), when_text, bytes_of(g, DT_F32, last.stride),
       stride, expr_text(expr_not(&g->exprs, when)));
}

// The condition for reading the right operand in place from HBM: always, or for the first rows
// alone.
static const Expr *reads_source(Gen *g, const RefGen *b, const Expr *row) {
  ExprPool *pool = &g->exprs;
  const Expr *source = source_of_panels(g, b), *skinny = is_skinny_flag(g, b),
             *small = small_right(g, b);
  if (!small || expr_is(row, 0)) return source;
  const Expr *first = expr_operator(pool, EXPR_EQ, row, number(g, 0));
  return expr_and(pool, source, expr_or(pool, expr_or(pool, skinny, small), first));
}

// The parts that every product has: its sizes and its left operand.
static void put_shape(CWriter *w, const Group *group, const Step *step, const Expr *row,
                      const Expr *rows) {
  Gen *g = w->g;
  const Instr *dot = step->product.parts.count ? step->product.parts.at[0] : step->product.dot;
  Matrix a = left_operand(g, dot, group, row);
  line(w, "  .rows = %s, .cols = %s, .k = %s,", expr_text(rows),
       demand_text(g, step->demand, step->columns),
       demand_text(g, step->product.along,
                   step->product.depth ? step->product.depth : dot_depth(dot)));
  line(w, "  .a = %s, .lda = %s,", expr_text(a.pointer),
       bytes_of(g, dot_element(val(dot)->dot.kind, dot_shape(dot).a->type.dtype), a.stride));
}

const char *emit_whole_product(CWriter *w, const Group *group, const Step *step) {
  Gen *g = w->g;
  const Buffer *b = val(dot_shape(step->product.dot).b)->buffer;
  const char *product = unique_name(&w->names, "product");
  show_source(w, step->product.dot->span);
  line(w, "const pk_dot_product %s = {", product);
  put_shape(w, group, step, number(g, 0), demand_expr(g, group->lead_demand[0], group->lead[0]));
  line(w, "  .source = %s, .ldsource = %s, .near = true,", reading(g, b->name),
       bytes_of(g, b->element, b->stride[0]));
  put_result(w, step, number(g, 0), false);
  line(w, "};");
  return product;
}

void emit_part_of_product(CWriter *w, const Step *step, const char *product, const char *part,
                          const char *count) {
  Gen *g = w->g;
  DotShape s = dot_shape(step->product.dot);
  const DotKind *kind = val(step->product.dot)->dot.kind;
  const char *piece = unique_name(&w->names, "piece"),
             *which = s.b_transposed
                          ? text(g, "pk_dot_columns_of(&%s, %s, %s)", product, part, count)
                          : text(g, "pk_dot_rows_of(&%s, %s, %s, %d)", product, part, count,
                                 dtype_bytes(dot_element(kind, s.a->type.dtype)));
  line(w, "const pk_dot_product %s = %s;", piece, which);
  line(w, "%s(&%s);", skinny_kernel_name(g, kind, val(s.b)->buffer->element, s.b_transposed),
       piece);
}

// The right operand is in memory, and the product is skinny.
static void emit_dot_in_place(CWriter *w, const Group *group, const Step *step, const Expr *row,
                              const Expr *rows) {
  Gen *g = w->g;
  const DotShape s = dot_shape(step->product.dot);
  const char *product = unique_name(&w->names, "product");
  Place p;
  REQUIRE(place_of(g, s.b, &p));
  show_source(w, step->product.dot->span);
  line(w, "const pk_dot_product %s = {", product);
  put_shape(w, group, step, row, rows);
  line(w, "  .source = %s, .ldsource = %s, .near = true,", place_text(g, &p),
       bytes_of(g, p.element, p.stride[0]));
  put_result(w, step, row, false);
  line(w, "};");
  line(w, "%s(&%s);",
       skinny_kernel_name(g, val(step->product.dot)->dot.kind, p.element, s.b_transposed), product);
}

// A product whose right operand is in panels. After an `if`, `otherwise` begins the text of the
// alternative.
static void call_product(CWriter *w, const Instr *dot, const char *product, const char *otherwise) {
  if (val(dot)->dot.tail_columns) {
    line(w, "%sif (pk_dot_tail_columns(&%s))", otherwise, product);
    line(w, "  pk_dot_tail_f32(&%s);", product);
    otherwise = "else ";
  }
  if (*otherwise) line(w, "else");
  line(w, "%spk_dot_product_%s(&%s);", *otherwise ? "  " : "",
       micro_kernel_name(val(dot)->dot.kind), product);
}

void put_scratch(CWriter *w, const Instr *dot) {
  if (val(dot)->scratch) line(w, "  .scratch = %s,", reading(w->g, val(dot)->scratch->name));
}

// Writes a product of rows by packed panels, which its first rows fill if they are not there.
static void emit_dot_of_panels(CWriter *w, const Group *group, const Step *step, const Expr *row,
                               const Expr *rows) {
  Gen *g = w->g;
  const Instr *dot = step->product.dot;
  DotShape s = dot_shape(dot);
  const DotKind *kind = val(dot)->dot.kind;
  const char *panels = reading(
                 g, val(dot)->dot.panels ? val(dot)->dot.panels->name : g->refs[s.b->ref->id].name),
             *depth = expr_text(val(dot)->dot.depth), *product = unique_name(&w->names, "product");
  const RefGen *b = step->product.source;
  show_source(w, dot->span);
  line(w, "const pk_dot_product %s = {", product);
  put_shape(w, group, step, row, rows);
  line(w, "  .panels = %s, .depth = %s,", panels, depth);
  put_scratch(w, dot);
  if (b)
    line(w, "  .source = %s ? %s_hbm : NULL, .ldsource = %s,", expr_text(reads_source(g, b, row)),
         b->stem, bytes_of(g, b->ref->array.dtype, hbm_row_stride(g, b->ref)));
  if (b && small_right(g, b)) line(w, "  .in_place = %s,", small_right(g, b)->name);
  put_result(w, step, row, false);
  line(w, "};");
  const char *otherwise = "";
  if (b) {
    line(w, "if (%s_skinny)", b->stem);
    line(w, "  %s(&%s);", skinny_kernel_name(g, kind, b->ref->array.dtype, s.b_transposed),
         product);
    otherwise = "else ";
  }
  call_product(w, dot, product, otherwise);
}

// Windows whose rows are consecutive are one product, which continues from the sums of others.
static void emit_windows(CWriter *w, const Group *group, const Step *step, const Expr *row,
                         const Expr *rows) {
  Gen *g = w->g;
  const Instr *const *part = (const Instr *const *)step->product.parts.at;
  const Buffer *panels = val(step->product.dot)->dot.panels;
  show_source(w, step->product.dot->span);
  for (int i = 0, next; i < step->product.parts.count; i = next) {
    const char *product = unique_name(&w->names, "product");
    const Matrix a = left_operand(g, part[i], group, row);
    int64_t before = 0, along = dot_depth(part[i]);
    for (int p = 0; p < i; p++) before += dot_depth(part[p]);
    for (next = i + 1; next < step->product.parts.count &&
                       window_follows(dot_shape(part[next - 1]).a, dot_shape(part[next]).a);
         next++)
      along += dot_depth(part[next]);
    line(w, "const pk_dot_product %s = {", product);
    line(w, "  .rows = %s, .cols = %s, .k = %lld,", expr_text(rows),
         demand_text(g, step->demand, step->columns), (long long)along);
    line(w, "  .a = %s, .lda = %s,", expr_text(a.pointer), bytes_of(g, DT_F32, a.stride));
    line(w, "  .panels = %s, .depth = %s,",
         pointer_text(g, panels->name, number(g, before * g->panel)),
         expr_text(val(step->product.dot)->dot.depth));
    put_scratch(w, step->product.dot);
    put_result(w, step, row, i > 0);
    line(w, "};");
    call_product(w, step->product.dot, product, "");
  }
}

void emit_dot(CWriter *w, const Group *group, const Step *step, const Expr *row, const Expr *rows) {
  if (step->product.parts.count && step->product.window)
    emit_windows(w, group, step, row, rows);
  else
    (step->product.in_place ? emit_dot_in_place : emit_dot_of_panels)(w, group, step, row, rows);
}
