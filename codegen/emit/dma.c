// Explicit memory as C: copies between windows, semaphores, the scratch of `scoped`.
#include "codegen/emit/internal.h"

#include <string.h>

static const char *braces(Gen *g, const char *list) { return text(g, "{%s}", *list ? list : "0"); }

// The shape and strides of the array or buffer that contains a window.
static const char *ground_text(Gen *g, const Ref *ref) {
  const RefGen *r = &g->refs[ref->id];
  if (ref->space == SPACE_ANY)
    return text(g, "%s->array[%d].data, %d, call->array[%d].dim, call->array[%d].stride",
                reading(g, "call"), ref->id, ref->type.rank, ref->id, ref->id);
  const char *dims = "", *strides = "";
  for (int i = 0; i < ref->type.rank; i++) {
    dims = text(g, "%s%s%s", dims, i ? ", " : "", extent_text(g, ref->type.dim[i]));
    strides = text(g, "%s%s%s", strides, i ? ", " : "", expr_text(r->stride[i]));
  }
  return text(g, "(char *)%s, %d, (const int64_t[])%s, (const int64_t[])%s", reading(g, r->name),
              ref->type.rank, braces(g, dims), braces(g, strides));
}

static const Expr *length_expr(Gen *g, const Instr *v, const Window *window, int axis) {
  const Instr *length = ir_length(v, window, axis);
  return length ? scalar_expr(g, length) : extent_expr(g, window->size[axis]);
}

// A window's start, size and step as text, for each axis of its ref.
typedef struct {
  const char *start, *size, *step;
} WindowText;

static void add_axis(Gen *g, WindowText *t, const char *start, const Expr *size, const Expr *step) {
  const char *comma = *t->start ? ", " : "";
  t->start = text(g, "%s%s%s", t->start, comma, start);
  t->size = text(g, "%s%s%s", t->size, comma, expr_text(size));
  t->step = text(g, "%s%s%s", t->step, comma, expr_text(step));
}

static const char *close_window(Gen *g, const Ref *ref, const WindowText *t) {
  return text(g, "{%s, %s, %s, %s}", ground_text(g, ref), braces(g, t->start), braces(g, t->size),
              braces(g, t->step));
}

static const char *window_text(Gen *g, const Instr *v, bool target) {
  const Ref *ref = target ? v->target : v->ref;
  const Window *window = target ? &v->target_window : &v->window;
  Instr *const *starts = ir_starts(v, target);
  WindowText t = {"", "", ""};
  for (int i = 0; i < ref->type.rank; i++)
    add_axis(g, &t, scalar_text(g, starts[i]), length_expr(g, v, window, i),
             number(g, window->stride[i]));
  return close_window(g, ref, &t);
}

// A view that is a window of its ref.
static const char *seen_window_text(Gen *g, const Instr *v, const Layout *l,
                                    const Digit *const *digit) {
  WindowText t = {"", "", ""};
  for (int i = 0; i < l->ref->type.rank; i++)
    add_axis(g, &t, expr_text(place_start(g, &l->place[i])),
             digit[i] ? layout_extent(g, v, &digit[i]->extent) : number(g, 1),
             digit[i] ? layout_extent(g, v, &digit[i]->step) : number(g, 1));
  return close_window(g, l->ref, &t);
}

static const char *element_text(Gen *g, const Ref *ref, Instr *const *index) {
  const RefGen *r = &g->refs[ref->id];
  const Expr *at = number(g, 0);
  for (int i = 0; i < ref->type.rank; i++) {
    if (ir_is_const(index[i], 0)) continue;
    const Expr *inside = expr_call(&g->exprs, "pk_start", scalar_expr(g, index[i]),
                                   number(g, ref->type.dim[i] - 1), NULL);
    at = expr_add(&g->exprs, at, expr_mul(&g->exprs, inside, r->stride[i]));
  }
  return pointer_text(g, r->name, at);
}

static const char *semaphore_text(Gen *g, const Instr *v) {
  return element_text(g, v->semaphore, ir_semaphore_index(v));
}

// Of the target's window.
static const char *window_bytes(Gen *g, const Instr *v) {
  const Type *seen = ir_seen(v->target, v->target_chain);
  const Expr *bytes = number(g, dtype_bytes(seen->dtype));
  for (int i = 0; i < seen->rank; i++)
    bytes = expr_sat_mul(&g->exprs, bytes, length_expr(g, v, &v->target_window, i));
  return expr_text(bytes);
}

static const char *other_text(Gen *g, const Instr *v) {
  return v->flags & INSTR_OTHER ? element_pointer(g, v->args[v->nargs - 1]) : "NULL";
}

// The other device's index along each axis of the mesh.
static const char *device_text(Gen *g, const Instr *v) {
  Instr *const *index = ir_device_index(v);
  const char *list = "";
  for (int i = 0; i < g->k->mesh.count; i++)
    list = text(g, "%s%s%s", list, i ? ", " : "", scalar_text(g, index[i]));
  return text(g, "(const int64_t[])%s, %s", braces(g, list),
              quoted(g, text(g, "line %d names a device outside the mesh", line_of(g, v->span))));
}

// An array in HBM is reached through the other device's table of operands, all other memory through
// its arena.
static void emit_remote_copy(CWriter *w, const Instr *v, bool windows) {
  Gen *g = w->g;
  int operand = v->target->space == SPACE_ANY ? v->target->id : -1;
  if (!windows) {
    emit_remote_view(w, v, window_bytes(g, v),
                     text(g, "%d, %s, %s", operand, semaphore_text(g, v),
                          element_text(g, v->receive, ir_receive_index(v))),
                     device_text(g, v));
    return;
  }
  line(w, "pk_remote_copy(%s, %s, &from, &to, %d, %s, %s, %s);", reading(g, "worker"),
       pk_dtype_name(v->ref->type.dtype), operand, semaphore_text(g, v),
       element_text(g, v->receive, ir_receive_index(v)), device_text(g, v));
}

static bool is_packed(const Ref *ref) { return ref->packed && ref->space == SPACE_ANY; }

static const char *packed_text(Gen *g, const Ref *ref) {
  return is_packed(ref) ? text(g, "call->array[%d].packed", ref->id) : "0";
}

// The function and both ends of a copy on this device.
static const char *ends_text(Gen *g, const Ref *from, const Ref *to) {
  const char *worker = reading(g, "worker"), *dtype = pk_dtype_name(from->type.dtype);
  if (!is_packed(from) && !is_packed(to))
    return text(g, "pk_copy_start(%s, %s, &from, &to", worker, dtype);
  return text(g, "pk_copy_packed(%s, %s, &from, %s, &to, %s", worker, dtype, packed_text(g, from),
              packed_text(g, to));
}

// Declares both windows; false: a view is not a window of its ref, and nothing is written.
static bool declare_windows(CWriter *w, const Instr *v) {
  Gen *g = w->g;
  Layout *from = NEW(g->arena, Layout), *to = NEW(g->arena, Layout);
  const Digit *digit[2][MAX_RANK];
  bool views = ir_copies_views(v);
  if (views) {
    REQUIRE(ir_layout(g->k, v, false, from) && ir_layout(g->k, v, true, to));
    if (!layout_is_window(from, digit[0]) || !layout_is_window(to, digit[1])) return false;
  }
  line(w, "const pk_window from = %s;",
       views ? seen_window_text(g, v, from, digit[0]) : window_text(g, v, false));
  line(w, "const pk_window to = %s;",
       views ? seen_window_text(g, v, to, digit[1]) : window_text(g, v, true));
  return true;
}

// Writes an explicit copy, to this device or to another one.
static void emit_copy(CWriter *w, const Instr *v) {
  Gen *g = w->g;
  const Ref *from = v->ref, *to = v->target;
  line(w, "{");
  w->indent++;
  bool windows = declare_windows(w, v),
       counts_bytes = v->op != OP_MOVE && v->semaphore->semaphore == SEM_DMA;
  if (v->op == OP_REMOTE_START) {
    emit_remote_copy(w, v, windows);
    close_block(w);
    return;
  }
  bool shared = g->k->mesh.count;  // others may add to the semaphore
  const char *semaphore = counts_bytes && !shared ? semaphore_text(g, v) : "NULL";
  if (windows)
    line(w, "%s, %s, %s);", ends_text(g, from, to), other_text(g, v), semaphore);
  else
    emit_seen_copy(w, v, window_bytes(g, v), semaphore);
  if (v->op == OP_MOVE) {
    close_block(w);
    return;
  }
  if (shared)
    line(w, "pk_device_signal(%s, %s, %s);", reading(g, "worker"), semaphore_text(g, v),
         counts_bytes ? window_bytes(g, v) : "1");
  else if (!counts_bytes)
    line(w, "pk_semaphore_signal(%s, 1);", semaphore_text(g, v));
  close_block(w);
}

static void emit_wait(CWriter *w, const Instr *v, const char *amount, const char *unit) {
  Gen *g = w->g;
  line(w, "pk_%s_wait(%s, %s, %s, %s);", g->k->mesh.count ? "device" : "semaphore",
       reading(g, "worker"), semaphore_text(g, v), amount,
       quoted(g, text(g, "deadlock: line %d waits for%s on `%s` that nothing brings",
                      line_of(g, v->span), unit, v->semaphore->name)));
}

// Writes an instruction of explicit memory: copies, signals, waits.
void emit_dma(CWriter *w, Instr *v) {
  Gen *g = w->g;
  switch (v->op) {
    case OP_MOVE:
    case OP_COPY_START:
    case OP_REMOTE_START:
      emit_copy(w, v);
      break;
    case OP_REMOTE_SIGNAL:
      line(w, "pk_remote_signal(%s, %s, %s, %s);", reading(g, "worker"), semaphore_text(g, v),
           scalar_text(g, ir_amount(v)), device_text(g, v));
      break;
    case OP_COPY_WAIT:
      emit_wait(w, v, window_bytes(g, v), " bytes");
      break;
    case OP_SEM_SIGNAL:
      if (g->k->mesh.count)
        line(w, "pk_device_signal(%s, %s, %s);", reading(g, "worker"), semaphore_text(g, v),
             scalar_text(g, ir_amount(v)));
      else
        line(w, "pk_semaphore_signal(%s, %s);", semaphore_text(g, v), scalar_text(g, ir_amount(v)));
      break;
    case OP_SEM_WAIT:
      emit_wait(w, v, scalar_text(g, v->args[v->nargs - 1]), " signals");
      break;
    case OP_SEM_READ:
      expr_name(val(v)->scalar, lasting_name(&w->names, v->text ? v->text : text(g, "v%d", v->id)));
      line(w,
           g->k->mesh.count ? "const int32_t %s = (int32_t)pk_device_read(%s, %s);"
                            : "const int32_t %s = (int32_t)*(%s%s);",
           expr_text(val(v)->scalar), g->k->mesh.count ? reading(g, "worker") : "",
           semaphore_text(g, v));
      break;
    default:
      INTERNAL("%s is not an operation on copies, semaphores or scratch", op_info[v->op].name);
  }
}

// Semaphores hold 0 when their life begins. Those of a kernel with a mesh are cleared before any
// device begins.
void clear_semaphores(CWriter *w, const Instr *scope) {
  Gen *g = w->g;
  if (g->k->mesh.count && !scope) return;
  for (int i = 0; i < g->k->refs.count; i++) {
    const RefGen *r = &g->refs[i];
    if (r->ref->space == SPACE_SEM && r->ref->scope == scope)
      line(w, "memset(%s, 0, %s);", reading(g, r->name), expr_text(r->buffer->bytes));
  }
}
