// Values of rank 0 and index arithmetic as expressions.
#include "codegen/loops/loops.h"

// C's operator for an operation, if its type allows one; for bools the logical one.
static const ExprKind operators[OP_COUNT] = {
    [OP_DIV] = EXPR_DIV, [OP_REM] = EXPR_REM, [OP_EQ] = EXPR_EQ,  [OP_NE] = EXPR_NE,
    [OP_LT] = EXPR_LT,   [OP_LE] = EXPR_LE,   [OP_GT] = EXPR_GT,  [OP_GE] = EXPR_GE,
    [OP_AND] = EXPR_AND, [OP_OR] = EXPR_OR,   [OP_XOR] = EXPR_NE,
};

static const Expr *operator_of(Gen *g, Op op, const Expr *const *a) {
  if (op == OP_NOT) return expr_not(&g->exprs, a[0]);
  if (op == OP_ADD) return expr_add(&g->exprs, a[0], a[1]);
  if (op == OP_SUB) return expr_sub(&g->exprs, a[0], a[1]);
  if (op == OP_MUL) return expr_mul(&g->exprs, a[0], a[1]);
  return expr_operator(&g->exprs, operators[op], a[0], a[1]);
}

// Sizes, axes and constants stay below 2^31 each, so one operator on two of them cannot leave
// int64_t.
static bool is_small(const Instr *v) {
  return v->op == OP_SIZE || v->op == OP_AXIS ||
         (v->op == OP_CONST && v->ival > INT32_MIN && v->ival <= INT32_MAX);
}

static bool has_index_operator(const Instr *v) {
  if (op_info[v->op].class == OPC_COMPARE) return true;
  if (v->op == OP_DIV || v->op == OP_REM) return v->args[1]->op == OP_CONST && v->args[1]->ival > 0;
  return (v->op == OP_ADD || v->op == OP_SUB || v->op == OP_MUL) && is_small(v->args[0]) &&
         is_small(v->args[1]);
}

static const Expr *index_op(Gen *g, const Instr *v, const Expr *const *a) {
  if (has_index_operator(v)) return operator_of(g, v->op, a);
  if (v->op == OP_MIN) return expr_min(&g->exprs, a[0], a[1]);
  if (v->op == OP_MAX) return expr_max(&g->exprs, a[0], a[1]);
  if (v->op == OP_FLOORDIV) return expr_floor_div(&g->exprs, a[0], a[1]);
  return expr_operation(&g->exprs, v, a);
}

static const Expr *cast_index(Gen *g, const Instr *v, const Expr *x) {
  ExprPool *pool = &g->exprs;
  DType from = v->args[0]->type.dtype, to = v->type.dtype;
  if (from == to) return x;
  if (to == DT_BOOL) return expr_operator(pool, EXPR_NE, x, number(g, 0));
  if ((is_wide(from) && is_wide(to)) || from == DT_F64 || (to == DT_I64 && is_float(from)))
    return expr_operation(pool, v, &x);
  if (to == DT_I64) return expr_cast(pool, to, x);
  if (is_narrow_float(to)) return expr_narrow(pool, to, quantity(g, FN_ODD_I64, x, NULL, NULL));
  if (!is_float(to)) x = expr_cast(pool, DT_U32, x);
  return expr_narrow(pool, to, expr_cast(pool, is_float(to) ? DT_F32 : to, x));
}

static bool has_operator(const Instr *v, DType from) {
  if (op_info[v->op].class == OPC_COMPARE) return true;
  if (from == DT_BOOL) return v->op != OP_CAST && v->op != OP_BITCAST;
  return (from == DT_F32 || from == DT_F64) && v->nargs == 2 && op_has(v->op, PLAIN);
}

const Expr *scalar_op(Gen *g, const Instr *v, const Expr *const *args) {
  DType from = v->nargs ? v->args[v->nargs - 1]->type.dtype : v->type.dtype;
  if (v->op == OP_SELECT) return expr_choose(&g->exprs, args[0], args[1], args[2]);
  if (v->op == OP_CAST && (from == DT_I64 || v->type.dtype == DT_I64))
    return cast_index(g, v, args[0]);
  if (from == DT_I64) return index_op(g, v, args);
  if (has_operator(v, from)) return operator_of(g, v->op, args);
  return expr_operation(&g->exprs, v, args);
}

// A pure `if` with a result, into which && and || of scalars are lowered.
static const Expr *choice(Gen *g, const Instr *v) {
  const Expr *arm[2];
  for (int i = 0; i < 2; i++) arm[i] = scalar_expr(g, ir_yielded(v->regions[i], 0));
  return expr_choose(&g->exprs, scalar_expr(g, v->args[0]), arm[0], arm[1]);
}

// An element of a prefetched operand, in index arithmetic.
static const Expr *prefetched(Gen *g, const Instr *load) {
  ExprPool *pool = &g->exprs;
  const Expr *index[MAX_RANK] = {0};
  const Expr *wanted = load->flags & INSTR_MASKED ? scalar_expr(g, ir_mask(load)) : NULL;
  int rank = load->ref->type.rank;
  for (int i = 0; i < rank; i++) {
    index[i] = scalar_expr(g, load->args[i]);
    const Expr *extent = expr_dim(pool, load->ref->id, i);
    if (wanted) wanted = expr_and(pool, wanted, quantity(g, FN_IS_INDEX, index[i], extent, NULL));
  }
  const Expr *element = expr_element(pool, load->ref, index);
  if (!wanted) return element;
  const Expr *other =
      load->flags & INSTR_OTHER ? scalar_expr(g, load->args[rank + 1]) : number(g, 0);
  return expr_choose(pool, wanted, element, other);
}

static const Expr *constant_expr(Gen *g, const Instr *v) {
  DType t = v->type.dtype;
  bool exact = t == DT_I64 || (dtype_info[t].class == CLASS_SIGNED && v->ival > INT32_MIN);
  return exact ? number(g, v->ival) : expr_literal(&g->exprs, v);
}

const Expr *scalar_expr(Gen *g, const Instr *v) {
  return v->note && val(v)->scalar ? val(v)->scalar : scalar_value(g, v);
}

// An index scalar as an expression of the loop IR.
const Expr *scalar_value(Gen *g, const Instr *v) {
  switch (v->op) {
    case OP_LOAD:
      REQUIRE(v->ref->prefetch);
      return prefetched(g, v);
    case OP_CONST:
      return constant_expr(g, v);
    case OP_SIZE:
      return expr_symbol(&g->exprs, g->c_name.size[v->ival]);
    case OP_AXIS:
      return expr_symbol(&g->exprs, g->c_name.axis[v->ival]);
    case OP_EXTENT:
      return grid_extent(g, (int)v->ival);
    case OP_DEVICE:
      return expr_symbol(&g->exprs, g->c_name.device[v->ival]);
    case OP_BROADCAST:
    case OP_RESHAPE:
      return scalar_expr(g, v->args[0]);
    case OP_IF:
      return choice(g, v);
    default:
      break;
  }
  REQUIRE(op_is_elementwise(v->op));
  const Expr *args[3] = {0};
  for (int i = 0; i < v->nargs; i++) args[i] = scalar_expr(g, v->args[i]);
  return scalar_op(g, v, args);
}

const Expr *index_expr(Gen *g, const Region *region, int result) {
  return scalar_expr(g, ir_yielded(region, result));
}
