// One vector of a value, or one element of it, at a place in the loops, as a C expression.
#include "codegen/emit/internal.h"

#include <string.h>

void know(Context *x, const Instr *v, const char *name, bool lanes) {
  LIST_PUSH(x->g->arena, &x->known, ((Known){v, name, lanes, NULL}));
}

static const char *known_name(const Context *x, const Instr *v, bool lanes) {
  for (int i = x->known.count - 1; i >= 0; i--)
    if (x->known.at[i].v == v && x->known.at[i].lanes == lanes) return x->known.at[i].name;
  return NULL;
}

const char *address(Context *x, const Place *p, int rank, const char *const *index) {
  const char *at = p->pointer;
  for (int i = 0; i < rank; i++) {
    const char *offset = offset_text(x->g, index[i], p->stride[i]);
    if (strcmp(offset, "0") != 0) at = text(x->g, "%s + %s", at, offset);
  }
  return at;
}

// ---- reading

static const char *splat(Context *x, DType t, const char *s) {
  return text(x->g, "pk_splat_%s(%s)",
              t == DT_BOOL  ? "mask"
              : is_float(t) ? "f32"
                            : lane_type(t),
              s);
}

// `x + i` as `x[i]`.
static const char *element_text(Context *x, const char *at) {
  const char *plus = strstr(at, " + ");
  return plus ? text(x->g, "%.*s[%s]", (int)(plus - at), at, plus + 3) : text(x->g, "%s[0]", at);
}

static const char *load_text(Context *x, const Instr *v, const Place *p, const char *const *index,
                             bool lanes, bool padded) {
  const char *at = address(x, p, v->type.rank, index), *t = dtype_info[p->element].name;
  if (!lanes) {
    if (p->element == DT_F32) return element_text(x, at);
    return text(x->g, "pks_load_%s(%s)", t, at);
  }
  if (x->left && !padded) return text(x->g, "pk_loadn_%s(%s, %s)", t, at, x->left);
  return text(x->g, "pk_load_%s(%s)", t, at);
}

// ---- windows that may leave their ref: what lies outside reads as zero

typedef struct {
  const char *row;    // pointer to the first element of a row of the ref
  const char *at;     // where in that row
  const char *guard;  // C condition: indices along the axes before lie inside; NULL: they always do
} RowPlace;

// Where element `index` of a window is, with `at` along the last axis apart when `by_row`.
static RowPlace row_place(Gen *g, const Instr *v, const char *const *index, bool by_row) {
  const RefGen *r = &g->refs[v->ref->id];
  RowPlace p = {.row = r->name, .at = "0"};
  int last = v->ref->type.rank - 1;
  for (int k = 0, axis = 0; k <= last; k++) {
    const char *step = text(g, "%lld", (long long)v->window.stride[k]),
               *lane = v->window.squeeze[k] ? "0" : mul_text(g, index[axis++], step),
               *at = add_text(g, start_text(g, v, k), lane);
    if (by_row && k == last) {
      p.at = at;
      break;
    }
    const char *offset = offset_text(g, at, r->stride[k]);
    if (strcmp(offset, "0") != 0) p.row = text(g, "%s + %s", p.row, offset);
    if (ir_axis_is_inside(v, k)) continue;
    const char *inside = text(g, "pk_is_index(%s, %s)", at, extent_text(g, v->ref->type.dim[k]));
    p.guard = p.guard ? text(g, "%s && %s", p.guard, inside) : inside;
  }
  return p;
}

// A row that surely lies inside ends where the loop does, past which its memory may end.
static const char *open_load_text(Context *x, const Instr *v, const char *const *index,
                                  bool lanes) {
  Gen *g = x->g;
  const RowPlace p = row_place(g, v, index, lanes);
  const char *t = dtype_info[g->refs[v->ref->id].element].name;
  int last = v->ref->type.rank - 1;
  if (!lanes) return text(g, "(%s ? pks_load_%s(%s) : 0)", p.guard, t, p.row);
  const char *end = ir_axis_is_inside(v, last)
                        ? add_text(g, p.at, x->left ? x->left : text(g, "%d", g->lanes))
                        : extent_text(g, v->ref->type.dim[last]);
  if (p.guard) end = text(g, "%s ? %s : 0", p.guard, end);
  return text(g, "pk_window_%s(%s, %s, %s)", t, p.row, p.at, end);
}

static const char *at_index(Context *x, const Instr *v, const char *const *index, bool lanes);

static const char *iota_text(Context *x, const Instr *v, const char *const *index, bool lanes) {
  const char *at = index[v->ival];
  if (is_row_index(v, x->g->batch)) at = text(x->g, "pk_own_row(%s, %s)", at, x->g->batch->own);
  const char *here =
      text(x->g, "(%s)(%s)", is_float(v->type.dtype) ? "int32_t" : scalar_type(v->type.dtype), at);
  bool varies = lanes && v->ival == v->type.rank - 1;
  const char *ints = !lanes   ? here
                     : varies ? text(x->g, "pk_add_i32(pk_splat_i32((int32_t)(%s)), pk_lane_i32())",
                                     index[v->ival])
                              : text(x->g, "pk_splat_i32((int32_t)(%s))", at);
  if (is_float(v->type.dtype))
    ints = text(x->g, lanes ? "pk_cast_i32_f32(%s)" : "(float)(%s)", ints);
  return narrowed(x->g, lanes ? "pk" : "pks", v->type.dtype, ints);
}

static const char *broadcast_text(Context *x, const Instr *v, const char *const *index,
                                  bool lanes) {
  const Instr *from = v->args[0];
  const char *inner[MAX_RANK];
  for (int i = 0; i < from->type.rank; i++) {
    int axis = i + v->type.rank - from->type.rank;
    inner[i] = from->type.dim[i] == v->type.dim[axis] ? index[axis] : "0";
  }
  return at_index(x, from, inner, lanes);
}

static const char *memory_text(Context *x, const Instr *v, const char *const *index, bool lanes) {
  Place p;
  REQUIRE(place_of(x->g, v, &p));
  const Val *info = val(v);
  const char *inner[MAX_RANK];
  memcpy(inner, index, sizeof inner);
  if (info->buffer && info->row_local) {
    p.stride[0] = info->buffer->stride[0];
    p.stride[1] = info->buffer->stride[1];
    const char *two[2] = {x->strip_row, index[v->type.rank - 1]};
    const char *at = address(x, &p, 2, two);
    if (lanes) return text(x->g, "pk_load_%s(%s)", dtype_info[p.element].name, at);
    return text(x->g, "pks_load_%s(%s)", dtype_info[p.element].name, at);
  }
  bool padded = info->buffer || (v->op == OP_LOAD && x->g->refs[v->ref->id].form != FORM_DIRECT &&
                                 ir_window_is_full(v));
  return load_text(x, v, &p, inner, lanes, padded);
}

static bool is_here(const Context *x, const Instr *v, bool lanes) {
  return x->group && val(v)->group == x->group && !val(v)->buffer && lanes &&
         op_is_elementwise(v->op);
}

static const char *compute_text(Context *x, const Instr *v, const char *const *index, bool lanes) {
  const char *args[4] = {0};
  if (x->holds && v->op == OP_SELECT && v->args[0] == x->holds)
    return at_index(x, v->args[1], index, lanes);
  if (compares_with_index(v)) {
    args[0] = at_index(x, v->args[0]->args[0], index, lanes);
    const char *s = scalar_text(x->g, v->args[1]->args[0]);
    return lanes ? text(x->g, "pk_%s_i32_i64(%s, %s)", op_info[v->op].name, args[0], s)
                 : scalar_op_text(x->g, v,
                                  (const char *const[]){text(x->g, "(int64_t)%s", args[0]), s});
  }
  for (int i = 0; i < v->nargs; i++) args[i] = at_index(x, v->args[i], index, lanes);
  return lanes ? vector_op_text(x->g, v, args) : scalar_op_text(x->g, v, args);
}

static const char *at_index(Context *x, const Instr *v, const char *const *index, bool lanes) {
  if (v->type.rank == 0)
    return lanes ? splat(x, v->type.dtype, scalar_text(x->g, v)) : scalar_text(x->g, v);
  int last = v->type.rank - 1;
  if (lanes && v->type.dim[last] == 1) {
    const char *inner[MAX_RANK];
    memcpy(inner, index, sizeof inner);
    inner[last] = "0";
    return splat(x, v->type.dtype, at_index(x, v, inner, false));
  }
  const char *name =
      val(v)->group == x->group || (x->group == NULL) ? known_name(x, v, lanes) : NULL;
  if (name) return name;
  if (!val(v)->snapshot || !val(v)->buffer) {
    if (v->op == OP_IOTA) return iota_text(x, v, index, lanes);
    if (v->op == OP_BROADCAST) return broadcast_text(x, v, index, lanes);
  }
  if (is_here(x, v, lanes)) return compute_text(x, v, index, lanes);
  return memory_text(x, v, index, lanes);
}

// The right-hand side of a member's own variable: what it computes, whatever has been kept of it.
static const char *member_text(Context *x, const Instr *v, bool lanes) {
  const char *const *index = x->index;
  if (v->op == OP_IOTA) return iota_text(x, v, index, lanes);
  if (v->op == OP_BROADCAST) return broadcast_text(x, v, index, lanes);
  if (v->op == OP_LOAD && ir_may_leave(v)) return open_load_text(x, v, index, lanes);
  if (v->op == OP_LOAD) {
    Place p = {0};
    place_of_access(x->g, v, &p);
    return load_text(x, v, &p, index, lanes,
                     x->g->refs[v->ref->id].form != FORM_DIRECT && ir_window_is_full(v));
  }
  if (v->op == OP_RESHAPE) {
    Place from, to;
    REQUIRE(place_of(x->g, v->args[0], &from));
    to = from;
    place_of_unit_axes(x->g, v, &from, &to);
    return load_text(x, v, &to, index, lanes, false);
  }
  return compute_text(x, v, index, lanes);
}

const char *vector_at(Context *x, const Instr *v) { return member_text(x, v, true); }
const char *element_at(Context *x, const Instr *v) { return member_text(x, v, false); }

const char *argument_at(Context *x, const Instr *v, bool lanes) {
  return at_index(x, v, x->index, lanes);
}
