// Pass `powers`: powers by a constant as products and roots.
//
// Requires nothing. Keeps: the meaning; floats are rounded as products and roots are, those of
// fewer than 32 bits computed in f32 and rounded once. References are left as written.
#include "codegen/ir/array.h"
#include "codegen/passes/pass.h"

#include <math.h>
#include <string.h>

typedef struct {
  Kernel *k;
  Region *out;
  int count;
} Powers;

enum { MOST_INTEGER = 64 };  // exponents; of integers any product is exact modulo 2^bits

static const Instr *filling(const Instr *v) {
  while (v->op == OP_BROADCAST || v->op == OP_RESHAPE) v = v->args[0];
  return v->op == OP_CONST ? v : NULL;
}

static Instr *make(const Powers *p, const Instr *like, Op op, DType dtype, int nargs,
                   Instr *const *args) {
  Type type = like->type;
  type.dtype = dtype;
  return ir_append(p->k, p->out, ir_new(p->k, op, type, like->span, nargs, args));
}

static Instr *times(const Powers *p, const Instr *like, Instr *a, Instr *b) {
  return make(p, like, OP_MUL, a->type.dtype, 2, (Instr *[]){a, b});
}

static Instr *number(const Powers *p, const Instr *like, DType dtype, double value) {
  Instr *c = is_float(dtype) ? ir_const_float(p->k, p->out, dtype, value, like->span)
                             : ir_const_int(p->k, p->out, dtype, (int64_t)value, like->span);
  return like->type.rank ? make(p, like, OP_BROADCAST, dtype, 1, &c) : c;
}

// The n-th power by repeated squaring, n > 0.
static Instr *product(const Powers *p, const Instr *like, Instr *a, int64_t n) {
  Instr *result = NULL;
  for (;; a = times(p, like, a, a)) {
    if (n & 1) result = result ? times(p, like, result, a) : a;
    if (!(n >>= 1)) return result;
  }
}

// The root of a: 0 of a negative zero, and infinity of a negative infinity, unlike `sqrt`.
static Instr *root(const Powers *p, const Instr *like, Instr *a) {
  DType t = a->type.dtype;
  Instr *least = number(p, like, t, -INFINITY), *zero = number(p, like, t, 0);
  Instr *is_least = make(p, like, OP_EQ, DT_BOOL, 2, (Instr *[]){a, least});
  Instr *size = make(p, like, OP_ABS, t, 1, &a);
  Instr *x = make(p, like, OP_SELECT, t, 3, (Instr *[]){is_least, size, a});
  x = make(p, like, OP_ADD, t, 2, (Instr *[]){x, zero});
  return make(p, like, OP_SQRT, t, 1, &x);
}

static bool is_power(const Instr *v, double *exponent) {
  const Instr *c = v->op == OP_POW ? filling(v->args[1]) : NULL;
  if (!c) return false;
  const double n = *exponent =
      is_float(c->type.dtype) ? dtype_round(c->type.dtype, c->fval) : (double)c->ival;
  if (!is_float(v->type.dtype)) return n >= 2 && n <= MOST_INTEGER;
  return n == 2 || n == 3 || n == 4 || n == 0.5;
}

static Instr *power(Powers *p, const Instr *v, double exponent) {
  DType t = v->type.dtype, in = is_narrow_float(t) ? DT_F32 : t;
  Instr *a = v->args[0];
  if (in != t) a = make(p, v, OP_CAST, in, 1, &a);
  return exponent == 0.5 ? root(p, v, a) : product(p, v, a, (int64_t)exponent);
}

// v itself becomes the last operation, so its users stay as they are.
static void become(Powers *p, Instr *v, Instr *result) {
  p->count++;
  v->nargs = 1;
  if (result->type.dtype != v->type.dtype) {
    v->op = OP_CAST;
    v->args[0] = result;
    return;
  }
  v->op = result->op;
  v->nargs = result->nargs;
  memcpy(v->args, result->args, sizeof *v->args * (size_t)v->nargs);
  p->out->instrs.count--;
}

static void rewrite_region(Powers *p, Region *region) {
  Region old = *region, *outer = p->out;
  memset(&region->instrs, 0, sizeof region->instrs);
  for (int i = 0; i < old.instrs.count; i++) {
    Instr *v = old.instrs.at[i];
    double exponent;
    for (int r = 0; r < 2; r++)
      if (v->regions[r]) rewrite_region(p, v->regions[r]);
    p->out = region;
    if (is_power(v, &exponent)) become(p, v, power(p, v, exponent));
    ir_append(p->k, region, v);
  }
  p->out = outer;
}

void expand_powers(Kernel *k, Buf *notes) {
  Powers p = {.k = k};
  rewrite_region(&p, k->body);
  if (p.count && notes) buf_printf(notes, "powers: %d by products and roots\n", p.count);
}
