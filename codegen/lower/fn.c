// Functions of the program: inlined at every call, with the dtypes and shapes of that call.
#include "codegen/lower/internal.h"

static void check_parameters(Lower *l, const Node *node) {
  for (int i = 0; i < node->list.count; i++)
    for (int k = 0; k < i; k++)
      if (node->list.at[i]->name == node->list.at[k]->name) {
        diag_error(l->diag, node->list.at[i]->span, ERR_DUPLICATE,
                   "the parameter `%s` occurs twice", node->list.at[i]->name);
        return;
      }
}

void add_function(Lower *l, const Node *node) {
  Function *old = find_function(l, node->name);
  if (old && old->scope == l->scope && old->node != node) {
    diag_error(l->diag, node->name_span, ERR_DUPLICATE, "the function `%s` is declared twice",
               node->name);
    diag_note(l->diag, old->node->name_span, "`%s` is declared here", node->name);
  }
  check_parameters(l, node);
  Function *f = NEW(l->arena, Function);
  *f = (Function){.name = node->name, .node = node, .scope = l->scope, .next = l->functions};
  l->functions = f;
}

// ---- arguments

static int parameter_index(const Function *f, const char *name) {
  for (int i = 0; i < f->node->list.count; i++)
    if (f->node->list.at[i]->name == name) return i;
  return -1;
}

static bool bind_arguments(Lower *l, const Function *f, const Node *call, const Node **args) {
  int wanted = f->node->list.count;
  bool good = call->list.count <= wanted;
  for (int i = 0; good && i < call->list.count; i++) args[i] = call->list.at[i];
  for (int i = 0; good && i < call->list2.count; i++) {
    const Node *keyword = call->list2.at[i];
    int at = parameter_index(f, keyword->name);
    if (at < 0 || args[at]) {
      diag_error(l->diag, keyword->name_span, at < 0 ? ERR_UNKNOWN_KEYWORD : ERR_DUPLICATE,
                 at < 0 ? "`%s` has no parameter `%s`" : "`%s` is given its parameter `%s` twice",
                 f->name, keyword->name);
      return false;
    }
    args[at] = keyword->a;
  }
  for (int i = 0; good && i < wanted; i++) good = args[i] != NULL;
  if (good) return true;
  diag_error(l->diag, call->span, ERR_ARGUMENT_COUNT, "`%s` takes %d %s, not %d", f->name, wanted,
             wanted == 1 ? "argument" : "arguments", call->list.count + call->list2.count);
  diag_note(l->diag, f->node->name_span, "`%s` is declared here", f->name);
  return false;
}

// A ref by its name is passed as such; a `var` by its value.
static Value lower_argument(Lower *l, const Node *node) {
  Ref *ref = ref_of(l, node);
  const RefView *view = named_view(l, node);
  if (view) return (Value){.kind = V_VIEW, .view = view};
  return ref && ref->role != REF_VAR ? (Value){.kind = V_REF, .ref = ref} : lower_expr(l, node);
}

// ---- the body

static Value lower_function_body(Lower *l, const Function *f) {
  if (f->node->a) return lower_expr(l, f->node->a);
  const NodeList *items = &f->node->b->list;
  for (int i = 0; i < items->count && !l->stopped; i++) {
    const Node *item = items->at[i];
    if (item->kind == N_RETURN && i == items->count - 1) return lower_expr(l, item->a);
    lower_statement(l, item);
  }
  return (Value){.kind = V_VOID};
}

static bool may_enter(Lower *l, const Function *f, const Node *call) {
  if (!f->busy && l->depth < MAX_INLINE) return true;
  diag_error(l->diag, call->span, ERR_RECURSION,
             f->busy ? "`%s` calls itself: functions are inlined and cannot"
                     : "`%s` is nested too deeply in other calls",
             f->name);
  diag_note(l->diag, f->node->name_span, "`%s` is declared here", f->name);
  return false;
}

Value inline_function(Lower *l, Function *f, const Node *call) {
  int count = f->node->list.count;
  const Node **args = NEW_ARRAY(l->arena, const Node *, count + 1);
  Value *values = NEW_ARRAY(l->arena, Value, count + 1);
  if (!bind_arguments(l, f, call, args)) return value_error();
  bool good = true;
  for (int i = 0; i < count; i++) {
    values[i] = lower_argument(l, args[i]);
    good = good && !is_error(values[i]);
  }
  if (!good || f->failed || !may_enter(l, f, call)) return value_error();
  Symbol *scope = l->scope;
  Function *functions = l->functions;
  LoopKind loop = l->loop;
  int errors = diag_error_count(l->diag);
  l->scope = f->scope;
  l->functions = f->visible ? *f->visible : f;
  l->loop = LOOP_NONE;
  l->depth++;
  f->busy = true;
  for (int i = 0; i < count; i++)
    declare(l, SYM_PARAMETER, f->node->list.at[i]->name, f->node->list.at[i]->span)->value =
        values[i];
  Value v = lower_function_body(l, f);
  f->busy = false;
  l->depth--;
  l->scope = scope;
  l->functions = functions;
  l->loop = loop;
  if (diag_error_count(l->diag) == errors) return v;
  f->failed = true;
  diag_note(l->diag, call->span, "in this call of `%s`", f->name);
  return value_error();
}
