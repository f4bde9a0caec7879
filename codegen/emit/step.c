// One cell of the grid as a C function: the parallel axes are fixed, the others are loops around
// the steps.
#include "codegen/emit/internal.h"

#include <ctype.h>
#include <string.h>

// The name a declaration `... NAME = ...;` declares.
static const char *declared_name(Gen *g, const char *declaration) {
  const char *end = strstr(declaration, " = ");
  REQUIRE(end);
  const char *start = end;
  while (start > declaration && (isalnum((unsigned char)start[-1]) || start[-1] == '_')) start--;
  return text(g, "%.*s", (int)(end - start), start);
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

// The names that C text mentions; those of members are not among them.
static void add_mentioned(Gen *g, NameTable *names, const char *c_text) {
  for (const char *p = c_text, *end; *p; p = end) {
    end = skip_prose(p);
    if (end != p) continue;
    end = p + 1;
    if (!is_word(*p)) continue;
    while (is_word(*end)) end++;
    bool member = p > c_text && (p[-1] == '.' || (p > c_text + 1 && p[-1] == '>' && p[-2] == '-'));
    if (!member) add_known_name(g->arena, names, intern_n(p, (size_t)(end - p)));
  }
}

// Of declarations, one a line, those that `used` or a later kept one mentions.
static void keep_used(Gen *g, const Buf *declarations, const char *used, Buf *out) {
  LIST(const char *) lines = {0};
  NameTable names = {0};
  for (const char *p = declarations->text ? declarations->text : ""; *p;) {
    const char *end = strchr(p, '\n');
    LIST_PUSH(g->arena, &lines, arena_strndup(g->arena, p, (size_t)(end - p)));
    p = end + 1;
  }
  bool *kept = NEW_ARRAY(g->arena, bool, lines.count + 1);
  add_mentioned(g, &names, used);
  for (int i = lines.count - 1; i >= 0; i--) {
    kept[i] = is_known_name(g->arena, &names, declared_name(g, lines.at[i]));
    if (kept[i]) add_mentioned(g, &names, lines.at[i]);
  }
  for (int i = 0; i < lines.count; i++)
    if (kept[i]) buf_printf(out, "%s\n", lines.at[i]);
}

static void indent_lines(Gen *g, const Buf *lines) {
  for (const char *p = lines->text ? lines->text : ""; *p;) {
    const char *end = strchr(p, '\n');
    line(g, "%.*s", (int)(end - p), p);
    p = end + 1;
  }
}

static void put_size(Gen *g, int i, const Region *value, Buf *out) {
  const char *from = value ? index_text(g, value, 0) : text(g, "size[%d]", i);
  buf_printf(out, "const int64_t %s = %s;\n", g->size_name[i], from);
}

static void declare_sizes(Gen *g, bool derived, Buf *out) {
  for (int i = 0; i < g->k->sizes.count; i++)
    put_size(g, i, derived ? g->k->sizes.at[i].value : NULL, out);
  for (int i = 0; i < g->k->grid.count; i++) {
    const char *extent = index_text(g, g->k->grid.at[i].extent, 0);
    buf_printf(out, "const int64_t n_%s = pk_idx_max(0, %s);\n", g->axis_name[i], extent);
  }
  declare_batches(g, "", out);
  for (int i = 0; i < g->rows.count; i++)
    buf_printf(out, "const int64_t %s = %s;\n", g->rows.at[i]->name,
               expr_text(g->rows.at[i]->definition));
}

static void put_lines(const Buf *lines, Buf *out) {
  for (const char *p = lines->text ? lines->text : ""; *p;) {
    const char *end = strchr(p, '\n');
    buf_printf(out, "  %.*s\n", (int)(end - p), p);
    p = end + 1;
  }
}

void put_sizes_used(Gen *g, const char *body, Buf *out) {
  Buf all = {0}, used = {0};
  declare_sizes(g, true, &all);
  keep_used(g, &all, body, &used);
  put_lines(&used, out);
  buf_free(&all);
  buf_free(&used);
}

void emit_extents(Gen *g, Buf *out) {
  Buf all = {0}, used = {0};
  declare_sizes(g, false, &all);
  Buf layout = {0};
  for (int i = 0; i < g->buffers.count; i++)
    buf_printf(&layout, "%s;", expr_text(g->buffers.at[i]->bytes));
  for (int i = 0; i < g->k->refs.count; i++)
    if (g->refs[i].revisits) buf_printf(&layout, "%s;", expr_text(g->refs[i].revisits));
  keep_used(g, &all, layout.text ? layout.text : "", &used);
  if (!mentions(used.text, "size")) buf_puts(&used, "(void)size;\n");
  if (g->launch_reads && !mentions(used.text, "array")) buf_puts(&used, "(void)array;\n");
  put_lines(&used, out);
  buf_free(&all);
  buf_free(&used);
  buf_free(&layout);
}

static void declare_axes(Gen *g, Buf *out) {
  const char *rest = "cell";
  int parallel = 0;
  for (int i = 0; i < g->k->grid.count; i++) parallel += g->k->grid.at[i].parallel;
  for (int i = g->k->grid.count - 1; i >= 0; i--) {
    if (!g->k->grid.at[i].parallel) continue;
    const char *axis = g->axis_name[i];
    bool batched = g->batch && g->batch->axis == i;
    const char *count = batched ? text(g, "%s_batches", g->batch->stem) : text(g, "n_%s", axis);
    const char *index = --parallel ? text(g, "%s %% %s", rest, count) : rest;
    if (batched)
      declare_batch(g, index, out);
    else
      buf_printf(out, "const int64_t %s = %s;\n", axis, index);
    rest = text(g, "%s / %s", rest, count);
  }
}

static void declare_buffers(Gen *g, Buf *out) {
  buf_printf(out, "const %s_arena a = %s_layout(%ssize);\n", g->k->symbol, g->k->symbol,
             g->launch_reads ? "array, " : "");
  for (int i = 0; i < g->buffers.count; i++) {
    const Buffer *b = g->buffers.at[i];
    bool input = false;
    for (int r = 0; r < g->k->refs.count; r++)
      input |= g->refs[r].buffer == b && g->refs[r].ref->role == REF_INPUT;
    if (!input)
      buf_printf(out, "%s *const %s = (%s *)(void *)(worker->arena + a.%s);\n", ctype(b->element),
                 b->name, ctype(b->element), b->name);
  }
}

static bool turns(const RefGen *r) { return r->ref->role == REF_OUTPUT && r->form != FORM_DIRECT; }

static void emit_step(Gen *g) {
  Buf body = {0}, setup = {0}, used = {0}, *outer = g->c;
  g->c = &body;
  for (int i = 0; i < g->k->refs.count; i++)
    if (turns(&g->refs[i])) emit_turn(g, &g->refs[i]);
  emit_region(g, g->body);
  g->c = outer;
  for (int i = 0; i < g->k->refs.count; i++)
    if (ref_is_operand(g->refs[i].ref)) emit_position(g, &g->refs[i], &setup);
  keep_used(g, &setup, body.text ? body.text : "", &used);
  indent_lines(g, &used);
  if (body.length) buf_add(g->c, body.text, body.length);
  buf_free(&body);
  buf_free(&setup);
  buf_free(&used);
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
    const char *stem = g->batch->stem;
    open_block(g, "for (int64_t %s = %s_first; %s < %s_end; %s += %s)", axis, stem, axis, stem,
               axis, g->batch->together);
    loops++;
  }
  for (int i = 0; i < g->k->grid.count; i++) {
    if (g->k->grid.at[i].parallel) continue;
    const char *axis = g->axis_name[i];
    open_block(g, "for (int64_t %s = 0; %s < n_%s; %s++)", axis, axis, axis, axis);
    loops++;
  }
  emit_step(g);
  while (loops--) close_block(g);
  for (int i = 0; i < g->k->refs.count; i++)
    if (turns(&g->refs[i])) emit_last_writeback(g, &g->refs[i]);
}

void emit_cell(Gen *g) {
  Buf steps = {0}, all = {0}, used = {0}, *outer = g->c;
  g->c = &steps;
  g->indent = 1;
  emit_steps(g);
  g->c = outer;
  buf_puts(&all,
           "const int64_t *const size = call->size;\nconst pk_array *const array = call->array;\n");
  declare_sizes(g, false, &all);
  declare_axes(g, &all);
  declare_buffers(g, &all);
  keep_used(g, &all, steps.text ? steps.text : "", &used);
  emit_layout(g, g->c);
  buf_printf(g->c,
             "/* The steps of one cell: a combination of the parallel axes. */\nstatic void "
             "%s_cell(const pk_call *call, "
             "pk_worker *worker, int64_t cell) {\n",
             g->k->symbol);
  indent_lines(g, &used);
  const char *const parameters[] = {"call", "worker", "cell"};
  for (int i = 0; i < 3; i++)
    if (!mentions(steps.text, parameters[i]) && !mentions(used.text, parameters[i]))
      line(g, "(void)%s;", parameters[i]);
  if (steps.length) buf_add(g->c, steps.text, steps.length);
  buf_puts(g->c, "}\n\n");
  buf_free(&steps);
  buf_free(&all);
  buf_free(&used);
}
