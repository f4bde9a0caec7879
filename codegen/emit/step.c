// One cell of the grid as a C function: the parallel axes are fixed, the others are loops around
// the steps.
#include "codegen/emit/internal.h"

static bool turns(const RefGen *r) { return r->ref->role == REF_OUTPUT && r->form != FORM_DIRECT; }

static void emit_step(Gen *g) {
  Buf body = {0}, *outer = g->c;
  Declarations positions = {0};
  g->c = &body;
  for (int i = 0; i < g->k->refs.count; i++)
    if (turns(&g->refs[i])) emit_turn(g, &g->refs[i]);
  emit_region(g, g->body);
  g->c = outer;
  for (int i = 0; i < g->k->refs.count; i++)
    if (ref_is_operand(g->refs[i].ref)) declare_position(g, &g->refs[i], &positions);
  put_declarations(g, &positions);
  if (body.length) buf_add(g->c, body.text, body.length);
  buf_free(&body);
}

static void emit_steps(Gen *g) {
  for (int i = 0; i < g->k->refs.count; i++)
    if (turns(&g->refs[i])) {
      line(g, "int64_t %s_held = 0;", g->refs[i].stem);
      line(g, "pk_block %s_block = {0};", g->refs[i].stem);
      if (g->refs[i].ref->at == AT_SLICE) line(g, "pk_array %s_slice = {0};", g->refs[i].stem);
    }
  clear_semaphores(g, NULL);
  int loops = 0;
  if (g->batch) {
    const char *axis = g->axis_name[g->batch->axis];
    open_block(g, "for (int64_t %s = %s; %s < %s; %s += %s)", axis,
               expr_text(batch_variable(g, BATCH_FIRST)), axis,
               expr_text(batch_variable(g, BATCH_END)), axis,
               expr_text(batch_variable(g, BATCH_TOGETHER)));
    loops++;
  }
  for (int i = 0; i < g->k->grid.count; i++) {
    if (g->k->grid.at[i].parallel) continue;
    const char *axis = g->axis_name[i];
    open_block(g, "for (int64_t %s = 0; %s < %s; %s++)", axis, axis, expr_text(grid_extent(g, i)),
               axis);
    loops++;
  }
  emit_step(g);
  while (loops--) close_block(g);
  for (int i = 0; i < g->k->refs.count; i++)
    if (turns(&g->refs[i])) emit_last_writeback(g, &g->refs[i]);
}

static void put_head(Gen *g) {
  Declarations list = {0};
  declare_call(g, &list);
  declare_sizes(g, false, &list);
  declare_axes(g, &list);
  declare_buffers(g, &list);
  put_declarations(g, &list);
  put_unread(g, "call");
  put_unread(g, "worker");
  put_unread(g, "cell");
}

void emit_cell(Gen *g) {
  Buf steps = {0}, head = {0}, *out = g->c;
  expr_forget_reads(&g->exprs);
  g->indent = 1;
  g->c = &steps;
  emit_steps(g);
  g->c = &head;
  put_head(g);
  g->c = out;
  emit_layout(g, out);
  buf_printf(out,
             "/* The steps of one cell: a combination of the parallel axes. */\nstatic void "
             "%s_cell(const pk_call *call, "
             "pk_worker *worker, int64_t cell) {\n",
             g->k->symbol);
  if (head.length) buf_add(out, head.text, head.length);
  if (steps.length) buf_add(out, steps.text, steps.length);
  buf_puts(out, "}\n\n");
  buf_free(&steps);
  buf_free(&head);
}
