// Expressions of quantities: one pointer for equal ones, constants folded as the runtime computes
// them, text.
#include "codegen/emit/internal.h"
#include "check.h"

#include <pk/step.h>

typedef const Expr *Build(ExprPool *pool, const Expr *a, const Expr *b);

static const Expr *round_up(ExprPool *pool, const Expr *a, const Expr *b) {
  return expr_round_up(pool, a, b->value);
}

static const int64_t numbers[] = {
    0, 1, 2, 3, 7, 64, 1000003, INT64_MAX / 2, INT64_MAX - 63, INT64_MAX - 1, INT64_MAX};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

// The result of C, by the function of the runtime.
static void test_runtime(ExprPool *pool) {
  static const struct {
    const char *name;
    Build *build;
    int64_t (*runtime)(int64_t a, int64_t b);
    bool positive;  // b > 0
  } cases[] = {
      {"pk_sat_add", expr_sat_add, pk_sat_add, false},
      {"pk_sat_mul", expr_sat_mul, pk_sat_mul, false},
      {"pk_idx_min", expr_min, pk_idx_min, false},
      {"pk_idx_max", expr_max, pk_idx_max, false},
      {"pk_idx_floordiv", expr_floor_div, pk_idx_floordiv, true},
      {"pk_cdiv", expr_ceil_div, pk_cdiv, false},
      {"pk_round_up", round_up, pk_round_up, true},
  };
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (int i = 0; i < NUMBERS * NUMBERS; i++) {
      int64_t a = numbers[i / NUMBERS], b = numbers[i % NUMBERS], got = -1;
      if (cases[c].positive && b == 0) continue;
      bool folded =
          expr_is_const(cases[c].build(pool, expr_const(pool, a), expr_const(pool, b)), &got);
      check(folded && got == cases[c].runtime(a, b), cases[c].name,
            "of %lld and %lld is %lld, expected %lld", (long long)a, (long long)b, (long long)got,
            (long long)cases[c].runtime(a, b));
    }
}

static void test_overflow(ExprPool *pool) {
  const Expr *most = expr_const(pool, INT64_MAX), *least = expr_const(pool, INT64_MIN),
             *minus = expr_const(pool, -1);
  EXPECT(expr_add(pool, most, most) == most);
  EXPECT(expr_add(pool, least, minus) == least);
  EXPECT(expr_sub(pool, most, minus) == most);
  EXPECT(expr_sub(pool, expr_const(pool, 0), least) == most);
  EXPECT(expr_sub(pool, least, most) == least);
  EXPECT(expr_mul(pool, least, minus) == most);
  EXPECT(expr_mul(pool, most, expr_const(pool, -2)) == least);
  EXPECT(expr_is(expr_floor_div(pool, expr_const(pool, -7), expr_const(pool, 2)), -4));
  EXPECT(expr_is(expr_ceil_div(pool, expr_const(pool, -7), expr_const(pool, 2)), -3));
  EXPECT(expr_is(expr_ceil_div(pool, least, minus), 0));
  EXPECT(expr_floor_div(pool, least, minus)->kind == EXPR_FLOOR_DIV);
}

static void test_sharing(ExprPool *pool) {
  const Expr *m = expr_symbol(pool, "M"), *n = expr_symbol(pool, "N");
  const Expr *sums[300];
  for (int i = 0; i < 300; i++) sums[i] = expr_add(pool, m, expr_const(pool, i));
  for (int i = 0; i < 300; i++)
    check(sums[i] == expr_add(pool, m, expr_const(pool, i)), "shared after growth", "M + %d is new",
          i);
  EXPECT(m != n);
  EXPECT(expr_mul(pool, m, n) == expr_mul(pool, m, n));
  EXPECT(expr_mul(pool, m, n) != expr_add(pool, m, n));
  EXPECT(expr_call(pool, "f", m, n, NULL) != expr_call(pool, "g", m, n, NULL));
  EXPECT(expr_call(pool, "f", m, NULL, NULL) != expr_call(pool, "f", m, n, NULL));
  const Expr *row = expr_declared(pool, "row", expr_mul(pool, m, n));
  EXPECT(row->definition == expr_mul(pool, m, n) && row != expr_symbol(pool, "row"));
  EXPECT(expr_declared(pool, "row", expr_mul(pool, m, n)) == row);
  EXPECT(expr_code(pool, "row") != expr_symbol(pool, "row"));
  EXPECT(expr_cast(pool, DT_I32, m) != expr_cast(pool, DT_I64, m));
}

static void test_identities(ExprPool *pool) {
  const Expr *m = expr_symbol(pool, "M"), *zero = expr_const(pool, 0), *one = expr_const(pool, 1);
  EXPECT(expr_add(pool, m, zero) == m && expr_add(pool, zero, m) == m);
  EXPECT(expr_sub(pool, m, zero) == m && expr_sub(pool, zero, m) != m);
  EXPECT(expr_mul(pool, m, one) == m && expr_mul(pool, one, m) == m);
  EXPECT(expr_mul(pool, m, zero) == zero && expr_mul(pool, zero, m) == zero);
  EXPECT(expr_sat_mul(pool, m, one) == m && expr_sat_mul(pool, one, m) == m);
  EXPECT(expr_sat_mul(pool, m, zero) != zero);
  EXPECT(expr_sat_add(pool, m, zero) == m && expr_sat_add(pool, zero, m) == m);
  EXPECT(expr_min(pool, m, m) == m && expr_max(pool, m, m) == m);
  const Expr *above = expr_max(pool, one, m), *two = expr_const(pool, 2);
  EXPECT(expr_max(pool, zero, above) == above && expr_max(pool, above, zero) == above);
  EXPECT(expr_max(pool, two, above) == expr_max(pool, two, m));
  EXPECT(expr_max(pool, above, expr_symbol(pool, "N"))->arg[0] == above);
  EXPECT(expr_min(pool, two, expr_min(pool, m, one)) == expr_min(pool, m, one));
  EXPECT(expr_min(pool, zero, above) != above);
  EXPECT(expr_floor_div(pool, m, one) == m && expr_ceil_div(pool, m, one) == m &&
         expr_round_up(pool, m, 1) == m);
  EXPECT(expr_choose(pool, one, m, zero) == m && expr_choose(pool, zero, m, one) == one);
  EXPECT(expr_choose(pool, m, one, one) == one);
  EXPECT(expr_and(pool, NULL, m) == m && expr_or(pool, m, NULL) == m);
}

static void test_constant_terms(ExprPool *pool) {
  const Expr *m = expr_symbol(pool, "M"), *three = expr_const(pool, 3), *one = expr_const(pool, 1),
             *minus = expr_const(pool, -3), *most = expr_const(pool, INT64_MAX),
             *least = expr_const(pool, INT64_MIN);
  EXPECT(expr_sub(pool, expr_add(pool, m, three), three) == m);
  EXPECT(expr_add(pool, expr_sub(pool, m, three), one) == expr_sub(pool, m, expr_const(pool, 2)));
  EXPECT(expr_add(pool, m, minus) == expr_sub(pool, m, three));
  EXPECT(expr_sub(pool, m, minus) == expr_add(pool, m, three));
  EXPECT(expr_add(pool, three, m) == expr_add(pool, m, three));
  const Expr *high = expr_add(pool, expr_add(pool, m, most), one);
  EXPECT(high->kind == EXPR_ADD && expr_is(high->arg[1], 1));
  const Expr *twelve = expr_mul(pool, expr_mul(pool, m, three), expr_const(pool, 4));
  EXPECT(twelve == expr_mul(pool, m, expr_const(pool, 12)));
  EXPECT(expr_mul(pool, three, twelve) == expr_mul(pool, m, expr_const(pool, 36)));
  EXPECT(expr_mul(pool, expr_mul(pool, m, most), three)->arg[0]->kind == EXPR_MUL);
  EXPECT(expr_sub(pool, m, least)->kind == EXPR_SUB && expr_add(pool, m, least)->kind == EXPR_ADD);
}

static void expect_text(const Expr *e, const char *expected) {
  const char *got = expr_text(e);
  check(strcmp(got, expected) == 0, expected, "is written %s", got);
}

static void test_text(ExprPool *pool) {
  const Expr *a = expr_symbol(pool, "a"), *b = expr_symbol(pool, "b"), *c = expr_symbol(pool, "c");
  expect_text(expr_const(pool, -3), "-3");
  expect_text(expr_const(pool, INT64_MIN), "INT64_MIN");
  expect_text(expr_mul(pool, expr_sub(pool, a, b), c), "(a - b) * c");
  expect_text(expr_add(pool, expr_mul(pool, a, b), c), "a * b + c");
  expect_text(expr_sub(pool, expr_sub(pool, a, b), c), "a - b - c");
  expect_text(expr_sub(pool, a, expr_sub(pool, b, c)), "a - (b - c)");
  expect_text(expr_mul(pool, a, expr_mul(pool, b, c)), "a * (b * c)");
  expect_text(expr_mul(pool, expr_call(pool, "f", a, b, c), c), "f(a, b, c) * c");
  expect_text(expr_sat_add(pool, expr_sat_mul(pool, a, b), expr_add(pool, b, c)),
              "pk_sat_add(pk_sat_mul(a, b), b + c)");
  expect_text(expr_max(pool, expr_min(pool, a, b), expr_round_up(pool, c, 16)),
              "pk_idx_max(pk_idx_min(a, b), pk_round_up(c, 16))");
  expect_text(expr_floor_div(pool, a, expr_ceil_div(pool, b, c)),
              "pk_idx_floordiv(a, pk_cdiv(b, c))");
  expect_text(expr_add(pool, a, expr_choose(pool, a, b, c)), "a + (a ? b : c)");
  const Expr *inner = expr_choose(pool, b, c, a);
  expect_text(expr_choose(pool, inner, inner, inner), "b ? c : a");
  expect_text(expr_choose(pool, inner, a, inner), "(b ? c : a) ? a : b ? c : a");
  const Expr *less = expr_operator(pool, EXPR_LT, expr_add(pool, a, b), c),
             *same = expr_operator(pool, EXPR_EQ, b, c), *both = expr_and(pool, less, same);
  expect_text(both, "a + b < c && b == c");
  expect_text(expr_and(pool, both, same), "a + b < c && b == c && b == c");
  expect_text(expr_or(pool, both, same), "(a + b < c && b == c) || b == c");
  expect_text(expr_or(pool, same, both), "b == c || (a + b < c && b == c)");
  expect_text(expr_not(pool, both), "!(a + b < c && b == c)");
  expect_text(expr_not(pool, expr_not(pool, a)), "!!a");
  expect_text(expr_operator(pool, EXPR_EQ, less, c), "(a + b < c) == c");
  expect_text(expr_operator(pool, EXPR_EQ, c, less), "c == (a + b < c)");
  expect_text(expr_choose(pool, both, a, both), "a + b < c && b == c ? a : a + b < c && b == c");
  expect_text(expr_cast(pool, DT_I64, expr_add(pool, a, b)), "(int64_t)(a + b)");
  expect_text(expr_add(pool, expr_cast(pool, DT_I64, a), b), "(int64_t)a + b");
  const Expr *quotient = expr_operator(pool, EXPR_DIV, a, b);
  expect_text(expr_operator(pool, EXPR_REM, quotient, c), "a / b % c");
  expect_text(expr_operator(pool, EXPR_REM, c, quotient), "c % (a / b)");
}

static void expect_plain(const Expr *e, const char *expected) {
  const char *got = expr_plain(e);
  check(strcmp(got, expected) == 0, expected, "is written %s", got);
}

static void test_plain(ExprPool *pool) {
  const Expr *a = expr_symbol(pool, "a"), *b = expr_symbol(pool, "b"), *c = expr_symbol(pool, "c");
  const Expr *product = expr_sat_mul(pool, a, expr_sat_mul(pool, b, expr_round_up(pool, c, 16)));
  expect_plain(product, "a * b * round_up(c, 16)");
  expect_text(product, "pk_sat_mul(a, pk_sat_mul(b, pk_round_up(c, 16)))");
  expect_plain(expr_sat_mul(pool, expr_sat_add(pool, a, b), c), "(a + b) * c");
  expect_plain(expr_max(pool, a, expr_sat_add(pool, b, c)), "max(a, b + c)");
}

// Both notations of quantities that have no operator.
static void test_words(ExprPool *pool) {
  const Expr *a = expr_symbol(pool, "a"), *b = expr_symbol(pool, "b"), *one = expr_const(pool, 1);
  const struct {
    const Expr *e;
    const char *c, *plain;
  } cases[] = {
      {expr_function(pool, FN_BATCH_FIRST, (const Expr *[EXPR_ARGS]){a, b, one, a}),
       "pk_batch_first(a, b, 1, a)", "batch_first(a, b, 1, a)"},
      {expr_stride(pool, 2, expr_choose(pool, a, one, b)), "call->array[2].stride[a ? 1 : b]",
       "stride(operand 2, a ? 1 : b)"},
      {expr_dim(pool, 0, 1), "array[0].dim[1]", "extent(operand 0, 1)"},
      {expr_narrow(pool, DT_I8, a), "pks_wrap_i8(a)", "i8(a)"},
      {expr_narrow(pool, DT_BF16, a), "pks_round_bf16(a)", "bf16(a)"},
      {expr_narrow(pool, DT_I32, a), "a", "a"},
      {expr_cast(pool, DT_U8, expr_add(pool, a, b)), "(uint32_t)(a + b)", "(u8)(a + b)"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    expect_text(cases[i].e, cases[i].c);
    expect_plain(cases[i].e, cases[i].plain);
  }
  bool *read = expr_symbol(pool, "call")->read;
  EXPECT(*read);
  expr_forget_reads(pool);
  EXPECT(!*read);
  expect_text(expr_stride(pool, 2, one), "call->array[2].stride[1]");
  EXPECT(*read);
}

int main(void) {
  Arena *arena = arena_new();
  ExprPool pool = {.arena = arena};
  test_runtime(&pool);
  test_overflow(&pool);
  test_sharing(&pool);
  test_identities(&pool);
  test_constant_terms(&pool);
  test_text(&pool);
  test_plain(&pool);
  test_words(&pool);
  arena_free(arena);
  return check_end();
}
