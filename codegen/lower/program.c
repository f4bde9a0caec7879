// Programs: their statements, the names of their arrays, and the possible targets of calls.
#include "codegen/lower/program.h"
#include "codegen/lower/refs.h"

#include <string.h>

// ---- arrays and their names

int add_array(ProgramLower *p, const char *name, Span span, Type type) {
  FlowArray array = {.name = name, .span = span, .type = type, .loop = p->loop, .spare = -1};
  LIST_PUSH(p->l->arena, &p->flow->arrays, array);
  return p->flow->arrays.count - 1;
}

void declare_array(ProgramLower *p, const Node *name, int array, bool var) {
  Symbol *s = declare(p->l, SYM_ARRAY, name->name, name->span);
  s->index = p->names.count;
  LIST_PUSH(p->l->arena, &p->names, ((ArrayName){.array = array, .var = var}));
}

// A name whose declaration was an error: its uses are not reported.
static void declare_poisoned(ProgramLower *p, const Node *name) {
  declare(p->l, SYM_ARRAY, name->name, name->span)->poisoned = true;
}

static void add_operands(ProgramLower *p) {
  Kernel *k = p->l->k;
  for (int i = 0; i < k->inputs + k->outputs; i++) {
    Ref *ref = k->refs.at[i];
    ref->space = SPACE_ANY;
    const int array = add_array(p, ref->name, ref->span, ref->array);
    p->flow->arrays.at[array].packed = ref->packed;
    LIST_PUSH(p->l->arena, &p->names, ((ArrayName){.array = i, .var = ref->role == REF_OUTPUT}));
  }
}

static Symbol *find_array(ProgramLower *p, const Node *node, ArrayName **name) {
  Lower *l = p->l;
  Symbol *s = find_symbol(l, node->name);
  *name = NULL;
  if (!s) {
    unknown_name(l, node->name, node->span);
  } else if (s->poisoned || (s->kind == SYM_OPERAND && is_broken(l, s->ref))) {
    return NULL;
  } else if (s->kind == SYM_OPERAND) {
    *name = &p->names.at[s->ref->id];
  } else if (s->kind == SYM_ARRAY) {
    *name = &p->names.at[s->index];
  } else {
    diag_error(l->diag, node->span, ERR_BAD_ARGUMENT,
               "`%s` is a %s; expected an array: an operand or the result of a call", node->name,
               symbol_kind_text(s->kind));
    diag_note(l->diag, s->span, "`%s` is declared here", node->name);
  }
  return *name ? s : NULL;
}

static bool is_reshape(const Node *node) {
  return node->kind == N_CALL && strcmp(node->name, "reshape") == 0 && node->list.count == 2 &&
         node->list2.count == 0;
}

const Node *array_node(const Node *node) {
  if (is_reshape(node)) node = node->list.at[0];
  return node->kind == N_INDEX ? node->a : node;
}

ArrayName *argument_name(ProgramLower *p, const Node *node) {
  Lower *l = p->l;
  ArrayName *name = NULL;
  const Node *base = array_node(node);
  if (base->kind != N_NAME) {
    if (base->kind != N_ERROR)
      diag_error(l->diag, base->span, ERR_BAD_ARGUMENT,
                 "expected an array by its name, a part of one, as in `w[l]`, or a reshape of "
                 "these");
    return NULL;
  }
  if (!find_array(p, base, &name)) return NULL;
  if (!name->into) return name;
  diag_error(l->diag, base->span, ERR_IN_PLACE, "`%s` was updated in place: it is `%s` now",
             base->name, name->into);
  diag_note(l->diag, name->updated, "by this call");
  return NULL;
}

// ---- parts

static bool is_whole_axis(const Node *node) {
  return node->kind == N_ELLIPSIS || (node->kind == N_SLICE && !node->a && !node->b && !node->c);
}

static Region *lower_positions(ProgramLower *p, const Node *node, int count) {
  Lower *l = p->l;
  Frame frame;
  Instr *values[MAX_RANK];
  bool good = true;
  l->place = IN_ARGUMENT;
  Region *region = enter_region(l, &frame);
  for (int i = 0; i < count; i++) {
    values[i] = lower_index(l, node->list.at[i]);
    good = good && values[i];
  }
  if (good) emit(l, OP_YIELD, no_result, node->span, count, values);
  leave_region(l);
  if (!good || !check_index_region(l, region)) return NULL;
  if (flow_is_plain(region)) return region;
  diag_error(l->diag, node->span, ERR_INDEX_ONLY,
             "an index of a program may contain only sizes, numbers and + - * / %% floordiv mod "
             "cdiv min max");
  return NULL;
}

static bool check_positions(ProgramLower *p, const Node *node, const FlowPart *part) {
  Lower *l = p->l;
  for (int i = 0; i < part->leading; i++) {
    const Instr *at = ir_yielded(part->index, i);
    Dim dim = p->flow->arrays.at[part->array].type.dim[i];
    if (at->op != OP_CONST || (at->ival >= 0 && (!dim_is_const(dim) || at->ival < dim))) continue;
    diag_error(l->diag, node->list.at[i]->span, ERR_INDEX_RANGE,
               "index %lld is outside of axis %d of `%s`, which has %s elements",
               (long long)at->ival, i, node->a->name, dim_text(l, dim));
    return false;
  }
  return true;
}

// Axes that may be expressions of sizes.
static bool lower_extents(ProgramLower *p, const Node *node, Type *type) {
  bool good = node->kind == N_ARRAY && node->list.count <= MAX_RANK;
  if (!good)
    diag_error(p->l->diag, node->span, ERR_BAD_SHAPE,
               "expected a shape of at most %d axes, as in [B * T, D]", MAX_RANK);
  type->rank = good ? node->list.count : 0;
  for (int i = 0; i < type->rank; i++)
    good = lower_size_argument(p->l, node->list.at[i], &type->dim[i]) && good;
  return good;
}

static bool is_constant_type(const Type *type) {
  for (int i = 0; i < type->rank; i++)
    if (!dim_is_const(type->dim[i])) return false;
  return true;
}

static bool lower_reshape(ProgramLower *p, const Node *node, FlowPart *part) {
  Lower *l = p->l;
  Type from = flow_part_type(p->flow, part), to = {.dtype = from.dtype};
  if (!lower_extents(p, node->list.at[1], &to)) return false;
  part->reshaped = true;
  part->shape = to;
  part->span = node->span;
  if (!is_constant_type(&from) || !is_constant_type(&to) || ir_same_elements(l->k, &from, &to))
    return true;
  diag_error(l->diag, node->span, ERR_SHAPE_MISMATCH,
             "%s has another number of elements than the shape %s", type_text(l, &from),
             shape_text(l, &to));
  return false;
}

bool lower_part(ProgramLower *p, const Node *node, int array, FlowPart *part) {
  Lower *l = p->l;
  if (is_reshape(node))
    return lower_part(p, node->list.at[0], array, part) && lower_reshape(p, node, part);
  const Type *type = &p->flow->arrays.at[array].type;
  *part = (FlowPart){.array = array, .span = node->span};
  if (node->kind != N_INDEX) return true;
  int given = 0, whole;
  while (given < node->list.count && !is_whole_axis(node->list.at[given]) &&
         node->list.at[given]->kind != N_SLICE)
    given++;
  for (whole = given; whole < node->list.count && is_whole_axis(node->list.at[whole]);) whole++;
  if (whole < node->list.count) {
    diag_error(l->diag, node->list.at[whole]->span, ERR_BAD_INDEX,
               "a part of an array is selected by positions on its first axes, as in `w[l]`");
    return false;
  }
  if (node->list.count > type->rank + (node->list.count > given)) {
    diag_error(l->diag, node->span, ERR_RANK_MISMATCH, "%d positions for `%s`, which has %d %s",
               node->list.count, node->a->name, type->rank, type->rank == 1 ? "axis" : "axes");
    return false;
  }
  part->leading = given;
  if (given) part->index = lower_positions(p, node, given);
  return !given || (part->index && check_positions(p, node, part));
}

// ---- the left side of `=`

static void not_assignable(ProgramLower *p, const Node *base, const Symbol *s) {
  Lower *l = p->l;
  if (s->kind == SYM_OPERAND)
    diag_error(l->diag, base->span, ERR_STORE_TO_INPUT,
               "`%s` is an input: an output with `alias` shares its memory", base->name);
  else
    diag_error(l->diag, base->span, ERR_NOT_ASSIGNABLE,
               "`%s` is a let, which never changes; a var does", base->name);
  diag_note(l->diag, s->span, "`%s` is declared here", base->name);
}

static void lower_target(ProgramLower *p, const Node *node, Target *target) {
  ArrayName *name = NULL;
  const Node *base = array_node(node);
  *target = (Target){.node = node, .exists = true, .bad = true};
  if (base->kind != N_NAME) {
    if (base->kind != N_ERROR)
      diag_error(p->l->diag, base->span, ERR_NOT_ASSIGNABLE,
                 "a call can assign only to an output, a var or a part of one");
    return;
  }
  Symbol *s = find_array(p, base, &name);
  if (!s) return;
  if (!name->var)
    not_assignable(p, base, s);
  else
    target->bad = !lower_part(p, node, name->array, &target->part);
  if (!flow_is_temporary(p->l->k, name->array)) p->assigned[name->array] = true;
}

// ---- statements

static void lower_flow_items(ProgramLower *p, const Node *items);

static const Node *call_of(ProgramLower *p, const Node *value) {
  if (value->kind == N_CALL) return value;
  if (value->kind != N_ERROR)
    diag_error(p->l->diag, value->span, ERR_BAD_CALL,
               "a program only calls kernels: expected a call, as in `let y = scale(x)`");
  return NULL;
}

static void lower_flow_let(ProgramLower *p, const Node *node) {
  const Node *call = call_of(p, node->a), single = {.kind = N_NAME,
                                                    .name = node->name,
                                                    .span = node->name_span,
                                                    .name_span = node->name_span};
  int count = node->list.count ? node->list.count : 1;
  Target *targets = NEW_ARRAY(p->l->arena, Target, count);
  Node *one = NEW(p->l->arena, Node);
  *one = single;
  for (int i = 0; i < count; i++)
    targets[i] = (Target){.node = node->list.count ? node->list.at[i] : one, .bad = !call};
  if (call) lower_kernel_call(p, call, targets, count);
  for (int i = 0; i < count; i++)
    if (targets[i].bad) declare_poisoned(p, targets[i].node);
}

static void lower_flow_assign(ProgramLower *p, const Node *node) {
  if (node->op != OP_NONE) {
    diag_error(p->l->diag, node->span, ERR_PROGRAM_STATEMENT,
               "a program assigns by `=`: a kernel does the arithmetic");
    return;
  }
  int count = 1 + node->list.count;
  Target *targets = NEW_ARRAY(p->l->arena, Target, count);
  for (int i = 0; i < count; i++) lower_target(p, i ? node->list.at[i - 1] : node->a, &targets[i]);
  const Node *call = call_of(p, node->b);
  if (call) lower_kernel_call(p, call, targets, count);
}

static void lower_flow_var(ProgramLower *p, const Node *node) {
  Lower *l = p->l;
  Type type = {.rank = 0};
  DType dtype = DT_F32;
  if (node->c)
    diag_error(l->diag, node->c->span, ERR_PROGRAM_STATEMENT,
               "a var of a program has no initial value: calls assign to it");
  l->place = IN_SHAPE;
  bool good = lower_dtype(l, node->a, &dtype);
  if (node->b) good = lower_extents(p, node->b, &type) && good;
  const Node name = {.kind = N_NAME, .name = node->name, .span = node->name_span};
  if (good && !node->c)
    declare_array(p, &name, add_array(p, node->name, node->name_span, with_dtype(type, dtype)),
                  true);
  else
    declare_poisoned(p, &name);
}

static void lower_flow_if(ProgramLower *p, const Node *node) {
  Lower *l = p->l;
  Symbol *scope = l->scope;
  if (node->kind != N_IF) {
    lower_flow_items(p, node);
    l->scope = scope;
    return;
  }
  l->place = IN_STATIC;
  Value c = lower_expr(l, node->a);
  if (c.kind != V_BOOL) {
    if (!is_error(c))
      diag_error(l->diag, node->a->span, ERR_NOT_A_CONDITION,
                 "the condition of an `if` in a program must follow from statics; this is %s",
                 value_text(l, c));
    return;
  }
  const Node *arm = c.ival ? node->b : node->c;
  if (arm) lower_flow_if(p, arm);
}

static Region *lower_bounds(ProgramLower *p, const Node *node) {
  Lower *l = p->l;
  Frame frame;
  l->place = IN_ARGUMENT;
  Region *region = enter_region(l, &frame);
  Instr *bounds[2] = {lower_index(l, node->a), lower_index(l, node->b)};
  bool good = bounds[0] && bounds[1];
  if (good) emit(l, OP_YIELD, no_result, node->span, 2, bounds);
  leave_region(l);
  if (!good || !check_index_region(l, region)) return NULL;
  if (flow_is_plain(region)) return region;
  diag_error(l->diag, (Span){node->a->span.start, node->b->span.end}, ERR_INDEX_ONLY,
             "a bound of a program may contain only sizes, numbers and + - * / %% floordiv mod "
             "cdiv min max");
  return NULL;
}

static void unroll_for(ProgramLower *p, const Node *node) {
  Lower *l = p->l;
  Symbol *scope = l->scope;
  int64_t from, to, count;
  l->place = IN_STATIC;
  bool good = lower_static_int(l, node->a, "the start of a `static for`", &from);
  if (!(lower_static_int(l, node->b, "the end of a `static for`", &to) && good)) return;
  if (!sub_i64(to, from, &count) || count > MAX_UNROLL) {
    diag_error(l->diag, node->span, ERR_TOO_LARGE, "a `static for` unrolls at most %d times",
               MAX_UNROLL);
    return;
  }
  for (int64_t i = from; i < to && !over_budget(l, node->span); i++, l->scope = scope) {
    if (strcmp(node->name, "_") != 0)
      declare(l, SYM_LOOP, node->name, node->name_span)->value = value_int(i);
    lower_flow_items(p, node->c);
  }
}

// A loop of a program.
static void lower_flow_for(ProgramLower *p, const Node *node) {
  Lower *l = p->l;
  Symbol *scope = l->scope;
  int outer = p->loop, begin = p->flow->steps.count;
  if (node->flags & FOR_STATIC) {
    unroll_for(p, node);
    return;
  }
  Region *bounds = lower_bounds(p, node);
  FlowStep step = {.kind = FLOW_FOR,
                   .span = node->span,
                   .loop = outer,
                   .name = node->name,
                   .variable = p->flow->variables++,
                   .bounds = bounds};
  LIST_PUSH(l->arena, &p->flow->steps, step);
  p->loop = begin;
  if (strcmp(node->name, "_") != 0)
    declare(l, SYM_ITERATION, node->name, node->name_span)->index = step.variable;
  lower_flow_items(p, node->c);
  step.kind = FLOW_END;
  step.mate = begin;
  p->flow->steps.at[begin].mate = p->flow->steps.count;
  LIST_PUSH(l->arena, &p->flow->steps, step);
  p->loop = outer;
  l->scope = scope;
}

// Lowers one statement of a program.
static void lower_flow_statement(ProgramLower *p, const Node *node) {
  if (over_budget(p->l, node->span)) return;
  switch (node->kind) {
    case N_ERROR:
      return;
    case N_LET:
      lower_flow_let(p, node);
      return;
    case N_ASSIGN:
      lower_flow_assign(p, node);
      return;
    case N_VAR:
      lower_flow_var(p, node);
      return;
    case N_IF:
      lower_flow_if(p, node);
      return;
    case N_FOR:
      lower_flow_for(p, node);
      return;
    case N_CALL_STMT: {
      const Node *call = call_of(p, node->a);
      if (call) lower_kernel_call(p, call, NULL, 0);
      return;
    }
    default:
      diag_error(p->l->diag, node->span, ERR_PROGRAM_STATEMENT,
                 "a program may contain only let, var, assignments, `for` and `if`, not `%s`",
                 node_name[node->kind]);
  }
}

static void lower_flow_items(ProgramLower *p, const Node *items) {
  for (int i = 0; i < items->list.count && !p->l->stopped; i++)
    if (!is_declaration(items->list.at[i])) lower_flow_statement(p, items->list.at[i]);
}

// ---- declarations

static bool check_declarations(ProgramLower *p, const Node *items) {
  const Node *first = NULL;
  int errors = diag_error_count(p->l->diag);
  for (int i = 0; i < items->list.count; i++) {
    const Node *item = items->list.at[i];
    bool declaration = is_declaration(item), known = item->kind == N_STATIC ||
                                                     item->kind == N_REQUIRE ||
                                                     item->kind == N_ALIAS || item->kind == N_MESH;
    if (declaration && !known) {
      diag_error(p->l->diag, item->span, ERR_PROGRAM_STATEMENT,
                 "a program has no `%s`: static, require, mesh and alias are its declarations",
                 node_name[item->kind]);
    } else if (declaration && first) {
      diag_error(p->l->diag, item->span, ERR_ORDER, "declarations must come before statements");
      diag_note(p->l->diag, first->span, "the first statement is here");
    }
    if (!declaration && !first) first = item;
  }
  return diag_error_count(p->l->diag) == errors;
}

static void check_assigned(ProgramLower *p) {
  const Kernel *k = p->l->k;
  for (int i = k->inputs; i < k->inputs + k->outputs; i++)
    if (!p->assigned[i] && !is_broken(p->l, k->refs.at[i]))
      diag_error(p->l->diag, k->refs.at[i]->span, ERR_NEVER_STORED,
                 "no call gives the output `%s` a value", k->refs.at[i]->name);
}

void lower_program(Lower *l) {
  Frame frame;
  const Node *items = l->node->a;
  l->k->body = enter_region(l, &frame);
  leave_region(l);
  l->k->flow = NEW(l->arena, Flow);
  if (!l->programs) l->programs = NEW(l->arena, struct Lowered *);
  ProgramLower program = {.l = l, .flow = l->k->flow, .loop = -1}, *p = &program;
  p->assigned = NEW_ARRAY(l->arena, bool, l->k->refs.count + 1);
  add_operands(p);
  if (!check_declarations(p, items)) return;
  int errors = diag_error_count(l->diag);
  lower_declarations(l);
  lower_flow_items(p, items);
  if (diag_error_count(l->diag) == errors) check_assigned(p);
  if (diag_error_count(l->diag) == errors) place_arrays(p);
  name_callees(p);
  flow_find_lives(p->flow);
}
