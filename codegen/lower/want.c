// Expressions where something special is required: an index scalar, a condition, a dtype, a
// constant, a shape.
#include "codegen/ir/facts.h"
#include "codegen/lower/internal.h"

#include <string.h>

Instr *convert_index(Lower *l, Value v, Span span) {
  if (is_error(v)) return NULL;
  if (v.kind == V_INT) return constant_of(l, v, DT_I64, span);
  if (is_index(v)) return v.instr;
  bool integer = v.kind == V_DATA && is_integer(v.instr->type.dtype);
  if (integer && v.instr->type.rank == 0)
    return emit1(l, OP_CAST, type_scalar(DT_I64), span, v.instr);
  if (integer)
    diag_error(l->diag, span, ERR_NOT_A_SCALAR, "expected an integer scalar, not %s",
               value_text(l, v));
  else
    diag_error(l->diag, span, ERR_NOT_AN_INTEGER, "expected an integer, not %s", value_text(l, v));
  return NULL;
}

Instr *lower_index(Lower *l, const Node *node) {
  return convert_index(l, lower_expr(l, node), node->span);
}

bool lower_condition(Lower *l, const Node *node, Value *out) {
  *out = lower_expr(l, node);
  if (is_error(*out)) return false;
  if (out->kind == V_BOOL) return true;
  bool is_bool = out->kind == V_DATA && out->instr->type.dtype == DT_BOOL;
  int64_t known;
  if (is_bool && known_number(out->instr, &known)) *out = value_bool(known);
  if (is_bool && (out->kind == V_BOOL || out->instr->type.rank == 0)) return true;
  if (is_bool)
    diag_error(l->diag, node->span, ERR_NOT_A_SCALAR,
               "a condition is one bool, not %s; all(..) and any(..) with keep = false make one",
               value_text(l, *out));
  else
    diag_error(l->diag, node->span, ERR_NOT_A_CONDITION,
               "a condition is a bool, not %s; compare it with something", value_text(l, *out));
  return false;
}

static void unknown_dtype(Lower *l, const Node *node) {
  const char *names[DT_COUNT];
  for (int t = 0; t < DT_COUNT; t++) names[t] = dtype_info[t].name;
  diag_error(l->diag, node->span, ERR_UNKNOWN_DTYPE, "`%s` is neither a dtype nor a static%s",
             node->name, suggestion(l, node->name, names, DT_COUNT));
}

// Where a dtype is expected its name is the dtype, whatever else has that name, but for a parameter
// that holds a dtype.
static bool names_dtype(Lower *l, const Node *node, DType *out) {
  if (node->kind != N_NAME) return false;
  const Symbol *s = find_symbol(l, node->name);
  *out = dtype_by_name(node->name);
  return *out != DT_COUNT && !(s && s->value.kind == V_DTYPE);
}

Value as_dtype(Lower *l, const Node *node, Value v) {
  DType dtype;
  return names_dtype(l, node, &dtype) ? value_dtype(dtype) : v;
}

bool lower_dtype(Lower *l, const Node *node, DType *out) {
  if (names_dtype(l, node, out)) return true;
  if (node->kind == N_NAME && !find_symbol(l, node->name)) {
    unknown_dtype(l, node);
    return false;
  }
  const Value v = lower_aside(l, node);
  if (is_error(v)) return false;
  if (v.kind != V_DTYPE) {
    diag_error(l->diag, node->span, ERR_BAD_ARGUMENT, "expected a dtype, not %s", value_text(l, v));
    return false;
  }
  *out = v.dtype;
  return true;
}

bool lower_static_int(Lower *l, const Node *node, const char *what, int64_t *out) {
  const Value v = lower_aside(l, node);
  if (is_error(v)) return false;
  *out = v.ival;
  if (v.kind == V_INT) return true;
  if (v.kind == V_DATA)
    diag_error(l->diag, node->span, ERR_NOT_CONSTANT,
               "%s must be a constant integer, and this is known only at run time", what);
  else
    diag_error(l->diag, node->span, ERR_NOT_AN_INTEGER, "%s must be a constant integer, not %s",
               what, value_text(l, v));
  return false;
}

bool lower_int_list(Lower *l, const Node *node, const char *what, int64_t *out, int capacity,
                    int *count) {
  *count = 0;
  if (node->kind != N_ARRAY && node->kind != N_TUPLE) {
    *count = 1;
    return lower_static_int(l, node, what, out);
  }
  if (node->list.count > capacity) {
    diag_error(l->diag, node->span, ERR_RANK_MISMATCH, "%s has at most %d entries here", what,
               capacity);
    return false;
  }
  for (int i = 0; i < node->list.count; i++)
    if (!lower_static_int(l, node->list.at[i], what, &out[i])) return false;
  *count = node->list.count;
  return true;
}

// ---- shapes

// A size that follows from others, created when a reference's shape, or part of an axis, needs it.
static bool derive_dim(Lower *l, const Node *node, const char *name, Dim *out) {
  ExprContext place = l->place;
  Frame frame;
  l->place = IN_SIZE;
  Region *region = enter_region(l, &frame);
  Instr *v = lower_index(l, node);
  if (v) yield_from(l, v, node->span);
  leave_region(l);
  l->place = place;
  if (v) *out = dim_of_size(add_derived_size(l, name, node->span, region));
  return v != NULL;
}

// Calls for which it is below 0 are refused.
static bool require_extent(Lower *l, Dim dim, Span span) {
  Frame frame;
  Region *region = enter_region(l, &frame);
  Instr *zero = index_const(l, 0, span),
        *good = emit2(l, OP_GE, type_scalar(DT_BOOL), span, dim_value(l, dim, span), zero);
  yield_from(l, good, span);
  leave_region(l);
  const char *message =
      arena_printf(l->arena, "an axis of %s elements has no negative length", dim_text(l, dim));
  LIST_PUSH(l->arena, &l->k->requires, ((Requirement){span, region, message}));
  return true;
}

// Is it the same in each step of a call?
static bool follows_from_sizes(const Instr *v) {
  bool does = v->op == OP_SIZE || v->op == OP_CONST || op_is_elementwise(v->op);
  for (int i = 0; does && i < v->nargs; i++) does = follows_from_sizes(v->args[i]);
  return does;
}

static bool is_made_in(const Region *region, const Instr *v) {
  bool found = false;
  for (int i = 0; !found && i < region->instrs.count; i++) found = region->instrs.at[i] == v;
  for (int i = 0; found && i < v->nargs; i++) found = is_made_in(region, v->args[i]);
  return found;
}

// Computes the value of a `let` of an outer region again.
static Instr *recomputed(Lower *l, const Instr *v) {
  Instr *args[MAX_RANK];
  if (v->nargs > MAX_RANK) INTERNAL("an operation of %d indices", v->nargs);
  for (int i = 0; i < v->nargs; i++) args[i] = recomputed(l, v->args[i]);
  Instr *copy = emit(l, v->op, v->type, v->span, v->nargs, args);
  copy->ival = v->ival;
  copy->fval = v->fval;
  return copy;
}

static const char *recomputed_text(Lower *l, const Instr *v) {
  if (v->op == OP_SIZE) return dim_text(l, dim_of_size((int)v->ival));
  if (v->op == OP_CONST) return arena_printf(l->arena, "%lld", (long long)v->ival);
  const char *text = "";
  for (int i = 0; i < v->nargs; i++) {
    const char *part = recomputed_text(l, v->args[i]);
    const char *between = i == 0 ? "" : v->op == OP_MUL ? " * " : ", ";
    text = arena_printf(l->arena, strchr(part, ' ') ? "%s%s(%s)" : "%s%s%s", text, between, part);
  }
  return v->op == OP_MUL ? text : arena_printf(l->arena, "%s(%s)", op_info[v->op].name, text);
}

// The size that a `let` computes. Its name is what it computes, because two lets of one name may be
// different sizes.
static Dim size_of_let(Lower *l, const Instr *v, Span span) {
  const char *name = intern(recomputed_text(l, v));
  int known = size_index(l, name);
  if (known >= 0) return dim_of_size(known);
  ExprContext place = l->place;
  Frame frame;
  l->place = IN_SIZE;
  Region *region = enter_region(l, &frame);
  yield_from(l, recomputed(l, v), span);
  leave_region(l);
  l->place = place;
  return dim_of_size(add_derived_size(l, name, span, region));
}

// A number below 0 in *out would stand for a size.
bool constant_dim(Lower *l, int64_t extent, Span span, Dim *out) {
  bool good = extent >= 0 && extent <= INT32_MAX;
  if (good)
    *out = extent;
  else
    diag_error(l->diag, span, ERR_BAD_SHAPE, "an axis may have from 0 to 2^31-1 elements, not %lld",
               (long long)extent);
  return good;
}

// An extent: a constant, or an expression of sizes.
bool lower_dim(Lower *l, const Node *node, Dim *out) {
  Frame frame;
  const Region *region = enter_region(l, &frame);
  Value v = lower_expr(l, node);
  leave_region(l);
  if (is_error(v)) return false;
  if (v.kind == V_INT) return constant_dim(l, v.ival, node->span, out);
  if (is_index(v) && v.instr->op == OP_SIZE) {
    *out = dim_of_size((int)v.instr->ival);
    return true;
  }
  if (is_index(v) && part_size(l, v.instr) >= 0) {
    *out = dim_of_size(part_size(l, v.instr));
    return true;
  }
  if (is_index(v) && !is_made_in(region, v.instr) && follows_from_sizes(v.instr)) {
    if (sum_dim(l, v.instr, node->span, out)) return true;
    *out = size_of_let(l, v.instr, node->span);
    return require_extent(l, *out, node->span);
  }
  if (is_index(v) && l->place == IN_REFERENCE && !is_made_in(region, v.instr)) {
    diag_error(l->diag, node->span, ERR_BAD_SHAPE,
               "a shape may contain only constants, statics and sizes, and this depends on data");
    return false;
  }
  const char *name = expression_text(node);
  int known = size_index(l, name);
  if (is_index(v) && known >= 0) {
    *out = dim_of_size(known);
    return true;
  }
  if (is_index(v) && l->place != IN_REFERENCE && follows_from_sizes(v.instr))
    return sum_dim(l, v.instr, node->span, out) ||
           (derive_dim(l, node, name, out) && require_extent(l, *out, node->span));
  bool part = l->k->mesh.count && is_index(v) && v.instr->op == OP_DIV &&
              v.instr->args[0]->op == OP_SIZE && v.instr->args[1]->op == OP_CONST;
  if (part || (is_index(v) && l->place == IN_REFERENCE)) return derive_dim(l, node, name, out);
  if (v.kind == V_DATA)
    diag_error(
        l->diag, node->span, ERR_BAD_SHAPE,
        "a shape may contain only constants, statics and sizes, and this is known only in a step");
  else
    diag_error(l->diag, node->span, ERR_NOT_AN_INTEGER, "an axis must be an integer, not %s",
               value_text(l, v));
  return false;
}

bool lower_shape(Lower *l, const Node *node, Type *out) {
  *out = (Type){.dtype = DT_BOOL};
  if (node->kind != N_ARRAY && node->kind != N_TUPLE) {
    diag_error(l->diag, node->span, ERR_BAD_SHAPE, "a shape must be a list such as [8, 128]");
    return false;
  }
  if (node->list.count > MAX_RANK) {
    diag_error(l->diag, node->span, ERR_RANK_MISMATCH, "%d axes are more than the limit of %d",
               node->list.count, MAX_RANK);
    return false;
  }
  bool good = true;
  out->rank = node->list.count;
  for (int i = 0; i < out->rank; i++) good = lower_dim(l, node->list.at[i], &out->dim[i]) && good;
  return good;
}
