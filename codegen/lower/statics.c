// Statics: from -D, from the arrays, or by default, in this order of preference.
#include "codegen/lower/internal.h"

#include <string.h>

static const Node *find_static(const Node *kernel, const char *name) {
  for (int i = 0; i < kernel->a->list.count; i++) {
    const Node *item = kernel->a->list.at[i];
    for (int k = 0; item->kind == N_STATIC && k < item->list.count; k++)
      if (item->list.at[k]->name == name) return item->list.at[k];
  }
  return NULL;
}

// ---- settings

static bool applies(const Lower *l, const StaticSetting *s) {
  return !s->kernel || strcmp(s->kernel, l->k->name) == 0;
}

static bool known_elsewhere(const Lower *l, const StaticSetting *s) {
  for (int i = 0; !s->kernel && i < l->file->list.count; i++) {
    const Node *node = l->file->list.at[i];
    if (is_entry(node) && find_static(node, intern(s->name))) return true;
  }
  return false;
}

static void check_settings(Lower *l) {
  const char *names[MAX_LIST];
  int count = static_names(l->file, l->k->name, names, MAX_LIST);
  if (count > MAX_LIST) count = MAX_LIST;
  for (int i = 0; i < l->options->setting_count; i++) {
    const StaticSetting *s = &l->options->settings[i];
    if (!applies(l, s) || find_static(l->node, intern(s->name)) || known_elsewhere(l, s)) continue;
    diag_error(l->diag, (Span){0}, ERR_UNKNOWN_STATIC,
               "-D %s: the kernel `%s` has no static of that name%s", s->name, l->k->name,
               suggestion(l, s->name, names, count));
  }
}

// The expression of a setting, or NULL: it is parsed as the result of a function.
static const Node *parse_setting(Lower *l, const StaticSetting *s, Diag **diag) {
  Source *source = NEW(l->arena, Source);
  source->path = arena_printf(l->arena, "-D %s", s->name);
  source->text = arena_printf(l->arena, "fn v() = %s\n;", s->value);
  source->length = strlen(source->text);
  *diag = diag_new(l->arena, source);
  const Node *file = parse(l->arena, source, *diag);
  bool one =
      diag_error_count(*diag) == 0 && file->list.count == 1 && file->list.at[0]->kind == N_FN;
  return one ? file->list.at[0]->a : NULL;
}

static Value evaluate_setting(Lower *l, const StaticSetting *s, Span span) {
  Diag *own, *outer = l->diag;
  Value v = value_error();
  const Node *node = parse_setting(l, s, &own);
  if (node) {
    l->diag = own;
    v = lower_aside(l, node);
    l->diag = outer;
  }
  if (is_static(v)) return v;
  diag_error(l->diag, span, ERR_BAD_SETTING,
             "-D %s=%s: expected a constant expression, such as 64, bf16 or true", s->name,
             s->value);
  return value_error();
}

// ---- hints

static bool hint_of_param(const Lower *l, const Node *param, const char *name, Value *v) {
  for (int i = 0; i < l->options->hint_count; i++) {
    const OperandHint *hint = &l->options->hints[i];
    if (strcmp(hint->operand, param->name) != 0) continue;
    if (hint->dtype != DT_COUNT && param->a && param->a->kind == N_NAME && param->a->name == name) {
      *v = value_dtype(hint->dtype);
      return true;
    }
    for (int k = 0; hint->rank == param->list.count && k < hint->rank; k++)
      if (hint->dim[k] >= 0 && param->list.at[k]->kind == N_NAME &&
          param->list.at[k]->name == name) {
        *v = value_int(hint->dim[k]);
        return true;
      }
  }
  return false;
}

static bool find_hint(const Lower *l, const char *name, Value *v) {
  for (int side = 0; side < 2; side++) {
    const NodeList *params = side ? &l->node->list2 : &l->node->list;
    for (int i = 0; i < params->count; i++)
      if (hint_of_param(l, params->at[i], name, v)) return true;
  }
  return false;
}

// ---- types

// The kind of a static: given by its type, otherwise by its default.
typedef struct {
  ValueKind kind;
  DType dtype;
  bool ranged;
} StaticType;

static bool declared_type(Lower *l, const Node *node, StaticType *type) {
  if (strcmp(node->name, "dtype") == 0) {
    *type = (StaticType){.kind = V_DTYPE};
    return true;
  }
  DType dtype = dtype_by_name(node->name);
  if (dtype == DT_COUNT) {
    diag_error(l->diag, node->span, ERR_UNKNOWN_DTYPE,
               "a static must be of type dtype, bool, i64, f32 or another number type, not `%s`",
               node->name);
    return false;
  }
  *type = (StaticType){dtype == DT_BOOL ? V_BOOL : is_float(dtype) ? V_FLOAT : V_INT, dtype, true};
  return true;
}

static const char *static_type_text(const StaticType *type) {
  if (type->ranged) return dtype_info[type->dtype].name;
  return type->kind == V_INT     ? "an integer"
         : type->kind == V_FLOAT ? "a float"
         : type->kind == V_BOOL  ? "a bool"
                                 : "a dtype";
}

static Value fit_static(Lower *l, const Node *item, Value v, const StaticType *type, Span span,
                        const char *origin) {
  if (v.kind == V_INT && type->kind == V_FLOAT) v = value_float((double)v.ival);
  bool fits = v.kind == type->kind && (!type->ranged || static_fits(v, type->dtype));
  if (fits) return v;
  diag_error(l->diag, span, ERR_STATIC_TYPE, "%s`%s` is %s, and %s is not valid for it", origin,
             item->name, static_type_text(type), value_text(l, v));
  if (span.start != item->name_span.start)
    diag_note(l->diag, item->name_span, "`%s` is declared here", item->name);
  return value_error();
}

// ---- binding

static Value lower_default(Lower *l, const Node *item) {
  const Value v = lower_aside(l, item->b);
  if (is_error(v) || is_static(v)) return v;
  diag_error(l->diag, item->b->span, ERR_NOT_CONSTANT,
             "a static must be an integer, a float, a bool or a dtype, not %s", value_text(l, v));
  return value_error();
}

static Value bind_static(Lower *l, const Node *item) {
  StaticType type = {.kind = V_ERROR};
  Value v = lower_default(l, item), given;
  if (item->a && !declared_type(l, item->a, &type)) return value_error();
  if (!item->a && !is_error(v)) type.kind = v.kind;
  if (type.kind == V_ERROR) return value_error();
  if (!is_error(v)) v = fit_static(l, item, v, &type, item->b->span, "");
  for (int i = l->options->setting_count - 1; i >= 0; i--) {
    const StaticSetting *s = &l->options->settings[i];
    if (!applies(l, s) || strcmp(s->name, item->name) != 0) continue;
    given = evaluate_setting(l, s, item->name_span);
    if (is_error(given)) return given;
    if (s->origin.end > 0) return fit_static(l, item, given, &type, s->origin, "");
    return fit_static(l, item, given, &type, item->name_span,
                      arena_printf(l->arena, "-D %s=%s: ", s->name, s->value));
  }
  if (find_hint(l, item->name, &given))
    return fit_static(l, item, given, &type, item->name_span, "from the array given: ");
  return v;
}

static const char *static_text(Lower *l, Value v) {
  if (v.kind == V_DTYPE) return dtype_info[v.dtype].name;
  if (v.kind == V_BOOL) return v.ival ? "true" : "false";
  if (v.kind == V_FLOAT) return format_double(l->arena, v.fval);
  return arena_printf(l->arena, "%lld", (long long)v.ival);
}

static void lower_static_item(Lower *l, const Node *item) {
  if (item->kind != N_STATIC_ITEM) return;
  Value v = bind_static(l, item);
  declare(l, SYM_STATIC, item->name, item->name_span)->value = v;
  if (is_static(v))
    LIST_PUSH(l->arena, &l->k->statics, ((StaticValue){item->name, static_text(l, v)}));
}

void lower_statics(Lower *l) {
  l->place = IN_STATIC;
  check_settings(l);
  for (int i = 0; i < l->node->a->list.count; i++) {
    const Node *item = l->node->a->list.at[i];
    for (int k = 0; item->kind == N_STATIC && k < item->list.count; k++)
      lower_static_item(l, item->list.at[k]);
  }
}
