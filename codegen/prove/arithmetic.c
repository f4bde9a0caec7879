// The table by which the interpreter computes with the numbers of the proof.
#include "codegen/prove/arithmetic.h"
#include "codegen/ir/scalar.h"
#include "codegen/prove/cells.h"
#include "codegen/prove/constants.h"

// ---- leaves

static int64_t constant(void *context, DType dtype, const Instr *instr) {
  if (!is_float(dtype)) return integer_known(context, wrap_int(dtype, instr->ival));
  return constant_number(context, dtype, instr, instr->fval);
}

static int64_t index_cell(void *context, DType dtype, int64_t index) {
  return is_float(dtype) ? number_integer(context, index)
                         : integer_known(context, wrap_int(dtype, index));
}

// ---- element by element

static int64_t float_element(Proof *p, const Instr *instr, const Value *const *arg, int64_t e) {
  Id x = id_of(p, arg[0]->i[e]), y = arg[1] ? id_of(p, arg[1]->i[e]) : ID_ZERO, named[3];
  int count = instr->nargs < 3 ? instr->nargs : 3;
  for (int i = 0; i < count; i++) named[i] = named_id(p, arg[i]->i[e]);
  switch (op_info[instr->op].class) {
    case OPC_UNARY:
      return or_named(p, number_unary(p, instr->op, x), instr->op, named, 1);
    case OPC_PREDICATE:
      return or_named_truth(p, number_predicate(p, instr, x), instr->op, named, 1);
    case OPC_COMPARE:
      return or_named_truth(p, number_compare(p, instr->op, x, y), instr->op, named, 2);
    case OPC_TERNARY:
      return or_named(p, number_add(p, number_mul(p, x, y), id_of(p, arg[2]->i[e])), instr->op,
                      named, 3);
    default:
      return or_named(p, number_binary(p, instr->op, arg[0]->dtype, x, y), instr->op, named, 2);
  }
}

static int64_t integer_element(Proof *p, const Instr *instr, const Value *const *arg, int64_t e) {
  DType t = arg[0]->dtype;
  int64_t a = arg[0]->i[e], b = arg[1] ? arg[1]->i[e] : 0;
  switch (op_info[instr->op].class) {
    case OPC_UNARY:
      return integer_unary(p, instr->op, t, a);
    case OPC_COMPARE:
      return integer_compare(p, instr->op, t, a, b);
    default:
      return integer_binary(p, instr->op, t, a, b);
  }
}

static void elementwise(void *context, const Instr *instr, Value *out, const Value *const *arg) {
  Proof *p = context;
  DType from = arg[0]->dtype;
  for (int64_t e = 0; e < out->count && !proof_is_over(p); e++) {
    if (instr->op == OP_BITCAST)
      out->i[e] = bitcast_cell(p, out->dtype, from, arg[0]->i[e]);
    else if (instr->op == OP_CAST)
      out->i[e] = cast_cell(p, instr, out->dtype, from, arg[0]->i[e]);
    else
      out->i[e] =
          is_float(from) ? float_element(p, instr, arg, e) : integer_element(p, instr, arg, e);
  }
}

static int64_t blend(void *context, const Instr *instr, int64_t condition, int64_t a, int64_t b) {
  Proof *p = context;
  DType t = instr->type.dtype;
  Id weight = open_id(condition);
  if (is_float(t)) {
    Id named[3] = {weight, named_id(p, a), named_id(p, b)};
    return or_named(p, number_blend(p, weight, id_of(p, a), id_of(p, b)), instr->op, named, 3);
  }
  if (t == DT_BOOL)
    return truth_not(p, truth_and(p, truth_not(p, truth_and(p, condition, a)),
                                  truth_not(p, truth_and(p, truth_not(p, condition), b))));
  int64_t bits;
  if (blend_bits(p, instr, weight, a, b, &bits)) return bits;
  return open_cell(number_blend(p, weight, integer_id(p, a), integer_id(p, b)));
}

// ---- folding

static int64_t fold_two(Proof *p, Op op, DType dtype, int64_t a, int64_t b) {
  return is_float(dtype) ? number_binary(p, op, dtype, id_of(p, a), id_of(p, b))
                         : integer_binary(p, op, dtype, a, b);
}

static int64_t fold_start_cell(Op fold, DType dtype) {
  if (!is_float(dtype)) return fold_start(fold, dtype).i;
  switch (fold_operation[fold]) {
    case OP_MUL:
      return ID_ONE;
    case OP_MAX:
      return ID_MINUS_INFINITY;
    case OP_MIN:
      return ID_PLUS_INFINITY;
    default:
      return ID_ZERO;
  }
}

static bool any_named(const Proof *p, const int64_t *cells, int64_t count) {
  for (int64_t e = 0; e < count; e++)
    if (number_is_named(p, named_id(p, cells[e]))) return true;
  return false;
}

static int64_t fold(void *context, const Instr *instr, DType dtype, const int64_t *cells,
                    int64_t count) {
  Proof *p = context;
  int64_t result = fold_start_cell(instr->op, dtype);
  bool maximum = instr->op == OP_REDUCE_MAX && is_float(dtype) && !any_named(p, cells, count);
  if (maximum) result = number_maximum(p, cells, count);
  for (int64_t e = 0; e < count && !maximum && !proof_is_over(p); e++)
    result = fold_two(p, fold_operation[instr->op], dtype, result, cells[e]);
  if (!is_float(dtype) || number_at(p, id_of(p, result))->kind != UNKNOWN) return result;
  Id *named = NEW_ARRAY(proof_run_arena(p), Id, count + 1);
  for (int64_t e = 0; e < count; e++) named[e] = named_id(p, cells[e]);
  return number_named(p, instr->op, named, (int)count);
}

static void scan(void *context, const Instr *instr, Value *out, const Value *a,
                 const int64_t *order, int64_t count) {
  Proof *p = context;
  int64_t result = fold_start_cell(instr->op, a->dtype);
  for (int64_t l = 0; l < count && !proof_is_over(p); l++) {
    int64_t last = result, next = a->i[order[l]];
    result = fold_two(p, fold_operation[instr->op], a->dtype, last, next);
    if (is_float(a->dtype)) {
      Id named[2] = {named_id(p, last), named_id(p, next)};
      result = or_named(p, (Id)result, instr->op, named, 2);
    }
    out->i[order[l]] = result;
  }
}

// ---- contraction

static int64_t known_dot(Proof *p, DType t, const int64_t *a, const int64_t *b, int64_t count) {
  int64_t sum = 0;
  for (int64_t e = 0; e < count && !proof_is_over(p); e++)
    sum = integer_binary(p, OP_ADD, t, sum, integer_binary(p, OP_MUL, t, a[e], b[e]));
  return sum;
}

static int64_t integer_factor(Proof *p, DType to, DType from, int64_t cell) {
  return integer_id(p, cell_is_open(cell) ? cast_integer(p, to, from, cell) : cell);
}

// Products with 0, as of pads, are left out.
static int64_t dot_of_integers(Proof *p, const Instr *instr, const int64_t *a, const int64_t *b,
                               int64_t count) {
  DType to = instr->type.dtype, left = instr->args[0]->type.dtype,
        right = instr->args[1]->type.dtype;
  int64_t *x = proof_scratch(p, 2 * count), *y = x + count, kept = 0;
  for (int64_t e = 0; e < count; e++)
    if (a[e] != 0 && b[e] != 0) x[kept] = a[e], y[kept++] = b[e];
  if (!any_open(x, kept) && !any_open(y, kept)) return known_dot(p, to, x, y, kept);
  for (int64_t e = 0; e < kept; e++) {
    x[e] = integer_factor(p, to, left, x[e]);
    y[e] = integer_factor(p, to, right, y[e]);
  }
  return integer_dot(p, to, x, y, kept);
}

// A factor of a dot whose result is a float.
static Id float_factor(Proof *p, DType t, int64_t cell) {
  return is_float(t)          ? id_of(p, cell)
         : cell_is_open(cell) ? plain_integer(p, t, cell)
                              : number_integer(p, cell);
}

// Is 0 times the cell 0? The cell of 0 is 0 in all dtypes.
static bool vanishes(const Proof *p, DType t, int64_t cell) {
  return cell == ID_ZERO ||
         (is_float(t) ? number_is_plain(p, id_of(p, cell)) : !cell_is_open(cell));
}

// Products with 0, as of pads, are left out.
static Id dot_of_floats(Proof *p, const Instr *instr, const int64_t *a, const int64_t *b,
                        int64_t count) {
  DType left = instr->args[0]->type.dtype, right = instr->args[1]->type.dtype;
  int64_t *x = proof_scratch(p, 2 * count), *y = x + count, kept = 0;
  for (int64_t e = 0; e < count; e++) {
    if ((a[e] == ID_ZERO && vanishes(p, right, b[e])) ||
        (b[e] == ID_ZERO && vanishes(p, left, a[e])))
      continue;
    x[kept] = float_factor(p, left, a[e]);
    y[kept++] = float_factor(p, right, b[e]);
  }
  Id result = number_dot(p, x, y, kept);
  if (number_at(p, result)->kind != UNKNOWN) return result;
  Id *named = NEW_ARRAY(proof_run_arena(p), Id, 2 * count + 1);
  for (int64_t e = 0; e < count; e++) {
    named[2 * e] = is_float(left) ? named_id(p, a[e]) : float_factor(p, left, a[e]);
    named[2 * e + 1] = is_float(right) ? named_id(p, b[e]) : float_factor(p, right, b[e]);
  }
  return number_named(p, OP_DOT, named, (int)(2 * count));
}

static int64_t dot(void *context, const Instr *instr, const int64_t *a, const int64_t *b,
                   int64_t count) {
  Proof *p = context;
  if (proof_is_over(p)) return 0;
  return is_float(instr->type.dtype) ? dot_of_floats(p, instr, a, b, count)
                                     : dot_of_integers(p, instr, a, b, count);
}

// ---- values that the walk must know

static bool knows(void *context, int64_t cell) {
  if (!cell_is_open(cell)) return true;
  integer_wanted(context, &cell, 1);
  proof_stop(context, NULL);
  return false;
}

static bool is_known(Proof *p, const Value *v) {
  for (int64_t e = 0; e < v->count; e++) {
    if (!cell_is_open(v->i[e]) || (v->poisoned && v->poison[e])) continue;
    integer_wanted(p, &v->i[e], 1);
    if (v->dtype == DT_BOOL) proof_split_at(p, v->i[e]);
    return false;
  }
  return true;
}

// Does the walk read this operand as a number? All operands of memory and control operations,
// except stored values, masked values and results of branches.
static bool is_walked(const Instr *instr, int arg) {
  const Instr *operand = instr->args[arg];
  int masked = instr->flags & INSTR_MASKED ? 1 : 0;
  if (is_float(operand->type.dtype)) return false;
  switch (instr->op) {
    case OP_STORE:
      return arg != instr->nargs - 1 - masked;
    case OP_LOAD:
      return !(instr->flags & INSTR_OTHER) || arg != instr->nargs - 1;
    case OP_YIELD:  // of a `while`, the condition
      return operand->type.dtype == DT_BOOL && operand->type.rank == 0;
    case OP_PRINT:
      return false;
    case OP_ROLL:
    case OP_WINDOW:
    case OP_GATHER:
      return arg > 0;
    default:
      return op_info[instr->op].class == OPC_MEMORY || op_info[instr->op].class == OPC_CONTROL;
  }
}

static bool admits(void *context, const Instr *instr, const Value *values) {
  Proof *p = context;
  proof_at(p, instr);
  bool known = true;
  for (int i = 0; i < instr->nargs && known; i++)
    known = !is_walked(instr, i) || is_known(p, &values[instr->args[i]->id]);
  if (!known) proof_stop(p, instr);
  return known && !proof_is_over(p);
}

const Arithmetic proof_arithmetic = {.opens = true,
                                     .constant = constant,
                                     .index = index_cell,
                                     .elementwise = elementwise,
                                     .blend = blend,
                                     .fold = fold,
                                     .scan = scan,
                                     .best = best_of_lane,
                                     .sort = sort_lane,
                                     .take = element_of_lane,
                                     .dot = dot,
                                     .join = join_parts,
                                     .knows = knows,
                                     .admits = admits};
