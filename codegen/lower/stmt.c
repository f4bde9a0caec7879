// Statements.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

static void lower_items(Lower *l, const Node *items);  // in a scope of its own

// ---- names and assignments

// Generated code and `explain` call it by its name.
static void bind(Lower *l, const Node *name, Value v) {
  if (v.kind == V_DATA && !v.instr->text && op_info[v.instr->op].class != OPC_CONTROL)
    v.instr->text = name->name;
  declare(l, SYM_LET, name->name, name->span)->value = v;
}

static void declare_several(Lower *l, const Node *node) {
  Value v = lower_expr(l, node->a);
  for (int i = 0; i < node->list.count; i++)
    bind(l, node->list.at[i], one_of_several(l, node->a, v, i, node->list.count));
}

static void declare_let(Lower *l, const Node *node) {
  if (node->list.count) {
    declare_several(l, node);
    return;
  }
  Value v = lower_expr(l, node->a);
  if (v.kind == V_VOID) {
    diag_error(l->diag, node->a->span, ERR_NO_RESULT, "this expression has no value");
    v = value_error();
  }
  bind(l, &(Node){.name = node->name, .span = node->name_span}, v);
}

// A `var` declaration of a body.
static void lower_var(Lower *l, const Node *node) {
  Type type = {.rank = 0};
  DType dtype = DT_F32;
  bool good = lower_dtype(l, node->a, &dtype);
  if (node->b) good = lower_shape(l, node->b, &type) && good;
  if (!node->c)
    diag_error(l->diag, node->span, ERR_PROGRAM_STATEMENT,
               "a var of a kernel has an initial value: `var %s: .. = 0;`", node->name);
  good = good && node->c;
  Value v = node->c ? lower_expr(l, node->c) : value_error();
  Symbol *s = declare(l, SYM_VAR, node->name, node->name_span);
  Ref *ref = s->ref = NEW(l->arena, Ref);
  bool state = l->place == IN_REFERENCE;
  *ref = (Ref){.name = node->name,
               .id = state ? l->k->states.count : l->k->refs.count,
               .role = state ? REF_STATE : REF_VAR,
               .space = SPACE_VAR,
               .type = with_dtype(type, dtype),
               .span = node->name_span};
  if (!good) {
    s->kind = SYM_LET;  // an error value from here on
    s->value = value_error();
    s->ref = NULL;
    return;
  }
  if (state)
    LIST_PUSH(l->arena, &l->k->states, ref);
  else
    LIST_PUSH(l->arena, &l->k->refs, ref);
  View view = {.ref = ref, .type = ref->type};
  for (int i = 0; i < type.rank; i++) {
    view.starts[i] = ir_const_int(l->k, l->frame->region, DT_I64, 0, node->span);
    view.window.size[i] = type.dim[i];
    view.window.stride[i] = 1;
  }
  if (!is_error(v)) store_view(l, &view, v, (Value){.kind = V_VOID}, node->span);
}

static void not_assignable(Lower *l, const Node *target) {
  Symbol *s = target->kind == N_NAME ? find_symbol(l, target->name) : NULL;
  if (target->kind == N_NAME && !s) {
    unknown_name(l, target->name, target->span);
    return;
  }
  if (!s) {
    diag_error(l->diag, target->span, ERR_NOT_ASSIGNABLE,
               "the target of an assignment must be a window of a ref, `x[...]`, or a var");
    return;
  }
  if (s->poisoned || (s->kind == SYM_LET && is_error(s->value))) return;
  bool ref = s->kind == SYM_OPERAND || s->kind == SYM_SCRATCH || s->value.kind == V_REF;
  diag_error(l->diag, target->span, ERR_NOT_ASSIGNABLE,
             ref ? "`%s` is a ref: store to a window of it, `%s[...] = ..`"
                 : "`%s` is a %s, which never changes%s",
             s->name, ref ? s->name : symbol_kind_text(s->kind),
             s->kind == SYM_LET ? "; a var does" : "");
  diag_note(l->diag, s->span, "`%s` is declared here", s->name);
}

// The window a statement assigns to.
static bool lower_target(Lower *l, const Node *target, View *view) {
  const Node *base = target->kind == N_INDEX ? target->a : target;
  Ref *ref = ref_of(l, base);
  bool bare = target->kind == N_NAME && ref && !is_var(ref) && ref->type.rank > 0;
  if (!ref || bare) {
    not_assignable(l, target->kind == N_INDEX && base->kind == N_NAME ? base : target);
    return false;
  }
  bool good = check_storable(l, ref, base->span);
  return lower_view(l, target, false, view) && good;
}

static Node operator_node(const Node *assign) {
  return (Node){
      .kind = N_BINARY, .span = assign->span, .name_span = assign->name_span, .op = assign->op};
}

// An assignment to an output in a reference.
static void assign_output(Lower *l, const Node *node, Value v) {
  Symbol *s = node->a->kind == N_NAME ? find_symbol(l, node->a->name) : NULL;
  if (!s || s->kind != SYM_OPERAND || s->ref->role != REF_OUTPUT) {
    if (node->a->kind == N_NAME && !s)
      unknown_name(l, node->a->name, node->a->span);
    else
      diag_error(
          l->diag, node->a->span, ERR_REFERENCE_STATEMENT,
          "a reference assigns whole arrays to its outputs, as in `o = ..`, and windows to vars");
    return;
  }
  Ref *ref = s->ref;
  if (l->frame->region != l->whole) {
    diag_error(l->diag, node->span, ERR_REFERENCE_STATEMENT,
               "an output is assigned once, as a whole: in a loop or an `if` assign to a var, and "
               "`%s = ..;` after it",
               ref->name);
    l->stored[ref->id] = true;
    return;
  }
  if (is_broken(l, ref)) {
    l->stored[ref->id] = true;
    return;
  }
  if (node->op != OP_NONE) {
    Node op = operator_node(node);
    v = lower_binary(l, &op, node->op, lower_expr(l, node->a), v);
  }
  l->stored[ref->id] = true;
  const char *what = arena_printf(l->arena, "the output `%s`", ref->name);
  Instr *array = v.kind == V_VOID ? data_of(l, v, node->b->span)
                                  : convert(l, v, ref->array.dtype, node->b->span, what);
  if (!array) return;
  if (can_broadcast(&array->type, &ref->array)) {
    l->array[ref->id] = broadcast_to(l, array, &ref->array, node->span);
    return;
  }
  diag_error(l->diag, node->b->span, ERR_STORE_SHAPE,
             "a value of shape %s does not fit the output `%s` of shape %s",
             shape_text(l, &array->type), ref->name, shape_text(l, &ref->array));
  diag_note(l->diag, ref->span, "`%s` is declared here", ref->name);
}

static Value combined(Lower *l, const Node *node, Value old, Value v) {
  Node op = operator_node(node);
  return node->op == OP_NONE || is_error(v) ? v : lower_binary(l, &op, node->op, old, v);
}

static void assign_to_view(Lower *l, const Node *node, const RefView *view, Value v) {
  if (node->op != OP_NONE) v = combined(l, node, read_view(l, view, node->a->span), v);
  if (!is_error(v)) write_view(l, view, v, (Value){.kind = V_VOID}, node->span);
}

static void assign_view(Lower *l, const Node *node, const RefView *view, Value v) {
  const Node *target = node->a;
  RefView part;
  if (target->kind != N_INDEX) {
    diag_error(l->diag, target->span, ERR_NOT_ASSIGNABLE,
               "`%s` is a view: store to a window of it, `%s[...] = ..`", target->name,
               target->name);
    return;
  }
  if (is_error(v)) return;
  if (is_all_of(target))
    assign_to_view(l, node, view, v);
  else if (check_storable(l, viewed_ref(view), target->span) &&
           window_of_view(l, target, view, &part))
    assign_to_view(l, node, &part, v);
}

// A store of v, or of the result of an operation on it and an output or a view.
static void assign(Lower *l, const Node *node, Value v) {
  View view;
  const Node *base = node->a->kind == N_INDEX ? node->a->a : node->a;
  const RefView *viewed = named_view(l, base);
  if (viewed) {
    assign_view(l, node, viewed, v);
  } else if (l->place == IN_REFERENCE && !ref_of(l, base)) {
    assign_output(l, node, v);
  } else if (lower_target(l, node->a, &view) && !is_error(v)) {
    store_view(l, &view, v, (Value){.kind = V_VOID}, node->span);
  }
}

// All values are computed before the first of them is stored.
static void assign_several(Lower *l, const Node *node) {
  Value v = lower_expr(l, node->b);
  Node one = *node;
  one.list = (NodeList){0};
  for (int i = 0; i <= node->list.count; i++) {
    if (i > 0) one.a = node->list.at[i - 1];
    assign(l, &one, one_of_several(l, node->b, v, i, node->list.count + 1));
  }
}

// The window is read before the value is computed.
static void combine_window(Lower *l, const Node *node) {
  View view;
  if (!lower_target(l, node->a, &view)) {
    lower_expr(l, node->b);
    return;
  }
  Value old = value_data(load_view(l, &view, NULL, NULL, node->a->span));
  Value v = combined(l, node, old, lower_expr(l, node->b));
  if (!is_error(v)) store_view(l, &view, v, (Value){.kind = V_VOID}, node->span);
}

static void lower_assign(Lower *l, const Node *node) {
  const Node *base = node->a->kind == N_INDEX ? node->a->a : node->a;
  bool window = !named_view(l, base) && (l->place == IN_BODY || ref_of(l, base));
  if (node->list.count)
    assign_several(l, node);
  else if (node->op != OP_NONE && window)
    combine_window(l, node);
  else
    assign(l, node, lower_expr(l, node->b));
}

// ---- choices

Region *lower_arm(Lower *l, const Node *items) {
  Frame frame;
  Region *region = enter_region(l, &frame);
  if (items->kind == N_IF)
    lower_statement(l, items);
  else
    lower_items(l, items);
  leave_region(l);
  return region;
}

// The same for a branch that may never run.
static Region *lower_unsure_arm(Lower *l, const Node *items) {
  l->unsure++;
  Region *region = lower_arm(l, items);
  l->unsure--;
  return region;
}

// Is a condition computed from floats, whose rounding may decide it?
static bool is_of_floats(const Instr *v) {
  if (has_result(v) && is_float(v->type.dtype)) return true;
  for (int i = 0; v->type.dtype == DT_BOOL && i < v->nargs; i++)
    if (is_of_floats(v->args[i])) return true;
  return false;
}

// `when` and `if`.
static void lower_if(Lower *l, const Node *node) {
  Value c;
  const Node *otherwise = node->kind == N_IF ? node->c : NULL;
  if (!lower_condition(l, node->a, &c)) {
    lower_unsure_arm(l, node->b);
    if (otherwise) lower_unsure_arm(l, otherwise);
    return;
  }
  if (c.kind == V_BOOL) {
    const Node *taken = c.ival ? node->b : otherwise;
    if (taken && taken->kind == N_IF)
      lower_statement(l, taken);
    else if (taken)
      lower_items(l, taken);
    return;
  }
  if (in_index_place(l) || l->prelude) {
    diag_error(l->diag, node->a->span, ERR_INDEX_ONLY,
               "a condition among the declarations must be constant; `let x = if c { a } else { b "
               "};` selects a value");
    return;
  }
  if (l->place == IN_REFERENCE && is_of_floats(c.instr)) {
    diag_error(l->diag, node->a->span, ERR_REFERENCE_STATEMENT,
               "a condition in a reference must depend only on integers, which are not rounded; "
               "where(c, a, b) selects values");
    return;
  }
  Instr *choice = ir_new(l->k, OP_IF, no_result, node->span, 1, &c.instr);
  choice->regions[0] = lower_unsure_arm(l, node->b);
  choice->regions[1] = otherwise ? lower_unsure_arm(l, otherwise) : NULL;
  ir_append(l->k, l->frame->region, choice);
}

static Region *lower_value_arm(Lower *l, const Node *node, Value *v) {
  Frame frame;
  Region *region = enter_region(l, &frame);
  l->unsure++;
  *v = lower_expr(l, node);
  l->unsure--;
  leave_region(l);
  return region;
}

// An `if` expression: a selection, or in a body a branch.
Value lower_if_expr(Lower *l, const Node *node) {
  Value c, v[2];
  bool good = lower_condition(l, node->a, &c);
  if (good && c.kind == V_BOOL) return lower_expr(l, c.ival ? node->b : node->c);
  if (!good || l->place != IN_BODY || l->prelude) {
    v[0] = lower_expr(l, node->b);
    v[1] = lower_expr(l, node->c);
    return good ? lower_select(l, c, v[0], v[1], node->span) : value_error();
  }
  Region *arms[2] = {lower_value_arm(l, node->b, &v[0]), lower_value_arm(l, node->c, &v[1])};
  DType dtype;
  Type shape;
  Instr *results[2];
  if (is_error(v[0]) || is_error(v[1]) || !common_dtype(l, v, 2, node->span, "if", &dtype))
    return value_error();
  for (int i = 0; i < 2; i++) {
    Frame frame;
    reenter_region(l, &frame, arms[i]);
    results[i] = convert(l, v[i], dtype, i ? node->c->span : node->b->span, "if");
    leave_region(l);
  }
  if (!results[0] || !results[1] || !common_shape(l, results, 2, node->span, "if", &shape))
    return value_error();
  for (int i = 0; i < 2; i++) {
    Frame frame;
    reenter_region(l, &frame, arms[i]);
    yield_from(l, broadcast_to(l, results[i], &shape, node->span), node->span);
    leave_region(l);
  }
  Instr *choice = emit1(l, OP_IF, with_dtype(shape, dtype), node->span, c.instr);
  for (int i = 0; i < 2; i++) choice->regions[i] = arms[i];
  return value_data(choice);
}

// ---- loops

static void declare_loop_variable(Lower *l, const Node *node, Value v) {
  if (strcmp(node->name, "_") != 0) declare(l, SYM_LOOP, node->name, node->name_span)->value = v;
}

// A `static for`, which is unrolled.
static void unroll(Lower *l, const Node *node) {
  int64_t from, to, count;
  bool good = lower_static_int(l, node->a, "the start of a `static for`", &from);
  if (!(lower_static_int(l, node->b, "the end of a `static for`", &to) && good) || to <= from)
    return;
  if (!sub_i64(to, from, &count) || count > MAX_UNROLL) {
    diag_error(l->diag, node->span, ERR_TOO_LARGE, "a `static for` unrolls at most %d times",
               MAX_UNROLL);
    return;
  }
  LoopKind outer = l->loop;
  l->loop = LOOP_UNROLLED;
  int errors = diag_error_count(l->diag);
  for (int64_t i = from; i < to && !l->stopped && diag_error_count(l->diag) == errors; i++) {
    if (over_budget(l, node->span)) break;
    Symbol *scope = l->scope;
    declare_loop_variable(l, node, value_int(i));
    lower_items(l, node->c);
    l->scope = scope;
  }
  l->loop = outer;
}

// A `for` loop.
static void lower_for(Lower *l, const Node *node) {
  if (node->flags & FOR_STATIC) {
    unroll(l, node);
    return;
  }
  Instr *from = lower_index(l, node->a), *to = lower_index(l, node->b);
  Instr *arg = ir_new(l->k, OP_ARG, type_scalar(DT_I64), node->name_span, 0, NULL);
  LoopKind outer = l->loop;
  Symbol *scope = l->scope;
  Frame frame;
  Region *region = enter_region(l, &frame);
  region->arg = arg;
  l->loop = LOOP_RUNTIME;
  declare_loop_variable(l, node, value_data(arg));
  l->unsure++;
  lower_items(l, node->c);
  l->unsure--;
  l->scope = scope;
  l->loop = outer;
  leave_region(l);
  if (from && to) emit2(l, OP_FOR, no_result, node->span, from, to)->regions[0] = region;
}

static void lower_while(Lower *l, const Node *node) {
  Value c;
  Frame frame;
  Region *test = enter_region(l, &frame);
  bool good = lower_condition(l, node->a, &c);
  Instr *condition = good ? data_of(l, c, node->a->span) : NULL;
  if (condition) yield_from(l, condition, node->a->span);
  leave_region(l);
  LoopKind outer = l->loop;
  l->loop = LOOP_RUNTIME;
  Region *body = lower_unsure_arm(l, node->b);
  l->loop = outer;
  if (!condition) return;
  Instr *loop = emit(l, OP_WHILE, no_result, node->span, 0, NULL);
  loop->regions[0] = test;
  loop->regions[1] = body;
}

static void lower_break(Lower *l, const Node *node) {
  if (l->loop == LOOP_RUNTIME)
    emit(l, OP_BREAK, no_result, node->span, 0, NULL);
  else if (l->loop == LOOP_UNROLLED)
    diag_error(l->diag, node->span, ERR_BREAK_OUTSIDE,
               "`break` cannot leave a `static for`, which is unrolled");
  else
    diag_error(l->diag, node->span, ERR_BREAK_OUTSIDE, "`break` outside a loop");
}

// ---- all statements

// Only bodies have effects: elsewhere there are only values.
static bool allowed_here(Lower *l, const Node *node) {
  bool constant_for = node->kind == N_FOR && (node->flags & FOR_STATIC);
  bool values_only = node->kind == N_LET || node->kind == N_FN || node->kind == N_IF ||
                     node->kind == N_WHEN || node->kind == N_RETURN || constant_for;
  if (values_only || (l->place == IN_BODY && !l->prelude)) return true;
  if (l->place == IN_REFERENCE && !l->prelude) {
    if (node->kind == N_ASSIGN || node->kind == N_VAR || node->kind == N_FOR ||
        node->kind == N_ERROR || is_declaration(node))
      return true;
    diag_error(l->diag, node->span, ERR_REFERENCE_STATEMENT,
               "a reference may contain only `let`, `var`, `fn`, assignments, `for` and `if`");
  } else {
    diag_error(l->diag, node->span, ERR_INDEX_ONLY,
               "a function that is used in declarations may only compute a value");
  }
  return false;
}

static void lower_call_statement(Lower *l, const Node *node) {
  if (lower_expr(l, node->a).kind != V_COPY) return;
  diag_error(l->diag, node->span, ERR_BAD_COPY,
             "this describes a copy but does not start it: append `.start()`");
}

// Lowers one statement.
static void lower_one(Lower *l, const Node *node) {
  switch (node->kind) {
    case N_LET:
      declare_let(l, node);
      return;
    case N_VAR:
      lower_var(l, node);
      return;
    case N_ASSIGN:
      lower_assign(l, node);
      return;
    case N_CALL_STMT:
      lower_call_statement(l, node);
      return;
    case N_WHEN:
    case N_IF:
      lower_if(l, node);
      return;
    case N_FOR:
      lower_for(l, node);
      return;
    case N_WHILE:
      lower_while(l, node);
      return;
    case N_BREAK:
      lower_break(l, node);
      return;
    case N_FN:
      add_function(l, node);
      return;
    case N_SCOPED:
      l->language->scoped(l, node);
      return;
    case N_PIPELINE:
      l->language->pipeline(l, node);
      return;
    case N_REGION: {
      Region *region = lower_arm(l, node->b);
      Instr *named = emit(l, OP_NAMED, no_result, node->span, 0, NULL);
      named->text = node->name;
      named->regions[0] = region;
      return;
    }
    case N_RETURN:
      diag_error(l->diag, node->span, ERR_NO_RESULT,
                 "`return` must be the last statement of a function");
      return;
    case N_ERROR:
      return;
    default:
      diag_error(l->diag, node->span, ERR_ORDER,
                 "a declaration must be at the top of a kernel, before its statements");
  }
}

// Outputs that an erroneous statement names: they count as stored to.
static void take_as_stored(Lower *l, const Node *node) {
  if (!node) return;
  const Symbol *s = node->kind == N_NAME ? find_symbol(l, node->name) : NULL;
  const Ref *ref = s && s->kind == SYM_OPERAND ? s->ref : NULL;
  if (s && s->value.kind == V_REF) ref = s->value.ref;
  if (s && s->value.kind == V_VIEW) ref = viewed_ref(s->value.view);
  if (ref && ref_is_operand(ref)) l->stored[ref->id] = true;
  take_as_stored(l, node->a);
  take_as_stored(l, node->b);
  take_as_stored(l, node->c);
  for (int i = 0; i < node->list.count; i++) take_as_stored(l, node->list.at[i]);
  for (int i = 0; i < node->list2.count; i++) take_as_stored(l, node->list2.at[i]);
}

void lower_statement(Lower *l, const Node *node) {
  int errors = diag_error_count(l->diag);
  if (over_budget(l, node->span)) return;
  if (allowed_here(l, node)) lower_one(l, node);
  bool body = l->place == IN_BODY || l->place == IN_REFERENCE;
  if (body && diag_error_count(l->diag) > errors) take_as_stored(l, node);
}

static void lower_items(Lower *l, const Node *items) {
  Symbol *scope = l->scope;
  Function *functions = l->functions;
  for (int i = 0; i < items->list.count && !l->stopped; i++) lower_statement(l, items->list.at[i]);
  l->scope = scope;
  l->functions = functions;
}
