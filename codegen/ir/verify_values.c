// The verifier of the block IR: types, and operations on values.
#include "codegen/ir/axes.h"
#include "codegen/ir/layout.h"
#include "codegen/ir/verify.h"

void verify_fail(Verifier *v, const Instr *instr, const char *format, ...) {
  if (v->message) return;
  Buf text = {0};
  if (instr) buf_printf(&text, "%%%d (%s): ", instr->id, op_info[instr->op].name);
  va_list args;
  va_start(args, format);
  buf_vprintf(&text, format, args);
  va_end(args);
  v->message = arena_take(v->k->arena, &text);
}

// ---- types

bool is_scalar(const Instr *instr, DType dtype) {
  return instr->type.rank == 0 && instr->type.dtype == dtype;
}

bool same_type(const Type *a, const Type *b) {
  return a->dtype == b->dtype && type_same_shape(a, b);
}

bool valid_dim(const Verifier *v, Dim dim) {
  return dim_is_const(dim) || dim >= -(int64_t)v->k->sizes.count;
}

void verify_type(Verifier *v, const Instr *instr, const Type *type) {
  RULE(type->dtype < DT_COUNT, "no dtype");
  RULE(type->rank >= 0 && type->rank <= MAX_RANK, "rank %d", type->rank);
  if (v->message) return;
  for (int i = 0; i < type->rank; i++)
    RULE(valid_dim(v, type->dim[i]), "axis %d names size %d, which does not exist", i,
         dim_size_index(type->dim[i]));
}

// ---- elementwise

// Operands and result of an elementwise instruction have the same shape, and suitable dtypes.
void verify_elementwise(Verifier *v, const Instr *instr) {
  OpClass class = op_info[instr->op].class;
  for (int i = 0; i < instr->nargs; i++)
    RULE(type_same_shape(&instr->args[i]->type, &instr->type),
         "operand %d has another shape than the result", i);
  const Type *first = &instr->args[0]->type;
  if (class == OPC_UNARY || class == OPC_BINARY || class == OPC_TERNARY)
    for (int i = 0; i < instr->nargs; i++)
      RULE(instr->args[i]->type.dtype == instr->type.dtype,
           "operand %d has another dtype than the result", i);
  if (class == OPC_PREDICATE || class == OPC_COMPARE)
    RULE(instr->type.dtype == DT_BOOL, "the result is not bool");
  if (class == OPC_COMPARE) RULE(first->dtype == instr->args[1]->type.dtype, "compares two dtypes");
  if (class == OPC_SELECT) {
    RULE(first->dtype == DT_BOOL, "the condition is not bool");
    RULE(instr->args[1]->type.dtype == instr->type.dtype &&
             instr->args[2]->type.dtype == instr->type.dtype,
         "the sides and the result differ in dtype");
  }
  if (instr->op == OP_BITCAST)
    RULE(dtype_info[first->dtype].bits == dtype_info[instr->type.dtype].bits,
         "the dtypes differ in width");
  RULE(op_takes(instr->op, first->dtype), "not defined on %s", dtype_info[first->dtype].name);
}

// ---- moving elements

static void check_broadcast(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type, *to = &instr->type;
  int extra = to->rank - from->rank;
  RULE(extra >= 0, "the result has fewer axes");
  for (int i = 0; extra >= 0 && i < from->rank; i++)
    RULE(from->dim[i] == 1 || from->dim[i] == to->dim[i + extra],
         "axis %d of the operand does not stretch", i);
}

static void check_transpose(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(from->rank == instr->type.rank, "the ranks differ");
  unsigned used = 0;
  for (int i = 0; !v->message && i < from->rank; i++) {
    int64_t axis = instr->ints[i];
    RULE(axis >= 0 && axis < from->rank && !(used >> axis & 1), "not a permutation");
    if (v->message) return;
    used |= 1u << axis;
    RULE(instr->type.dim[i] == from->dim[axis], "axis %d of the result has another extent", i);
  }
}

static void check_slice(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(from->rank == instr->type.rank, "the ranks differ");
  for (int i = 0; !v->message && i < from->rank; i++) {
    int64_t start = instr->ints[i], step = instr->ints2[i], count = instr->type.dim[i], last;
    RULE(start >= 0 && step >= 1, "axis %d: start %lld, step %lld", i, (long long)start,
         (long long)step);
    if (count == from->dim[i] && start == 0 && step == 1) continue;
    RULE(dim_is_const(count), "axis %d: a run-time extent is sliced to another", i);
    if (v->message || !dim_is_const(from->dim[i]) || count == 0) continue;
    bool fits =
        mul_i64(count - 1, step, &last) && add_i64(last, start, &last) && last < from->dim[i];
    RULE(fits, "axis %d: the slice ends past the operand", i);
  }
}

static void check_concat(Verifier *v, const Instr *instr) {
  int64_t axis = instr->ival, total = 0;
  bool sizes = false;
  RULE(instr->nargs > 0 && axis >= 0 && axis < instr->type.rank, "no operand or no such axis");
  for (int i = 0; !v->message && i < instr->nargs; i++) {
    const Type *part = &instr->args[i]->type;
    RULE(part->rank == instr->type.rank && part->dtype == instr->type.dtype,
         "operand %d has another rank or dtype", i);
    for (int j = 0; !v->message && j < part->rank; j++)
      RULE(j == axis || part->dim[j] == instr->type.dim[j], "operand %d does not fit on axis %d", i,
           j);
    sizes = sizes || (!v->message && !dim_is_const(part->dim[axis]));
    if (!v->message && !sizes) RULE(add_i64(total, part->dim[axis], &total), "too long");
  }
  if (!v->message && !sizes)
    RULE(total == instr->type.dim[axis], "the parts do not add up to the result");
}

static void check_pad(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(from->rank == instr->type.rank, "the ranks differ");
  RULE(is_scalar(instr->args[1], instr->type.dtype),
       "the value is not a scalar of the result's dtype");
  for (int i = 0; !v->message && i < from->rank; i++) {
    int64_t low = instr->ints[i], high = instr->ints2[i], total;
    RULE(low >= 0 && high >= 0, "negative padding");
    if (low == 0 && high == 0 && from->dim[i] == instr->type.dim[i]) continue;
    bool fits = dim_is_const(from->dim[i])
                    ? add_i64(from->dim[i], low, &total) && add_i64(total, high, &total) &&
                          total == instr->type.dim[i]
                    : !dim_is_const(instr->type.dim[i]);
    RULE(fits, "axis %d: operand and padding do not add up to the result", i);
  }
}

static void check_take(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type, *index = &instr->args[1]->type;
  RULE(is_integer(index->dtype), "the index is not an integer");
  RULE(instr->ival >= 0 && instr->ival < from->rank && instr->type.rank == from->rank,
       "no such axis");
  RULE(instr->op == OP_TAKE ? index->rank == 1 : index->rank == from->rank, "the index has rank %d",
       index->rank);
  for (int i = 0; !v->message && i < from->rank; i++) {
    if (i == instr->ival) {
      RULE(instr->type.dim[i] == index->dim[instr->op == OP_TAKE ? 0 : i],
           "axis %d is not as long as the index", i);
    } else {
      RULE(instr->type.dim[i] == from->dim[i], "axis %d has another extent", i);
      if (instr->op == OP_TAKE_ALONG)
        RULE(index->dim[i] == from->dim[i], "the index does not fit on axis %d", i);
    }
  }
}

static void check_gather(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type, *index = NULL;
  int axes[MAX_RANK];
  const int count = ir_indexed_axes(instr, axes);
  RULE(count > 0 && instr->ival >> from->rank == 0 && instr->nargs == 1 + count,
       "not an index for each axis");
  RULE(instr->type.rank == from->rank - count + 1, "the result has rank %d", instr->type.rank);
  for (int i = 1; !v->message && i < instr->nargs; i++) {
    index = &instr->args[i]->type;
    RULE(is_integer(index->dtype) && index->rank == 1, "index %d is not a vector of integers", i);
    RULE(index->dim[0] == instr->type.dim[axes[0]], "index %d has another length", i);
  }
  for (int k = 0; !v->message && k < from->rank; k++) {
    const int to = ir_gathered_axis(instr, k);
    RULE(to < 0 || instr->type.dim[to] == from->dim[k], "axis %d has another extent", k);
  }
}

static void check_window_op(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(is_scalar(instr->args[1], DT_I64), "the start is not an i64 scalar");
  RULE(instr->ival >= 0 && instr->ival < from->rank && instr->type.rank == from->rank,
       "no such axis");
  for (int i = 0; !v->message && i < from->rank; i++)
    RULE(i == instr->ival || instr->type.dim[i] == from->dim[i], "axis %d has another extent", i);
}

// The shapes of an instruction that moves elements.
void verify_shape_op(Verifier *v, const Instr *instr) {
  if (instr->nargs == 0) return verify_fail(v, instr, "no operand");
  const Type *from = &instr->args[0]->type;
  RULE(from->dtype == instr->type.dtype, "the dtype changes");
  if (v->message) return;
  switch (instr->op) {
    case OP_BROADCAST:
      check_broadcast(v, instr);
      break;
    case OP_RESHAPE:
      // In a reference, shapes may have the same number of elements by the kernel's requirements.
      RULE(ir_may_have_same_elements(v->k, from, &instr->type) ||
               (v->place == PLACE_REFERENCE &&
                (type_has_sizes(from) || type_has_sizes(&instr->type))),
           "the number of elements changes");
      break;
    case OP_TRANSPOSE:
      check_transpose(v, instr);
      break;
    case OP_SLICE:
      check_slice(v, instr);
      break;
    case OP_CONCAT:
      check_concat(v, instr);
      break;
    case OP_PAD:
      check_pad(v, instr);
      break;
    case OP_TAKE:
    case OP_TAKE_ALONG:
      check_take(v, instr);
      break;
    case OP_GATHER:
      check_gather(v, instr);
      break;
    case OP_WINDOW:
      check_window_op(v, instr);
      break;
    default:  // ROLL, REV
      RULE(type_same_shape(from, &instr->type), "the shape changes");
      RULE(instr->ival >= 0 && instr->ival < from->rank, "no axis %lld", (long long)instr->ival);
      if (instr->op == OP_ROLL)
        RULE(is_scalar(instr->args[1], DT_I64), "the shift is not an i64 scalar");
  }
}

// ---- along axes

void verify_reduce(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  bool arg = op_info[instr->op].class == OPC_ARGREDUCE;
  int64_t mask = arg ? (instr->ival >= 0 && instr->ival < MAX_RANK ? (int64_t)1 << instr->ival : -1)
                     : instr->ival;
  RULE(mask >= 0 && mask >> from->rank == 0, "axes outside the operand");
  RULE(from->rank == instr->type.rank, "the ranks differ");
  for (int i = 0; !v->message && i < from->rank; i++)
    RULE(instr->type.dim[i] == (mask >> i & 1 ? 1 : from->dim[i]),
         "axis %d of the result has another extent", i);
  RULE(instr->type.dtype == (arg ? DT_I32 : from->dtype), "the result has the wrong dtype");
  RULE(op_takes(instr->op, from->dtype), "not defined on %s", dtype_info[from->dtype].name);
}

void verify_scan(Verifier *v, const Instr *instr) {
  const Type *from = &instr->args[0]->type;
  RULE(instr->ival >= 0 && instr->ival < from->rank, "no axis %lld", (long long)instr->ival);
  RULE(type_same_shape(from, &instr->type), "the shape changes");
  RULE(instr->type.dtype == (instr->op == OP_ARGSORT ? DT_I32 : from->dtype),
       "the result has the wrong dtype");
  RULE(op_takes(instr->op, from->dtype), "not defined on %s", dtype_info[from->dtype].name);
}

// The labels of a contraction.
void verify_dot(Verifier *v, const Instr *instr) {
  RULE(instr->ival >= 0 && instr->ival < PRECISIONS, "no such precision");
  const int8_t *labels[] = {instr->labels.a, instr->labels.b, instr->labels.out};
  const Type *types[] = {&instr->args[0]->type, &instr->args[1]->type, &instr->type};
  Dim extent[DOT_LABELS];
  unsigned in_operands = 0;
  for (int t = 0; t < 3; t++) {
    unsigned used = 0;
    for (int i = 0; i < types[t]->rank; i++) {
      int label = labels[t][i];
      RULE(label >= 0 && label < DOT_LABELS && !(used >> label & 1),
           "a label is out of range or repeated");
      if (v->message) return;
      used |= 1u << label;
      if (t < 2 && !(in_operands >> label & 1)) extent[label] = types[t]->dim[i];
      if (t < 2) in_operands |= 1u << label;
      RULE(in_operands >> label & 1, "a label of the result is in no operand");
      if (v->message) return;
      RULE(extent[label] == types[t]->dim[i], "label %c has two extents", 'a' + label);
    }
  }
  DType a = types[0]->dtype, b = types[1]->dtype, sums = dtype_product(a, b);
  RULE(a != DT_BOOL && b != DT_BOOL && types[2]->dtype != DT_BOOL, "not defined on bool");
  RULE(sums != DT_COUNT, "%s and %s do not mix", dtype_info[a].name, dtype_info[b].name);
  RULE(sums == DT_COUNT || is_float(sums) == is_float(types[2]->dtype),
       "the result has the wrong dtype");
}
