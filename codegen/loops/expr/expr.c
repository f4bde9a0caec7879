// Interned expressions of quantities: building and folding.
#include "codegen/loops/expr/expr.h"

#include <string.h>

// ---- folding. Each returns false if the operation is left to C.

static bool fold_add(int64_t a, int64_t b, int64_t *out) {
  if (!add_i64(a, b, out)) *out = a > 0 ? INT64_MAX : INT64_MIN;
  return true;
}

static bool fold_sub(int64_t a, int64_t b, int64_t *out) {
  if (!sub_i64(a, b, out)) *out = b < 0 ? INT64_MAX : INT64_MIN;
  return true;
}

static bool fold_mul(int64_t a, int64_t b, int64_t *out) {
  if (!mul_i64(a, b, out)) *out = (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
  return true;
}

static bool fold_sat_add(int64_t a, int64_t b, int64_t *out) {
  *out = saturating_add(a, b);
  return true;
}

// "Too much" is preserved, even by a product with 0.
static bool fold_sat_mul(int64_t a, int64_t b, int64_t *out) {
  *out = a == INT64_MAX || b == INT64_MAX ? INT64_MAX : saturating_mul(a, b);
  return true;
}

static bool fold_min(int64_t a, int64_t b, int64_t *out) {
  *out = a < b ? a : b;
  return true;
}

static bool fold_max(int64_t a, int64_t b, int64_t *out) {
  *out = a > b ? a : b;
  return true;
}

static bool fold_floor_div(int64_t a, int64_t b, int64_t *out) {
  if (b > 0) *out = a / b - (a % b < 0);
  return b > 0;
}

static bool fold_ceil_div(int64_t a, int64_t b, int64_t *out) {
  *out = b > 0 ? a / b + (a % b > 0) : 0;
  return true;
}

static bool fold_round_up(int64_t a, int64_t to, int64_t *out) {
  *out = a > INT64_MAX - to ? INT64_MAX : (a + to - 1) / to * to;
  return true;
}

typedef bool Fold(int64_t a, int64_t b, int64_t *out);
static Fold *const fold[EXPR_LIST + 1] = {
    [EXPR_ADD] = fold_add,           [EXPR_SUB] = fold_sub,
    [EXPR_MUL] = fold_mul,           [EXPR_SAT_ADD] = fold_sat_add,
    [EXPR_SAT_MUL] = fold_sat_mul,   [EXPR_MIN] = fold_min,
    [EXPR_MAX] = fold_max,           [EXPR_FLOOR_DIV] = fold_floor_div,
    [EXPR_CEIL_DIV] = fold_ceil_div, [EXPR_ROUND_UP] = fold_round_up,
};

// ---- the pool

static size_t mix(size_t hash, uint64_t word) {
  return (hash ^ word) * 0x9E3779B97F4A7C15u ^ hash >> 29;
}

static size_t hash_of(const Expr *e) {
  uint64_t number;
  memcpy(&number, &e->number, sizeof number);
  size_t hash = mix(mix(mix(1, e->kind), (uint64_t)e->value), (uintptr_t)e->name);
  for (int i = 0; i < EXPR_ARGS; i++) hash = mix(hash, (uintptr_t)e->arg[i]);
  hash = mix(hash, (uintptr_t)e->definition);
  hash = mix(hash, number);
  hash = mix(hash, (uint64_t)e->op << 16 | (uint64_t)e->from << 8 | e->dtype);
  return hash ^ hash >> 32;
}

static bool is_same(const Expr *a, const Expr *b) {
  for (int i = 0; i < EXPR_ARGS; i++)
    if (a->arg[i] != b->arg[i]) return false;
  return a->kind == b->kind && a->value == b->value && a->name == b->name &&
         memcmp(&a->number, &b->number, sizeof a->number) == 0 && a->op == b->op &&
         a->from == b->from && a->dtype == b->dtype && a->definition == b->definition;
}

static const Expr **slot_of(const ExprPool *pool, const Expr *e) {
  for (size_t at = hash_of(e);; at++) {
    const Expr **slot = &pool->at[at % (size_t)pool->capacity];
    if (!*slot || is_same(*slot, e)) return slot;
  }
}

static void grow(ExprPool *pool) {
  ExprPool old = *pool;
  pool->capacity = old.capacity ? 2 * old.capacity : 64;
  pool->at = NEW_ARRAY(pool->arena, const Expr *, pool->capacity);
  for (int i = 0; i < old.capacity; i++)
    if (old.at[i]) *slot_of(pool, old.at[i]) = old.at[i];
}

static const Expr *shared(ExprPool *pool, Expr wanted) {
  if (2 * pool->count >= pool->capacity) grow(pool);
  const Expr **slot = slot_of(pool, &wanted);
  if (*slot) return *slot;
  Expr *e = NEW(pool->arena, Expr);
  *e = wanted;
  if (e->kind == EXPR_SYMBOL) e->read = NEW(pool->arena, bool);
  pool->count++;
  return *slot = e;
}

// ---- building

const Expr *expr_const(ExprPool *pool, int64_t value) {
  return shared(pool, (Expr){.kind = EXPR_CONST, .value = value});
}

const Expr *expr_symbol(ExprPool *pool, const char *name) {
  return shared(pool, (Expr){.kind = EXPR_SYMBOL, .name = intern(name)});
}

const Expr *expr_declared(ExprPool *pool, const char *name, const Expr *definition) {
  return shared(pool, (Expr){.kind = EXPR_SYMBOL, .name = intern(name), .definition = definition});
}

const Expr *expr_variable(ExprPool *pool, const char *stem) {
  Expr *e = NEW(pool->arena, Expr);
  *e = (Expr){.kind = EXPR_SYMBOL, .name = intern(stem), .named = NEW(pool->arena, const char *)};
  return e;
}

void expr_name(const Expr *variable, const char *name) { *variable->named = name; }

const Expr *expr_code(ExprPool *pool, const char *c) {
  return shared(pool, (Expr){.kind = EXPR_CODE, .name = intern(c)});
}

static const Expr *combine(ExprPool *pool, ExprKind kind, const Expr *a, const Expr *b) {
  int64_t x, y, value;
  bool folds = fold[kind] && expr_is_const(a, &x) && expr_is_const(b, &y);
  if (folds && fold[kind](x, y, &value)) return expr_const(pool, value);
  return shared(pool, (Expr){.kind = kind, .arg = {a, b}});
}

// x = e + *value, where e ends in adding or subtracting a constant.
static const Expr *without_constant(const Expr *e, int64_t *value) {
  int64_t constant;
  *value = 0;
  bool ends = (e->kind == EXPR_ADD || e->kind == EXPR_SUB) && expr_is_const(e->arg[1], &constant);
  if (!ends || constant == INT64_MIN) return e;
  *value = e->kind == EXPR_ADD ? constant : -constant;
  return e->arg[0];
}

// `x + 3 - 1` as `x + 2`, `x + -1` as `x - 1`.
static const Expr *add_constant(ExprPool *pool, const Expr *e, int64_t value) {
  int64_t before, sum;
  const Expr *x = without_constant(e, &before);
  if (!add_i64(before, value, &sum) || sum == INT64_MIN)
    return combine(pool, EXPR_ADD, e, expr_const(pool, value));
  if (sum == 0) return x;
  return sum > 0 ? combine(pool, EXPR_ADD, x, expr_const(pool, sum))
                 : combine(pool, EXPR_SUB, x, expr_const(pool, -sum));
}

const Expr *expr_add(ExprPool *pool, const Expr *a, const Expr *b) {
  int64_t value;
  if (a->kind == EXPR_CONST && b->kind == EXPR_CONST) return combine(pool, EXPR_ADD, a, b);
  if (expr_is_const(a, &value)) return add_constant(pool, b, value);
  return expr_is_const(b, &value) ? add_constant(pool, a, value) : combine(pool, EXPR_ADD, a, b);
}

const Expr *expr_sub(ExprPool *pool, const Expr *a, const Expr *b) {
  int64_t value;
  bool moves = a->kind != EXPR_CONST && expr_is_const(b, &value) && value != INT64_MIN;
  return moves ? add_constant(pool, a, -value) : combine(pool, EXPR_SUB, a, b);
}

// `x * 4 * 2` as `x * 8`. `side`: the side of the constant in a new product.
static const Expr *mul_constant(ExprPool *pool, const Expr *e, int64_t value, int side) {
  const Expr *factor[2] = {e, e};
  int64_t before, product;
  for (int i = 0; e->kind == EXPR_MUL && i < 2; i++) {
    if (!expr_is_const(e->arg[i], &before) || !mul_i64(before, value, &product)) continue;
    factor[i] = expr_const(pool, product);
    factor[1 - i] = e->arg[1 - i];
    return combine(pool, EXPR_MUL, factor[0], factor[1]);
  }
  factor[side] = expr_const(pool, value);
  return combine(pool, EXPR_MUL, factor[0], factor[1]);
}

const Expr *expr_mul(ExprPool *pool, const Expr *a, const Expr *b) {
  if (expr_is(a, 0) || expr_is(b, 1)) return a;
  if (expr_is(b, 0) || expr_is(a, 1)) return b;
  int64_t value;
  if (expr_is_const(b, &value)) return mul_constant(pool, a, value, 1);
  if (expr_is_const(a, &value)) return mul_constant(pool, b, value, 0);
  return combine(pool, EXPR_MUL, a, b);
}

const Expr *expr_sat_add(ExprPool *pool, const Expr *a, const Expr *b) {
  if (expr_is(a, 0)) return b;
  return expr_is(b, 0) ? a : combine(pool, EXPR_SAT_ADD, a, b);
}

// 0 times a symbol is left to C, because 0 times "too much" is "too much".
const Expr *expr_sat_mul(ExprPool *pool, const Expr *a, const Expr *b) {
  if (expr_is(a, 1)) return b;
  return expr_is(b, 1) ? a : combine(pool, EXPR_SAT_MUL, a, b);
}

const Expr *expr_sat_half(ExprPool *pool, const Expr *a) {
  int64_t value;
  if (!expr_is_const(a, &value))
    return expr_function(pool, FN_SAT_HALF, (const Expr *[EXPR_ARGS]){a});
  return value == INT64_MAX ? a : expr_const(pool, value / 2 + value % 2);
}

// `max(0, max(1, x))` as `max(1, x)`, `max(2, max(1, x))` as `max(2, x)`. NULL: not so.
static const Expr *join_extremes(ExprPool *pool, ExprKind kind, const Expr *outer,
                                 const Expr *inner) {
  int64_t a, b, joined;
  if (inner->kind != kind || !expr_is_const(outer, &a)) return NULL;
  for (int i = 0; i < 2; i++) {
    if (!expr_is_const(inner->arg[i], &b)) continue;
    fold[kind](a, b, &joined);
    return joined == b ? inner : combine(pool, kind, outer, inner->arg[1 - i]);
  }
  return NULL;
}

static const Expr *extreme(ExprPool *pool, ExprKind kind, const Expr *a, const Expr *b) {
  if (a == b) return a;
  const Expr *joined = join_extremes(pool, kind, a, b);
  if (!joined) joined = join_extremes(pool, kind, b, a);
  return joined ? joined : combine(pool, kind, a, b);
}

const Expr *expr_min(ExprPool *pool, const Expr *a, const Expr *b) {
  return extreme(pool, EXPR_MIN, a, b);
}

const Expr *expr_max(ExprPool *pool, const Expr *a, const Expr *b) {
  return extreme(pool, EXPR_MAX, a, b);
}

const Expr *expr_floor_div(ExprPool *pool, const Expr *a, const Expr *b) {
  return expr_is(b, 1) ? a : combine(pool, EXPR_FLOOR_DIV, a, b);
}

const Expr *expr_ceil_div(ExprPool *pool, const Expr *a, const Expr *b) {
  return expr_is(b, 1) ? a : combine(pool, EXPR_CEIL_DIV, a, b);
}

const Expr *expr_round_up(ExprPool *pool, const Expr *a, int64_t to) {
  REQUIRE(to > 0);
  return to == 1 ? a : combine(pool, EXPR_ROUND_UP, a, expr_const(pool, to));
}

const Expr *expr_operator(ExprPool *pool, ExprKind kind, const Expr *a, const Expr *b) {
  REQUIRE(kind >= EXPR_DIV && kind <= EXPR_OR);
  return combine(pool, kind, a, b);
}

const Expr *expr_and(ExprPool *pool, const Expr *a, const Expr *b) {
  return !a || !b ? a ? a : b : combine(pool, EXPR_AND, a, b);
}

const Expr *expr_or(ExprPool *pool, const Expr *a, const Expr *b) {
  return !a || !b ? a ? a : b : combine(pool, EXPR_OR, a, b);
}

const Expr *expr_not(ExprPool *pool, const Expr *a) {
  if (a->kind == EXPR_EQ) return expr_operator(pool, EXPR_NE, a->arg[0], a->arg[1]);
  if (a->kind == EXPR_NE) return expr_operator(pool, EXPR_EQ, a->arg[0], a->arg[1]);
  return shared(pool, (Expr){.kind = EXPR_NOT, .arg = {a}});
}

const Expr *expr_cast(ExprPool *pool, DType dtype, const Expr *a) {
  return shared(pool, (Expr){.kind = EXPR_CAST, .dtype = dtype, .arg = {a}});
}

const Expr *expr_literal(ExprPool *pool, const Instr *constant) {
  DType t = constant->type.dtype;
  Expr literal = {.kind = EXPR_LITERAL, .dtype = t};
  if (is_float(t))
    literal.number = constant->fval;
  else
    literal.value = constant->ival;
  return shared(pool, literal);
}

const Expr *expr_operation(ExprPool *pool, const Instr *v, const Expr *const *args) {
  Expr e = {.kind = EXPR_OPERATION, .op = v->op, .dtype = v->type.dtype, .from = v->type.dtype};
  if (v->nargs) e.from = v->args[v->nargs - 1]->type.dtype;
  for (int i = 0; i < v->nargs; i++) e.arg[i] = args[i];
  return shared(pool, e);
}

const Expr *expr_narrow(ExprPool *pool, DType dtype, const Expr *v) {
  bool changes = is_narrow_float(dtype) || is_narrow_integer(dtype);
  return changes ? shared(pool, (Expr){.kind = EXPR_NARROW, .dtype = dtype, .arg = {v}}) : v;
}

const Expr *expr_function(ExprPool *pool, ExprFunction function,
                          const Expr *const args[EXPR_ARGS]) {
  Expr e = {.kind = EXPR_FUNCTION, .value = function};
  memcpy(e.arg, args, sizeof e.arg);
  return shared(pool, e);
}

// The pointers to the arrays are arguments, so they are read where the expression is.
const Expr *expr_stride(ExprPool *pool, int operand, const Expr *axis) {
  const Expr *call = expr_symbol(pool, "call");
  return shared(pool, (Expr){.kind = EXPR_STRIDE, .value = operand, .arg = {call, axis}});
}

const Expr *expr_dim(ExprPool *pool, int operand, int axis) {
  const Expr *arrays = expr_symbol(pool, "array"), *k = expr_const(pool, axis);
  return shared(pool, (Expr){.kind = EXPR_DIM, .value = operand, .arg = {arrays, k}});
}

const Expr *expr_element(ExprPool *pool, const Ref *operand, const Expr *const *index) {
  const Expr *arrays = expr_symbol(pool, "array"), *list = NULL;
  for (int i = operand->array.rank - 1; i >= 0; i--)
    list = shared(pool, (Expr){.kind = EXPR_LIST, .arg = {index[i], list}});
  return shared(pool, (Expr){.kind = EXPR_ELEMENT,
                             .value = operand->id,
                             .dtype = operand->array.dtype,
                             .arg = {arrays, list}});
}

const Expr *expr_call(ExprPool *pool, const char *function, const Expr *a, const Expr *b,
                      const Expr *c) {
  return shared(pool, (Expr){.kind = EXPR_CALL, .name = intern(function), .arg = {a, b, c}});
}

const Expr *expr_choose(ExprPool *pool, const Expr *condition, const Expr *then,
                        const Expr *otherwise) {
  int64_t holds;
  if (expr_is_const(condition, &holds)) return holds ? then : otherwise;
  if (then == otherwise) return then;
  return shared(pool, (Expr){.kind = EXPR_CHOOSE, .arg = {condition, then, otherwise}});
}

// ---- reading

bool expr_is_const(const Expr *e, int64_t *value) {
  if (e->kind == EXPR_CONST) *value = e->value;
  return e->kind == EXPR_CONST;
}

bool expr_is(const Expr *e, int64_t value) { return e->kind == EXPR_CONST && e->value == value; }

void expr_forget_reads(ExprPool *pool) {
  for (int i = 0; i < pool->capacity; i++)
    if (pool->at[i] && pool->at[i]->read) *pool->at[i]->read = false;
}
