/* The properties in the rows of codegen/ir/ops.def, against values of the operations: laws, neutral
 * elements, bounds of integers, the orders of a comparison, and which results are exact. Folding,
 * simplify, the loops and the model of a TPU rely on them. */
#include "codegen/ir/facts.h"
#include "codegen/ir/scalar.h"
#include "codegen/passes/pass.h"
#include "check.h"

#include <math.h>

static const double numbers[] = {0,     -0.0,  1,        -1,        2,     3,      -3,
                                 7,     0.5,   -2.5,     31,        1e-40, 0x1p24, -1e30,
                                 65504, 1e300, INFINITY, -INFINITY, NAN};
static const int64_t integers[] = {
    0,  1,   -1,   2,   -2,  3,   5,     -7,        8,         15,         31,        32,       63,
    64, 100, -128, 127, 255, 256, 32767, INT32_MAX, INT32_MIN, UINT32_MAX, INT64_MAX, INT64_MIN};
enum { NUMBERS = sizeof numbers / sizeof *numbers, INTEGERS = sizeof integers / sizeof *integers };

static int count_of(DType t) { return is_float(t) ? NUMBERS : INTEGERS; }
static Scalar value_of(DType t, int i) {
  return is_float(t) ? (Scalar){.f = dtype_round(t, numbers[i])}
                     : (Scalar){.i = wrap_int(t, integers[i])};
}

static bool is_same(DType t, Scalar a, Scalar b) {
  return is_float(t) ? (isnan(a.f) && isnan(b.f)) || a.i == b.i : a.i == b.i;
}

static Scalar apply(Op op, DType t, Scalar a, Scalar b) {
  return scalar_apply(op, t, t, (Scalar[]){a, b, a});
}

static const char *text_of(DType t, Scalar a) {
  static char text[4][40];
  static int next;
  char *at = text[next++ % 4];
  if (is_float(t))
    snprintf(at, sizeof text[0], "%a", a.f);
  else
    snprintf(at, sizeof text[0], "%lld", (long long)a.i);
  return at;
}

static void expect_same(Op op, DType t, const char *law, Scalar a, Scalar b, Scalar got,
                        Scalar expected) {
  char name[80];
  snprintf(name, sizeof name, "%s of %s: %s", op_info[op].name, dtype_info[t].name, law);
  check(is_same(t, got, expected), name, "of %s and %s gives %s, expected %s", text_of(t, a),
        text_of(t, b), text_of(t, got), text_of(t, expected));
}

/* ---- laws */

static bool has_zero(DType t, Scalar a) { return !is_float(t) && a.i == 0; }

static void test_pair(Op op, DType t, Scalar a, Scalar b) {
  Scalar got = apply(op, t, a, b);
  if (op_has(op, COMMUTES) && !(is_float(t) && isnan(a.f) && isnan(b.f)))
    expect_same(op, t, "commutes", a, b, got, apply(op, t, b, a));
  if (op_has(op, ZERO_OF_ZERO) && (has_zero(t, a) || has_zero(t, b)))
    expect_same(op, t, "is zero of zero", a, b, got, (Scalar){.i = 0});
}

/* The neutral element, if the dtype has one. */
static bool neutral_of(Op op, DType t, Scalar *b) {
  bool floats = is_float(t);
  switch (element_info[op].neutral) {
    case NEUTRAL_ZERO:
      *b = (Scalar){.i = 0};
      return true;
    case NEUTRAL_MINUS_ZERO:
      *b = floats ? (Scalar){.f = -0.0} : (Scalar){.i = 0};
      return true;
    case NEUTRAL_ONE:
    case NEUTRAL_INTEGER_ONE:
      *b = floats ? (Scalar){.f = 1} : (Scalar){.i = wrap_int(t, 1)};
      return !floats || element_info[op].neutral == NEUTRAL_ONE;
    case NEUTRAL_ONES:
      *b = (Scalar){.i = wrap_int(t, t == DT_BOOL ? 1 : -1)};
      return true;
    case NEUTRAL_LEAST:
    case NEUTRAL_GREATEST:
      *b = fold_start(element_info[op].neutral == NEUTRAL_LEAST ? OP_REDUCE_MAX : OP_REDUCE_MIN, t);
      return true;
    default:
      return false;
  }
}

static void test_one(Op op, DType t, Scalar a) {
  Scalar b;
  bool pair = op_info[op].class == OPC_BINARY;
  if (pair && op_has(op, IDEMPOTENT)) expect_same(op, t, "idempotent", a, a, apply(op, t, a, a), a);
  if (!pair && op_has(op, INVOLUTION))
    expect_same(op, t, "undoes itself", a, a, apply(op, t, apply(op, t, a, a), a), a);
  /* in 2 bits 1 may be -1 */
  if (!pair || dtype_info[t].bits < 4 || !neutral_of(op, t, &b)) return;
  expect_same(op, t, "neutral on the right", a, b, apply(op, t, a, b), a);
  if (op_has(op, COMMUTES)) expect_same(op, t, "neutral", b, a, apply(op, t, b, a), a);
}

/* Narrow integers are computed on in 32 bits: what is wrapped, or by CLOSED need not be, is right.
 */
static void test_narrow(Op op, DType t, Scalar a, Scalar b) {
  DType wide = dtype_info[t].class == CLASS_UNSIGNED ? DT_U32 : DT_I32;
  if (!is_integer(t) || dtype_info[t].bits >= 32 || op_has(op, BY_WIDTH)) return;
  if (op == OP_POPCOUNT) return; /* the loops have a special form for it */
  Scalar got = apply(op, wide, a, b), expected = apply(op, t, a, b);
  expect_same(op, t, "in 32 bits", a, b, (Scalar){.i = wrap_int(t, got.i)}, expected);
  if (op_has(op, CLOSED)) expect_same(op, t, "closed", a, b, got, expected);
}

static void test_laws(Op op, DType t) {
  for (int i = 0; i < count_of(t); i++) {
    test_one(op, t, value_of(t, i));
    for (int j = 0; j < count_of(t); j++) {
      if (op_info[op].class == OPC_BINARY) test_pair(op, t, value_of(t, i), value_of(t, j));
      test_narrow(op, t, value_of(t, i), value_of(t, j));
    }
  }
}

/* ---- comparisons, against the operators of C */

static bool compared(Op op, double a, double b) {
  return op == OP_EQ   ? a == b
         : op == OP_NE ? a != b
         : op == OP_LT ? a < b
         : op == OP_LE ? a <= b
         : op == OP_GT ? a > b
                       : a >= b;
}

static void test_comparison(Op op) {
  for (int i = 0; i < NUMBERS * NUMBERS; i++) {
    double a = numbers[i / NUMBERS], b = numbers[i % NUMBERS];
    check(float_compare(op, a, b) == compared(op, a, b), op_info[op].name, "of %g and %g", a, b);
  }
  for (int i = 0; i < INTEGERS * INTEGERS; i++) {
    int64_t a = wrap_int(DT_I32, integers[i / INTEGERS]),
            b = wrap_int(DT_I32, integers[i % INTEGERS]);
    check(int_compare(op, DT_I32, a, b) == compared(op, (double)a, (double)b), op_info[op].name,
          "of %lld and %lld", (long long)a, (long long)b);
  }
}

/* ---- bounds of integers contain each value */

static Interval between(DType t, int i, int j) {
  Scalar a = value_of(t, i), b = value_of(t, j);
  return a.i < b.i ? (Interval){a.i, b.i} : (Interval){b.i, a.i};
}

static void expect_inside(const Instr *instr, const Interval *in, Interval out, Scalar a,
                          Scalar b) {
  char name[80];
  snprintf(name, sizeof name, "bounds of %s of %s", op_info[instr->op].name,
           dtype_info[instr->args[0]->type.dtype].name);
  Scalar got =
      scalar_apply(instr->op, instr->type.dtype, instr->args[0]->type.dtype, (Scalar[]){a, b});
  check(got.i >= out.low && got.i <= out.high, name,
        "[%lld, %lld] and [%lld, %lld] give [%lld, %lld], and %lld, %lld give %lld",
        (long long)in[0].low, (long long)in[0].high, (long long)in[1].low, (long long)in[1].high,
        (long long)out.low, (long long)out.high, (long long)a.i, (long long)b.i, (long long)got.i);
}

static void test_interval(const Instr *instr, Interval a, Interval b) {
  Interval in[2] = {a, b}, out = interval_apply(instr, in);
  DType t = instr->args[0]->type.dtype;
  for (int i = 0; i < INTEGERS; i++)
    for (int j = 0; j < INTEGERS; j++) {
      Scalar x = value_of(t, i), y = value_of(t, j);
      bool inside = x.i >= a.low && x.i <= a.high && y.i >= b.low && y.i <= b.high;
      if (inside) expect_inside(instr, in, out, x, y);
    }
}

/* i64 of rank 0 is an index, which must not wrap. */
static void test_bounds(Op op, DType t) {
  Instr operand = {.op = OP_CONST, .type = {.dtype = t, .rank = t == DT_I64, .dim = {4}}};
  Instr *args[] = {&operand, &operand};
  Instr instr = {.op = op, .type = operand.type, .nargs = op_info[op].nargs, .args = args};
  if (op_info[op].class == OPC_COMPARE) instr.type.dtype = DT_BOOL;
  for (int i = 0; i < INTEGERS; i += 3)
    for (int j = i; j < INTEGERS; j += 4)
      for (int k = 0; k < INTEGERS; k += 3)
        test_interval(&instr, between(t, i, j), between(t, k, (k * 5 + i) % INTEGERS));
}

/* ---- whether the result of i64 is exact */

static void test_exact(void) {
  static const Op ops[] = {OP_ADD, OP_SUB, OP_MUL};
  for (int o = 0; o < 3; o++)
    for (int i = 0; i < INTEGERS * INTEGERS; i++) {
      int64_t a = integers[i / INTEGERS], b = integers[i % INTEGERS], got;
      __int128 x = a, y = b, expected = o == 0 ? x + y : o == 1 ? x - y : x * y;
      bool exact = int_exact(ops[o], a, b, &got);
      check(exact == (expected == (int64_t)expected) && got == (int64_t)expected,
            op_info[ops[o]].name, "of %lld and %lld is %sexact", (long long)a, (long long)b,
            exact ? "" : "not ");
    }
  int64_t got;
  EXPECT(!int_exact(OP_NEG, INT64_MIN, 0, &got) && !int_exact(OP_ABS, INT64_MIN, 0, &got));
  EXPECT(!int_exact(OP_DIV, INT64_MIN, -1, &got) && !int_exact(OP_FLOORDIV, INT64_MIN, -1, &got));
  EXPECT(int_exact(OP_POW, 3, 39, &got) && !int_exact(OP_POW, 3, 40, &got));
  EXPECT(int_exact(OP_POW, -2, 63, &got) && got == INT64_MIN && !int_exact(OP_POW, 2, 63, &got));
  EXPECT(int_exact(OP_SHL, 1, 62, &got) && !int_exact(OP_SHL, 1, 63, &got));
}

/* A fold of one element is the element. */
static void test_fold(Op fold, DType t) {
  Op op = fold_operation[fold];
  if (!op_takes(fold, t) || is_scale(t)) return;
  for (int i = 0; i < count_of(t); i++) {
    Scalar a = value_of(t, i), start = fold_start(fold, t), got = apply(op, t, start, a);
    bool zero = is_float(t) && a.f == 0; /* a sum begins with +0 */
    if (!zero) expect_same(fold, t, "begins", start, a, got, a);
  }
}

/* ---- operations that move elements */

static Instr *access(Kernel *k, Op op, Ref *ref, Instr *value) {
  Instr *at = ir_const_int(k, k->body, DT_I64, 0, (Span){0});
  Instr *v = op == OP_LOAD
                 ? ir_add(k, k->body, op, ref->type, (Span){0}, 1, at)
                 : ir_add(k, k->body, op, (Type){.dtype = DT_COUNT}, (Span){0}, 2, at, value);
  v->ref = ref;
  return v;
}

static bool has_elements(OpClass class) {
  return class != OPC_LEAF && class != OPC_MEMORY && class != OPC_CONTROL && class != OPC_DOT;
}

/* `neg` and `abs` change the bit of the sign where the dtype has one and its zero may be negative.
 */
static bool changes_sign(Op op, DType t) {
  const Special special = dtype_info[t].special;
  return (op == OP_NEG || op == OP_ABS) && special != SPECIAL_SCALE && special != SPECIAL_FNUZ;
}

/* `y = op(x, ..)`: are the bits of x what is stored, and in no other case? */
static void test_moved(Op op, DType t) {
  enum { MOST_ARGUMENTS = 3 };
  Arena *arena = arena_new();
  Kernel *k = NEW(arena, Kernel);
  *k = (Kernel){.arena = arena, .body = NEW(arena, Region)};
  const DType bits = unsigned_of_width(dtype_info[t].bits);
  Ref x = {.name = "x", .type = {.dtype = t, .rank = 1, .dim = {8}}}, y = x;
  Instr *args[MOST_ARGUMENTS];
  for (int i = 0; i < MOST_ARGUMENTS; i++) args[i] = access(k, OP_LOAD, &x, NULL);
  const int count = op_info[op].nargs < 0 ? MOST_ARGUMENTS : op_info[op].nargs;
  Instr *v = ir_append(k, k->body, ir_new(k, op, x.type, (Span){0}, count, args));
  const Instr *store = access(k, OP_STORE, &y, v);
  keep_bits(k, NULL);
  const Instr *stored = ir_store_value(store);
  const bool moved = op_info[op].exactness == RESULT_MOVED || changes_sign(op, t);
  check(stored->type.dtype == (moved ? bits : t), op_info[op].name, "of %s is stored as %s",
        dtype_info[t].name, dtype_info[stored->type.dtype].name);
  for (int i = 0; op != OP_BITCAST && i < stored->nargs; i++)
    check(stored->args[i]->type.dtype == stored->type.dtype, op_info[op].name, "as %s reads %s",
          dtype_info[stored->type.dtype].name, dtype_info[stored->args[i]->type.dtype].name);
  arena_free(arena);
}

int main(void) {
  for (Op op = 0; op < OP_COUNT; op++) {
    OpClass class = op_info[op].class;
    if (class == OPC_COMPARE) test_comparison(op);
    for (DType t = 0; t < DT_COUNT; t++) {
      bool plain = class == OPC_UNARY || class == OPC_BINARY;
      if (fold_operation[op] && (class == OPC_REDUCE || class == OPC_SCAN)) test_fold(op, t);
      if (is_narrow_float(t) && has_elements(class)) test_moved(op, t);
      if (!op_takes(op, t) || is_scale(t)) continue; /* there is no arithmetic on scales */
      if (plain) test_laws(op, t);
      if ((plain || class == OPC_COMPARE) && !is_float(t) && t != DT_U64) test_bounds(op, t);
    }
  }
  test_exact();
  return check_end();
}
