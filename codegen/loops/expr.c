// Interned expressions of quantities: building, folding, text.
#include "codegen/loops/expr.h"

#include <string.h>

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

enum {
  PRECEDENCE_CHOOSE,
  PRECEDENCE_LOGIC,
  PRECEDENCE_COMPARE,
  PRECEDENCE_ADD,
  PRECEDENCE_MUL,
  PRECEDENCE_UNARY,
  PRECEDENCE_ATOM
};

typedef struct {
  const char *infix;     // or NULL
  const char *function;  // of the runtime
  int precedence;
  bool (*fold)(int64_t a, int64_t b, int64_t *out);  // or NULL
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
    [EXPR_DIV] = {" / ", NULL, PRECEDENCE_MUL, NULL},
    [EXPR_REM] = {" % ", NULL, PRECEDENCE_MUL, NULL},
    [EXPR_EQ] = {" == ", NULL, PRECEDENCE_COMPARE, NULL},
    [EXPR_NE] = {" != ", NULL, PRECEDENCE_COMPARE, NULL},
    [EXPR_LT] = {" < ", NULL, PRECEDENCE_COMPARE, NULL},
    [EXPR_LE] = {" <= ", NULL, PRECEDENCE_COMPARE, NULL},
    [EXPR_GT] = {" > ", NULL, PRECEDENCE_COMPARE, NULL},
    [EXPR_GE] = {" >= ", NULL, PRECEDENCE_COMPARE, NULL},
    [EXPR_AND] = {" && ", NULL, PRECEDENCE_LOGIC, NULL},
    [EXPR_OR] = {" || ", NULL, PRECEDENCE_LOGIC, NULL},
};

static bool is_binary(ExprKind kind) { return kind >= EXPR_ADD && kind <= EXPR_OR; }

// ---- the pool

static size_t mix(size_t hash, uint64_t word) {
  return (hash ^ word) * 0x9E3779B97F4A7C15u ^ hash >> 29;
}

static size_t hash_of(const Expr *e) {
  size_t hash = mix(mix(mix(1, e->kind), (uint64_t)e->value), (uintptr_t)e->name);
  for (int i = 0; i < EXPR_ARGS; i++) hash = mix(hash, (uintptr_t)e->arg[i]);
  hash = mix(hash, (uintptr_t)e->definition);
  return hash ^ hash >> 32;
}

static bool is_same(const Expr *a, const Expr *b) {
  for (int i = 0; i < EXPR_ARGS; i++)
    if (a->arg[i] != b->arg[i]) return false;
  return a->kind == b->kind && a->value == b->value && a->name == b->name &&
         a->definition == b->definition;
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

static const char *expr_name_of(const Expr *symbol) {
  return symbol->named && *symbol->named ? *symbol->named : symbol->name;
}

const Expr *expr_code(ExprPool *pool, const char *c) {
  return shared(pool, (Expr){.kind = EXPR_CODE, .name = intern(c)});
}

static const Expr *combine(ExprPool *pool, ExprKind kind, const Expr *a, const Expr *b) {
  int64_t x, y, value;
  bool folds = binary[kind].fold && expr_is_const(a, &x) && expr_is_const(b, &y);
  if (folds && binary[kind].fold(x, y, &value)) return expr_const(pool, value);
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

// `x * 4 * 2` as `x * 8`. `side`: where the constant is in a product that has none.
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

// 0 times a symbol is left to C, since 0 times "too much" is too much.
const Expr *expr_sat_mul(ExprPool *pool, const Expr *a, const Expr *b) {
  if (expr_is(a, 1)) return b;
  return expr_is(b, 1) ? a : combine(pool, EXPR_SAT_MUL, a, b);
}

const Expr *expr_sat_half(ExprPool *pool, const Expr *a) {
  int64_t value;
  if (!expr_is_const(a, &value)) return expr_call(pool, "pk_sat_half", a, NULL, NULL);
  return value == INT64_MAX ? a : expr_const(pool, value / 2 + value % 2);
}

// `max(0, max(1, x))` as `max(1, x)`, `max(2, max(1, x))` as `max(2, x)`. NULL: not so.
static const Expr *join_extremes(ExprPool *pool, ExprKind kind, const Expr *outer,
                                 const Expr *inner) {
  int64_t a, b, joined;
  if (inner->kind != kind || !expr_is_const(outer, &a)) return NULL;
  for (int i = 0; i < 2; i++) {
    if (!expr_is_const(inner->arg[i], &b)) continue;
    binary[kind].fold(a, b, &joined);
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

ExprKind expr_kind(const char *spelling) {
  const size_t length = strlen(spelling);
  for (int kind = EXPR_ADD; kind <= EXPR_OR; kind++) {
    const char *infix = binary[kind].infix;  // between spaces
    if (infix && strlen(infix) == length + 2 && strncmp(infix + 1, spelling, length) == 0)
      return (ExprKind)kind;
  }
  INTERNAL("%s is not an operator of C", spelling);
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

const Expr *expr_cast(ExprPool *pool, const char *type, const Expr *a) {
  return shared(pool, (Expr){.kind = EXPR_CAST, .name = intern(type), .arg = {a}});
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

// Sums and products that saturate, as a reader writes them.
static const Binary plain_forms[] = {
    [EXPR_SAT_ADD] = {" + ", NULL, PRECEDENCE_ADD, NULL},
    [EXPR_SAT_MUL] = {" * ", NULL, PRECEDENCE_MUL, NULL},
    [EXPR_ROUND_UP] = {NULL, "round_up", PRECEDENCE_ATOM, NULL},
};

typedef struct {
  Buf *out;
  bool plain;
} Writer;

static const Binary *form_of(const Writer *w, ExprKind kind) {
  bool plain = w->plain && kind <= EXPR_ROUND_UP && plain_forms[kind].precedence;
  return plain ? &plain_forms[kind] : &binary[kind];
}

static int precedence(const Writer *w, const Expr *e) {
  if (e->kind == EXPR_CHOOSE) return PRECEDENCE_CHOOSE;
  if (e->kind == EXPR_NOT || e->kind == EXPR_CAST) return PRECEDENCE_UNARY;
  return is_binary(e->kind) ? form_of(w, e->kind)->precedence : PRECEDENCE_ATOM;
}

// What an operand of an infix operator may be without parentheses. Comparisons beside comparisons
// and `&&` beside `||` get them, though C has rules for these too.
static int least_operand(const Writer *w, const Expr *e, int side) {
  int own = precedence(w, e);
  bool same = e->arg[side]->kind == e->kind;
  if (own == PRECEDENCE_COMPARE) return own + 1;
  if (side == 1) return w->plain && same && own != PRECEDENCE_LOGIC ? own : own + 1;
  return own == PRECEDENCE_LOGIC && !same ? own + 1 : own;
}

static void put(Writer *w, const Expr *e, int least);

static void put_call(Writer *w, const char *function, const Expr *e) {
  buf_printf(w->out, "%s(", function);
  for (int i = 0; i < EXPR_ARGS && e->arg[i]; i++) {
    if (i) buf_puts(w->out, ", ");
    put(w, e->arg[i], PRECEDENCE_CHOOSE);
  }
  buf_putc(w->out, ')');
}

static void put_const(Buf *out, int64_t value) {
  if (value == INT64_MIN)
    buf_puts(out, "INT64_MIN");
  else
    buf_printf(out, "%lld", (long long)value);
}

static void put_choice(Writer *w, const Expr *e) {
  put(w, e->arg[0], PRECEDENCE_LOGIC);
  buf_puts(w->out, " ? ");
  put(w, e->arg[1], PRECEDENCE_LOGIC);
  buf_puts(w->out, " : ");
  put(w, e->arg[2], PRECEDENCE_CHOOSE);
}

static void put_unary(Writer *w, const Expr *e) {
  if (e->kind == EXPR_NOT)
    buf_putc(w->out, '!');
  else
    buf_printf(w->out, "(%s)", e->name);
  put(w, e->arg[0], PRECEDENCE_UNARY);
}

static void put_binary(Writer *w, const Expr *e) {
  const Binary *form = form_of(w, e->kind);
  if (!form->infix) {
    put_call(w, form->function, e);
    return;
  }
  put(w, e->arg[0], least_operand(w, e, 0));
  buf_puts(w->out, form->infix);
  put(w, e->arg[1], least_operand(w, e, 1));
}

static void put_bare(Writer *w, const Expr *e) {
  if (is_binary(e->kind)) {
    put_binary(w, e);
    return;
  }
  switch (e->kind) {
    case EXPR_CONST:
      put_const(w->out, e->value);
      break;
    case EXPR_CALL:
      put_call(w, e->name, e);
      break;
    case EXPR_CHOOSE:
      put_choice(w, e);
      break;
    case EXPR_NOT:
    case EXPR_CAST:
      put_unary(w, e);
      break;
    default:
      if (e->read) *e->read = true;
      REQUIRE(w->plain || !e->named || *e->named);
      buf_puts(w->out, expr_name_of(e));
  }
}

// In parentheses when it binds less than `least`.
static void put(Writer *w, const Expr *e, int least) {
  bool apart = precedence(w, e) < least;
  if (apart) buf_putc(w->out, '(');
  put_bare(w, e);
  if (apart) buf_putc(w->out, ')');
}

static const char *written(const Expr *e, bool plain) {
  Buf buf = {0};
  put(&(Writer){&buf, plain}, e, PRECEDENCE_CHOOSE);
  const char *result = intern(buf.text);
  buf_free(&buf);
  return result;
}

void expr_forget_reads(ExprPool *pool) {
  for (int i = 0; i < pool->capacity; i++)
    if (pool->at[i] && pool->at[i]->read) *pool->at[i]->read = false;
}

const char *expr_text(const Expr *e) { return written(e, false); }
const char *expr_plain(const Expr *e) { return written(e, true); }
