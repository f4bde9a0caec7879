// Calls: finding the function, and binding arguments to its parameters.
#include "codegen/lower/ops/ops.h"
#include "codegen/lower/refs.h"

#include <string.h>

static const Builtin *find_builtin(const Lower *l, const char *name) {
  for (int t = 0; l->language->functions[t]; t++)
    for (const Builtin *b = l->language->functions[t]; b->name; b++)
      if (strcmp(b->name, name) == 0) return b;
  return NULL;
}

// Reports a function that does not exist, with what to write instead.
static void unknown_function(Lower *l, const Node *node) {
  LIST(const char *) names = {0};
  for (int t = 0; l->language->functions[t]; t++)
    for (const Builtin *b = l->language->functions[t]; b->name; b++)
      LIST_PUSH(l->arena, &names, b->name);
  for (const Function *f = l->functions; f; f = f->next) LIST_PUSH(l->arena, &names, f->name);
  if (strcmp(node->name, "ds") == 0) {
    diag_error(l->diag, node->name_span, ERR_BAD_INDEX,
               "ds(start, size) is allowed only in an index, as in x[ds(i, 8), :]");
    return;
  }
  const char *text = written_out(node->name);
  if (text && !find_symbol(l, node->name)) {
    diag_error(l->diag, node->name_span, ERR_UNKNOWN_FUNCTION,
               "there is no function `%s`: write %s", node->name, text);
    return;
  }
  diag_error(l->diag, node->name_span, ERR_UNKNOWN_FUNCTION, "there is no function `%s`%s",
             node->name,
             find_symbol(l, node->name) ? "; this name is a value"
                                        : suggestion(l, node->name, names.at, names.count));
}

// ---- binding

typedef struct {
  const char *name;
  bool optional, rest;
} Parameter;

static int split_parameters(const char *text, Parameter *out) {
  int count = 0;
  while (*text) {
    size_t length = strcspn(text, " ");
    char mark = text[length - 1];
    bool marked = mark == '?' || mark == '+' || mark == '*';
    REQUIRE(count < MAX_ARGUMENTS);
    out[count++] = (Parameter){intern_n(text, length - marked), mark == '?' || mark == '*',
                               mark == '+' || mark == '*'};
    text += length + (text[length] == ' ');
  }
  return count;
}

static const char *parameter_text(Arena *arena, const Parameter *p) {
  return arena_printf(arena, "%s%s", p->name, p->rest ? ", .." : p->optional ? " = .." : "");
}

static const char *signature(Lower *l, const Builtin *b, const Parameter *p, int count) {
  Buf buf = {0};
  buf_printf(&buf, "%s(", b->name);
  for (int i = 0; i < count; i++)
    buf_printf(&buf, "%s%s", i ? ", " : "", parameter_text(l->arena, &p[i]));
  buf_putc(&buf, ')');
  return arena_take(l->arena, &buf);
}

int builtin_parameters(Arena *arena, const Builtin *b, LanguageParameter *out) {
  Parameter p[MAX_ARGUMENTS];
  int count = split_parameters(b->parameters, p);
  for (int i = 0; i < count; i++)
    out[i] = (LanguageParameter){p[i].name, parameter_text(arena, &p[i]), p[i].rest};
  return count;
}

static bool bind_positional(Lower *l, Call *call, const Parameter *p, int count) {
  const Node *node = call->node;
  int next = 0;
  for (int i = 0; i < node->list.count; i++, next++) {
    if (next < count && p[next].rest) {
      call->rest = (const Node *const *)&node->list.at[i];
      call->rest_count = node->list.count - i;
      return true;
    }
    if (next >= count) {
      diag_error(l->diag, node->list.at[i]->span, ERR_ARGUMENT_COUNT, "too many arguments for %s",
                 signature(l, call->builtin, p, count));
      return false;
    }
    call->arg[next] = node->list.at[i];
  }
  return true;
}

static bool bind_keyword(Lower *l, Call *call, const Parameter *p, int count, const Node *keyword) {
  const char *names[MAX_ARGUMENTS];
  for (int i = 0; i < count; i++) {
    names[i] = p[i].name;
    if (p[i].rest || p[i].name != keyword->name) continue;
    if (call->arg[i]) {
      diag_error(l->diag, keyword->span, ERR_DUPLICATE, "the argument `%s` is given twice",
                 keyword->name);
      return false;
    }
    call->arg[i] = keyword->a;
    return true;
  }
  diag_error(l->diag, keyword->name_span, ERR_UNKNOWN_KEYWORD, "%s has no argument `%s`%s",
             signature(l, call->builtin, p, count), keyword->name,
             suggestion(l, keyword->name, names, count));
  return false;
}

static bool bind(Lower *l, Call *call) {
  Parameter p[MAX_ARGUMENTS];
  int count = split_parameters(call->builtin->parameters, p);
  if (!bind_positional(l, call, p, count)) return false;
  for (int i = 0; i < call->node->list2.count; i++)
    if (!bind_keyword(l, call, p, count, call->node->list2.at[i])) return false;
  for (int i = 0; i < count; i++) {
    if (p[i].optional || call->arg[i] || (p[i].rest && call->rest_count)) continue;
    diag_error(l->diag, call->node->span, ERR_ARGUMENT_COUNT, "the argument `%s` is missing: %s",
               p[i].name, signature(l, call->builtin, p, count));
    return false;
  }
  return true;
}

// ---- functions of the program: inlined at every call, with the dtypes and shapes of that call

static int parameter_index(const Function *f, const char *name) {
  for (int i = 0; i < f->node->list.count; i++)
    if (f->node->list.at[i]->name == name) return i;
  return -1;
}

// Assigns the arguments of a call to a function's parameters.
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
  return ref && !is_var(ref) ? (Value){.kind = V_REF, .ref = ref} : lower_expr(l, node);
}

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

// Replaces a call by the body of a function of the file.
static Value inline_function(Lower *l, Function *f, const Node *call) {
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

// ---- both

Value lower_call(Lower *l, const Node *node) {
  Function *f = find_function(l, node->name);
  if (f) return inline_function(l, f, node);
  Call call = {.node = node, .builtin = find_builtin(l, node->name)};
  if (!call.builtin) {
    unknown_function(l, node);
    return value_error();
  }
  return bind(l, &call) ? call.builtin->lower(l, &call) : value_error();
}
