// Bounds of integers: every result of operands within their bounds is within those of the result,
// and where few operands are tried, the bounds are no wider than needed.
#include "codegen/ir/facts.h"
#include "codegen/ir/scalar.h"
#include "check.h"

static const Op operations[] = {OP_NEG, OP_NOT, OP_ABS,      OP_SIGN, OP_ADD, OP_SUB,  OP_MUL,
                                OP_DIV, OP_REM, OP_FLOORDIV, OP_MOD,  OP_POW, OP_MAX,  OP_MIN,
                                OP_AND, OP_OR,  OP_XOR,      OP_SHL,  OP_SHR, OP_USHR, OP_EQ,
                                OP_NE,  OP_LT,  OP_LE,       OP_GT,   OP_GE,  OP_CAST};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static Instr operand_of(DType dtype, int rank) {
  Instr v = {.op = OP_CONST, .type = {.dtype = dtype, .rank = rank}};
  return v;
}

static bool is_inside(int64_t value, Interval a) { return value >= a.low && value <= a.high; }

// All pairs of values of two intervals.
static void test_pair(Instr *v, Interval a, Interval b) {
  Interval bounds = interval_apply(v, (Interval[]){a, b});
  DType from = v->args[0]->type.dtype;
  int64_t last = op_info[v->op].nargs == 1 ? b.low : b.high;
  for (int64_t x = a.low; x <= a.high; x++)
    for (int64_t y = b.low; y <= last; y++) {
      Scalar got = scalar_apply(v->op, v->type.dtype, from, (Scalar[]){{.i = x}, {.i = y}});
      check(is_inside(got.i, bounds), op_info[v->op].name,
            "%s %lld, %lld: %lld is not in [%lld, %lld]", dtype_info[from].name, (long long)x,
            (long long)y, (long long)got.i, (long long)bounds.low, (long long)bounds.high);
    }
}

static void test_dtype(DType dtype, DType to, int rank) {
  Interval all = interval_of(dtype);
  int64_t least = all.low < -6 ? -6 : all.low, most = all.high > 6 ? 6 : all.high;
  Instr x = operand_of(dtype, rank), *args[] = {&x, &x};
  for (int o = 0; o < OPERATIONS; o++) {
    Op op = operations[o];
    bool compares = op_info[op].class == OPC_COMPARE;
    Instr v = {.op = op,
               .type = {.dtype = compares        ? DT_BOOL
                                 : op == OP_CAST ? to
                                                 : dtype,
                        .rank = rank},
               .nargs = op_info[op].nargs,
               .args = args};
    for (int64_t a = least; a <= most; a++)
      for (int64_t b = a; b <= most; b++)
        for (int64_t c = least; c <= most; c++)
          for (int64_t d = c; d <= most; d++) test_pair(&v, (Interval){a, b}, (Interval){c, d});
  }
}

// Scalars of i64 are indices, which saturate: near the limits the bounds contain the exact values,
// saturated to i64.
static void test_saturation(void) {
  const int64_t most = INT64_MAX, least = INT64_MIN;
  const int64_t ends[] = {least, least + 1, least / 2, -3, -1, 0, 1, 7, most / 2, most - 1, most};
  enum { ENDS = sizeof ends / sizeof *ends };
  static const Op exact[] = {OP_ADD, OP_SUB, OP_MUL, OP_MAX, OP_MIN, OP_NEG};
  Instr x = operand_of(DT_I64, 0), *args[] = {&x, &x};
  for (int o = 0; o < 6; o++) {
    Instr v = {.op = exact[o], .type = x.type, .nargs = op_info[exact[o]].nargs, .args = args};
    for (int i = 0; i < ENDS * ENDS * ENDS * ENDS; i++) {
      Interval a = {ends[i % ENDS], ends[i / ENDS % ENDS]},
               b = {ends[i / ENDS / ENDS % ENDS], ends[i / ENDS / ENDS / ENDS]};
      if (a.low > a.high || b.low > b.high) continue;
      if (interval_is_point(a) && interval_is_point(b)) continue;  // computed as the runtime does
      Interval bounds = interval_apply(&v, (Interval[]){a, b});
      for (int k = 0; k < 4; k++) {
        __extension__ typedef __int128 Wide;
        const Wide p = k & 1 ? a.low : a.high, q = k & 2 ? b.low : b.high;
        Wide got = exact[o] == OP_ADD                ? p + q
                   : exact[o] == OP_SUB              ? p - q
                   : exact[o] == OP_NEG              ? -p
                   : exact[o] == OP_MUL              ? p * q
                   : (exact[o] == OP_MAX) == (p > q) ? p
                                                     : q;
        got = got > most ? most : got < least ? least : got;
        check(is_inside((int64_t)got, bounds), "saturation",
              "%s %lld, %lld: %lld is not in [%lld, %lld]", op_info[v.op].name, (long long)p,
              (long long)q, (long long)got, (long long)bounds.low, (long long)bounds.high);
      }
    }
  }
}

// Is an index known to lie on an axis?
static void test_axes(void) {
  Arena *arena = arena_new();
  Kernel k = {.arena = arena};
  Region *extents = NEW_ARRAY(arena, Region, 2), *map = NEW(arena, Region);
  const Span span = {0};
  const int64_t huge = INT64_MAX - 1;
  LIST_PUSH(arena, &k.sizes, ((Size){.name = "N"}));
  LIST_PUSH(arena, &k.sizes, ((Size){.name = "M"}));
  Instr *n = ir_const_int(&k, &extents[0], DT_I64, 4, span), *size, *v[2];
  ir_append(&k, &extents[0], ir_new(&k, OP_YIELD, type_scalar(DT_I64), span, 1, &n));
  size = ir_append(&k, &extents[1], ir_new(&k, OP_SIZE, type_scalar(DT_I64), span, 0, NULL));
  ir_append(&k, &extents[1], ir_new(&k, OP_YIELD, type_scalar(DT_I64), span, 1, &size));
  for (int i = 0; i < 2; i++) {
    LIST_PUSH(arena, &k.grid, ((GridAxis){.extent = &extents[i]}));
    v[i] = ir_append(&k, map, ir_new(&k, OP_AXIS, type_scalar(DT_I64), span, 0, NULL));
    v[i]->ival = i;
  }
  EXPECT(is_on_axis(&k, v[0], 4) && is_on_axis(&k, v[0], 5) && !is_on_axis(&k, v[0], 3));
  EXPECT(is_on_axis(&k, v[1], dim_of_size(0)) && !is_on_axis(&k, v[1], dim_of_size(1)));
  EXPECT(!is_on_axis(&k, v[1], 1000) && !is_on_axis(&k, v[0], dim_of_size(0)));
  // An extent of 4 is that of a size whose value is 4, not of one whose value is N.
  LIST_PUSH(arena, &k.sizes, ((Size){.name = "S2", .value = &extents[0]}));
  LIST_PUSH(arena, &k.sizes, ((Size){.name = "S3", .value = &extents[1]}));
  EXPECT(is_on_axis(&k, v[0], dim_of_size(2)) && !is_on_axis(&k, v[0], dim_of_size(3)));
  Instr *one = ir_const_int(&k, map, DT_I64, 1, span), *next[] = {v[0], one};
  Instr *sum = ir_append(&k, map, ir_new(&k, OP_ADD, type_scalar(DT_I64), span, 2, next));
  EXPECT(is_on_axis(&k, sum, 5) && !is_on_axis(&k, sum, 4));
  Instr *far = ir_const_int(&k, map, DT_I64, huge, span), *over[] = {v[0], far};
  sum = ir_append(&k, map, ir_new(&k, OP_ADD, type_scalar(DT_I64), span, 2, over));
  EXPECT(!is_on_axis(&k, sum, INT32_MAX));
  // Shared operands: 2^40 paths.
  for (int i = 0; i < 40; i++) {
    Instr *twice[] = {sum, sum};
    sum = ir_append(&k, map, ir_new(&k, OP_ADD, type_scalar(DT_I64), span, 2, twice));
  }
  EXPECT(!is_on_axis(&k, sum, INT32_MAX) && !is_multiple(sum, 8, NULL));
  arena_free(arena);
}

// Ends at the limits of a dtype, where results wrap; of i64, arrays alone.
static void test_limits(DType dtype) {
  Interval all = {dtype_min(dtype), dtype_max(dtype)};
  const int64_t ends[] = {all.low, all.low + 1, -1, 0, 1, 2, all.high - 1, all.high};
  enum { ENDS = sizeof ends / sizeof *ends };
  Instr x = operand_of(dtype, 1), *args[] = {&x, &x};
  for (int o = 0; o < OPERATIONS; o++) {
    if (op_info[operations[o]].class == OPC_COMPARE || operations[o] == OP_CAST) continue;
    Instr v = {
        .op = operations[o], .type = x.type, .nargs = op_info[operations[o]].nargs, .args = args};
    for (int i = 0; i < ENDS * ENDS * ENDS * ENDS; i++) {
      Interval a = {ends[i % ENDS], ends[i / ENDS % ENDS]},
               b = {ends[i / ENDS / ENDS % ENDS], ends[i / ENDS / ENDS / ENDS]};
      if (a.low > a.high || b.low > b.high || a.low < all.low || b.low < all.low) continue;
      Interval bounds = interval_apply(&v, (Interval[]){a, b});
      for (int k = 0; k < 4; k++) {
        Scalar corner[2] = {{.i = k & 1 ? a.low : a.high}, {.i = k & 2 ? b.low : b.high}};
        int64_t got = scalar_apply(v.op, dtype, dtype, corner).i;
        check(is_inside(got, bounds), "limits", "%s %s %lld, %lld: %lld is not in [%lld, %lld]",
              dtype_info[dtype].name, op_info[v.op].name, (long long)corner[0].i,
              (long long)corner[1].i, (long long)got, (long long)bounds.low,
              (long long)bounds.high);
      }
    }
  }
}

static Interval of_index(Op op, Interval a, Interval b) {
  Instr x = operand_of(DT_I64, 0), *args[] = {&x, &x};
  Instr v = {.op = op, .type = x.type, .nargs = op_info[op].nargs, .args = args};
  return interval_apply(&v, (Interval[]){a, b});
}
static bool same(Interval a, int64_t low, int64_t high) { return a.low == low && a.high == high; }

// What indices need.
static void test_indices(void) {
  const Interval size = {0, INT32_MAX}, unknown = interval_of(DT_I64), some = {2, 9};
  EXPECT(same(of_index(OP_ADD, size, interval_point(7)), 7, (int64_t)INT32_MAX + 7));
  EXPECT(same(of_index(OP_FLOORDIV, size, interval_point(8)), 0, INT32_MAX / 8));
  EXPECT(same(of_index(OP_FLOORDIV, (Interval){-9, 9}, interval_point(2)), -5, 4));
  EXPECT(same(of_index(OP_DIV, (Interval){-9, 9}, interval_point(2)), -4, 4));
  EXPECT(same(of_index(OP_MOD, unknown, interval_point(8)), 0, 7));
  EXPECT(same(of_index(OP_REM, size, interval_point(8)), 0, 7));
  EXPECT(same(of_index(OP_MAX, unknown, interval_point(0)), 0, INT64_MAX));
  EXPECT(same(of_index(OP_ADD, (Interval){0, INT64_MAX}, some), 2, INT64_MAX));
  EXPECT(same(of_index(OP_MUL, (Interval){-3, 4}, some), -27, 36));
  EXPECT(same(of_index(OP_MUL, (Interval){0, INT64_MAX}, some), 0, INT64_MAX));
  EXPECT(same(of_index(OP_SUB, size, size), -(int64_t)INT32_MAX, INT32_MAX));
}

static void test_multiples(Arena *arena) {
  Kernel k = {.arena = arena};
  Region r = {0};
  const Span span = {0};
  Instr *axis = ir_add(&k, &r, OP_AXIS, type_scalar(DT_I64), span, 0);
  Instr *eight = ir_const_int(&k, &r, DT_I64, 8, span),
        *four = ir_const_int(&k, &r, DT_I64, 4, span);
  Instr *blocks = ir_add(&k, &r, OP_MUL, type_scalar(DT_I64), span, 2, axis, eight);
  Instr *moved = ir_add(&k, &r, OP_ADD, type_scalar(DT_I64), span, 2, blocks, four);
  EXPECT(is_multiple(blocks, 8, NULL) && is_multiple(blocks, 4, NULL) &&
         !is_multiple(blocks, 16, NULL));
  EXPECT(is_multiple(moved, 4, NULL) && !is_multiple(moved, 8, NULL));
  EXPECT(is_multiple(axis, 1, NULL) && !is_multiple(axis, 2, NULL));
}

int main(void) {
  Arena *arena = arena_new();
  test_dtype(DT_I32, DT_U4, 1);
  test_dtype(DT_U4, DT_I4, 1);
  test_dtype(DT_I64, DT_I32, 0);
  test_limits(DT_I8);
  test_limits(DT_U32);
  test_limits(DT_I32);
  test_limits(DT_I64);
  test_indices();
  test_multiples(arena);
  test_saturation();
  test_axes();
  arena_free(arena);
  return check_end();
}
