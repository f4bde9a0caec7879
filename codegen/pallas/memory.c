// Windows of refs: indices, elements past the edge, masks, stores.
#include "codegen/pallas/internal.h"

#include <string.h>

static uint64_t bit_of(const Ref *ref) {
  return ref->role == REF_INPUT ? 0 : (uint64_t)1 << ref->id % 64;
}

// ---- indices

// A window of a ref, from starts.
typedef struct {
  const Ref *ref;
  const Type *seen;  // the type of the ref, or of the view of it
  const Window *window;
  Instr *const *starts;
  bool slices;        // squeezed axes are slices of one
  bool open;          // starts are not clamped: elements outside are omitted
  const Instr *copy;  // the copy that the window belongs to, or NULL
} Part;

static bool covers_axis(const Part *part, int axis) {
  const Window *w = part->window;
  bool whole = !w->length[axis] && w->size[axis] == part->seen->dim[axis] && w->stride[axis] == 1 &&
               !w->squeeze[axis];
  return whole && ir_is_const(part->starts[axis], 0);
}

static bool is_whole_axis(const Py *p, const Part *part, int axis) {
  bool grows = part->copy && p->may_grow[part->ref->id];
  return covers_axis(part, axis) && !grows;
}

// JAX refuses a constant start outside even in code that never runs.
static int64_t moved_in(const Part *part, int axis, int64_t start) {
  const Window *w = part->window;
  if (part->open || (part->copy && part->copy->flags & INSTR_EDGE)) return start;
  return ir_moved_in(start, part->seen->dim[axis], w->size[axis], w->stride[axis]);
}

// A start that may be outside is clamped, as the language defines it.
static const char *start_text(Py *p, const Part *part, int axis) {
  Instr *start = part->starts[axis];
  Dim dim = part->seen->dim[axis], size = part->window->size[axis];
  int64_t low = py(start)->bounds.low, high = py(start)->bounds.high,
          reach = (size - 1) * part->window->stride[axis] + 1;
  const char *text = py_use(p, start, PY_CHOICE);
  if (part->open) return text;
  if (part->window->length[axis]) return low >= 0 ? text : py_text(p, "jnp.maximum(%s, 0)", text);
  if (start->op == OP_CONST)
    return py_text(p, "%lld", (long long)moved_in(part, axis, start->ival));
  if (!dim_is_const(dim) || !dim_is_const(size))
    return low >= 0 ? text : py_text(p, "jnp.maximum(%s, 0)", text);
  if (low >= 0 && high <= dim - reach) return text;
  return py_text(p, "jnp.clip(%s, 0, %lld)", text, (long long)(dim - reach));
}

static bool has_stride(const Part *part) {
  for (int i = 0; i < part->seen->rank; i++)
    if (part->window->stride[i] != 1) return true;
  return false;
}

// JAX accepts strides and masks only together with slices: a squeezed axis is then a slice of one,
// and the value is reshaped.
static bool is_mixed(const Part *part, bool masked) {
  bool squeezed = false;
  for (int i = 0; i < part->seen->rank; i++) squeezed = squeezed || part->window->squeeze[i];
  return squeezed && (masked || has_stride(part));
}

static Part part_of(const Instr *v) {
  Part part = {v->ref, ir_seen(v->ref, v->chain),  &v->window, v->args, false,
               false,  op_is_dma(v->op) ? v : NULL};
  part.slices = (v->op == OP_LOAD || v->op == OP_STORE) &&
                is_mixed(&part, v->op == OP_STORE && v->flags & INSTR_MASKED);
  return part;
}

static const char *axis_text(Py *p, const Part *part, int axis) {
  const Window *w = part->window;
  const Instr *start = part->starts[axis];
  long long stride = w->stride[axis];
  if (is_whole_axis(p, part, axis)) return py_use(p, part->starts[axis], PY_CHOICE), ":";
  if (w->squeeze[axis])
    return py_text(p, part->slices ? "pl.ds(%s, 1)" : "%s", start_text(p, part, axis));
  Instr *length = part->copy ? ir_length(part->copy, w, axis) : NULL;
  if (start->op == OP_CONST && dim_is_const(w->size[axis]) && stride == 1 && !length) {
    int64_t at = moved_in(part, axis, start->ival);
    py_use(p, part->starts[axis], PY_CHOICE);
    return py_text(p, "%lld:%lld", (long long)at, (long long)(at + w->size[axis]));
  }
  const char *from = start_text(p, part, axis),
             *size = length ? py_use(p, length, PY_CHOICE) : py_dim(p, w->size[axis]);
  return stride == 1 ? py_text(p, "pl.ds(%s, %s)", from, size)
                     : py_text(p, "pl.ds(%s, %s, stride=%lld)", from, size, stride);
}

static const char *index_text(Py *p, const Part *part) {
  const char *items[MAX_RANK];
  int rank = part->seen->rank, count = rank;
  bool whole = true;
  for (int i = 0; i < rank; i++) {
    items[i] = axis_text(p, part, i);
    whole = whole && strcmp(items[i], ":") == 0;
  }
  while (count > 1 && strcmp(items[count - 1], ":") == 0) count--;
  return whole ? "..." : py_list(p, items, count);
}

// ---- past the edge

static bool yields_axis_within(const Kernel *k, const Instr *index, Dim dim) {
  if (index->op != OP_AXIS) return false;
  const Region *extent = k->grid.at[index->ival].extent;
  const Instr *n = ir_yielded(extent, 0);
  return dim_is_const(dim) ? n->op == OP_CONST && n->ival <= dim
                           : n->op == OP_SIZE && n->ival == dim_size_index(dim);
}

static bool same_size(const Instr *a, const Instr *b) {
  return a->op == OP_SIZE && b->op == OP_SIZE && a->ival == b->ival;
}

static bool is_required_multiple(const Kernel *k, const Instr *of, const Instr *factor) {
  for (int i = 0; i < k->requires.count; i++) {
    const Region *r = k->requires.at[i].condition;
    const Instr *test = ir_yielded(r, 0);
    if (test->op != OP_EQ || test->args[0]->op != OP_REM || !ir_is_const(test->args[1], 0))
      continue;
    if (same_size(test->args[0]->args[0], of) && same_size(test->args[0]->args[1], factor))
      return true;
  }
  return false;
}

// h / (H / G) on an axis h of H steps is less than G if H is required to be a multiple of G.
static bool yields_group_within(const Kernel *k, const Instr *index, Dim dim) {
  if (index->op != OP_DIV || index->args[0]->op != OP_AXIS || index->args[1]->op != OP_DIV ||
      dim_is_const(dim))
    return false;
  const Instr *all = index->args[1]->args[0], *groups = index->args[1]->args[1];
  if (all->op != OP_SIZE || groups->op != OP_SIZE || groups->ival != dim_size_index(dim))
    return false;
  return yields_axis_within(k, index->args[0], dim_of_size((int)all->ival)) &&
         is_required_multiple(k, all, groups);
}

// Is the block within the array along this axis at every step?
static bool is_inside(const Kernel *k, const Ref *ref, int axis) {
  if (!ref->index_map && !ref->operand) return true;
  const Instr *index = py_block_index(k, ref, axis);
  Dim dim = ref->array.dim[axis], block = ref->block[axis];
  if (block == dim && ir_is_const(index, 0)) return true;
  if (block != 1) return false;
  if (ref->operand) return py_step_is_within(ref, index, dim);
  return yields_axis_within(k, index, dim) || yields_group_within(k, index, dim);
}

// The start of the window in the array.
static const char *element_text(Py *p, const Instr *v, int axis, int ref_axis) {
  const Ref *ref = v->ref;
  const char *block = py_map_entry(p, ref, axis), *inner;
  if (ref_axis < 0 || ir_is_const(v->args[ref_axis], 0)) return block;
  const Part part = part_of(v);
  inner = start_text(p, &part, ref_axis);
  return strcmp(block, "0") == 0 ? inner : py_text(p, "%s + %s", block, inner);
}

static const char *padded(Py *p, const Instr *v, const char *text) {
  const Ref *ref = v->ref;
  const char *axes = "";
  int ref_axis = 0, value_axis = 0;
  for (int a = 0; a < ref->array.rank; a++) {
    bool squeezed = ref->squeeze[a], dropped = squeezed || v->window.squeeze[ref_axis];
    if (!is_inside(p->k, ref, a)) {
      int64_t stride = squeezed ? 1 : v->window.stride[ref_axis];
      p->strides = p->strides || stride != 1;
      axes = py_text(p, "%s, (%s, %s, %s%s)", axes, dropped ? "None" : py_text(p, "%d", value_axis),
                     element_text(p, v, a, squeezed ? -1 : ref_axis), py_dim(p, ref->array.dim[a]),
                     stride == 1 ? "" : py_text(p, ", %lld", (long long)stride));
    }
    if (!dropped) value_axis++;
    if (!squeezed) ref_axis++;
  }
  if (!*axes) return text;
  p->pads = true;
  return py_text(p, "_pad(%s, %s%s)", text, py_number(p, ref->array.dtype, ref->pad), axes);
}

// ---- masked windows that may leave their ref

static bool stays_inside(Py *p, const Instr *v, int axis) {
  Dim dim = v->ref->type.dim[axis], size = v->window.size[axis];
  const PyValue *start = py(v->args[axis]);
  (void)p;
  if (ir_axis_is_inside(v, axis)) return true;
  if (!dim_is_const(dim) || !dim_is_const(size)) return false;
  return start->bounds.low >= 0 &&
         start->bounds.high <= dim - (size - 1) * v->window.stride[axis] - 1;
}

static bool may_leave(Py *p, const Instr *v) {
  bool inside = !(v->flags & INSTR_MASKED);
  for (int i = 0; i < v->ref->type.rank && !inside; i++)
    if (!stays_inside(p, v, i)) return true;
  return false;
}

// Pallas omits elements past the end; it checks constant starts, and counts negative ones from the
// end.
static bool leaves_only_at_end(Py *p, const Instr *v) {
  for (int i = 0; i < v->ref->type.rank; i++) {
    bool runs =
        v->args[i]->op != OP_CONST && !py(v->args[i])->host && py(v->args[i])->bounds.low >= 0;
    if (v->window.stride[i] != 1 || (!stays_inside(p, v, i) && !runs)) return false;
  }
  return true;
}

// A start that is limited to one window length outside the ref, so that its sum with an index does
// not overflow.
static const char *near_start(Py *p, const Instr *v, int axis) {
  const Instr *start = v->args[axis];
  Dim dim = v->ref->type.dim[axis], size = v->window.size[axis];
  int64_t stride = v->window.stride[axis];
  const char *text = py_use(p, v->args[axis], PY_CHOICE), *length = py_dim(p, size);
  if (start->op == OP_CONST && dim_is_const(dim) && dim_is_const(size)) {
    int64_t least = -size * stride, at = start->ival > dim ? dim : start->ival;
    return py_text(p, "%lld", (long long)(at < least ? least : at));
  }
  if (stride != 1) length = py_text(p, "%s * %lld", length, (long long)stride);
  return py_text(p, "jnp.clip(%s, -%s, %s)", text, length, py_dim(p, dim));
}

// (start, size, stride) of each axis; size None: the axis is not in the value.
static const char *axes_of(Py *p, const Instr *v) {
  const char *axes = "";
  for (int i = 0; i < v->ref->type.rank; i++)
    axes = py_text(p, "%s, (%s, %s, %lld)", axes, near_start(p, v, i),
                   v->window.squeeze[i] ? "None" : py_dim(p, v->window.size[i]),
                   (long long)v->window.stride[i]);
  p->windows = true;
  return axes;
}

// The whole ref, like a load of it.
static const char *whole_text(Py *p, const Instr *v) {
  const Ref *ref = v->ref;
  const char *text = py_text(p, "%s[...]", p->ref[ref->id]);
  Instr whole = *v, zero = {.op = OP_CONST, .type = type_scalar(DT_I64)}, *starts[MAX_RANK];
  for (int i = 0; i < ref->type.rank; i++) starts[i] = &zero;
  whole.args = starts;
  whole.window = (Window){0};
  for (int i = 0; i < ref->type.rank; i++)
    whole.window.size[i] = ref->type.dim[i], whole.window.stride[i] = 1;
  return ref->has_pad ? padded(p, &whole, text) : text;
}

static const char *open_load(Py *p, Instr *v) {
  int rank = v->ref->type.rank;
  const char *text = whole_text(p, v), *mask = py_use(p, v->args[rank], PY_CHOICE),
             *other = v->flags & INSTR_OTHER ? py_use(p, v->args[rank + 1], PY_CHOICE) : "0";
  return py_text(p, "_load(%s, %s, %s%s)", text, mask, other, axes_of(p, v));
}

// ---- loads and stores

// The text of a load.
void py_load(Py *p, Instr *v) {
  const Ref *ref = v->ref;
  PyValue *value = py(v);
  value->reads |= bit_of(ref);
  if (p->is_carried[ref->id]) {
    value->text = p->var[ref->id];
    return;
  }
  if (may_leave(p, v)) {
    value->text = open_load(p, v);
    return;
  }
  const Part part = part_of(v);
  const char *index = index_text(p, &part);
  bool array = ref->prefetch && p->launch && !p->map;  // outside of Pallas
  value->text =
      array && !ref->type.rank ? p->ref[ref->id] : py_text(p, "%s[%s]", p->ref[ref->id], index);
  if (part.slices) value->text = py_text(p, "%s.reshape(%s)", value->text, py_shape(p, &v->type));
  if (ref->has_pad) value->text = padded(p, v, value->text);
  if (v->flags & INSTR_OTHER) {
    const char *mask = py_use(p, v->args[ref->type.rank], PY_CHOICE);
    value->text = py_text(p, "jnp.where(%s, %s, %s)", mask, value->text,
                          py_use(p, v->args[ref->type.rank + 1], PY_CHOICE));
  }
}

static const char *stored_text(Py *p, const Instr *store, Instr *v) {
  const PyValue *value = py(v);
  bool natural = v->type.dtype == DT_I32 || v->type.dtype == DT_F32 || v->type.dtype == DT_BOOL;
  if (!value->host || p->is_carried[store->ref->id]) return py_exact(p, v);
  if (v->type.rank == 0) return natural ? py_use(p, v, PY_CHOICE) : py_exact(p, v);
  if (!ir_window_is_full(store)) return py_exact(p, v);
  const char *ref = p->ref[store->ref->id], *text = py_use(p, v, PY_CHOICE);
  if (strcmp(text, "0") == 0 || strcmp(text, "0.0") == 0)
    return py_text(p, "jnp.zeros_like(%s)", ref);
  return py_text(p, "jnp.full_like(%s, %s)", ref, text);
}

static bool same_window(const Instr *a, const Instr *b) {
  if (a->ref != b->ref || a->op != OP_LOAD || a->flags || b->flags) return false;
  for (int i = 0; i < a->ref->type.rank; i++)
    if (a->args[i] != b->args[i] || a->window.size[i] != b->window.size[i] ||
        a->window.stride[i] != b->window.stride[i])
      return false;
  return true;
}

// acc[...] = acc[...] + x as acc[...] += x.
static const char *update_operator(const Instr *store, const Instr *v) {
  bool arithmetic = v->op == OP_ADD || v->op == OP_SUB || v->op == OP_MUL;
  const char *sign = arithmetic ? element_info[v->op].spelling : NULL;
  bool written = sign && py(v)->pending && py(v)->right && same_window(v->args[0], store);
  return written && strchr(py(v->args[0])->text, '[') ? sign : NULL;
}

static void store_carried(Py *p, const Instr *store) {
  const Ref *ref = store->ref;
  const char *text = stored_text(p, store, ir_store_value(store));
  py_flush(p, bit_of(ref));
  if (!p->var[ref->id]) p->var[ref->id] = py_name(p, ref->name, NULL);
  if (ref->type.rank == 0 && ref->type.dtype == DT_I64)
    text = py_text(p, py(ir_store_value(store))->host ? "jnp.int32(%s)" : "%s", text);
  py_line(p, "%s = %s", p->var[ref->id], text);
}

static const char *window_shape(Py *p, const Instr *store) {
  Type type = {.rank = store->ref->type.rank};
  for (int i = 0; i < type.rank; i++) type.dim[i] = store->window.size[i];
  return py_shape(p, &type);
}

// Writes a store.
void py_store(Py *p, Instr *store) {
  Instr *v = ir_store_value(store);
  const Ref *ref = store->ref;
  if (p->is_carried[ref->id]) {
    store_carried(p, store);
    return;
  }
  Part part = part_of(store);
  bool leaves = may_leave(p, store);
  part.open = leaves && leaves_only_at_end(p, store);
  if (leaves && !part.open) {
    const char *value = py_exact(p, v), *mask = py_exact(p, ir_mask(store)),
               *axes = axes_of(p, store);
    py_flush(p, bit_of(ref));
    py_line(p, "_store(%s, %s, %s%s)", p->ref[ref->id], value, mask, axes);
    return;
  }
  const char *sign = part.slices ? NULL : update_operator(store, v);
  const char *index = index_text(p, &part);
  const char *text = stored_text(p, store, v),
             *mask = ir_mask(store) ? py_exact(p, ir_mask(store)) : NULL;
  if (part.slices) {
    text = py_text(p, "jnp.reshape(%s, %s)", text, window_shape(p, store));
    if (mask) mask = py_text(p, "jnp.reshape(%s, %s)", mask, window_shape(p, store));
  }
  py_flush(p, bit_of(ref));
  if (mask && has_stride(&part))  // pltpu.store has no strides
    py_line(p, "%s[%s] = jnp.where(%s, %s, %s[%s])", p->ref[ref->id], index, mask, text,
            p->ref[ref->id], index);
  else if (mask)
    py_line(p, "pltpu.store(%s.at[%s], %s, mask=%s)", p->ref[ref->id], index, text, mask);
  else if (sign)
    py_line(p, "%s[%s] %s= %s", p->ref[ref->id], index, sign, py(v)->right);
  else
    py_line(p, "%s[%s] = %s", p->ref[ref->id], index, text);
}

// ---- DMAs and semaphores

static const char *semaphore_element(Py *p, const Ref *semaphore, Instr *const *index) {
  const char *items[MAX_RANK];
  for (int i = 0; i < semaphore->type.rank; i++) {
    const char *text = py_use(p, index[i], PY_CHOICE);
    bool constant = index[i]->op == OP_CONST;
    int64_t at = constant ? ir_moved_in(index[i]->ival, semaphore->type.dim[i], 1, 1) : 0;
    items[i] = constant ? py_text(p, "%lld", (long long)at) : text;
  }
  const char *name = p->ref[semaphore->id];
  return semaphore->type.rank
             ? py_text(p, "%s.at[%s]", name, py_list(p, items, semaphore->type.rank))
             : name;
}

static const char *semaphore_text(Py *p, const Instr *v) {
  return semaphore_element(p, v->semaphore, ir_semaphore_index(v));
}

// device_id={"x": 1, "y": lax.axis_index("y")}
static const char *device_text(Py *p, const Instr *v) {
  const char *items = "";
  for (int i = 0; i < p->k->mesh.count; i++)
    items = py_text(p, "%s%s%s: %s", items, i ? ", " : "", py_quoted(p, p->k->mesh.at[i].name),
                    py_use(p, ir_device_index(v)[i], PY_CHOICE));
  return py_text(p, "device_id={%s}", items);
}

// The padding at the end of an array is that of the largest window that may exceed it.
static void add_padding(Py *p, const Part *part, const char *filler, Span span) {
  PyPadding *padding = &p->padding[part->ref->id];
  for (int i = 0; i < part->seen->rank; i++) {
    if (covers_axis(part, i) || part->window->squeeze[i]) continue;
    if (py(part->starts[i])->bounds.low < 0)
      py_fail(p, span, "a copy that may begin before its array");
    if (!dim_is_const(part->window->size[i]))
      py_fail(p, span, "a copy of run-time size that may go past its array");
    if (part->window->size[i] > padding->after[i]) padding->after[i] = part->window->size[i];
  }
  if (!filler) return;
  if (padding->filler && strcmp(padding->filler, filler) != 0)
    py_fail(p, span, "copies of one array with different values past its end");
  padding->filler = filler;
}

static const char *step_text(Py *p, const ChainStep *step, const Type *before, Instr *const *starts,
                             const Instr *copy, const Ref *ref) {
  const char *items[MAX_RANK];
  Part part = {ref, before, &step->window, starts, false, false, copy};
  switch (step->kind) {
    case CHAIN_WINDOW:
      return py_text(p, ".at[%s]", index_text(p, &part));
    case CHAIN_BITCAST:
      return py_text(p, ".bitcast(%s)", py_dtype(step->type.dtype));
    case CHAIN_RESHAPE:
      for (int i = 0; i < step->type.rank; i++) items[i] = py_dim(p, step->type.dim[i]);
      return py_text(p, ".reshape((%s,))", py_list(p, items, step->type.rank));
    default:
      for (int i = 0; i < step->type.rank; i++) items[i] = py_text(p, "%d", step->perm[i]);
      return py_text(p, ".transpose((%s))", py_list(p, items, step->type.rank));
  }
}

static const char *end_text(Py *p, const Instr *copy, const Part *part, bool target) {
  const Chain *chain = target ? copy->target_chain : copy->chain;
  Instr *const *starts = ir_chain_args(copy, target);
  const char *text = p->ref[part->ref->id];
  const Type *before = &part->ref->type;
  for (int i = 0; chain && i < chain->count; before = &chain->at[i++].type) {
    text = py_text(p, "%s%s", text, step_text(p, &chain->at[i], before, starts, copy, part->ref));
    if (chain->at[i].kind == CHAIN_WINDOW) starts += before->rank;
  }
  const char *index = index_text(p, part);
  return strcmp(index, "...") == 0 ? text : py_text(p, "%s.at[%s]", text, index);
}

// A copy is traced even if it is never executed, so its array must be as large as its window.
static void note_least(Py *p, const Part *part) {
  for (int i = 0; i < part->seen->rank; i++) {
    int64_t reach = (part->window->size[i] - 1) * part->window->stride[i] + 1,
            *least = &p->padding[part->ref->id].least[i];
    if (!part->window->length[i] && dim_is_const(part->window->size[i]) &&
        !dim_is_const(part->seen->dim[i]) && reach > *least)
      *least = reach;
  }
}

// Writes the start of a copy or the wait for it.
void py_copy(Py *p, Instr *v) {
  const Part from = part_of(v), to = {v->target,
                                      ir_seen(v->target, v->target_chain),
                                      &v->target_window,
                                      ir_starts(v, true),
                                      false,
                                      false,
                                      v};
  if (v->flags & INSTR_EDGE) {
    const Instr *other = v->flags & INSTR_OTHER ? v->args[v->nargs - 1] : NULL;
    if (from.ref->space == SPACE_ANY)
      add_padding(p, &from, other ? py(other)->text : NULL, v->span);
    if (to.ref->space == SPACE_ANY) add_padding(p, &to, NULL, v->span);
  }
  if (from.ref->space == SPACE_ANY && !v->chain) note_least(p, &from);
  const char *source = end_text(p, v, &from, false), *target = end_text(p, v, &to, true),
             *semaphore = semaphore_text(p, v);
  const char *priority =
      v->op == OP_COPY_START && v->ival ? py_text(p, "priority=%lld", (long long)v->ival) : "";
  py_flush(p, bit_of(v->target));
  if (v->semaphore->semaphore == SEM_REGULAR) {  // Pallas itself adds a number to such a semaphore
    py_line(p, "pltpu.sync_copy(%s, %s)", source, target);
    py_line(p, "pl.semaphore_signal(%s, 1)", semaphore);
    return;
  }
  if (v->op == OP_REMOTE_START) {
    const char *arrived = semaphore_element(p, v->receive, ir_receive_index(v));
    py_line(p, "pltpu.make_async_remote_copy(%s, %s, %s, %s, %s).start()", source, target,
            semaphore, arrived, device_text(p, v));
    return;
  }
  py_line(p, "pltpu.make_async_copy(%s, %s, %s).%s(%s)", source, target, semaphore,
          v->op == OP_COPY_START ? "start" : "wait", priority);
}

void py_semaphore(Py *p, Instr *v) {
  const char *semaphore = semaphore_text(p, v);
  if (v->op == OP_SEM_READ) {
    py(v)->text = py_text(p, "pl.semaphore_read(%s)", semaphore);
    py(v)->type = v->type;
    py_assign(p, v, v->text ? v->text : "count");
    return;
  }
  const char *count = py_use(p, ir_amount(v), PY_CHOICE);
  if (v->op == OP_REMOTE_SIGNAL)
    py_line(p, "pl.semaphore_signal(%s, %s, %s)", semaphore, count, device_text(p, v));
  else
    py_line(p, "pl.semaphore_%s(%s, %s)", v->op == OP_SEM_SIGNAL ? "signal" : "wait", semaphore,
            count);
}
