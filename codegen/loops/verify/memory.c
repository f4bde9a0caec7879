// The rule `memory`: every buffer is in the arena's list and, where sizes are known, large enough.
#include "codegen/loops/verify/verify.h"

static bool is_listed(const Gen *g, const Buffer *b) {
  return b->id >= 0 && b->id < g->buffers.count && g->buffers.at[b->id] == b;
}

// Does a buffer hold `dims`, laid out by its strides? True if sizes are not known yet.
static bool holds(const Buffer *b, const Expr *const *strides, int rank, const Dim *dims) {
  int64_t last = 0, bytes, stride;
  if (!expr_is_const(b->bytes, &bytes)) return true;
  for (int i = 0; i < rank; i++) {
    if (!dim_is_const(dims[i]) || !expr_is_const(strides[i], &stride)) return true;
    if (dims[i] == 0) return true;
    last = saturating_add(last, saturating_mul(dims[i] - 1, stride));
  }
  return saturating_mul(saturating_add(last, 1), dtype_bytes(b->element)) <= bytes;
}

// Does it fit its part of the arena, including a whole vector at its end?
static bool fits(const Buffer *b) {
  int64_t bytes, reserved;
  if (!expr_is_const(b->bytes, &bytes) ||
      !expr_is_const(b->copies ? b->pitch : b->reserved, &reserved))
    return true;
  return saturating_add(bytes, 64) <= reserved;
}

static void check_buffer(Verifier *x, const Buffer *b, int rank, const Dim *dims, const Instr *v,
                         const char *what) {
  if (!is_listed(x->g, b))
    broken_rule(x, "memory", v, text(x->g, "%s is not in the arena", what));
  else if (!fits(b))
    broken_rule(x, "memory", v,
                text(x->g, "%s takes more than is reserved for it in the arena", what));
  else if (!holds(b, b->stride, rank, dims))
    broken_rule(x, "memory", v, text(x->g, "%s is too small", what));
}

static void check_panels(Verifier *x, const Buffer *b, const DotKind *kind, Dim k, Dim n,
                         const Instr *v) {
  int64_t bytes, group = kind->group, panel = x->g->panel;
  if (!is_listed(x->g, b)) {
    broken_rule(x, "memory", v, "its panels are not in the arena");
  } else if (dim_is_const(k) && dim_is_const(n) && expr_is_const(b->bytes, &bytes)) {
    int64_t depth = (k + group - 1) / group * group, columns = (n + panel - 1) / panel * panel;
    int64_t count = saturating_mul(depth, columns);
    if (saturating_mul(count, dtype_bytes(b->element)) > bytes)
      broken_rule(x, "memory", v, "its panels are too small");
  }
}

static void check_operands(Verifier *x, const Instr *dot) {
  if (val(dot)->scratch && !is_listed(x->g, val(dot)->scratch))
    broken_rule(x, "memory", dot, "its left rows have no place in the arena");
  DotShape s = dot_shape(dot);
  const Type *a = &s.a->type, *b = &s.b->type;
  Dim rows[2] = {a->dim[s.a_transposed], a->dim[1 - s.a_transposed]};
  if (val(dot)->dot.left) check_buffer(x, val(dot)->dot.left, 2, rows, dot, "its left operand");
  if (val(dot)->dot.panels)
    check_panels(x, val(dot)->dot.panels, val(dot)->dot.kind, b->dim[s.b_transposed],
                 b->dim[1 - s.b_transposed], dot);
}

// The number of rows that a buffer within a group holds at a time.
static Dim rows_at_once(const Group *group) {
  if (group->strips.rows) return group->strips.buffer_rows;
  return group->has_dot ? group->lead[0] : 1;
}

static bool has_no_elements(const Type *t) {
  for (int i = 0; i < t->rank; i++)
    if (t->dim[i] == 0) return true;
  return false;
}

void check_buffers(Verifier *x, const Instr *v, const Group *group) {
  const Val *info = val(v);
  const Type *t = &v->type;
  Dim one_strip[2] = {has_no_elements(t) ? 0 : rows_at_once(group),
                      t->rank ? t->dim[t->rank - 1] : 1};
  if (info->buffer && info->row_local)
    check_buffer(x, info->buffer, 2, one_strip, v, "its buffer");
  else if (info->buffer)
    check_buffer(x, info->buffer, t->rank, t->dim, v, "its buffer");
  if (v->op == OP_DOT && group->kind == GROUP_ROWS && dot_shape(v).plain) check_operands(x, v);
  if (group->kind == GROUP_ROWS && group->strips.buffer_rows < group->strips.rows)
    broken_rule(x, "memory", v, "its group holds less than a strip");
}

void check_refs(Verifier *x) {
  for (int i = 0; i < x->g->k->refs.count; i++) {
    const RefGen *r = &x->g->refs[i];
    const Type *t = &r->ref->type;
    if (r->form == FORM_DIRECT) continue;
    if (!r->buffer || !is_listed(x->g, r->buffer)) {
      broken_rule(x, "memory", NULL, text(x->g, "%s has no place in the arena", r->ref->name));
    } else if (r->form == FORM_PANELS) {
      check_panels(x, r->buffer, r->kind, t->dim[r->transposed], t->dim[1 - r->transposed], NULL);
    } else {
      Dim swapped[2] = {t->dim[t->rank > 1], t->dim[0]};
      bool transposes = r->form == FORM_ROWS && r->transposed;
      check_buffer(x, r->buffer, t->rank, transposes ? swapped : t->dim, NULL, r->ref->name);
    }
  }
}
