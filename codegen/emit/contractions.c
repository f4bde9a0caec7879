// Contractions that are not steps of loops over rows: plain loops over elements, and products of
// two matrices for each leading index by micro-kernels.
#include "codegen/emit/generic.h"

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

void emit_contraction(CWriter *w, const Instr *v, const Expr **of_label, const Expr *sum) {
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
  const Expr *term =
      product(g, v, read_element(g, v->args[0], a_at), read_element(g, v->args[1], b_at));
  if (floats)
    line(w, "%s += %s;", sum->name, expr_text(term));
  else
    line(w, "%s = %s;", sum->name,
         expr_text(expr_call(&g->exprs, wide ? "pk_idx_add" : "pks_add_i32", sum, term, NULL)));
  while (inner--) close_block(w);
}

// A product for each index of the leading axes, by micro-kernels.
void emit_products(CWriter *w, Instr *v) {
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
void emit_wide_products(CWriter *w, Instr *v) {
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
void emit_byte_products(CWriter *w, Instr *v) {
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

void emit_contractions(CWriter *w, Instr *v) {
  Gen *g = w->g;
  Loops loops = open_loops(w, v, 0);
  const Expr *of_label[DOT_LABELS] = {0}, *sum = symbol(g, unique_name(&w->names, "sum"));
  for (int i = 0; i < v->type.rank; i++) of_label[v->labels.out[i]] = loops.at[i];
  emit_contraction(w, v, of_label, sum);
  DType t = v->type.dtype;
  bool is_unsigned = t == DT_U32 || t == DT_U64;
  write_element(w, v, loops.at, is_unsigned ? expr_cast(&g->exprs, t, sum) : sum);
  close_loops(w, &loops);
}
