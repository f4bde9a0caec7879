// Pass `powers`: powers by a constant as products and roots.
//
// Requires: nothing. Preserves: the meaning; floats are rounded like products and roots, and those
// of fewer than 32 bits are computed in f32 and rounded once. References do not change.
#include <math.h>

#include "codegen/ir/array.h"
#include "codegen/ir/rewrite.h"
#include "codegen/passes/pass.h"

enum {
  MOST_INTEGER = 64
};  // the largest exponent for integers, whose products are exact modulo 2^bits

static Instr *number(Rewriter *w, const Instr *like, double value) {
  Instr *c = ir_const_float(w->k, w->out, like->type.dtype, value, w->span);
  return ir_put_spread(w, c, like->type);
}

// The n-th power by repeated squaring, n > 0.
static Instr *product(Rewriter *w, Instr *a, int64_t n) {
  Instr *result = NULL;
  for (;; a = ir_put(w, OP_MUL, a->type, 2, a, a)) {
    if (n & 1) result = result ? ir_put(w, OP_MUL, a->type, 2, result, a) : a;
    if (!(n >>= 1)) return result;
  }
}

// The root of a: 0 of a negative zero, and infinity of a negative infinity, unlike `sqrt`.
static Instr *root(Rewriter *w, Instr *a) {
  Instr *is_least =
      ir_put(w, OP_EQ, type_as(a->type, DT_BOOL), 2, a, number(w, a, -(double)INFINITY));
  Instr *size = ir_put(w, OP_ABS, a->type, 1, a);
  Instr *x = ir_put(w, OP_SELECT, a->type, 3, is_least, size, a);
  x = ir_put(w, OP_ADD, a->type, 2, x, number(w, a, 0));
  return ir_put(w, OP_SQRT, a->type, 1, x);
}

static bool is_power(const Instr *v, double *exponent) {
  const Instr *c = v->op == OP_POW ? ir_filling(v->args[1]) : NULL;
  if (!c) return false;
  const double n = *exponent =
      is_float(c->type.dtype) ? dtype_round(c->type.dtype, c->fval) : (double)c->ival;
  if (!is_float(v->type.dtype)) return n >= 2 && n <= (int)MOST_INTEGER;
  return n == 2 || n == 3 || n == 4 || n == 0.5;
}

static bool expand_power(Rewriter *w, Instr *v) {
  double exponent;
  ir_rewrite_inside(w, v);
  if (!is_power(v, &exponent)) return true;
  const DType t = v->type.dtype;
  Instr *a = ir_put_cast(w, v->args[0], is_narrow_float(t) ? DT_F32 : t);
  Instr *result = exponent == 0.5 ? root(w, a) : product(w, a, (int64_t)exponent);
  ir_replace(v, ir_put_cast(w, result, t));
  ++*(int *)w->context;
  return false;
}

void expand_powers(Kernel *k, Buf *notes) {
  int count = 0;
  ir_rewrite(&(Rewriter){.k = k, .rule = expand_power, .context = &count}, k->body);
  if (count && notes) buf_printf(notes, "powers: %d by products and roots\n", count);
}
