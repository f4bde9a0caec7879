// Built-in functions of refs, the grid and the outside: load, store, program_id, accum, print,
// assert.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

// The window of a load; of a view, in a var that has what the window reaches.
static bool lower_loaded(Lower *l, const Node *node, bool masked, View *view) {
  const RefView *folded = folded_view(l, node);
  Reach reach;
  if (!folded || node->kind != N_INDEX) return lower_view(l, node, masked, view);
  if (!reach_view(l, node, folded, &reach)) return false;
  *view = loaded_reach(l, &reach, node->span);
  return true;
}

static Value load_part(Lower *l, const Node *window, const RefView *view) {
  RefView part;
  return window_of_view(l, window, view, &part) ? read_view(l, &part, window->span) : value_error();
}

// The function load, with mask and other.
static Value lower_load(Lower *l, const Call *call) {
  View view;
  const RefView *folded = folded_view(l, call->arg[0]);
  Instr *mask = NULL, *other = NULL;
  Span span = call->node->span;
  if (folded && call->arg[0]->kind == N_INDEX && !call->arg[1] && !call->arg[2])
    return load_part(l, call->arg[0], folded);
  if (!lower_loaded(l, call->arg[0], call->arg[1] != NULL, &view)) return value_error();
  if (call->arg[1]) {
    Value m = lower_expr(l, call->arg[1]);
    if (!(mask = convert(l, m, DT_BOOL, call->arg[1]->span, "the mask"))) return value_error();
  }
  if (call->arg[2]) {
    Value o = lower_expr(l, call->arg[2]);
    if (!(other = convert(l, o, view.type.dtype, call->arg[2]->span, "`other`")))
      return value_error();
  }
  if (other && !mask) {
    diag_error(l->diag, call->arg[2]->span, ERR_ARGUMENT_COUNT,
               "`other` replaces elements that a mask excludes: give `mask =` too");
    return value_error();
  }
  for (int i = 0; i < 2; i++) {
    Instr **v = i ? &other : &mask;
    if (!*v) continue;
    if (!can_broadcast(&(*v)->type, &view.type)) {
      diag_error(l->diag, call->arg[1 + i]->span, ERR_SHAPE_MISMATCH,
                 "%s of shape %s does not fit a window of shape %s", i ? "`other`" : "a mask",
                 shape_text(l, &(*v)->type), shape_text(l, &view.type));
      return value_error();
    }
    *v = broadcast_to(l, *v, &view.type, span);
  }
  return value_data(load_view(l, &view, mask, other, span));
}

static void store_to_view(Lower *l, const Node *window, const RefView *view, Value v, Value mask,
                          Span span) {
  RefView part;
  Reach reach;
  if (!check_storable(l, viewed_ref(view), window->span)) return;
  if (is_all_of(window)) {
    write_view(l, view, v, mask, span);
  } else if (mask.kind == V_VOID) {
    if (window_of_view(l, window, view, &part)) write_view(l, &part, v, mask, span);
  } else if (reach_view(l, window, view, &reach)) {
    store_reach(l, &reach, v, mask, span);
  }
}

static Value lower_store(Lower *l, const Call *call) {
  View view;
  const Node *window = call->arg[0];
  const RefView *folded = window->kind == N_INDEX ? folded_view(l, window) : NULL;
  Value v = lower_expr(l, call->arg[1]), mask = {.kind = V_VOID};
  if (call->arg[2]) mask = lower_expr(l, call->arg[2]);
  if (is_error(v) || is_error(mask)) return value_error();
  if (folded) {
    store_to_view(l, window, folded, v, mask, call->node->span);
    return (Value){.kind = V_VOID};
  }
  if (!lower_view(l, window, call->arg[2] != NULL, &view) ||
      !check_storable(l, view.ref, window->span))
    return value_error();
  store_view(l, &view, v, mask, call->node->span);
  return (Value){.kind = V_VOID};
}

// ---- the grid

// An argument that names a grid axis, or gives its number.
static bool lower_grid_axis(Lower *l, const Node *node, int *axis) {
  Symbol *s = node->kind == N_NAME ? find_symbol(l, node->name) : NULL;
  if (s && s->kind == SYM_AXIS) {
    *axis = s->index;
    return true;
  }
  const Instr *passed = s && s->value.kind == V_DATA ? s->value.instr : NULL;
  if (passed && passed->op == OP_AXIS) {
    *axis = (int)passed->ival;
    return true;
  }
  int64_t number;
  if (!lower_static_int(l, node, "a grid axis", &number)) return false;
  if (number < 0 || number >= l->k->grid.count) {
    diag_error(l->diag, node->span, ERR_AXIS_RANGE, "there is no grid axis %lld: the grid has %d",
               (long long)number, l->k->grid.count);
    return false;
  }
  *axis = (int)number;
  return true;
}

static Value lower_program(Lower *l, const Call *call) {
  int axis;
  if (l->place != IN_MAP && l->place != IN_BODY) {
    diag_error(l->diag, call->node->span, ERR_NOT_VISIBLE,
               "%s belongs to a grid step: use it in index maps and the body", call->builtin->name);
    return value_error();
  }
  const Node *named = call->arg[0];
  Symbol *s = named->kind == N_NAME ? find_symbol(l, named->name) : NULL;
  if (s && s->extent) return call->builtin->op == OP_EXTENT ? value_data(s->extent) : s->value;
  if (!lower_grid_axis(l, call->arg[0], &axis)) return value_error();
  Instr *v = emit(l, (Op)call->builtin->op, type_scalar(DT_I64), call->node->span, 0, NULL);
  v->ival = axis;
  return value_data(v);
}

static Value lower_accum(Lower *l, const Call *call) {
  DType dtype;
  return lower_dtype(l, call->arg[0], &dtype) ? value_dtype(dtype_accum(dtype)) : value_error();
}

// ---- print, assert

static bool in_body(Lower *l, const Call *call) {
  if (l->place == IN_BODY && !l->prelude) return true;
  diag_error(l->diag, call->node->span, ERR_NOT_VISIBLE, "%s is allowed only in the body",
             call->builtin->name);
  return false;
}

static int count_holes(const char *text) {
  int count = 0;
  for (; (text = strstr(text, "{}")) != NULL; text += 2) count++;
  return count;
}

// The function print.
static Value lower_print(Lower *l, const Call *call) {
  Value text = lower_expr(l, call->arg[0]);
  if (is_error(text) || !in_body(l, call)) return value_error();
  if (text.kind != V_STRING) {
    diag_error(l->diag, call->arg[0]->span, ERR_BAD_ARGUMENT,
               "print takes a text first, as in print(\"m = {}\", m)");
    return value_error();
  }
  Instr **args = NEW_ARRAY(l->arena, Instr *, call->rest_count + 1);
  for (int i = 0; i < call->rest_count; i++) {
    Value v = lower_expr(l, call->rest[i]);
    bool wide = v.kind == V_INT && !static_fits(v, DT_I32);
    if (!(args[i] = wide ? constant_of(l, v, DT_I64, call->rest[i]->span)
                         : data_of(l, v, call->rest[i]->span)))
      return value_error();
  }
  const char *format = text.text;
  int holes = count_holes(format);
  if (holes > call->rest_count) {
    diag_error(l->diag, call->arg[0]->span, ERR_ARGUMENT_COUNT, "the text has %d {} for %d values",
               holes, call->rest_count);
    return value_error();
  }
  for (; holes < call->rest_count; holes++) format = arena_printf(l->arena, "%s {}", format);
  emit(l, OP_PRINT, no_result, call->node->span, call->rest_count, args)->text = format;
  return (Value){.kind = V_VOID};
}

static Value lower_assert(Lower *l, const Call *call) {
  Value c, text = {.kind = V_STRING, .text = "assertion failed"};
  if (!in_body(l, call) || !lower_condition(l, call->arg[0], &c)) return value_error();
  if (call->arg[1]) text = lower_expr(l, call->arg[1]);
  if (is_error(text)) return text;
  if (text.kind != V_STRING) {
    diag_error(l->diag, call->arg[1]->span, ERR_BAD_ARGUMENT, "the message of assert is a text");
    return value_error();
  }
  Instr *condition = data_of(l, c, call->arg[0]->span);
  if (condition) emit1(l, OP_ASSERT, no_result, call->node->span, condition)->text = text.text;
  return (Value){.kind = V_VOID};
}

const Builtin other_builtins[] = {
    {"load", lower_load, 0, "window mask? other?"},
    {"store", lower_store, 0, "window v mask?"},
    {"program_id", lower_program, OP_AXIS, "axis"},
    {"num_programs", lower_program, OP_EXTENT, "axis"},
    {"accum", lower_accum, 0, "dtype"},
    {"print", lower_print, 0, "text v*"},
    {"assert", lower_assert, 0, "c text?"},
    {0},
};
