// Calls: finding the function, and binding arguments to its parameters.
#include "codegen/lower/internal.h"

#include <string.h>

const Builtin *const builtin_tables[] = {elementwise_builtins,
                                         shape_builtins,
                                         reduce_builtins,
                                         bits_builtins,
                                         gather_builtins,
                                         random_builtins,
                                         memory_builtins,
                                         view_builtins,
                                         scatter_builtins,
                                         other_builtins,
                                         NULL};

static const Builtin *find_builtin(const char *name) {
  for (int t = 0; builtin_tables[t]; t++)
    for (const Builtin *b = builtin_tables[t]; b->name; b++)
      if (strcmp(b->name, name) == 0) return b;
  return NULL;
}

static void unknown_function(Lower *l, const Node *node) {
  LIST(const char *) names = {0};
  for (int t = 0; builtin_tables[t]; t++)
    for (const Builtin *b = builtin_tables[t]; b->name; b++) LIST_PUSH(l->arena, &names, b->name);
  for (const Function *f = l->functions; f; f = f->next) LIST_PUSH(l->arena, &names, f->name);
  if (strcmp(node->name, "ds") == 0) {
    diag_error(l->diag, node->name_span, ERR_BAD_INDEX,
               "ds(start, size) is allowed only in an index, as in x[ds(i, 8), :]");
    return;
  }
  diag_error(l->diag, node->name_span, ERR_UNKNOWN_FUNCTION, "there is no function `%s`%s",
             node->name,
             find_symbol(l, node->name) ? "; what is called so is a value"
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

static const char *signature(Lower *l, const Builtin *b, const Parameter *p, int count) {
  Buf buf = {0};
  buf_printf(&buf, "%s(", b->name);
  for (int i = 0; i < count; i++)
    buf_printf(&buf, "%s%s%s", i ? ", " : "", p[i].name,
               p[i].rest       ? ", .."
               : p[i].optional ? " = .."
                               : "");
  buf_putc(&buf, ')');
  return arena_take(l->arena, &buf);
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

Value lower_call(Lower *l, const Node *node) {
  Function *f = find_function(l, node->name);
  if (f) return inline_function(l, f, node);
  if (not_built(l, node)) return value_error();
  Call call = {.node = node, .builtin = find_builtin(node->name)};
  if (!call.builtin) {
    unknown_function(l, node);
    return value_error();
  }
  return bind(l, &call) ? call.builtin->lower(l, &call) : value_error();
}
