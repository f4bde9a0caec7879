// The C variables at the head of a function: sizes, extents of the grid, strides, addresses of
// blocks and buffers. Each is declared only if text that was written reads it.
#include "codegen/emit/internal.h"

#include <string.h>

void declare_variable(Gen *g, Declarations *list, const char *type, const Expr *variable,
                      Value value, const void *of, int k) {
  LIST_PUSH(g->arena, list, ((Declaration){type, variable, value, of, k}));
}

// A declaration may read those before it.
bool put_declarations(CWriter *w, const Declarations *list) {
  Gen *g = w->g;
  const char **text_of = NEW_ARRAY(g->arena, const char *, list->count + 1);
  bool any = false;
  for (int i = list->count - 1; i >= 0; i--) {
    const Declaration *d = &list->at[i];
    if (*d->variable->read) text_of[i] = expr_text(d->value(g, d->of, d->k));
  }
  for (int i = 0; i < list->count; i++) {
    if (!text_of[i]) continue;
    const char *type = list->at[i].type, *space = type[strlen(type) - 1] == '*' ? "" : " ";
    line(w, "%s%s%s = %s;", type, space, list->at[i].variable->name, text_of[i]);
    any = true;
  }
  return any;
}

bool is_read(Gen *g, const char *name) { return *expr_symbol(&g->exprs, name)->read; }

const char *parameter_text(Gen *g, const char *type, const char *name) {
  return text(g, "%s%s%s", is_read(g, name) ? "" : "PK_UNUSED ", type, name);
}

static const Expr *code(Gen *g, const char *c) { return expr_code(&g->exprs, c); }
static const Expr *variable(Gen *g, const char *name) { return expr_symbol(&g->exprs, name); }

// ---- sizes

static const Expr *size_value(Gen *g, const void *of, int i) {
  (void)of;
  return code(g, text(g, "%s[%d]", reading(g, "size"), i));
}

static const Expr *derived_value(Gen *g, const void *of, int i) {
  (void)of;
  return index_expr(g, g->k->sizes.at[i].value, 0);
}

static const Expr *extent_value(Gen *g, const void *of, int i) {
  (void)of;
  const Expr *n = index_expr(g, g->k->grid.at[i].extent, 0);
  return expr_max(&g->exprs, number(g, 0), n);
}

// If steps are merged, the number of steps without merging, and the actual number.
static const Expr *together_value(Gen *g, const void *of, int i) {
  ExprPool *pool = &g->exprs;
  const Expr *one = number(g, 1);
  return expr_choose(pool, g->merge->when, expr_max(pool, one, extent_value(g, of, i)), one);
}

static const Expr *merged_value(Gen *g, const void *of, int i) {
  return expr_operator(&g->exprs, EXPR_DIV, extent_value(g, of, i), g->merge->together);
}

static const Expr *part_value(Gen *g, const void *of, int part) {
  (void)of;
  return batch_value(g, (BatchPart)part);
}

static const Expr *row_value(Gen *g, const void *of, int i) {
  (void)of;
  return g->rows.at[i]->definition;
}

static void declare_part(Gen *g, Declarations *list, BatchPart part) {
  declare_variable(g, list, "const int64_t", batch_variable(g, part), part_value, NULL, (int)part);
}

static void declare_extent(Gen *g, Declarations *list, bool merged, int i) {
  if (merged)
    declare_variable(g, list, "const int64_t", g->merge->together, together_value, NULL, i);
  declare_variable(g, list, "const int64_t", grid_extent(g, i),
                   merged ? merged_value : extent_value, NULL, i);
}

void declare_sizes(Gen *g, bool derived, bool of_cell, Declarations *list) {
  for (int i = 0; i < g->k->sizes.count; i++)
    declare_variable(g, list, "const int64_t", variable(g, g->c_name.size[i]),
                     derived && g->k->sizes.at[i].value ? derived_value : size_value, NULL, i);
  for (int i = 0; i < g->k->grid.count; i++)
    declare_extent(g, list, of_cell && g->merge && g->merge->axis == i, i);
  for (int part = BATCH_RUN; g->batch && part <= BATCH_BATCHES; part++)
    declare_part(g, list, (BatchPart)part);
  for (int i = 0; i < g->rows.count; i++)
    declare_variable(g, list, "const int64_t", g->rows.at[i], row_value, NULL, i);
}

void put_sizes(CWriter *w, bool derived, Buf *out) {
  Buf *outer = w->c;
  Declarations list = {0};
  w->c = out;
  w->indent = 1;
  declare_sizes(w->g, derived, false, &list);
  put_declarations(w, &list);
  w->c = outer;
}

// ---- the position of a cell

static bool is_batched(const Gen *g, int axis) { return g->batch && g->batch->axis == axis; }

const Expr *cell_count(Gen *g, int axis) {
  return is_batched(g, axis) ? batch_variable(g, BATCH_BATCHES) : grid_extent(g, axis);
}

// The same, if a call may split cells into parts.
static const Expr *place_count(Gen *g, int axis) {
  const Expr *cells = cell_count(g, axis);
  bool split = g->split && g->split->axis == axis;
  return split ? expr_mul(&g->exprs, cells, g->split->parts) : cells;
}

// The last parallel axis is innermost.
static const Expr *axis_value(Gen *g, const void *of, int axis) {
  (void)of;
  ExprPool *pool = &g->exprs;
  const Expr *rest = variable(g, "cell");
  bool more = false;
  for (int i = g->k->grid.count - 1; i > axis; i--)
    if (g->k->grid.at[i].parallel) rest = expr_operator(pool, EXPR_DIV, rest, place_count(g, i));
  for (int i = 0; i < axis; i++) more |= g->k->grid.at[i].parallel;
  return more ? expr_operator(pool, EXPR_REM, rest, place_count(g, axis)) : rest;
}

static const Expr *plan_value(Gen *g, const void *of, int k) {
  (void)k;
  return code(g, text(g, "%s->plan->%s", reading(g, "call"), (const char *)of));
}

static const Expr *cell_of_part(Gen *g, const void *of, int k) {
  (void)of;
  (void)k;
  return expr_operator(&g->exprs, EXPR_DIV, g->split->place, g->split->parts);
}

// The start of a part in its block (`next` 0), or of the part after it.
static const Expr *part_at(Gen *g, int64_t next) {
  const Split *s = g->split;
  ExprPool *pool = &g->exprs;
  const Expr *block = number(g, s->block), *rows = extent_expr(g, s->rows),
             *at = expr_mul(pool, variable(g, g->c_name.axis[s->axis]), block),
             *part = expr_operator(pool, EXPR_REM, s->place, s->parts);
  return code(
      g, text(g, "pk_part_at(pk_inside(%s, %s, %s), %s, %s, %d)", expr_text(rows), expr_text(at),
              expr_text(block), expr_text(expr_add(pool, part, number(g, next))),
              expr_text(s->parts), s->least));
}

static const Expr *first_of_part(Gen *g, const void *of, int k) {
  (void)of;
  (void)k;
  return part_at(g, 0);
}

static const Expr *length_of_part(Gen *g, const void *of, int k) {
  (void)of;
  (void)k;
  return expr_sub(&g->exprs, part_at(g, 1), g->split->first);
}

// A part of a cell, and the cell that it belongs to.
static void declare_split(Gen *g, Declarations *list) {
  const Split *s = g->split;
  declare_variable(g, list, "const int64_t", s->place, axis_value, NULL, s->axis);
  declare_variable(g, list, "const int64_t", variable(g, g->c_name.axis[s->axis]), cell_of_part,
                   NULL, 0);
  declare_variable(g, list, "const int64_t", s->first, first_of_part, NULL, 0);
  declare_variable(g, list, "const int64_t", s->length, length_of_part, NULL, 0);
}

void declare_axes(Gen *g, Declarations *list) {
  if (g->split) declare_variable(g, list, "const int64_t", g->split->parts, plan_value, "parts", 0);
  for (int i = g->k->grid.count - 1; i >= 0; i--) {
    if (!g->k->grid.at[i].parallel) continue;
    if (g->split && g->split->axis == i) {
      declare_split(g, list);
      continue;
    }
    bool batched = is_batched(g, i);
    const Expr *index = batched ? batch_variable(g, BATCH_INDEX) : variable(g, g->c_name.axis[i]);
    declare_variable(g, list, "const int64_t", index, axis_value, NULL, i);
    for (int part = BATCH_FIRST; batched && part <= BATCH_TOGETHER; part++)
      declare_part(g, list, (BatchPart)part);
  }
}

static const Expr *device_value(Gen *g, const void *of, int axis) {
  (void)of;
  return code(g, text(g, "%s->device->index[%d]", reading(g, "worker"), axis));
}

void declare_device(Gen *g, Declarations *list) {
  for (int i = 0; i < g->k->mesh.count; i++)
    declare_variable(g, list, "const int64_t", variable(g, g->c_name.device[i]), device_value, NULL,
                     i);
}

// ---- memory

static const Expr *field_value(Gen *g, const void *of, int k) {
  (void)k;
  return code(g, text(g, "%s->%s", reading(g, "call"), (const char *)of));
}

static const Expr *buffer_value(Gen *g, const void *of, int k) {
  (void)k;
  const Buffer *b = of;
  return code(g, arena_text(g, b->element, text(g, "%s.%s", reading(g, "a"), b->name)));
}

static bool is_input(const Gen *g, const Buffer *b) {
  for (int r = 0; r < g->k->refs.count; r++)
    if (g->refs[r].buffer == b) return g->refs[r].ref->role == REF_INPUT;
  return false;
}

void declare_call(Gen *g, Declarations *list) {
  declare_variable(g, list, "const int64_t *const", variable(g, "size"), field_value, "size", 0);
  declare_variable(g, list, "const pk_array *const", variable(g, "array"), field_value, "array", 0);
}

void declare_buffers(Gen *g, Declarations *list) {
  for (int i = 0; i < g->buffers.count; i++) {
    const Buffer *b = g->buffers.at[i];
    if (!is_input(g, b))
      declare_variable(g, list, text(g, "%s *const", ctype(b->element)), variable(g, b->name),
                       buffer_value, b, 0);
  }
}
