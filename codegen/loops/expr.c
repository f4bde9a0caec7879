// Interned expressions of quantities: building, folding, text.
#include "codegen/loops/expr.h"

// ---- folding. Each answers false where it leaves the operation to C.

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

// "Too much" stays, times 0 too.
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

// ---- operations of two arguments

enum { PRECEDENCE_CHOOSE, PRECEDENCE_ADD, PRECEDENCE_MUL, PRECEDENCE_ATOM };

typedef struct {
  const char *infix;     // or NULL
  const char *function;  // of the runtime
  int precedence;
  bool (*fold)(int64_t a, int64_t b, int64_t *out);
} Binary;

static const Binary binary[] = {
    [EXPR_ADD] = {" + ", NULL, PRECEDENCE_ADD, fold_add},
    [EXPR_SUB] = {" - ", NULL, PRECEDENCE_ADD, fold_sub},
    [EXPR_MUL] = {" * ", NULL, PRECEDENCE_MUL, fold_mul},
    [EXPR_SAT_ADD] = {NULL, "pk_sat_add", PRECEDENCE_ATOM, fold_sat_add},
    [EXPR_SAT_MUL] = {NULL, "pk_sat_mul", PRECEDENCE_ATOM, fold_sat_mul},
    [EXPR_MIN] = {NULL, "pk_idx_min", PRECEDENCE_ATOM, fold_min},
    [EXPR_MAX] = {NULL, "pk_idx_max", PRECEDENCE_ATOM, fold_max},
    [EXPR_FLOOR_DIV] = {NULL, "pk_idx_floordiv", PRECEDENCE_ATOM, fold_floor_div},
    [EXPR_CEIL_DIV] = {NULL, "pk_cdiv", PRECEDENCE_ATOM, fold_ceil_div},
    [EXPR_ROUND_UP] = {NULL, "pk_round_up", PRECEDENCE_ATOM, fold_round_up},
};

static bool is_binary(ExprKind kind) { return kind >= EXPR_ADD && kind <= EXPR_ROUND_UP; }

// ---- the pool

static size_t mix(size_t hash, uint64_t word) {
  return (hash ^ word) * 0x9E3779B97F4A7C15u ^ hash >> 29;
}

static size_t hash_of(const Expr *e) {
  size_t hash = mix(mix(mix(1, e->kind), (uint64_t)e->value), (uintptr_t)e->name);
  for (int i = 0; i < EXPR_ARGS; i++) hash = mix(hash, (uintptr_t)e->arg[i]);
  return hash ^ hash >> 32;
}

static bool is_same(const Expr *a, const Expr *b) {
  for (int i = 0; i < EXPR_ARGS; i++)
    if (a->arg[i] != b->arg[i]) return false;
  return a->kind == b->kind && a->value == b->value && a->name == b->name;
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
  const Expr *e =
      shared(pool, (Expr){.kind = EXPR_SYMBOL, .name = intern(name), .definition = definition});
  REQUIRE(e->definition == definition);
  return e;
}

static const Expr *combine(ExprPool *pool, ExprKind kind, const Expr *a, const Expr *b) {
  int64_t x, y, value;
  if (expr_is_const(a, &x) && expr_is_const(b, &y) && binary[kind].fold(x, y, &value))
    return expr_const(pool, value);
  return shared(pool, (Expr){.kind = kind, .arg = {a, b}});
}

const Expr *expr_add(ExprPool *pool, const Expr *a, const Expr *b) {
  if (expr_is(a, 0)) return b;
  return expr_is(b, 0) ? a : combine(pool, EXPR_ADD, a, b);
}

const Expr *expr_sub(ExprPool *pool, const Expr *a, const Expr *b) {
  return expr_is(b, 0) ? a : combine(pool, EXPR_SUB, a, b);
}

const Expr *expr_mul(ExprPool *pool, const Expr *a, const Expr *b) {
  if (expr_is(a, 0) || expr_is(b, 1)) return a;
  if (expr_is(b, 0) || expr_is(a, 1)) return b;
  return combine(pool, EXPR_MUL, a, b);
}

const Expr *expr_sat_add(ExprPool *pool, const Expr *a, const Expr *b) {
  if (expr_is(a, 0)) return b;
  return expr_is(b, 0) ? a : combine(pool, EXPR_SAT_ADD, a, b);
}

// 0 times a symbol is left to C, since 0 times "too much" is too much.
const Expr *expr_sat_mul(ExprPool *pool, const Expr *a, const Expr *b) {
  if (expr_is(a, 1)) return b;
  return expr_is(b, 1) ? a : combine(pool, EXPR_SAT_MUL, a, b);
}

const Expr *expr_min(ExprPool *pool, const Expr *a, const Expr *b) {
  return a == b ? a : combine(pool, EXPR_MIN, a, b);
}

const Expr *expr_max(ExprPool *pool, const Expr *a, const Expr *b) {
  return a == b ? a : combine(pool, EXPR_MAX, a, b);
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

static int precedence(const Expr *e) {
  if (e->kind == EXPR_CHOOSE) return PRECEDENCE_CHOOSE;
  return is_binary(e->kind) ? binary[e->kind].precedence : PRECEDENCE_ATOM;
}

static void put(Buf *out, const Expr *e, int least);

static void put_call(Buf *out, const char *function, const Expr *e) {
  buf_printf(out, "%s(", function);
  for (int i = 0; i < EXPR_ARGS && e->arg[i]; i++) {
    if (i) buf_puts(out, ", ");
    put(out, e->arg[i], PRECEDENCE_CHOOSE);
  }
  buf_putc(out, ')');
}

static void put_const(Buf *out, int64_t value) {
  if (value == INT64_MIN)
    buf_puts(out, "INT64_MIN");
  else
    buf_printf(out, "%lld", (long long)value);
}

static void put_bare(Buf *out, const Expr *e) {
  if (e->kind == EXPR_CONST) {
    put_const(out, e->value);
  } else if (e->kind == EXPR_SYMBOL) {
    buf_puts(out, e->name);
  } else if (e->kind == EXPR_CHOOSE) {
    put(out, e->arg[0], PRECEDENCE_ADD);
    buf_puts(out, " ? ");
    put(out, e->arg[1], PRECEDENCE_ADD);
    buf_puts(out, " : ");
    put(out, e->arg[2], PRECEDENCE_CHOOSE);
  } else if (is_binary(e->kind) && binary[e->kind].infix) {
    put(out, e->arg[0], precedence(e));
    buf_puts(out, binary[e->kind].infix);
    put(out, e->arg[1], precedence(e) + 1);
  } else {
    put_call(out, e->kind == EXPR_CALL ? e->name : binary[e->kind].function, e);
  }
}

// In parentheses when it binds less than `least`.
static void put(Buf *out, const Expr *e, int least) {
  bool apart = precedence(e) < least;
  if (apart) buf_putc(out, '(');
  put_bare(out, e);
  if (apart) buf_putc(out, ')');
}

const char *expr_text(const Expr *e) {
  Buf buf = {0};
  put(&buf, e, PRECEDENCE_CHOOSE);
  const char *result = intern(buf.text);
  buf_free(&buf);
  return result;
}
