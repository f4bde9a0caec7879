// Bounds and multiples of integers, from the operations that compute them.
#include "codegen/ir/facts.h"
#include "codegen/ir/scalar.h"

// ---- ends of intervals: the extremes are infinite

static bool is_infinite(int64_t a) { return a == INT64_MIN || a == INT64_MAX; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t negated(int64_t a) {
  return a == INT64_MIN ? INT64_MAX : a == INT64_MAX ? INT64_MIN : -a;
}

// `unknown` where an end is infinite or the sum too large.
static int64_t sum(int64_t a, int64_t b, int64_t unknown) {
  int64_t c;
  return !is_infinite(a) && !is_infinite(b) && add_i64(a, b, &c) ? c : unknown;
}

static int64_t product(int64_t a, int64_t b) {
  int64_t c;
  if (a == 0 || b == 0) return 0;
  if (!is_infinite(a) && !is_infinite(b) && mul_i64(a, b, &c)) return c;
  return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
}

// ---- intervals

static const Interval unbounded = {INT64_MIN, INT64_MAX};

Interval interval_of(DType dtype) {
  if (dtype == DT_BOOL) return (Interval){0, 1};
  if (dtype == DT_U64)
    return unbounded;  // the bits of such a number may be those of a negative one
  return is_integer(dtype) ? (Interval){dtype_min(dtype), dtype_max(dtype)} : unbounded;
}

bool interval_is_point(Interval a) { return a.low == a.high && !is_infinite(a.low); }

static Interval hull(Interval a, Interval b) {
  return (Interval){least(a.low, b.low), most(a.high, b.high)};
}

static Interval interval_neg(const Interval *a) {
  return (Interval){negated(a->high), negated(a->low)};
}
static Interval interval_add(const Interval *a) {
  return (Interval){sum(a[0].low, a[1].low, INT64_MIN), sum(a[0].high, a[1].high, INT64_MAX)};
}
static Interval interval_sub(const Interval *a) {
  return interval_add((Interval[]){a[0], interval_neg(&a[1])});
}
static Interval interval_mul(const Interval *a) {
  Interval ends[2];
  for (int i = 0; i < 2; i++) {
    int64_t end = i ? a[0].high : a[0].low;
    ends[i] = hull(interval_point(product(end, a[1].low)), interval_point(product(end, a[1].high)));
  }
  return hull(ends[0], ends[1]);
}

static Interval quotient(Op op, Interval a, Interval b) {
  if (b.low <= 0) return a.low >= 0 && b.low == 0 ? (Interval){-1, a.high} : unbounded;
  Interval r = unbounded;
  if (a.low > INT64_MIN) r.low = int_binary(op, DT_I64, a.low, a.low < 0 ? b.low : b.high);
  if (a.high < INT64_MAX) r.high = int_binary(op, DT_I64, a.high, a.high < 0 ? b.high : b.low);
  return r;
}
static Interval interval_div(const Interval *a) { return quotient(OP_DIV, a[0], a[1]); }
static Interval interval_floordiv(const Interval *a) { return quotient(OP_FLOORDIV, a[0], a[1]); }

// By 0: the dividend.
static Interval interval_mod(const Interval *a) {
  const Interval by = a[1];
  if (by.low < 0 || (a->low < 0 && by.low == 0)) return unbounded;
  int64_t below = by.high == INT64_MAX ? INT64_MAX : by.high - 1;
  if (a->low < 0) return (Interval){0, below};
  return (Interval){0, by.low > 0 ? least(a->high, below) : a->high};
}
static Interval interval_rem(const Interval *a) { return a->low < 0 ? unbounded : interval_mod(a); }

static Interval interval_min(const Interval *a) {
  return (Interval){least(a[0].low, a[1].low), least(a[0].high, a[1].high)};
}
static Interval interval_max(const Interval *a) {
  return (Interval){most(a[0].low, a[1].low), most(a[0].high, a[1].high)};
}

static Interval (*const intervals[OP_COUNT])(const Interval *) = {
#define INTERVAL_OWN(name) interval_##name
#define INTERVAL_NONE(name) NULL
#define ELEMENTWISE(id, name, class, domain, exactness, f64, bound, neutral, laws, interval, \
                    spelling, jax, vector, transcendental, instead, meaning)                 \
  [OP_##id] = INTERVAL_##interval(name),
#include "codegen/ir/ops.def"
};

static Interval compared(Op op, Interval a, Interval b) {
  unsigned less = a.low < b.high ? IF_LESS : 0, greater = a.high > b.low ? IF_GREATER : 0,
           equal = a.low <= b.high && b.low <= a.high ? IF_EQUAL : 0;
  unsigned possible = less | equal | greater, holds = possible & element_info[op].laws;
  return (Interval){holds == possible, holds != 0};
}

static Interval exact_result(const Instr *instr, const Interval *a) {
  if (op_info[instr->op].class == OPC_COMPARE) return compared(instr->op, a[0], a[1]);
  if (instr->op == OP_SELECT) return hull(a[1], a[2]);
  if (instr->op == OP_CAST) return instr->type.dtype == DT_BOOL ? (Interval){0, 1} : a[0];
  return intervals[instr->op] ? intervals[instr->op](a) : unbounded;
}

// Scalars of i64 are indices, which are taken not to go beyond it.
static bool may_wrap(const Instr *instr, Interval exact, Interval all) {
  if (exact.low < all.low || exact.high > all.high) return true;
  return op_has(instr->op, WRAPS) && instr->type.dtype == DT_I64 && instr->type.rank > 0 &&
         (is_infinite(exact.low) || is_infinite(exact.high));
}

static Interval constant_result(const Instr *instr, const Interval *a) {
  Scalar operands[3];
  for (int i = 0; i < instr->nargs; i++) operands[i].i = a[i].low;
  return interval_point(
      scalar_apply(instr->op, instr->type.dtype, instr->args[0]->type.dtype, operands).i);
}

Interval interval_apply(const Instr *instr, const Interval *a) {
  DType dtype = instr->type.dtype;
  Interval all = interval_of(dtype);
  bool points = instr->op != OP_SELECT;
  REQUIRE(instr->nargs >= 1 && instr->nargs <= 3);
  for (int i = 0; i < instr->nargs; i++) {
    DType from = instr->args[i]->type.dtype;
    if (is_float(from) || from == DT_U64) return all;
    points = points && interval_is_point(a[i]);
  }
  if (is_float(dtype)) return all;
  if (points) return constant_result(instr, a);
  Interval exact = exact_result(instr, a);
  return may_wrap(instr, exact, all) ? all : exact;
}

// ---- multiples

bool is_multiple(const Instr *v, int64_t n) {
  switch (v->op) {
    case OP_CONST:
      return v->ival % n == 0;
    case OP_MUL:
      return is_multiple(v->args[0], n) || is_multiple(v->args[1], n);
    case OP_ADD:
    case OP_SUB:
    case OP_MAX:
    case OP_MIN:
      return is_multiple(v->args[0], n) && is_multiple(v->args[1], n);
    case OP_CAST:
      return is_multiple(v->args[0], n);
    default:
      return n == 1;
  }
}
