// C text: names, indentation, extents and pointers.
#include "codegen/loops/loops.h"

#include <ctype.h>
#include <string.h>

const char *text(Gen *g, const char *format, ...) {
  Buf buf = {0};
  va_list args;
  va_start(args, format);
  buf_vprintf(&buf, format, args);
  va_end(args);
  const char *copy = intern(buf.text);
  buf_free(&buf);
  (void)g;
  return copy;
}

static void indented(Gen *g, const char *format, va_list args) {
  for (int i = 0; i < g->indent; i++) buf_puts(g->c, "  ");
  buf_vprintf(g->c, format, args);
}

void line(Gen *g, const char *format, ...) {
  va_list args;
  va_start(args, format);
  indented(g, format, args);
  va_end(args);
  buf_putc(g->c, '\n');
}

void open_block(Gen *g, const char *format, ...) {
  va_list args;
  va_start(args, format);
  indented(g, format, args);
  va_end(args);
  buf_puts(g->c, " {\n");
  g->indent++;
}

void close_block(Gen *g) {
  g->indent--;
  line(g, "}");
}

void explain(Gen *g, const char *format, ...) {
  if (!g->explain) return;
  va_list args;
  va_start(args, format);
  buf_vprintf(g->explain, format, args);
  va_end(args);
  buf_putc(g->explain, '\n');
}

int line_of(Gen *g, Span span) { return ir_line(g->k, span); }

// ---- names in use: a table, since kernels may have a hundred thousand of them

static NameUse *slot_of(const NameTable *t, const char *name) {
  size_t at = (uintptr_t)name / 16 * 0x9E3779B97F4A7C15u >> 20;
  for (;; at++) {
    NameUse *use = &t->at[at % (size_t)t->capacity];
    if (!use->name || use->name == name) return use;
  }
}

static void grow_names(Arena *arena, NameTable *t) {
  NameTable old = *t;
  t->capacity = old.capacity ? 2 * old.capacity : 256;
  t->at = NEW_ARRAY(arena, NameUse, t->capacity);
  for (int i = 0; i < old.capacity; i++)
    if (old.at[i].name) *slot_of(t, old.at[i].name) = old.at[i];
}

static NameUse *use_in(Arena *arena, NameTable *t, const char *name) {
  if (2 * t->count >= t->capacity) grow_names(arena, t);
  NameUse *use = slot_of(t, name);
  if (!use->name) {
    *use = (NameUse){.name = name, .place = -1};
    t->count++;
  }
  return use;
}

static void add_known_name(Arena *arena, NameTable *t, const char *name) {
  use_in(arena, t, name)->kept = true;
}
static NameUse *use_of(Gen *g, const char *name) { return use_in(g->arena, &g->names, name); }

static bool has_place(const Gen *g, const char *name, int place) {
  return place >= 0 && place < g->taken.count && g->taken.at[place] == name;
}

static bool is_in_use(Gen *g, const char *name) {
  for (; g->names.kept < g->kept.count; g->names.kept++)
    add_known_name(g->arena, &g->names, g->kept.at[g->names.kept]);
  const NameUse *use = use_of(g, name);
  return use->kept || has_place(g, name, use->place);
}

// The numbers up to that of the last name in use that was made of `base` are taken: names are given
// up in reverse order.
static int first_number(Gen *g, const char *base) {
  NameUse *use = use_of(g, base);
  while (use->last && !has_place(g, use->last->name, use->last->place))
    use->last = use->last->before;
  int last = use->last ? use->last->number : 0;
  return (last > use->all_kept ? last : use->all_kept) + 1;
}

static void note_name(Gen *g, const char *base, const char *name, int number) {
  use_of(g, name)->place = g->taken.count;
  NumberedName *made = NEW(g->arena, NumberedName);
  *made = (NumberedName){use_of(g, base)->last, name, g->taken.count, number};
  use_of(g, base)->last = made;
  LIST_PUSH(g->arena, &g->taken, name);
}

static bool name_taken(Gen *g, const char *name) {
  return is_in_use(g, name) || name_is_reserved(name, g->role);
}

static const char *candidate(Gen *g, const char *base, int n) {
  return n == 1 ? intern(base) : text(g, "%s%d", base, n);
}

// The first of base, base2, base3, .. that is free.
static const char *free_name(Gen *g, const char *base, int *number) {
  *number = first_number(g, base);
  const char *name = candidate(g, base, *number);
  while (name_taken(g, name)) name = candidate(g, base, ++*number);
  return name;
}

const char *unique_name(Gen *g, const char *source) {
  int number;
  const char *base = intern(name_c_base(g->arena, source)), *name = free_name(g, base, &number);
  note_name(g, base, name, number);
  return name;
}

const char *lasting_name(Gen *g, const char *source) {
  int number;
  const char *base = intern(name_c_base(g->arena, source)), *name = free_name(g, base, &number);
  if (number == use_of(g, base)->all_kept + 1) use_of(g, base)->all_kept = number;
  LIST_PUSH(g->arena, &g->kept, name);
  return name;
}

static bool family_taken(Gen *g, const char *stem, const char *const *forms, int count) {
  for (int i = 0; i < count; i++)
    if (name_taken(g, text(g, forms[i], stem))) return true;
  return false;
}

const char *name_family(Gen *g, const char *source, const char *const *forms, int count) {
  const char *base = name_c_base(g->arena, source), *stem = candidate(g, base, 1);
  for (int n = 2; family_taken(g, stem, forms, count); n++) stem = candidate(g, base, n);
  for (int i = 0; i < count; i++) LIST_PUSH(g->arena, &g->kept, text(g, forms[i], stem));
  return stem;
}

const Expr *number(Gen *g, int64_t value) { return expr_const(&g->exprs, value); }

const Expr *extent_expr(Gen *g, Dim d) {
  return dim_is_const(d) ? number(g, d) : expr_symbol(&g->exprs, g->size_name[dim_size_index(d)]);
}

const Expr *demand_expr(Gen *g, Demand demand, Dim d) {
  if (!demand) return number(g, 0);
  return demand == DEMAND_FULL ? extent_expr(g, d) : demand;
}

const char *extent_text(Gen *g, Dim d) { return expr_text(extent_expr(g, d)); }
const char *demand_text(Gen *g, Demand demand, Dim d) {
  return expr_text(demand_expr(g, demand, d));
}

const Expr *grid_extent(Gen *g, int axis) {
  return expr_symbol(&g->exprs, text(g, "n_%s", g->axis_name[axis]));
}

// `pointer + offset` where the parts of a sum are added to the pointer one by one.
static const Expr *moved(Gen *g, const Expr *pointer, const Expr *offset) {
  if (offset->kind != EXPR_ADD) return expr_add(&g->exprs, pointer, offset);
  return moved(g, moved(g, pointer, offset->arg[0]), offset->arg[1]);
}

const Expr *pointer_expr(Gen *g, const char *base, const Expr *offset) {
  return moved(g, expr_symbol(&g->exprs, base), offset);
}

const char *reading(Gen *g, const char *name) { return expr_text(expr_symbol(&g->exprs, name)); }

const char *pointer_text(Gen *g, const char *base, const Expr *offset) {
  return expr_text(pointer_expr(g, base, offset));
}

const char *ctype(DType t) { return dtype_info[t].ctype; }

const char *quoted(Gen *g, const char *s) {
  Buf buf = {0};
  buf_putc(&buf, '"');
  for (; s && *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      buf_printf(&buf, "\\%c", c);
    else if (c == '?' || c < 32 || c > 126)
      buf_printf(&buf, "\\%03o", c);
    else
      buf_putc(&buf, (char)c);
  }
  buf_putc(&buf, '"');
  const char *result = intern(buf.text);
  buf_free(&buf);
  (void)g;
  return result;
}
