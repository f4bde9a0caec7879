// Bounds, multiples and sums of integers, from the operations that compute them.
#include "codegen/ir/axes.h"
#include "codegen/ir/facts.h"
#include "codegen/ir/index.h"
#include "codegen/ir/scalar.h"

#include <string.h>

// Expressions share operands, so a walk over all paths may take exponential time.
enum { DEEPEST = 10 };

// ---- ends of intervals: the extremes mean infinity

static bool is_infinite(int64_t a) { return a == INT64_MIN || a == INT64_MAX; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t negated(int64_t a) {
  return a == INT64_MIN ? INT64_MAX : a == INT64_MAX ? INT64_MIN : -a;
}

// `unknown` if an end is infinite or the sum is too large.
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
  if (dtype == DT_U64) return unbounded;  // as bits, such a number may be negative
  return is_integer(dtype) ? (Interval){dtype_min(dtype), dtype_max(dtype)} : unbounded;
}

bool interval_is_point(Interval a) { return a.low == a.high && !is_infinite(a.low); }

static Interval hull(Interval a, Interval b) {
  return (Interval){least(a.low, b.low), most(a.high, b.high)};
}

// An end that means "no bound" may also be an actual value, whose negative is closer to zero.
static Interval without_empty(Interval a) {
  return (Interval){least(a.low, INT64_MAX - 1), most(a.high, INT64_MIN + 1)};
}

static Interval interval_neg(const Interval *a) {
  return without_empty((Interval){negated(a->high), negated(a->low)});
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
  return without_empty(hull(ends[0], ends[1]));
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

// Division by 0 gives the dividend.
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

// A nonnegative operand of & bounds the result by its own bits.
static Interval interval_and(const Interval *a) {
  if (a[0].low < 0 && a[1].low < 0) return unbounded;
  if (a[0].low < 0 || a[1].low < 0) return (Interval){0, a[a[0].low < 0].high};
  return (Interval){0, least(a[0].high, a[1].high)};
}
static Interval interval_ushr(const Interval *a) {
  const Interval by = a[1];
  if (a->low < 0) return unbounded;
  return (Interval){0, by.low < 0 ? a->high : by.low < 63 ? a->high >> by.low : 0};
}
static Interval interval_shr(const Interval *a) {
  return a->low < 0 ? (Interval){a->low, most(a->high, -1)} : interval_ushr(a);
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

// Scalars of i64 are indices, which are assumed not to overflow.
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

const Interval interval_counter = {0, INT32_MAX};

Interval interval_of_value(const Instr *v, const Interval *axes, const Interval *args) {
  switch (v->op) {
    case OP_CONST:
      return is_float(v->type.dtype) ? unbounded : interval_point(v->ival);
    case OP_AXIS:
      return axes ? axes[v->ival] : interval_counter;
    case OP_SIZE:
    case OP_EXTENT:
    case OP_STEP_AXIS:
      return interval_counter;
    case OP_IOTA: {
      const Dim n = v->type.dim[v->ival];
      return dim_is_const(n) ? (Interval){0, n > 0 ? n - 1 : 0} : interval_counter;
    }
    case OP_BROADCAST:
      return args[0];
    default:
      return op_is_elementwise(v->op) ? interval_apply(v, args) : interval_of(v->type.dtype);
  }
}

// The interval of a value of an index region, where axes are below the known bounds of their
// extents.
static Interval interval_in_grid(const Kernel *k, const Instr *v, int depth) {
  Interval args[3];
  if (depth == 0 || v->nargs > 3) return interval_of(v->type.dtype);
  if (v->op == OP_AXIS) {
    Interval n = interval_in_grid(k, ir_yielded(k->grid.at[v->ival].extent, 0), depth - 1);
    return (Interval){0, n.high == INT64_MAX ? n.high : most(0, n.high - 1)};
  }
  for (int i = 0; i < v->nargs; i++) args[i] = interval_in_grid(k, v->args[i], depth - 1);
  return interval_of_value(v, NULL, args);
}

static Interval interval_to_depth(const Instr *v, int depth) {
  Interval args[3];
  if (depth == 0 || v->nargs > 3) return interval_of(v->type.dtype);
  for (int i = 0; i < v->nargs; i++) args[i] = interval_to_depth(v->args[i], depth - 1);
  return interval_of_value(v, NULL, args);
}

bool is_sure_to_add(const Instr *v, int64_t number) {
  Interval bounds = interval_to_depth(v, DEEPEST);
  int64_t end;
  return !is_infinite(bounds.low) && !is_infinite(bounds.high) &&
         add_i64(number < 0 ? bounds.low : bounds.high, number, &end);
}

// Do both compute a scalar from constants and sizes by the same operations?
static bool is_same_scalar(const Instr *a, const Instr *b, int depth) {
  if (depth == 0 || a->op != b->op || a->nargs != b->nargs || a->type.rank > 0 ||
      a->type.dtype != b->type.dtype)
    return false;
  if (a->op == OP_CONST || a->op == OP_SIZE) return a->ival == b->ival;
  if (!op_is_elementwise(a->op) || is_float(a->type.dtype)) return false;
  for (int i = 0; i < a->nargs; i++)
    if (!is_same_scalar(a->args[i], b->args[i], depth - 1)) return false;
  return true;
}

// Is the extent of a grid axis provably `dim`, a size?
static bool has_extent(const Kernel *k, int axis, Dim dim) {
  const Instr *n = ir_yielded(k->grid.at[axis].extent, 0);
  const int size = dim_size_index(dim);
  if (n->op == OP_SIZE) return n->ival == size;
  const Region *value = k->sizes.at[size].value;
  return value && is_same_scalar(n, ir_yielded(value, 0), DEEPEST);
}

bool is_on_axis(const Kernel *k, const Instr *index, Dim dim) {
  if (index->op == OP_AXIS && !dim_is_const(dim) && has_extent(k, (int)index->ival, dim))
    return true;
  Interval bounds = interval_in_grid(k, index, DEEPEST);
  return dim_is_const(dim) && bounds.low >= 0 && bounds.high < dim;
}

// ---- multiples

// The value of an index, if it depends on numbers and sizes only.
static bool follows_from_sizes(const Instr *v, const int64_t *sizes, int depth, int64_t *value) {
  int64_t arg[2];
  if (v->op == OP_CONST) return *value = v->ival, true;
  if (v->op == OP_SIZE && sizes) return *value = sizes[v->ival], true;
  OpClass class = op_info[v->op].class;
  if (depth == 0 || v->type.rank > 0 || is_float(v->type.dtype)) return false;
  if (class != OPC_UNARY && class != OPC_BINARY && class != OPC_CAST && class != OPC_COMPARE)
    return false;
  for (int i = 0; i < v->nargs; i++)
    if (is_float(v->args[i]->type.dtype) ||
        !follows_from_sizes(v->args[i], sizes, depth - 1, &arg[i]))
      return false;
  return *value = eval_pure(v, arg), true;
}

bool known_number(const Instr *v, int64_t *value) {
  return !is_float(v->type.dtype) && follows_from_sizes(v, NULL, DEEPEST, value);
}

// Is an index scalar provably a multiple of n?
static bool is_multiple_of(const Instr *v, int64_t n, const int64_t *sizes, int depth) {
  int64_t value;
  if (n == 1) return true;
  if (follows_from_sizes(v, sizes, depth, &value)) return value % n == 0;
  if (depth == 0) return false;
  switch (v->op) {
    case OP_MUL:
      return is_multiple_of(v->args[0], n, sizes, depth - 1) ||
             is_multiple_of(v->args[1], n, sizes, depth - 1);
    case OP_ADD:
    case OP_SUB:
    case OP_MAX:
    case OP_MIN:
      return is_multiple_of(v->args[0], n, sizes, depth - 1) &&
             is_multiple_of(v->args[1], n, sizes, depth - 1);
    case OP_CAST:
      return is_multiple_of(v->args[0], n, sizes, depth - 1);
    default:
      return false;
  }
}

bool is_multiple(const Instr *v, int64_t n, const int64_t *sizes) {
  return is_multiple_of(v, n, sizes, DEEPEST);
}

// ---- sums

bool is_counter_type(DType t) { return dtype_info[t].class == CLASS_SIGNED && dtype_bytes(t) >= 4; }

const Instr *without_casts(const Instr *v) {
  while (v->op == OP_CAST && is_counter_type(v->type.dtype) &&
         is_counter_type(v->args[0]->type.dtype))
    v = v->args[0];
  return v;
}

static bool add_term(Affine *a, const Instr *of, int64_t factor) {
  for (int i = 0; i < a->terms; i++)
    if (a->term[i].of == of) {
      a->term[i].factor += factor;
      return true;
    }
  if (a->terms == AFFINE_TERMS) return false;
  a->term[a->terms++] = (AffineTerm){of, factor};
  return true;
}

// Adds factor * v; factor is 1 or -1.
static bool add_value(Affine *a, const Instr *v, const int *axis_of, int64_t factor, int depth) {
  int inner[MAX_RANK];
  v = without_casts(v);
  if (!is_counter_type(v->type.dtype) || depth == 0) return false;
  if (v->type.rank == 0) return add_term(a, v, factor);
  switch (v->op) {
    case OP_IOTA:
      if (axis_of[v->ival] >= 0) a->coefficient[axis_of[v->ival]] += factor;
      return true;
    case OP_BROADCAST:
      return ir_operand_axes(v, axis_of, inner) &&
             add_value(a, v->args[0], inner, factor, depth - 1);
    case OP_NEG:
      return add_value(a, v->args[0], axis_of, -factor, depth - 1);
    case OP_ADD:
    case OP_SUB:
      return add_value(a, v->args[0], axis_of, factor, depth - 1) &&
             add_value(a, v->args[1], axis_of, v->op == OP_ADD ? factor : -factor, depth - 1);
    default:
      return false;
  }
}

bool affine_of(const Instr *v, const int *axis_of, Affine *a) {
  memset(a, 0, sizeof *a);
  return add_value(a, v, axis_of, 1, DEEPEST);
}

bool affine_subtract(Affine *a, const Affine *b) {
  for (int i = 0; i < MAX_RANK; i++) a->coefficient[i] -= b->coefficient[i];
  for (int i = 0; i < b->terms; i++)
    if (!add_term(a, b->term[i].of, -b->term[i].factor)) return false;
  return true;
}

bool affine_is_index(const Affine *a, int axis, const Instr **start) {
  for (int i = 0; i < MAX_RANK; i++)
    if (a->coefficient[i] != (i == axis)) return false;
  *start = a->terms ? a->term[0].of : NULL;
  return a->terms == 0 || (a->terms == 1 && a->term[0].factor == 1);
}
