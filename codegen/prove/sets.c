// Terms and conditions of the block IR in libisl.
#ifdef PKC_ISL
#include "codegen/prove/sets.h"

#include <string.h>

// ---- sets

static isl_space *no_space(const Safe *s) { return isl.space_params_alloc(s->ctx, 0); }
static isl_set *everything(const Safe *s) { return isl.set_universe(no_space(s)); }
static isl_set *nothing(const Safe *s) { return isl.set_empty(no_space(s)); }

Sets sets_all(const Safe *s) { return (Sets){everything(s), everything(s)}; }
Sets sets_none(const Safe *s) { return (Sets){nothing(s), nothing(s)}; }
static Sets sets_unknown(const Safe *s) { return (Sets){everything(s), nothing(s)}; }
Sets sets_copy(const Sets *a) { return (Sets){isl.set_copy(a->may), isl.set_copy(a->must)}; }

Sets sets_and(Sets a, Sets b) {
  return (Sets){isl.set_intersect(a.may, b.may), isl.set_intersect(a.must, b.must)};
}

Sets sets_or(Sets a, Sets b) {
  return (Sets){isl.set_union(a.may, b.may), isl.set_union(a.must, b.must)};
}

Sets sets_not(const Safe *s, Sets a) {
  return (Sets){isl.set_subtract(everything(s), a.must), isl.set_subtract(everything(s), a.may)};
}

void sets_free(Sets *a) {
  isl.set_free(a->may);
  isl.set_free(a->must);
  *a = (Sets){0};
}

Sets sets_compare(const Safe *s, Comparison *compare, isl_pw_aff *a, isl_pw_aff *b) {
  if (!a || !b) {
    isl.pw_aff_free(a);
    isl.pw_aff_free(b);
    return sets_unknown(s);
  }
  isl_set *set = compare(a, b);
  return (Sets){isl.set_copy(set), set};
}

Sets sets_range(const Safe *s, const char *name, isl_pw_aff *extent) {
  Sets low = sets_compare(s, isl.pw_aff_ge_set, term_variable(s, name), term_number(s, 0));
  return sets_and(low, sets_compare(s, isl.pw_aff_lt_set, term_variable(s, name), extent));
}

// ---- leaves

isl_pw_aff *term_number(const Safe *s, int64_t n) {
  isl_val *value = isl.val_int_from_si(s->ctx, n);
  return isl.pw_aff_from_aff(isl.aff_val_on_domain_space(no_space(s), value));
}

isl_pw_aff *term_variable(const Safe *s, const char *name) {
  isl_space *space = isl.space_add_param_id(no_space(s), isl.id_alloc(s->ctx, name, NULL));
  isl_id *id = isl.id_alloc(s->ctx, name, NULL);
  return isl.pw_aff_from_aff(isl.aff_param_on_domain_space_id(space, id));
}

isl_pw_aff *term_extent(const Safe *s, Dim dim) {
  return dim < 0 ? term_variable(s, s->k->sizes.at[-1 - dim].name) : term_number(s, dim);
}

const char *loop_name(const Safe *s, const Instr *arg) {
  return arena_printf(s->arena, "loop %d", arg->id);
}

static isl_pw_aff *unknown(Safe *s, const Instr *v) {
  if (!s->why) s->why = v;
  return NULL;
}

// ---- quotients of sizes

static int ratio_of(Safe *s, const Instr *a, const Instr *b) {
  if (a->op != OP_SIZE || b->op != OP_SIZE) return -1;
  for (int i = 0; i < s->ratios; i++)
    if (s->ratio[i].size[0] == a->ival && s->ratio[i].size[1] == b->ival) return i;
  if (s->ratios == MOST_RATIOS) return -1;
  s->ratio[s->ratios].size[0] = a->ival;
  s->ratio[s->ratios].size[1] = b->ival;
  s->ratio[s->ratios].value = 0;
  return s->ratios++;
}

// a = ratio * b + rest: the quotient or the remainder.
static isl_pw_aff *ratio_term(Safe *s, const Instr *v) {
  int i = ratio_of(s, v->args[0], v->args[1]);
  if (i < 0 || !s->ratio[i].value) return unknown(s, v);
  isl_pw_aff *ratio = term_number(s, s->ratio[i].value);
  if (v->op == OP_DIV || v->op == OP_FLOORDIV) return ratio;
  isl_pw_aff *part = isl.pw_aff_mul(ratio, term_extent(s, -1 - v->args[1]->ival));
  return isl.pw_aff_sub(term_extent(s, -1 - v->args[0]->ival), part);
}

// ---- operations

typedef isl_pw_aff *Operation(isl_pw_aff *, isl_pw_aff *);

static isl_pw_aff *floor_quotient(isl_pw_aff *a, isl_pw_aff *b) {
  return isl.pw_aff_floor(isl.pw_aff_div(a, b));
}

static isl_pw_aff *floor_rest(isl_pw_aff *a, isl_pw_aff *b) {
  isl_pw_aff *quotient = floor_quotient(isl.pw_aff_copy(a), isl.pw_aff_copy(b));
  return isl.pw_aff_sub(a, isl.pw_aff_mul(quotient, b));
}

// The function of libisl for an operation of the block IR, or NULL.
static Operation *operation_of(Op op) {
  switch (op) {
    case OP_ADD:
      return isl.pw_aff_add;
    case OP_SUB:
      return isl.pw_aff_sub;
    case OP_MUL:
      return isl.pw_aff_mul;
    case OP_MIN:
      return isl.pw_aff_min;
    case OP_MAX:
      return isl.pw_aff_max;
    case OP_DIV:
      return isl.pw_aff_tdiv_q;
    case OP_REM:
      return isl.pw_aff_tdiv_r;
    case OP_FLOORDIV:
      return floor_quotient;
    case OP_MOD:
      return floor_rest;
    default:
      return NULL;
  }
}

static bool is_above_zero(const Safe *s, isl_pw_aff *a) {
  isl_set *others = isl.pw_aff_le_set(isl.pw_aff_copy(a), term_number(s, 0));
  bool above = isl.set_is_empty(others) == isl_bool_true;
  isl.set_free(others);
  return above;
}

// The operations that libisl supports: products with a constant, quotients by a positive constant.
static bool is_affine(const Safe *s, const Instr *v, isl_pw_aff *a, isl_pw_aff *b) {
  if (v->op == OP_MUL) return isl.pw_aff_is_cst(a) || isl.pw_aff_is_cst(b);
  if (!op_has(v->op, DIVIDES)) return true;
  return isl.pw_aff_is_cst(b) && is_above_zero(s, b);
}

static isl_pw_aff *binary(Safe *s, const Instr *v, isl_pw_aff *const *index) {
  Operation *operation = operation_of(v->op);
  if (!operation) return unknown(s, v);
  if (op_has(v->op, DIVIDES) && v->args[0]->op == OP_SIZE && v->args[1]->op == OP_SIZE)
    return ratio_term(s, v);
  isl_pw_aff *a = term_of(s, v->args[0], index), *b = a ? term_of(s, v->args[1], index) : NULL;
  if (a && b && is_affine(s, v, a, b)) return operation(a, b);
  isl.pw_aff_free(a);
  isl.pw_aff_free(b);
  return unknown(s, v);
}

static isl_pw_aff *selected(Safe *s, const Instr *v, isl_pw_aff *const *index) {
  const Instr *outer = s->why;
  Sets when = truth_of(s, v->args[0], index);
  isl_set *differ = isl.set_subtract(isl.set_copy(when.may), isl.set_copy(when.must));
  bool exact = isl.set_is_empty(differ) == isl_bool_true;
  isl.set_free(differ);
  isl_pw_aff *a = exact ? term_of(s, v->args[1], index) : NULL,
             *b = a ? term_of(s, v->args[2], index) : NULL, *result = NULL;
  if (a && b) {
    s->why = outer;
    a = isl.pw_aff_intersect_domain(a, isl.set_copy(when.must));
    isl_set *otherwise = isl.set_complement(isl.set_copy(when.must));
    result = isl.pw_aff_union_add(a, isl.pw_aff_intersect_domain(b, otherwise));
  } else {
    isl.pw_aff_free(a);
  }
  sets_free(&when);
  return result ? result : unknown(s, v);
}

// ---- moves: at which index of its operand an element is

enum { MOST_AXES = MAX_RANK };

// Axes of one element are added or removed, the others keep their order.
static bool reshape_index(const Type *from, const Type *to, isl_pw_aff *const *index,
                          isl_pw_aff **inner) {
  int k = 0;
  for (int i = 0; i < from->rank; i++) {
    inner[i] = NULL;
    if (from->dim[i] == 1) continue;
    while (k < to->rank && to->dim[k] == 1) k++;
    if (k == to->rank || to->dim[k] != from->dim[i]) return false;
    inner[i] = index[k++];
  }
  while (k < to->rank && to->dim[k] == 1) k++;
  return k == to->rank;
}

// Operand indices of a move, borrowed; NULL: 0.
static bool moved_index(const Instr *v, isl_pw_aff *const *index, isl_pw_aff **inner) {
  const Type *from = &v->args[0]->type, *to = &v->type;
  switch (v->op) {
    case OP_BROADCAST:
      for (int i = 0; i < from->rank; i++) {
        int k = i + to->rank - from->rank;
        inner[i] = from->dim[i] == 1 ? NULL : index[k];
      }
      return true;
    case OP_TRANSPOSE:
      for (int i = 0; i < to->rank; i++) inner[v->ints[i]] = index[i];
      return true;
    case OP_RESHAPE:
      return reshape_index(from, to, index, inner);
    default:
      return false;
  }
}

// The indices to look the operand up at, to be freed by the caller; false: not known.
static bool operand_index(const Safe *s, const Instr *v, isl_pw_aff *const *index,
                          isl_pw_aff **inner) {
  isl_pw_aff *borrowed[MOST_AXES];
  if (!moved_index(v, index, borrowed)) return false;
  for (int i = 0; i < v->args[0]->type.rank; i++)
    inner[i] = borrowed[i] ? isl.pw_aff_copy(borrowed[i]) : term_number(s, 0);
  return true;
}

static void free_index(isl_pw_aff **index, int count) {
  for (int i = 0; i < count; i++) isl.pw_aff_free(index[i]);
}

static isl_pw_aff *moved(Safe *s, const Instr *v, isl_pw_aff *const *index) {
  isl_pw_aff *inner[MOST_AXES];
  if (!operand_index(s, v, index, inner)) return unknown(s, v);
  isl_pw_aff *result = term_of(s, v->args[0], inner);
  free_index(inner, v->args[0]->type.rank);
  return result;
}

// ---- integers

static isl_pw_aff *loop_variable(const Safe *s, const Instr *arg) {
  for (int i = 0; i < s->fixed.count; i++)
    if (s->fixed.at[i].arg == arg) return term_number(s, s->fixed.at[i].value);
  return term_variable(s, loop_name(s, arg));
}

static isl_pw_aff *leaf(Safe *s, const Instr *v, isl_pw_aff *const *index) {
  switch (v->op) {
    case OP_CONST:
      return term_number(s, v->ival);
    case OP_SIZE:
      return term_extent(s, -1 - v->ival);
    case OP_AXIS:
      return term_variable(s, s->k->grid.at[v->ival].name);
    case OP_EXTENT:
      return term_of(s, ir_yielded(s->k->grid.at[v->ival].extent, 0), NULL);
    case OP_IOTA:
      return isl.pw_aff_copy(index[v->ival]);
    case OP_ARG:
      return loop_variable(s, v);
    case OP_DEVICE:
      return term_number(s, s->device[v->ival]);
    default:
      return unknown(s, v);
  }
}

isl_pw_aff *term_of(Safe *s, const Instr *v, isl_pw_aff *const *index) {
  if (is_float(v->type.dtype) || v->type.dtype == DT_BOOL) return unknown(s, v);
  switch (op_info[v->op].class) {
    case OPC_LEAF:
      return leaf(s, v, index);
    case OPC_UNARY: {
      isl_pw_aff *a = v->op == OP_NEG ? term_of(s, v->args[0], index) : NULL;
      return a ? isl.pw_aff_neg(a) : unknown(s, v);
    }
    case OPC_BINARY:
      return binary(s, v, index);
    case OPC_SELECT:
      return selected(s, v, index);
    case OPC_CAST:
      return v->op == OP_CAST ? term_of(s, v->args[0], index) : unknown(s, v);
    case OPC_SHAPE:
      return moved(s, v, index);
    default:
      return unknown(s, v);
  }
}

// ---- truth values

static Comparison *comparison_of(Op op) {
  switch (op) {
    case OP_EQ:
      return isl.pw_aff_eq_set;
    case OP_NE:
      return isl.pw_aff_ne_set;
    case OP_LT:
      return isl.pw_aff_lt_set;
    case OP_LE:
      return isl.pw_aff_le_set;
    case OP_GT:
      return isl.pw_aff_gt_set;
    default:
      return isl.pw_aff_ge_set;
  }
}

static Sets unknown_truth(Safe *s, const Instr *v) {
  unknown(s, v);
  return sets_unknown(s);
}

static Sets connected(Safe *s, const Instr *v, isl_pw_aff *const *index) {
  Op op = v->op;
  if (op != OP_AND && op != OP_OR) return unknown_truth(s, v);
  Sets a = truth_of(s, v->args[0], index), b = truth_of(s, v->args[1], index);
  return op == OP_AND ? sets_and(a, b) : sets_or(a, b);
}

static Sets moved_truth(Safe *s, const Instr *v, isl_pw_aff *const *index) {
  isl_pw_aff *inner[MOST_AXES];
  if (!operand_index(s, v, index, inner)) return unknown_truth(s, v);
  Sets result = truth_of(s, v->args[0], inner);
  free_index(inner, v->args[0]->type.rank);
  return result;
}

// The sets of grid steps and indices for which a boolean value is true, and for which it is false.
Sets truth_of(Safe *s, const Instr *v, isl_pw_aff *const *index) {
  switch (op_info[v->op].class) {
    case OPC_LEAF:
      if (v->op != OP_CONST) break;
      return v->ival ? sets_all(s) : sets_none(s);
    case OPC_UNARY:
      if (v->op == OP_NOT) return sets_not(s, truth_of(s, v->args[0], index));
      break;
    case OPC_BINARY:
      return connected(s, v, index);
    case OPC_COMPARE: {
      isl_pw_aff *a = term_of(s, v->args[0], index), *b = a ? term_of(s, v->args[1], index) : NULL;
      return sets_compare(s, comparison_of(v->op), a, b);
    }
    case OPC_SHAPE:
      return moved_truth(s, v, index);
    default:
      break;
  }
  return unknown_truth(s, v);
}
#endif
