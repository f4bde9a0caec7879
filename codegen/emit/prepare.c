// What a call needs before it runs, as C: derived sizes, requirements, the grid, memory, and how
// much work there is.
#include "codegen/emit/internal.h"

#include <string.h>

// Bytes of a block in VMEM, in whole tiles.
static const Expr *tile_bytes(Gen *g, const Type *t) {
  ExprPool *pool = &g->exprs;
  const Expr *bytes = number(g, dtype_bytes(t->dtype));
  for (int i = 0; i < t->rank; i++) {
    const Expr *n = extent_expr(g, t->dim[i]);
    if (i == t->rank - 1)
      n = expr_round_up(pool, n, TILE_LANES);
    else if (i == t->rank - 2)
      n = expr_round_up(pool, n, tile_sublanes(t->dtype));
    bytes = expr_sat_mul(pool, bytes, n);
  }
  for (int bits = dtype_info[t->dtype].bits; bits < 8 && t->rank; bits *= 2)
    bytes = expr_sat_half(pool, bytes);
  return bytes;
}

static void put_vmem(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->refs.count; i++) {
    const Ref *r = g->k->refs.at[i];
    if (r->space != SPACE_VMEM && r->space != SPACE_VAR) continue;
    const Expr *bytes = tile_bytes(g, r->declared ? r->declared : &r->type);
    if (r->buffers > 1) bytes = expr_sat_mul(&g->exprs, number(g, r->buffers), bytes);
    buf_printf(out, "  plan->vmem_bytes = pk_sat_add(plan->vmem_bytes, %s); /* %s */\n",
               expr_text(bytes), r->name);
  }
}

// A sum of products: numbers times run-time sizes, as double.
typedef struct {
  double factor;
  const char *sizes;  // " * (double)M * (double)N"
} Term;
typedef LIST(Term) Terms;

static Term times(Gen *g, Term term, Dim d) {
  if (dim_is_const(d))
    term.factor *= (double)d;
  else
    term.sizes = text(g, "%s * (double)%s", term.sizes, extent_text(g, d));
  return term;
}

static Term product_of(Gen *g, const Type *t) {
  Term term = {1, intern("")};
  for (int i = 0; i < t->rank; i++) term = times(g, term, t->dim[i]);
  return term;
}

static void add_term(Gen *g, Terms *sum, Term term) {
  for (int i = 0; i < sum->count; i++)
    if (sum->at[i].sizes == term.sizes) {
      sum->at[i].factor += term.factor;
      return;
    }
  LIST_PUSH(g->arena, sum, term);
}

static const char *term_text(Gen *g, Term term) {
  if (term.factor == 1 && *term.sizes) return text(g, "%s", term.sizes + strlen(" * "));
  const char *factor = text(g, "%.15g", term.factor);
  return text(g, "%s%s%s", factor, strpbrk(factor, ".e") ? "" : ".0", term.sizes);
}

typedef struct {
  Gen *g;
  Terms sum;
} WorkWalk;

// A rough count of operations of one step, all branches taken: whether threads pay is a matter of
// magnitude.
static void add_work(Instr *v, void *context) {
  WorkWalk *w = context;
  bool computes = has_result(v) && v->type.rank > 0 && !is_transparent(v);
  if (v->op == OP_DOT) {
    Term term = product_of(w->g, &v->type);
    for (int i = 0; i < v->args[0]->type.rank; i++) {
      bool kept = false;
      for (int o = 0; o < v->type.rank; o++) kept |= v->labels.out[o] == v->labels.a[i];
      if (!kept) term = times(w->g, term, v->args[0]->type.dim[i]);
    }
    term.factor *= 0.2;
    add_term(w->g, &w->sum, term);
  } else if (computes || (v->op == OP_LOAD && v->type.rank > 0)) {
    add_term(w->g, &w->sum, product_of(w->g, &v->type));
  }
}

static const char *work_text(Gen *g) {
  WorkWalk w = {.g = g};
  ir_walk(g->k->body, add_work, &w);
  const char *all = w.sum.count ? "" : "0.0";
  for (int i = 0; i < w.sum.count; i++)
    all = text(g, "%s%s%s", all, i ? " + " : "", term_text(g, w.sum.at[i]));
  return all;
}

// The part of a widened block that lies inside its array.
static const char *filled_text(Gen *g) {
  const Ref *out = g->k->refs.at[g->k->inputs];
  if (!g->k->outputs || !out->declared) return "";
  return text(g, " * (%s) / (%s) / (double)plan->cells", term_text(g, product_of(g, &out->array)),
              term_text(g, product_of(g, &out->type)));
}

static const char *quoted_message(Gen *g, const Requirement *r) {
  const Source *s = g->k->source;
  const char *message = r->message;
  if (!message && r->span.end > r->span.start && r->span.end <= s->length)
    message = text(g, "%.*s", (int)(r->span.end - r->span.start), s->text + r->span.start);
  if (!message) message = "a requirement does not hold";
  return quoted(g, message);
}

static void put_grid(Gen *g, Buf *out) {
  buf_puts(out, "  plan->cells = plan->steps = 1;\n");
  for (int i = 0; i < g->k->grid.count; i++) {
    if (g->k->grid.at[i].parallel)
      buf_printf(out, "  plan->cells = pk_sat_mul(plan->cells, %s);\n",
                 expr_text(cell_count(g, i)));
    buf_printf(out, "  plan->steps = pk_sat_mul(plan->steps, %s);\n", expr_text(grid_extent(g, i)));
  }
}

static void put_requirements(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->requires.count; i++) {
    const Requirement *r = &g->k->requires.at[i];
    const Expr *broken = expr_not(&g->exprs, index_expr(g, r->condition, 0));
    buf_printf(out, "  if (%s) return %s;\n", expr_text(broken), quoted_message(g, r));
  }
}

// A derived size is a result of `prepare` too.
static void put_derived(Gen *g, Buf *out) {
  for (int i = 0; i < g->k->sizes.count; i++)
    if (g->k->sizes.at[i].value)
      buf_printf(out, "  %s[%d] = %s;\n", reading(g, "size"), i, reading(g, g->size_name[i]));
}

static void put_plan(CWriter *w, Buf *out) {
  Gen *g = w->g;
  const Kernel *k = g->k;
  put_derived(g, out);
  put_requirements(g, out);
  put_grid(g, out);
  put_vmem(g, out);
  if (!k->flow)
    buf_printf(out,
               "  const %s_arena a = %s;\n  plan->arena_bytes = a.bytes;\n  "
               "plan->clear_bytes = a.clear;\n",
               k->symbol, layout_call(w));
  buf_printf(out, "  const double step_work = %s;\n", work_text(g));
  buf_printf(out,
             "  plan->work = plan->cells > 0 ? step_work * (double)plan->steps / "
             "(double)plan->cells%s : 0;\n  return NULL;\n}\n\n",
             filled_text(g));
}

void emit_prepare(CWriter *w, Buf *out) {
  Gen *g = w->g;
  Buf body = {0}, head = {0};
  expr_forget_reads(&g->exprs);
  put_plan(w, &body);
  put_sizes(w, true, &head);
  const char *array =
      g->launch_reads ? text(g, "%s, ", parameter_text(g, "const pk_array *", "array")) : "";
  buf_printf(out, "static const char *%s_prepare(%s%s, pk_plan *plan) {\n", g->k->symbol, array,
             parameter_text(g, "int64_t *", "size"));
  if (head.length) buf_add(out, head.text, head.length);
  buf_add(out, body.text, body.length);
  buf_free(&head);
  buf_free(&body);
}
