// Copies of views as C: positions in both refs, and the digits that add to them.
#include "codegen/emit/internal.h"

const Expr *layout_extent(Gen *g, const Instr *v, const Extent *e) {
  const Expr *product = number(g, e->factor);
  int sizes = g->k->sizes.count;
  for (int i = 0; i < e->sizes; i++) {
    int size = e->size[i], first = v->nargs - ir_length_count(v);
    product = expr_mul(&g->exprs, product,
                       size < sizes ? extent_expr(g, dim_of_size(size))
                                    : scalar_expr(g, v->args[first + size - sizes]));
  }
  return product;
}

const Expr *place_start(Gen *g, const LayoutPlace *p) {
  const Expr *constant = number(g, p->constant);
  return p->start ? expr_add(&g->exprs, scalar_expr(g, p->start), constant) : constant;
}

// The unit of positions: bytes, or parts of an element of the ref that are smaller than a byte.
static int unit_bits(const Layout *l) {
  int64_t part = layout_part_bits(l);
  return part < 8 && part < dtype_info[l->ref->type.dtype].bits ? (int)part : 8;
}

// The distance between elements of an axis in units; if elements share bytes and are not seen in
// parts, in elements.
static const char *stride_text(Gen *g, const Layout *l, int axis) {
  const Ref *ref = l->ref;
  int64_t units = dtype_bytes(ref->type.dtype) * 8 / unit_bits(l);
  if (ref->packed && ref->space == SPACE_ANY && units > 1)  // the caller chooses
    return text(g, "(call->array[%d].packed ? %d : %lld) * call->array[%d].stride[%d]", ref->id,
                dtype_info[ref->type.dtype].bits / unit_bits(l), (long long)units, ref->id, axis);
  if (ref->space == SPACE_ANY)
    return units == 1
               ? text(g, "call->array[%d].stride[%d]", ref->id, axis)
               : text(g, "%lld * call->array[%d].stride[%d]", (long long)units, ref->id, axis);
  return expr_text(expr_mul(&g->exprs, g->refs[ref->id].stride[axis], number(g, units)));
}

// Steps along the bits of an element are in units in C.
static const Expr *step_expr(Gen *g, const Instr *v, const Layout *l, const Digit *d) {
  Extent step = d->step;
  if (d->place == l->ref->type.rank) step.factor /= unit_bits(l);
  return layout_extent(g, v, &step);
}

static const char *digits_text(Gen *g, const Instr *v, const Layout *l, const Digits *digits) {
  const char *list = "";
  for (int i = 0; i < digits->count; i++) {
    const Digit *d = &digits->at[i];
    list =
        text(g, "%s%s{%s, %s, %d}", list, i ? ", " : "", expr_text(layout_extent(g, v, &d->extent)),
             expr_text(step_expr(g, v, l, d)), d->place);
  }
  return list;
}

static const char *view_place_text(Gen *g, const Instr *v, const Layout *l, int place) {
  const LayoutPlace *p = &l->place[place];
  int rank = l->ref->type.rank;
  const char *bound = expr_text(layout_extent(g, v, &p->bound));
  if (place == rank)
    return text(g, "{%lld, INT64_MAX, 1, 0, NULL}", (long long)(p->constant / unit_bits(l)));
  const char *start = expr_text(place_start(g, p));
  if (place < rank) return text(g, "{%s, %s, %s, 0, NULL}", start, bound, stride_text(g, l, place));
  if (p->digits.count == 0) return text(g, "{%s, %s, 0, 0, NULL}", start, bound);
  return text(g, "{%s, %s, 0, %d, (const pk_view_digit[]){%s}}", start, bound, p->digits.count,
              digits_text(g, v, l, &p->digits));
}

static void declare_view(CWriter *w, const Instr *v, const Layout *l, const char *name) {
  Gen *g = w->g;
  const Ref *ref = l->ref;
  const char *data = ref->space == SPACE_ANY
                         ? text(g, "%s->array[%d].data", reading(g, "call"), ref->id)
                         : text(g, "(char *)%s", reading(g, g->refs[ref->id].name)),
             *packed = unit_bits(l) < 8 ? text(g, "%d", unit_bits(l))
                       : ref->packed && ref->space == SPACE_ANY
                           ? text(g, "call->array[%d].packed", ref->id)
                           : "0";
  line(w, "const pk_view_place %s_place[] = {", name);
  for (int p = 0; p < l->places; p++)
    line(w, "  %s%s", view_place_text(g, v, l, p), p + 1 < l->places ? "," : "");
  line(w, "};");
  line(w, "const pk_seen %s = {%s, %s, %d, %s_place};", name, data, packed, l->places, name);
}

static void declare_digits(CWriter *w, const Instr *v, const Layout *from, const Layout *to,
                           int *count) {
  Gen *g = w->g;
  line(w, "const pk_move_digit digit[] = {");
  for (int k = 0; k <= from->rank; k++)
    for (int i = 0; i < from->axis[k].count - (k == from->rank); i++, (*count)++) {
      const Digit *a = &from->axis[k].at[i], *b = &to->axis[k].at[i];
      line(w, "  {%s, {%s, %s}, {%d, %d}},", expr_text(layout_extent(g, v, &a->extent)),
           expr_text(step_expr(g, v, from, a)), expr_text(step_expr(g, v, to, b)), a->place,
           b->place);
    }
  line(w, "  {1, {0, 0}, {0, 0}}");  // an array has an element
  line(w, "};");
}

// Declares both ends and their digits, the number of digits, and the bytes of a part.
static int declare_copy(CWriter *w, const Instr *v, Layout *from, Layout *to, int64_t *part) {
  Gen *g = w->g;
  int count = 0;
  REQUIRE(ir_layout(g->k, v, false, from) && ir_layout(g->k, v, true, to) &&
          layout_pair(g->k, from, to));
  declare_view(w, v, from, "from");
  declare_view(w, v, to, "to");
  declare_digits(w, v, from, to, &count);
  int64_t bits = layout_part_bits(from);
  *part = bits < 8 ? 1 : bits / 8;
  return count;
}

void emit_seen_copy(CWriter *w, const Instr *v, const char *bytes, const char *semaphore) {
  Gen *g = w->g;
  Layout *from = NEW(g->arena, Layout), *to = NEW(g->arena, Layout);
  int64_t part;
  int count = declare_copy(w, v, from, to, &part);
  line(w, "pk_copy_view(%s, %lld, %d, digit, &from, &to, %s, %s);", reading(g, "worker"),
       (long long)part, count, bytes, semaphore);
}

void emit_remote_view(CWriter *w, const Instr *v, const char *bytes, const char *end,
                      const char *device) {
  Gen *g = w->g;
  Layout *from = NEW(g->arena, Layout), *to = NEW(g->arena, Layout);
  int64_t part;
  int count = declare_copy(w, v, from, to, &part), rank = to->ref->type.rank;
  int64_t bits = layout_part_bits(to),
          seen = dtype_info[ir_seen(v->target, v->target_chain)->dtype].bits;
  bool parts = bits < dtype_info[to->ref->type.dtype].bits;
  line(w, "const pk_remote_end end = {%d, %lld, %lld, %s};", rank + parts,
       parts ? (long long)bits : 0, bits < 8 ? (long long)((seen < 8 ? seen : 8) / bits) : 1, end);
  line(w, "pk_remote_view(%s, %lld, %d, digit, &from, &to, %s, &end, %s);", reading(g, "worker"),
       (long long)part, count, bytes, device);
}
