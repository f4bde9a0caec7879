// Calls of kernels and programs in programs: their arguments, statics and sizes, and where their
// results go.
#include "codegen/lower/program.h"
#include "codegen/ir/index.h"
#include "codegen/ir/names.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

// A call on its way. Operands are numbered as those of the kernel: what is prefetched, inputs,
// outputs.
typedef struct {
  ProgramLower *p;
  Lower *l;
  const Node *node;    // the CALL
  const Node *kernel;  // the KERNEL or PROGRAM
  LIST(const Node *) params;
  int inputs;
  const Node **arguments;  // by operand
  ArrayName **names;       // by argument
  FlowPart *parts;
  Target *targets;
  LIST(const Node *) sizes;  // KEYWORDs that are neither operands nor statics
  LIST(StaticSetting) settings;
  LIST(OperandHint) hints;
  int callee;
  const Kernel *k;    // the callee
  Dim *map;           // its sizes in the program
  const Node **from;  // by size: the argument that determines it
} FlowCallLower;

// ---- which kernel

static const Node *find_callee(ProgramLower *p, const Node *call) {
  Lower *l = p->l;
  const Node *kernel = find_kernel(l->file, call->name);
  for (const Lower *caller = l; caller && kernel; caller = caller->caller)
    if (caller->node == kernel) {
      diag_error(l->diag, call->name_span, ERR_BAD_CALL, "the program `%s` calls itself",
                 call->name);
      return NULL;
    }
  if (kernel) return kernel;
  diag_error(l->diag, call->name_span, ERR_BAD_CALL,
             "there is no kernel or program `%s` in this file%s", call->name,
             suggest_kernel(l, call->name));
  return NULL;
}

static void collect_params(FlowCallLower *c) {
  const NodeList *items = &c->kernel->a->list;
  for (int i = 0; i < items->count; i++)
    for (int j = 0; items->at[i]->kind == N_PREFETCH && j < items->at[i]->list.count; j++)
      LIST_PUSH(c->l->arena, &c->params, items->at[i]->list.at[j]);
  for (int i = 0; i < c->kernel->list.count; i++)
    LIST_PUSH(c->l->arena, &c->params, c->kernel->list.at[i]);
  c->inputs = c->params.count;
  for (int i = 0; i < c->kernel->list2.count; i++)
    LIST_PUSH(c->l->arena, &c->params, c->kernel->list2.at[i]);
  int count = c->params.count + 1;
  c->arguments = NEW_ARRAY(c->l->arena, const Node *, count);
  c->names = NEW_ARRAY(c->l->arena, ArrayName *, count);
  c->parts = NEW_ARRAY(c->l->arena, FlowPart, count);
}

// ---- arguments

static bool has_static(const Node *kernel, const char *name) {
  for (int i = 0; i < kernel->a->list.count; i++) {
    const Node *item = kernel->a->list.at[i];
    for (int k = 0; item->kind == N_STATIC && k < item->list.count; k++)
      if (item->list.at[k]->name == name) return true;
  }
  return false;
}

static const char *parameters_text(const FlowCallLower *c) {
  Buf text = {0};
  buf_printf(&text, "%s(", c->kernel->name);
  for (int i = 0; i < c->inputs; i++)
    buf_printf(&text, "%s%s", i ? ", " : "", c->params.at[i]->name);
  buf_putc(&text, ')');
  return arena_take(c->l->arena, &text);
}

static bool set_argument(FlowCallLower *c, int operand, const Node *node, Span span) {
  if (!c->arguments[operand]) {
    c->arguments[operand] = node;
    return true;
  }
  diag_error(c->l->diag, span, ERR_DUPLICATE, "the argument `%s` is given twice",
             c->params.at[operand]->name);
  return false;
}

// A static that a call passes as KEYWORD=VALUE.
static bool set_static(FlowCallLower *c, const Node *keyword) {
  Lower *l = c->l;
  l->place = IN_STATIC;
  const Value v = lower_aside(l, keyword->a);
  if (!is_static(v)) {
    if (!is_error(v))
      diag_error(l->diag, keyword->a->span, ERR_NOT_CONSTANT,
                 "`%s` is a static of `%s`: expected a constant, found %s", keyword->name,
                 c->kernel->name, value_text(l, v));
    return false;
  }
  const char *text = v.kind == V_DTYPE   ? dtype_info[v.dtype].name
                     : v.kind == V_BOOL  ? v.ival ? "true" : "false"
                     : v.kind == V_FLOAT ? format_double(l->arena, v.fval)
                                         : arena_printf(l->arena, "%lld", (long long)v.ival);
  LIST_PUSH(l->arena, &c->settings,
            ((StaticSetting){c->kernel->name, keyword->name, text, keyword->a->span}));
  return true;
}

static bool bind_keyword(FlowCallLower *c, const Node *keyword) {
  for (int i = 0; i < c->inputs; i++)
    if (c->params.at[i]->name == keyword->name)
      return set_argument(c, i, keyword->a, keyword->span);
  if (has_static(c->kernel, keyword->name)) return set_static(c, keyword);
  LIST_PUSH(c->l->arena, &c->sizes, keyword);
  return true;
}

// Assigns the arguments of a call to a kernel's inputs, statics and sizes.
static bool bind_arguments(FlowCallLower *c) {
  const Node *call = c->node;
  bool good = true;
  for (int i = 0; i < call->list.count && good; i++) {
    if (i < c->inputs) {
      good = set_argument(c, i, call->list.at[i], call->list.at[i]->span);
      continue;
    }
    diag_error(c->l->diag, call->list.at[i]->span, ERR_ARGUMENT_COUNT, "too many arguments for %s",
               parameters_text(c));
    return false;
  }
  for (int i = 0; i < call->list2.count; i++) good = bind_keyword(c, call->list2.at[i]) && good;
  for (int i = 0; i < c->inputs && good; i++) {
    if (c->arguments[i]) continue;
    diag_error(c->l->diag, call->span, ERR_ARGUMENT_COUNT, "the argument `%s` is missing: %s",
               c->params.at[i]->name, parameters_text(c));
    return false;
  }
  return good;
}

static bool lower_arguments(FlowCallLower *c) {
  bool good = true;
  for (int i = 0; i < c->inputs; i++) {
    c->names[i] = argument_name(c->p, c->arguments[i]);
    good =
        c->names[i] && lower_part(c->p, c->arguments[i], c->names[i]->array, &c->parts[i]) && good;
  }
  return good;
}

// ---- the kernel for these arguments

static void add_hint(FlowCallLower *c, int operand, const FlowPart *part) {
  Type type = flow_part_type(c->p->flow, part);
  OperandHint hint = {
      .operand = c->params.at[operand]->name, .dtype = type.dtype, .rank = type.rank};
  for (int i = 0; i < type.rank; i++) hint.dim[i] = dim_is_const(type.dim[i]) ? type.dim[i] : -1;
  LIST_PUSH(c->l->arena, &c->hints, hint);
}

static const char *key_of_call(const FlowCallLower *c) {
  Buf key = {0};
  for (int i = 0; i < c->settings.count; i++)
    buf_printf(&key, "%s.%s=%s ", c->settings.at[i].kernel, c->settings.at[i].name,
               c->settings.at[i].value);
  for (int i = 0; i < c->hints.count; i++) {
    const OperandHint *hint = &c->hints.at[i];
    buf_printf(&key, "%s:%d", hint->operand, (int)hint->dtype);
    for (int k = 0; k < hint->rank; k++) buf_printf(&key, ",%lld", (long long)hint->dim[k]);
    buf_putc(&key, ' ');
  }
  const char *text = intern_n(key.text ? key.text : "", key.length);
  buf_free(&key);
  return text;
}

static bool same_statics(const Kernel *a, const Kernel *b) {
  if (strcmp(a->name, b->name) != 0 || a->statics.count != b->statics.count) return false;
  for (int i = 0; i < a->statics.count; i++)
    if (strcmp(a->statics.at[i].value, b->statics.at[i].value) != 0) return false;
  return true;
}

// The function of a kernel in the C of a program: no other one before it has this name.
static const char *callee_symbol(const ProgramLower *p, int callee) {
  const Flow *flow = p->flow;
  const char *base =
      arena_printf(p->l->arena, "%s_%s", p->l->k->symbol, flow->callees.at[callee].kernel->name);
  const char *name = base;
  for (int n = 2, i = 0; i < callee; i++) {
    if (strcmp(flow->callees.at[i].kernel->symbol, name) != 0) continue;
    name = arena_printf(p->l->arena, "%s_%d", base, n++);
    i = -1;
  }
  return name;
}

void name_callees(ProgramLower *p) {
  for (int i = 0; i < p->flow->callees.count; i++)
    p->flow->callees.at[i].kernel->symbol = callee_symbol(p, i);
}

int add_callee(ProgramLower *p, Kernel *k) {
  Flow *flow = p->flow;
  for (int i = 0; i < flow->callees.count; i++)
    if (same_statics(flow->callees.at[i].kernel, k)) return i;
  LIST_PUSH(p->l->arena, &flow->callees, ((FlowCallee){k}));
  return flow->callees.count - 1;
}

// -D KERNEL.NAME=VALUE takes precedence over the program.
static void add_settings(FlowCallLower *c) {
  const LowerOptions *options = c->l->options;
  for (int i = 0; i < options->setting_count; i++)
    if (options->settings[i].kernel &&
        (c->kernel->kind == N_PROGRAM || strcmp(options->settings[i].kernel, c->kernel->name) == 0))
      LIST_PUSH(c->l->arena, &c->settings, options->settings[i]);
}

static Kernel *lowered_for(FlowCallLower *c, Lowered **list, const char *key) {
  for (const Lowered *known = *list; known; known = known->next)
    if (known->name == c->kernel->name && known->key == key) return known->kernel;
  LowerOptions options = {c->settings.at, c->settings.count,       c->hints.at,
                          c->hints.count, c->l->options->numerics, NULL};
  Lowered *made = NEW(c->l->arena, Lowered);
  *made = (Lowered){c->kernel->name, key, lower_callee(c->l, c->kernel, &options), *list};
  *list = made;
  if (made->kernel) c->l->k->lost = fmax(c->l->k->lost, made->kernel->lost);
  return made->kernel;
}

static bool lower_for_call(FlowCallLower *c, int count) {
  ProgramLower *p = c->p;
  for (int i = 0; i < c->inputs; i++) add_hint(c, i, &c->parts[i]);
  for (int i = 0; i < count; i++)
    if (c->targets[i].exists && !c->targets[i].bad) add_hint(c, c->inputs + i, &c->targets[i].part);
  add_settings(c);
  Lowered **list = c->kernel->kind == N_PROGRAM ? c->l->programs : &p->lowered;
  Kernel *k = lowered_for(c, list, key_of_call(c));
  if (!k) return false;
  c->callee = k->flow ? -1 : add_callee(p, k);
  c->k = k->flow ? k : p->flow->callees.at[c->callee].kernel;
  return true;
}

// ---- sizes

static bool is_size_name(char ch) { return isalnum((unsigned char)ch) || ch == '_'; }

// A size of the program, or a constant.
static const char *size_text(ProgramLower *p, Dim dim) {
  if (dim_is_const(dim)) return arena_printf(p->l->arena, "%lld", (long long)dim);
  const char *name = p->l->k->sizes.at[dim_size_index(dim)].name;
  return strchr(name, ' ') ? arena_printf(p->l->arena, "(%s)", name) : name;
}

// A size's expression with the names of the program's sizes and the values of the callee's statics:
// equal texts mean the same.
static const char *renamed(ProgramLower *p, const Kernel *callee, const char *text,
                           const Dim *map) {
  Buf out = {0};
  while (*text) {
    size_t length = 0;
    while (is_size_name(text[length])) length++;
    const char *with = NULL;
    for (int i = 0; i < callee->sizes.count && length; i++) {
      const char *name = callee->sizes.at[i].name;
      if (strlen(name) == length && memcmp(name, text, length) == 0 && map[i] != DIM_UNKNOWN)
        with = size_text(p, map[i]);
    }
    for (int i = 0; i < callee->statics.count && length && !with; i++) {
      const StaticValue *s = &callee->statics.at[i];
      if (strlen(s->name) == length && memcmp(s->name, text, length) == 0) with = s->value;
    }
    if (with)
      buf_puts(&out, with);
    else
      buf_add(&out, text, length ? length : 1);
    text += length ? length : 1;
  }
  const char *name = intern_n(out.text ? out.text : "", out.length);
  buf_free(&out);
  return name;
}

static bool same_region(const Region *a, const Region *b);

static int position(const Region *region, const Instr *instr) {
  for (int i = 0; i < region->instrs.count; i++)
    if (region->instrs.at[i] == instr) return i;
  return -1;
}

static bool same_instr(const Region *a, const Region *b, int i) {
  const Instr *x = a->instrs.at[i], *y = b->instrs.at[i];
  if (x->op != y->op || x->ival != y->ival || x->nargs != y->nargs ||
      x->type.dtype != y->type.dtype)
    return false;
  for (int k = 0; k < x->nargs; k++)
    if (position(a, x->args[k]) != position(b, y->args[k])) return false;
  for (int r = 0; r < 2; r++) {
    if (!x->regions[r] != !y->regions[r]) return false;
    if (x->regions[r] && !same_region(x->regions[r], y->regions[r])) return false;
  }
  return true;
}

static bool same_region(const Region *a, const Region *b) {
  if (a->instrs.count != b->instrs.count) return false;
  for (int i = 0; i < a->instrs.count; i++)
    if (!same_instr(a, b, i)) return false;
  return true;
}

static bool reads_unknown(const Region *region, const Dim *map, bool *constant) {
  for (int i = 0; i < region->instrs.count; i++) {
    const Instr *v = region->instrs.at[i];
    if (v->op == OP_SIZE && map[v->ival] == DIM_UNKNOWN) return true;
    if (v->op == OP_SIZE && !dim_is_const(map[v->ival])) *constant = false;
    for (int r = 0; r < 2; r++)
      if (v->regions[r] && reads_unknown(v->regions[r], map, constant)) return true;
  }
  return false;
}

static Dim map_derived(ProgramLower *p, const Kernel *callee, const Size *size, const Dim *map,
                       Span span) {
  Lower *l = p->l;
  bool constant = true;
  if (reads_unknown(size->value, map, &constant)) return DIM_UNKNOWN;
  if (constant) {
    int64_t value = eval_index(callee, size->value, map, NULL, 0);
    return value >= 0 && value <= INT32_MAX ? value : DIM_UNKNOWN;
  }
  Region *region = copy_index_region(l, size->value, map);
  for (int i = 0; i < l->k->sizes.count; i++)
    if (l->k->sizes.at[i].value && same_region(l->k->sizes.at[i].value, region))
      return dim_of_size(i);
  return dim_of_size(add_derived_size(l, renamed(p, callee, size->name, map), span, region));
}

Dim map_dim(ProgramLower *p, const Kernel *callee, Dim dim, const Dim *map, Span span) {
  if (dim_is_const(dim)) return dim;
  const Size *size = &callee->sizes.at[dim_size_index(dim)];
  if (!size->value) return map[dim_size_index(dim)];
  return map_derived(p, callee, size, map, span);
}

static bool is_expression(const Lower *l, Dim dim) {
  return !dim_is_const(dim) && l->k->sizes.at[dim_size_index(dim)].value;
}

// Whether sizes that are expressions are equal may be known only at the call.
static bool may_be_equal(const Lower *l, Dim a, Dim b) {
  return a == b || is_expression(l, a) || is_expression(l, b);
}

static void note_operand(FlowCallLower *c, int operand) {
  diag_note(c->l->diag, c->k->refs.at[operand]->span, "the operand `%s` of `%s` is here",
            c->k->refs.at[operand]->name, c->k->name);
}

// Checks the extent of an argument's axis against the kernel's.
static bool check_axis(FlowCallLower *c, int operand, int axis, Dim found, const Node *node) {
  Lower *l = c->l;
  Dim dim = c->k->refs.at[operand]->array.dim[axis];
  const char *name = c->k->refs.at[operand]->name;
  if (dim_is_const(dim)) {
    if (may_be_equal(l, dim, found)) return true;
    diag_error(l->diag, node->span, ERR_SHAPE_MISMATCH,
               "axis %d of `%s` has %lld elements in `%s`; here it is %s", axis, name,
               (long long)dim, c->k->name, dim_text(l, found));
    note_operand(c, operand);
    return false;
  }
  int size = dim_size_index(dim);
  if (c->k->sizes.at[size].value) return true;  // once all sizes are known
  if (c->map[size] == DIM_UNKNOWN) {
    c->map[size] = found;
    c->from[size] = node;
    return true;
  }
  if (may_be_equal(l, c->map[size], found)) return true;
  diag_error(l->diag, node->span, ERR_SHAPE_MISMATCH,
             "axis %d of `%s` is the size `%s` of `%s`: here it is %s, and before it was %s", axis,
             name, c->k->sizes.at[size].name, c->k->name, dim_text(l, found),
             dim_text(l, c->map[size]));
  if (c->from[size])
    diag_note(l->diag, c->from[size]->span, "here `%s` is %s", c->k->sizes.at[size].name,
              dim_text(l, c->map[size]));
  return false;
}

static const char *part_name(const FlowCallLower *c, const FlowPart *part) {
  return c->p->flow->arrays.at[part->array].name;
}

// Checks the dtype, rank and extents of an argument against the kernel's operand.
static bool check_operand(FlowCallLower *c, int operand, const FlowPart *part, const Node *node) {
  Lower *l = c->l;
  const Ref *ref = c->k->refs.at[operand];
  Type type = flow_part_type(c->p->flow, part);
  if (c->p->flow->arrays.at[part->array].packed && !ref->packed) {
    diag_error(l->diag, node->span, ERR_BAD_PACKED,
               "`%s` is packed, and elements of `%s` of `%s` are not packed", part_name(c, part),
               ref->name, c->k->name);
    note_operand(c, operand);
    return false;
  }
  if (type.dtype != ref->array.dtype) {
    diag_error(l->diag, node->span, ERR_DTYPE_MISMATCH, "`%s` of `%s` is %s, and this is %s",
               ref->name, c->k->name, dtype_info[ref->array.dtype].name, type_text(l, &type));
    note_operand(c, operand);
    return false;
  }
  if (type.rank != ref->array.rank) {
    diag_error(l->diag, node->span, ERR_RANK_MISMATCH, "`%s` of `%s` has %d %s, and this is %s",
               ref->name, c->k->name, ref->array.rank, ref->array.rank == 1 ? "axis" : "axes",
               type_text(l, &type));
    note_operand(c, operand);
    return false;
  }
  for (int i = 0; i < type.rank; i++)
    if (!check_axis(c, operand, i, type.dim[i], node)) return false;
  return true;
}

static int find_size(const Kernel *k, const char *name) {
  for (int i = 0; i < k->sizes.count; i++)
    if (strcmp(k->sizes.at[i].name, name) == 0) return i;
  return -1;
}

static bool unknown_keyword(FlowCallLower *c, const Node *keyword) {
  Lower *l = c->l;
  LIST(const char *) names = {0};
  for (int i = 0; i < c->inputs; i++) LIST_PUSH(l->arena, &names, c->params.at[i]->name);
  for (int i = 0; i < c->k->statics.count; i++)
    LIST_PUSH(l->arena, &names, c->k->statics.at[i].name);
  for (int i = 0; i < c->k->sizes.count; i++) LIST_PUSH(l->arena, &names, c->k->sizes.at[i].name);
  diag_error(l->diag, keyword->name_span, ERR_UNKNOWN_KEYWORD,
             "`%s` has no input, static or size `%s`%s", c->k->name, keyword->name,
             suggestion(l, keyword->name, names.at, names.count));
  return false;
}

static bool may_be(FlowCallLower *c, int size, Dim given, Span span) {
  Lower *l = c->l;
  if (c->map[size] == DIM_UNKNOWN || may_be_equal(l, c->map[size], given)) return true;
  diag_error(l->diag, span, ERR_BAD_SIZE_ARGUMENT,
             "the arguments give `%s` the value %s, and this is %s", c->k->sizes.at[size].name,
             dim_text(l, c->map[size]), dim_text(l, given));
  return false;
}

static bool set_size(FlowCallLower *c, const Node *keyword) {
  Lower *l = c->l;
  int size = find_size(c->k, keyword->name);
  Dim dim;
  if (size < 0) return unknown_keyword(c, keyword);
  if (!lower_size_argument(l, keyword->a, &dim)) return false;
  if (!may_be(c, size, dim, keyword->a->span)) return false;
  if (c->map[size] == DIM_UNKNOWN) {
    c->map[size] = dim;
    c->from[size] = keyword->a;
  }
  return true;
}

// A static that is given nevertheless is the same in every call.
static bool derive_size(FlowCallLower *c, int index) {
  const Size *size = &c->k->sizes.at[index];
  const Dim given = c->map[index];
  if (!size->value) return true;
  c->map[index] = map_derived(c->p, c->k, size, c->map, c->node->span);
  const Dim found = c->map[index];
  if (given == DIM_UNKNOWN || found == DIM_UNKNOWN || given == found) return true;
  if (!may_be(c, index, given, c->from[index]->span)) return false;
  const char *message = arena_printf(
      c->l->arena, "the size `%s` of `%s` follows from its arguments", size->name, c->k->name);
  require_equal(c->l, given, found, c->from[index]->span, message);
  return true;
}

static bool solve_sizes(FlowCallLower *c, int count) {
  bool good = true;
  c->map = NEW_ARRAY(c->l->arena, Dim, c->k->sizes.count + 1);
  c->from = NEW_ARRAY(c->l->arena, const Node *, c->k->sizes.count + 1);
  for (int i = 0; i < c->k->sizes.count; i++) c->map[i] = DIM_UNKNOWN;
  for (int i = 0; i < c->inputs; i++)
    good = check_operand(c, i, &c->parts[i], c->arguments[i]) && good;
  for (int i = 0; i < count; i++)
    if (c->targets[i].exists && !c->targets[i].bad)
      good = check_operand(c, c->inputs + i, &c->targets[i].part, c->targets[i].node) && good;
  for (int i = 0; i < c->sizes.count; i++) good = set_size(c, c->sizes.at[i]) && good;
  if (!good) return false;
  for (int i = 0; i < c->k->sizes.count; i++) good = derive_size(c, i) && good;
  return good;
}

// Axes that are expressions of sizes: constants are compared now, others at the call.
static bool check_expressions(FlowCallLower *c, int operand, const FlowPart *part,
                              const Node *node) {
  Lower *l = c->l;
  const Ref *ref = c->k->refs.at[operand];
  Type type = flow_part_type(c->p->flow, part);
  for (int i = 0; i < type.rank; i++) {
    Dim dim = map_dim(c->p, c->k, ref->array.dim[i], c->map, node->span);
    bool plain = dim_is_const(dim) && dim_is_const(type.dim[i]);
    if (dim == DIM_UNKNOWN || dim == type.dim[i] || !plain) continue;
    diag_error(l->diag, node->span, ERR_SHAPE_MISMATCH,
               "axis %d of `%s` has %lld elements in `%s` by its other arguments; here it is %lld",
               i, ref->name, (long long)dim, c->k->name, (long long)type.dim[i]);
    note_operand(c, operand);
    return false;
  }
  return true;
}

// ---- results

static bool in_place_error(FlowCallLower *c, int result, const char *format, const char *a,
                           const char *b) PRINTF_LIKE(3, 0);
static bool in_place_error(FlowCallLower *c, int result, const char *format, const char *a,
                           const char *b) {
  int operand = c->inputs + result;
  diag_error(c->l->diag, c->targets[result].node->span, ERR_IN_PLACE, format, a, b);
  if (c->k->refs.at[operand]->alias) note_operand(c, operand);
  return false;
}

static const char *argument_text(const FlowCallLower *c, int input) {
  return array_node(c->arguments[input])->name;
}

// The kernel updates an argument in place: its result is where the argument is.
static bool place_alias(FlowCallLower *c, int result, int input) {
  ProgramLower *p = c->p;
  Target *target = &c->targets[result];
  const FlowPart *argument = &c->parts[input];
  const Kernel *k = c->l->k;
  const char *name = argument_text(c, input);
  if (target->exists) {
    if (flow_root(k, target->part.array) == flow_root(k, argument->array) &&
        target->part.leading == argument->leading)
      return true;
    return in_place_error(c, result,
                          "the kernel updates `%s` in place, so its result cannot be in `%s`", name,
                          part_name(c, &target->part));
  }
  const FlowArray *array = &p->flow->arrays.at[argument->array];
  if (!flow_is_temporary(k, argument->array))
    return in_place_error(c, result,
                          "the kernel updates the operand `%s` in place: assign to an output with "
                          "`alias .. = %s`",
                          name, name);
  if (argument->leading || argument->reshaped || c->names[input]->var)
    return in_place_error(c, result, "the kernel updates `%s` in place: assign to it, `%s = ..`",
                          name, name);
  if (array->loop != p->loop)
    return in_place_error(
        c, result,
        "the kernel updates `%s` in place, in each iteration of the loop: make it a "
        "var, and assign to it, `%s = ..`",
        name, name);
  return true;
}

static bool shares(const FlowCallLower *c, const FlowPart *a, const FlowPart *b) {
  return flow_root(c->l->k, a->array) == flow_root(c->l->k, b->array) &&
         (!a->leading || !b->leading);
}

// A var that a call reads and writes is exchanged with a spare array.
static bool give_spare(FlowCallLower *c, int result, const FlowPart *argument) {
  ProgramLower *p = c->p;
  const FlowPart *part = &c->targets[result].part;
  bool whole = !part->leading && part->array == argument->array;
  if (!whole || !flow_is_temporary(c->l->k, part->array))
    return in_place_error(c, result,
                          "`%s` is in the memory of the argument `%s`, which the kernel does not "
                          "update in place; a var of the program may hold the result",
                          part_name(c, part), part_name(c, argument));
  FlowArray *array = &p->flow->arrays.at[part->array];
  if (array->spare >= 0) return true;
  FlowArray spare = *array;
  array->spare = p->flow->arrays.count;
  LIST_PUSH(c->l->arena, &p->flow->arrays, spare);
  return true;
}

// A program that reads an argument after it has written a result cannot have both in the same
// memory.
static bool check_writes_last(FlowCallLower *c, int result) {
  const FlowPart *part = &c->targets[result].part;
  const Ref *alias = c->k->refs.at[c->inputs + result]->alias;
  for (int i = 0; i < c->inputs; i++) {
    bool shared = flow_root(c->l->k, part->array) == flow_root(c->l->k, c->parts[i].array);
    if (!c->k->flow || !shared || (alias && alias->id == i) ||
        writes_last(c->k, i, c->inputs + result))
      continue;
    return in_place_error(c, result,
                          "`%s` is in the memory of the argument `%s`, which the program reads "
                          "until its end: use `let` for the result",
                          part_name(c, part), part_name(c, &c->parts[i]));
  }
  return true;
}

static bool place_existing(FlowCallLower *c, int result) {
  const FlowPart *part = &c->targets[result].part;
  const Ref *alias = c->k->refs.at[c->inputs + result]->alias;
  if (!check_writes_last(c, result)) return false;
  for (int i = 0; i < c->inputs; i++)
    if ((!alias || alias->id != i) && shares(c, part, &c->parts[i])) {
      if (alias)
        return in_place_error(c, result, "`%s` is updated in place, and `%s` is in its memory",
                              part_name(c, part), part_name(c, &c->parts[i]));
      if (!give_spare(c, result, &c->parts[i])) return false;
    }
  for (int i = 0; i < result; i++)
    if (c->targets[i].exists && shares(c, part, &c->targets[i].part))
      return in_place_error(c, result, "two results share memory: `%s` and `%s`",
                            part_name(c, part), part_name(c, &c->targets[i].part));
  return true;
}

static bool make_result(FlowCallLower *c, int result) {
  const Ref *ref = c->k->refs.at[c->inputs + result];
  const Node *node = c->targets[result].node;
  Type type = ref->array;
  for (int i = 0; i < type.rank; i++) {
    type.dim[i] = map_dim(c->p, c->k, type.dim[i], c->map, c->node->span);
    if (type.dim[i] != DIM_UNKNOWN) continue;
    diag_error(c->l->diag, c->node->span, ERR_UNBOUND_SIZE,
               "the extent of axis %d of the result `%s` is unknown: give the size, as in "
               "`%s(.., %s = ..)`",
               i, ref->name, c->k->name,
               dim_is_const(ref->array.dim[i])
                   ? "N"
                   : c->k->sizes.at[dim_size_index(ref->array.dim[i])].name);
    return false;
  }
  c->parts[c->inputs + result] =
      (FlowPart){.array = add_array(c->p, node->name, node->span, type), .span = node->span};
  return true;
}

static bool place_result(FlowCallLower *c, int result) {
  Target *target = &c->targets[result];
  const Ref *alias = c->k->refs.at[c->inputs + result]->alias;
  if (target->bad) return false;
  if (alias && !place_alias(c, result, alias->id)) return false;
  if (target->exists) {
    c->parts[c->inputs + result] = target->part;
    return place_existing(c, result) &&
           check_expressions(c, c->inputs + result, &target->part, target->node);
  }
  if (!alias) return make_result(c, result);
  for (int i = 0; i < c->inputs; i++)
    if (i != alias->id && shares(c, &c->parts[alias->id], &c->parts[i]))
      return in_place_error(c, result, "`%s` is updated in place, and `%s` is in its memory",
                            part_name(c, &c->parts[alias->id]), part_name(c, &c->parts[i]));
  c->parts[c->inputs + result] = c->parts[alias->id];
  return true;
}

static void declare_results(FlowCallLower *c, int count) {
  for (int i = 0; i < count; i++) {
    if (c->targets[i].exists) continue;
    const Ref *alias = c->k->refs.at[c->inputs + i]->alias;
    const Node *node = c->targets[i].node;
    if (alias && c->p->flow->arrays.at[c->parts[alias->id].array].name != node->name) {
      c->names[alias->id]->into = node->name;
      c->names[alias->id]->updated = c->node->span;
    }
    declare_array(c->p, node, c->parts[c->inputs + i].array, false);
  }
}

// ---- the whole

static bool check_count(FlowCallLower *c, int count) {
  int outputs = c->kernel->list2.count;
  if (count == outputs) return true;
  if (count == 0)
    diag_error(c->l->diag, c->node->span, ERR_ARGUMENT_COUNT,
               "the results of `%s` are not used: use `let` or an assignment", c->kernel->name);
  else
    diag_error(c->l->diag, c->targets[count > outputs ? outputs : count - 1].node->span,
               ERR_ARGUMENT_COUNT, "`%s` has %d result%s, and %d %s expected here", c->kernel->name,
               outputs, outputs == 1 ? "" : "s", count, count == 1 ? "is" : "are");
  return false;
}

static bool lower_whole_call(FlowCallLower *c, int count) {
  collect_params(c);
  // Checks all of them, so that each mistake is reported.
  bool good = check_count(c, count);
  good = bind_arguments(c) && good;
  if (!good || !lower_arguments(c)) return false;
  for (int i = 0; i < count; i++)
    if (c->targets[i].bad) return false;
  if (!lower_for_call(c, count) || !solve_sizes(c, count)) return false;
  for (int i = 0; i < c->inputs; i++)
    good = check_expressions(c, i, &c->parts[i], c->arguments[i]) && good;
  for (int i = 0; i < count && good; i++) good = place_result(c, i);
  return good;
}

void lower_kernel_call(ProgramLower *p, const Node *call, Target *targets, int count) {
  FlowCallLower c = {.p = p, .l = p->l, .node = call, .targets = targets};
  c.kernel = find_callee(p, call);
  if (!c.kernel || !lower_whole_call(&c, count)) {
    for (int i = 0; i < count; i++) targets[i].bad = true;
    return;
  }
  FlowStep step = {
      .kind = FLOW_CALL, .span = call->span, .loop = p->loop, .callee = c.callee, .parts = c.parts};
  if (!c.k->flow)
    LIST_PUSH(p->l->arena, &p->flow->steps, step);
  else if (!inline_program(p, c.k, c.parts, c.map, call->span))
    return;
  declare_results(&c, count);
}
