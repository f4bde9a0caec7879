// Preparation of a call, as C: derived sizes, requirements, the grid, memory, and the amount of
// work.
#include "codegen/emit/internal.h"

#include <string.h>

static void put_vmem(Gen *g, Buf *out) {
  for (int i = 0; i < g->vmem.count; i++)
    buf_printf(out, "  plan->vmem_bytes = pk_sat_add(plan->vmem_bytes, %s); /* %s */\n",
               expr_text(g->vmem.at[i].bytes), g->vmem.at[i].ref->name);
}

static const char *term_text(Gen *g, const WorkTerm *term) {
  const char *sizes = "";
  for (int i = 0; i < term->sizes; i++)
    sizes = text(g, "%s%s(double)%s", sizes, i ? " * " : "",
                 extent_text(g, dim_of_size(term->size[i])));
  if (term->factor == 1 && term->sizes) return sizes;
  const char *factor = text(g, "%.15g", term->factor);
  return text(g, "%s%s%s%s", factor, strpbrk(factor, ".e") ? "" : ".0", term->sizes ? " * " : "",
              sizes);
}

static const char *work_text(Gen *g) {
  const char *all = g->step_work.count ? "" : "0.0";
  for (int i = 0; i < g->step_work.count; i++)
    all = text(g, "%s%s%s", all, i ? " + " : "", term_text(g, &g->step_work.at[i]));
  return all;
}

// The part of a widened block that is within its array.
static const char *filled_text(Gen *g) {
  if (!g->blocks.widened) return "";
  return text(g, " * (%s) / (%s) / (double)plan->cells", term_text(g, &g->blocks.array_elements),
              term_text(g, &g->blocks.block_elements));
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

// The data by which a call decides whether to split cells: rows, and the work of a cell at the ends
// of arrays.
static void put_split(Gen *g, Buf *out) {
  const Split *s = g->split;
  if (!s) return;
  const Expr *rows = expr_min(&g->exprs, extent_expr(g, s->rows), number(g, s->block));
  buf_printf(out, "  plan->parts = 1;\n  plan->split_rows = %s;\n", expr_text(rows));
  buf_printf(out, "  plan->least_rows = %d;\n  plan->split_work = plan->work", s->least);
  for (int i = 0; i < g->k->grid.count; i++)
    for (int k = 0; k < g->insides.count; k++) {
      const Inside *inside = &g->insides.at[k];
      if (inside->at != AT_BLOCK || inside->index != expr_symbol(&g->exprs, g->c_name.axis[i]))
        continue;
      buf_printf(out, " * pk_filled(%s, %s)", expr_text(extent_expr(g, inside->dim)),
                 expr_text(extent_expr(g, inside->block)));
      break;
    }
  buf_puts(out, ";\n");
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
      buf_printf(out, "  %s[%d] = %s;\n", reading(g, "size"), i, reading(g, g->c_name.size[i]));
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
             "(double)plan->cells%s : 0;\n",
             filled_text(g));
  put_split(g, out);
  buf_puts(out, "  return NULL;\n}\n\n");
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
