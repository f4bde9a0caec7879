// Built-in functions along axes: reductions, running sums, sorting.
#include "codegen/lower/ops/ops.h"

#include <string.h>

Value reduce_axes(Lower *l, Op op, Instr *v, int64_t axes, bool keep, Span span) {
  Type kept = v->type, dropped = {.rank = 0};
  for (int i = 0; i < v->type.rank; i++) {
    if (axes >> i & 1)
      kept.dim[i] = 1;
    else
      dropped.dim[dropped.rank++] = v->type.dim[i];
  }
  if (axes) {
    Instr *reduced = emit1(l, op, kept, span, v);
    reduced->ival = axes;
    v = reduced;
  }
  return value_data(keep ? v : reshape_to(l, v, &dropped, span));
}

static bool lower_axes(Lower *l, const Node *node, int rank, int64_t *mask) {
  int64_t axes[MAX_RANK];
  int count;
  *mask = (INT64_C(1) << rank) - 1;
  if (!node) return true;
  if (!lower_int_list(l, node, "an axis number", axes, MAX_RANK, &count)) return false;
  *mask = 0;
  for (int i = 0; i < count; i++) {
    int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank || (*mask >> axis & 1)) {
      diag_error(l->diag, node->span, ERR_AXIS_RANGE,
                 axis < 0 || axis >= rank ? "axis %lld of a value of rank %d"
                                          : "axis %lld occurs twice (rank %d)",
                 (long long)axes[i], rank);
      return false;
    }
    *mask |= INT64_C(1) << axis;
  }
  return true;
}

static bool check_reduced(Lower *l, const Call *call, const Instr *v) {
  const Op op = (Op)call->builtin->op;
  if (op_takes(op, v->type.dtype)) return true;
  const bool order = op == OP_REDUCE_MAX || op == OP_REDUCE_MIN,
             bits = op_info[op].domain == DOMAIN_BITS;
  diag_error(l->diag, call->node->span, ERR_DTYPE_UNSUPPORTED,
             bits    ? "%s requires bools and integers, and this is %s"
             : order ? "%s requires numbers, and this is %s; write any(v) or all(v), or cast it"
                     : "%s requires numbers, and this is %s; write cast(v, i32)",
             call->builtin->name, type_text(l, &v->type));
  return false;
}

static Value lower_reduce(Lower *l, const Call *call) {
  int64_t axes;
  bool keep;
  Op op = (Op)call->builtin->op;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_axes(l, call->arg[1], v->type.rank, &axes) ||
      !lower_flag(l, call->arg[2], true, &keep))
    return value_error();
  if (!check_reduced(l, call, v)) return value_error();
  return reduce_axes(l, op, v, axes, keep, call->node->span);
}

// all and any, of bools alone
static Value lower_truth(Lower *l, const Call *call) {
  const Instr *v = lower_array(l, call->arg[0]);
  if (!v || v->type.dtype == DT_BOOL) return v ? lower_reduce(l, call) : value_error();
  diag_error(l->diag, call->node->span, ERR_DTYPE_UNSUPPORTED,
             "%s requires bools, and this is %s; write %s(v != 0)", call->builtin->name,
             type_text(l, &v->type), call->builtin->name);
  return value_error();
}

// The functions argmax and argmin.
static Value lower_argreduce(Lower *l, const Call *call) {
  int axis;
  bool keep;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_axis(l, call->arg[1], v->type.rank, call->node->span, &axis) ||
      !lower_flag(l, call->arg[2], true, &keep))
    return value_error();
  if (!check_reduced(l, call, v)) return value_error();
  if (v->type.dim[axis] == 0) {
    diag_error(l->diag, call->node->span, ERR_EMPTY_ARGMAX,
               "%s of no elements: axis %d of %s is empty", call->builtin->name, axis,
               type_text(l, &v->type));
    return value_error();
  }
  Type kept = with_dtype(v->type, DT_I32), dropped = {.rank = 0};
  kept.dim[axis] = 1;
  for (int i = 0; i < v->type.rank; i++)
    if (i != axis) dropped.dim[dropped.rank++] = v->type.dim[i];
  Instr *found = emit1(l, (Op)call->builtin->op, kept, call->node->span, v);
  found->ival = axis;
  return value_data(keep ? found : reshape_to(l, found, &dropped, call->node->span));
}

static Value lower_scan(Lower *l, const Call *call) {
  int axis;
  bool backwards;
  Op op = (Op)call->builtin->op;
  bool sorts = op == OP_SORT || op == OP_ARGSORT;
  Instr *v = lower_array(l, call->arg[0]);
  if (!v || !lower_axis(l, call->arg[1], v->type.rank, call->node->span, &axis) ||
      !lower_flag(l, call->arg[2], false, &backwards))
    return value_error();
  if (!sorts && !check_reduced(l, call, v)) return value_error();
  Instr *scan =
      emit1(l, op, op == OP_ARGSORT ? with_dtype(v->type, DT_I32) : v->type, call->node->span, v);
  scan->ival = axis;
  scan->flags = backwards ? INSTR_REVERSE : 0u;
  return value_data(scan);
}

#define REDUCE(name, op) \
  { name, lower_reduce, op, "v axis? keep?" }
const Builtin reduce_builtins[] = {
    REDUCE("reduce_sum", OP_REDUCE_SUM),
    REDUCE("reduce_prod", OP_REDUCE_PROD),
    REDUCE("reduce_max", OP_REDUCE_MAX),
    REDUCE("reduce_min", OP_REDUCE_MIN),
    REDUCE("reduce_and", OP_REDUCE_AND),
    REDUCE("reduce_or", OP_REDUCE_OR),
    REDUCE("reduce_xor", OP_REDUCE_XOR),
    REDUCE("sum", OP_REDUCE_SUM),
    {"all", lower_truth, OP_REDUCE_AND, "v axis? keep?"},
    {"any", lower_truth, OP_REDUCE_OR, "v axis? keep?"},
    {"argmax", lower_argreduce, OP_ARGMAX, "v axis? keep?"},
    {"argmin", lower_argreduce, OP_ARGMIN, "v axis? keep?"},
    {"cumsum", lower_scan, OP_CUMSUM, "v axis? reverse?"},
    {"cumprod", lower_scan, OP_CUMPROD, "v axis? reverse?"},
    {"cummax", lower_scan, OP_CUMMAX, "v axis? reverse?"},
    {"cummin", lower_scan, OP_CUMMIN, "v axis? reverse?"},
    {"sort", lower_scan, OP_SORT, "v axis? descending?"},
    {"argsort", lower_scan, OP_ARGSORT, "v axis? descending?"},
    {0},
};
