// One cell of the grid as a C function: the parallel axes are fixed, the others are loops around
// the steps.
#include "codegen/emit/internal.h"

static bool is_moved_output(const RefGen *r) {
  return r->ref->role == REF_OUTPUT && r->form != FORM_DIRECT;
}

static void emit_step(CWriter *w) {
  Gen *g = w->g;
  Buf body = {0}, *outer = w->c;
  Declarations positions = {0};
  w->c = &body;
  for (int i = 0; i < g->k->refs.count; i++)
    if (is_moved_output(&g->refs[i])) {
      lap_at(w, block_span(g->refs[i].ref), text(g, "write back %s", g->refs[i].ref->name));
      emit_change_of_block(w, &g->refs[i]);
    }
  emit_region(w, g->body);
  w->c = outer;
  for (int i = 0; i < g->k->refs.count; i++)
    if (ref_is_operand(g->refs[i].ref)) declare_position(g, &g->refs[i], &positions);
  put_declarations(w, &positions);
  if (body.length) buf_add(w->c, body.text, body.length);
  buf_free(&body);
}

// Writes the loops over the grid's sequential axes, and the body of a step.
static void emit_steps(CWriter *w) {
  Gen *g = w->g;
  for (int i = 0; i < g->k->refs.count; i++)
    if (is_moved_output(&g->refs[i])) {
      line(w, "int64_t %s_held = 0;", g->refs[i].stem);
      line(w, "pk_block %s_block = {0};", g->refs[i].stem);
      if (g->refs[i].ref->at == AT_SLICE) line(w, "pk_array %s_slice = {0};", g->refs[i].stem);
    }
  clear_semaphores(w, NULL);
  int loops = 0;
  if (g->batch) {
    const char *axis = g->c_name.axis[g->batch->axis];
    open_block(w, "for (int64_t %s = %s; %s < %s; %s += %s)", axis,
               expr_text(batch_variable(g, BATCH_FIRST)), axis,
               expr_text(batch_variable(g, BATCH_END)), axis,
               expr_text(batch_variable(g, BATCH_TOGETHER)));
    loops++;
  }
  for (int i = 0; i < g->k->grid.count; i++) {
    if (g->k->grid.at[i].parallel) continue;
    const char *axis = g->c_name.axis[i];
    open_block(w, "for (int64_t %s = 0; %s < %s; %s++)", axis, axis, expr_text(grid_extent(g, i)),
               axis);
    loops++;
  }
  emit_step(w);
  while (loops--) close_block(w);
  for (int i = 0; i < g->k->refs.count; i++)
    if (is_moved_output(&g->refs[i])) {
      lap_at(w, block_span(g->refs[i].ref), text(g, "write back %s", g->refs[i].ref->name));
      emit_last_writeback(w, &g->refs[i]);
    }
  lap_outside(w);
}

// What the steps may read.
static void declare_head(CWriter *w, Declarations *list) {
  Gen *g = w->g;
  declare_call(g, list);
  declare_sizes(g, false, true, list);
  declare_axes(g, list);
  declare_device(g, list);
  declare_arena(w, list);
  declare_buffers(g, list);
}

static void declare_parameters(Gen *g, Declarations *list) {
  declare_variable(g, list, "const pk_call *", expr_symbol(&g->exprs, "call"), NULL, NULL, 0);
  declare_variable(g, list, "pk_worker *", expr_symbol(&g->exprs, "worker"), NULL, NULL, 0);
  declare_variable(g, list, "int64_t", expr_symbol(&g->exprs, "cell"), NULL, NULL, 0);
}

// Writes NAME_cell, which executes the steps of one cell.
void emit_cell(CWriter *w) {
  Gen *g = w->g;
  Buf steps = {0}, head = {0}, *out = w->c;
  Declarations list = {0};
  emit_layout(w);
  expr_forget_reads(&g->exprs);
  w->c = &steps;
  emit_steps(w);
  w->c = &head;
  declare_head(w, &list);
  put_declarations(w, &list);
  lap_device(w);
  w->c = out;
  declare_parameters(g, &list);
  outline(w, &list, out, &steps);
  buf_printf(out,
             "/* The steps of one cell: a combination of the parallel axes. */\nstatic void "
             "%s_cell(%s, %s, %s) {\n",
             g->k->symbol, parameter_text(g, "const pk_call *", "call"),
             parameter_text(g, "pk_worker *", "worker"), parameter_text(g, "int64_t ", "cell"));
  if (head.length) buf_add(out, head.text, head.length);
  if (steps.length) buf_add(out, steps.text, steps.length);
  buf_puts(out, "}\n\n");
  buf_free(&steps);
  buf_free(&head);
}
